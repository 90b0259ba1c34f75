"""Estimators as arrays and JSON, and back; those of earlier versions as today's classes and parameters."""

from __future__ import annotations

import importlib
import inspect
import math
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from treelu import estimators
from treelu.estimators._rows import on_columns
from treelu.persistence.values import ArrayReader, ArrayWriter, Fields, ModelFileError
from treelu.tables.encoder import TableEncoder
from treelu.training import Settings
from treelu.training.settings import NAMES
from treelu.tree.check import MAX_FEATURES

_TASKS = ("Classifier", "Regressor")
_NETWORKS = tuple(f"{family}{task}" for family in ("LCN", "ALCN", "LLN", "ELCN", "Stacked") for task in _TASKS)
_GRAPHS = tuple(f"GCN{task}" for task in _TASKS)  # they need torch, and have no features
_BASELINES = (*(f"{family}{task}" for family in ("HHCART", "TAO") for task in _TASKS), *_GRAPHS)
_KINDS = (*_NETWORKS, *(f"ObliqueTree{task}" for task in _TASKS), *_BASELINES)

# Of earlier versions
_SEARCHES = ("LCNClassifierCV", "LCNRegressorCV")  # once searches of hyper-parameters; GridSearchCV does the same
_RENAMED = {"max_features": "max_tree_features"}
_OF_ENSEMBLES = {
    "n_estimators", "combine", "shrinkage", "first_shrinkage", "bootstrap", "feature_fraction", "early_stopping",
    "warm_start", "n_jobs", "callbacks", "verbose", "random_state",
}  # fmt: skip
_NOT_OF_STACKS = {"combine", "shrinkage", "first_shrinkage", "early_stopping", "warm_start"}
_MEMBERS = 16  # of averaged and boosted ensembles, where n_estimators was None


def describe_estimator(model: Any, arrays: ArrayWriter) -> dict[str, Any]:
    """A fitted estimator as JSON; its arrays go into `arrays`."""
    kind = type(model).__name__
    if kind not in _KINDS or type(model) is not _class_of(kind):
        raise TypeError(f"cannot save a {kind}; what can be saved: {', '.join(('ObliqueTree', *_KINDS))}")
    described: dict[str, Any] = {"kind": kind, "parameters": _describe_parameters(model, arrays)}
    if kind not in _GRAPHS:
        names = getattr(model, "feature_names_in_", None)
        described["n_features"] = int(model.n_features_in_)
        described["feature_names"] = None if names is None else [str(name) for name in names]
        if "encoder_" in vars(model):
            described["columns"] = model.encoder_.to_dict()
            described["column_notes"] = list(getattr(model, "column_notes_", ()))
    return {**described, **model._state(arrays, describe_estimator)}


def restore_estimator(fields: Fields, arrays: ArrayReader) -> Any:
    """The inverse of `describe_estimator`."""
    if fields.text("kind") in _SEARCHES:  # what was chosen is the model
        return restore_estimator(fields.inner("best"), arrays.under("best"))
    kind, parameters = today(fields.text("kind"), fields.inner("parameters").data)
    if kind not in _KINDS:
        raise fields.error(f"unknown kind of model {kind!r}; is it from a later version of treelu?")
    estimator_class = _class_of(kind)
    if estimator_class is None:
        raise ModelFileError(
            f"this model is a {kind}, a baseline of the paper, which is not in the package; it lives in the "
            "repository's experiments/baselines: run python, or python -m treelu, in the top folder of a clone"
        )
    estimator = _restore_parameters(estimator_class, Fields(parameters, fields.where))
    if kind not in _GRAPHS:
        estimator.n_features_in_ = fields.whole("n_features", low=1, high=MAX_FEATURES)
        if "feature_names" in fields:
            names = fields.texts("feature_names")
            if len(names) != estimator.n_features_in_:
                raise fields.error(f"there must be {estimator.n_features_in_} feature names")
            estimator.feature_names_in_ = np.array(names, dtype=object)
    if "columns" in fields:
        columns = fields.any("columns")
        estimator.encoder_ = columns if isinstance(columns, TableEncoder) else TableEncoder.from_dict(columns)
        estimator.column_notes_ = tuple(fields.texts("column_notes"))
    estimator._load_state(fields, arrays, restore_estimator)
    return estimator


def restore_features_estimator(fields: Fields, arrays: ArrayReader) -> Any:
    """The estimator of a table model of an earlier version: fitted to features, and the encoder beside it."""
    estimator = restore_estimator(fields.inner("estimator"), arrays.under("estimator"))
    encoder = replace(TableEncoder.from_dict(fields.any("table")), fills_unseen=True)
    width = getattr(estimator, "n_features_in_", None)
    if width != len(encoder.feature_names):
        raise fields.error(f"{len(encoder.feature_names)} features do not fit a model of {width}")
    return on_columns(estimator, encoder)


def _class_of(kind: str) -> Any:
    """The class of a kind of model; None for a baseline where the repository's ``experiments`` cannot be imported."""
    if kind not in _BASELINES:
        return getattr(estimators, kind)
    try:
        return getattr(importlib.import_module("experiments.baselines"), kind, None)
    except ModuleNotFoundError as error:
        if error.name not in ("experiments", "experiments.baselines"):
            raise
        return None


# Parameters


def _describe_parameters(estimator: Any, arrays: ArrayWriter) -> dict[str, Any]:
    check_is_fitted(estimator)
    defaults, parameters = _defaults(type(estimator)), {}
    for name, value in estimator.get_params(deep=False).items():
        try:
            if name == "cv" and not isinstance(value, int | None):
                raise TypeError("a splitter is code, and row numbers are data")
            parameters[name] = _plain(value)
        except TypeError:
            # Functions and generators of random numbers are code or moving state; prediction needs neither.
            parameters[name] = _plain(defaults[name])
            arrays.left_out[name] = repr(defaults[name])
    return parameters


def _restore_parameters(kind: Any, fields: Fields) -> Any:
    """An unfitted estimator with the parameters that were saved, checked as `fit` would."""
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
    name = type(value).__name__
    if name in _NETWORKS and type(value) is getattr(estimators, name):  # the pattern of an ensemble
        settings = {name: _plain(setting) for name, setting in value.get_params(deep=False).items()}
        return {"estimator": name, "parameters": settings}
    raise TypeError(f"{value!r} is not plain")


def _from_plain(value: Any) -> Any:
    if isinstance(value, dict):
        fields = Fields(value, "parameters")
        if "estimator" not in fields:
            return dict(fields.items("pairs"))
        name, parameters = today(fields.text("estimator"), fields.inner("parameters").data)
        if name not in _NETWORKS:
            raise fields.error(f"unknown kind of estimator {name!r}")
        return _restore_parameters(getattr(estimators, name), Fields(parameters, fields.where))
    return tuple(value) if isinstance(value, list) else value


# Earlier versions


def today(kind: str, parameters: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A saved kind of estimator and its parameters, with the names and places they have today."""
    if kind.startswith("ELCN"):
        return _ensemble_today(kind, parameters)
    if not kind.startswith(("LCN", "ALCN", "LLN")):
        return kind, parameters
    own = {_RENAMED.get(name, name): value for name, value in parameters.items() if name not in NAMES}
    training = [[name, value] for name, value in parameters.items() if name in NAMES]
    return kind, {**own, "training": {"pairs": training}} if training else own


def _ensemble_today(kind: str, parameters: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    task = kind.removeprefix("ELCN")
    if "member" in parameters:  # version 0.1 repeated what members take
        own = {name: value for name, value in parameters.items() if name in _OF_ENSEMBLES}
        of_member = {name: value for name, value in parameters.items() if name not in {*own, "member"}}
        of_member = {"annealing": 1.0, "straight_through": False, "schedule": "constant", **of_member}
        pattern = {"estimator": f"{parameters['member'].upper()}{task}", "parameters": of_member}
        parameters = {**own, "estimator": pattern}
    if parameters.get("combine") == "stack":
        return f"Stacked{task}", {name: value for name, value in parameters.items() if name not in _NOT_OF_STACKS}
    known = {name: value for name, value in parameters.items() if name != "n_trees"}
    if known.get("n_estimators", 1) is None:
        known["n_estimators"] = _MEMBERS
    return kind, known
