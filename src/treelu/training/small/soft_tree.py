"""A small tree in training: where it starts, how it is trained, cut back and thinned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treelu.nn import soft_tree as kernels

FLOAT = np.float32
START_SPREAD = 0.5  # of z, in random questions
PRIOR = 0.6  # pseudo-rows of a leaf's first chances


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
    """

    X: NDArray[np.float32]
    target: NDArray[np.float32]
    weight: NDArray[np.float32]
    is_classifier: bool

    def __len__(self) -> int:
        return len(self.X)

    @property
    def n_features(self) -> int:
        """Features, without the column of ones."""
        return self.X.shape[1] - 1

    def part(self, index: NDArray[np.int64]) -> Rows:
        """Some of the rows."""
        return replace(self, X=self.X[index], target=self.target[index], weight=self.weight[index])


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

    def n_terms(self) -> int:
        """The most terms of a question."""
        return int((self.questions[:, :-1] != 0).sum(axis=1).max(initial=0))

    def n_numbers(self) -> int:
        """Numbers that a reader meets: terms of all questions, and leaves."""
        return int((self.questions[:, :-1] != 0).sum()) + self.n_leaves

    def apply(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
        """The leaf of each row, from 0."""
        if not self.n_splits:
            return np.zeros(len(X), np.int64)
        return kernels.route(X, self.children, self.questions)


@dataclass(frozen=True)
class Schedule:
    """How long and how a tree is trained."""

    n_updates: int = 1000
    softest: float = 2.0
    sharpest: float = 20.0
    learning_rate: float = 0.03
    decay: float = 0.3
    drop: float = 0.0
    batch_size: int = 512


# Where a tree starts


def complete_children(depth: int) -> NDArray[np.int64]:
    """Children of a complete tree, level by level.

    Examples
    --------
    >>> complete_children(2).tolist()
    [[1, 2], [3, 4], [5, 6]]
    """
    first = 2 * np.arange(2**depth - 1, dtype=np.int64) + 1
    return np.column_stack([first, first + 1])


def random_tree(rows: Rows, depth: int, rng: np.random.Generator) -> SoftTree:
    """A complete tree of random questions through the middle of the rows."""
    weights = rng.normal(size=(2**depth - 1, rows.n_features)).astype(FLOAT)
    spread = (rows.X[:, :-1] @ weights.T).std(axis=0)[:, None]
    weights *= START_SPREAD / np.maximum(spread, 1e-6)
    questions = np.column_stack([weights, np.zeros(len(weights), FLOAT)])
    return with_values(SoftTree(complete_children(depth), questions, _no_values(len(weights), rows), np.ones_like(questions)), rows)


def axis_tree(
    rows: Rows, children: NDArray[np.int64], feature: NDArray[np.int64], threshold: NDArray[np.float64], steepness: float
) -> SoftTree:
    """The tree of an ordinary decision tree on scaled rows: right where `steepness` · (x_feature − threshold) ≥ 0."""
    questions = np.zeros((len(children), rows.n_features + 1), FLOAT)
    questions[np.arange(len(children)), feature] = steepness
    questions[:, -1] = -steepness * threshold
    allowed = (questions != 0).astype(FLOAT)
    allowed[:, -1] = 1
    return with_values(SoftTree(children, questions, _no_values(len(children), rows), allowed), rows)


def one_leaf(rows: Rows) -> SoftTree:
    """The tree without questions."""
    none = np.zeros((0, rows.n_features + 1), FLOAT)
    return with_values(SoftTree(np.zeros((0, 2), np.int64), none, _no_values(0, rows), none), rows)


def _no_values(n_splits: int, rows: Rows) -> NDArray[np.float32]:
    return np.zeros((n_splits + 1, rows.target.shape[1]), FLOAT)


def with_values(tree: SoftTree, rows: Rows) -> SoftTree:
    """Leaf values from the rows that are routed to each leaf, hard."""
    sums, mass = leaf_sums(tree, rows)
    mean = sums.sum(axis=0) / mass.sum()
    shares = (sums + PRIOR * mean) / (mass + PRIOR)[:, None]
    values = np.log(np.maximum(shares, 1e-4)) if rows.is_classifier else shares
    return replace(tree, values=values.astype(FLOAT))


def leaf_sums(tree: SoftTree, rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weighted sums of the targets (leaves, K), and the weight (leaves,), in each leaf."""
    leaf = tree.apply(rows.X)
    weight = rows.weight.astype(np.float64)
    sums = [np.bincount(leaf, weight * column, tree.n_leaves) for column in rows.target.T]
    return np.column_stack(sums), np.bincount(leaf, weight, tree.n_leaves)


# Training


def trained(tree: SoftTree, rows: Rows, schedule: Schedule, seed: int, signs: NDArray[np.float32] | None = None) -> SoftTree:
    """The tree after `schedule.n_updates` steps; `signs` (D,) of features whose weights must not have the other sign."""
    if not tree.n_splits:
        return tree
    questions, values = tree.questions.copy(), tree.values.copy()
    signs = np.zeros(rows.X.shape[1], FLOAT) if signs is None else np.append(signs, 0).astype(FLOAT)
    kernels.run_updates(
        rows.X,
        rows.target,
        rows.weight,
        tree.children,
        tree.allowed,
        signs,
        questions,
        values,
        schedule.n_updates,
        schedule.batch_size,
        schedule.learning_rate,
        schedule.decay,
        schedule.drop,
        schedule.softest,
        schedule.sharpest,
        rows.is_classifier,
        seed,
    )
    return replace(tree, questions=questions, values=values)


# Fewer leaves, fewer terms


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


def impurity(sums: NDArray[np.float64], mass: NDArray[np.float64], is_classifier: bool) -> NDArray[np.float64]:
    """What a leaf of each node loses, up to a constant: rows × entropy, or minus rows × squared mean."""
    mass = np.maximum(mass, 1e-12)[:, None]
    if is_classifier:
        return -(sums * np.log(np.maximum(sums / mass, 1e-12))).sum(axis=1)
    return -(sums**2 / mass).sum(axis=1)


def pruned(tree: SoftTree, rows: Rows, max_leaves: int, min_samples: float = 1.0) -> SoftTree:
    """The tree with at most `max_leaves` leaves, none with fewer than `min_samples` rows: the weakest questions go.

    A question above two leaves becomes a leaf where that costs least on the rows; above a leaf that is too small, its
    sibling takes the question's place.
    """
    count = np.bincount(tree.apply(rows.X), minlength=tree.n_leaves).astype(np.float64)
    sums, mass = node_sums(tree.children, *leaf_sums(tree, rows))
    _, count = node_sums(tree.children, np.zeros((tree.n_leaves, 1)), count)
    loss = impurity(sums, mass, rows.is_classifier)
    stands_for = np.arange(2 * tree.n_splits + 1)
    is_leaf = stands_for >= tree.n_splits

    def place(node: int) -> int:
        while stands_for[node] != node:
            node = int(stands_for[node])
        return node

    def alive() -> list[tuple[int, int, int]]:
        found, pending = [], [place(0)]
        while pending:
            node = pending.pop()
            if not is_leaf[node]:
                left, right = (place(int(child)) for child in tree.children[node])
                found.append((node, left, right))
                pending += [left, right]
        return found

    while True:
        splits = alive()
        small = [(n, a, b) for n, a, b in splits if (is_leaf[a] and count[a] < min_samples) or (is_leaf[b] and count[b] < min_samples)]
        if small:
            # the deepest first; its rows go to the sibling
            node, left, right = max(small)
            smaller, other = (left, right) if is_leaf[left] and count[left] < min_samples else (right, left)
            if is_leaf[left] and is_leaf[right]:
                is_leaf[node] = True
            else:
                stands_for[node] = other
            continue
        if len(splits) < max_leaves:
            break
        last = [(loss[n] - loss[a] - loss[b], n) for n, a, b in splits if is_leaf[a] and is_leaf[b]]
        is_leaf[min(last)[1]] = True
    return _kept(tree, rows, place, is_leaf)


def _kept(tree: SoftTree, rows: Rows, place: Any, is_leaf: NDArray[np.bool_]) -> SoftTree:
    """The tree of the questions that are left, parents first."""
    splits, edges, pending = [], [], [place(0)]
    n_leaves = 0
    if is_leaf[pending[0]]:
        return one_leaf(rows)
    number: dict[int, int] = {}
    while pending:
        node = pending.pop(0)
        number[node] = len(splits)
        splits.append(node)
        pair = [place(int(child)) for child in tree.children[node]]
        edges.append(pair)
        pending += [child for child in pair if not is_leaf[child]]
    children = np.empty((len(splits), 2), np.int64)
    for i, pair in enumerate(edges):
        for side, child in enumerate(pair):
            if is_leaf[child]:
                children[i, side] = len(splits) + n_leaves
                n_leaves += 1
            else:
                children[i, side] = number[child]
    small = SoftTree(children, tree.questions[splits], _no_values(len(splits), rows), tree.allowed[splits])
    return with_values(small, rows)


def masked(tree: SoftTree, max_terms: int) -> SoftTree:
    """The tree with the `max_terms` strongest terms of each question (features have spread 1); the others are fixed at 0."""
    strength = np.abs(tree.questions[:, :-1])
    if max_terms >= strength.shape[1]:
        return tree
    allowed = np.zeros_like(tree.allowed)
    strongest = np.argsort(-strength, axis=1, kind="stable")[:, :max_terms]
    np.put_along_axis(allowed, strongest, 1, axis=1)
    allowed[:, -1] = 1
    return replace(tree, questions=tree.questions * allowed, allowed=allowed)
