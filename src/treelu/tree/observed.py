"""What the training rows held: ranges of the features, integers, and one-hot groups. Queries stay within it by default.

A tree predicts for any row, also for one of 300 years or of 0.23 gigabytes. Such a row is no answer for a person, so a
query looks among rows as the training rows were.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from treelu.tree.missing import MissingValues

_BLOCK = 2**16  # entries that are looked at at once
_SAMPLE = 500  # rows in which one-hot groups are looked for, before all rows are
_MOST_BINARY = 4_096  # features of 0 and 1 beyond which they are not looked for


@dataclass(frozen=True, eq=False)
class Observed:
    """What the training rows held, feature by feature.

    Attributes
    ----------
    low, high : float arrays of shape (n_features,)
        The least and the greatest value; infinite where not known.
    integers : bool array of shape (n_features,)
        Whether all values were integers.
    groups : tuple of int tuples
        One-hot groups: neighbouring features of which exactly one was 1 in every row, and the others 0.

    Examples
    --------
    >>> observed = Observed.of([[18, 1.5, 0, 1], [70, 2.0, 1, 0], [44, 2.5, 1, 0]])
    >>> observed.low, observed.high
    (array([18. ,  1.5,  0. ,  0. ]), array([70. ,  2.5,  1. ,  1. ]))
    >>> observed.integers
    array([ True, False,  True,  True])
    >>> observed.groups
    ((2, 3),)
    """

    low: np.ndarray
    high: np.ndarray
    integers: np.ndarray
    groups: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        low, high = (np.asarray(ends, dtype=np.float64) for ends in (self.low, self.high))
        integers = np.asarray(self.integers)
        if low.ndim != 1 or not low.shape == high.shape == integers.shape or integers.dtype != bool:
            raise ValueError(
                "observed: low, high and integers (bool) must be vectors of one length, got shapes "
                f"{low.shape}, {high.shape} and {integers.shape} ({integers.dtype})"
            )
        if not (low <= high).all():
            feature = int(np.flatnonzero(~(low <= high))[0])
            raise ValueError(
                f"observed: low must not exceed high, got {low[feature]} and {high[feature]} at index {feature}"
            )
        groups = tuple(tuple(int(j) for j in group) for group in self.groups)
        members = [j for group in groups for j in group]
        fine = all(len(group) > 1 for group in groups) and all(0 <= j < len(low) for j in members)
        if not fine or len(set(members)) < len(members):
            raise ValueError(
                f"observed.groups must be disjoint, of two features or more from 0 to {len(low) - 1}, got {groups!r}"
            )
        for name, value in (("low", low), ("high", high), ("integers", integers)):
            value = value.copy()
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        object.__setattr__(self, "groups", groups)

    def __len__(self) -> int:
        return len(self.low)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Observed):
            return NotImplemented
        pairs = ((self.low, other.low), (self.high, other.high), (self.integers, other.integers))
        return self.groups == other.groups and all(np.array_equal(mine, its) for mine, its in pairs)

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(cls, X: Any, missing: MissingValues | None = None) -> Observed:
        """Look at training rows; with ``missing``, rows that are filled and have its indicators.

        A missing value was not observed: what fills it does not count.
        """
        given: Any = X
        rows = given.tocsr() if sparse.issparse(X) else np.asarray(X)
        if rows.ndim != 2 or not rows.shape[0]:
            raise ValueError(f"X must have rows, got shape {rows.shape}")
        low, high, integers = _of_sparse(rows) if sparse.issparse(rows) else _of_dense(rows, missing)
        last = rows.shape[1] if missing is None else len(missing.fills)
        binary = np.flatnonzero(integers[:last] & (low[:last] >= 0) & (high[:last] <= 1) & (low[:last] < high[:last]))
        return cls(low, high, integers, _one_hot_groups(rows, binary.tolist()))

    def joined(self, other: Observed) -> Observed:
        """What these rows and others held together.

        Examples
        --------
        >>> both = Observed.of([[1], [3]]).joined(Observed.of([[2.5], [9]]))
        >>> both.low, both.high, both.integers
        (array([1.]), array([9.]), array([False]))
        """
        groups = tuple(group for group in self.groups if group in other.groups)
        return Observed(
            np.minimum(self.low, other.low), np.maximum(self.high, other.high), self.integers & other.integers, groups
        )

    def holds(self, X: Any) -> np.ndarray:
        """Which rows lie within: bool (n_rows,).

        Examples
        --------
        >>> Observed.of([[1, 0.5], [6, 0.7]]).holds([[3, 0.6], [3.5, 0.6], [7, 0.6]])
        array([ True, False, False])
        """
        X = np.asarray(X, dtype=np.float64)
        inside = ((self.low <= X) & (self.high >= X)).all(axis=1)
        inside &= (X[:, self.integers] == np.rint(X[:, self.integers])).all(axis=1)
        for group in self.groups:
            inside &= X[:, list(group)].sum(axis=1) == 1
        return inside


def _of_dense(X: np.ndarray, missing: MissingValues | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The least and the greatest value of each column, and whether all are integers."""
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    integers = np.ones(X.shape[1], dtype=bool)
    gaps = np.zeros(0, dtype=int) if missing is None else missing.gaps
    integers[gaps] = False
    step = max(1, _BLOCK // max(X.shape[1], 1))
    for start in range(0, len(X), step):
        maybe = np.flatnonzero(integers)
        block = X[start : start + step]
        block = block if len(maybe) == X.shape[1] else block[:, maybe]
        integers[maybe] = (block == np.rint(block)).all(axis=0)
    if missing is not None:
        for gap, indicator in zip(gaps, missing.indicators, strict=True):
            known = X[X[:, indicator] == 0, gap]
            if len(known):
                low[gap], high[gap], integers[gap] = known.min(), known.max(), bool((known == np.rint(known)).all())
    return low, high, integers


def _of_sparse(X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of a CSR matrix, a block of rows at a time: its least values would be looked for in a copy of it."""
    n_rows, n_features = X.shape
    low, high = np.full(n_features, np.inf), np.full(n_features, -np.inf)
    integers = np.ones(n_features, dtype=bool)
    step = max(1, max(_BLOCK, n_features) * n_rows // max(X.nnz, 1))
    for start in range(0, n_rows, step):
        block = X[start : start + step]
        low = np.minimum(low, block.min(axis=0).toarray().ravel())
        high = np.maximum(high, block.max(axis=0).toarray().ravel())
        integers[block.indices[block.data != np.rint(block.data)]] = False
    return low, high, integers


def _one_hot_groups(X: Any, binary: list[int]) -> tuple[tuple[int, ...], ...]:
    """Neighbouring columns of 0 and 1 of which exactly one is 1 in every row: found on some rows, checked on all."""
    if not 2 <= len(binary) <= _MOST_BINARY:
        return ()
    n_rows = min(X.shape[0], _SAMPLE)
    places = np.linspace(0, X.shape[0] - 1, n_rows).astype(int)
    columns = sparse.csc_array(X[places][:, binary])
    columns.eliminate_zeros()
    ones = np.split(columns.indices, columns.indptr[1:-1])
    groups: list[tuple[int, ...]] = []
    count, total, first = np.zeros(n_rows, dtype=int), 0, 0
    for k in range(len(binary)):
        if k > first and binary[k] != binary[k - 1] + 1:  # other columns lie between
            count[:], total, first = 0, 0, k
        count[ones[k]] += 1
        total += len(ones[k])
        while (count[ones[k]] > 1).any():  # the window's first columns overlap with this one
            count[ones[first]] -= 1
            total -= len(ones[first])
            first += 1
        if total == n_rows:
            group = binary[first : k + 1]
            if len(group) > 1 and _exactly_one(X, group):
                groups.append(tuple(group))
            count[:], total, first = 0, 0, k + 1
    return tuple(groups)


def _exactly_one(X: Any, group: list[int]) -> bool:
    """Whether each row has exactly one 1 in a group of columns, a block of rows at a time."""
    step = max(1, _BLOCK // 8)
    blocks = (X[start : start + step][:, group] for start in range(0, X.shape[0], step))
    return all(bool((np.asarray(block.sum(axis=1)).ravel() == 1).all()) for block in blocks)
