"""Scores of fitted models on the three parts of a data set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score, root_mean_squared_error

Parts = dict[str, tuple[Any, np.ndarray]]
Scores = dict[str, float]


def score(task: str, y: np.ndarray, predicted: np.ndarray) -> float:
    """AUC of scores for classes 0 and 1, RMSE of predicted values; six decimals are kept.

    Examples
    --------
    >>> score("classification", np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.35, 0.8]))
    0.75
    """
    function = roc_auc_score if task == "classification" else root_mean_squared_error
    return round(float(function(y, predicted)), 6)


def part_scores(task: str, parts: Parts, predict: Callable[[Any], np.ndarray]) -> Scores:
    """The score of a prediction function on each part."""
    return {part: score(task, y, predict(X)) for part, (X, y) in parts.items()}


def outputs(model: Any) -> Callable[[Any], np.ndarray]:
    """What a fitted model is judged by: the score of class 1, or the predicted value."""
    if hasattr(model, "decision_function"):
        return model.decision_function
    if hasattr(model, "predict_proba"):
        return lambda X: model.predict_proba(X)[:, 1]
    return model.predict


def better(task: str, first: float, second: float) -> bool:
    """Whether the first score is better."""
    return first > second if task == "classification" else first < second
