"""The leaves of a tree as polyhedra around a row.

A change of the row x₀ is written y = (x − x₀) / scale, over the features that may move. A leaf is then
{y : G y ≤ h, low ≤ y ≤ high}: one row of G, of length 1, for each node on its path. Nodes with a single weight become
ends of ranges instead, exact to the last float by the tree's own arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from treelu.tree.oblique_tree import ObliqueTree
from treelu.tree.questions.permitted import Permitted
from treelu.tree.rows import dense, dense_row, node_scores

_FINE, _EXACT = 2.0**-16, 2.0**30  # weights that are multiples of one, below the other, add without rounding
_EPS = float(np.finfo(np.float64).eps)
Path = tuple[tuple[int, int], ...]  # the (node, side) pairs from the root to a leaf


@dataclass(frozen=True)
class Polyhedron:
    """Changes y with ``G @ y <= h`` within a box.

    Attributes
    ----------
    G, h : arrays of shape (m, u) and (m,)
    strict : bool array of shape (m,)
        Whether the plane itself is outside.
    noise : array of shape (m,)
        How far rounding in the tree's own sums may move each plane.
    low, high : arrays of shape (u,)
        The box in units of y.
    first, last : arrays of shape (u,)
        The same box as values of the features, exact.
    """

    G: np.ndarray
    h: np.ndarray
    strict: np.ndarray
    noise: np.ndarray
    low: np.ndarray
    high: np.ndarray
    first: np.ndarray
    last: np.ndarray

    def empty_by_bounds(self) -> bool:
        """Whether the box alone shows that there is no such y."""
        if (self.first > self.last).any():
            return True
        return bool((box_minimum(self.G, self.low, self.high) > self.h + 1e-9 * (1 + np.abs(self.h))).any())

    def inset(self, margin: float, *, strict_only: bool = False) -> Polyhedron:
        """The same with each plane moved inwards by ``margin`` and a multiple of its noise."""
        by = margin * (1.0 + self.noise / 1e-9)
        return replace(self, h=self.h - (by * self.strict if strict_only else by))

    def widened(self) -> Polyhedron:
        """The same with each plane moved outwards by more than the tree's own sums are rounded by."""
        return replace(self, h=self.h + 1e-9 * (1 + np.abs(self.h)) + 8 * self.noise)

    def within(self, low: np.ndarray, high: np.ndarray) -> Polyhedron:
        """The same in a smaller box of y."""
        return replace(self, low=np.maximum(self.low, low), high=np.minimum(self.high, high))


def box_minimum(G: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The least value of each row of G @ y with low <= y <= high."""
    positive, negative = np.maximum(G, 0.0), np.minimum(G, 0.0)
    with np.errstate(invalid="ignore"):
        terms = np.where(G > 0, positive * low, 0.0) + np.where(G < 0, negative * high, 0.0)
    return terms.sum(axis=1)


class Splits:
    """What does not depend on a row: which features are used, and where nodes with one weight turn right."""

    def __init__(self, tree: ObliqueTree) -> None:
        self.tree = tree
        self.used = np.zeros(tree.n_features, dtype=bool)
        self.used[tree.used_features()] = True
        weights: sparse.csr_array = sparse.csr_array(tree.weights, copy=True)
        weights.eliminate_zeros()
        one = np.diff(weights.indptr) == 1
        self.feature = np.full(tree.n_splits, -1)
        self.first_right, self.last_left = np.zeros(tree.n_splits), np.zeros(tree.n_splits)
        self.sign = np.zeros(tree.n_splits)
        nodes = np.flatnonzero(one)
        if len(nodes):
            places = weights.indptr[nodes]
            right, left, known = turning_points(weights.data[places], tree.biases[nodes])
            nodes, places = nodes[known], places[known]
            self.feature[nodes] = weights.indices[places]
            self.sign[nodes] = np.sign(weights.data[places])
            self.first_right[nodes], self.last_left[nodes] = right[known], left[known]

    def range_of(self, node: int, side: int) -> tuple[float, float]:
        """The values of a single-weight node's feature that take a side, both ends included."""
        end = self.first_right[node] if side else self.last_left[node]
        rises = (self.sign[node] > 0) == bool(side)
        return (float(end), np.inf) if rises else (-np.inf, float(end))


def turning_points(weights: np.ndarray, biases: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For nodes with one weight: the last float on the right, the first on the left, and whether they were found.

    ``weight * x + bias >= 0`` is monotone in x in floating point too; so a step of one float away from −bias / weight
    at a time leads there, nearly always at once.

    Examples
    --------
    >>> right, left, known = turning_points(np.array([1.0, -3.0]), np.array([-2.0, 1.0]))
    >>> right
    array([2.        , 0.33333333])
    >>> left > right
    array([False,  True])
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        at = np.array(-biases / weights)
        outward = np.where(weights > 0, -np.inf, np.inf)  # from right to left

        def right(x: np.ndarray) -> np.ndarray:
            return weights * x + biases >= 0

        for _ in range(64):
            wrong = ~right(at)
            at = np.where(wrong, np.nextafter(at, -outward), at)
            if not wrong.any():
                break
        for _ in range(64):
            further = right(np.nextafter(at, outward))
            at = np.where(further, np.nextafter(at, outward), at)
            if not further.any():
                break
        left = np.nextafter(at, outward)
        known = np.isfinite(at) & np.isfinite(left) & right(at) & ~right(left)
    return at, left, known


class Surroundings:
    """A row, what may move, and the nodes' tests on its changes."""

    def __init__(self, splits: Splits, permitted: Permitted, x: np.ndarray) -> None:
        tree = splits.tree
        self.splits, self.permitted, self.x = splits, permitted, x
        grouped = np.zeros(tree.n_features, dtype=bool)
        for group in permitted.groups:
            grouped[group] = True
        outside = (x < permitted.low) | (x > permitted.high) | (permitted.whole & (x != np.round(x)))
        self.movable = np.flatnonzero(((splits.used | grouped) & (permitted.low < permitted.high)) | outside)
        self.scale = permitted.scale[self.movable]
        self.first, self.last = permitted.low[self.movable], permitted.high[self.movable]
        self.whole = permitted.whole[self.movable]
        place = {int(j): k for k, j in enumerate(self.movable)}
        groups = [np.array([place[int(j)] for j in group if int(j) in place], int) for group in permitted.groups]
        self.groups = [group for group in groups if len(group)]  # one that stays as it is has nothing to move
        self.place = place
        weights = dense(tree.weights[:, self.movable])
        self.G, self.h, self.noise, self.length = self.unit_rows(weights, tree.weights @ x + tree.biases)
        self.noise = self.noise + self._size(tree) * _EPS / np.where(self.length > 0, self.length, 1.0)
        self.step = self._steps(tree)
        for node in np.flatnonzero(self.length == 0).tolist():  # decided by what stays: by the tree's own sums
            self.h[node] = node_scores(x[None], np.zeros(1, dtype=int), tree.weights, tree.biases, node)[0]

    def _size(self, tree: ObliqueTree) -> np.ndarray:
        """The sum of |weight × value| at each node, which bounds the rounding of its score."""
        return abs(tree.weights) @ np.abs(self.x) + np.abs(tree.biases)

    def _steps(self, tree: ObliqueTree) -> np.ndarray:
        """By how much a node's scores differ at least, of whole numbers with weights that add without rounding.

        Such weights are multiples of a power of two; the greatest common divisor of weights and bias is the step. It is
        0 where a score may take any value, or where rounding may decide on which side of 0 it is.
        """
        moving = np.zeros(tree.n_features, dtype=bool)
        moving[self.movable[~self.whole]] = True
        odd = moving | (self.x != np.round(self.x)) | (np.abs(self.x) > _EXACT)
        odd[self.movable[self.whole]] = False
        steps = np.zeros(tree.n_splits)
        for node in range(tree.n_splits):
            weights = dense_row(tree.weights, node)
            used = weights != 0
            if (used & odd).any():
                continue
            units = np.append(weights[used], tree.biases[node]) / _FINE
            if (units == np.round(units)).all() and (np.abs(units) < _EXACT).all():
                steps[node] = np.gcd.reduce(units.astype(np.int64)) * _FINE
        return steps

    def unit_rows(
        self, weights: np.ndarray, scores: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """``weights @ (x - x₀) + scores`` in y, divided by the length of its row; that length last."""
        rows = weights * self.scale
        length = np.linalg.norm(rows, axis=1)
        divisor = np.where(length > 0, length, 1.0)
        return rows / divisor[:, None], scores / divisor, np.zeros(len(scores)), length

    def side_costs(self, norm: str) -> np.ndarray:
        """The least distance to each side of each node, infinite where no permitted row takes it: (n_splits, 2)."""
        low, high = (self.first - self.x[self.movable]) / self.scale, (self.last - self.x[self.movable]) / self.scale
        dual = {"l1": np.abs(self.G).max(axis=1, initial=0.0), "linf": np.abs(self.G).sum(axis=1)}.get(norm)
        if dual is None:
            dual = np.linalg.norm(self.G, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            away = np.where(dual > 0, np.abs(self.h) / dual, np.inf)
        slack = 1e-9 * (1 + np.abs(self.h)) * (self.length > 0)
        smallest = box_minimum(self.G, low, high) + self.h
        largest = -box_minimum(-self.G, low, high) + self.h
        right = np.where(self.h >= 0, 0.0, away)
        left = np.where(self.h < 0, 0.0, away)
        costs = np.column_stack([np.where(smallest < slack, left, np.inf), np.where(largest >= -slack, right, np.inf)])
        for node in np.flatnonzero(self.splits.feature >= 0).tolist():
            costs[node] = [self._single_cost(node, side) for side in (0, 1)]
        return costs

    def _single_cost(self, node: int, side: int) -> float:
        j = int(self.splits.feature[node])
        first, last = self.splits.range_of(node, side)
        value = float(self.x[j])
        if j not in self.place:
            return 0.0 if first <= value <= last else np.inf
        first, last = max(first, self.permitted.low[j]), min(last, self.permitted.high[j])
        if first > last:
            return np.inf
        return float(max(first - value, value - last, 0.0) / self.permitted.scale[j])

    def polyhedron(self, path: Path, weights: np.ndarray, scores: np.ndarray, strict: np.ndarray) -> Polyhedron:
        """The changes that follow a path and for which also ``weights @ (x - x₀) + scores`` is ≥ 0 (> 0 if strict)."""
        first, last = self.first.copy(), self.last.copy()
        rows: list[int] = []
        signs: list[float] = []
        for node, side in path:
            j = int(self.splits.feature[node])
            if j < 0:
                rows.append(node)
                signs.append(-1.0 if side else 1.0)
            elif j in self.place:
                low, high = self.splits.range_of(node, side)
                k = self.place[j]
                first[k], last[k] = max(first[k], low), min(last[k], high)
        first, last = np.where(self.whole, np.ceil(first), first), np.where(self.whole, np.floor(last), last)
        moving = self.length[rows] > 0 if rows else np.zeros(0, dtype=bool)
        nodes, sign = np.array(rows, dtype=int)[moving], np.array(signs)[moving]
        G, h, strictly, noise = sign[:, None] * self.G[nodes], -sign * self.h[nodes], sign > 0, self.noise[nodes]
        h = h - strictly * self.step[nodes] / 2 / self.length[nodes]  # halfway to the nearest score below 0
        if len(weights):
            more, level, no_noise, _ = self.unit_rows(weights[:, self.movable], scores)
            size = np.abs(weights) @ np.abs(self.x) + np.abs(scores)
            G, h, strictly = np.vstack([G, -more]), np.r_[h, level], np.r_[strictly, strict]
            noise = np.r_[noise, no_noise + size * _EPS]
        at = self.x[self.movable]
        return Polyhedron(G, h, strictly, noise, (first - at) / self.scale, (last - at) / self.scale, first, last)

    def row(self, y: np.ndarray, shape: Polyhedron) -> np.ndarray:
        """The row x₀ + scale · y, within the ranges and without changes that only rounding made."""
        moved = np.clip(self.x[self.movable] + self.scale * y, shape.first, shape.last)
        at = self.x[self.movable]
        still = (np.abs(y) <= 1e-11) & (shape.first <= at) & (at <= shape.last)
        moved = np.where(still, at, moved)
        result = self.x.copy()
        result[self.movable] = np.where(self.whole, np.round(moved), moved)
        return result
