"""Missing values: filled with a number, and an indicator for each column that lacks some.

Estimators with ``missing="indicator"``, number columns of tables and trees that read rows with NaN fill by this rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class MissingValues:
    """How missing values are filled: a number for each column, and the columns that have an indicator.

    Models saved by version 0.1 fill with the mean of the training rows.

    Attributes
    ----------
    fills : array of shape (n_columns,)
        What fills each column; NaN where a missing value is an error.
    gaps : integer array
        The columns that have an indicator, which is 1 where the value is missing. Indicators follow the columns.

    Examples
    --------
    >>> missing = MissingValues.of(np.array([[1.0, 5.0], [np.nan, 7.0], [3.0, 6.0], [9.0, 6.0]]))
    >>> missing.fill(np.array([[np.nan, 1.0]]))
    array([[3., 1., 1.]])
    >>> missing.names(["age", "size"])
    ['age', 'size', 'age is missing']
    """

    fills: NDArray[np.float64]
    gaps: NDArray[np.int64]

    @classmethod
    def of(cls, X: Any) -> MissingValues:
        """Learn from training rows: medians; a feature that is missing everywhere is filled with 0."""
        absent = _absent(X)
        known = [column[~gap] for column, gap in zip(X.T, absent.T, strict=True)]
        fills = np.array([np.median(values) if len(values) else 0.0 for values in known], np.float64)
        return cls(fills, np.flatnonzero(absent.any(axis=0)))

    @property
    def n_columns(self) -> int:
        """How many columns `fill` returns: the features, and the indicators."""
        return len(self.fills) + len(self.gaps)

    @property
    def indicators(self) -> NDArray[np.int64]:
        """Where the indicators stand among the columns that `fill` returns."""
        return np.arange(len(self.fills), self.n_columns)

    def fill(self, X: Any) -> NDArray[Any]:
        """Rows with missing values filled, followed by the indicator columns."""
        absent = _absent(X)
        filled = np.where(absent, self.fills.astype(X.dtype), X) if absent.any() else X
        return np.hstack([filled, absent[:, self.gaps].astype(X.dtype)])

    def per_column(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Shares of the columns that `fill` returns, each indicator's added to that of its column.

        Examples
        --------
        >>> MissingValues(np.zeros(2), np.array([1])).per_column(np.array([0.5, 0.25, 0.25]))
        array([0.5, 0.5])
        """
        total = shares[: len(self.fills)].copy()
        total[self.gaps] += shares[len(self.fills) :]
        return total

    def names(self, features: Sequence[str] | None) -> list[str]:
        """Names of the columns that `fill` returns; an indicator's name that is taken gets a number.

        Examples
        --------
        >>> MissingValues(np.zeros(2), np.array([0])).names(["age", "age is missing"])
        ['age', 'age is missing', 'age is missing (2)']
        >>> MissingValues(np.zeros(2), np.array([0])).names(None)
        ['x0', 'x1', 'x0 is missing']
        """
        features = [f"x{i}" for i in range(len(self.fills))] if features is None else list(features)
        names = dict.fromkeys(features)
        for gap in self.gaps:
            name = plain = f"{features[gap]} is missing"
            number = 1
            while name in names:
                number += 1
                name = f"{plain} ({number})"
            names[name] = None
        return list(names)


def _absent(X: Any) -> NDArray[np.bool_]:
    if hasattr(X, "tocsr"):
        raise ValueError("missing='indicator' needs a dense X; in a sparse one an absent value is 0")
    return np.isnan(X)
