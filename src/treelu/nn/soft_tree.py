"""Numba kernels of a tree with soft routing: the gradient of its loss, and many AdamW updates in one call.

The tree has S questions, parents before children, and S + 1 leaves, numbered S … 2S. For a row x with a 1 behind it,

    z_s = w_s·x      g_s = sigmoid(β z_s)      reach(right) = g_s reach(s)      reach(left) = (1 − g_s) reach(s)
    output = Σ_leaf reach(leaf) v_leaf             (regression)
    chances = Σ_leaf reach(leaf) softmax(v_leaf)   (classes)

The loss is the log-loss, or half the squared error of the output mixed with that of the leaves,

    ½ (output − y)² + firmness · ½ Σ_leaf reach(leaf) (v_leaf − output)²

without which values between those of the leaves are reached by rows on a boundary, and lost in the hard tree.
β rises while the tree is trained, until rows are routed almost as by a hard tree (right where z ≥ 0). Arrays are
float32; rows of a batch stand in the last axis, so that inner loops vectorise. Products are loops that leave out zeros:
on such narrow arrays as fast as BLAS, faster where questions have few terms, and compiled in a fraction of the time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treelu.nn.cpu.compile import fast_entry, fast_part, inline
from treelu.nn.soft_training import SoftTraining

_F = np.float32


class Sample(NamedTuple):
    """Rows as columns: B of a batch, or all n in random order."""

    columns: Any  # (D + 1, B) features, and ones in the last row
    target: Any  # (K, B)
    weight: Any  # (1, B)


class Shape(NamedTuple):
    """What training leaves as it is."""

    children: Any  # (S, 2)
    allowed: Any  # (S, D + 1): weights where it is 0 must be 0 and stay so


class Parameters(NamedTuple):
    """What is trained, or something of each of them: slopes, moments."""

    questions: Any  # (S, D + 1)
    values: Any  # (S + 1, K)


class Scratch(NamedTuple):
    """Arrays that a batch's gradient is computed in."""

    z: Any  # (S, B)
    gate: Any  # (S, B)
    reach: Any  # (2S + 1, B)
    cost: Any  # (2S + 1, B)
    output: Any  # (K, B)
    outputs: Any  # (S + 1, K)


class Optimizer(NamedTuple):
    """The state of AdamW, and arrays that updates work in."""

    mean: Parameters
    square: Parameters
    slopes: Parameters
    thinned: Any  # (S, D + 1) questions after DropConnect
    kept: Any  # (S, D + 1) what they were multiplied by
    bounds: Any  # (4, 2S + 1), of `_order`


_LEAST = np.float32(1e-6)  # chances below are taken for this
_STEP, _SHIFT = np.uint64(6364136223846793005), np.uint64(1442695040888963407)


@inline
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


@fast_part
def _go_down(z: Any, children: Any, sharpness: Any, gate: Any, reach: Any) -> None:
    """Gates of the questions and how far each row reaches each node, from z (S, rows)."""
    for r in range(z.shape[1]):
        reach[0, r] = _F(1)
    for s in range(z.shape[0]):
        for r in range(z.shape[1]):
            t = sharpness * z[s, r]
            e = _exponential(abs(t))
            p = _F(1) / (_F(1) + e)
            gate[s, r] = p if t >= 0 else e * p
        left, right = children[s, 0], children[s, 1]
        for r in range(z.shape[1]):  # a loop of its own: in one with the gates, no row would vectorise
            reach[right, r] = reach[s, r] * gate[s, r]
            reach[left, r] = reach[s, r] - reach[right, r]


@fast_part
def _come_up(gate: Any, reach: Any, children: Any, sharpness: Any, cost: Any, slope: Any) -> None:
    """∂loss/∂z (S, rows) from `cost` = ∂loss/∂reach of the leaves; fills the cost of the questions."""
    for s in range(gate.shape[0] - 1, -1, -1):
        left, right = children[s, 0], children[s, 1]
        for r in range(gate.shape[1]):
            gain = cost[right, r] - cost[left, r]
            cost[s, r] = cost[left, r] + gate[s, r] * gain
            slope[s, r] = sharpness * reach[s, r] * gate[s, r] * (_F(1) - gate[s, r]) * gain


@fast_part
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


@fast_part
def _compare(output: Any, target: Any, weight: Any, total: Any, is_classifier: bool, firmness: Any) -> None:
    """In place of the outputs (K, rows) the slopes of the batch's mean loss by them: log-loss, or half the squares."""
    for k in range(output.shape[0]):
        for r in range(output.shape[1]):
            if is_classifier:
                output[k, r] = -weight[r] * target[k, r] / (total * max(output[k, r], _LEAST))
            else:
                output[k, r] = weight[r] * ((_F(1) - firmness) * output[k, r] - target[k, r]) / total


@fast_part
def _keep_apart(values: Any, reach: Any, weight: Any, firmness: Any, cost: Any, by_values: Any) -> None:
    """What the squared values in Σ_leaf reach (v_leaf − y)² add to the slopes by reach (cost) and by values."""
    for leaf in range(values.shape[0]):
        size, total = _F(0), _F(0)
        for k in range(values.shape[1]):
            size += values[leaf, k] * values[leaf, k] * firmness / _F(2)
        for r in range(reach.shape[1]):
            cost[leaf, r] += size * weight[r]
            total += weight[r] * reach[leaf, r]
        for k in range(values.shape[1]):
            by_values[leaf, k] += firmness * values[leaf, k] * total


@fast_part
def _through_softmax(outputs: Any, is_classifier: bool, by_values: Any) -> None:
    """∂loss/∂values from ∂loss/∂outputs of the leaves, in place: through the softmax."""
    if not is_classifier:
        return
    for leaf in range(outputs.shape[0]):
        mean = _F(0)
        for k in range(outputs.shape[1]):
            mean += by_values[leaf, k] * outputs[leaf, k]
        for k in range(outputs.shape[1]):
            by_values[leaf, k] = outputs[leaf, k] * (by_values[leaf, k] - mean)


@fast_part
def _product(left: Any, right: Any, result: Any) -> None:
    """left (n, m) · right (m, rows), without the zeros of the left."""
    for i in range(result.shape[0]):
        for r in range(result.shape[1]):
            result[i, r] = _F(0)
        for j in range(right.shape[0]):
            factor = left[i, j]
            if factor != 0:
                for r in range(result.shape[1]):
                    result[i, r] += factor * right[j, r]


@fast_part
def _slopes(
    batch: Any,
    children: Any,
    kept: Any,
    at: Any,
    sharpness: Any,
    firmness: Any,
    is_classifier: bool,
    by: Any,
    work: Any,
) -> None:
    n_splits, output, weight = at.questions.shape[0], work.output, batch.weight[0]
    _product(at.questions, batch.columns, work.z)
    _go_down(work.z, children, sharpness, work.gate, work.reach)
    _leaf_outputs(at.values, is_classifier, work.outputs)
    for k in range(output.shape[0]):
        for r in range(output.shape[1]):
            output[k, r] = _F(0)
        for leaf in range(n_splits + 1):
            factor = work.outputs[leaf, k]
            for r in range(output.shape[1]):
                output[k, r] += factor * work.reach[n_splits + leaf, r]
    total_weight = _F(0)
    for r in range(output.shape[1]):
        total_weight += weight[r]
    _compare(output, batch.target, weight, total_weight, is_classifier, firmness)
    _product(work.outputs, output, work.cost[n_splits:])
    for leaf in range(n_splits + 1):
        for k in range(output.shape[0]):
            total = _F(0)
            for r in range(output.shape[1]):
                total += work.reach[n_splits + leaf, r] * output[k, r]
            by.values[leaf, k] = total
    if not is_classifier:
        firm = firmness / total_weight
        _keep_apart(work.outputs, work.reach[n_splits:], weight, firm, work.cost[n_splits:], by.values)
    _through_softmax(work.outputs, is_classifier, by.values)
    _come_up(work.gate, work.reach, children, sharpness, work.cost, work.z)
    for s in range(n_splits):
        for d in range(batch.columns.shape[0]):
            total = _F(0)
            if kept[s, d] != 0:
                for r in range(batch.columns.shape[1]):
                    total += work.z[s, r] * batch.columns[d, r]
            by.questions[s, d] = kept[s, d] * total


@fast_entry
def slopes(
    batch: Any,
    children: Any,
    kept: Any,
    at: Any,
    sharpness: Any,
    firmness: Any,
    is_classifier: bool,
    by: Any,
    work: Any,
) -> None:
    """The gradient `by` (Parameters) of a batch's loss at the parameters `at`; that of questions times `kept`."""
    _slopes(batch, children, kept, at, sharpness, firmness, is_classifier, by, work)


def make_scratch(n_splits: int, n_rows: int, n_outputs: int) -> Scratch:
    """Arrays that `slopes` works in."""
    return Scratch(
        z=np.empty((n_splits, n_rows), _F),
        gate=np.empty((n_splits, n_rows), _F),
        reach=np.empty((2 * n_splits + 1, n_rows), _F),
        cost=np.empty((2 * n_splits + 1, n_rows), _F),
        output=np.empty((n_outputs, n_rows), _F),
        outputs=np.empty((n_splits + 1, n_outputs), _F),
    )


@fast_part
def _adam(parameter: Any, slope: Any, mean: Any, square: Any, rate: Any, decay: Any, penalty: Any, update: int) -> None:
    """One step of AdamW with an ℓ1 penalty; the last column (the biases of questions) is neither decayed nor penalised.

    A weight that would change its sign under the penalty stops at 0, and leaves it where the loss's slope is steeper
    than the penalty.
    """
    first, second = _F(1 - 0.9**update), _F(1 - 0.999**update)
    last = parameter.shape[1] - 1
    for i in range(parameter.shape[0]):
        for j in range(parameter.shape[1]):
            old, by = parameter[i, j], slope[i, j]
            cost = _F(0) if j == last else penalty
            if old > 0:
                by += cost
            elif old < 0:
                by -= cost
            else:
                by = max(by - cost, _F(0)) + min(by + cost, _F(0))
            mean[i, j] = _F(0.9) * mean[i, j] + _F(0.1) * by
            square[i, j] = _F(0.999) * square[i, j] + _F(0.001) * by * by
            kept = _F(1) if j == last else _F(1) - rate * decay
            step = rate * (mean[i, j] / first) / (np.sqrt(square[i, j] / second) + _F(1e-8))
            parameter[i, j] = kept * old - step
            if cost > 0 and ((old == 0 and by == 0) or old * parameter[i, j] < 0):
                parameter[i, j] = mean[i, j] = _F(0)


@fast_part
def _thin(questions: Any, allowed: Any, drop: float, state: Any, kept: Any, thinned: Any) -> Any:
    """DropConnect: questions with each weight left out with chance `drop`, the others scaled up; biases stay."""
    limit, scale = np.uint64(drop * 2147483648.0), _F(1 / (1 - drop))
    last = questions.shape[1] - 1
    for s in range(questions.shape[0]):
        for d in range(questions.shape[1]):
            kept[s, d] = allowed[s, d]
            if drop > 0 and d < last and allowed[s, d] != 0:
                state = state * _STEP + _SHIFT
                kept[s, d] = _F(0) if (state >> np.uint64(33)) < limit else scale
            thinned[s, d] = questions[s, d] * kept[s, d]
    return state


@fast_part
def _order(children: Any, questions: Any, signs: Any, values: Any, is_classifier: bool, bounds: Any) -> None:
    """Set weights against their feature's sign to 0, and clip leaf values so that questions with a signed feature have
    no leaf on the left above one on the right.

    The bound is half way between the means of the two sides' leaves; a leaf's value is its first, or for classes the
    second score less the first. `treelu.training.small.monotone` has the same in NumPy. `bounds` is (4, 2S + 1).
    """
    n_splits = questions.shape[0]
    total, count, low, high = bounds[0], bounds[1], bounds[2], bounds[3]
    low[0], high[0] = -_F(np.inf), _F(np.inf)
    for leaf in range(n_splits + 1):
        total[n_splits + leaf] = values[leaf, 1] - values[leaf, 0] if is_classifier else values[leaf, 0]
        count[n_splits + leaf] = _F(1)
    for s in range(n_splits - 1, -1, -1):
        left, right = children[s, 0], children[s, 1]
        total[s], count[s] = total[left] + total[right], count[left] + count[right]
    for s in range(n_splits):
        left, right = children[s, 0], children[s, 1]
        low[left], low[right], high[left], high[right] = low[s], low[s], high[s], high[s]
        bound = False
        for d in range(questions.shape[1]):
            if signs[d] * questions[s, d] < 0:
                questions[s, d] = _F(0)
            bound = bound or signs[d] * questions[s, d] != 0
        if bound:
            middle = (total[left] / count[left] + total[right] / count[right]) / _F(2)
            middle = min(max(middle, low[s]), high[s])
            high[left], low[right] = middle, middle
    for leaf in range(n_splits + 1):
        node = n_splits + leaf
        move = min(max(total[node], low[node]), high[node]) - total[node]
        if is_classifier:
            values[leaf, 1] += move / _F(2)
            values[leaf, 0] -= move / _F(2)
        else:
            values[leaf, 0] += move


@fast_part
def _window(source: Any, start: int, part: Any) -> None:
    """Columns of `source` from `start` on, as many as `part` has, the first ones again after the last."""
    first = min(part.shape[1], source.shape[1] - start)
    for d in range(part.shape[0]):
        for r in range(first):
            part[d, r] = source[d, start + r]
        for r in range(first, part.shape[1]):
            part[d, r] = source[d, r - first]


@fast_entry
def _updates(rows: Any, shape: Any, signs: Any, at: Any, how: Any, batch: Any, state: Any, work: Any) -> None:
    n_rows, n_batch, start = rows.columns.shape[1], batch.columns.shape[1], 0
    random = np.uint64(how.seed) * _STEP + _SHIFT
    for update in range(how.n_updates):
        done = update / how.n_updates
        rate = _F(how.learning_rate * 0.5 * (1 + np.cos(np.pi * done)))
        sharpness = _F(how.softest * np.exp(done * np.log(how.sharpest / how.softest)))
        if n_batch < n_rows or update == 0:
            random = random * _STEP + _SHIFT
            start = (start + n_batch + np.int64(random >> np.uint64(58))) % n_rows  # 0 to 63 rows are left out
            _window(rows.columns, start, batch.columns)
            _window(rows.target, start, batch.target)
            _window(rows.weight, start, batch.weight)
        random = _thin(at.questions, shape.allowed, how.drop, random, state.kept, state.thinned)
        thinned = Parameters(state.thinned, at.values)
        _slopes(
            batch, shape.children, state.kept, thinned, sharpness, _F(how.firmness), how.is_classifier,
            state.slopes, work,
        )  # fmt: skip
        _adam(
            at.questions, state.slopes.questions, state.mean.questions, state.square.questions,
            rate, _F(how.decay), _F(how.penalty), update + 1,
        )  # fmt: skip
        _adam(
            at.values, state.slopes.values, state.mean.values, state.square.values,
            rate, _F(0), _F(0), update + 1,
        )  # fmt: skip
        if signs is not None:
            _order(shape.children, at.questions, signs, at.values, how.is_classifier, state.bounds)


def run_updates(rows: Sample, shape: Shape, at: Parameters, how: SoftTraining, signs: Any = None) -> None:
    """Train the parameters in place, on batches of neighbouring columns of `rows`.

    With `signs` (D + 1), a weight whose sign is not 0 keeps it, and leaf values are ordered.
    """
    n_batch, n_splits, n_outputs = min(how.batch_size, rows.columns.shape[1]), len(at.questions), at.values.shape[1]
    batch = Sample(*(np.empty((len(table), n_batch), _F) for table in rows))
    state = Optimizer(
        mean=Parameters(np.zeros_like(at.questions), np.zeros_like(at.values)),
        square=Parameters(np.zeros_like(at.questions), np.zeros_like(at.values)),
        slopes=Parameters(np.empty_like(at.questions), np.empty_like(at.values)),
        thinned=np.empty_like(at.questions),
        kept=np.empty_like(at.questions),
        bounds=np.empty((4, 2 * n_splits + 1), _F),
    )
    _updates(rows, shape, signs, at, how, batch, state, make_scratch(n_splits, n_batch, n_outputs))


@fast_entry
def _route(rows: Any, children: Any, questions: Any, leaf: Any) -> None:
    for r in range(rows.shape[0]):
        node = 0
        while node < questions.shape[0]:
            z = _F(0)
            for d in range(rows.shape[1]):
                z += questions[node, d] * rows[r, d]
            node = children[node, 1] if z >= 0 else children[node, 0]
        leaf[r] = node - questions.shape[0]


def route(rows: Any, children: Any, questions: Any) -> Any:
    """The leaf of each row, numbered from 0: right where z ≥ 0."""
    leaf = np.empty(len(rows), np.int64)
    _route(rows, children, questions, leaf)
    return leaf
