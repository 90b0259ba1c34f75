"""Trees of one term a split by exact search: the best tree of depth 2, and larger trees of such pieces.

An ordinary tree takes the best split of a node without looking at the splits below it. Here the best tree of depth 2 is
found (`best_piece`), and each of its leaves is split by another. `best_pruning` is the part of a tree with a number of
leaves that costs least.

The search is exact among the thresholds between all values of each feature, as long as it takes some hundredths of a
second (`COST`). Then features have fewer thresholds, between quantiles of their values; there are fewer of them, those
with the best single splits; and rows are drawn at random.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treelu.kernels import compiled

COST = 4e6  # of a search, in sums: statistics · features² · (rows + 4 bins²)
MOST_ROWS = 2_000
FEWEST_BINS = 16


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
