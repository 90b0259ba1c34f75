"""ELCN as scikit-learn estimators: locally constant networks, boosted or averaged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from treelu.data.targets import probabilities
from treelu.estimators._ensembles import SummedEnsemble
from treelu.estimators._labels import FittedLabels
from treelu.estimators._networks import (
    IncrementalClassifier,
    IncrementalRegressor,
    SingleClassifier,
    SingleRegressor,
)
from treelu.estimators.single import ALCNClassifier, ALCNRegressor


class ELCNClassifier(SummedEnsemble, IncrementalClassifier):
    """The paper's ensemble of (approximately) locally constant networks (ELCN, §3.6): boosted, or averaged.

    Two classes, more, or several 0/1 labels with NaN where one was not observed (an ensemble for each).

    Parameters
    ----------
    estimator : ALCNClassifier or LCNClassifier, optional
        The pattern for the members; `ALCNClassifier()` by default. Smooth networks are the paper's choice; members of
        `LCNClassifier` are exact oblique trees, see `trees_`. `standardize`, `missing`, `class_weight` and `device`
        are read from it. Its parameters are set as ``estimator__depth``.
    n_estimators : int
        Number of networks. With an `eval_set` or `early_stopping` the best number up to this is kept.
    combine : {"boost", "average"}
        "boost", the paper's: each network is fitted on top of the sum of the earlier ones; what `estimator` leaves
        open is chosen once. That wants small steps and members that are weak by themselves. "average": each network
        is fitted on its own, with its own choice of what `estimator` leaves open, and their probabilities are
        averaged; the random start, bootstrap and feature_fraction tell them apart.
    shrinkage : float in (0, 1]
        What a boosted member is multiplied by once it is fitted.
    categorical_features : "from_dtype", or array of names, numbers or truth values
        As of the member, for all of them.
    bootstrap : bool
        Whether each member sees as many rows drawn with replacement.
    feature_fraction : float in (0, 1]
        The share of the features that each member sees, drawn anew for each.
    early_stopping : bool or int
        Stop after this many members (True: 10) without a better score on `eval_set`, or on a tenth of the rows held
        out.
    cv : int, splitter, iterable of (train, test) or None
        The folds on which members' hyper-parameters are chosen, as for `LCNClassifier`.
    warm_start : bool
        Whether `fit` adds members to the fitted ones until there are `n_estimators`.
    n_jobs : int, optional
        Threads for several labels.
    callbacks : sequence of callables, optional
        Called as callback(record, network) after each member; the fit stops where one returns a true value.
    verbose : bool
        Show a progress bar over the members.
    random_state : int, RandomState or None

    Attributes
    ----------
    ensemble_ : treelu.training.boosting.Ensemble
        The networks, in float32 as trained. Predictions are made in float64.
    estimators_ : list
        The members as fitted estimators, built when asked for. Where y has several labels: an ensemble for each.
    n_estimators_ : int
        How many members were kept.
    trees_ : sequence of ObliqueTree
        Of members that are trees; the raw scores of boosted ones add up to `decision_function`, the probabilities of
        averaged ones average to `predict_proba`. Built when asked for, one at a time.
    history_ : History
        One record for each member: `epoch` is its number, loss and score are the ensemble's.
    classes_, n_features_in_, feature_names_in_, feature_importances_
        As in scikit-learn; importances of members that are trees only.

    Notes
    -----
    `fit` scores an `eval_set` after each member and keeps the number with the best score. Ctrl-C keeps the finished
    members. `partial_fit` adds one member, fitted to the piece of data it is given. The settings of the paper are::

        paper = {"batch_size": 256, "schedule": "constant", "annealing": 1.0, "straight_through": False}
        member = ALCNClassifier(depth=12, drop_connect=0.75, epochs=30, training=paper)
        ELCNClassifier(member, n_estimators=64)

    `StackedClassifier` is more accurate: it adds a random forest and boosted trees, and weights its parts.

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
        name: f"estimator=ALCNClassifier({name}=…)" for name in SingleClassifier._parameter_constraints
    }

    _member_class = ALCNClassifier

    def staged_decision_function(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """`decision_function` of the first member, of the first two, and so on.

        With several labels, one whose ensemble is complete keeps its scores until all are.
        """
        check_is_fitted(self)
        if isinstance(self.fitted_, FittedLabels):
            yield from _staged_labels([member.staged_decision_function(X) for member in self.fitted_.estimators])
            return
        for scores in self._staged_scores(X):
            yield scores[:, 0] if scores.shape[1] == 1 else scores

    def staged_predict_proba(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """`predict_proba` of the first member, of the first two, and so on."""
        check_is_fitted(self)
        for scores in self.staged_decision_function(X):
            several = isinstance(self.fitted_, FittedLabels)
            yield expit(scores) if several else probabilities(scores.reshape(len(scores), -1))

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """`predict` of the first member, of the first two, and so on."""
        for probability in self.staged_predict_proba(X):
            if isinstance(self.fitted_, FittedLabels):
                yield (probability >= 0.5).astype(np.int64)
            else:
                yield self.classes_[probability.argmax(axis=1)]


def _staged_labels(stages: list[Iterator[NDArray[np.float64]]]) -> Iterator[NDArray[np.float64]]:
    """The scores of several labels side by side, the last of each where others have more."""
    latest: Sequence[Any] = ()
    for stage in zip_longest(*stages):
        latest = [before if now is None else now for now, before in zip(stage, latest or stage, strict=True)]
        yield np.column_stack(latest)


@dataclass(eq=False, repr=False, kw_only=True)
class ELCNRegressor(SummedEnsemble, IncrementalRegressor):
    """An ensemble of (approximately) locally constant networks (ELCN, §3.6) for one or several real targets.

    Parameters
    ----------
    estimator : ALCNRegressor or LCNRegressor, optional
        The pattern for the members; `ALCNRegressor()` by default.
    first_shrinkage : float in (0, 1]
        What the first boosted member is multiplied by: 1, as in the authors' code, or the shrinkage of the others, the
        better choice for members on drawn rows and features, of which one alone is poor.
    n_estimators, combine, shrinkage, bootstrap, feature_fraction, early_stopping, cv, warm_start, n_jobs
        As for `ELCNClassifier`; "average" averages the members' values.
    callbacks, verbose, random_state
        As for `ELCNClassifier`.

    Attributes
    ----------
    ensemble_, estimators_, n_estimators_, trees_, history_
    n_features_in_, feature_names_in_, feature_importances_
        As for `ELCNClassifier`; the predictions of boosted trees add up to `predict`, those of averaged ones
        average to it.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 200).reshape(-1, 1)
    >>> member = ALCNRegressor(depth=4, drop_connect=0.1)
    >>> regressor = ELCNRegressor(member, n_estimators=4, combine="average", random_state=0).fit(X, np.abs(X[:, 0]))
    >>> regressor.score(X, np.abs(X[:, 0])) > 0.8
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SummedEnsemble._parameter_constraints,
        "first_shrinkage": [Interval(Real, 0, 1, closed="right")],
    }
    _elsewhere: ClassVar[dict[str, str]] = {
        name: f"estimator=ALCNRegressor({name}=…)" for name in SingleRegressor._parameter_constraints
    }

    first_shrinkage: float = 1.0
    _member_class = ALCNRegressor

    def staged_predict(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """`predict` of the first member, of the first two, and so on."""
        for values in self._staged_scores(X):
            yield values[:, 0] if self.n_outputs_ is None else values
