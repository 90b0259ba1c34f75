"""Pairs of rows that differ only in some features: which of them break a property, found over pairs of leaves.

"Never falls when x_j rises" fails exactly when for some leaves A and B there are x in A and x + t e_j in B, t > 0, with
a higher output in A. Pairs of nodes are taken from the root down: a pair is left where its outputs cannot break the
property, or where bounds or a linear programme show that no such x exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treelu.tree.oblique_tree import ObliqueTree
from treelu.tree.queries.exact import ExactRows, rows_alone
from treelu.tree.queries.geometry import Path, Polyhedron, Splits, Surroundings
from treelu.tree.queries.permitted import Permitted
from treelu.tree.queries.programmes import UnboundedError, UnsolvedError, deepest_point, proved_empty
from treelu.tree.queries.ranges import Output, centre, nearest_by_sum, nearest_or_none
from treelu.tree.queries.wanted import ROUNDED, Conditions, class_conditions, exact_sum, interval, leaf_classes
from treelu.tree.queries.whole import Budget, Discrete, UndecidedError, WholeSearch, check_budget, rows_inside

_THIN = 1e-9  # in units of scale: a region that is deeper has points
_MARGINS = (1e-6, 1e-8, 1e-10)
_SEAM = 1e-12  # of the leaves' range: a difference that counts as none
_TERMS = ("weights", "rest", "magnitude")  # of `ExactRows`, by variable
_VISIBLE = 30.0  # scores whose probabilities floats tell apart
Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class _Rows:
    """Conditions on both rows of a pair, for the solver and in the tree's own numbers."""

    G: np.ndarray
    h: np.ndarray
    strict: np.ndarray
    noise: np.ndarray
    exact: ExactRows


# What breaks a property, leaf by leaf


class Levels:
    """An output that must not be higher in the first row of a pair than in the second.

    With linear leaves a probability is compared by its score, the log-odds: it rises with the score, and does not round
    to 0 or 1 where that is large. Differences of scores or values up to 1e-12 of the leaves' range count as none:
    leaves that meet in one value at a split differ there by rounding.
    """

    def __init__(
        self, tree: ObliqueTree, value: Output, sign: int, tolerance: float = 0.0, permitted: Permitted | None = None
    ) -> None:
        self.tree, self.value, self.sign, self.tolerance = tree, value, sign, tolerance
        self.linear = tree.leaf_weights is not None
        if self.linear and tolerance and value.k is not None:
            raise ValueError("tolerance is for values and for constant leaves, not for probabilities of linear leaves")
        self.low, self.high = np.full(tree.n_nodes, -np.inf), np.full(tree.n_nodes, np.inf)
        if self.linear:
            assert permitted is not None
            self.forms = [value.leaf_form(leaf) for leaf in range(tree.n_leaves)]
            self.tolerance += _SEAM * self._range(permitted)
        else:
            self.low[tree.n_splits :] = self.high[tree.n_splits :] = sign * value.leaf_values()
            for node in range(tree.n_splits - 1, -1, -1):
                pair = tree.children[node]
                self.low[node], self.high[node] = self.low[pair].min(), self.high[pair].max()

    def _range(self, permitted: Permitted) -> float:
        """How far the outputs of the leaves spread over the permitted ranges; over one unit where there is no end."""
        weights, levels = np.array([form[0] for form in self.forms]), np.array([form[1] for form in self.forms])
        with np.errstate(invalid="ignore", over="ignore"):
            width = permitted.high - permitted.low
        width = np.where(np.isfinite(width), width, permitted.scale)
        return float(np.ptp(levels) + (np.abs(weights) @ width).max(initial=0.0))

    def harmless(self, first: int, second: int) -> bool:
        """Whether no leaves at or below two nodes can break the property."""
        return bool(self.high[first] <= self.low[second] + self.tolerance)

    def same_leaf(self, leaf: int, features: list[int], ordered: bool) -> bool:
        """Whether two rows of one leaf cannot break the property; floating-point sums are monotone in each term."""
        if not self.linear:
            return True
        slopes = self.sign * self.forms[leaf][0][features]
        return bool((slopes >= 0).all() if ordered else (slopes == 0).all())

    def broken_where(self, first: int, second: int) -> tuple[np.ndarray, np.ndarray, float]:
        """For linear leaves: weights of the first and second row and an offset, broken where the sum is above 0."""
        (a, level_a), (b, level_b) = self.forms[first], self.forms[second]
        return self.sign * a, -self.sign * b, self.sign * (level_a - level_b) - self.tolerance

    def broken(self, pair: np.ndarray) -> bool:
        """Whether two rows break the property by the tree's own prediction."""
        first, second = self.sign * self.value.score(pair)
        return bool(first > second + self.tolerance)

    def visible(self, pair: np.ndarray) -> bool:
        """Whether the two outputs differ as floats."""
        first, second = self.value.of(pair)
        return bool(first != second)


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

    def same_leaf(self, leaf: int, features: list[int], ordered: bool) -> bool:
        weights = self.tree.leaf_weights
        return weights is None or bool((weights[leaf][:, features] == 0).all())

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Ordered pairs of different classes."""
        n = self.n_classes
        yield from ((a, b) for a in range(n) for b in range(n) if a != b)

    def broken(self, pair: np.ndarray) -> bool:
        first, second = self.tree.predict(pair)
        return bool(first != second)

    def visible(self, pair: np.ndarray) -> bool:
        return True


# Pairs of leaves


class PairSearch:
    """Looks for two permitted rows that differ only in some features and break a property."""

    def __init__(
        self,
        tree: ObliqueTree,
        permitted: Permitted,
        features: list[int],
        *,
        ordered: bool,
        levels: Levels | Classes,
        budget_seconds: float | None = None,
    ) -> None:
        self.tree, self.permitted, self.ordered, self.levels = tree, permitted, ordered, levels
        self.budget = Budget(check_budget(budget_seconds))
        self.place = Surroundings(Splits(tree), permitted, centre(permitted))
        self.costs = self.place.side_costs("l2")
        self.own = np.array([self.place.place[j] for j in features if j in self.place.place], dtype=int)
        self.features = features
        self.discrete = self._discrete()
        self.n_solved = self.n_undecided = 0
        weights = self.place.splits.weights[:, self.place.movable[self.own]]
        # Where a pair of rows may part: x left and x' right, or the other way round.
        self.parts_right: np.ndarray = np.any(weights > 0 if ordered else weights != 0, axis=1)
        self.parts_left: np.ndarray = np.any(weights < 0 if ordered else weights != 0, axis=1)
        self.shifts = self._shifts(weights)

    def _shifts(self, weights: np.ndarray) -> tuple[tuple[int, int], ...]:
        """Directions (of the first row, of the second) whose sums are ordered as the rows are, in floats too."""
        splits, n = self.place.splits, self.tree.n_splits
        result = set()
        for node in np.flatnonzero((weights != 0).any(axis=1)).tolist() if self.ordered else ():
            d = int(splits.direction[node])
            result.add((d, d + n) if weights[node, 0] * splits.factor[node] > 0 else (d + n, d))
        return tuple(sorted(result))

    def find(self) -> Pair | None:
        """Two rows that break the property; None where none was found, a proof where ``n_undecided`` is 0."""
        if not len(self.own):
            return None
        stack: list[tuple[int, int, Path, Path, np.ndarray | None]] = [(0, 0, (), (), None)]
        n_splits, levels = self.tree.n_splits, self.levels
        while stack:
            a, b, path_a, path_b, known = stack.pop()
            if self.budget.spent():
                self.n_undecided += 1
                return None
            if levels.harmless(a, b) or (a == b >= n_splits and levels.same_leaf(
                    a - n_splits, self.features, self.ordered)):  # fmt: skip
                continue
            if a >= n_splits and b >= n_splits:
                pair = self._test(a - n_splits, b - n_splits, path_a, path_b)
                if pair is not None:
                    return pair
                continue
            for child_a, child_b, next_a, next_b in self._children(a, b, path_a, path_b):
                if levels.harmless(child_a, child_b):
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
        try:
            deep = deepest_point(shape)
        except (UnsolvedError, UnboundedError):
            return True, None
        if deep is not None and deep.depth > _THIN:
            return True, deep.y
        return (False, None) if proved_empty(shape, deep) else (True, None)

    def _shape(
        self,
        path_a: Path,
        path_b: Path,
        conditions: tuple[Conditions | None, Conditions | None] = (None, None),
        broken: tuple[np.ndarray, np.ndarray, float] | None = None,
    ) -> Polyhedron:
        """Pairs (y, y') with y on one path and y' on another, which share all but the features asked about.

        The variables are y, then y' of those features. ``conditions`` are those of two linear leaves; ``broken`` is a
        form of both rows that must be above 0.
        """
        first, second = (self.place.polyhedron(path, one)
                         for path, one in zip((path_a, path_b), conditions, strict=True))  # fmt: skip
        own, q = self.own, len(self.own)
        shared = np.ones(first.G.shape[1], dtype=bool)
        shared[own] = False
        parts = [_Rows(np.hstack([first.G, np.zeros((len(first.h), q))]), first.h, first.strict, first.noise,
                       self._widened(first)),
                 _Rows(np.hstack([second.G * shared, second.G[:, own]]), second.h, second.strict, second.noise,
                       self._moved(second))]  # fmt: skip
        parts += [self._order()] if self.ordered else []
        parts += [self._broken(*broken)] if broken is not None else []

        def joined(of_first: np.ndarray, of_second: np.ndarray, meet: Any) -> np.ndarray:
            return np.r_[np.where(shared, meet(of_first, of_second), of_first), of_second[own]]

        place = self.place
        h, strict, noise = (np.concatenate([getattr(part, name) for part in parts])
                            for name in ("h", "strict", "noise"))  # fmt: skip
        return Polyhedron(
            np.vstack([part.G for part in parts]), h, strict, noise,
            joined(first.low, second.low, np.maximum), joined(first.high, second.high, np.minimum),
            joined(first.first, second.first, np.maximum), joined(first.last, second.last, np.minimum),
            parts[0].exact.and_also(*(part.exact for part in parts[1:])),
            np.r_[place.x, place.x[place.movable[own]]],
            np.r_[place.movable, self.tree.n_features + np.arange(q)], self.shifts,
        )  # fmt: skip

    def _widened(self, shape: Polyhedron) -> ExactRows:
        """Conditions on the first row, over the variables of both."""
        assert shape.exact is not None
        zeros = np.zeros((len(shape.exact), len(self.own)))
        return replace(shape.exact, **{name: np.hstack([getattr(shape.exact, name), zeros]) for name in _TERMS})

    def _moved(self, shape: Polyhedron) -> ExactRows:
        """Conditions on the second row. A sum without any of its own features is the same sum as the first row's."""
        exact = shape.exact
        assert exact is not None
        columns = self.place.movable[self.own]
        reads = (exact.weights[:, columns] != 0).any(axis=1)
        other = reads & (exact.direction >= 0)
        shared = np.ones(exact.weights.shape[1])
        shared[columns] = 0.0
        terms = {name: getattr(exact, name) for name in _TERMS}
        terms = {name: np.hstack([part * shared, part[:, columns]]) for name, part in terms.items()}
        return replace(exact, **terms, own=exact.own & ~reads,
                       direction=np.where(other, exact.direction + self.tree.n_splits, exact.direction))  # fmt: skip

    def _order(self) -> _Rows:
        """y_j < y'_j; two integers that are not the same differ by 1."""
        place, u, q = self.place, len(self.place.movable), len(self.own)
        row, exact = np.zeros((1, u + q)), np.zeros((1, self.tree.n_features + q))
        row[0, self.own[0]], row[0, -1] = np.sqrt(0.5), -np.sqrt(0.5)
        exact[0, place.movable[self.own[0]]], exact[0, -1] = 1.0, -1.0
        whole, scale = bool(place.whole[self.own[0]]), place.scale[self.own]
        zero, strict = np.zeros(1), np.array([not whole])
        return _Rows(row, -np.sqrt(0.5) / scale if whole else zero, np.zeros(1, dtype=bool), zero,
                     rows_alone(exact, zero + whole, strict, zero, scale * np.sqrt(2)))  # fmt: skip

    def _broken(self, first: np.ndarray, second: np.ndarray, offset: float) -> _Rows:
        """``first @ x + second @ x' + offset > 0``."""
        place = self.place
        columns = place.movable[self.own]
        shared = second.copy()
        shared[columns] = 0.0
        weights, rest = (np.r_[part, own] for part, own in zip(
            exact_sum(first, shared), (second[columns], np.zeros(len(columns))), strict=True))  # fmt: skip
        magnitude = np.r_[np.abs(first) + np.abs(shared), np.abs(second[columns])]
        condition = Conditions(weights[None], np.array([offset]), np.ones(1, dtype=bool), None, magnitude[None],
                               rest[None], np.array([ROUNDED * abs(offset)]))  # fmt: skip
        base, reach = np.r_[place.x, place.x[columns]], np.r_[place.reach, place.reach[columns]]
        moving = np.r_[place.movable, self.tree.n_features + np.arange(len(columns))]
        scale = np.r_[place.scale, place.scale[self.own]]
        G, h, size = place.unit_rows(weights[None, moving], np.array([weights @ base + offset]), scale)
        return _Rows(-G, h, condition.strict, magnitude[None] @ np.abs(base) * 1e-16 / size,
                     condition.exact_rows(reach, size))  # fmt: skip

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
                ways = class_conditions(self.tree, a, k), class_conditions(self.tree, b, other)
                shape = self._shape(path_a, path_b, ways)
                if self._possible(shape, None)[0]:
                    pair = self._realised(shape)
                    if pair is not None:
                        return pair
            return None
        broken = self.levels.broken_where(a, b)
        pair = self._realised(self._shape(path_a, path_b, broken=broken))
        if pair is None or self.levels.visible(np.stack(pair)):
            return pair
        # Both probabilities round to the same number: a pair whose scores are small shows the difference better.
        n_undecided, (form, level) = self.n_undecided, self.levels.forms[a]
        near = interval(form, level, -_VISIBLE, _VISIBLE, 0.0)
        clearer = self._realised(self._shape(path_a, path_b, (near, None), broken))
        self.n_undecided = n_undecided
        return pair if clearer is None else clearer

    def _realised(self, shape: Polyhedron) -> Pair | None:
        """Two rows of floats in a region, checked by the tree's own prediction; none and no proof: undecided."""
        if self.discrete.any:
            return self._whole(shape)
        pair = self._accepted(self._points(shape), shape)
        if pair is None and not proved_empty(shape):
            self.n_undecided += 1
        return pair

    def _accepted(self, points: Iterator[np.ndarray], shape: Polyhedron) -> Pair | None:
        for point in points:
            pair = self._rows(point, shape)
            if self._breaks(pair):
                return pair[0], pair[1]
        return None

    def _whole(self, shape: Polyhedron) -> Pair | None:
        """Two rows with integers; a search that is given up leaves the property undecided."""

        def settle(part: Polyhedron) -> tuple[float, Pair] | None:
            pair = self._accepted(rows_inside(part, nearest_or_none, _MARGINS), part)
            return None if pair is None else (-np.inf, pair)  # any pair will do

        search = WholeSearch(self.discrete, nearest_by_sum, settle, budget=self.budget)
        try:
            return search.any(shape)
        except UndecidedError:
            self.n_undecided += 1
            return None
        finally:
            self.n_solved += search.n_solved

    def _points(self, shape: Polyhedron) -> Iterator[np.ndarray]:
        try:
            deep = deepest_point(shape)
        except (UnsolvedError, UnboundedError):
            deep = None
        if deep is not None:
            yield deep.y
        for strict_only in (False, True):
            for margin in _MARGINS:
                self.n_solved += 1
                point = nearest_or_none(shape.inset(margin, strict_only=strict_only))
                if point is not None:
                    yield point

    def _breaks(self, pair: np.ndarray) -> bool:
        j = self.features
        if self.ordered and not pair[0, j[0]] < pair[1, j[0]]:
            return False
        return all(self.permitted.holds(row) for row in pair) and self.levels.broken(pair)
