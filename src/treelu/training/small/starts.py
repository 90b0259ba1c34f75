"""Trees from which training starts: random splits, and scikit-learn's; `growth` grows others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treelu.training.small.growth import pair_tree
from treelu.training.small.levels import set_pair_tree
from treelu.training.small.rows import FLOAT, TrainingRows
from treelu.training.small.short_trees import Criterion, grown, pruned_to
from treelu.training.small.soft_tree import SoftTree, no_values, one_leaf, with_values

if TYPE_CHECKING:
    from treelu.training.small.config import TreeLimits
    from treelu.training.small.path import Candidate

START_SPREAD = 0.5  # of z = w·x + b, in random splits


def complete_children(depth: int) -> NDArray[np.int64]:
    """Children of a complete tree, level by level.

    Examples
    --------
    >>> complete_children(2).tolist()
    [[1, 2], [3, 4], [5, 6]]
    """
    first = 2 * np.arange(2**depth - 1, dtype=np.int64) + 1
    return np.column_stack([first, first + 1])


def random_tree(rows: TrainingRows, depth: int, rng: np.random.Generator) -> SoftTree:
    """A complete tree of random splits through the middle of the rows."""
    weights = rng.normal(size=(2**depth - 1, rows.n_features)).astype(FLOAT)
    spread = (rows.X[:, :-1] @ weights.T).std(axis=0)[:, None]
    weights *= START_SPREAD / np.maximum(spread, 1e-6)
    splits = np.column_stack([weights, np.zeros(len(weights), FLOAT)])
    return with_values(
        SoftTree(complete_children(depth), splits, no_values(len(weights), rows), np.ones_like(splits)), rows
    )


def axis_tree(
    rows: TrainingRows,
    children: NDArray[np.int64],
    feature: NDArray[np.int64],
    threshold: NDArray[np.float64],
    steepness: float,
) -> SoftTree:
    """An ordinary tree on scaled rows: right where `steepness` · (x_feature − threshold) ≥ 0.

    Where the output must not rise with a feature, sides are exchanged and the weight is negative.
    """
    steep = np.full(len(children), steepness)
    if rows.signs is not None:
        falls = rows.signs[feature] < 0
        steep[falls] *= -1
        children = np.where(falls[:, None], children[:, ::-1], children)
    splits = np.zeros((len(children), rows.n_features + 1), FLOAT)
    splits[np.arange(len(children)), feature] = steep
    splits[:, -1] = -steep * threshold
    allowed = (splits != 0).astype(FLOAT)
    allowed[:, -1] = 1
    return with_values(SoftTree(children, splits, no_values(len(children), rows), allowed), rows)


class StartTrees:
    """Trees that several candidates and sizes start from, each made once.

    Parameters
    ----------
    limits : TreeLimits
    seed : int
    """

    def __init__(self, limits: TreeLimits, seed: int) -> None:
        self._limits, self._seed = limits, seed
        self._made: dict[tuple[Any, ...], tuple[TrainingRows, Any]] = {}  # rows are kept: no others get their id

    def ordinary(self, rows: TrainingRows, leaves: int, criterion: str, steepness: float = 1.0) -> SoftTree:
        """scikit-learn's tree with at most so many leaves: what the largest one was before it grew on."""
        key = id(rows), criterion
        if key not in self._made:
            self._made[key] = rows, ordinary_tree(rows, criterion, self._limits, self._seed)
        children, feature, threshold = first_splits(self._made[key][1], leaves)
        return axis_tree(rows, children, feature, threshold, steepness) if len(children) else one_leaf(rows)

    def pairs(self, rows: TrainingRows, leaves: int) -> SoftTree:
        """The tree of one or two terms a split with at most so many leaves."""
        key = id(rows), "pairs", leaves
        if key not in self._made:
            grow = pair_tree if rows.group is None else set_pair_tree
            self._made[key] = rows, grow(rows, leaves, self._limits.max_depth)
        tree: SoftTree = self._made[key][1]
        return tree

    def exact(self, rows: TrainingRows, leaves: int, criterion: Criterion) -> SoftTree:
        """The tree of exact pieces with at most so many leaves."""
        key = id(rows), criterion
        if key not in self._made:
            X, target, weight = (array.astype(np.float64) for array in (rows.X[:, :-1], rows.target, rows.weight))
            limits = self._limits
            root = grown(X, target, weight, criterion, limits.max_leaves, limits.min_samples, limits.max_depth)
            self._made[key] = rows, root
        splits = pruned_to(self._made[key][1], leaves)
        return axis_tree(rows, *splits, 1.0) if len(splits.children) else one_leaf(rows)

    def keep_trained(self, rows: TrainingRows, candidate: Candidate, leaves: int, tree: SoftTree) -> None:
        """Keep the tree that a candidate's training from the start has given."""
        self._made[id(rows), candidate, leaves] = rows, tree

    def trained(self, rows: TrainingRows, candidate: Candidate, leaves: int) -> SoftTree | None:
        """The tree that was kept."""
        return self._made.get((id(rows), candidate, leaves), (rows, None))[1]


def ordinary_tree(rows: TrainingRows, criterion: str, limits: TreeLimits, seed: int) -> Any:
    """scikit-learn's tree, grown best first."""
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    common: dict[str, Any] = {
        "criterion": criterion, "max_leaf_nodes": limits.max_leaves, "max_depth": limits.max_depth,
        "min_samples_leaf": limits.min_samples, "random_state": seed,
        "monotonic_cst": None if rows.signs is None else rows.signs.astype(np.int8),
    }  # fmt: skip
    if rows.is_classifier and not rows.soft:
        if criterion == "squared_error":  # of soft targets, which a fold of one class lacks; of classes it is gini
            common["criterion"] = "gini"
        return DecisionTreeClassifier(**common).fit(rows.X[:, :-1], rows.target.argmax(axis=1), rows.weight).tree_
    target = rows.target[:, -1] if rows.is_classifier and rows.target.shape[1] == 2 else rows.target
    return DecisionTreeRegressor(**common).fit(rows.X[:, :-1], target, rows.weight).tree_


def first_splits(tree: Any, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Children, features and thresholds of scikit-learn's tree as it was when it had `size` leaves.

    A tree that is grown best first numbers the children of a node when it splits it.
    """
    left, right = tree.children_left, tree.children_right
    splits = np.flatnonzero(left >= 0)
    splits = np.sort(splits[np.argsort(left[splits])][: size - 1])
    below = np.sort(np.concatenate([left[splits], right[splits]]))
    number = np.zeros(len(left), np.int64)
    number[splits] = np.arange(len(splits))
    leaves = np.setdiff1d(below, splits)
    number[leaves] = len(splits) + np.arange(len(leaves))
    return np.column_stack([number[left[splits]], number[right[splits]]]), tree.feature[splits], tree.threshold[splits]
