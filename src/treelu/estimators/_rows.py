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
from sklearn.utils.validation import _check_sample_weight

from treelu.estimators._targets import as_weight
from treelu.training import Sample
from treelu.training.targets import Targets
from treelu.tree.missing import MissingValues
from treelu.tree.rows import NO_NUMBERS, is_frame, refuse_columns, refuse_mask

FEW_ROWS = 10  # fewer than these are too few to learn from
GAPS_REMEDY = "missing='indicator' fills and marks missing values, or impute them first"
HELD_OUT = 0.1  # the share of rows held out for early stopping when there is no eval_set


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
def plain_gaps(kind: str, remedy: str) -> Iterator[None]:
    """What scikit-learn says of NaN in X, in words that name a remedy of this library.

    Examples
    --------
    >>> with plain_gaps("LCNClassifier", "use missing='indicator'"):
    ...     raise ValueError("Input X contains NaN.\\nHistGradientBoosting could do this.")
    Traceback (most recent call last):
    ...
    ValueError: Input X contains NaN, and LCNClassifier needs numbers: use missing='indicator'
    """
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("Input X contains NaN"):
            raise
        raise ValueError(f"Input X contains NaN, and {kind} needs numbers: {remedy}") from None


def learn_gaps(estimator: Any, X: Any) -> None:
    """Set `missing_values_` where `missing="indicator"`; elsewhere remove what an earlier fit has learned of gaps."""
    estimator.__dict__.pop("missing_values_", None)
    if estimator.missing == "indicator":
        estimator.missing_values_ = MissingValues.of(X)


def takes_gaps(estimator: Any, *, first: bool) -> bool:
    """Whether NaN is filled: as `missing` says at the first, and later as it said then."""
    return estimator.missing == "indicator" if first else hasattr(estimator, "missing_values_")


def tags_of_missing(tags: Tags, estimator: Any) -> Tags:
    """scikit-learn's tags of an estimator that accepts NaN, and then no sparse rows, where `missing` asks for it."""
    tags.input_tags.allow_nan = estimator.missing == "indicator"
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


def learned_before(estimator: Any) -> dict[str, Any]:
    """The names of the features, the classes, and the columns with gaps that an estimator has learned."""
    gaps = getattr(estimator, "missing_values_", None)
    return {
        "features": getattr(estimator, "feature_names_in_", None),
        "classes": getattr(estimator, "classes_", None),
        "columns with missing values": None if gaps is None else gaps.gaps,
    }


def check_continues(before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise where warm_start=True would go on with the same features, classes or indicators under other names."""
    for what, old in before.items():
        new = now[what]
        if isinstance(old, np.ndarray) and isinstance(new, np.ndarray) and not np.array_equal(old, new):
            raise ValueError(
                f"warm_start=True continues a model of the {what} {_few(old)}, but the {what} are {_few(new)} now; set "
                "warm_start=False"
            )


def _few(names: NDArray[Any]) -> str:
    """The first five of some names."""
    return ", ".join(map(repr, names[:5].tolist())) + (", …" if len(names) > 5 else "") or "(none)"


def summable(weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights, divided by the largest where their sum would be infinite.

    Examples
    --------
    >>> summable(np.array([1e308, 1e308])).tolist(), summable(np.array([1.0, 2.0])).tolist()
    ([1.0, 1.0], [1.0, 2.0])
    """
    with np.errstate(over="ignore"):
        return weight if np.isfinite(weight.sum()) else weight / weight.max()


def hold_out(sample: Sample, seed: int) -> tuple[Sample, Sample]:
    """Part a sample into rows for training and rows for validation: a tenth of each class, or of the groups.

    Of each class of two rows or more at least one is held out; with `cv` the first split that can be scored is taken.
    """
    targets, rows = sample.targets, sample.rows
    labels = targets.class_numbers(rows)
    for train, test in targets.folds(rows, round(1 / HELD_OUT), seed, per_class=True):
        # without a class there is no AUC, but there is a log-loss
        if targets.task != "binary" or all(len(np.unique(labels[side])) == 2 for side in (train, test)):
            return Sample(sample.table, targets, rows[train]), Sample(sample.table, targets, rows[test])
    of_what = " of each class" if targets.task == "binary" else ""
    which = "rows" if targets.folding is None else "groups, or a split of cv, with rows"
    raise ValueError(f"early_stopping needs at least two {which}{of_what} to hold one out; give an eval_set")


def warn_of_few_rows(n_rows: int) -> None:
    """Warn of a table that is too small to learn from."""
    if n_rows < FEW_ROWS:
        warnings.warn(
            f"{n_rows} row{'' if n_rows == 1 else 's'} to fit: too few to say anything about other rows",
            UserWarning,
            stacklevel=2,
        )
