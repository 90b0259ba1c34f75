"""X as users give it: checks that speak of the argument, weights, held-out rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import _check_sample_weight, validate_data

from treelu.data.encoding import as_weight
from treelu.data.reading import Reading
from treelu.data.targets import Targets
from treelu.tree.rows import NO_NUMBERS, is_frame, refuse_columns, refuse_mask

FEW_ROWS = 10  # fewer than these are too few to learn from
MISSING_REMEDY = "missing='indicator' fills and marks missing values, or impute them first"


def refuse_text_columns(X: Any) -> None:
    """Raise if a DataFrame has columns that are not numbers, naming them, or an array masked entries or dates."""
    refuse_mask("X", X, "fill them first, for example X.filled(np.nan) for missing values")
    kind = getattr(getattr(X, "dtype", None), "kind", "O")
    if kind in "mM":  # NumPy would make numbers of them, whatever their unit
        raise ValueError(f"X has {NO_NUMBERS[kind]}; turn them into numbers first, such as days or years")
    if not is_frame(X):
        return
    columns = list(zip(X.columns, X.dtypes, strict=True)) if hasattr(X, "dtypes") else []  # pyarrow has none
    text = [str(name) for name, dtype in columns if _is_text(X[name], dtype)]
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
    """X in float32 or float64, dense or CSR, by scikit-learn's checks; `first` learns the features' names."""
    refuse_text_columns(X)
    finite: bool | str = True if missing is None or (isinstance(missing, str) and missing == "error") else "allow-nan"
    options = {"dtype": [np.float64, np.float32], **options}
    with missing_value_errors(type(estimator).__name__, MISSING_REMEDY):
        return validate_data(estimator, X, reset=first, accept_sparse="csr", ensure_all_finite=finite, **options)


def tags_of_missing(tags: Tags, estimator: Any) -> Tags:
    """scikit-learn's tags of an estimator that accepts NaN, and then no sparse rows, where `missing` asks for it."""
    tags.input_tags.allow_nan = getattr(estimator, "missing", None) == "indicator"
    tags.input_tags.sparse = tags.input_tags.sparse and not tags.input_tags.allow_nan
    return tags


def _is_text(column: Any, dtype: Any) -> bool:
    kind = getattr(dtype, "kind", "O")
    if kind in "biufc":
        return False
    return any(isinstance(value, str) for value in column.head(100))


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

    def missing(reading: Reading) -> Any:
        return None if reading.missing is None else reading.missing.gaps

    pairs = {
        "features": (names_before, names_now),
        "classes": tuple(getattr(reading.encoding, "classes", None) for reading in (before, now)),
        "columns with missing values": (missing(before), missing(now)),
    }
    for what, (old, new) in pairs.items():
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
