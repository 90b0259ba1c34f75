"""`--balanced`: classes get the same weight in training; probabilities are corrected for it, a threshold decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from treelu.tree import ObliqueTree
from treelu.tree.rows import take_rows


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


def correct_probabilities(estimator: Any, X: Any, y: NDArray[Any]) -> None:
    """Correct a fitted classifier of two classes, or of several labels, for balanced class weights (prior shift).

    Weights w_k make probabilities proportional to w_k times those of the rows, which shifts scores by log(w_1 / w_0). A
    tree's leaves are divided by the weights. The scores of a network, whose weighted fit need not be exact, are shifted
    so that its mean probability in the training rows is the frequency of the class.
    """
    if y.ndim == 2:
        for member, column in zip(estimator.estimators_, y.T, strict=True):
            known = np.flatnonzero(column == column)  # not NaN
            correct_probabilities(member, take_rows(X, known), column[known])
    elif hasattr(estimator, "path_trees_"):
        weights = class_weights(y)
        estimator.path_trees_ = [corrected_tree(tree, weights) for tree in estimator.path_trees_]
        estimator.tree_ = estimator.path_trees_[int(np.argmax(estimator.path_["chosen"]))]
    else:
        frequency = np.mean(y == np.unique(y)[1])
        estimator.network_.rescale_outputs(1.0, -level_shift(estimator.decision_function(X), frequency))


def level_shift(scores: NDArray[np.float64], frequency: float) -> float:
    """The offset to subtract from scores so that their mean probability is a frequency.

    Examples
    --------
    >>> round(level_shift(np.zeros(10), 0.2), 3)  # the logarithm of 4
    1.386
    """
    bound = float(np.abs(scores).max()) + 50.0
    return float(brentq(lambda shift: expit(scores - shift).mean() - frequency, -bound, bound))


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
    shift = np.log(weights[1:] / weights[:1]) if tree.link == "logistic" else np.log(weights)
    return replace(tree, values=tree.values - shift)
