"""The state of fitted estimators for saving, as arrays and JSON: each gives its own, and checks it when it is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier

from treelu.estimators._showing import SaveMixin
from treelu.estimators._trees import Visits, column_importances, missing_of
from treelu.nn.patterns import BITS_A_WORD, n_words
from treelu.nn.saved import describe_network, restore_network
from treelu.training.saved import (
    describe_history,
    describe_numbers,
    put_scaling,
    restore_history,
    restore_numbers,
    take_scaling,
)
from treelu.training.small.choice import COLUMNS
from treelu.tree.missing import MissingValues
from treelu.tree.saved import describe_tree, restore_tree

if TYPE_CHECKING:
    from treelu.estimators._stream import Stream
    from treelu.persistence.values import ArrayReader, ArrayWriter, Fields

Describe = Callable[[Any, Any], dict[str, Any]]  # (estimator, arrays) → a whole description, for estimators within
Restore = Callable[[Any, Any], Any]  # the inverse: (fields, arrays) → estimator


class NetworkState(SaveMixin, ABC):
    """The state of estimators around networks."""

    n_features_in_: int
    missing: str

    def _state(self, arrays: ArrayWriter, describe: Describe) -> dict[str, Any]:
        """What was learned, as JSON; arrays go into `arrays`."""
        put_scaling(self.scaling_, arrays.under("scaling"))
        put_missing(self, arrays)
        history = getattr(self, "history_", None)  # partial_fit keeps none
        state: dict[str, Any] = {"history": None if history is None else describe_history(history)}
        arrays.put("spread", self.spread_)
        return {**state, **self._state_of_targets(arrays), **self._state_of_model(arrays)}

    def _load_state(self, fields: Fields, arrays: ArrayReader, restore: Restore) -> None:
        """The inverse of `_state`, for an estimator with its parameters set; an error where a part does not fit."""
        take_missing(self, fields, arrays)
        self.scaling_ = take_scaling(arrays.under("scaling"), n_columns(self))
        n_outputs = self._load_model(fields, arrays)
        self.spread_ = arrays.floats("spread", n_columns(self))
        if "history" in fields:
            self.history_ = restore_history(fields.inner("history"))
        self._load_targets(fields, arrays, n_outputs)
        if "stream" in fields and hasattr(self, "network_"):
            self.stream_ = restore_stream(fields.inner("stream"), arrays.under("stream"), self)

    @abstractmethod
    def _state_of_targets(self, arrays: ArrayWriter) -> dict[str, Any]:
        """What was learned of y."""

    @abstractmethod
    def _load_targets(self, fields: Fields, arrays: ArrayReader, n_outputs: int) -> None:
        """The inverse of `_state_of_targets`, for a network of so many outputs."""

    def _state_of_model(self, arrays: ArrayWriter) -> dict[str, Any]:
        """The one network, and the rows that `partial_fit` keeps."""
        put_visits(self.visits_, arrays.under("visits"))
        state = {
            "network": describe_network(self.network_, arrays.under("network")),
            "n_passes": int(self.n_passes_),
            "weight_decay": float(self.weight_decay_),
        }
        limit = getattr(self, "max_tree_features_", None)
        if limit is not None:
            state["max_tree_features"] = int(limit)
        if hasattr(self, "stream_"):
            state["stream"] = describe_stream(self.stream_, arrays.under("stream"))
        return state

    def _load_model(self, fields: Fields, arrays: ArrayReader) -> int:
        """The inverse of `_state_of_model` but for the stream; returns the number of outputs."""
        network = restore_network(fields.inner("network"), arrays.under("network"))
        smooth = not network.activation.is_piecewise_linear
        fits = type(network) is self._network_class and smooth == (self._activation_kind == "softplus")
        if not fits or network.in_features != n_columns(self) or network.dtype != np.float64:
            raise fields.error("the network does not belong to this estimator")
        self.network_, self.depth_, self.drop_connect_ = network, network.depth, network.drop_connect
        self.visits_ = take_visits(arrays.under("visits"), network.depth)
        self.n_passes_ = fields.whole("n_passes")
        self.weight_decay_ = fields.number("weight_decay") if "weight_decay" in fields else 0.0  # once always 0
        self.max_tree_features_ = fields.whole("max_tree_features", low=1) if "max_tree_features" in fields else None
        return network.out_features

    if TYPE_CHECKING:  # what estimators have besides

        def __getattr__(self, name: str) -> Any: ...


_STEPS = ("leaves", "terms", "score", "std_error")
_DECIDE = ("loss", "loss_difference", "difference_std_error", "eligible")  # not written by version 0.1


class PathState:
    """The state of small trees: the path of sizes, with the tree of each step."""

    def _state(self, arrays: ArrayWriter, describe: Describe) -> dict[str, Any]:
        put_missing(self, arrays)
        estimator: Any = self
        path = estimator.path_
        trees = enumerate(replace(tree, missing=None) for tree in estimator.path_trees_)  # the estimator has it
        return {
            "path": {name: describe_numbers(path[name].tolist()) for name in (*_STEPS, *_DECIDE)},
            "starts": path["start"].tolist(),
            "chosen": estimator._chosen_step,
            "trees": [describe_tree(tree, arrays.under(f"step{i}")) for i, tree in trees],
        }

    def _load_state(self, fields: Fields, arrays: ArrayReader, restore: Restore) -> None:
        import pandas as pd

        estimator: Any = self
        take_missing(estimator, fields, arrays)
        described = enumerate(fields.inners("trees"))
        trees = [restore_tree(tree, arrays.under(f"step{i}")) for i, tree in described]
        path = fields.inner("path")
        names = (*_STEPS, *(name for name in _DECIDE if name in path))
        columns = restore_numbers(path, names)
        starts, chosen = fields.texts("starts"), fields.whole("chosen")
        fits = all(
            tree.n_features == n_columns(estimator) and tree.is_classifier == is_classifier(estimator) for tree in trees
        )
        if not fits or not chosen < len(trees) or {len(trees)} != {len(column) for column in (*columns, starts)}:
            raise fields.error("the trees do not belong to this estimator")
        trees = [replace(tree, missing=missing_of(estimator)) for tree in trees]
        table = pd.DataFrame(dict(zip(names, columns, strict=True)), dtype=np.float64)
        table["chosen"], table["start"] = np.arange(len(trees)) == chosen, starts
        table = table.reindex(columns=COLUMNS)
        table["eligible"] = table["eligible"].fillna(table["chosen"].astype(np.float64))
        table = table.astype({"leaves": np.int64, "terms": np.int64, "eligible": bool})
        estimator.path_, estimator.path_trees_, estimator.tree_ = table, trees, trees[chosen]
        if estimator.tree_.n_samples is None:
            raise fields.error("the tree has no counts of rows")
        estimator.feature_importances_ = column_importances(estimator.tree_)
        if estimator.tree_.is_classifier:
            estimator.classes_ = estimator.tree_.classes


# Missing values


def put_missing(estimator: Any, arrays: ArrayWriter) -> None:
    """Write what was learned of missing values, where there is any."""
    gaps = getattr(estimator, "missing_values_", None)
    if gaps is not None:
        arrays.put("missing_means", gaps.fills)  # so called by version 0.1
        arrays.put("missing_gaps", gaps.gaps)


def take_missing(estimator: Any, fields: Fields, arrays: ArrayReader) -> None:
    """The inverse of `put_missing`."""
    if (estimator.missing == "indicator") != arrays.has("missing_gaps"):
        raise fields.error(f"missing={estimator.missing!r} does not fit what was learned of gaps")
    if arrays.has("missing_gaps"):
        fills = arrays.floats("missing_means", estimator.n_features_in_)
        gaps = arrays.integers("missing_gaps", None)
        if len(gaps) and not 0 <= gaps.min() <= gaps.max() < estimator.n_features_in_:
            raise fields.error("missing_gaps names features that are not there")
        estimator.missing_values_ = MissingValues(fills, gaps)


def n_columns(estimator: Any) -> int:
    """Features that the network reads: the raw ones, and indicators of missing values."""
    gaps = getattr(estimator, "missing_values_", None)
    return int(estimator.n_features_in_) if gaps is None else gaps.n_columns


# Rows of the training table: counted by activation pattern, and those that `partial_fit` keeps


def put_visits(visits: Visits, arrays: ArrayWriter) -> None:
    """Write how often each activation pattern occurs."""
    arrays.put("codes", visits.codes.astype(np.int64))
    arrays.put("counts", visits.counts.astype(np.int64))


def take_visits(arrays: ArrayReader, depth: int) -> Visits:
    """The inverse of `put_visits`; every pattern is one of a network of that depth."""
    words = n_words(depth)
    codes = arrays.integers("codes", None, words)
    counts = arrays.integers("counts", len(codes))
    bits = [min(BITS_A_WORD, depth - BITS_A_WORD * word) for word in range(words)]
    beyond = [(codes[:, word] >> (size - 1)) > 1 for word, size in enumerate(bits)]
    if (codes < 0).any() or np.any(beyond) or (counts < 0).any():
        raise arrays.error(f"the activation patterns do not belong to a network of depth {depth}")
    return Visits(codes, counts)


_FLOATS = ("float32", "float64")


def describe_stream(stream: Stream, arrays: ArrayWriter) -> dict[str, Any]:
    """A stream as JSON; its rows go into `arrays`."""
    if hasattr(stream.X, "tocsr"):
        arrays.put("entries", stream.X.data)
        arrays.put("columns", stream.X.indices.astype(np.int64))
        arrays.put("starts", stream.X.indptr.astype(np.int64))
    else:
        arrays.put("rows", stream.X)
    arrays.put("y", stream.y.astype(np.int64 if stream.y.dtype.kind in "iu" else np.float64))
    arrays.put("weight", stream.weight)
    arrays.put("keys", stream.keys)
    return {
        "dtype": stream.X.dtype.name,
        "n_seen": stream.n_seen,
        "n_fitted": stream.n_fitted,
        "n_pieces": stream.n_pieces,
    }


def restore_stream(fields: Fields, arrays: ArrayReader, estimator: Any) -> Stream:
    """The inverse of `describe_stream`, for the estimator that it belongs to."""
    from treelu.estimators._stream import Stream

    keys = arrays.floats("keys", None)
    n_rows, n_seen, n_fitted = len(keys), fields.whole("n_seen"), fields.whole("n_fitted")
    weight = arrays.floats("weight", n_rows)
    if is_classifier(estimator):
        y = arrays.integers("y", n_rows)
        right = bool(((y >= 0) & (y < len(estimator.classes_))).all())
    else:
        outputs = () if estimator.n_outputs_ is None else (estimator.n_outputs_,)
        y, right = arrays.floats("y", n_rows, *outputs), True
    if not right or not n_rows or n_fitted > n_seen or n_rows > n_seen or not (weight >= 0).all() or weight.max() <= 0:
        raise fields.error("the kept rows do not belong to this estimator")
    X = _rows(fields, arrays, n_rows, estimator)
    return Stream(X, y, weight, keys, n_seen, n_fitted, fields.whole("n_pieces", low=1))


def _rows(fields: Fields, arrays: ArrayReader, n_rows: int, estimator: Any) -> Any:
    """The features, dense or CSR; NaN where the estimator takes it."""
    dtype, width = fields.text("dtype"), int(estimator.n_features_in_)
    if dtype not in _FLOATS:
        raise fields.error(f"rows of {dtype!r} are not known")
    gaps = estimator.missing == "indicator"
    if not arrays.has("starts"):
        return arrays.floats("rows", n_rows, width, dtype=np.dtype(dtype), gaps=gaps)
    values = arrays.floats("entries", None, dtype=np.dtype(dtype), gaps=gaps)
    columns, starts = arrays.integers("columns", len(values)), arrays.integers("starts", n_rows + 1)
    ascend = starts[0] == 0 and starts[-1] == len(values) and bool((starts[1:] >= starts[:-1]).all())
    if not ascend or (len(columns) and not 0 <= columns.min() <= columns.max() < width):
        raise fields.error(f"the kept rows are no sparse table of {width} features")
    return sparse.csr_array((values, columns, starts), shape=(n_rows, width))
