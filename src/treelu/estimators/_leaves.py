"""The small tree on rows outside memory: its questions from a sample, the values of its leaves from all rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from treelu.estimators._large import SAMPLE_ROWS, refuse_folding, rows_outside_memory
from treelu.estimators._targets import encode_classes
from treelu.estimators._trees import column_importances
from treelu.training.small.finish import values_of_sums
from treelu.training.small.leaves import STRENGTH
from treelu.training.small.soft_tree import node_sums, weighted_sums

if TYPE_CHECKING:
    from treelu.estimators.small import SmallTree


@dataclass(frozen=True)
class LeafSums:
    """What the values of a tree's leaves follow from; those of several parts of the rows add up.

    Attributes
    ----------
    sums : array of shape (leaves, K)
        The weighted sum of the targets: weights of the classes, or values.
    mass : array of shape (leaves,)
        The weight of the rows.
    n_rows : int
        Those that count: of weight 0 there may be others.
    """

    sums: NDArray[np.float64]
    mass: NDArray[np.float64]
    n_rows: int

    @classmethod
    def of(cls, estimator: SmallTree, X: Any, y: Any, weight: NDArray[Any] | None) -> LeafSums:
        """Those of some rows."""
        tree = estimator.tree_
        leaf = tree.apply(estimator._rows(X)) - tree.n_splits
        weight = np.ones(len(leaf)) if weight is None else np.asarray(weight, np.float64)
        if is_classifier(estimator):
            number = encode_classes(y, estimator.classes_)[1]
            target = np.eye(len(estimator.classes_))[number]
        else:
            target = np.asarray(y, np.float64).reshape(len(leaf), -1)
        return cls(*weighted_sums(leaf, target, weight, tree.n_leaves), int(np.count_nonzero(weight)))

    def __add__(self, other: LeafSums) -> LeafSums:
        return LeafSums(self.sums + other.sums, self.mass + other.mass, self.n_rows + other.n_rows)


def fit_tree_outside_memory(estimator: SmallTree, X: Any, y: Any, sample_weight: Any, groups: Any) -> Any:
    """`fit` for what `is_outside_memory`."""
    refuse_folding(estimator.cv, groups)
    refuse_linear_leaves(estimator)
    may_miss = estimator.missing == "indicator"
    with rows_outside_memory(X, y, sample_weight, are_classes=is_classifier(estimator), may_miss=may_miss) as rows:
        part = rows.sample(SAMPLE_ROWS, np.random.default_rng(estimator._seed()))
        estimator.fit(part.X, part.y, sample_weight=part.weight)
        if len(part.y) < len(rows):
            try:
                parts = (LeafSums.of(estimator, *window) for window in rows.windows_in_order())
                total = reduce(add, parts)
            except KeyboardInterrupt:
                left = f"the values of the leaves are those of {len(part.y):,} of {len(rows):,} rows"
                warnings.warn(f"fitting interrupted: {left}", stacklevel=3)
            else:
                set_leaf_values(estimator, total)
    return estimator


def refuse_linear_leaves(estimator: Any) -> None:
    """Raise where leaves are more than their means."""
    if estimator.linear_leaves:
        raise ValueError("linear_leaves=True needs its rows in memory: give arrays, or leave it out")


def set_leaf_values(estimator: SmallTree, total: LeafSums) -> None:
    """Give the fitted tree the values and counts of other rows than it was fitted to."""
    tree, sums, mass = estimator.tree_, total.sums, total.mass
    if is_classifier(estimator) and estimator.class_weight is not None:
        sums = sums * _class_weights(estimator, sums.sum(axis=0))
        mass = sums.sum(axis=1)
    unit = mass.sum() / total.n_rows  # the strength is a number of rows
    strength = STRENGTH if isinstance(estimator.shrinkage, str) else float(estimator.shrinkage)
    signs = estimator._signs(tree.n_features, sums.shape[1])
    values = values_of_sums(tree, sums / unit, mass / unit, strength, is_classifier(estimator), signs)
    _, counts = node_sums(tree.children, sums, mass)
    estimator.tree_ = replace(tree, values=values, n_samples=counts)
    estimator.path_trees_[estimator._chosen_step] = estimator.tree_
    estimator.feature_importances_ = column_importances(estimator.tree_)


def _class_weights(estimator: Any, mass: NDArray[np.float64]) -> NDArray[np.float64]:
    if estimator.class_weight == "balanced":
        return np.divide(mass.sum(), len(mass) * mass, out=np.zeros(len(mass)), where=mass > 0)
    return np.array([estimator.class_weight.get(label, 1.0) for label in estimator.classes_.tolist()])
