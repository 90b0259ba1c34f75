"""The paper's algorithm as one would first write it well: the yardstick of the speed benchmark.

The dynamic programme of §3.7 in batched torch operations, with the materialised Jacobian (batch × M × D), dense
per-sample DropConnect masks on the pre-activations, dense rows, torch's own autograd, SGD and threads.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class StraightforwardNetwork(nn.Module):
    """A locally constant network (LCN) with a linear g_φ."""

    def __init__(self, in_features: int, depth: int, drop_connect: float) -> None:
        super().__init__()
        self.depth, self.drop_connect = depth, drop_connect
        self.weight = nn.Parameter(torch.empty(depth, in_features))
        self.connection = nn.Parameter(torch.empty(depth, depth))
        self.bias = nn.Parameter(torch.empty(depth))
        self.head = nn.Linear(depth * (in_features + 1), 1)
        for parameter in (self.weight, self.connection, self.bias):
            nn.init.uniform_(parameter, -(in_features**-0.5), in_features**-0.5)

    def forward(self, x: Tensor, annealing: float) -> Tensor:
        """Raw scores (B, 1)."""
        batch = len(x)
        if self.training and self.drop_connect > 0:
            kept = F.dropout(self.weight.expand(batch, -1, -1), self.drop_connect)  # (B, M, D)
            s = torch.bmm(kept, x[:, :, None])[:, :, 0]
            u = F.dropout(self.connection.expand(batch, -1, -1), self.drop_connect)
        else:
            s, u = x @ self.weight.T, self.connection.expand(batch, -1, -1)
        activations: list[Tensor] = []
        gradients: list[Tensor] = []
        for i in range(self.depth):
            z, gradient = s[:, i] + self.bias[i], self.weight[i].expand(batch, -1)
            if i > 0:
                z = z + (u[:, i, :i] * torch.stack(activations, dim=1)).sum(dim=1)
                gradient = gradient + torch.einsum("k,bkd->bd", self.connection[i, :i], torch.stack(gradients, dim=1))
            activations.append(annealing * torch.relu(z) + (1 - annealing) * F.softplus(z))
            o = annealing * (z >= 0) + (1 - annealing) * torch.sigmoid(z)
            gradients.append(o[:, None] * gradient)
        jacobian = torch.stack(gradients, dim=1)  # (B, M, D)
        offsets = torch.stack(activations, dim=1) - torch.bmm(jacobian, x[:, :, None])[:, :, 0]
        return self.head(torch.cat([jacobian.flatten(1), offsets], dim=1))
