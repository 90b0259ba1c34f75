"""Queries to a tree in the columns of the table that it was fitted on.

A text column is a one-hot group, a number column one feature, 0 or 1 if it was in all training rows. Indicators of
missing values, dates and molecules stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from treelu.tables.columns import MISSING, DateColumn, NumberColumn, TextColumn
from treelu.tables.dates import DAYS
from treelu.tables.encoder import TableEncoder
from treelu.tables.layout import check_columns_named, split_names
from treelu.tables.numbers import CURRENCIES, NumberFormat
from treelu.tables.paths import TableError
from treelu.tree.queries.columns import ColumnFeatures, Ranges


class ColumnQueries(ColumnFeatures):
    """The columns of an encoder as features of a tree, as options of the command line name them."""

    def __init__(self, encoder: TableEncoder) -> None:
        super().__init__(encoder)
        self.left_out = dict(encoder.left_out)

    def named(self, columns: Sequence[str], option: str) -> list[str]:
        """Columns that were typed one by one or with commas between them."""
        for name in (name for value in columns for name in (value, *(part.strip() for part in value.split(",")))):
            self._check_used(name, option)
        return split_names(columns, list(self.columns), option)

    def _check_used(self, name: str, option: str) -> None:
        """Raise with the reason for a column of the table that is no feature."""
        if name in self.left_out:
            raise TableError(
                f"{option} {name}: that column was left out when the model was fitted, so that no answer depends on "
                f"it: {self.left_out[name]}"
            )

    def features(self, columns: Sequence[str], option: str) -> list[int]:
        """The features of some columns."""
        return [place for name in self.named(columns, option) for place in self.places[name]]

    def number_columns(self, columns: Sequence[str], option: str) -> dict[str, int]:
        """Columns of numbers, each with its feature."""
        found = {}
        for name in self.named(columns, option):
            if name not in self.numbers:
                raise TableError(f"{option} {name}: that column holds no numbers, so that it neither rises nor falls")
            found[name] = self.places[name][0]
        return found

    def options(
        self,
        *,
        keep: Sequence[str] = (),
        within: Sequence[str] = (),
        rise: Sequence[str] = (),
        fall: Sequence[str] = (),
        whole: Sequence[str] = (),
        anywhere: bool = False,
    ) -> dict[str, Any]:
        """Arguments of :meth:`ObliqueTree.counterfactual` from columns as they are typed."""
        bounds: Ranges = dict.fromkeys(self.truths, (0.0, 1.0))
        for text in within:
            bounds |= self._range(text)
        return {
            "limits": "anywhere" if anywhere else "observed",
            "keep": [*self.features(keep, "--keep"), *self.still],
            "bounds": bounds,
            "rise": list(self.number_columns(rise, "--rise").values()),
            "fall": list(self.number_columns(fall, "--fall").values()),
            "whole": [*self.number_columns(whole, "--whole").values(), *self.truths],
            "groups": self.groups,
        }

    def everywhere(
        self, within: Sequence[str] = (), whole: Sequence[str] = (), anywhere: bool = False
    ) -> dict[str, Any]:
        """Arguments of properties: all rows without missing numbers."""
        options = self.options(within=within, whole=whole, anywhere=anywhere)
        marks = dict.fromkeys(self.marks, (0.0, 0.0))
        return {"bounds": marks | options["bounds"]} | {name: options[name] for name in ("limits", "whole", "groups")}

    def _range(self, text: str) -> Ranges:
        """``age=18..100``, ``age=18..`` or ``job=clerk|student`` as ranges of features."""
        name, equals, ends = text.partition("=")
        if not equals:
            raise TableError(f"--within {text}: write COLUMN=LOW..HIGH, such as age=18..100, or COLUMN=TEXT|TEXT")
        self._check_used(name, "--within")
        check_columns_named([name], list(self.columns), option="--within")
        places = self.places[name]
        if name in self.texts:
            try:
                return self.permitted(name, ends.split("|"), f"--within {text}")
            except ValueError as error:
                raise TableError(str(error)) from None
        if name not in self.numbers:
            raise TableError(f"--within {text}: ranges are for columns of numbers and of texts")
        low, dots, high = ends.partition("..")
        try:
            pair = (float(low) if low else None, float(high) if high else None)
        except ValueError:
            dots = ""
        if not dots:
            raise TableError(f"--within {text}: write COLUMN=LOW..HIGH, such as {name}=18..100")
        if pair[0] is not None and pair[1] is not None and pair[0] > pair[1]:
            raise TableError(f"--within {text}: the range is empty; give the smaller number first")
        return {places[0]: pair}

    def cells(self, row: Any) -> dict[str, str]:
        """A row of features as cells of a file that `treelu predict` reads, without molecules.

        A date is the moment of its feature `DAYS`.
        """
        row = np.asarray(row, dtype=float)
        found = {}
        for name, column in self.columns.items():
            places = self.places[name]
            if column.indicator and row[places[-1]] == 1:
                found[name] = ""
            elif isinstance(column, NumberColumn):
                found[name] = written_number(float(row[places[0]]), column.style)
            elif isinstance(column, TextColumn):
                value = self.value(name, row)
                found[name] = "" if value == MISSING else str(value)
            elif isinstance(column, DateColumn):
                found[name] = written_date(row[places], column)
        return found


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


def written_number(value: float, style: NumberFormat) -> str:
    """A number as a column writes it, with all its digits.

    Examples
    --------
    >>> written_number(1234.5, NumberFormat(",", ".")), written_number(3.0, NumberFormat(".", ","))
    ('1234,5', '3')
    """
    text = np.format_float_positional(value + 0.0, trim="-")
    text = text.replace(".", style.decimal)
    units = [mark for mark in style.marks if mark not in CURRENCIES]
    full = f"{text} {units[0]}" if units else text
    return full if style.parse(full) == value else text


def written_date(parts: Any, column: DateColumn) -> str:
    """The moment that a column's features stand for, as the column writes it."""
    days = float(np.asarray(parts)[column.parts.index(DAYS)])
    moment = np.datetime64(round(days * 86_400) * 1_000_000, "us").astype("datetime64[s]").item()
    if column.format is not None:
        return str(moment.strftime(column.format))
    return str(moment.isoformat(sep=" ")) if "hour" in column.parts else str(moment.date().isoformat())
