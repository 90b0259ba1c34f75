"""Teachers of small trees: a smooth network, or any estimator, whose answers a tree learns in place of noisy targets.

A tree of a few leaves fits the noise of its rows when it is trained on them. A smooth network (ALCN) of the same rows
has less of it: the tree then learns what the network says of each row, and only its constant leaf values come from
the rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from treelu.convert import network_to_tree
from treelu.data.dataset import Dataset
from treelu.data.reading import ClassEncoding, Reading, ValueEncoding
from treelu.data.targets import probabilities
from treelu.estimators._base import draw_seeds
from treelu.nn import LocallyLinearNetwork, Table
from treelu.nn.cpu.threads import limited, n_threads
from treelu.training import evaluate
from treelu.training.calibration import HOTTEST, Tempering
from treelu.training.config import NetworkConfig
from treelu.training.fit import FittedNetwork, choose, fit_network
from treelu.training.hyper_parameters import MAX_DEPTH, HyperParameters
from treelu.training.parallel import in_order
from treelu.training.small.soft_tree import Rows, SoftTree, no_values
from treelu.tree.rows import dense

S = TypeVar("S")
T = TypeVar("T")
TINY = np.finfo(np.float64).tiny
NETWORKS, FEW_ROWS = 3, 500  # whose answers are averaged where there are fewer rows: single ones differ much
AS_IT_IS = Tempering(1.0)
DEPTHS = (6, 10)  # neurons of linear networks, whose pieces are the leaves of a tree


@dataclass(frozen=True)
class Teacher:
    """A model that is fitted anew to each set of rows that are to be taught, and how its answers are tempered.

    Attributes
    ----------
    model : NetworkConfig or estimator
        Smooth networks, or the user's own.
    """

    model: Any
    tempering: Tempering = AS_IT_IS

    @classmethod
    def chosen(cls, rows: Rows, estimator: Any, seed: int) -> Teacher | None:
        """The given estimator, or an ALCN whose hyper-parameters and tempering are chosen on the rows; None where it
        learns nothing.
        """
        if estimator is not None:
            if rows.is_classifier and not hasattr(estimator, "predict_proba"):
                raise ValueError(f"teacher must have predict_proba, which {estimator!r} has not; give a classifier")
            return cls(estimator)
        config = NetworkConfig(activation="softplus").quiet
        chosen, how = choose(_read(rows)[0], config, draw_seeds(seed, 1)[0])
        if how is not None and how.temperature >= HOTTEST:
            return None
        return cls(_fixed(config, chosen), how or AS_IT_IS)

    def teach(self, parts: Sequence[Rows], seeds: Sequence[int], n_jobs: int) -> list[Rows]:
        """Each part of the rows with the answers of a teacher that was fitted to it.

        Networks are fitted in `n_jobs` threads; of few rows, the answers are the mean of several. What they say depends
        on the seeds, one for each part, and not on the threads.
        """
        jobs = [
            (place, of_one)
            for place, (rows, seed) in enumerate(zip(parts, seeds, strict=True))
            if not rows.is_classifier or len(np.unique(rows.target.argmax(axis=1))) > 1
            for of_one in self._seeds(len(rows), seed)
        ]

        def asked(job: tuple[int, int]) -> NDArray[np.float64]:
            rows, seed = parts[job[0]], job[1]
            if isinstance(self.model, NetworkConfig):
                return _network_answers(_fitted_network(self.model, rows, seed), rows)
            return _answers(_fitted(_seeded(self.model, seed), rows), rows)

        said: list[list[NDArray[np.float64]]] = [[] for _ in parts]
        results = _side_by_side(asked, jobs, n_jobs if isinstance(self.model, NetworkConfig) else 1)
        for (place, _), answers in zip(jobs, results, strict=True):
            said[place].append(answers)
        return [self._taught(rows, answers) for rows, answers in zip(parts, said, strict=True)]

    def _seeds(self, n_rows: int, seed: int) -> list[int]:
        """Of the models that are fitted to so many rows."""
        if not isinstance(self.model, NetworkConfig):
            return [seed]
        n_networks = NETWORKS if n_rows < FEW_ROWS else 1
        return np.random.default_rng([seed, 2]).integers(2**31, size=n_networks).tolist()

    def _taught(self, rows: Rows, answers: list[NDArray[np.float64]]) -> Rows:
        """The rows with the mean of the answers, tempered; as they are where nobody was asked."""
        if not answers:
            return rows
        target = tempered(np.mean(answers, axis=0), self.tempering, rows)
        return replace(rows, target=np.ascontiguousarray(target, np.float32), taught=True)


def linear_networks(
    parts: Sequence[Rows], sample: Rows, seeds: Sequence[int], max_depth: int, n_jobs: int
) -> list[dict[int, Rows]]:
    """Each part of the rows with the answers and the pieces of locally linear networks fitted to it, by their depth.

    Such a network of a few neurons is a tree with linear leaves already, and a continuous one. Drop rate and decay are
    chosen on the sample.
    """
    depths = sorted({min(depth, max_depth) for depth in DEPTHS})
    config = NetworkConfig(LocallyLinearNetwork, depth=depths[-1]).quiet
    chosen, how = choose(_read(sample)[0], config, draw_seeds(seeds[-1], 1)[0])
    fixed = _fixed(config, chosen)

    def answered(job: tuple[int, int]) -> Rows:
        place, depth = job
        rows = parts[place]
        fitted = _fitted_network(replace(fixed, depth=depth), rows, seeds[place])
        network: Any = fitted.network
        tree = network_to_tree(network, visited_by=rows.X[:, :-1].astype(np.float64), max_depth=MAX_DEPTH)
        questions = np.column_stack([dense(tree.weights), tree.biases]).astype(np.float32)
        pieces = SoftTree(tree.children, questions, no_values(tree.n_splits, rows), np.ones_like(questions))
        target = np.ascontiguousarray(tempered(_network_answers(fitted, rows), how or AS_IT_IS, rows), np.float32)
        return replace(rows, target=target, taught=True, pieces=pieces)

    jobs = [(place, depth) for place in range(len(parts)) for depth in depths]
    found: list[dict[int, Rows]] = [{} for _ in parts]
    for (place, depth), rows in zip(jobs, _side_by_side(answered, jobs, n_jobs), strict=True):
        found[place][depth] = rows
    return found


def tempered(answers: NDArray[np.float64], how: Tempering, rows: Rows) -> NDArray[np.float64]:
    """Chances whose logarithms, or values that, are tempered."""
    if not rows.is_classifier:
        return answers / how.temperature
    shares = np.average(rows.target, axis=0, weights=rows.weight)
    with np.errstate(divide="ignore"):  # classes that the rows lack keep a chance of zero
        scores = how.of(np.log(answers), np.log(np.maximum(shares, TINY)))
    return probabilities(scores)


def _fixed(config: NetworkConfig, chosen: HyperParameters) -> NetworkConfig:
    """The configuration with what was chosen; it is not tempered, as the tempering is known."""
    return replace(config, **chosen._asdict(), training=config.training.but(temper=False))


def _read(rows: Rows) -> tuple[Dataset, Reading]:
    """Rows as a network is trained on them; no warnings, as it is the tree that the user has asked for."""
    X, y = _as_given(rows)
    weight = rows.weight.astype(np.float64)
    with warnings.catch_warnings(action="ignore"):
        encoding = ClassEncoding.learn(y, None, weight) if rows.is_classifier else ValueEncoding.learn(y, True, weight)
        reading = Reading.learn(X, encoding, "auto")
        dataset = reading.dataset(X, y, weight)
    return replace(dataset, targets=replace(dataset.targets, folding=rows.folding)), reading


def _fitted_network(config: NetworkConfig, rows: Rows, seed: int) -> FittedNetwork:
    """The network of a configuration whose hyper-parameters are given; Ctrl-C ends it without an answer."""
    dataset, reading = _read(rows)
    return fit_network(dataset, config, reading, draw_seeds(seed, 1)[0])


def _network_answers(fitted: FittedNetwork, rows: Rows) -> NDArray[np.float64]:
    """Probabilities of all classes (n, K), or values (n, K)."""
    scores = evaluate(fitted.network, Table(rows.X[:, :-1].astype(np.float64)))
    encoding = fitted.reading.encoding
    if not isinstance(encoding, ClassEncoding):
        return scores
    answers = np.zeros(rows.target.shape)
    answers[:, encoding.classes] = probabilities(scores)
    return answers


def _seeded(estimator: Any, seed: int) -> Any:
    """A clone that draws the same numbers in each fit."""
    model = clone(estimator)
    is_open = "random_state" in (given := model.get_params()) and given["random_state"] is None
    return model.set_params(random_state=seed) if is_open else model


def _side_by_side(run: Callable[[S], T], jobs: Sequence[S], n_jobs: int) -> list[T]:
    """What `run` returns for each job, in `n_jobs` threads that share the processors; no warnings here either."""

    def limited_run(job: S) -> T:
        with limited(max(1, n_threads() // n_jobs)):
            return run(job)

    with warnings.catch_warnings(action="ignore"), closing(in_order(limited_run, jobs, n_jobs)) as results:
        return list(results)


def _fitted(model: Any, rows: Rows) -> Any:
    """The user's model, fitted; Ctrl-C ends it without an answer."""
    given = {"sample_weight": rows.weight.astype(np.float64), "groups": rows.groups}
    model.fit(*_as_given(rows), **{name: given[name] for name in given if has_fit_parameter(model, name)})
    if getattr(getattr(model, "history_", None), "ended", "") == "interrupted":
        raise KeyboardInterrupt
    return model


def _as_given(rows: Rows) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Rows as an estimator takes them; a single target as a vector."""
    y = rows.target.argmax(axis=1) if rows.is_classifier else rows.target.astype(np.float64)
    return rows.X[:, :-1].astype(np.float64), y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y


def _answers(model: Any, rows: Rows) -> NDArray[np.float64]:
    """Chances of all classes (n, K), or values (n, K)."""
    X = rows.X[:, :-1].astype(np.float64)
    answers: NDArray[np.float64] = np.zeros(rows.target.shape)
    if rows.is_classifier:
        answers[:, model.classes_] = model.predict_proba(X)
    else:
        answers = np.asarray(model.predict(X), np.float64).reshape(len(rows), -1)
    if answers.shape != rows.target.shape or not np.isfinite(answers).all():
        raise ValueError(
            f"teacher must give {rows.target.shape[1]} finite numbers for each row, which {model!r} does not"
        )
    return answers
