"""A model of a table as a program for export: its columns' recipes in the neutral form of `treelu.export.program`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from treelu.export.program import (
    Category,
    Column,
    Combine,
    DatePart,
    Feature,
    Missing,
    Number,
    Other,
    Part,
    Program,
    estimator_trees,
    output_names,
)
from treelu.tables.columns import Column as TableColumn
from treelu.tables.columns import NumberColumn, SmilesColumn, TextColumn
from treelu.tables.dates import date_parts
from treelu.tables.encoder import TableEncoder
from treelu.tables.model import TableModel
from treelu.tree import ObliqueTree

# What pandas reads as missing in text files, in columns of any kind.
MISSING_WORDS = (
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL",
    "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip


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
        parts.append(_part(model, tuple(replace(tree, feature_names=None) for tree in trees), combine, target))
    return tuple(parts)


def _part(model: TableModel, trees: tuple[ObliqueTree, ...], combine: Combine, target: str | None) -> Part:
    """Trees with the names that `treelu predict` gives to what they answer."""
    if target is not None:
        return Part(trees, (f"probability_{target}",), combine, only=1)
    threshold = (model.positive, model.threshold) if model.has_threshold else None
    return Part(trees, output_names(trees[0], model.targets), combine, threshold=threshold)


def column_recipes(encoder: TableEncoder) -> tuple[tuple[Column, ...], tuple[Feature, ...]]:
    """The columns of an encoding, and its features in the order of X."""
    recipes = [_recipe(column, place) for place, column in enumerate(encoder.columns)]
    return tuple(column for column, _ in recipes), tuple(feature for _, features in recipes for feature in features)


def _recipe(column: TableColumn, place: int) -> tuple[Column, list[Feature]]:
    """The inputs of a column, and its features, in the order of its encoding."""
    features: list[Feature]
    if isinstance(column, SmilesColumn):
        raise ValueError(
            f"column {column.name!r} holds molecules, whose features only RDKit can compute; export the tree on "
            "encoded features instead (--encoded) and compute them with treelu.chem"
        )
    if isinstance(column, TextColumn):
        words = tuple(word for word in MISSING_WORDS if word not in column.categories)
        features = [Category(place, text) for text in column.categories]
        features += [Other(place, column.categories)] * column.other + [Missing(place)] * column.missing
        codes = tuple(text for text in column.categories if re.fullmatch(r"-?[0-9]+(\.0)?", text))
        return Column(column.name, "text", words, codes=codes), features
    words = tuple(dict.fromkeys((*column.strays, *MISSING_WORDS)))
    if isinstance(column, NumberColumn):
        style, features = column.style, [Number(place, column.median)]
        recipe = Column(column.name, "number", words, style.decimal, style.thousands, style.marks)
    else:
        parts: Any = column.parts  # texts that `DateColumn.from_dict` has checked
        fills = date_parts(np.array([column.middle_moment]), column.parts)[0].tolist()
        features = [DatePart(place, part, fill) for part, fill in zip(parts, fills, strict=True)]
        recipe = Column(column.name, "date", words, format=column.format)
    return recipe, features + [Missing(place)] * column.indicator
