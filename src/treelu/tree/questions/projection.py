"""The nearest point of a polyhedron in l2, by non-negative least squares on its dual.

Lawson and Hanson, *Solving Least Squares Problems*, chapter 23 (LDP): min ‖y‖ with G y ≤ h is solved by λ ≥ 0 that
minimises ‖[−Gᵀ; −hᵀ] λ − e‖, e the last unit vector; with its residual r, y = −r₁…ᵤ / rᵤ₊₁; r = 0 where there is no y.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import nnls

from treelu.tree.questions.geometry import Polyhedron
from treelu.tree.questions.programmes import Discrete, deepest_point

_FAR = 1e-6  # ‖r‖ below this: more than a million times as far as the farthest plane, or empty


def project(shape: Polyhedron) -> np.ndarray | None:
    """The y of least l2 norm, or None where the polyhedron is empty."""
    if (shape.low > shape.high).any():
        return None
    G, h = _with_box(shape)
    y, _ = least_distance(G, h)
    if y is None or not _satisfied(G, h, y):
        deep = deepest_point(shape)
        if deep is None or deep[0] < -1e-9:
            return None
        return _from_inside(G, h, deep[1])
    return y


def _with_box(shape: Polyhedron) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the box as rows; of those that hold at 0 only finite ones."""
    one = np.eye(len(shape.low))
    up, down = np.isfinite(shape.high), np.isfinite(shape.low)
    return np.vstack([shape.G, one[up], -one[down]]), np.r_[shape.h, shape.high[up], -shape.low[down]]


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
    return _on_planes(G, h, y, multipliers > 0), multipliers


def _on_planes(G: np.ndarray, h: np.ndarray, y: np.ndarray, active: np.ndarray) -> np.ndarray:
    """The least y on the active planes, solved once more without the dual's rounding, if it satisfies all rows."""
    better = np.linalg.lstsq(G[active], h[active], rcond=None)[0]
    return better if np.max(G @ better - h) <= max(np.max(G @ y - h), 1e-13) else y


def _satisfied(G: np.ndarray, h: np.ndarray, y: np.ndarray) -> bool:
    return bool((h + 1e-9 * (1 + np.abs(h)) - G @ y >= 0).all())


def _from_inside(G: np.ndarray, h: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """A primal active-set method from a point of the polyhedron: slower, and safe where the dual is ill-conditioned."""
    y, active = inside.copy(), np.zeros(len(h), dtype=bool)
    for _ in range(50 * (len(h) + 1)):
        goal = np.zeros_like(y)
        multipliers = np.zeros(0)
        if active.any():
            multipliers = np.linalg.lstsq(G[active] @ G[active].T, -h[active], rcond=None)[0]
            goal = -G[active].T @ multipliers
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
    size = np.abs(direction)
    dual = {"l1": size.max(initial=0.0), "linf": size.sum(), "l2": float(np.linalg.norm(direction))}[norm]
    # A direction of nearly 0 would show that there is no y at all; that is left to the programme.
    return excess / dual * (1 - 1e-9) if dual > 1e-9 * multipliers.sum() else 0.0


# Whole numbers, groups and a limit on the number of changes


def project_discrete(shape: Polyhedron, discrete: Discrete) -> np.ndarray | None:
    """The nearest point in l2 under conditions of whole numbers: branch and bound over projections."""
    shape = _with_groups(shape, discrete)
    unit, n_units = discrete.units()
    order = itertools.count()
    heap: list[tuple[float, int, np.ndarray, Polyhedron, frozenset[int]]] = []

    def push(part: Polyhedron, moved: frozenset[int]) -> None:
        y = project(part)
        if y is not None:
            heapq.heappush(heap, (float(y @ y), next(order), y, part, moved))

    push(shape, frozenset())
    while heap:
        _, _, y, part, moved = heapq.heappop(heap)
        j = _fractional(y, discrete)
        if j is not None:
            value = discrete.at[j] + discrete.scale[j] * y[j]
            below = (np.floor(value) - discrete.at[j]) / discrete.scale[j]
            above = (np.ceil(value) - discrete.at[j]) / discrete.scale[j]
            push(_cut(part, [j], high=below), moved)
            push(_cut(part, [j], low=above), moved)
            continue
        extra = _extra_change(y, unit, n_units, discrete.max_changes, moved)
        if extra is None:
            return y
        push(_cut(part, np.flatnonzero(unit == extra), low=0.0, high=0.0), moved)  # it stays as it is,
        moved = moved | {extra}  # or it is one of those that change
        if len(moved) < (discrete.max_changes or 0):
            heapq.heappush(heap, (float(y @ y), next(order), y, part, moved))
        else:  # no change is left for the others
            push(_cut(part, np.flatnonzero(~np.isin(unit, list(moved))), low=0.0, high=0.0), moved)
    return None


def _with_groups(shape: Polyhedron, discrete: Discrete) -> Polyhedron:
    """Sums of groups as two rows each."""
    rows, limits = [shape.G], [shape.h]
    for group in discrete.groups:
        row = np.zeros(shape.G.shape[1])
        row[group] = discrete.scale[group]
        length = np.linalg.norm(row)
        left = (1.0 - discrete.at[group].sum()) / length
        rows.append(np.stack([row, -row]) / length)
        limits.append(np.array([left, -left]))
    h = np.concatenate(limits)
    more = len(h) - len(shape.h)
    return replace(
        shape, G=np.vstack(rows), h=h, strict=np.r_[shape.strict, np.zeros(more, dtype=bool)],
        noise=np.r_[shape.noise, np.zeros(more)],
    )  # fmt: skip


def _fractional(y: np.ndarray, discrete: Discrete) -> int | None:
    """The whole-number feature that is farthest from a whole number, None if all are."""
    values = discrete.at + discrete.scale * y
    away = np.where(discrete.whole, np.abs(values - np.round(values)), 0.0)
    return int(np.argmax(away)) if away.max(initial=0.0) > 1e-7 else None


def _extra_change(y: np.ndarray, unit: np.ndarray, n_units: int, most: int | None, moved: frozenset[int]) -> int | None:
    """Where too many change, the one that changes most and of which nothing has been decided; else None."""
    if most is None:
        return None
    size = np.zeros(n_units)
    np.maximum.at(size, unit, np.abs(y))
    if np.count_nonzero(size > 1e-9) <= most:
        return None
    size[list(moved)] = -1.0
    return int(np.argmax(size))


def _cut(shape: Polyhedron, features: Any, low: float = -np.inf, high: float = np.inf) -> Polyhedron:
    """The same with narrower ranges of some features."""
    lows, highs = shape.low.copy(), shape.high.copy()
    lows[features], highs[features] = np.maximum(lows[features], low), np.minimum(highs[features], high)
    return replace(shape, low=lows, high=highs)
