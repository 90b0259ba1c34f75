"""A cross-validated linear model, with which the report compares the tree."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, Ridge, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from treelu.report.cart import Fold, held_out_folds
from treelu.report.rows import Rows, any_rows
from treelu.tree import ObliqueTree
from treelu.tree.missing import MissingValues
from treelu.tree.rows import column_names, is_frame, take_rows

MOST_ROWS = 20_000
MOST_CELLS = 2_000_000  # rows × features × classes
MAX_ITER = 200
STRENGTHS = np.logspace(-4, 2, 7)  # C of the logistic regression
PENALTIES = np.logspace(-2, 5, 8)  # alpha of the ridge regression


def fit_linear(
    X: Any, y: Any, *, classifier: bool, class_weight: Any = None, groups: Any = None, random_state: int = 0
) -> ObliqueTree:
    """Fit a logistic or ridge regression to standardised features, its l2 penalty chosen by cross-validation.

    It is a yardstick, and costs little: of many rows it is fitted to a random sample, of at most 20,000 rows and two
    million cells (rows × features × classes), in at most 200 iterations.

    Parameters
    ----------
    X : array, DataFrame or sparse matrix of shape (n_rows, n_features)
        Training rows. Missing values are filled with medians and get an indicator.
    y : array of shape (n_rows,)
    classifier : bool
        Whether ``y`` holds classes (logistic regression, the penalty of the least log-loss) or real targets (ridge
        regression, the penalty of the least squared error).
    class_weight : dict or "balanced", optional
        The weights of the model that it stands beside.
    groups : array of shape (n_rows,), optional
        Rows of one group are held out together.
    random_state : int
        Seed of the sample.

    Returns
    -------
    ObliqueTree
        Of one linear leaf. ``n_samples`` is the number of rows that it was fitted to.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = fit_linear(X, y, classifier=False)
    >>> model
    ObliqueTree(1 leaf, depth 0, 10 features, regression, linear leaves)
    >>> bool(model.predict(X).std() > 50)
    True
    """
    names: Any = column_names(X) if is_frame(X) else None
    chosen = _sample(X, np.asarray(y), classifier, random_state)
    X = X if hasattr(X, "shape") else np.asarray(X)
    rows, y = any_rows(take_rows(X, chosen)), np.asarray(y)[chosen]
    folds = held_out_folds(y, classifier, None if groups is None else np.asarray(groups)[chosen])
    missing = None
    if not sparse.issparse(rows) and np.isnan(rows).any():
        missing = MissingValues.of(rows)
        rows, names = missing.fill(rows), missing.names(names)
    scaler = StandardScaler(with_mean=not sparse.issparse(rows)).fit(rows)
    model = _fitted(scaler.transform(rows), y, classifier, class_weight, folds, groups is not None)
    weights = np.atleast_2d(model.coef_) / scaler.scale_
    centre = 0.0 if scaler.mean_ is None or sparse.issparse(rows) else weights @ scaler.mean_
    n_features = rows.shape[1]
    two = classifier and len(model.classes_) == 2
    return ObliqueTree(
        np.zeros((0, n_features)),
        np.zeros(0),
        np.zeros((0, 2), dtype=np.int64),
        (np.atleast_1d(model.intercept_) - centre)[None],
        leaf_weights=weights[None],
        link="logistic" if two else "softmax" if classifier else "identity",
        classes=model.classes_ if classifier else None,
        feature_names=names,
        n_samples=np.array([len(y)]),
        spreads=scaler.scale_,
        missing=missing,
    )


def _sample(X: Any, y: NDArray[Any], classifier: bool, random_state: int) -> NDArray[np.int64]:
    """The numbers of as many rows as the limits allow, with the classes' frequencies."""
    labels, counts = np.unique(y, return_counts=True) if classifier else (np.zeros(1), np.zeros(0))
    X = X if hasattr(X, "shape") else np.asarray(X)
    width = getattr(X, "nnz", X.shape[1] * len(y)) / len(y)
    n_models = len(labels) if len(labels) > 2 else 1
    most = max(2 * len(labels), int(min(MOST_ROWS, MOST_CELLS / max(1.0, width * n_models))))
    if len(y) <= most:
        return np.arange(len(y))
    strata = y if classifier and counts.min() > 1 else None
    return np.sort(train_test_split(np.arange(len(y)), train_size=most, stratify=strata, random_state=random_state)[0])


def _fitted(X: Rows, y: NDArray[Any], classifier: bool, class_weight: Any, folds: list[Fold], are_groups: bool) -> Any:
    """The model of the penalty chosen; with too few rows to hold any out, of an ordinary one."""
    if not classifier:
        if not folds:
            return Ridge().fit(X, y)
        in_folds = are_groups or sparse.issparse(X)
        how: dict[str, Any] = {"cv": folds, "scoring": "neg_mean_squared_error"} if in_folds else {}
        return RidgeCV(PENALTIES, **how).fit(X, y)  # each row held out once where rows are dense
    if not folds:
        return LogisticRegression(class_weight=class_weight, max_iter=MAX_ITER).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the limit is meant
        return LogisticRegressionCV(
            Cs=STRENGTHS,
            l1_ratios=(0.0,),
            cv=folds,
            scoring="neg_log_loss",
            class_weight=class_weight,
            max_iter=MAX_ITER,
            use_legacy_attributes=False,
        ).fit(X, y)
