"""The coefficient form of a locally constant network: M coefficients per neuron instead of D gradient values.

Each gradient ∇ₓa_i of the paper's dynamic programme (§3.7) is a combination of the same M weight vectors, so

    z_i = w_i·x + Σ_{k<i} u_ik a_k + b_i        a_i = σ(z_i)        o_i = σ'(z_i)
    C_i = o_i (e_i + Σ_{k<i} u_ik C_k)          J = C Wᵀ            c_i = a_i − J_i·x = a_i − C_i·s

with s_i = w_i·x. The Jacobian J (batch × M × D) is never built. Shapes: B rows, D features, M neurons.
"""

from __future__ import annotations

import torch
from torch import Tensor

from treelu.nn.activations import Activation
from treelu.nn.drop_connect import DropConnect
from treelu.nn.rows import Rows


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
    keys = drop.row_keys(x.shape[0], weight.device)
    mask = drop.mask(keys[row], feature, weight.shape[1], weight.dtype)
    return s, blank.index_add(0, row, terms * mask)


def _entries(x: Tensor | Rows, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Row, feature and value of the entries that matter, on the device of `like`."""
    if isinstance(x, Rows):
        row, feature, value = x.nonzeros()
        return row.to(like.device), feature.to(like.device), value.to(like.device, like.dtype)
    # a zero entry matters where x itself is differentiated
    kept = torch.ones_like(x, dtype=torch.bool) if x.requires_grad else x != 0
    row, feature = kept.nonzero(as_tuple=True)
    return row, feature, x[row, feature]


def activate(
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
        a_i, o_i = activation(z_i, annealing)
        z.append(z_i)
        a.append(a_i)
        o.append(o_i)
    return torch.stack(z, dim=1), torch.stack(a, dim=1), torch.stack(o, dim=1)


def path_coefficients(o: Tensor, connection: Tensor) -> Tensor:
    """C_i = o_i (e_i + Σ_{k<i} u_ik C_k).

    `o` is (B, M), `connection` (M, M) or one per row (B, M, M). Returns C (B, M, M), lower triangular.
    """
    batch, depth = o.shape
    unit = torch.eye(depth, dtype=o.dtype, device=o.device)
    rows: list[Tensor] = []
    for i in range(depth):
        path = unit[i].expand(batch, depth)
        if i > 0:
            before = connection[..., i : i + 1, :i] @ torch.stack(rows, dim=1)  # (B, 1, M)
            path = path + before[:, 0]
        rows.append(o[:, i : i + 1] * path)
    return torch.stack(rows, dim=1)


def path_offsets(coefficients: Tensor, bias: Tensor) -> Tensor:
    """The offsets of a piece-wise linear network from its pattern alone: c = C b, as (B, M).

    Within a region a_i = o_i (s_i + b_i + Σ u_ik a_k), so a = C (s + b) and c = a − C s = C b.
    """
    return coefficients @ bias
