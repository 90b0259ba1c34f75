"""Run finished runs again: `python -m experiments check`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from experiments.runs import Run, Store
from experiments.sweep import Execute, Load


class Check(NamedTuple):
    """A run, its test score of the last epoch as it stands in the results, and when it was run again."""

    run: Run
    stored: float
    again: float


def check(
    store: Store, groups: Sequence[tuple[str, str]], n_runs: int, draw: int, load: Load, execute: Execute
) -> Iterator[Check]:
    """Draw some finished runs at random and run them again; the results stay as they are.

    Parameters
    ----------
    store : Store
    groups : sequence of (data set, method)
        What to draw from; all groups are as likely, however many runs they have.
    n_runs, draw : int
        How many, and the seed of the draw.
    load, execute : as for `sweep`
    """
    rng = np.random.default_rng(draw)
    finished = [found for group in groups if (found := [r for r in store.results(*group) if "scores" in r])]
    if not finished:
        raise ValueError(f"no finished runs in {store.folder} of what was asked for")
    for _ in range(n_runs):
        group = finished[rng.integers(len(finished))]
        result = group[rng.integers(len(group))]
        run = Run.of(result)
        again = execute(run, load(run.dataset))
        yield Check(run, last_test(result), last_test(again))


def last_test(result: dict) -> float:
    """The test score of the last epoch, or of a method without epochs."""
    scores = result["scores"]
    return float(scores.get("last", scores["best"])["test"])
