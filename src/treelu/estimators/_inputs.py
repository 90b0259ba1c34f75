"""What fit functions take, read from an estimator: its configuration and validation rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sklearn.utils.validation import check_consistent_length

from treelu.data.dataset import Dataset
from treelu.data.reading import Reading
from treelu.data.rows import validated_rows
from treelu.training import Settings
from treelu.training.config import NetworkConfig

_OF_CONFIG = (
    "depth", "drop_connect", "hidden_layers", "epochs", "learning_rate", "weight_decay", "early_stopping",
    "max_tree_features", "device", "n_jobs", "callbacks", "verbose",
)  # fmt: skip


def network_config(estimator: Any) -> NetworkConfig:
    """The parameters of an estimator around one network, as `fit_network` takes them."""
    kind, smoothing = type(estimator), getattr(estimator, "smoothing", 0.0)
    return NetworkConfig(
        kind._network_class,
        kind._activation_kind,
        **{name: getattr(estimator, name) for name in _OF_CONFIG},
        smoothing=kind._default_smoothing if isinstance(smoothing, str) else float(smoothing),
        training=Settings.of(estimator.training),
        title=kind.__name__,
    )


def read_eval_set(estimator: Any, eval_set: Any, reading: Reading) -> Dataset | None:
    """The validation rows, without weights."""
    if eval_set is None:
        return None
    if not isinstance(eval_set, tuple | list) or len(eval_set) != 2:
        raise ValueError("eval_set must be a pair (X_valid, y_valid)")
    try:
        X = validated_rows(estimator, eval_set[0], missing=reading.missing)
        check_consistent_length(X, eval_set[1])
        dataset = reading.dataset(X, eval_set[1])
    except ValueError as error:
        raise ValueError(f"eval_set: {error}") from error
    targets = dataset.targets
    if targets.task == "binary" and targets.y.min() == targets.y.max():
        raise ValueError("eval_set has one class only; its AUC is not defined")
    return replace(dataset, targets=replace(targets, weight=None))
