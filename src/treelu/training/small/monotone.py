"""Leaf values in order, so that the output only rises (or falls) with some features.

A tree rises with a feature if, at each split that has it, the weight has the feature's sign and no leaf on the left
is above a leaf on the right: of two rows that differ in the feature only, the higher one stays on the same path or
leaves it to the right. This suffices; it is not necessary. With slopes that all leaves share and that have the
feature's sign, the same holds of the intercepts of linear leaves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def directions(weights: Any, signs: NDArray[np.floating]) -> NDArray[np.float64]:
    """Of each split 1 if its right side must not be below its left, −1 for the reverse, 0 if it is free.

    Parameters
    ----------
    weights : array or sparse matrix of shape (S, D)
    signs : array of shape (D,)
        1 where the output must not fall with a feature, −1 where it must not rise, 0 elsewhere.
    """
    return np.asarray(np.sign(weights @ signs.astype(np.float64)))


def ordered_values(
    children: NDArray[np.int64],
    direction: NDArray[np.float64],
    values: NDArray[np.float64],
    mass: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Leaf values (S + 1,) clipped so that each split keeps its direction.

    The bound between the two sides of a split is half way between their means, within the bounds from above.

    Examples
    --------
    >>> ordered_values(np.array([[1, 2]]), np.array([1.0]), np.array([3.0, 1.0]), np.array([5.0, 5.0])).tolist()
    [2.0, 2.0]
    """
    n_splits = len(children)
    total = np.concatenate([np.zeros(n_splits), values * mass])
    weight = np.concatenate([np.zeros(n_splits), mass])
    for node in range(n_splits - 1, -1, -1):
        total[node], weight[node] = total[children[node]].sum(), weight[children[node]].sum()
    mean = total / np.maximum(weight, 1e-12)
    low, high = np.full(2 * n_splits + 1, -np.inf), np.full(2 * n_splits + 1, np.inf)
    for node in range(n_splits):
        left, right = children[node]
        low[children[node]], high[children[node]] = low[node], high[node]
        if direction[node]:
            below, above = (left, right) if direction[node] > 0 else (right, left)
            middle = np.clip((mean[left] + mean[right]) / 2, low[node], high[node])
            high[below], low[above] = middle, middle
    return np.clip(values, low[n_splits:], high[n_splits:])
