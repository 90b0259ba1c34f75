"""One target of a saved model, for exact queries: its whole tree, its columns and its own predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from treelu.cli.messages import InputError
from treelu.cli.trees import target_of
from treelu.tables import TableModel
from treelu.tables.queries import ColumnQueries
from treelu.tree import ObliqueTree
from treelu.tree.names import plain, shown_name
from treelu.tree.queries.words import number


@dataclass(frozen=True)
class QueryOptions:
    """The options of a counterfactual query, as they were typed."""

    want: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    norm: str = "l1"
    max_changes: int | None = None
    n: int = 1


class QueriedModel:
    """One target of a saved model: its whole tree, its columns and its own predictions."""

    def __init__(self, model: TableModel, label: str | None) -> None:
        self.model = model
        self.target = target_of(model, label)
        self.k = model.targets.index(self.target)
        try:
            trees = model.whole_trees()
        except AttributeError:
            raise InputError(
                f"a model of --method {model.method} is not a single tree, so that queries about it have no exact "
                "answer; --method lcn or lln fits a tree"
            ) from None
        self.tree: ObliqueTree = trees[self.k if model.task == "labels" else 0]
        self.output = self.k if model.task == "regression" else 0
        self.columns = ColumnQueries(model.encoder)

    @property
    def name(self) -> str:
        """The target as it is shown."""
        return shown_name(self.target)

    @property
    def labels(self) -> list[Any]:
        """The classes; none in regression."""
        return [] if self.tree.classes is None else self.tree.classes.tolist()

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The model's own answers: classes, or values of the target."""
        if self.model.has_threshold:
            return self.model.decide(self._member.predict_proba(self._frame(X)))
        values = self._member.predict(self._frame(X))
        return values[:, self.output] if values.ndim == 2 else values

    def probabilities(self, X: np.ndarray, k: int) -> np.ndarray:
        """The model's own probability of a class."""
        return self._member.predict_proba(self._frame(X))[:, k]

    @property
    def _member(self) -> Any:
        return self.model.members[self.k] if self.model.task == "labels" else self.model.estimator

    def _frame(self, X: np.ndarray) -> Any:
        import pandas as pd

        return pd.DataFrame(X, columns=list(self.model.encoder.feature_names))

    def wanted(self, question: QueryOptions, now: Any) -> tuple[dict[str, Any], Callable[[np.ndarray], np.ndarray]]:
        """Arguments of `counterfactual`, and a check of the same goal on the model itself."""
        limits = {name: value for name, value in (("at_least", question.at_least), ("at_most", question.at_most))
                  if value is not None}  # fmt: skip

        def between(values: np.ndarray) -> np.ndarray:
            return (values >= limits.get("at_least", -np.inf)) & (values <= limits.get("at_most", np.inf))

        if not self.labels:
            if question.want is not None:
                raise InputError(f"--want {question.want}: {self.name} is a number; give --at-least or --at-most")
            if not limits:
                raise InputError(f"{self.name} is a number: give --at-least or --at-most")
            return limits | {"output": self.output}, lambda X: between(self.predict(X))
        if question.want is None and limits:
            raise InputError("--at-least and --at-most need --want, the class whose probability is meant")
        k = None if question.want is None else self.find_label(question.want)
        if limits and k is not None:
            return {"target": self.labels[k]} | limits, lambda X: between(self.probabilities(X, k))
        if k is None and len(self.labels) == 2:
            k = 1 - self.labels.index(now)
        if k is None:
            return {"other_than": now}, lambda X: self.predict(X) != now
        label = self.labels[k]
        goal: dict[str, Any] = {"target": label}
        if self.model.has_threshold:
            level = self.model.threshold
            limit = {"at_least": level} if k == self.model.positive else {"at_most": float(np.nextafter(level, 0))}
            goal = {"target": self.labels[self.model.positive]} | limit
        return goal, lambda X: self.predict(X) == label

    def find_label(self, text: str) -> int:
        """The number of a class that was typed."""
        names = [str(label) for label in self.labels]
        if text not in names:
            raise InputError(f"--want {text}: {self.name} is {' or '.join(map(shown_name, names[:8]))}")
        return names.index(text)


# Text


def in_columns(message: str) -> str:
    """A message of the tree with the options of the command line in place of Python's arguments."""
    return message.replace("no leaf of this tree", "no leaf of the tree").replace("target: ", "--want: ")


def shown(value: Any) -> str:
    """A value or a class as text."""
    return number(value) if isinstance(value, float) else shown_name(value)


def json_value(value: Any) -> Any:
    """A prediction as JSON has it."""
    value = plain(value)
    return value if isinstance(value, str | int | float | bool) else str(value)
