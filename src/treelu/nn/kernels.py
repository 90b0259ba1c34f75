"""Numba kernels of the coefficient form on CSR or dense rows: forward, backward, and activation patterns.

Each kernel works on the rows `first` … `last − 1` of a batch, holds no lock, and keeps the batch in the last axis, so
that inner loops run over rows and vectorise. The formulas stand in `treelu.nn.coefficients`; the masks are those of
`treelu.nn.drop_connect`. Weights come feature-major and padded to a multiple of `LANES` columns: one non-zero
feature touches one short vector.

Rows: `values`, `features`, `starts` of a `Table`; `width` is 0 for CSR, D for a dense table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from treelu.nn.drop_connect import FEATURE, MIX_1, MIX_2, NEURON, ROW

LANES = 8
_ROW, _FEATURE, _NEURON = np.uint32(ROW), np.uint32(FEATURE), np.uint32(NEURON)
_MIX_1, _MIX_2 = np.uint32(MIX_1), np.uint32(MIX_2)
# sums may be reordered and contracted, NaN and infinity keep their meaning
_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz", "arcp"})
_inline = njit(cache=True, nogil=True, inline="always")


@_inline
def _mix(x: Any) -> Any:
    x = np.uint32(x ^ (x >> np.uint32(16)))
    x = np.uint32(x * _MIX_1)
    x = np.uint32(x ^ (x >> np.uint32(15)))
    x = np.uint32(x * _MIX_2)
    return np.uint32(x ^ (x >> np.uint32(16)))


@_inline
def _pair(key: Any, feature: Any) -> Any:
    return _mix(np.uint32(key + np.uint32(np.uint32(feature) * _FEATURE)))


@_inline
def _kept(pair: Any, neuron: Any, threshold: Any) -> Any:
    return _mix(np.uint32(pair + neuron)) >= threshold


@_kernel
def row_keys(count: int, low: Any, high: Any) -> Any:
    """`DropConnect.row_keys` from the two words of its key."""
    keys = np.empty(count, np.uint32)
    for r in range(count):
        keys[r] = _mix(np.uint32(_mix(np.uint32(np.uint32(np.uint32(r) * _ROW) + low)) + high))
    return keys


@_kernel
def _neurons(count: int) -> Any:
    """The counters of the neurons, as `_kept` takes them."""
    counters = np.empty(count, np.uint32)
    for i in range(count):
        counters[i] = np.uint32(np.uint32(i + 1) * _NEURON)
    return counters


@_kernel
def project(
    values: Any,
    features: Any,
    starts: Any,
    width: int,
    index: Any,
    weight: Any,
    keys: Any,
    threshold: Any,
    scale: Any,
    s: Any,
    s_kept: Any,
    first: int,
    last: int,
) -> None:
    """s[i, r] = w_i·x_r, and s_kept the same with the surviving weights (untouched where threshold is 0)."""
    padded = weight.shape[1]
    total, kept, neurons = np.empty(padded, weight.dtype), np.empty(padded, weight.dtype), _neurons(padded)
    for r in range(first, last):
        total[:] = 0
        kept[:] = 0
        begin = index[r] * width if width else starts[index[r]]
        end = begin + width if width else starts[index[r] + 1]
        for entry in range(begin, end):
            x = values[entry]
            if x == 0:
                continue
            d = np.int64(entry - begin) if width else np.int64(features[entry])
            if threshold:
                pair = _pair(keys[r], d)
                for i in range(padded):
                    term = x * weight[d, i]
                    total[i] += term
                    kept[i] += term if _kept(pair, neurons[i], threshold) else weight.dtype.type(0)
            else:
                for i in range(padded):
                    total[i] += x * weight[d, i]
        for i in range(s.shape[0]):
            s[i, r] = total[i]
        if threshold:
            for i in range(s_kept.shape[0]):
                s_kept[i, r] = scale * kept[i]


@_kernel
def project_backward(
    values: Any,
    features: Any,
    starts: Any,
    width: int,
    index: Any,
    keys: Any,
    threshold: Any,
    scale: Any,
    grad_s: Any,
    grad_kept: Any,
    grad_weight: Any,
    first: int,
    last: int,
) -> None:
    """grad_weight[d, i] += x_d (grad_s + mask · grad_kept), (D, padded)."""
    padded = grad_weight.shape[1]
    total, kept = np.zeros(padded, grad_weight.dtype), np.zeros(padded, grad_weight.dtype)
    neurons = _neurons(padded)
    for r in range(first, last):
        for i in range(grad_s.shape[0]):
            total[i] = grad_s[i, r]
        for i in range(grad_kept.shape[0]):
            kept[i] = scale * grad_kept[i, r]
        if not threshold:
            total += kept
        begin = index[r] * width if width else starts[index[r]]
        end = begin + width if width else starts[index[r] + 1]
        for entry in range(begin, end):
            x = values[entry]
            if x == 0:
                continue
            d = np.int64(entry - begin) if width else np.int64(features[entry])
            if threshold:
                pair = _pair(keys[r], d)
                for i in range(padded):
                    dropped = kept[i] if _kept(pair, neurons[i], threshold) else grad_weight.dtype.type(0)
                    grad_weight[d, i] += x * (total[i] + dropped)
            else:
                for i in range(padded):
                    grad_weight[d, i] += x * total[i]


@_kernel
def activate(
    z: Any,
    connection: Any,
    bias: Any,
    annealing: Any,
    slope: Any,
    n_features: int,
    keys: Any,
    threshold: Any,
    scale: Any,
    a: Any,
    o: Any,
    curvature: Any,
    first: int,
    last: int,
) -> None:
    """Turn projections `z` (M, B) into pre-activations in place; fill a, o = σ'(z) and curvature = σ''(z)."""
    one, zero = z.dtype.type(1), z.dtype.type(0)
    neurons = _neurons(z.shape[0])
    for i in range(z.shape[0]):
        for k in range(i):
            u = connection[i, k]
            if threshold:
                for r in range(first, last):
                    mask = scale if _kept(_pair(keys[r], n_features + k), neurons[i], threshold) else zero
                    z[i, r] += u * mask * a[k, r]
            else:
                for r in range(first, last):
                    z[i, r] += u * a[k, r]
        for r in range(first, last):
            z_r = z[i, r] + bias[i]
            z[i, r] = z_r
            step = one if z_r >= 0 else zero
            value, derivative, second = annealing * step * z_r, annealing * step, zero
            if annealing != 1:
                # exp of a non-positive number only: no overflow
                small = np.exp(-abs(z_r))
                sigmoid = (one if z_r >= 0 else small) / (one + small)
                value += (one - annealing) * (max(z_r, zero) + np.log1p(small))
                derivative += (one - annealing) * sigmoid
                second = (one - slope) * (one - annealing) * sigmoid * (one - sigmoid)
            a[i, r] = slope * z_r + (one - slope) * value
            o[i, r] = slope + (one - slope) * derivative
            curvature[i, r] = second


@_kernel
def activate_backward(
    grad_a: Any,
    grad_o: Any,
    connection: Any,
    n_features: int,
    keys: Any,
    threshold: Any,
    scale: Any,
    a: Any,
    o: Any,
    curvature: Any,
    grad_z: Any,
    grad_connection: Any,
    grad_bias: Any,
    first: int,
    last: int,
) -> None:
    """Fill grad_z (M, B); add to grad_connection and grad_bias. `grad_a` is used up."""
    zero, neurons = grad_z.dtype.type(0), _neurons(grad_z.shape[0])
    for i in range(grad_z.shape[0] - 1, -1, -1):
        total = zero
        for r in range(first, last):
            grad = grad_a[i, r] * o[i, r] + grad_o[i, r] * curvature[i, r]
            grad_z[i, r] = grad
            total += grad
        grad_bias[i] += total
        for k in range(i):
            u = connection[i, k]
            total = zero
            if threshold:
                for r in range(first, last):
                    mask = scale if _kept(_pair(keys[r], n_features + k), neurons[i], threshold) else zero
                    grad = mask * grad_z[i, r]
                    total += grad * a[k, r]
                    grad_a[k, r] += grad * u
            else:
                for r in range(first, last):
                    total += grad_z[i, r] * a[k, r]
                    grad_a[k, r] += grad_z[i, r] * u
            grad_connection[i, k] += total


@_kernel
def unroll(
    o: Any,
    s: Any,
    a: Any,
    connection: Any,
    paths: Any,
    coefficients: Any,
    offsets: Any,
    first: int,
    last: int,
) -> None:
    """T_i = e_i + Σ u_ik C_k, C_i = o_i T_i, c_i = a_i − C_i·s; T and C are (M, M, B), zero at the start."""
    one = o.dtype.type(1)
    for i in range(o.shape[0]):
        for r in range(first, last):
            paths[i, i, r] = one
        for k in range(i):
            u = connection[i, k]
            for j in range(k + 1):
                for r in range(first, last):
                    paths[i, j, r] += u * coefficients[k, j, r]
        for r in range(first, last):
            offsets[i, r] = a[i, r]
        for j in range(i + 1):
            for r in range(first, last):
                c = o[i, r] * paths[i, j, r]
                coefficients[i, j, r] = c
                offsets[i, r] -= c * s[j, r]


@_kernel
def unroll_backward(
    grad_coefficients: Any,
    grad_offsets: Any,
    o: Any,
    s: Any,
    connection: Any,
    paths: Any,
    coefficients: Any,
    grad_o: Any,
    grad_s: Any,
    grad_connection: Any,
    first: int,
    last: int,
) -> None:
    """Fill grad_o, grad_s (M, B, zero at the start), add to grad_connection. `grad_coefficients` is used up."""
    zero = o.dtype.type(0)
    for i in range(o.shape[0] - 1, -1, -1):
        for j in range(i + 1):
            for r in range(first, last):
                grad_c = grad_coefficients[i, j, r] - grad_offsets[i, r] * s[j, r]
                grad_s[j, r] -= grad_offsets[i, r] * coefficients[i, j, r]
                grad_o[i, r] += grad_c * paths[i, j, r]
                grad_coefficients[i, j, r] = grad_c * o[i, r]  # now the gradient of T
        for k in range(i):
            u = connection[i, k]
            total = zero
            for j in range(k + 1):
                for r in range(first, last):
                    grad_t = grad_coefficients[i, j, r]
                    grad_coefficients[k, j, r] += u * grad_t
                    total += grad_t * coefficients[k, j, r]
            grad_connection[i, k] += total


@_kernel
def patterns(
    values: Any,
    features: Any,
    starts: Any,
    width: int,
    index: Any,
    weight: Any,
    connection: Any,
    bias: Any,
    slope: Any,
    codes: Any,
    first: int,
    last: int,
) -> None:
    """Activation patterns (Eq. 3) of a piece-wise linear network, packed: bit i of codes[r, i // 63] is o_i."""
    depth, padded = bias.shape[0], weight.shape[1]
    z = np.empty(padded, weight.dtype)
    for r in range(first, last):
        z[:] = 0
        begin = index[r] * width if width else starts[index[r]]
        end = begin + width if width else starts[index[r] + 1]
        for entry in range(begin, end):
            x = values[entry]
            d = np.int64(entry - begin) if width else np.int64(features[entry])
            for i in range(padded):
                z[i] += x * weight[d, i]
        for i in range(depth):
            z_i = z[i] + bias[i]
            for k in range(i):
                z_i += connection[i, k] * z[k]
            if z_i >= 0:
                codes[r, i // 63] |= np.int64(1) << np.int64(i % 63)
            else:
                z_i *= slope
            z[i] = z_i  # from here on the activation a_i
