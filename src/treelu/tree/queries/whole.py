"""The best point of a polyhedron with integers and one-hot groups: branch and bound, one linear programme a part.

SciPy's mixed-integer programmes are not used: HiGHS takes points within 1e-6 of a plane for inside, gives no
certificate and ends the process on some small programmes. Here each part of the region is a box that a linear programme
bounds. A one-hot group is divided into its members at once, and a member is excluded by the rows of the path before any
programme is solved. Once all integers of a part are fixed, the tree itself decides whether the row has the answer. A
part is left without a row only where that is proved (see `exact`); otherwise it stays open.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np

from treelu.tree.queries.exact import rows_alone
from treelu.tree.queries.geometry import Polyhedron
from treelu.tree.queries.programmes import UnsolvedError, proved_empty

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


class Budget:
    """How long a search may take: seconds from now on, None for no limit.

    Examples
    --------
    >>> Budget(None).spent(), Budget(0.0).spent()
    (False, True)
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.end = np.inf if seconds is None else time.monotonic() + seconds

    def spent(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() >= self.end


def check_budget(seconds: float | None) -> float | None:
    """Raise unless it is a number of seconds or None."""
    if seconds is not None and not seconds >= 0:
        raise ValueError(f"budget_seconds must be at least 0, or None for no limit, got {seconds}")
    return seconds


@dataclass(frozen=True)
class Discrete:
    """What makes a programme one with integers.

    Attributes
    ----------
    whole : bool array of shape (u,)
        Features with integer values only.
    at, scale : arrays of shape (u,)
        Values are ``at + scale * y``.
    groups : list of int arrays
        Features of which exactly one is 1 and the others are 0.
    max_changes : int or None
        How many features may change, a group counting as one.
    """

    whole: np.ndarray
    at: np.ndarray
    scale: np.ndarray
    groups: list[np.ndarray]
    max_changes: int | None = None

    @property
    def any(self) -> bool:
        """Whether there is any such condition."""
        return bool(self.whole.any()) or bool(self.groups) or self.max_changes is not None

    def units(self) -> tuple[np.ndarray, int]:
        """For each feature the number of what it counts as when it changes, and how many of these there are."""
        unit = np.full(len(self.whole), -1)
        for g, group in enumerate(self.groups):
            unit[group] = g
        single = np.flatnonzero(unit < 0)
        unit[single] = len(self.groups) + np.arange(len(single))
        return unit, len(self.groups) + len(single)

    def steps(self, most: float) -> np.ndarray:
        """How far each feature changes at least, where one changes by ``most``: integers take whole steps."""
        return np.where(self.whole, np.ceil(most * self.scale - _SMALL) / self.scale + _TINY, most + _TINY)

    def with_groups(self, shape: Polyhedron) -> Polyhedron:
        """A polyhedron with the sums of the groups as two rows each."""
        if not self.groups:
            return shape
        rows, limits, weights, sizes = [shape.G], [shape.h], [], []
        for group in self.groups:
            row = np.zeros(shape.G.shape[1])
            row[group] = self.scale[group]
            length = np.linalg.norm(row)
            left = (1.0 - self.at[group].sum()) / length
            rows.append(np.stack([row, -row]) / length)
            limits.append(np.array([left, -left]))
            if shape.exact is not None:
                members = np.zeros(shape.exact.weights.shape[1])
                members[shape.place[group]] = 1.0  # type: ignore[index]
                weights += [members, -members]
                sizes += [length, length]
        h = np.concatenate(limits)
        more = len(h) - len(shape.h)
        none = np.zeros(more)
        exact = shape.exact
        if exact is not None:
            sums = rows_alone(np.array(weights), np.tile([-1.0, 1.0], more // 2), none > 0, none, np.array(sizes))
            exact = exact.and_also(sums)
        return replace(
            shape, G=np.vstack(rows), h=h, strict=np.r_[shape.strict, none > 0], noise=np.r_[shape.noise, none],
            exact=exact,
        )  # fmt: skip


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


class WholeSearch(Generic[Answer]):
    """One search in one polyhedron.

    Parameters
    ----------
    discrete : Discrete
    relax : callable
        A polyhedron → the least cost of its points and one that has it, None where the solver finds none.
    settle : callable
        A polyhedron whose integers are fixed → the least cost of a row that has the answer, and that row.
    norm : str or None
        Which norm of y the cost is, if it is one.
    below : float
        Only costs below this are of use.
    budget : Budget
    """

    def __init__(
        self,
        discrete: Discrete,
        relax: Callable[[Polyhedron], tuple[float, np.ndarray] | None],
        settle: Callable[[Polyhedron], tuple[float, Answer] | None],
        norm: str | None = None,
        below: float = np.inf,
        budget: Budget | None = None,
    ) -> None:
        self.discrete, self.relax, self.settle, self.norm, self.below = discrete, relax, settle, norm, below
        self.budget = Budget() if budget is None else budget
        self.unit, self.n_units = discrete.units()
        self.order = itertools.count()
        self.parts: list[_Part] = []
        self.planes = np.zeros(0)
        self.known: tuple[float, Answer] | None = None
        self.n_solved = self.n_open = 0
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
            if self.known is None and (self.parts or np.isfinite(self.least_open)):
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
        last = self.n_solved + most
        self._begin(shape, moved)
        while self.parts and self.known is None and not self._given_up(last):
            self._divide(self.parts.pop())

    def _search(self, shape: Polyhedron) -> None:
        """All parts that may have a better answer than the one that is known, by their bounds."""
        last = self.n_solved + _MOST
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
        return self.n_solved >= last or self.n_open >= _OPEN or self.budget.spent()

    def _improves(self, cost: float) -> bool:
        return np.isinf(self.below) or cost < self.below - _SAME * (1 + abs(self.below))

    # Parts

    def _push(self, shape: Polyhedron | None, moved: frozenset[int], cost: float) -> None:
        """Add a part unless it is excluded or too far; its programme is solved when its turn comes."""
        shape = None if shape is None else self._narrowed(shape)
        if shape is None:
            return
        if self.norm:
            cost = max(cost, box_bound(shape, self.norm))
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
        assert part.y is not None
        group = self._split_group(part.y)
        j = self._fractional(part.y)
        extra = self._extra_change(part)
        if group is not None:
            self._by_member(part, group)
        elif j is not None:
            value = self.discrete.at[j] + self.discrete.scale[j] * part.y[j]
            pieces = [
                self._cut(part.shape, j, last=np.floor(value)),
                self._cut(part.shape, j, first=np.ceil(value)),
            ]
            for piece in pieces if value - np.floor(value) > 0.5 else pieces[::-1]:  # the nearer one last
                self._push(piece, part.moved, part.cost)
        elif extra is not None:
            self._limit_changes(part, extra)
        else:
            self._settle(part)

    def _solved(self, part: _Part) -> _Part | None:
        """The part with its programme's bound and point; None where it is of no use."""
        self.n_solved += 1
        try:
            found = self.relax(part.shape)
        except UnsolvedError:
            found = None
        if found is None:
            self._close(part.shape, part.cost)
            return None
        cost = max(part.cost, found[0])
        return replace(part, cost=cost, y=found[1]) if self._improves(cost) else None

    def _close(self, shape: Polyhedron, cost: float) -> None:
        """Leave a part without a row: it is proved to be empty, or stays open."""
        if not proved_empty(shape):
            self.least_open = min(self.least_open, cost)
            self.n_open += 1

    def _narrowed(self, shape: Polyhedron) -> Polyhedron | None:
        """The same without integers that a row of G, or a known answer's cost, excludes; None if none is left."""
        at, scale, whole = self.discrete.at, self.discrete.scale, self.discrete.whole
        if self.norm and np.isfinite(self.below):
            shape = shape.reached(max(self.below - _SAME * (1 + self.below), 0.0), at, scale)
        for _ in range(_ROUNDS):
            if (shape.low > shape.high).any() or shape.empty_by_bounds():
                return None
            if not whole.any():
                break
            low, high = implied_box(shape)
            with np.errstate(invalid="ignore"):
                firsts = np.ceil(at + scale * low - _TINY - _ROUNDED * (np.abs(at) + np.abs(scale * low)))
                lasts = np.floor(at + scale * high + _TINY + _ROUNDED * (np.abs(at) + np.abs(scale * high)))
            firsts = np.where(whole, np.maximum(shape.first, firsts), shape.first)
            lasts = np.where(whole, np.minimum(shape.last, lasts), shape.last)
            if (firsts > lasts).any():
                return None
            same = bool((firsts == shape.first).all() and (lasts == shape.last).all())
            low = np.where(whole, np.maximum(shape.low, (firsts - at) / scale), shape.low)
            high = np.where(whole, np.minimum(shape.high, (lasts - at) / scale), shape.high)
            shape = replace(shape, low=low, high=high, first=firsts, last=lasts)
            if same:
                break
        return shape

    def _cut(self, shape: Polyhedron | None, j: Any, first: Any = -np.inf, last: Any = np.inf) -> Polyhedron | None:
        """The same with narrower ranges of some features' values; None where nothing is left of it."""
        if shape is None:
            return None
        at, scale = self.discrete.at, self.discrete.scale
        firsts, lasts = shape.first.copy(), shape.last.copy()
        firsts[j], lasts[j] = np.maximum(firsts[j], first), np.minimum(lasts[j], last)
        if (firsts[j] > lasts[j]).any() if np.ndim(j) else firsts[j] > lasts[j]:
            return None
        low, high = shape.low.copy(), shape.high.copy()
        low[j] = np.maximum(low[j], (firsts[j] - at[j]) / scale[j])
        high[j] = np.minimum(high[j], (lasts[j] - at[j]) / scale[j])
        return replace(shape, low=low, high=high, first=firsts, last=lasts)

    def _fractional(self, y: np.ndarray | None) -> int | None:
        """The integer feature that is farthest from an integer, None if all are."""
        assert y is not None
        values = self.discrete.at + self.discrete.scale * y
        away = np.where(self.discrete.whole, np.abs(values - np.round(values)), 0.0)
        return int(np.argmax(away)) if away.max(initial=0.0) > _WHOLE else None

    # One-hot groups

    def _split_group(self, y: np.ndarray | None) -> np.ndarray | None:
        """The group whose members are farthest from 0 and 1, None if all are."""
        assert y is not None
        values = self.discrete.at + self.discrete.scale * y
        away = [float(np.abs(values[group] - np.round(values[group])).max()) for group in self.discrete.groups]
        place = int(np.argmax(away)) if away else 0
        return self.discrete.groups[place] if away and away[place] > _WHOLE else None

    def _by_member(self, part: _Part, group: np.ndarray) -> None:
        """One piece for each member that may be 1; the one with the largest share comes first."""
        assert part.y is not None
        shares = (self.discrete.at + self.discrete.scale * part.y)[group]
        for k in group[np.argsort(shares, kind="stable")].tolist():
            self._push(self._chosen(part.shape, group, k), part.moved, part.cost)

    def _chosen(self, shape: Polyhedron | None, group: np.ndarray, member: int) -> Polyhedron | None:
        """The part in which one member of a group is 1."""
        value = (group == member).astype(float)
        return self._cut(shape, group, value, value)

    # A limit on the number of changes

    def _sizes(self, y: np.ndarray | None) -> np.ndarray:
        assert y is not None
        size = np.zeros(self.n_units)
        np.maximum.at(size, self.unit, np.abs(y))
        return size

    def _extra_change(self, part: _Part) -> int | None:
        """Where too many change, the one that changes most and of which nothing has been decided; else None."""
        most, size = self.discrete.max_changes, self._sizes(part.y)
        if most is None or np.count_nonzero(size > _SMALL) <= most:
            return None
        size[list(part.moved)] = -1.0
        return int(np.argmax(size))

    def _limit_changes(self, part: _Part, extra: int) -> None:
        """It stays as it is, or it is one of those that change."""
        self._push(self._still(part.shape, self.unit == extra), part.moved, part.cost)
        moved = part.moved | {extra}
        if len(moved) < (self.discrete.max_changes or 0):
            self.parts.append(replace(part, order=next(self.order), moved=moved))
        else:  # no change is left for the others
            self._push(self._still(part.shape, ~np.isin(self.unit, list(moved))), moved, part.cost)

    def _still(self, shape: Polyhedron, features: np.ndarray) -> Polyhedron | None:
        places = np.flatnonzero(features)
        return self._cut(shape, places, self.discrete.at[places], self.discrete.at[places])

    # Points

    def _settle(self, part: _Part) -> None:
        """Look at the one point of integers that a programme found; keep the rest of its part."""
        assert part.y is not None
        shape: Polyhedron | None = part.shape
        if self.discrete.max_changes is not None:
            kept = np.argsort(-self._sizes(part.y), kind="stable")[: self.discrete.max_changes]
            shape = self._still(part.shape, ~np.isin(self.unit, kept))
        values = np.round(self.discrete.at + self.discrete.scale * part.y)
        integers = np.flatnonzero(self.discrete.whole)
        shape = self._cut(shape, integers, values[integers], values[integers])
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
        fixed = self._cut(part.shape, integers, values[integers], values[integers])
        if fixed is not None and has_room(fixed):
            if found is None:
                self._close(fixed, part.cost)
            elif found[0] > part.cost + _SAME * (1 + abs(part.cost)):  # a better one may lie beside it
                self.least_open = min(self.least_open, part.cost)
        for rest in self._rest(part.shape, values):
            self._push(rest, part.moved, part.cost)

    def _open_unit(self, part: _Part) -> int | None:
        """With a limit on changes: what changes most of what may change and is not decided, None where all is."""
        most = self.discrete.max_changes
        if most is None or len(part.moved) >= most:
            return None
        size = self._sizes(part.y)
        room = np.unique(self.unit[part.shape.first < part.shape.last])
        free = [unit for unit in room.tolist() if unit not in part.moved]
        return max(free, key=lambda unit: size[unit]) if free else None

    def _rest(self, shape: Polyhedron, values: np.ndarray) -> Iterator[Polyhedron | None]:
        """A box without one point of integers, as boxes."""
        rest: Polyhedron | None = shape
        grouped = np.zeros(len(values), dtype=bool)
        for group in self.discrete.groups:
            grouped[group] = True
            member = int(group[np.argmax(values[group])])
            yield self._cut(rest, member, last=0.0)
            rest = self._chosen(rest, group, member)
            if rest is None:
                return
        for j in np.flatnonzero(self.discrete.whole & ~grouped & (shape.first < shape.last)).tolist():
            yield self._cut(rest, j, last=values[j] - 1)
            yield self._cut(rest, j, first=values[j] + 1)
            rest = self._cut(rest, j, values[j], values[j])
            if rest is None:
                return


def box_bound(shape: Polyhedron, norm: str) -> float:
    """A lower bound of the norm of y in a polyhedron, from its box and from each row of G alone.

    The point of the box nearest to 0 has no feature farther from 0 than any other point, so what a row of G still lacks
    there comes on top.
    """
    nearest = np.clip(0.0, shape.low, shape.high)
    free = shape.low < shape.high
    lacking = np.maximum(shape.G @ nearest - shape.h, 0.0)
    size = np.abs(shape.G[:, free])
    dual = {"l1": size.max(axis=1, initial=0.0), "linf": size.sum(axis=1)}.get(norm)
    if dual is None:
        dual = np.linalg.norm(size, axis=1)
    more = float((lacking / np.where(dual > 0, dual, np.inf)).max(initial=0.0))
    if norm == "l1":
        return float(np.abs(nearest).sum()) + more
    if norm == "linf":
        return max(float(np.abs(nearest).max(initial=0.0)), more)
    return float(np.hypot(np.linalg.norm(nearest), more))


def implied_box(shape: Polyhedron) -> tuple[np.ndarray, np.ndarray]:
    """The box in which the rows of G hold the points of a polyhedron, each row with the other features at their best.

    Examples
    --------
    >>> box = np.zeros(2), np.full(2, 9.0)
    >>> shape = Polyhedron(np.array([[1.0, 2.0]]), np.array([3.0]), np.zeros(1, bool), np.zeros(1), *box, *box)
    >>> implied_box(shape)[1]
    array([3. , 1.5])
    """
    G = shape.G
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        least = np.where(G > 0, G * shape.low, np.where(G < 0, G * shape.high, 0.0))
        endless = np.isinf(least)
        finite = np.where(endless, 0.0, least)
        # What is left for one feature, rounded up: nothing is known where another one has no end.
        left = shape.h[:, None] - (finite.sum(axis=1, keepdims=True) - finite)
        left = left + _ROUNDED * (np.abs(shape.h)[:, None] + np.abs(finite).sum(axis=1, keepdims=True))
        left = np.where(endless.sum(axis=1, keepdims=True) - endless > 0, np.inf, left)
        ends = np.where(G != 0, left / G, np.inf)
    low = np.where((G < 0) & np.isfinite(ends), ends, -np.inf).max(axis=0, initial=-np.inf)
    high = np.where((G > 0) & np.isfinite(ends), ends, np.inf).min(axis=0, initial=np.inf)
    return np.maximum(low, shape.low), np.minimum(high, shape.high)


def has_room(shape: Polyhedron) -> bool:
    """Whether some feature of a part may still vary."""
    return bool((shape.first < shape.last).any())


def rows_inside(shape: Polyhedron, nearest: Callable[[Polyhedron], Any], margins: Any) -> Iterator[np.ndarray]:
    """Points of a part whose integers are fixed: that one point, or points of what is left, deeper and deeper."""
    if not has_room(shape):
        yield shape.low
        return
    first = nearest(shape)
    if first is None:
        return
    yield first
    if proved_empty(shape):
        return
    for strict_only in (False, True):
        for margin in margins:
            y = nearest(shape.inset(margin, strict_only=strict_only))
            if y is None:
                break
            yield y
