"""Parameters as earlier versions saved them → as estimators take them today."""

from __future__ import annotations

from typing import Any

from treelu.training.settings import NAMES

_RENAMED = {"max_features": "max_tree_features"}
_OF_ENSEMBLES = {
    "n_estimators", "combine", "shrinkage", "first_shrinkage", "bootstrap", "feature_fraction", "early_stopping",
    "warm_start", "n_jobs", "callbacks", "verbose", "random_state",
}  # fmt: skip


def parameters_today(kind: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Saved parameters of an estimator, with the names and places they have today.

    Examples
    --------
    >>> parameters_today("ELCNRegressor", {"member": "lcn", "depth": 3, "n_estimators": 4})["estimator"]["estimator"]
    'LCNRegressor'
    """
    if kind.startswith("ELCN") and "member" in parameters:  # version 0.1 repeated what members take
        own = {name: value for name, value in parameters.items() if name in _OF_ENSEMBLES}
        of_member = {name: value for name, value in parameters.items() if name not in {*own, "member"}}
        of_member = {"annealing": 1.0, "straight_through": False, "schedule": "constant", **of_member}
        member = {"estimator": f"{parameters['member'].upper()}{kind.removeprefix('ELCN')}", "parameters": of_member}
        return {**own, "estimator": member}
    if not kind.startswith(("LCN", "ALCN", "LLN")):
        return parameters
    own = {_RENAMED.get(name, name): value for name, value in parameters.items() if name not in NAMES}
    training = [[name, value] for name, value in parameters.items() if name in NAMES]
    return {**own, "training": {"pairs": training}} if training else own
