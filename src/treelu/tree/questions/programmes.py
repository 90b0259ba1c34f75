"""Linear programmes on a polyhedron: the nearest point in l1 and l∞, the deepest point, the largest linear form."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from treelu.tree.questions.exact import excludes
from treelu.tree.questions.geometry import Polyhedron

_CLEAR = 1e-7  # a depth that rounding in a solver does not make

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


def _solve(
    cost: np.ndarray, A: Any, most: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """The v in a box with the least ``cost @ v`` and ``A @ v <= most``, and the multipliers of the rows.

    None where the solver finds none at all, which proves nothing.
    """
    if (low > high).any():
        return None
    if not len(cost):
        return (np.zeros(0), np.zeros(len(most))) if (most >= 0).all() else None
    A, rows, columns = _balanced(A)
    size = np.abs(cost * columns).max(initial=0.0) or 1.0
    arguments: dict[str, Any] = {"bounds": np.column_stack([low / columns, high / columns])}
    if len(most):
        arguments |= {"A_ub": A, "b_ub": np.clip(most * rows, -1e300, 1e300)}
    for method, options in _WAYS:
        result = linprog(cost * columns / size, method=method, options=options, **arguments)
        if result.status in (0, 2, 3):
            break
    if result.status == 3:
        raise UnboundedError
    if result.status == 2:
        return None
    if result.x is None or not np.isfinite(result.x).all():
        raise UnsolvedError(f"a linear programme was not solved: {result.message}")
    multipliers = -np.asarray(result.ineqlin.marginals) * rows * size if len(most) else np.zeros(0)
    return np.clip(result.x * columns, low, high), np.maximum(multipliers, 0.0)


def _balanced(A: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """The matrix with rows and columns multiplied by powers of two, where its entries are of very unlike size.

    HiGHS leaves out entries of 1e-9 and less. Powers of two change the numbers in no other way.
    """
    m, n = A.shape
    rows, columns = np.ones(m), np.ones(n)
    values = np.abs(A.data if sparse.issparse(A) else A)
    values = values[values > 0]
    if not len(values) or (values.min() > 1e-5 and values.max() < 1e5):
        return A, rows, columns
    size: Any = np.abs(A.toarray() if sparse.issparse(A) else A)
    logs = np.where(size > 0, np.log2(np.where(size > 0, size, 1.0)), np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # rows and columns without entries
        r, c = np.zeros(m), np.zeros(n)
        for _ in range(6):
            middle = logs + r[:, None] + c
            r -= np.nan_to_num((np.nanmax(middle, axis=1) + np.nanmin(middle, axis=1)) / 2)
            middle = logs + r[:, None] + c
            c -= np.nan_to_num((np.nanmax(middle, axis=0) + np.nanmin(middle, axis=0)) / 2)
    rows, columns = np.exp2(np.round(r)), np.exp2(np.round(c))
    return A * rows[:, None] * columns if not sparse.issparse(A) else A.multiply(rows[:, None]).multiply(
        columns).tocsr(), rows, columns  # fmt: skip


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
    return None if found is None else found[0][:u] - found[0][u : 2 * u]


def _fewer_changes(shape: Polyhedron, y: np.ndarray) -> np.ndarray:
    """Of the points with the same l∞ norm one with the least l1 norm: it changes fewer features."""
    reach = np.abs(y).max(initial=0.0) * (1 + 1e-9) + 1e-12
    sparse_y = _nearest(shape.within(np.full(len(y), -reach), np.full(len(y), reach)), "l1")
    return y if sparse_y is None else sparse_y


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
    """The deepest y of a polyhedron; None where the box is empty.

    ``strict_only``: the distance to strict planes; y may lie on the others.
    """
    m, u = shape.G.shape
    cost = np.zeros(u + 1)
    cost[-1] = -1.0
    low, high = np.append(shape.low, -np.inf), np.append(shape.high, 1.0)
    kept = shape.strict.astype(float) if strict_only else np.ones(m)
    found = _solve(cost, np.column_stack([shape.G, kept]), shape.h, low, high)
    return None if found is None else Deepest(float(found[0][-1]), found[0][:-1], found[1])


def proved_empty(shape: Polyhedron, deep: Deepest | None = None) -> bool:
    """Whether it is proved that no row lies in a polyhedron, rounding in the tree's sums included.

    False is no answer: there may or may not be one. ``deep``: its deepest point, where that is known.
    """
    if shape.empty_by_bounds():
        return True
    if shape.exact is None or not len(shape.exact):
        return False
    try:
        deep = deepest_point(shape) if deep is None else deep
        if deep is None or deep.depth > _CLEAR:
            return False
        if excludes(shape.exact, *shape.box(), deep.multipliers):
            return True
        if deep.depth < -_CLEAR or not shape.strict.any():
            return False
        flat = deepest_point(shape, strict_only=True)  # planes that touch, and do not belong to the region
    except (UnsolvedError, UnboundedError):
        return False
    return flat is not None and excludes(shape.exact, *shape.box(), flat.multipliers)


def largest_value(shape: Polyhedron, form: np.ndarray) -> np.ndarray | None:
    """The y with the largest ``form @ y``; None where the polyhedron is empty, UnboundedError where there is no end."""
    found = _solve(-form, shape.G, shape.h, shape.low, shape.high)
    return None if found is None else found[0]
