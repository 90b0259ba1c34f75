"""Columns as they are typed on the command line, and rows as they are written in files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treelu.cli.options import AskOptions, VerifyOptions
from treelu.tables.columns import MISSING, DateColumn, NumberColumn, TextColumn
from treelu.tables.dates import DAYS
from treelu.tables.encoder import TableEncoder
from treelu.tables.layout import check_columns_named, split_names
from treelu.tables.numbers import CURRENCIES, NumberFormat
from treelu.tables.paths import TableError
from treelu.tree.queries.columns import ColumnFeatures


def named(encoder: TableEncoder, columns: Sequence[str], option: str) -> list[str]:
    """Columns that were typed one by one or with commas between them."""
    for name in (name for value in columns for name in (value, *(part.strip() for part in value.split(",")))):
        _check_used(encoder, name, option)
    return split_names(columns, list(encoder.names), option)


def named_numbers(encoder: TableEncoder, columns: Sequence[str], option: str) -> list[str]:
    """The same, of numbers."""
    found = named(encoder, columns, option)
    for name in found:
        if not isinstance(encoder.column(name), NumberColumn):
            raise TableError(f"{option} {name}: that column holds no numbers, so that it neither rises nor falls")
    return found


def _check_used(encoder: TableEncoder, name: str, option: str) -> None:
    """Raise with the reason for a column of the table that is no feature."""
    left_out = dict(encoder.left_out)
    if name in left_out:
        raise TableError(
            f"{option} {name}: that column was left out when the model was fitted, so that no answer depends on "
            f"it: {left_out[name]}"
        )


def typed_limits(encoder: TableEncoder, options: AskOptions | VerifyOptions) -> dict[str, Any]:
    """The rows that a query is about: arguments of a tree's queries."""
    return {
        "limits": "anywhere" if options.anywhere else "observed",
        "bounds": dict(_typed_range(encoder, text) for text in options.within),
        "whole": named_numbers(encoder, options.whole, "--whole"),
    }


def _typed_range(encoder: TableEncoder, text: str) -> tuple[str, Any]:
    """``age=18..100``, ``age=18..`` or ``job=clerk|student`` as a column and its range."""
    name, equals, ends = text.partition("=")
    if not equals:
        raise TableError(f"--within {text}: write COLUMN=LOW..HIGH, such as age=18..100, or COLUMN=TEXT|TEXT")
    _check_used(encoder, name, "--within")
    check_columns_named([name], list(encoder.names), option="--within")
    column = encoder.column(name)
    if isinstance(column, TextColumn):
        try:
            ColumnFeatures(encoder).permitted(name, ends.split("|"), f"--within {text}")
        except ValueError as error:
            raise TableError(str(error)) from None
        return name, ends.split("|")
    if not isinstance(column, NumberColumn):
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
    return name, pair


def cells(columns: ColumnFeatures, row: Any) -> dict[str, str]:
    """A row of features as cells of a file that `treelu predict` reads, without molecules.

    A date is the moment of its feature `DAYS`.
    """
    row = np.asarray(row, dtype=float)
    found = {}
    for name, column in columns.columns.items():
        places = columns.places[name]
        if column.indicator and row[places[-1]] == 1:
            found[name] = ""
        elif isinstance(column, NumberColumn):
            found[name] = written_number(float(row[places[0]]), column.style)
        elif isinstance(column, TextColumn):
            value = columns.value(name, row)
            found[name] = "" if value == MISSING else str(value)
        elif isinstance(column, DateColumn):
            found[name] = written_date(row[places], column)
    return found


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
