"""Ensembles of locally constant networks (ELCN, §3.6): members fitted one by one, boosted or averaged."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from treelu.data.dataset import Dataset
from treelu.data.scaling import Scaling, fold
from treelu.data.targets import METRICS, reordered_scores
from treelu.nn import LocallyConstantNetwork, NeuronChain, Table
from treelu.training.history import Callback, EpochRecord, History, silent
from treelu.training.loop import evaluate

Combine = Literal["boost", "average", "vote"]
TrainMember = Callable[[Dataset, np.random.Generator], tuple[LocallyConstantNetwork, History]]


@dataclass(frozen=True)
class Member:
    """One network of an ensemble: x ↦ factor · g((x − center) / scale), g on some of the features."""

    network: LocallyConstantNetwork  # as trained, in float32: half the memory of the float64 copies that predict
    scaling: Scaling  # of all features; the same object for all members of a fit
    factor: NDArray[np.float64]  # (n_outputs,), shrinkage times the unit of the targets
    features: NDArray[np.int64] | None = None  # those that the network reads, ascending; None for all

    def on_raw_features(self) -> LocallyConstantNetwork:
        """A float64 copy that reads all raw features and yields what the member adds to the ensemble."""
        raw = self._on_all_features()
        fold(raw, self.scaling, Scaling(np.zeros_like(self.factor), self.factor))
        return raw

    def on_scaled_features(self, scaling: Scaling) -> LocallyConstantNetwork:
        """A float32 copy that reads features of another scaling; the factor is not applied."""
        other = self._on_all_features()
        fold(other, self.scaling)
        fold(other, scaling.inverse())
        return other.copy(np.float32)

    def _on_all_features(self) -> LocallyConstantNetwork:
        """A float64 copy, with weights of zero on the features that the member does not read."""
        network = self.network.copy(np.float64)
        return network if self.features is None else network.widen(self.features, len(self.scaling.scale))


class Combination:
    """The scores (n, n_outputs) of an ensemble, from what its members contribute one after the other.

    "boost": start + Σ parts. "average": start + mean of the parts. "vote": the mean of the members' probabilities,
    as log-odds for two classes and as logarithms for more; kept in logarithms, so that no certainty is lost.

    Examples
    --------
    >>> votes = Combination("vote", np.zeros(1))
    >>> votes.add(np.array([[np.log(0.2 / 0.8)]]))
    >>> votes.add(np.array([[np.log(0.6 / 0.4)]]))
    >>> (1 / (1 + np.exp(-votes.scores()))).round(9)
    array([[0.4]])
    """

    def __init__(self, combine: Combine, start: NDArray[np.float64], n_rows: int = 1) -> None:
        self.combine, self.start, self.n_members = combine, start, 0
        self.total: NDArray[np.float64] = np.zeros((n_rows, len(start)))

    def add(self, part: NDArray[np.float64]) -> None:
        """Count one more member in."""
        self.n_members += 1
        if self.combine == "vote":
            log_p = log_probabilities(self.start + part)
            self.total = log_p if self.n_members == 1 else np.logaddexp(self.total, log_p)
        else:
            self.total = self.total + part

    def scores(self) -> NDArray[np.float64]:
        """The scores so far."""
        if self.combine == "boost" or self.n_members == 0:
            return self.start + self.total
        if self.combine == "average":
            return self.start + self.total / self.n_members
        if len(self.start) == 1:
            return self.total[:, 1:] - self.total[:, :1]
        return self.total - np.log(self.n_members)


def log_probabilities(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithms of class probabilities from raw scores: one column means two classes."""
    if scores.shape[1] == 1:
        return -np.logaddexp(0, np.column_stack([scores, -scores]))
    return log_softmax(scores, axis=1)


@dataclass
class Ensemble:
    """Members and how they are combined: scores as a function of the raw features.

    Attributes
    ----------
    constant : array of shape (n_outputs,)
        The score before the first member.
    combine : {"boost", "average", "vote"}
        Members are added up, their outputs are averaged, or their class probabilities are; see `Combination`.
    members : list of Member
    """

    constant: NDArray[np.float64]
    combine: Combine = "boost"
    members: list[Member] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.members)

    def reordered(self, places: NDArray[np.int64]) -> Ensemble:
        """The same with class k in the place of class `places[k]`; it may grow and leave this one as it is."""
        members = list(self.members)
        if (places != np.arange(len(places))).any():
            members = [replace(member, network=member.network.copy()) for member in members]
            for member in members:
                member.network.reorder_classes(places)
        return replace(self, constant=reordered_scores(self.constant, places), members=members)

    def part(self, number: int) -> LocallyConstantNetwork:
        """Member `number` = 0, 1, … as a float64 network on the raw features, with its factor.

        Boosted ones add up to the ensemble's scores, the constant being part of the first. Of others each is a
        model by itself, and they average to the ensemble.
        """
        part = self.members[number].on_raw_features()
        if number == 0 or self.combine != "boost":
            fold(part, Scaling.identity(part.in_features), Scaling(self.constant, np.ones_like(self.constant)))
        return part

    def staged_scores(self, table: Table) -> Iterator[NDArray[np.float64]]:
        """Scores (n, n_outputs) of raw rows by the first member, by the first two, and so on."""
        combination = Combination(self.combine, self.constant)
        for member in self.members:
            raw = member.on_raw_features()
            combination.add(evaluate(raw, table))
            yield combination.scores()


@dataclass(frozen=True)
class Recipe:
    """How members are made: see `ELCNRegressor` for the parameters.

    Member e depends on (seed, e) and the members before it, so that growing twice equals growing once.
    """

    train_member: TrainMember  # KeyboardInterrupt must come through
    shrinkage: float = 0.1
    first_shrinkage: float = 0.1
    bootstrap: bool = False
    feature_fraction: float = 1.0
    seed: int = 0

    def make(self, number: int, ensemble: Ensemble, sums: Sums) -> tuple[Member, NeuronChain, EpochRecord]:
        """Train member `number` = 1, 2, … of an ensemble; with it the network in training form and its last epoch."""
        sample, boosted = sums.sample, ensemble.combine == "boost"
        rng = np.random.default_rng([self.seed, number])
        features = drawn_features(sample.table.shape[1], self.feature_fraction, rng)
        table = sample.table.columns(features)
        index = rng.choice(sample.rows, len(sample)) if self.bootstrap else sample.index
        targets = replace(sample.targets, offset=sums.offset() if boosted else None)
        network, history = self.train_member(Dataset(table, targets, index), rng)
        factor = (self.first_shrinkage if number == 1 else self.shrinkage) if boosted else 1.0
        member = Member(network.copy(), sums.scaling, factor * sums.target_scaling.scale, features)
        return member, network, history.records[-1]


class Sums:
    """The stored sum of an ensemble's members for the rows of a sample, in the units of its scaled targets.

    `scaling` and `target_scaling` tell how features and targets of the sample came from the raw ones. The members of
    `ensemble` so far are evaluated here, once.
    """

    def __init__(self, sample: Dataset, scaling: Scaling, target_scaling: Scaling, ensemble: Ensemble) -> None:
        self.sample, self.scaling, self.target_scaling = sample, scaling, target_scaling
        start = (ensemble.constant - target_scaling.center) / target_scaling.scale
        self.combination = Combination(ensemble.combine, start, len(sample))
        for member in ensemble.members:
            if _same(member.scaling, scaling):
                self.add(member, member.network)
            else:  # fitted before, on other rows
                self.add(replace(member, features=None), member.on_scaled_features(scaling))

    def add(self, member: Member, network: NeuronChain) -> None:
        """Count one more member in, by its network on the features as scaled here."""
        table = self.sample.table.columns(member.features)
        output = evaluate(network, table, self.sample.index).astype(np.float64)
        self.combination.add(output * (member.factor / self.target_scaling.scale))

    def scores(self) -> NDArray[np.float32]:
        """Float32 scores of the rows of the sample."""
        return self.combination.scores().astype(np.float32)

    def offset(self) -> NDArray[np.float32]:
        """The scores as `Targets.offset` has them: for each row of the table, zero outside the sample."""
        scores = self.scores()
        offset = np.zeros((self.sample.table.shape[0], scores.shape[1]), np.float32)
        offset[self.sample.rows] = scores
        return offset

    def loss(self) -> float:
        """The ensemble's mean loss over the sample."""
        return self.sample.targets.loss(self.scores(), self.sample.rows)

    def score(self) -> float:
        """AUC, log-loss or RMSE of the ensemble on the sample."""
        return self.sample.targets.score(self.scores(), self.sample.rows)


class Maker(Protocol):
    """A maker of members: a `Recipe`, or a `CrossFit` for stacks."""

    def make(self, number: int, ensemble: Ensemble, sums: Any, /) -> tuple[Member, NeuronChain, EpochRecord]: ...


class Tally(Protocol):
    """The running total of members: `Sums`, or `HeldOut` for stacks."""

    sample: Dataset

    def add(self, member: Member, network: NeuronChain) -> None: ...
    def loss(self) -> float: ...


def grow(
    ensemble: Ensemble,
    n_members: int,
    recipe: Maker,
    sums: Tally,
    *,
    validation: Sums | None = None,
    patience: int | None = None,
    callbacks: Sequence[Callback] = (),
    progress: AbstractContextManager[Callback] | None = None,
) -> History:
    """Add members to an ensemble, in place, until it has `n_members`.

    Boosted member e minimises the loss of F_{e−1} + g_e, where F_{e−1} is the stored sum of the earlier members;
    then F_e = F_{e−1} + shrinkage · g_e (§3.7). Averaged members know nothing of each other. Only the member in
    training holds an optimiser's state; of the others there are float32 parameters and nothing else.

    `sums` has the training rows and the members' predictions for them; `validation` is scored after each member, and
    the members after the best score are dropped at the end. Callbacks, patience and progress are those of `train`, by
    member. Ctrl-C drops the member in training, keeps the finished ones and warns; with none finished it is raised.

    Returns
    -------
    History
        One record for each new member: `epoch` is the member's number, `train_loss` and `valid_score` are the
        ensemble's. `best_epoch` is the size kept.
    """
    metric = METRICS[sums.sample.targets.task]
    history = History(None if validation is None else metric.name, best_epoch=len(ensemble))
    best_score = validation.score() if validation is not None and len(ensemble) else None
    started = time.perf_counter()
    with progress or nullcontext(silent) as show:
        try:
            for number in range(len(ensemble) + 1, n_members + 1):
                member, network, last = recipe.make(number, ensemble, sums)
                score = None
                sums.add(member, network)
                if validation is not None:
                    validation.add(member, network)
                    score = validation.score()
                ensemble.members.append(member)
                record = replace(
                    last, epoch=number, train_loss=sums.loss(), valid_score=score, seconds=time.perf_counter() - started
                )
                history.records.append(record)
                if score is None or metric.improves(score, best_score):
                    best_score, history.best_epoch = score, number
                show(record, network)
                answers = [callback(record, network) for callback in callbacks]
                if any(answers):
                    history.ended = "callback"
                    break
                if patience is not None and number - history.best_epoch >= patience:
                    history.ended = "early"
                    break
        except KeyboardInterrupt:
            if not ensemble.members:
                raise
            history.ended = "interrupted"
            warnings.warn(f"fitting interrupted: {len(ensemble)} of {n_members} members are kept", stacklevel=2)
    del ensemble.members[history.best_epoch :]
    return history


def drawn_features(n_features: int, fraction: float, rng: np.random.Generator) -> NDArray[np.int64] | None:
    """A share of the features, at least one, drawn without replacement, in their order; None where the share is 1.

    Examples
    --------
    >>> len(drawn_features(10, 0.5, np.random.default_rng(0)))
    5
    """
    if fraction >= 1:
        return None
    return np.sort(rng.choice(n_features, max(1, round(fraction * n_features)), replace=False))


def _same(first: Scaling, second: Scaling) -> bool:
    return np.array_equal(first.center, second.center) and np.array_equal(first.scale, second.scale)
