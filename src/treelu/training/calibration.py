"""After training: leaf values refitted on the rows they hold, and probabilities tempered on held-out rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from treelu.data.dataset import Dataset
from treelu.data.targets import Targets, cross_entropies, probabilities
from treelu.nn import NeuronChain
from treelu.nn.corrections import LeafCorrections
from treelu.training.loop import evaluate

CLEARLY = 2.0  # standard errors that a difference must exceed
COLDEST = 0.05  # the temperature of scores that are far less sure than they could be
HOTTEST = 20.0  # the temperature of scores that are no better than the class frequencies
OUTLIERS = 1e-4  # ε: the proportion of rows whose class the scores say nothing about
LEAST_FACTOR = 0.05  # as for classes: a temperature of 20
GRID = 25  # temperatures or factors tried before the best of them is refined
STEPS = 50  # of the fixed-point iteration; each divides the error by a constant


def refine_leaves(network: NeuronChain, sample: Dataset, strength: float) -> None:
    """Refit each visited leaf's output to its own rows, shrunk towards the network's by `strength` pseudo-rows.

    A leaf with n rows moves n / (n + strength) of the way to its best constant for squared error, and likewise for
    cross entropy, so that rare leaves stay where the network, which knows of all rows, put them. Linear leaves move
    by a constant. The network gets `leaf_corrections`.
    """
    network.correct_leaves(None)
    blocks = [network.activation_codes(rows) for rows in sample.blocks()]
    codes, leaf = np.unique(np.concatenate(blocks), axis=0, return_inverse=True)
    scores = evaluate(network, sample.table, sample.index).astype(np.float64)
    shift = _leaf_shifts(sample.targets, sample.rows, scores, leaf.reshape(-1), len(codes), strength)
    network.correct_leaves(LeafCorrections(codes, shift))


def _leaf_shifts(
    targets: Targets,
    rows: NDArray[np.int64],
    scores: NDArray[np.float64],
    leaf: NDArray[np.int64],
    n_leaves: int,
    strength: float,
) -> NDArray[np.float64]:
    """The minimiser (n_leaves, L) of each leaf's loss plus strength · bound / 2 · shift².

    `bound` bounds the loss's second derivative, so the steps −gradient / (bound · (n + strength)) descend.
    """
    y = targets.y[rows]
    weight = targets.weights(rows)
    if targets.offset is not None:
        scores = scores + targets.offset[rows]
    bound = {"regression": 1.0, "binary": 0.25, "multiclass": 0.5}[targets.task]
    mass = np.bincount(leaf, weight, n_leaves)[:, None] + strength
    shift = np.zeros((n_leaves, scores.shape[1]))
    for _ in range(1 if targets.task == "regression" else STEPS):
        moved = scores + shift[leaf]
        if targets.task == "regression":
            residual = moved - y
        elif targets.task == "binary":
            residual = probabilities(moved)[:, 1:] - y
        else:
            residual = probabilities(moved)
            residual[np.arange(len(y)), y] -= 1
        gradient = np.column_stack([np.bincount(leaf, weight * column, n_leaves) for column in residual.T])
        shift -= (gradient + strength * bound * shift) / (bound * mass)
    return shift


def prior_scores(targets: Targets, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Raw scores (L,) of the class frequencies among rows, with half a row more of each; of regression, 0.

    Examples
    --------
    >>> prior_scores(Targets("binary", np.array([[0.0], [0.0], [0.0], [1.0]]), 1), np.arange(4)).round(2)
    array([-0.85])
    """
    if targets.task == "regression":
        return np.zeros(targets.n_outputs)
    scores = log_frequencies(targets, rows)
    return scores if targets.task == "multiclass" else scores[1:] - scores[:1]


def log_frequencies(targets: Targets, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """The logarithms of the class frequencies among rows, by weight, with half a row more of each."""
    number = targets.class_numbers(rows).astype(np.int64)
    mass = np.bincount(number, targets.weights(rows), targets.n_columns) + 0.5
    return np.log(mass / mass.sum())


class Tempering(NamedTuple):
    """Calibration of raw scores: divided by a temperature, or shrunk towards the class frequencies.

    Examples
    --------
    >>> prior = np.array([-1.0])
    >>> Tempering(2.0).of(np.array([3.0]), prior), Tempering(2.0, to_shares=True).of(np.array([3.0]), prior)
    (array([1.5]), array([1.]))
    """

    temperature: float
    to_shares: bool = False

    def of(self, scores: NDArray[np.float64], prior: NDArray[np.float64]) -> NDArray[np.float64]:
        """The scores (n, L), tempered; `prior` (L,) are the scores of the class frequencies."""
        return scores / self.temperature + self.shift(prior)

    def shift(self, prior: NDArray[np.float64]) -> NDArray[np.float64]:
        """The constant added to the scores divided by the temperature."""
        return (1 - 1 / self.temperature) * prior if self.to_shares else np.zeros_like(prior)


class Tempered(NamedTuple):
    """The tempering for which raw scores have the least loss, and each row's share of that loss."""

    how: Tempering
    losses: NDArray[np.float64]


def temper(scores: NDArray[np.float64], targets: Targets, rows: NDArray[np.int64]) -> Tempered:
    """Find the tempering of the raw scores (n, L) of held-out `rows`: a temperature from 0.05 to 20 for classes.

    Scores that are right no more often than the majority class, or lose no less than the class frequencies, are
    shrunk towards these frequencies: what is predicted no better than by guessing becomes the majority class. In
    regression the temperature is 1 or more: outputs that spread wider than the held-out targets justify are shrunk
    towards 0, the mean of scaled targets, as far as these rows clearly show. Losses are those of `row_losses`, which
    outliers cannot dominate.

    Examples
    --------
    >>> targets = Targets("binary", np.array([[0.0], [0.0], [0.0], [1.0], [1.0], [1.0], [1.0], [0.0]]), 1)
    >>> scores = 4 * np.log(3) * np.repeat([-1.0, 1.0], 4)[:, None]  # four times too sure of three in four
    >>> found = temper(scores, targets, np.arange(8))
    >>> round(found.how.temperature, 2)
    4.0
    """
    weight = targets.weights(rows)
    if targets.task == "regression":
        factor = _best_factor(scores, targets, rows)
        return Tempered(Tempering(1 / factor), row_losses(factor * scores, targets, rows))
    prior = prior_scores(targets, rows)

    def tempered(log_temperature: float, to_shares: bool) -> Tempered:
        how = Tempering(float(np.exp(log_temperature)), to_shares)
        return Tempered(how, row_losses(how.of(scores, prior), targets, rows))

    def best(to_shares: bool) -> Tempered:
        def mean_loss(at: float) -> float:
            return float(tempered(at, to_shares).losses.mean())

        grid = np.linspace(np.log(COLDEST), np.log(HOTTEST), GRID)  # bounded losses may have several minima
        start = min(grid, key=mean_loss)
        if start == grid[-1]:
            return tempered(start, to_shares)
        step = grid[1] - grid[0]
        bounds = max(start - step, grid[0]), start + step
        return tempered(minimize_scalar(mean_loss, bounds=bounds, method="bounded").x, to_shares)

    number = targets.class_numbers(rows).astype(np.int64)
    guess = (scores[:, 0] > 0).astype(np.int64) if targets.task == "binary" else scores.argmax(axis=1)
    if weight[guess == number].sum() > np.bincount(number, weight).max():
        divided, by_shares = best(to_shares=False), row_losses(np.broadcast_to(prior, scores.shape), targets, rows)
        if divided.losses.mean() < by_shares.mean():
            return divided
    return best(to_shares=True)


def row_losses(scores: NDArray[np.float64], targets: Targets, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """The weighted loss of the raw scores (n, L) of each row, bounded, so that no single row decides for all others.

    Linear leaves extrapolate: a row with a feature far out may have scores of 1e5. For classes the loss is the cross
    entropy of (1 − ε) p + ε / K, that is at most log(K / ε), with ε = `OUTLIERS`. In regression it is the squared error
    of the outputs clipped to the range of the targets.

    Examples
    --------
    >>> targets = Targets("regression", np.array([[1.0], [2.0]], np.float32), 1)
    >>> row_losses(np.array([[1.5], [2.0]]), targets, np.arange(2))
    array([0.25, 0.  ])
    """
    y = targets.y[rows]
    weight = targets.weights(rows)
    if targets.task == "regression":
        return weight * ((within_range(scores, targets.y) - y) ** 2).mean(axis=1)
    log_likelihood = -cross_entropies(y, scores)
    return -weight * np.logaddexp(np.log1p(-OUTLIERS) + log_likelihood, np.log(OUTLIERS / targets.n_columns))


def within_range(outputs: NDArray[np.float64], y: NDArray[Any]) -> NDArray[np.float64]:
    """Outputs (n, L) clipped to the range of the targets y (m, L): beyond it a linear leaf only extrapolates."""
    return np.clip(outputs, y.min(axis=0), y.max(axis=0))


def _best_factor(outputs: NDArray[np.float64], targets: Targets, rows: NDArray[np.int64]) -> float:
    """The factor of the outputs with the least bounded squared error, 1 where it is not clearly less.

    Outputs that remain outside the range of the targets do not enter the least-squares fit.
    """
    factors = np.geomspace(LEAST_FACTOR, 1.0, GRID)
    near = min(factors[::-1], key=lambda factor: row_losses(factor * outputs, targets, rows).mean())
    inside = near * outputs == within_range(near * outputs, targets.y)
    y, weight = targets.y[rows], inside * targets.weights(rows)[:, None]
    size = (weight * outputs**2).sum()
    if not size > 0:
        return 1.0
    factor = (weight * outputs * y).sum() / size
    error = np.sqrt((weight * (y - factor * outputs) ** 2).mean() / size)
    return float(np.clip(factor + CLEARLY * error, LEAST_FACTOR, 1.0))
