"""Rows that refute a property with dates that exist: a search takes the features of a date for independent.

The year, the month and the days since 1970 of a row that a search finds may be those of no date. Here they become the
features of one moment, while the row, or the pair of rows, still breaks the property.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from treelu.tree.queries.columns import DAYS, ColumnFeatures
from treelu.tree.queries.limits import Limits

Broken = Callable[[np.ndarray, np.ndarray], np.ndarray]  # first and second rows (n, n_features) → which break it
MOST_ROWS = 2_000  # of a table that are tried
MOST_DATES = 50_000


def with_real_dates(
    rows: np.ndarray,
    columns: ColumnFeatures,
    limits: Limits,
    broken: Broken,
    apart: Collection[str] = (),
    names: Collection[str] | None = None,
) -> np.ndarray | None:
    """The same rows with dates that exist, where the property is still broken; None where none was found.

    Two rows have the same date, but for the columns `apart`; `names` are the columns to change, by default all.
    """
    rows = rows.copy()
    for name in columns.dates if names is None else names:
        moments = real_dates(name, columns, limits)
        places = columns.places[name][: moments.shape[1]]
        days = columns.dates[name].parts.index(DAYS)
        for changed in ([0], [1]) if name in apart and len(rows) == 2 else ([*range(len(rows))],):
            first, second = (np.repeat(row[None], len(moments), axis=0) for row in (rows[0], rows[-1]))
            if 0 in changed:
                first[:, places] = moments
            if len(rows) - 1 in changed:
                second[:, places] = moments
            fine = np.flatnonzero(broken(first, second))
            if not len(fine):
                return None
            nearest = fine[np.abs(moments[fine, days] - rows[changed[0], places[days]]).argmin()]
            rows[np.ix_(changed, places)] = moments[nearest]
    return rows


def real_dates(name: str, columns: ColumnFeatures, limits: Limits) -> np.ndarray:
    """The features of days, or of hours, within the ranges of a date column: one row for each, ascending."""
    column = columns.dates[name]
    places = columns.places[name][: len(column.parts)]
    days = places[column.parts.index(DAYS)]
    low, high = float(limits.low[days]), float(limits.high[days])
    low, high = (-25_567.0 if np.isinf(low) else low), (47_482.0 if np.isinf(high) else high)  # 1900 to 2099
    per_day = 24 if "hour" in column.parts and 24 * (high - low) < MOST_DATES else 1
    ticks = np.unique(np.r_[low, np.arange(np.ceil(low * per_day), np.floor(high * per_day) + 1) / per_day, high])
    ticks = ticks[np.unique(np.linspace(0, len(ticks) - 1, min(len(ticks), MOST_DATES)).astype(int))]
    found = column.features_of((np.rint(ticks * 86_400).astype(np.int64) * 1_000_000).astype("datetime64[us]"))
    inside = (limits.low[places] <= found) & (found <= limits.high[places])
    return found[inside.all(axis=1)]


def between_dates(
    bases: np.ndarray, name: str, columns: ColumnFeatures, limits: Limits, value: Callable[[np.ndarray], np.ndarray],
    sign: int,
) -> np.ndarray | None:  # fmt: skip
    """A row at two dates that break a property: the later one has the lower value (sign 1), the higher (−1), or
    another (0); None where no row has such dates.
    """
    moments = real_dates(name, columns, limits)
    places = columns.places[name][: moments.shape[1]]
    for base in bases[:MOST_ROWS]:
        rows = np.repeat(base[None], len(moments), axis=0)
        rows[:, places] = moments
        outputs = value(rows)
        if sign:
            best = np.maximum.accumulate(sign * outputs)
            later = np.flatnonzero(sign * outputs < best)
            pair = (int((sign * outputs[: later[0]]).argmax()), int(later[0])) if len(later) else None
        else:
            others = np.flatnonzero(outputs != outputs[0])
            pair = (0, int(others[0])) if len(others) else None
        if pair is not None:
            return rows[list(pair)]
    return None
