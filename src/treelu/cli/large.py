"""Tables that do not fit into memory: a sample is prepared as a table is, the rows go to a store that is trained on.

The first pass counts the rows and draws some, from which the encoding is learned and of which a share is held out. The
second pass encodes all other rows into a `RowStore`.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from treelu.cli.interrupt import check_not_interrupted
from treelu.cli.messages import InputError, Notes, count, progress_bar, say
from treelu.cli.prepare import Prepared
from treelu.data.store import RowStore
from treelu.estimators._large import SAMPLE_ROWS
from treelu.persistence.folder import naming
from treelu.tables.paths import TableError, text_bytes
from treelu.tables.pieces import TableReader

IN_MEMORY_BYTES = 512 * 2**20  # a table of about so many bytes of text is read as a whole
MOST_ROWS = 2**62  # draws all rows


def n_drawn(files: Sequence[str], hold_out: float) -> int:
    """How many rows to draw: all of a table that fits into memory, else a sample and as many more as are held out."""
    if sum(map(text_bytes, files)) <= IN_MEMORY_BYTES:
        return MOST_ROWS
    return int(SAMPLE_ROWS / (1 - hold_out))


@contextmanager
def stored(
    table: Prepared, files: Sequence[str], reader: TableReader, folder: Path | None, *, n_rows: int, quiet: bool
) -> Iterator[Prepared]:
    """The table with all its rows, but those held out, in a store that is removed at the end."""
    parent = Path(tempfile.gettempdir()) if folder is None else folder
    if not parent.is_dir():
        raise InputError(f"--store {parent} is not a folder; make it first")
    n_bytes = _bytes_a_row(table) * n_rows
    free = shutil.disk_usage(parent).free
    if n_bytes > free:
        raise InputError(
            f"the encoded rows take {_size(n_bytes)}, but {parent} has {_size(free)} left; give another --store"
        )
    if not quiet:
        say(f"{count(n_rows, 'row')} in {count(len(files), 'file')}; the encoding is learned from a sample")
        say(f"writing {_size(n_bytes)} of encoded rows to {parent}; they are removed at the end")
    is_sparse = hasattr(table.training.X, "tocsr")
    held_out = np.zeros(0, np.int64) if table.held_out_numbers is None else table.held_out_numbers
    with RowStore.create(
        parent, len(table.encoder.feature_names), is_sparse=is_sparse, are_classes=table.task == "classification"
    ) as store:
        with naming(parent):
            _fill(store, files, reader, held_out, table.notes, n_rows=n_rows, quiet=quiet)
        yield replace(table, store=store)


def _fill(
    store: RowStore,
    files: Sequence[str],
    reader: TableReader,
    held_out: NDArray[np.int64],
    notes: Notes,
    *,
    n_rows: int,
    quiet: bool,
) -> None:
    once = _OncePerColumn(notes)
    with progress_bar("encoding", n_rows, quiet) as advance:
        for piece in reader.iterate(files, held_out, once):
            check_not_interrupted()
            try:
                if len(piece.y):
                    store.append(piece.X, piece.y)
            except ValueError as error:
                raise TableError(f"{piece.path}: {error}") from error
            advance(piece.n_read)
    if not len(store):
        raise TableError("no row has a target except those held out")


class _OncePerColumn:
    """Notes of pieces: of those that differ in their examples only, the first."""

    def __init__(self, notes: Notes) -> None:
        self.notes, self.seen = notes, set[tuple[str, ...]]()

    def __call__(self, text: str) -> None:
        column = re.search(r"column '.*?'", text)
        key = (column.group() if column else text, text.rsplit(";", 1)[-1] if ";" in text else text.rsplit(" ", 3)[-1])
        if key not in self.seen:
            self.seen.add(key)
            self.notes(text)


def _bytes_a_row(table: Prepared) -> int:
    X = table.training.X
    targets = 4 if table.task == "classification" else 8 * len(table.targets)
    if hasattr(X, "tocsr"):
        return int(8 * X.nnz / max(1, X.shape[0])) + targets + 1
    return 4 * X.shape[1] + targets


def _size(n_bytes: float) -> str:
    """Bytes in words.

    Examples
    --------
    >>> _size(12_400_000_000), _size(3_000_000)
    ('12.4 GB', '3 MB')
    """
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"
