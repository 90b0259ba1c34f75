"""Linear programmes on a polyhedron: the nearest point in l1 and l∞, the deepest point, the largest linear form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from treelu.tree.questions.geometry import Polyhedron

_OPTIONS: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
# Tried in turn: presolve sometimes cannot tell "none" from "no end", and units of very unlike size need more tolerance.
_WAYS: Any = (
    ("highs", _OPTIONS),
    ("highs-ds", _OPTIONS | {"presolve": False}),
    ("highs", {}),
    ("highs-ipm", {}),
)
# With open ranges a limit on the number of changes needs a largest change; these are tried in turn, in units of scale.
_LARGEST_CHANGES = (10.0, 1e3, 1e5)


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


class UnsolvedError(RuntimeError):
    """HiGHS ended without an answer."""


@dataclass
class _Programme:
    """Minimise ``cost @ v`` with ``A @ v`` between two vectors and v in a box, some of v whole."""

    cost: np.ndarray
    rows: list[Any]
    lower: list[np.ndarray]
    upper: list[np.ndarray]
    low: np.ndarray
    high: np.ndarray
    whole: np.ndarray

    def add(self, rows: Any, lower: Any, upper: Any) -> None:
        n = rows.shape[0]
        self.rows.append(rows)
        self.lower.append(np.broadcast_to(np.asarray(lower, dtype=float), (n,)))
        self.upper.append(np.broadcast_to(np.asarray(upper, dtype=float), (n,)))

    def solve(self) -> np.ndarray | None:
        """The best v, None where there is none at all."""
        if (self.low > self.high).any():
            return None
        if not self.whole.any():
            return self._continuous()
        A: Any = sparse.vstack([sparse.csr_array(rows) for rows in self.rows], format="csr")
        lower, upper = np.concatenate(self.lower), np.concatenate(self.upper)
        options: Any = {"mip_rel_gap": 0.0}
        result = milp(
            self.cost, constraints=LinearConstraint(A, lower, upper), integrality=self.whole.astype(int),
            bounds=Bounds(self.low, self.high), options=options,
        )  # fmt: skip
        if result.x is None and result.status not in (2, 3):
            raise UnsolvedError(f"a programme with whole numbers was not solved: {result.message}")
        return result.x

    def _continuous(self) -> np.ndarray | None:
        dense = all(isinstance(rows, np.ndarray) for rows in self.rows)
        A: Any = np.vstack(self.rows) if dense else sparse.vstack([sparse.csr_array(r) for r in self.rows], "csr")
        lower, upper = np.concatenate(self.lower), np.concatenate(self.upper)
        equal, under = lower == upper, (lower != upper) & np.isfinite(upper)
        arguments: dict[str, Any] = {"bounds": np.column_stack([self.low, self.high])}
        if under.any():
            arguments |= {"A_ub": A[under], "b_ub": upper[under]}
        if equal.any():
            arguments |= {"A_eq": A[equal], "b_eq": upper[equal]}
        for method, options in _WAYS:
            result = linprog(self.cost, method=method, options=options, **arguments)
            if result.status in (0, 2, 3):
                break
        if result.status == 3:
            raise UnboundedError
        if result.x is None and result.status != 2:
            raise UnsolvedError(f"a linear programme was not solved: {result.message}")
        return result.x


class UnboundedError(ArithmeticError):
    """A linear form has no largest value."""


# The nearest point


def nearest_point(shape: Polyhedron, norm: str, discrete: Discrete) -> np.ndarray | None:
    """The y of least l1 or l∞ norm, or None where the polyhedron is empty."""
    if not discrete.any:
        y = _nearest(shape, norm)
        return y if y is None or norm == "l1" else _fewer_changes(shape, y)
    y = _nearest_discrete(shape, norm, discrete)
    return None if y is None else _polished(shape, norm, discrete, y)


def _nearest(shape: Polyhedron, norm: str) -> np.ndarray | None:
    programme = _distance_programme(shape, norm, 0)
    found = programme.solve()
    u = shape.G.shape[1]
    return None if found is None else found[:u] - found[u : 2 * u]


def _distance_programme(shape: Polyhedron, norm: str, n_more: int) -> _Programme:
    """Minimise the norm of y = p − n with p, n ≥ 0; variables p, n, then t for l∞, then ``n_more`` others."""
    u = shape.G.shape[1]
    low, high = shape.low, shape.high
    p = np.column_stack([np.maximum(low, 0.0), np.maximum(high, 0.0)])
    n = np.column_stack([np.maximum(-high, 0.0), np.maximum(-low, 0.0)])
    t = int(norm == "linf")
    ends = np.vstack([p, n, np.tile([0.0, np.inf], (t, 1)), np.tile([-np.inf, np.inf], (n_more, 1))])
    cost = np.r_[np.full(2 * u, 0.0 if t else 1.0), np.ones(t), np.zeros(n_more)]
    programme = _Programme(cost, [], [], [], ends[:, 0], ends[:, 1], np.zeros(len(cost), dtype=bool))
    programme.add(np.hstack([shape.G, -shape.G, np.zeros((len(shape.h), t + n_more))]), -np.inf, shape.h)
    if t:
        one = sparse.eye_array(u)
        blocks: list[Any] = [one, one, -np.ones((u, 1)), sparse.csr_array((u, n_more))]
        programme.add(sparse.csr_array(sparse.hstack(blocks)), -np.inf, 0.0)
    return programme


def _fewer_changes(shape: Polyhedron, y: np.ndarray) -> np.ndarray:
    """Of the points with the same l∞ norm one with the least l1 norm: it changes fewer features."""
    reach = np.abs(y).max(initial=0.0) * (1 + 1e-9) + 1e-12
    sparse_y = _nearest(shape.within(np.full(len(y), -reach), np.full(len(y), reach)), "l1")
    return y if sparse_y is None else sparse_y


def _nearest_discrete(shape: Polyhedron, norm: str, discrete: Discrete) -> np.ndarray | None:
    if discrete.max_changes is None:
        return _mixed(shape, norm, discrete, np.inf)
    reach = np.maximum(np.abs(shape.low), np.abs(shape.high))
    if np.isfinite(reach).all():
        return _mixed(shape, norm, discrete, np.inf)
    for largest in _LARGEST_CHANGES:
        y = _mixed(shape, norm, discrete, largest)
        # No coordinate exceeds the norm: a point this near is the nearest of all.
        if y is not None and (np.abs(y).sum() if norm == "l1" else np.abs(y).max(initial=0.0)) <= largest:
            return y
    return None


def _mixed(shape: Polyhedron, norm: str, discrete: Discrete, largest: float) -> np.ndarray | None:
    """The nearest point under the conditions of ``discrete``, no feature changing by more than ``largest``."""
    shape = shape.within(np.full(len(shape.low), -largest), np.full(len(shape.low), largest))
    u = shape.G.shape[1]
    whole = np.flatnonzero(discrete.whole)
    unit, n_units = discrete.units()
    limited = discrete.max_changes is not None
    n_more = len(whole) + (n_units if limited else 0)
    programme = _distance_programme(shape, norm, n_more)
    start = len(programme.cost) - n_more
    programme.whole[start:] = True

    def columns(features: np.ndarray, more: Any) -> sparse.csr_array:
        """Rows with scale at p_j, −scale at n_j, and ``more`` over the last variables."""
        chosen = sparse.csr_array((discrete.scale[features], (np.arange(len(features)), features)),
                                  shape=(len(features), u))  # fmt: skip
        middle = sparse.csr_array((len(features), start - 2 * u))
        return sparse.csr_array(sparse.hstack([chosen, -chosen, middle, more]))

    if len(whole):  # at + scale · y = a whole number, counted from the nearest
        integers = sparse.hstack([-sparse.identity(len(whole)), sparse.csr_array((len(whole), n_more - len(whole)))])
        shift = np.round(discrete.at[whole]) - discrete.at[whole]
        programme.add(columns(whole, integers), shift, shift)
    for group in discrete.groups:
        rows = columns(group, sparse.csr_array((len(group), n_more)))
        left = 1.0 - discrete.at[group].sum()
        programme.add(sparse.csr_array(np.ones((1, len(group)))) @ rows, left, left)
    if limited:
        _limit_changes(programme, shape, start + len(whole), unit, n_units, int(discrete.max_changes or 0))
    found = programme.solve()
    return None if found is None else found[:u] - found[u : 2 * u]


def _limit_changes(
    programme: _Programme, shape: Polyhedron, start: int, unit: np.ndarray, n_units: int, most: int
) -> None:
    """p_j + n_j ≤ reach_j · c with binary c, at most ``most`` of them 1."""
    u, width = len(unit), len(programme.cost)
    programme.low[start : start + n_units], programme.high[start : start + n_units] = 0.0, 1.0
    reach = np.maximum(np.maximum(np.abs(shape.low), np.abs(shape.high)), 1e-9)
    rows = np.tile(np.arange(u), 3)
    places = np.concatenate([np.arange(u), u + np.arange(u), start + unit])
    values = np.concatenate([np.ones(2 * u), -reach])
    programme.add(sparse.csr_array((values, (rows, places)), shape=(u, width)), -np.inf, 0.0)
    total = np.zeros((1, width))
    total[0, start : start + n_units] = 1.0
    programme.add(sparse.csr_array(total), -np.inf, float(most))


def _polished(shape: Polyhedron, norm: str, discrete: Discrete, y: np.ndarray) -> np.ndarray | None:
    """The nearest point with the whole numbers and the unchanged features of y: exact where HiGHS rounds.

    HiGHS takes whole numbers within 1e-6 of a plane for inside. Those on a strict plane are not; those on another one
    are, but for the rounding of the tree's own sums.
    """
    for attempt in (shape, shape.inset(1e-5, strict_only=True), shape.inset(1e-6), shape.inset(1e-5)):
        if attempt is not shape:
            again = _nearest_discrete(attempt, norm, discrete)
            if again is None:
                continue
            y = again
        values = discrete.at + discrete.scale * y
        fixed = np.where(discrete.whole, (np.round(values) - discrete.at) / discrete.scale, 0.0)
        still = discrete.whole.copy()
        if discrete.max_changes is not None:
            unit, n_units = discrete.units()
            size = np.zeros(n_units)
            np.maximum.at(size, unit, np.abs(y))
            kept = np.argsort(-size, kind="stable")[: discrete.max_changes]
            still |= ~np.isin(unit, kept)
        low, high = np.where(still, fixed, -np.inf), np.where(still, fixed, np.inf)
        slack = 1e-12 * (1 + np.abs(fixed))  # whole values that lie on an end of their range
        tight = shape.within(low - slack, high + slack)
        result = _nearest(tight, norm)
        if result is not None:
            return np.where(still, fixed, result)
    return None


# Points inside, and the largest of a linear form


def deepest_point(shape: Polyhedron) -> tuple[float, np.ndarray] | None:
    """The y that keeps the largest distance (at most 1) to all planes, and that distance; None where it is empty.

    The distance is negative where no y satisfies all rows; planes that are not strict may then still meet in a point.
    """
    m, u = shape.G.shape
    cost = np.zeros(u + 1)
    cost[-1] = -1.0
    programme = _Programme(cost, [], [], [], np.append(shape.low, -np.inf), np.append(shape.high, 1.0),
                           np.zeros(u + 1, dtype=bool))  # fmt: skip
    programme.add(np.column_stack([shape.G, np.ones(m)]), -np.inf, shape.h)
    found = programme.solve()
    return None if found is None else (float(found[-1]), found[:-1])


def largest_value(shape: Polyhedron, form: np.ndarray, discrete: Discrete) -> np.ndarray | None:
    """The y with the largest ``form @ y``; None where the polyhedron is empty, UnboundedError where there is no end."""
    u = len(form)
    whole = np.flatnonzero(discrete.whole)
    width = u + len(whole)
    low, high = np.r_[shape.low, np.full(len(whole), -np.inf)], np.r_[shape.high, np.full(len(whole), np.inf)]
    programme = _Programme(np.r_[-form, np.zeros(len(whole))], [], [], [], low, high, np.arange(width) >= u)
    programme.add(np.hstack([shape.G, np.zeros((len(shape.h), len(whole)))]), -np.inf, shape.h)
    for k, j in enumerate(whole.tolist()):
        row = np.zeros((1, width))
        row[0, j], row[0, u + k] = discrete.scale[j], -1.0
        programme.add(row, np.round(discrete.at[j]) - discrete.at[j], np.round(discrete.at[j]) - discrete.at[j])
    for group in discrete.groups:
        row = np.zeros((1, width))
        row[0, group] = discrete.scale[group]
        programme.add(row, 1.0 - discrete.at[group].sum(), 1.0 - discrete.at[group].sum())
    found = programme.solve()
    return None if found is None else found[:u]
