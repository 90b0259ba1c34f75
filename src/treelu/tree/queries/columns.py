"""Queries to a tree in the columns of the data frame that it was fitted to.

A column of categories is a one-hot group, a column of numbers one feature, 0 or 1 if it was in all training rows.
Indicators of missing values, dates and molecules stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from treelu.tree.columns import FrameColumns
from treelu.tree.names import shown_name
from treelu.tree.observed import Observed
from treelu.tree.queries.changes import Change

MISSING = "(missing)"
DAYS = "days since 1970"

Ranges = dict[int, tuple[float | None, float | None]]


class ColumnFeatures:
    """The columns of a data frame as features of a tree, and back.

    Examples
    --------
    >>> import pandas as pd
    >>> from treelu.tables import TableEncoder
    >>> frame = pd.DataFrame({"size": [1.0, 2.0, 3.0], "colour": ["red", "blue", "red"]})
    >>> columns = ColumnFeatures(TableEncoder.learn(frame, note=lambda text: None))
    >>> columns.features_of(["colour"], "keep")
    [1, 2]
    >>> columns.ranges({"size": (0, 2), "colour": "red"})
    {0: (0.0, 2.0), 1: (0.0, 0.0)}
    """

    def __init__(self, encoder: FrameColumns) -> None:
        self.columns = {column.name: column for column in encoder.columns}
        self.numbers = {name: column for name, column in self.columns.items() if column.kind == "number"}
        self.texts = {name: column for name, column in self.columns.items() if column.kind == "text"}
        self.dates = {name: column for name, column in self.columns.items() if column.kind == "date"}
        self.places = {name: list(places) for name, places in encoder.places.items()}
        self.owners = [name for name, places in self.places.items() for _ in places]

    # From columns to features

    def check(self, name: Any, option: str) -> str:
        """The name of a column; an error with the nearest one where there is none."""
        if name in self.columns:
            return str(name)
        near = get_close_matches(str(name), list(self.columns), n=1)
        if near:
            raise ValueError(f"{option}: the table has no column {name!r}; did you mean {near[0]!r}?")
        known = ", ".join(map(repr, list(self.columns)[:6]))
        raise ValueError(f"{option}: the tree knows no column {name!r}, only those that varied in training: {known}")

    def features_of(self, names: Iterable[Any], option: str) -> list[int]:
        """All features of some columns; features by number stay what they are."""
        found: list[int] = []
        for name in [names] if isinstance(names, str | int) else names:
            found += [int(name)] if isinstance(name, int | np.integer) else self.places[self.check(name, option)]
        return found

    def numbers_of(self, names: Iterable[Any], option: str) -> list[int]:
        """The features of columns of numbers."""
        found = []
        for name in [names] if isinstance(names, str | int) else names:
            if isinstance(name, int | np.integer):
                found.append(int(name))
                continue
            if self.check(name, option) not in self.numbers:
                raise ValueError(f"{option}: column {name!r} holds no numbers, so that it neither rises nor falls")
            found.append(self.places[name][0])
        return found

    def ranges(self, bounds: Any) -> Ranges:
        """Ranges of features from ``{"age": (18, 100), "job": ["clerk", "student"]}``."""
        found: Ranges = {}
        if bounds is not None and not isinstance(bounds, Mapping):
            raise ValueError("bounds must map columns to (low, high), or to the categories that are permitted")
        for name, given in (bounds or {}).items():
            if isinstance(name, int | np.integer):
                found[int(name)] = given
            elif self.check(name, "bounds") in self.texts:
                found |= self.permitted(name, [given] if isinstance(given, str) else given, "bounds")
            elif name in self.numbers:
                low, high = _ends(name, given)
                found[self.places[name][0]] = (low, high)
            else:
                raise ValueError(f"bounds: ranges are for columns of numbers and of categories, not for {name!r}")
        return found

    def permitted(self, name: str, wanted: Iterable[Any], option: str) -> Ranges:
        """The ranges that leave a column some of its categories."""
        answers = self.texts[name].answers
        chosen = [MISSING if text is None else str(text) for text in wanted]
        unknown = [text for text in chosen if text not in answers]
        if unknown:
            raise ValueError(
                f"{option}: {name!r} has no category {unknown[0]!r}; it has {', '.join(map(shown_name, answers[:8]))}"
            )
        places = zip(self.places[name], answers, strict=True)
        return {place: (0.0, 0.0) for place, answer in places if answer not in chosen}

    def scale(self, scale: Any) -> Any:
        """Units of features from units of columns."""
        if not isinstance(scale, Mapping):
            return scale
        return {place: unit for name, unit in scale.items() for place in self.features_of([name], "scale")}

    def observed(self, seen: Observed | None) -> Observed | None:
        """What the training rows held, with what only the columns know: integers beside medians, and categories."""
        if seen is None:
            return None
        integers = seen.integers.copy()
        for name, column in self.numbers.items():
            integers[self.places[name][0]] |= column.integers
        ours = {place for places in self.places.values() if len(places) > 1 for place in places}
        groups = [*map(tuple, self.groups), *(group for group in seen.groups if not ours & set(group))]
        return replace(seen, integers=integers, groups=tuple(groups))

    @property
    def groups(self) -> list[list[int]]:
        """The one-hot groups."""
        return [self.places[name] for name in self.texts if len(self.places[name]) > 1]

    @property
    def truths(self) -> list[int]:
        """The features that are 0 or 1, of numbers and of columns with one category."""
        single = [self.places[name][0] for name in self.texts if len(self.places[name]) == 1]
        return single + [self.places[name][0] for name, column in self.numbers.items() if column.binary]

    @property
    def marks(self) -> list[int]:
        """The features that mark missing numbers and dates."""
        return [self.places[name][-1] for name, column in self.columns.items() if column.indicator]

    @property
    def still(self) -> list[int]:
        """The features that stay as they are: marks of missing values, dates and molecules."""
        others = [places for name, places in self.places.items() if name not in self.numbers and name not in self.texts]
        return sorted({*(place for places in others for place in places), *self.marks})

    def missing_in(self, row: np.ndarray) -> list[int]:
        """The numbers of a row that are missing in the table: they stay what they were replaced by."""
        marked = {place for place in self.marks if row[place] == 1}
        return [places[0] for name, places in self.places.items() if name in self.numbers and places[-1] in marked]

    def limits(
        self,
        bounds: Any,
        whole: Iterable[Any],
        groups: Sequence[Iterable[Any]],
        scale: Any,
        *,
        everywhere: bool = False,
        observed: bool = False,
    ) -> dict[str, Any]:
        """Arguments of `read_limits`; with `everywhere` about rows without missing numbers and dates.

        Where the ranges of the training rows count (`observed`), they say what is 0 or 1.
        """
        fixed: Ranges = {} if observed else dict.fromkeys(self.truths, (0.0, 1.0))
        integers = [*self.numbers_of(whole, "whole"), *([] if observed else self.truths)]
        own = [self.features_of(group, "groups") for group in groups]
        return {
            "bounds": fixed | self.ranges(bounds),
            "whole": integers,
            "groups": [*self.groups, *own],
            "scale": self.scale(scale),
            "marks": self.marks if everywhere else (),
        }

    # From features to columns

    def changes(self, before: Any, after: Any) -> tuple[Change, ...]:
        """The columns in which two rows of features differ."""
        before, after = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
        changed = [name for name, places in self.places.items() if (before[places] != after[places]).any()]
        return tuple(Change(name, self.value(name, before), self.value(name, after)) for name in changed)

    def value(self, name: str, row: np.ndarray) -> Any:
        """What a column holds in a row of features: a number, a category, a date."""
        places = self.places[name]
        column = self.columns[name]
        if name in self.texts:
            chosen = np.flatnonzero(row[places] == 1)
            return column.answers[int(chosen[0])] if len(chosen) else "(unknown)"
        if column.indicator and row[places[-1]] == 1:
            return MISSING
        if name in self.numbers:
            return float(row[places[0]])
        if column.kind == "date" and DAYS in column.parts:
            days = row[places[column.parts.index(DAYS)]]
            return np.datetime64(round(days * 86_400_000_000), "us")
        return "(unknown)"

    def values(self, row: Any) -> dict[str, Any]:
        """A row of features as the values of columns, None where one is missing; molecules are left out.

        A frame of these values has the features again, where the days of dates are among them.
        """
        row = np.asarray(row, dtype=float)
        found = {name: self.value(name, row) for name, column in self.columns.items() if column.kind != "smiles"}
        return {name: None if isinstance(value, str) and value == MISSING else value for name, value in found.items()}


def short_numbers(
    before: np.ndarray, after: np.ndarray, whole: Iterable[int], holds: Callable[[np.ndarray], bool]
) -> np.ndarray:
    """A row with fewer digits in each number that changed, a little beyond the nearest one, if that has the answer."""
    moved = np.setdiff1d(np.flatnonzero(before != after), list(whole)).astype(int)
    for place in moved.tolist():
        change = after[place] - before[place]
        for digits in range(3, 9):
            step = 10.0 ** (np.floor(np.log10(max(abs(change), 1e-300))) - digits + 1)
            outward = np.ceil(np.sign(change) * after[place] / step - 1e-9) * step * np.sign(change)
            row = after.copy()
            row[place] = np.round(outward, 12)
            if abs(row[place] - after[place]) <= 0.02 * abs(change) and holds(row):
                after = row
                break
    return after


def _ends(name: str, given: Any) -> tuple[float | None, float | None]:
    try:
        low, high = (None if end is None else float(end) for end in given)
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds: the range of {name!r} must be a pair (low, high), None for no end, got {given!r}"
        ) from None
    return low, high
