"""Estimators on a Dask cluster: rows stay on the workers, networks travel.

    from dask.distributed import Client
    from treelu.dask import DaskLCNClassifier

    with Client("scheduler:8786"):
        model = DaskLCNClassifier(random_state=0).fit(X, y)   # Dask DataFrames or arrays
        model.predict(X)                                      # lazy, partition by partition
        local = model.to_local()                              # an ordinary LCNClassifier, with its tree_

How a fit goes: each partition gives a few of its rows; on that sample an ordinary estimator is fitted, which fixes
scaling, depth and drop rate and gives a first network. Then, in rounds, each partition trains the network on a part
of its own rows, and the networks are averaged by their numbers of rows (local SGD). What a partition does depends on
the partition, the round and the seed, not on the worker: the same partitions and seed give the same model on any
number of workers, and what a lost worker had is done again by another.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import partial, reduce
from operator import add
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from treelu.estimators import (
    LCNClassifier,
    LCNRegressor,
    LLNClassifier,
    LLNRegressor,
    ObliqueTreeClassifier,
    ObliqueTreeRegressor,
)
from treelu.estimators._large import BATCH_ROWS, RATE, ROW_VISITS, SAMPLE_ROWS, as_sample, finish_training
from treelu.estimators._leaves import LeafSums, refuse_linear_leaves, set_leaf_values
from treelu.training import train
from treelu.training.loop import learning_rate_factor
from treelu.training.store import Window, stacked

try:
    import dask
    import dask.array as da
    import dask.dataframe as dd
    from dask.distributed import Client, default_client
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
        return {"client": self.client, **self.estimator.get_params(deep)}

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
        return self._fit_parts(client, _windows(X, y, sample_weight))

    def _fit_parts(self, client: Client, windows: list[Any]) -> Self:
        """`fit` on delayed `Window`s."""
        parts: list[Any] = client.compute(windows, sync=False)
        sizes = np.array(client.gather(client.map(_n_rows, parts, pure=False)))
        if not sizes.sum():
            raise ValueError("X has no rows")
        seed = int(np.random.SeedSequence(self._seed()).generate_state(1)[0])
        share = min(1.0, SAMPLE_ROWS / sizes.sum())
        drawn = client.map(_draw, parts, range(len(parts)), share=share, seed=seed, pure=False)
        sample = stacked(client.gather(drawn))
        local = self._local_class(**self.estimator.get_params())
        self.local_ = client.submit(_fit_sample, local, sample, pure=False).result()
        self.n_rounds_ = 0
        if share < 1:
            self._train_on(client, parts, sizes, sample, seed)
        return self

    def _seed(self) -> list[int]:
        return self.estimator._seeds(1)

    @abstractmethod
    def _train_on(self, client: Client, parts: list[Any], sizes: np.ndarray, sample: Window, seed: int) -> None:
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
            return X.map_partitions(partial(_as_frame, call), meta=meta)
        if isinstance(X, da.Array):
            example = np.asarray(call(np.zeros((1, X.shape[1]), np.float32)))
            rows = X.rechunk({1: X.shape[1]})
            if example.ndim == 1:
                return rows.map_blocks(call, drop_axis=1, dtype=example.dtype)
            return rows.map_blocks(call, chunks=(rows.chunks[0], (example.shape[1],)), dtype=example.dtype)
        return call(X)


class _DaskNetwork(_DaskEstimator):
    """A network, averaged over the partitions."""

    def _train_on(self, client: Client, parts: list[Any], sizes: np.ndarray, sample: Window, seed: int) -> None:
        """Rounds of training on all partitions, the networks averaged after each."""
        local = self.local_
        network = local._unfolded(local.network_)
        network.leaf_corrections = None
        n_features, chosen = network.in_features, None
        if local.max_tree_features is not None:
            chosen = np.flatnonzero((network.weight != 0).any(axis=1))
            network = network.narrow(chosen)
        n_passes = max(1, -(-ROW_VISITS // int(sizes.sum())))
        n_rounds = n_passes * ROUNDS_A_PASS
        for number in range(1, n_rounds + 1):
            rate = RATE * local.learning_rate * learning_rate_factor("cosine", number, n_rounds)
            # A task, not scattered data: what a lost worker held of it is made again.
            start = client.submit(_same, _Start(local, network.copy(), chosen), pure=False)
            futures = client.map(
                _train_part, parts, range(len(parts)), start=start, round=number, rate=rate, seed=seed, pure=False
            )
            network.load_state(_average(client.gather(futures), sizes))
        network = network if chosen is None else network.widen(chosen, n_features)
        finish_training(local, network, as_sample(local, sample), local.n_passes_)
        local.network_ = local._folded(network)
        self.n_rounds_ = n_rounds


class _DaskTree(_DaskEstimator):
    """The small tree: its questions are those of the sample, the values of its leaves follow from all rows."""

    def _seed(self) -> list[int]:
        return [self.estimator._seed()]

    def _fit_parts(self, client: Client, windows: list[Any]) -> Self:
        refuse_linear_leaves(self.estimator)
        return super()._fit_parts(client, windows)

    def _train_on(self, client: Client, parts: list[Any], sizes: np.ndarray, sample: Window, seed: int) -> None:
        """Sums of the leaves' targets in each partition, added up in the order of the partitions."""
        start = client.submit(_same, self.local_, pure=False)
        sums = client.gather(client.map(_leaf_sums, parts, start=start, pure=False))
        set_leaf_values(self.local_, reduce(add, sums))
        self.n_rounds_ = 1


class _ProbabilityMixin:
    _lazily: Any

    def predict_proba(self, X: Any) -> Any:
        """Class probabilities of each partition when they are computed; an array where X is one."""
        return self._lazily("predict_proba", X)


class DaskLCNClassifier(_ProbabilityMixin, _DaskNetwork):
    """`LCNClassifier` on a Dask cluster; see the module's first lines for how a fit goes."""

    _local_class = LCNClassifier


class DaskLCNRegressor(_DaskNetwork):
    """`LCNRegressor` on a Dask cluster."""

    _local_class = LCNRegressor


class DaskLLNClassifier(_ProbabilityMixin, _DaskNetwork):
    """`LLNClassifier` on a Dask cluster."""

    _local_class = LLNClassifier


class DaskLLNRegressor(_DaskNetwork):
    """`LLNRegressor` on a Dask cluster."""

    _local_class = LLNRegressor


class DaskObliqueTreeClassifier(_ProbabilityMixin, _DaskTree):
    """`ObliqueTreeClassifier` on a Dask cluster: questions from a sample, the values of the leaves from all rows."""

    _local_class = ObliqueTreeClassifier


class DaskObliqueTreeRegressor(_DaskTree):
    """`ObliqueTreeRegressor` on a Dask cluster: questions from a sample, the values of the leaves from all rows."""

    _local_class = ObliqueTreeRegressor


# What runs on the workers: functions of one partition.


class _Start(NamedTuple):
    """Where a round begins: the estimator, the network, and the features that it reads (None: all)."""

    local: Any
    network: Any
    chosen: np.ndarray | None


def _same(value: Any) -> Any:
    return value


def _n_rows(part: Window) -> int:
    return len(part.y)


def _leaf_sums(part: Window, *, start: Any) -> LeafSums:
    return LeafSums.of(start, part.X, part.y, part.weight)


def _draw(part: Window, number: int, *, share: float, seed: int) -> Window:
    """A share of a partition's rows; the first row of each class at least."""
    rng = np.random.default_rng([seed, 0, number])
    taken = rng.choice(len(part.y), size=round(share * len(part.y)), replace=False)
    if part.y.dtype.kind in "OUSbiu":
        taken = np.union1d(taken, np.unique(part.y, return_index=True)[1])
    return part.take(np.sort(taken))


def _fit_sample(local: Any, sample: Window) -> Any:
    return local.fit(sample.X, sample.y, sample_weight=sample.weight)


def _train_part(part: Window, number: int, *, start: _Start, round: int, rate: float, seed: int) -> Any:
    """The network after one pass over this round's share of a partition's rows."""
    local, network = start.local, start.network.copy()
    in_pass, place = divmod(round - 1, ROUNDS_A_PASS)
    order = np.random.default_rng([seed, 1 + in_pass, number]).permutation(len(part.y))
    rows = np.sort(order[place::ROUNDS_A_PASS])
    if len(rows):
        sample = as_sample(local, part.take(rows))
        train(
            network,
            sample if start.chosen is None else replace(sample, table=sample.table.columns(start.chosen)),
            epochs=1,
            batch_size=BATCH_ROWS,
            optimizer=local._how.optimizer,
            learning_rate=rate,
            schedule="constant",
            weight_decay=local._setting().decay,
            annealing=0.0,
            interruptible=False,
            rng=np.random.default_rng([seed, round, number]),
        )
    return network.state()


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


def _as_frame(call: Any, part: Any) -> Any:
    """Predictions of a partition, a Series or a DataFrame with its index."""
    import pandas as pd

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
    return Window(X, np.asarray(y), None if weight is None else np.asarray(weight, np.float32))
