"""X, weights, `cv` and `groups` as users give them: checks that speak of the argument."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import check_cv
from sklearn.utils import Tags, _safe_indexing
from sklearn.utils.validation import _check_sample_weight, validate_data

from treelu.data.encoding import as_weight
from treelu.data.folds import Fold, Folding
from treelu.data.reading import Reading
from treelu.data.targets import Targets
from treelu.tree.missing import MissingValues
from treelu.tree.rows import NO_NUMBERS, is_frame, refuse_columns, refuse_mask

FEW_ROWS = 10  # fewer than these are too few to learn from
UNSEEN_REMEDY = (
    "no training row had a missing value there, so that nothing is known of such rows; impute them first, or fit with "
    "missing='indicator', which fills them with the median"
)
MISSING_REMEDY = "missing='auto' fills and marks missing values, or impute them first"


def refuse_text_columns(X: Any) -> None:
    """Raise if a DataFrame has columns that are not numbers, naming them, or an array masked entries or dates."""
    refuse_mask("X", X, "fill them first, for example X.filled(np.nan) for missing values")
    kind = getattr(getattr(X, "dtype", None), "kind", "O")
    if kind in "mM":  # NumPy would make numbers of them, whatever their unit
        raise ValueError(f"X has {NO_NUMBERS[kind]}; turn them into numbers first, such as days or years")
    if not is_frame(X):
        return
    columns = list(zip(X.columns, X.dtypes, strict=True)) if hasattr(X, "dtypes") else []  # pyarrow has none
    others = [name for name, dtype in columns if getattr(dtype, "kind", "O") not in "biufc"]
    text = [str(name) for name in others if any(isinstance(value, str) for value in X[name].head(100))]
    if text:
        shown = ", ".join(text[:5]) + (", …" if len(text) > 5 else "")
        raise ValueError(
            f"X has text columns ({shown}); encode them first, for example with scikit-learn's OneHotEncoder in a "
            "ColumnTransformer"
        )
    for name, dtype in columns:
        if getattr(dtype, "kind", "O") == "O" and X[name].ndim == 1:
            _refuse_odd_values(name, X[name])
    refuse_columns(X)


def _refuse_odd_values(name: Any, column: Any) -> None:
    """Raise where a column of objects has some that are no numbers: pandas.NA, periods, intervals."""
    for value in column:
        if value is not None and not hasattr(value, "__float__"):
            odd = repr(value)
            remedy = "turn them into numbers first" if odd != "<NA>" else "use NaN for missing values"
            raise ValueError(f"X has {odd}, which is no number, in column {name!r}; {remedy}")


@contextmanager
def missing_value_errors(kind: str, remedy: str) -> Iterator[None]:
    """Rewrite scikit-learn's error about NaN in X so that it names a remedy of this library."""
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("Input X contains NaN"):
            raise
        raise ValueError(f"Input X contains NaN, and {kind} needs numbers: {remedy}") from None


def validated_rows(estimator: Any, X: Any, *, first: bool = False, missing: Any = None, **options: Any) -> Any:
    """X in float32 or float64, dense or CSR, by scikit-learn's checks; `first` learns the features' names.

    `missing` ("error", "auto", "indicator", MissingValues or None) is the parameter when fitting, and the fitted state
    afterwards.
    """
    options = {"dtype": [np.float64, np.float32], **options}
    if not first and _is_checked(estimator, X, options["dtype"]):
        return X
    refuse_text_columns(X)
    finite: bool | str = True if missing is None or (isinstance(missing, str) and missing == "error") else "allow-nan"
    remedy = UNSEEN_REMEDY if missing is None and not first and _asks(estimator) == "auto" else MISSING_REMEDY
    with missing_value_errors(type(estimator).__name__, remedy):
        X = validate_data(estimator, X, reset=first, accept_sparse="csr", ensure_all_finite=finite, **options)
    if isinstance(missing, MissingValues):
        _refuse_unseen(X, missing, getattr(estimator, "feature_names_in_", None))
    return X


def _is_checked(estimator: Any, X: Any, dtypes: Any) -> bool:
    """Whether scikit-learn's checks would return X as it is: they take most of the time of a single row."""
    return (
        type(X) is np.ndarray
        and X.dtype in (dtypes if isinstance(dtypes, list) else [dtypes])
        and X.ndim == 2
        and len(X) > 0
        and X.shape[1] == getattr(estimator, "n_features_in_", None)
        and not hasattr(estimator, "feature_names_in_")
        and bool(np.isfinite(X).all())
    )


def _asks(estimator: Any) -> Any:
    """The parameter `missing` of an estimator, or of the pattern of an ensemble's members: "auto" by default."""
    return getattr(estimator, "missing", getattr(getattr(estimator, "estimator", None), "missing", "auto"))


def _refuse_unseen(X: Any, missing: MissingValues, names: Any) -> None:
    """Raise where a column without a fill value has a missing value."""
    unknown = np.flatnonzero(np.isnan(missing.fills))
    absent = np.isnan(X[:, unknown]) if len(unknown) else np.zeros((0, 0), bool)
    if absent.any():
        row, place = (int(number) for number in np.argwhere(absent)[0])
        column = unknown[place] if names is None else repr(str(names[unknown[place]]))
        raise ValueError(f"Input X contains NaN in column {column}, row {row}: {UNSEEN_REMEDY}")


def tags_of_missing(tags: Tags, estimator: Any) -> Tags:
    """scikit-learn's tags: NaN is accepted where `missing` says so; "indicator" needs dense rows."""
    tags.input_tags.allow_nan = getattr(estimator, "missing", None) in ("auto", "indicator")
    tags.input_tags.categorical = tags.input_tags.string = True
    tags.input_tags.sparse = tags.input_tags.sparse and getattr(estimator, "missing", None) != "indicator"
    return tags


def check_weight(sample_weight: Any, X: Any) -> NDArray[np.float64] | None:
    """Row weights as float64; they must not be negative nor all zero."""
    if sample_weight is None:
        return None
    refuse_mask("sample_weight", sample_weight)
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weight.max() > 0:
        raise ValueError("sample_weight must have at least one positive value")
    return weight


def counted_rows(weight: NDArray[np.float64] | None) -> NDArray[np.int64] | None:
    """The rows of positive weight; None where these are all. The others must not scale features nor be held out."""
    return None if weight is None or weight.all() else np.flatnonzero(weight)


def rows_that_count(X: Any, targets: Targets) -> tuple[Any, Targets]:
    """Rows and targets without those of weight 0."""
    rows = counted_rows(targets.weight)
    if rows is None:
        return X, targets
    return X[rows], replace(targets, y=targets.y[rows], weight=as_weight(targets.weights(rows)))


def finite_scores(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores of rows, all of them numbers."""
    if not np.isfinite(scores).all():
        row = int(np.argwhere(~np.isfinite(scores))[0, 0])
        raise ValueError(f"X must be finite: row {row} has numbers too large to add up")
    return scores


def check_same_columns(before: Reading, now: Reading, names_before: Any, names_now: Any) -> None:
    """Raise where warm_start=True would continue with other features, classes or indicators."""
    for what, old, new in (
        ("features", names_before, names_now),
        ("classes", *(getattr(reading.encoding, "classes", None) for reading in (before, now))),
        ("columns with missing values", *(getattr(reading.missing, "gaps", None) for reading in (before, now))),
    ):
        if isinstance(old, np.ndarray) and isinstance(new, np.ndarray) and not np.array_equal(old, new):
            raise ValueError(
                f"warm_start=True continues a model of the {what} {_few(old)}, but the {what} are {_few(new)} now; set "
                "warm_start=False"
            )


def _few(names: NDArray[Any]) -> str:
    """The first five of some names."""
    return ", ".join(map(repr, names[:5].tolist())) + (", …" if len(names) > 5 else "") or "(none)"


def summable(weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights, divided by the largest where their sum would be infinite."""
    with np.errstate(over="ignore"):
        return weight if np.isfinite(weight.sum()) else weight / weight.max()


def warn_of_few_rows(n_rows: int) -> None:
    """Warn of a table that is too small to learn from."""
    if n_rows < FEW_ROWS:
        warnings.warn(
            f"fitted to {n_rows} row{'' if n_rows == 1 else 's'}; predictions will not generalise",
            UserWarning,
            stacklevel=2,
        )


# The parameters `cv` and `groups` as users give them


def read_folding(
    cv: Any, groups: Any, X: Any, y: Any, rows: NDArray[np.int64] | None = None, *, are_classes: bool
) -> Folding | None:
    """`cv` (int, splitter, pairs of row numbers of X) and `groups` as a `Folding`, checked; None without either.

    The result is about `rows`, those that are fitted (None: all); the others count as dropped.
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
        n_folds = int(cv)
        n_units, what = (len(kept), "rows") if of_kept is None else (len(np.unique(of_kept)), "groups")
        if n_folds > n_units:
            raise ValueError(
                f"cv={cv} needs at least {cv} {what}, got {n_units} (n_samples={len(kept)}); use fewer folds"
            )
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
