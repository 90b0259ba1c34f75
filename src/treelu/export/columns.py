"""The columns of a table in the neutral form of `treelu.export.program`: how they become a tree's features."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from treelu.export.program import Category, Column, DatePart, Feature, Missing, Number, Other
from treelu.tables.columns import Column as TableColumn
from treelu.tables.columns import NumberColumn, SmilesColumn, TextColumn
from treelu.tables.dates import BETWEEN, date_parts
from treelu.tables.encoder import TableEncoder

# What pandas reads as missing in text files, in columns of any kind.
MISSING_WORDS = (
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL",
    "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip


def column_recipes(encoder: TableEncoder, *, of_file: bool = True) -> tuple[tuple[Column, ...], tuple[Feature, ...]]:
    """The columns of an encoding, and its features in the order of X.

    `of_file`: words such as "NA" are missing among texts too, as in files, and a value is filled that is missing where
    no training row missed one. Otherwise, as `predict` for a data frame, such a word is a text, and such a value may be
    refused.
    """
    fills = of_file or encoder.fills_unseen
    recipes = [_recipe(column, place, of_file, fills) for place, column in enumerate(encoder.columns)]
    return tuple(column for column, _ in recipes), tuple(feature for _, features in recipes for feature in features)


def _recipe(column: TableColumn, place: int, of_file: bool, fills: bool) -> tuple[Column, list[Feature]]:
    """The inputs of a column, and its features, in the order of its encoding."""
    features: list[Feature]
    if isinstance(column, SmilesColumn):
        raise ValueError(
            f"column {column.name!r} holds molecules, whose features only RDKit can compute; export the tree on "
            "encoded features instead (--encoded) and compute them with treelu.chem"
        )
    if isinstance(column, TextColumn):
        words = tuple(word for word in MISSING_WORDS if of_file and word not in column.categories)
        features = [Category(place, text) for text in column.categories]
        features += [Other(place, column.categories)] * column.other + [Missing(place)] * column.missing
        codes = tuple(text for text in column.categories if re.fullmatch(r"-?[0-9]+(\.0)?", text))
        required = not fills and not column.missing
        return Column(column.name, "text", words, codes=codes, required=required), features
    words = tuple(dict.fromkeys((*column.strays, *MISSING_WORDS)))
    if isinstance(column, NumberColumn):
        style = column.style
        features = [Number(place, column.median if column.indicator or fills else None)]
        recipe = Column(column.name, "number", words, style.decimal, style.thousands, style.marks)
    else:
        if column.format is not None and BETWEEN in column.format:
            raise ValueError(
                f"column {column.name!r} has dates that are written in several ways, which a program cannot read; "
                "write them alike, or export the tree on encoded features (--encoded)"
            )
        parts: Any = column.parts  # texts that `DateColumn.from_dict` has checked
        middle = date_parts(np.array([column.middle_moment]), column.parts)[0].tolist()
        features = [DatePart(place, part, fill) for part, fill in zip(parts, middle, strict=True)]
        required = not fills and not column.indicator
        recipe = Column(column.name, "date", words, format=column.format, required=required)
    return recipe, features + [Missing(place)] * column.indicator
