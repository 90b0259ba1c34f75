"""Rows outside memory, read in blocks: windows of them in random order, and samples."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treelu.tree.rows import dense, is_frame, take_rows

BLOCK_ROWS = 4096  # rows that stay together when the rest is shuffled
WINDOW_BYTES = 64 * 2**20  # of the rows that are in memory at a time
LEAST_STEPS = 1000  # of float32's rounding between the ends of a column
MOST_CLASSES = 1000  # different targets; more are values
NO_ROWS = np.zeros(0, np.int64)


class Window(NamedTuple):
    """Some rows of a store, in memory: features (dense or CSR), targets and weights (None: all 1)."""

    X: Any
    y: NDArray[Any]
    weight: NDArray[np.float32] | None

    def take(self, rows: NDArray[np.int64]) -> Window:
        """Some of these rows."""
        return Window(take_rows(self.X, rows), self.y[rows], None if self.weight is None else self.weight[rows])


class BlockRows(ABC):
    """Rows outside memory that are read in blocks of `BLOCK_ROWS`; the last block may be shorter."""

    n_features: int

    @abstractmethod
    def __len__(self) -> int:
        """How many rows there are."""

    @property
    @abstractmethod
    def classes(self) -> NDArray[Any] | None:
        """The distinct labels, sorted, where targets are classes."""

    @property
    @abstractmethod
    def first_rows(self) -> NDArray[np.int64]:
        """The number of the first row of each class; none where targets are values."""

    @abstractmethod
    def read_spans(self, spans: Sequence[tuple[int, int]]) -> Window:
        """The rows of some spans, in their order; a span is its first row and the row after its last."""

    def read(self, blocks: NDArray[np.int64]) -> Window:
        """The rows of some blocks, in the order of the blocks."""
        return self.read_spans(self._spans(blocks))

    def _spans(self, blocks: NDArray[np.int64]) -> list[tuple[int, int]]:
        starts = (BLOCK_ROWS * blocks).tolist()
        return [(start, min(start + BLOCK_ROWS, len(self))) for start in starts]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.n_features

    @property
    def n_blocks(self) -> int:
        return -(-len(self) // BLOCK_ROWS)

    def windows(self, rng: np.random.Generator, without: NDArray[np.int64] = NO_ROWS) -> Iterator[Window]:
        """All rows in windows of `WINDOW_BYTES`, blocks in random order, pass after pass without end.

        The rows whose (sorted) numbers are in `without`, not all of them, are left out; no window is empty.
        """
        per_window = self.blocks_per_window
        while True:
            order = rng.permutation(self.n_blocks)
            for start in range(0, len(order), per_window):
                spans = self._spans(order[start : start + per_window])
                window = self.read_spans(spans)
                if len(without):
                    numbers = np.concatenate([np.arange(*span) for span in spans])
                    window = window.take(np.flatnonzero(~np.isin(numbers, without)))
                if len(window.y):
                    yield window

    def windows_in_order(self) -> Iterator[Window]:
        """All rows once, in windows of `WINDOW_BYTES`."""
        for start in range(0, self.n_blocks, self.blocks_per_window):
            yield self.read(np.arange(start, min(start + self.blocks_per_window, self.n_blocks)))

    @property
    def blocks_per_window(self) -> int:
        """How many blocks are in memory at a time."""
        return max(1, min(self.n_blocks, int(WINDOW_BYTES / (BLOCK_ROWS * max(1, self.row_bytes)))))

    @property
    def row_bytes(self) -> float:
        """Size of a row in memory, about."""
        return 4 * self.n_features

    def sample(self, n_rows: int, rng: np.random.Generator, without: NDArray[np.int64] = NO_ROWS) -> Window:
        """`n_rows` rows drawn at random, or all where there are fewer, none of those in `without`.

        The first row of each class is among them.
        """
        if n_rows >= len(self) and not len(without):
            return self.read(np.arange(self.n_blocks))
        numbers = rng.choice(len(self), min(len(self), n_rows + len(without)), replace=False)
        numbers = numbers[~np.isin(numbers, without)][:n_rows]
        return self.take(np.union1d(numbers, self.first_rows))

    def take(self, numbers: NDArray[np.int64]) -> Window:
        return self.read_spans([(number, number + 1) for number in numbers.tolist()])


def stacked(parts: list[Window]) -> Window:
    """The rows of several windows, one below the other."""
    weights = [part.weight for part in parts if part.weight is not None]
    y = np.concatenate([part.y for part in parts])
    return Window(stacked_rows([part.X for part in parts]), y, np.concatenate(weights) if weights else None)


def stacked_rows(parts: Sequence[Any]) -> Any:
    """The rows of several tables of features, one below the other, all of the kind of the first."""
    if is_frame(parts[0]):
        import pandas as pd

        return pd.concat(parts)
    return sparse.vstack(parts).tocsr() if sparse.issparse(parts[0]) else np.concatenate(list(map(dense, parts)))


class Ranges:
    """The smallest and the largest value of each column so far, to tell whether float32 keeps their differences."""

    def __init__(self) -> None:
        self.low: Any = np.inf
        self.high: Any = -np.inf

    def add(self, X: NDArray[Any]) -> None:
        """Look at some dense rows; those of float32 have lost nothing."""
        if len(X) and X.dtype != np.float32:
            self.low, self.high = np.fmin(self.low, np.fmin.reduce(X)), np.fmax(self.high, np.fmax.reduce(X))

    def warn(self, names: Sequence[str] | None) -> None:
        """Warn of columns whose differences are lost in float32, and forget what was seen."""
        low, high = np.atleast_1d(self.low), np.atleast_1d(self.high)
        self.low, self.high = np.inf, -np.inf
        with np.errstate(over="ignore", invalid="ignore"):
            step = np.spacing(np.fmax(np.abs(low), np.abs(high)).astype(np.float32)).astype(np.float64)
            lost = np.flatnonzero((low < high) & (high - low < LEAST_STEPS * step))
        for place in lost.tolist():
            name = f"column {place}" if names is None else repr(names[place])
            warnings.warn(
                f"{name} has values from {low[place]:.12g} to {high[place]:.12g}; rows outside memory are held in "
                f"float32, which rounds them to multiples of {step[place]:.3g}: subtract a constant first",
                stacklevel=3,
            )


class MappedRows(BlockRows):
    """The rows of a memory-mapped array with targets (and weights) in memory."""

    def __init__(self, X: NDArray[Any], y: NDArray[Any], weight: NDArray[Any] | None = None) -> None:
        self.X, self.y, self.weight, self.n_features = X, np.asarray(y), weight, X.shape[1]
        self._is_unread = True

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def classes(self) -> NDArray[Any] | None:
        return self._distinct[0] if self.y.ndim == 1 and len(self._distinct[0]) <= MOST_CLASSES else None

    @property
    def first_rows(self) -> NDArray[np.int64]:
        return NO_ROWS if self.classes is None else np.sort(self._distinct[1])

    @cached_property
    def _distinct(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        return np.unique(self.y, return_index=True)

    def read_spans(self, spans: Sequence[tuple[int, int]]) -> Window:
        if self._is_unread:  # the first window is a sample of all rows
            self._is_unread, ranges = False, Ranges()
            for start, stop in spans:
                ranges.add(self.X[start:stop])
            ranges.warn(None)
        X = np.concatenate([np.array(self.X[start:stop], np.float32) for start, stop in spans])
        y = np.concatenate([self.y[start:stop] for start, stop in spans])
        weights = [] if self.weight is None else [self.weight[start:stop] for start, stop in spans]
        return Window(X, y, np.concatenate(weights).astype(np.float32) if weights else None)
