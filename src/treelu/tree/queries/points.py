"""Points of a polyhedron: the nearest in l1, l∞ and l2, the deepest, the largest of a linear form, or none at all.

l1, l∞ and the last two are linear programmes. l2 is solved by non-negative least squares on the dual: Lawson and
Hanson, *Solving Least Squares Problems*, chapter 23 (LDP): min ‖y‖ with G y ≤ h is solved by λ ≥ 0 that minimises
‖[−Gᵀ; −hᵀ] λ − e‖, e the last unit vector; with its residual r, y = −r₁…ᵤ / rᵤ₊₁; r = 0 where there is no y.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog, nnls

from treelu.tree.queries.exact import excludes
from treelu.tree.queries.polyhedron import DUAL_NORM, Polyhedron, length
from treelu.tree.rows import dense

_FAR = 1e-6  # ‖r‖ below this: more than a million times as far as the farthest plane, or empty
_CLEAR = 1e-7  # a depth that rounding in a solver does not make
MARGINS = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5)  # in units of scale; of a leaf that is thinner no row is found
CLEAR_MARGINS = (1e-6, 1e-8, 1e-10)  # where any row will do: one that is clearly inside
_DUAL, _GAP = 1e-9, 1e-7  # of their terms: a reduced cost, and a gap between bound and cost, that count as none

_FEASIBLE = 1e-10  # by so much a point may violate a row, which rounding in the units of one-hot groups does

_OPTIONS: Any = {"primal_feasibility_tolerance": _FEASIBLE, "dual_feasibility_tolerance": 1e-10}
# Tried in turn: presolve sometimes cannot tell "none" from "no end", and units of very unlike size need more tolerance.
# Without a limit the interior-point method does not end on some of them.
_LIMIT: Any = {"maxiter": 10_000}
_WAYS: Any = (
    ("highs", _OPTIONS | _LIMIT),
    ("highs-ds", _OPTIONS | _LIMIT | {"presolve": False}),
    ("highs", _LIMIT),
    ("highs-ipm", _LIMIT),
)


class UnboundedError(ArithmeticError):
    """A linear form has no largest value."""


def _solve(
    cost: np.ndarray, A: Any, most: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """The v in a box with the least ``cost @ v`` and ``A @ v <= most``, and the multipliers of the rows.

    None where the solver finds none or ends without an answer, which proves nothing.
    """
    if (low > high).any():
        return None
    free = low < high
    if not free.all():  # what cannot move would set the units of its rows
        found = _solve(cost[free], A[:, free], most - A[:, ~free] @ low[~free], low[free], high[free])
        v = low.copy()
        if found is not None:
            v[free] = found[0]
        return None if found is None else (v, found[1])
    if not len(cost):
        return (np.zeros(0), np.zeros(len(most))) if (most >= -_FEASIBLE).all() else None
    rows, columns = _balance(A, cost)
    size = np.abs(cost * columns).max(initial=0.0) or 1.0
    arguments: dict[str, Any] = {"bounds": np.column_stack([low / columns, high / columns])}
    if len(most):
        arguments |= {"A_ub": A * rows[:, None] * columns, "b_ub": np.clip(most * rows, -1e300, 1e300)}
    for method, options in _WAYS:
        result = linprog(cost * columns / size, method=method, options=options, **arguments)
        if result.status == 3:
            raise UnboundedError
        if result.status == 2:
            return None
        if result.status == 0 and np.isfinite(result.x).all():
            marginals = np.asarray(result.ineqlin.marginals) if len(most) else np.zeros(0)
            v, multipliers = np.clip(result.x * columns, low, high), np.maximum(-marginals * rows * size, 0.0)
            if _optimal(cost, A, most, low, high, v, multipliers):
                return v, multipliers
    return None


def _solve_bounded(
    cost: np.ndarray, A: Any, most: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """The same for a programme whose cost has a least value; a solver that denies it has found nothing."""
    try:
        return _solve(cost, A, most, low, high)
    except UnboundedError:
        return None


def _optimal(
    cost: np.ndarray,
    A: Any,
    most: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    v: np.ndarray,
    multipliers: np.ndarray,
) -> bool:
    """Whether the multipliers show that no other v costs less: the solver decides by its scaled numbers."""
    reduced = cost + multipliers @ A
    reduced = np.where(np.abs(reduced) > _DUAL * (np.abs(cost) + multipliers @ np.abs(A)), reduced, 0.0)
    moves = reduced != 0
    bound = float(reduced[moves] @ np.where(reduced > 0, low, high)[moves] - multipliers @ most)
    return float(cost @ v) - bound <= _GAP * float(np.abs(cost) @ np.abs(v) + multipliers @ np.abs(most) + 1e-9)


def _balance(A: Any, cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Powers of two for rows and columns, with which no entry of the matrix and the cost is very small or large.

    HiGHS leaves out entries of 1e-9 and less. Powers of two change the numbers in no other way.
    """
    m, n = A.shape
    size = np.abs(np.vstack([dense(A), cost]))
    values = size[:m][size[:m] > 0]
    if not len(values) or (values.min() > 1e-5 and values.max() < 1e5):
        return np.ones(m), np.ones(n)
    logs = np.where(size > 0, np.log2(np.where(size > 0, size, 1.0)), np.nan)
    r, c = np.zeros(m + 1), np.zeros(n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # rows and columns without entries
        for _ in range(6):
            middle = logs + r[:, None] + c
            r -= np.nan_to_num((np.nanmax(middle, axis=1) + np.nanmin(middle, axis=1)) / 2)
            middle = logs + r[:, None] + c
            c -= np.nan_to_num((np.nanmax(middle, axis=0) + np.nanmin(middle, axis=0)) / 2)
    return np.exp2(np.round(r[:m])), np.exp2(np.round(c))


# The nearest point


def nearest_point(shape: Polyhedron, norm: str = "l1") -> np.ndarray | None:
    """The y of least norm; None where the solver finds none."""
    if norm == "l2":
        return _projection(shape)
    y = _nearest(shape, norm)
    if y is None or norm == "l1":
        return y
    # Of the points with the same l∞ norm one with the least l1 norm: it changes fewer features.
    reach = np.full(len(y), length(y, norm) * (1 + 1e-9) + 1e-12)
    fewer = _nearest(shape.within(-reach, reach), "l1")
    return y if fewer is None else fewer


def _nearest(shape: Polyhedron, norm: str) -> np.ndarray | None:
    """Minimise the norm of y = p − n with p, n ≥ 0; variables p, n, then t for l∞."""
    u = shape.G.shape[1]
    low, high = shape.low, shape.high
    p = np.column_stack([np.maximum(low, 0.0), np.maximum(high, 0.0)])
    n = np.column_stack([np.maximum(-high, 0.0), np.maximum(-low, 0.0)])
    t = int(norm == "linf")
    ends = np.vstack([p, n, np.tile([0.0, np.inf], (t, 1))])
    cost = np.r_[np.full(2 * u, 0.0 if t else 1.0), np.ones(t)]
    A: Any = np.hstack([shape.G, -shape.G])
    most = shape.h
    if t:  # p + n ≤ t
        one: Any = sparse.eye_array(u)
        below: Any = sparse.hstack([one, one, sparse.csr_array(-np.ones((u, 1)))])
        A = sparse.vstack([sparse.csr_array(np.column_stack([A, np.zeros(len(A))])), below], format="csr")
        most = np.r_[most, np.zeros(u)]
    found = _solve_bounded(cost, A, most, ends[:, 0], ends[:, 1])
    return None if found is None else found[0][:u] - found[0][u : 2 * u]


def _projection(shape: Polyhedron) -> np.ndarray | None:
    """The y of least l2 norm, with the finite ends of the box as rows."""
    if (shape.low > shape.high).any():
        return None
    one, up, down = np.eye(len(shape.low)), np.isfinite(shape.high), np.isfinite(shape.low)
    G, h = np.vstack([shape.G, one[up], -one[down]]), np.r_[shape.h, shape.high[up], -shape.low[down]]
    y, _ = least_distance(G, h)
    if y is not None and (h + 1e-9 * (1 + np.abs(h)) - G @ y >= 0).all():
        return y
    deep = deepest_point(shape)
    return None if deep is None or deep.depth < -1e-9 else _from_inside(G, h, deep.y)


def least_distance(G: np.ndarray, h: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    """The y of least norm with G y ≤ h, and its multipliers; y is None where there seems to be none."""
    m, u = G.shape
    if not m or (h >= 0).all():
        return np.zeros(u), np.zeros(m)
    unit = float(np.max(-h))  # the distance of the farthest plane, so that ‖y‖ is about 1
    E = np.vstack([-G.T, -h[None] / unit])
    target = np.zeros(u + 1)
    target[-1] = 1.0
    try:
        multipliers, size = nnls(E, target, maxiter=max(100, 30 * m))
    except RuntimeError:
        return None, np.zeros(m)
    if size < _FAR:
        return None, multipliers
    residual = E @ multipliers - target
    y = residual[:-1] / -residual[-1] * unit
    active = multipliers > 0  # the least y on these planes, once more without the dual's rounding
    better = np.linalg.lstsq(G[active], h[active], rcond=None)[0]
    return (better if np.max(G @ better - h) <= max(np.max(G @ y - h), 1e-13) else y), multipliers


def _from_inside(G: np.ndarray, h: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """A primal active-set method from a point of the polyhedron: slower, and safe where the dual is ill-conditioned."""
    y, active = inside.copy(), np.zeros(len(h), dtype=bool)
    for _ in range(50 * (len(h) + 1)):
        goal = np.zeros_like(y)
        multipliers = np.zeros(0)
        if active.any():
            goal = np.linalg.lstsq(G[active], h[active], rcond=None)[0]
            multipliers = np.linalg.lstsq(G[active].T, -goal, rcond=None)[0]
        step = goal - y
        if np.abs(step).max(initial=0.0) <= 1e-13 * (1 + np.abs(y).max(initial=0.0)):
            if not len(multipliers) or multipliers.min() >= -1e-12:
                return y
            active[np.flatnonzero(active)[np.argmin(multipliers)]] = False
            continue
        rate, room = G @ step, np.maximum(h - G @ y, 0.0)
        blocking = ~active & (rate > 1e-14)
        reach = np.where(blocking, room / np.where(blocking, rate, 1.0), np.inf)
        if reach.min(initial=np.inf) >= 1:
            y = goal
        else:
            y = y + reach.min() * step
            active[int(np.argmin(reach))] = True
    return y


def surrogate_bound(G: np.ndarray, h: np.ndarray, multipliers: np.ndarray, norm: str) -> float:
    """How far y = 0 is from the half-space λᵀG y ≤ λᵀh that every y with G y ≤ h lies in: a lower bound in any norm."""
    direction, excess = multipliers @ G, -float(multipliers @ h)
    if excess <= 0:
        return 0.0
    dual = length(direction, DUAL_NORM[norm])
    # A direction of nearly 0 would show that there is no y at all; that is left to the programme.
    return excess / dual * (1 - 1e-9) if dual > 1e-9 * multipliers.sum() else 0.0


# Points inside, and the largest of a linear form


@dataclass(frozen=True)
class Deepest:
    """A point that keeps the largest distance (at most 1) to all planes.

    Attributes
    ----------
    depth : float
        Negative where no y satisfies all rows; planes that are not strict may then still meet in a point.
    y : array of shape (u,)
    multipliers : array of shape (m,)
        Of the planes, which prove that none is deeper.
    """

    depth: float
    y: np.ndarray
    multipliers: np.ndarray


def deepest_point(shape: Polyhedron, *, strict_only: bool = False) -> Deepest | None:
    """The deepest y of a polyhedron; None where the solver finds none.

    ``strict_only``: the distance to strict planes; y may lie on the others.
    """
    m, u = shape.G.shape
    cost = np.zeros(u + 1)
    cost[-1] = -1.0
    low, high = np.append(shape.low, -np.inf), np.append(shape.high, 1.0)
    kept = shape.strict.astype(float) if strict_only else np.ones(m)
    found = _solve_bounded(cost, np.column_stack([shape.G, kept]), shape.h, low, high)
    return None if found is None else Deepest(float(found[0][-1]), found[0][:-1], found[1])


def proved_empty(shape: Polyhedron, deep: Deepest | None = None) -> bool:
    """Whether it is proved that no row lies in a polyhedron, rounding in the tree's sums included.

    False is no answer: there may or may not be one. ``deep``: its deepest point, where that is known.
    """
    if shape.empty_by_bounds():
        return True
    if not len(shape.exact):
        return False
    deep = deepest_point(shape) if deep is None else deep
    if deep is None or deep.depth > _CLEAR:
        return False
    if excludes(shape.exact, *shape.box(), deep.multipliers):
        return True
    if deep.depth < -_CLEAR or not shape.strict.any():
        return False
    flat = deepest_point(shape, strict_only=True)  # planes that touch, and do not belong to the region
    return flat is not None and excludes(shape.exact, *shape.box(), flat.multipliers)


def largest_value(shape: Polyhedron, form: np.ndarray) -> np.ndarray | None:
    """The y with the largest ``form @ y``; None where the solver finds none, UnboundedError where there is no end."""
    found = _solve(-form, shape.G, shape.h, shape.low, shape.high)
    return None if found is None else found[0]


def points_inside(
    shape: Polyhedron,
    nearest: Callable[[Polyhedron], np.ndarray | None] = nearest_point,
    margins: Sequence[float] = MARGINS,
) -> Iterator[np.ndarray]:
    """Points of a polyhedron: the nearest by some measure, then others that keep margins."""
    if not shape.has_room():
        yield shape.low
        return
    first = nearest(shape)
    if first is None:
        return
    yield first
    if not proved_empty(shape):
        yield from deeper_points(shape, lambda inner, margin: nearest(inner), margins)


def deeper_points(
    shape: Polyhedron,
    nearest: Callable[[Polyhedron, float], np.ndarray | None],
    margins: Sequence[float] = MARGINS,
) -> Iterator[np.ndarray]:
    """The nearest points that keep a margin from all planes, and then from the strict ones only."""
    for strict_only in (False, True):
        for margin in margins:
            y = nearest(shape.inset(margin, strict_only=strict_only), margin)
            if y is not None:
                yield y
            elif margin < margins[-1]:  # none is deeper
                break
