"""CART whose size is cross-validated, with which the report compares the tree."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from treelu.report.rows import Floats
from treelu.tree.rows import take_rows

CartTree: TypeAlias = DecisionTreeClassifier | DecisionTreeRegressor
Fold: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]  # rows to train on, rows held out

SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # leaves
UNTRIED = 8  # leaves, where there are too few rows to hold any out


def fit_cart(
    X: Any,
    y: Any,
    *,
    classifier: bool,
    max_leaf_nodes: int | None = None,
    class_weight: Any = None,
    groups: Any = None,
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
    groups : array of shape (n_rows,), optional
        Rows of one group are held out together.
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
    how: dict[str, Any] = {"classifier": classifier, "class_weight": class_weight, "groups": groups}
    (cart,) = fit_carts(X, y, [max_leaf_nodes], seed=random_state, **how)
    return cart


def fit_carts(
    X: Any,
    y: Any,
    limits: list[int | None],
    *,
    classifier: bool,
    class_weight: Any = None,
    groups: Any = None,
    seed: int = 0,
) -> list[CartTree]:
    """A CART for each limit of its leaves (None: as many as cross-validation chooses), from one cross-validation."""
    tree = DecisionTreeRegressor(random_state=seed)
    if classifier:
        tree = DecisionTreeClassifier(class_weight=class_weight, random_state=seed)
    X = X if hasattr(X, "shape") else np.asarray(X)
    sizes = sorted({*SIZES, *(limit for limit in limits if limit is not None)})
    scores = _held_out_scores(tree, X, np.asarray(y), sizes, groups)
    carts = []
    for limit in limits:
        allowed = [i for i, size in enumerate(sizes) if limit is None or size <= limit]
        chosen = UNTRIED if limit is None else limit
        if scores is not None:
            chosen = sizes[max(allowed, key=lambda i: scores[i])]
        carts.append(clone(tree).set_params(max_leaf_nodes=chosen).fit(X, y))
    return carts


def _held_out_scores(tree: CartTree, X: Any, y: NDArray[Any], sizes: list[int], groups: Any) -> Floats | None:
    """Mean score of each size in the rows that five folds hold out; None for too few rows or groups to hold any out.

    Grown best first, the tree of k leaves is the first 2k − 1 nodes of every larger one: each fold needs one tree.
    """
    classifier = isinstance(tree, DecisionTreeClassifier)
    folds = held_out_folds(y, classifier, groups)
    if not folds:
        return None
    scores = np.zeros(len(sizes))
    for train, test in folds:
        grown = clone(tree).set_params(max_leaf_nodes=sizes[-1]).fit(take_rows(X, train), y[train])
        path = grown.decision_path(take_rows(X, test))
        for i, size in enumerate(sizes):
            scores[i] += _score(y[test], _values_at(grown, path, size), classifier) / len(folds)
    return scores


def held_out_folds(y: NDArray[Any], classifier: bool, groups: Any = None) -> list[Fold]:
    """At most five folds that hold out rows of every class, and the rows of a group together; [] where there are none.

    Examples
    --------
    >>> folds = held_out_folds(np.arange(6.0), False, groups=[0, 0, 1, 1, 2, 2])
    >>> sorted(test.tolist() for _, test in folds)
    [[0, 1], [2, 3], [4, 5]]
    """
    rows = np.zeros((len(y), 1))
    n_folds = int(min(5, np.unique(y, return_counts=True)[1].min() if classifier else len(y)))
    if groups is None:
        return [] if n_folds < 2 else list(check_cv(n_folds, y, classifier=classifier).split(rows, y))
    n_folds, kind = min(n_folds, len(np.unique(groups))), StratifiedGroupKFold if classifier else GroupKFold
    while n_folds > 1:
        folds = list(kind(n_folds).split(rows, y, groups))
        if not classifier or all(len(np.unique(y[part])) == len(np.unique(y)) for fold in folds for part in fold):
            return folds
        n_folds -= 1
    return []


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
