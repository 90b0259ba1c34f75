"""Times taken in turn, so that a busy machine hurts all alike, and growth exponents."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from statistics import median

import numpy as np


def interleaved(
    tasks: Mapping[str, Callable[[], object]],
    rounds: int,
    at_least: float = 0.0,
    not_again_after: float = float("inf"),
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each task in each round, the tasks one after the other: A, B, A, B, …

    A task is called again within its turn until `at_least` seconds have passed, and its mean time is taken. One that
    took longer than `not_again_after` seconds has no second turn.

    Examples
    --------
    >>> times = interleaved({"sum": lambda: sum(range(100)), "list": lambda: list(range(100))}, rounds=3)
    >>> [(name, len(seconds)) for name, seconds in times.items()]
    [('sum', 3), ('list', 3)]
    """
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            if max(times[name], default=0.0) <= not_again_after:
                times[name].append(_mean_seconds(task, at_least, clock))
    return times


def _mean_seconds(task: Callable[[], object], at_least: float, clock: Callable[[], float]) -> float:
    started = clock()
    calls, passed = 0, 0.0
    while calls == 0 or passed < at_least:
        task()
        calls += 1
        passed = clock() - started
    return passed / calls


def medians(times: Mapping[str, list[float]]) -> dict[str, float]:
    """The median of each task's times."""
    return {name: median(seconds) for name, seconds in times.items()}


def growth_exponent(sizes: Iterable[float], values: Iterable[float]) -> float:
    """The slope of a straight line through the logarithms.

    Examples
    --------
    >>> round(growth_exponent([1, 10, 100], [3, 300, 30000]), 3)
    2.0
    """
    return float(np.polyfit(np.log(list(sizes)), np.log(list(values)), 1)[0])
