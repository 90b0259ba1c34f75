"""Where a small tree starts: random questions, an ordinary tree, or one of linear regressions."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treelu.training.small.soft_tree import FLOAT, Rows, SoftTree, impurity, no_values, one_leaf, with_values

START_SPREAD = 0.5  # of z, in random questions
RIDGE = 0.01  # a row, beside features of spread 1
LEAST_ROWS = 3  # on either side of a question of a linear tree


def complete_children(depth: int) -> NDArray[np.int64]:
    """Children of a complete tree, level by level.

    Examples
    --------
    >>> complete_children(2).tolist()
    [[1, 2], [3, 4], [5, 6]]
    """
    first = 2 * np.arange(2**depth - 1, dtype=np.int64) + 1
    return np.column_stack([first, first + 1])


def random_tree(rows: Rows, depth: int, rng: np.random.Generator) -> SoftTree:
    """A complete tree of random questions through the middle of the rows."""
    weights = rng.normal(size=(2**depth - 1, rows.n_features)).astype(FLOAT)
    spread = (rows.X[:, :-1] @ weights.T).std(axis=0)[:, None]
    weights *= START_SPREAD / np.maximum(spread, 1e-6)
    questions = np.column_stack([weights, np.zeros(len(weights), FLOAT)])
    return with_values(
        SoftTree(complete_children(depth), questions, no_values(len(weights), rows), np.ones_like(questions)), rows
    )


def axis_tree(
    rows: Rows,
    children: NDArray[np.int64],
    feature: NDArray[np.int64],
    threshold: NDArray[np.float64],
    steepness: float,
) -> SoftTree:
    """An ordinary tree on scaled rows: right where `steepness` · (x_feature − threshold) ≥ 0.

    Where the output must not rise with a feature, sides are exchanged and the weight is negative.
    """
    steep = np.full(len(children), steepness)
    if rows.signs is not None:
        falls = rows.signs[feature] < 0
        steep[falls] *= -1
        children = np.where(falls[:, None], children[:, ::-1], children)
    questions = np.zeros((len(children), rows.n_features + 1), FLOAT)
    questions[np.arange(len(children)), feature] = steep
    questions[:, -1] = -steep * threshold
    allowed = (questions != 0).astype(FLOAT)
    allowed[:, -1] = 1
    return with_values(SoftTree(children, questions, no_values(len(children), rows), allowed), rows)


class Cut(NamedTuple):
    """A question w·x + b ≥ 0 of a node, and by how much it lowers the loss of the rows there."""

    gain: float
    question: NDArray[np.float64]


def linear_tree(rows: Rows, max_leaves: int, max_depth: int) -> SoftTree:
    """A tree grown best first whose questions are thresholds of linear regressions on the rows that reach them.

    At each node every target (each class against the others) is regressed on the features, and the regression with
    the best threshold, by entropy or squared error, becomes the question.
    """
    X, target, weight = (array.astype(np.float64) for array in (rows.X[:, :-1], rows.target, rows.weight))
    reached, depth = [np.arange(len(X))], [0]
    cuts: dict[int, NDArray[np.float64]] = {}
    children: dict[int, tuple[int, int]] = {}
    waiting: list[tuple[float, int]] = []  # minus the gain, and the node

    def consider(node: int) -> None:
        part = reached[node]
        cut = best_cut(X[part], target[part], weight[part], rows.is_classifier)
        if cut is not None and depth[node] < max_depth:
            cuts[node] = cut.question
            heappush(waiting, (-cut.gain, node))

    consider(0)
    while waiting and len(children) < max_leaves - 1:
        _, node = heappop(waiting)
        right = X[reached[node]] @ cuts[node][:-1] + cuts[node][-1] >= 0
        children[node] = len(reached), len(reached) + 1
        reached += [reached[node][~right], reached[node][right]]
        depth += [depth[node] + 1] * 2
        for child in children[node]:
            consider(child)
    if not children:
        return one_leaf(rows)
    splits = sorted(children)
    leaves = [node for node in range(len(reached)) if node not in children]
    number = {node: place for place, node in enumerate([*splits, *leaves])}
    pairs = np.array([[number[child] for child in children[node]] for node in splits], np.int64)
    questions = np.array([cuts[node] for node in splits], FLOAT)
    return with_values(SoftTree(pairs, questions, no_values(len(splits), rows), np.ones_like(questions)), rows)


def best_cut(
    X: NDArray[np.float64], target: NDArray[np.float64], weight: NDArray[np.float64], is_classifier: bool
) -> Cut | None:
    """The best threshold of a linear regression, scaled to spread 1; None where no question gains anything."""
    if len(X) < 2 * LEAST_ROWS:
        return None
    total = weight.sum()
    mean, goal = weight @ X / total, target - weight @ target / total
    scaled = (X - mean) * weight[:, None]
    moments = scaled.T @ (X - mean) + RIDGE * total * np.eye(X.shape[1])
    slopes = np.linalg.solve(moments, scaled.T @ goal)  # (D, K)
    best = None
    for slope in slopes.T[-1:] if is_classifier and target.shape[1] == 2 else slopes.T:
        z = X @ slope
        unit = z.std()
        if unit <= 1e-9:
            continue
        gain, threshold = best_threshold(z / unit, target, weight, is_classifier)
        if gain > max(1e-9, 0.0 if best is None else best.gain):
            best = Cut(gain, np.append(slope / unit, -threshold))
    return best


def best_threshold(
    z: NDArray[np.float64], target: NDArray[np.float64], weight: NDArray[np.float64], is_classifier: bool
) -> tuple[float, float]:
    """By how much the best threshold of z lowers the loss, and the threshold; no gain where there is none.

    Examples
    --------
    >>> gain, threshold = best_threshold(np.arange(8.0), np.arange(8.0)[:, None] > 3, np.ones(8), False)
    >>> float(gain), float(threshold)
    (2.0, 3.5)
    """
    order = np.argsort(z, kind="stable")
    z = z[order]
    sums, mass = np.cumsum(target[order] * weight[order, None], axis=0), np.cumsum(weight[order])
    place = np.flatnonzero(z[1:] > z[:-1])
    place = place[(place + 1 >= LEAST_ROWS) & (len(z) - place - 1 >= LEAST_ROWS)]
    if not len(place):
        return 0.0, 0.0
    whole = impurity(sums[-1:], mass[-1:], is_classifier)
    left = impurity(sums[place], mass[place], is_classifier)
    right = impurity(sums[-1] - sums[place], mass[-1] - mass[place], is_classifier)
    best = int((left + right).argmin())
    middle = (z[place[best]] + z[place[best] + 1]) / 2
    return float(whole[0] - left[best] - right[best]), float(middle)
