"""ELCN as scikit-learn estimators: locally constant networks stacked with trees, averaged, or boosted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from treelu.estimators._classifier import NetworkClassifier
from treelu.estimators._labels import SeveralLabels
from treelu.estimators._members import EnsembleMixin, takes_pieces
from treelu.estimators._regressor import NetworkRegressor
from treelu.estimators.single import ALCNClassifier, ALCNRegressor
from treelu.training import Callback
from treelu.training.targets import probabilities


class ELCNClassifier(SeveralLabels, EnsembleMixin, NetworkClassifier):
    """An ensemble of (approximately) locally constant networks (ELCN, §3.6): stacked with trees, averaged, or boosted.

    Two classes, more, or several 0/1 labels with NaN where one was not observed (an ensemble for each).

    Parameters
    ----------
    estimator : ALCNClassifier or LCNClassifier, optional
        The pattern for the members; `ALCNClassifier()` by default, whose drop rate a stack chooses. Smooth networks
        are the paper's choice; members of `LCNClassifier` are exact oblique trees, see `trees_`. `standardize`,
        `missing`, `class_weight` and `device` are read from it. Its parameters are set as ``estimator__depth``.
    n_estimators : int, optional
        Number of networks; by default 5 for a stack (30 with 512 features or more), 16 otherwise. With an `eval_set`
        or `early_stopping` an average or a sum keeps the best size up to this.
    combine : {"stack", "average", "boost"}
        "stack": networks of which each leaves a fifth of the rows out, a random forest and, for two classes and fewer
        than 512 features, boosted trees are fitted, and weighted by how well they predict rows they have not seen:
        see `treelu.training.stacking`. "average": each network is fitted on its own, with its own choice of what
        `estimator` leaves open, and their probabilities are averaged; the random start, bootstrap and
        feature_fraction tell them apart. "boost", the paper's: each network is fitted on top of the sum of the
        earlier ones; what `estimator` leaves open is chosen once. That wants small steps and members that are weak by
        themselves.
    n_trees : int
        Trees in a stack's random forest; with 0 the stack has no trees at all, boosted or not.
    shrinkage : float in (0, 1]
        What a boosted member is multiplied by once it is fitted.
    bootstrap : bool
        Whether each member sees as many rows drawn with replacement.
    feature_fraction : float in (0, 1]
        The share of the features that each member sees, drawn anew for each.
    early_stopping : bool or int
        Stop after this many members (True: 10) without a better score on `eval_set`, or on a tenth of the rows held
        out. Not for a stack.
    cv : int, splitter, iterable of (train, test) or None
        The folds of a stack, and those on which members' hyper-parameters are chosen, as for `LCNClassifier`. With
        `cv` or `groups` a stack's forest is judged on these folds too, not out of bag.
    warm_start : bool
        Whether `fit` adds members to the fitted ones until there are `n_estimators`. Not for a stack.
    n_jobs : int, optional
        Threads for several labels, and for the random forest.
    callbacks : sequence of callables, optional
        Called as callback(record, network) after each member; the fit stops where one returns a true value.
    verbose : bool
        Show a progress bar over the members.
    random_state : int, RandomState or None

    Attributes
    ----------
    ensemble_ : treelu.training.boosting.Ensemble
        The networks, in float32 as trained. Predictions are made in float64.
    stack_ : treelu.training.stacking.Stack or None
        Of combine="stack": its parts and their weights.
    estimators_ : list
        The members as fitted estimators, built when asked for. Where y has several labels: an ensemble for each.
    n_estimators_ : int
        How many members were kept.
    trees_ : sequence of ObliqueTree
        Of members that are trees; the raw scores of boosted ones add up to `decision_function`, the probabilities of
        averaged ones average to `predict_proba`. Built when asked for, one at a time. Not of a stack.
    history_ : History
        One record for each member: `epoch` is its number, loss and score are the ensemble's; in a stack `train_loss`
        is the member's on the rows that it left out.
    classes_, n_features_in_, feature_names_in_, feature_importances_
        As in scikit-learn; importances of members that are trees only.

    Notes
    -----
    `fit` scores an `eval_set` after each member and keeps the size with the best score; a stack is weighed on its
    rows. Ctrl-C keeps the finished members. `partial_fit` adds one member, fitted to the piece of data it is given,
    to an average or a sum. The paper's ensemble is::

        paper = {"batch_size": 256, "schedule": "constant", "annealing": 1.0, "straight_through": False}
        member = ALCNClassifier(depth=12, drop_connect=0.75, epochs=30, training=paper)
        ELCNClassifier(member, n_estimators=64, combine="boost")

    References
    ----------
    Lee & Jaakkola, "Oblique Decision Trees from Derivatives of ReLU Networks", ICLR 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from treelu import LCNClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> member = LCNClassifier(depth=3, drop_connect=0.1, epochs=20)
    >>> classifier = ELCNClassifier(member, n_estimators=4, combine="average", random_state=0).fit(X, y)
    >>> mean = np.mean([tree.predict_proba(X) for tree in classifier.trees_], axis=0)
    >>> bool(np.allclose(mean, classifier.predict_proba(X)))
    True
    """

    _elsewhere: ClassVar[dict[str, str]] = {
        name: f"estimator=ALCNClassifier({name}=…)" for name in NetworkClassifier._parameter_constraints
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int | None = None,
        combine: str = "stack",
        n_trees: int = 200,
        shrinkage: float = 0.1,
        bootstrap: bool = False,
        feature_fraction: float = 1.0,
        early_stopping: bool | int = False,
        cv: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        callbacks: Sequence[Callback] | None = None,
        verbose: bool | int = False,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.combine = combine
        self.n_trees = n_trees
        self.shrinkage = shrinkage
        self.bootstrap = bootstrap
        self.feature_fraction = feature_fraction
        self.early_stopping = early_stopping
        self.cv = cv
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.callbacks = callbacks
        self.verbose = verbose
        self.random_state = random_state

    def _member(self) -> Any:
        return ALCNClassifier() if self.estimator is None else self.estimator

    @available_if(takes_pieces)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add one member, fitted to a piece of the data, to an average or a sum.

        Parameters
        ----------
        X, y : as for `fit`, a vector y only
        classes : array, optional
            All classes, at the first call if that piece does not show them all.
        sample_weight : array of shape (n,), optional
        """
        return super().partial_fit(X, y, classes, sample_weight)

    def staged_decision_function(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """`decision_function` of the first member, of the first two, and so on.

        With several labels, one whose ensemble is complete keeps its scores until all are.
        """
        check_is_fitted(self, "classes_")
        for scores in self._staged_scores(X):
            yield scores[:, 0] if scores.shape[1] == 1 else scores

    def staged_predict_proba(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """`predict_proba` of the first member, of the first two, and so on."""
        for scores in self.staged_decision_function(X):
            yield probabilities(scores.reshape(len(scores), -1))

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """`predict` of the first member, of the first two, and so on."""
        for chances in self.staged_predict_proba(X):
            yield self.classes_[chances.argmax(axis=1)]


class ELCNRegressor(EnsembleMixin, NetworkRegressor):
    """An ensemble of (approximately) locally constant networks (ELCN, §3.6) for one or several real targets.

    Parameters
    ----------
    estimator : ALCNRegressor or LCNRegressor, optional
        The pattern for the members; `ALCNRegressor()` by default.
    first_shrinkage : float in (0, 1]
        What the first boosted member is multiplied by: 1, as in the authors' code, or the shrinkage of the others, the
        better choice for members on drawn rows and features, of which one alone is poor.
    n_estimators, combine, n_trees, shrinkage, bootstrap, feature_fraction, early_stopping, cv, warm_start, n_jobs
        As for `ELCNClassifier`; "stack" adds up the parts' values by their weights, "average" averages the members'.
    callbacks, verbose, random_state
        As for `ELCNClassifier`.

    Attributes
    ----------
    ensemble_, stack_, estimators_, n_estimators_, trees_, history_
    n_features_in_, feature_names_in_, feature_importances_
        As for `ELCNClassifier`; the predictions of boosted trees add up to `predict`, those of averaged ones
        average to it.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 200).reshape(-1, 1)
    >>> member = ALCNRegressor(depth=4, drop_connect=0.1)
    >>> regressor = ELCNRegressor(member, n_estimators=5, n_trees=20, random_state=0).fit(X, np.abs(X[:, 0]))
    >>> regressor.score(X, np.abs(X[:, 0])) > 0.8
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **EnsembleMixin._parameter_constraints,
        "first_shrinkage": [Interval(Real, 0, 1, closed="right")],
    }
    _elsewhere: ClassVar[dict[str, str]] = {
        name: f"estimator=ALCNRegressor({name}=…)" for name in NetworkRegressor._parameter_constraints
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int | None = None,
        combine: str = "stack",
        n_trees: int = 200,
        shrinkage: float = 0.1,
        first_shrinkage: float = 1.0,
        bootstrap: bool = False,
        feature_fraction: float = 1.0,
        early_stopping: bool | int = False,
        cv: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        callbacks: Sequence[Callback] | None = None,
        verbose: bool | int = False,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.combine = combine
        self.n_trees = n_trees
        self.shrinkage = shrinkage
        self.first_shrinkage = first_shrinkage
        self.bootstrap = bootstrap
        self.feature_fraction = feature_fraction
        self.early_stopping = early_stopping
        self.cv = cv
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.callbacks = callbacks
        self.verbose = verbose
        self.random_state = random_state

    def _member(self) -> Any:
        return ALCNRegressor() if self.estimator is None else self.estimator

    @available_if(takes_pieces)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Add one member, fitted to a piece of the data, to an average or a sum."""
        return super().partial_fit(X, y, sample_weight)

    def staged_predict(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """`predict` of the first member, of the first two, and so on."""
        for values in self._staged_scores(X):
            yield values[:, 0] if self.n_outputs_ is None else values
