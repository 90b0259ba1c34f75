"""Rows that refute a property, as a person can use them: few digits, from a table where one will do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treelu.cli.columns import ColumnQueries
from treelu.tree.queries.dates import MOST_ROWS, Broken
from treelu.tree.queries.limits import Limits

MOST_VALUES = 64  # of a column of numbers that are tried in each row of a table


def shortened(rows: np.ndarray, columns: ColumnQueries, limits: Limits, broken: Broken) -> np.ndarray:
    """The same rows with as few digits as still break the property."""
    free = ~limits.whole
    free[[place for name in columns.dates for place in columns.places[name]]] = False
    for digits in range(3, 12):
        with np.errstate(divide="ignore"):
            unit = 10.0 ** (np.floor(np.log10(np.maximum(np.abs(rows), 1e-300))) - digits + 1)
        short = np.where(free & (rows != 0), np.round(np.rint(rows / unit) * unit, 15), rows)
        if all(map(limits.holds, short)) and bool(broken(short[:1], short[-1:])[0]):
            return short
    return rows


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
