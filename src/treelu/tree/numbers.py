"""How many numbers there are to read in a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treelu.tree.rows import dense

if TYPE_CHECKING:
    from treelu.tree.oblique_tree import ObliqueTree

SAME = 1e-9  # relative difference of numbers that are read as one
SAME_DIRECTION = 1 - 1e-11  # the cosine of weights that differ by the rounding of float32


def numbers_to_read(tree: ObliqueTree) -> int:
    """How many numbers a reader of the tree meets: its weights, thresholds and leaves.

    - A split counts its weights and 1 for the threshold; weights that several splits share count once.
    - A constant leaf counts 1, or K − 1 for K classes, whose frequencies add up to 1.
    - A linear leaf counts 1 for the intercept and 1 for each weight of each score, of which K classes have K − 1, as
      only differences of scores matter; a weight that several leaves share counts once.

    A logistic regression of D features thus counts D + 1.

    Examples
    --------
    >>> from treelu.tree import ObliqueTree
    >>> numbers_to_read(ObliqueTree([[1.0, 2.0]], [0.5], [[1, 2]], [[0.0], [1.0]]))
    5
    """
    leaf_weights = tree.leaf_weights
    values = tree.values
    if values.shape[1] > 1 and tree.link in ("softmax", "probability"):
        values = values[:, 1:]
        leaf_weights = None if leaf_weights is None else leaf_weights[:, 1:] - leaf_weights[:, :1]
    return split_numbers(dense(tree.weights)) + values.size + formula_numbers(leaf_weights)


def split_numbers(weights: NDArray[Any]) -> int:
    """Thresholds and weights of splits (S, D), whose order and common factors play no part.

    Examples
    --------
    >>> split_numbers(np.array([[1.0, 2.0], [-2.0, -4.0], [1.0, 0.0]]))
    6
    """
    weights = weights.astype(np.float64)
    lengths = np.linalg.norm(weights, axis=1, keepdims=True)
    directions = weights / np.where(lengths == 0, 1.0, lengths)
    cosines = np.tril(np.abs(directions @ directions.T), -1)
    is_new = cosines.max(axis=1, initial=0) < SAME_DIRECTION
    return len(weights) + int(np.count_nonzero(weights[is_new]))


def formula_numbers(leaf_weights: NDArray[np.float64] | None) -> int:
    """The distinct weights other than 0 of each score and feature in leaf weights (L, K, D).

    Examples
    --------
    >>> formula_numbers(np.array([[[1.0, 2.0]], [[1.0, 3.0]]]))
    3
    """
    if leaf_weights is None or not leaf_weights.size:
        return 0
    ordered = np.sort(leaf_weights, axis=0)
    is_new = np.ones(ordered.shape, bool)
    is_new[1:] = np.diff(ordered, axis=0) > SAME * np.abs(ordered).max(axis=0)
    return int((is_new & (ordered != 0)).sum())
