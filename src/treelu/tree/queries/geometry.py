"""The leaves of a tree as polyhedra around a row, and pairs of leaves around a pair of rows.

A change of the row x₀ is written y = (x − x₀) / scale, over the features that may move. A leaf is then
{y : G y ≤ h, low ≤ y ≤ high}: one row of G, of length 1, for each node on its path. Nodes with a single weight become
ends of ranges instead, exact to the last float by the tree's own arithmetic. G and h are rounded and serve to find
points; beside them stand the same conditions in the tree's own numbers, on which proofs are checked.

Two rows that differ in some features only are one row of more variables: x, then those features of the second row.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from treelu.tree.oblique_tree import ObliqueTree
from treelu.tree.queries.exact import ExactRows, one_row_excludes
from treelu.tree.queries.polyhedron import DUAL_NORM, Polyhedron, length
from treelu.tree.rows import dense, node_scores

if TYPE_CHECKING:
    from treelu.tree.queries.goal import Conditions
    from treelu.tree.queries.limits import Limits

_FINE, _EXACT = 2.0**-16, 2.0**30  # weights that are multiples of one, below the other, have a common divisor
_EPS = float(np.finfo(np.float64).eps)
Path = tuple[tuple[int, int], ...]  # the (node, side) pairs from the root to a leaf


class Splits:
    """What does not depend on a row: which features are used, and where nodes with one weight turn right.

    Attributes
    ----------
    weights, biases : arrays of shape (n, n_features) and (n,)
    direction, factor : arrays of shape (n,)
        See `directions`.
    own : bool array of shape (n,)
        Whether the tree adds each sum in the order of the variables.
    feature, sign, first_right, last_left : arrays of shape (n,)
        Of nodes with a single weight: its feature (otherwise -1) and sign, and the values where they turn.
    """

    def __init__(self, tree: ObliqueTree) -> None:
        self.tree = tree
        self.used = np.zeros(tree.n_features, dtype=bool)
        self.used[tree.used_features()] = True
        self.weights, self.biases = dense(tree.weights), tree.biases
        self.direction, self.factor = directions(self.weights)
        self.own = np.ones(tree.n_splits, dtype=bool)
        self.feature = np.full(tree.n_splits, -1)
        self.first_right, self.last_left, self.sign = np.zeros((3, tree.n_splits))
        nodes = np.flatnonzero(np.count_nonzero(self.weights, axis=1) == 1)
        features = (self.weights[nodes] != 0).argmax(axis=1)
        weights = self.weights[nodes, features]
        right, left, known = turning_points(weights, tree.biases[nodes])
        nodes = nodes[known]
        self.feature[nodes], self.sign[nodes] = features[known], np.sign(weights[known])
        self.first_right[nodes], self.last_left[nodes] = right[known], left[known]

    def of_pairs(self, features: np.ndarray) -> Splits:
        """The splits of two rows that differ in some features: those of the first, then those of the second.

        A sum of the second row without any of these features is the same sum as the first row's.
        """
        pairs, n, n_features = copy(self), len(self.biases), self.weights.shape[1]
        reads = (self.weights[:, features] != 0).any(axis=1)
        place = np.arange(n_features + 1)
        place[features] = n_features + np.arange(len(features))
        place[-1] = -1  # of nodes with several weights
        pairs.used = np.r_[self.used, self.used[features]]
        pairs.weights = np.vstack([for_pairs(self.weights, features, second) for second in (False, True)])
        pairs.own = np.r_[self.own, ~reads]
        pairs.direction = np.r_[self.direction, self.direction + n * reads]
        pairs.feature = np.r_[self.feature, place[self.feature]]
        for name in ("biases", "factor", "sign", "first_right", "last_left"):
            setattr(pairs, name, np.tile(getattr(self, name), 2))
        return pairs

    def range_of(self, node: int, side: int) -> tuple[float, float]:
        """The values of a single-weight node's feature that take a side, both ends included."""
        end = self.first_right[node] if side else self.last_left[node]
        rises = (self.sign[node] > 0) == bool(side)
        return (float(end), np.inf) if rises else (-np.inf, float(end))


def for_pairs(weights: np.ndarray, features: np.ndarray, second: bool) -> np.ndarray:
    """Weights (m, n_features) of one row of a pair as weights of the variables of both.

    Examples
    --------
    >>> for_pairs(np.array([[1.0, 2.0]]), np.array([1]), second=False)
    array([[1., 2., 0.]])
    >>> for_pairs(np.array([[1.0, 2.0]]), np.array([1]), second=True)
    array([[1., 0., 2.]])
    """
    own = weights[:, features]
    if not second:
        return np.hstack([weights, np.zeros_like(own)])
    shared = weights.copy()
    shared[:, features] = 0.0
    return np.hstack([shared, own])


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
            next_is_right = right(np.nextafter(at, outward))
            at = np.where(next_is_right, np.nextafter(at, outward), at)
            if not next_is_right.any():
                break
        left = np.nextafter(at, outward)
        known = np.isfinite(at) & np.isfinite(left) & right(at) & ~right(left)
    return at, left, known


class Surroundings:
    """A row, what may move, and the nodes' tests on its changes."""

    def __init__(self, splits: Splits, limits: Limits, x: np.ndarray, shifts: tuple[tuple[int, int], ...] = ()) -> None:
        self.splits, self.limits, self.x, self.shifts = splits, limits, x, shifts
        outside = (x < limits.low) | (x > limits.high) | (limits.whole & (x != np.round(x)))
        self.movable = np.flatnonzero(limits.free(splits.used) | outside)
        self.scale, self.whole = limits.scale[self.movable], limits.whole[self.movable]
        self.first, self.last = limits.low[self.movable], limits.high[self.movable]
        self.place = {int(j): k for k, j in enumerate(self.movable)}
        groups = [np.array([self.place[int(j)] for j in group if int(j) in self.place], int) for group in limits.groups]
        self.groups = [group for group in groups if len(group)]  # one that stays as it is has nothing to move
        self.low, self.high = x.copy(), x.copy()
        self.low[self.movable], self.high[self.movable] = self.first, self.last
        self.reach = np.maximum(np.abs(self.low), np.abs(self.high))
        weights = splits.weights[:, self.movable]
        with np.errstate(over="ignore", invalid="ignore"):
            scores = np.nan_to_num(splits.weights @ x + splits.biases)
            sizes = np.abs(splits.weights) @ np.abs(x) + np.abs(splits.biases)
        self.moves = (weights != 0).any(axis=1)
        self.G, self.h, self.length = self._unit_rows(weights, scores)
        self.noise = np.minimum(sizes / self.length * _EPS, 1e300)
        self.step = self._steps()
        self.adds_exactly = self._adds_exactly()
        tree, row = splits.tree, x[None, : splits.tree.n_features]
        for node in np.flatnonzero(~self.moves).tolist():  # decided by what stays: by the tree's own sums
            own = node % tree.n_splits  # what stays is the same in both rows of a pair
            self.h[node] = node_scores(row, np.zeros(1, dtype=int), tree.weights, tree.biases, own)[0]

    def counted(self) -> list[np.ndarray]:
        """The groups as places of what may move, with members that the ranges fix: a change of each counts as one."""
        named = ([self.place[j] for j in group if j in self.place] for group in self.limits.named_groups)
        return [np.array(group) for group in named if group]

    def _steps(self) -> np.ndarray:
        """By how much a node's scores differ at least, of integers with weights that have a common divisor.

        Such weights are multiples of a power of two; the greatest common divisor of weights and bias is the step. It is
        0 where a score may take any value.
        """
        fractional = self.x != np.round(self.x)
        fractional[self.movable] = ~self.whole
        steps = np.zeros(len(self.h))
        for node, weights in enumerate(self.splits.weights):
            used = weights != 0
            if (used & fractional).any():
                continue
            units = np.append(weights[used], self.splits.biases[node]) / _FINE
            if (units == np.round(units)).all() and (np.abs(units) < _EXACT).all():
                steps[node] = np.gcd.reduce(units.astype(np.int64)) * _FINE
        return steps

    def _adds_exactly(self) -> np.ndarray:
        """The nodes whose sums of integers have no more than 53 bits."""
        used = self.splits.weights != 0
        with np.errstate(invalid="ignore", over="ignore"):
            most = np.where(used, np.abs(self.splits.weights) * self.reach, 0.0).sum(axis=1)
            return (self.step > 0) & (most + np.abs(self.splits.biases) < self.step * 2.0**52)

    def _unit_rows(self, weights: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """``weights @ (x - x₀) + scores`` in y, divided by the length of its row; that length last.

        Weights may be so small or large that their squares are not floats, so a power of two is taken out first.
        """
        with np.errstate(over="ignore", under="ignore"):
            _, exponent = np.frexp(np.abs(weights).max(axis=1, initial=0.0))
            rows = np.ldexp(weights, -exponent[:, None]) * self.scale
            size = np.linalg.norm(rows, axis=1)
            divisor = np.where(size > 0, size, 1.0)
            h = np.clip(np.ldexp(scores, -exponent) / divisor, -1e300, 1e300)
            return rows / divisor[:, None], h, np.maximum(np.ldexp(divisor, exponent), 1e-305)

    def side_costs(self, norm: str) -> np.ndarray:
        """The least distance to each side of each node, infinite where no permitted row takes it: (n_splits, 2)."""
        dual = length(self.G, DUAL_NORM[norm])
        with np.errstate(divide="ignore", invalid="ignore"):
            away = np.where(dual > 0, np.abs(self.h) / dual, np.inf)
            away = np.where(self.moves & np.isinf(away), 0.0, away)
        costs = np.column_stack([np.where(self.h < 0, 0.0, away), np.where(self.h >= 0, 0.0, away)])
        nodes = np.flatnonzero(self.moves)
        for side in (0, 1):
            rows = self._exact_rows(nodes, np.full(len(nodes), side))
            costs[nodes[one_row_excludes(rows, self.low, self.high)], side] = np.inf
        for node in np.flatnonzero(self.splits.feature >= 0).tolist():
            costs[node] = [self._single_cost(node, side) for side in (0, 1)]
        return costs

    def _exact_rows(self, nodes: np.ndarray, sides: np.ndarray) -> ExactRows:
        """The sides of nodes as conditions in the tree's own numbers: score < 0 on the left, −score ≤ 0 on the right.

        The sign of a floating-point sum of two numbers is exact, so a bias adds no error.
        """
        splits, sign = self.splits, np.where(sides == 1, -1.0, 1.0)
        stepped = self.adds_exactly[nodes] & (sign > 0)  # of integers: score <= -step
        offsets = sign * splits.biases[nodes] + np.where(stepped, self.step[nodes], 0.0)
        weights = sign[:, None] * splits.weights[nodes]
        return ExactRows(
            weights, offsets, (sign > 0) & ~stepped, np.zeros(len(nodes)), splits.direction[nodes],
            sign * splits.factor[nodes], self.length[nodes], np.zeros_like(weights), splits.own[nodes],
            np.where(self.adds_exactly[nodes, None], 0.0, np.abs(weights)),
        )  # fmt: skip

    def _single_cost(self, node: int, side: int) -> float:
        j = int(self.splits.feature[node])
        first, last = self.splits.range_of(node, side)
        first, last, value = max(first, self.low[j]), min(last, self.high[j]), float(self.x[j])
        return np.inf if first > last else float(max(first - value, value - last, 0.0) / self.limits.scale[j])

    def polyhedron(self, path: Path, *conditions: Conditions) -> Polyhedron:
        """The changes that follow a path and fulfil conditions, such as those of a leaf."""
        first, last = self.first.copy(), self.last.copy()
        steps: list[tuple[int, int]] = []
        for node, side in path:
            j = int(self.splits.feature[node])
            if j in self.place:
                low, high = self.splits.range_of(node, side)
                k = self.place[j]
                first[k], last[k] = max(first[k], low), min(last[k], high)
            elif j < 0 and self.moves[node]:
                steps.append((node, side))
        first, last = np.where(self.whole, np.ceil(first), first), np.where(self.whole, np.floor(last), last)
        nodes, sides = np.array(steps, dtype=int).reshape(-1, 2).T
        sign = np.where(sides == 1, -1.0, 1.0)
        strict, at = sign > 0, self.x[self.movable]
        # For integers, halfway to the nearest score below 0.
        h = -sign * self.h[nodes] - strict * self.step[nodes] / 2 / self.length[nodes]
        shape = Polyhedron(
            sign[:, None] * self.G[nodes], h, strict, self.noise[nodes],
            (first - at) / self.scale, (last - at) / self.scale, first, last,
            self._exact_rows(nodes, sides), self.x, self.movable, self.scale, self.shifts,
        )  # fmt: skip
        for more in conditions:
            shape = self._fulfilling(shape, more)
        return shape

    def _fulfilling(self, shape: Polyhedron, conditions: Conditions) -> Polyhedron:
        weights, offsets = conditions.weights, conditions.offsets
        if not len(offsets):
            return shape
        G, h, size = self._unit_rows(weights[:, self.movable], weights @ self.x + offsets)
        noise = (np.abs(weights) @ np.abs(self.x) + np.abs(offsets)) / size * _EPS
        return shape.and_also(-G, h, conditions.strict, noise, conditions.exact_rows(self.reach, size))

    def row(self, y: np.ndarray, shape: Polyhedron) -> np.ndarray:
        """The row x₀ + scale · y, within the ranges and without changes that only rounding made."""
        at = self.x[self.movable]
        moved = np.clip(at + self.scale * y, shape.first, shape.last)
        still = (np.abs(y) <= 1e-11) & (shape.first <= at) & (at <= shape.last)
        moved = np.where(still, at, moved)
        result = self.x.copy()
        result[self.movable] = np.where(self.whole, np.round(moved), moved)
        return result
