"""Trees grown best first, from which training starts: scikit-learn's, of one term a question, and trees of pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from treelu.training.small.growth import pair_tree
from treelu.training.small.soft_tree import Rows, SoftTree


class Grower:
    """Trees of rows, each grown once; a smaller ordinary tree is what the largest was before.

    Parameters
    ----------
    max_leaves : int
    max_depth : int or None
    min_samples : int
        The least rows of a leaf.
    seed : int
    """

    def __init__(self, max_leaves: int, max_depth: int | None, min_samples: int, seed: int) -> None:
        self._limits = max_leaves, max_depth, min_samples, seed
        self._grown: dict[tuple[int, str, int], tuple[Rows, Any]] = {}  # rows are kept: no others get their id

    def __call__(
        self, rows: Rows, size: int, criterion: str
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Children, features and thresholds of the ordinary tree with at most `size` leaves."""
        key = id(rows), criterion, self._limits[0]
        if key not in self._grown:
            self._grown[key] = rows, ordinary_tree(rows, criterion, *self._limits)
        return first_splits(self._grown[key][1], size)

    def pairs(self, rows: Rows, size: int) -> SoftTree:
        """The tree of one or two terms a question with at most `size` leaves."""
        key = id(rows), "pairs", size
        if key not in self._grown:
            self._grown[key] = rows, pair_tree(rows, size, self._limits[1])
        return self._grown[key][1]


def ordinary_tree(
    rows: Rows, criterion: str, max_leaves: int, max_depth: int | None, min_samples: int, seed: int
) -> Any:
    """scikit-learn's tree, grown best first."""
    common: dict[str, Any] = {
        "criterion": criterion, "max_leaf_nodes": max_leaves, "max_depth": max_depth, "min_samples_leaf": min_samples,
        "random_state": seed, "monotonic_cst": None if rows.signs is None else rows.signs.astype(np.int8),
    }  # fmt: skip
    if rows.is_classifier and not rows.taught:
        if (
            criterion == "squared_error"
        ):  # of soft targets, which a fold of one class has none of; of classes it is gini
            common["criterion"] = "gini"
        return DecisionTreeClassifier(**common).fit(rows.X[:, :-1], rows.target.argmax(axis=1), rows.weight).tree_
    target = rows.target[:, -1] if rows.is_classifier and rows.target.shape[1] == 2 else rows.target  # taught
    return DecisionTreeRegressor(**common).fit(rows.X[:, :-1], target, rows.weight).tree_


def first_splits(tree: Any, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Children, features and thresholds of scikit-learn's tree as it was when it had `size` leaves.

    A tree that is grown best first numbers the children of a node when it splits it.
    """
    left, right = tree.children_left, tree.children_right
    splits = np.flatnonzero(left >= 0)
    splits = np.sort(splits[np.argsort(left[splits])][: size - 1])
    below = np.sort(np.concatenate([left[splits], right[splits]]))
    number = np.zeros(len(left), np.int64)
    number[splits] = np.arange(len(splits))
    leaves = np.setdiff1d(below, splits)
    number[leaves] = len(splits) + np.arange(len(leaves))
    return np.column_stack([number[left[splits]], number[right[splits]]]), tree.feature[splits], tree.threshold[splits]
