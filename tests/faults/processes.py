"""Processes to be killed: forked from one that has imported everything, so that a trial takes moments."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable

LIMIT = 120.0  # seconds after which a process counts as hanging
OUTSIDE = 98  # exit code: the signal came before or after the work


def start(work: Callable[[], int | None]) -> int:
    """Run a function in a process of its own; returns its number as soon as the function begins."""
    ready, begins = os.pipe()
    child = os.fork()
    if child == 0:
        code = OUTSIDE
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.write(begins, b"!")
            code = work() or 0
        except KeyboardInterrupt:
            pass
        except BaseException as error:
            os.write(begins, repr(error).encode()[:500])
            code = 1
        finally:
            os._exit(code)
    os.close(begins)
    os.read(ready, 1)
    os.close(ready)
    return child


def end(child: int, limit: float = LIMIT) -> int:
    """The exit code of a process, negative for a signal; a TimeoutError if it hangs."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise TimeoutError(f"no end within {limit:g} s")


def disturbed(work: Callable[[], int | None], rng: random.Random, number: signal.Signals, within: float) -> int:
    """Send a process a signal at a random moment; returns its exit code."""
    child = start(work)
    time.sleep(rng.uniform(0, within))
    os.kill(child, number)
    return end(child)


def seconds(work: Callable[[], int | None]) -> float:
    """How long the undisturbed work takes."""
    started = time.monotonic()
    code = end(start(work))
    if code:
        raise RuntimeError(f"the undisturbed work ends with {code}")
    return time.monotonic() - started


def command(*words: object) -> Callable[[], int]:
    """A command of treelu's, as its script would run it."""

    def run() -> int:
        from treelu.cli import main

        sys.argv = ["treelu", *(str(word) for word in words)]
        return main()

    return run
