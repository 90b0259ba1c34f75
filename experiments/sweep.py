"""Run what is not finished: one process or several on the same folder, or a Dask cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from experiments.data import Dataset
from experiments.runs import Claims, Result, Run, Store

Load = Callable[[str], Dataset]
Execute = Callable[[Run, Dataset], Result]
_POLL = 1.0  # seconds between looks at what other processes have finished
_LINE = 30.0  # seconds between lines of progress where there is no terminal
_ROUNDS = 5  # how often runs are handed to a cluster again after all copies of a table were lost


def sweep(runs: Sequence[Run], store: Store, load: Load, execute: Execute) -> int:
    """Run all runs that have no result, sharing the work with other processes on the same folder.

    Parameters
    ----------
    runs : sequence of Run
    store : Store
    load : callable from the name of a data set to the data set
    execute : callable (run, data set) → result

    Returns
    -------
    int
        How many runs this process made. It returns when all have a result; runs that fail are reported at the end as
        one error, after the others.
    """
    claims, made = Claims(store.folder), 0
    failures: dict[str, Exception] = {}
    waiting = _unfinished(runs, store)
    with progress(runs, waiting) as show:
        while waiting:
            taken = 0
            for run in waiting:
                if not claims.take(run.key):
                    continue
                try:
                    # Another process may have finished it after the look and before the claim.
                    if store.finished([run]):
                        show(run, made=False)
                    else:
                        store.write(run, execute(run, load(run.dataset)))
                        taken += 1
                        show(run)
                except Exception as error:
                    failures[run.key] = error
                finally:
                    claims.release(run.key)
            made += taken
            waiting = [run for run in _unfinished(runs, store) if run.key not in failures]
            if waiting and not taken:
                time.sleep(_POLL)
    claims.close()
    _raise(failures)
    return made


def sweep_on_cluster(runs: Sequence[Run], store: Store, load: Load, execute: Execute, scheduler: str | Any) -> int:
    """The same on a Dask cluster: each table is sent once to each worker, this process writes the results.

    Parameters
    ----------
    runs, store, load, execute : as for `sweep`
    scheduler : str or dask.distributed.Client
        Address of a scheduler (``tcp://…``), ``"local"`` for a cluster of this machine's cores, or a client.

    Returns
    -------
    int
        How many runs were made. A worker that dies loses only what it was working on: Dask hands that to another.
    """
    claims, made = Claims(store.folder), 0
    failures: dict[str, Exception] = {}
    with _client(scheduler) as client, progress(runs, _unfinished(runs, store)) as show:
        for _ in range(_ROUNDS):
            waiting = [run for run in _unfinished(runs, store) if run.key not in failures and claims.take(run.key)]
            for name in dict.fromkeys(run.dataset for run in waiting):
                part = [run for run in waiting if run.dataset == name]
                for run, result in _on_workers(client, part, load(name), execute, failures):
                    store.write(run, result)
                    claims.release(run.key)
                    made += 1
                    show(run)
            if not waiting:
                break
    claims.close()
    _raise(failures)
    left = _unfinished(runs, store)
    if left:
        raise RuntimeError(f"{len(left)} of {len(runs)} runs have no result (first: {left[0].key}); start again")
    return made


def _on_workers(
    client: Any, runs: Sequence[Run], dataset: Dataset, execute: Execute, failures: dict[str, Exception]
) -> Iterator[tuple[Run, Result]]:
    """Results of runs on one data set as they come; what was cancelled because a table is lost does not come."""
    from dask.distributed import CancelledError, as_completed

    table = client.scatter(dataset, broadcast=True, hash=False)
    futures = {client.submit(execute, run, table, key=f"{run.key}-{id(table):x}", pure=False): run for run in runs}
    for future in as_completed(futures):
        run = futures[future]
        try:
            result = future.result()
        except CancelledError:
            continue
        except Exception as error:
            failures[run.key] = error
        else:
            yield run, result
        future.release()


@contextmanager
def _client(scheduler: str | Any) -> Iterator[Any]:
    try:
        from dask.distributed import Client, LocalCluster
    except ImportError as error:
        raise ImportError("--scheduler needs Dask: pip install 'treelu[distributed]'") from error
    if not isinstance(scheduler, str):
        yield scheduler
    elif scheduler == "local":
        # Both without a password: for this machine only.
        here: dict[str, Any] = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
        with LocalCluster(threads_per_worker=1, **here) as cluster, Client(cluster) as client:
            yield client
    else:
        with Client(scheduler) as client:
            yield client


def _unfinished(runs: Sequence[Run], store: Store) -> list[Run]:
    finished = store.finished(runs)
    return [run for run in runs if run.key not in finished]


def _raise(failures: dict[str, Exception]) -> None:
    if failures:
        key, first = next(iter(failures.items()))
        raise RuntimeError(f"{len(failures)} runs failed, the first of them {key}: {first}") from first


class Estimate:
    """Seconds left: what waits of each method on each data set, times what one took here so far."""

    def __init__(self) -> None:
        self.n_made: dict[tuple[str, str], int] = {}
        self.spent: dict[tuple[str, str], float] = {}

    def add(self, run: Run, seconds: float) -> None:
        """Count a run that was made."""
        group = run.dataset, run.method
        self.n_made[group] = self.n_made.get(group, 0) + 1
        self.spent[group] = self.spent.get(group, 0.0) + seconds

    def left(self, waiting: Sequence[Run]) -> float | None:
        """Seconds for the waiting runs; a method not seen yet counts as the mean of those seen, None without any.

        Examples
        --------
        >>> estimate, run = Estimate(), Run("bace", "Class", "lcn", {}, 1)
        >>> estimate.add(run, 2.0)
        >>> estimate.left([run, run])
        4.0
        """
        if not self.n_made:
            return None
        mean = sum(self.spent.values()) / sum(self.n_made.values())
        each = {group: self.spent[group] / n for group, n in self.n_made.items()}
        return sum(each.get((run.dataset, run.method), mean) for run in waiting)


@contextmanager
def progress(runs: Sequence[Run], waiting: Sequence[Run]) -> Iterator[Callable[..., None]]:
    """A bar on a terminal, a line every half minute elsewhere.

    Yields ``show(run, made=True)``, to be called when a run has a result; made=False where others made it.
    """
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
    left = {run.key: run for run in waiting}
    estimate, last_end, last_line = Estimate(), time.monotonic(), 0.0
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("runs", total=len(runs), completed=len(runs) - len(left), left="")

        def show(run: Run, made: bool = True) -> None:
            nonlocal last_end, last_line
            left.pop(run.key, None)
            now = time.monotonic()
            if made:
                estimate.add(run, now - last_end)
            last_end = now
            name, time_left = f"{run.dataset} {run.method}", _duration(estimate.left(list(left.values())))
            bar.update(task, completed=len(runs) - len(left), description=name, left=time_left)
            if bar.disable and (now - last_line > _LINE or not left):
                last_line = now
                console.print(f"{len(runs) - len(left)}/{len(runs)} runs, {name}, {time_left}", highlight=False)

        yield show


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "time left not known yet"
    minutes, rest = divmod(round(seconds), 60)
    return f"about {minutes} min {rest:02d} s left" if minutes else f"about {rest} s left"
