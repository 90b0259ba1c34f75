"""Forests: many trees that ask of one feature each, as one set of arrays; grown by scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treelu.data.dataset import row_blocks
from treelu.data.scaling import Scaling
from treelu.nn import Rows, Table
from treelu.nn.cpu.threads import n_threads, share_out
from treelu.nn.kernels import compiled
from treelu.tree.from_sklearn import first_right

BLOCK_ENTRIES = 2**22  # numbers of sparse rows that are made dense at once
FEW_ROWS = 256  # not worth a thread


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees whose splits are "is feature j at least t?"; its scores are the sum of the trees' leaf values.

    Attributes
    ----------
    features : array of int64, shape (n_splits,)
        The feature that a split asks of; the splits of all trees stand one after the other.
    thresholds : array of float64, shape (n_splits,)
        A row goes right where its value is at least this.
    children : array of int64, shape (n_splits, 2)
        Left and right: the number of a split, later than its parent, or ~leaf.
    roots : array of int64, shape (n_trees,)
        Where each tree begins: a split, or ~leaf of a tree that is one leaf.
    values : array of float64, shape (n_leaves, n_outputs)
    n_features : int

    Examples
    --------
    >>> forest = Forest(
    ...     np.array([0]), np.array([0.5]), np.array([[-1, -2]]), np.array([0, -3]), np.array([[1.0], [2.0], [10.0]]), 1
    ... )
    >>> forest.scores(Table(np.array([[0.0], [0.5]])))
    array([[11.],
           [12.]])
    """

    features: NDArray[np.int64]
    thresholds: NDArray[np.float64]
    children: NDArray[np.int64]
    roots: NDArray[np.int64]
    values: NDArray[np.float64]
    n_features: int

    def scores(self, table: Table, index: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """The sums of the trees' values (n, n_outputs) for the rows `index`, or all."""
        at_once = max(FEW_ROWS, BLOCK_ENTRIES // max(1, self.n_features))
        parts = [self._block_scores(rows) for rows in row_blocks(table, index, at_once)]
        return np.concatenate(parts) if parts else np.zeros((0, self.values.shape[1]))

    def _block_scores(self, rows: Rows) -> NDArray[np.float64]:
        X = np.ascontiguousarray(rows.to_dense(), np.float64)
        total = np.zeros((len(X), self.values.shape[1]))
        arrays = self.features, self.thresholds, self.children, self.roots, self.values
        n_parts = max(1, min(n_threads(), len(X) // FEW_ROWS))
        share_out(partial(compiled.add_leaf_values, X, *arrays, total), len(X), n_parts)
        return total

    def on_raw_features(self, scaling: Scaling, factor: NDArray[np.float64] | float = 1.0) -> Forest:
        """The same forest on raw features, where this one reads scaled ones; values are multiplied by `factor`."""
        thresholds = self.thresholds
        if not scaling.is_identity:
            thresholds = scaling.center[self.features] + scaling.scale[self.features] * thresholds
        return replace(self, thresholds=thresholds, values=self.values * factor)

    @classmethod
    def joined(cls, forests: Sequence[Forest]) -> Forest:
        """One forest with all the trees of several.

        Examples
        --------
        >>> leaf = Forest(np.zeros(0, int), np.zeros(0), np.zeros((0, 2), int), np.array([-1]), np.array([[2.0]]), 3)
        >>> Forest.joined([leaf, leaf]).scores(Table(np.zeros((1, 3))))
        array([[4.]])
        """
        if len(forests) == 1:
            return forests[0]
        n_splits = np.cumsum([0, *(len(forest.features) for forest in forests)])
        n_leaves = np.cumsum([0, *(len(forest.values) for forest in forests)])

        def moved(codes: NDArray[np.int64], place: int) -> NDArray[np.int64]:
            return np.where(codes < 0, codes - n_leaves[place], codes + n_splits[place])

        return cls(
            np.concatenate([forest.features for forest in forests]),
            np.concatenate([forest.thresholds for forest in forests]),
            np.concatenate([moved(forest.children, place) for place, forest in enumerate(forests)]),
            np.concatenate([moved(forest.roots, place) for place, forest in enumerate(forests)]),
            np.concatenate([forest.values for forest in forests]),
            forests[0].n_features,
        )


class Nodes(NamedTuple):
    """The nodes of one tree, parents before children; at leaves only `values` count."""

    left: NDArray[Any]
    right: NDArray[Any]
    is_leaf: NDArray[np.bool_]
    features: NDArray[Any]
    thresholds: NDArray[np.float64]
    values: NDArray[np.float64]  # (n_nodes, n_outputs)


def join(trees: Sequence[Nodes], n_features: int) -> Forest:
    """Trees as one forest.

    Examples
    --------
    >>> leaf = Nodes(*np.array([[0], [0]]), np.array([True]), np.array([0]), np.array([0.0]), np.array([[3.0]]))
    >>> join([leaf, leaf], 2).scores(Table(np.zeros((1, 2))))
    array([[6.]])
    """
    n_splits = n_leaves = 0
    features, thresholds, children, roots, values = [], [], [], [], []
    for tree in trees:
        splits = np.flatnonzero(~tree.is_leaf)
        code = np.empty(len(tree.is_leaf), np.int64)  # how a node is named in `children`
        code[splits] = n_splits + np.arange(len(splits))
        code[tree.is_leaf] = ~(n_leaves + np.arange(len(code) - len(splits)))
        features.append(tree.features[splits].astype(np.int64))
        thresholds.append(tree.thresholds[splits])
        children.append(np.column_stack([code[tree.left[splits]], code[tree.right[splits]]]))
        roots.append(int(code[0]))
        values.append(tree.values[tree.is_leaf])
        n_splits, n_leaves = n_splits + len(splits), n_leaves + len(values[-1])
    return Forest(
        np.concatenate(features),
        np.concatenate(thresholds),
        np.concatenate(children),
        np.array(roots, np.int64),
        np.concatenate(values),
        n_features,
    )


def random_forest(model: Any) -> Forest:
    """A fitted RandomForestClassifier (probabilities) or RandomForestRegressor; its scores are their mean.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RandomForestClassifier(10, random_state=0).fit(X, y)
    >>> bool(np.allclose(random_forest(model).scores(Table(X)), model.predict_proba(X)))
    True
    """
    is_classifier, count = hasattr(model, "classes_"), len(model.estimators_)

    def nodes(tree: Any) -> Nodes:
        values = tree.value[:, 0, :] if is_classifier else tree.value[:, :, 0]
        left = tree.children_left
        return Nodes(left, tree.children_right, left < 0, tree.feature, first_right(tree.threshold), values / count)

    return join([nodes(estimator.tree_) for estimator in model.estimators_], model.n_features_in_)


def boosted_trees(model: Any, output: int = 0, n_outputs: int = 1) -> Forest:
    """A fitted HistGradientBoostingClassifier or …Regressor without its constant: the sum of its raw scores.

    Parameters
    ----------
    model : HistGradientBoostingClassifier or HistGradientBoostingRegressor
    output, n_outputs : int
        Which of several outputs a regressor is for.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = HistGradientBoostingClassifier(max_iter=5).fit(X, y)
    >>> scores = boosted_trees(model, n_outputs=3).scores(Table(X)) + model._baseline_prediction
    >>> bool(np.allclose(scores, model.decision_function(X)))
    True
    """
    trees = []
    for iteration in model._predictors:
        for number, predictor in enumerate(iteration):
            nodes = predictor.nodes
            values = np.zeros((len(nodes), n_outputs))
            values[:, output + number] = nodes["value"]
            thresholds = np.nextafter(nodes["num_threshold"], np.inf)  # it goes left up to its threshold
            is_leaf = nodes["is_leaf"].astype(bool)
            trees.append(Nodes(nodes["left"], nodes["right"], is_leaf, nodes["feature_idx"], thresholds, values))
    return join(trees, model.n_features_in_)
