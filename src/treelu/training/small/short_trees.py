"""Trees of one term a split by exact search: the best tree of depth 2, and larger trees of such pieces.

An ordinary tree takes the best split of a node without looking at the splits below it. Here the best tree of depth 2
is found (`best_piece`), and its leaves grow by others, best first (`grown`). `pruned_to` is the part of a tree with at
most a number of leaves that costs least.

The search is exact among the thresholds between all values of each feature, as long as it takes some hundredths of a
second (`COST`). Then features have fewer thresholds, between quantiles of their values; there are fewer of them, those
with the best single splits; and rows are drawn at random.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treelu.kernels import compiled

COST = 4e6  # of a search, in sums: statistics · features² · (rows + 4 bins²)
MOST_ROWS = 2_000
FEWEST_BINS = 16
SPARE = 2  # leaves that are grown for each one that is wanted, before the tree is pruned


class Criterion(NamedTuple):
    """The cost of a leaf with sums s of its weight m: errors · (m − max s) + squares · (m − Σ s² / m).

    The weight of misclassified rows, and the Gini index or, up to a constant, the squared error.
    """

    errors: float
    squares: float

    def cost(self, sums: NDArray[np.float64], mass: float) -> float:
        """The cost of a leaf."""
        return float(self.errors * (mass - sums.max()) + self.squares * (mass - (sums**2).sum() / mass))


class Piece(NamedTuple):
    """A tree of depth 2: of the root, its left and its right child the feature (−1: a leaf) and the threshold."""

    cost: float
    features: tuple[int, int, int]
    thresholds: tuple[float, float, float]


@dataclass
class Node:
    """A node of a tree in growth.

    Attributes
    ----------
    rows : int array
        The rows that reach it.
    cost : float
        As a leaf.
    depth : int
    feature, threshold : int and float
        Of its split: right where the feature ≥ the threshold.
    below : tuple of Node
        The left and the right child; empty for a leaf.
    """

    rows: NDArray[np.int64]
    cost: float
    depth: int
    feature: int = -1
    threshold: float = 0.0
    below: tuple[Node, ...] = field(default=())


class Splits(NamedTuple):
    """The splits of a tree, parents first: children (S, 2), of which S + j is leaf j, features and thresholds (S,)."""

    children: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]


def grown(
    X: NDArray[np.float64],
    target: NDArray[np.float64],
    weight: NDArray[np.float64],
    criterion: Criterion,
    max_leaves: int,
    min_samples: int = 1,
    max_depth: int | None = None,
) -> Node:
    """A tree of exact pieces, grown best first to twice the leaves that are wanted, so that pruning has a choice."""

    def leaf(rows: NDArray[np.int64], depth: int) -> Node:
        mass = weight[rows]
        return Node(rows, criterion.cost(mass @ target[rows], float(mass.sum())), depth)

    waiting: list[tuple[float, int, Node, Piece]] = []  # minus the gain, and the order of arrival

    def consider(node: Node) -> None:
        depth = 2 if max_depth is None else min(2, max_depth - node.depth)
        if depth < 1 or len(node.rows) < 2 * min_samples:
            return
        index = node.rows
        piece = best_piece(X[index], target[index], weight[index], criterion, min_samples, depth)
        if piece.features[0] >= 0:
            heappush(waiting, (piece.cost - node.cost, len(arrived), node, piece))
            arrived.append(node)

    def split(node: Node, feature: int, threshold: float) -> None:
        right = X[node.rows, feature] >= threshold
        node.feature, node.threshold = feature, threshold
        node.below = tuple(leaf(node.rows[side], node.depth + 1) for side in (~right, right))

    root = leaf(np.arange(len(X)), 0)
    arrived: list[Node] = []
    n_leaves = 1
    consider(root)
    while waiting and n_leaves < (SPARE * max_leaves if max_leaves > 4 else max_leaves):
        *_, node, piece = heappop(waiting)
        split(node, piece.features[0], piece.thresholds[0])
        n_leaves += 1
        for child, feature, threshold in zip(node.below, piece.features[1:], piece.thresholds[1:], strict=True):
            if feature >= 0:
                split(child, feature, threshold)
                n_leaves += 1
            for end in child.below or (child,):
                consider(end)
    return root


def pruned_to(root: Node, max_leaves: int) -> Splits:
    """The splits of the part of a tree with at most so many leaves that costs least; of equals with the fewest leaves.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> root = grown(X, np.eye(2)[[0, 1, 1, 0]], np.ones(4), Criterion(1.0, 0.0), 4)
    >>> [len(pruned_to(root, size).children) for size in (2, 3, 4)]
    [0, 2, 3]
    """
    costs: dict[int, list[float]] = {}  # of each node with at most 1, 2, … leaves

    def count(node: Node) -> list[float]:
        found = [node.cost] * max_leaves
        if node.below:
            left, right = (count(child) for child in node.below)
            for leaves in range(2, max_leaves + 1):
                best = min(left[share - 1] + right[leaves - share - 1] for share in range(1, leaves))
                found[leaves - 1] = best if is_less(best, found[leaves - 2], root.cost) else found[leaves - 2]
        costs[id(node)] = found
        return found

    count(root)
    budget, order = {id(root): fewest(costs[id(root)])}, [root]
    splits: list[Node] = []
    ends: list[Node] = []
    for node in order:
        leaves = budget[id(node)]
        if leaves == 1:
            ends.append(node)
            continue
        splits.append(node)
        left, right = (costs[id(child)] for child in node.below)
        share = min(range(1, leaves), key=lambda share: left[share - 1] + right[leaves - share - 1])
        for child, some in zip(node.below, (share, leaves - share), strict=True):
            budget[id(child)] = fewest(costs[id(child)][:some])
            order.append(child)
    number = {id(node): place for place, node in enumerate([*splits, *ends])}
    children = np.array([[number[id(child)] for child in node.below] for node in splits], np.int64).reshape(-1, 2)
    return Splits(children, np.array([n.feature for n in splits]), np.array([n.threshold for n in splits]))


def fewest(costs: list[float]) -> int:
    """The fewest leaves with the least cost, from the costs of at most 1, 2, … leaves."""
    return 1 + costs.index(costs[-1])


def is_less(cost: float, other: float, scale: float) -> bool:
    """Whether a cost is smaller by more than rounding."""
    return cost < other - 1e-11 * abs(scale)


def best_piece(
    X: NDArray[np.float64],
    target: NDArray[np.float64],
    weight: NDArray[np.float64],
    criterion: Criterion,
    min_samples: int = 1,
    depth: int = 2,
) -> Piece:
    """The tree of depth 1 or 2 that costs least, right where a feature ≥ its threshold.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> best_piece(X, np.eye(2)[[0, 1, 1, 0]], np.ones(4), Criterion(1.0, 0.0))
    Piece(cost=0.0, features=(0, 1, 1), thresholds=(0.5, 0.5, 0.5))
    """
    if len(X) > MOST_ROWS:
        some = np.random.default_rng(len(X)).choice(len(X), MOST_ROWS, replace=False)
        min_samples = max(1, round(min_samples * MOST_ROWS / len(X)))
        X, target, weight = X[some], target[some], weight[some]
    rows = np.column_stack([target * weight[:, None], weight, np.ones(len(X))])
    used, n_bins = np.flatnonzero(X.max(axis=0) > X.min(axis=0)), len(X)
    if depth > 1:
        used, n_bins = affordable(X, rows, used, criterion)
    cuts = [thresholds(X[:, j], n_bins) for j in used]
    cost, found = _searched([X[:, j] for j in used], cuts, rows, criterion, min_samples, depth)
    places = found.reshape(3, 2).tolist()
    features = [int(used[j]) if j >= 0 else -1 for j, _ in places]
    at = [float(cuts[j][place]) if j >= 0 else 0.0 for j, place in places]
    return Piece(cost, (features[0], features[1], features[2]), (at[0], at[1], at[2]))


def _searched(
    columns: list[NDArray[np.float64]],
    cuts: list[NDArray[np.float64]],
    rows: NDArray[np.float64],
    criterion: Criterion,
    min_samples: int,
    depth: int,
) -> tuple[float, NDArray[np.int64]]:
    """The least cost; and three pairs of a column (−1: a leaf) and the position of its threshold."""
    found = np.array([-1, 0] * 3)
    bins = np.zeros((len(columns), len(rows)), np.int32)
    for bin_, column, cut in zip(bins, columns, cuts, strict=True):
        bin_[:] = np.searchsorted(cut, column, side="right")
    order = np.argsort(bins, axis=1, kind="stable")
    widths = np.array([len(cut) + 1 for cut in cuts], np.int64)
    return compiled.best_short_tree(bins, widths, order, rows, *criterion, min_samples, depth, found), found


def affordable(
    X: NDArray[np.float64], rows: NDArray[np.float64], used: NDArray[np.int64], criterion: Criterion
) -> tuple[NDArray[np.int64], int]:
    """The features of a search of pairs, and its bins of a feature, within `COST`."""
    of_pair = COST / rows.shape[1]
    most = max(2, int((of_pair / (len(X) + 4 * FEWEST_BINS**2)) ** 0.5))
    if len(used) > most:
        costs = [
            _searched([X[:, j]], [thresholds(X[:, j], FEWEST_BINS)], rows, criterion, 1, 1)[0] for j in used.tolist()
        ]
        used = np.sort(used[np.argsort(costs, kind="stable")[:most]])
    return used, max(FEWEST_BINS, int(max(0.0, (of_pair / max(1, len(used)) ** 2 - len(X)) / 4) ** 0.5))


def thresholds(x: NDArray[np.float64], n_bins: int) -> NDArray[np.float64]:
    """Middles between neighbouring values, or next to quantiles of them where there are more than `n_bins` values.

    Examples
    --------
    >>> thresholds(np.array([3.0, 1.0, 2.0, 2.0]), 4)
    array([1.5, 2.5])
    >>> thresholds(np.arange(100.0), 4)
    array([24.5, 49.5, 74.5])
    """
    values = np.unique(x)
    place = np.arange(len(values) - 1)
    if len(values) > n_bins:
        below = np.sort(x)[len(x) * np.arange(1, n_bins) // n_bins - 1]
        place = np.unique(np.searchsorted(values, below))
        place = place[place < len(values) - 1]
    return (values[place] + values[place + 1]) / 2
