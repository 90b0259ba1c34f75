"""Rows that refute a property, as a person can use them: real dates, few digits, from a table where one will do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from treelu.cli.columns import ColumnQueries
from treelu.tables.dates import DAYS, date_parts
from treelu.tree.queries.limits import Limits

Broken = Callable[[np.ndarray, np.ndarray], np.ndarray]  # first and second rows (n, n_features) → which break it
MOST_VALUES = 64  # of a column of numbers that are tried in each row of a table
MOST_ROWS = 2_000  # of a table that are tried
MOST_DATES = 50_000


def with_real_dates(rows: np.ndarray, columns: ColumnQueries, limits: Limits, broken: Broken) -> np.ndarray | None:
    """The same rows with dates that exist, where the property is still broken; None where none was found.

    Features of a date that the search took for independent, such as year and month, become those of one moment.
    """
    rows = rows.copy()
    for name in columns.dates:
        moments = real_dates(name, columns, limits)
        places = columns.places[name][: moments.shape[1]]
        first, second = (np.repeat(row[None], len(moments), axis=0) for row in (rows[0], rows[-1]))
        first[:, places] = second[:, places] = moments
        fine = np.flatnonzero(broken(first, second))
        if not len(fine):
            return None
        days = columns.dates[name].parts.index(DAYS)
        nearest = fine[np.abs(moments[fine, days] - rows[0, places[days]]).argmin()]
        rows[:, places] = moments[nearest]
    return rows


def real_dates(name: str, columns: ColumnQueries, limits: Limits) -> np.ndarray:
    """The features of days, or of hours, within the ranges of a date column: one row for each, ascending."""
    parts = columns.dates[name].parts
    places = columns.places[name][: len(parts)]
    days = places[parts.index(DAYS)]
    low, high = float(limits.low[days]), float(limits.high[days])
    low, high = (-25_567.0 if np.isinf(low) else low), (47_482.0 if np.isinf(high) else high)  # 1900 to 2099
    per_day = 24 if "hour" in parts and 24 * (high - low) < MOST_DATES else 1
    ticks = np.unique(np.r_[low, np.arange(np.ceil(low * per_day), np.floor(high * per_day) + 1) / per_day, high])
    ticks = ticks[np.unique(np.linspace(0, len(ticks) - 1, min(len(ticks), MOST_DATES)).astype(int))]
    moments = (np.rint(ticks * 86_400).astype(np.int64) * 1_000_000).astype("datetime64[us]")
    found = date_parts(moments, parts)
    inside = (limits.low[places] <= found) & (found <= limits.high[places])
    return found[inside.all(axis=1)]


def shortened(rows: np.ndarray, columns: ColumnQueries, limits: Limits, broken: Broken) -> np.ndarray:
    """The same rows with as few digits in each column of numbers as still break the property."""
    free = ~limits.whole
    free[[place for name in columns.dates for place in columns.places[name]]] = False
    for place in np.flatnonzero(free & (rows != 0).any(axis=0)):
        for values in _shorter(rows[:, place]):
            short = rows.copy()
            short[:, place] = values
            if all(map(limits.holds, short)) and bool(broken(short[:1], short[-1:])[0]):
                rows = short
                break
    return rows


def _shorter(values: np.ndarray) -> Iterator[np.ndarray]:
    """Numbers with few digits, then with more: the nearest, those below and those above; equal ones stay equal."""
    for digits in range(2, 12):
        with np.errstate(divide="ignore"):
            unit = 10.0 ** (np.floor(np.log10(np.maximum(np.abs(values), 1e-300))) - digits + 1)
        for rounded in (np.rint, np.floor, np.ceil):
            yield np.where(values != 0, np.round(rounded(values / unit) * unit, 15), values)


def from_table(
    X: np.ndarray, values: Sequence[np.ndarray], places: Sequence[int], limits: Limits, broken: Broken, ordered: bool
) -> np.ndarray | None:
    """A row of a table, and the same row with other values of some features, that break a property; None without such.

    ``values``: what these features may be, each of the length of ``places``; where ``ordered``, in rising order.
    """
    options = np.array(values, dtype=float).reshape(-1, len(places))
    for x in X[:MOST_ROWS]:
        around = limits.around(x)
        first, second = np.repeat(x[None], len(options), axis=0), np.repeat(x[None], len(options), axis=0)
        second[:, places] = options
        if ordered:  # the one with the lower value is the first
            lower = options[:, 0] < x[places[0]]
            first[lower], second[lower] = second[lower], first[lower].copy()
            differs = options[:, 0] != x[places[0]]
        else:
            differs = (options != x[places]).any(axis=1)
        fine = np.flatnonzero(differs & broken(first, second))
        for k in fine[np.argsort(np.abs(options[fine] - x[places]).sum(axis=1), kind="stable")]:
            if around.holds(first[k]) and around.holds(second[k]):
                return np.stack([first[k], second[k]])
    return None


def between_dates(
    bases: np.ndarray, name: str, columns: ColumnQueries, limits: Limits, value: Callable[[np.ndarray], np.ndarray],
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
