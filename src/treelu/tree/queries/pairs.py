"""Pairs of rows that differ only in some features: which of them break a property, found over pairs of leaves.

"Never falls when x_j rises" fails exactly when for some leaves A and B there are x in A and x + t e_j in B, t > 0, with
a higher output in A. Pairs of nodes are taken from the root down: a pair is left where its outputs cannot break the
property, or where bounds or a linear programme show that no such x exists.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from treelu.tree.oblique_tree import ObliqueTree
from treelu.tree.queries.geometry import Path, Surroundings, for_pairs
from treelu.tree.queries.goal import ROUNDED, Conditions, Output, class_conditions, exact_sum, interval, leaf_classes
from treelu.tree.queries.integers import Discrete, UndecidedError, some_row
from treelu.tree.queries.limits import Budget, Limits
from treelu.tree.queries.points import deepest_point, proved_empty
from treelu.tree.queries.polyhedron import Polyhedron

_THIN = 1e-9  # in units of scale: a region that is deeper has points
_SEAM = 1e-12  # of the leaves' range: a difference that counts as none
_VISIBLE = 30.0  # scores whose probabilities floats tell apart
_TRIED = 65  # values of a feature, for a pair whose outputs differ more


# What breaks a property, leaf by leaf


class Levels:
    """An output that must not be higher in the first row of a pair than in the second.

    With linear leaves a probability is compared by its score, the log-odds: it rises with the score, and does not round
    to 0 or 1 where that is large. Differences of scores or values up to 1e-12 of the leaves' range count as none:
    leaves that meet in one value at a split differ there by rounding.
    """

    def __init__(self, limits: Limits, value: Output, sign: int = 1, tolerance: float = 0.0) -> None:
        tree = limits.tree
        self.value, self.sign, self.tolerance = value, sign, tolerance
        self.linear = tree.leaf_weights is not None
        if self.linear and tolerance and value.k is not None:
            raise ValueError("tolerance is for values and for constant leaves, not for probabilities of linear leaves")
        self.low, self.high = np.full(tree.n_nodes, -np.inf), np.full(tree.n_nodes, np.inf)
        if self.linear:
            self.forms = [value.leaf_form(leaf) for leaf in range(tree.n_leaves)]
            self.tolerance += _SEAM * self._range(limits)
        else:
            self.low[tree.n_splits :] = self.high[tree.n_splits :] = sign * value.leaf_values()
            for node in range(tree.n_splits - 1, -1, -1):
                pair = tree.children[node]
                self.low[node], self.high[node] = self.low[pair].min(), self.high[pair].max()

    def _range(self, limits: Limits) -> float:
        """How far the outputs of the leaves spread over the permitted ranges; over one unit where there is no end."""
        weights, levels = np.array([form[0] for form in self.forms]), np.array([form[1] for form in self.forms])
        with np.errstate(invalid="ignore", over="ignore"):
            width = limits.high - limits.low
        width = np.where(np.isfinite(width), width, limits.scale)
        return float(np.ptp(levels) + (np.abs(weights) @ width).max(initial=0.0))

    def harmless(self, first: int, second: int) -> bool:
        """Whether no leaves at or below two nodes can break the property."""
        return bool(self.high[first] <= self.low[second] + self.tolerance)

    def same_leaf(self, leaf: int, features: list[int], ordered: bool) -> bool:
        """Whether two rows of one leaf cannot break the property; floating-point sums are monotone in each term."""
        if not self.linear:
            return True
        weights = self.sign * self.forms[leaf][0][features]
        return bool((weights >= 0).all() if ordered else (weights == 0).all())

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
        self, limits: Limits, features: list[int], *, ordered: bool, levels: Levels | Classes,
        budget_seconds: float | None = None,
    ) -> None:  # fmt: skip
        self.tree, self.limits, self.ordered, self.levels = limits.tree, limits, ordered, levels
        self.budget, self.n_undecided = Budget(budget_seconds), 0
        self.features = features
        free = limits.free(limits.splits.used)
        self.own = np.array([j for j in features if free[j]], dtype=int)
        weights, x = limits.splits.weights[:, self.own], limits.centre()
        # Where a pair of rows may part: x left and x' right, or the other way round.
        self.parts_right: np.ndarray = np.any(weights > 0 if ordered else weights != 0, axis=1)
        self.parts_left: np.ndarray = np.any(weights < 0 if ordered else weights != 0, axis=1)
        self.place = Surroundings(
            limits.splits.of_pairs(self.own), limits.of_pairs(self.own), np.r_[x, x[self.own]], self._shifts(weights)
        )
        self.discrete = Discrete(self.place.whole, self.place.groups)
        self.costs = self.place.side_costs("l2")

    def _shifts(self, weights: np.ndarray) -> tuple[tuple[int, int], ...]:
        """Directions (of the first row, of the second) whose sums are ordered as the rows are, in floats too."""
        splits, n = self.limits.splits, self.tree.n_splits
        result = set()
        for node in np.flatnonzero((weights != 0).any(axis=1)).tolist() if self.ordered else ():
            d = int(splits.direction[node])
            result.add((d, d + n) if weights[node, 0] * splits.factor[node] > 0 else (d + n, d))
        return tuple(sorted(result))

    def find(self) -> np.ndarray | None:
        """Two rows that break the property; None where none was found, a proof where ``n_undecided`` is 0."""
        if not len(self.own):
            return None
        stack: list[tuple[int, int, Path, np.ndarray | None]] = [(0, 0, (), None)]
        n_splits, levels = self.tree.n_splits, self.levels
        while stack:
            a, b, path, known = stack.pop()
            if self.budget.spent():
                self.n_undecided += 1
                return None
            if levels.harmless(a, b) or (a == b >= n_splits and levels.same_leaf(
                    a - n_splits, self.features, self.ordered)):  # fmt: skip
                continue
            if a >= n_splits and b >= n_splits:
                pair = self._test(a - n_splits, b - n_splits, path)
                if pair is not None:
                    return pair
                continue
            for child_a, child_b, longer in self._children(a, b, path):
                if levels.harmless(child_a, child_b):
                    continue
                possible, point = self._possible(self._shape(longer), known)
                if possible:
                    stack.append((child_a, child_b, longer, point))
        return None

    def clearer(self, pair: np.ndarray) -> np.ndarray:
        """The same rows with other values of the feature that rises, where their outputs differ more; else the pair.

        The search stops at the first pair, whose values may lie on either side of a split, a billionth apart.
        """
        (j,), limits, levels = self.own.tolist(), self.limits, self.levels
        assert isinstance(levels, Levels)
        ends = limits.low[j], limits.high[j]
        if not np.isfinite(ends).all():
            return pair
        values = np.r_[np.linspace(*ends, _TRIED), pair[:, j]]
        values = np.unique(np.clip(np.round(values), *ends) if limits.whole[j] else values)
        rows = np.repeat(pair[:1], len(values), axis=0)
        rows[:, j] = values
        outputs = levels.sign * levels.value.of(rows)
        second = int(np.argmax(np.maximum.accumulate(outputs) - outputs))
        first = int(np.flatnonzero(outputs[: second + 1] == outputs[: second + 1].max())[-1])
        before, after = levels.sign * levels.value.of(pair)
        found = rows[[first, second]]
        better = outputs[first] - outputs[second] > before - after and all(map(limits.holds, found))
        return found if better and levels.broken(found) else pair

    def _children(self, a: int, b: int, path: Path) -> Iterator[tuple[int, int, Path]]:
        """The pairs of branches that two rows at nodes a and b can take; nodes of the second row follow the others."""
        children, n = self.tree.children, self.tree.n_splits
        if a == b:
            sides = [(0, 0), (1, 1)]
            sides += [(0, 1)] if self.parts_right[a] else []
            sides += [(1, 0)] if self.parts_left[a] else []
            for s, t in sides:
                if np.isfinite(self.costs[a, s]) and np.isfinite(self.costs[a, t]):
                    yield int(children[a, s]), int(children[a, t]), (*path, (a, s), (n + a, t))
            return
        first = a < n and (b >= n or a < b)
        node = a if first else b
        for s in (0, 1):
            if np.isfinite(self.costs[node, s]):
                child = int(children[node, s])
                yield (child, b, (*path, (a, s))) if first else (a, child, (*path, (n + b, s)))

    def _possible(self, shape: Polyhedron, known: np.ndarray | None) -> tuple[bool, np.ndarray | None]:
        """Whether two such rows exist, and a point that shows it."""
        if shape.empty_by_bounds():
            return False, None
        if known is not None:
            inside = (shape.G @ known + _THIN < shape.h).all()
            if inside and (shape.low <= known).all() and (known <= shape.high).all():
                return True, known
        self.budget.n_solved += 1
        deep = deepest_point(shape)
        if deep is not None and deep.depth > _THIN:
            return True, deep.y
        return not proved_empty(shape, deep), None

    def _shape(self, path: Path, *conditions: Conditions) -> Polyhedron:
        """Pairs of rows that follow their paths, in their order, and fulfil conditions."""
        return self.place.polyhedron(path, *conditions, *([self._order()] if self.ordered else []))

    def _order(self) -> Conditions:
        """x_j < x'_j; two integers that are not the same differ by 1."""
        weights = np.zeros((1, len(self.place.x)))
        weights[0, self.own[0]], weights[0, -1] = -1.0, 1.0
        whole = self.limits.whole[self.own]
        return Conditions(weights, -whole.astype(float), ~whole, magnitude=np.zeros_like(weights))

    def _broken(self, first: np.ndarray, second: np.ndarray, offset: float) -> Conditions:
        """``first @ x + second @ x' + offset > 0``."""
        mine, other = for_pairs(first[None], self.own, False), for_pairs(second[None], self.own, True)
        weights, rest = exact_sum(mine, other)
        slack = np.array([ROUNDED * abs(offset)])
        return Conditions(
            weights, np.array([offset]), np.ones(1, dtype=bool), None, np.abs(mine) + np.abs(other), rest, slack
        )

    def _test(self, a: int, b: int, path: Path) -> np.ndarray | None:
        """Two rows in leaves a and b that break the property, if there are any."""
        if not self.levels.linear:
            return self._realised(self._shape(path))
        if isinstance(self.levels, Classes):
            for k, other in self.levels.pairs():
                ways = class_conditions(self.tree, a, k), class_conditions(self.tree, b, other)
                shape = self._shape(path, *(way.of_pairs(self.own, bool(i)) for i, way in enumerate(ways)))
                pair = self._realised(shape) if self._possible(shape, None)[0] else None
                if pair is not None:
                    return pair
            return None
        broken = self._broken(*self.levels.broken_where(a, b))
        pair = self._realised(self._shape(path, broken))
        if pair is None or self.levels.visible(pair):
            return pair
        # Both probabilities round to the same number: a pair whose scores are small shows the difference better.
        n_undecided, (form, level) = self.n_undecided, self.levels.forms[a]
        near = interval(form, level, -_VISIBLE, _VISIBLE, 0.0).of_pairs(self.own, second=False)
        clearer = self._realised(self._shape(path, near, broken))
        self.n_undecided = n_undecided
        return pair if clearer is None else clearer

    def _realised(self, shape: Polyhedron) -> np.ndarray | None:
        """Two rows of floats in a region, checked by the tree's own prediction; none and no proof: undecided."""
        try:
            return some_row(shape, self.discrete, self._pair, self.budget)
        except UndecidedError:
            self.n_undecided += 1
            return None

    def _pair(self, point: np.ndarray, shape: Polyhedron) -> np.ndarray | None:
        """The two rows of a point, where they are permitted and break the property."""
        both = self.place.row(point, shape)
        pair = np.tile(both[: self.tree.n_features], (2, 1))
        pair[1, self.own] = both[self.tree.n_features :]
        if self.ordered and not pair[0, self.own[0]] < pair[1, self.own[0]]:
            return None
        return pair if all(self.limits.holds(row) for row in pair) and self.levels.broken(pair) else None
