"""TAO: oblique trees by alternating optimisation of their nodes."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin, _fit_context
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import type_of_target

from experiments.baselines._alternation import Alternation, Problem
from experiments.baselines._estimators import BaselineClassifier, BaselineTree
from treelu.data.spread import Matrix, spread
from treelu.tree import ObliqueTree
from treelu.tree.rows import linear_form


def random_tree(X: Matrix, depth: int, rng: np.random.RandomState) -> ObliqueTree:
    """A complete tree of random directions, each cut at the median of the rows that reach it.

    Parameters
    ----------
    X : array or CSR array of shape (n_rows, n_features)
    depth : int
    rng : RandomState

    Returns
    -------
    ObliqueTree
        Its leaf values are zero.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(64, 3))
    >>> tree = random_tree(X, 2, np.random.RandomState(0))
    >>> np.bincount(tree.apply(X), minlength=7)
    array([ 0,  0,  0, 16, 16, 16, 16])
    """
    n_splits = 2**depth - 1
    unit = spread(X, np.ones(X.shape[0]))
    weights = rng.standard_normal((n_splits, X.shape[1])) / np.where(unit > 0, unit, 1.0)
    biases = np.zeros(n_splits)
    first = np.arange(n_splits)
    node_of = np.zeros(X.shape[0], dtype=np.int64)
    for node in range(n_splits):
        rows = np.flatnonzero(node_of == node)
        if len(rows):
            scores = linear_form(X, rows, weights[node])
            biases[node] = -np.median(scores)
            node_of[rows] = 2 * node + 1 + (scores + biases[node] >= 0)
    return ObliqueTree(weights, biases, np.column_stack([2 * first + 1, 2 * first + 2]), np.zeros((n_splits + 1, 1)))


class _TAO(BaselineTree):
    """What the classifier and the regressor share: parameters, the start and the sweeps."""

    _cart: ClassVar[type[DecisionTreeClassifier] | type[DecisionTreeRegressor]]
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "max_depth": [Interval(Integral, 1, None, closed="left")],
        "C": [Interval(Real, 0, None, closed="neither")],
        "init": [StrOptions({"cart", "random"})],
        "max_sweeps": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        max_depth: int = 6,
        C: float = 1.0,
        init: Literal["cart", "random"] = "cart",
        max_sweeps: int = 20,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.max_depth = max_depth
        self.C = C
        self.init = init
        self.max_sweeps = max_sweeps
        self.random_state = random_state

    def _alternate(self, problem: Problem, y: NDArray[Any]) -> Alternation:
        """Sweep until the loss stays or ``max_sweeps``; sets ``training_losses_``."""
        rng = check_random_state(self.random_state)
        if self.init == "random":
            start = random_tree(problem.X, self.max_depth, rng)
        else:
            cart = self._cart(max_depth=self.max_depth, random_state=rng)
            start = ObliqueTree.from_sklearn(cart.fit(problem.X, y, sample_weight=problem.sample_weight))
        alternation = Alternation(start, problem, C=self.C, seed=rng.randint(2**31 - 1))
        losses = [alternation.loss()]
        for _ in range(self.max_sweeps):
            changed = alternation.sweep()
            losses.append(alternation.loss())
            if not changed or losses[-1] >= losses[-2]:
                break
        self.training_losses_ = np.array(losses)
        return alternation


class TAOClassifier(ClassifierMixin, _TAO, BaselineClassifier):
    """Oblique classification tree by tree alternating optimisation (TAO).

    Starts from a tree and refits its nodes, deepest first, in sweeps. With all other nodes fixed, a node
    matters only for its care rows: those that one child classifies correctly and the other does not. Which
    child that is becomes the label of an ℓ1-penalised logistic regression on these rows, and its hyperplane
    replaces the node's if it sends no more care rows wrong; so the training error never rises. A leaf predicts
    the majority of its rows. Branches that no row reaches are removed at the end.

    Parameters
    ----------
    max_depth : int
        Depth of the tree to start from.
    C : float
        Inverse strength of the ℓ1 penalty, as in scikit-learn's LogisticRegression: smaller is sparser.
    init : {"cart", "random"}
        Start from scikit-learn's decision tree, or from a complete tree of random hyperplanes.
    max_sweeps : int
        Sweeps end earlier where one does not lower the training error.
    random_state : int, RandomState or None

    Attributes
    ----------
    tree_ : ObliqueTree
        The fitted tree. Leaf values are class frequencies.
    training_losses_ : array of shape (n_sweeps + 1,)
        The (weighted) training error of the first tree and after each sweep.
    classes_ : array of shape (n_classes,)
    feature_importances_ : array of shape (n_features,)
        Shares of the features' spread in the decisions: see ``ObliqueTree.feature_importances``.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Dense columns that are not bits are standardised for the logistic regressions; this is folded into the nodes'
    weights. Sparse rows are taken as they are and stay sparse. One byte is held for each row and node.

    For rare classes give balanced ``sample_weight``: by plain training error, a tree that never predicts them may
    already be the best.

    TAO is patented in the United States (US 12,505,355). It is here as a baseline to compare with.

    References
    ----------
    Carreira-Perpiñán and Tavallali, "Alternating optimization of decision trees, with application to learning
    sparse oblique trees", NeurIPS 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from experiments.baselines import TAOClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = TAOClassifier(max_depth=2, random_state=0).fit(X, y)
    >>> model.training_losses_.round(3)
    array([0.04 , 0.027, 0.027])
    """

    _cart = DecisionTreeClassifier

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TAOClassifier:
        """Optimise the tree.

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
        if type_of_target(y).startswith("continuous"):
            raise ValueError(
                f"Unknown label type: y must hold class labels, got real values such as {y[0]}; for regression use "
                "experiments.baselines.TAORegressor, experiments.baselines.HHCARTRegressor or treelu.LCNRegressor"
            )
        codes = self._encode(y)
        problem = Problem(X, np.eye(len(self.classes_))[codes], weights, hard=True)
        alternation = self._alternate(problem, codes)
        tree = alternation.finish(link="probability", classes=self.classes_, feature_names=self._feature_names())
        self._set_tree(tree, X, weights)
        return self


class TAORegressor(RegressorMixin, _TAO):
    """Oblique regression tree by tree alternating optimisation (TAO).

    As :class:`TAOClassifier`, with squared error for the loss: a leaf predicts the mean of its rows, and each row
    weighs in a node's logistic regression by what it loses on the worse side.

    Parameters
    ----------
    max_depth, C, init, max_sweeps, random_state
        As in :class:`TAOClassifier`.

    Attributes
    ----------
    training_losses_ : array of shape (n_sweeps + 1,)
        Half the mean squared training error of the first tree and after each sweep, in units of the target's
        variance.
    tree_, feature_importances_, n_features_in_, feature_names_in_
        As in :class:`TAOClassifier`; leaf values are means.

    Notes
    -----
    TAO is patented in the United States: see :class:`TAOClassifier`.

    References
    ----------
    Zharmagambetov and Carreira-Perpiñán, "Smaller, more accurate regression forests using tree alternating
    optimization", ICML 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from experiments.baselines import TAORegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = TAORegressor(max_depth=2, random_state=0).fit(X, y)
    >>> bool(model.training_losses_[-1] < model.training_losses_[0])
    True
    """

    _cart = DecisionTreeRegressor

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TAORegressor:
        """Optimise the tree.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_rows, n_features)
        y : array of shape (n_rows,)
        sample_weight : array of shape (n_rows,), optional

        Returns
        -------
        self
        """
        X, y, weights = self._training_rows(X, y, sample_weight, y_numeric=True)
        targets = np.asarray(y, dtype=np.float64)[:, None]
        # In units of the target's spread, C means the same for every target.
        mean = np.average(targets[:, 0], weights=weights)
        unit = spread(targets, weights)[0] or 1.0
        scaled = (targets - mean) / unit
        alternation = self._alternate(Problem(X, scaled, weights, hard=False), scaled[:, 0])
        tree = alternation.finish(feature_names=self._feature_names())
        self._set_tree(replace(tree, values=tree.values * unit + mean), X, weights)
        return self
