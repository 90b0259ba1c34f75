"""Training a fitted network on: on rows that come later, or on all of those of which it knows a sample."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from treelu.estimators._setting import clearly_worse
from treelu.estimators._targets import encode_classes, weigh_classes
from treelu.nn import NeuronChain
from treelu.training import History, Sample, evaluate, train
from treelu.training.blocks import Window
from treelu.training.calibration import row_losses
from treelu.training.sparsity import proximal_step

if TYPE_CHECKING:
    from treelu.estimators._base import NetworkEstimator

LEAST_RATE = 0.001  # masks take half of the time of training; with fewer weights dropped it is not worth them
ENOUGH_TO_TEMPER = 20  # rows held out of each of two classes


class Start(NamedTuple):
    """Where further training begins: a network on scaled features, those that it reads (None: all), and its decay."""

    network: NeuronChain
    chosen: NDArray[np.int64] | None
    decay: float


def start_further(estimator: NetworkEstimator, n_times: float = 1.0) -> Start:
    """The fitted network, for `n_times` as many rows as it was fitted to.

    It reads no feature that `max_tree_features` took from it. A drop rate or decay that the user has given stays;
    one that was chosen falls with the number of rows, see `_large`.
    """
    network, decay = estimator._unfolded(estimator.network_), estimator._setting().decay
    network.leaf_corrections = None
    if isinstance(estimator.drop_connect, str):
        network.drop_connect = fallen_rate(network.drop_connect, n_times)
    if isinstance(estimator.weight_decay, str):
        decay /= n_times
    if estimator._setting().max_features is None:
        return Start(network, None, decay)
    chosen = np.flatnonzero((network.weight != 0).any(axis=1))
    return Start(network.narrow(chosen), chosen, decay)


def fallen_rate(rate: float, n_times: float) -> float:
    """The drop rate whose penalty, rate / (1 − rate), is `n_times` less; 0 where hardly a weight would be dropped.

    Examples
    --------
    >>> [round(fallen_rate(0.5, n_times), 3) for n_times in (1.0, 4.0, 5000.0)]
    [0.5, 0.2, 0.0]
    """
    fallen = rate / (rate + n_times * (1 - rate))
    return fallen if fallen >= LEAST_RATE else 0.0


def train_further(
    estimator: NetworkEstimator,
    start: Start,
    sample: Sample,
    *,
    windows: Iterator[Sample] | None = None,
    **settings: Any,
) -> tuple[NeuronChain, History]:
    """The network, with all features, after more training as a ReLU network (λ = 1), the learning rate falling to 0."""
    network, chosen, decay = start
    n_features = sample.table.shape[1]
    if chosen is not None:
        sample = _columns(sample, chosen)
        windows = None if windows is None else map(partial(_columns, chosen=chosen), windows)
    history = train(
        network,
        sample,
        windows=windows,
        **{
            "optimizer": estimator._how.optimizer,
            "schedule": "cosine",
            "weight_decay": decay,
            "annealing": 0.0,
            "after_step": proximal_step(estimator._how.feature_penalty),
            "make_stepper": estimator._make_stepper(),
            **settings,
        },
    )
    return network if chosen is None else network.widen(chosen, n_features), history


def _columns(sample: Sample, chosen: NDArray[np.int64]) -> Sample:
    return replace(sample, table=sample.table.columns(chosen))


def finish_training(estimator: NetworkEstimator, network: NeuronChain, sample: Sample, n_passes: int) -> None:
    """What follows the training of a network in `fit` too: leaves refined, rows counted."""
    estimator._refine(network, sample)
    estimator._describe_rows(network, sample, n_passes)
    estimator.network_ = estimator._folded(network)


def finish_on_all_rows(estimator: NetworkEstimator, network: NeuronChain, sample: Sample, held_out: Sample) -> bool:
    """Refine, temper and keep the network that all rows gave; False where rows held out say that it is clearly worse.

    The estimator then keeps the network that it has.
    """
    before = _losses(estimator._unfolded(estimator.network_), held_out)
    estimator._refine(network, sample)
    if _can_temper(held_out):
        estimator._temper(network, sample, held_out, None)
    if len(held_out) and clearly_worse(_losses(network, held_out), before):
        return False
    estimator._describe_rows(network, sample, len(estimator.history_))
    estimator.network_ = estimator._folded(network)
    return True


def warn_of_worse() -> None:
    """Say that the pass through all rows was of no use."""
    warnings.warn(
        "training on all rows made the network worse on rows held out; the one fitted to a sample of them is kept. "
        "A lower learning_rate may help",
        UserWarning,
        stacklevel=2,
    )


def _losses(network: NeuronChain, sample: Sample) -> NDArray[np.float64]:
    return row_losses(evaluate(network, sample.table, sample.index).astype(np.float64), sample.targets, sample.rows)


def _can_temper(held_out: Sample) -> bool:
    """Whether rows held out can tell how sure a network should be."""
    if held_out.targets.task == "regression":
        return len(held_out) >= ENOUGH_TO_TEMPER
    counts = np.unique(held_out.targets.y, return_counts=True)[1]
    return int((counts >= ENOUGH_TO_TEMPER).sum()) > 1


def _by_class(estimator: Any, number: NDArray[Any], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weight of each class; "balanced" ones balance the weight of the sample's classes."""
    weight = np.broadcast_to(weight, len(number))
    by_row = weigh_classes(estimator.class_weight, estimator.classes_[number], weight)
    counted = np.flatnonzero(weight)
    by_class = np.zeros(len(estimator.classes_))
    by_class[number[counted]] = by_row[counted] / weight[counted]
    return by_class


@dataclass(frozen=True)
class RowWeights:
    """What turns the weights of rows into those that training uses, alike in all windows.

    Attributes
    ----------
    by_class : array of shape (classes,), or None
        The weights of classes, from their shares in the sample where they are balanced.
    mean : float
        The sample's mean weight.
    """

    by_class: NDArray[np.float64] | None
    mean: float

    @classmethod
    def of(cls, estimator: NetworkEstimator, part: Window) -> Self:
        """Those of an estimator that was fitted to a sample."""
        by_class, weight = None, np.ones(1) if part.weight is None else part.weight.astype(np.float64)
        if is_classifier(estimator) and estimator.class_weight is not None:
            number = encode_classes(part.y, estimator.classes_)[1]
            by_class = _by_class(estimator, number, weight)
            weight = weight * by_class[number]
        return cls(by_class, float(weight.mean()))

    def scaled(self, weight: NDArray[Any] | None, y: Any, classes: NDArray[Any] | None) -> NDArray[np.float32] | None:
        """The weights of some rows, 1 in the sample's mean; None where all are 1."""
        if weight is None and self.by_class is None:
            return None
        total = np.ones(len(y)) if weight is None else weight.astype(np.float64)
        if self.by_class is not None:
            total = total * self.by_class[encode_classes(y, classes)[1]]
        return (total / self.mean).astype(np.float32)


def as_sample(estimator: NetworkEstimator, window: Window, weights: RowWeights) -> Sample:
    """A window as the network is trained on it."""
    X, y = estimator._read_rows(window.X, window.y, first=False)
    targets = estimator._read_targets(y, None, first=False)
    weight = weights.scaled(window.weight, y, getattr(estimator, "classes_", None))
    return Sample(estimator._scaled_table(X), replace(targets, weight=weight))
