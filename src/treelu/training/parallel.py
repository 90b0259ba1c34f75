"""Several trainings in parallel, in threads of this process; one Ctrl-C stops them all.

The kernels run without Python's lock, so that threads do as well as processes here; rows are not copied, and a fit has
the same result to the bit as one made alone. Where joblib has been given a cluster (``parallel_config("dask")``), the
trainings go there instead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import BACKENDS, get_active_backend

from treelu.nn.cpu.threads import limited, n_threads

S = TypeVar("S")
T = TypeVar("T")
_ON_THIS_MACHINE = ("loky", "threading", "multiprocessing", "sequential")  # joblib's own backends
STEP = 0.1  # seconds
_here = threading.local()  # .stop: set when the trainings of this thread are to end


def check_not_stopped() -> None:
    """Raise KeyboardInterrupt in a thread whose training Ctrl-C is to end; Python raises it in the main thread only."""
    stop = getattr(_here, "stop", None)
    if stop is not None and stop.is_set():
        raise KeyboardInterrupt


def together(works: Sequence[Callable[[], T]], n_jobs: int | None, interrupted: Callable[[T], bool]) -> list[T]:
    """The results of functions, run in up to `n_jobs` threads (as in joblib, −1 for all processors).

    Ctrl-C stops them all: those that keep what they have return it, those that have not begun never do, and the list is
    shorter by these. It is raised where nothing is kept. An error of one ends the others too. Where `interrupted` says
    that a result was cut short by Ctrl-C, no other one begins.

    Examples
    --------
    >>> together([lambda: 1, lambda: 2], 2, lambda result: False)
    [1, 2]
    """
    if _has_cluster() and effective_n_jobs(n_jobs) > 1:
        return Parallel(n_jobs=n_jobs)(delayed(work)() for work in works)
    n_jobs = min(effective_n_jobs(n_jobs), len(works))
    if n_jobs <= 1:
        return _one_by_one(works, interrupted)
    begin, stop, threads = threading.Event(), threading.Event(), max(1, n_threads() // n_jobs)

    def run(work: Callable[[], T]) -> T:
        begin.wait()
        _here.stop = stop
        check_not_stopped()
        with limited(threads):
            result = work()
        if interrupted(result):
            stop.set()
        return result

    with ThreadPoolExecutor(n_jobs, thread_name_prefix="treelu-fit") as pool:
        futures: list[Future[T]] = []
        try:  # none begins before all are handed over, so that a Ctrl-C loses none that has begun
            for work in works:
                futures.append(pool.submit(run, work))
            begin.set()
            _wait_awake(futures)
        except KeyboardInterrupt:
            stop.set()
        except BaseException:
            stop.set()
            raise
        finally:
            begin.set()
        if any(future.done() and future.exception() is not None for future in futures):
            stop.set()
    errors = [future.exception() for future in futures]
    for error in errors:
        if error is not None and not isinstance(error, KeyboardInterrupt):
            raise error
    kept = [future.result() for future, error in zip(futures, errors, strict=True) if error is None]
    if not kept:
        raise KeyboardInterrupt
    return kept


def _one_by_one(works: Sequence[Callable[[], T]], interrupted: Callable[[T], bool]) -> list[T]:
    results: list[T] = []
    for work in works:
        results.append(work())
        if interrupted(results[-1]):
            break
    return results


def in_order(run: Callable[[S], T], jobs: Sequence[S], n_jobs: int) -> Generator[T]:
    """The results of `run` for each job, one after the other, while threads work on the next; all of them or none.

    Ctrl-C, an error, or whoever takes no more of them (`contextlib.closing`) ends the threads at the next place where
    they ask `check_not_stopped`.

    Examples
    --------
    >>> list(in_order(abs, [-1, -2], 2))
    [1, 2]
    """
    stop = threading.Event()

    def work(job: S) -> T:
        _here.stop = stop
        check_not_stopped()
        return run(job)

    pool = ThreadPoolExecutor(max(1, n_jobs), thread_name_prefix="treelu-fit")
    try:
        for future in [pool.submit(work, job) for job in jobs]:
            _wait_awake([future])
            yield future.result()
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def _wait_awake(futures: Sequence[Future[T]]) -> None:
    """Wait for all, or for the first error, in short steps: not every system wakes a waiting thread for a Ctrl-C."""
    left = set(futures)
    while left:
        done, left = wait(left, timeout=STEP, return_when=FIRST_EXCEPTION)
        if any(future.exception() is not None for future in done):
            return


def _has_cluster() -> bool:
    """Whether joblib's active backend is another than those that run on this machine."""
    backend, _ = get_active_backend()
    return type(backend) not in [BACKENDS[name] for name in _ON_THIS_MACHINE if name in BACKENDS]
