"""Fitted scikit-learn trees as ObliqueTree, split for split."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from treelu.tree.missing import MissingValues
from treelu.tree.oblique_tree import ObliqueTree
from treelu.tree.observed import Observed
from treelu.tree.pipelines import fold_pipeline


def from_sklearn(estimator: Any, *, feature_names: Any = None, X: Any = None) -> ObliqueTree:
    """The tree of a fitted estimator or pipeline.

    scikit-learn rounds X to float32 and goes left where ``x <= threshold``; the tree that comes out reads X
    as it is and takes the same side for every float64 value, the threshold and its neighbours included.
    Weights are CSR with one entry a row.

    A tree that was trained with missing values sends NaN to the same side as scikit-learn does: its splits have a
    second term, the indicator of the missing value. In rows for other trees NaN is an error. (A tree whose splits all
    send NaN to the child with more rows cannot be told from one that was trained without.)

    The tree of a pipeline reads the columns that the pipeline reads, under their names: its affine steps are folded
    into the splits, which keeps predictions the same up to rounding at a split. These are the scalers, PCA and linear
    projections, feature selection, `SimpleImputer`, and `ColumnTransformer`, `FeatureUnion` and pipelines of them. Any
    other step raises; see :mod:`treelu.tree.pipelines`.

    Parameters
    ----------
    estimator : fitted DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier or
        ExtraTreeRegressor, any estimator whose ``tree_`` is an ObliqueTree, or a Pipeline that ends in one of these
    feature_names : sequence of str, optional
        Names of the tree's features; None: those that the estimator was fitted with.
    X : rows, optional
        The training rows, as the tree reads them: queries then stay within what they held (``tree.observed``).
        scikit-learn's estimators do not keep it.

    Returns
    -------
    ObliqueTree

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from treelu.tree import ObliqueTree
    >>> X, y = load_iris(return_X_y=True)
    >>> cart = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
    >>> tree = ObliqueTree.from_sklearn(cart)
    >>> tree
    ObliqueTree(3 leaves, depth 2, 4 features, 3 classes)
    >>> bool((tree.predict(X) == cart.predict(X)).all())
    True

    A scaler is folded into the splits:

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> scaled = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=1, random_state=0)).fit(X, y)
    >>> ObliqueTree.from_sklearn(scaled).biases.round(2), tree.biases[:1].round(2)
    (array([-0.8]), array([-0.8]))
    """
    if hasattr(estimator, "named_steps"):
        tree = fold_pipeline(estimator, from_sklearn(estimator.steps[-1][1]))
    else:
        tree = _tree_of(estimator)
    tree = tree if feature_names is None else replace(tree, feature_names=feature_names)
    if X is None:
        return tree
    return replace(tree, observed=Observed.of(tree.read_rows(X), tree.missing))


def _tree_of(estimator: Any) -> ObliqueTree:
    """The tree of an estimator that is one."""
    grown = getattr(estimator, "tree_", None)
    if isinstance(grown, ObliqueTree):
        return grown
    fields = ("children_left", "children_right", "feature", "threshold", "value", "n_features")
    if grown is None or not all(hasattr(grown, name) for name in fields):
        raise TypeError(
            "estimator must be a fitted scikit-learn decision tree or have an ObliqueTree as tree_, "
            f"got {type(estimator).__name__}"
        )
    classes = getattr(estimator, "classes_", None)
    if classes is not None and grown.n_outputs > 1:
        raise ValueError(f"estimator must predict one label, this classifier has {grown.n_outputs} outputs")

    splits, leaves, children = split_numbers(grown.children_left, grown.children_right)
    names, missing = getattr(estimator, "feature_names_in_", None), None
    if _learned_missing(grown, splits):
        weights, biases, missing = _splits_with_missing(grown, splits)
        names = missing.names(names)
    else:
        entries = (np.ones(len(splits)), grown.feature[splits], np.arange(len(splits) + 1))
        weights = sparse.csr_array(entries, shape=(len(splits), grown.n_features))
        biases = -first_right(grown.threshold[splits])
    values = grown.value[leaves]  # (n_leaves, n_outputs, n_classes or 1)
    values = values[:, 0, :] if classes is not None else values[:, :, 0]
    order = np.concatenate([splits, leaves])
    return ObliqueTree(
        weights,
        biases,
        children,
        values,
        link="identity" if classes is None else "probability",
        classes=classes,
        feature_names=names,
        n_samples=grown.n_node_samples[order],
        weighted_n_samples=grown.weighted_n_node_samples[order],
        missing=missing,
    )


def _splits_with_missing(grown: Any, splits: np.ndarray) -> tuple[sparse.csr_array, np.ndarray, MissingValues]:
    """Weights and biases of splits that send NaN to a side of its own, with an indicator of each feature they use.

    A missing value is filled with 0, and the weight v of the indicator takes it across the threshold t: v - t is at
    least 1 where scikit-learn sends NaN to the right and at most -1 where it sends it to the left. A split whose
    threshold is infinite has only missing values on its right.
    """
    features, indicator = np.unique(grown.feature[splits], return_inverse=True)
    threshold = grown.threshold[splits]
    asks = np.isinf(threshold)  # about the missing value alone
    right = np.where(asks, 0.5, first_right(np.where(asks, 0.0, threshold)))
    side = np.where(grown.missing_go_to_left[splits], -1, 1)
    across = np.where(asks, side, right + side * np.maximum(1, np.abs(right)))
    places = np.column_stack([grown.feature[splits], grown.n_features + indicator])
    entries = np.column_stack([np.where(asks, 0.0, 1.0), across])
    shape = (len(splits), grown.n_features + len(features))
    weights = sparse.csr_array((entries.ravel(), places.ravel(), 2 * np.arange(len(splits) + 1)), shape=shape)
    weights.eliminate_zeros()
    return weights, -right, MissingValues(np.zeros(grown.n_features), features)


def _learned_missing(grown: Any, splits: np.ndarray) -> bool:
    """Whether a tree was trained with missing values: otherwise NaN goes to the child with more rows at every split."""
    left, right = (grown.n_node_samples[side[splits]] for side in (grown.children_left, grown.children_right))
    larger_is_left = grown.missing_go_to_left[splits] == (left > right)
    return bool(np.isinf(grown.threshold[splits]).any() or not larger_is_left.all())


def split_numbers(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """scikit-learn's numbers of splits and leaves in our order, and the children in our numbers."""
    splits = np.flatnonzero(left >= 0)  # numbered in preorder: parents before children
    leaves = np.flatnonzero(left < 0)
    number = np.empty(len(left), dtype=np.int64)
    number[splits] = np.arange(len(splits))
    number[leaves] = len(splits) + np.arange(len(leaves))
    return splits, leaves, np.column_stack([number[left[splits]], number[right[splits]]])


def first_right(threshold: np.ndarray) -> np.ndarray:
    """The smallest float64 x with ``float32(x) > threshold``: where a scikit-learn node starts to go right.

    float32(x) > t means that x rounds to ``above``, the first float32 beyond t, or to a higher one. Rounding
    goes to the nearest and, from half way, to the even significand; half way is exact in float64.
    """
    threshold = np.asarray(threshold, dtype=np.float64)
    rounded = threshold.astype(np.float32)
    above = np.where(rounded > threshold, rounded, np.nextafter(rounded, np.float32(np.inf)))
    below = np.nextafter(above, np.float32(-np.inf))
    half_way = (above.astype(np.float64) + below.astype(np.float64)) / 2
    return np.where(half_way.astype(np.float32) > threshold, half_way, np.nextafter(half_way, np.inf))
