"""Kernels of the coefficient form on CSR or dense rows: forward, backward, and activation patterns.

Each kernel works on the rows `first` … `last − 1` of a batch, holds no lock, and keeps the batch in the last axis, so
that inner loops run over rows and vectorise. For that `first` and `last` have to be unsigned: Numba would look at each
row's number whether it is negative. The formulas stand in `treelu.nn.coefficients`, the masks are those of
`treelu.nn.drop_connect`, the arguments those of `treelu.nn.cpu.structs`. Weights come feature-major and padded to a
multiple of `LANES` columns: one non-zero feature touches one short vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treelu.nn.cpu.compile import fast_entry, fast_part, inline
from treelu.nn.cpu.lanes import sums_in_8, sums_in_16
from treelu.nn.drop_connect import FEATURE, MIX_1, MIX_2, ROW

LANES = 8
BLOCK = 64  # rows whose patterns are found together
_ROW, _FEATURE = np.uint32(ROW), np.uint32(FEATURE)
_MIX_1, _MIX_2 = np.uint32(MIX_1), np.uint32(MIX_2)


@fast_part
def _mix(x: Any) -> Any:
    x = np.uint32(x ^ (x >> np.uint32(16)))
    x = np.uint32(x * _MIX_1)
    x = np.uint32(x ^ (x >> np.uint32(15)))
    x = np.uint32(x * _MIX_2)
    return np.uint32(x ^ (x >> np.uint32(16)))


@fast_part
def _pair(key: Any, feature: Any) -> Any:
    return _mix(np.uint32(key + np.uint32(np.uint32(feature) * _FEATURE)))


@fast_part
def _kept(pair: Any, neuron: Any, threshold: Any) -> Any:
    return _mix(np.uint32(pair + neuron)) >= threshold


@inline
def _exponential(t: Any, like: Any) -> Any:
    """exp(−t) of t ≥ 0, to the last digit of 1, in plain arithmetic: unlike a call of exp it vectorises.

    A Taylor series of exp(−t/64) − 1 = q, and six times exp(−2x) − 1 = q (q + 2).
    """
    number = like.dtype.type
    one, two, t = number(1), number(2), (t if t < number(64) else number(64)) / number(64)
    series = one - t / number(6) * (one - t / number(7) * (one - t / number(8) * (one - t / number(9))))
    q = -t * (one - t / two * (one - t / number(3) * (one - t / number(4) * (one - t / number(5) * series))))
    q = q * (q + two)
    q = q * (q + two)
    q = q * (q + two)
    q = q * (q + two)
    q = q * (q + two)
    return q * (q + two) + one


@inline
def _logarithm(s: Any, like: Any) -> Any:
    """log(1 + s) of 0 ≤ s ≤ 1, likewise: 4 artanh u with u = (r − 1) / (r + 1) and r = √(1 + s)."""
    number = like.dtype.type
    root = np.sqrt(number(1) + s) + number(1)
    u = s / (root * root)
    v = u * u
    series = number(1 / 13) + v * (number(1 / 15) + v * (number(1 / 17) + v * (number(1 / 19) + v * number(1 / 21))))
    series = number(1 / 7) + v * (number(1 / 9) + v * (number(1 / 11) + v * series))
    return number(4) * u * (number(1) + v * (number(1 / 3) + v * (number(1 / 5) + v * series)))


@fast_part
def row_keys(mask: Any, first: Any, last: Any) -> None:
    """`DropConnect.row_keys`, into mask.keys."""
    for r in range(first, last):
        mask.keys[r] = _mix(np.uint32(_mix(np.uint32(np.uint32(np.uint32(r) * _ROW) + mask.low)) + mask.high))


@fast_part
def weighted_sums(values: Any, features: Any, weight: Any, begin: Any, end: Any, total: Any) -> None:
    """total = Σ values[e] · weight[d_e] over entries begin ≤ e < end; d_e is e − begin where there are no features."""
    columns = np.int64(weight.shape[1])
    pairs = columns - columns % (2 * LANES)
    for column in range(0, pairs, 2 * LANES):
        sums_in_16(values, features, weight, begin, end, column, total)
    if pairs < columns:
        sums_in_8(values, features, weight, begin, end, pairs, total)


@inline
def _sums_of_row(entries: Any, row: Any, weight: Any, total: Any) -> None:
    """total = Wᵀx of one row."""
    if entries.width:
        weighted_sums(entries.values, None, weight, row * entries.width, (row + 1) * entries.width, total)
    else:
        begin, end = np.int64(entries.starts[row]), np.int64(entries.starts[row + 1])
        weighted_sums(entries.values, entries.features, weight, begin, end, total)


@fast_part
def _project(entries: Any, mask: Any, neurons: Any, state: Any, first: Any, last: Any) -> None:
    """s[i, r] = w_i·x_r, and in z the same with the surviving weights."""
    weight, width, threshold = neurons.weight, entries.width, mask.threshold
    padded, depth, zero = weight.shape[1], state.z.shape[0], weight.dtype.type(0)
    total, kept = state.sums[0], state.sums[1]
    for r in range(first, last):
        row = entries.index[r]
        if threshold == 0:
            _sums_of_row(entries, row, weight, total)
        else:
            for i in range(padded):
                total[i] = zero
                kept[i] = zero
            begin = row * width if width else entries.starts[row]
            end = begin + width if width else entries.starts[row + 1]
            for entry in range(begin, end):
                x = weight.dtype.type(entries.values[entry])
                if x == 0:
                    continue
                d = np.int64(entry - begin) if width else np.int64(entries.features[entry])
                pair = _pair(mask.keys[r], d)
                for i in range(padded):
                    term = x * weight[d, i]
                    total[i] += term
                    kept[i] += term if _kept(pair, mask.counters[i], threshold) else zero
        for i in range(state.s.shape[0]):
            state.s[i, r] = total[i]
        for i in range(depth):
            state.z[i, r] = mask.scale * kept[i] if threshold else total[i]


@fast_part
def _project_backward(entries: Any, mask: Any, state: Any, grad: Any, first: Any, last: Any) -> None:
    """grad.weight[d, i] += x_d (grad.s + mask · grad.z)."""
    width, threshold = entries.width, mask.threshold
    padded, depth, zero = grad.weight.shape[1], grad.z.shape[0], grad.weight.dtype.type(0)
    total, kept = state.sums[0], state.sums[1]
    for i in range(padded):
        total[i] = zero
        kept[i] = zero
    for r in range(first, last):
        for i in range(grad.s.shape[0]):
            total[i] = grad.s[i, r]
        for i in range(depth):
            if threshold:
                kept[i] = mask.scale * grad.z[i, r]
            else:
                total[i] += grad.z[i, r]
        row = entries.index[r]
        begin = row * width if width else entries.starts[row]
        end = begin + width if width else entries.starts[row + 1]
        for entry in range(begin, end):
            x = grad.weight.dtype.type(entries.values[entry])
            if x == 0:
                continue
            d = np.int64(entry - begin) if width else np.int64(entries.features[entry])
            if threshold:
                pair = _pair(mask.keys[r], d)
                for i in range(padded):
                    dropped = kept[i] if _kept(pair, mask.counters[i], threshold) else zero
                    grad.weight[d, i] += x * (total[i] + dropped)
            else:
                for i in range(padded):
                    grad.weight[d, i] += x * total[i]


@fast_part
def _activate(mask: Any, neurons: Any, state: Any, first: Any, last: Any) -> None:
    """Turn projections z into pre-activations in place; fill a, o, the curvature and the connections' masks."""
    z, a, kept, threshold = state.z, state.a, state.kept, mask.threshold
    annealing, slope, bend = neurons.annealing, neurons.slope, neurons.bend
    n_features = neurons.weight.shape[0]
    one, zero = z.dtype.type(1), z.dtype.type(0)
    for i in range(z.shape[0]):
        for k in range(i):
            u = neurons.connection[i, k]
            if threshold:
                for r in range(first, last):
                    survives = _kept(_pair(mask.keys[r], n_features + k), mask.counters[i], threshold)
                    kept[i, k, r] = mask.scale if survives else zero
            for r in range(first, last):
                z[i, r] += u * kept[i, k, r] * a[k, r]
        for r in range(first, last):
            z_r = z[i, r] + neurons.bias[i]
            z[i, r] = z_r
            step = one if z_r >= 0 else zero
            value, derivative, second = annealing * step * z_r, annealing * step, zero
            if annealing != 1 or bend != 0:
                small = _exponential(abs(z_r), z)
                sigmoid = (one if z_r >= 0 else small) / (one + small)
                if annealing != 1:
                    value += (one - annealing) * (step * z_r + _logarithm(small, z))
                    derivative += (one - annealing) * sigmoid
                second = (one - slope) * bend * sigmoid * (one - sigmoid)
            a[i, r] = slope * z_r + (one - slope) * value
            state.o[i, r] = slope + (one - slope) * derivative
            state.curvature[i, r] = second


@fast_part
def _activate_backward(neurons: Any, state: Any, grad: Any, first: Any, last: Any) -> None:
    """Fill grad.z; add to grad.connection and grad.bias. grad.a is used up."""
    zero = state.z.dtype.type(0)
    for i in range(state.z.shape[0] - 1, -1, -1):
        total = zero
        for r in range(first, last):
            grad_z = grad.a[i, r] * state.o[i, r] + grad.o[i, r] * state.curvature[i, r]
            grad.z[i, r] = grad_z
            total += grad_z
        grad.bias[i] += total
        for k in range(i):
            u = neurons.connection[i, k]
            total = zero
            for r in range(first, last):
                kept = state.kept[i, k, r] * grad.z[i, r]
                total += kept * state.a[k, r]
                grad.a[k, r] += kept * u
            grad.connection[i, k] += total


@fast_part
def _unroll(neurons: Any, state: Any, paths: Any, first: Any, last: Any) -> None:
    """T_i = e_i + Σ u_ik C_k, C_i = o_i T_i, c_i = a_i − C_i·s."""
    t, c, offsets = paths.paths, paths.coefficients, paths.offsets
    one, zero = state.o.dtype.type(1), state.o.dtype.type(0)
    for i in range(state.o.shape[0]):
        for j in range(i):
            for r in range(first, last):
                t[i, j, r] = zero
        for r in range(first, last):
            t[i, i, r] = one
            offsets[i, r] = state.a[i, r]
        for k in range(i):
            u = neurons.connection[i, k]
            for j in range(k + 1):
                for r in range(first, last):
                    t[i, j, r] += u * c[k, j, r]
        for j in range(i + 1):
            for r in range(first, last):
                c[i, j, r] = state.o[i, r] * t[i, j, r]
                offsets[i, r] -= c[i, j, r] * state.s[j, r]


@fast_part
def _unroll_backward(
    neurons: Any, state: Any, paths: Any, grad_c: Any, grad_offsets: Any, grad: Any, first: Any, last: Any
) -> None:
    """Add to grad.o, grad.s and grad.connection. `grad_c` (M, M, B) is used up."""
    t, c = paths.paths, paths.coefficients
    for i in range(state.o.shape[0] - 1, -1, -1):
        for j in range(i + 1):
            for r in range(first, last):
                grad_ij = grad_c[i, j, r] - grad_offsets[i, r] * state.s[j, r]
                grad.s[j, r] -= grad_offsets[i, r] * c[i, j, r]
                grad.o[i, r] += grad_ij * t[i, j, r]
                grad_c[i, j, r] = grad_ij * state.o[i, r]  # now the gradient of T
        for k in range(i):
            u = neurons.connection[i, k]
            total = state.o.dtype.type(0)
            for j in range(k + 1):
                for r in range(first, last):
                    grad_t = grad_c[i, j, r]
                    grad_c[k, j, r] += u * grad_t
                    total += grad_t * c[k, j, r]
            grad.connection[i, k] += total


@fast_part
def _first_layer(layer: Any, paths: Any, out: Any, first: Any, last: Any) -> None:
    """out_h = β_h + Σ_ij G_hij C_ij + Σ_i v_hi c_i, (H, B)."""
    c, offsets = paths.coefficients, paths.offsets
    for h in range(out.shape[0]):
        for r in range(first, last):
            out[h, r] = layer.bias[h]
        for i in range(c.shape[0]):
            for r in range(first, last):
                out[h, r] += layer.offset[h, i] * offsets[i, r]
            for j in range(i + 1):
                g = layer.gram[h, i, j]
                for r in range(first, last):
                    out[h, r] += g * c[i, j, r]


@fast_part
def _first_layer_backward(
    layer: Any, paths: Any, grad_out: Any, grad_paths: Any, grad_layer: Any, first: Any, last: Any
) -> None:
    """Fill grad_paths; add to grad_layer."""
    c, offsets = paths.coefficients, paths.offsets
    zero = c.dtype.type(0)
    grad_c, grad_offsets = grad_paths.coefficients, grad_paths.offsets
    for i in range(c.shape[0]):
        for r in range(first, last):
            grad_offsets[i, r] = zero
        for j in range(i + 1):
            for r in range(first, last):
                grad_c[i, j, r] = zero
    for h in range(grad_out.shape[0]):
        total = zero
        for r in range(first, last):
            total += grad_out[h, r]
        grad_layer.bias[h] += total
        for i in range(c.shape[0]):
            v, total = layer.offset[h, i], zero
            for r in range(first, last):
                grad_offsets[i, r] += v * grad_out[h, r]
                total += offsets[i, r] * grad_out[h, r]
            grad_layer.offset[h, i] += total
            for j in range(i + 1):
                g, total = layer.gram[h, i, j], zero
                for r in range(first, last):
                    grad_c[i, j, r] += g * grad_out[h, r]
                    total += c[i, j, r] * grad_out[h, r]
                grad_layer.gram[h, i, j] += total


@inline
def neurons_forward(entries: Any, mask: Any, neurons: Any, state: Any, first: Any, last: Any) -> None:
    """Run the neurons on the rows; fill `state`."""
    if mask.threshold:
        row_keys(mask, first, last)
    _project(entries, mask, neurons, state, first, last)
    _activate(mask, neurons, state, first, last)


@inline
def neurons_backward(entries: Any, mask: Any, neurons: Any, state: Any, grad: Any, first: Any, last: Any) -> None:
    """From grad.s, grad.a and grad.o to the parameters."""
    _activate_backward(neurons, state, grad, first, last)
    _project_backward(entries, mask, state, grad, first, last)


@inline
def paths_forward(entries: Any, mask: Any, neurons: Any, state: Any, paths: Any, first: Any, last: Any) -> None:
    """Rows → neurons → coefficients; fills `state` and `paths`."""
    neurons_forward(entries, mask, neurons, state, first, last)
    _unroll(neurons, state, paths, first, last)


@inline
def paths_backward(
    entries: Any, mask: Any, neurons: Any, state: Any, paths: Any, grad_paths: Any, grad: Any, first: Any, last: Any
) -> None:
    """From the gradients of coefficients and offsets to the parameters in `grad`; `grad_paths` is used up."""
    for i in range(state.z.shape[0]):
        for r in range(first, last):
            grad.a[i, r] = grad_paths.offsets[i, r]
            grad.o[i, r] = 0
            grad.s[i, r] = 0
    _unroll_backward(neurons, state, paths, grad_paths.coefficients, grad_paths.offsets, grad, first, last)
    neurons_backward(entries, mask, neurons, state, grad, first, last)


@inline
def constant_forward(
    entries: Any, mask: Any, neurons: Any, state: Any, layer: Any, paths: Any, out: Any, first: Any, last: Any
) -> None:
    """Rows → neurons → coefficients → first layer of g_φ; fills `state`, `paths` and `out`."""
    paths_forward(entries, mask, neurons, state, paths, first, last)
    _first_layer(layer, paths, out, first, last)


@inline
def constant_backward(
    entries: Any,
    mask: Any,
    neurons: Any,
    state: Any,
    layer: Any,
    paths: Any,
    grad_out: Any,
    grad_paths: Any,
    grad_layer: Any,
    grad: Any,
    first: Any,
    last: Any,
) -> None:
    """From the gradient of the outputs (H, B) to grad_layer and the parameters in `grad`."""
    _first_layer_backward(layer, paths, grad_out, grad_paths, grad_layer, first, last)
    paths_backward(entries, mask, neurons, state, paths, grad_paths, grad, first, last)


@fast_entry
def patterns(entries: Any, neurons: Any, total: Any, z: Any, codes: Any, first: Any, last: Any) -> None:
    """Activation patterns (Eq. 3) of a piece-wise linear network, packed: bit i % 63 of codes[r, i // 63] is o_i.

    `total` (padded,) and `z` (M, BLOCK) are room for the pre-activations of some rows.
    """
    weight, depth = neurons.weight, neurons.bias.shape[0]
    for start in range(first, last, np.uint64(BLOCK)):
        count = last - start if last - start < np.uint64(BLOCK) else np.uint64(BLOCK)
        for r in range(count):
            _sums_of_row(entries, entries.index[start + r], weight, total)
            for i in range(depth):
                z[i, r] = total[i] + neurons.bias[i]
        for i in range(depth):
            for k in range(i):
                u = neurons.connection[i, k]
                for r in range(count):
                    z[i, r] += u * z[k, r]
            for r in range(count):
                active = z[i, r] >= 0
                codes[start + r, i // 63] |= np.int64(active) << np.int64(i % 63)
                z[i, r] = z[i, r] if active else neurons.slope * z[i, r]  # from here on the activation a_i
