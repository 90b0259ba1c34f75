"""A small tree in training: its rows, its leaf values, and how it is trained and thinned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treelu.data.folds import Folding
from treelu.nn.soft_training import SoftTraining
from treelu.nn.soft_tree import Parameters, Sample, Shape, route, run_updates
from treelu.training.parallel import check_not_stopped

FLOAT = np.float32
PRIOR = 0.6  # pseudo-rows of a leaf's first chances
NEXT_TO_NOTHING = 0.02  # of the largest weight of a question: a penalised weight that counts as 0


@dataclass(frozen=True)
class Rows:
    """Scaled rows as the kernels take them.

    Attributes
    ----------
    X : float32 array of shape (n, D + 1)
        Features of mean 0 and spread 1, and a 1.
    target : float32 array of shape (n, K)
        One column for each class, or real targets of mean 0 and spread 1.
    weight : float32 array of shape (n,)
    is_classifier : bool
    taught : bool
        Whether targets are a teacher's chances or values, in place of the rows' own.
    signs : float32 array of shape (D,), optional
        1 where the output must not fall with a feature, −1 where it must not rise, 0 elsewhere.
    linear : bool
        Whether leaves are judged with a linear function of the features instead of a constant.
    pieces : SoftTree, optional
        Of a linear network, whose answers the targets are: in each leaf they are a linear function.
    folding : Folding, optional
        Which rows belong together, or the folds, where rows are held out.
    """

    X: NDArray[np.float32]
    target: NDArray[np.float32]
    weight: NDArray[np.float32]
    is_classifier: bool
    taught: bool = False
    signs: NDArray[np.float32] | None = None
    linear: bool = False
    pieces: SoftTree | None = None
    folding: Folding | None = None

    def __len__(self) -> int:
        return len(self.X)

    @property
    def n_features(self) -> int:
        """Features, without the column of ones."""
        return self.X.shape[1] - 1

    @cached_property
    def columns(self) -> tuple[NDArray[np.float32], ...]:
        """Features and ones (D + 1, n), targets (K, n) and weights (1, n) of the rows in random order."""
        order = np.random.default_rng(len(self)).permutation(len(self))
        tables = (self.X, self.target, self.weight[:, None])
        return tuple(np.ascontiguousarray(table[order].T) for table in tables)

    @cached_property
    def to_question(self) -> Rows:
        """The rows as questions are trained on them: for linear leaves, what one linear function leaves of the targets.

        A tree with constants in its leaves, as it is trained, would spend its questions on a trend that the leaves have
        anyway.
        """
        if not self.linear:
            return self
        X, weight = self.X.astype(np.float64), self.weight[:, None].astype(np.float64)
        trend = np.linalg.solve((X * weight).T @ X + np.eye(X.shape[1]), (X * weight).T @ self.target)
        return replace(self, target=(self.target - X @ trend).astype(FLOAT))

    def some(self, most: int) -> Rows:
        """At most so many of the rows, drawn at random, always the same ones."""
        if len(self) <= most:
            return self
        return self.part(np.random.default_rng(len(self)).choice(len(self), most, replace=False))

    def part(self, index: NDArray[np.int64]) -> Rows:
        """Some of the rows."""
        folding = None if self.folding is None else self.folding.part(index)
        return replace(self, X=self.X[index], target=self.target[index], weight=self.weight[index], folding=folding)

    @property
    def groups(self) -> NDArray[np.int64] | None:
        """The group of each row, where there are any."""
        return None if self.folding is None else self.folding.groups


@dataclass(frozen=True)
class SoftTree:
    """Questions and leaf values in training; `treelu.nn.soft_tree` says what they compute.

    Attributes
    ----------
    children : int64 array of shape (S, 2)
        Parents before children; leaf j is node S + j.
    questions : float32 array of shape (S, D + 1)
        Weights of the scaled features, and the bias.
    values : float32 array of shape (S + 1, K)
        Scores of the classes, or values.
    allowed : float32 array of shape (S, D + 1)
        1 where a weight may differ from 0.
    """

    children: NDArray[np.int64]
    questions: NDArray[np.float32]
    values: NDArray[np.float32]
    allowed: NDArray[np.float32]

    @property
    def n_splits(self) -> int:
        """Number of questions."""
        return len(self.children)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.children) + 1

    def apply(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
        """The leaf of each row, from 0."""
        if not self.n_splits:
            return np.zeros(len(X), np.int64)
        return route(X, self.children, self.questions)


# Leaf values


def one_leaf(rows: Rows) -> SoftTree:
    """The tree without questions."""
    none = np.zeros((0, rows.n_features + 1), FLOAT)
    return with_values(SoftTree(np.zeros((0, 2), np.int64), none, no_values(0, rows), none), rows)


def no_values(n_splits: int, rows: Rows) -> NDArray[np.float32]:
    return np.zeros((n_splits + 1, rows.target.shape[1]), FLOAT)


def with_values(tree: SoftTree, rows: Rows) -> SoftTree:
    """Leaf values from the rows that are routed to each leaf, hard."""
    sums, mass = leaf_sums(tree, rows)
    mean = sums.sum(axis=0) / mass.sum()
    shares = (sums + PRIOR * mean) / (mass + PRIOR)[:, None]
    values = np.log(np.maximum(shares, 1e-4)) if rows.is_classifier else shares
    return replace(tree, values=values.astype(FLOAT))


def leaf_sums(
    tree: SoftTree, rows: Rows, leaf: NDArray[np.int64] | None = None
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


def node_sums(
    children: NDArray[np.int64], sums: NDArray[np.float64], mass: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums and weights of all nodes from those of the leaves."""
    n_splits = len(children)
    sums = np.concatenate([np.zeros((n_splits, sums.shape[1])), sums])
    mass = np.concatenate([np.zeros(n_splits), mass])
    for node in range(n_splits - 1, -1, -1):
        sums[node], mass[node] = sums[children[node]].sum(axis=0), mass[children[node]].sum()
    return sums, mass


def reached_rows(children: NDArray[np.int64], leaf: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The numbers of the rows that reach each node, from the leaf of each row."""
    n_splits = len(children)
    order = np.argsort(leaf, kind="stable")
    of_leaves = np.split(order, np.searchsorted(leaf[order], np.arange(1, n_splits + 1)))
    reached = [order] * n_splits + of_leaves
    for node in range(n_splits - 1, -1, -1):
        reached[node] = np.concatenate([reached[child] for child in children[node]])
    return reached


def impurity(sums: NDArray[np.float64], mass: NDArray[np.float64], is_classifier: bool) -> NDArray[np.float64]:
    """What each node loses as a leaf, up to a constant: rows × entropy, or minus rows × squared mean."""
    mass = np.maximum(mass, 1e-12)[:, None]
    if is_classifier:
        return -(sums * np.log(np.maximum(sums / mass, 1e-12))).sum(axis=1)
    return -(sums**2 / mass).sum(axis=1)


# Training


def trained(tree: SoftTree, rows: Rows, how: SoftTraining, seed: int) -> SoftTree:
    """The tree after `how.n_updates` steps."""
    check_not_stopped()
    if not tree.n_splits:
        return tree
    questions, values = tree.questions.copy(), tree.values.copy()
    signs = None if rows.signs is None else np.append(rows.signs, FLOAT(0))
    how = how._replace(is_classifier=rows.is_classifier, seed=seed)
    at = Parameters(questions, values)
    run_updates(Sample(*rows.columns), Shape(tree.children, tree.allowed), at, how, signs)
    if how.penalty:  # what it leaves of a weight when the steps become small
        strength = np.abs(questions[:, :-1])
        questions[:, :-1][strength < NEXT_TO_NOTHING * strength.max(axis=1, keepdims=True)] = 0
    return replace(tree, questions=questions, values=values)


# Fewer terms


def masked(tree: SoftTree, max_terms: int) -> SoftTree:
    """The tree with the strongest terms of each question, by |weight| (features have spread 1); the others stay 0."""
    strength = np.abs(tree.questions[:, :-1])
    if max_terms >= strength.shape[1]:
        return tree
    allowed = np.zeros_like(tree.allowed)
    strongest = np.argsort(-strength, axis=1, kind="stable")[:, :max_terms]
    np.put_along_axis(allowed, strongest, 1, axis=1)
    allowed[:, -1] = 1
    return replace(tree, questions=tree.questions * allowed, allowed=allowed)
