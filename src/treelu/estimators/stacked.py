"""Stacks as scikit-learn estimators: networks, a random forest and boosted trees, weighted by held-out predictions."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from treelu.data.reading import Reading
from treelu.data.rows import finite_scores
from treelu.estimators._ensembles import NetworkEnsemble
from treelu.estimators._inputs import parameters_of
from treelu.estimators._networks import NetworkClassifier, NetworkRegressor, SingleClassifier, SingleRegressor
from treelu.estimators.single import ALCNClassifier, ALCNRegressor
from treelu.nn import Table
from treelu.training.stack_fit import FittedStack, StackConfig, fit_stack
from treelu.training.stacking import Stack, describe_stack, restore_stack

if TYPE_CHECKING:
    from treelu.persistence.values import ArrayReader, ArrayWriter, Fields


@dataclass(eq=False, repr=False, kw_only=True)
class StackedEnsemble(NetworkEnsemble):
    """An estimator around a stack."""

    n_estimators: int | None = None
    n_trees: int = 200

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **NetworkEnsemble._parameter_constraints,
        "n_estimators": [None, Interval(Integral, 1, None, closed="left")],
        "n_trees": [Interval(Integral, 0, None, closed="left")],
    }
    _fit = staticmethod(fit_stack)

    def _config(self) -> StackConfig:
        is_default, given = self.estimator is None, parameters_of(self, StackConfig)
        return StackConfig(self._member_config(), is_default=is_default, title=type(self).__name__, **given)

    def n_members(self, n_features: int) -> int:
        """How many networks are fitted to a table."""
        return self._config().n_members(n_features)

    @property
    def stack_(self) -> Stack:
        """The parts and their weights."""
        return self._model("stack_").stack

    def _raw_scores(self, X: Any) -> NDArray[np.float64]:
        return finite_scores(self.stack_.scores(Table(self._rows(X))))

    def _state_of_model(self, arrays: ArrayWriter) -> dict[str, Any]:
        state = super()._state_of_model(arrays)
        return {**state, "stack": describe_stack(self.fitted_.stack, arrays.under("stack"))}

    def _load_model(self, fields: Fields, arrays: ArrayReader, reading: Reading, *learned: Any) -> FittedStack:
        parts = super()._load_model(fields, arrays, reading, *learned)
        n_columns = len(reading.scaling.scale)
        stack = restore_stack(fields.inner("stack"), arrays.under("stack"), parts.ensemble, n_columns)
        return FittedStack(parts.ensemble, reading, parts.history, parts.patterns, parts.spread, stack)


class StackedClassifier(StackedEnsemble, NetworkClassifier):
    """A stack: smooth networks (ALCN), a random forest and boosted trees, weighted by their out-of-fold predictions.

    Each network holds a fifth of the rows out. The forest is scikit-learn's, and is scored out of bag; the boosted
    trees are scikit-learn's too, for two classes and fewer than 512 features. The weights minimise the loss of
    out-of-fold predictions: see `treelu.training.stacking`. Two classes, more, or several 0/1 labels with
    NaN where one was not observed (a stack for each).

    Parameters
    ----------
    estimator : ALCNClassifier or LCNClassifier, optional
        The pattern for the networks. By default their kind suits the table's shape: `ALCNClassifier` with the better
        of two drop rates, and with 512 features or more shallow ones that see half of the features each.
        `standardize`, `missing`, `class_weight` and `device` are read from it. Its parameters are set as
        ``estimator__depth``.
    n_estimators : int, optional
        Number of networks; by default 5, with 512 features or more 30.
    n_trees : int
        Trees of the random forest; with 0 the stack has no trees at all, boosted or not.
    categorical_features : "from_dtype", or array of names, numbers or truth values
        As of the member, for all of them.
    bootstrap : bool
        Whether each network sees as many rows drawn with replacement.
    feature_fraction : float in (0, 1]
        The share of the features that each network sees, drawn anew for each.
    cv : int, splitter, iterable of (train, test) or None
        The folds, as for `LCNClassifier`. With `cv` or `groups` the forest is scored on them too, not out of bag.
    n_jobs : int, optional
        Threads for several labels, and for the random forest.
    callbacks : sequence of callables, optional
        Called as callback(record, network) after each network; the fit stops where one returns a true value.
    verbose : bool
        Show a progress bar over the networks.
    random_state : int, RandomState or None

    Attributes
    ----------
    stack_ : treelu.training.stacking.Stack
        The parts and their weights.
    ensemble_ : treelu.training.boosting.Ensemble
        The networks, in float32 as trained. Predictions are made in float64.
    estimators_ : list
        The networks as fitted estimators, built when asked for. Where y has several labels: a stack for each.
    n_estimators_ : int
        How many networks there are.
    history_ : History
        One record for each network: `epoch` is its number, `train_loss` its out-of-fold loss.
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    With an `eval_set`, the parts are weighted on its rows. Ctrl-C keeps the finished networks.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = StackedClassifier(n_estimators=2, n_trees=20, random_state=0).fit(X, y)
    >>> classifier.score(X, y) > 0.9
    True
    """

    _elsewhere: ClassVar[dict[str, str]] = {
        name: f"estimator=ALCNClassifier({name}=…)" for name in SingleClassifier._parameter_constraints
    }
    _member_class = ALCNClassifier


class StackedRegressor(StackedEnsemble, NetworkRegressor):
    """A stack for one or several real targets: smooth networks (ALCN), a random forest and boosted trees.

    Parameters
    ----------
    estimator : ALCNRegressor or LCNRegressor, optional
        The pattern for the networks; by default their kind suits the table's shape, as for `StackedClassifier`.
    n_estimators, n_trees, bootstrap, feature_fraction, cv, n_jobs, callbacks, verbose, random_state
        As for `StackedClassifier`.

    Attributes
    ----------
    stack_, ensemble_, estimators_, n_estimators_, history_, n_features_in_, feature_names_in_
        As for `StackedClassifier`; the parts' values add up by their weights.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 200).reshape(-1, 1)
    >>> member = ALCNRegressor(depth=4, drop_connect=0.1)
    >>> regressor = StackedRegressor(member, n_estimators=5, n_trees=20, random_state=0).fit(X, np.abs(X[:, 0]))
    >>> regressor.score(X, np.abs(X[:, 0])) > 0.8
    True
    """

    _elsewhere: ClassVar[dict[str, str]] = {
        name: f"estimator=ALCNRegressor({name}=…)" for name in SingleRegressor._parameter_constraints
    }
    _member_class = ALCNRegressor
