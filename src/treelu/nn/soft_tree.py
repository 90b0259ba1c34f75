"""Numba kernels of a tree with soft routing: its loss, its gradient, and many AdamW updates in one call.

The tree has S questions, parents before children, and S + 1 leaves, numbered S … 2S. For a row x with a 1 behind it,

    z_s = w_s·x      g_s = sigmoid(β z_s)      reach(right) = g_s reach(s)      reach(left) = (1 − g_s) reach(s)
    output = Σ_leaf reach(leaf) v_leaf             (regression)
    chances = Σ_leaf reach(leaf) softmax(v_leaf)   (classes)

β rises while the tree is trained, until rows are routed almost as by a hard tree (right where z ≥ 0). Arrays are
float32; rows of a batch stand in the last axis, so that inner loops vectorise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treelu.nn.caching import njit

_F = np.float32
_LEAST = np.float32(1e-6)  # chances below are taken for this
_STEP, _SHIFT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)
_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz", "arcp"})
_inline = njit(cache=True, nogil=True, inline="always")


@_inline
def _exponential(t: Any) -> Any:
    """exp(−t) of t ≥ 0 in plain arithmetic, which vectorises: a series of exp(−t/64) − 1, squared six times."""
    t = min(t, _F(64)) / _F(64)
    q = -t * (_F(1) - t / _F(2) * (_F(1) - t / _F(3) * (_F(1) - t / _F(4) * (_F(1) - t / _F(5) * (_F(1) - t / _F(6))))))
    q = q * (q + _F(2))
    q = q * (q + _F(2))
    q = q * (q + _F(2))
    q = q * (q + _F(2))
    q = q * (q + _F(2))
    return q * (q + _F(2)) + _F(1)


@_kernel
def _go_down(z: Any, children: Any, sharpness: Any, gate: Any, reach: Any) -> None:
    """Gates of the questions and how far each row reaches each node, from z (S, rows)."""
    for r in range(z.shape[1]):
        reach[0, r] = _F(1)
    for s in range(z.shape[0]):
        left, right = children[s, 0], children[s, 1]
        for r in range(z.shape[1]):
            t = sharpness * z[s, r]
            e = _exponential(abs(t))
            p = _F(1) / (_F(1) + e)
            gate[s, r] = p if t >= 0 else e * p
            reach[right, r] = reach[s, r] * gate[s, r]
            reach[left, r] = reach[s, r] - reach[right, r]


@_kernel
def _come_up(gate: Any, reach: Any, children: Any, sharpness: Any, cost: Any, slope: Any) -> None:
    """∂loss/∂z (S, rows) from `cost` = ∂loss/∂reach of the leaves; fills the cost of the questions."""
    for s in range(gate.shape[0] - 1, -1, -1):
        left, right = children[s, 0], children[s, 1]
        for r in range(gate.shape[1]):
            gain = cost[right, r] - cost[left, r]
            cost[s, r] = cost[left, r] + gate[s, r] * gain
            slope[s, r] = sharpness * reach[s, r] * gate[s, r] * (_F(1) - gate[s, r]) * gain


@_kernel
def _leaf_outputs(values: Any, is_classifier: bool, outputs: Any) -> None:
    """Chances of the classes in each leaf, or its values as they are."""
    for leaf in range(values.shape[0]):
        total, most = _F(0), values[leaf, 0]
        for k in range(1, values.shape[1]):
            most = max(most, values[leaf, k])
        for k in range(values.shape[1]):
            outputs[leaf, k] = np.exp(values[leaf, k] - most) if is_classifier else values[leaf, k]
            total += outputs[leaf, k]
        if is_classifier:
            for k in range(values.shape[1]):
                outputs[leaf, k] /= total


@_kernel
def _compare(output: Any, target: Any, weight: Any, is_classifier: bool) -> Any:
    """The mean loss of a batch, and in place of the outputs (K, rows) its slopes by them."""
    loss, total = 0.0, _F(0)
    for r in range(output.shape[1]):
        total += weight[r]
    for k in range(output.shape[0]):
        for r in range(output.shape[1]):
            share = weight[r] / total
            if is_classifier:
                chance = max(output[k, r], _LEAST)
                if target[r, k] > 0:
                    loss -= share * target[r, k] * np.log(chance)
                output[k, r] = -share * target[r, k] / chance
            else:
                gap = output[k, r] - target[r, k]
                loss += _F(0.5) * share * gap * gap
                output[k, r] = share * gap
    return loss


@_kernel
def _loss_of_values(outputs: Any, is_classifier: bool, by_values: Any) -> None:
    """∂loss/∂values from ∂loss/∂outputs of the leaves, in place: through the softmax."""
    if not is_classifier:
        return
    for leaf in range(outputs.shape[0]):
        mean = _F(0)
        for k in range(outputs.shape[1]):
            mean += by_values[leaf, k] * outputs[leaf, k]
        for k in range(outputs.shape[1]):
            by_values[leaf, k] = outputs[leaf, k] * (by_values[leaf, k] - mean)


@_kernel
def loss_and_slopes(
    rows: Any,
    target: Any,
    weight: Any,
    children: Any,
    questions: Any,
    values: Any,
    sharpness: Any,
    is_classifier: bool,
    by_questions: Any,
    by_values: Any,
    scratch: Any,
) -> Any:
    """The loss of a batch, and its gradient by questions (S, D + 1) and leaf values (S + 1, K).

    `rows` is (B, D + 1) with ones in the last column, `scratch` comes from `make_scratch`.
    """
    z, gate, reach, cost, output, outputs = scratch
    n_splits = questions.shape[0]
    np.dot(questions, rows.T, z)
    _go_down(z, children, sharpness, gate, reach)
    _leaf_outputs(values, is_classifier, outputs)
    np.dot(outputs.T, reach[n_splits:], output)
    loss = _compare(output, target, weight, is_classifier)
    np.dot(outputs, output, cost[n_splits:])
    np.dot(reach[n_splits:], output.T, by_values)
    _loss_of_values(outputs, is_classifier, by_values)
    _come_up(gate, reach, children, sharpness, cost, z)
    np.dot(z, rows, by_questions)
    return loss


@_kernel
def make_scratch(n_splits: int, n_rows: int, n_outputs: int) -> Any:
    """Arrays that `loss_and_slopes` works in."""
    return (
        np.empty((n_splits, n_rows), _F),
        np.empty((n_splits, n_rows), _F),
        np.empty((2 * n_splits + 1, n_rows), _F),
        np.empty((2 * n_splits + 1, n_rows), _F),
        np.empty((n_outputs, n_rows), _F),
        np.empty((n_splits + 1, n_outputs), _F),
    )


@_kernel
def _adam(parameter: Any, slope: Any, mean: Any, square: Any, rate: Any, decay: Any, update: int) -> None:
    """One step of AdamW; the last column (the biases of questions) is not decayed."""
    first, second = _F(1 - 0.9**update), _F(1 - 0.999**update)
    last = parameter.shape[1] - 1
    for i in range(parameter.shape[0]):
        for j in range(parameter.shape[1]):
            mean[i, j] = _F(0.9) * mean[i, j] + _F(0.1) * slope[i, j]
            square[i, j] = _F(0.999) * square[i, j] + _F(0.001) * slope[i, j] * slope[i, j]
            kept = _F(1) if j == last else _F(1) - rate * decay
            step = rate * (mean[i, j] / first) / (np.sqrt(square[i, j] / second) + _F(1e-8))
            parameter[i, j] = kept * parameter[i, j] - step


@_kernel
def _shuffle(order: Any, state: Any) -> Any:
    for i in range(len(order) - 1, 0, -1):
        state = state * _STEP + _SHIFT
        j = np.int64((state >> np.uint64(33)) % np.uint64(i + 1))
        order[i], order[j] = order[j], order[i]
    return state


@_kernel
def _thin(questions: Any, drop: float, state: Any, kept: Any, thinned: Any) -> Any:
    """DropConnect: questions with each weight left out with chance `drop`, the others scaled up; biases stay."""
    limit, scale = np.uint64(drop * 2147483648.0), _F(1 / (1 - drop))
    last = questions.shape[1] - 1
    for s in range(questions.shape[0]):
        for d in range(questions.shape[1]):
            kept[s, d] = _F(1)
            if drop > 0 and d < last:
                state = state * _STEP + _SHIFT
                kept[s, d] = _F(0) if (state >> np.uint64(33)) < limit else scale
            thinned[s, d] = questions[s, d] * kept[s, d]
    return state


@_kernel
def _order(children: Any, questions: Any, signs: Any, values: Any, is_classifier: bool) -> None:
    """Clip leaf values so that questions with a signed feature have no leaf on the left above one on the right.

    The bound is half way between the means of the two sides' leaves; a leaf's value is its first, or for classes the
    second score less the first. `treelu.training.small.monotone` has the same in NumPy.
    """
    n_splits = questions.shape[0]
    total, count = np.zeros(2 * n_splits + 1, _F), np.ones(2 * n_splits + 1, _F)
    low, high = np.full(2 * n_splits + 1, -np.inf, _F), np.full(2 * n_splits + 1, np.inf, _F)
    for leaf in range(n_splits + 1):
        total[n_splits + leaf] = values[leaf, 1] - values[leaf, 0] if is_classifier else values[leaf, 0]
    for s in range(n_splits - 1, -1, -1):
        left, right = children[s, 0], children[s, 1]
        total[s], count[s] = total[left] + total[right], count[left] + count[right]
    for s in range(n_splits):
        left, right = children[s, 0], children[s, 1]
        low[left], low[right], high[left], high[right] = low[s], low[s], high[s], high[s]
        bound = False
        for d in range(questions.shape[1]):
            bound = bound or signs[d] * questions[s, d] != 0
        if bound:
            middle = (total[left] / count[left] + total[right] / count[right]) / _F(2)
            high[left] = low[right] = min(max(middle, low[s]), high[s])
    for leaf in range(n_splits + 1):
        node = n_splits + leaf
        move = min(max(total[node], low[node]), high[node]) - total[node]
        if is_classifier:
            values[leaf, 1] += move / _F(2)
            values[leaf, 0] -= move / _F(2)
        else:
            values[leaf, 0] += move


@_kernel
def run_updates(
    rows: Any,
    target: Any,
    weight: Any,
    children: Any,
    allowed: Any,
    signs: Any,
    questions: Any,
    values: Any,
    n_updates: int,
    batch_size: int,
    learning_rate: float,
    decay: float,
    drop: float,
    softest: float,
    sharpest: float,
    is_classifier: bool,
    seed: int,
) -> None:
    """Train `questions` (S, D + 1) and `values` (S + 1, K) in place.

    Weights where `allowed` (S, D + 1) is 0 stay 0; a weight whose `signs` (D + 1) is not 0 keeps that sign, and leaf
    values are then ordered. The
    learning rate falls as a cosine to 0, the sharpness rises geometrically from `softest` to `sharpest`.
    """
    n_rows, n_batch = rows.shape[0], min(batch_size, rows.shape[0])
    scratch = make_scratch(questions.shape[0], n_batch, values.shape[1])
    batch, wanted, share = (
        np.empty((n_batch, rows.shape[1]), _F),
        np.empty((n_batch, values.shape[1]), _F),
        np.empty(n_batch, _F),
    )
    by_questions, by_values = np.empty_like(questions), np.empty_like(values)
    thinned, kept = np.empty_like(questions), np.empty_like(questions)
    mean, square, value_mean, value_square = (
        np.zeros_like(questions), np.zeros_like(questions), np.zeros_like(values), np.zeros_like(values),
    )  # fmt: skip
    order, state, position = np.arange(n_rows), np.uint64(seed) * _STEP + _SHIFT, n_rows
    for update in range(n_updates):
        done = update / n_updates
        rate = _F(learning_rate * 0.5 * (1 + np.cos(np.pi * done)))
        sharpness = _F(softest * (sharpest / softest) ** done)
        if position + n_batch > n_rows:
            state, position = _shuffle(order, state), 0
        for r in range(n_batch):
            row = order[position + r]
            share[r] = weight[row]
            for d in range(rows.shape[1]):
                batch[r, d] = rows[row, d]
            for k in range(values.shape[1]):
                wanted[r, k] = target[row, k]
        position += n_batch
        state = _thin(questions, drop, state, kept, thinned)
        loss_and_slopes(
            batch, wanted, share, children, thinned, values, sharpness, is_classifier, by_questions, by_values, scratch
        )
        by_questions *= kept
        _adam(questions, by_questions, mean, square, rate, _F(decay), update + 1)
        _adam(values, by_values, value_mean, value_square, rate, _F(0), update + 1)
        for s in range(questions.shape[0]):
            for d in range(questions.shape[1]):
                questions[s, d] *= allowed[s, d]
                if signs[d] * questions[s, d] < 0:
                    questions[s, d] = _F(0)
        if signs.any():
            _order(children, questions, signs, values, is_classifier)


@_kernel
def route(rows: Any, children: Any, questions: Any) -> Any:
    """The leaf of each row, numbered from 0: right where z ≥ 0."""
    leaf = np.empty(rows.shape[0], np.int64)
    for r in range(rows.shape[0]):
        node = 0
        while node < questions.shape[0]:
            z = _F(0)
            for d in range(rows.shape[1]):
                z += questions[node, d] * rows[r, d]
            node = children[node, 1] if z >= 0 else children[node, 0]
        leaf[r] = node - questions.shape[0]
    return leaf
