"""Models saved by earlier versions → today's classes and parameters."""

from __future__ import annotations

from typing import Any

from treelu.training.settings import NAMES

SEARCHES = ("LCNClassifierCV", "LCNRegressorCV")  # once searches of hyper-parameters; GridSearchCV does the same
_RENAMED = {"max_features": "max_tree_features"}
_OF_ENSEMBLES = {
    "n_estimators", "combine", "shrinkage", "first_shrinkage", "bootstrap", "feature_fraction", "early_stopping",
    "warm_start", "n_jobs", "callbacks", "verbose", "random_state",
}  # fmt: skip
_NOT_OF_STACKS = {"combine", "shrinkage", "first_shrinkage", "early_stopping", "warm_start"}
_MEMBERS = 16  # of averaged and boosted ensembles, where n_estimators was None


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
