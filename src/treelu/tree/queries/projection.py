"""The nearest point of a polyhedron in l2, by non-negative least squares on its dual.

Lawson and Hanson, *Solving Least Squares Problems*, chapter 23 (LDP): min ‖y‖ with G y ≤ h is solved by λ ≥ 0 that
minimises ‖[−Gᵀ; −hᵀ] λ − e‖, e the last unit vector; with its residual r, y = −r₁…ᵤ / rᵤ₊₁; r = 0 where there is no y.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from treelu.tree.queries.geometry import Polyhedron
from treelu.tree.queries.programmes import deepest_point

_FAR = 1e-6  # ‖r‖ below this: more than a million times as far as the farthest plane, or empty


def project(shape: Polyhedron) -> np.ndarray | None:
    """The y of least l2 norm, or None where the polyhedron is empty."""
    if (shape.low > shape.high).any():
        return None
    G, h = _with_box(shape)
    y, _ = least_distance(G, h)
    if y is None or not _satisfied(G, h, y):
        deep = deepest_point(shape)
        if deep is None or deep.depth < -1e-9:
            return None
        return _from_inside(G, h, deep.y)
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
    size = np.abs(direction)
    dual = {"l1": size.max(initial=0.0), "linf": size.sum(), "l2": float(np.linalg.norm(direction))}[norm]
    # A direction of nearly 0 would show that there is no y at all; that is left to the programme.
    return excess / dual * (1 - 1e-9) if dual > 1e-9 * multipliers.sum() else 0.0
