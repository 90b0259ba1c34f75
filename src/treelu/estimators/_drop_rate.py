"""The drop rate where the user leaves it open: the one that does better on rows held out of shorter trainings.

Noisy targets want many weights dropped, clean ones few. Rates are compared by log-loss after tempering: otherwise the
low rate would lose by being too sure where it is right more often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treelu.nn import NeuronChain
from treelu.refinement import Tempered, temper
from treelu.training import Sample, evaluate

RATES = (0.05, 0.3, 0.75)
TRIAL_SHARE = 0.5  # of the epochs
FOLDS, ENOUGH_ROWS = 5, 1000  # fifths of the rows are held out, one after the other, until so many have been scored
MIN_ROWS = 50
CLEARLY = 2.0  # standard errors by which a rate must be behind to be given up


class Choice(NamedTuple):
    """A drop rate, and the temperature of its scores on the rows held out (None where nothing was tried)."""

    rate: float
    temperature: float | None


def choose_rate(
    trial: Callable[[float, Sample], NeuronChain], sample: Sample, validation: Sample | None, seed: int
) -> Choice:
    """The rate of `RATES` with the least loss on `validation`, or on parts of the sample held out in turn.

    A rate that is clearly behind after a part is not tried on the next.

    Parameters
    ----------
    trial : callable
        trial(rate, sample) trains a network for `TRIAL_SHARE` of its time.
    sample, validation : Sample
        Training rows, and the user's own rows for validation where there are some.
    seed : int
        Draws the rows held out.
    """
    parts = folds(sample, seed) if validation is None else iter([(sample, validation)])
    left, rows = list(RATES), np.zeros(0, np.int64)
    scores: dict[float, NDArray[np.float64]] = {}
    judged: dict[float, Tempered] = {}
    for train, held_out in parts:
        rows = np.concatenate([rows, held_out.rows])
        for rate in left:
            new = evaluate(trial(rate, train), held_out.table, held_out.index).double().cpu().numpy()
            scores[rate] = np.concatenate([scores[rate], new]) if rate in scores else new
            judged[rate] = temper(scores[rate], held_out.targets, rows)
        best = min(left, key=lambda rate: judged[rate].losses.mean())
        left = [rate for rate in left if not _clearly_worse(judged[rate].losses, judged[best].losses)]
        if left == [best]:
            break
    return Choice(best, judged[best].temperature) if judged else Choice(RATES[0], None)


def _clearly_worse(losses: NDArray[np.float64], best: NDArray[np.float64]) -> bool:
    """Whether losses on the same rows are higher by more than chance makes them."""
    difference = losses - best
    return bool(difference.mean() > CLEARLY * difference.std() / np.sqrt(len(difference)))


def folds(sample: Sample, seed: int) -> Iterator[tuple[Sample, Sample]]:
    """Training rows and rows held out, a fifth of each class at a time, until enough rows have been held out.

    None where there are too few rows, or a class has but one.
    """
    table, targets, rows = sample.table, sample.targets, sample.rows
    labels = np.zeros(len(rows)) if targets.task == "regression" else targets.y.cpu().numpy().reshape(-1)[rows]
    _, number, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if len(rows) < MIN_ROWS or sizes.min() < 2:
        return
    shuffled = np.random.default_rng(seed).permutation(len(rows))
    order = shuffled[np.argsort(number[shuffled], kind="stable")]
    fold = np.empty(len(rows), np.int64)
    fold[order] = np.arange(len(rows)) % FOLDS
    n_scored = 0
    for k in range(FOLDS):
        yield Sample(table, targets, rows[fold != k]), Sample(table, targets, rows[fold == k])
        n_scored += int((fold == k).sum())
        if n_scored >= ENOUGH_ROWS:
            return
