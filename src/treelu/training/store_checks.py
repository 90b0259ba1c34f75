"""What is checked of a piece before it goes into a store."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def names_of(X: Any) -> tuple[str, ...] | None:
    """The columns of a DataFrame."""
    return tuple(map(str, X.columns)) if hasattr(X, "columns") else None


def difference_of_names(before: tuple[str, ...] | None, now: tuple[str, ...] | None) -> str:
    """In what the columns of a piece differ from those before."""
    if before is None or now is None:
        return "X must be a DataFrame in all pieces or in none"
    missing, added = [name for name in before if name not in now], [name for name in now if name not in before]
    if missing or added:
        what = f"no column {missing[0]!r}" if missing else f"a new column {added[0]!r}"
        return f"X must have the columns of the pieces before, got {what}"
    return f"X must have its columns in the order of the pieces before, {', '.join(before[:5])}, …"


def targets_of(y: Any, n_rows: int, *, are_classes: bool) -> NDArray[Any]:
    """Labels (n,), none missing, or finite float64 values (n,) or (n, k)."""
    y = np.asarray(y)
    if y.ndim == 0 or len(y) != n_rows:
        got = f"a single {y.dtype}" if y.ndim == 0 else len(y)
        raise ValueError(f"y must have {n_rows} targets, one for each row of X, got {got}")
    if not are_classes:
        y = np.asarray(y, np.float64)
        if not np.isfinite(y).all():
            raise ValueError("y must be finite; leave rows without a target out")
        return y
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.ndim != 1:
        raise ValueError(f"y must have one label for each row, got shape {y.shape}; several labels need arrays")
    if pd.isna(y).any():
        raise ValueError("y must have a label for each row; leave rows without one out")
    return y


def checked_weight(weight: Any, n_rows: int) -> NDArray[np.float32]:
    """Weights in float32, finite and not negative."""
    weight = np.asarray(weight, np.float32)
    if weight.shape != (n_rows,) or not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError(f"sample_weight must be {n_rows} finite numbers from 0, one for each row of X")
    return weight
