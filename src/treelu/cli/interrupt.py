"""Ctrl-C: one ends the command, wherever it is, and what was on the disk before stays.

In Python, Ctrl-C during training keeps the best network so far: it means to stop early. On the command line it must not
lead to a half-trained model in the place of a good one. So here it raises an exception of its own, which no training
takes for that.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_CODE = 130
PATIENCE = 5.0  # seconds until a command ends that does not end by itself


class Interrupted(BaseException):
    """Ctrl-C on the command line."""


_seen: list[threading.Timer | None] = []  # the Ctrl-Cs of this command; the first sets a clock


@contextmanager
def one_interrupt_ends_all(*, last: bool) -> Iterator[None]:
    """Ctrl-C within the block raises `Interrupted`, the third one ends the process. `last`: nothing comes after."""
    _seen.clear()
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        yield  # only the main thread can set this, and whoever started the process may have switched it off
        return
    before = signal.signal(signal.SIGINT, _stop)
    try:
        yield
    finally:
        # What is done is done: a late Ctrl-C must not turn a finished command into a failed one.
        signal.signal(signal.SIGINT, signal.SIG_IGN if last else before)
        if not last:
            for clock in _seen:
                if clock is not None:
                    clock.cancel()
            _seen.clear()


def _stop(number: int, frame: FrameType | None) -> None:
    if len(_seen) >= 2:
        os._exit(EXIT_CODE)
    clock = None
    if not _seen:  # threads that the process would wait for, such as a pool's, end with it
        clock = threading.Timer(PATIENCE, os._exit, [EXIT_CODE])
        clock.daemon = True
        clock.start()
    _seen.append(clock)
    raise Interrupted


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `OutOfTimeError` within the block after some processor seconds, where the system has a clock for that."""
    from treelu.report.queries import OutOfTimeError

    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise OutOfTimeError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 1e-3), 0.5)  # again and again: one may get lost in a destructor
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def check_not_interrupted() -> None:
    """Raise if there was a Ctrl-C whose exception got lost, as one raised within a destructor does."""
    if _seen:
        raise Interrupted


def dask_setup(worker: object) -> None:
    """Called by Dask, for which this module is a preload: a worker leaves Ctrl-C to the command that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
