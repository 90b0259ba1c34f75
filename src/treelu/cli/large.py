"""Tables that do not fit into memory, or are read by a Dask cluster (`--scheduler`).

The first pass counts the rows and draws some, from which the encoding is learned and of which a share is held out. The
second pass encodes all other rows, into a `RowStore` or on the workers.
"""

from __future__ import annotations

import logging
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treelu.cli.interrupt import check_not_interrupted
from treelu.cli.messages import InputError, Notes, count, progress_bar, say
from treelu.cli.prepare import Prepared
from treelu.data.store import RowStore
from treelu.estimators._large import SAMPLE_ROWS
from treelu.persistence.folder import naming
from treelu.tables.paths import TableError, text_bytes
from treelu.tables.pieces import Drawn, TableReader

IN_MEMORY_BYTES = 512 * 2**20  # a table of about so many bytes of text is read as a whole
MOST_ROWS = 2**62  # draws all rows
LOOPBACK = "127.0.0.1"  # a cluster of this machine is seen by nobody else
PATIENCE = "10s"  # until a scheduler has answered


def n_drawn(files: Sequence[str], hold_out: float) -> int:
    """How many rows to draw: all of a table that fits into memory, else a sample and as many more as are held out."""
    if sum(map(text_bytes, files)) <= IN_MEMORY_BYTES:
        return MOST_ROWS
    return int(SAMPLE_ROWS / (1 - hold_out))


@contextmanager
def stored(
    table: Prepared, n_rows: int, files: Sequence[str], reader: TableReader, folder: Path | None
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
    if not table.notes.quiet:
        say(f"{count(n_rows, 'row')} in {count(len(files), 'file')}; the encoding is learned from a sample")
        say(f"writing {_size(n_bytes)} of encoded rows to {parent}; they are removed at the end")
    is_sparse = hasattr(table.training.X, "tocsr")
    with RowStore.create(
        parent, len(table.encoder.feature_names), is_sparse=is_sparse, are_classes=table.task == "classification"
    ) as store:
        with naming(parent), progress_bar("encoding", n_rows, table.notes.quiet) as advance:
            for piece in reader.iterate(files, _held_out(table), _OncePerColumn(table.notes)):
                check_not_interrupted()
                try:
                    if len(piece.y):
                        store.append(piece.X, piece.y)
                except ValueError as error:
                    raise TableError(f"{piece.path}: {error}") from error
                advance(piece.n_read)
        if not len(store):
            raise TableError("no row has a target except those held out")
        yield replace(table, store=store)


def _held_out(table: Prepared) -> NDArray[np.int64]:
    return np.zeros(0, np.int64) if table.held_out_numbers is None else table.held_out_numbers


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
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"


# Clusters


def with_windows(table: Prepared, drawn: Drawn, files: Sequence[str], reader: TableReader) -> Prepared:
    """The table with its rows as delayed windows, one for each file; those that are held out are left out."""
    import dask

    held_out = _held_out(table)
    windows, start = [], 0
    for path in files:
        n_rows = drawn.file_rows.get(path, 0)
        skipped = held_out[(held_out >= start) & (held_out < start + n_rows)] - start
        if n_rows:
            windows.append(dask.delayed(reader.window)(path, skipped))
        start += n_rows
    if not table.notes.quiet:
        say(f"{count(drawn.n_rows, 'row')} in {count(len(windows), 'file')}, which the workers read themselves")
    return replace(table, windows=windows, n_rows_elsewhere=drawn.n_rows - len(held_out))


@contextmanager
def cluster(scheduler: str) -> Iterator[Any]:
    """A client of the scheduler at an address, or of workers of this machine for "local"."""
    import treelu.dask  # noqa: F401  says what to install where Dask is missing

    from dask.distributed import Client, LocalCluster  # isort: skip

    if scheduler == "local":
        with (
            LocalCluster(
                host=LOOPBACK,
                threads_per_worker=1,
                dashboard_address=f"{LOOPBACK}:0",
                preload=["treelu.cli.interrupt"],
                silence_logs=logging.ERROR,  # a worker that is slow to end is not worth a line
            ) as workers,
            Client(workers) as client,
        ):
            yield client
        return
    try:
        client = Client(scheduler, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--scheduler {scheduler}: no Dask scheduler answers there ({str(error).splitlines()[0]}); give its "
            "address, such as tcp://10.0.0.1:8786, or local"
        ) from None
    with client:
        yield client


def fit_on_cluster(estimator: Any, table: Prepared, scheduler: str) -> None:
    """Fit the estimator on the workers."""
    kind: Any = dask_class(estimator)
    with cluster(scheduler) as client:
        model = kind(client=client, **estimator.get_params(deep=False)).fit_windows(client, table.windows)
    estimator.__dict__.update(model.to_local().__dict__)


def dask_class(estimator: Any) -> type:
    """The estimator's form for Dask; an InputError where it has none."""
    import treelu.dask as on_dask

    kind = getattr(on_dask, f"Dask{type(estimator).__name__}", None)
    if kind is None:
        raise InputError("--scheduler goes with --method tree, lcn or lln; choose one of these, or leave it out")
    return kind
