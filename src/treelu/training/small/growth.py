"""Trees grown best first: from linear regressions or pairs of features, where training starts, or for linear leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treelu.training.small.rows import FLOAT, TrainingRows
from treelu.training.small.short_trees import thresholds
from treelu.training.small.soft_tree import SoftTree, impurity, no_values, one_leaf, with_values

RIDGE = 0.01  # a row, for features of standard deviation 1
LEAST_ROWS = 3  # on either side of a split

# Pairs of features at a node: which are tried, and how
LIKELY_FEATURES = 64  # most correlated with a target
FIRST_FEATURES = 6  # with the best single thresholds: all pairs of these
LIKELY_PAIRS = 64  # that explain most of the targets, as many for each
COMPARED_ROWS = 2_000
BINS = 64
EXACT_SPLITS = 6

# Splits above linear leaves
MODEL_ROWS = 10  # on either side, at least
MODEL_RIDGE = 3.0  # of the changes of slopes
MODEL_BINS = 8  # whose edges are the thresholds of a feature
MODEL_FEATURES = 12  # of the functions at most: those of the largest slopes at the node, and the feature of the split
MODEL_COMPARED_ROWS = 1_000


class NodeSplit(NamedTuple):
    """A split w·x + b ≥ 0 of a node: its weights and bias (D + 1,), and by how much it lowers the loss there."""

    gain: float
    weights: NDArray[np.float64]


# features, targets and weights of the rows at a node, and whether they are classes → its split, if any gains
FindSplit = Callable[[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], bool], NodeSplit | None]


def linear_tree(rows: TrainingRows, max_leaves: int, max_depth: int | None = None) -> SoftTree:
    """A tree whose splits are thresholds of linear regressions on the rows that reach them.

    At each node every target (each class against the others) is regressed on the features, and the regression with
    the best threshold, by entropy or squared error, becomes the split.
    """
    tree = grown(rows, max_leaves, max_depth, linear_split)
    return replace(tree, allowed=np.ones_like(tree.allowed))


def pair_tree(rows: TrainingRows, max_leaves: int, max_depth: int | None = None) -> SoftTree:
    """A tree whose splits are the best thresholds found of one or two features (`pair_split`)."""
    return grown(rows, max_leaves, max_depth, pair_split)


def model_trees(rows: TrainingRows, sizes: Sequence[int], max_depth: int | None = None) -> Iterator[SoftTree]:
    """Trees of some numbers of leaves, smallest first, whose splits are best for linear leaves (`model_split`)."""
    return growing(rows, sizes, max_depth, model_split)


def grown(rows: TrainingRows, max_leaves: int, max_depth: int | None, find_split: FindSplit) -> SoftTree:
    """A tree grown best first: the node with the largest gain is split next."""
    return next(growing(rows, [max_leaves], max_depth, find_split))


def growing(
    rows: TrainingRows, sizes: Sequence[int], max_depth: int | None, find_split: FindSplit
) -> Iterator[SoftTree]:
    """The tree as `grown` leaves it at each of some numbers of leaves, of which the smallest comes first."""
    X, target, weight = (array.astype(np.float64) for array in (rows.X[:, :-1], rows.target, rows.weight))
    reached, depth = [np.arange(len(X))], [0]
    found: dict[int, NDArray[np.float64]] = {}
    children: dict[int, tuple[int, int]] = {}
    waiting: list[tuple[float, int]] = []  # minus the gain, and the node

    def consider(node: int) -> None:
        part = reached[node]
        if depth[node] == max_depth or len(part) < 2 * LEAST_ROWS:  # None: no limit
            return
        split = find_split(X[part], target[part], weight[part], rows.is_classifier)
        if split is not None:
            found[node] = split.weights
            heappush(waiting, (-split.gain, node))

    consider(0)
    for max_leaves in sizes:
        while waiting and len(children) < max_leaves - 1:
            _, node = heappop(waiting)
            right = X[reached[node]] @ found[node][:-1] + found[node][-1] >= 0
            children[node] = len(reached), len(reached) + 1
            reached += [reached[node][~right], reached[node][right]]
            depth += [depth[node] + 1] * 2
            for child in children[node]:
                consider(child)
        yield _tree_of(rows, children, found)


def _tree_of(
    rows: TrainingRows, children: dict[int, tuple[int, int]], found: dict[int, NDArray[np.float64]]
) -> SoftTree:
    """The tree of some nodes' children and splits, which are numbered before the leaves."""
    if not children:
        return one_leaf(rows)
    nodes = sorted(children)
    leaves = sorted(child for pair in children.values() for child in pair if child not in children)
    number = {node: place for place, node in enumerate([*nodes, *leaves])}
    pairs = np.array([[number[child] for child in children[node]] for node in nodes], np.int64)
    splits = np.array([found[node] for node in nodes], FLOAT)
    allowed = (splits != 0).astype(FLOAT)
    allowed[:, -1] = 1
    return with_values(SoftTree(pairs, splits, no_values(len(splits), rows), allowed), rows)


def linear_split(
    X: NDArray[np.float64], target: NDArray[np.float64], weight: NDArray[np.float64], is_classifier: bool
) -> NodeSplit | None:
    """The best threshold of a linear regression, scaled to standard deviation 1; None if no split lowers the loss."""
    moments, products = ridge_moments(X, target, weight)
    coefficients: Any = np.linalg.solve(moments, products)  # (D, K)
    return best_of(coefficients.T[_distinct(target, is_classifier)], X, target, weight, is_classifier)


def pair_split(
    X: NDArray[np.float64], target: NDArray[np.float64], weight: NDArray[np.float64], is_classifier: bool
) -> NodeSplit | None:
    """The best threshold of one feature or a combination of two, scaled to standard deviation 1; None if none helps.

    Combinations are the regressions of a target on two features that explain most of it, and sums and differences of
    these and of the features with the best single thresholds. They are first compared on some of the rows at a few
    thresholds; the best few then exactly.
    """
    some = np.random.default_rng(len(X)).permutation(len(X))[:COMPARED_ROWS]
    sample = X[some], target[some], weight[some], is_classifier
    moments, products = ridge_moments(X, target, weight)
    likely = np.sort(np.argsort(-(products**2).sum(axis=1) / np.diag(moments), kind="stable")[:LIKELY_FEATURES])
    singles = np.eye(X.shape[1])[likely]
    first = likely[np.argsort(-rough_gains(singles, *sample), kind="stable")[:FIRST_FEATURES]]
    coefficients = [singles]
    pairs = set(combinations(np.sort(first).tolist(), 2))
    distinct = products.T[_distinct(target, is_classifier)]
    for product in distinct:
        regressed = pair_regressions(moments, product, likely, -(-LIKELY_PAIRS // len(distinct)))
        coefficients.append(regressed)
        pairs |= {(used[0], used[-1]) for used in map(np.flatnonzero, regressed) if len(used) == 2}
    for i, j in sorted(pairs):
        both = np.zeros((2, X.shape[1]))
        both[:, i], both[:, j] = 1.0, (1.0, -1.0)
        coefficients.append(both)
    tried = np.concatenate(coefficients)
    best = np.argsort(-rough_gains(tried, *sample), kind="stable")[:EXACT_SPLITS]
    return best_of(tried[best], X, target, weight, is_classifier)


def pair_regressions(
    moments: NDArray[np.float64], product: NDArray[np.float64], likely: NDArray[np.int64], n_pairs: int
) -> NDArray[np.float64]:
    """Coefficients (pairs, D) of the regressions on two of the likely features that explain most, the best first.

    `moments` (D, D) are those of the features, `product` (D,) their products with the target.
    """
    i, j = (likely[place] for place in np.triu_indices(len(likely), 1))
    a, b, c = moments[i, i], moments[j, j], moments[i, j]
    determinant = a * b - c * c
    by_i, by_j = (b * product[i] - c * product[j]) / determinant, (a * product[j] - c * product[i]) / determinant
    best = np.argsort(-(by_i * product[i] + by_j * product[j]), kind="stable")[:n_pairs]
    coefficients = np.zeros((len(best), len(moments)))
    coefficients[np.arange(len(best)), i[best]], coefficients[np.arange(len(best)), j[best]] = by_i[best], by_j[best]
    return coefficients


def rough_gains(
    coefficients: NDArray[np.float64],
    X: NDArray[np.float64],
    target: NDArray[np.float64],
    weight: NDArray[np.float64],
    is_classifier: bool,
) -> NDArray[np.float64]:
    """How much each linear function (C, D) lowers the loss with the best of `BINS` − 1 thresholds."""
    z = coefficients @ X.T  # (C, n)
    z -= z.mean(axis=1, keepdims=True)
    z /= np.maximum(z.std(axis=1, keepdims=True), 1e-12)
    place = np.clip((z + 3) * (BINS / 6), 0, BINS - 1).astype(np.int64)
    place += BINS * np.arange(len(coefficients))[:, None]
    columns = [np.broadcast_to(column, z.shape).ravel() for column in (*(target * weight[:, None]).T, weight)]
    sums = np.stack([np.bincount(place.ravel(), column, BINS * len(coefficients)) for column in columns], axis=-1)
    left: NDArray[np.float64] = np.cumsum(sums.reshape(len(coefficients), BINS, -1), axis=1)  # (C, BINS, K + 1)
    right = left[:, -1:] - left
    lost = [
        impurity(part[..., :-1].reshape(-1, target.shape[1]), part[..., -1].ravel(), is_classifier)
        for part in (left[:, :-1], right[:, :-1], left[:1, -1])
    ]
    return lost[2] - (lost[0] + lost[1]).reshape(len(coefficients), -1).min(axis=1)


def model_split(
    X: NDArray[np.float64], target: NDArray[np.float64], weight: NDArray[np.float64], is_classifier: bool
) -> NodeSplit | None:
    """The threshold of one feature that lowers the squared error most where both sides have a linear function.

    The functions of the sides are that of the node, which is removed first, plus changes with a ridge. With the moments
    A of a side's features and b of these with the rest r, its error falls by bᵀ (A + ridge)⁻¹ b.
    """
    some = np.random.default_rng(len(X)).permutation(len(X))[:MODEL_COMPARED_ROWS]
    X, target, weight = X[some], target[some], weight[some]
    table, y = np.column_stack([X, np.ones(len(X))]), target[:, _distinct(target, is_classifier)]
    weighted = table * weight[:, None]
    slopes = np.linalg.solve(weighted.T @ table + _model_ridge(X.shape[1]), weighted.T @ y)
    rest = y - table @ slopes
    likely = np.argsort(-(slopes[:-1] ** 2).sum(axis=1), kind="stable")[:MODEL_FEATURES]

    def best_cut(j: int, cuts: NDArray[np.float64]) -> tuple[float, float]:
        """The gain of the best of some thresholds, and the threshold."""
        is_left = X[:, j] < cuts[:, None]  # (cuts, n)
        counts = is_left.sum(axis=1)
        allowed = np.minimum(counts, len(X) - counts) >= MODEL_ROWS
        if not allowed.any():
            return 0.0, 0.0
        used = [*np.union1d(likely, [j]), X.shape[1]]
        both, p = np.column_stack([table[:, used], rest]), len(used)
        products = (both * weight[:, None])[:, :p, None] * both[:, None, :]  # (n, p, p + K)
        left = np.tensordot(is_left[allowed].astype(np.float64), products, 1)
        gains = sum(
            (side[..., p:] * np.linalg.solve(side[..., :p] + _model_ridge(p - 1), side[..., p:])).sum(axis=(1, 2))
            for side in (left, products.sum(axis=0) - left)
        )
        best = int(np.argmax(gains))
        return float(gains[best]), float(cuts[allowed][best])

    found = [best_cut(j, thresholds(x, MODEL_BINS)) for j, x in enumerate(X.T)]
    j = max(range(len(found)), key=lambda j: found[j][0])
    gain, cut = found[j]
    if gain <= 1e-9:
        return None
    rank = (X[:, j] < cut).sum()
    near = np.sort(X[:, j])[max(0, rank - len(X) // MODEL_BINS) : rank + len(X) // MODEL_BINS + 1]
    closer = best_cut(j, thresholds(near, 4 * MODEL_BINS))
    gain, cut = max((gain, cut), closer)
    return NodeSplit(gain, np.append(np.eye(X.shape[1])[j], -cut))


def _model_ridge(n_features: int) -> NDArray[np.float64]:
    """The ridge of slopes and of a constant, which is hardly penalised."""
    return np.diag([MODEL_RIDGE] * n_features + [1e-6])


def ridge_moments(
    X: NDArray[np.float64], target: NDArray[np.float64], weight: NDArray[np.float64], ridge: float = RIDGE
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Moments of the features (D, D), with a ridge, and their products with the targets (D, K), all centred."""
    total = weight.sum()
    centred, centred_target = X - weight @ X / total, target - weight @ target / total
    scaled = centred * weight[:, None]
    return scaled.T @ centred + ridge * total * np.eye(X.shape[1]), scaled.T @ centred_target


def _distinct(target: NDArray[np.float64], is_classifier: bool) -> slice:
    """The independent targets: of two classes, the second."""
    return slice(1, 2) if is_classifier and target.shape[1] == 2 else slice(None)


def best_of(
    coefficients: NDArray[np.float64],
    X: NDArray[np.float64],
    target: NDArray[np.float64],
    weight: NDArray[np.float64],
    is_classifier: bool,
    keep_class: bool = False,
) -> NodeSplit | None:
    """Of some linear functions (C, D) the one whose best threshold gains most, scaled to standard deviation 1.

    `keep_class` is that of `best_threshold`.
    """
    best = None
    for weights in coefficients:
        z = X @ weights
        unit = z.std()
        if unit <= 1e-9:
            continue
        gain, threshold = best_threshold(z / unit, target, weight, is_classifier, keep_class)
        if gain > max(1e-9, 0.0 if best is None else best.gain):
            best = NodeSplit(gain, np.append(weights / unit, -threshold))
    return best


def best_threshold(
    z: NDArray[np.float64],
    target: NDArray[np.float64],
    weight: NDArray[np.float64],
    is_classifier: bool,
    keep_class: bool = False,
) -> tuple[float, float]:
    """How much the best threshold of z lowers the loss, and the threshold; a gain of 0 where there is none.

    With `keep_class`, the majority class of all rows must be that of both sides.

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
    if keep_class:
        most = [side.argmax(axis=1) == sums[-1].argmax() for side in (sums[place], sums[-1] - sums[place])]
        place = place[most[0] & most[1]]
    if not len(place):
        return 0.0, 0.0
    whole = impurity(sums[-1:], mass[-1:], is_classifier)
    left = impurity(sums[place], mass[place], is_classifier)
    right = impurity(sums[-1] - sums[place], mass[-1] - mass[place], is_classifier)
    best = int((left + right).argmin())
    middle = (z[place[best]] + z[place[best] + 1]) / 2
    return float(whole[0] - left[best] - right[best]), float(middle)
