"""Checks of targets: invalid ones that NumPy would convert silently raise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treelu.tree.rows import NO_NUMBERS, refuse_mask


def refuse_invalid_targets(y: Any, *, are_classes: bool) -> None:
    """Raise for targets that NumPy would convert to others silently, and for missing classes."""
    if y is None:
        kind = "classifier" if are_classes else "regressor"
        raise ValueError(f"a {kind} requires y to be passed, but the target y is None")
    refuse_mask("y", y)
    y = np.asarray(y, object if isinstance(y, list | tuple) else None)  # NaN in a list of texts would become a text
    if are_classes and (missing := _missing(y)).any():
        row = np.argwhere(missing)[0, 0]
        raise ValueError(f"y must have a label for each row, but row {row} has none; leave such rows out")
    if are_classes and y.dtype.kind == "O" and y.ndim == 1:
        _refuse_mixture(y)
    if not are_classes and y.dtype.kind in "mM":
        raise ValueError(f"y has {NO_NUMBERS[y.dtype.kind]}; turn them into numbers first, such as days or years")


def _refuse_mixture(y: NDArray[Any]) -> None:
    """Raise where some classes are texts and others are not: they have no order, and "1" is another class than 1."""
    texts = np.fromiter((isinstance(label, str) for label in y), bool, len(y))
    if texts.any() and not texts.all():
        first, other = int(np.argmax(texts)), int(np.argmin(texts))
        raise ValueError(
            f"y mixes texts and other labels: row {first} has {y[first]!r}, row {other} has {y[other]!r}; "
            "make all of them texts or none"
        )


def _missing(y: NDArray[Any]) -> NDArray[np.bool_]:
    """Which labels are missing: None, NaN, NaT."""
    if y.dtype.kind in "fmM":
        return y != y
    if y.dtype.kind != "O":
        return np.zeros(len(y), bool)
    import pandas as pd  # loaded when it is needed

    return np.asarray(pd.isna(y))
