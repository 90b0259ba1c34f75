"""Candidates compared on held-out rows, for ``--tune``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Candidate = TypeVar("Candidate")
Fold = TypeVar("Fold")
Result = TypeVar("Result")
Job = tuple[Fold, list[Candidate]]


def compare(
    groups: Sequence[Sequence[Candidate]],
    folds: Iterable[Fold],
    trial: Callable[[Fold, Sequence[Candidate]], Sequence[Result]],
    *,
    keep: Callable[[dict[Candidate, list[Result]]], Iterable[Candidate]] | None = None,
    run: Callable[[list[Job[Fold, Candidate]]], Iterable[Sequence[Result]]] | None = None,
) -> dict[Candidate, list[Result]]:
    """The loss of each candidate on each fold.

    Parameters
    ----------
    groups : sequence of sequences of candidates
        Those of a group are tried one after the other by one trial, so that each may start from the one before.
    folds : iterable
        Training rows and rows held out, in whatever form `trial` takes them.
    trial : callable
        trial(fold, group) → a result for each candidate of the group.
    keep : callable, optional
        keep(results of the candidates left, so far) after each fold → those to try on the next. Without it all are
        tried on all folds.
    run : callable, optional
        run(jobs) → trial(*job) of each, in the jobs' order; for trials side by side. By default one after the other.

    Returns
    -------
    dict
        The results of each candidate, in the folds' order.

    Examples
    --------
    >>> compare([[1], [5]], [0, 10], lambda fold, group: [fold + candidate for candidate in group])
    {1: [1, 11], 5: [5, 15]}
    >>> found = compare([[1], [5]], [0, 10], lambda fold, group: group, keep=lambda found: [min(found)])
    >>> found
    {1: [1, 1], 5: [5]}
    """
    found: dict[Candidate, list[Result]] = {candidate: [] for group in groups for candidate in group}
    left = set(found)
    for several in [list(folds)] if keep is None else ([fold] for fold in folds):
        jobs = [(fold, [c for c in group if c in left]) for fold in several for group in groups]
        jobs = [(fold, group) for fold, group in jobs if group]
        results = [trial(*job) for job in jobs] if run is None else run(jobs)
        for (_, group), of_group in zip(jobs, results, strict=True):
            for candidate, result in zip(group, of_group, strict=True):
                found[candidate].append(result)
        if keep is not None:
            left = set(keep({candidate: found[candidate] for candidate in found if candidate in left}))
    return found


def summarise(losses: Iterable[Sequence[float]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean of each candidate's losses over the folds, and its standard error.

    Examples
    --------
    >>> summarise([[1.0, 3.0], [2.0, 2.0]])
    (array([2., 2.]), array([1., 0.]))
    """
    table = np.array(list(losses), np.float64)
    return table.mean(axis=1), table.std(axis=1, ddof=1) / np.sqrt(table.shape[1])


def choose(sizes: Any, mean_loss: Any, std_error: Any, *, one_standard_error: bool = True) -> int:
    """The place of the least mean loss, or of the smallest candidate within one standard error of it.

    Among candidates of one size, that with the lower loss.

    Examples
    --------
    >>> choose([2, 4], np.array([0.5, 0.48]), np.array([0.1, 0.1]))
    0
    >>> choose([2, 4], np.array([0.5, 0.48]), np.array([0.1, 0.1]), one_standard_error=False)
    1
    """
    best = int(np.argmin(mean_loss))
    if not one_standard_error:
        return best
    close = np.flatnonzero(mean_loss <= mean_loss[best] + std_error[best])
    return int(min(close, key=lambda place: (sizes[place], mean_loss[place])))
