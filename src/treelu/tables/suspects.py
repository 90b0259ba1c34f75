"""What may be wrong with a table that can be read: row numbers, codes for missing values, outliers, a row of totals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treelu.tables.columns import Column, DateColumn, NumberColumn, TextColumn, alike
from treelu.tables.dates import parse_dates
from treelu.tables.numbers import CENSORS, NumberFormat, beyond_floats, to_numbers, to_texts

if TYPE_CHECKING:
    import pandas as pd

_RISING, _DISTINCT = 0.95, 0.9  # shares of an identifier's rows
_ID_NAME = re.compile(r"(?i)(.*[\W_])?(id|ids|nr|no|num|number|nummer|key|uuid|index)")
_ID_CASE = re.compile(r".*[a-z](Id|ID|Nr|No)")
_CODE_ROWS, _CODE_SHARE = 3, 0.01  # a code for missing values stands in so many rows, and in this share of them
_FEWEST_OTHERS = 3
_FEWEST_GROUPS = 10  # that a column may number
_APART = 0.5  # how far from the others, in widths of their range
_TOTAL = re.compile(
    r"(?i)((grand|sub|column) ?)?(totals?|sums?|summen?|gesamt(summe)?|insgesamt|somme|totale|mean|average)\b.*"
)


def column_suspects(column: pd.Series, learned: Column) -> Iterator[str]:
    """What may be wrong with a column that can be read."""
    if isinstance(learned, TextColumn):
        yield from _text_suspects(learned)
        return
    if isinstance(learned, DateColumn):
        values: Any = parse_dates(column, learned.format)
    elif isinstance(learned, NumberColumn):
        values, _ = to_numbers(column, learned.style)
    else:
        return
    name = quote(str(column.name))
    if reason := _identifies(column.name, values):
        if isinstance(learned, DateColumn):
            yield f" {reason}: rows to come will have other dates than any here; --drop {name} leaves it out"
        else:
            yield f" {reason}; --drop {name} if it numbers the rows"
    elif isinstance(learned, NumberColumn) and (n_groups := _number_groups(column.name, values)):
        yield (
            f" has {n_groups:,} different integers, each in rows that follow one another; if it numbers persons or "
            f"places, --groups {name} holds out the rows of one together, and leaves the column out"
        )
    elif isinstance(learned, NumberColumn):
        yield from bounds_among(column, learned.style)
        yield from _number_suspects(column, values)


def _text_suspects(learned: TextColumn) -> Iterator[str]:
    """Two spellings."""
    if pair := alike(learned.categories):
        yield f": {pair[0]!r} and {pair[1]!r} are two categories; write them alike if they are one"


def _identifies(name: Any, values: NDArray[Any]) -> str | None:
    """Why a column seems to number the rows; None where it does not."""
    if len(values) < 20:
        return None
    if (values[1:] > values[:-1]).all():
        return "only rises from row to row"
    known = values[values == values]  # neither NaN nor "not a time"
    if len(known) < len(values):
        return None
    rising = (values[1:] >= values[:-1]).all() and (values[1:] > values[:-1]).mean() >= _RISING
    if rising:
        return "rises from row to row, but for a few that are equal"
    if known.dtype.kind == "f" and (known == np.round(known)).all():
        distinct = len(np.unique(known))
        text = str(name)
        if distinct >= _DISTINCT * len(known) and (_ID_NAME.fullmatch(text) or _ID_CASE.fullmatch(text)):
            return f"has {distinct:,} different integers in {len(known):,} rows"
    return None


def _number_groups(name: Any, values: NDArray[Any]) -> int | None:
    """How many groups of rows a column named like an identifier numbers; None where it does not seem to."""
    text = str(name)
    if not (_ID_NAME.fullmatch(text) or _ID_CASE.fullmatch(text)) or not (values == np.round(values)).all():
        return None
    n_runs, n_groups = 1 + int((values[1:] != values[:-1]).sum()), len(np.unique(values))
    return n_groups if n_runs == n_groups and _FEWEST_GROUPS <= n_groups <= len(values) / 2 else None


def bounds_among(column: pd.Series, style: NumberFormat) -> Iterator[str]:
    """Bounds among the numbers of a column, such as "<5" of a laboratory."""
    censors = tuple(mark for mark in style.marks if mark in CENSORS)
    if not censors:
        return
    bounds = to_texts(column).dropna()
    bounds = bounds[bounds.str.startswith(censors)]
    examples = ", ".join(repr(text) for text in bounds.unique()[:3])
    yield f": {len(bounds):,} of {len(column):,} values are bounds ({examples}), read as the numbers in them"


def _number_suspects(column: pd.Series, values: NDArray[np.float64]) -> Iterator[str]:
    """Codes for missing values, numbers far from the others, numbers of too many digits."""
    codes = missing_codes(values)
    others = values[~np.isin(values, codes)]
    if codes:
        known = others[np.isfinite(others)]
        counted = " and ".join(f"{code:g} in {(values == code).sum():,} of {len(values):,} rows" for code in codes)
        option = " ".join(f"--missing {code:g}" for code in codes)
        yield (
            f": {counted}, all others are from {known.min():.6g} to {known.max():.6g}; {option} if that stands for "
            "missing values"
        )
    if found := far_values(others):
        low, high, far = found
        yield (
            f": {len(far):,} of {len(values):,} values lie far from the others, such as {far[0]:.6g} (nearly all are "
            f"from {low:.6g} to {high:.6g}); typing errors?"
        )
    if len(large := beyond_floats(column)):
        name = quote(str(column.name))
        yield f": numbers such as {large[0]} have more digits than are kept; --text {name} if they are codes"


def missing_codes(values: NDArray[np.float64]) -> list[float]:
    """Numbers such as -999 and 9999 that stand apart from all others in many rows, the furthest first.

    A code is -1, or has the digits 7, 8 or 9 alone, such as 99 and -888. It is below all other values where these are
    not negative; otherwise it lies beyond them by half the width of their range.

    Examples
    --------
    >>> missing_codes(np.array([18.0, 65.0, 40.0, 33.0, -999.0, -999.0, -999.0]))
    [-999.0]
    """
    known = values[np.isfinite(values)]
    numbers, counts = np.unique(known, return_counts=True)
    often = counts >= max(_CODE_ROWS, _CODE_SHARE * len(known))
    codes = np.array([number for number in numbers[often] if _is_code(number)])
    while len(codes):
        others = np.setdiff1d(numbers, codes)
        if len(others) < _FEWEST_OTHERS:
            return []
        apart = np.array([_is_apart(code, others) for code in codes])
        if apart.all():
            break
        codes = codes[apart]
    return sorted(codes.tolist(), key=abs, reverse=True)


def _is_code(number: float) -> bool:
    digits = f"{abs(number):.15g}"
    if number == -1:
        return True
    return set(digits) in ({"7"}, {"8"}, {"9"}) and (number < 0 or len(digits) > 1)


def _is_apart(code: float, others: NDArray[np.float64]) -> bool:
    """Whether a code lies outside the other values, clearly."""
    low, high = others[0], others[-1]
    if code < 0 <= low:
        return len(others) >= 10 or abs(code) > high  # -1 may well be the other one of a few answers
    return bool(code < low - _APART * (high - low) or code > high + _APART * (high - low))


def far_values(values: NDArray[np.float64]) -> tuple[float, float, NDArray[np.float64]] | None:
    """The range of nearly all values, and the few that lie more than thirty times as far out; None without such."""
    known = values[np.isfinite(values)]
    if len(known) < 50:
        return None
    low, middle, high = np.quantile(known, [0.05, 0.5, 0.95])
    reach = high - low
    if not reach > 0:
        return None
    far = np.abs(known - middle) > 30 * reach
    if not far.any() or far.mean() > 0.05:
        return None
    near = known[~far]
    return float(near.min()), float(near.max()), known[far]


def total_row(frame: pd.DataFrame) -> str | None:
    """Why the last row of a table seems to hold totals; None where it does not.

    Examples
    --------
    >>> import pandas as pd
    >>> total_row(pd.DataFrame({"shop": ["a", "b", "c", "Summe"], "sold": [3, 4, 5, 12]}))
    "the last row has 'Summe' in column 'shop', and 'sold' is the sum of the rows above"
    """
    if len(frame) < 4:
        return None
    last, words, sums = frame.iloc[-1], list[str](), list[str]()
    for name, cell in last.items():
        if isinstance(cell, str) and _TOTAL.fullmatch(cell.strip()) and (frame[name].iloc[:-1] != cell).all():
            words.append(f"has {cell.strip()!r} in column {str(name)!r}")
    for name, column in frame.items():
        if column.dtype.kind not in "iuf":
            continue
        values = column.to_numpy(np.float64)
        above = values[:-1][np.isfinite(values[:-1])]
        if len(np.unique(above)) > 2 and np.isclose(values[-1], above.sum(), rtol=1e-9, atol=0) and values[-1] != 0:
            sums.append(str(name))
    if not words and len(sums) < 2:
        return None
    more = f" and {len(sums) - 1} more" if len(sums) > 1 else ""
    added = [f"{sums[0]!r}{more} {'are' if more else 'is'} the sum of the rows above"] if sums else []
    return f"the last row {', and '.join(words[:1] + added)}" if words else f"in the last row {added[0]}"
