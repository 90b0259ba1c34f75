"""Rows that refute a property, as a person can use them: few digits, from a table where one will do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from treelu.tree.queries.columns import ColumnFeatures
from treelu.tree.queries.dates import MOST_ROWS, Broken
from treelu.tree.queries.limits import Limits

MOST_VALUES = 64  # of a column of numbers that are tried in each row of a table


def shortened(rows: np.ndarray, columns: ColumnFeatures, limits: Limits, broken: Broken) -> np.ndarray:
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
