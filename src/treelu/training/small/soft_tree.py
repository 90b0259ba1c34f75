"""A small tree in training: its splits and leaf values, its updates, and fewer terms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treelu.nn.soft_training import SoftTraining
from treelu.nn.soft_tree import Parameters, Sample, Shape, route, run_updates
from treelu.training.parallel import check_not_stopped
from treelu.training.small.rows import FLOAT, TrainingRows
from treelu.tree.terms import most_terms, strengths
from treelu.tree.to_read import split_numbers

PRIOR = 0.6  # pseudo-rows of the class frequencies in a leaf
NEXT_TO_NOTHING = 0.02  # of the largest weight of a split: a penalised weight that counts as 0


LeafTotals = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class SoftTree:
    """Splits and leaf values in training; `treelu.nn.soft_tree` documents what they compute.

    Attributes
    ----------
    children : int64 array of shape (S, 2)
        Parents before children; leaf j is node S + j.
    splits : float32 array of shape (S, D + 1)
        Weights of the scaled features, and the bias.
    values : float32 array of shape (S + 1, K)
        Scores of the classes, or values.
    allowed : float32 array of shape (S, D + 1)
        1 where a weight may differ from 0.
    group : int64 array of shape (D,), optional
        The term that each feature belongs to (`treelu.tree.terms`).
    """

    children: NDArray[np.int64]
    splits: NDArray[np.float32]
    values: NDArray[np.float32]
    allowed: NDArray[np.float32]
    group: NDArray[np.int64] | None = None

    @property
    def n_splits(self) -> int:
        """Number of splits."""
        return len(self.children)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.children) + 1

    @cached_property
    def max_terms(self) -> int:
        """The most terms of a split."""
        return most_terms(self.splits[:, :-1], self.group)

    @cached_property
    def split_numbers(self) -> int:
        """Numbers to read in the splits."""
        return split_numbers(self.splits[:, :-1], self.group)

    def apply(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
        """The leaf of each row, from 0."""
        if not self.n_splits:
            return np.zeros(len(X), np.int64)
        return route(X, self.children, self.splits)


# Leaf values


def one_leaf(rows: TrainingRows) -> SoftTree:
    """The tree without splits."""
    none = np.zeros((0, rows.n_features + 1), FLOAT)
    return with_values(SoftTree(np.zeros((0, 2), np.int64), none, no_values(0, rows), none), rows)


def no_values(n_splits: int, rows: TrainingRows) -> NDArray[np.float32]:
    return np.zeros((n_splits + 1, rows.target.shape[1]), FLOAT)


def with_values(tree: SoftTree, rows: TrainingRows, found: LeafTotals | None = None) -> SoftTree:
    """Leaf values from the rows that are routed to each leaf, hard; `found` is `leaf_sums` of the rows, if known."""
    sums, mass = leaf_sums(tree, rows) if found is None else found
    mean = sums.sum(axis=0) / mass.sum()
    means = (sums + PRIOR * mean) / (mass + PRIOR)[:, None]
    values = np.log(np.maximum(means, 1e-4)) if rows.is_classifier else means
    return replace(tree, values=values.astype(FLOAT), group=rows.group)


def leaf_sums(
    tree: SoftTree, rows: TrainingRows, leaf: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weighted sums of the targets (leaves, K), and the weight (leaves,), in each leaf; `leaf` is that of each row."""
    leaf = tree.apply(rows.X) if leaf is None else leaf
    return weighted_sums(leaf, rows.target, rows.weight.astype(np.float64), tree.n_leaves)


def weighted_sums(
    leaf: NDArray[np.int64], target: NDArray[Any], weight: NDArray[np.float64], n_leaves: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums of weight × target (leaves, K), and of the weight (leaves,), over the rows of each leaf."""
    columns: list[Any] = [np.bincount(leaf, weight * column, n_leaves) for column in target.T]
    mass: Any = np.bincount(leaf, weight, n_leaves)
    return np.column_stack(columns), mass


def leaves_below(children: NDArray[np.int64]) -> NDArray[np.float64]:
    """A matrix (2S + 1, S + 1) of 0 and 1: which leaves lie at or below each node.

    Examples
    --------
    >>> leaves_below(np.array([[1, 2], [3, 4]]))[:2].tolist()
    [[1.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    """
    n_splits = len(children)
    below = np.zeros((2 * n_splits + 1, n_splits + 1))
    np.fill_diagonal(below[n_splits:], 1)
    for node, (left, right) in zip(range(n_splits - 1, -1, -1), children[::-1].tolist(), strict=True):
        np.add(below[left], below[right], out=below[node])
    return below


def rows_of_leaves(leaf: NDArray[np.int64], n_splits: int) -> list[NDArray[np.int64]]:
    """The numbers of the rows in each leaf."""
    order = np.argsort(leaf, kind="stable")
    return np.split(order, np.searchsorted(leaf[order], np.arange(1, n_splits + 1)))


def reached_rows(children: NDArray[np.int64], leaf: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The numbers of the rows that reach each node, from the leaf of each row."""
    n_splits = len(children)
    reached = [leaf] * n_splits + rows_of_leaves(leaf, n_splits)  # those of splits follow
    for node in range(n_splits - 1, -1, -1):
        reached[node] = np.concatenate([reached[child] for child in children[node]])
    return reached


def impurity(sums: NDArray[np.float64], mass: NDArray[np.float64], is_classifier: bool) -> NDArray[np.float64]:
    """The loss of each node as a leaf, up to a constant: rows × entropy, or minus rows × squared mean."""
    mass = np.maximum(mass, 1e-12)[:, None]
    if is_classifier:
        return -(sums * np.log(np.maximum(sums / mass, 1e-12))).sum(axis=1)
    return -(sums**2 / mass).sum(axis=1)


# Training


def trained(tree: SoftTree, rows: TrainingRows, how: SoftTraining, seed: int) -> SoftTree:
    """The tree after `how.n_updates` steps."""
    check_not_stopped()
    if not tree.n_splits:
        return tree
    splits, values = tree.splits.copy(), tree.values.copy()
    signs = None if rows.signs is None else np.append(rows.signs, FLOAT(0))
    how = how._replace(is_classifier=rows.is_classifier, seed=seed)
    at = Parameters(splits, values)
    run_updates(Sample(*rows.columns), Shape(tree.children, tree.allowed), at, how, signs)
    if how.penalty:  # what it leaves of a weight when the steps become small
        strength = np.abs(splits[:, :-1])
        splits[:, :-1][strength < NEXT_TO_NOTHING * strength.max(axis=1, keepdims=True)] = 0
    return replace(tree, splits=splits, values=values)


# Fewer terms


def masked(tree: SoftTree, max_terms: int) -> SoftTree:
    """The tree with the strongest terms of each split, by |weight| (features have spread 1); the others stay 0."""
    strength = strengths(np.abs(tree.splits[:, :-1]), tree.group)
    if max_terms >= strength.shape[1]:
        return tree
    kept = np.zeros(strength.shape, FLOAT)
    np.put_along_axis(kept, np.argsort(-strength, axis=1, kind="stable")[:, :max_terms], 1, axis=1)
    allowed = np.ones_like(tree.allowed)
    allowed[:, :-1] = kept if tree.group is None else kept[:, tree.group]
    return replace(tree, splits=tree.splits * allowed, allowed=allowed)
