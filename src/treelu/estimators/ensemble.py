"""ELCN as scikit-learn estimators: boosted or averaged locally constant networks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from treelu.estimators._classifier import NetworkClassifier
from treelu.estimators._members import EnsembleMixin
from treelu.estimators._regressor import NetworkRegressor
from treelu.training import Callback, Schedule
from treelu.training.targets import probabilities


class ELCNClassifier(EnsembleMixin, NetworkClassifier):
    """An ensemble of (approximately) locally constant networks (ELCN, §3.6), boosted as in the paper or averaged.

    Two classes, more, or several 0/1 labels with NaN where one was not observed (an ensemble for each). The defaults
    are the paper's for classification.

    Parameters
    ----------
    n_estimators : int
        Members. With an `eval_set` or `early_stopping` the best size up to this.
    shrinkage : float in (0, 1]
        What a boosted member is multiplied by once it is fitted.
    member : {"alcn", "lcn"}
        "alcn": smooth networks, the paper's choice. "lcn": exact oblique trees, see `trees_`.
    combine : {"boost", "average"}
        "boost": each member is fitted on top of the sum of the earlier ones. "average": each on its own, and their
        probabilities are averaged; only bootstrap, feature_fraction and the random start tell them apart.
    bootstrap : bool
        Whether each member sees as many rows drawn with replacement.
    feature_fraction : float in (0, 1]
        The share of the features that each member sees, drawn anew for each.
    depth, drop_connect, hidden_layers, negative_slope
        Of each member, as for `LCNClassifier`.
    epochs, batch_size, learning_rate, optimizer, schedule, weight_decay, annealing, straight_through
        The training of each member, as for `LCNClassifier`.
    standardize, class_weight, device, n_jobs, random_state
        As for `LCNClassifier`.
    early_stopping : bool or int
        Stop after so many members (True: 10) without a better score on `eval_set`, or on a tenth of the rows held out.
    warm_start : bool
        Whether `fit` adds members to the fitted ones until there are `n_estimators`.
    callbacks : sequence of callables, optional
        Called as callback(record, network) after each member; a true answer ends the fit.
    verbose : bool
        Show a progress bar over the members.

    Attributes
    ----------
    ensemble_ : treelu.training.boosting.Ensemble
        The members, in float32 as trained. Predictions are made in float64.
    n_estimators_ : int
        How many members were kept.
    trees_ : sequence of ObliqueTree
        With member="lcn"; the raw scores of boosted ones add up to `decision_function`, the probabilities of averaged
        ones average to `predict_proba`. Built when asked for, one at a time.
    history_ : History
        One record for each member: `epoch` is its number, loss and score are the ensemble's.
    classes_, n_features_in_, feature_names_in_, feature_importances_
        As in scikit-learn; importances with member="lcn" only.
    estimators_ : list of ELCNClassifier
        One per label, where y has several.

    Notes
    -----
    `fit` scores an `eval_set` after each member and keeps the size with the best score. Ctrl-C keeps the finished
    members. `partial_fit` adds one member, fitted to the piece of data it is given.

    References
    ----------
    Lee & Jaakkola, "Oblique Decision Trees from Derivatives of ReLU Networks", ICLR 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = ELCNClassifier(n_estimators=4, depth=3, member="lcn", batch_size=16, random_state=0).fit(X, y)
    >>> scores = sum(tree.decision_function(X) for tree in classifier.trees_)
    >>> bool(np.allclose(scores, classifier.decision_function(X)))
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NetworkClassifier._parameter_constraints,
        **EnsembleMixin._parameter_constraints,
    }

    def __init__(
        self,
        *,
        n_estimators: int = 64,
        shrinkage: float = 0.1,
        member: str = "alcn",
        combine: str = "boost",
        bootstrap: bool = False,
        feature_fraction: float = 1.0,
        depth: int = 12,
        drop_connect: float = 0.75,
        hidden_layers: Sequence[int] = (),
        negative_slope: float = 0.0,
        epochs: int = 30,
        batch_size: int = 256,
        learning_rate: float = 0.01,
        optimizer: str = "amsgrad",
        schedule: Schedule = "constant",
        weight_decay: float = 0.0,
        annealing: float = 1.0,
        straight_through: bool = False,
        standardize: bool | str = "auto",
        early_stopping: bool | int = False,
        class_weight: dict[Any, float] | str | None = None,
        warm_start: bool = False,
        device: Any = "cpu",
        n_jobs: int | None = None,
        callbacks: Sequence[Callback] | None = None,
        verbose: bool | int = False,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            depth=depth, drop_connect=drop_connect, hidden_layers=hidden_layers, negative_slope=negative_slope,
            epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, optimizer=optimizer,
            schedule=schedule, weight_decay=weight_decay, annealing=annealing, straight_through=straight_through,
            standardize=standardize, early_stopping=early_stopping,
            class_weight=class_weight, warm_start=warm_start, device=device, n_jobs=n_jobs, callbacks=callbacks,
            verbose=verbose, random_state=random_state,
        )  # fmt: skip
        self.n_estimators = n_estimators
        self.shrinkage = shrinkage
        self.member = member
        self.combine = combine
        self.bootstrap = bootstrap
        self.feature_fraction = feature_fraction

    def staged_decision_function(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """`decision_function` of the first member, of the first two, and so on.

        With several labels, one whose ensemble is complete keeps its scores until all are.
        """
        check_is_fitted(self, "classes_")
        if hasattr(self, "estimators_"):
            latest: Sequence[Any] = ()
            for stage in zip_longest(*(member.staged_decision_function(X) for member in self.estimators_)):
                latest = [before if now is None else now for now, before in zip(stage, latest or stage, strict=True)]
                yield np.column_stack(latest)
        else:
            for scores in self._staged_scores(X):
                yield scores[:, 0] if scores.shape[1] == 1 else scores

    def staged_predict_proba(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """`predict_proba` of the first member, of the first two, and so on."""
        for scores in self.staged_decision_function(X):
            if hasattr(self, "estimators_"):
                yield expit(scores)
            else:
                yield probabilities(scores.reshape(len(scores), -1))

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """`predict` of the first member, of the first two, and so on."""
        for chances in self.staged_predict_proba(X):
            if hasattr(self, "estimators_"):
                yield (chances >= 0.5).astype(np.int64)
            else:
                yield self.classes_[chances.argmax(axis=1)]

    def _tree_settings(self) -> dict[str, Any]:
        return {"classes": self.classes_, "link": "logistic" if len(self.classes_) == 2 else "softmax"}


class ELCNRegressor(EnsembleMixin, NetworkRegressor):
    """An ensemble of (approximately) locally constant networks (ELCN, §3.6) for one or several real targets.

    Parameters
    ----------
    n_estimators : int
        Members. With an `eval_set` or `early_stopping` the best size up to this.
    shrinkage : float in (0, 1]
        What a boosted member but the first is multiplied by once it is fitted.
    first_shrinkage : float in (0, 1]
        The same for the first. In full, as in the authors' code, or like the others: better for members on drawn rows
        and features, of which one alone is poor.
    member, combine, bootstrap, feature_fraction
        As for `ELCNClassifier`; combine="average" averages the members' values.
    depth, drop_connect, hidden_layers, negative_slope
        Of each member, as for `LCNRegressor`.
    epochs, batch_size, learning_rate, optimizer, schedule, weight_decay, annealing, straight_through
        The training of each member, as for `LCNRegressor`.
    standardize, device, n_jobs, random_state
        As for `LCNRegressor`.
    early_stopping, warm_start, callbacks, verbose
        As for `ELCNClassifier`.

    Attributes
    ----------
    ensemble_, n_estimators_, trees_, history_, n_features_in_, feature_names_in_, feature_importances_
        As for `ELCNClassifier`; the predictions of boosted trees add up to `predict`, those of averaged ones
        average to it.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 200).reshape(-1, 1)
    >>> regressor = ELCNRegressor(n_estimators=4, depth=4, batch_size=16, random_state=0).fit(X, np.abs(X[:, 0]))
    >>> regressor.score(X, np.abs(X[:, 0])) > 0.8
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NetworkRegressor._parameter_constraints,
        **EnsembleMixin._parameter_constraints,
        "first_shrinkage": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(
        self,
        *,
        n_estimators: int = 64,
        shrinkage: float = 0.1,
        first_shrinkage: float = 1.0,
        member: str = "alcn",
        combine: str = "boost",
        bootstrap: bool = False,
        feature_fraction: float = 1.0,
        depth: int = 12,
        drop_connect: float = 0.25,
        hidden_layers: Sequence[int] = (),
        negative_slope: float = 0.0,
        epochs: int = 30,
        batch_size: int = 256,
        learning_rate: float = 0.01,
        optimizer: str = "amsgrad",
        schedule: Schedule = "constant",
        weight_decay: float = 0.0,
        annealing: float = 1.0,
        straight_through: bool = False,
        standardize: bool | str = "auto",
        early_stopping: bool | int = False,
        warm_start: bool = False,
        device: Any = "cpu",
        n_jobs: int | None = None,
        callbacks: Sequence[Callback] | None = None,
        verbose: bool | int = False,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            depth=depth, drop_connect=drop_connect, hidden_layers=hidden_layers, negative_slope=negative_slope,
            epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, optimizer=optimizer,
            schedule=schedule, weight_decay=weight_decay, annealing=annealing, straight_through=straight_through,
            standardize=standardize, early_stopping=early_stopping,
            warm_start=warm_start, device=device, n_jobs=n_jobs, callbacks=callbacks, verbose=verbose,
            random_state=random_state,
        )  # fmt: skip
        self.n_estimators = n_estimators
        self.shrinkage = shrinkage
        self.first_shrinkage = first_shrinkage
        self.member = member
        self.combine = combine
        self.bootstrap = bootstrap
        self.feature_fraction = feature_fraction

    def staged_predict(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """`predict` of the first member, of the first two, and so on."""
        for values in self._staged_scores(X):
            yield values[:, 0] if self.n_outputs_ is None else values

    def _tree_settings(self) -> dict[str, Any]:
        return {"link": "identity"}
