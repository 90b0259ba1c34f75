"""Rows of a small tree's training: features that vary, scaled, and the folds on which sizes are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treelu.data.folds import Fold, Folding, folds
from treelu.data.scaling import check_scale
from treelu.estimators._tree_estimator import Matrix, spread
from treelu.training.small.finish import Scale
from treelu.training.small.soft_tree import Rows
from treelu.tree.check import as_csr

MOST_COLUMNS = 512  # that are trained on; of more, those that say most of the target
COMPARED = 12_000  # rows on which sizes are compared at most
REPEATED = 10_000  # rows up to which integer weights are repetitions


def scaled_rows(
    X: Matrix, target: NDArray[np.float64], weight: NDArray[np.float64], is_classifier: bool
) -> tuple[Scale, Rows]:
    """Rows as the training takes them: columns that vary, of mean 0 and spread 1."""
    spreads = spread(X, weight)
    check_scale(_mean(X, weight), np.where(spreads == 0, 1.0, spreads), "X")
    columns = np.flatnonzero(spreads)
    if len(columns) > MOST_COLUMNS:
        columns = np.sort(
            columns[np.argsort(-_correlation(X, target, weight, spreads)[columns], kind="stable")][:MOST_COLUMNS]
        )
    part: Any = X[:, columns]
    mean = _mean(part, weight)
    scale = Scale(columns, mean, spreads[columns], X.shape[1])
    dense = as_csr(part).toarray() if sparse.issparse(part) else part
    ones = np.ones((len(dense), 1), np.float32)
    table = np.hstack([((dense - mean) / scale.spread).astype(np.float32), ones])
    share = (weight / weight.mean()).astype(np.float32)
    return scale, Rows(np.ascontiguousarray(table), np.ascontiguousarray(target, np.float32), share, is_classifier)


def are_counts(weight: NDArray[np.float64]) -> bool:
    """Whether weights are integers, some of them above 1, that repeat rows up to `REPEATED` in all.

    Examples
    --------
    >>> are_counts(np.array([0.0, 1.0, 3.0])), are_counts(np.array([1.0, 0.5])), are_counts(np.array([1.0, 1e6]))
    (True, False, False)
    """
    with np.errstate(over="ignore"):
        return bool(weight.max() > 1 and weight.sum() <= REPEATED and (weight == np.floor(weight)).all())


def repeated_rows(weight: NDArray[np.float64], folding: Folding | None) -> tuple[NDArray[np.int64], Folding | None]:
    """Row numbers, each as often as its weight (once where that is 0), and the folding of those of positive weight.

    Copies of a row are on the same side of every split: a group, unless groups or folds are given.

    Examples
    --------
    >>> rows, folding = repeated_rows(np.array([2.0, 0.0, 1.0]), None)
    >>> rows, folding.groups
    (array([0, 0, 1, 2]), array([0, 0, 1]))
    """
    count = weight.astype(np.int64)
    copies = np.repeat(np.arange(np.count_nonzero(count)), count[count > 0])
    if folding is not None:
        folding = folding.part(copies)
    if folding is None or (folding.groups is None and folding.given is None):
        folding = Folding(copies, None if folding is None else folding.n_folds)
    return np.repeat(np.arange(len(weight)), np.maximum(count, 1)), folding


def target_scale(
    columns: NDArray[np.float64], weight: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and spread of each column of the targets; of a column of one value that value, and 1."""
    unit = spread(columns, weight)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused
        mean = np.where(unit == 0, columns[0], np.average(columns, axis=0, weights=weight))
    unit[unit == 0] = 1.0
    check_scale(mean, unit, "y")
    return mean, unit


def _mean(X: Matrix, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((weight / weight.sum()) @ X)


def _correlation(
    X: Matrix, target: NDArray[np.float64], weight: NDArray[np.float64], spreads: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The largest |correlation| of each column with a column of the target, up to the target's spread."""
    centred = (target - np.average(target, axis=0, weights=weight)) * weight[:, None]
    return np.abs(centred.T @ X).max(axis=0) / np.maximum(spreads, 1e-300)


def compared_rows(rows: Rows, seed: int) -> tuple[Rows, list[Fold]]:
    """Rows on which sizes are compared, and their folds: those of `cv`, or five below 500 rows, one of a quarter above
    6,000.
    """
    rng = np.random.default_rng([seed, 1])
    if len(rows) > COMPARED:
        rows = rows.part(np.sort(rng.choice(len(rows), COMPARED, replace=False)))
    n_folds = 5 if len(rows) < 500 else 3 if len(rows) < 3_000 else 4
    key = rows.target.argmax(axis=1) if rows.is_classifier else rows.target[:, 0]
    parts = folds(key, n_folds, rng, rows.folding, rows.weight, are_classes=rows.is_classifier)
    if len(rows) < 3_000 or (rows.folding is not None and rows.folding.by_user):
        return rows, parts
    return rows, parts[: 2 if len(rows) < 6_000 else 1]
