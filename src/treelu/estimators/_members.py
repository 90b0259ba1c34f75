"""What ensemble classifiers and regressors share: growing the ensemble, staged scores, its trees."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from treelu.estimators._base import NetworkEstimator
from treelu.estimators._rows import finite_scores, hold_out
from treelu.estimators._saved import n_columns, put_visits, take_visits
from treelu.estimators._stack import default_size, fit_stack, trainer
from treelu.estimators._trees import (
    MAX_DEPTH,
    Visits,
    column_importances,
    count_visits,
    feature_spread,
    node_counts,
    tree_of,
)
from treelu.nn import LocallyConstantNetwork, Table
from treelu.training import History, Sample
from treelu.training.boosting import Combine, Ensemble, Recipe, Sums, grow
from treelu.training.progress import epoch_bar
from treelu.training.saved import describe_ensemble, restore_ensemble
from treelu.training.scaling import Scaling, fit_scaling
from treelu.training.stacking import Stack, describe_stack, restore_stack
from treelu.tree import ObliqueTree

N_MEMBERS = 16  # of averaged and boosted ensembles, where n_estimators is None

if TYPE_CHECKING:
    from treelu.persistence.values import ArrayReader, ArrayWriter, Fields


def _of_member(name: str) -> Any:
    return property(lambda self: getattr(self._member(), name))


class EnsembleMixin(NetworkEstimator):
    """An estimator around an `Ensemble` instead of one network."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{
            name: NetworkEstimator._parameter_constraints[name]
            for name in ("early_stopping", "cv", "warm_start", "n_jobs", "callbacks", "verbose", "random_state")
        },
        "estimator": [None, NetworkEstimator],
        "n_estimators": [None, Interval(Integral, 1, None, closed="left")],
        "combine": [StrOptions({"stack", "average", "boost"})],
        "n_trees": [Interval(Integral, 0, None, closed="left")],
        "shrinkage": [Interval(Real, 0, 1, closed="right")],
        "bootstrap": ["boolean"],
        "feature_fraction": [Interval(Real, 0, 1, closed="right")],
    }

    ensemble_: Ensemble
    stack_: Stack | None  # of combine="stack"
    history_: History
    member_visits_: list[Visits]
    spread_: NDArray[np.float64]
    # what concerns all rows is the member's, but done once
    missing, standardize = _of_member("missing"), _of_member("standardize")
    class_weight, device = _of_member("class_weight"), _of_member("device")
    training = _of_member("training")

    @abstractmethod
    def _member(self) -> Any:
        """The estimator that members are made like: `estimator`, or the default one."""

    def _check_parameters(self) -> None:
        self._validate_params()
        member = self._member()
        member._check_parameters()
        fits = issubclass(member._network_class, LocallyConstantNetwork) and not isinstance(member, EnsembleMixin)
        if not fits or is_classifier(member) != is_classifier(self):
            raise ValueError(f"estimator must be an ALCN{_kind(self)} or LCN{_kind(self)}, got {member!r}")
        if member.cv is not None:
            raise ValueError("cv of the estimator is not used: set cv of the ensemble, which holds rows out for all")
        for name in ("early_stopping", "warm_start"):
            if self.combine == "stack" and getattr(self, name):
                raise ValueError(
                    f"{name}={getattr(self, name)!r} needs combine='average' or 'boost': the weights of a stack are "
                    "found for all of its parts together"
                )

    def n_members(self, n_features: int) -> int:
        """How many networks are fitted to a table: `n_estimators`, or the number by default."""
        if self.n_estimators is not None:
            return int(self.n_estimators)
        return default_size(n_features) if self.combine == "stack" else N_MEMBERS

    # Fitting

    def _fit_sample(self, sample: Sample, validation: Sample | None, *, can_hold_out: bool = True) -> Self:
        """Grow an ensemble on scaled rows, from nothing or with warm_start from the fitted one."""
        seed = self._seeds(1)[0]
        if self.combine == "stack":
            fit_stack(self, sample, validation, seed)
            return self
        if validation is None and self.early_stopping and can_hold_out:
            sample, validation = hold_out(sample, seed)
        continued = self.warm_start and hasattr(self, "ensemble_")
        n_members = self.n_members(sample.table.shape[1])
        if continued and n_members < len(self.ensemble_):
            raise ValueError(
                f"n_estimators={n_members} with warm_start=True must be at least {len(self.ensemble_)}, "
                "the number of members there are"
            )
        self._grow(sample, validation, seed, n_members, continued=continued)
        return self

    def _fit_piece(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """One more member, fitted to a piece of data on top of the earlier ones."""
        first = not hasattr(self, "ensemble_")
        X, targets = self._read_sample(X, y, sample_weight, first=first)
        if first:
            self.scaling_ = fit_scaling(X, self.standardize)
        n_members = 1 if first else len(self.ensemble_) + 1
        sample = Sample(self._scaled_table(X), targets)
        self._grow(sample, None, self._seeds(1)[0], n_members, continued=not first)
        return self

    def _grow(self, sample: Sample, validation: Sample | None, seed: int, n_members: int, *, continued: bool) -> None:
        n_outputs = sample.targets.n_outputs
        target = self._target_scaling or Scaling.identity(n_outputs)
        ensemble, records, visits = Ensemble(target.center, self._combine()), [], []
        if continued:
            self._check_continues(n_outputs)
            ensemble = replace(self.ensemble_, members=list(self.ensemble_.members))
            records, visits = self.history_.records[: len(ensemble)], list(self.member_visits_)
        history = grow(
            ensemble,
            n_members,
            self._recipe(sample, seed, visits),
            Sums(sample, self.scaling_, target, ensemble),
            validation=None if validation is None else Sums(validation, self.scaling_, target, ensemble),
            patience=self._patience(),
            callbacks=self.callbacks or (),
            progress=epoch_bar(type(self).__name__, n_members, "member", len(ensemble)) if self.verbose else None,
        )
        history.records[:0] = records
        self.ensemble_, self.history_, self.member_visits_ = ensemble, history, visits[: len(ensemble)]
        self.stack_ = None
        self.spread_ = feature_spread(sample.table) * self.scaling_.scale

    def _recipe(self, sample: Sample, seed: int, visits: list[Visits]) -> Recipe:
        """How members are made; `visits` takes how many of its training rows reach each leaf of a tree member.

        Averaged members are what the estimator would be by itself, each with its own choice of a setting. Boosted ones
        share a setting, chosen on the original targets where it is open.
        """
        prototype = self._prototype(temper=self.combine == "average")

        def train_alone(sample: Sample, rng: np.random.Generator) -> tuple[LocallyConstantNetwork, History]:
            network, history = copy.copy(prototype)._train_network(sample, None, int(rng.integers(2**62)))
            if network.activation.is_piecewise_linear:
                visits.append(count_visits(network, sample))
            return network, history

        if self.combine == "boost":
            setting = prototype._choose_setting(sample, None, seed, sample.targets).setting
            train_member = trainer(prototype, lambda part: setting, visits)
        else:
            train_member = train_alone
        return Recipe(
            train_member,
            shrinkage=float(self.shrinkage),
            # what the very first member is multiplied by: a regressor may have it count in full
            first_shrinkage=float(getattr(self, "first_shrinkage", self.shrinkage)),
            bootstrap=self.bootstrap,
            feature_fraction=float(self.feature_fraction),
            seed=seed,
        )

    def _prototype(self, *, temper: bool, **parameters: Any) -> Any:
        """What members are made like. A sum or a stack calibrates its members itself: these are not tempered."""
        quiet = {"warm_start": False, "n_jobs": None, "verbose": False, "callbacks": None}
        member = clone(self._member()).set_params(**quiet, **parameters)
        member._is_member, member.scaling_ = True, self.scaling_
        if not temper:
            member.training = member._how.but(temper=False)
        return member

    def _combine(self) -> Combine:
        """What is averaged: values in regression, probabilities in classification, as in a forest."""
        if self.combine == "boost":
            return "boost"
        return "vote" if is_classifier(self) else "average"

    def _check_continues(self, n_outputs: int) -> None:
        made_of = self.ensemble_.members[0].network
        smooth = self._member()._activation_kind == "softplus"
        now = self._combine(), "smooth" if smooth else "trees", n_outputs
        then = self.ensemble_.combine, "trees" if made_of.activation.is_piecewise_linear else "smooth"
        if now != (*then, made_of.out_features):
            raise ValueError(
                "more members must be of the kind there is: combine, the kind of estimator and the number of outputs "
                f"were {(*then, made_of.out_features)} and are {now} now; set warm_start=False or use a new estimator"
            )

    # Predicting

    def _staged_scores(self, X: Any) -> Iterator[NDArray[np.float64]]:
        check_is_fitted(self, "ensemble_")
        if self.stack_ is not None:
            raise AttributeError(
                "staged predictions need combine='average' or 'boost': its weights are those of all its parts"
            )
        X, _ = self._read_rows(X, first=False)
        return self.ensemble_.staged_scores(Table(X))

    def _raw_scores(self, X: Any) -> NDArray[np.float64]:
        """The ensemble's outputs (n, n_outputs) for raw rows."""
        check_is_fitted(self, "ensemble_")
        if self.stack_ is not None:
            return finite_scores(self.stack_.scores(Table(self._read_rows(X, first=False)[0])))
        scores = np.empty((0, 0))
        for stage in self._staged_scores(X):
            scores = stage
        return finite_scores(scores)

    def _state_of_model(self, arrays: ArrayWriter) -> dict[str, Any]:
        for number, visits in enumerate(self.member_visits_):
            put_visits(visits, arrays.under(f"visits{number}"))
        state = {"ensemble": describe_ensemble(self.ensemble_, arrays.under("ensemble"))}
        if self.stack_ is not None:
            state["stack"] = describe_stack(self.stack_, arrays.under("stack"))
        return state

    def _load_model(self, fields: Fields, arrays: ArrayReader) -> int:
        ensemble = restore_ensemble(fields.inner("ensemble"), arrays.under("ensemble"), n_columns(self))
        self.ensemble_, self.member_visits_, self.stack_ = ensemble, [], None
        for number, member in enumerate(ensemble.members):
            if not member.network.activation.is_piecewise_linear:
                break  # smooth members are no trees and have no visits
            self.member_visits_.append(take_visits(arrays.under(f"visits{number}"), member.network.depth))
        if "stack" in fields:
            self.stack_ = restore_stack(fields.inner("stack"), arrays.under("stack"), ensemble, n_columns(self))
        return len(ensemble.constant)

    @property
    def estimators_(self) -> list[Any]:
        """The members as fitted estimators, built when asked for.

        Boosted members carry the shrinkage (the first one also the constant), so that their raw scores add up.
        """
        check_is_fitted(self)
        return [self._as_estimator(number) for number in range(len(self.ensemble_))]

    def _as_estimator(self, number: int) -> Any:
        member, network = clone(self._member()), self.ensemble_.part(number)
        of_rows = ("n_features_in_", "feature_names_in_", "missing_values_", "scaling_")
        of_targets = ("classes_",) if is_classifier(self) else ("n_outputs_", "target_scaling_")
        for name in (*of_rows, *of_targets):
            if hasattr(self, name):
                setattr(member, name, getattr(self, name))
        member.network_, member.spread_, member.n_passes_ = network, self.spread_, 1
        member.depth_, member.drop_connect_, member.weight_decay_ = network.depth, network.drop_connect, 0.0
        if self.member_visits_:
            member.visits_ = self.member_visits_[number]
        return member

    # Trees

    @property
    def n_estimators_(self) -> int:
        """How many members there are: `n_estimators`, or the size that was best on validation rows."""
        check_is_fitted(self)
        return len(self.ensemble_)

    @property
    def tree_(self) -> ObliqueTree:
        """There is none: an AttributeError that says why."""
        raise AttributeError(
            f"{type(self).__name__} has no tree_: it is made of many networks; of LCN{_kind(self)} each is a tree, "
            "and trees_ has them all"
        )

    @property
    def trees_(self) -> MemberTrees:
        """Of LCN members: the members as exact oblique trees on the raw features.

        Boosted ones carry the shrinkage (the first one also the constant) in their leaf values, so that their raw
        scores add up to the ensemble's. Averaged ones are models by themselves: the ensemble's probabilities, or
        values, are the mean of theirs. A tree is built when it is asked for and not kept: one of depth 12 on 2,048
        features is 67 MB.
        """
        self._check_trees()
        depth = max(member.network.depth for member in self.ensemble_.members)
        if depth > MAX_DEPTH:
            raise AttributeError(
                f"trees_ of depth {depth} would have 2^{depth} leaves; to_trees(visited_by=X) builds the "
                "branches that rows X reach"
            )
        return MemberTrees(self)

    def to_trees(self, *, visited_by: Any) -> list[ObliqueTree]:
        """The members as trees with only those branches that some rows reach.

        Parameters
        ----------
        visited_by : array, DataFrame or sparse matrix
            The trees are exact for rows whose activation pattern, in each member, occurs among these.
        """
        self._check_trees()
        return [tree_of(self, self.ensemble_.part(number), visited_by) for number in range(len(self.ensemble_))]

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """The mean of the trees' importances (see `LCNClassifier`) of LCN members; they sum to 1."""
        check_is_fitted(self)
        return np.mean([column_importances(tree, self.spread_) for tree in self.trees_], axis=0)

    def _check_trees(self) -> None:
        check_is_fitted(self)
        if self.stack_ is not None:
            raise AttributeError(
                "a stack is no mean or sum of trees: it multiplies the probabilities of its parts; use "
                f"combine='average' or 'boost' with estimator=LCN{_kind(self)}(...)"
            )
        if not self.ensemble_.members[0].network.activation.is_piecewise_linear:
            raise AttributeError(f"the members are smooth and no trees; use estimator=LCN{_kind(self)}(...)")


class MemberTrees(Sequence[ObliqueTree]):
    """The trees of an ensemble, each built when it is asked for."""

    def __init__(self, estimator: EnsembleMixin) -> None:
        self._estimator = estimator

    def __len__(self) -> int:
        return len(self._estimator.ensemble_)

    @overload
    def __getitem__(self, number: int) -> ObliqueTree: ...
    @overload
    def __getitem__(self, number: slice) -> list[ObliqueTree]: ...
    def __getitem__(self, number: int | slice) -> ObliqueTree | list[ObliqueTree]:
        """Build one tree, or a list of some."""
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        network = self._estimator.ensemble_.part(number)
        tree = tree_of(self._estimator, network)
        return replace(tree, n_samples=node_counts(tree, self._estimator.member_visits_[number], network.depth))

    def __repr__(self) -> str:
        return f"<{len(self)} trees, built when asked for>"


def takes_pieces(estimator: EnsembleMixin) -> bool:
    """Whether there is a `partial_fit`; an AttributeError that says why not."""
    if estimator.combine == "stack":
        raise AttributeError("partial_fit needs combine='average' or 'boost': a stack is fitted to all rows at once")
    return True


def _kind(estimator: Any) -> str:
    return "Classifier" if is_classifier(estimator) else "Regressor"
