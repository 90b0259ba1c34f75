"""Estimators on a Dask cluster: rows stay on the workers, networks travel.

    from dask.distributed import Client
    from treelu.dask import DaskLCNClassifier

    with Client("scheduler:8786"):
        model = DaskLCNClassifier(random_state=0).fit(X, y)   # Dask DataFrames or arrays
        model.predict(X)                                      # lazy, partition by partition
        local = model.to_local()                              # an ordinary LCNClassifier, with its tree_

How a fit goes: each partition gives a few of its rows; on that sample an ordinary estimator is fitted, which fixes
scaling, depth and drop rate and gives a first network. Then, in rounds, each partition trains the network on a part
of its own rows, and the networks are averaged by their numbers of rows (local SGD). A few rows of each partition are
held out: where they say that the network is clearly worse in the end, that of the sample stays. What a partition does
depends on the partition, the round and the seed, not on the worker: the same partitions and seed give the same model on
any number of workers, and what a lost worker had is done again by another.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import partial, reduce
from operator import add
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone, is_classifier

from treelu.data.blocks import MOST_CLASSES, Window, stacked
from treelu.data.dataset import Dataset
from treelu.data.reading import RowWeights
from treelu.data.rows import validated_rows
from treelu.data.store import checked_weight, names_of, targets_of
from treelu.estimators import (
    LCNClassifier,
    LCNRegressor,
    LLNClassifier,
    LLNRegressor,
    ObliqueTreeClassifier,
    ObliqueTreeRegressor,
)
from treelu.estimators._inputs import network_config
from treelu.estimators._large import (
    HELD_OUT_ROWS,
    HELD_OUT_SHARE,
    ROW_VISITS,
    SAMPLE_ROWS,
    leaf_sums_of,
    refuse_folding,
    rows_in_batch,
    set_leaf_values,
)
from treelu.training import learning_rate_factor
from treelu.training.config import draw_seeds
from treelu.training.continuing import Start, continue_training, finished_on_all_rows, start_from, warn_of_worse
from treelu.training.small.leaves import LeafSums
from treelu.tree.observed import Observed

try:
    import dask
    import dask.array as da
    import dask.dataframe as dd
    from dask.distributed import Client, Future, default_client
except ImportError as error:
    raise ImportError("treelu.dask needs Dask: pip install 'treelu[distributed]'") from error

__all__ = [
    "DaskLCNClassifier",
    "DaskLCNRegressor",
    "DaskLLNClassifier",
    "DaskLLNRegressor",
    "DaskObliqueTreeClassifier",
    "DaskObliqueTreeRegressor",
]

ROUNDS_A_PASS = 8  # how often the networks are averaged while all rows are gone through once


class _DaskEstimator(BaseEstimator):
    """An estimator whose rows are partitions of Dask collections.

    Parameters
    ----------
    client : dask.distributed.Client, optional
        By default the current one.
    **parameters
        Those of the local estimator.

    Attributes
    ----------
    local_ : the fitted local estimator
        Its attributes, such as ``tree_`` and ``classes_``, are found here too.
    n_rounds_ : int
        How often the networks were averaged.
    """

    _local_class: ClassVar[type]

    def __init__(self, *, client: Any = None, **parameters: Any) -> None:
        self.client = client
        self.estimator = self._local_class(**parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The local estimator's parameters, and the client."""
        return {"client": self.client, **self.estimator.get_params(deep=False)}

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters of the local estimator, or the client."""
        if "client" in parameters:
            self.client = parameters.pop("client")
        self.estimator.set_params(**parameters)
        return self

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on the partitions of X and y.

        Parameters
        ----------
        X : dask DataFrame, or dask Array of dense or sparse chunks, of shape (n, n_features)
        y : dask Series or Array of shape (n,)
            Partitioned like X.
        sample_weight : dask Series or Array of shape (n,), optional

        Returns
        -------
        self
        """
        client = self.client or default_client()
        return self.fit_windows(client, _windows(X, y, sample_weight))

    def fit_windows(self, client: Client, windows: list[Any]) -> Self:
        """`fit` on delayed `Window`s."""
        local = clone(self.estimator)
        refuse_folding(local.cv, None)
        parts: list[Any] = client.compute([dask.delayed(_checked)(part, is_classifier(local)) for part in windows])
        facts: list[_Facts] = client.gather(client.map(_facts_of, parts, are_classes=is_classifier(local), pure=False))
        n_rows = _check_alike(facts)
        seed = np.random.SeedSequence(draw_seeds(local.random_state, 1)).generate_state(1)[0]
        draw = _Draw.of(n_rows, int(seed))
        numbers, needed = range(len(parts)), _first_of_classes(facts)
        drawn = client.map(_drawn, parts, numbers, needed, draw=draw, pure=False)
        sample = client.submit(_stacked, drawn, pure=False)  # rows go from worker to worker, not through here
        self.local_ = client.submit(_fit_sample, local, sample, pure=False).result()
        self.n_rounds_ = 0
        if draw.share < 1:
            self._train_on(client, parts, np.array([part.n_rows for part in facts]), sample, draw)
        return self

    @abstractmethod
    def _train_on(self, client: Client, parts: list[Any], sizes: np.ndarray, sample: Future, draw: _Draw) -> None:
        """Go on from the estimator that was fitted to the sample, with all rows."""

    def to_local(self) -> Any:
        """The fitted estimator without Dask."""
        return self.local_

    def predict(self, X: Any) -> Any:
        """Predictions of each partition when they are computed; an array where X is one."""
        return self._lazily("predict", X)

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_") and name != "local_" and "local_" in self.__dict__:
            return getattr(self.__dict__["local_"], name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _lazily(self, method: str, X: Any) -> Any:
        call = getattr(self.local_, method)
        if isinstance(X, dd.DataFrame):
            meta = _as_frame(call, X._meta_nonempty).iloc[:0]
            return X.map_partitions(partial(_as_frame, call, empty=meta), meta=meta)
        if isinstance(X, da.Array):
            example = np.asarray(call(np.zeros((1, X.shape[1]), np.float32)))
            rows, by_block = X.rechunk({1: X.shape[1]}), partial(_unless_empty, call, empty=example[:0])
            if example.ndim == 1:
                return rows.map_blocks(by_block, drop_axis=1, dtype=example.dtype)
            return rows.map_blocks(by_block, chunks=(rows.chunks[0], (example.shape[1],)), dtype=example.dtype)
        return call(X)


class _DaskNetwork(_DaskEstimator):
    """A network, averaged over the partitions."""

    def _train_on(self, client: Client, parts: list[Any], sizes: np.ndarray, sample: Future, draw: _Draw) -> None:
        """Rounds of training on all partitions, the networks averaged after each."""
        local, numbers = self.local_, range(len(parts))
        weights = client.submit(_weights_of, local, sample, pure=False).result()
        start = start_from(local.fitted_, network_config(local), n_times=float(1 / draw.share))
        n_rounds = max(1, -(-ROW_VISITS // int(sizes.sum()))) * ROUNDS_A_PASS
        for number in range(1, n_rounds + 1):
            rate = local.learning_rate * learning_rate_factor("cosine", number, n_rounds)
            # A task, not scattered data: what a lost worker held of it is made again.
            here = client.submit(_same, _Round(local, start, weights, number, rate), pure=False)
            futures = client.map(_train_part, parts, numbers, round=here, draw=draw, pure=False)
            start.network.load_state(_average(client.gather(futures), sizes))
        held_out = client.submit(_stacked, client.map(_held_out, parts, numbers, draw=draw, pure=False), pure=False)
        self.local_, is_better = client.submit(_finish, local, start, weights, sample, held_out, pure=False).result()
        self.n_rounds_ = n_rounds
        here = client.submit(_same, self.local_, pure=False)
        for seen in client.gather(client.map(_observed_rows, parts, start=here, pure=False)):
            reading = self.local_.fitted_.reading.joined(observed=seen)
            self.local_.fitted_ = replace(self.local_.fitted_, reading=reading)
        if not is_better:
            warn_of_worse()


class _DaskTree(_DaskEstimator):
    """The small tree: its splits are those of the sample, the values of its leaves follow from all rows."""

    def _train_on(self, client: Client, parts: list[Any], sizes: np.ndarray, sample: Future, draw: _Draw) -> None:
        """Sums of the leaves' targets in each partition, added up in the order of the partitions."""
        start = client.submit(_same, self.local_, pure=False)
        sums = client.gather(client.map(_leaf_sums, parts, start=start, pure=False))
        set_leaf_values(self.local_, reduce(add, [part for part in sums if part is not None]))
        self.n_rounds_ = 1


class _ProbabilityMixin:
    _lazily: Any

    def predict_proba(self, X: Any) -> Any:
        """Class probabilities of each partition when they are computed; an array where X is one."""
        return self._lazily("predict_proba", X)


class DaskLCNClassifier(_ProbabilityMixin, _DaskNetwork):
    """`LCNClassifier` on a Dask cluster; see the module's first lines for how a fit goes.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> X = da.random.default_rng(0).normal(size=(2000, 3), chunks=(500, 3))
    >>> with Client(n_workers=1, processes=False, dashboard_address=None):
    ...     model = DaskLCNClassifier(depth=3, drop_connect=0.0, random_state=0).fit(X, X[:, 0] > X[:, 1])
    ...     model.predict(X).compute().shape
    (2000,)
    """

    _local_class = LCNClassifier


class DaskLCNRegressor(_DaskNetwork):
    """`LCNRegressor` on a Dask cluster.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> X = da.random.default_rng(0).normal(size=(2000, 3), chunks=(500, 3))
    >>> with Client(n_workers=1, processes=False, dashboard_address=None):
    ...     model = DaskLCNRegressor(depth=3, drop_connect=0.0, random_state=0).fit(X, abs(X[:, 0]))
    ...     model.to_local().tree_.n_leaves
    8
    """

    _local_class = LCNRegressor


class DaskLLNClassifier(_ProbabilityMixin, _DaskNetwork):
    """`LLNClassifier` on a Dask cluster.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> X = da.random.default_rng(0).normal(size=(2000, 3), chunks=(500, 3))
    >>> with Client(n_workers=1, processes=False, dashboard_address=None):
    ...     model = DaskLLNClassifier(depth=3, drop_connect=0.0, random_state=0).fit(X, X[:, 0] > X[:, 1])
    ...     model.predict_proba(X).compute().shape
    (2000, 2)
    """

    _local_class = LLNClassifier


class DaskLLNRegressor(_DaskNetwork):
    """`LLNRegressor` on a Dask cluster.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> X = da.random.default_rng(0).normal(size=(2000, 3), chunks=(500, 3))
    >>> with Client(n_workers=1, processes=False, dashboard_address=None):
    ...     model = DaskLLNRegressor(depth=3, drop_connect=0.0, random_state=0).fit(X, abs(X[:, 0]))
    ...     model.to_local().tree_.n_leaves
    8
    """

    _local_class = LLNRegressor


class DaskObliqueTreeClassifier(_ProbabilityMixin, _DaskTree):
    """`ObliqueTreeClassifier` on a Dask cluster: splits from a sample, the values of the leaves from all rows.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> X = da.random.default_rng(0).normal(size=(2000, 3), chunks=(500, 3))
    >>> with Client(n_workers=1, processes=False, dashboard_address=None):
    ...     model = DaskObliqueTreeClassifier(max_leaf_nodes=2, teacher=None, random_state=0).fit(X, X[:, 0] > X[:, 1])
    ...     model.to_local().tree_.n_leaves
    2
    """

    _local_class = ObliqueTreeClassifier


class DaskObliqueTreeRegressor(_DaskTree):
    """`ObliqueTreeRegressor` on a Dask cluster: splits from a sample, the values of the leaves from all rows.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> X = da.random.default_rng(0).normal(size=(2000, 3), chunks=(500, 3))
    >>> with Client(n_workers=1, processes=False, dashboard_address=None):
    ...     model = DaskObliqueTreeRegressor(max_leaf_nodes=2, teacher=None, random_state=0).fit(X, X[:, 0] > X[:, 1])
    ...     model.to_local().tree_.n_leaves
    2
    """

    _local_class = ObliqueTreeRegressor


# What runs on the workers: functions of one partition.


class _Draw(NamedTuple):
    """Which rows of a partition are in the sample and which are held out, by the seed and the partition's number."""

    seed: int
    share: float  # of the rows, in the sample
    held_out: float  # of the rows, in neither the sample nor the rounds

    @classmethod
    def of(cls, n_rows: int, seed: int) -> _Draw:
        """For partitions of so many rows together."""
        if n_rows <= SAMPLE_ROWS:
            return cls(seed, 1.0, 0.0)
        return cls(seed, SAMPLE_ROWS / n_rows, min(HELD_OUT_SHARE, HELD_OUT_ROWS / n_rows))

    def rows(self, n_rows: int, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The sample's rows of a partition, those held out, and all but these, in random order."""
        rng = np.random.default_rng([self.seed, 0, number])
        order = rng.permutation(n_rows)
        # Rounded up or down at random: many small partitions together give the share too.
        n_held_out, n_drawn = (int(share * n_rows + rng.random()) for share in (self.held_out, self.share))
        held_out, rest = np.split(order, [n_held_out])
        return (order if self.share == 1 else rest[:n_drawn]), held_out, rest


class _Round(NamedTuple):
    """The start of a round."""

    local: Any
    start: Start
    weights: RowWeights
    number: int
    rate: float


class _Facts(NamedTuple):
    """Facts about a partition for the client: its rows, its columns (names, or how many), its labels."""

    n_rows: int
    columns: tuple[str, ...] | int
    labels: list[Any]


def _same(value: Any) -> Any:
    return value


def _checked(part: Window, are_classes: bool) -> Window:
    """The partition, with its targets and weights checked."""
    n_rows = part.X.shape[0]
    weight = None if part.weight is None else checked_weight(part.weight, n_rows)
    return Window(part.X, targets_of(part.y, n_rows, are_classes=are_classes), weight)


def _facts_of(part: Window, *, are_classes: bool) -> _Facts:
    labels = np.unique(part.y).tolist() if are_classes else []
    return _Facts(part.X.shape[0], names_of(part.X) or part.X.shape[1], labels if len(labels) <= MOST_CLASSES else [])


def _check_alike(facts: list[_Facts]) -> int:
    """How many rows the partitions have; a ValueError where they have none, or not the same columns."""
    filled = [(number, part) for number, part in enumerate(facts) if part.n_rows]
    if not filled:
        raise ValueError("X has no rows")
    first, expected = filled[0][0], filled[0][1].columns
    for number, part in filled:
        if part.columns != expected:
            shown = [columns if isinstance(columns, int) else list(columns[:5]) for columns in (part.columns, expected)]
            raise ValueError(
                f"X must have the same columns in all partitions, but has {shown[0]} in partition {number} and "
                f"{shown[1]} in partition {first}"
            )
    return sum(part.n_rows for _, part in filled)


def _first_of_classes(facts: list[_Facts]) -> list[list[Any]]:
    """For each partition the labels of which it is to give a row in any case: those that none before it has."""
    known, needed = set[Any](), []
    for part in facts:
        needed.append([label for label in part.labels if label not in known])
        known.update(part.labels)
    return needed


def _drawn(part: Window, number: int, needed: list[Any], *, draw: _Draw) -> Window:
    """The sample's rows of a partition, with a row of each label that is needed."""
    taken = draw.rows(len(part.y), number)[0]
    for label in needed:
        if not (part.y[taken] == label).any():
            taken = np.append(taken, np.flatnonzero(part.y == label)[0])
    return part.take(np.sort(taken))


def _held_out(part: Window, number: int, *, draw: _Draw) -> Window:
    return part.take(np.sort(draw.rows(len(part.y), number)[1]))


def _stacked(parts: list[Window]) -> Window:
    """The rows of several partitions; those without any are left out."""
    return stacked([part for part in parts if len(part.y)] or parts[:1])


def _fit_sample(local: Any, sample: Window) -> Any:
    return local.fit(sample.X, sample.y, sample_weight=sample.weight)


def _leaf_sums(part: Window, *, start: Any) -> LeafSums | None:
    return leaf_sums_of(start, part.X, part.y, part.weight) if len(part.y) else None


def _observed_rows(part: Window, *, start: Any) -> Observed | None:
    """The ranges of a partition's rows."""
    return Observed.of(start._rows(part.X), start.fitted_.reading.missing) if len(part.y) else None


def _train_part(part: Window, number: int, *, round: _Round, draw: _Draw) -> Any:
    """The network after one pass over this round's share of a partition's rows."""
    in_pass, place = divmod(round.number - 1, ROUNDS_A_PASS)
    rest = np.sort(draw.rows(len(part.y), number)[2])
    order = np.random.default_rng([draw.seed, 1 + in_pass, number]).permutation(rest)
    rows, network = np.sort(order[place::ROUNDS_A_PASS]), round.start.network.copy()
    if len(rows):
        config = network_config(round.local)
        continue_training(
            round.start._replace(network=network),
            _dataset(round.local, part.take(rows), round.weights),
            config,
            epochs=1,
            batch_size=rows_in_batch(config),
            learning_rate=round.rate,
            interruptible=False,
            rng=np.random.default_rng([draw.seed, round.number, number]),
        )
    return network.state()


def _finish(local: Any, start: Start, weights: RowWeights, sample: Window, held_out: Window) -> tuple[Any, bool]:
    """The estimator, and whether it now has the averaged network."""
    network, fitted = start.network, local.fitted_
    if start.features is not None:
        network = network.widen(start.features, fitted.network.in_features)
    rows, others = (_dataset(local, window, weights) for window in (sample, held_out))
    local.fitted_ = finished_on_all_rows(fitted, network, rows, others, network_config(local))
    return local, local.fitted_ is not fitted


def _weights_of(local: Any, sample: Window) -> RowWeights:
    return RowWeights.of(local.fitted_.reading.encoding, sample.y, sample.weight)


def _dataset(local: Any, window: Window, weights: RowWeights) -> Dataset:
    """A window as the network is trained on it."""
    reading = local.fitted_.reading
    X = validated_rows(local, window.X, missing=reading.missing)
    return weights.dataset(reading, X, window.y, window.weight)


def _average(states: list[dict[str, np.ndarray]], sizes: np.ndarray) -> dict[str, np.ndarray]:
    """The mean of networks' arrays, weighted by rows, summed in the order of the partitions."""
    shares = sizes / sizes.sum()
    mean = {}
    for name, first in states[0].items():
        total = np.zeros(first.shape, np.float64)
        for share, state in zip(shares, states, strict=True):
            total += share * state[name]
        mean[name] = total.astype(first.dtype)
    return mean


def _unless_empty(call: Any, part: Any, *, empty: Any) -> Any:
    return call(part) if part.shape[0] else empty


def _as_frame(call: Any, part: Any, *, empty: Any = None) -> Any:
    """Predictions of a partition, a Series or a DataFrame with its index."""
    import pandas as pd

    if empty is not None and not len(part):
        return empty
    values = np.asarray(call(part))
    return pd.Series(values, index=part.index) if values.ndim == 1 else pd.DataFrame(values, index=part.index)


# Partitions


def _windows(X: Any, y: Any, sample_weight: Any) -> list[Any]:
    """A delayed `Window` for each partition."""
    columns = [_delayed(name, value) for name, value in (("X", X), ("y", y), ("sample_weight", sample_weight))]
    n_parts = len(columns[0])
    for name, parts in zip(("y", "sample_weight"), columns[1:], strict=True):
        if parts is not None and len(parts) != n_parts:
            raise ValueError(f"{name} must have the {n_parts} partitions of X, got {len(parts)}; repartition it")
    weights = columns[2] or [None] * n_parts
    return [dask.delayed(_window)(*part) for part in zip(columns[0], columns[1], weights, strict=True)]


def _delayed(name: str, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, dd.DataFrame | dd.Series):
        return value.to_delayed()
    if isinstance(value, da.Array):
        whole = value.rechunk({1: value.shape[1]}) if value.ndim == 2 else value
        return whole.to_delayed().reshape(-1).tolist()
    raise TypeError(f"{name} must be a Dask DataFrame, Series or Array, got {type(value).__name__}")


def _window(X: Any, y: Any, weight: Any) -> Window:
    """A partition as it is trained on; a DataFrame keeps its names."""
    if hasattr(X, "tocsr"):
        X = sparse.csr_array(X)
    if len(y) != X.shape[0]:
        raise ValueError(f"a partition of y has {len(y)} rows, that of X {X.shape[0]}; partition y like X")
    return Window(X, np.asarray(y), None if weight is None else np.asarray(weight))
