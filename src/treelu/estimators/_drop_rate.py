"""The drop rate where the user leaves it open: the one that does better on rows held out of shorter trainings.

Noisy targets want many weights dropped, clean ones few. Rates are compared by log-loss after tempering: otherwise the
low rate would lose by being too sure where it is right more often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from treelu.nn import NeuronChain
from treelu.refinement import temper
from treelu.training import Sample, evaluate

RATES = (0.1, 0.5)
TRIAL_SHARE = 0.5  # of the epochs
FOLDS, ENOUGH_ROWS = 5, 200  # fifths of the rows are held out, one after the other, until so many have been scored
MIN_ROWS = 50


class Choice(NamedTuple):
    """A drop rate, and the temperature of its scores on the rows held out (None where nothing was tried)."""

    rate: float
    temperature: float | None


def choose_rate(
    trial: Callable[[float, Sample], NeuronChain], sample: Sample, validation: Sample | None, seed: int
) -> Choice:
    """The rate of `RATES` with the least loss on `validation`, or on parts of the sample held out in turn.

    Parameters
    ----------
    trial : callable
        trial(rate, sample) trains a network for `TRIAL_SHARE` of its time.
    sample, validation : Sample
        Training rows, and the user's own rows for validation where there are some.
    seed : int
        Draws the rows held out.
    """
    parts = list(folds(sample, seed)) if validation is None else [(sample, validation)]
    if not parts:
        return Choice(RATES[0], None)
    judged = []
    for rate in RATES:
        scores = [evaluate(trial(rate, train), held_out.table, held_out.index) for train, held_out in parts]
        rows = np.concatenate([held_out.rows for _, held_out in parts])
        judged.append(temper(np.concatenate([s.double().cpu().numpy() for s in scores]), parts[0][1].targets, rows))
    best = int(np.argmin([each.loss for each in judged]))
    return Choice(RATES[best], judged[best].temperature)


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
