"""HHCART: oblique trees grown greedily by axis-parallel splits in reflected feature spaces."""

from __future__ import annotations

from collections import deque
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from experiments.baselines._eigenvectors import Eigenvectors, covariance_eigenvectors
from experiments.baselines._estimators import BaselineClassifier, BaselineTree
from experiments.baselines._splits import Split, best_split, reflector
from treelu.data.spread import Matrix
from treelu.tree import ObliqueTree


def grow(
    X: Matrix,
    targets: NDArray[np.float64],
    groups: NDArray[np.int64],
    sample_weight: NDArray[np.float64],
    *,
    eigenvectors: Eigenvectors,
    max_depth: int | None,
    min_samples_split: int,
    min_samples_leaf: int,
    twoing: bool = False,
    **describe: Any,
) -> ObliqueTree:
    """Grow a tree breadth first; leaf values are the weighted means of ``targets``.

    Parameters
    ----------
    X : array or CSR array of shape (n_rows, n_features)
    targets : array of shape (n_rows, n_targets)
        One-hot classes or real values.
    groups : array of shape (n_rows,)
        The rows of one group share a covariance matrix: classes, or one group in regression.
    sample_weight : array of shape (n_rows,)
        Positive weights.
    eigenvectors, max_depth, min_samples_split, min_samples_leaf
        As in :class:`HHCARTClassifier`.
    twoing : bool
        Rank splits by the twoing rule instead of Gini impurity or squared error.
    **describe
        What else :class:`~treelu.tree.ObliqueTree` takes: link, classes, feature names.

    Returns
    -------
    ObliqueTree

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 2.0]])
    >>> tree = grow(X, np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0, 0, 1, 1]), np.ones(4),
    ...             eigenvectors="all", max_depth=1, min_samples_split=2, min_samples_leaf=1)
    >>> tree.predict(X)  # one oblique split; along the axes it takes two
    array([0., 0., 1., 1.])
    """
    splits: list[Split] = []
    split_counts: list[tuple[int, float]] = []  # rows, and their weight
    values: list[NDArray[np.float64]] = []
    leaf_counts: list[tuple[int, float]] = []
    children: list[list[int]] = []
    waiting = deque([(np.arange(X.shape[0]), 0, -1, 0)])
    while waiting:
        rows, depth, parent, side = waiting.popleft()
        weight, target = sample_weight[rows], targets[rows]
        split = None
        may_split = (max_depth is None or depth < max_depth) and len(rows) >= min_samples_split
        if may_split and (target != target[0]).any():
            X_node = X[rows]
            reflectors = _reflectors(X_node, groups[rows], weight, eigenvectors)
            split = best_split(X_node, target, weight, reflectors, min_samples_leaf, twoing)
        if split is None:
            number = -1 - len(values)  # leaves are numbered after the splits, when their number is known
            values.append(np.average(target, axis=0, weights=weight))
            leaf_counts.append((len(rows), weight.sum()))
        else:
            number = len(splits)
            right = X_node @ split.weights + split.bias >= 0
            splits.append(split)
            split_counts.append((len(rows), weight.sum()))
            children.append([0, 0])
            waiting.append((rows[~right], depth + 1, number, 0))
            waiting.append((rows[right], depth + 1, number, 1))
        if parent >= 0:
            children[parent][side] = number
    numbers = np.array(children, dtype=np.int64).reshape(-1, 2)
    n_samples, weighted_n_samples = np.array(split_counts + leaf_counts).T
    return ObliqueTree(
        np.array([split.weights for split in splits]).reshape(-1, X.shape[1]),
        np.array([split.bias for split in splits]),
        np.where(numbers < 0, len(splits) - 1 - numbers, numbers),
        np.array(values),
        n_samples=n_samples,
        weighted_n_samples=weighted_n_samples,
        **describe,
    )


def _reflectors(
    X: Matrix,
    groups: NDArray[np.int64],
    sample_weight: NDArray[np.float64],
    eigenvectors: Eigenvectors,
) -> list[NDArray[np.float64]]:
    """A reflector for each eigenvector of each group's covariance; a single feature has nothing to reflect."""
    found: list[NDArray[np.float64]] = []
    for group in np.unique(groups) if X.shape[1] > 1 else ():
        own = np.flatnonzero(groups == group)
        if len(own) > 1:
            directions = covariance_eigenvectors(X[own], sample_weight[own], eigenvectors)
            found.extend(reflector(direction) for direction in directions)
    return found


class _HHCART(BaselineTree):
    """What the classifier and the regressor share: their parameters, and growing the tree."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "eigenvectors": [StrOptions({"all", "dominant"})],
        "max_depth": [Interval(Integral, 1, None, closed="left"), None],
        "min_samples_split": [Interval(Integral, 2, None, closed="left")],
        "min_samples_leaf": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        eigenvectors: Eigenvectors = "dominant",
        max_depth: int | None = None,
        min_samples_split: int = 2,
        min_samples_leaf: int = 1,
    ) -> None:
        self.eigenvectors = eigenvectors
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf

    def _grow(
        self, X: Matrix, targets: NDArray[np.float64], groups: NDArray[np.int64], weights: Any, **describe: Any
    ) -> Self:
        tree = grow(
            X,
            targets,
            groups,
            weights,
            eigenvectors=self.eigenvectors,
            max_depth=self.max_depth,
            min_samples_split=self.min_samples_split,
            min_samples_leaf=self.min_samples_leaf,
            feature_names=self._feature_names(),
            **describe,
        )
        self._set_tree(tree, X, weights)
        return self


class HHCARTClassifier(ClassifierMixin, _HHCART, BaselineClassifier):
    """Oblique classification tree by Householder reflections (HHCART).

    At a node, each eigenvector of each class's covariance matrix is mapped to the first axis by a Householder
    reflection I − 2uuᵀ. Axis-parallel splits are sought in each reflected space and in the raw one; the best by
    ``criterion`` wins, a raw one where equal. Splits along axis j of the reflected space are oblique in the
    raw one, with weights e_j − 2u_j u.

    Parameters
    ----------
    eigenvectors : {"dominant", "all"}
        The eigenvectors taken of each class: the one of the largest eigenvalue, the paper's HHCART(D), or
        all whose eigenvalues are not zero, HHCART(A). A search costs the number of eigenvectors times that
        of CART: with thousands of features only "dominant" is practical.
    criterion : {"twoing", "gini"}
        Breiman's twoing rule, which parts the classes into two groups of like weight, or Gini impurity,
        which likes to cut off one class. They agree for two classes; for many classes in a shallow tree
        twoing is the more accurate.
    max_depth : int or None
        None grows until leaves are pure or hold fewer than ``min_samples_split`` rows.
    min_samples_split : int
        Rows that a node needs to be split.
    min_samples_leaf : int
        Rows that each side of a split must keep.

    Attributes
    ----------
    tree_ : ObliqueTree
        The fitted tree. Leaf values are class frequencies.
    classes_ : array of shape (n_classes,)
    feature_importances_ : array of shape (n_features,)
        Shares of the features' spread in the decisions: see ``ObliqueTree.feature_importances``.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Sparse rows stay sparse: no column of them is ever dense. Dense rows are reflected in blocks of columns of
    at most 2²² values (32 MB).

    References
    ----------
    Wickramarachchi, Robertson, Reale, Price and Brown, "HHCART: An oblique decision tree", Computational
    Statistics & Data Analysis 96, 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from experiments.baselines import HHCARTClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = HHCARTClassifier(max_depth=2).fit(X, y)
    >>> model.tree_
    ObliqueTree(3 leaves, depth 2, 4 features, 3 classes)
    >>> round(model.score(X, y), 2)
    0.96
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_HHCART._parameter_constraints,
        "criterion": [StrOptions({"twoing", "gini"})],
    }

    def __init__(
        self,
        *,
        eigenvectors: Eigenvectors = "dominant",
        criterion: Literal["twoing", "gini"] = "twoing",
        max_depth: int | None = None,
        min_samples_split: int = 2,
        min_samples_leaf: int = 1,
    ) -> None:
        super().__init__(
            eigenvectors=eigenvectors,
            max_depth=max_depth,
            min_samples_split=min_samples_split,
            min_samples_leaf=min_samples_leaf,
        )
        self.criterion = criterion

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the tree.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_rows, n_features)
        y : array of shape (n_rows,)
            Class labels.
        sample_weight : array of shape (n_rows,), optional

        Returns
        -------
        self
        """
        X, y, weights = self._training_rows(X, y, sample_weight)
        codes = self._encode(y)
        one_hot, twoing = np.eye(len(self.classes_))[codes], self.criterion == "twoing"
        return self._grow(X, one_hot, codes, weights, twoing=twoing, link="probability", classes=self.classes_)


class HHCARTRegressor(RegressorMixin, _HHCART):
    """Oblique regression tree by Householder reflections (HHCART).

    As :class:`HHCARTClassifier`, with two changes. Splits minimise the squared error. Regression has no
    classes: as in other implementations that regress, the rows of a node count as one class, and the
    eigenvectors are those of their one covariance matrix.

    Parameters
    ----------
    eigenvectors, max_depth, min_samples_split, min_samples_leaf
        As in :class:`HHCARTClassifier`.

    Attributes
    ----------
    tree_, feature_importances_, n_features_in_, feature_names_in_
        As in :class:`HHCARTClassifier`; leaf values are means.

    References
    ----------
    As :class:`HHCARTClassifier`, which treats classification only.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from experiments.baselines import HHCARTRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = HHCARTRegressor(max_depth=3).fit(X, y)
    >>> model.tree_
    ObliqueTree(8 leaves, depth 3, 10 features, regression)
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the tree.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_rows, n_features)
        y : array of shape (n_rows,) or (n_rows, n_outputs)
        sample_weight : array of shape (n_rows,), optional

        Returns
        -------
        self
        """
        X, y, weights = self._training_rows(X, y, sample_weight, multi_output=True, y_numeric=True)
        targets = np.asarray(y, dtype=np.float64).reshape(X.shape[0], -1)
        return self._grow(X, targets, np.zeros(len(targets), dtype=np.int64), weights)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags
