"""RowStore: encoded rows and their targets on disk, for tables larger than memory.

Rows are appended once, in pieces, and read back in blocks: what is in memory is one window of blocks, never the table.
Files are read, not mapped, so that the resident memory does not grow with what has been read.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treelu.data.blocks import BlockRows, Ranges, Window
from treelu.data.encoding import refuse_invalid_targets
from treelu.tree.rows import refuse_mask

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PREFIX, LOCK = ".treelu-rows-", "lock"


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
    feature_names : tuple of str, or None
        The columns of the first piece, where pieces are DataFrames; rows are then read as such.

    Examples
    --------
    >>> import tempfile
    >>> with RowStore.create(tempfile.gettempdir(), n_features=2) as store:
    ...     store.append(np.eye(2), [0.5, 1.5])
    ...     store.append(np.ones((1, 2)), [2.5])
    ...     store.shape, store.read(np.array([0])).y
    ((3, 2), array([0.5, 1.5, 2.5]))
    """

    def __init__(
        self, folder: Path, lock: int, n_features: int, *, is_sparse: bool, are_classes: bool, may_miss: bool
    ) -> None:
        self.folder, self.n_features, self.is_sparse, self.may_miss = folder, n_features, is_sparse, may_miss
        self.feature_names: tuple[str, ...] | None = None
        self._lock = lock
        self._files = {name: (folder / name).open("w+b", buffering=0) for name in ("values", "targets", "weights")}
        self._codes: dict[Any, int] | None = {} if are_classes else None
        self._first_rows: list[int] = []  # of each class, in the order of arrival
        self._row_starts = [np.zeros(1, np.int64)]
        if is_sparse:
            self._files["features"] = (folder / "features").open("w+b", buffering=0)
        self._n_rows, self._n_entries = 0, 0
        self._ranges = Ranges()
        self._n_targets: tuple[int, int] | None = None  # dimensions of y, targets a row
        self._weighted: bool | None = None

    @classmethod
    def create(
        cls,
        parent: str | os.PathLike[str],
        n_features: int,
        *,
        is_sparse: bool = False,
        are_classes: bool = False,
        may_miss: bool = False,
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
        may_miss : bool
            Whether features may be missing (NaN), for estimators with ``missing="indicator"``.
        """
        remove_leftovers(parent)
        folder, lock = new_folder(parent)
        return cls(folder, lock, n_features, is_sparse=is_sparse, are_classes=are_classes, may_miss=may_miss)

    def __len__(self) -> int:
        return self._n_rows

    @property
    def n_bytes(self) -> int:
        return sum(os.fstat(file.fileno()).st_size for file in self._files.values())

    @property
    def row_bytes(self) -> float:
        return self.n_bytes / max(1, len(self)) if self.is_sparse else super().row_bytes

    @property
    def classes(self) -> NDArray[Any] | None:
        return None if self._codes is None else np.array(sorted(self._codes))

    @property
    def first_rows(self) -> NDArray[np.int64]:
        return np.array(self._first_rows, np.int64)

    # Writing

    def append(self, X: Any, y: Any, sample_weight: Any = None) -> None:
        """Add rows with their targets; finite numbers only. Weights are given with all pieces or with none.

        Examples
        --------
        >>> import tempfile
        >>> with RowStore.create(tempfile.gettempdir(), n_features=1, are_classes=True) as store:
        ...     store.append([[1.0], [2.0]], ["yes", "no"])
        ...     store.classes
        array(['no', 'yes'], dtype='<U3')
        """
        names = names_of(X)
        given, X = self._checked(X, names)
        if not X.shape[0]:
            return
        targets = targets_of(y, X.shape[0], are_classes=self._codes is not None)
        shape = (targets.ndim, 1 if targets.ndim == 1 else targets.shape[1])
        if self._n_targets not in (None, shape):
            raise ValueError("y must have as many targets a row as the pieces before")
        if self._weighted is not None and self._weighted != (sample_weight is not None):
            raise ValueError("sample_weight must be given with all pieces or with none")
        labels, written = self._coded(targets)
        arrays = {"values": X.data if self.is_sparse else X, "targets": written}
        if sample_weight is not None:
            arrays["weights"] = checked_weight(sample_weight, X.shape[0])
        if self.is_sparse:
            arrays["features"] = X.indices.astype(np.int32)
        self._write(arrays)
        # From here on nothing fails: a piece is in the store as a whole, or not at all.
        if not self.is_sparse:
            self._ranges.add(given)
        for label, place in labels.items():
            assert self._codes is not None
            self._codes[label] = len(self._codes)
            self._first_rows.append(self._n_rows + place)
        if self.is_sparse:
            self._row_starts.append(self._n_entries + X.indptr[1:].astype(np.int64))
            self._n_entries += X.nnz
        self._n_targets, self._weighted = shape, sample_weight is not None
        self.feature_names = names if self._n_rows == 0 else self.feature_names
        self._n_rows += X.shape[0]

    def _coded(self, targets: NDArray[Any]) -> tuple[dict[Any, int], NDArray[Any]]:
        """New labels with their first places, and the targets as they are written: class numbers, or values."""
        if self._codes is None:
            return {}, targets
        labels, first, numbers = np.unique(targets, return_index=True, return_inverse=True)
        places = zip(labels.tolist(), first.tolist(), strict=True)
        new = {label: place for label, place in places if label not in self._codes}
        known = next(iter(self._codes), None)
        if known is not None and new and isinstance(known, str) != isinstance(next(iter(new)), str):
            raise ValueError(
                f"y must be text in all pieces or in none, got {next(iter(new))!r} after {known!r} in the pieces before"
            )
        codes = {**self._codes, **{label: len(self._codes) + number for number, label in enumerate(new)}}
        return new, np.array([codes[label] for label in labels.tolist()], np.int32)[numbers.reshape(-1)]

    def _write(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Append to the files: all arrays, or none where the disk is full."""
        ends = {name: self._files[name].seek(0, os.SEEK_END) for name in arrays}
        try:
            for name, array in arrays.items():
                _write_all(self._files[name], array)
        except OSError as error:
            for name, end in ends.items():
                os.ftruncate(self._files[name].fileno(), end)
            words = f"{error.strerror}; the rows take {self.n_bytes:,} bytes so far"
            raise OSError(error.errno, words, str(self.folder)) from error

    def _checked(self, X: Any, names: tuple[str, ...] | None) -> tuple[Any, Any]:
        """The rows as they are given, and in float32."""
        if self.is_sparse != bool(sparse.issparse(X)):
            raise ValueError(f"X must be {'a sparse matrix' if self.is_sparse else 'dense'}, as the store is")
        if len(self) and names != self.feature_names:
            raise ValueError(difference_of_names(self.feature_names, names))
        given = X if self.is_sparse else dense_numbers(X)
        with np.errstate(over="ignore"):
            X = sparse.csr_array(X, dtype=np.float32) if self.is_sparse else np.ascontiguousarray(given, np.float32)
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise ValueError(f"X must have {self.n_features} columns, got shape {X.shape}")
        values = X.data if self.is_sparse else X
        if np.isinf(values).any():
            raise ValueError("X must be finite in float32, got an infinite value or one beyond 3.4e38")
        if not self.may_miss and np.isnan(values).any():
            raise ValueError("X must not miss values: fill them before they are stored, or give missing='indicator'")
        return given, X

    # Reading

    def read_spans(self, spans: Sequence[tuple[int, int]]) -> Window:
        self._ranges.warn(self.feature_names)
        X: Any = (
            self._read_sparse(spans) if self.is_sparse else self._read("values", spans, np.float32, self.n_features)
        )
        if self.feature_names is not None:
            import pandas as pd  # loaded when it is needed

            X = pd.DataFrame(X, columns=list(self.feature_names))
        weight = self._read("weights", spans, np.float32)[:, 0] if self._weighted else None
        return Window(X, self._read_targets(spans), weight)

    def _read_targets(self, spans: Sequence[tuple[int, int]]) -> NDArray[Any]:
        if self._codes is not None:
            classes = self.classes
            assert classes is not None
            place = np.searchsorted(classes, np.array(list(self._codes)))  # from arrival to sorted order
            return classes[place[self._read("targets", spans, np.int32)[:, 0]]]
        ndim, width = self._n_targets or (1, 1)
        values = self._read("targets", spans, np.float64, width)
        return values[:, 0] if ndim == 1 else values

    def _read_sparse(self, spans: Sequence[tuple[int, int]]) -> sparse.csr_array:
        starts = self._starts()
        counts = np.concatenate([np.diff(starts[start : stop + 1]) for start, stop in spans])
        entries = [(int(starts[start]), int(starts[stop])) for start, stop in spans]
        data, indices = self._read("values", entries, np.float32), self._read("features", entries, np.int32)
        row_starts = np.concatenate([[0], np.cumsum(counts)])
        return sparse.csr_array((data[:, 0], indices[:, 0], row_starts), shape=(len(counts), self.n_features))

    def _starts(self) -> NDArray[np.int64]:
        """Where each row's entries begin: 8 bytes a row, the only array that grows with a sparse store."""
        if len(self._row_starts) > 1:
            self._row_starts = [np.concatenate(self._row_starts)]
        return self._row_starts[0]

    def _read(self, name: str, spans: Sequence[tuple[int, int]], dtype: Any, width: int = 1) -> NDArray[Any]:
        """Spans of rows of `width` numbers from one file, one below the other: (n, width)."""
        out = np.empty((sum(stop - start for start, stop in spans), width), dtype)
        view, at = memoryview(out).cast("B") if out.size else memoryview(b""), 0
        for span in spans:
            offset, last = (row * width * out.itemsize for row in span)
            while offset < last:
                count = os.preadv(self._files[name].fileno(), [view[at : at + last - offset]], offset)
                if count == 0:
                    raise OSError(f"{self.folder / name} is shorter than what was written")
                at, offset = at + count, offset + count
        return out

    # End

    def remove(self) -> None:
        """Close and delete the files; a second call does nothing."""
        for file in self._files.values():
            file.close()
        if self._lock >= 0:
            remove_folder(self.folder)
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def _write_all(file: Any, array: NDArray[Any]) -> None:
    view = memoryview(np.ascontiguousarray(array)).cast("B") if array.size else memoryview(b"")
    while view:
        view = view[file.write(view) :]


# The folder: locked as long as its process lives, and removed by the next one where it was left behind


def remove_leftovers(parent: str | os.PathLike[str]) -> list[Path]:
    """Delete the stores below `parent` whose process has ended without removing them; returns their folders."""
    removed: list[Path] = []
    if fcntl is None:
        return removed
    for folder in Path(parent).glob(f"{PREFIX}*"):
        try:
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            lock = _lock_of(folder)
        except OSError:
            continue  # in use, or removed at this moment
        remove_folder(folder)
        os.close(lock)
        removed.append(folder)
    return removed


def new_folder(parent: str | os.PathLike[str]) -> tuple[Path, int]:
    """A new folder below `parent`, and its lock, which lasts as long as this process."""
    if fcntl is None:
        raise OSError("rows are stored on Linux and macOS only; give arrays")
    while True:
        try:
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror}: rows cannot be stored in {parent}") from error
        try:
            lock = _lock_of(folder)
        except (BlockingIOError, FileNotFoundError):
            continue  # another process took it for a leftover before it was locked
        except OSError:  # a file system without locks: what a killed process leaves there stays
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        if folder.exists():
            return folder, lock
        os.close(lock)


def _lock_of(folder: Path) -> int:
    """Lock a folder of a store; an OSError where another process has it."""
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(lock)
        raise
    return lock


def remove_folder(folder: Path) -> None:
    """Delete a folder that this process has locked; the lock goes last, so that a half removed one is still found."""
    for path in folder.glob("*"):
        if path.name != LOCK:
            path.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


# What is checked of a piece before it goes into a store


def names_of(X: Any) -> tuple[str, ...] | None:
    """The columns of a DataFrame."""
    return tuple(map(str, X.columns)) if hasattr(X, "columns") else None


def dense_numbers(X: Any) -> NDArray[Any]:
    """The numbers of dense rows: float32 ones as they are, others in float64, missing ones as NaN."""
    if hasattr(X, "columns"):
        return X.to_numpy(np.float32 if (X.dtypes == np.float32).all() else np.float64, na_value=np.nan)
    X = np.asarray(X)
    return X if X.dtype == np.float32 else np.asarray(X, np.float64)


def difference_of_names(before: tuple[str, ...] | None, now: tuple[str, ...] | None) -> str:
    """In what the columns of a piece differ from those before."""
    if before is None or now is None:
        return "X must be a DataFrame in all pieces or in none"
    missing, added = [name for name in before if name not in now], [name for name in now if name not in before]
    if missing or added:
        what = f"no column {missing[0]!r}" if missing else f"a new column {added[0]!r}"
        return f"X must have the columns of the pieces before, got {what}"
    return f"X must have its columns in the order of the pieces before, {', '.join(before[:5])}, …"


def targets_of(y: Any, n_rows: int, *, are_classes: bool) -> NDArray[Any]:
    """Labels (n,), none missing, or finite float64 values (n,) or (n, k)."""
    refuse_invalid_targets(y, are_classes=are_classes)
    y = np.asarray(y)
    if y.ndim == 0 or len(y) != n_rows:
        got = f"a single {y.dtype}" if y.ndim == 0 else len(y)
        raise ValueError(f"y must have {n_rows} targets, one for each row of X, got {got}")
    if not are_classes:
        y = np.asarray(y, np.float64)
        if not np.isfinite(y).all():
            raise ValueError("y must be finite; leave rows without a target out")
        return y
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.ndim != 1:
        raise ValueError(f"y must have one label for each row, got shape {y.shape}; several labels need arrays")
    return y


def checked_weight(weight: Any, n_rows: int) -> NDArray[np.float32]:
    """Weights in float32, finite and not negative."""
    refuse_mask("sample_weight", weight)
    weight = np.asarray(weight, np.float32)
    if weight.shape != (n_rows,) or not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError(f"sample_weight must be {n_rows} finite numbers from 0, one for each row of X")
    return weight
