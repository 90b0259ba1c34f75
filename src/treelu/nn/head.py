"""g_φ (§3.6): what turns the gradients of the neurons into the outputs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Head(nn.Module):
    """g_φ (§3.6): a fully connected network on the vectorised Jacobian and the offsets.

    Parameters
    ----------
    in_features, depth, out_features : int
        D, M and L.
    hidden_layers : sequence of int
        Widths of the hidden ReLU layers; none makes g_φ linear.

    **Shape**: `weight` (H, M, D), `offset_weight` (H, M), `bias` (H,), where H is the first width, or L.
    """

    def __init__(
        self,
        in_features: int,
        depth: int,
        out_features: int,
        hidden_layers: Sequence[int] = (),
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if any(width < 1 for width in hidden_layers):
            raise ValueError(f"hidden_layers must be widths of at least 1, got {tuple(hidden_layers)!r}")
        widths = [*hidden_layers, out_features]
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight = nn.Parameter(torch.empty(widths[0], depth, in_features, **place))
        self.offset_weight = nn.Parameter(torch.empty(widths[0], depth, **place))
        self.bias = nn.Parameter(torch.empty(widths[0], **place))
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(widths):
            layers += [nn.ReLU(), nn.Linear(before, after, **place)]
        self.hidden = nn.Sequential(*layers)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all uniformly within ±1/√fan_in; the first layer's fan_in is M(D + 1)."""
        with torch.no_grad():
            bound = 1 / math.sqrt(self.weight.shape[1] * (self.weight.shape[2] + 1))
            for parameter in (self.weight, self.offset_weight, self.bias):
                parameter.copy_(uniform(parameter.shape, generator) * bound)
            for layer in self.hidden:
                if isinstance(layer, nn.Linear):
                    bound = 1 / math.sqrt(layer.in_features)
                    layer.weight.copy_(uniform(layer.weight.shape, generator) * bound)
                    layer.bias.copy_(uniform(layer.bias.shape, generator) * bound)

    def forward(self, jacobian: Tensor, offsets: Tensor) -> Tensor:
        """g_φ on the materialised Jacobian (B, M, D) and the offsets (B, M)."""
        first = jacobian.flatten(1) @ self.weight.flatten(1).T + offsets @ self.offset_weight.T
        return self.hidden(first + self.bias)

    def on_coefficients(self, coefficients: Tensor, offsets: Tensor, weight: Tensor) -> Tensor:
        """The same from the coefficients C (B, M, M), through G_hij = V_hi·w_j.

        `weight` is (D, M), or (B, D, M) where each row has weights of its own.
        """
        if weight.dim() == 2:
            gram = self.weight @ weight  # (H, M, M)
            first = coefficients.flatten(1) @ gram.flatten(1).T
        else:
            gram = torch.einsum("hid,bdj->bhij", self.weight, weight)
            first = torch.einsum("bij,bhij->bh", coefficients, gram)
        return self.hidden(first + offsets @ self.offset_weight.T + self.bias)


def uniform(shape: torch.Size, generator: torch.Generator | None) -> Tensor:
    """Uniform in ±1, drawn on the CPU in float64 so that every device and dtype starts alike."""
    return torch.rand(shape, generator=generator, dtype=torch.float64) * 2 - 1
