"""The leaves of a tree as polyhedra around a row.

A change of the row x₀ is written y = (x − x₀) / scale, over the features that may move. A leaf is then
{y : G y ≤ h, low ≤ y ≤ high}: one row of G, of length 1, for each node on its path. Nodes with a single weight become
ends of ranges instead, exact to the last float by the tree's own arithmetic. G and h are rounded and serve to find
points; beside them stand the same conditions in the tree's own numbers, on which proofs are checked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from treelu.tree.oblique_tree import ObliqueTree
from treelu.tree.queries.exact import ExactRows, contradictory, one_row_excludes
from treelu.tree.queries.permitted import Permitted
from treelu.tree.rows import dense, node_scores

if TYPE_CHECKING:
    from treelu.tree.queries.wanted import Conditions

_FINE, _EXACT = 2.0**-16, 2.0**30  # weights that are multiples of one, below the other, have a common divisor
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
    exact : ExactRows or None
        The conditions in the tree's own numbers, over all variables; None where no proof is asked for.
    base, place : arrays of shape (n,) and (u,)
        Values of all variables, and which of them may move.
    shifts : tuple of pairs
        Directions (a, b) of which the sum a is never above the sum b.
    """

    G: np.ndarray
    h: np.ndarray
    strict: np.ndarray
    noise: np.ndarray
    low: np.ndarray
    high: np.ndarray
    first: np.ndarray
    last: np.ndarray
    exact: ExactRows | None = None
    base: np.ndarray | None = None
    place: np.ndarray | None = None
    shifts: tuple[tuple[int, int], ...] = ()

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """The ranges of all variables, in the features' own units."""
        assert self.base is not None
        low, high = self.base.copy(), self.base.copy()
        low[self.place], high[self.place] = self.first, self.last
        return low, high

    def empty_by_bounds(self) -> bool:
        """Whether the box, or two thresholds on one sum, prove that there is no such row."""
        if (self.first > self.last).any():
            return True
        if self.exact is None or not len(self.exact):
            return False
        return contradictory(self.exact, self.shifts) or bool(one_row_excludes(self.exact, *self.box()).any())

    def inset(self, margin: float, *, strict_only: bool = False) -> Polyhedron:
        """The same with each plane moved inwards by ``margin`` and a multiple of its noise."""
        by = margin * (1.0 + self.noise / 1e-9)
        return replace(self, h=self.h - (by * self.strict if strict_only else by))

    def widened(self) -> Polyhedron:
        """The same with each plane moved outwards by more than the tree's own sums are rounded by."""
        by = 1e-9 * (1 + np.abs(self.h)) + 8 * self.noise
        if self.exact is not None:
            error = self.exact.within(*self.box()).error / self.exact.size
            by[: len(error)] += np.nan_to_num(2 * error, posinf=0.0)
        return replace(self, h=self.h + by)

    def within(self, low: np.ndarray, high: np.ndarray) -> Polyhedron:
        """The same in a smaller box of y."""
        return replace(self, low=np.maximum(self.low, low), high=np.minimum(self.high, high))

    def reached(self, reach: float, at: np.ndarray, scale: np.ndarray) -> Polyhedron:
        """The same with |y| ≤ reach, in the ranges of values too."""
        ends = np.full(len(at), reach)
        first, last = np.nextafter(at - scale * ends, -np.inf), np.nextafter(at + scale * ends, np.inf)
        shape = self.within(-ends, ends)
        return replace(shape, first=np.maximum(self.first, first), last=np.minimum(self.last, last))


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
        self.weights = dense(tree.weights)
        self.direction, self.factor = directions(self.weights)

    def range_of(self, node: int, side: int) -> tuple[float, float]:
        """The values of a single-weight node's feature that take a side, both ends included."""
        end = self.first_right[node] if side else self.last_left[node]
        rises = (self.sign[node] > 0) == bool(side)
        return (float(end), np.inf) if rises else (-np.inf, float(end))


def directions(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes whose weights differ by a sign and a power of two have the same number; and that factor.

    Their floating-point sums differ by the same factor, to the last bit.

    Examples
    --------
    >>> directions(np.array([[1.0, 3.0], [-2.0, -6.0], [1.0, 2.0]]))
    (array([0, 0, 1]), array([ 1., -2.,  1.]))
    """
    numbers: dict[bytes, int] = {}
    direction, factor = np.zeros(len(weights), dtype=int), np.ones(len(weights))
    for node, row in enumerate(weights):
        used = np.flatnonzero(row)
        size = np.abs(row[used])
        if len(used) and size.min() > 1e-100 and size.max() < 1e100:
            factor[node] = np.sign(row[used[0]]) * 2.0 ** np.frexp(row[used[0]])[1]
        direction[node] = numbers.setdefault((row / factor[node] + 0.0).tobytes(), len(numbers))
    if len(factor):
        first = np.unique(direction, return_index=True)[1]
        factor = factor / factor[first][direction]
    return direction, factor


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
        self.low, self.high = x.copy(), x.copy()
        self.low[self.movable], self.high[self.movable] = self.first, self.last
        self.reach = np.maximum(np.abs(self.low), np.abs(self.high))
        weights = splits.weights[:, self.movable]
        with np.errstate(over="ignore", invalid="ignore"):
            scores = np.nan_to_num(splits.weights @ x + tree.biases)
            sizes = np.abs(splits.weights) @ np.abs(x) + np.abs(tree.biases)
        self.moves = (weights != 0).any(axis=1)
        self.G, self.h, self.length = self.unit_rows(weights, scores)
        self.noise = np.minimum(sizes / self.length * _EPS, 1e300)
        self.step = self._steps(tree)
        self.adds_exactly = self._adds_exactly()
        for node in np.flatnonzero(~self.moves).tolist():  # decided by what stays: by the tree's own sums
            self.h[node] = node_scores(x[None], np.zeros(1, dtype=int), tree.weights, tree.biases, node)[0]

    def _steps(self, tree: ObliqueTree) -> np.ndarray:
        """By how much a node's scores differ at least, of integers with weights that have a common divisor.

        Such weights are multiples of a power of two; the greatest common divisor of weights and bias is the step. It is
        0 where a score may take any value.
        """
        moving = np.zeros(tree.n_features, dtype=bool)
        moving[self.movable[~self.whole]] = True
        odd = moving | (self.x != np.round(self.x))
        odd[self.movable[self.whole]] = False
        steps = np.zeros(tree.n_splits)
        for node, weights in enumerate(self.splits.weights):
            used = weights != 0
            if (used & odd).any():
                continue
            units = np.append(weights[used], tree.biases[node]) / _FINE
            if (units == np.round(units)).all() and (np.abs(units) < _EXACT).all():
                steps[node] = np.gcd.reduce(units.astype(np.int64)) * _FINE
        return steps

    def _adds_exactly(self) -> np.ndarray:
        """The nodes whose sums of integers have no more than 53 bits."""
        used = self.splits.weights != 0
        with np.errstate(invalid="ignore", over="ignore"):
            most = np.where(used, np.abs(self.splits.weights) * self.reach, 0.0).sum(axis=1)
            most = most + np.abs(self.splits.tree.biases)
            return (self.step > 0) & (most < self.step * 2.0**52)

    def unit_rows(
        self, weights: np.ndarray, scores: np.ndarray, scale: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """``weights @ (x - x₀) + scores`` in y, divided by the length of its row; that length last.

        Weights may be so small or large that their squares are not floats, so a power of two is taken out first.
        """
        with np.errstate(over="ignore", under="ignore"):
            _, exponent = np.frexp(np.abs(weights).max(axis=1, initial=0.0))
            rows = np.ldexp(weights, -exponent[:, None]) * (self.scale if scale is None else scale)
            length = np.linalg.norm(rows, axis=1)
            divisor = np.where(length > 0, length, 1.0)
            h = np.clip(np.ldexp(scores, -exponent) / divisor, -1e300, 1e300)
            return rows / divisor[:, None], h, np.maximum(np.ldexp(divisor, exponent), 1e-305)

    def side_costs(self, norm: str) -> np.ndarray:
        """The least distance to each side of each node, infinite where no permitted row takes it: (n_splits, 2)."""
        dual = {"l1": np.abs(self.G).max(axis=1, initial=0.0), "linf": np.abs(self.G).sum(axis=1)}.get(norm)
        if dual is None:
            dual = np.linalg.norm(self.G, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            away = np.where(dual > 0, np.abs(self.h) / dual, np.inf)
            away = np.where(self.moves & np.isinf(away), 0.0, away)
        right = np.where(self.h >= 0, 0.0, away)
        left = np.where(self.h < 0, 0.0, away)
        costs = np.column_stack([left, right])
        nodes = np.flatnonzero(self.moves)
        for side in (0, 1):
            rows = self.exact_rows(nodes, np.full(len(nodes), side))
            costs[nodes[one_row_excludes(rows, self.low, self.high)], side] = np.inf
        for node in np.flatnonzero(self.splits.feature >= 0).tolist():
            costs[node] = [self._single_cost(node, side) for side in (0, 1)]
        return costs

    def exact_rows(self, nodes: np.ndarray, sides: np.ndarray) -> ExactRows:
        """The sides of nodes as conditions in the tree's own numbers: score < 0 on the left, −score ≤ 0 on the right.

        The sign of a floating-point sum of two numbers is exact, so a bias adds no error.
        """
        sign = np.where(sides == 1, -1.0, 1.0)
        stepped = self.adds_exactly[nodes] & (sign > 0)  # of integers: score <= -step
        offsets = sign * self.splits.tree.biases[nodes] + np.where(stepped, self.step[nodes], 0.0)
        weights = sign[:, None] * self.splits.weights[nodes]
        return ExactRows(
            weights, offsets, (sign > 0) & ~stepped, np.zeros(len(nodes)),
            self.splits.direction[nodes], sign * self.splits.factor[nodes], self.length[nodes],
            np.zeros_like(weights), np.ones(len(nodes), dtype=bool),
            np.where(self.adds_exactly[nodes, None], 0.0, np.abs(weights)),
        )  # fmt: skip

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

    def polyhedron(self, path: Path, conditions: Conditions | None = None) -> Polyhedron:
        """The changes that follow a path and fulfil the conditions of a leaf."""
        first, last = self.first.copy(), self.last.copy()
        steps: list[tuple[int, int]] = []
        for node, side in path:
            j = int(self.splits.feature[node])
            if j in self.place and j >= 0:
                low, high = self.splits.range_of(node, side)
                k = self.place[j]
                first[k], last[k] = max(first[k], low), min(last[k], high)
            elif j < 0 and self.moves[node]:
                steps.append((node, side))
        first, last = np.where(self.whole, np.ceil(first), first), np.where(self.whole, np.floor(last), last)
        nodes, sides = np.array(steps, dtype=int).reshape(-1, 2).T
        sign = np.where(sides == 1, -1.0, 1.0)
        G, h, strictly, noise = sign[:, None] * self.G[nodes], -sign * self.h[nodes], sign > 0, self.noise[nodes]
        h = h - strictly * self.step[nodes] / 2 / self.length[nodes]  # halfway to the nearest score below 0
        exact = self.exact_rows(nodes, sides)
        if conditions is not None and len(conditions.offsets):
            more, level, size = self.unit_rows(
                conditions.weights[:, self.movable], conditions.weights @ self.x + conditions.offsets
            )
            sums = np.abs(conditions.weights) @ np.abs(self.x) + np.abs(conditions.offsets)
            G, h, strictly = np.vstack([G, -more]), np.r_[h, level], np.r_[strictly, conditions.strict]
            noise = np.r_[noise, sums / size * _EPS]
            exact = exact.and_also(conditions.exact_rows(self.reach, size))
        at = self.x[self.movable]
        return Polyhedron(G, h, strictly, noise, (first - at) / self.scale, (last - at) / self.scale, first, last,
                          exact, self.x, self.movable)  # fmt: skip

    def row(self, y: np.ndarray, shape: Polyhedron) -> np.ndarray:
        """The row x₀ + scale · y, within the ranges and without changes that only rounding made."""
        moved = np.clip(self.x[self.movable] + self.scale * y, shape.first, shape.last)
        at = self.x[self.movable]
        still = (np.abs(y) <= 1e-11) & (shape.first <= at) & (at <= shape.last)
        moved = np.where(still, at, moved)
        result = self.x.copy()
        result[self.movable] = np.where(self.whole, np.round(moved), moved)
        return result
