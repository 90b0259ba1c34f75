"""A saved model as the commands use it: its target, its trees and their text, and one target for exact queries."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from treelu.cli.messages import InputError
from treelu.cli.options import AskOptions
from treelu.cli.prepare import TableRows
from treelu.data.blocks import stacked_rows
from treelu.persistence import load_as_saved
from treelu.persistence.table_model import TableModel
from treelu.tables import Encoded
from treelu.tree import ObliqueTree
from treelu.tree.names import plain, shown_name
from treelu.tree.queries.columns import ColumnFeatures
from treelu.tree.queries.words import number
from treelu.view.labels import Top


def load_table_model(folder: Path) -> TableModel:
    """A model that `treelu fit` saved, or Python after a fit to a data frame."""
    return table_model(load_as_saved(folder), folder)


def table_model(model: Any, folder: Path) -> TableModel:
    """What was loaded from a folder as a model of a table."""
    if isinstance(model, TableModel):
        return model
    what = f"a {type(model).__name__} that was saved from Python, without a table"
    try:
        if not isinstance(model, ObliqueTree):
            return TableModel.of(model)
    except ValueError as error:
        what = str(error)
    raise InputError(f"{folder} holds {what}; load it there with treelu.load({str(folder)!r})")


def target_of(model: TableModel, label: str | None) -> str:
    """The target that is asked for."""
    if label is not None and label not in model.targets:
        raise InputError(f"--label {label}: the model has {', '.join(model.targets)}")
    if label is None and len(model.targets) > 1:
        raise InputError(f"the model has several targets; add --label, one of {', '.join(model.targets)}")
    return label or model.targets[0]


def visited_trees(
    model: TableModel, rows: TableRows | None, others: TableRows | None = None
) -> tuple[ObliqueTree, ...]:
    """The estimator as trees with the branches that rows, or others, reach, and how many of `rows` reach each node.

    A small tree is whole, and without rows keeps its own counts; networks that are not trees give none.
    """
    if model.method == "tree":
        return tuple(tree if rows is None else tree.with_counts(rows.X) for tree in model.whole_trees())
    if not hasattr(type(model.members[0]), "to_tree"):
        return ()
    assert rows is not None
    reached = replace(rows.encoded, X=rows.X if others is None else stacked_rows([rows.X, others.X]))
    trees = [member.to_tree(visited_by=reached) for member in model.members]
    return tuple(replace(tree, columns=None).with_counts(rows.X) for tree in trees)


def tree_text(model: TableModel, tree: ObliqueTree, top: Top = None) -> str:
    """A tree of a model as indented text, whole; below it, the substructure of each bit that it names."""
    text = tree.export_text(scale=model.spread, max_leaves=None, top=top)
    named = substructures(model, text)
    if not named:
        return text
    lines = [f"  {name}  {smiles}" for name, smiles in named.items()]
    return "\n".join([text, "", "bits, and the substructures that set them:", *lines])


def substructures(model: TableModel, text: str) -> dict[str, str]:
    """Bits that a text names → the SMILES of their most frequent substructure, the centre first."""
    molecules = model.encoder.smiles_column
    if molecules is None or find_spec("rdkit") is None:
        return {}
    numbers = {name: bit for bit, name in enumerate(molecules.features)}
    found = {}
    for name in dict.fromkeys(re.findall(r"\bbit_\d+\b", text)):
        examples = molecules.fingerprint.examples(numbers[name]) if name in numbers else []
        if examples:
            found[name] = fragment_smiles(examples[0].smiles, examples[0].atom, examples[0].radius)
    return found


def fragment_smiles(smiles: str, atom: int, radius: int) -> str:
    """The atoms within `radius` bonds of one, as SMILES that begin with it."""
    from rdkit import Chem

    from treelu.chem import environment_name

    return environment_name(Chem.MolFromSmiles(smiles), atom, radius)


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
        self.tree = replace(trees[self.k if model.task == "labels" else 0], columns=model.encoder)
        self.output = self.k if model.task == "regression" else 0
        self.columns = ColumnFeatures(model.encoder)

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

        encoder = self.model.encoder
        return Encoded(pd.DataFrame(X, columns=list(encoder.feature_names)), np.arange(len(X)), encoder)

    def wanted(self, options: AskOptions, now: Any) -> tuple[dict[str, Any], Callable[[np.ndarray], np.ndarray]]:
        """Arguments of `counterfactual`, and a check of the same goal on the model itself."""
        limits = {name: value for name, value in (("at_least", options.at_least), ("at_most", options.at_most))
                  if value is not None}  # fmt: skip

        def between(values: np.ndarray) -> np.ndarray:
            return (values >= limits.get("at_least", -np.inf)) & (values <= limits.get("at_most", np.inf))

        if not self.labels:
            if options.want is not None:
                raise InputError(f"--want {options.want}: {self.name} is a number; give --at-least or --at-most")
            if not limits:
                raise InputError(f"{self.name} is a number: give --at-least or --at-most")
            return limits | {"output": self.output}, lambda X: between(self.predict(X))
        if options.want is None and limits:
            raise InputError("--at-least and --at-most need --want, the class whose probability is meant")
        k = None if options.want is None else self.find_label(options.want)
        if limits and k is not None:
            return {"target": self.labels[k]} | limits, lambda X: between(self.probabilities(X, k))
        if k is None and len(self.labels) == 2:
            k = 1 - self.labels.index(now)
        if k is None:
            return {}, lambda X: self.predict(X) != now
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
