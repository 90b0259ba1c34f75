"""The best point of a polyhedron under conditions of whole numbers: branch and bound, one continuous programme a part.

SciPy's programmes with whole numbers are not used: HiGHS takes points within 1e-6 of a plane for inside, and ends the
process on some small programmes. Here each part of the region is a box that a continuous programme bounds. Once all
whole numbers of a part are fixed, the tree itself says whether the row has the answer. Where it has not, as on a plane
where rounding decides, that point alone is taken out and the search goes on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np

from treelu.tree.questions.geometry import Polyhedron

Answer = TypeVar("Answer")
_MOST = 4000  # programmes that are solved before a search is given up
_FEW = 200  # programmes for a first answer
_ROUNDS = 4  # of narrowing ranges
_WHOLE = 1e-6  # as near as this a number is tried as a whole one
_TINY = 1e-10  # so far beyond an end a whole number counts as within
_SMALL = 1e-9  # a change that counts as none
_SAME = 2e-8  # a difference of costs, in parts of one more than them, that counts as none


@dataclass(frozen=True)
class Discrete:
    """What makes a programme one with whole numbers.

    Attributes
    ----------
    whole : bool array of shape (u,)
        Features with whole values only.
    at, scale : arrays of shape (u,)
        Values are ``at + scale * y``.
    groups : list of int arrays
        Features that sum to 1.
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
        """How far each feature changes at least, where one changes by ``most``: whole ones take whole steps."""
        return np.where(self.whole, np.ceil(most * self.scale - _SMALL) / self.scale + _TINY, most + _TINY)

    def with_groups(self, shape: Polyhedron) -> Polyhedron:
        """A polyhedron with the sums of the groups as two rows each."""
        rows, limits = [shape.G], [shape.h]
        for group in self.groups:
            row = np.zeros(shape.G.shape[1])
            row[group] = self.scale[group]
            length = np.linalg.norm(row)
            left = (1.0 - self.at[group].sum()) / length
            rows.append(np.stack([row, -row]) / length)
            limits.append(np.array([left, -left]))
        h = np.concatenate(limits)
        more = len(h) - len(shape.h)
        return replace(
            shape, G=np.vstack(rows), h=h, strict=np.r_[shape.strict, np.zeros(more, dtype=bool)],
            noise=np.r_[shape.noise, np.zeros(more)],
        )  # fmt: skip


class UndecidedError(ArithmeticError):
    """A search was given up: too many parts, as where rounding decides at very many points of a plane.

    ``bound``: the least cost that a point not looked at may have.
    """

    def __init__(self, bound: float) -> None:
        super().__init__(f"a search over whole numbers was given up after {_MOST} programmes")
        self.bound = bound


@dataclass(order=True)
class _Part:
    """A part of the region with a lower bound of its cost and the point that attains it."""

    cost: float
    order: int
    y: np.ndarray = field(compare=False)
    shape: Polyhedron = field(compare=False)
    moved: frozenset[int] = field(compare=False)


class WholeSearch(Generic[Answer]):
    """The point of least cost in a polyhedron under conditions of whole numbers.

    Parameters
    ----------
    discrete : Discrete
    relax : callable
        A part of the region → the least cost there and its point, whole numbers or not; None where it is empty.
    settle : callable
        A part in which each whole number is fixed → the cost of a row there that has the answer by the tree's own
        arithmetic, and that row; None where there is none.
    is_norm : bool
        Whether the cost is a norm of y, so that no feature changes by more than it.
    below : float
        Only costs below this are of use.
    """

    def __init__(
        self,
        discrete: Discrete,
        relax: Callable[[Polyhedron], tuple[float, np.ndarray] | None],
        settle: Callable[[Polyhedron], tuple[float, Answer] | None],
        is_norm: bool = False,
        below: float = np.inf,
    ) -> None:
        self.discrete, self.relax, self.settle, self.is_norm, self.below = discrete, relax, settle, is_norm, below
        self.unit, self.n_units = discrete.units()
        self.order = itertools.count()
        self.parts: list[_Part] = []
        self.planes = np.zeros(0)
        self.known: tuple[float, Answer] | None = None
        self.n_solved = 0

    def best(self, shape: Polyhedron) -> tuple[float, tuple[float, Answer] | None]:
        """A lower bound of all costs, and the least cost with its row.

        No row and the bound ``below``: no point of less cost has the answer, which is a proof. No row and a smaller
        bound: not decided.
        """
        try:
            self._dive(shape, shape.inset(_WHOLE), _FEW)
            self._search(shape)
        except UndecidedError as error:
            return error.bound, self.known
        return self.below, self.known

    def any(self, shape: Polyhedron) -> Answer | None:
        """A row that has the answer, None where there is none at all; UndecidedError where that stays open."""
        self._dive(shape, shape.inset(_WHOLE), _FEW)
        if self.known is None:
            self._dive(shape, shape.widened(), _MOST)
            if self.parts and self.known is None:
                raise UndecidedError(min(self.parts).cost)
        return None if self.known is None else self.known[1]

    def _begin(self, shape: Polyhedron, moved: Polyhedron) -> None:
        """One part: the polyhedron with its planes moved; rows are looked for within the planes as they are."""
        self.parts, self.planes = [], self.discrete.with_groups(shape).h
        self._push(self.discrete.with_groups(moved), frozenset())

    def _dive(self, shape: Polyhedron, moved: Polyhedron, most: int) -> None:
        """Follow the latest part first, down to a row that has the answer; give up after ``most`` programmes."""
        last = self.n_solved + most
        self._begin(shape, moved)
        while self.parts and self.known is None and self.n_solved < last:
            self._divide(self.parts.pop())

    def _search(self, shape: Polyhedron) -> None:
        """All parts that may have a better answer than the one that is known, by their bounds."""
        last = self.n_solved + _MOST
        self._begin(shape, shape.widened())
        while self.parts:
            best = min(self.parts)
            if not self._improves(best.cost):
                return
            if self.n_solved >= last:
                raise UndecidedError(best.cost)
            self.parts.remove(best)
            self._divide(best)

    def _improves(self, cost: float) -> bool:
        return np.isinf(self.below) or cost < self.below - _SAME * (1 + abs(self.below))

    def _divide(self, part: _Part) -> None:
        """Look at a part's point if its numbers are whole; put the part's pieces in its place."""
        j = self._fractional(part.y)
        if j is not None:
            value = self.discrete.at[j] + self.discrete.scale[j] * part.y[j]
            pieces = [
                self._cut(part.shape, j, last=np.floor(value)),
                self._cut(part.shape, j, first=np.ceil(value)),
            ]
            for piece in pieces if value - np.floor(value) > 0.5 else pieces[::-1]:  # the nearer one last
                self._push(piece, part.moved)
            return
        extra = self._extra_change(part)
        if extra is not None:
            self._limit_changes(part, extra)
        else:
            self._settle(part)

    def _push(self, shape: Polyhedron | None, moved: frozenset[int]) -> None:
        shape = None if shape is None else self._narrowed(shape)
        if shape is None:
            return
        self.n_solved += 1
        found = self.relax(shape)
        if found is not None and self._improves(found[0]):
            self.parts.append(_Part(found[0], next(self.order), found[1], shape, moved))

    def _narrowed(self, shape: Polyhedron) -> Polyhedron | None:
        """The same without whole numbers that a row of G, or a known answer's cost, excludes; None if none is left."""
        if self.is_norm and np.isfinite(self.below):
            reach = np.full(len(shape.low), self.below - _SAME * (1 + self.below))
            shape = shape.within(-reach, reach)
        whole, at, scale = self.discrete.whole, self.discrete.at, self.discrete.scale
        for _ in range(_ROUNDS):
            if shape.empty_by_bounds() or (shape.low > shape.high).any():
                return None
            low, high = implied_box(shape)
            firsts, lasts = np.ceil(at + scale * low - _TINY), np.floor(at + scale * high + _TINY)
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

    def _fractional(self, y: np.ndarray) -> int | None:
        """The whole-number feature that is farthest from a whole number, None if all are."""
        values = self.discrete.at + self.discrete.scale * y
        away = np.where(self.discrete.whole, np.abs(values - np.round(values)), 0.0)
        return int(np.argmax(away)) if away.max(initial=0.0) > _WHOLE else None

    def _cut(self, shape: Polyhedron, j: int, first: float = -np.inf, last: float = np.inf) -> Polyhedron | None:
        """The same with a narrower range of one feature's values; None where nothing is left of it."""
        firsts, lasts = shape.first.copy(), shape.last.copy()
        firsts[j], lasts[j] = max(firsts[j], first), min(lasts[j], last)
        if firsts[j] > lasts[j]:
            return None
        low, high = shape.low.copy(), shape.high.copy()
        low[j] = max(low[j], (firsts[j] - self.discrete.at[j]) / self.discrete.scale[j])
        high[j] = min(high[j], (lasts[j] - self.discrete.at[j]) / self.discrete.scale[j])
        return replace(shape, low=low, high=high, first=firsts, last=lasts)

    # A limit on the number of changes

    def _sizes(self, y: np.ndarray) -> np.ndarray:
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
        self._push(self._still(part.shape, self.unit == extra), part.moved)
        moved = part.moved | {extra}
        if len(moved) < (self.discrete.max_changes or 0):
            self.parts.append(replace(part, order=next(self.order), moved=moved))
        else:  # no change is left for the others
            self._push(self._still(part.shape, ~np.isin(self.unit, list(moved))), moved)

    def _still(self, shape: Polyhedron, features: np.ndarray) -> Polyhedron | None:
        result: Polyhedron | None = shape
        for j in np.flatnonzero(features).tolist():
            result = None if result is None else self._cut(result, j, self.discrete.at[j], self.discrete.at[j])
        return result

    # Points

    def _settle(self, part: _Part) -> None:
        """Look at the one point of whole numbers that a programme found; keep the rest of its part."""
        shape: Polyhedron | None = part.shape
        if self.discrete.max_changes is not None:
            kept = np.argsort(-self._sizes(part.y), kind="stable")[: self.discrete.max_changes]
            shape = self._still(part.shape, ~np.isin(self.unit, kept))
        values = np.round(self.discrete.at + self.discrete.scale * part.y)
        for j in np.flatnonzero(self.discrete.whole).tolist():
            shape = None if shape is None else self._cut(shape, j, values[j], values[j])
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
        for rest in self._rest(part.shape, values):
            self._push(rest, part.moved)

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
        """A box without one point of whole numbers, as boxes."""
        for j in np.flatnonzero(self.discrete.whole & (shape.first < shape.last)).tolist():
            yield self._cut(shape, j, last=values[j] - 1)
            yield self._cut(shape, j, first=values[j] + 1)
            fixed = self._cut(shape, j, values[j], values[j])
            if fixed is None:
                return
            shape = fixed


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
    with np.errstate(invalid="ignore", divide="ignore"):
        least = np.where(G > 0, G * shape.low, np.where(G < 0, G * shape.high, 0.0))
        endless = np.isinf(least)
        finite = np.where(endless, 0.0, least)
        # What is left for one feature: nothing is known where another one has no end.
        left = shape.h[:, None] - (finite.sum(axis=1, keepdims=True) - finite)
        left = np.where(endless.sum(axis=1, keepdims=True) - endless > 0, np.inf, left)
        ends = np.where(G != 0, left / G, np.inf)
    low = np.where((G < 0) & np.isfinite(ends), ends, -np.inf).max(axis=0, initial=-np.inf)
    high = np.where((G > 0) & np.isfinite(ends), ends, np.inf).min(axis=0, initial=np.inf)
    return np.maximum(low, shape.low), np.minimum(high, shape.high)


def has_room(shape: Polyhedron) -> bool:
    """Whether some feature of a part may still vary."""
    return bool((shape.low < shape.high).any())


def rows_inside(shape: Polyhedron, nearest: Callable[[Polyhedron], Any], margins: Any) -> Iterator[np.ndarray]:
    """Points of a part whose whole numbers are fixed: that one point, or points of what is left, deeper and deeper."""
    if not has_room(shape):
        yield shape.low
        return
    for strict_only in (False, True):
        for margin in (0.0, *margins):
            y = nearest(shape.inset(margin, strict_only=strict_only))
            if y is None:
                break
            yield y
