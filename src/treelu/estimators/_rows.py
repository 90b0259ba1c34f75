"""X as users give it: checks that speak of the argument, weights, held-out rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import _check_sample_weight

from treelu.training import Sample

HELD_OUT = 0.1  # the share of rows held out for early stopping when there is no eval_set


def refuse_text_columns(X: Any) -> None:
    """Raise if a DataFrame has columns that are not numbers, naming them."""
    dtypes = getattr(X, "dtypes", None)
    if dtypes is None or not hasattr(X, "columns"):
        return
    text = [str(name) for name, dtype in zip(X.columns, dtypes, strict=True) if _is_text(X[name], dtype)]
    if text:
        shown = ", ".join(text[:5]) + (", …" if len(text) > 5 else "")
        raise ValueError(
            f"X has text columns ({shown}); encode them first, for example with scikit-learn's OneHotEncoder in a "
            "ColumnTransformer"
        )


def _is_text(column: Any, dtype: Any) -> bool:
    kind = getattr(dtype, "kind", "O")
    if kind in "biufc":
        return False
    return any(isinstance(value, str) for value in column.head(100))


def check_weight(sample_weight: Any, X: Any) -> NDArray[np.float64] | None:
    """Row weights as float64; they must not be negative nor all zero."""
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weight.sum() > 0:
        raise ValueError("sample_weight must have at least one positive value")
    return weight


def hold_out(sample: Sample, seed: int) -> tuple[Sample, Sample]:
    """Part a sample into rows for training and rows for validation, stratified by class where possible."""
    targets = sample.targets
    rows = sample.rows
    labels = None if targets.task == "regression" else targets.y.reshape(len(targets), -1)[:, 0].numpy()[rows]
    if labels is not None and min(np.unique(labels, return_counts=True)[1]) < 2:
        labels = None
    if len(rows) < 2:
        raise ValueError("early_stopping needs at least two rows to hold one out; give an eval_set")
    n_held_out = max(1 if labels is None else len(np.unique(labels)), int(HELD_OUT * len(rows)))
    train, valid = train_test_split(rows, test_size=n_held_out, random_state=seed, stratify=labels)
    return Sample(sample.table, targets, train), Sample(sample.table, targets, valid)
