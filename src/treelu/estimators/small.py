"""ObliqueTreeClassifier and ObliqueTreeRegressor: one small tree to read, by gradients, its size chosen on the rows."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin, _fit_context, is_classifier
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted
from threadpoolctl import threadpool_limits

from treelu.data.cv import read_folding
from treelu.data.encoding import check_class_weight, class_order, encode_classes, weigh_classes
from treelu.data.folds import Folding
from treelu.data.invalid_targets import refuse_invalid_targets
from treelu.data.rows import (
    check_weight,
    counted_rows,
    summable,
    tags_of_missing,
    validated_rows,
    warn_of_few_rows,
)
from treelu.estimators._failure import unchanged_by_failure
from treelu.estimators._large import is_outside_memory
from treelu.estimators._leaves import fit_tree_outside_memory
from treelu.estimators._ordinary import Grower
from treelu.estimators._output_methods import PathMixin
from treelu.estimators._saved import PathState
from treelu.estimators._small_rows import are_counts, compared_rows, repeated_rows, scaled_rows, target_scale
from treelu.estimators._teacher import Teacher, linear_networks
from treelu.estimators._tree_estimator import Matrix, TreeClassifier, TreeEstimator, spread
from treelu.estimators._trees import column_importances, missing_of, tree_features
from treelu.training.parallel import in_order
from treelu.training.small.choice import (
    MOST_SCORES,
    Judged,
    chosen_key,
    compare,
    compared_sizes,
    is_trainable,
    largest,
    not_worse_than_judged,
)
from treelu.training.small.finish import linear_outputs, raw_tree, rounded, with_leaf_values, without_small_leaves
from treelu.training.small.leaves import STRENGTH, STRENGTHS
from treelu.training.small.lessons import Lessons
from treelu.training.small.path import CONSTANT, Budget, Family, Key, Walk, stretches
from treelu.training.small.soft_tree import Rows, SoftTree, one_leaf
from treelu.tree import ObliqueTree
from treelu.tree.missing import MissingValues

if TYPE_CHECKING:
    import pandas as pd

LEAVES = 16  # at most by default, or twice the classes
LEAST_TAUGHT = 50  # rows, below which no teacher is asked


class SmallTree(PathMixin, PathState, TreeEstimator):
    """What the classifier and the regressor share: the choice of size, and the tree on raw features."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "max_leaf_nodes": [None, Interval(Integral, 2, None, closed="left")],
        "max_depth": [None, Interval(Integral, 1, None, closed="left")],
        "max_terms": [None, Interval(Integral, 1, None, closed="left")],
        "min_samples_leaf": [Interval(Integral, 1, None, closed="left")],
        "selection": [StrOptions({"smallest", "best", "largest"})],
        "shrinkage": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "n_updates": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "monotonic_cst": [None, "array-like", dict],
        "round_weights": [None, Interval(Real, 0, 1, closed="both")],
        "teacher": [StrOptions({"auto"}), None, HasMethods(["fit", "predict"])],
        "missing": [StrOptions({"error", "indicator"})],
        "cv": ["cv_object"],
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
    }

    max_leaf_nodes: int | None
    max_depth: int | None
    max_terms: int | None
    min_samples_leaf: int
    selection: str
    shrinkage: float | str
    n_updates: int | str
    round_weights: float | None
    monotonic_cst: Any
    linear_leaves: bool = False  # a parameter of the regressor
    teacher: Any
    missing: str
    cv: Any
    n_jobs: int | None
    random_state: Any

    path_: pd.DataFrame
    path_trees_: list[ObliqueTree]

    _targets: ClassVar[dict[str, Any]]  # how y is read: arguments of `check_array`

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Find the tree.

        Ctrl-C ends the fit. While sizes are compared it raises KeyboardInterrupt, and an old fit stays as it was;
        once trees of all rows are there, the best of them is kept, with a warning.

        Parameters
        ----------
        X : array, DataFrame or SciPy sparse matrix of shape (n, n_features)
            Or, for tables larger than memory: a `numpy.memmap`; a `treelu.tables.RowStore` or an iterator of pairs
            (X, y), and no y. Questions are found on 200,000 rows, the values of the leaves follow from all.
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
            if self.linear_leaves and self.monotonic_cst is not None:
                raise ValueError("linear_leaves=True and monotonic_cst cannot be combined; leave one out")
            if is_outside_memory(X):
                return fit_tree_outside_memory(self, X, y, sample_weight, groups)
            X = validated_rows(self, X, first=True, missing=self.missing, dtype=np.float64, ensure_min_samples=2)
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
            if self.missing == "indicator":
                self.missing_values_ = MissingValues.of(X if kept is None else X[kept])
                X = self.missing_values_.fill(X)
            warn_of_few_rows(X.shape[0])
            self._fit_target(X, y, np.ones(X.shape[0]) if weight is None else weight, folding)
            return self

    @abstractmethod
    def _fit_target(self, X: Matrix, y: NDArray[Any], weight: NDArray[np.float64], folding: Folding | None) -> None:
        """Fit to rows that were read and checked; `folding` is about those of positive weight."""

    def _fit_tree(
        self,
        X: Matrix,
        target: NDArray[np.float64],
        weight: NDArray[np.float64],
        folding: Folding | None,
        signs: NDArray[np.float64] | None,
        **settings: Any,
    ) -> None:
        """Fit to targets (n, K), columns of 0 and 1 for classes or values of spread 1; sets `tree_` and `path_`.

        `folding` divides the rows that have a weight into folds. `signs` (n_features,) are those in which the last
        target must not fall (1) or rise (-1).
        """
        kept = np.flatnonzero(weight)
        X, target, weight = X[kept], target[kept], weight[kept]
        scale, rows = scaled_rows(X, target, weight, is_classifier(self))
        rows = replace(rows, linear=bool(self.linear_leaves), folding=folding)
        if signs is not None:
            rows = replace(rows, signs=signs[scale.columns].astype(np.float32))
        budget = self._budget(rows)
        seed = self._seed()
        with threadpool_limits(1, user_api="blas"):  # products are small, and rounded alike with any number of threads
            judged, steps, lessons = self._steps(rows, budget, seed)
        tags = {**settings, "spreads": spread(X, weight), "feature_names": tree_features(self)}
        tags["missing"] = missing_of(self)

        def finished(key: Key) -> ObliqueTree:
            tree, strength = raw_tree(steps[key], scale, X), self._strength(judged.get(key))
            if self.round_weights is not None:
                tree = rounded(tree, X, self.round_weights)
            tree = without_small_leaves(tree, X, self.min_samples_leaf)
            tree = with_leaf_values(tree, X, target, weight, strength, is_classifier(self), signs)
            if rows.linear:
                learnt = lessons.of(key.family)
                tags["values"], tags["leaf_weights"] = linear_outputs(tree, X, learnt, scale, strength)
            return replace(tree, **tags)

        trees: dict[Key, ObliqueTree] = {}
        likely = chosen_key(judged, {key: (key.leaves, key.terms) for key in steps}, self.selection)
        try:
            for key in sorted(steps, key=lambda key: key != likely):  # first what Ctrl-C should leave
                trees[key] = finished(key)
        except KeyboardInterrupt:
            if not trees:
                raise
            warn_of_interrupt(len(trees), len(steps))
        self._keep_path({key: trees[key] for key in steps if key in trees}, judged)

    def _budget(self, rows: Rows) -> Budget:
        n_rows, n_outputs = rows.target.shape
        leaves = self.max_leaf_nodes or max(LEAVES, 2 * n_outputs if rows.is_classifier else LEAVES)
        if self.max_leaf_nodes is None and self.max_depth is not None:
            leaves = min(leaves, 2 ** min(self.max_depth, 30))
        leaves = max(2, min(leaves, n_rows))
        depth = self.max_depth or 62
        terms = min(self.max_terms or rows.n_features, rows.n_features)
        return Budget(leaves, depth, terms, float(self.min_samples_leaf), n_updates=self._updates(n_rows))

    def _signs(self, n_columns: int, n_outputs: int) -> NDArray[np.float64] | None:
        """`monotonic_cst` as an array over the tree's features, or None where it asks for nothing."""
        if self.monotonic_cst is None:
            return None
        names = self._feature_names() or tuple(f"x{i}" for i in range(self.n_features_in_))
        if isinstance(self.monotonic_cst, dict):
            unknown = sorted(str(name) for name in self.monotonic_cst if name not in names)
            if unknown:
                raise ValueError(f"monotonic_cst names {unknown[0]!r}, which is not a feature: {', '.join(names[:8])}")
            signs = np.array([self.monotonic_cst.get(name, 0) for name in names], np.float64)
        else:
            signs = np.asarray(self.monotonic_cst, np.float64)
        if signs.shape != (self.n_features_in_,) or not np.isin(signs, (-1, 0, 1)).all():
            raise ValueError(
                f"monotonic_cst must hold -1, 0 or 1 for each of {self.n_features_in_} features, "
                f"got {self.monotonic_cst}"
            )
        if not signs.any():
            return None
        if n_outputs > (2 if is_classifier(self) else 1):
            raise ValueError("monotonic_cst needs two classes or one target; with more there is no up and down")
        return np.append(signs, np.zeros(n_columns - len(signs)))

    def _updates(self, n_rows: int) -> int:
        if not isinstance(self.n_updates, str):
            return int(self.n_updates)
        return 600 if n_rows < 2_000 else 1_000 if n_rows < 10_000 else 2_000 if n_rows < 50_000 else 3_000

    def _steps(self, rows: Rows, budget: Budget, seed: int) -> tuple[dict[Key, Judged], dict[Key, SoftTree], Lessons]:
        """Held-out losses by step, the path's trees, trained on all rows, and the targets they were trained on."""
        grow = Grower(budget.max_leaves, self.max_depth, self.min_samples_leaf, seed)
        if len(rows) < 4 * rows.target.shape[1] or rows.n_features == 0:  # too few to compare anything
            return {}, {CONSTANT: one_leaf(rows)}, Lessons(rows)
        if not is_trainable(rows, budget):
            warn_of_outputs(rows.target.shape[1], budget.max_leaves)
        if self.selection == "largest":
            key, tree = next(largest(rows, budget, grow, seed))
            return {}, {key: tree}, Lessons(rows)
        sample, folds = compared_rows(rows, seed)
        if not folds:
            raise ValueError(
                "no group can be held out, as each class has all its rows in one group; give more groups, or "
                "selection='largest', which compares nothing"
            )
        shorter = replace(budget, n_updates=min(budget.n_updates, self._updates(len(sample))))
        *of_folds, lessons = self._lessons([*(sample.part(train) for train, _ in folds), rows], sample, budget, seed)
        parts = [(of_fold, sample.part(test)) for of_fold, (_, test) in zip(of_folds, folds, strict=True)]
        judged = compare(parts, shorter, grow, seed, self._threads())
        return judged, self._walked(judged, lessons, budget, grow, seed), lessons

    def _walked(
        self, judged: dict[Key, Judged], lessons: Lessons, budget: Budget, grow: Grower, seed: int
    ) -> dict[Key, SoftTree]:
        """The trees of the path, trained on all rows."""
        found = {CONSTANT: one_leaf(lessons.own)}
        families = dict.fromkeys(key.family for key in judged if key != CONSTANT)

        def run(of: tuple[Family, Walk]) -> None:
            family, walk = of
            learnt = lessons.of(family)
            for key, tree in walk(learnt, family, budget, grow, seed):
                found[key] = not_worse_than_judged(tree, judged[key], lessons.own, learnt)

        walks = [(family, walk) for family in families for walk in stretches(family, budget)]
        try:
            with closing(in_order(run, walks, self._threads())) as finished:
                for _ in finished:
                    pass
        except KeyboardInterrupt:
            if len(found) == 1:
                raise
            warn_of_interrupt(len(found), len(judged))
        return {key: found[key] for key in (CONSTANT, *judged) if key in found}  # whichever thread came first

    def _lessons(self, parts: Sequence[Rows], sample: Rows, budget: Budget, seed: int) -> list[Lessons]:
        """Each part, the folds' training rows and then all rows, with what teachers of its own say of it.

        These have not seen the rows held out; their settings are chosen on the sample.
        """
        if self.teacher is None or len(sample) < LEAST_TAUGHT or not is_trainable(sample, budget):
            return [Lessons(part) for part in parts]
        seeds = [*(seed + fold for fold in range(len(parts) - 1)), seed]
        teacher = Teacher.chosen(sample, None if isinstance(self.teacher, str) else self.teacher, seed)
        taught: list[Any] = [None] * len(parts)
        if teacher is not None:
            taught = teacher.teach(parts, seeds, self._threads())
        networks: list[dict[int, Rows]] = [{}] * len(parts)
        if sample.linear and isinstance(self.teacher, str) and budget.max_terms == sample.n_features:
            networks = linear_networks(parts, sample, seeds, budget.max_depth, self._threads())
        return [Lessons(*of_part) for of_part in zip(parts, taught, networks, strict=True)]

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _threads(self) -> int:
        return int(effective_n_jobs(-1 if self.n_jobs is None else self.n_jobs))

    def _strength(self, judged: Judged | None) -> float:
        if not isinstance(self.shrinkage, str):
            return float(self.shrinkage)
        return STRENGTH if judged is None else STRENGTHS[int(judged.by_strength.argmin())]

    def _keep_path(self, trees: dict[Key, ObliqueTree], judged: dict[Key, Judged]) -> None:
        """Set `path_`, `path_trees_` and `tree_`."""
        sizes = {key: (tree.n_leaves, tree.max_terms) for key, tree in trees.items()}
        table = compared_sizes(judged, sizes, self.selection)
        found = list(trees.values())
        self.path_trees_ = [found[step] for step in table.pop("step")]
        self.path_ = table
        self.tree_ = self.path_trees_[self._chosen_step]
        self.feature_importances_ = column_importances(self.tree_)

    def _change_trees(self, change: Callable[[ObliqueTree], ObliqueTree]) -> None:
        """Apply a change of leaf values to all trees of the path."""
        self.path_trees_ = [change(tree) for tree in self.path_trees_]
        self.tree_ = self.path_trees_[self._chosen_step]

    @property
    def _chosen_step(self) -> int:
        """The row of `path_` whose tree was chosen."""
        return int(self.path_["chosen"].to_numpy().argmax())

    def _rows(self, X: Any) -> Matrix:
        """Validated rows without missing values, for the fitted tree."""
        check_is_fitted(self)
        missing = missing_of(self)
        X = validated_rows(self, X, missing=missing, dtype=np.float64)
        return X if missing is None else missing.fill(X)

    def __sklearn_tags__(self) -> Tags:
        return tags_of_missing(super().__sklearn_tags__(), self)


class ObliqueTreeClassifier(ClassifierMixin, SmallTree, TreeClassifier):
    """A small oblique classification tree, trained by gradients, whose size is chosen by cross-validation.

    Every question has weights of its own. Training starts from random questions, an ordinary tree, linear regressions
    or, for two terms a question, the best pairs of features, on the rows' classes or on what a smooth network says of
    them, whichever does best on rows held out. Rows are routed softly at first and harder with each update; questions
    then lose their weakest terms, the tree loses its weakest questions, and what is left is trained on. Beside such
    trees stand ordinary ones, and those that decide as one linear model of all rows does, which is hard to beat where
    targets are noisy. Each size is judged on rows held out, and the smallest tree that is about as good as the best is
    kept, without terms that send no row another way.

    Parameters
    ----------
    max_leaf_nodes : int, optional
        The most leaves; None for 16, or twice the number of classes where that is more.
    max_depth : int, optional
        The most questions on a path.
    max_terms : int, optional
        The most features in a question; 1 is an ordinary tree. None: any, and as few as do.
    min_samples_leaf : int
        The least training rows of a leaf, 2 by default: a single row says nothing of others.
    selection : {"smallest", "best", "largest"}
        Which size on the path is taken.

        - "best": the one with the least cross-validated loss, of equals the one with the fewest numbers to read,
          ``(leaves - 1) * terms + leaves``.
        - "smallest": the one with the fewest numbers among those as good as the best. A size is, where its loss is
          higher by at most two standard errors of the difference; this tolerance is at least 0.005, and at most 0.01
          or 4 % of the best loss, whichever is larger.
        - "largest": the most leaves and terms, without a comparison.
    shrinkage : "auto" or float
        How many rows an ancestor's shares count for in those of the leaves; "auto" takes what rows held out say of
        each size. The node above a leaf counts for half a row more, so that a leaf of one row is not certain; 0 takes
        plain shares.
    n_updates : "auto" or int
        Updates of a training from the start.
    round_weights : float, optional
        Round weights to as few digits as send at most this share of the training rows to another leaf; None: do not.
    monotonic_cst : array of shape (n_features,) or dict of names, optional
        1 where the chance of the second class must not fall with a feature, -1 where it must not rise, 0 elsewhere, as
        in scikit-learn. Weights of such features have that sign, and leaf values are in order. Two classes only.
    class_weight : dict, "balanced" or None
        Weights of the classes. As in scikit-learn they move the probabilities too: those of "balanced" are of classes
        of equal frequency.
    teacher : "auto", None or estimator
        A model whose answers trees may learn in place of noisy targets, fitted to the scaled features: "auto" is an
        :class:`ALCNClassifier`. Trees learn from it where that does better on rows held out; constant leaf values
        come from the rows in any case. None: no teacher, and a quicker fit. An estimator needs `predict_proba`.
    missing : {"error", "indicator"}
        "indicator" fills missing values with the median and adds a feature that says so.
    cv : int, splitter, iterable of (train, test) or None
        The folds on which sizes are compared: a number of random folds, one of scikit-learn's splitters
        (``GroupKFold()``, ``TimeSeriesSplit()``), or pairs of row numbers. None: up to five folds, by class; by group
        if `fit` is given `groups`.
    n_jobs : int, optional
        Threads; None for all processors. The result does not depend on it.
    random_state : int, RandomState or None

    Attributes
    ----------
    tree_ : ObliqueTree
        The tree on raw features. Nothing else is needed to predict.
    path_ : DataFrame
        For each size, what decides the choice, all on held-out rows:

        - `leaves`, `terms`: leaves, and the most terms of a question
        - `score`, `std_error`: accuracy and its standard error
        - `loss`: half the error rate and half the Brier score (summed over the classes)
        - `loss_difference`, `difference_std_error`: how far the loss is above the best one, and the standard error
        - `eligible`: whether the size is as good as the best by `selection`; `chosen`: whether it was taken
        - `start`: where its training started ("scores": one linear model, followed as it is)
    path_trees_ : list of ObliqueTree
        The tree of each row of `path_`.
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

    def __init__(
        self,
        *,
        max_leaf_nodes: int | None = None,
        max_depth: int | None = None,
        max_terms: int | None = None,
        min_samples_leaf: int = 2,
        selection: str = "smallest",
        shrinkage: float | str = "auto",
        n_updates: int | str = "auto",
        round_weights: float | None = None,
        monotonic_cst: Any = None,
        class_weight: dict[Any, float] | str | None = None,
        teacher: Any = "auto",
        missing: str = "error",
        cv: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.max_terms = max_terms
        self.min_samples_leaf = min_samples_leaf
        self.selection = selection
        self.shrinkage = shrinkage
        self.n_updates = n_updates
        self.round_weights = round_weights
        self.monotonic_cst = monotonic_cst
        self.class_weight = class_weight
        self.teacher = teacher
        self.missing = missing
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit_target(self, X: Matrix, y: NDArray[Any], weight: NDArray[np.float64], folding: Folding | None) -> None:
        check_classification_targets(y)
        self.classes_, number = encode_classes(y)
        if self.class_weight is not None:
            check_class_weight(self.class_weight)
            weight = weigh_classes(self.class_weight, self.classes_[number], summable(weight))
        weight = summable(weight)
        order = class_order(number, len(self.classes_), weight)
        target = np.eye(len(order))[number][:, order]
        signs = self._signs(X.shape[1], len(order))
        if signs is not None and order[-1] == 0:  # those of the other class
            signs = -signs
        self._fit_tree(X, target, weight, folding, signs, link="probability", classes=self.classes_)
        self._change_trees(lambda tree: replace(tree, values=tree.values[:, np.argsort(order)]))


class ObliqueTreeRegressor(RegressorMixin, SmallTree):
    """A small oblique regression tree, trained by gradients, whose size is chosen by cross-validation.

    As :class:`ObliqueTreeClassifier`, with squared error for the loss; takes several targets at once.

    Parameters
    ----------
    max_leaf_nodes, max_depth, max_terms, min_samples_leaf, selection, shrinkage, n_updates, round_weights, \
monotonic_cst, teacher, missing, cv, n_jobs, random_state
        As in :class:`ObliqueTreeClassifier`; at most 16 leaves by default, the teacher an :class:`ALCNRegressor`.
    linear_leaves : bool
        A linear function of the features in each leaf instead of a constant, drawn to that of the leaf's ancestors by
        `shrinkage`; the size is chosen for that. Where the tree learns from the teacher, these functions do too, and
        are drawn a tenth as much. The pieces of small locally linear networks are compared beside trained questions
        (with ``teacher="auto"`` and all terms). Not together with `monotonic_cst`.

    Attributes
    ----------
    tree_ : ObliqueTree
        The tree on raw features. Nothing else is needed to predict.
    path_ : DataFrame
        As of :class:`ObliqueTreeClassifier`; `score` is R² and `loss` is 1 − R².
    path_trees_ : list of ObliqueTree
        The tree of each row of `path_`.
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

    def __init__(
        self,
        *,
        max_leaf_nodes: int | None = None,
        max_depth: int | None = None,
        max_terms: int | None = None,
        min_samples_leaf: int = 2,
        selection: str = "smallest",
        shrinkage: float | str = "auto",
        n_updates: int | str = "auto",
        round_weights: float | None = None,
        monotonic_cst: Any = None,
        linear_leaves: bool = False,
        teacher: Any = "auto",
        missing: str = "error",
        cv: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.max_terms = max_terms
        self.min_samples_leaf = min_samples_leaf
        self.selection = selection
        self.shrinkage = shrinkage
        self.n_updates = n_updates
        self.round_weights = round_weights
        self.monotonic_cst = monotonic_cst
        self.linear_leaves = linear_leaves
        self.teacher = teacher
        self.missing = missing
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit_target(self, X: Matrix, y: NDArray[Any], weight: NDArray[np.float64], folding: Folding | None) -> None:
        weight = summable(weight)
        columns = y.reshape(len(y), -1)
        mean, unit = target_scale(columns[weight > 0], weight[weight > 0])
        signs = self._signs(X.shape[1], columns.shape[1])
        self._fit_tree(X, (columns - mean) / unit, weight, folding, signs, link="identity")

        def in_units(tree: ObliqueTree) -> ObliqueTree:
            slopes = None if tree.leaf_weights is None else tree.leaf_weights * unit[:, None]
            return replace(tree, values=tree.values * unit + mean, leaf_weights=slopes)

        self._change_trees(in_units)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def warn_of_outputs(n_outputs: int, max_leaves: int) -> None:
    """Say that the tree has one feature a question because more would take hours."""
    warnings.warn(
        f"{max_leaves:,} leaves of {n_outputs:,} outputs each would take long to train: only ordinary trees, of one "
        f"feature a question, are compared; max_leaf_nodes={max(2, MOST_SCORES // n_outputs)} is few enough for others",
        stacklevel=4,
    )


def warn_of_interrupt(done: int, of: int) -> None:
    """Say what Ctrl-C has left."""
    left = f"{done} of {of} sizes are finished, and the best of these is kept"
    warnings.warn(f"fitting interrupted: {left}", stacklevel=4)
