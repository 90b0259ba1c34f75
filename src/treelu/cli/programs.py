"""A saved model of a table as a program for export, with the names and the threshold of `treelu predict`."""

from __future__ import annotations

from dataclasses import replace

from treelu.export.columns import column_recipes
from treelu.export.program import Column, Combine, Number, Part, Program, estimator_trees, output_names
from treelu.persistence.table_model import TableModel
from treelu.tree import ObliqueTree


def table_program(
    model: TableModel, *, name: str = "model", visited: bool = False, label: str | None = None
) -> Program:
    """A fitted model of a table as a program that takes the table's original columns.

    Parameters
    ----------
    model : TableModel
        Of trees: a model that is none raises an AttributeError that says so, molecules raise a ValueError.
    name : str
        What the program is called.
    visited : bool
        Only the branches that rows of the table reach.
    label : str, optional
        Answer for this one of several labels; by default for all.

    Examples
    --------
    >>> import pandas as pd
    >>> from treelu import LCNClassifier
    >>> from treelu.tables import TableEncoder
    >>> frame = pd.DataFrame({"size": [1.0, 2.0, None, 4.0], "colour": ["red", "blue", "red", "blue"]})
    >>> encoder = TableEncoder.learn(frame, note=lambda text: None)
    >>> lcn = LCNClassifier(depth=1, epochs=1, random_state=0).fit(encoder.encode(frame).X, [0, 0, 1, 1])
    >>> program = table_program(TableModel(encoder, lcn, "classification", ("y",)))
    >>> program.features
    (Number(column=0, fill=2.0), Missing(column=0), Category(column=1, text='blue'), Category(column=1, text='red'))
    """
    columns, features = column_recipes(model.encoder)
    parts = table_parts(model, visited=visited, label=label)
    return Program(columns, features, parts, name, model.trained)


def encoded_program(
    model: TableModel, *, name: str = "model", visited: bool = False, label: str | None = None
) -> Program:
    """The same on the encoded features of the table, numbers all of them, molecules included."""
    names = model.encoder.feature_names
    features = tuple(Number(place) for place in range(len(names)))
    parts = table_parts(model, visited=visited, label=label)
    return Program(tuple(Column(feature) for feature in names), features, parts, name, model.trained)


def table_parts(model: TableModel, *, visited: bool, label: str | None) -> tuple[Part, ...]:
    """The trees of a model, one part for each label, or for the one that is given."""
    parts = []
    for number, member in enumerate(model.members):
        target = model.targets[number] if model.task == "labels" else None
        if label is not None and target is not None and label != target:
            continue
        trees, combine = estimator_trees(member) if not visited or not model.trees else ((model.trees[number],), "sum")
        # The program has names of its own for features.
        parts.append(
            _part(model, tuple(replace(tree, feature_names=None, columns=None) for tree in trees), combine, target)
        )
    return tuple(parts)


def _part(model: TableModel, trees: tuple[ObliqueTree, ...], combine: Combine, target: str | None) -> Part:
    """Trees with the names that `treelu predict` gives to what they answer."""
    if target is not None:
        return Part(trees, (f"probability_{target}",), combine, only=1)
    threshold = (model.positive, model.threshold) if model.has_threshold else None
    return Part(trees, output_names(trees[0], model.targets), combine, threshold=threshold)
