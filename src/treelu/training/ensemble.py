"""`fit_ensemble`: averaged or boosted networks (ELCN, §3.6). A fit is a value, and a larger one continues it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from treelu.data.dataset import Dataset
from treelu.data.reading import ClassEncoding, Reading
from treelu.data.scaling import Scaling
from treelu.nn import LocallyConstantNetwork
from treelu.training.boosting import Combine, Ensemble, Recipe, Sums, TrainMember, grow
from treelu.training.config import NetworkConfig
from treelu.training.fit import choose, hold_out, loop_options, smoothed_targets, trained
from treelu.training.history import Callback, History
from treelu.training.hyper_parameters import HyperParameters
from treelu.training.loop import train
from treelu.training.pattern_counts import PatternCounts, count_patterns, feature_spread
from treelu.training.progress import epoch_bar
from treelu.training.sparsity import proximal_step


@dataclass(frozen=True)
class EnsembleConfig:
    """Configuration of `fit_ensemble`; see `ELCNRegressor` for the parameters."""

    member: NetworkConfig
    n_estimators: int
    combine: Literal["average", "boost"] = "boost"
    shrinkage: float = 0.1
    first_shrinkage: float = 0.1
    bootstrap: bool = False
    feature_fraction: float = 1.0
    patience: int | None = None
    callbacks: Sequence[Callback] | None = None
    verbose: bool | int = False
    title: str = "ensemble"


@dataclass(frozen=True)
class FittedEnsemble:
    """A fitted ensemble and what the fit remembers beside it."""

    ensemble: Ensemble
    reading: Reading
    history: History  # one record for each member
    patterns: list[PatternCounts]  # training rows of each member; empty where members are smooth
    spread: NDArray[np.float64]  # (n_features,)


def fit_ensemble(
    dataset: Dataset,
    config: EnsembleConfig,
    reading: Reading,
    seed: int,
    *,
    validation: Dataset | None = None,
    start: FittedEnsemble | None = None,
    can_hold_out: bool = True,
) -> FittedEnsemble:
    """Grow an ensemble on scaled rows, from nothing or from a smaller one; parameters as of `fit_network`."""
    if validation is None and config.patience is not None and can_hold_out:
        dataset, validation = hold_out(dataset, seed)
    n_outputs = dataset.targets.n_outputs
    target = reading.encoding.scaling or Scaling.identity(n_outputs)
    kind: Combine = "boost"
    if config.combine == "average":  # probabilities in classification, as in a forest
        kind = "vote" if isinstance(reading.encoding, ClassEncoding) else "average"
    ensemble, records, patterns, places = Ensemble(target.center, kind), [], [], class_places(reading)
    if start is not None:
        _check_continues(start.ensemble, kind, config, n_outputs)
        ensemble = replace(start.ensemble, members=list(start.ensemble.members))
        if places is not None:
            ensemble = ensemble.reordered(np.argsort(places))
        records, patterns = start.history.records[: len(ensemble)], list(start.patterns)
    history = grow(
        ensemble,
        config.n_estimators,
        Recipe(
            _train_member(dataset, config, seed, patterns),
            shrinkage=config.shrinkage,
            first_shrinkage=config.first_shrinkage,
            bootstrap=config.bootstrap,
            feature_fraction=config.feature_fraction,
            seed=seed,
        ),
        Sums(dataset, reading.scaling, target, ensemble),
        validation=None if validation is None else Sums(validation, reading.scaling, target, ensemble),
        patience=config.patience,
        callbacks=config.callbacks or (),
        progress=epoch_bar(config.title, config.n_estimators, "member", len(ensemble)) if config.verbose else None,
    )
    history.records[:0] = records
    if places is not None:
        ensemble = ensemble.reordered(places)
    if start is not None:  # earlier members stay the very same
        ensemble.members[: len(start.ensemble)] = start.ensemble.members[: len(ensemble)]
    spread = feature_spread(dataset.table) * reading.scaling.scale
    return FittedEnsemble(ensemble, reading, history, patterns[: len(ensemble)], spread)


def class_places(reading: Reading) -> NDArray[np.int64] | None:
    """The number that each class has in training; None in regression."""
    return reading.encoding.places if isinstance(reading.encoding, ClassEncoding) else None


def _train_member(dataset: Dataset, config: EnsembleConfig, seed: int, patterns: list[PatternCounts]) -> TrainMember:
    """How members are trained; `patterns` takes how many rows reach each leaf of members that are trees.

    An averaged member is what the network would be by itself, with its own choice of hyper-parameters. Boosted ones
    share hyper-parameters, chosen on the original targets, and are not tempered: the sum is calibrated by boosting.
    """
    if config.combine == "boost":
        member = untempered(config.member)
        chosen = choose(dataset, member, seed).hyper_parameters
        return member_trainer(member, chosen, patterns)

    def train_alone(part: Dataset, rng: np.random.Generator) -> tuple[LocallyConstantNetwork, History]:
        member, own_seed = config.member.quiet, int(rng.integers(2**62))
        targets = smoothed_targets(part, None, member, own_seed)
        choice = choose(part, member, own_seed, trained_on=targets)
        network, history = trained(part, targets, member, choice, own_seed)
        if network.activation.is_piecewise_linear:
            patterns.append(count_patterns(network, part))
        return cast(LocallyConstantNetwork, network), history

    return train_alone


def untempered(config: NetworkConfig) -> NetworkConfig:
    """The configuration of a member that a sum or a stack calibrates."""
    return replace(config.quiet, training=config.training.but(temper=False))


def member_trainer(
    config: NetworkConfig, given: HyperParameters | None, patterns: list[PatternCounts], epochs: float = 1.0
) -> TrainMember:
    """How a member with given hyper-parameters (None: the first candidate) is trained, for a share of its epochs."""

    def train_member(part: Dataset, rng: np.random.Generator) -> tuple[LocallyConstantNetwork, History]:
        seed = int(rng.integers(2**62))
        chosen = given or config.candidates(len(part), part.table.shape[1])[0]
        network = config.new_network(part, chosen, seed)
        penalise = proximal_step(config.training.feature_penalty)
        history = train(network, part, after_step=penalise, **loop_options(config, chosen, part, rng, epochs))
        if network.activation.is_piecewise_linear:
            patterns.append(count_patterns(network, part))
        return cast(LocallyConstantNetwork, network), history

    return train_member


def _check_continues(ensemble: Ensemble, kind: Combine, config: EnsembleConfig, n_outputs: int) -> None:
    """Raise where members of another kind, or fewer of them, are asked for."""
    if config.n_estimators < len(ensemble):
        raise ValueError(
            f"n_estimators={config.n_estimators} with warm_start=True must be at least {len(ensemble)}, the number of "
            "members there are"
        )
    first = ensemble.members[0].network
    then = ensemble.combine, "trees" if first.activation.is_piecewise_linear else "smooth", first.out_features
    now = kind, "smooth" if config.member.activation == "softplus" else "trees", n_outputs
    if now != then:
        raise ValueError(
            "more members must be of the kind there is: combine, the kind of estimator and the number of outputs "
            f"were {then} and are {now} now; set warm_start=False or use a new estimator"
        )
