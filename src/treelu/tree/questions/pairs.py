"""Pairs of rows that differ only in some features: which of them break a property, found over pairs of leaves.

"Never falls when x_j rises" fails exactly when for some leaves A and B there are x in A and x + t e_j in B, t > 0, with
a higher output in A. Pairs of nodes are taken from the root down: a pair is left where its outputs cannot break the
property, or where bounds or a linear programme show that no such x exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from treelu.tree.oblique_tree import ObliqueTree
from treelu.tree.questions.geometry import Path, Polyhedron, Splits, Surroundings
from treelu.tree.questions.permitted import Permitted
from treelu.tree.questions.programmes import UnboundedError, deepest_point, largest_value, nearest_point
from treelu.tree.questions.ranges import Output, centre, nearest_by_sum
from treelu.tree.questions.wanted import class_conditions, leaf_classes
from treelu.tree.questions.whole import Discrete, UndecidedError, WholeSearch, rows_inside

_THIN = 1e-9  # in units of scale: a region that is thinner counts as empty
_MARGINS = (1e-6, 1e-8)
_FAR = 1e6  # where a linear form has no end, rows are looked for up to here
Pair = tuple[np.ndarray, np.ndarray]


# What breaks a property, leaf by leaf


class Levels:
    """An output that must not be higher in the first row of a pair than in the second."""

    def __init__(self, tree: ObliqueTree, value: Output, sign: int, tolerance: float = 0.0) -> None:
        self.tree, self.value, self.sign, self.tolerance = tree, value, sign, tolerance
        self.linear = tree.leaf_weights is not None
        if self.linear and tolerance and value.k is not None:
            raise ValueError("tolerance is for values and for constant leaves, not for probabilities of linear leaves")
        self.low, self.high = np.full(tree.n_nodes, -np.inf), np.full(tree.n_nodes, np.inf)
        if not self.linear:
            self.low[tree.n_splits :] = self.high[tree.n_splits :] = sign * value.leaf_values()
            for node in range(tree.n_splits - 1, -1, -1):
                pair = tree.children[node]
                self.low[node], self.high[node] = self.low[pair].min(), self.high[pair].max()

    def harmless(self, first: int, second: int) -> bool:
        """Whether no leaves at or below two nodes can break the property."""
        return bool(self.high[first] <= self.low[second] + self.tolerance)

    def form(self, first: int, second: int) -> tuple[np.ndarray, np.ndarray, float]:
        """For linear leaves: weights of the first and second row and an offset, broken where the sum is above 0."""
        (a, level_a), (b, level_b) = self.value.leaf_form(first), self.value.leaf_form(second)
        return self.sign * a, -self.sign * b, self.sign * (level_a - level_b) - self.tolerance

    def broken(self, pair: np.ndarray) -> bool:
        """Whether two rows break the property by the tree's own prediction."""
        first, second = self.sign * self.value.of(pair)
        return bool(first > second + self.tolerance)


class Classes:
    """Predicted classes that must be the same."""

    def __init__(self, tree: ObliqueTree) -> None:
        self.tree, self.linear = tree, tree.leaf_weights is not None
        self.answers: list[set[int]] = [set() for _ in range(tree.n_nodes)]
        assert tree.classes is not None
        self.n_classes = len(tree.classes)
        given = [{int(k)} for k in leaf_classes(tree)]
        if self.linear:
            given = [set(range(self.n_classes))] * tree.n_leaves
        self.answers[tree.n_splits :] = given
        for node in range(tree.n_splits - 1, -1, -1):
            left, right = tree.children[node]
            self.answers[node] = self.answers[left] | self.answers[right]

    def harmless(self, first: int, second: int) -> bool:
        return len(self.answers[first] | self.answers[second]) == 1

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Ordered pairs of different classes."""
        n = self.n_classes
        yield from ((a, b) for a in range(n) for b in range(n) if a != b)

    def broken(self, pair: np.ndarray) -> bool:
        first, second = self.tree.predict(pair)
        return bool(first != second)


# Pairs of leaves


class PairSearch:
    """Looks for two permitted rows that differ only in some features and break a property."""

    def __init__(
        self, tree: ObliqueTree, permitted: Permitted, features: list[int], *, ordered: bool, levels: Levels | Classes
    ) -> None:
        self.tree, self.permitted, self.ordered, self.levels = tree, permitted, ordered, levels
        self.place = Surroundings(Splits(tree), permitted, centre(permitted))
        self.costs = self.place.side_costs("l2")
        self.own = np.array([self.place.place[j] for j in features if j in self.place.place], dtype=int)
        self.features = features
        self.discrete = self._discrete()
        self.n_solved = self.n_undecided = 0
        weights = self.place.G[:, self.own]
        # Where a pair of rows may part: x left and x' right, or the other way round.
        self.parts_right: np.ndarray = np.any(weights > 0 if ordered else weights != 0, axis=1)
        self.parts_left: np.ndarray = np.any(weights < 0 if ordered else weights != 0, axis=1)
        for node in np.flatnonzero(self.place.splits.feature >= 0):
            if self.place.splits.feature[node] in features:
                rising = self.place.splits.sign[node] > 0
                self.parts_right[node] = rising or not ordered
                self.parts_left[node] = not rising or not ordered

    def find(self) -> Pair | None:
        """Two rows that break the property; None where there are none."""
        if not len(self.own):
            return None
        stack: list[tuple[int, int, Path, Path, np.ndarray | None]] = [(0, 0, (), (), None)]
        n_splits = self.tree.n_splits
        while stack:
            a, b, path_a, path_b, known = stack.pop()
            if self.levels.harmless(a, b) or (a == b >= n_splits and not self.levels.linear):
                continue
            if a >= n_splits and b >= n_splits:
                pair = self._test(a - n_splits, b - n_splits, path_a, path_b)
                if pair is not None:
                    return pair
                continue
            for child_a, child_b, next_a, next_b in self._children(a, b, path_a, path_b):
                if self.levels.harmless(child_a, child_b):
                    continue
                shape = self._shape(next_a, next_b)
                possible, point = self._possible(shape, known)
                if possible:
                    stack.append((child_a, child_b, next_a, next_b, point))
        return None

    def _children(self, a: int, b: int, path_a: Path, path_b: Path) -> Iterator[tuple[int, int, Path, Path]]:
        """The pairs of branches that two rows at nodes a and b can take."""
        children, n_splits = self.tree.children, self.tree.n_splits
        if a == b:
            sides = [(0, 0), (1, 1)]
            sides += [(0, 1)] if self.parts_right[a] else []
            sides += [(1, 0)] if self.parts_left[a] else []
            for s, t in sides:
                if np.isfinite(self.costs[a, s]) and np.isfinite(self.costs[a, t]):
                    yield int(children[a, s]), int(children[a, t]), (*path_a, (a, s)), (*path_b, (a, t))
        elif a < n_splits and (b >= n_splits or a < b):
            for s in (0, 1):
                if np.isfinite(self.costs[a, s]):
                    yield int(children[a, s]), b, (*path_a, (a, s)), path_b
        else:
            for s in (0, 1):
                if np.isfinite(self.costs[b, s]):
                    yield a, int(children[b, s]), path_a, (*path_b, (b, s))

    def _possible(self, shape: Polyhedron, known: np.ndarray | None) -> tuple[bool, np.ndarray | None]:
        """Whether two such rows exist, and a point that shows it."""
        if shape.empty_by_bounds():
            return False, None
        if known is not None and len(known) == shape.G.shape[1]:
            inside = (shape.G @ known + _THIN < shape.h).all()
            if inside and (shape.low <= known).all() and (known <= shape.high).all():
                return True, known
        self.n_solved += 1
        deep = deepest_point(shape)
        if deep is None or deep[0] < -_THIN:
            return False, None
        if deep[0] > _THIN or self.discrete.any:
            return True, deep[1]
        # No depth: rows may still lie on planes that belong to the region.
        flat = deepest_point(shape, strict_only=True)
        return (False, None) if flat is None or flat[0] <= _THIN else (True, flat[1])

    def _shape(self, path_a: Path, path_b: Path, a_rows: Any = None, b_rows: Any = None) -> Polyhedron:
        """Pairs (y, y') with y on one path and y' on another, which share all but the features asked about.

        The variables are y, then y' of those features. ``a_rows``, ``b_rows``: conditions of linear leaves.
        """
        none = (np.zeros((0, self.tree.n_features)), np.zeros(0), np.zeros(0, dtype=bool))
        first, second = (self.place.polyhedron(path, *(rows or none))
                         for path, rows in ((path_a, a_rows), (path_b, b_rows)))  # fmt: skip
        own, q = self.own, len(self.own)
        shared = np.ones(first.G.shape[1], dtype=bool)
        shared[own] = False
        G = [np.hstack([first.G, np.zeros((len(first.h), q))]), np.hstack([second.G * shared, second.G[:, own]])]
        h, strict = [first.h, second.h], [first.strict, second.strict]
        noise = [first.noise, second.noise]
        if self.ordered:  # y_j ≤ y'_j
            row = np.zeros((1, len(shared) + q))
            row[0, own[0]], row[0, -1] = np.sqrt(0.5), -np.sqrt(0.5)
            G.append(row)
            # Two whole numbers that are not the same differ by 1.
            h.append(-np.sqrt(0.5) / self.place.scale[own] if self.place.whole[own[0]] else np.zeros(1))
            strict.append(np.zeros(1, dtype=bool))
            noise.append(np.zeros(1))

        def joined(of_first: np.ndarray, of_second: np.ndarray, meet: Any) -> np.ndarray:
            return np.r_[np.where(shared, meet(of_first, of_second), of_first), of_second[own]]

        return Polyhedron(
            np.vstack(G), np.concatenate(h), np.concatenate(strict), np.concatenate(noise),
            joined(first.low, second.low, np.maximum), joined(first.high, second.high, np.minimum),
            joined(first.first, second.first, np.maximum), joined(first.last, second.last, np.minimum),
        )  # fmt: skip

    def _discrete(self) -> Discrete:
        """Whole numbers and groups of both rows."""
        place, own = self.place, self.own
        at = place.x[place.movable]
        groups = list(place.groups)
        for group in place.groups:
            inside = np.isin(own, group)
            if inside.any():
                groups.append(len(at) + np.flatnonzero(inside))
        return Discrete(np.r_[place.whole, place.whole[own]], np.r_[at, at[own]],
                        np.r_[place.scale, place.scale[own]], groups)  # fmt: skip

    def _rows(self, point: np.ndarray, shape: Polyhedron) -> np.ndarray:
        """The two rows of a point."""
        place, u = self.place, len(self.place.movable)
        at, scale, whole = (np.r_[part, part[self.own]] for part in (place.x[place.movable], place.scale, place.whole))
        values = np.clip(at + scale * point, shape.first, shape.last)
        values = np.where(whole, np.round(values), values)
        rows = np.stack([place.x, place.x])
        rows[:, place.movable] = values[:u]
        rows[1, place.movable[self.own]] = values[u:]
        return rows

    def _test(self, a: int, b: int, path_a: Path, path_b: Path) -> Pair | None:
        """Two rows in leaves a and b that break the property, if there are any."""
        if not self.levels.linear:
            return self._realised(self._shape(path_a, path_b))
        if isinstance(self.levels, Classes):
            for k, other in self.levels.pairs():
                ways = [class_conditions(self.tree, leaf, label) for leaf, label in ((a, k), (b, other))]
                rows = [(way.weights, way.weights @ self.place.x + way.offsets, way.strict) for way in ways]
                shape = self._shape(path_a, path_b, *rows)
                if self._possible(shape, None)[0]:
                    pair = self._realised(shape)
                    if pair is not None:
                        return pair
            return None
        return self._largest(self._shape(path_a, path_b), *self.levels.form(a, b))

    def _realised(self, shape: Polyhedron) -> Pair | None:
        """Two rows of floats in a region, checked by the tree's own prediction."""
        if self.discrete.any:
            return self._whole(nearest_by_sum, shape, lambda inner: nearest_point(inner, "l1"))
        return self._accepted(self._points(shape), shape)

    def _accepted(self, points: Iterator[np.ndarray], shape: Polyhedron) -> Pair | None:
        for point in points:
            pair = self._rows(point, shape)
            if self._breaks(pair):
                return pair[0], pair[1]
        return None

    def _whole(self, relax: Any, shape: Polyhedron, inside: Any) -> Pair | None:
        """Two rows with whole numbers; a search that is given up leaves the property undecided."""

        def settle(part: Polyhedron) -> tuple[float, Pair] | None:
            pair = self._accepted(rows_inside(part, inside, _MARGINS), part)
            return None if pair is None else (-np.inf, pair)  # any pair will do

        search = WholeSearch(self.discrete, relax, settle)
        try:
            return search.any(shape)
        except UndecidedError:
            self.n_undecided += 1
            return None
        finally:
            self.n_solved += search.n_solved

    def _points(self, shape: Polyhedron) -> Iterator[np.ndarray]:
        deep = deepest_point(shape)
        if deep is not None:
            yield deep[1]
        for strict_only in (False, True):
            for margin in _MARGINS:
                self.n_solved += 1
                point = nearest_point(shape.inset(margin, strict_only=strict_only), "l1")
                if point is not None:
                    yield point

    def _largest(self, shape: Polyhedron, first: np.ndarray, second: np.ndarray, offset: float) -> Pair | None:
        """Two rows where ``first @ x + second @ x' + offset`` is above 0 by more than rounding."""
        place, own = self.place, self.own
        a, b = first[place.movable] * place.scale, second[place.movable] * place.scale
        shared = np.ones(len(a), dtype=bool)
        shared[own] = False
        form = np.r_[a + b * shared, b[own]]
        level = float(first @ place.x + second @ place.x + offset)
        least = 1e-9 * (1 + np.abs(form).sum() + abs(level))
        far = np.full(len(form), _FAR)

        def largest(part: Polyhedron) -> np.ndarray | None:
            try:
                return largest_value(part, form)
            except UnboundedError:
                return largest_value(part.within(-far, far), form)

        def relax(part: Polyhedron) -> tuple[float, np.ndarray] | None:
            point = largest(part)
            above = -np.inf if point is None else float(form @ point + level)
            return (-above, point) if point is not None and above > least else None

        if self.discrete.any:
            return self._whole(relax, shape, largest)
        for margin in (0.0, 1e-9, 1e-7, 1e-5):
            self.n_solved += 1
            found = relax(shape.inset(margin))
            if found is None:
                return None
            pair = self._accepted(iter([found[1]]), shape)
            if pair is not None:
                return pair
        return None

    def _breaks(self, pair: np.ndarray) -> bool:
        j = self.features
        if self.ordered and not pair[0, j[0]] < pair[1, j[0]]:
            return False
        return all(self.permitted.holds(row) for row in pair) and self.levels.broken(pair)
