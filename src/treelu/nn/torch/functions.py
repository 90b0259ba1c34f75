"""The coefficient form in torch, differentiable in everything: activations, masks, coefficients.

The formulas are those of `treelu.nn.activations`, `treelu.nn.drop_connect` and `treelu.nn.coefficients`.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from treelu.nn.activations import Activation
from treelu.nn.drop_connect import FEATURE, MIX_1, MIX_2, NEURON, ROW, WORD, DropConnect
from treelu.nn.rows import Rows


def activate(activation: Activation, z: Tensor, annealing: float | None = None) -> tuple[Tensor, Tensor]:
    """The activation a(z) and its derivative o(z), both differentiable in z."""
    lam = activation.default_annealing if annealing is None else annealing
    s = activation.negative_slope
    # not torch.relu, whose gradient at 0 is 0
    active = (z >= 0).to(z.dtype)
    value, derivative = lam * active * z, lam * active
    if activation.bend(lam):
        smooth = torch.sigmoid(z)
        derivative = derivative + (1 - lam) * smooth
        if activation.straight_through:
            derivative = derivative + lam * (smooth - smooth.detach())  # adds nothing but a gradient
    if lam != 1.0:
        value = value + (1 - lam) * F.softplus(z)
    return s * z + (1 - s) * value, s + (1 - s) * derivative


def row_keys(drop: DropConnect, n_rows: int, device: torch.device | str = "cpu") -> Tensor:
    """`DropConnect.row_keys` on a device, int64."""
    rows = torch.arange(n_rows, device=device)
    return _mix(_mix(rows * ROW + (drop.key & WORD)) + (drop.key >> 32 & WORD))


def mask(drop: DropConnect, keys: Tensor, features: Tensor, n_neurons: int, dtype: torch.dtype) -> Tensor:
    """`DropConnect.mask`: factors (..., n_neurons) for two tensors (...)."""
    pairs = _mix(keys + features * FEATURE)
    neurons = torch.arange(1, n_neurons + 1, device=keys.device) * NEURON
    return (_mix(pairs[..., None] + neurons) >= drop.threshold).to(dtype) * drop.scale


def _mix(x: Tensor) -> Tensor:
    """An integer hash of 32 bits in int64 arithmetic (products wrap, the low word stays right)."""
    x = x & WORD
    x = ((x ^ (x >> 16)) * MIX_1) & WORD
    x = ((x ^ (x >> 15)) * MIX_2) & WORD
    return x ^ (x >> 16)


def project(x: Tensor | Rows, weight: Tensor, drop: DropConnect | None) -> tuple[Tensor, Tensor]:
    """Return w_i·x with all weights and with the surviving ones: two tensors (B, M), the same without `drop`."""
    if isinstance(x, Tensor) and drop is None:
        s = x @ weight
        return s, s
    row, feature, value = _entries(x, weight)
    terms = value[:, None] * weight[feature]  # (entries, M)
    blank = weight.new_zeros(x.shape[0], weight.shape[1])
    s = blank.index_add(0, row, terms)
    if drop is None:
        return s, s
    keys = row_keys(drop, x.shape[0], weight.device)
    return s, blank.index_add(0, row, terms * mask(drop, keys[row], feature, weight.shape[1], weight.dtype))


def _entries(x: Tensor | Rows, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Row, feature and value of the entries that matter, on the device of `like`."""
    if isinstance(x, Rows):
        row, feature, value = (torch.from_numpy(array) for array in x.nonzeros())
        return row.to(like.device), feature.to(like.device), value.to(like.device, like.dtype)
    # a zero entry matters where x itself is differentiated
    kept = torch.ones_like(x, dtype=torch.bool) if x.requires_grad else x != 0
    row, feature = kept.nonzero(as_tuple=True)
    return row, feature, x[row, feature]


def run_neurons(
    projected: Tensor,
    connection: Tensor,
    bias: Tensor,
    activation: Activation,
    annealing: float | None = None,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run the chain of neurons (Eq. 1–3) on projections (B, M).

    `mask` (B, M, M) multiplies the connections u_ik. Returns z, a and o, each (B, M).
    """
    z: list[Tensor] = []
    a: list[Tensor] = []
    o: list[Tensor] = []
    for i in range(projected.shape[1]):
        z_i = projected[:, i] + bias[i]
        if i > 0:
            u_i = connection[i, :i] if mask is None else connection[i, :i] * mask[:, i, :i]
            z_i = z_i + (torch.stack(a, dim=1) * u_i).sum(dim=1)
        a_i, o_i = activate(activation, z_i, annealing)
        z.append(z_i)
        a.append(a_i)
        o.append(o_i)
    return torch.stack(z, dim=1), torch.stack(a, dim=1), torch.stack(o, dim=1)


def path_coefficients(o: Tensor, connection: Tensor) -> Tensor:
    """C_i = o_i (e_i + Σ_{k<i} u_ik C_k): (B, M, M), lower triangular, from o (B, M) and connections (M, M)."""
    batch, depth = o.shape
    unit = torch.eye(depth, dtype=o.dtype, device=o.device)
    rows: list[Tensor] = []
    for i in range(depth):
        path = unit[i].expand(batch, depth)
        if i > 0:
            before = connection[i : i + 1, :i] @ torch.stack(rows, dim=1)  # (B, 1, M)
            path = path + before[:, 0]
        rows.append(o[:, i : i + 1] * path)
    return torch.stack(rows, dim=1)
