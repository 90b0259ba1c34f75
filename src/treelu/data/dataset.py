"""Rows with their targets, as training and evaluation take them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treelu.data.targets import Targets
from treelu.nn import Rows, Table

EVALUATION_ROWS = 8192  # rows evaluated at once: bounds the memory


@dataclass(frozen=True)
class Dataset:
    """The rows `index` of a table with their targets; all rows where `index` is None.

    Examples
    --------
    >>> import numpy as np
    >>> from treelu.data.targets import Targets
    >>> from treelu.nn import Table
    >>> X = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
    >>> sample = Dataset(Table(X), Targets("regression", X[:, :1], 1))
    >>> len(sample), [len(rows.index) for rows in sample.blocks()]
    (20, [20])
    """

    table: Table
    targets: Targets
    index: NDArray[np.int64] | None = None

    @property
    def rows(self) -> NDArray[np.int64]:
        return np.arange(self.table.shape[0]) if self.index is None else self.index

    def __len__(self) -> int:
        return self.table.shape[0] if self.index is None else len(self.index)

    def blocks(self) -> Iterator[Rows]:
        """The rows, at most `EVALUATION_ROWS` at a time."""
        return row_blocks(self.table, self.index)


def row_blocks(table: Table, index: NDArray[np.int64] | None = None, at_once: int = EVALUATION_ROWS) -> Iterator[Rows]:
    """The rows `index` of a table (or all), at most `at_once` at a time.

    Examples
    --------
    >>> [len(rows.index) for rows in row_blocks(Table(np.zeros((5, 2), "float32")), at_once=2)]
    [2, 2, 1]
    """
    n_rows = table.shape[0] if index is None else len(index)
    for start in range(0, n_rows, at_once):
        stop = min(start + at_once, n_rows)
        yield table.rows(np.arange(start, stop) if index is None else index[start:stop])
