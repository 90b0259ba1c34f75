"""A fitted estimator with the record of its table: what the commands need beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.base import is_classifier

from treelu.estimators._rows import on_columns
from treelu.report.digest import RowDigest
from treelu.tables.columns import NumberColumn
from treelu.tables.encoder import Encoded, TableEncoder
from treelu.tables.numbers import NumberFormat
from treelu.tables.targets import Task
from treelu.tree import ObliqueTree
from treelu.tree.names import plain

# What models of version 0.1 do not have.
_ADDED: dict[str, Any] = {
    "warnings": [], "styles": [], "digest": None, "positive": 1, "threshold": 0.5, "trained": "", "n_rows": 0,
    "n_rows_scored": 0,
}  # fmt: skip


@dataclass(frozen=True)
class TableModel:
    """A fitted estimator with the record of its table.

    Attributes
    ----------
    estimator : fitted estimator
        It reads the columns of the table by its `encoder_`.
    targets : tuple of str
        Names of the target columns.
    trees : tuple of ObliqueTree
        What the estimator is as a tree, for each label if there are labels: the branches that training rows reach,
        with their numbers, on features. Empty where the estimator is no tree.
    baselines : tuple of mapping of str to ObliqueTree
        Models fitted to the same rows for each target, for comparison, by their names: CART and a linear model. May be
        empty.
    notes : tuple of str
        What was said about columns and rows at fit.
    warnings : tuple of str
        What may be wrong with them.
    styles : tuple of NumberFormat
        How the numbers of each target are written in tables.
    digest : RowDigest or None
        Of the training rows, to tell whether scores come from them.
    positive : int
        Of two classes, the number of the one that recall, precision and `threshold` speak of.
    threshold : float
        The probability from which the positive class is predicted.
    trained : str
        The day of training as YYYY-MM-DD; empty where it is not known.
    n_rows : int
        How many rows the model was fitted to; 0 where it is not known.
    n_rows_scored : int
        How many rows the model was fitted to whose scores `treelu fit` printed: fewer than `n_rows` where the model
        was then fitted again, to all rows; 0 where none were.
    """

    estimator: Any
    targets: tuple[str, ...]
    trees: tuple[ObliqueTree, ...] = ()
    baselines: tuple[Mapping[str, ObliqueTree], ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    styles: tuple[NumberFormat, ...] = ()
    digest: RowDigest | None = None
    positive: int = 1
    threshold: float = 0.5
    trained: str = ""
    n_rows: int = 0
    n_rows_scored: int = 0

    @classmethod
    def of(cls, estimator: Any) -> TableModel:
        """The model of an estimator that was saved from Python, which knows no names of targets.

        Raises
        ------
        ValueError
            Where it reads no columns of a table: it was fitted to an array, or it is no estimator.
        """
        names = getattr(estimator, "feature_names_in_", None)
        if "encoder_" not in vars(estimator):
            if names is None or getattr(estimator, "missing_values_", None) is not None:
                what = "an array without names" if names is None else "numbers with missing values"
                raise ValueError(f"a {type(estimator).__name__} that was fitted from Python to {what}")
            columns = tuple(NumberColumn(str(name), 0.0, indicator=False) for name in names)  # none may be missing
            estimator = on_columns(estimator, TableEncoder(columns))
        task, n_targets = _task_of(estimator)
        one = n_targets == 1 and task != "labels"
        return cls(estimator, ("target",) if one else tuple(map(str, range(n_targets))))

    @property
    def method(self) -> str:
        """The estimator's family: "tree", "lcn", "alcn", "lln", "elcn" or "stacked"."""
        family = type(self.estimator).__name__.removesuffix("Classifier").removesuffix("Regressor")
        return "tree" if family == "ObliqueTree" else family.lower()

    @property
    def encoder(self) -> TableEncoder:
        """How the columns of the table become features."""
        return self.estimator.encoder_

    @property
    def task(self) -> Task:
        """What kind of targets there are."""
        return _task_of(self.estimator)[0]

    def predictions(self, rows: Encoded) -> dict[str, NDArray[Any]]:
        """Predictions and probabilities by the names that `treelu predict` gives to them."""
        if self.task == "labels":
            probabilities = self.estimator.predict_proba(rows)
            return {f"probability_{name}": probabilities[:, k] for k, name in enumerate(self.targets)}
        if self.task == "regression":
            predicted = self.estimator.predict(rows)
            if predicted.ndim == 1:
                return {"prediction": predicted}
            return {f"prediction_{name}": predicted[:, k] for k, name in enumerate(self.targets)}
        p = self.estimator.predict_proba(rows)
        predicted = self.decide(p) if self.has_threshold else self.estimator.predict(rows)
        classes = self.estimator.classes_.tolist()
        return {"prediction": predicted} | {f"probability_{name}": p[:, k] for k, name in enumerate(classes)}

    @property
    def has_threshold(self) -> bool:
        """Whether the class follows from `threshold` instead of the larger probability."""
        return self.task == "classification" and len(self.estimator.classes_) == 2 and self.threshold != 0.5

    @property
    def positive_label(self) -> Any:
        """The positive class."""
        return plain(self.estimator.classes_[self.positive])

    def decide(self, probabilities: NDArray[np.float64]) -> NDArray[Any]:
        """The class of each row by the threshold, from its probabilities."""
        chosen = np.where(probabilities[:, self.positive] >= self.threshold, self.positive, 1 - self.positive)
        return np.asarray(self.estimator.classes_)[chosen]

    def decided_tree(self, tree: ObliqueTree) -> ObliqueTree:
        """A tree of two classes as one whose own class is the one that the threshold decides.

        Its leaves say the class and no longer its probability, unless they are linear.
        """
        if not self.has_threshold:
            return tree
        if tree.leaf_weights is not None:
            if tree.link != "logistic":
                raise ValueError(f"linear leaves of link {tree.link!r} have no score that a threshold could shift")
            level = self.threshold if self.positive == 1 else 1 - self.threshold
            return replace(tree, values=tree.values - logit(level))
        probabilities = tree.link_outputs(tree.values[:, 0] if tree.link == "logistic" else tree.values)
        chosen = np.where(probabilities[:, self.positive] >= self.threshold, self.positive, 1 - self.positive)
        one_hot = np.eye(2)[chosen]
        return replace(tree, values=one_hot[:, 1:] - one_hot[:, :1] if tree.link == "logistic" else one_hot)

    @property
    def unused_columns(self) -> frozenset[str]:
        """Columns that no split uses: `predict` does not need them. Known where the fitted model is a tree."""
        trees = [vars(member).get("tree_") for member in self.members]
        if not all(isinstance(tree, ObliqueTree) for tree in trees):
            return frozenset()
        used = {feature for tree in trees if tree is not None for feature in tree.used_features().tolist()}
        return frozenset(name for name, places in self.encoder.places.items() if used.isdisjoint(places))

    @property
    def spread(self) -> NDArray[np.float64]:
        """The standard deviation of each feature in training rows: what makes weights of unlike units comparable."""
        member = self.members[0]
        return member.tree_.spreads if self.method == "tree" else member.spread_

    @property
    def members(self) -> list[Any]:
        """The estimators of single labels, or the one estimator."""
        return self.estimator.estimators_ if self.task == "labels" else [self.estimator]

    def whole_trees(self) -> list[ObliqueTree]:
        """The estimator as trees on features with all their branches; an AttributeError where it is none."""
        return [replace(member.tree_, columns=None) for member in self.members]

    def to_dict(self) -> dict[str, Any]:
        """The record without its trees, as plain JSON values."""
        return {
            "targets": list(self.targets),
            "notes": list(self.notes),
            "warnings": list(self.warnings),
            "styles": [style.to_dict() for style in self.styles],
            "digest": None if self.digest is None else self.digest.to_dict(),
            "positive": self.positive,
            "threshold": self.threshold,
            "trained": self.trained,
            "n_rows": self.n_rows,
            "n_rows_scored": self.n_rows_scored,
        }

    @classmethod
    def from_dict(
        cls,
        data: dict[str, Any],
        estimator: Any,
        trees: tuple[ObliqueTree, ...],
        baselines: tuple[Mapping[str, ObliqueTree], ...],
    ) -> TableModel:
        """The inverse of `to_dict`; a ValueError where the parts do not fit."""
        targets, data = data["targets"], _ADDED | data
        for name in ("targets", "notes", "warnings"):
            if not isinstance(data[name], list) or not all(isinstance(item, str) for item in data[name]):
                raise ValueError(f"{name} must be a list of texts")
        width = len(estimator.encoder_.feature_names)
        beside = [tree for named in baselines for tree in named.values()]
        if any(tree.n_features != width for tree in (*trees, *beside)):
            raise ValueError(f"the trees beside a model of {width} features have others")
        task, n_targets = _task_of(estimator)
        if len(targets) != n_targets:
            raise ValueError(f"{len(targets)} targets do not fit the estimator, which has {n_targets}")
        shown = len(targets) if task == "labels" else 1
        if len(trees) not in (0, shown) or len(baselines) not in (0, len(targets)):
            raise ValueError(f"{len(trees)} trees and {len(baselines)} baselines do not fit {len(targets)} targets")
        positive, threshold = data["positive"], data["threshold"]
        if type(positive) is not int or positive not in (0, 1):
            raise ValueError(f"positive must be 0 or 1, got {positive!r}")
        if not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
            raise ValueError(f"threshold must be from 0 to 1, got {threshold!r}")
        if not isinstance(data["trained"], str):
            raise ValueError("trained must be a text")
        for name in ("n_rows", "n_rows_scored"):
            if type(data[name]) is not int or data[name] < 0:
                raise ValueError(f"{name} must be an integer from 0, got {data[name]!r}")
        styles = tuple(NumberFormat.from_dict(style) for style in data["styles"])
        if len(styles) not in (0, len(targets)):
            raise ValueError(f"{len(styles)} formats of numbers do not fit {len(targets)} targets")
        digest = None if data["digest"] is None else RowDigest.from_dict(data["digest"])
        given: dict[str, Any] = {name: tuple(data[name]) for name in ("targets", "notes", "warnings")}
        given |= {name: data[name] for name in ("positive", "trained", "n_rows", "n_rows_scored")}
        given |= {"trees": trees, "baselines": baselines, "styles": styles, "digest": digest}
        given["threshold"] = float(threshold)
        return cls(estimator, **given)


def _task_of(estimator: Any) -> tuple[Task, int]:
    """The task of a fitted estimator and its number of targets."""
    if not is_classifier(estimator):
        return "regression", getattr(estimator, "n_outputs_", None) or 1
    if isinstance(estimator.classes_, list):
        return "labels", len(estimator.classes_)
    return "classification", 1
