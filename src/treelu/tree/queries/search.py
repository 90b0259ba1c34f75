"""The nearest rows with a wanted answer: leaves by lower bounds of their distance, until none can be nearer."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treelu.tree.oblique_tree import ObliqueTree
from treelu.tree.queries.geometry import Path, Polyhedron, Splits, Surroundings
from treelu.tree.queries.permitted import Permitted
from treelu.tree.queries.programmes import (
    Deepest,
    UnboundedError,
    UnsolvedError,
    deepest_point,
    nearest_point,
    proved_empty,
)
from treelu.tree.queries.projection import least_distance, project, surrogate_bound
from treelu.tree.queries.wanted import Conditions, Wanted
from treelu.tree.queries.whole import Budget, Discrete, WholeSearch, check_budget, has_room, rows_inside

NORMS = ("l1", "linf", "l2")
_MARGINS = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5)  # in units of scale; of a leaf that is thinner no row is found
_CUTS = 200


@dataclass(frozen=True)
class Found:
    """A row with the wanted answer, the nearest of its leaf."""

    row: np.ndarray
    distance: float
    leaf: int  # its number among the leaves


@dataclass
class Effort:
    """What a search took.

    Attributes
    ----------
    bound : float
        No row nearer than this has the answer; infinite where there is none at all.
    n_solved : int
        Leaves whose programme was solved.
    n_undecided : int
        Leaves in which no row was found and of which it is not proved that there is none; ``bound`` counts them.
    """

    bound: float = np.inf
    n_solved: int = 0
    n_undecided: int = 0


def length(y: np.ndarray, norm: str) -> float:
    """The norm of a change."""
    if norm == "l1":
        return float(np.abs(y).sum())
    return float(np.abs(y).max(initial=0.0)) if norm == "linf" else float(np.linalg.norm(y))


def check_norm(norm: str) -> None:
    """Raise unless ``norm`` is one of those that can be asked for."""
    if norm not in NORMS:
        raise ValueError(f"norm must be one of {', '.join(NORMS)}, got {norm!r}")


class NearestSearch:
    """Searches of one tree for one answer, from any number of rows.

    ``budget_seconds``: how long a search from one row may take; then what was found so far is returned, and the leaves
    that were not looked into count as undecided. None: no limit.
    """

    def __init__(
        self,
        tree: ObliqueTree,
        wanted: Wanted,
        norm: str,
        max_changes: int | None = None,
        budget_seconds: float | None = None,
    ) -> None:
        check_norm(norm)
        if max_changes is not None and max_changes < 1:
            raise ValueError(f"max_changes must be at least 1, got {max_changes}")
        self.tree, self.wanted, self.norm, self.max_changes = tree, wanted, norm, max_changes
        self.budget_seconds = check_budget(budget_seconds)
        self.splits = Splits(tree)
        self.ways = [wanted.leaf(leaf) for leaf in range(tree.n_leaves)]
        self.fits_below = self._fits_below()

    def _fits_below(self) -> np.ndarray:
        """Whether some leaf at or below each node may give the answer: bool (n_nodes,)."""
        fits = np.zeros(self.tree.n_nodes, dtype=bool)
        fits[self.tree.n_splits :] = [bool(ways) for ways in self.ways]
        for node in range(self.tree.n_splits - 1, -1, -1):
            fits[node] = fits[self.tree.children[node]].any()
        return fits

    def run(self, x: np.ndarray, permitted: Permitted, effort: Effort) -> Iterator[Found]:
        """Rows in the order of their distance, one a leaf."""
        return _Run(self, Surroundings(self.splits, permitted, x), effort).rows()


_NODE, _LEAF, _SOLVED, _ROW = range(4)  # of entries of the queue; of equal bounds the later stage comes last


class _Run:
    """One search: a queue of nodes, leaves, solved leaves and rows by lower bounds of their distance."""

    def __init__(self, search: NearestSearch, place: Surroundings, effort: Effort) -> None:
        self.search, self.place, self.effort, self.norm = search, place, effort, search.norm
        self.costs = place.side_costs(self.norm)
        at = place.x[place.movable]
        self.discrete = Discrete(place.whole, at, place.scale, place.groups, search.max_changes)
        self.budget = Budget(search.budget_seconds)
        self.queue: list[tuple[float, int, int, Any]] = []
        self.order = itertools.count()

    def push(self, bound: float, stage: int, what: Any) -> None:
        if np.isfinite(bound):
            heapq.heappush(self.queue, (bound, stage, next(self.order), what))

    def rows(self) -> Iterator[Found]:
        tree, seen, x = self.search.tree, set(), self.place.x
        leaf = int(tree.apply(x[None])[0]) - tree.n_splits
        if self._is_answer(x, leaf):  # on a plane, solvers may miss it
            self.effort.bound = 0.0
            seen.add(leaf)
            yield Found(x, 0.0, leaf)
        if self.search.fits_below[0]:
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
            elif what.leaf not in seen:
                seen.add(what.leaf)
                yield what

    def _branch(self, bound: float, node: int, path: Path) -> None:
        for side, child in enumerate(self.search.tree.children[node].tolist()):
            if self.search.fits_below[child]:
                self.push(max(bound, self.costs[node, side]), _NODE, (child, (*path, (node, side))))

    def _measure(self, bound: float, node: int, path: Path) -> None:
        """A better bound of a leaf's distance, from its path as a whole."""
        leaf = node - self.search.tree.n_splits
        for way in self.search.ways[leaf]:
            shape = self.place.polyhedron(path, way)
            if shape.empty_by_bounds():
                continue
            if not has_room(shape):  # one row alone
                self.push(max(bound, length(shape.low, self.norm)), _SOLVED, (shape, leaf, way, shape.low))
                continue
            inside = np.clip(0.0, shape.low, shape.high)
            better = max(bound, length(inside, self.norm))
            if not len(shape.h) and way.softmax is None and not self.discrete.groups:
                self._solved_box(shape, leaf, way)
                continue
            if self.norm != "l2" and len(shape.h):
                _, multipliers = least_distance(shape.G, shape.h)
                better = max(better, surrogate_bound(shape.G, shape.h, multipliers, self.norm))
            self.push(better, _LEAF, (shape, leaf, way))

    def _solved_box(self, shape: Polyhedron, leaf: int, way: Conditions) -> None:
        """A leaf that is a box: its nearest point needs no programme."""
        at = self.discrete.at
        wished = np.where(self.discrete.whole, np.round(at), at)
        y = (np.clip(wished, shape.first, shape.last) - at) / self.place.scale
        most = self.search.max_changes
        if most is None or np.count_nonzero(y) <= most:
            self.push(length(y, self.norm), _SOLVED, (shape, leaf, way, y))

    def _undecided(self, bound: float) -> None:
        self.effort.n_undecided += 1
        self.effort.bound = min(self.effort.bound, bound)

    def _solve(self, bound: float, shape: Polyhedron, leaf: int, way: Conditions) -> None:
        self.effort.n_solved += 1
        if self.discrete.any:
            self._solve_whole(bound, shape, leaf, way)
            return
        y, cut = self._nearest(shape, leaf, way, 0.0)
        if y is None:
            deep = _deepest(cut)
            if proved_empty(cut, deep):
                return
            if deep is None or way.softmax is not None:
                self._undecided(bound)
                return
            y = deep.y  # the solver is wrong, or it is not: rows will show
        else:
            bound = max(bound, length(y, self.norm))
        self.push(bound, _SOLVED, (shape, leaf, way, y))

    def _solve_whole(self, bound: float, shape: Polyhedron, leaf: int, way: Conditions) -> None:
        """The nearest row of a leaf with whole numbers, which the tree itself has checked."""

        def relax(part: Polyhedron) -> tuple[float, np.ndarray] | None:
            y, _ = self._nearest(part, leaf, way, 0.0)
            if y is None or self.norm != "linf":
                return None if y is None else (length(y, self.norm), y)
            # No larger steps than one feature must take anyhow, and as few of them as will do.
            reach = self.discrete.steps(length(y, "linf"))
            few = nearest_point(part.within(-reach, reach), "l1")
            return length(y, "linf"), y if few is None else few

        def settle(part: Polyhedron) -> tuple[float, np.ndarray] | None:
            for y in rows_inside(part, lambda inner: self._nearest(inner, leaf, way, 0.0)[0], _MARGINS):
                row = self.place.row(y, part)
                if self._is_answer(row, leaf):
                    return self._distance(row), row
            return None

        below = min((entry[0] for entry in self.queue if entry[1] == _ROW), default=np.inf)
        search = WholeSearch(self.discrete, relax, settle, self.norm, below, self.budget)
        least, found = search.best(shape)
        self.effort.bound = min(self.effort.bound, max(bound, least))
        if found is not None:
            self.push(max(bound, found[0]), _ROW, Found(found[1], found[0], leaf))
        elif least < below:
            self._undecided(max(bound, least))
        else:  # it has no nearer row than one that is known; it may have its turn after that one
            self.push(float(np.nextafter(below, np.inf)), _LEAF, (shape, leaf, way))

    def _distance(self, row: np.ndarray) -> float:
        return length((row - self.place.x) / self.place.permitted.scale, self.norm)

    def _nearest(
        self, shape: Polyhedron, leaf: int, way: Conditions, margin: float
    ) -> tuple[np.ndarray | None, Polyhedron]:
        """The nearest point of a leaf; a convex limit is approached by planes that touch it, returned with the leaf."""
        for _ in range(_CUTS):
            y = self._nearest_flat(shape)
            if y is None or way.softmax is None:
                return y, shape
            excess, slope, condition = self._softmax_cut(y, leaf, *way.softmax)
            if excess <= 1e-10 - margin:
                return y, shape
            size = float(np.linalg.norm(slope))
            if size == 0:
                return None, shape
            cut, limit = slope / size, (slope @ y - excess - margin) / size
            assert shape.exact is not None
            exact = condition.exact_rows(self.place.reach, np.array([size]))
            if len(shape.exact) < len(shape.h):  # the sums of groups come last, and are no part of it
                exact = replace(exact, error=np.full(1, np.inf))
            shape = replace(
                shape, G=np.vstack([shape.G, cut]), h=np.r_[shape.h, limit],
                strict=np.r_[shape.strict, False], noise=np.r_[shape.noise, 0.0], exact=shape.exact.and_also(exact),
            )  # fmt: skip
        return y, shape

    def _nearest_flat(self, shape: Polyhedron) -> np.ndarray | None:
        try:
            return nearest_point(shape, self.norm) if self.norm != "l2" else project(shape)
        except (UnsolvedError, UnboundedError):
            return None

    def _softmax_cut(self, y: np.ndarray, leaf: int, k: int, least: float) -> tuple[float, np.ndarray, Conditions]:
        """log Σ exp(s_j − s_k) + log p, at most 0 where class k has probability p or more; its gradient; its tangent.

        For any probabilities q, log Σ exp(z_j) ≥ Σ q_j z_j + H(q): a condition that all such rows fulfil.
        """
        tree, place = self.search.tree, self.place
        assert tree.leaf_weights is not None
        weights = tree.leaf_weights[leaf] - tree.leaf_weights[leaf, k]
        values = tree.values[leaf] - tree.values[leaf, k]
        slopes = weights[:, place.movable] * place.scale
        scores = weights @ place.x + values + slopes @ y
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
        return float(top + np.log(parts.sum()) + np.log(least)), q @ slopes, tangent

    def _realise(self, bound: float, shape: Polyhedron, leaf: int, way: Conditions, y: np.ndarray) -> None:
        """A row of floats at the nearest point, or as near to it as the tree's own sums permit."""
        for row in self._rows_near(shape, leaf, way, y):
            if self._is_answer(row, leaf):
                distance = self._distance(row)
                self.effort.bound = min(self.effort.bound, float(bound), distance)
                self.push(max(bound, distance), _ROW, Found(row, distance, leaf))
                return
        if has_room(shape) and not proved_empty(self._nearest(shape, leaf, way, 0.0)[1]):
            self._undecided(float(bound))

    def _rows_near(self, shape: Polyhedron, leaf: int, way: Conditions, y: np.ndarray) -> Iterator[np.ndarray]:
        yield self.place.row(y, shape)
        if not has_room(shape):
            return
        for further in (1e-13, 1e-11, 1e-9):  # beyond all planes that lie between the row and the leaf
            yield self.place.row(y * (1 + further), shape)
        for strict_only in (False, True):
            for margin in _MARGINS:
                inner, _ = self._nearest(shape.inset(margin, strict_only=strict_only), leaf, way, margin)
                if inner is None:
                    break
                yield self.place.row(inner, shape)
        deep = _deepest(shape)
        if deep is not None:
            yield self.place.row(deep.y, shape)

    def _is_answer(self, row: np.ndarray, leaf: int) -> bool:
        """Whether a row is permitted, comes to a leaf and has the answer, by the tree's own arithmetic."""
        if not self.place.permitted.holds(row) or not self.search.wanted.holds(row[None])[0]:
            return False
        return int(self.search.tree.apply(row[None])[0]) == self.search.tree.n_splits + leaf


def _deepest(shape: Polyhedron) -> Deepest | None:
    try:
        return deepest_point(shape)
    except (UnsolvedError, UnboundedError):
        return None
