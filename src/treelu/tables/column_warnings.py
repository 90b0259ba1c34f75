"""Warnings about columns that can be read: outliers, lost digits, two spellings of one category."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from treelu.tables.columns import Note, TextColumn, alike
from treelu.tables.dates import mixed_dates
from treelu.tables.numbers import NumberFormat, beyond_floats, to_numbers

if TYPE_CHECKING:
    import pandas as pd


def warn_of_outliers(column: pd.Series, style: NumberFormat, warn: Note) -> None:
    """Warn where a few values lie far from all others."""
    values, _ = to_numbers(column, style)
    found = far_values(values)
    if found is not None:
        low, high, far = found
        warn(
            f"column {column.name!r}: {len(far):,} of {len(values):,} values lie far from the others, such as "
            f"{far[0]:.6g} (nearly all are from {low:.6g} to {high:.6g}); typing errors?"
        )


def warn_of_rounding(column: pd.Series, warn: Note) -> None:
    """Warn where integers have more digits than a float keeps."""
    large = beyond_floats(column)
    if len(large):
        warn(
            f"column {column.name!r}: numbers such as {large[0]} have more digits than are kept; "
            f"--text {quote(str(column.name))} if they are codes"
        )


def warn_of_spellings(column: pd.Series, learned: TextColumn, warn: Note) -> None:
    """Warn where categories differ only in case, and where dates are written in several ways."""
    pair = alike(learned.categories)
    if pair is not None:
        warn(
            f"column {column.name!r}: {pair[0]!r} and {pair[1]!r} are two categories; write them alike if they are one"
        )
    dates = mixed_dates(column)
    if dates is not None:
        warn(
            f"column {column.name!r} seems to hold dates, written in several ways ({dates[0]!r}, {dates[1]!r}); "
            "write them alike, so that they are read as dates"
        )


def far_values(values: NDArray[np.float64]) -> tuple[float, float, NDArray[np.float64]] | None:
    """The range of nearly all values, and the few that lie more than thirty times as far out; None if there are none.

    Examples
    --------
    >>> far_values(np.r_[np.arange(200.0), 1e9])
    (0.0, 199.0, array([1.e+09]))
    """
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
