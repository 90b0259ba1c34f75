"""Scores of the league, and the numbers that a reader of a model has before them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from treelu import ObliqueTree
from treelu.tree.to_read import numbers_to_read as tree_numbers

LEAST = 1e-6  # probabilities are clipped to this before their logarithm is taken


def class_scores(y: np.ndarray, classes: np.ndarray, predicted: np.ndarray, p: np.ndarray | None) -> dict[str, float]:
    """Accuracy; and from probabilities log-loss and the mean over classes of the AUC of one against the rest.

    Examples
    --------
    >>> y, p = np.array([0, 0, 1, 1]), np.array([0.0, 0.4, 0.3, 0.9])
    >>> found = class_scores(y, np.array([0, 1]), (p > 0.5).astype(int), np.column_stack([1 - p, p]))
    >>> {name: round(value, 3) for name, value in found.items()}
    {'accuracy': 0.75, 'log_loss': 0.455, 'auc': 0.75}
    """
    found = {"accuracy": float(np.mean(predicted == y))}
    if p is None or not np.isfinite(p).all():  # STree's are not always
        return found
    p = np.clip(p, LEAST, 1 - LEAST)
    p /= p.sum(axis=1, keepdims=True)
    areas = [roc_auc_score(y == c, p[:, k]) for k, c in enumerate(classes) if 0 < np.sum(y == c) < len(y)]
    return {**found, "log_loss": float(log_loss(y, p, labels=classes)), "auc": float(np.mean(areas))}


def value_scores(y: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """R² and RMSE.

    Examples
    --------
    >>> value_scores(np.array([0.0, 4.0]), np.array([2.0, 4.0]))
    {'r2': 0.5, 'rmse': 1.4142135623730951}
    """
    error = float(np.mean((predicted - y) ** 2))
    return {"r2": 1 - error / float(np.var(y)), "rmse": error**0.5}


def numbers_to_read(model: Any) -> dict[str, float]:
    """Leaves and numbers of a readable model, as far as they are known.

    A split of one term counts its threshold, one of several its weights and its threshold. A leaf counts its value, the
    probability of one of two classes, or those of all of more; a linear leaf its non-zero coefficients and constants.
    Coefficients that several splits or leaves share count once (`treelu.tree.to_read`).
    A linear model counts coefficients and constants, EBM the scores of its bins and its constants, Cubist the
    thresholds of its rules and the non-zero coefficients and constants of their formulas.
    """
    model = getattr(model, "best_estimator_", model)
    model = model[-1] if hasattr(model, "steps") else model
    for suits, count in COUNTS:
        if suits(model):
            return count(model)
    return {}


def _oblique(model: Any) -> dict[str, float]:
    tree: ObliqueTree = model.tree_
    return {"leaves": tree.n_leaves, "numbers": tree_numbers(tree)}


def _leaf_width(classes: Any) -> int:
    """Numbers of a constant leaf."""
    return 1 if classes is None or len(classes) == 2 else len(classes)


def _ordinary(model: Any) -> dict[str, float]:
    leaves = int(model.tree_.n_leaves)
    return {"leaves": leaves, "numbers": leaves - 1 + leaves * _leaf_width(getattr(model, "classes_", None))}


def _linear(model: Any) -> dict[str, float]:
    return {"numbers": np.count_nonzero(model.coef_) + np.size(model.intercept_)}


def _bins(model: Any) -> dict[str, float]:
    return {"numbers": sum(np.size(scores) for scores in model.term_scores_) + np.size(model.intercept_)}


def _rules(model: Any) -> dict[str, float]:
    rules, thresholds = model.model_.count("conds="), model.model_.count(' cut="')
    lines = re.findall(r'^coeff="([^"]+)"(.*)$', model.model_, re.MULTILINE)
    coefficients = sum(1 + rest.count(' coeff="') for _, rest in lines)
    return {"leaves": rules, "numbers": thresholds + coefficients}


def _optimal(model: Any) -> dict[str, float]:
    leaves, splits = int(model.get_num_leaf_nodes()), int(model.get_num_branching_nodes())
    return {"leaves": leaves, "numbers": splits + leaves}  # its leaves have a class and no probabilities


def _vectors(model: Any) -> dict[str, float]:
    leaves = numbers = 0
    nodes = [model.tree_]
    while nodes:
        node = nodes.pop()
        if node.is_leaf():
            leaves += 1
            continue
        numbers += np.size(node._clf.coef_) + np.size(node._clf.intercept_)
        nodes += [child for child in (node.get_up(), node.get_down()) if child is not None]
    return {"leaves": leaves, "numbers": numbers + leaves}


def _counted(model: Any) -> dict[str, float]:
    leaves = model.n_leaves
    return {
        "leaves": leaves,
        "numbers": leaves - 1 + leaves * _leaf_width(model.classes_ if model.is_classifier else None),
    }


def _is_peer(name: str) -> Callable[[Any], bool]:
    return lambda model: type(model).__name__ == name


COUNTS: list[tuple[Callable[[Any], bool], Callable[[Any], dict[str, float]]]] = [
    (lambda model: isinstance(getattr(model, "tree_", None), ObliqueTree), _oblique),
    (_is_peer("Stree"), _vectors),
    (_is_peer("ConTree"), _optimal),
    (_is_peer("Cubist"), _rules),
    (_is_peer("OneTree"), _counted),
    (lambda model: hasattr(model, "term_scores_"), _bins),
    (lambda model: hasattr(getattr(model, "tree_", None), "n_leaves"), _ordinary),
    (lambda model: hasattr(model, "coef_"), _linear),
]  # fmt: skip
