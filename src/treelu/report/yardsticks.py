"""Yardsticks: the models whose scores stand beside a tree's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from treelu.report.cart import fit_carts
from treelu.report.linear import fit_linear
from treelu.tree import ObliqueTree

CART = "CART"
CAPPED = "small CART"
LOGISTIC = "logistic regression"
RIDGE = "ridge regression"


def fit_yardsticks(
    X: Any,
    y: Any,
    *,
    classifier: bool,
    max_leaf_nodes: int | None = None,
    class_weight: Any = None,
    groups: Any = None,
    random_state: int = 0,
) -> dict[str, ObliqueTree]:
    """Fit CART of cross-validated size, CART as small as a given tree, and a linear model, for comparison.

    Parameters
    ----------
    X : array, DataFrame or sparse matrix of shape (n_rows, n_features)
        The rows that the tree was trained on.
    y : array of shape (n_rows,)
    classifier : bool
        Whether ``y`` holds classes or real targets.
    max_leaf_nodes : int, optional
        The leaves of the tree that is compared; None: no CART as small.
    class_weight : dict or "balanced", optional
        The weights of the model that is compared.
    groups : array of shape (n_rows,), optional
        Rows of one group are held out together where a size or a penalty is chosen by cross-validation.
    random_state : int

    Returns
    -------
    dict of str to ObliqueTree
        ``"CART"`` (:func:`fit_cart`), ``"small CART"``, and ``"logistic regression"`` or ``"ridge regression"``
        (:func:`fit_linear`), which is left out where all targets are the same. For ``baselines`` of :func:`summarize`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> for name, tree in fit_yardsticks(X, y, classifier=False, max_leaf_nodes=3).items():
    ...     print(name, tree.n_leaves)
    CART 6
    small CART 3
    ridge regression 1
    """
    limits = {CART: None} if max_leaf_nodes is None else {CART: None, CAPPED: max(2, max_leaf_nodes)}
    how = {"classifier": classifier, "class_weight": class_weight, "groups": groups}
    carts = fit_carts(X, y, list(limits.values()), seed=random_state, **how)
    found = {name: ObliqueTree.from_sklearn(cart) for name, cart in zip(limits, carts, strict=True)}
    if len(np.unique(y)) > 1:
        found[LOGISTIC if classifier else RIDGE] = fit_linear(X, y, random_state=random_state, **how)
    return found


# A sentence for each score by which a yardstick may win: what it does better.
_BETTER = {
    "auc": "ranks these rows better: AUC {theirs} : {ours}",
    "average_precision": "lists the rows to be found nearer to the top: average precision {theirs} : {ours}",
    "log_loss": "gives better probabilities: log-loss {theirs} : {ours}",
    "accuracy": "predicts more of these rows right: {theirs} : {ours}",
    "r2": "predicts these rows better: R² {theirs} : {ours}",
}
_NAMES = {
    "auc": "AUC",
    "average_precision": "average precision",
    "log_loss": "log-loss",
    "accuracy": "accuracy",
    "r2": "R²",
}
_PERCENT = ("accuracy",)
_LOWER = ("log_loss",)


def verdicts(summary: Mapping[str, Any]) -> list[str]:
    """A plain sentence for each model beside the report's own that has a better score; one where none has."""
    own, *others = summary["models"]
    compared = [other for other in others if other.get("scores")]
    if not compared or not own.get("scores"):
        return []
    lines = [line for other in compared if (line := _verdict(own, other))]
    if lines:
        return lines
    names = [_NAMES[key] for key in _BETTER if own["scores"].get(key, {}).get("value") is not None]
    measures = " or ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
    subject = "None of the models beside it" if len(compared) > 1 else _subject(compared[0])
    return [f"{subject} has {'a' if len(compared) > 1 else 'no'} better {measures}."]


def _verdict(own: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """What another model does better, by scores as the table shows them; None for nothing."""
    won, sure = [], False
    for key, words in _BETTER.items():
        ours, theirs = (entry["scores"].get(key, {}).get("value") for entry in (own, other))
        if ours is None or theirs is None:
            continue
        sign = -1 if key in _LOWER else 1
        shown = _shown_apart(key, theirs, ours)
        if shown is None or sign * theirs < sign * ours:
            continue
        end = other["lead"][key]["high" if sign > 0 else "low"]  # of the interval of ours minus theirs
        sure = sure or (end is not None and sign * end < 0)
        won.append(words.format_map(shown))
    if not won:
        return None
    return f"{_subject(other)} {'; it '.join(won)}{'' if sure else ' (the difference may be chance)'}."


def _shown_apart(key: str, theirs: float, ours: float) -> dict[str, str] | None:
    """Two scores with as few digits as show which is higher; None where three decimals, as in the table, do not."""
    for decimals in (2, 3):
        style = f".{decimals - 2}%" if key in _PERCENT else f".{decimals}f"
        if format(theirs, style) != format(ours, style):
            return {"theirs": format(theirs, style), "ours": format(ours, style)}
    return None


def _subject(entry: Mapping[str, Any]) -> str:
    """A model as the beginning of a sentence."""
    name, tree = entry["name"], entry["tree"]
    if name in (LOGISTIC, RIDGE):
        return f"A {name}"
    if name == CAPPED:
        return "A CART as small as this tree"
    return f"{name} of {len(tree['leaves']):,} leaves" if name == CART and tree else name
