"""Continuing a fitted network: on rows that come later, or on all rows after a fit to a sample of them.

A drop rate that suits a sample is too high for all rows. DropConnect is a penalty on the weights, in the mean loss of a
row, that grows with rate / (1 − rate) (for linear models exactly so: Wager, Wang and Liang, 2013). For k times as many
rows this penalty is divided by k, and weight decay likewise.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treelu.data.dataset import Dataset
from treelu.nn import NeuronChain
from treelu.training.calibration import row_losses
from treelu.training.config import NetworkConfig
from treelu.training.fit import FittedNetwork, calibrate, refine
from treelu.training.history import History
from treelu.training.hyper_parameters import clearly_worse
from treelu.training.loop import evaluate, train
from treelu.training.sparsity import proximal_step

LEAST_RATE = 0.001  # masks take half of the time of training; with fewer weights dropped it is not worth them
ENOUGH_TO_TEMPER = 20  # rows held out of each of two classes


class Start(NamedTuple):
    """Where continued training begins: a network on scaled features, those it reads (None: all), and its decay."""

    network: NeuronChain
    features: NDArray[np.int64] | None
    decay: float


def start_from(fitted: FittedNetwork, config: NetworkConfig, n_times: float = 1.0) -> Start:
    """The fitted network, for `n_times` as many rows as it was fitted to.

    It reads no feature that `max_tree_features` took from it. A drop rate or decay that the user has given stays; one
    that was chosen falls with the number of rows.
    """
    network, decay = fitted.scaled(config), config.resolve(fitted.chosen).weight_decay
    network.leaf_corrections = None
    if isinstance(config.drop_connect, str):
        network.drop_connect = scaled_drop_rate(network.drop_connect, n_times)
    if isinstance(config.weight_decay, str):
        decay /= n_times
    if config.resolve(fitted.chosen).max_tree_features is None:
        return Start(network, None, decay)
    features = np.flatnonzero((network.weight != 0).any(axis=1))
    return Start(network.narrow(features), features, decay)


def scaled_drop_rate(rate: float, n_times: float) -> float:
    """The drop rate whose penalty, rate / (1 − rate), is `n_times` less; 0 where hardly a weight would be dropped.

    Examples
    --------
    >>> [round(scaled_drop_rate(0.5, n_times), 3) for n_times in (1.0, 4.0, 5000.0)]
    [0.5, 0.2, 0.0]
    """
    scaled = rate / (rate + n_times * (1 - rate))
    return scaled if scaled >= LEAST_RATE else 0.0


def continue_training(
    start: Start,
    dataset: Dataset,
    config: NetworkConfig,
    *,
    windows: Iterator[Dataset] | None = None,
    **options: Any,
) -> tuple[NeuronChain, History]:
    """The network, with all features, after more training as a ReLU network (λ = 1), the learning rate falling to 0."""
    network, features, decay = start
    n_features = dataset.table.shape[1]
    if features is not None:
        dataset = _columns(dataset, features)
        windows = None if windows is None else map(partial(_columns, features=features), windows)
    history = train(
        network,
        dataset,
        windows=windows,
        **{
            "optimizer": config.training.optimizer,
            "schedule": "cosine",
            "weight_decay": decay,
            "annealing": 0.0,
            "after_step": proximal_step(config.training.feature_penalty),
            "make_stepper": config.make_stepper(),
            **options,
        },
    )
    return network if features is None else network.widen(features, n_features), history


def _columns(dataset: Dataset, features: NDArray[np.int64]) -> Dataset:
    return replace(dataset, table=dataset.table.columns(features))


def finished(
    fitted: FittedNetwork, network: NeuronChain, dataset: Dataset, config: NetworkConfig, n_passes: int
) -> FittedNetwork:
    """The fit with the network that was continued: leaves refined, rows counted."""
    refine(network, dataset, config)
    return FittedNetwork.of(network, dataset, fitted.reading, fitted.chosen, fitted.history, n_passes)


def finished_on_all_rows(
    fitted: FittedNetwork, network: NeuronChain, dataset: Dataset, held_out: Dataset, config: NetworkConfig
) -> FittedNetwork:
    """The fit with the network that all rows gave, refined and tempered; the same one where that is clearly worse."""
    before = _losses(fitted.scaled(config), held_out)
    refine(network, dataset, config)
    if _can_temper(held_out):
        calibrate(network, dataset, config, held_out)
    if len(held_out) and clearly_worse(_losses(network, held_out), before):
        return fitted
    n_passes = 0 if fitted.history is None else len(fitted.history)
    return FittedNetwork.of(network, dataset, fitted.reading, fitted.chosen, fitted.history, n_passes)


def warn_of_worse() -> None:
    """Say that training on all rows did not help."""
    warnings.warn(
        "training on all rows made the held-out loss worse; the network fitted to a sample of them is kept. A lower "
        "learning_rate may help",
        UserWarning,
        stacklevel=2,
    )


def _losses(network: NeuronChain, dataset: Dataset) -> NDArray[np.float64]:
    scores = evaluate(network, dataset.table, dataset.index).astype(np.float64)
    return row_losses(scores, dataset.targets, dataset.rows)


def _can_temper(held_out: Dataset) -> bool:
    """Whether held-out rows are enough to find a temperature."""
    if held_out.targets.task == "regression":
        return len(held_out) >= ENOUGH_TO_TEMPER
    counts = np.unique(held_out.targets.y, return_counts=True)[1]
    return int((counts >= ENOUGH_TO_TEMPER).sum()) > 1
