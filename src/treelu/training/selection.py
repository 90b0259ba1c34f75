"""Candidates compared on held-out rows, for ``--tune``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Candidate = TypeVar("Candidate")
Fold = TypeVar("Fold")
Result = TypeVar("Result")


def compare(
    groups: Sequence[Sequence[Candidate]],
    folds: Iterable[Fold],
    trial: Callable[[Fold, Sequence[Candidate]], Sequence[Result]],
) -> dict[Candidate, list[Result]]:
    """The results of each candidate, in the folds' order; trial(fold, group) gives those of a group.

    Examples
    --------
    >>> compare([[1], [5]], [0, 10], lambda fold, group: [fold + candidate for candidate in group])
    {1: [1, 11], 5: [5, 15]}
    """
    found: dict[Candidate, list[Result]] = {candidate: [] for group in groups for candidate in group}
    for fold in folds:
        for group in groups:
            for candidate, result in zip(group, trial(fold, group), strict=True):
                found[candidate].append(result)
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
