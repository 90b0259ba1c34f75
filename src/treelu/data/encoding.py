"""y as users give it, checked → targets of a network: classes, several 0/1 labels, real values."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_array, column_or_1d

from treelu.data.scaling import Scaling
from treelu.data.targets import Targets
from treelu.tree.rows import NO_NUMBERS, refuse_mask

BLOCK = 2**16  # labels that are read at once


def refuse_invalid_targets(y: Any, *, are_classes: bool) -> None:
    """Raise for targets that NumPy would convert to others silently, and for missing classes."""
    if y is None:
        kind = "classifier" if are_classes else "regressor"
        raise ValueError(f"a {kind} requires y to be passed, but the target y is None")
    refuse_mask("y", y)
    y = np.asarray(y, object if isinstance(y, list | tuple) else None)  # NaN in a list of texts would become a text
    if not are_classes:
        if y.dtype.kind in "mM":
            raise ValueError(f"y has {NO_NUMBERS[y.dtype.kind]}; turn them into numbers first, such as days or years")
        return
    if y.dtype.kind in "fmMO" and (missing := np.asarray(pd.isna(y))).any():
        row = np.argwhere(missing)[0, 0]
        raise ValueError(f"y must have a label for each row, but row {row} has none; leave such rows out")
    texts = [isinstance(label, str) for label in y] if y.dtype.kind == "O" and y.ndim == 1 else []
    if any(texts) and not all(texts):  # they have no order, and "1" is another class than 1
        first, other = texts.index(True), texts.index(False)
        raise ValueError(
            f"y mixes texts and other labels: row {first} has {y[first]!r}, row {other} has {y[other]!r}; "
            "make all of them texts or none"
        )


def encode_classes(y: Any, classes: NDArray[Any] | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
    """The sorted classes and each row's class number; `classes` fixes them (a new label is then an error)."""
    y = column_or_1d(y, warn=True)
    blocks = [slice(start, start + BLOCK) for start in range(0, len(y), BLOCK)]  # bounds the memory
    if classes is None:
        classes = np.unique(np.concatenate([np.unique(y[block]) for block in blocks]))
        if len(classes) < 2:
            raise ValueError(f"y has one class only ({classes.tolist()[0]!r}); a classifier needs at least two classes")
    number = np.empty(len(y), np.min_scalar_type(len(classes)))
    for block in blocks:
        number[block] = np.searchsorted(classes, y[block]) % len(classes)
        unknown = y[block][classes[number[block]] != y[block]].tolist()
        if unknown:
            raise ValueError(f"y has the label {unknown[0]!r}, which is not among the classes {classes.tolist()}")
    return classes, number


def class_order(number: NDArray[Any], n_classes: int, weight: NDArray[Any] | None = None) -> NDArray[np.int64]:
    """Class numbers, the most frequent class first, ties by first row: an order that the names of classes do not touch.

    Rows of weight 0 count for nothing. Training sees classes in this order, so that it depends on the rows alone.
    """
    shares = np.bincount(number, None if weight is None else weight / weight.max(), n_classes)  # no sum overflows
    shares = np.round(shares / shares.sum(), 9)  # balanced classes are equal but for rounding
    counted = np.arange(len(number)) if weight is None else np.flatnonzero(weight)
    first = np.full(n_classes, len(number))
    np.minimum.at(first, number[counted], counted)
    return np.lexsort((first, -shares))


def class_targets(number: NDArray[Any], n_classes: int, weight: NDArray[Any] | None = None) -> Targets:
    """Targets of one network for class numbers: one raw score for two classes, K for more."""
    if n_classes == 2:
        return Targets("binary", number.astype(np.float32)[:, None], 1, as_weight(weight))
    return Targets("multiclass", number.astype(np.int64), n_classes, as_weight(weight))


def value_targets(y: NDArray[Any], scaling: Scaling, weight: NDArray[Any] | None = None) -> Targets:
    """Targets of one network for real values (n, L), scaled."""
    scaled = scaling.transform(y).astype(np.float32)
    unit = scaling.scale.astype(np.float32)
    return Targets("regression", scaled, y.shape[1], as_weight(weight), unit=unit)


def as_weight(weight: NDArray[Any] | None) -> NDArray[np.float32] | None:
    """Row weights with mean 1; None where they are all the same."""
    if weight is None or weight.min() == weight.max():
        return None
    weight = weight / weight.max()  # their sum cannot overflow
    return (weight / weight.mean()).astype(np.float32)


def check_class_weight(class_weight: Any) -> None:
    """Raise unless the weights of classes, where they are given one by one, are positive numbers."""
    if not isinstance(class_weight, dict):
        return
    for label, weight in class_weight.items():
        if not isinstance(weight, Real) or not 0 < float(weight) < float("inf"):
            raise ValueError(f"class_weight must hold positive finite numbers, got {weight!r} for the class {label!r}")


def check_classes(classes: Any, known: NDArray[Any] | None) -> NDArray[Any] | None:
    """The classes of all pieces of a stream: those given at the first, which later ones must repeat."""
    if classes is None:
        return known
    classes = np.unique(classes)
    if len(classes) < 2 or pd.isna(classes).any():
        raise ValueError(f"classes must be two labels or more, none of them missing, got {classes.tolist()}")
    if known is not None and not np.array_equal(known, classes):
        raise ValueError(f"classes must be those of the first piece or fit, {known.tolist()}, got {classes.tolist()}")
    return classes


def weigh_classes(class_weight: Any, y: NDArray[Any], weight: NDArray[Any] | None) -> NDArray[np.float64]:
    """Row weights times class weights; "balanced" ones balance the weight of the classes, not the number of rows."""
    if weight is None:
        return compute_sample_weight(class_weight, y)
    if not isinstance(class_weight, str):
        return weight * compute_sample_weight(class_weight, y)
    number = np.unique(y, return_inverse=True)[1]
    mass = np.bincount(number, weight / weight.max())  # the sum cannot overflow
    with np.errstate(divide="ignore"):
        balanced = np.where(mass > 0, mass.sum() / (np.count_nonzero(mass) * mass), 0.0)
    return weight * balanced[number]


def is_label_matrix(y: Any) -> bool:
    """Whether y is a table of several 0/1 labels (or of one with missing values) rather than a vector of classes."""
    if y is None:
        raise ValueError("a classifier requires y to be passed, but the target y is None")
    y = np.asarray(y)
    if y.ndim != 2:
        return False
    return y.shape[1] > 1 or (y.dtype.kind == "f" and bool(np.isnan(y).any()))


def check_label_matrix(y: Any) -> NDArray[np.float64]:
    """Several labels (n, labels) of 0, 1 and NaN for missing; each must have both classes observed."""
    refuse_mask("y", y)
    try:
        y = check_array(y, dtype=np.float64, ensure_all_finite="allow-nan", input_name="y")
    except ValueError as error:
        raise ValueError(f"y with several columns must hold 0, 1 or NaN (missing): {error}") from error
    wrong = y[~(np.isnan(y) | (y == 0) | (y == 1))]
    if len(wrong):
        raise ValueError(f"y with several columns must hold 0, 1 or NaN (missing), got {wrong[0]:g}")
    for label in range(y.shape[1]):
        observed = y[~np.isnan(y[:, label]), label]
        if len(observed) == 0:
            raise ValueError(f"y has no observed value in column {label}; drop that label")
        if observed.min() == observed.max():
            raise ValueError(f"y has one class only in column {label} ({observed[0]:g}); drop that label")
    return y
