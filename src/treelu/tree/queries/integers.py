"""Rows of a polyhedron, with integers and one-hot groups by branch and bound: one linear programme a part.

SciPy's mixed-integer programmes are not used: HiGHS takes points within 1e-6 of a plane for inside, gives no
certificate and ends the process on some small programmes. Here each part of the region is a box that a linear programme
bounds. A one-hot group is divided into its members at once, and a member is excluded by the rows of the path before any
programme is solved. Once all integers of a part are fixed, the tree itself decides whether the row has the answer. A
part is left without a row only where that is proved (see `exact`); otherwise it stays open.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np

from treelu.tree.queries.exact import rows_alone
from treelu.tree.queries.limits import Budget
from treelu.tree.queries.points import (
    CLEAR_MARGINS,
    deeper_points,
    deepest_point,
    nearest_point,
    points_inside,
    proved_empty,
)
from treelu.tree.queries.polyhedron import Polyhedron

Answer = TypeVar("Answer")
_MOST = 2000  # linear programmes that are solved before a search is given up
_OPEN = 40  # points that stay open, as rounding decides there, before it is given up
_FEW = 200  # for a first answer
_ROUNDS = 4  # of narrowing ranges
_WHOLE = 1e-6  # as near as this a number is tried as an integer
_TINY = 1e-10  # so far beyond an end an integer counts as within
_ROUNDED = 64 * float(np.finfo(np.float64).eps)  # of their terms: how far sums here may be off
_SMALL = 1e-9  # a change that counts as none
_SAME = 2e-8  # a difference of costs, in parts of one more than them, that counts as none


@dataclass(frozen=True)
class Discrete:
    """What makes a programme one with integers.

    Attributes
    ----------
    whole : bool array of shape (u,)
        Features with integer values only.
    groups : list of int arrays
        Features of which exactly one is 1 and the others are 0.
    max_changes : int or None
        How many features may change, a group counting as one.
    counted : list of int arrays
        The features that count as one: the groups, with their members that are fixed in advance.
    """

    whole: np.ndarray
    groups: list[np.ndarray]
    max_changes: int | None = None
    counted: list[np.ndarray] = field(default_factory=list)

    @property
    def any(self) -> bool:
        """Whether there is any such condition."""
        return bool(self.whole.any()) or bool(self.groups) or self.max_changes is not None

    def units(self) -> tuple[np.ndarray, int]:
        """For each feature the number of what it counts as when it changes, and how many of these there are."""
        unit = np.full(len(self.whole), -1)
        for g, group in enumerate(self.counted):
            unit[group] = g
        single = np.flatnonzero(unit < 0)
        unit[single] = len(self.counted) + np.arange(len(single))
        return unit, len(self.counted) + len(single)

    def permits(self, y: np.ndarray) -> bool:
        """Whether a change is of no more than `max_changes` features."""
        return self.max_changes is None or len(np.unique(self.units()[0][y != 0])) <= self.max_changes

    def steps(self, most: float, scale: np.ndarray) -> np.ndarray:
        """How far each feature changes at least, where one changes by ``most``: integers take whole steps."""
        return np.where(self.whole, np.ceil(most * scale - _SMALL) / scale + _TINY, most + _TINY)

    def with_groups(self, shape: Polyhedron) -> Polyhedron:
        """A polyhedron with the sums of the groups as two rows each."""
        none = np.zeros(2)
        for group in self.groups:
            row, members = np.zeros(len(shape.place)), np.zeros(len(shape.base))
            row[group], members[shape.place[group]] = shape.scale[group], 1.0
            size = np.linalg.norm(row)
            left = (1.0 - shape.at[group].sum()) / size
            signs = np.array([1.0, -1.0])
            exact = rows_alone(np.stack([members, -members]), -signs, none > 0, none, np.full(2, size))
            shape = shape.and_also(np.stack([row, -row]) / size, signs * left, none > 0, none, exact)
        return shape


class UndecidedError(ArithmeticError):
    """A search ended without an answer and without a proof that there is none."""


@dataclass(order=True)
class _Part:
    """A part of the region with a lower bound of its cost; ``y`` attains it where a programme was solved."""

    cost: float
    order: int
    y: np.ndarray | None = field(compare=False)
    shape: Polyhedron = field(compare=False)
    moved: frozenset[int] = field(compare=False)

    @property
    def values(self) -> np.ndarray:
        """The features' values at ``y``."""
        assert self.y is not None
        return self.shape.at + self.shape.scale * self.y


class BranchAndBound(Generic[Answer]):
    """One search in one polyhedron.

    Parameters
    ----------
    discrete : Discrete
    relax : callable
        A polyhedron → the least cost of its points and one that has it, None where the solver finds none.
    settle : callable
        A polyhedron whose integers are fixed → the least cost of a row that has the answer, and that row.
    budget : Budget
    norm : str or None
        Which norm of y the cost is, if it is one.
    below : float
        Only costs below this are of use.
    is_empty : callable
        A polyhedron → whether it is proved that no row in it has the answer.
    """

    def __init__(
        self,
        discrete: Discrete,
        relax: Callable[[Polyhedron], tuple[float, np.ndarray] | None],
        settle: Callable[[Polyhedron], tuple[float, Answer] | None],
        budget: Budget,
        norm: str | None = None,
        below: float = np.inf,
        is_empty: Callable[[Polyhedron], bool] = proved_empty,
    ) -> None:
        self.discrete, self.relax, self.settle, self.norm, self.below = discrete, relax, settle, norm, below
        self.budget, self.is_empty = budget, is_empty
        self.unit, self.n_units = discrete.units()
        self.order = itertools.count()
        self.parts: list[_Part] = []
        self.planes = np.zeros(0)
        self.known: tuple[float, Answer] | None = None
        self.n_open = 0
        self.least_open = np.inf  # of the parts that were neither searched through nor proved to be empty

    def best(self, shape: Polyhedron) -> tuple[float, tuple[float, Answer] | None]:
        """A lower bound of all costs, and the least cost with its row.

        No row and the bound ``below``: no point of less cost has the answer, which is a proof. No row and a smaller
        bound: not decided.
        """
        self._first(shape)
        self._search(shape)
        return min(self.below, self.least_open), self.known

    def any(self, shape: Polyhedron) -> Answer | None:
        """A row that has the answer, None where it is proved that there is none; UndecidedError otherwise."""
        self._first(shape)
        if self.known is None:
            self._dive(shape, shape.widened(), _MOST)
            if self.known is None and (self.parts or self.least_open < np.inf):
                raise UndecidedError("a search over integers ended without an answer")
        return None if self.known is None else self.known[1]

    def _first(self, shape: Polyhedron) -> None:
        """A quick look for some answer, away from the planes; proves nothing."""
        self._dive(shape, shape.inset(_WHOLE), _FEW)
        self.parts, self.least_open, self.n_open = [], np.inf, 0

    def _begin(self, shape: Polyhedron, moved: Polyhedron) -> None:
        """One part: the polyhedron with its planes moved; rows are looked for within the planes as they are."""
        self.parts, self.planes = [], self.discrete.with_groups(shape).h
        self._push(self.discrete.with_groups(moved), frozenset(), 0.0 if self.norm else -np.inf)

    def _dive(self, shape: Polyhedron, moved: Polyhedron, most: int) -> None:
        """Follow the latest part first, down to a row that has the answer; give up after ``most`` programmes."""
        last = self.budget.n_solved + most
        self._begin(shape, moved)
        while self.parts and self.known is None and not self._given_up(last):
            self._divide(self.parts.pop())

    def _search(self, shape: Polyhedron) -> None:
        """All parts that may have a better answer than the one that is known, by their bounds."""
        last = self.budget.n_solved + _MOST
        self._begin(shape, shape.widened())
        while self.parts:
            best = min(self.parts)
            if not self._improves(best.cost):
                return
            if self._given_up(last):
                self.least_open = min(self.least_open, best.cost)
                return
            self.parts.remove(best)
            self._divide(best)

    def _given_up(self, last: int) -> bool:
        return self.budget.n_solved >= last or self.n_open >= _OPEN or self.budget.spent()

    def _improves(self, cost: float) -> bool:
        return np.isinf(self.below) or cost < self.below - _SAME * (1 + abs(self.below))

    # Parts

    def _push(self, shape: Polyhedron | None, moved: frozenset[int], cost: float) -> None:
        """Add a part unless it is excluded or too far; its programme is solved when its turn comes."""
        shape = None if shape is None else self._narrowed(shape)
        if shape is None:
            return
        if self.norm:
            cost = max(cost, shape.distance_bound(self.norm))
        if self._improves(cost):
            self.parts.append(_Part(cost, next(self.order), None, shape, moved))

    def _divide(self, part: _Part) -> None:
        """Solve a part's programme; look at its point if it has integers; put the part's pieces in its place."""
        if part.y is None:
            solved = self._solved(part)
            if solved is None:
                return
            part = solved
            if part.cost > min((other.cost for other in self.parts), default=np.inf) and self.known is not None:
                self.parts.append(part)  # another one may be better now
                return
        values = part.values
        group, j, extra = self._split_group(values), self._fractional(values), self._extra_change(part)
        if group is not None:  # one piece for each member that may be 1; the one with the largest share comes first
            for k in group[np.argsort(values[group], kind="stable")].tolist():
                self._push(_chosen(part.shape, group, k), part.moved, part.cost)
        elif j is not None:
            below, value = np.floor(values[j]), values[j]
            pieces = [part.shape.cut(np.array([j]), last=below), part.shape.cut(np.array([j]), first=np.ceil(value))]
            for piece in pieces if value - below > 0.5 else pieces[::-1]:  # the nearer one last
                self._push(piece, part.moved, part.cost)
        elif extra is not None:
            self._limit_changes(part, extra)
        else:
            self._settle(part)

    def _solved(self, part: _Part) -> _Part | None:
        """The part with its programme's bound and point; None where it is of no use."""
        self.budget.n_solved += 1
        found = self.relax(part.shape)
        if found is None:
            self._close(part.shape, part.cost)
            return None
        cost = max(part.cost, found[0])
        return replace(part, cost=cost, y=found[1]) if self._improves(cost) else None

    def _close(self, shape: Polyhedron, cost: float) -> None:
        """Leave a part without a row: it is proved to be empty, or stays open."""
        if not self.is_empty(shape):
            self.least_open = min(self.least_open, cost)
            self.n_open += 1

    def _narrowed(self, shape: Polyhedron) -> Polyhedron | None:
        """The same without integers that a row of G, or a known answer's cost, excludes; None if none is left."""
        if self.norm and np.isfinite(self.below):
            shape = shape.reached(max(self.below - _SAME * (1 + self.below), 0.0))
        at, scale, whole = shape.at, shape.scale, np.flatnonzero(self.discrete.whole)
        for _ in range(_ROUNDS):
            if (shape.low > shape.high).any() or shape.empty_by_bounds():
                return None
            if not len(whole):
                break
            low, high = shape.implied_box()
            with np.errstate(invalid="ignore"):
                first = np.ceil(at + scale * low - _TINY - _ROUNDED * (np.abs(at) + np.abs(scale * low)))
                last = np.floor(at + scale * high + _TINY + _ROUNDED * (np.abs(at) + np.abs(scale * high)))
            narrower = shape.cut(whole, first[whole], last[whole])
            if narrower is None:
                return None
            same = np.array_equal(narrower.first, shape.first) and np.array_equal(narrower.last, shape.last)
            shape = narrower
            if same:
                break
        return shape

    def _fractional(self, values: np.ndarray) -> int | None:
        """The integer feature that is farthest from an integer, None if all are."""
        away = np.where(self.discrete.whole, np.abs(values - np.round(values)), 0.0)
        return int(np.argmax(away)) if away.max(initial=0.0) > _WHOLE else None

    def _split_group(self, values: np.ndarray) -> np.ndarray | None:
        """The group whose members are farthest from 0 and 1, None if all are."""
        away = [float(np.abs(values[group] - np.round(values[group])).max()) for group in self.discrete.groups]
        return self.discrete.groups[int(np.argmax(away))] if max(away, default=0.0) > _WHOLE else None

    # A limit on the number of changes

    def _sizes(self, part: _Part) -> np.ndarray:
        """How far each unit changes in the part's point."""
        size = np.zeros(self.n_units)
        np.maximum.at(size, self.unit, np.abs(part.y))  # type: ignore[arg-type]
        return size

    def _extra_change(self, part: _Part) -> int | None:
        """Where too many change, the one that changes most and of which nothing has been decided; else None."""
        most = self.discrete.max_changes
        if most is None or np.count_nonzero((size := self._sizes(part)) > _SMALL) <= most:
            return None
        size[list(part.moved)] = -1.0
        return int(np.argmax(size))

    def _limit_changes(self, part: _Part, extra: int) -> None:
        """It stays as it is, or it is one of those that change."""
        self._push(_still(part.shape, self.unit == extra), part.moved, part.cost)
        moved = part.moved | {extra}
        if len(moved) < (self.discrete.max_changes or 0):
            self.parts.append(replace(part, order=next(self.order), moved=moved))
        else:  # no change is left for the others
            self._push(_still(part.shape, ~np.isin(self.unit, list(moved))), moved, part.cost)

    def _open_unit(self, part: _Part) -> int | None:
        """With a limit on changes: what changes most of what may change and is not decided, None where all is."""
        most = self.discrete.max_changes
        if most is None or len(part.moved) >= most:
            return None
        size = self._sizes(part)
        room = np.unique(self.unit[part.shape.first < part.shape.last])
        free = [unit for unit in room.tolist() if unit not in part.moved]
        return max(free, key=lambda unit: size[unit]) if free else None

    # Points

    def _settle(self, part: _Part) -> None:
        """Look at the one point of integers that a programme found; keep the rest of its part."""
        shape: Polyhedron | None = part.shape
        if self.discrete.max_changes is not None:
            kept = np.argsort(-self._sizes(part), kind="stable")[: self.discrete.max_changes]
            shape = _still(part.shape, ~np.isin(self.unit, kept))
        values, integers = np.round(part.values), np.flatnonzero(self.discrete.whole)
        at = values[integers]
        shape = None if shape is None else shape.cut(integers, at, at)
        found = None if shape is None else self.settle(replace(shape, h=self.planes))
        if found is not None:
            if self._improves(found[0]):
                self.known, self.below = found, found[0]
            if not self._improves(part.cost):
                return
        open_unit = self._open_unit(part)
        if open_unit is not None:
            self._limit_changes(part, open_unit)
            return
        fixed = part.shape.cut(integers, at, at)
        if fixed is not None and fixed.has_room():
            least = max(part.cost, fixed.distance_bound(self.norm)) if self.norm else part.cost
            if found is None:
                self._close(fixed, least)
            elif found[0] > least + _SAME * (1 + abs(least)):  # a better one may lie beside it
                self.least_open = min(self.least_open, least)
        for rest in self._rest(part.shape, values):
            self._push(rest, part.moved, part.cost)

    def _rest(self, shape: Polyhedron, values: np.ndarray) -> Iterator[Polyhedron | None]:
        """A box without one point of integers, as boxes."""
        single = self.discrete.whole & (shape.first < shape.last)
        for group in self.discrete.groups:
            single[group] = False
            member = int(group[np.argmax(values[group])])
            yield shape.cut(np.array([member]), last=0.0)
            chosen = _chosen(shape, group, member)
            if chosen is None:
                return
            shape = chosen
        for j in np.flatnonzero(single)[:, None]:
            yield shape.cut(j, last=values[j] - 1)
            yield shape.cut(j, first=values[j] + 1)
            fixed = shape.cut(j, values[j], values[j])
            if fixed is None:
                return
            shape = fixed


def _chosen(shape: Polyhedron, group: np.ndarray, member: int) -> Polyhedron | None:
    """The part in which one member of a group is 1."""
    value = (group == member).astype(float)
    return shape.cut(group, value, value)


def _still(shape: Polyhedron, features: np.ndarray) -> Polyhedron | None:
    """The part in which some features do not change."""
    at = shape.at[features]
    return shape.cut(np.flatnonzero(features), at, at)


def some_row(
    shape: Polyhedron, discrete: Discrete, realise: Callable[[np.ndarray, Polyhedron], Answer | None], budget: Budget
) -> Answer | None:
    """The first row that ``realise`` makes of a point; None where it is proved that there is none.

    UndecidedError where no row was found and nothing is proved.
    """

    def first(points: Iterable[np.ndarray], part: Polyhedron) -> Answer | None:
        return next((row for y in points if (row := realise(y, part)) is not None), None)

    def relax(part: Polyhedron) -> tuple[float, np.ndarray] | None:
        y = nearest_point(part)
        return None if y is None else (float(np.abs(y).sum()), y)

    def settle(part: Polyhedron) -> tuple[float, Answer] | None:
        row = first(points_inside(part, margins=CLEAR_MARGINS), part)
        return None if row is None else (-np.inf, row)  # any row will do

    def counted(part: Polyhedron, margin: float) -> np.ndarray | None:
        budget.n_solved += 1
        return nearest_point(part)

    if discrete.any:
        return BranchAndBound(discrete, relax, settle, budget).any(shape)
    deep = deepest_point(shape)
    deeper = deeper_points(shape, counted, CLEAR_MARGINS)
    row = first(deeper if deep is None else itertools.chain([deep.y], deeper), shape)
    if row is None and not proved_empty(shape, deep):
        raise UndecidedError("no row of a leaf was found")
    return row
