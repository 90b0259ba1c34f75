"""`treelu fit --scheduler`: the rows are read, encoded and trained on by the workers of a Dask cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from treelu.cli.messages import InputError, count, say
from treelu.cli.prepare import Prepared
from treelu.tables.pieces import Drawn, TableReader

LOOPBACK = "127.0.0.1"  # a cluster of this machine is seen by nobody else
PATIENCE = "10s"  # until a scheduler has answered


def with_windows(table: Prepared, drawn: Drawn, files: Sequence[str], reader: TableReader, quiet: bool) -> Prepared:
    """The table with its rows as delayed windows, one for each file; those that are held out are left out."""
    import dask

    held_out = np.zeros(0, np.int64) if table.held_out_numbers is None else table.held_out_numbers
    windows, start = [], 0
    for path in files:
        n_rows = drawn.file_rows.get(path, 0)
        skipped = held_out[(held_out >= start) & (held_out < start + n_rows)] - start
        if n_rows:
            windows.append(dask.delayed(reader.window)(path, skipped))
        start += n_rows
    if not quiet:
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
                preload=["treelu.cli.worker"],
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
