"""Estimators as arrays and JSON, and back."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from treelu import baselines, estimators
from treelu.estimators._base import NetworkEstimator
from treelu.estimators._checks import has_labels
from treelu.estimators._members import EnsembleMixin
from treelu.nn.missing import MissingValues
from treelu.persistence.networks import (
    describe_ensemble,
    describe_history,
    describe_network,
    describe_numbers,
    put_scaling,
    put_visits,
    restore_ensemble,
    restore_history,
    restore_network,
    restore_numbers,
    take_scaling,
    take_visits,
)
from treelu.persistence.older import parameters_today
from treelu.persistence.stacks import describe_stack, restore_stack
from treelu.persistence.streams import describe_stream, restore_stream
from treelu.persistence.trees import describe_tree, restore_tree
from treelu.persistence.values import ArrayReader, ArrayWriter, Fields, ModelFileError, describe_labels, restore_labels
from treelu.training import Settings
from treelu.tree.check import MAX_FEATURES

_TASKS = ("Classifier", "Regressor")
_NETWORKS: dict[str, Any] = {
    f"{family}{task}": getattr(estimators, f"{family}{task}")
    for family in ("LCN", "ALCN", "LLN", "ELCN")
    for task in _TASKS
}
_TREES: dict[str, Any] = {
    f"{family}{task}": getattr(baselines, f"{family}{task}") for family in ("HHCART", "TAO") for task in _TASKS
}
_SMALL: dict[str, Any] = {f"ObliqueTree{task}": getattr(estimators, f"ObliqueTree{task}") for task in _TASKS}
_SEARCHES: dict[str, Any] = {f"LCN{task}CV": getattr(estimators, f"LCN{task}CV") for task in _TASKS}
_GRAPHS = tuple(f"GCN{task}" for task in _TASKS)  # imported where one is met: they need torch


def describe_estimator(model: Any, arrays: ArrayWriter) -> dict[str, Any]:
    """A fitted estimator as JSON; its arrays go into `arrays`."""
    name = type(model).__name__
    if type(model) is _NETWORKS.get(name):
        return {"kind": name, **_describe_settings(model, arrays), **_describe_fitted(model, arrays)}
    if type(model) is _TREES.get(name):
        return {"kind": name, **_describe_settings(model, arrays), **_describe_grown(model, arrays)}
    if type(model) is _SMALL.get(name):
        return {"kind": name, **_describe_settings(model, arrays), **_describe_small(model, arrays)}
    if type(model) is _SEARCHES.get(name):
        return {"kind": name, **_describe_settings(model, arrays), **_describe_search(model, arrays)}
    if name in _GRAPHS and type(model) is getattr(baselines, name):
        from treelu.persistence.graphs import describe_graph_model

        return {"kind": name, "parameters": _describe_parameters(model, arrays), **describe_graph_model(model, arrays)}
    known = ", ".join(("ObliqueTree", *_NETWORKS, *_SMALL, *_TREES, *_SEARCHES, *_GRAPHS))
    raise TypeError(f"cannot save a {name}; what can be saved: {known}")


def restore_estimator(fields: Fields, arrays: ArrayReader) -> Any:
    """The inverse of `describe_estimator`."""
    kind = fields.text("kind")
    if kind in _NETWORKS:
        return _restore_fitted(_restore_settings(_NETWORKS[kind], fields), fields, arrays)
    if kind in _TREES:
        return _restore_grown(_restore_settings(_TREES[kind], fields), fields, arrays)
    if kind in _SMALL:
        return _restore_small(_restore_settings(_SMALL[kind], fields), fields, arrays)
    if kind in _SEARCHES:
        return _restore_search(_restore_settings(_SEARCHES[kind], fields), fields, arrays)
    if kind in _GRAPHS:
        from treelu.persistence.graphs import restore_graph_model

        graphs = _restore_parameters(getattr(baselines, kind), fields.inner("parameters"))
        return restore_graph_model(graphs, fields, arrays)
    raise ModelFileError(f"{fields.where}: unknown kind of model {kind!r}; is it from a later version of treelu?")


# What all estimators have: parameters and the features they were fitted on


def _describe_settings(estimator: Any, arrays: ArrayWriter) -> dict[str, Any]:
    parameters = _describe_parameters(estimator, arrays)
    names = getattr(estimator, "feature_names_in_", None)
    return {
        "parameters": parameters,
        "n_features": int(estimator.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
    }


def _describe_parameters(estimator: Any, arrays: ArrayWriter) -> dict[str, Any]:
    check_is_fitted(estimator)
    kind: Any = type(estimator)
    defaults = _defaults(kind)
    parameters = {}
    for name, value in estimator.get_params(deep=False).items():
        try:
            parameters[name] = _plain(value)
        except TypeError:
            # Functions and generators of random numbers are code or moving state; prediction needs neither.
            parameters[name] = _plain(defaults[name])
            arrays.left_out[name] = repr(defaults[name])
    return parameters


def _restore_settings(kind: Any, fields: Fields) -> Any:
    estimator = _restore_parameters(kind, fields.inner("parameters"))
    estimator.n_features_in_ = fields.whole("n_features", low=1, high=MAX_FEATURES)
    if "feature_names" in fields:
        names = fields.texts("feature_names")
        if len(names) != estimator.n_features_in_:
            raise ModelFileError(f"{fields.where}: there must be {estimator.n_features_in_} feature names")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    return estimator


def _restore_parameters(kind: Any, fields: Fields) -> Any:
    """An unfitted estimator with the parameters that were saved, checked as `fit` would."""
    fields = Fields(parameters_today(kind.__name__, fields.data), fields.where)
    unknown = sorted(set(fields.data) - set(_defaults(kind)))
    if unknown:
        raise ModelFileError(f"{kind.__name__} has no parameter {unknown[0]!r}; is it from a later version of treelu?")
    estimator = kind(**{name: _from_plain(value) for name, value in fields.data.items()})
    estimator._validate_params()
    return estimator


def _defaults(kind: Any) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in inspect.signature(kind).parameters.items()}


def _plain(value: Any) -> Any:
    """A parameter as JSON; TypeError for what is code or state rather than a setting."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, Settings):
        value = value.changed()
    if isinstance(value, dict):
        return {"pairs": [[_plain(key), _plain(item)] for key, item in value.items()]}
    if type(value).__module__ == "torch" and type(value).__name__ == "device":
        return str(value)
    if type(value) is _NETWORKS.get(type(value).__name__):  # what a search varies
        settings = {name: _plain(setting) for name, setting in value.get_params(deep=False).items()}
        return {"estimator": type(value).__name__, "parameters": settings}
    raise TypeError(f"{value!r} is not plain")


def _from_plain(value: Any) -> Any:
    if isinstance(value, dict):
        fields = Fields(value, "parameters")
        if "estimator" not in fields:
            return dict(fields.items("pairs"))
        name = fields.text("estimator")
        if name not in _NETWORKS:
            raise ModelFileError(f"{fields.where}: unknown kind of estimator {name!r}")
        return _restore_parameters(_NETWORKS[name], fields.inner("parameters"))
    return tuple(value) if isinstance(value, list) else value


# Estimators around networks


def _describe_fitted(estimator: NetworkEstimator, arrays: ArrayWriter) -> dict[str, Any]:
    put_scaling(estimator.scaling_, arrays.under("scaling"))
    gaps = getattr(estimator, "missing_values_", None)
    if gaps is not None:
        arrays.put("missing_means", gaps.fills)
        arrays.put("missing_gaps", gaps.gaps)
    if has_labels(estimator):
        members = estimator.estimators_
        return {"members": [describe_estimator(m, arrays.under(f"member{i}")) for i, m in enumerate(members)]}
    fitted: dict[str, Any] = {"history": None}
    if hasattr(estimator, "history_"):  # partial_fit keeps none
        fitted["history"] = describe_history(estimator.history_)
    if hasattr(estimator, "classes_"):
        fitted["classes"] = describe_labels(estimator.classes_)
    else:
        put_scaling(estimator.target_scaling_, arrays.under("target_scaling"))
        fitted["several_outputs"] = estimator.n_outputs_ is not None
    arrays.put("spread", estimator.spread_)
    if isinstance(estimator, EnsembleMixin):
        fitted["ensemble"] = describe_ensemble(estimator.ensemble_, arrays.under("ensemble"))
        for number, visits in enumerate(estimator.member_visits_):
            put_visits(visits, arrays.under(f"visits{number}"))
        if estimator.stack_ is not None:
            fitted["stack"] = describe_stack(estimator.stack_, arrays.under("stack"))
    else:
        fitted["network"] = describe_network(estimator.network_, arrays.under("network"))
        fitted["n_passes"] = int(estimator.n_passes_)
        fitted["weight_decay"] = float(estimator.weight_decay_)
        put_visits(estimator.visits_, arrays.under("visits"))
        if hasattr(estimator, "stream_"):
            fitted["stream"] = describe_stream(estimator.stream_, arrays.under("stream"))
    return fitted


def _restore_fitted(estimator: Any, fields: Fields, arrays: ArrayReader) -> Any:
    _restore_missing(estimator, fields, arrays)
    estimator.scaling_ = take_scaling(arrays.under("scaling"), _n_columns(estimator))
    if "members" in fields:
        return _restore_label_members(estimator, fields, arrays)
    if isinstance(estimator, EnsembleMixin):
        n_outputs = _restore_members(estimator, fields, arrays)
    else:
        n_outputs = _restore_network(estimator, fields, arrays)
    estimator.spread_ = arrays.floats("spread", _n_columns(estimator))
    if "history" in fields:
        estimator.history_ = restore_history(fields.inner("history"))
    if hasattr(estimator, "predict_proba"):
        estimator.classes_ = restore_labels(fields.inner("classes"))
        n_classes = len(estimator.classes_)
        if n_classes < 2 or n_outputs != (1 if n_classes == 2 else n_classes):
            raise ModelFileError(f"{fields.where}: {n_outputs} outputs do not fit {n_classes} classes")
    else:
        several = fields.flag("several_outputs")
        if not several and n_outputs != 1:
            raise ModelFileError(f"{fields.where}: a single target does not fit {n_outputs} outputs")
        estimator.target_scaling_ = take_scaling(arrays.under("target_scaling"), n_outputs)
        estimator.n_outputs_ = n_outputs if several else None
    if "stream" in fields and not isinstance(estimator, EnsembleMixin):
        estimator.stream_ = restore_stream(fields.inner("stream"), arrays.under("stream"), estimator)
    return estimator


def _restore_missing(estimator: Any, fields: Fields, arrays: ArrayReader) -> None:
    """Set what was learned of missing values, where there is any."""
    if (estimator.missing == "indicator") != arrays.has("missing_gaps"):
        raise ModelFileError(f"{fields.where}: missing={estimator.missing!r} does not fit what was learned of gaps")
    if arrays.has("missing_gaps"):
        fills = arrays.floats("missing_means", estimator.n_features_in_)  # means in version 0.1, medians today
        gaps = arrays.integers("missing_gaps", None)
        if len(gaps) and not 0 <= gaps.min() <= gaps.max() < estimator.n_features_in_:
            raise ModelFileError(f"{fields.where}: missing_gaps names features that are not there")
        estimator.missing_values_ = MissingValues(fills, gaps)


def _n_columns(estimator: Any) -> int:
    """Features that the network reads: the raw ones, and indicators of missing values."""
    gaps = getattr(estimator, "missing_values_", None)
    return int(estimator.n_features_in_) if gaps is None else gaps.n_columns


def _restore_network(estimator: Any, fields: Fields, arrays: ArrayReader) -> int:
    """Set the one network; returns its number of outputs."""
    network = restore_network(fields.inner("network"), arrays.under("network"))
    smooth = not network.activation.is_piecewise_linear
    fits = type(network) is estimator._network_class and smooth == (estimator._activation_kind == "softplus")
    if not fits or network.in_features != _n_columns(estimator) or network.dtype != np.float64:
        raise ModelFileError(f"{fields.where}: the network does not belong to this estimator")
    estimator.network_, estimator.depth_, estimator.drop_connect_ = network, network.depth, network.drop_connect
    estimator.visits_ = take_visits(arrays.under("visits"), network.depth)
    estimator.n_passes_ = fields.whole("n_passes")
    estimator.weight_decay_ = fields.number("weight_decay") if "weight_decay" in fields else 0.0  # once always 0
    return network.out_features


def _restore_members(estimator: Any, fields: Fields, arrays: ArrayReader) -> int:
    """Set the ensemble; returns its number of outputs."""
    ensemble = restore_ensemble(fields.inner("ensemble"), arrays.under("ensemble"), _n_columns(estimator))
    estimator.ensemble_, estimator.member_visits_ = ensemble, []
    for number, member in enumerate(ensemble.members):
        if not member.network.activation.is_piecewise_linear:
            break  # smooth members are no trees and have no visits
        visits = take_visits(arrays.under(f"visits{number}"), member.network.depth)
        estimator.member_visits_.append(visits)
    estimator.stack_ = None
    if "stack" in fields:
        n_columns = _n_columns(estimator)
        estimator.stack_ = restore_stack(fields.inner("stack"), arrays.under("stack"), ensemble, n_columns)
    return len(ensemble.constant)


def _restore_label_members(estimator: Any, fields: Fields, arrays: ArrayReader) -> Any:
    """A classifier of several labels: one member for each."""
    members = []
    for i, description in enumerate(fields.items("members")):
        member = restore_estimator(Fields(description, f"{fields.where}.members[{i}]"), arrays.under(f"member{i}"))
        fits = type(member) is type(estimator) and not has_labels(member)
        if not fits or member.n_features_in_ != estimator.n_features_in_ or member.classes_.tolist() != [0, 1]:
            raise ModelFileError(f"{fields.where}: member {i} does not belong to this estimator")
        members.append(member)
    if not members or not hasattr(estimator, "predict_proba"):
        raise ModelFileError(f"{fields.where}: this estimator cannot have {len(members)} members")
    estimator.estimators_ = members
    estimator.classes_ = [member.classes_ for member in members]
    return estimator


# Estimators that are their tree


def _describe_grown(estimator: Any, arrays: ArrayWriter) -> dict[str, Any]:
    arrays.put("feature_importances", estimator.feature_importances_)
    if hasattr(estimator, "training_losses_"):
        arrays.put("training_losses", estimator.training_losses_)
    return {"tree": describe_tree(estimator.tree_, arrays.under("tree"))}


def _restore_grown(estimator: Any, fields: Fields, arrays: ArrayReader) -> Any:
    estimator.tree_ = restore_tree(fields.inner("tree"), arrays.under("tree"))
    if estimator.tree_.n_features != estimator.n_features_in_:
        raise ModelFileError(f"{fields.where}: the tree does not belong to this estimator")
    estimator.feature_importances_ = arrays.floats("feature_importances", estimator.n_features_in_)
    if arrays.has("training_losses"):
        estimator.training_losses_ = arrays.floats("training_losses", None)
    if hasattr(estimator, "predict_proba") != estimator.tree_.is_classifier:
        raise ModelFileError(f"{fields.where}: the tree does not belong to this estimator")
    if estimator.tree_.is_classifier:
        estimator.classes_ = estimator.tree_.classes
    return estimator


# Small trees: the path of sizes with the tree of each step

_STEPS = ("leaves", "terms", "score", "std_error")


def _describe_small(estimator: Any, arrays: ArrayWriter) -> dict[str, Any]:
    gaps = getattr(estimator, "missing_values_", None)
    if gaps is not None:
        arrays.put("missing_means", gaps.fills)
        arrays.put("missing_gaps", gaps.gaps)
    trees = [describe_tree(tree, arrays.under(f"step{i}")) for i, tree in enumerate(estimator.path_trees_)]
    return {
        "path": {name: describe_numbers(estimator.path_[name].tolist()) for name in _STEPS},
        "starts": estimator.path_["start"].tolist(),
        "chosen": int(estimator.path_["chosen"].to_numpy().argmax()),
        "trees": trees,
    }


def _restore_small(estimator: Any, fields: Fields, arrays: ArrayReader) -> Any:
    _restore_missing(estimator, fields, arrays)
    trees = [
        restore_tree(Fields(description, f"{fields.where}.trees[{i}]"), arrays.under(f"step{i}"))
        for i, description in enumerate(fields.items("trees"))
    ]
    columns = restore_numbers(fields.inner("path"), _STEPS)
    starts, chosen = fields.texts("starts"), fields.whole("chosen")
    fits = all(
        tree.n_features == _n_columns(estimator) and tree.is_classifier == hasattr(estimator, "predict_proba")
        for tree in trees
    )
    if not fits or not chosen < len(trees) or {len(trees)} != {len(column) for column in (*columns, starts)}:
        raise ModelFileError(f"{fields.where}: the trees do not belong to this estimator")
    table = pd.DataFrame(dict(zip(_STEPS, columns, strict=True)))
    table = table.astype({"leaves": np.int64, "terms": np.int64, "score": np.float64, "std_error": np.float64})
    table["chosen"], table["start"] = np.arange(len(trees)) == chosen, starts
    estimator.path_, estimator.path_trees_, estimator.tree_ = table, trees, trees[chosen]
    if estimator.tree_.n_samples is None:
        raise ModelFileError(f"{fields.where}: the tree has no counts of rows")
    estimator.feature_importances_ = estimator.tree_.feature_importances()
    if estimator.tree_.is_classifier:
        estimator.classes_ = estimator.tree_.classes
    return estimator


# Searches: the table of losses, and the estimator that was chosen

_RESULTS = ("depth", "drop_connect", "mean_loss", "std_error")


def _describe_search(search: Any, arrays: ArrayWriter) -> dict[str, Any]:
    return {
        "results": {name: describe_numbers(search.cv_results_[name].tolist()) for name in _RESULTS},
        "best": describe_estimator(search.best_estimator_, arrays.under("best")),
    }


def _restore_search(search: Any, fields: Fields, arrays: ArrayReader) -> Any:
    best = restore_estimator(fields.inner("best"), arrays.under("best"))
    if type(best) is not search._estimator_class or best.n_features_in_ != search.n_features_in_:
        raise ModelFileError(f"{fields.where}: the chosen estimator does not belong to this search")
    columns = restore_numbers(fields.inner("results"), _RESULTS)
    search.cv_results_ = {
        name: np.array(column, dtype=np.int64 if name == "depth" else np.float64)
        for name, column in zip(_RESULTS, columns, strict=True)
    }
    search.best_estimator_, search.depth_, search.drop_connect_ = best, int(best.depth), float(best.drop_connect)
    if hasattr(best, "classes_"):
        search.classes_ = best.classes_
    return search
