"""Threads over which rows are shared out. Rows do not see each other: no result depends on the number of threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

Work = Callable[[int, int], Any]

_limit: ContextVar[int | None] = ContextVar("treelu_threads", default=None)
_pools: dict[int, ThreadPoolExecutor] = {}


def n_threads() -> int:
    """How many threads may run: OMP_NUM_THREADS, as joblib's workers have it, or the processors there are."""
    limit = _limit.get()
    if limit is not None:
        return limit
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(available, int(wanted)) if wanted.isdigit() and int(wanted) > 0 else available


@contextmanager
def limited(count: int) -> Iterator[None]:
    """At most so many threads within, for what is called from this thread.

    Examples
    --------
    >>> with limited(1):
    ...     n_threads()
    1
    """
    token = _limit.set(count)
    try:
        yield
    finally:
        _limit.reset(token)


def one_blas_thread() -> AbstractContextManager[Any]:
    """BLAS in one thread within: for products so small that threads, on a busy machine, wait longer than they work."""
    return _blas().limit(limits=1, user_api="blas")


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def share_out(work: Work, n_rows: int, n_parts: int) -> None:
    """Call work(first, last) for `n_parts` even parts of the rows, one of them in this thread."""
    cuts = [n_rows * part // n_parts for part in range(n_parts + 1)]
    others = []
    if n_parts > 1:
        if n_parts not in _pools:
            _pools[n_parts] = ThreadPoolExecutor(n_parts - 1, thread_name_prefix="treelu")
        others = [_pools[n_parts].submit(work, cuts[part], cuts[part + 1]) for part in range(1, n_parts)]
    work(cuts[0], cuts[1])
    for other in others:
        other.result()


# threads do not survive a fork: a child that waited for them would wait for ever
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)
