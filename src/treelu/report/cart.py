"""CART of tuned size, with which the report compares the tree."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

DEPTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12)
LEAVES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


def fit_cart(
    X: Any,
    y: Any,
    *,
    classifier: bool,
    max_leaf_nodes: int | None = None,
    class_weight: Any = None,
    random_state: int = 0,
) -> DecisionTreeClassifier | DecisionTreeRegressor:
    """Fit scikit-learn's decision tree, its depth (1 to 12) or its leaves chosen by five-fold cross-validation.

    Parameters
    ----------
    X : array, DataFrame or sparse matrix of shape (n_rows, n_features)
        Training rows.
    y : array of shape (n_rows,)
    classifier : bool
        Whether ``y`` holds classes (the size of the highest AUC is chosen) or real targets (of the least
        squared error).
    max_leaf_nodes : int, optional
        The most leaves, 2 or more, for a comparison with a tree of that size; it is grown best first. None: any.
    class_weight : dict or "balanced", optional
        The weights of the model that CART stands beside.
    random_state : int

    Returns
    -------
    DecisionTreeClassifier or DecisionTreeRegressor

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> fit_cart(*load_diabetes(return_X_y=True), classifier=False).get_depth()
    2
    >>> int(fit_cart(*load_diabetes(return_X_y=True), classifier=False, max_leaf_nodes=3).get_n_leaves())
    3
    """
    tree: DecisionTreeClassifier | DecisionTreeRegressor
    if classifier:
        sizes = np.unique(y, return_counts=True)[1]
        tree = DecisionTreeClassifier(class_weight=class_weight, random_state=random_state)
        score = "roc_auc" if len(sizes) == 2 else "roc_auc_ovr"
        folds = int(min(5, sizes.min()))  # each fold needs rows of every class
    else:
        tree, score = DecisionTreeRegressor(random_state=random_state), "neg_mean_squared_error"
        folds = min(5, len(y))
    if max_leaf_nodes is None:
        tried: dict[str, Sequence[int]] = {"max_depth": DEPTHS}
    else:
        tried = {"max_leaf_nodes": [n for n in LEAVES if n < max_leaf_nodes] + [max_leaf_nodes]}
    if folds < 2:  # too few rows to hold any out
        tree.set_params(max_depth=DEPTHS[2], max_leaf_nodes=max_leaf_nodes)
        return tree.fit(X, y)
    return GridSearchCV(tree, tried, scoring=score, cv=folds).fit(X, y).best_estimator_
