"""Redundant terms: without them every row takes the same branch, at about the same distance from the boundary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

AS_CLEARLY = 0.8  # how much of its distance from the boundary a row keeps
NEAREST = 256  # rows next to the boundary, which are checked before the others

Floats = NDArray[np.float64]


def without_redundant_terms(
    weights: Floats, biases: Floats, spread: Floats, tables: Sequence[Floats]
) -> tuple[Floats, Floats]:
    """Weights and biases of parallel splits without their redundant terms.

    The splits share their weights. A term is redundant if its feature can be replaced by its mean over the rows of each
    split while every row stays on its side and keeps four fifths of its original distance from the boundary. The
    weakest terms (|weight| × standard deviation) are tried first; at least one is kept.

    Parameters
    ----------
    weights, spread : arrays of shape (D,)
    biases : array of shape (splits,)
    tables : arrays of shape (rows, D)
        The rows that reach each split.

    Examples
    --------
    >>> X = np.array([[-2.0, 5.0], [-1.0, 3.0], [1.0, 4.0], [2.0, 4.0]])
    >>> weights, biases = without_redundant_terms(np.array([1.0, 0.1]), np.array([-0.4]), np.ones(2), [X])
    >>> weights.tolist(), biases.tolist()
    ([1.0, 0.0], [0.0])
    """
    used = np.flatnonzero(weights)
    kept, moved = weights.copy(), biases.copy()
    before = [table @ weights + bias for table, bias in zip(tables, biases, strict=True)]
    nearest = [np.argsort(np.abs(z), kind="stable")[:NEAREST] for z in before]
    now = before
    for feature in used[np.argsort(np.abs(weights[used]) * spread[used], kind="stable")]:
        if np.count_nonzero(kept) == 1:
            break
        parts = [weights[feature] * table[:, feature] for table in tables]
        means = np.array([part.mean() if len(part) else 0.0 for part in parts])
        near = [z[rows] - part[rows] + mean for z, part, mean, rows in zip(now, parts, means, nearest, strict=True)]
        if not all(_as_clear(z, old[rows]) for z, old, rows in zip(near, before, nearest, strict=True)):
            continue
        after = [z - part + mean for z, part, mean in zip(now, parts, means, strict=True)]
        if all(_as_clear(z, old) for z, old in zip(after, before, strict=True)):
            now, kept[feature] = after, 0.0
            moved += means
    sides = [table @ kept + bias >= 0 for table, bias in zip(tables, moved, strict=True)]
    if all(np.array_equal(side, z >= 0) for side, z in zip(sides, before, strict=True)):
        return kept, moved
    return weights, biases  # rounding has sent rows on the boundary elsewhere


def _as_clear(z: Floats, before: Floats) -> bool:
    """Whether all rows are on the side where they were, and about as far from the boundary."""
    return bool(np.all((z >= 0) == (before >= 0)) and np.all(np.abs(z) >= AS_CLEARLY * np.abs(before)))
