"""`--balanced`: classes get the same weight in training; probabilities are corrected for it, a threshold decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treelu.tree import ObliqueTree


def class_weights(y: NDArray[Any]) -> NDArray[np.float64]:
    """The weight of each of two classes (in sorted order) that gives both the same total; NaN is an unknown label.

    Examples
    --------
    >>> class_weights(np.array(["no", "no", "no", "yes"])).round(2)
    array([0.67, 2.  ])
    """
    known = y[y == y]
    counts = np.unique(known, return_counts=True)[1]
    return len(known) / (2.0 * counts)


def correct_probabilities(estimator: Any, y: NDArray[Any]) -> None:
    """Correct a fitted classifier of two classes, or of several labels, for balanced class weights (prior shift).

    A row of weight w_k for class k makes p_k proportional to w_k times the probability: each is divided by its weight,
    which shifts a score by log(w_1 / w_0).
    """
    if y.ndim == 2:
        for member, column in zip(estimator.estimators_, y.T, strict=True):
            correct_probabilities(member, column)
        return
    weights = class_weights(y)
    if hasattr(estimator, "path_trees_"):
        estimator.path_trees_ = [corrected_tree(tree, weights) for tree in estimator.path_trees_]
        estimator.tree_ = estimator.path_trees_[estimator._chosen_step]
    else:
        estimator.network_.rescale_outputs(1.0, -_shift(weights))


def corrected_tree(tree: ObliqueTree, weights: NDArray[np.float64]) -> ObliqueTree:
    """A tree of two classes whose leaves have the probabilities of rows without these class weights.

    Examples
    --------
    >>> leaves = [[0.5, 0.5], [0.1, 0.9]]
    >>> tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], leaves, link="probability", classes=["no", "yes"])
    >>> corrected_tree(tree, np.array([0.5, 4.5])).values.round(2)
    array([[0.9, 0.1],
           [0.5, 0.5]])
    """
    if tree.link == "probability":
        values = tree.values / weights
        return replace(tree, values=values / values.sum(axis=1, keepdims=True))
    return replace(tree, values=tree.values - (_shift(weights) if tree.link == "logistic" else np.log(weights)))


def _shift(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(weights[1:] / weights[:1])
