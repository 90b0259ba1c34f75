"""Two slower, independent forms of the Jacobian in torch, for tests and for the benchmark of the paper's claim.

Both return the Jacobian J (B, M, D) of all neurons with respect to the input and the offsets c (B, M), and agree
with the coefficient form to rounding in value and in every parameter's gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

from treelu.nn import Activation, DropConnect
from treelu.nn.torch.functions import activate, run_neurons


def dynamic_programme(
    x: Tensor,
    weight: Tensor,
    connection: Tensor,
    bias: Tensor,
    activation: Activation,
    annealing: float | None = None,
    drop: DropConnect | None = None,
) -> tuple[Tensor, Tensor]:
    """The paper's dynamic programme (§3.7) with the materialised Jacobian, Θ(M²·D) a row.

        ∇ₓa_i = o_i (w_i + Σ_{k<i} u_ik ∇ₓa_k)

    Examples
    --------
    >>> x, weight = torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    >>> connection, bias = torch.tensor([[0.0, 0.0], [3.0, 0.0]]), torch.zeros(2)
    >>> dynamic_programme(x, weight, connection, bias, Activation("relu"))[0]
    tensor([[[1., 0.],
             [5., 1.]]])
    """
    batch, depth = len(x), len(bias)
    w, u = weight.T.expand(batch, depth, -1), connection.expand(batch, depth, depth)  # (B, M, D), (B, M, M)
    w_z, u_z = w, u
    if drop is not None:
        on_weight, on_connection = _dense_masks(drop, x, depth)
        w_z, u_z = w * on_weight.transpose(1, 2), u * on_connection
    activations: list[Tensor] = []
    gradients: list[Tensor] = []
    for i in range(depth):
        z, gradient = (w_z[:, i] * x).sum(dim=1) + bias[i], w[:, i]
        if i > 0:
            z = z + (u_z[:, i, :i] * torch.stack(activations, dim=1)).sum(dim=1)
            gradient = gradient + (u[:, i, :i, None] * torch.stack(gradients, dim=1)).sum(dim=1)
        a, o = activate(activation, z, annealing)
        activations.append(a)
        gradients.append(o[:, None] * gradient)
    jacobian = torch.stack(gradients, dim=1)  # (B, M, D)
    return jacobian, torch.stack(activations, dim=1) - (jacobian * x[:, None, :]).sum(dim=2)


def autograd_per_neuron(
    x: Tensor,
    weight: Tensor,
    connection: Tensor,
    bias: Tensor,
    activation: Activation,
    annealing: float | None = None,
    drop: DropConnect | None = None,
) -> tuple[Tensor, Tensor]:
    """Back-propagation from each neuron in turn, Θ(M³) a row; knows nothing of the recursions.

    Masks act on z only: the slopes o come from the masked network, and the network that is differentiated is the
    undropped one that has these slopes.

    Examples
    --------
    >>> x, weight = torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    >>> connection, bias = torch.tensor([[0.0, 0.0], [3.0, 0.0]]), torch.zeros(2)
    >>> autograd_per_neuron(x, weight, connection, bias, Activation("relu"))[0]
    tensor([[[1., 0.],
             [5., 1.]]])
    """
    inputs = x.detach().clone().requires_grad_()
    if drop is None:
        _, a, _ = run_neurons(inputs @ weight, connection, bias, activation, annealing)
        neurons = a
    else:
        on_weight, on_connection = _dense_masks(drop, x, len(bias))
        projected = torch.einsum("bd,bdm,dm->bm", x.detach(), on_weight, weight)
        _, a, o = run_neurons(projected, connection, bias, activation, annealing, on_connection)
        neurons = _with_slopes(inputs @ weight, connection, o)
    gradients = [torch.autograd.grad(neurons[:, i].sum(), inputs, create_graph=True)[0] for i in range(len(bias))]
    jacobian = torch.stack(gradients, dim=1)  # (B, M, D)
    return jacobian, a - (jacobian * x[:, None, :]).sum(dim=2)


def _dense_masks(drop: DropConnect, x: Tensor, depth: int) -> tuple[Tensor, Tensor]:
    """All masks of a batch: weights (B, D, M), connections (B, M, M)."""
    on_weight, on_connection = drop.dense_masks(*x.shape, depth)
    return torch.from_numpy(on_weight).to(x), torch.from_numpy(on_connection).to(x)


def _with_slopes(projected: Tensor, connection: Tensor, o: Tensor) -> Tensor:
    """The chain of linear neurons whose slopes are given."""
    neurons: list[Tensor] = []
    for i in range(projected.shape[1]):
        z = projected[:, i]
        if i > 0:
            z = z + torch.stack(neurons, dim=1) @ connection[i, :i]
        neurons.append(o[:, i] * z)
    return torch.stack(neurons, dim=1)
