"""Fitted scikit-learn trees as ObliqueTree, split for split."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from treelu.tree.oblique_tree import ObliqueTree


def from_sklearn(estimator: Any) -> ObliqueTree:
    """The tree of a fitted estimator.

    scikit-learn rounds X to float32 and goes left where ``x <= threshold``; the tree that comes out reads X
    as it is and takes the same side for every float64 value, the threshold and its neighbours included.
    Weights are CSR with one entry a row. NaN, for which scikit-learn may have learned a side, is refused.

    Parameters
    ----------
    estimator : fitted DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier or
        ExtraTreeRegressor, any estimator whose ``tree_`` is an ObliqueTree, or a Pipeline that ends in one of these
        The tree of a pipeline reads what its last step reads; its features have the names that the steps before it
        give them (``get_feature_names_out``).

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
    """
    if hasattr(estimator, "named_steps"):
        return _of_pipeline(estimator)
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
    entries = (np.ones(len(splits)), grown.feature[splits], np.arange(len(splits) + 1))
    weights = sparse.csr_array(entries, shape=(len(splits), grown.n_features))
    values = grown.value[leaves]  # (n_leaves, n_outputs, n_classes or 1)
    values = values[:, 0, :] if classes is not None else values[:, :, 0]
    order = np.concatenate([splits, leaves])
    return ObliqueTree(
        weights,
        -first_right(grown.threshold[splits]),
        children,
        values,
        link="identity" if classes is None else "probability",
        classes=classes,
        feature_names=getattr(estimator, "feature_names_in_", None),
        n_samples=grown.n_node_samples[order],
        weighted_n_samples=grown.weighted_n_node_samples[order],
    )


def _of_pipeline(pipeline: Any) -> ObliqueTree:
    tree, before = from_sklearn(pipeline.steps[-1][1]), pipeline[:-1]
    if not len(before) or tree.feature_names is not None or not hasattr(before, "get_feature_names_out"):
        return tree
    names = before.get_feature_names_out()
    return replace(tree, feature_names=names) if len(names) == tree.n_features else tree


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
