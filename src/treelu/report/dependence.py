"""Partial dependence: how the mean prediction changes with one feature while the others stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from treelu.report.rows import Floats, Rows

FEATURES = 8
STEPS = 24
MAX_ROWS = 400
MAX_VALUES = 2_000_000  # numbers of a table of rows that is predicted at once


def partial_dependence(
    predict: Callable[[Floats], Floats], X: Rows, features: Sequence[int], *, random_state: int = 0
) -> list[dict[str, Any]]:
    """Mean prediction over some rows with one feature set to each of some values, for each feature.

    Parameters
    ----------
    predict : callable
        Rows → one number each: a value, or the probability of a class.
    X : array or CSR matrix
    features : sequence of int
    random_state : int
        Of the choice of rows.

    Returns
    -------
    list of dict
        ``feature``, ``values`` (ascending), ``means``; features with one value only are left out.

    Examples
    --------
    >>> X = np.array([[0.0, 5.0], [1.0, 7.0]])
    >>> partial_dependence(lambda rows: rows[:, 0] + rows[:, 1], X, [0])
    [{'feature': 0, 'values': [0.0, 1.0], 'means': [6.0, 7.0]}]
    """
    n_rows = int(min(MAX_ROWS, X.shape[0], max(1, MAX_VALUES // max(1, X.shape[1]))))
    chosen = np.sort(np.random.default_rng(random_state).permutation(X.shape[0])[:n_rows])
    rows = X[chosen].toarray() if sparse.issparse(X) else np.array(X[chosen])
    result = []
    for feature in features:
        column = X[:, [feature]].toarray().ravel() if sparse.issparse(X) else X[:, feature]
        grid = np.unique(column)
        if len(grid) > STEPS:
            grid = np.unique(np.quantile(column, np.linspace(0.01, 0.99, STEPS)))
        if len(grid) < 2:
            continue
        kept, means = rows[:, feature].copy(), []
        for value in grid:
            rows[:, feature] = value
            means.append(float(predict(rows).mean()))
        rows[:, feature] = kept
        result.append({"feature": int(feature), "values": grid.tolist(), "means": means})
    return result
