"""Missing values inside an estimator: filled with the mean, and an indicator for each feature that lacks some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


@dataclass(frozen=True)
class MissingValues:
    """What was learned of missing values: the means of all features, and which of them had gaps.

    Examples
    --------
    >>> gaps = MissingValues.of(np.array([[1.0, 5.0], [np.nan, 7.0], [3.0, 6.0]]))
    >>> gaps.fill(np.array([[np.nan, 1.0]]))
    array([[2., 1., 1.]])
    >>> gaps.names(["age", "size"])
    ['age', 'size', 'age is missing']
    """

    means: NDArray[np.float64]
    gaps: NDArray[np.int64]

    @classmethod
    def of(cls, X: Any) -> MissingValues:
        """Learn from training rows; a feature that is missing everywhere is filled with 0."""
        if sparse.issparse(X):
            raise ValueError("missing='indicator' needs a dense X; in a sparse one an absent value is 0")
        absent = np.isnan(X)
        total = np.where(absent, 0.0, X).sum(axis=0, dtype=np.float64)
        return cls(total / np.maximum(1, (~absent).sum(axis=0)), np.flatnonzero(absent.any(axis=0)))

    def fill(self, X: Any) -> NDArray[Any]:
        """Rows with gaps filled, and the indicators behind."""
        if sparse.issparse(X):
            raise ValueError("missing='indicator' needs a dense X; in a sparse one an absent value is 0")
        absent = np.isnan(X)
        filled = np.where(absent, self.means.astype(X.dtype), X)
        return np.hstack([filled, absent[:, self.gaps].astype(X.dtype)])

    def names(self, features: Sequence[str]) -> list[str]:
        """Names of the columns that `fill` returns; an indicator's name that is taken gets a number.

        Examples
        --------
        >>> MissingValues(np.zeros(2), np.array([0])).names(["age", "age is missing"])
        ['age', 'age is missing', 'age is missing (2)']
        """
        names = dict.fromkeys(features)
        for gap in self.gaps:
            name = plain = f"{features[gap]} is missing"
            number = 1
            while name in names:
                number += 1
                name = f"{plain} ({number})"
            names[name] = None
        return list(names)
