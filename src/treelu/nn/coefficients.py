"""The coefficient form of a locally constant network: M coefficients per neuron instead of D gradient values.

Each gradient ∇ₓa_i of the paper's dynamic programme (§3.7) is a combination of the same M weight vectors, so

    z_i = w_i·x + Σ_{k<i} u_ik a_k + b_i        a_i = σ(z_i)        o_i = σ'(z_i)
    C_i = o_i (e_i + Σ_{k<i} u_ik C_k)          J = C Wᵀ            c_i = a_i − J_i·x = a_i − C_i·s

with s_i = w_i·x. The Jacobian J (batch × M × D) is never built. Shapes: B rows, D features, M neurons. What stands here
serves leaves, whose derivatives o are given; `treelu.nn.cpu` carries out the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def path_coefficients(o: NDArray[Any], connection: NDArray[Any]) -> NDArray[Any]:
    """C_i = o_i (e_i + Σ_{k<i} u_ik C_k).

    `o` is (B, M), `connection` (M, M). Returns C (B, M, M), lower triangular.

    Examples
    --------
    >>> path_coefficients(np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[0.0, 0.0], [3.0, 0.0]]))
    array([[[1., 0.],
            [3., 1.]],
    <BLANKLINE>
           [[0., 0.],
            [0., 1.]]])
    """
    batch, depth = o.shape
    rows = np.zeros((depth, depth, batch), o.dtype)  # [i, j, row]: the rows of the batch in the last axis
    for i in range(depth):
        rows[i, i] = 1
        for k in range(i):  # not a BLAS product: one pattern has one value, whatever stands beside it
            rows[i, : k + 1] += connection[i, k] * rows[k, : k + 1]
        rows[i, : i + 1] *= o[:, i]
    return rows.transpose(2, 0, 1)


def path_offsets(coefficients: NDArray[Any], bias: NDArray[Any]) -> NDArray[Any]:
    """The offsets of a piece-wise linear network from its pattern alone: c = C b, as (B, M).

    Within a region a_i = o_i (s_i + b_i + Σ u_ik a_k), so a = C (s + b) and c = a − C s = C b.
    """
    offsets = np.zeros(coefficients.shape[:2], coefficients.dtype)
    for j in range(len(bias)):
        offsets += coefficients[:, :, j] * bias[j]
    return offsets
