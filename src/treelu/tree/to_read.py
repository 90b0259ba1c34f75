"""How many numbers there are to read in a tree."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treelu.tree import terms
from treelu.tree.one_hot import categories
from treelu.tree.rows import dense

if TYPE_CHECKING:
    from treelu.tree.oblique_tree import ObliqueTree

SAME = 1e-9  # relative difference of numbers that are read as one
SAME_DIRECTION = 1 - 1e-11  # the cosine of weights that differ by the rounding of float32


def numbers_to_read(tree: ObliqueTree) -> int:
    """How many numbers a reader of the tree meets: its weights, thresholds and leaves.

    - A split of one feature counts its threshold; one of several its weights and its threshold. Weights that several
      splits share count once.
    - A split by a set of a category's levels counts the levels that it names. In other splits a category counts its
      weights, at most one less than its levels.
    - A constant leaf counts its value, the probability of one of two classes, or those of all of more.
    - A linear leaf counts, for each score, the weights that are not 0 and the constant. A weight that several leaves
      share counts once.

    A logistic regression of D features thus counts D + 1.

    Examples
    --------
    >>> from treelu.tree import ObliqueTree
    >>> numbers_to_read(ObliqueTree([[1.0, 2.0]], [0.5], [[1, 2]], [[0.0], [1.0]]))
    5
    """
    n_outputs = leaf_width(tree.values.shape[1], is_classifier=tree.is_classifier)
    group = terms.of_groups(categories(tree), tree.n_features)
    return split_numbers(dense(tree.weights), group) + tree.n_leaves * n_outputs + formula_numbers(tree.leaf_weights)


def leaf_width(n_outputs: int, *, is_classifier: bool) -> int:
    """Numbers of a constant leaf, or scores of a linear one.

    Examples
    --------
    >>> leaf_width(2, is_classifier=True), leaf_width(3, is_classifier=True), leaf_width(2, is_classifier=False)
    (1, 3, 2)
    """
    return 1 if is_classifier and n_outputs == 2 else n_outputs


def split_numbers(weights: NDArray[Any], group: terms.Group = None) -> int:
    """Thresholds and weights of splits (S, D), whose order and common factors play no part; levels of sets.

    Examples
    --------
    >>> split_numbers(np.array([[1.0, 2.0], [-2.0, -4.0], [1.0, 0.0]]))
    5
    >>> split_numbers(np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.array([0, 0, 0]))
    3
    """
    weights = weights.astype(np.float64)
    lengths = np.linalg.norm(weights, axis=1, keepdims=True)
    directions = weights / np.where(lengths == 0, 1.0, lengths)
    is_new = _are_new(directions)
    n_terms, numbers = terms_and_weights(weights, group)
    is_sum, is_set = n_terms > 1, (n_terms == 1) & (numbers > 1)
    return int((~is_set).sum() + numbers[(is_new & is_sum) | is_set].sum())


def _are_new(directions: NDArray[Any]) -> NDArray[np.bool_]:
    """Which unit vectors (S, D) stand for themselves: all others are one of these or its opposite.

    Vectors of one direction have one projection on any line. So each is compared with those near it on one line, which
    takes little memory for the 65,535 splits of a large tree.
    """
    line = np.cos(np.arange(1.0, directions.shape[1] + 1))
    projections = np.abs(directions @ (line / np.linalg.norm(line)))
    distance = np.sqrt(2 * (1 - SAME_DIRECTION))  # of two unit vectors of one direction, at most
    kept: list[int] = []
    kept_projections: list[float] = []
    for row in np.argsort(projections, kind="stable"):
        near = kept[bisect_left(kept_projections, projections[row] - distance) :]
        if (np.abs(directions[near] @ directions[row]) < SAME_DIRECTION).all():
            kept.append(row)
            kept_projections.append(projections[row])
    return np.isin(np.arange(len(directions)), kept)


def terms_and_weights(weights: NDArray[Any], group: terms.Group) -> tuple[NDArray[Any], NDArray[Any]]:
    """The terms of each split (S, D), and its weights other than 0: of a category at most one less than its levels."""
    used = weights != 0
    if group is None:
        return used.sum(axis=1), used.sum(axis=1)
    parts = terms.members(group)
    numbers = np.column_stack([used[:, part].sum(axis=1) for part in parts])
    return (numbers > 0).sum(axis=1), np.minimum(numbers, [max(1, len(part) - 1) for part in parts]).sum(axis=1)


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
