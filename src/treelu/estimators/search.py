"""Depth and drop rate by cross-validation: LCNClassifierCV and LCNRegressorCV."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils import Tags, _safe_indexing, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, indexable

from treelu.estimators._folding import read_folding
from treelu.estimators._log_proba import LogProbabilities
from treelu.estimators._rows import check_weight, tags_of_missing
from treelu.estimators._showing import SaveMixin
from treelu.estimators._targets import is_label_matrix
from treelu.estimators.single import LCNClassifier, LCNRegressor
from treelu.training.folds import Fold, folds
from treelu.training.saved import describe_numbers, restore_numbers
from treelu.training.selection import choose, compare, summarise
from treelu.training.targets import log_loss, root_mean_squared_error
from treelu.tree import ObliqueTree

if TYPE_CHECKING:
    from treelu.estimators._saved import Describe, Restore
    from treelu.persistence.values import ArrayReader, ArrayWriter, Fields

RESULTS = ("depth", "drop_connect", "mean_loss", "std_error")  # columns of `cv_results_`


class _SearchCV(SaveMixin, BaseEstimator):
    """Fit each (depth, drop rate) on each fold; choose; refit on all rows."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "depths": ["array-like"],
        "drop_rates": ["array-like"],
        "cv": ["cv_object"],
        "one_standard_error": ["boolean"],
        "estimator": [None, LCNClassifier, LCNRegressor],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        depths: Sequence[int] = (2, 4, 6, 8, 12),
        drop_rates: Sequence[float] = (0.1, 0.25, 0.5),
        cv: Any = 5,
        one_standard_error: bool = True,
        estimator: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
        random_state: Any = None,
    ) -> None:
        self.depths = depths
        self.drop_rates = drop_rates
        self.cv = cv
        self.one_standard_error = one_standard_error
        self.estimator = estimator
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    _estimator_class: ClassVar[type[LCNClassifier] | type[LCNRegressor]]

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Search by cross-validation, then fit the chosen setting on all rows.

        Parameters
        ----------
        X, y, sample_weight, groups : as for the estimator's `fit`; y must be a vector, or real values
        """
        self._validate_params()
        depths, rates = sorted(set(self.depths)), sorted(set(self.drop_rates))
        if not depths or not rates:
            raise ValueError("depths and drop_rates must each have at least one value")
        base = self._estimator_class() if self.estimator is None else clone(self.estimator)
        base.set_params(random_state=self.random_state)
        y = self._check_target(y)
        rows, targets = indexable(X, y)
        weight = check_weight(sample_weight, rows)
        parts = self._folds(rows, targets, weight, groups)
        candidates = [[(depth, rate) for depth in depths] for rate in rates]
        trial = partial(_fold_losses, base, rows, targets, weight, None if groups is None else np.asarray(groups))

        def run(jobs: list[Any]) -> list[list[float]]:
            return Parallel(n_jobs=self.n_jobs, verbose=10 if self.verbose else 0)(delayed(trial)(*job) for job in jobs)

        found = compare(candidates, parts, trial, run=run)
        settings = sorted(found)
        mean_loss, std_error = summarise(found[setting] for setting in settings)
        self.cv_results_ = {
            "depth": np.array([depth for depth, _ in settings]),
            "drop_connect": np.array([rate for _, rate in settings]),
            "mean_loss": mean_loss,
            "std_error": std_error,
        }
        chosen = choose(
            self.cv_results_["depth"], mean_loss, std_error, one_standard_error=bool(self.one_standard_error)
        )
        self.depth_ = int(self.cv_results_["depth"][chosen])
        self.drop_connect_ = float(self.cv_results_["drop_connect"][chosen])
        self.best_estimator_ = base.set_params(depth=self.depth_, drop_connect=self.drop_connect_)
        self.best_estimator_.fit(X, y, sample_weight=sample_weight, groups=groups)
        for name in ("n_features_in_", "feature_names_in_", "classes_"):
            if hasattr(self.best_estimator_, name):
                setattr(self, name, getattr(self.best_estimator_, name))
        return self

    def _folds(self, X: Any, y: Any, weight: NDArray[np.float64] | None, groups: Any) -> list[Fold]:
        """Folds of the rows that count, by the numbers of all rows."""
        counted = np.arange(len(y)) if weight is None else np.flatnonzero(weight)
        folding = read_folding(
            5 if self.cv is None else self.cv, groups, X, y, counted, are_classes=self._is_classifier
        )
        key = np.unique(y, return_inverse=True)[1][counted] if self._is_classifier else np.zeros(len(counted))
        seed = int(check_random_state(copy.deepcopy(self.random_state)).randint(2**31 - 1))
        parts = folds(
            key,
            5,
            np.random.default_rng(seed),
            folding,
            None if weight is None else weight[counted],
            are_classes=self._is_classifier,
        )
        if not parts:
            what = "row" if groups is None else "group"
            raise ValueError(f"no {what} can be held out, as each class has only one; give more {what}s of each class")
        return [(counted[train], counted[test]) for train, test in parts]

    def _check_target(self, y: Any) -> Any:
        """A vector of classes, or real values."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if not self._is_classifier:
            return check_array(y, ensure_2d=False, dtype="numeric", input_name="y")
        if is_label_matrix(y):
            raise ValueError("y with several labels cannot be searched at once; search each label by itself")
        check_classification_targets(y)
        return column_or_1d(y, warn=True)

    @property
    def tree_(self) -> ObliqueTree:
        """The tree of the chosen estimator."""
        check_is_fitted(self)
        return self.best_estimator_.tree_

    def predict(self, X: Any) -> NDArray[Any]:
        """Predictions of the chosen estimator."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    def _state(self, arrays: ArrayWriter, describe: Describe) -> dict[str, Any]:
        """The table of losses, and the estimator that was chosen."""
        return {
            "results": {name: describe_numbers(self.cv_results_[name].tolist()) for name in RESULTS},
            "best": describe(self.best_estimator_, arrays.under("best")),
        }

    def _load_state(self, fields: Fields, arrays: ArrayReader, restore: Restore) -> None:
        """The inverse of `_state`, for a search with its parameters set."""
        best = restore(fields.inner("best"), arrays.under("best"))
        if type(best) is not self._estimator_class or best.n_features_in_ != self.n_features_in_:
            raise fields.error("the chosen estimator does not belong to this search")
        columns = restore_numbers(fields.inner("results"), RESULTS)
        self.cv_results_ = {
            name: np.array(column, dtype=np.int64 if name == "depth" else np.float64)
            for name, column in zip(RESULTS, columns, strict=True)
        }
        self.best_estimator_, self.depth_, self.drop_connect_ = best, int(best.depth), float(best.drop_connect)
        if self._is_classifier:
            self.classes_ = best.classes_

    @property
    def _is_classifier(self) -> bool:
        return issubclass(self._estimator_class, LCNClassifier)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags if self.estimator is None else tags_of_missing(tags, self.estimator)


def _fold_losses(
    base: Any,
    X: Any,
    y: NDArray[Any],
    weight: NDArray[np.float64] | None,
    groups: NDArray[Any] | None,
    fold: Fold,
    settings: Sequence[tuple[int, float]],
) -> list[float]:
    """Losses on the rows held out for settings of rising depth; each network starts from the one before."""
    train, test = fold
    estimator: Any = None
    losses: list[float] = []
    in_train, in_test = (None if weight is None else weight[part] for part in fold)
    for depth, rate in settings:
        shallower: Any = estimator
        estimator = clone(base).set_params(depth=depth, drop_connect=rate, n_jobs=None, verbose=False)
        if shallower is not None:
            estimator.start_from_ = shallower.network_
        of_train = None if groups is None else groups[train]
        estimator.fit(_safe_indexing(X, train), y[train], sample_weight=in_train, groups=of_train)
        losses.append(_held_out_loss(estimator, _safe_indexing(X, test), y[test], in_test))
    return losses


def _held_out_loss(
    estimator: LCNClassifier | LCNRegressor, X: Any, y: NDArray[Any], weight: NDArray[np.float64] | None
) -> float:
    """Log-loss or RMSE on held-out rows."""
    if isinstance(estimator, LCNRegressor):
        return root_mean_squared_error(y, estimator.predict(X), weight)
    known = np.isin(y, estimator.classes_)
    scores = estimator.decision_function(X)[known]
    return log_loss(np.searchsorted(estimator.classes_, y[known]), scores, None if weight is None else weight[known])


class LCNClassifierCV(ClassifierMixin, LogProbabilities, _SearchCV):
    """`LCNClassifier` with depth and drop rate chosen by cross-validated log-loss.

    Parameters
    ----------
    depths : sequence of int
    drop_rates : sequence of float
        Each drop rate is tried at each depth; a deeper network starts from the shallower one's neurons.
    cv : int, splitter, iterable of (train, test) or None
        A number of random folds (None: five), alike in their classes, and by group if `fit` is given `groups`; one of
        scikit-learn's splitters; or pairs of row numbers.
    one_standard_error : bool
        Take the smallest tree whose loss is within one standard error of the best, rather than the best.
    estimator : LCNClassifier, optional
        All other settings.
    n_jobs : int, optional
        Processes over folds and drop rates.
    verbose : bool
    random_state : int, RandomState or None

    Attributes
    ----------
    depth_, drop_connect_ : int, float
        The choice.
    cv_results_ : dict of arrays
        depth, drop_connect, mean_loss and std_error of each setting.
    best_estimator_ : LCNClassifier
        Fitted on all rows.
    tree_ : ObliqueTree

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> search = LCNClassifierCV(depths=[1, 3], drop_rates=[0.1], cv=3, random_state=0).fit(X, y)
    >>> search.depth_, search.drop_connect_
    (3, 0.1)
    """

    _estimator_class: ClassVar[type[LCNClassifier]] = LCNClassifier

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities of the chosen estimator."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Raw scores of the chosen estimator."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)


class LCNRegressorCV(RegressorMixin, _SearchCV):
    """`LCNRegressor` with depth and drop rate chosen by cross-validated RMSE.

    Parameters and attributes are those of `LCNClassifierCV`.
    """

    _estimator_class: ClassVar[type[LCNRegressor]] = LCNRegressor

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
