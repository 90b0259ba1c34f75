"""Distillation: soft targets for small trees, from a smooth network, a user's estimator or locally linear networks.

A tree of a few leaves fits the noise of its rows when it is trained on them. The predictions of a smooth network (ALCN)
for the same rows have less noise: splits are trained on these, and constant leaf values still come from the rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from treelu.convert import network_to_tree
from treelu.data.dataset import Dataset
from treelu.data.reading import ClassEncoding, Reading, ValueEncoding
from treelu.data.targets import probabilities
from treelu.nn import LocallyLinearNetwork, Table
from treelu.nn.cpu.threads import limited, n_threads
from treelu.training import evaluate
from treelu.training.calibration import HOTTEST, Tempering
from treelu.training.config import NetworkConfig, draw_seeds
from treelu.training.fit import FittedNetwork, choose, fit_network
from treelu.training.hyper_parameters import MAX_DEPTH, HyperParameters
from treelu.training.parallel import in_order
from treelu.training.small.config import Limits
from treelu.training.small.path import OWN, TEACHER, network_targets
from treelu.training.small.rows import TrainingRows
from treelu.training.small.soft_tree import SoftTree, no_values
from treelu.tree.rows import dense

S = TypeVar("S")
T = TypeVar("T")
TINY = np.finfo(np.float64).tiny
NETWORKS, FEW_ROWS = 3, 500  # networks that are averaged where there are fewer rows: single ones differ much
LEAST_ROWS = 50  # below which there is no teacher
NO_TEMPERING = Tempering(1.0)
DEPTHS = (6, 10)  # neurons of the locally linear networks


def all_targets(
    parts: Sequence[TrainingRows], sample: TrainingRows, teacher: Any, limits: Limits, seed: int, n_jobs: int
) -> list[dict[str, TrainingRows]]:
    """Each part of the rows with each kind of targets: its own, a teacher's and those of locally linear networks.

    Parameters
    ----------
    parts : sequence of TrainingRows
        The training rows of each fold, and all rows; a teacher is fitted to each of them, so that it has not been
        trained on held-out rows.
    sample : TrainingRows
        On which the teacher's hyper-parameters are chosen.
    teacher : "auto", None or estimator
    limits : Limits
    seed, n_jobs : int
    """
    targets = [{OWN: part} for part in parts]
    if teacher is None or len(sample) < LEAST_ROWS or not limits.can_train(sample):
        return targets
    seeds = [*(seed + fold for fold in range(len(parts) - 1)), seed]
    chosen = Teacher.chosen(sample, None if isinstance(teacher, str) else teacher, seed)
    if chosen is not None:
        for of_part, rows in zip(targets, chosen.soft_targets(parts, seeds, n_jobs), strict=True):
            of_part[TEACHER] = rows
    if sample.linear and isinstance(teacher, str) and limits.max_terms == sample.n_features:
        for of_part, by_depth in zip(targets, linear_networks(parts, sample, seeds, limits.depth, n_jobs), strict=True):
            of_part.update({network_targets(depth): rows for depth, rows in by_depth.items()})
    return targets


@dataclass(frozen=True)
class Teacher:
    """A model that is fitted anew to each part of the rows, and the tempering of its predictions.

    Attributes
    ----------
    model : NetworkConfig or estimator
        Smooth networks, or the user's own.
    tempering : Tempering
    """

    model: Any
    tempering: Tempering = NO_TEMPERING

    @classmethod
    def chosen(cls, rows: TrainingRows, estimator: Any, seed: int) -> Teacher | None:
        """The given estimator, or an ALCN whose hyper-parameters and tempering are chosen on the rows.

        None where the network is no better than a constant.
        """
        if estimator is not None:
            if rows.is_classifier and not hasattr(estimator, "predict_proba"):
                raise ValueError(f"teacher must have predict_proba, which {estimator!r} has not; give a classifier")
            return cls(estimator)
        config = NetworkConfig(activation="softplus").quiet
        chosen, tempering = choose(_read(rows)[0], config, draw_seeds(seed, 1)[0])
        if tempering is not None and tempering.temperature >= HOTTEST:
            return None
        return cls(_fixed(config, chosen), tempering or NO_TEMPERING)

    def soft_targets(self, parts: Sequence[TrainingRows], seeds: Sequence[int], n_jobs: int) -> list[TrainingRows]:
        """Each part of the rows with the predictions of a teacher that was fitted to it.

        Networks are fitted in `n_jobs` threads; of few rows, several are averaged. Predictions depend on the seeds, one
        for each part, and not on the threads.
        """
        jobs = [
            (part, of_one)
            for part, (rows, seed) in enumerate(zip(parts, seeds, strict=True))
            if not rows.is_classifier or len(np.unique(rows.target.argmax(axis=1))) > 1
            for of_one in self._seeds(len(rows), seed)
        ]

        def predict(job: tuple[int, int]) -> NDArray[np.float64]:
            rows, seed = parts[job[0]], job[1]
            if isinstance(self.model, NetworkConfig):
                return _network_predictions(_fitted_network(self.model, rows, seed), rows)
            return _predictions(_fitted(_seeded(self.model, seed), rows), rows)

        found: list[list[NDArray[np.float64]]] = [[] for _ in parts]
        results = _in_threads(predict, jobs, n_jobs if isinstance(self.model, NetworkConfig) else 1)
        for (part, _), predictions in zip(jobs, results, strict=True):
            found[part].append(predictions)
        return [self._with_mean(rows, predictions) for rows, predictions in zip(parts, found, strict=True)]

    def _seeds(self, n_rows: int, seed: int) -> list[int]:
        """Seeds of the models that are fitted to so many rows."""
        if not isinstance(self.model, NetworkConfig):
            return [seed]
        n_networks = NETWORKS if n_rows < FEW_ROWS else 1
        return np.random.default_rng([seed, 2]).integers(2**31, size=n_networks).tolist()

    def _with_mean(self, rows: TrainingRows, predictions: list[NDArray[np.float64]]) -> TrainingRows:
        """The rows with the mean of the predictions, tempered; unchanged where there are none."""
        if not predictions:
            return rows
        target = tempered(np.mean(predictions, axis=0), self.tempering, rows)
        return replace(rows, target=np.ascontiguousarray(target, np.float32), soft=True)


def linear_networks(
    parts: Sequence[TrainingRows], sample: TrainingRows, seeds: Sequence[int], max_depth: int, n_jobs: int
) -> list[dict[int, TrainingRows]]:
    """Each part of the rows with predictions and linear regions of locally linear networks, by their depth.

    Such a network of a few neurons is itself a tree with linear leaves, and a continuous one. Drop rate and decay are
    chosen on the sample.
    """
    depths = sorted({min(depth, max_depth) for depth in DEPTHS})
    config = NetworkConfig(LocallyLinearNetwork, depth=depths[-1]).quiet
    chosen, tempering = choose(_read(sample)[0], config, draw_seeds(seeds[-1], 1)[0])
    fixed = _fixed(config, chosen)

    def predict(job: tuple[int, int]) -> TrainingRows:
        part, depth = job
        rows = parts[part]
        fitted = _fitted_network(replace(fixed, depth=depth), rows, seeds[part])
        network: Any = fitted.network
        tree = network_to_tree(network, visited_by=rows.X[:, :-1].astype(np.float64), max_depth=MAX_DEPTH)
        splits = np.column_stack([dense(tree.weights), tree.biases]).astype(np.float32)
        pieces = SoftTree(tree.children, splits, no_values(tree.n_splits, rows), np.ones_like(splits))
        predictions = tempered(_network_predictions(fitted, rows), tempering or NO_TEMPERING, rows)
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


def _network_predictions(fitted: FittedNetwork, rows: TrainingRows) -> NDArray[np.float64]:
    """Probabilities of all classes (n, K), or values (n, K)."""
    scores = evaluate(fitted.network, Table(rows.X[:, :-1].astype(np.float64)))
    encoding = fitted.reading.encoding
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
