"""Linear programmes on a polyhedron: the nearest point in l1 and l∞, the deepest point, the largest linear form."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from treelu.tree.questions.geometry import Polyhedron

_OPTIONS: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
# Tried in turn: presolve sometimes cannot tell "none" from "no end", and units of very unlike size need more tolerance.
_WAYS: Any = (
    ("highs", _OPTIONS),
    ("highs-ds", _OPTIONS | {"presolve": False}),
    ("highs", {}),
    ("highs-ipm", {}),
)


class UnsolvedError(RuntimeError):
    """HiGHS ended without an answer."""


class UnboundedError(ArithmeticError):
    """A linear form has no largest value."""


def _solve(cost: np.ndarray, A: Any, most: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray | None:
    """The v in a box with the least ``cost @ v`` and ``A @ v <= most``, None where there is none at all."""
    if (low > high).any():
        return None
    arguments: dict[str, Any] = {"bounds": np.column_stack([low, high])}
    if len(most):
        arguments |= {"A_ub": A, "b_ub": most}
    for method, options in _WAYS:
        result = linprog(cost, method=method, options=options, **arguments)
        if result.status in (0, 2, 3):
            break
    if result.status == 3:
        raise UnboundedError
    if result.x is None and result.status != 2:
        raise UnsolvedError(f"a linear programme was not solved: {result.message}")
    return result.x


# The nearest point


def nearest_point(shape: Polyhedron, norm: str) -> np.ndarray | None:
    """The y of least l1 or l∞ norm, or None where the polyhedron is empty."""
    y = _nearest(shape, norm)
    return y if y is None or norm == "l1" else _fewer_changes(shape, y)


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
    found = _solve(cost, A, most, ends[:, 0], ends[:, 1])
    return None if found is None else found[:u] - found[u : 2 * u]


def _fewer_changes(shape: Polyhedron, y: np.ndarray) -> np.ndarray:
    """Of the points with the same l∞ norm one with the least l1 norm: it changes fewer features."""
    reach = np.abs(y).max(initial=0.0) * (1 + 1e-9) + 1e-12
    sparse_y = _nearest(shape.within(np.full(len(y), -reach), np.full(len(y), reach)), "l1")
    return y if sparse_y is None else sparse_y


# Points inside, and the largest of a linear form


def deepest_point(shape: Polyhedron, *, strict_only: bool = False) -> tuple[float, np.ndarray] | None:
    """The y that keeps the largest distance (at most 1) to all planes, and that distance; None where it is empty.

    The distance is negative where no y satisfies all rows; planes that are not strict may then still meet in a point.
    ``strict_only``: the distance to strict planes; y may lie on the others.
    """
    m, u = shape.G.shape
    cost = np.zeros(u + 1)
    cost[-1] = -1.0
    low, high = np.append(shape.low, -np.inf), np.append(shape.high, 1.0)
    kept = shape.strict.astype(float) if strict_only else np.ones(m)
    found = _solve(cost, np.column_stack([shape.G, kept]), shape.h, low, high)
    return None if found is None else (float(found[-1]), found[:-1])


def largest_value(shape: Polyhedron, form: np.ndarray) -> np.ndarray | None:
    """The y with the largest ``form @ y``; None where the polyhedron is empty, UnboundedError where there is no end."""
    return _solve(-form, shape.G, shape.h, shape.low, shape.high)
