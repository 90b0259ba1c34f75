"""The parameters `cv` and `groups` as users give them, checked."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing

from treelu.data.folds import Fold, Folding


def read_folding(
    cv: Any, groups: Any, X: Any, y: Any, rows: NDArray[np.int64] | None = None, *, are_classes: bool
) -> Folding | None:
    """`cv` and `groups` as a `Folding`, checked; None where neither is given.

    Parameters
    ----------
    cv : int, splitter, iterable of pairs (train, test) or None
    groups : array of shape (n,) or None
    X, y : the rows and targets, which splitters may look at
    rows : int array, optional
        The rows that are fitted, which the result is about; the others count as dropped. An iterable has the row
        numbers of X.
    are_classes : bool
    """
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    number = None if groups is None else _group_numbers(groups, n_rows)
    kept = np.arange(n_rows) if rows is None else rows
    of_kept = None if number is None else number[kept]
    if of_kept is not None and len(np.unique(of_kept)) < 2:
        raise ValueError(
            "groups must have at least two different values among the rows that count, got one; rows of a single "
            "group cannot be held out. Leave groups out if rows are independent"
        )
    given, n_folds = None, None
    if isinstance(cv, Integral):
        n_folds = _checked_count(int(cv), of_kept, len(kept))
    elif hasattr(cv, "split"):
        X, y = (_safe_indexing(each, kept) for each in (X, y))
        parts = check_cv(cv, y, classifier=are_classes).split(X, y, of_kept)
        given = tuple((kept[train], kept[test]) for train, test in _checked_folds(parts, len(kept), of_kept))
    elif cv is not None:
        given = _checked_folds(cv, n_rows, number)
    if cv is None and number is None:
        return None
    return Folding(number, n_folds, given).part(kept)


def _group_numbers(groups: Any, n_rows: int) -> NDArray[np.int64]:
    """The number of each row's group, by the first row of each."""
    values = np.asarray(groups)
    if values.ndim != 1 or len(values) != n_rows:
        raise ValueError(f"groups must have one value for each of the {n_rows} rows of X, got shape {values.shape}")
    number = pd.factorize(values)[0]
    if (number < 0).any():
        raise ValueError(
            f"groups has a missing value in row {int(np.argmax(number < 0))}; give each row a group, a row that "
            "belongs to no other one of its own"
        )
    return number.astype(np.int64)


def _checked_count(cv: int, groups: NDArray[np.int64] | None, n_rows: int) -> int:
    n_units, what = (n_rows, "rows") if groups is None else (len(np.unique(groups)), "groups")
    if cv > n_units:
        raise ValueError(f"cv={cv} needs at least {cv} {what}, got {n_units} (n_samples={n_rows}); use fewer folds")
    return cv


def _checked_folds(parts: Any, n_rows: int, groups: NDArray[np.int64] | None) -> tuple[Fold, ...]:
    """The pairs of a splitter or an iterable as row numbers."""
    wrong = "cv must be an int, a splitter such as GroupKFold() or an iterable of pairs (train, test) of row numbers"
    if not isinstance(parts, Iterable) or isinstance(parts, str):
        raise ValueError(f"{wrong}, got {parts!r}")
    found: list[Fold] = []
    for number, part in enumerate(parts):
        try:
            train, test = (_row_numbers(side, n_rows) for side in part)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{wrong}; its split {number}: {error}") from error
        both = np.intersect1d(train, test)
        if len(both):
            raise ValueError(f"cv has row {both[0]} in both the training and the test rows of its split {number}")
        if groups is not None and len(shared := np.intersect1d(groups[train], groups[test])):
            row = int(test[groups[test] == shared[0]][0])
            raise ValueError(
                f"cv has rows of one group on both sides of its split {number} (the group of row {row}); use a "
                "splitter that keeps groups together, such as GroupKFold(), or leave cv or groups out"
            )
        found.append((train, test))
    if not any(len(train) and len(test) for train, test in found):
        raise ValueError(f"cv has {len(found)} splits, none with rows to train on and rows to hold out; {wrong}")
    return tuple(found)


def _row_numbers(side: Any, n_rows: int) -> NDArray[np.int64]:
    rows = np.asarray(side)
    if rows.dtype == np.bool_ and rows.shape == (n_rows,):
        return np.flatnonzero(rows)
    if rows.ndim != 1 or (len(rows) and rows.dtype.kind not in "iu"):
        raise ValueError(f"row numbers must be integers in one dimension, got {rows.dtype} of shape {rows.shape}")
    outside = rows[(rows < 0) | (rows >= n_rows)]
    if len(outside):
        raise ValueError(f"row {outside[0]} does not exist; X has {n_rows} rows, numbered from 0")
    return np.unique(rows).astype(np.int64)
