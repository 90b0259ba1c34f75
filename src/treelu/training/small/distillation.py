"""Distillation: soft targets for small trees, from a smooth network, a user's estimator or locally linear networks.

A tree of a few leaves fits the noise of its rows when it is trained on them. The predictions of a smooth network (ALCN)
for the same rows have less noise: splits are trained on these, and constant leaf values still come from the rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from treelu.convert import network_to_tree
from treelu.data.dataset import Dataset
from treelu.data.folds import Fold
from treelu.data.reading import ClassEncoding, Reading, ValueEncoding
from treelu.data.targets import Targets, probabilities
from treelu.nn import LocallyLinearNetwork, NeuronChain, Table
from treelu.nn.cpu.threads import limited, n_threads
from treelu.training import evaluate
from treelu.training.calibration import HOTTEST, Tempering, temper
from treelu.training.config import NetworkConfig, draw_seeds
from treelu.training.fit import FittedNetwork, choose, fit_network, raw_network, train_once
from treelu.training.hyper_parameters import MAX_DEPTH, HyperParameters
from treelu.training.parallel import in_order
from treelu.training.small.config import TreeLimits
from treelu.training.small.path import OWN, TEACHER, network_targets
from treelu.training.small.rows import TrainingRows
from treelu.training.small.soft_tree import SoftTree, no_values
from treelu.tree.rows import dense

Predict = Callable[[TrainingRows], NDArray[np.float64]]
S = TypeVar("S")
T = TypeVar("T")
TINY = np.finfo(np.float64).tiny
# The smooth network is trained with three times the usual learning rate for a share of the usual updates. Of a small
# table three are averaged: single ones differ much.
NETWORK = NetworkConfig(activation="softplus", learning_rate=0.03).quiet
SMALL_TABLE = 2_000  # rows
LEAST_ROWS = 50  # below which there is no teacher
NO_TEMPERING = Tempering(1.0)
DEPTHS = (6, 10)  # neurons of the locally linear networks


def all_targets(
    rows: TrainingRows,
    sample: TrainingRows,
    folds: Sequence[Fold],
    teacher: Any,
    limits: TreeLimits,
    seed: int,
    n_jobs: int,
) -> tuple[list[dict[str, TrainingRows]], dict[str, TrainingRows]]:
    """The training rows of each fold, and all rows, with each kind of targets.

    Those are the rows' own, a teacher's, and for linear leaves those of locally linear networks.

    Parameters
    ----------
    rows, sample : TrainingRows
        All rows, and those that are compared on: all of them, or some.
    folds : sequence of Fold
        Of the sample.
    teacher : "auto", None or estimator
    limits : TreeLimits
    seed, n_jobs : int
    """
    parts = [sample.part(train) for train, _ in folds]
    of_folds, of_all = [{OWN: part} for part in parts], {OWN: rows}
    if teacher is None or len(sample) < LEAST_ROWS or not limits.can_train(sample):
        return of_folds, of_all
    estimator = None if isinstance(teacher, str) else teacher
    soft = soft_targets(rows, sample, folds, parts, estimator, seed=seed, n_jobs=n_jobs)
    if soft is not None:
        for targets, of_one in zip([*of_folds, of_all], [*soft[0], soft[1]], strict=True):
            targets[TEACHER] = of_one
    if sample.linear and isinstance(teacher, str) and limits.max_terms == sample.n_features:
        networks = linear_networks([*parts, rows], sample, seed, limits.depth, n_jobs)
        for targets, by_depth in zip([*of_folds, of_all], networks, strict=True):
            targets.update({network_targets(depth): of_one for depth, of_one in by_depth.items()})
    return of_folds, of_all


def soft_targets(
    rows: TrainingRows,
    sample: TrainingRows,
    folds: Sequence[Fold],
    parts: Sequence[TrainingRows],
    estimator: Any,
    *,
    seed: int,
    n_jobs: int,
) -> tuple[list[TrainingRows], TrainingRows] | None:
    """Predictions of a teacher as targets: of each fold's training rows, and of all rows.

    A model is fitted to the training rows of each fold. A fold's targets are the predictions of its own model, which
    knows nothing of the rows held out; those of all rows are the mean of all models. (Out-of-fold predictions, of the
    models that were not fitted to the row, gave worse trees on 42 tables.) Predictions of networks are tempered on
    the rows held out.

    Parameters
    ----------
    rows, sample, folds
        As of `all_targets`.
    parts : sequence of TrainingRows
        The training rows of each fold, whose features the targets share.
    estimator : estimator or None
        The user's own; None for a smooth network.
    seed, n_jobs : int
        Networks are fitted in so many threads; what they predict does not depend on them.

    Returns
    -------
    None where the network is no better than a constant.
    """
    if estimator is not None and sample.is_classifier and not hasattr(estimator, "predict_proba"):
        raise ValueError(f"teacher must have predict_proba, which {estimator!r} has not; give a classifier")

    def fit(fold: int) -> Predict | None:
        if sample.is_classifier and len(np.unique(parts[fold].target.argmax(axis=1))) < 2:
            return None
        return fitted_teacher(parts[fold], estimator, seed + fold)

    models = dict(enumerate(_in_threads(fit, range(len(folds)), n_jobs if estimator is None else 1)))
    fitted = {fold: model for fold, model in models.items() if model is not None}
    if not fitted:
        return None
    predictions = {fold: model(sample) for fold, model in fitted.items()}
    tempering = NO_TEMPERING
    if estimator is None:
        test = np.concatenate([folds[fold][1] for fold in fitted])
        held_out = np.concatenate([predictions[fold][folds[fold][1]] for fold in fitted])
        tempering = _tempering(held_out, sample, test)
    if tempering.temperature > 0.999 * HOTTEST:  # the bound, up to rounding
        return None
    of_folds = [
        with_targets(part, predictions[fold][folds[fold][0]], tempering) if fold in fitted else part
        for fold, part in enumerate(parts)
    ]
    of_all = predictions.values() if len(rows) == len(sample) else (model(rows) for model in fitted.values())
    return of_folds, with_targets(rows, np.mean(list(of_all), axis=0), tempering)


def with_targets(rows: TrainingRows, predictions: NDArray[np.float64], how: Tempering) -> TrainingRows:
    """The rows with tempered predictions as their targets."""
    return replace(rows, target=np.ascontiguousarray(tempered(predictions, how, rows), np.float32), soft=True)


def fitted_teacher(rows: TrainingRows, estimator: Any, seed: int) -> Predict:
    """A teacher fitted to some rows: predict(rows) gives probabilities of all classes (n, K), or values (n, K)."""
    if estimator is not None:
        model = _fitted(_seeded(estimator, seed), rows)
        return lambda rows: _predictions(model, rows)
    dataset, reading = _read(rows)
    depth, share, n_networks = (8, 0.25, 3) if len(rows) < SMALL_TABLE else (12, 0.5, 1)
    size = HyperParameters(depth, drop_connect=0.1)
    networks = [
        raw_network(train_once(dataset, NETWORK, size, of_one, share=share)[0], reading)
        for of_one in draw_seeds(seed, n_networks)
    ]
    return lambda rows: np.mean([_network_predictions(network, reading, rows) for network in networks], axis=0)


def _tempering(predictions: NDArray[np.float64], rows: TrainingRows, held_out: NDArray[np.int64]) -> Tempering:
    """The tempering of predictions for the rows held out that has the least loss."""
    weight, (_, n_outputs) = rows.weight.astype(np.float64), rows.target.shape
    if not rows.is_classifier:
        return temper(predictions, Targets("regression", rows.target, n_outputs, weight), held_out).how
    targets = Targets("multiclass", rows.target.argmax(axis=1), n_outputs, weight)
    return temper(np.log(np.maximum(predictions, TINY)), targets, held_out).how


def linear_networks(
    parts: Sequence[TrainingRows], sample: TrainingRows, seed: int, max_depth: int, n_jobs: int
) -> list[dict[int, TrainingRows]]:
    """Each part of the rows with predictions and linear regions of locally linear networks, by their depth.

    Such a network of a few neurons is itself a tree with linear leaves, and a continuous one. Drop rate and decay are
    chosen on the sample.
    """
    depths = sorted({min(depth, max_depth) for depth in DEPTHS})
    config = NetworkConfig(LocallyLinearNetwork, depth=depths[-1]).quiet
    chosen, tempering = choose(_read(sample)[0], config, draw_seeds(seed, 1)[0])
    fixed = _fixed(config, chosen)

    def predict(job: tuple[int, int]) -> TrainingRows:
        part, depth = job
        rows = parts[part]
        of_part = seed if part == len(parts) - 1 else seed + part
        fitted = _fitted_network(replace(fixed, depth=depth), rows, of_part)
        network: Any = fitted.network
        tree = network_to_tree(network, visited_by=rows.X[:, :-1].astype(np.float64), max_depth=MAX_DEPTH)
        splits = np.column_stack([dense(tree.weights), tree.biases]).astype(np.float32)
        pieces = SoftTree(tree.children, splits, no_values(tree.n_splits, rows), np.ones_like(splits))
        predictions = tempered(_network_predictions(network, fitted.reading, rows), tempering or NO_TEMPERING, rows)
        return replace(rows, target=np.ascontiguousarray(predictions, np.float32), soft=True, pieces=pieces)

    jobs = [(part, depth) for part in range(len(parts)) for depth in depths]
    found: list[dict[int, TrainingRows]] = [{} for _ in parts]
    for (part, depth), rows in zip(jobs, _in_threads(predict, jobs, n_jobs), strict=True):
        found[part][depth] = rows
    return found


def tempered(predictions: NDArray[np.float64], how: Tempering, rows: TrainingRows) -> NDArray[np.float64]:
    """Probabilities (by their logarithms) or values after tempering."""
    if not rows.is_classifier:
        return predictions / how.temperature
    frequencies = np.average(rows.target, axis=0, weights=rows.weight)
    with np.errstate(divide="ignore"):  # classes that the rows lack keep a probability of zero
        scores = how.of(np.log(predictions), np.log(np.maximum(frequencies, TINY)))
    return probabilities(scores)


# Networks


def _fixed(config: NetworkConfig, chosen: HyperParameters) -> NetworkConfig:
    """The configuration with the chosen hyper-parameters; not tempered, as the tempering is known."""
    return replace(config, **chosen._asdict(), training=config.training.but(temper=False))


def _read(rows: TrainingRows) -> tuple[Dataset, Reading]:
    """Rows as a network is trained on them; no warnings, as the user has asked for a tree."""
    X, y = _as_given(rows)
    weight = rows.weight.astype(np.float64)
    with warnings.catch_warnings(action="ignore"):
        encoding = ClassEncoding.learn(y, None, weight) if rows.is_classifier else ValueEncoding.learn(y, True, weight)
        reading = Reading.learn(X, encoding, "auto")
        dataset = reading.dataset(X, y, weight)
    return replace(dataset, targets=replace(dataset.targets, folding=rows.folding)), reading


def _fitted_network(config: NetworkConfig, rows: TrainingRows, seed: int) -> FittedNetwork:
    """The network of a configuration whose hyper-parameters are given; Ctrl-C ends it without a result."""
    dataset, reading = _read(rows)
    return fit_network(dataset, config, reading, draw_seeds(seed, 1)[0])


def _network_predictions(network: NeuronChain, reading: Reading, rows: TrainingRows) -> NDArray[np.float64]:
    """Probabilities of all classes (n, K), or values (n, K), of a network on unscaled features."""
    scores = evaluate(network, Table(rows.X[:, :-1].astype(np.float64)))
    encoding = reading.encoding
    if not isinstance(encoding, ClassEncoding):
        return scores
    predictions = np.zeros(rows.target.shape)
    predictions[:, encoding.classes] = probabilities(scores)
    return predictions


# The user's estimator


def _seeded(estimator: Any, seed: int) -> Any:
    """A clone that draws the same numbers in each fit."""
    from sklearn.base import clone

    model = clone(estimator)
    is_open = "random_state" in (given := model.get_params()) and given["random_state"] is None
    return model.set_params(random_state=seed) if is_open else model


def _fitted(model: Any, rows: TrainingRows) -> Any:
    """The user's model, fitted; Ctrl-C ends it without a result."""
    from sklearn.utils.validation import has_fit_parameter

    given = {"sample_weight": rows.weight.astype(np.float64), "groups": rows.groups}
    model.fit(*_as_given(rows), **{name: given[name] for name in given if has_fit_parameter(model, name)})
    if getattr(getattr(model, "history_", None), "ended", "") == "interrupted":
        raise KeyboardInterrupt
    return model


def _predictions(model: Any, rows: TrainingRows) -> NDArray[np.float64]:
    """Probabilities of all classes (n, K), or values (n, K)."""
    X = rows.X[:, :-1].astype(np.float64)
    predictions: NDArray[np.float64] = np.zeros(rows.target.shape)
    if rows.is_classifier:
        predictions[:, model.classes_] = model.predict_proba(X)
    else:
        predictions = np.asarray(model.predict(X), np.float64).reshape(len(rows), -1)
    if predictions.shape != rows.target.shape or not np.isfinite(predictions).all():
        raise ValueError(
            f"teacher must give {rows.target.shape[1]} finite numbers for each row, which {model!r} does not"
        )
    return predictions


def _as_given(rows: TrainingRows) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Rows as an estimator takes them; a single target as a vector."""
    y = rows.target.argmax(axis=1) if rows.is_classifier else rows.target.astype(np.float64)
    return rows.X[:, :-1].astype(np.float64), y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y


def _in_threads(run: Callable[[S], T], jobs: Sequence[S], n_jobs: int) -> list[T]:
    """What `run` returns for each job, in `n_jobs` threads that share the processors; without warnings."""

    def limited_run(job: S) -> T:
        with limited(max(1, n_threads() // n_jobs)):
            return run(job)

    with warnings.catch_warnings(action="ignore"), closing(in_order(limited_run, jobs, n_jobs)) as results:
        return list(results)
