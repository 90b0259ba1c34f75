"""RowStore: encoded rows and their targets on disk, for tables larger than memory.

Rows are appended once, in pieces, and read back in blocks: what is in memory is one window of blocks, never the table.
Files are read, not mapped, so that the resident memory does not grow with what has been read.

    with RowStore.create("data", n_features=30) as store:      # removed at the end
        for X, y in pieces:
            store.append(X, y)
        model = LCNClassifier().fit(store)
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

BLOCK_ROWS = 4096  # rows that stay together when the rest is shuffled
WINDOW_BYTES = 64 * 2**20  # of the rows that are in memory at a time
MOST_CLASSES = 1000  # different targets; more are values
_PREFIX = ".treelu-rows-"


class Window(NamedTuple):
    """Some rows of a store, in memory: features (dense or CSR), targets and weights (None: all 1)."""

    X: Any
    y: NDArray[Any]
    weight: NDArray[np.float32] | None

    def take(self, rows: NDArray[np.int64]) -> Window:
        """Some of these rows."""
        X = self.X.iloc[rows] if hasattr(self.X, "iloc") else self.X[rows]
        return Window(X, self.y[rows], None if self.weight is None else self.weight[rows])


class BlockRows(ABC):
    """Rows outside memory that are read in blocks of `BLOCK_ROWS`; the last block may be shorter."""

    n_features: int
    is_sparse: bool = False

    @abstractmethod
    def __len__(self) -> int:
        """How many rows there are."""

    @property
    @abstractmethod
    def n_bytes(self) -> int:
        """What the rows take on disk."""

    @property
    @abstractmethod
    def classes(self) -> NDArray[Any] | None:
        """The distinct labels, sorted, where targets are classes."""

    @abstractmethod
    def read(self, blocks: NDArray[np.int64]) -> Window:
        """The rows of some blocks, in the order of the blocks."""

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, features)."""
        return len(self), self.n_features

    @property
    def n_blocks(self) -> int:
        """How many blocks there are."""
        return -(-len(self) // BLOCK_ROWS)

    def windows(self, rng: np.random.Generator) -> Iterator[Window]:
        """All rows in windows of `WINDOW_BYTES`, blocks in random order, pass after pass without end."""
        per_window = self.blocks_per_window
        while True:
            order = rng.permutation(self.n_blocks)
            for start in range(0, len(order), per_window):
                yield self.read(order[start : start + per_window])

    def windows_in_order(self) -> Iterator[Window]:
        """All rows once, in windows of `WINDOW_BYTES`."""
        for start in range(0, self.n_blocks, self.blocks_per_window):
            yield self.read(np.arange(start, min(start + self.blocks_per_window, self.n_blocks)))

    @property
    def blocks_per_window(self) -> int:
        """How many blocks are in memory at a time."""
        a_row = self.n_bytes / max(1, len(self)) if self.is_sparse else 4 * self.n_features
        return max(1, min(self.n_blocks, int(WINDOW_BYTES / (BLOCK_ROWS * max(1, a_row)))))

    def sample(self, n_rows: int, rng: np.random.Generator) -> Window:
        """Rows drawn from all blocks alike, about `n_rows`, or all where there are fewer; one pass over the files.

        A class that was not drawn is there by its first row.
        """
        if n_rows >= len(self):
            return self.read(np.arange(self.n_blocks))
        share, parts, missing = n_rows / len(self), [], set(() if self.classes is None else self.classes.tolist())
        for block in range(self.n_blocks):
            window = self.read(np.array([block]))
            taken = rng.choice(len(window.y), size=round(share * len(window.y)), replace=False)
            if missing:
                labels, first = np.unique(window.y, return_index=True)
                new = np.array([label in missing for label in labels.tolist()], bool)
                taken = np.union1d(taken, first[new])
                missing -= set(labels.tolist())
            parts.append(window.take(np.sort(taken)))
        return stacked(parts)


def stacked(parts: list[Window]) -> Window:
    """The rows of several windows, one below the other; DataFrames stay such."""
    features: list[Any] = [part.X for part in parts]
    weights = [part.weight for part in parts if part.weight is not None]
    if hasattr(features[0], "columns"):
        import pandas as pd

        X: Any = pd.concat(features)
    else:
        X = sparse.vstack(features).tocsr() if sparse.issparse(features[0]) else np.concatenate(features)
    return Window(
        X,
        np.concatenate([part.y for part in parts]),
        np.concatenate(weights) if weights else None,
    )


def spans_of(blocks: NDArray[np.int64], n_rows: int) -> list[tuple[int, int]]:
    """First row and the row after the last of each block."""
    return [(int(block) * BLOCK_ROWS, min((int(block) + 1) * BLOCK_ROWS, n_rows)) for block in blocks]


class MappedRows(BlockRows):
    """The rows of a memory-mapped array with targets (and weights) in memory.

    Examples
    --------
    >>> rows = MappedRows(np.eye(3, dtype=np.float32), np.array([1.0, 2.0, 3.0]))
    >>> rows.shape, rows.read(np.array([0])).y
    ((3, 3), array([1., 2., 3.]))
    """

    def __init__(self, X: NDArray[Any], y: NDArray[Any], weight: NDArray[Any] | None = None) -> None:
        self.X, self.y, self.weight, self.n_features = X, np.asarray(y), weight, X.shape[1]
        self._classes: NDArray[Any] | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_bytes(self) -> int:
        """What the rows take on disk."""
        return int(self.X.nbytes)

    @property
    def classes(self) -> NDArray[Any] | None:
        """The distinct targets, if they are few."""
        if self._classes is None and self.y.ndim == 1:
            self._classes = np.unique(self.y)
        return self._classes if self._classes is not None and len(self._classes) <= MOST_CLASSES else None

    def read(self, blocks: NDArray[np.int64]) -> Window:
        """The rows of some blocks, in the order of the blocks."""
        spans = spans_of(blocks, len(self))
        X = np.concatenate([np.array(self.X[start:stop], np.float32) for start, stop in spans])
        y = np.concatenate([self.y[start:stop] for start, stop in spans])
        weight = None
        if self.weight is not None:
            weight = np.concatenate([self.weight[start:stop] for start, stop in spans]).astype(np.float32)
        return Window(X, y, weight)


class RowStore(BlockRows):
    """Rows on disk: float32 features, dense or CSR, with targets and, where given, weights.

    Make one with `create`; it is removed when its ``with`` block ends. A store that a killed process has left behind
    is removed by the next `create` in the same folder.

    Attributes
    ----------
    folder : Path
        A hidden folder of its own.
    n_features : int
    is_sparse : bool
    classes : array or None
        The distinct labels, sorted, where targets are classes.

    Examples
    --------
    >>> with RowStore.create(tempfile.gettempdir(), n_features=2) as store:
    ...     store.append(np.eye(2), [0.5, 1.5])
    ...     store.append(np.ones((1, 2)), [2.5])
    ...     store.shape, store.read(np.array([0])).y
    ((3, 2), array([0.5, 1.5, 2.5]))
    """

    def __init__(self, folder: Path, n_features: int, *, is_sparse: bool, are_classes: bool) -> None:
        self.folder, self.n_features, self.is_sparse = folder, n_features, is_sparse
        self._lock = _hold(folder)
        self._files = {name: (folder / name).open("w+b", buffering=0) for name in ("values", "targets", "weights")}
        self._codes: dict[Any, int] | None = {} if are_classes else None
        self._row_starts = [np.zeros(1, np.int64)]
        if is_sparse:
            self._files["features"] = (folder / "features").open("w+b", buffering=0)
        self._n_rows, self._n_entries = 0, 0
        self._n_targets: tuple[int, int] | None = None  # dimensions of y, targets a row
        self._weighted: bool | None = None

    @classmethod
    def create(
        cls, parent: str | os.PathLike[str], n_features: int, *, is_sparse: bool = False, are_classes: bool = False
    ) -> RowStore:
        """An empty store in a new hidden folder below `parent`; leftovers of killed processes there are removed.

        Parameters
        ----------
        parent : path
            An existing folder on a disk with room for the rows.
        n_features : int
        is_sparse : bool
            Whether rows come as CSR matrices.
        are_classes : bool
            Whether targets are classes, of any type, and not values.
        """
        remove_leftovers(parent)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        return cls(folder, n_features, is_sparse=is_sparse, are_classes=are_classes)

    def __len__(self) -> int:
        return self._n_rows

    @property
    def n_bytes(self) -> int:
        """What the files hold."""
        return sum(os.fstat(file.fileno()).st_size for file in self._files.values())

    @property
    def classes(self) -> NDArray[Any] | None:
        """The distinct labels, sorted."""
        return None if self._codes is None else np.array(sorted(self._codes))

    # Writing

    def append(self, X: Any, y: Any, sample_weight: Any = None) -> None:
        """Add rows with their targets; finite numbers only. Weights are given with all pieces or with none.

        Examples
        --------
        >>> with RowStore.create(tempfile.gettempdir(), n_features=1, are_classes=True) as store:
        ...     store.append([[1.0], [2.0]], ["yes", "no"])
        ...     store.classes
        array(['no', 'yes'], dtype='<U3')
        """
        X = self._checked(X)
        targets = self._target_rows(y, X.shape[0])
        if self._weighted is not None and self._weighted != (sample_weight is not None):
            raise ValueError("sample_weight must be given with all pieces or with none")
        self._weighted = sample_weight is not None
        arrays = {"values": X.data if self.is_sparse else X, "targets": targets}
        if sample_weight is not None:
            arrays["weights"] = _checked_weight(sample_weight, X.shape[0])
        if self.is_sparse:
            arrays["features"] = X.indices.astype(np.int32)
        self._write(arrays)
        if self.is_sparse:
            self._row_starts.append(self._n_entries + X.indptr[1:].astype(np.int64))
            self._n_entries += X.nnz
        self._n_rows += X.shape[0]

    def _write(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Append to the files: all arrays, or none where the disk is full."""
        ends = {name: self._files[name].seek(0, os.SEEK_END) for name in arrays}
        try:
            for name, array in arrays.items():
                _write_all(self._files[name], array)
        except OSError as error:
            for name, end in ends.items():
                os.ftruncate(self._files[name].fileno(), end)
            raise OSError(error.errno, f"{error.strerror}; the rows take {self.n_bytes:,} bytes so far") from error

    def _checked(self, X: Any) -> Any:
        if self.is_sparse != bool(sparse.issparse(X)):
            raise ValueError(f"X must be {'a sparse matrix' if self.is_sparse else 'dense'}, as the store is")
        X = sparse.csr_array(X, dtype=np.float32) if self.is_sparse else np.ascontiguousarray(X, np.float32)
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise ValueError(f"X must have {self.n_features} columns, got shape {X.shape}")
        if not np.isfinite(X.data if self.is_sparse else X).all():
            raise ValueError("X must be finite in float32; fill missing values before they are stored")
        return X

    def _target_rows(self, y: Any, n_rows: int) -> NDArray[Any]:
        """Targets as they are written: class numbers in the order of arrival, or float64 values."""
        y = np.asarray(y)
        if len(y) != n_rows:
            raise ValueError(f"y must have {n_rows} targets, one for each row of X, got {len(y)}")
        if self._codes is not None:
            labels, numbers = np.unique(y, return_inverse=True)
            known = [self._codes.setdefault(label, len(self._codes)) for label in labels.tolist()]
            return np.array(known, np.int32)[numbers]
        y = np.asarray(y, np.float64)
        width = 1 if y.ndim == 1 else y.shape[1]
        if self._n_targets not in (None, (y.ndim, width)):
            raise ValueError("y must have as many targets a row as the pieces before")
        self._n_targets = (y.ndim, width)
        if not np.isfinite(y).all():
            raise ValueError("y must be finite")
        return y

    # Reading

    def read(self, blocks: NDArray[np.int64]) -> Window:
        """The rows of some blocks, in the order of the blocks."""
        spans = spans_of(blocks, self._n_rows)
        X = (
            self._read_sparse(spans)
            if self.is_sparse
            else self._read_rows("values", spans, np.float32, self.n_features)
        )
        weight = self._read_rows("weights", spans, np.float32, 1)[:, 0] if self._weighted else None
        return Window(X, self._read_targets(spans), weight)

    def _read_targets(self, spans: list[tuple[int, int]]) -> NDArray[Any]:
        if self._codes is not None:
            classes = self.classes
            assert classes is not None
            place = np.searchsorted(classes, np.array(list(self._codes)))  # from arrival to sorted order
            return classes[place[self._read_rows("targets", spans, np.int32, 1)[:, 0]]]
        ndim, width = self._n_targets or (1, 1)
        values = self._read_rows("targets", spans, np.float64, width)
        return values[:, 0] if ndim == 1 else values

    def _read_rows(self, name: str, spans: list[tuple[int, int]], dtype: Any, width: int) -> NDArray[Any]:
        """Rows of `width` numbers from one file, (n, width)."""
        out = np.empty((sum(stop - start for start, stop in spans), width), dtype)
        at = 0
        for start, stop in spans:
            part = out[at : at + stop - start]
            self._read_into(name, part, start * width * out.itemsize)
            at += stop - start
        return out

    def _read_sparse(self, spans: list[tuple[int, int]]) -> sparse.csr_array:
        starts = self._starts()
        counts = np.concatenate([np.diff(starts[start : stop + 1]) for start, stop in spans])
        data, indices = np.empty(counts.sum(), np.float32), np.empty(counts.sum(), np.int32)
        at = 0
        for start, stop in spans:
            first, last = int(starts[start]), int(starts[stop])
            self._read_into("values", data[at : at + last - first], first * 4)
            self._read_into("features", indices[at : at + last - first], first * 4)
            at += last - first
        row_starts = np.concatenate([[0], np.cumsum(counts)])
        return sparse.csr_array((data, indices, row_starts), shape=(len(counts), self.n_features))

    def _starts(self) -> NDArray[np.int64]:
        """Where each row's entries begin: 8 bytes a row, the only array that grows with a sparse store."""
        if len(self._row_starts) > 1:
            self._row_starts = [np.concatenate(self._row_starts)]
        return self._row_starts[0]

    def _read_into(self, name: str, out: NDArray[Any], offset: int) -> None:
        file = self._files[name]
        view = memoryview(out).cast("B") if out.size else memoryview(b"")
        done = 0
        while done < len(view):
            count = os.preadv(file.fileno(), [view[done:]], offset + done)
            if count == 0:
                raise OSError(f"{self.folder / name} is shorter than what was written")
            done += count

    # End

    def remove(self) -> None:
        """Close and delete the files; a second call does nothing."""
        for file in self._files.values():
            file.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def _checked_weight(weight: Any, n_rows: int) -> NDArray[np.float32]:
    weight = np.asarray(weight, np.float32)
    if weight.shape != (n_rows,) or not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError(f"sample_weight must be {n_rows} finite numbers from 0, one for each row of X")
    return weight


def remove_leftovers(parent: str | os.PathLike[str]) -> list[Path]:
    """Delete the stores below `parent` whose process has ended without removing them; returns their folders."""
    removed = []
    for folder in Path(parent).glob(f"{_PREFIX}*"):
        try:
            lock = os.open(folder / "lock", os.O_RDWR)
        except OSError:
            continue  # being made or removed at this moment, or not ours
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        else:
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder)
        finally:
            os.close(lock)
    return removed


def _write_all(file: Any, array: NDArray[Any]) -> None:
    view = memoryview(np.ascontiguousarray(array)).cast("B") if array.size else memoryview(b"")
    while view:
        view = view[file.write(view) :]


def _hold(folder: Path) -> int:
    """A lock that lasts as long as this process."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock
