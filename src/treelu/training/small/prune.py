"""Fewer leaves: the weakest splits of a tree in training are removed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from treelu.training.small.rows import TrainingRows
from treelu.training.small.soft_tree import (
    SoftTree,
    impurity,
    leaf_sums,
    leaves_below,
    no_values,
    one_leaf,
    reached_rows,
    with_values,
)

RIDGE = 1e-3  # of the linear functions that splits are compared by
LEAST_WEIGHT = 0.5  # of a leaf, where rows have weight 1 in the mean


def pruned(
    tree: SoftTree, rows: TrainingRows, max_leaves: int, min_samples: float = 1.0, *, linear: bool = False
) -> SoftTree:
    """The tree with at most `max_leaves` leaves, none with fewer than `min_samples` rows.

    A split above two leaves becomes a leaf where that costs least on the rows: with a constant in each leaf or, if
    `linear`, with a linear function. A leaf with too few rows is taken away, and its sibling moves up to their parent's
    place.
    """
    leaf = tree.apply(rows.X)
    sums, mass = leaf_sums(tree, rows, leaf)
    counts = np.bincount(leaf, minlength=tree.n_leaves)
    if tree.n_leaves <= max_leaves and counts.min() >= min_samples and mass.min() >= LEAST_WEIGHT:
        return with_values(tree, rows, (sums, mass))
    pruning = _Pruning(tree, rows, leaf, linear)
    while (split := pruning.above_a_small_leaf(min_samples)) is not None:
        pruning.lift(*split)
    while pruning.n_splits() >= max_leaves:
        pruning.close()
    return pruning.result()


def linear_losses(tree: SoftTree, rows: TrainingRows, leaf: NDArray[np.int64]) -> NDArray[np.float64]:
    """The weighted squared errors of a linear function of the features at each node."""
    reached = reached_rows(tree.children, leaf)
    losses = np.zeros(len(reached))
    for node, index in enumerate(reached):
        X, y = rows.X[index].astype(np.float64), rows.target[index].astype(np.float64)
        weighted = X.T * rows.weight[index]
        coefficients = np.linalg.solve(weighted @ X + RIDGE * np.eye(X.shape[1]), weighted @ y)
        losses[node] = ((y - X @ coefficients) ** 2 * rows.weight[index, None]).sum()
    return losses


class _Pruning:
    """A tree being pruned: which nodes have become leaves, and which have replaced their parent."""

    def __init__(self, tree: SoftTree, rows: TrainingRows, leaf: NDArray[np.int64], linear: bool) -> None:
        self.tree, self.rows = tree, rows
        below = leaves_below(tree.children)
        self.count = below @ np.bincount(leaf, minlength=tree.n_leaves)
        sums, self.mass = (below @ of_leaves for of_leaves in leaf_sums(tree, rows, leaf))
        self.loss = linear_losses(tree, rows, leaf) if linear else impurity(sums, self.mass, rows.is_classifier)
        self.children = tree.children.copy()
        self.root = 0
        self.is_leaf = np.arange(2 * tree.n_splits + 1) >= tree.n_splits

    def splits(self) -> Iterator[tuple[int, int, int]]:
        """The remaining splits, parents first, with their two children."""
        pending = [self.root]
        for node in pending:
            if not self.is_leaf[node]:
                left, right = (int(child) for child in self.children[node])
                pending += [left, right]
                yield node, left, right

    def n_splits(self) -> int:
        """The number of remaining splits."""
        return sum(1 for _ in self.splits())

    def above_a_small_leaf(self, least: float) -> tuple[int, int] | None:
        """The last split with a leaf of fewer rows, and that leaf's sibling."""
        found = None
        for node, left, right in self.splits():
            for child, other in ((left, right), (right, left)):
                if self.is_leaf[child] and (self.count[child] < least or self.mass[child] < LEAST_WEIGHT):
                    found = node, other
        return found

    def lift(self, node: int, child: int) -> None:
        """Put a child in its parent's place; it then has the rows of both."""
        if self.is_leaf[child]:
            self.is_leaf[node] = True
            return
        if node == self.root:
            self.root = child
        self.children[self.children == node] = child

    def close(self) -> None:
        """Make the split above two leaves a leaf that costs least."""
        costs = [
            (self.loss[node] - self.loss[left] - self.loss[right], node)
            for node, left, right in self.splits()
            if self.is_leaf[left] and self.is_leaf[right]
        ]
        self.is_leaf[min(costs)[1]] = True

    def result(self) -> SoftTree:
        """The remaining splits, with leaf values from the rows."""
        left = list(self.splits())
        if not left:
            return one_leaf(self.rows)
        splits = [node for node, _, _ in left]
        number = {node: i for i, node in enumerate(splits)}
        for _, *pair in left:
            for child in pair:
                number.setdefault(child, len(number))
        children = np.array([[number[a], number[b]] for _, a, b in left], np.int64)
        values = no_values(len(splits), self.rows)
        small = SoftTree(children, self.tree.splits[splits], values, self.tree.allowed[splits])
        return with_values(small, self.rows)
