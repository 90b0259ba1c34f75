"""Values of a tree's leaves: means of the rows, drawn towards those of the nodes above."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treelu.training.small.soft_tree import Rows, SoftTree, leaf_sums, node_sums

STRENGTHS = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0)


def shrunk_means(
    children: NDArray[np.int64], sums: NDArray[np.float64], mass: NDArray[np.float64], strength: float
) -> NDArray[np.float64]:
    """Hierarchical shrinkage: a leaf's mean is its root's plus each step down the path, shrunk by the rows above it.

        value(child) = value(parent) + (mean(child) − mean(parent)) / (1 + strength / rows(parent))

    Parameters
    ----------
    children : int array of shape (S, 2)
    sums, mass : arrays of shape (S + 1, K) and (S + 1,)
        Weighted sums of the targets, and the weights, in the leaves.
    strength : float

    Returns
    -------
    float64 array of shape (S + 1, K)

    References
    ----------
    Agarwal et al., "Hierarchical Shrinkage: improving the accuracy and interpretability of tree-based methods", 2022.

    Examples
    --------
    >>> shrunk_means(np.array([[1, 2]]), np.array([[0.0], [10.0]]), np.array([10.0, 10.0]), 20.0).tolist()
    [[0.25], [0.75]]
    """
    sums, mass = node_sums(children, sums, mass)
    n_splits = len(children)
    means = sums / np.maximum(mass, 1e-12)[:, None]
    value = np.empty_like(means)
    value[0] = means[0]
    for node in range(n_splits):
        for child in children[node]:
            step = means[child] - means[node] if mass[child] > 0 else 0.0
            value[child] = value[node] + step / (1 + strength / max(mass[node], 1e-12))
    return value[n_splits:]


def shrunk_values(tree: SoftTree, rows: Rows, strength: float) -> NDArray[np.float64]:
    """The shrunk means of a tree's leaves."""
    return shrunk_means(tree.children, *leaf_sums(tree, rows), strength)


def row_losses(tree: SoftTree, train: Rows, test: Rows, strength: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each test row: whether its class is missed (in regression the squared error), and its Brier score or the same."""
    predicted = shrunk_values(tree, train, strength)[tree.apply(test.X)]
    squared = ((predicted - test.target) ** 2).sum(axis=1)
    if not test.is_classifier:
        return squared, squared
    missed = predicted.argmax(axis=1) != test.target.argmax(axis=1)
    return missed.astype(np.float64), squared
