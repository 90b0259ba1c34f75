"""Categories in a pipeline: the raw columns that it one-hot or ordinally encodes, so that its tree can read them.

A raw column of categories stands for as many features of 0 and 1: its categories, others, missing. One-hot and ordinal
encoding, and imputing a category, are linear in these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

MISSING = object()


@dataclass(frozen=True)
class Categories:
    """A raw column of categories.

    Attributes
    ----------
    values : tuple
        The categories as the encoder has them, without a missing one.
    has_missing : bool
        Whether missing values are a category, or imputed by one.
    has_other : bool
        Whether categories that training had not are read.
    fill : object
        The category that an imputer gives to missing values; MISSING where they are a category of their own.
    """

    values: tuple[Any, ...]
    has_missing: bool = False
    has_other: bool = False
    fill: Any = MISSING

    @property
    def n_features(self) -> int:
        """How many features it stands for."""
        return len(self.values) + self.has_other + self.has_missing

    @property
    def other(self) -> int:
        """The place of the feature of other categories."""
        return len(self.values)

    @property
    def missing(self) -> int:
        """The place of the feature of missing values."""
        return len(self.values) + self.has_other

    def texts(self) -> list[str]:
        """The categories as a data frame's are read: integers without decimals."""
        return [category_text(value) for value in self.values]

    def places_of(self, value: Any) -> list[int]:
        """The features that are 1 where the encoder sees a category."""
        if is_missing(value):
            return [self.missing]
        places = [self.values.index(value)]
        return [*places, self.missing] if self.fill is not MISSING and self.fill == value else places


@dataclass(frozen=True)
class Layout:
    """Where the features of raw columns stand: one of a number, several of a column of categories."""

    categories: dict[int, Categories]
    starts: tuple[int, ...]
    n_features: int

    @classmethod
    def of(cls, n_raw: int, categories: dict[int, Categories]) -> Layout:
        """The features of the raw columns, in their order."""
        sizes = [categories[j].n_features if j in categories else 1 for j in range(n_raw)]
        ends = np.cumsum([0, *sizes]).tolist()
        return cls(categories, tuple(ends[:-1]), ends[-1])

    def column_at(self, start: int) -> int | None:
        """The raw column of categories whose features start there."""
        found = [j for j in self.categories if self.starts[j] == start]
        return found[0] if found else None


@dataclass
class _Found:
    """What is found on the way through the steps."""

    encoded: dict[int, Categories] = field(default_factory=dict)
    fills: dict[int, Any] = field(default_factory=dict)
    error: str | None = None


def find_categories(steps: Sequence[tuple[str, Any]], n_raw: int) -> tuple[dict[int, Categories], str | None]:
    """The raw columns that encoders read as categories; and why that cannot be followed, where it cannot."""
    found = _Found()
    columns: list[int | None] = list(range(n_raw))
    for _, step in steps:
        columns = _through(step, columns, found)
    for j, fill in found.fills.items():
        if j not in found.encoded:
            continue
        known = found.encoded[j]
        if fill not in known.values:
            found.error = f"column {j} is imputed with {fill!r}, which is no category of its encoder"
        found.encoded[j] = replace(known, has_missing=True, fill=fill)
    return found.encoded, found.error


def _through(step: Any, columns: list[int | None], found: _Found) -> list[int | None]:
    """Which raw column each column that a step gives out still is; None for those that it changes."""
    if step is None or isinstance(step, str):
        return columns if step != "drop" else []
    if hasattr(step, "named_steps"):
        for _, inner in step.steps:
            columns = _through(inner, columns, found)
        return columns
    match type(step).__name__:
        case "ColumnTransformer":
            given: list[int | None] = []
            for name, inner, _ in step.transformers_:
                places = step._transformer_to_input_indices.get(name, [])
                given += _through(inner, [columns[place] for place in places if place < len(columns)], found)
            return given
        case "SimpleImputer":
            for j, value in zip(columns, step.statistics_, strict=False):
                if j is not None and not (isinstance(value, float) and np.isnan(value)):
                    found.fills[j] = value
            return [*columns, *([None] * len(step.indicator_.features_) if step.add_indicator else [])]
        case "OneHotEncoder" | "OrdinalEncoder":
            for j, values in zip(columns, step.categories_, strict=False):
                if j is not None:
                    _note(found, j, step, values)
    return []


def _note(found: _Found, j: int, step: Any, values: Any) -> None:
    known = [value for value in np.asarray(values, dtype=object).tolist() if not is_missing(value)]
    if is_truth(values):
        return  # numbers
    categories = Categories(
        tuple(known), has_missing=len(known) < len(values), has_other=step.handle_unknown != "error"
    )
    if len(set(categories.texts())) < len(known):
        found.error = f"two categories of column {j} are written alike"
    if "" in categories.texts():
        found.error = f"an empty text, or blanks alone, are a category of column {j}"
    if j in found.encoded and found.encoded[j] != categories:
        found.error = f"column {j} is encoded in two ways"
    found.encoded[j] = categories


def is_missing(value: Any) -> bool:
    """Whether a category is that of missing values."""
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and np.isnan(value))


def is_truth(values: Any) -> bool:
    """Whether the categories of an encoder are the two truth values."""
    return np.asarray(values, dtype=object).tolist() == [False, True] and np.asarray(values).dtype == np.bool_


def category_text(value: Any) -> str:
    """A category as text; integers without decimals, texts without the blanks around them."""
    if isinstance(value, int | float | np.number) and not isinstance(value, bool) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()
