"""Splits by sets of a category's levels, `region in {north, east}`, and trees of splits of one term.

A split of L levels into two sets is one of 2^(L − 1) − 1. Ordered by the mean of the target in each level, the best one
is among the L − 1 that cut that order: for two classes and any concave impurity, and for squared error
(Breiman et al. 1984, theorem 4.5; Fisher 1958). For more classes or values the order is that of the first principal
component of the levels' means, which is near the best one (Coppersmith et al. 1999). So at each node a category is
one feature, its levels' scores, which is linear in the columns of 0 and 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treelu.training.small.growth import (
    EXACT_SPLITS,
    FindSplit,
    NodeSplit,
    best_threshold,
    growing,
    pair_split,
    rough_gains,
)
from treelu.training.small.rows import TrainingRows
from treelu.training.small.soft_tree import SoftTree
from treelu.tree.terms import count, members, whole_terms

MOST_VALUES = 1_000_000  # rows times terms of which every threshold is tried

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Levels:
    """The categories among the scaled features of some rows.

    Attributes
    ----------
    group : int array of shape (D,)
        The term of each feature.
    low, step : float arrays of shape (D,)
        Of a column of 0 and 1 the scaled 0, and how far the scaled 1 is from it.
    """

    group: NDArray[np.int64]
    low: Floats
    step: Floats

    @classmethod
    def of(cls, rows: TrainingRows) -> Levels:
        """The categories of rows that have some."""
        assert rows.group is not None
        X = rows.X[:, :-1].astype(np.float64)
        low = X.min(axis=0)
        return cls(rows.group, low, np.maximum(X.max(axis=0) - low, 1e-12))

    @property
    def categories(self) -> list[tuple[int, NDArray[np.int64]]]:
        """The terms that are categories, with their features."""
        return [(term, part) for term, part in enumerate(members(self.group)) if len(part) > 1]

    def ordered(self, X: Floats, target: Floats, weight: Floats) -> Floats:
        """Weights (T, D) that turn the features into one for each term: of a category its levels' scores."""
        found = np.zeros((count(len(self.group), self.group), len(self.group)))
        found[self.group, np.arange(len(self.group))] = 1.0
        for term, part in self.categories:
            is_level = self.is_level(X, part)
            mass = weight @ is_level
            sums = (is_level * weight[:, None]).T @ target
            found[term, part] = level_scores(sums, mass) / self.step[part]
        return found

    def is_level(self, X: Floats, part: NDArray[np.int64]) -> Floats:
        """Columns (n, L) of 0 and 1 of a category's levels."""
        return ((X[:, part] - self.low[part]) > self.step[part] / 2).astype(np.float64)

    def as_set(self, split: Floats, part: NDArray[np.int64], present: NDArray[np.bool_]) -> Floats:
        """A split (D + 1,) of one category with weights of ±1, before scaling, for the levels of its smaller set.

        Levels that are not present are in the other set.
        """
        raw = split[part] * self.step[part]  # of the columns of 0 and 1
        inside = raw + (split[-1] + split[part] @ self.low[part]) >= 0
        yes, no = inside & present, ~inside & present
        sign, named = (1.0, yes) if yes.sum() <= no.sum() else (-1.0, no)
        found = np.zeros_like(split)
        found[part] = sign * named / self.step[part]
        found[-1] = -0.5 * sign - found[part] @ self.low[part]
        return found


def level_scores(sums: Floats, mass: Floats) -> Floats:
    """The scores (L,) of levels from the sums of their targets (L, K) and their weights (L,); 0 of absent ones.

    They are the first principal component of the levels' means: with one target, and with two classes, their order is
    that of the means.

    Examples
    --------
    >>> level_scores(np.array([[1.0], [0.0], [4.0]]), np.array([4.0, 0.0, 4.0]))
    array([-0.375,  0.   ,  0.375])
    """
    present = mass > 0
    means = sums / np.where(present, mass, 1.0)[:, None]
    means = np.where(present[:, None], means - sums.sum(axis=0) / mass.sum(), 0.0)
    _, directions = np.linalg.eigh((means * mass[:, None]).T @ means)
    direction = directions[:, -1]
    return np.asarray(means @ (direction * np.sign(direction[np.abs(direction).argmax()])))


def by_levels(find_split: FindSplit, levels: Levels) -> FindSplit:
    """The search for a split with each category as one feature; a split of one category becomes one by sets."""

    def found(X: Floats, target: Floats, weight: Floats, is_classifier: bool) -> NodeSplit | None:
        codes = levels.ordered(X, target, weight)
        split = find_split(X @ codes.T, target, weight, is_classifier)
        if split is None:
            return None
        weights = np.append(split.weights[:-1] @ codes, split.weights[-1])
        used = np.flatnonzero(split.weights[:-1])
        part = np.flatnonzero(levels.group == used[0])
        if len(used) == 1 and len(part) > 1:
            weights = levels.as_set(weights, part, levels.is_level(X, part).max(axis=0) > 0)
        return NodeSplit(split.gain, weights)

    return found


def single_split(X: Floats, target: Floats, weight: Floats, is_classifier: bool) -> NodeSplit | None:
    """The best threshold of one feature; of many rows and features, of those that are best at a few thresholds."""
    tried = np.arange(X.shape[1])
    if X.size > MOST_VALUES:
        gains = rough_gains(np.eye(X.shape[1]), X, target, weight, is_classifier)
        tried = np.sort(np.argsort(-gains, kind="stable")[:EXACT_SPLITS])
    best = None
    for feature in tried.tolist():
        gain, threshold = best_threshold(X[:, feature], target, weight, is_classifier)
        if gain > max(1e-9, 0.0 if best is None else best.gain):
            weights: Any = np.zeros(X.shape[1] + 1)
            weights[[feature, -1]] = 1.0, -threshold
            best = NodeSplit(gain, weights)
    return best


def set_trees(rows: TrainingRows, sizes: Sequence[int], max_depth: int | None = None) -> Iterator[SoftTree]:
    """Trees of one term a split, of some numbers of leaves, smallest first, with splits by sets of levels."""
    return growing(rows, sizes, max_depth, by_levels(single_split, Levels.of(rows)))


def set_pair_tree(rows: TrainingRows, max_leaves: int, max_depth: int | None = None) -> SoftTree:
    """The tree of one or two terms a split, with categories as one feature each; all their levels may get weights."""
    tree = next(growing(rows, [max_leaves], max_depth, by_levels(pair_split, Levels.of(rows))))
    allowed = tree.allowed.copy()
    allowed[:, :-1] = whole_terms(allowed[:, :-1], rows.group)
    return replace(tree, allowed=allowed)
