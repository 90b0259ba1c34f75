"""Polyhedra: changes of a row that satisfy linear conditions within a box."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treelu.tree.queries.exact import ExactRows, contradictory, one_row_excludes

DUAL_NORM = {"l1": "linf", "linf": "l1", "l2": "l2"}
_EPS = float(np.finfo(np.float64).eps)


def length(y: np.ndarray, norm: str) -> Any:
    """The norm of a vector, or of each row of a matrix."""
    if norm == "l2":
        return np.linalg.norm(y, axis=None if y.ndim == 1 else -1)
    return np.abs(y).sum(axis=-1) if norm == "l1" else np.abs(y).max(axis=-1, initial=0.0)


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
    exact : ExactRows
        The conditions in the tree's own numbers, over all variables.
    base, place, scale : arrays of shape (n,), (u,) and (u,)
        Values of all variables, which of them may move, and their units: ``base[place] + scale * y``.
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
    exact: ExactRows
    base: np.ndarray
    place: np.ndarray
    scale: np.ndarray
    shifts: tuple[tuple[int, int], ...] = ()

    @property
    def at(self) -> np.ndarray:
        """Values of the variables that may move, where y is 0."""
        return self.base[self.place]

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """The ranges of all variables, in the features' own units."""
        low, high = self.base.copy(), self.base.copy()
        low[self.place], high[self.place] = self.first, self.last
        return low, high

    def has_room(self) -> bool:
        """Whether some feature may still vary."""
        return bool((self.first < self.last).any())

    def empty_by_bounds(self) -> bool:
        """Whether the box, or two thresholds on one sum, prove that there is no such row."""
        if (self.first > self.last).any():
            return True
        return contradictory(self.exact, self.shifts) or bool(one_row_excludes(self.exact, *self.box()).any())

    def and_also(
        self, G: np.ndarray, h: np.ndarray, strict: np.ndarray, noise: np.ndarray, exact: ExactRows
    ) -> Polyhedron:
        """The same with more conditions."""
        return replace(
            self, G=np.vstack([self.G, G]), h=np.r_[self.h, h], strict=np.r_[self.strict, strict],
            noise=np.r_[self.noise, noise], exact=self.exact.and_also(exact),
        )  # fmt: skip

    def inset(self, margin: float, *, strict_only: bool = False) -> Polyhedron:
        """The same with each plane moved inwards by ``margin`` and a multiple of its noise.

        Rows of fixed features alone stay: no point is farther from them, such as the sum of a one-hot group.
        """
        moves = (self.G[:, self.low < self.high] != 0).any(axis=1)
        by = margin * (1.0 + self.noise / 1e-9) * moves
        return replace(self, h=self.h - (by * self.strict if strict_only else by))

    def widened(self) -> Polyhedron:
        """The same with each plane moved outwards by more than the tree's own sums are rounded by."""
        error = np.nan_to_num(2 * (self.exact.within(*self.box()).error / self.exact.size), posinf=0.0)
        return replace(self, h=self.h + (1e-9 * (1 + np.abs(self.h)) + 8 * self.noise + error))

    def within(self, low: np.ndarray, high: np.ndarray) -> Polyhedron:
        """The same in a smaller box of y."""
        return replace(self, low=np.maximum(self.low, low), high=np.minimum(self.high, high))

    def reached(self, reach: float) -> Polyhedron:
        """The same with |y| ≤ reach, in the ranges of values too."""
        ends = np.full(len(self.scale), reach)
        first = np.nextafter(self.at - self.scale * ends, -np.inf)
        last = np.nextafter(self.at + self.scale * ends, np.inf)
        shape = self.within(-ends, ends)
        return replace(shape, first=np.maximum(self.first, first), last=np.minimum(self.last, last))

    def cut(self, places: np.ndarray, first: Any = -np.inf, last: Any = np.inf) -> Polyhedron | None:
        """The same with narrower ranges of some features' values; None where nothing is left of it."""
        firsts, lasts, low, high = self.first.copy(), self.last.copy(), self.low.copy(), self.high.copy()
        firsts[places], lasts[places] = np.maximum(firsts[places], first), np.minimum(lasts[places], last)
        if (firsts[places] > lasts[places]).any():
            return None
        at, scale = self.at[places], self.scale[places]
        low[places] = np.maximum(low[places], (firsts[places] - at) / scale)
        high[places] = np.minimum(high[places], (lasts[places] - at) / scale)
        return replace(self, low=low, high=high, first=firsts, last=lasts)

    def distance_bound(self, norm: str) -> float:
        """A lower bound of the norm of y, from the box and from each row of G alone.

        The point of the box nearest to 0 has no feature farther from 0 than any other point, so what a row of G still
        lacks there comes on top.
        """
        nearest = np.clip(0.0, self.low, self.high)
        lacking = np.maximum(self.G @ nearest - self.h, 0.0)
        dual = length(self.G[:, self.low < self.high], DUAL_NORM[norm])
        more = float((lacking / np.where(dual > 0, dual, np.inf)).max(initial=0.0))
        near = float(length(nearest, norm))
        return near + more if norm == "l1" else max(near, more) if norm == "linf" else float(np.hypot(near, more))

    def implied_box(self) -> tuple[np.ndarray, np.ndarray]:
        """The box in which the rows of G hold the points, each row with the other features at their best."""
        G = self.G
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            least = np.where(G > 0, G * self.low, np.where(G < 0, G * self.high, 0.0))
            endless = np.isinf(least)
            finite = np.where(endless, 0.0, least)
            # What is left for one feature, rounded up: nothing is known where another one has no end.
            left = self.h[:, None] - (finite.sum(axis=1, keepdims=True) - finite)
            left = left + 64 * _EPS * (np.abs(self.h)[:, None] + np.abs(finite).sum(axis=1, keepdims=True))
            left = np.where(endless.sum(axis=1, keepdims=True) - endless > 0, np.inf, left)
            ends = np.where(G != 0, left / G, np.inf)
        low = np.where((G < 0) & np.isfinite(ends), ends, -np.inf).max(axis=0, initial=-np.inf)
        high = np.where((G > 0) & np.isfinite(ends), ends, np.inf).min(axis=0, initial=np.inf)
        return np.maximum(low, self.low), np.minimum(high, self.high)
