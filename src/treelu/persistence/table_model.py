"""An estimator that reads tables: fitted model and encoding in one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.base import is_classifier

from treelu.estimators._rows import on_columns
from treelu.report.digest import RowDigest
from treelu.tables.columns import Note
from treelu.tables.encoder import TableEncoder
from treelu.tables.numbers import NumberFormat
from treelu.tables.paths import TableError
from treelu.tables.targets import Task
from treelu.tables.unseen import UnseenValues
from treelu.tree import ObliqueTree

if TYPE_CHECKING:
    import pandas as pd

# What models of version 0.1 do not have.
_ADDED: dict[str, Any] = {
    "warnings": [], "styles": [], "digest": None, "positive": 1, "threshold": 0.5, "trained": "", "n_rows": 0,
    "n_rows_scored": 0,
}  # fmt: skip


@dataclass(frozen=True)
class TableModel:
    """An estimator together with the encoding of the table it was fitted on.

    Attributes
    ----------
    encoder : TableEncoder
    estimator : fitted estimator
    task : {"classification", "regression", "labels"}
    targets : tuple of str
        Names of the target columns.
    trees : tuple of ObliqueTree
        What the estimator is as a tree, for each label if there are labels: the branches that training rows reach,
        with their numbers. Empty where the estimator is no tree.
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

    encoder: TableEncoder
    estimator: Any
    task: Task
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

    @property
    def method(self) -> str:
        """The estimator's family: "tree", "lcn", "alcn", "lln", "elcn" or "stacked"."""
        family = type(self.estimator).__name__.removesuffix("Classifier").removesuffix("Regressor")
        return "tree" if family == "ObliqueTree" else family.lower()

    def predict(self, frame: pd.DataFrame) -> NDArray[Any]:
        """Predictions for the rows of a table; a UserWarning names values that no training row had."""
        X = self._features(frame)
        with _told():
            return self.decide(self.estimator.predict_proba(X)) if self.has_threshold else self.estimator.predict(X)

    def predict_proba(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """Probabilities for the rows of a table, of shape (n, classes) or (n, labels)."""
        X = self._features(frame)
        with _told():
            return self.estimator.predict_proba(X)

    def predict_table(
        self, frame: pd.DataFrame, *, note: Note | None = None, first_row: int = 0, unseen: UnseenValues | None = None
    ) -> pd.DataFrame:
        """Predictions and probabilities as a table with a row for each row of `frame`.

        Rows whose SMILES cannot be read are empty. `unseen` gathers the values that no training row had, of which a
        UserWarning tells otherwise.
        """
        import pandas as pd

        unused, gathered = self.unused_columns, UnseenValues() if unseen is None else unseen
        encoded = self.encoder.encode(frame, note=note, first_row=first_row, unused=unused, unseen=gathered)
        if unseen is None:
            gathered.warn()
        with _told():
            result = pd.DataFrame(self.columns_of(encoded.X))
        if len(encoded.rows) < len(frame):
            unread = np.setdiff1d(np.arange(len(frame)), encoded.rows)
            if note is not None:
                shown = ", ".join(str(first_row + row + 1) for row in unread[:5]) + (", …" if len(unread) > 5 else "")
                note(f"{len(unread):,} SMILES cannot be read (rows {shown}); their predictions are left empty")
            result.index = pd.Index(encoded.rows)
            result = result.astype(object).reindex(range(len(frame)))
        return result

    def columns_of(self, X: Any) -> dict[str, NDArray[Any]]:
        """Predictions and probabilities for features X, by the names of the output's columns."""
        if self.task == "labels":
            probabilities = self.estimator.predict_proba(X)
            return {f"probability_{name}": probabilities[:, k] for k, name in enumerate(self.targets)}
        if self.task == "regression":
            predicted = self.estimator.predict(X)
            if predicted.ndim == 1:
                return {"prediction": predicted}
            return {f"prediction_{name}": predicted[:, k] for k, name in enumerate(self.targets)}
        p = self.estimator.predict_proba(X)
        predicted = self.decide(p) if self.has_threshold else self.estimator.predict(X)
        classes = self.estimator.classes_.tolist()
        return {"prediction": predicted} | {f"probability_{name}": p[:, k] for k, name in enumerate(classes)}

    def as_estimator(self, *, stacklevel: int = 2) -> Any:
        """The estimator with the encoding of the columns inside, as its `fit` on a data frame makes it.

        It predicts, is asked, exported and saved in the table's own columns, and fills missing values where no training
        row had any, with a warning, as `predict` does. A threshold that was set for `treelu predict` is not part of it,
        which a warning says; `stacklevel` is the warning's.
        """
        if self.has_threshold:
            warnings.warn(
                f"the model was saved with a threshold of {self.threshold:g}, which the estimator's predict does not "
                "know: it gives the more probable class; use predict_proba",
                UserWarning,
                stacklevel=stacklevel,
            )
        return on_columns(self.estimator, replace(self.encoder, fills_unseen=True))

    @property
    def has_threshold(self) -> bool:
        """Whether the class follows from `threshold` instead of the larger probability."""
        return self.task == "classification" and len(self.estimator.classes_) == 2 and self.threshold != 0.5

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
        """The estimator as trees with all their branches, for any rows; an AttributeError where it is none."""
        # Sparse rows carry no names.
        return [replace(member.tree_, feature_names=self.encoder.feature_names) for member in self.members]

    def to_dict(self) -> dict[str, Any]:
        """All but the estimator and the trees, as plain JSON values."""
        return {
            "table": self.encoder.to_dict(),
            "task": self.task,
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
        encoder = TableEncoder.from_dict(data["table"])
        task, targets = data["task"], data["targets"]
        data = _ADDED | data
        for name in ("targets", "notes", "warnings"):
            if not isinstance(data[name], list) or not all(isinstance(item, str) for item in data[name]):
                raise ValueError(f"{name} must be a list of texts")
        width = getattr(estimator, "n_features_in_", None)
        beside = [tree for named in baselines for tree in named.values()]
        if width != len(encoder.feature_names) or any(tree.n_features != width for tree in (*trees, *beside)):
            raise ValueError(f"{len(encoder.feature_names)} features do not fit a model of {width}")
        wanted, n_targets = _task_of(estimator)
        if task != wanted or len(targets) != n_targets:
            raise ValueError(f"a task of {task!r} with {len(targets)} targets does not fit the estimator")
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
        given |= {name: data[name] for name in ("task", "positive", "trained", "n_rows", "n_rows_scored")}
        given |= {"trees": trees, "baselines": baselines, "styles": styles, "digest": digest}
        given["threshold"] = float(threshold)
        return cls(encoder, estimator, **given)

    def _features(self, frame: pd.DataFrame) -> Any:
        unseen = UnseenValues()
        encoded = self.encoder.encode(frame, unused=self.unused_columns, unseen=unseen)
        unseen.warn(stacklevel=4)
        if len(encoded.rows) < len(frame):
            row = int(np.setdiff1d(np.arange(len(frame)), encoded.rows)[0])
            raise TableError(f"the SMILES of row {row + 1} cannot be read; predict_table leaves such rows empty")
        return encoded.X


@contextmanager
def _told() -> Iterator[None]:
    """Without the estimator's warnings of numbers far outside, of which the encoder has told by column and row."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "column .* far outside the training range", UserWarning)
        yield


def _task_of(estimator: Any) -> tuple[Task, int]:
    """The task of a fitted estimator and its number of targets."""
    if not is_classifier(estimator):
        return "regression", getattr(estimator, "n_outputs_", None) or 1
    if isinstance(estimator.classes_, list):
        return "labels", len(estimator.classes_)
    return "classification", 1
