"""CART of tuned depth, with which the report compares the tree."""

from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

DEPTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12)


def fit_cart(
    X: Any, y: Any, *, classifier: bool, class_weight: Any = None, random_state: int = 0
) -> DecisionTreeClassifier | DecisionTreeRegressor:
    """Fit scikit-learn's decision tree, its depth (1 to 12) chosen by five-fold cross-validation.

    Parameters
    ----------
    X : array, DataFrame or sparse matrix of shape (n_rows, n_features)
        Training rows.
    y : array of shape (n_rows,)
    classifier : bool
        Whether ``y`` holds classes (the depth of the highest AUC is chosen) or real targets (of the least
        squared error).
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
    if folds < 2:
        return tree.set_params(max_depth=DEPTHS[2]).fit(X, y)  # too few rows to hold any out
    return GridSearchCV(tree, {"max_depth": DEPTHS}, scoring=score, cv=folds).fit(X, y).best_estimator_
