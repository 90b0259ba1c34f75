"""Rows as estimators are given them: arrays as they are, data frames of any library by the encoder of the fit."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from treelu.data.rows import check_weight, counted_rows, validated_rows
from treelu.estimators._path_trees import changed_trees
from treelu.tables.encoder import Encoded, TableEncoder, had_missing
from treelu.tables.frames import (
    Frame,
    check_names,
    frame_of_array,
    holds_truth,
    is_plain,
    native_frame,
    other_columns,
    read_frame,
)
from treelu.tables.paths import TableError
from treelu.tree.names import shown_name

NAMES = ("n_features_in_", "feature_names_in_", "encoder_", "column_notes_")  # what a fit learns of the columns
FROM_DTYPE = "from_dtype"


def read_rows(
    estimator: Any, X: Any, *, first: bool = False, missing: Any = None, weight: Any = None, **options: Any
) -> Any:
    """X as validated numbers, one column for each feature that is trained on.

    `first` learns the columns, from rows of positive `weight`; `missing` is the parameter then, and the fitted state
    afterwards, as of :func:`treelu.data.rows.validated_rows`.
    """
    if first:
        return _learn_rows(estimator, X, missing, weight, options)
    encoder = vars(estimator).get("encoder_")
    if isinstance(X, Encoded):
        if encoder is not None and X.encoder.feature_names != encoder.feature_names:
            raise ValueError("X was encoded with other features than the model was fitted to; give the frame itself")
        return X.numbers
    if encoder is None:
        return validated_rows(estimator, _numeric(X), missing=missing, **options)
    note = partial(warnings.warn, category=UserWarning, stacklevel=2)
    tree = vars(estimator).get("tree_")  # of small trees: what no split reads need not be there
    unused = () if tree is None else tree.unused_columns()
    return encoder.features(_with_names(estimator, X), unused=unused, note=note)


def missing_of_numbers(estimator: Any, missing: Any) -> Any:
    """The parameter `missing` for the features: an encoder leaves none missing."""
    return "error" if vars(estimator).get("encoder_") is not None and isinstance(missing, str) else missing


def _learn_rows(estimator: Any, X: Any, missing: Any, weight: Any, options: dict[str, Any]) -> Any:
    """Learn what the columns hold, and read the rows; those of weight 0 are not read, and are 0."""
    for name in ("encoder_", "column_notes_"):
        estimator.__dict__.pop(name, None)
    if isinstance(X, Encoded):
        _check_missing(X.encoder, missing)
        _set_columns(estimator, X.encoder, X.encoder.names)
        return _checked(X, options)
    given = categorical_features(estimator)
    if is_plain(X):
        check_names(X.columns)
    frame = None if is_plain(X) and given is None else _frame_to_learn(X, given)
    if frame is None:
        return validated_rows(estimator, _numeric(X), first=True, missing=missing, **options)
    names, data = list(frame.data.columns), frame.data
    counted = counted_rows(check_weight(weight, data))
    if counted is not None:
        frame = replace(frame, data=data.iloc[counted].reset_index(drop=True))
    notes: list[str] = []
    chosen = set() if given is None else _chosen(given, names)
    encoder = TableEncoder.of_frame(frame, given=chosen, note=notes.append, fills_unseen=missing == "indicator")
    _check_missing(encoder, missing)
    _set_columns(estimator, encoder, tuple(names), is_named=frame.is_named)
    estimator.column_notes_ = tuple(notes)
    rows = _checked(encoder.encode(frame.data), options)
    if counted is None:
        return rows
    every = np.zeros((len(data), rows.shape[1]), rows.dtype)
    every[counted] = rows
    return every


def _frame_to_learn(X: Any, given: Any) -> Frame | None:
    """The frame that an encoder is learned from; None where there are numbers alone."""
    native = native_frame(X)
    is_named = native is not None
    if not is_named:
        if given is None:
            return None
        native = native_frame(frame_of_array(X, [f"x{place}" for place in range(np.shape(X)[1])]))
    texts = set() if given is None else _chosen(given, list(native.columns))
    texts = {name for name in texts if not holds_truth(native[name], native.schema[name])}
    if not texts and not other_columns(native):
        return None
    return replace(read_frame(native, texts=texts), is_named=is_named)


def _numeric(X: Any) -> Any:
    """A frame of numbers of any library as scikit-learn takes it; anything else as it is."""
    native = None if is_plain(X) else native_frame(X)
    if native is None:
        return X
    others = other_columns(native)
    if others:
        raise TableError(
            f"X has column {shown_name(others[0])!r} of type {native.schema[others[0]]}; the model was fitted to "
            "numbers alone: give numbers, or fit it to such a table"
        )
    data = read_frame(native).data
    if hasattr(X, "iloc"):
        data.columns = X.columns
    return data


def _checked(rows: Encoded, options: dict[str, Any]) -> Any:
    """Features of an encoder, checked as scikit-learn checks numbers."""
    options = {"dtype": [np.float64, np.float32], **options}
    return check_array(rows.numbers, accept_sparse="csr", input_name="X", **options)


def _with_names(estimator: Any, X: Any) -> Any:
    """An array as a frame with the names of the columns, in their order; a frame as it is."""
    if not isinstance(X, np.ndarray | list):
        return X
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        names = [f"x{place}" for place in range(estimator.n_features_in_)]
    else:
        warnings.warn(
            f"X does not have valid feature names, but {type(estimator).__name__} was fitted with feature names",
            UserWarning,
            stacklevel=2,
        )
    shape = np.shape(X)
    if len(shape) != 2 or shape[1] != len(names):
        raise ValueError(f"X must have {len(names)} columns, as in training, got shape {shape}")
    return frame_of_array(X, names)


def _check_missing(encoder: TableEncoder, missing: Any) -> None:
    """Raise where training rows miss values and the parameter `missing` is "error"."""
    found = [column.name for column in encoder.columns if had_missing(column)] if missing == "error" else []
    if found:
        raise TableError(
            f"X has missing values in column {found[0]!r}, which missing='error' refuses; missing='auto' fills "
            "and marks them, or impute them first"
        )


def _set_columns(estimator: Any, encoder: TableEncoder, names: tuple[str, ...], *, is_named: bool = True) -> None:
    """Set what a fit learned of the columns."""
    estimator.encoder_, estimator.n_features_in_ = encoder, len(names)
    if is_named:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    else:
        estimator.__dict__.pop("feature_names_in_", None)


# The parameter `categorical_features`


def categorical_features(estimator: Any) -> Any:
    """The parameter of an estimator or of an ensemble's pattern; None where the types decide."""
    for one in (estimator, getattr(estimator, "estimator", None)):
        given = getattr(one, "categorical_features", FROM_DTYPE)
        if not isinstance(given, str) and given is not None and np.size(given):
            return given
    return None


def _chosen(given: Any, names: list[str]) -> set[str]:
    """Names, numbers or a mask of columns as names."""
    values = np.asarray(given)
    if values.dtype == np.bool_:
        if values.shape != (len(names),):
            raise ValueError(
                f"categorical_features must have a truth value for each of {len(names)} columns, got {values.shape}"
            )
        return {name for name, chosen in zip(names, values, strict=True) if chosen}
    return {_one_name(value, names) for value in values.ravel().tolist()}


def _one_name(value: Any, names: list[str]) -> str:
    if isinstance(value, int) and str(value) not in names:
        if not -len(names) <= value < len(names):
            raise ValueError(f"categorical_features has column {value}, and X has {len(names)} columns, from 0 on")
        return names[value]
    if str(value) not in names:
        raise ValueError(f"categorical_features names {value!r}, which is no column of X: {', '.join(names[:8])}")
    return str(value)


# What a fit has learned


def copy_columns(source: Any, target: Any) -> None:
    """Give an estimator the columns that another one learned."""
    for name in NAMES:
        if hasattr(source, name):
            setattr(target, name, getattr(source, name))


def on_features(estimator: Any) -> Any:
    """An estimator that was fitted to a data frame as one of its encoder's features."""
    encoder = vars(estimator).get("encoder_")
    if encoder is None:
        return estimator
    plain = copy.copy(estimator)
    del plain.encoder_
    plain.n_features_in_ = len(encoder.feature_names)
    plain.feature_names_in_ = np.array(encoder.feature_names, dtype=object)
    members = getattr(vars(plain).get("fitted_"), "estimators", None)
    if members is not None:  # of several labels
        plain.fitted_ = replace(plain.fitted_, estimators=[on_features(member) for member in members])
    return plain


def on_columns(estimator: Any, encoder: TableEncoder) -> Any:
    """The inverse of `on_features`: an estimator of an encoder's features as one that reads the columns of a frame."""
    whole = copy.copy(estimator)
    if getattr(whole, "missing_values_", None) is not None:
        raise ValueError("an estimator that fills missing features itself cannot be given an encoder of columns")
    _set_columns(whole, encoder, encoder.names)
    state = vars(whole)
    state.pop("_tree", None)  # built for features
    if "feature_importances_" in state:
        whole.feature_importances_ = encoder.per_column(whole.feature_importances_)
    if "path_trees_" in state:
        whole.path_trees_ = changed_trees(whole.path_trees_, partial(replace, columns=encoder))
    if "tree_" in state:
        whole.tree_ = replace(whole.tree_, columns=encoder)
    members = getattr(state.get("fitted_"), "estimators", None)
    if members is not None:  # of several labels
        whole.fitted_ = replace(whole.fitted_, estimators=[on_columns(member, encoder) for member in members])
    return whole


def feature_names(estimator: Any) -> list[str] | None:
    """Names of the features that are trained on, before indicators of missing numbers; None where there are none."""
    encoder = vars(estimator).get("encoder_")
    if encoder is not None:
        return list(encoder.feature_names)
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def n_features(estimator: Any) -> int:
    """How many features are trained on, before indicators of missing numbers."""
    encoder = vars(estimator).get("encoder_")
    return int(estimator.n_features_in_) if encoder is None else len(encoder.feature_names)


def column_shares(estimator: Any, shares: Iterable[float]) -> NDArray[np.float64]:
    """Shares of an encoder's columns as shares of all columns; those that the encoder left out have none."""
    encoder, values = vars(estimator).get("encoder_"), np.asarray(shares, np.float64)
    if encoder is None:
        return values
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        names = [f"x{place}" for place in range(estimator.n_features_in_)]
    found = dict(zip((column.name for column in encoder.columns), values.tolist(), strict=True))
    return np.array([found.get(str(name), 0.0) for name in names])
