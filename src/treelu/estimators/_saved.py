"""The state of fitted estimators for saving, as arrays and JSON: each gives its own, and checks it when it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, is_classifier

from treelu.data.reading import ClassEncoding, Reading, ValueEncoding
from treelu.estimators._labels import FittedLabels
from treelu.estimators._output_methods import SaveMixin
from treelu.estimators._path_trees import KnownTrees, known_trees
from treelu.estimators._rows import column_shares
from treelu.estimators._rows import n_features as n_features_of
from treelu.estimators._trees import column_importances, columns_of, missing_of
from treelu.nn.patterns import BITS_A_WORD, n_words
from treelu.nn.saved import describe_network, restore_network
from treelu.training import History
from treelu.training.config import NetworkConfig
from treelu.training.fit import FittedNetwork
from treelu.training.hyper_parameters import HyperParameters
from treelu.training.pattern_counts import PatternCounts
from treelu.training.saved import (
    describe_history,
    describe_numbers,
    put_scaling,
    restore_history,
    restore_numbers,
    take_scaling,
)
from treelu.training.small.fit import chosen_row
from treelu.training.small.selection import COLUMNS
from treelu.training.stream import Stream
from treelu.tree.missing import MissingValues
from treelu.tree.saved import describe_tree, put_observed, restore_tree, take_observed
from treelu.tree.to_read import numbers_to_read

if TYPE_CHECKING:
    from treelu.persistence.values import ArrayReader, ArrayWriter, Fields

Describe = Callable[[Any, Any], dict[str, Any]]  # (estimator, arrays) → a whole description, for estimators within
Restore = Callable[[Any, Any], Any]  # the inverse: (fields, arrays) → estimator


class NetworkState(SaveMixin, BaseEstimator):
    """The state of estimators around networks; `_state_of_model` and its inverse `_load_model` give the networks'."""

    fitted_: Any
    n_features_in_: int

    def _state(self, arrays: ArrayWriter, describe: Describe) -> dict[str, Any]:
        """The fitted state as JSON; arrays go into `arrays`."""
        fitted = self.fitted_
        put_scaling(fitted.reading.scaling, arrays.under("scaling"))
        put_missing(fitted.reading.missing, arrays)
        put_observed(fitted.reading.observed, arrays)
        if isinstance(fitted, FittedLabels):
            members = [describe(member, arrays.under(f"member{i}")) for i, member in enumerate(fitted.estimators)]
            for member in members:  # theirs are the same
                member.pop("columns", None)
            return {"members": members}
        arrays.put("spread", fitted.spread)
        history = fitted.history  # partial_fit keeps none
        state: dict[str, Any] = {"history": None if history is None else describe_history(history)}
        return {**state, **_describe_encoding(fitted.reading.encoding, arrays), **self._state_of_model(arrays)}

    def _load_state(self, fields: Fields, arrays: ArrayReader, restore: Restore) -> None:
        """The inverse of `_state`, for an estimator with its parameters set; an error where a part does not fit."""
        shared, n_features = self._shared(), n_features_of(self)
        missing = take_missing(shared.missing, n_features, fields, arrays, columns_of(self))
        n_columns = n_features if missing is None else missing.n_columns
        scaling = take_scaling(arrays.under("scaling"), n_columns)
        observed = take_observed(arrays, n_columns)
        if "members" in fields:
            described = fields.inners("members")
            for member in described if "columns" in fields else ():
                member.data["columns"] = vars(self)["encoder_"]  # one for all
            members = [restore(member, arrays.under(f"member{i}")) for i, member in enumerate(described)]
            self._check_labels(members, fields)
            encoding: Any = ClassEncoding(np.array([0, 1]), shared.class_weight)
            self.fitted_ = FittedLabels(members, Reading(encoding, scaling, missing, observed))
            return
        encoding = _restore_encoding(self, fields, arrays)
        reading = Reading(encoding, scaling, missing, observed)
        history = restore_history(fields.inner("history")) if "history" in fields else None
        self.fitted_ = self._load_model(fields, arrays, reading, history, arrays.floats("spread", n_columns))

    def _check_labels(self, members: list[Any], fields: Fields) -> None:
        if not members:
            raise fields.error("this estimator needs at least one label")
        for i, member in enumerate(members):
            fits = type(member) is type(self) and not isinstance(member.fitted_, FittedLabels)
            if not fits or member.n_features_in_ != self.n_features_in_ or member.classes_.tolist() != [0, 1]:
                raise fields.error(f"member {i} does not belong to this estimator")


def _describe_encoding(encoding: ClassEncoding | ValueEncoding, arrays: ArrayWriter) -> dict[str, Any]:
    if isinstance(encoding, ClassEncoding):
        if encoding.order is not None:
            arrays.put("class_order", encoding.order)
        return {"classes": arrays.labels(encoding.classes)}
    put_scaling(encoding.scaling, arrays.under("target_scaling"))
    return {"several_outputs": encoding.n_outputs is not None}


def _restore_encoding(estimator: Any, fields: Fields, arrays: ArrayReader) -> ClassEncoding | ValueEncoding:
    if is_classifier(estimator):
        classes = fields.labels("classes")
        if len(classes) < 2:
            raise fields.error(f"a classifier needs two classes, got {len(classes)}")
        order = arrays.integers("class_order", len(classes)) if arrays.has("class_order") else None
        if order is not None and not np.array_equal(np.sort(order), np.arange(len(classes))):
            raise fields.error("class_order must hold the number of each class once")
        return ClassEncoding(classes, estimator._shared().class_weight, order)
    several, scaling = fields.flag("several_outputs"), take_scaling(arrays.under("target_scaling"), None)
    if not several and len(scaling.scale) != 1:
        raise fields.error(f"a single target does not fit {len(scaling.scale)} outputs")
    return ValueEncoding(scaling, len(scaling.scale) if several else None)


def check_outputs(n_outputs: int, encoding: ClassEncoding | ValueEncoding, fields: Fields) -> None:
    """Raise where a model has another number of outputs than its targets need."""
    if n_outputs != encoding.n_scores:
        raise fields.error(f"{n_outputs} outputs do not fit the targets, which need {encoding.n_scores}")


def describe_fitted_network(fitted: FittedNetwork, arrays: ArrayWriter) -> dict[str, Any]:
    """One network and its row counts as JSON; arrays go into `arrays`."""
    put_patterns(fitted.patterns, arrays.under("visits"))  # so called by version 0.1
    state = {
        "network": describe_network(fitted.network, arrays.under("network")),
        "n_passes": int(fitted.n_passes),
        "weight_decay": float(fitted.chosen.weight_decay),
    }
    limit = fitted.chosen.max_tree_features
    return state if limit is None else {**state, "max_tree_features": int(limit)}


def restore_fitted_network(
    fields: Fields,
    arrays: ArrayReader,
    reading: Reading,
    history: History | None,
    spread: NDArray[np.float64],
    *,
    config: NetworkConfig,
) -> FittedNetwork:
    """The inverse of `describe_fitted_network`, for an estimator of this configuration."""
    network = restore_network(fields.inner("network"), arrays.under("network"))
    smooth = not network.activation.is_piecewise_linear
    fits = type(network) is config.network_class and smooth == (config.activation == "softplus")
    if not fits or network.in_features != len(reading.scaling.scale) or network.dtype != np.float64:
        raise fields.error("the network does not belong to this estimator")
    check_outputs(network.out_features, reading.encoding, fields)
    decay = fields.number("weight_decay") if "weight_decay" in fields else 0.0  # once always 0
    limit = fields.whole("max_tree_features", low=1) if "max_tree_features" in fields else None
    chosen = HyperParameters(network.depth, network.drop_connect, decay, limit)
    patterns = take_patterns(arrays.under("visits"), network.depth)
    return FittedNetwork(network, reading, chosen, history, fields.whole("n_passes"), patterns, spread)


_STEPS = ("leaves", "terms", "score", "std_error")
_DECIDE = ("loss", "loss_difference", "difference_std_error", "eligible")  # not written by version 0.1
_LEAVES = ("leaf_terms", "numbers")  # since trees may have linear leaves


class PathState:
    """The state of small trees: the path of sizes, with the tree of each step."""

    def _state(self, arrays: ArrayWriter, describe: Describe) -> dict[str, Any]:
        estimator: Any = self
        put_missing(missing_of(estimator), arrays)
        path = estimator.path_
        known = known_trees(estimator.path_trees_)
        trees = {row: replace(tree, missing=None, columns=None) for row, tree in known.items()}  # the estimator has it
        return {
            "path": {name: describe_numbers(path[name].tolist()) for name in (*_STEPS, *_DECIDE, *_LEAVES)},
            "starts": path["start"].tolist(),
            "chosen": chosen_row(path),
            "trees": [
                describe_tree(trees[i], arrays.under(f"step{i}")) if i in trees else None for i in range(len(path))
            ],
        }

    def _load_state(self, fields: Fields, arrays: ArrayReader, restore: Restore) -> None:
        import pandas as pd

        estimator: Any = self
        missing = take_missing(estimator.missing, n_features_of(estimator), fields, arrays, columns_of(estimator))
        if missing is not None:
            estimator.missing_values_ = missing
        n_columns = n_features_of(estimator) if missing is None else missing.n_columns
        described = fields.known_inners("trees")
        known = {i: restore_tree(tree, arrays.under(f"step{i}")) for i, tree in described.items()}
        n_trees = len(fields.items("trees"))
        path = fields.inner("path")
        names = (*_STEPS, *(name for name in (*_DECIDE, *_LEAVES) if name in path))
        columns = restore_numbers(path, names)
        starts, chosen = fields.texts("starts"), fields.whole("chosen")
        fits = all(
            tree.n_features == n_columns and tree.is_classifier == is_classifier(estimator) for tree in known.values()
        )
        if not fits or chosen not in known or {n_trees} != {len(column) for column in (*columns, starts)}:
            raise fields.error("the trees do not belong to this estimator")
        known = {
            i: replace(tree, missing=missing_of(estimator), columns=columns_of(estimator)) for i, tree in known.items()
        }
        table = pd.DataFrame(dict(zip(names, columns, strict=True)), dtype=np.float64)
        table["chosen"], table["start"] = np.arange(n_trees) == chosen, starts
        table = table.reindex(columns=COLUMNS)
        table["eligible"] = table["eligible"].fillna(table["chosen"].astype(np.float64))
        table["leaf_terms"] = table["leaf_terms"].fillna(0)
        if table["numbers"].isna().any():  # written by a version that trained all trees
            table["numbers"] = table["numbers"].fillna(pd.Series({i: numbers_to_read(one) for i, one in known.items()}))
            if table["numbers"].isna().any():
                raise fields.error("the numbers to read are missing")
        whole = dict.fromkeys(("leaves", "terms", "leaf_terms", "numbers"), np.int64)
        table = table.astype({**whole, "eligible": bool})
        trees = list(known.values()) if len(known) == n_trees else KnownTrees(n_trees, known)
        estimator.path_, estimator.path_trees_, estimator.tree_ = table, trees, known[chosen]
        if estimator.tree_.n_samples is None and estimator.tree_.weighted_n_samples is None:
            raise fields.error("the tree has no counts of rows")
        estimator.feature_importances_ = column_shares(estimator, column_importances(estimator.tree_))
        if estimator.tree_.is_classifier:
            estimator.classes_ = estimator.tree_.classes


# Missing values


def put_missing(missing: MissingValues | None, arrays: ArrayWriter) -> None:
    """Write what was learned of missing values, where there is any."""
    if missing is not None:
        arrays.put("missing_means", missing.fills)  # so called by version 0.1
        arrays.put("missing_gaps", missing.gaps)


def take_missing(
    given: str, n_features: int, fields: Fields, arrays: ArrayReader, columns: Any = None
) -> MissingValues | None:
    """The inverse of `put_missing`, for an estimator whose parameter `missing` is given; columns fill their own."""
    if columns is not None and not arrays.has("missing_gaps"):
        return None
    if given != "auto" and (given == "indicator") != arrays.has("missing_gaps"):
        raise fields.error(f"missing={given!r} does not fit what was learned of missing values")
    if not arrays.has("missing_gaps"):
        return None
    fills = arrays.floats("missing_means", n_features, gaps=given == "auto")
    gaps = arrays.integers("missing_gaps", None)
    if len(gaps) and not 0 <= gaps.min() <= gaps.max() < n_features:
        raise fields.error("missing_gaps names features that are not there")
    return MissingValues(fills, gaps)


# Rows of the training table: counted by activation pattern, and those that `partial_fit` keeps


def put_patterns(patterns: PatternCounts, arrays: ArrayWriter) -> None:
    """Write how often each activation pattern occurs."""
    arrays.put("codes", patterns.codes.astype(np.int64))
    arrays.put("counts", patterns.counts.astype(np.int64))


def take_patterns(arrays: ArrayReader, depth: int) -> PatternCounts:
    """The inverse of `put_patterns`; every pattern is one of a network of that depth."""
    words = n_words(depth)
    codes = arrays.integers("codes", None, words)
    counts = arrays.integers("counts", len(codes))
    bits = [min(BITS_A_WORD, depth - BITS_A_WORD * word) for word in range(words)]
    beyond = [(codes[:, word] >> (size - 1)) > 1 for word, size in enumerate(bits)]
    if (codes < 0).any() or np.any(beyond) or (counts < 0).any():
        raise arrays.error(f"the activation patterns do not belong to a network of depth {depth}")
    return PatternCounts(codes, counts)


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


def restore_stream(
    fields: Fields, arrays: ArrayReader, estimator: Any, encoding: ClassEncoding | ValueEncoding
) -> Stream:
    """The inverse of `describe_stream`, for the estimator that it belongs to."""
    keys = arrays.floats("keys", None)
    n_rows, n_seen, n_fitted = len(keys), fields.whole("n_seen"), fields.whole("n_fitted")
    weight = arrays.floats("weight", n_rows)
    if isinstance(encoding, ClassEncoding):
        y = arrays.integers("y", n_rows)
        right = bool(((y >= 0) & (y < len(encoding.classes))).all())
    else:
        outputs = () if encoding.n_outputs is None else (encoding.n_outputs,)
        y, right = arrays.floats("y", n_rows, *outputs), True
    if not right or not n_rows or n_fitted > n_seen or n_rows > n_seen or not (weight >= 0).all() or weight.max() <= 0:
        raise fields.error("the kept rows do not belong to this estimator")
    X = _rows(fields, arrays, n_rows, estimator)
    return Stream(X, y, weight, keys, n_seen, n_fitted, fields.whole("n_pieces", low=1))


def _rows(fields: Fields, arrays: ArrayReader, n_rows: int, estimator: Any) -> Any:
    """The features, dense or CSR; NaN where the estimator takes it."""
    dtype, width = fields.text("dtype"), n_features_of(estimator)
    if dtype not in _FLOATS:
        raise fields.error(f"rows of {dtype!r} are not known")
    gaps = estimator.missing != "error"
    if not arrays.has("starts"):
        return arrays.floats("rows", n_rows, width, dtype=np.dtype(dtype), gaps=gaps)
    values = arrays.floats("entries", None, dtype=np.dtype(dtype), gaps=gaps)
    columns, starts = arrays.integers("columns", len(values)), arrays.integers("starts", n_rows + 1)
    ascend = starts[0] == 0 and starts[-1] == len(values) and bool((starts[1:] >= starts[:-1]).all())
    if not ascend or (len(columns) and not 0 <= columns.min() <= columns.max() < width):
        raise fields.error(f"the kept rows are no sparse table of {width} features")
    return sparse.csr_array((values, columns, starts), shape=(n_rows, width))
