"""ObliqueTreeClassifier and ObliqueTreeRegressor: one small tree to read, by gradients, its size chosen on the rows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin, _fit_context, is_classifier
from sklearn.utils import Tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted

from treelu.data.encoding import check_class_weight, encode_classes, refuse_invalid_targets, weigh_classes
from treelu.data.reading import learned_missing
from treelu.data.rows import (
    check_weight,
    counted_rows,
    read_folding,
    summable,
    tags_of_missing,
    warn_of_few_rows,
)
from treelu.data.spread import Matrix
from treelu.estimators._inputs import monotonic_signs, parameters_of, unchanged_by_failure
from treelu.estimators._large import fit_tree_outside_memory, is_outside_memory
from treelu.estimators._output_methods import PathMixin
from treelu.estimators._rows import FROM_DTYPE, column_shares, missing_of_numbers, read_rows
from treelu.estimators._saved import PathState
from treelu.estimators._tasks import CallbackSupportMixin, as_task
from treelu.estimators._tree_estimator import TreeClassifier, TreeEstimator
from treelu.estimators._trees import columns_of, missing_of, tree_features
from treelu.tables.unseen import warn_of_far_numbers
from treelu.training.config import draw_seeds
from treelu.training.small.config import SmallTreeConfig
from treelu.training.small.fit import FittedTree, fit_small_tree
from treelu.training.small.rows import TreeData, are_counts, repeated_rows
from treelu.tree.columns import level_groups
from treelu.tree.observed import Observed
from treelu.tree.one_hot import named_groups
from treelu.tree.terms import of_groups


@dataclass(eq=False, repr=False, kw_only=True)
class SmallTree(PathMixin, PathState, CallbackSupportMixin, TreeEstimator):
    """What the classifier and the regressor share: the choice of size, and the tree on raw features."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "max_leaf_nodes": [None, Interval(Integral, 2, None, closed="left")],
        "max_depth": [None, Interval(Integral, 1, None, closed="left")],
        "max_terms": [None, Interval(Integral, 1, None, closed="left")],
        "min_samples_leaf": [Interval(Integral, 1, None, closed="left")],
        "leaves": [StrOptions({"auto", "constant", "linear"})],
        "selection": [StrOptions({"smallest", "best", "largest"})],
        "shrinkage": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "n_updates": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "monotonic_cst": [None, "array-like", dict],
        "round_weights": [None, Interval(Real, 0, 1, closed="both")],
        "teacher": [StrOptions({"auto"}), None, HasMethods(["fit", "predict"])],
        "missing": [StrOptions({"auto", "error", "indicator"})],
        "categorical_features": ["array-like", StrOptions({FROM_DTYPE})],
        "cv": ["cv_object"],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    max_leaf_nodes: int | None = None
    max_depth: int | None = None
    max_terms: int | None = None
    min_samples_leaf: int = 2
    leaves: str = "auto"
    selection: str = "smallest"
    shrinkage: float | str = "auto"
    n_updates: int | str = "auto"
    round_weights: float | None = 0.0
    monotonic_cst: Any = None
    teacher: Any = "auto"
    missing: str = "auto"
    categorical_features: Any = FROM_DTYPE
    cv: Any = None
    n_jobs: int | None = None
    verbose: bool | int = False
    random_state: Any = None
    linear_leaves: ClassVar[bool] = False  # a parameter of the regressor

    _targets: ClassVar[dict[str, Any]]  # how y is read: arguments of `check_array`

    @_fit_context(prefer_skip_nested_validation=True)
    @as_task
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Find the tree.

        Ctrl-C raises KeyboardInterrupt, and an old fit stays as it was.

        Parameters
        ----------
        X : array, DataFrame or SciPy sparse matrix of shape (n, n_features)
            Or, for tables larger than memory: a `numpy.memmap`; a `treelu.tables.RowStore` or an iterator of pairs
            (X, y), and no y. Splits are found on 200,000 rows, the values of the leaves follow from all.
        y : array of shape (n,)
            Classes or values; values of several targets have the shape (n, outputs).
        sample_weight : array of shape (n,), optional
            Weights of the rows; 0 drops a row. Integers count as repetitions of the row, up to 10,000 rows in all;
            other weights are relative. See the guide "Groups and weights".
        groups : array of shape (n,), optional
            The group of each row, such as a patient: where rows are held out, those of a group stay together.

        Returns
        -------
        self
        """
        with unchanged_by_failure(self):
            leaves = self._kind_of_leaves()
            if is_outside_memory(X):
                return fit_tree_outside_memory(self, X, y, sample_weight, groups)
            data, labels = self._read(X, y, sample_weight, groups)
            seed = draw_seeds(self.random_state, 1)[0]
            given = {**parameters_of(self, SmallTreeConfig), "leaves": leaves}
            config = SmallTreeConfig(**given, title=type(self).__name__)
            self._set_fitted(fit_small_tree(data, config, seed, **labels))
            return self

    def _kind_of_leaves(self) -> str:
        """`leaves` of the configuration: `linear_leaves=True` of the regressor is another word for "linear"."""
        if self.linear_leaves and self.leaves == "constant":
            raise ValueError("leaves='constant' and linear_leaves=True contradict each other; leave one out")
        return "linear" if self.linear_leaves else self.leaves

    def _read(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> tuple[TreeData, dict[str, Any]]:
        """Rows without missing values, with their targets; and what the tree's labels are."""
        options: dict[str, Any] = {"missing": self.missing, "dtype": np.float64, "ensure_min_samples": 2}
        X = read_rows(self, X, first=True, weight=sample_weight, **options)
        refuse_invalid_targets(y, are_classes=is_classifier(self))
        y = check_array(y, ensure_2d=False, input_name="y", **self._targets)
        if len(y) != X.shape[0]:
            raise ValueError(f"X and y must have the same number of rows, got {X.shape[0]} and {len(y)}")
        weight = check_weight(sample_weight, X)
        kept = counted_rows(weight)
        folding = read_folding(self.cv, groups, X, y, kept, are_classes=is_classifier(self))
        if weight is not None and are_counts(weight):
            rows, folding = repeated_rows(weight, folding)
            X, y, weight = X[rows], y[rows], np.minimum(weight[rows], 1.0)
            kept = counted_rows(weight)
        self.__dict__.pop("missing_values_", None)
        missing = learned_missing(X if kept is None else X[kept], missing_of_numbers(self, self.missing))
        if missing is not None:
            self.missing_values_ = missing
            X = missing.fill(X)
        warn_of_few_rows(X.shape[0])
        target, weight, labels = self._read_targets(y, np.ones(X.shape[0]) if weight is None else weight)
        signs = monotonic_signs(self, X.shape[1], target.shape[1])
        labels |= {"feature_names": tree_features(self), "missing": missing_of(self), "columns": columns_of(self)}
        categories = self._categories(X if kept is None else X[kept])
        if signs is not None:  # weights relative to another level would have other signs
            categories = tuple(levels for levels in categories if not signs[list(levels)].any())
        group = of_groups(categories, X.shape[1])
        return TreeData(X, target, weight, is_classifier(self), folding, signs, group), labels

    def _categories(self, X: Matrix) -> tuple[tuple[int, ...], ...]:
        """The features of each category: of the encoded columns, or columns of 0 and 1 that are named as they are."""
        columns, names = columns_of(self), tree_features(self)
        if columns is not None:
            return level_groups(columns)
        if names is None or not any("=" in name for name in names):
            return ()
        return named_groups(Observed.of(X, missing_of(self)).groups, names)

    @abstractmethod
    def _read_targets(
        self, y: NDArray[Any], weight: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], dict[str, Any]]:
        """Targets (n, K) as `TreeData` has them, the weights of the rows, and the tree's link and classes."""

    def _set_fitted(self, fitted: FittedTree) -> None:
        self.path_, self.path_trees_ = fitted.path, fitted.trees
        self.tree_, self.feature_importances_ = fitted.tree, column_shares(self, fitted.importances)

    def _rows(self, X: Any) -> Matrix:
        """Validated rows without missing values, for the fitted tree."""
        check_is_fitted(self)
        missing = missing_of(self)
        rows = read_rows(self, X, missing=missing, dtype=np.float64)
        if columns_of(self) is None:
            warn_of_far_numbers(X, rows, self.tree_.observed)
        return rows if missing is None else missing.fill(rows)

    def __sklearn_tags__(self) -> Tags:
        return tags_of_missing(super().__sklearn_tags__(), self)


@dataclass(eq=False, repr=False, kw_only=True)
class ObliqueTreeClassifier(ClassifierMixin, SmallTree, TreeClassifier):
    """A small oblique classification tree, trained by gradients, whose size is chosen by cross-validation.

    Every split has weights of its own. Training starts from random splits, an ordinary tree, linear regressions or,
    for two terms a split, the best pairs of features; its targets are the classes of the rows or the probabilities of
    a smooth network. Rows are routed softly at first and harder with each update. Splits then lose their weakest
    terms, the tree loses its weakest splits, and the rest is trained again. Trained trees compete with ordinary ones
    and with trees that follow one linear model of all rows, which is hard to beat where targets are noisy. Sizes are
    compared by cross-validation; the smallest tree that is about as good as the best is kept, without terms that
    change the leaf of no row.

    Parameters
    ----------
    max_leaf_nodes : int, optional
        The most leaves; None for 16, or twice the number of classes where that is more.
    max_depth : int, optional
        The most splits on a path.
    max_terms : int, optional
        The most terms in a split; 1 is an ordinary tree. None: any number, and as few as are needed. A feature is a
        term, and so is a category with all its levels; a split of one category is a set of levels.
    min_samples_leaf : int
        The least training rows of a leaf, 2 by default: a single row says nothing of others.
    leaves : {"auto", "constant", "linear"}
        What the leaves hold.

        - "constant": class frequencies.
        - "linear": a score for each class (one for two classes) that is linear in at most `max_terms` terms:
          logistic or softmax regression, with slopes that all leaves share or that are shrunk towards those of the
          parent.
        - "auto": whichever has the least held-out log-loss for its numbers to read.
    selection : {"smallest", "best", "largest"}
        Which size on the path is taken.

        - "best": the one with the least cross-validated log-loss, of equals the one with the fewest numbers to read:
          weights, thresholds and leaves (``treelu.tree.to_read.numbers_to_read``).
        - "smallest": of those as good as the best the one with the least loss + 0.02 · log₂(numbers), so that twice as
          many numbers must lower the loss by 0.02. A size is as good where its loss is higher by at most one standard
          error of the difference, or by 0.005. Of values: one standard error, from 0.002 to 0.003 or 1 % of the best
          loss, whichever is larger. The constant has a tolerance of its own, and is taken where it is within: one
          standard error, from 0.003 to 0.005 or 2 %; of values two, from 0.005 to 0.01 or 10 %.

          Neither takes a size whose accuracy is more than 0.02 below the highest.
        - "largest": the most leaves and terms, without a comparison.
    shrinkage : "auto" or float
        How many rows the class frequencies of an ancestor count for in the probabilities of a leaf; "auto" chooses it
        for each size by the held-out loss. The parent of a leaf counts for half a row more, so that a leaf of one row
        is not certain; 0 takes plain frequencies.
    n_updates : "auto" or int
        Updates of a training from the start.
    round_weights : float, optional
        Round the weights of splits to as few digits as send at most this share of the training rows to another leaf.
        0.0, the default: no row; what is shown is what the tree computes with. None: do not round.
    monotonic_cst : array of shape (n_features,) or dict of names, optional
        1 where the probability of the second class must not fall with a feature, -1 where it must not rise, 0
        elsewhere, as in scikit-learn. Weights of such features have that sign, and leaf values are in order; linear
        leaves share slopes of that sign. Two classes only.
    class_weight : dict, "balanced" or None
        Weights of the classes. As in scikit-learn they move the probabilities too: those of "balanced" are of classes
        of equal frequency.
    teacher : "auto", None or estimator
        A model whose predictions trees may be trained on in place of noisy targets, fitted to the scaled features.
        "auto" is an :class:`ALCNClassifier` for constant leaves, and none where leaves may be linear. Trees are trained
        on its predictions where that does better on rows held out; constant leaf values come from the rows in any
        case. None: no teacher, and a quicker fit. An estimator needs `predict_proba`.
    missing : {"auto", "error", "indicator"}
        "indicator" fills missing values with the median and adds a feature that says so; "auto" does in columns that
        lack values in training, and elsewhere NaN is an error; "error" refuses it.
    categorical_features : "from_dtype", or array of names, numbers or truth values
        Columns that hold categories, besides those whose type says so; see the guides "Data frames" and "Small trees".
    cv : int, splitter, iterable of (train, test) or None
        The folds on which sizes are compared: a number of random folds, one of scikit-learn's splitters
        (``GroupKFold()``, ``TimeSeriesSplit()``), or pairs of row numbers. None: up to five folds, by class; by group
        if `fit` is given `groups`.
    n_jobs : int, optional
        Threads; None for one, -1 for all processors. The result does not depend on it.
    verbose : bool
        Print what is compared: each candidate and its held-out loss, the sizes, and the choice.
    random_state : int, RandomState or None

    Attributes
    ----------
    tree_ : ObliqueTree
        The tree on raw features. Nothing else is needed to predict.
    path_ : DataFrame
        For each size, what decides the choice, all on held-out rows:

        - `leaves`, `terms`: leaves, and the most terms of a split: of the chosen row those of `tree_`, of others those
          of the folds' trees in the median
        - `leaf_terms`: terms of the formulas of linear leaves; 0 for constant ones
        - `numbers`: numbers to read in the folds' trees, in the median
        - `score`, `std_error`: accuracy and its standard error
        - `loss`: log-loss
        - `loss_difference`, `difference_std_error`: how far the loss is above the best one, and the standard error
        - `eligible`: whether the size is as good as the best by `selection`; `chosen`: whether it was taken
        - `start`: where its training started ("scores": one linear model, followed as it is; "sets": splits by sets
          of levels)
    path_trees_ : sequence of ObliqueTree
        The tree of each row of `path_`. All but the chosen one are trained when they are asked for.
    classes_, n_features_in_, feature_names_in_, feature_importances_
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from treelu import ObliqueTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> small = ObliqueTreeClassifier(max_leaf_nodes=4, max_terms=2, random_state=0).fit(X, y)
    >>> small.tree_.n_leaves <= 4, bool(small.score(X, y) > 0.94)
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SmallTree._parameter_constraints,
        "class_weight": [None, dict, StrOptions({"balanced"})],
    }
    _targets: ClassVar[dict[str, Any]] = {"dtype": None}

    class_weight: dict[Any, float] | str | None = None

    def _read_targets(
        self, y: NDArray[Any], weight: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], dict[str, Any]]:
        check_classification_targets(y)
        self.classes_, number = encode_classes(y)
        if self.class_weight is not None:
            check_class_weight(self.class_weight)
            weight = weigh_classes(self.class_weight, self.classes_[number], summable(weight))
        target = np.eye(len(self.classes_))[number]
        return target, summable(weight), {"link": "probability", "classes": self.classes_}


@dataclass(eq=False, repr=False, kw_only=True)
class ObliqueTreeRegressor(RegressorMixin, SmallTree):
    """A small oblique regression tree, trained by gradients, whose size is chosen by cross-validation.

    As :class:`ObliqueTreeClassifier`, with squared error for the loss; takes several targets at once.

    Parameters
    ----------
    max_leaf_nodes, max_depth, max_terms, min_samples_leaf, leaves, selection, shrinkage, n_updates, round_weights, \
monotonic_cst, teacher, missing, categorical_features, cv, n_jobs, verbose, random_state
        As in :class:`ObliqueTreeClassifier`; at most 16 leaves by default, 32 from 10,000 rows on; the teacher an
        :class:`ALCNRegressor` for leaves of either kind.
    linear_leaves : bool
        The same as ``leaves="linear"``: a linear function of the features in each leaf instead of a constant, shrunk
        towards that of the leaf's ancestors by `shrinkage`; the size is chosen for that. Where the tree learns from the
        teacher, these functions do too, and are shrunk a tenth as much. The regions of small locally linear networks
        are compared with trained splits (with ``teacher="auto"`` and all terms). With `monotonic_cst` all leaves share
        their slopes, on splits that are trained for constant leaves.

    Attributes
    ----------
    tree_ : ObliqueTree
        The tree on raw features. Nothing else is needed to predict.
    path_ : DataFrame
        As of :class:`ObliqueTreeClassifier`; `score` is R² and `loss` is 1 − R².
    path_trees_ : sequence of ObliqueTree
        The tree of each row of `path_`. All but the chosen one are trained when they are asked for.
    n_features_in_, feature_names_in_, feature_importances_
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from treelu import ObliqueTreeRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> small = ObliqueTreeRegressor(max_leaf_nodes=4, random_state=0).fit(X, y)
    >>> small.tree_.n_leaves <= 4, bool(small.score(X, y) > 0.3)
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SmallTree._parameter_constraints,
        "linear_leaves": ["boolean"],
    }
    _targets: ClassVar[dict[str, Any]] = {"dtype": np.float64}

    linear_leaves: bool = False  # type: ignore[misc]

    def _read_targets(
        self, y: NDArray[Any], weight: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], dict[str, Any]]:
        return y.reshape(len(y), -1), summable(weight), {"link": "identity"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
