"""The parameter `monotonic_cst`: signs of the features, by position or by name."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier


def monotonic_signs(estimator: Any, n_columns: int, n_outputs: int) -> NDArray[np.float64] | None:
    """`monotonic_cst` as an array over the tree's features; None where nothing is constrained."""
    given, n_features = estimator.monotonic_cst, estimator.n_features_in_
    if given is None:
        return None
    names = getattr(estimator, "feature_names_in_", None)
    names = [f"x{i}" for i in range(n_features)] if names is None else [str(name) for name in names]
    if isinstance(given, dict):
        unknown = sorted(str(name) for name in given if name not in names)
        if unknown:
            raise ValueError(f"monotonic_cst names {unknown[0]!r}, which is not a feature: {', '.join(names[:8])}")
        signs = np.array([given.get(name, 0) for name in names], np.float64)
    else:
        signs = np.asarray(given, np.float64)
    if signs.shape != (n_features,) or not np.isin(signs, (-1, 0, 1)).all():
        raise ValueError(f"monotonic_cst must hold -1, 0 or 1 for each of {n_features} features, got {given}")
    if not signs.any():
        return None
    if n_outputs > (2 if is_classifier(estimator) else 1):
        raise ValueError("monotonic_cst needs two classes or one target; with more there is no up and down")
    return np.append(signs, np.zeros(n_columns - len(signs)))
