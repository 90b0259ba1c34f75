"""The nearest rows with the answer that a goal asks for: leaves by lower bounds of their distance.

`nearest` is what every query about a row calls.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from treelu.tree.queries.counterfactual import Counterfactual, NearestRow, changes_between, predicted
from treelu.tree.queries.geometry import Path, Surroundings
from treelu.tree.queries.goal import Conditions, Goal
from treelu.tree.queries.integers import BranchAndBound, Discrete
from treelu.tree.queries.limits import Budget, Limits
from treelu.tree.queries.points import (
    deeper_points,
    deepest_point,
    least_distance,
    nearest_point,
    points_inside,
    proved_empty,
    surrogate_bound,
)
from treelu.tree.queries.polyhedron import DUAL_NORM, Polyhedron, length

_CUTS = 200


def nearest(
    row: np.ndarray,
    goal: Goal,
    limits: Limits,
    *,
    norm: str = "l1",
    max_changes: int | None = None,
    n: int = 1,
    budget_seconds: float | None = None,
) -> Counterfactual:
    """The n permitted rows nearest to a row that get the answer, each in another leaf.

    Parameters
    ----------
    row : array of shape (n_features,)
    goal : Goal
        The answer.
    limits : Limits
        What the row may become: see :meth:`Limits.around`.
    norm, max_changes, n, budget_seconds
        As in :meth:`ObliqueTree.counterfactual`.
    """
    check_norm(norm)
    if max_changes is not None and max_changes < 1:
        raise ValueError(f"max_changes must be at least 1, got {max_changes}")
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    tree = goal.tree
    search = _Search(goal, Surroundings(limits.splits, limits, row), norm, max_changes, Budget(budget_seconds))
    found = tuple(
        NearestRow(after, distance, predicted(tree, after), tree.n_splits + leaf, changes_between(tree, row, after))
        for after, distance, leaf in itertools.islice(search.rows(), n)
    )
    return Counterfactual(
        goal.words, predicted(tree, row), found, norm, search.bound, tree.n_leaves, search.n_solved, search.n_undecided,
        limits.words,
    )  # fmt: skip


def check_norm(norm: str) -> None:
    """Raise unless ``norm`` is one of those that can be asked for."""
    if norm not in DUAL_NORM:
        raise ValueError(f"norm must be one of {', '.join(DUAL_NORM)}, got {norm!r}")


Found = tuple[np.ndarray, float, int]  # a row with the answer, its distance, and its leaf from 0
_NODE, _LEAF, _SOLVED, _ROW = range(4)  # of entries of the queue; of equal bounds the later stage comes last


class _Search:
    """One search: a queue of nodes, leaves, solved leaves and rows by lower bounds of their distance."""

    def __init__(self, goal: Goal, place: Surroundings, norm: str, max_changes: int | None, budget: Budget) -> None:
        self.goal, self.place, self.norm, self.budget, self.tree = goal, place, norm, budget, goal.tree
        self.costs = place.side_costs(norm)
        self.discrete = Discrete(place.whole, place.groups, max_changes, place.counted())
        self.queue: list[tuple[float, int, int, Any]] = []
        self.order = itertools.count()
        self.bound = np.inf  # no row nearer than this has the answer; infinite where there is none at all
        self.n_solved = 0  # leaves whose programme was solved
        self.n_undecided = 0  # leaves without a row or a proof that there is none; ``bound`` counts them

    def push(self, bound: float, stage: int, what: Any) -> None:
        if np.isfinite(bound):
            heapq.heappush(self.queue, (bound, stage, next(self.order), what))

    def rows(self) -> Iterator[Found]:
        tree, seen, x = self.tree, set(), self.place.x
        leaf = int(tree.apply(x[None])[0]) - tree.n_splits
        if self._is_answer(x, leaf):  # on a plane, solvers may miss it
            self.bound = 0.0
            seen.add(leaf)
            yield x, 0.0, leaf
        if self.goal.below[0]:
            self.push(0.0, _NODE, (0, ()))
        while self.queue:
            bound, stage, _, what = heapq.heappop(self.queue)
            if stage != _ROW and self.budget.spent():
                self._undecided(bound)
                continue
            if stage == _NODE and what[0] < tree.n_splits:
                self._branch(bound, *what)
            elif stage == _NODE:
                self._measure(bound, *what)
            elif stage == _LEAF:
                self._solve(bound, *what)
            elif stage == _SOLVED:
                self._realise(bound, *what)
            elif what[2] not in seen:
                seen.add(what[2])
                yield what

    def _branch(self, bound: float, node: int, path: Path) -> None:
        for side, child in enumerate(self.tree.children[node].tolist()):
            if self.goal.below[child]:
                self.push(max(bound, self.costs[node, side]), _NODE, (child, (*path, (node, side))))

    def _measure(self, bound: float, node: int, path: Path) -> None:
        """A better bound of a leaf's distance, from its path as a whole."""
        leaf = node - self.tree.n_splits
        for way in self.goal.leaves[leaf]:
            shape = self.place.polyhedron(path, way)
            if shape.empty_by_bounds():
                continue
            if not shape.has_room():  # one row alone
                if self.discrete.permits(shape.low):
                    self.push(max(bound, length(shape.low, self.norm)), _SOLVED, (shape, leaf, way, shape.low))
                continue
            better = max(bound, length(np.clip(0.0, shape.low, shape.high), self.norm))
            if not len(shape.h) and way.softmax is None and not self.discrete.groups:
                self._solved_box(shape, leaf, way)
                continue
            if self.norm != "l2" and len(shape.h):
                _, multipliers = least_distance(shape.G, shape.h)
                better = max(better, surrogate_bound(shape.G, shape.h, multipliers, self.norm))
            self.push(better, _LEAF, (shape, leaf, way))

    def _solved_box(self, shape: Polyhedron, leaf: int, way: Conditions) -> None:
        """A leaf that is a box: its nearest point needs no programme."""
        goal = np.where(self.discrete.whole, np.round(shape.at), shape.at)
        y = (np.clip(goal, shape.first, shape.last) - shape.at) / shape.scale
        if self.discrete.permits(y):
            self.push(length(y, self.norm), _SOLVED, (shape, leaf, way, y))

    def _undecided(self, bound: float) -> None:
        self.n_undecided += 1
        self.bound = min(self.bound, bound)

    def _solve(self, bound: float, shape: Polyhedron, leaf: int, way: Conditions) -> None:
        self.n_solved += 1
        if self.discrete.any:
            self._solve_discrete(bound, shape, leaf, way)
            return
        y, cut = self._nearest(shape, leaf, way)
        if y is None:
            deep = deepest_point(cut)
            if proved_empty(cut, deep):
                return
            if deep is None or way.softmax is not None:
                self._undecided(bound)
                return
            y = deep.y  # the solver is wrong, or it is not: rows will show
        else:
            bound = max(bound, float(length(y, self.norm)))
        self.push(bound, _SOLVED, (shape, leaf, way, y))

    def _solve_discrete(self, bound: float, shape: Polyhedron, leaf: int, way: Conditions) -> None:
        """The nearest row of a leaf with integers, which the tree itself has checked."""

        def relax(part: Polyhedron) -> tuple[float, np.ndarray] | None:
            y, _ = self._nearest(part, leaf, way)
            if y is None or self.norm != "linf":
                return None if y is None else (float(length(y, self.norm)), y)
            # No larger steps than one feature must take anyhow, and as few of them as will do.
            reach = self.discrete.steps(length(y, "linf"), part.scale)
            few = nearest_point(part.within(-reach, reach))
            return float(length(y, "linf")), y if few is None else few

        def settle(part: Polyhedron) -> tuple[float, np.ndarray] | None:
            for y in points_inside(part, lambda inner: self._nearest(inner, leaf, way)[0]):
                row = self.place.row(y, part)
                if self._is_answer(row, leaf):
                    return self._distance(row), row
            return None

        below = min((entry[0] for entry in self.queue if entry[1] == _ROW), default=np.inf)

        def is_empty(part: Polyhedron) -> bool:
            return proved_empty(part if way.softmax is None else self._nearest(part, leaf, way)[1])

        search = BranchAndBound(self.discrete, relax, settle, self.budget, self.norm, below, is_empty)
        least, found = search.best(shape)
        self.bound = min(self.bound, max(bound, least))
        if found is not None:
            self.push(max(bound, found[0]), _ROW, (found[1], found[0], leaf))
        elif least < below:
            self._undecided(max(bound, least))
        else:  # it has no nearer row than one that is known; it may have its turn after that one
            self.push(float(np.nextafter(below, np.inf)), _LEAF, (shape, leaf, way))

    def _distance(self, row: np.ndarray) -> float:
        return float(length((row - self.place.x) / self.place.limits.scale, self.norm))

    def _nearest(
        self, shape: Polyhedron, leaf: int, way: Conditions, margin: float = 0.0
    ) -> tuple[np.ndarray | None, Polyhedron]:
        """The nearest point of a leaf; a convex limit is approached by planes that touch it, returned with the leaf."""
        for _ in range(_CUTS):
            y = nearest_point(shape, self.norm)
            if y is None or way.softmax is None:
                return y, shape
            excess, gradient, condition = self._softmax_cut(y, leaf, *way.softmax)
            if excess <= 1e-10 - margin:
                return y, shape
            size = float(np.linalg.norm(gradient))
            if size == 0:
                return None, shape
            limit = (gradient @ y - excess - margin) / size
            exact = condition.exact_rows(self.place.reach, np.array([size]))
            shape = shape.and_also(gradient[None] / size, np.array([limit]), condition.strict, np.zeros(1), exact)
        return y, shape

    def _softmax_cut(self, y: np.ndarray, leaf: int, k: int, least: float) -> tuple[float, np.ndarray, Conditions]:
        """log Σ exp(s_j − s_k) + log p, at most 0 where class k has probability p or more; its gradient; its tangent.

        For any probabilities q, log Σ exp(z_j) ≥ Σ q_j z_j + H(q): a condition that all such rows fulfil.
        """
        tree, place = self.tree, self.place
        assert tree.leaf_weights is not None
        weights = tree.leaf_weights[leaf] - tree.leaf_weights[leaf, k]
        values = tree.values[leaf] - tree.values[leaf, k]
        gradients = weights[:, place.movable] * place.scale
        scores = weights @ place.x + values + gradients @ y
        top = scores.max()
        parts = np.exp(scores - top)
        q = parts / parts.sum()
        entropy = float(-(q[q > 0] * np.log(q[q > 0])).sum()) - 1e-12
        sizes = np.abs(tree.leaf_weights[leaf]) + np.abs(tree.leaf_weights[leaf, k])
        offset = float(q @ values + entropy + np.log(least))
        slack = 1e-12 * (1 + abs(offset) + float(q @ (np.abs(tree.values[leaf]) + abs(tree.values[leaf, k]))))
        tangent = Conditions(
            -(q @ weights)[None], np.array([-offset]), np.zeros(1, dtype=bool), None,
            (len(q) + 2) * (q @ sizes)[None], np.where(q @ sizes > 0, np.nan, 0.0)[None], np.array([slack]),
        )  # fmt: skip
        return float(top + np.log(parts.sum()) + np.log(least)), q @ gradients, tangent

    def _realise(self, bound: float, shape: Polyhedron, leaf: int, way: Conditions, y: np.ndarray) -> None:
        """A row of floats at the nearest point, or as near to it as the tree's own sums permit."""
        for row in self._rows_near(shape, leaf, way, y):
            if self._is_answer(row, leaf):
                distance = self._distance(row)
                self.bound = min(self.bound, float(bound), distance)
                self.push(max(bound, distance), _ROW, (row, distance, leaf))
                return
        if shape.has_room() and not proved_empty(self._nearest(shape, leaf, way)[1]):
            self._undecided(float(bound))

    def _rows_near(self, shape: Polyhedron, leaf: int, way: Conditions, y: np.ndarray) -> Iterator[np.ndarray]:
        yield self.place.row(y, shape)
        if not shape.has_room():
            return
        for beyond in (1e-13, 1e-11, 1e-9):  # past all planes that lie between the row and the leaf
            yield self.place.row(y * (1 + beyond), shape)
        for inner in deeper_points(shape, lambda part, margin: self._nearest(part, leaf, way, margin)[0]):
            yield self.place.row(inner, shape)
        deep = deepest_point(shape)
        if deep is not None:
            yield self.place.row(deep.y, shape)

    def _is_answer(self, row: np.ndarray, leaf: int) -> bool:
        """Whether a row is permitted, comes to a leaf and has the answer, by the tree's own arithmetic."""
        if not self.place.limits.holds(row) or not self.goal.holds(row[None])[0]:
            return False
        return int(self.tree.apply(row[None])[0]) == self.tree.n_splits + leaf
