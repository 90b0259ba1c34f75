"""The small tree on rows outside memory: its splits from a sample, the values of its leaves from all rows."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from treelu.data.encoding import encode_classes
from treelu.estimators._large import SAMPLE_ROWS, refuse_folding, rows_outside_memory
from treelu.estimators._monotonic import monotonic_signs
from treelu.training.config import draw_seeds
from treelu.training.pattern_counts import column_importances
from treelu.training.small.finish import values_of_sums
from treelu.training.small.fit import chosen_row
from treelu.training.small.leaves import STRENGTH, LeafSums

if TYPE_CHECKING:
    from treelu.estimators.small import SmallTree


def leaf_sums_of(estimator: SmallTree, X: Any, y: Any, weight: NDArray[Any] | None) -> LeafSums:
    """Sums of the targets in the leaves of a fitted estimator's tree."""
    if is_classifier(estimator):
        target = np.eye(len(estimator.classes_))[encode_classes(y, estimator.classes_)[1]]
    else:
        target = np.asarray(y, np.float64).reshape(len(y), -1)
    tree = estimator.tree_
    return LeafSums.of(estimator.apply(X) - tree.n_splits, target, weight, tree.n_leaves)


def fit_tree_outside_memory(estimator: SmallTree, X: Any, y: Any, sample_weight: Any, groups: Any) -> Any:
    """`fit` for what `is_outside_memory`."""
    refuse_folding(estimator.cv, groups)
    refuse_linear_leaves(estimator)
    may_miss = estimator.missing == "indicator"
    with rows_outside_memory(X, y, sample_weight, are_classes=is_classifier(estimator), may_miss=may_miss) as rows:
        part = rows.sample(SAMPLE_ROWS, np.random.default_rng(draw_seeds(estimator.random_state, 1)[0]))
        estimator.fit(part.X, part.y, sample_weight=part.weight)
        if len(part.y) < len(rows):
            try:
                parts = (leaf_sums_of(estimator, *window) for window in rows.windows_in_order())
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
    unit = mass.sum() / total.counts.sum()  # the strength is a number of rows
    strength = STRENGTH if isinstance(estimator.shrinkage, str) else float(estimator.shrinkage)
    signs = monotonic_signs(estimator, tree.n_features, sums.shape[1])
    values = values_of_sums(tree, sums / unit, mass / unit, strength, is_classifier(estimator), signs)
    estimator.tree_ = replace(tree, values=values).with_leaf_counts(total.counts, mass)
    estimator.path_trees_[chosen_row(estimator.path_)] = estimator.tree_
    estimator.feature_importances_ = column_importances(estimator.tree_)


def _class_weights(estimator: Any, mass: NDArray[np.float64]) -> NDArray[np.float64]:
    if estimator.class_weight == "balanced":
        return np.divide(mass.sum(), len(mass) * mass, out=np.zeros(len(mass)), where=mass > 0)
    return np.array([estimator.class_weight.get(label, 1.0) for label in estimator.classes_.tolist()])
