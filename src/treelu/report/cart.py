"""CART whose size is cross-validated, with which the report compares the tree."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import check_cv
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from treelu.report.rows import Floats
from treelu.tree.rows import take_rows

CartTree: TypeAlias = DecisionTreeClassifier | DecisionTreeRegressor

SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # leaves
UNTRIED = 8  # leaves, where there are too few rows to hold any out


def fit_cart(
    X: Any,
    y: Any,
    *,
    classifier: bool,
    max_leaf_nodes: int | None = None,
    class_weight: Any = None,
    random_state: int = 0,
) -> CartTree:
    """Fit scikit-learn's decision tree, its number of leaves (2 to 512) chosen by five-fold cross-validation.

    Parameters
    ----------
    X : array, DataFrame or sparse matrix of shape (n_rows, n_features)
        Training rows.
    y : array of shape (n_rows,)
    classifier : bool
        Whether ``y`` holds classes (the size of the highest AUC is chosen) or real targets (of the least
        squared error).
    max_leaf_nodes : int, optional
        The most leaves, 2 or more, for a comparison with a tree of that size. None: up to 512.
    class_weight : dict or "balanced", optional
        The weights of the model that CART stands beside.
    random_state : int

    Returns
    -------
    DecisionTreeClassifier or DecisionTreeRegressor
        Grown best first.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> int(fit_cart(*load_diabetes(return_X_y=True), classifier=False).get_n_leaves())
    6
    >>> int(fit_cart(*load_diabetes(return_X_y=True), classifier=False, max_leaf_nodes=3).get_n_leaves())
    3
    """
    (cart,) = fit_carts(X, y, [max_leaf_nodes], classifier=classifier, class_weight=class_weight, seed=random_state)
    return cart


def fit_carts(
    X: Any, y: Any, limits: list[int | None], *, classifier: bool, class_weight: Any = None, seed: int = 0
) -> list[CartTree]:
    """A CART for each limit of its leaves (None: as many as cross-validation chooses), from one cross-validation."""
    tree = DecisionTreeRegressor(random_state=seed)
    if classifier:
        tree = DecisionTreeClassifier(class_weight=class_weight, random_state=seed)
    X = X if hasattr(X, "shape") else np.asarray(X)
    sizes = sorted({*SIZES, *(limit for limit in limits if limit is not None)})
    scores = _held_out_scores(tree, X, np.asarray(y), sizes)
    carts = []
    for limit in limits:
        allowed = [i for i, size in enumerate(sizes) if limit is None or size <= limit]
        chosen = UNTRIED if limit is None else limit
        if scores is not None:
            chosen = sizes[max(allowed, key=lambda i: scores[i])]
        carts.append(clone(tree).set_params(max_leaf_nodes=chosen).fit(X, y))
    return carts


def _held_out_scores(tree: CartTree, X: Any, y: NDArray[Any], sizes: list[int]) -> Floats | None:
    """Mean score of each size in the rows that five folds hold out; None for too few rows to hold any out.

    Grown best first, the tree of k leaves is the first 2k − 1 nodes of every larger one: each fold needs one tree.
    """
    classifier = isinstance(tree, DecisionTreeClassifier)
    n_folds = int(min(5, np.unique(y, return_counts=True)[1].min() if classifier else len(y)))
    if n_folds < 2:  # each fold needs rows of every class
        return None
    scores = np.zeros(len(sizes))
    for train, test in check_cv(n_folds, y, classifier=classifier).split(np.zeros((len(y), 1)), y):
        grown = clone(tree).set_params(max_leaf_nodes=sizes[-1]).fit(take_rows(X, train), y[train])
        path = grown.decision_path(take_rows(X, test))
        for i, size in enumerate(sizes):
            scores[i] += _score(y[test], _values_at(grown, path, size), classifier) / n_folds
    return scores


def _values_at(grown: CartTree, path: Any, size: int) -> Floats:
    """Class frequencies or means, of shape (n_rows, n_values), that the subtree of so many leaves gives each row."""
    inside = path.indices < 2 * size - 1  # a row's nodes have rising numbers
    last = path.indptr[:-1] + np.add.reduceat(inside, path.indptr[:-1], dtype=np.int64) - 1
    values = grown.tree_.value[path.indices[last], 0]
    return values / values.sum(axis=1, keepdims=True) if isinstance(grown, DecisionTreeClassifier) else values


def _score(y: NDArray[Any], values: Floats, classifier: bool) -> float:
    if not classifier:
        return -float(np.mean((y - values[:, 0]) ** 2))
    if values.shape[1] < 2:
        return 0.0
    if values.shape[1] == 2:
        return float(roc_auc_score(y, values[:, 1]))
    return float(roc_auc_score(y, values, multi_class="ovr"))
