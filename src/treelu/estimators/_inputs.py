"""What fit functions take, read from an estimator: its configuration, validation rows, signs of monotonic features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_consistent_length

from treelu.data.dataset import Dataset
from treelu.data.reading import Reading
from treelu.estimators._rows import read_rows
from treelu.training import Settings
from treelu.training.config import NetworkConfig

T = TypeVar("T")


def parameters_of(estimator: Any, config: type) -> dict[str, Any]:
    """The parameters of an estimator that a configuration has fields for."""
    given = estimator.get_params(deep=False)
    return {field.name: given[field.name] for field in fields(config) if field.name in given}


def network_config(estimator: Any) -> NetworkConfig:
    """The parameters of an estimator around one network, as `fit_network` takes them."""
    kind, given = type(estimator), parameters_of(estimator, NetworkConfig)
    smoothing = given.get("smoothing", 0.0)
    given["smoothing"] = kind._default_smoothing if isinstance(smoothing, str) else float(smoothing)
    given["training"] = Settings.of(estimator.training)
    return NetworkConfig(kind._network_class, kind._activation_kind, title=kind.__name__, **given)


def read_eval_set(estimator: Any, eval_set: Any, reading: Reading) -> Dataset | None:
    """The validation rows, without weights."""
    dataset = eval_rows(estimator, eval_set, reading, reading.dataset)
    if dataset is None:
        return None
    targets = dataset.targets
    if targets.task == "binary" and targets.y.min() == targets.y.max():
        raise ValueError("eval_set has one class only; its AUC is not defined")
    return replace(dataset, targets=replace(targets, weight=None))


def eval_rows(estimator: Any, eval_set: Any, reading: Reading, read: Callable[[Any, Any], T]) -> T | None:
    """`read(X, y)` of validated rows X of an `eval_set`, where there is one; errors name it."""
    if eval_set is None:
        return None
    if not isinstance(eval_set, tuple | list) or len(eval_set) != 2:
        raise ValueError("eval_set must be a pair (X_valid, y_valid)")
    try:
        X = read_rows(estimator, eval_set[0], missing=reading.missing)
        check_consistent_length(X, eval_set[1])
        return read(X, eval_set[1])
    except ValueError as error:
        raise ValueError(f"eval_set: {error}") from error


def monotonic_signs(estimator: Any, n_columns: int, n_outputs: int) -> NDArray[np.float64] | None:
    """`monotonic_cst` as an array over the tree's features; None where nothing is constrained."""
    given, n_features = estimator.monotonic_cst, estimator.n_features_in_
    if given is None:
        return None
    names = getattr(estimator, "feature_names_in_", None)
    names = [f"x{i}" for i in range(n_features)] if names is None else [str(name) for name in names]
    if isinstance(given, dict):
        unknown = sorted(str(name) for name in given if name not in names)
        if unknown:
            raise ValueError(f"monotonic_cst names {unknown[0]!r}, which is not a feature: {', '.join(names[:8])}")
        signs = np.array([given.get(name, 0) for name in names], np.float64)
    else:
        signs = np.asarray(given, np.float64)
    if signs.shape != (n_features,) or not np.isin(signs, (-1, 0, 1)).all():
        raise ValueError(f"monotonic_cst must hold -1, 0 or 1 for each of {n_features} features, got {given}")
    if not signs.any():
        return None
    if n_outputs > (2 if is_classifier(estimator) else 1):
        raise ValueError("monotonic_cst needs two classes or one target; with more there is no up and down")
    encoder = vars(estimator).get("encoder_")
    if encoder is None:
        return np.append(signs, np.zeros(n_columns - len(signs)))
    of_features = np.zeros(n_columns)
    for name, sign in zip(names, signs.tolist(), strict=True):
        if sign and name in encoder.places:
            if encoder.column(name).kind != "number":
                raise ValueError(f"monotonic_cst: column {name!r} holds no numbers, so that it neither rises nor falls")
            of_features[encoder.places[name][0]] = sign
    return of_features


@contextmanager
def unchanged_by_failure(estimator: Any) -> Iterator[None]:
    """Give the estimator its attributes back if the block raises: no new classes on an old model.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(classes_=["a", "b"])
    >>> try:
    ...     with unchanged_by_failure(model):
    ...         model.classes_ = ["c"]
    ...         raise KeyboardInterrupt
    ... except KeyboardInterrupt:
    ...     model.classes_
    ['a', 'b']
    """
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise
