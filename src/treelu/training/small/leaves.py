"""Leaf values: means of the rows, shrunk towards those of the nodes above; and the losses of trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treelu.training.calibration import within_range
from treelu.training.small.monotone import directions, ordered_values
from treelu.training.small.rows import TrainingRows
from treelu.training.small.soft_tree import SoftTree, leaf_sums, leaves_below, rows_of_leaves, weighted_sums
from treelu.tree.observed import Observed
from treelu.tree.rows import leaf_counts

STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0)
STRENGTH = 3.0  # of the shrinkage while trees are compared
PARENT_ROWS = 0.5  # pseudo-rows of the parent's probabilities in a leaf
NOISE = 0.1  # of soft targets relative to the rows' own: linear leaves are shrunk the less
LEAST = 1e-4  # probabilities are clipped to this from below


@dataclass(frozen=True)
class LeafSums:
    """The sums from which leaf values follow; those of several parts of the rows add up.

    Attributes
    ----------
    sums : array of shape (leaves, K)
        The weighted sum of the targets: weights of the classes, or values.
    mass : array of shape (leaves,)
        The weight of the rows.
    counts : array of shape (leaves,)
        The number of rows with a positive weight.
    observed : Observed or None
        The ranges of the rows, where they were looked at.
    """

    sums: NDArray[np.float64]
    mass: NDArray[np.float64]
    counts: NDArray[np.float64]
    observed: Observed | None = None

    @classmethod
    def of(
        cls, leaf: NDArray[np.int64], target: NDArray[np.float64], weight: NDArray[Any] | None, n_leaves: int
    ) -> LeafSums:
        """The sums of rows whose leaves, from 0, and targets (n, K) are given."""
        weight = np.ones(len(leaf)) if weight is None else np.asarray(weight, np.float64)
        counts, _ = leaf_counts(leaf, weight, n_leaves)
        return cls(*weighted_sums(leaf, target, weight, n_leaves), counts)

    def __add__(self, other: LeafSums) -> LeafSums:
        known = self.observed is not None and other.observed is not None
        observed = self.observed.joined(other.observed) if known else None  # type: ignore[union-attr, arg-type]
        return LeafSums(self.sums + other.sums, self.mass + other.mass, self.counts + other.counts, observed)


def shrunk_means(
    children: NDArray[np.int64],
    sums: NDArray[np.float64],
    mass: NDArray[np.float64],
    strength: float | NDArray[np.float64],
    is_classifier: bool,
) -> NDArray[np.float64]:
    """Hierarchical shrinkage: a leaf's value is the root's plus each step down its path, shrunk by the rows above it.

        value(child) = value(parent) + (mean(child) − mean(parent)) / (1 + strength / rows(parent))

    For classes, a leaf with a single row would still be nearly certain: its parent's probabilities count for half a row
    more.

    Parameters
    ----------
    children : int array of shape (S, 2)
    sums, mass : arrays of shape (S + 1, K) and (S + 1,)
        Weighted sums of the targets, and the weights, in the leaves.
    strength : float or array of shape (strengths, 1, 1)
    is_classifier : bool

    Returns
    -------
    float64 array of shape (S + 1, K), or (strengths, S + 1, K)

    References
    ----------
    Agarwal et al., "Hierarchical Shrinkage: improving the accuracy and interpretability of tree-based methods",
    ICML 2022.

    Examples
    --------
    >>> shrunk_means(np.array([[1, 2]]), np.array([[0.0], [10.0]]), np.array([10.0, 10.0]), 20.0, False).tolist()
    [[0.25], [0.75]]
    >>> counts = np.array([[1.0, 0.0], [0.0, 99.0]])  # one row of the first class, 99 of the second
    >>> shrunk_means(np.array([[1, 2]]), counts, np.array([1.0, 99.0]), 1.0, True).round(3).tolist()
    [[0.663, 0.337], [0.0, 1.0]]
    """
    n_splits, below = len(children), leaves_below(children)
    sums, mass = below @ sums, below @ mass
    least = np.maximum(mass, 1e-12)[:, None]
    means = sums / least
    parent = np.zeros(2 * n_splits + 1, np.int64)
    parent[children] = np.arange(n_splits)[:, None]
    steps = np.where(mass[:, None] > 0, means - means[parent], 0) / (1 + strength / least[parent])
    leaves = means[0] + below.T @ steps  # a leaf's steps are those of the nodes above it and its own
    if not is_classifier or not np.any(strength) or not n_splits:
        return leaves
    above, own = leaves - steps[..., n_splits:, :], mass[n_splits:, None]
    return above + own / (own + PARENT_ROWS) * (leaves - above)


def shrunk_values(tree: SoftTree, rows: TrainingRows, strengths: Sequence[float]) -> NDArray[np.float64]:
    """The shrunk means (strengths, S + 1, K) of a tree's leaves, in order for monotonic features."""
    sums, mass = leaf_sums(tree, rows)
    values = shrunk_means(tree.children, sums, mass, np.array(strengths)[:, None, None], rows.is_classifier)
    if rows.signs is None:
        return values
    return np.array([in_order(tree.children, tree.splits[:, :-1], rows.signs, of_one, mass) for of_one in values])


def in_order(
    children: NDArray[np.int64],
    weights: Any,
    signs: NDArray[Any],
    values: NDArray[np.float64],
    mass: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Values (S + 1, K) of a real target or of two classes, ordered by the features with signs."""
    ordered = ordered_values(children, directions(weights, signs), values[:, -1], mass)[:, None]
    return ordered if values.shape[1] == 1 else np.hstack([1 - ordered, ordered])


def linear_leaves(
    children: NDArray[np.int64], leaf: NDArray[np.int64], rows: TrainingRows, strengths: Sequence[float]
) -> NDArray[np.float64]:
    """A linear function in each leaf, shrunk towards its parent's: (strengths, S + 1, K, D + 1) on scaled features.

        θ(child) = θ(parent) + (XᵀX + strength · I)⁻¹ Xᵀ (y − X θ(parent))      over the child's rows, weighted

    Parameters
    ----------
    children : int array of shape (S, 2)
    leaf : int array of shape (n,)
        The leaf of each row, from 0.
    rows : TrainingRows
    strengths : sequence of float
        As of `shrunk_means`, for targets as noisy as the rows' own; the root is shrunk towards 0.
    """
    n_splits, width = len(children), rows.X.shape[1]
    noise = NOISE if rows.soft else 1.0
    penalties = np.array([max(noise * strength, 1e-3) for strength in strengths])[:, None, None] * np.eye(width)
    models = np.zeros((2 * n_splits + 1, len(penalties), width, rows.target.shape[1]))
    below = leaves_below(children)
    parts = [
        (rows.X[at].astype(np.float64), rows.target[at], rows.weight[at, None]) for at in rows_of_leaves(leaf, n_splits)
    ]
    moments = np.tensordot(below, [(X * weight).T @ X for X, _, weight in parts], 1)
    products = np.tensordot(below, [(X * weight).T @ y for X, y, weight in parts], 1)

    def moved(node: int, parent: NDArray[np.float64]) -> NDArray[np.float64]:
        return parent + np.linalg.solve(moments[node] + penalties, products[node] - moments[node] @ parent)

    models[0] = moved(0, models[0])
    for node in range(n_splits):
        for child in children[node]:
            models[child] = moved(int(child), models[node])
    return models[n_splits:].transpose(1, 0, 3, 2)


def outputs_by_strength(
    tree: SoftTree, train: TrainingRows, X: NDArray[np.float32], strengths: Sequence[float]
) -> NDArray[np.float64]:
    """Outputs (strengths, n, K) of the hard tree for rows X, its leaves fitted to the training rows.

    Those of linear leaves are clipped to the range of the training targets, so that no outlier decides.
    """
    leaf = tree.apply(X)
    if not train.linear:
        return shrunk_values(tree, train, strengths)[:, leaf]
    of_train = tree.apply(train.X)
    models = linear_leaves(tree.children, of_train, train, strengths)
    return within_range(np.einsum("snkd,nd->snk", models[:, leaf], X), train.target)


def row_losses(outputs: NDArray[np.float64], test: TrainingRows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each test row 1 where its class is wrong, and its squared error; in regression the latter twice."""
    squared = ((outputs - test.target) ** 2).sum(axis=1)
    if not test.is_classifier:
        squared /= test.target.shape[1]
        return squared, squared
    error = outputs.argmax(axis=1) != test.target.argmax(axis=1)
    return error.astype(np.float64), squared


def combined(error: NDArray[np.float64], squared: NDArray[np.float64]) -> NDArray[np.float64]:
    """The loss of each row by which trees are compared: half the error rate and half the squared error."""
    return (error + squared) / 2


def mean_loss(tree: SoftTree, train: TrainingRows, test: TrainingRows) -> float:
    """The mean of `combined` over the test rows, with leaves fitted to the training rows."""
    (outputs,) = outputs_by_strength(tree, train, test.X, [STRENGTH])
    return float(np.average(combined(*row_losses(outputs, test)), weights=test.weight))


def held_out_outputs(
    tree: SoftTree, train: TrainingRows, test: TrainingRows
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Outputs (n, K) for the test rows with `STRENGTH`, and their losses (strengths, n) with each of the `STRENGTHS`.

    Losses are log-losses or squared errors.
    """
    middle = STRENGTHS.index(STRENGTH)
    if train.linear:
        outputs = outputs_by_strength(tree, train, test.X, STRENGTHS)
        return outputs[middle], mean_squares(outputs, test)
    leaf, values = tree.apply(test.X), shrunk_values(tree, train, STRENGTHS)
    outputs = values[:, leaf]
    if not test.is_classifier:
        return outputs[middle], mean_squares(outputs, test)
    logs = np.log(np.maximum(values, LEAST))
    return outputs[middle], -logs[:, leaf, test.target.argmax(axis=1)]


def mean_squares(outputs: NDArray[np.float64], test: TrainingRows) -> NDArray[np.float64]:
    """The squared error (..., n) of each row of outputs (..., n, K), as a mean over the targets."""
    return np.asarray(((outputs - test.target) ** 2).mean(axis=-1))
