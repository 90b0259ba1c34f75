"""Small tables, quick settings and the list of estimators that the tests of this folder share."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris

from treelu import ALCNClassifier, ALCNRegressor, LCNClassifier, LCNRegressor, LLNClassifier, LLNRegressor

# The checks of scikit-learn that networks do not pass, and why; docs/guides/groups-and-weights.md tells users the same
_BATCHES = (
    "mini-batches are drawn at random, so that a row that is repeated and a row of double weight see different "
    "batches; with one batch of all rows they agree to rounding"
)

EXPECTED_FAILED_CHECKS = {
    "check_sample_weight_equivalence_on_dense_data": _BATCHES,
    "check_sample_weight_equivalence_on_sparse_data": _BATCHES,
}

CLASSIFIERS = (LCNClassifier, ALCNClassifier, LLNClassifier)
REGRESSORS = (LCNRegressor, ALCNRegressor, LLNRegressor)
ESTIMATORS = (*CLASSIFIERS, *REGRESSORS)
WITH_TREE = (LCNClassifier, LLNClassifier, LCNRegressor, LLNRegressor)
# said in full, so that no default of the library enters
TRAINING: dict[str, Any] = {
    "drop_connect": 0.0,
    "learning_rate": 0.01,
    "training": {"batch_size": 64, "optimizer": "amsgrad", "schedule": "cosine", "temper": False},
    "random_state": 0,
}
FAST: dict[str, Any] = {**TRAINING, "depth": 3, "epochs": 4}


def two_classes(n: int = 120, d: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Real features, labels "no" and "yes" on the sides of an oblique line with some noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 3 + 1
    side = X[:, 0] - X[:, 1] + 0.5 * rng.standard_normal(n) > 0
    return X, np.where(side, "yes", "no")


def three_classes(n: int = 150) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_iris(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(X))[:n]
    return X[rows], y[rows]


def values(n: int = 150, d: int = 4, seed: int = 0, n_outputs: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Real features, and targets far from zero with a kink."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 2 - 1
    y = 100 + 20 * np.abs(X[:, 0] - X[:, 1])
    return X, (y if n_outputs is None else np.column_stack([y - 10 * k * X[:, 2] for k in range(n_outputs)]))


def labels(n: int = 120, n_labels: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Several 0/1 labels, a fifth of them missing."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    y = (X[:, :n_labels] + 0.3 * rng.standard_normal((n, n_labels)) > 0).astype(float)
    y[rng.random(y.shape) < 0.2] = np.nan
    return X, y


def bits(n: int = 200, d: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Few ones among many zeros, as fingerprints have."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n, d)) < 0.15).astype(float)
    return X, (X[:, :6].sum(axis=1) > 0.8).astype(int)


def tumours() -> tuple[np.ndarray, np.ndarray]:
    return load_breast_cancer(return_X_y=True)


def data_for(estimator_class: type) -> tuple[np.ndarray, np.ndarray]:
    """Rows and targets that suit an estimator."""
    return two_classes() if estimator_class in CLASSIFIERS else values()


def scores(estimator: Any, X: Any) -> np.ndarray:
    """Raw scores of a classifier, predictions of a regressor."""
    return estimator.decision_function(X) if hasattr(estimator, "decision_function") else estimator.predict(X)
