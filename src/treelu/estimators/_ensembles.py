"""Base class of estimators around several networks: their members, and the trees of those that are trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from treelu.data.dataset import Dataset
from treelu.data.reading import Reading
from treelu.data.rows import finite_scores, rows_that_count
from treelu.estimators._base import NetworkEstimator, SingleNetwork
from treelu.estimators._inputs import network_config, parameters_of
from treelu.estimators._labels import FittedLabels
from treelu.estimators._rows import FROM_DTYPE, column_shares, copy_columns, missing_of_numbers
from treelu.estimators._saved import check_outputs, put_patterns, take_patterns
from treelu.estimators._trees import column_importances, tree_of
from treelu.nn import LocallyConstantNetwork, Table
from treelu.training import Callback
from treelu.training.boosting import Ensemble
from treelu.training.config import NetworkConfig, draw_seeds, patience_of
from treelu.training.ensemble import EnsembleConfig, FittedEnsemble, fit_ensemble
from treelu.training.fit import FittedNetwork
from treelu.training.hyper_parameters import MAX_DEPTH, HyperParameters
from treelu.training.pattern_counts import PatternCounts, node_counts
from treelu.training.saved import describe_ensemble, restore_ensemble
from treelu.tree import ObliqueTree

if TYPE_CHECKING:
    from treelu.persistence.values import ArrayReader, ArrayWriter, Fields

NO_PATTERNS = PatternCounts(np.zeros((0, 1), np.int64), np.zeros(0, np.int64))  # of members that are no trees


@dataclass(eq=False, repr=False)
class NetworkEnsemble(NetworkEstimator):
    """An estimator around several networks, which `estimator` is the pattern for."""

    estimator: Any = None
    _: KW_ONLY
    categorical_features: Any = FROM_DTYPE
    bootstrap: bool = False
    feature_fraction: float = 1.0
    cv: Any = None
    n_jobs: int | None = None
    callbacks: Sequence[Callback] | None = None
    verbose: bool | int = False
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{
            name: SingleNetwork._parameter_constraints[name]
            for name in ("cv", "n_jobs", "callbacks", "verbose", "random_state")
        },
        "estimator": [None, NetworkEstimator],
        "categorical_features": SingleNetwork._parameter_constraints["categorical_features"],
        "bootstrap": ["boolean"],
        "feature_fraction": [Interval(Real, 0, 1, closed="right")],
    }
    _member_class: ClassVar[type[SingleNetwork]]
    _part = "member"

    def _shared(self) -> Any:
        """The pattern of the members: `estimator`, or the default one."""
        return self._member_class() if self.estimator is None else self.estimator

    def _member_config(self) -> NetworkConfig:
        return replace(network_config(self._shared()), n_jobs=None, is_member=True).quiet

    def _check_parameters(self) -> None:
        self._validate_params()
        member = self._shared()
        is_alike = isinstance(member, SingleNetwork) and is_classifier(member) == is_classifier(self)
        if not is_alike or not issubclass(network_config(member).network_class, LocallyConstantNetwork):
            raise ValueError(f"estimator must be an ALCN{self._kind} or LCN{self._kind}, got {member!r}")
        member._check_parameters()
        if member.cv is not None:
            raise ValueError("cv of the estimator is not used: set cv of the ensemble, which holds rows out for all")

    @property
    def _kind(self) -> str:
        return "Classifier" if is_classifier(self) else "Regressor"

    # What was learned

    @property
    def ensemble_(self) -> Ensemble:
        """The networks, in float32 as trained."""
        return self._model("ensemble_").ensemble

    @property
    def n_estimators_(self) -> int:
        """How many networks there are: `n_estimators`, or the number that was best on validation rows."""
        check_is_fitted(self)
        return len(self._model("n_estimators_").ensemble)

    @property
    def estimators_(self) -> list[Any]:
        """The members as fitted estimators, built when asked for; of several labels, an ensemble for each.

        Boosted members carry the shrinkage (the first one also the constant), so that their raw scores add up.
        """
        check_is_fitted(self)
        fitted = self.fitted_
        if isinstance(fitted, FittedLabels):
            return fitted.estimators
        return [self._as_estimator(number) for number in range(len(fitted.ensemble))]

    def _as_estimator(self, number: int) -> Any:
        member, fitted = clone(self._shared()), self.fitted_
        network = fitted.ensemble.part(number)
        chosen = HyperParameters(network.depth, network.drop_connect)
        patterns = fitted.patterns[number] if fitted.patterns else NO_PATTERNS
        copy_columns(self, member)
        member.fitted_ = FittedNetwork(network, fitted.reading, chosen, None, 1, patterns, fitted.spread)
        return member

    @property
    def tree_(self) -> ObliqueTree:
        """There is none: an AttributeError that says why."""
        raise AttributeError(
            f"{type(self).__name__} has no tree_: it is made of several models; an ELCN{self._kind} of "
            f"estimator=LCN{self._kind}() is made of trees, and its trees_ has them all"
        )

    # Saving

    def _state_of_model(self, arrays: ArrayWriter) -> dict[str, Any]:
        for number, patterns in enumerate(self.fitted_.patterns):
            put_patterns(patterns, arrays.under(f"visits{number}"))
        return {"ensemble": describe_ensemble(self.fitted_.ensemble, arrays.under("ensemble"))}

    def _load_model(self, fields: Fields, arrays: ArrayReader, reading: Reading, *learned: Any) -> FittedEnsemble:
        ensemble = restore_ensemble(fields.inner("ensemble"), arrays.under("ensemble"), len(reading.scaling.scale))
        check_outputs(len(ensemble.constant), reading.encoding, fields)
        patterns = [
            take_patterns(arrays.under(f"visits{number}"), member.network.depth)
            for number, member in enumerate(ensemble.members)
            if member.network.activation.is_piecewise_linear
        ]
        history, spread = learned
        return FittedEnsemble(ensemble, reading, history, patterns, spread)


@dataclass(eq=False, repr=False, kw_only=True)
class SummedEnsemble(NetworkEnsemble):
    """An estimator whose networks are boosted or averaged."""

    n_estimators: int = 16
    combine: Literal["average", "boost"] = "boost"
    shrinkage: float = 0.1
    early_stopping: bool | int = False
    warm_start: bool = False

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **NetworkEnsemble._parameter_constraints,
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "combine": [StrOptions({"average", "boost"})],
        "shrinkage": [Interval(Real, 0, 1, closed="right")],
        "early_stopping": SingleNetwork._parameter_constraints["early_stopping"],
        "warm_start": ["boolean"],
    }
    _fit = staticmethod(fit_ensemble)

    def _config(self) -> EnsembleConfig:
        given = {"first_shrinkage": self.shrinkage, **parameters_of(self, EnsembleConfig)}  # a regressor has its own
        patience, title = patience_of(self.early_stopping), type(self).__name__
        return EnsembleConfig(self._member_config(), patience=patience, title=title, **given)

    def n_members(self, n_features: int) -> int:
        """How many networks are fitted to a table."""
        return int(self.n_estimators)

    def _fit_piece(self, X: Any, y: Any, sample_weight: Any, encoding: Any) -> Self:
        """One more member, fitted to a piece of the data on top of the earlier ones."""
        fitted, shared = self.__dict__.get("fitted_"), self._shared()
        X, weight = self._read_piece(X, y, sample_weight)
        known = encoding if fitted is None else fitted.reading.encoding
        X, targets = rows_that_count(X, known.targets(y, weight))
        reading = (
            Reading.learn(X, known, shared.standardize, missing_of_numbers(self, shared.missing))
            if fitted is None
            else fitted.reading.joined(X)
        )
        config = replace(self._config(), n_estimators=1 if fitted is None else len(fitted.ensemble) + 1)
        dataset, (seed,) = Dataset(reading.table(X), targets), draw_seeds(self.random_state, 1)
        self.fitted_ = fit_ensemble(dataset, config, reading, seed, start=fitted, can_hold_out=False)
        return self

    # Predicting

    def _staged_scores(self, X: Any) -> Iterator[NDArray[np.float64]]:
        check_is_fitted(self)
        return self._model("staged predictions").ensemble.staged_scores(Table(self._rows(X)))

    def _raw_scores(self, X: Any) -> NDArray[np.float64]:
        scores = np.empty((0, 0))
        for stage in self._staged_scores(X):
            scores = stage
        return finite_scores(scores)

    # Trees

    @property
    def trees_(self) -> MemberTrees:
        """Of LCN members: the members as exact oblique trees on the raw features.

        Boosted ones carry the shrinkage (the first one also the constant) in their leaf values, so that their raw
        scores add up to the ensemble's. Averaged ones are models by themselves: the ensemble's probabilities, or
        values, are the mean of theirs. A tree is built when it is asked for and not kept: one of depth 12 on 2,048
        features is 67 MB.
        """
        fitted = self._fitted_trees("trees_")
        depth = max(member.network.depth for member in fitted.ensemble.members)
        if depth > MAX_DEPTH:
            raise AttributeError(
                f"trees_ of depth {depth} would have 2^{depth} leaves; to_trees(visited_by=X) builds the "
                "branches that rows X reach"
            )
        return MemberTrees(self, fitted)

    def to_trees(self, *, visited_by: Any) -> list[ObliqueTree]:
        """The members as trees with only those branches that some rows reach.

        Parameters
        ----------
        visited_by : array, DataFrame or sparse matrix
            The trees are exact for rows whose activation pattern, in each member, occurs among these.
        """
        fitted = self._fitted_trees("to_trees")
        numbers = range(len(fitted.ensemble))
        return [tree_of(self, fitted.ensemble.part(number), fitted.spread, visited_by) for number in numbers]

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """The mean of the trees' importances (see `LCNClassifier`) of LCN members; they sum to 1."""
        check_is_fitted(self)
        if isinstance(self.fitted_, FittedLabels):
            return np.mean([member.feature_importances_ for member in self.fitted_.estimators], axis=0)
        shares = np.mean([column_importances(tree, self.fitted_.spread) for tree in self.trees_], axis=0)
        return column_shares(self, shares)

    def _fitted_trees(self, name: str) -> FittedEnsemble:
        check_is_fitted(self)
        fitted = self._model(name)
        if not fitted.ensemble.members[0].network.activation.is_piecewise_linear:
            raise AttributeError(f"the members are smooth and no trees; use estimator=LCN{self._kind}(...)")
        return fitted


class MemberTrees(Sequence[ObliqueTree]):
    """The trees of an ensemble, each built when it is asked for."""

    def __init__(self, estimator: SummedEnsemble, fitted: FittedEnsemble) -> None:
        self._estimator, self._fitted = estimator, fitted

    def __len__(self) -> int:
        return len(self._fitted.ensemble)

    @overload
    def __getitem__(self, number: int) -> ObliqueTree: ...
    @overload
    def __getitem__(self, number: slice) -> list[ObliqueTree]: ...
    def __getitem__(self, number: int | slice) -> ObliqueTree | list[ObliqueTree]:
        """Build one tree, or a list of some."""
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        network = self._fitted.ensemble.part(number)
        tree = tree_of(self._estimator, network, self._fitted.spread)
        return replace(tree, n_samples=node_counts(tree, self._fitted.patterns[number], network.depth))

    def __repr__(self) -> str:
        return f"<{len(self)} trees, built when asked for>"
