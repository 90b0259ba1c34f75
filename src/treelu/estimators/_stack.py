"""`fit_stack`: networks that leave a fifth of the rows out in turn, a random forest and boosted trees, weighted by
their out-of-fold predictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treelu.data.dataset import Dataset
from treelu.data.folds import Fold
from treelu.data.reading import Reading
from treelu.data.scaling import Scaling
from treelu.data.targets import predictions
from treelu.estimators._forests import Grown, grow_boosted, grow_forest
from treelu.training.boosting import Ensemble, grow
from treelu.training.calibration import log_frequencies
from treelu.training.config import NetworkConfig
from treelu.training.crossfit import CrossFit, HeldOut, Kind
from treelu.training.ensemble import FittedEnsemble, class_places, member_trainer, untempered
from treelu.training.fit import choose
from treelu.training.hyper_parameters import FOLDS
from treelu.training.loop import Callback, evaluate
from treelu.training.pattern_counts import PatternCounts, feature_spread
from treelu.training.plan import rows_in_batch
from treelu.training.progress import epoch_bar
from treelu.training.stacking import Stack, Trees, find_weights

WIDE = 512  # features from which members see half of them each, and trees are not boosted
MOST_IN_BATCH = 256  # rows, in networks that take small batches
N_NETWORKS, N_ON_WIDE = 5, 30  # where n_estimators is None


class Style(NamedTuple):
    """How networks of one kind are made by default.

    Attributes
    ----------
    parameters : dict
        Of the member's configuration.
    training : dict
        Of its `training`.
    feature_fraction : float
        The share of the features that each sees.
    epochs : float
        The share of the member's own epochs.
    batches_per_pass : int, optional
        Batches that the rows are divided into, if that makes no more than `MOST_IN_BATCH` rows in each; the member's
        own rule where it is None.
    """

    parameters: dict[str, Any]
    training: dict[str, Any] = {}  # noqa: RUF012
    feature_fraction: float = 1.0
    epochs: float = 1.0
    batches_per_pass: int | None = None


# A network of a low and one of a high drop rate are compared by their loss on the rows that both hold out.
# Small batches: an update's time goes with its rows, and a mean of networks smooths the noise of few rows.
USUAL = tuple(Style({"drop_connect": rate}, {}, epochs=0.75, batches_per_pass=64) for rate in (0.05, 0.3))
# On fingerprints members that fit well do best if each sees other columns (docs/ensembles-study.md).
ON_WIDE = (
    Style(
        {"depth": 8, "drop_connect": 0.0, "epochs": 30},
        {"batch_size": 256, "optimizer": "amsgrad", "schedule": "constant"},
        feature_fraction=0.5,
    ),
)


@dataclass(frozen=True)
class StackConfig:
    """Configuration of `fit_stack`; see `StackedClassifier` for the parameters.

    Attributes
    ----------
    member : NetworkConfig
    is_default : bool
        Whether the kind of member is chosen by the table's shape, rather than given.
    """

    member: NetworkConfig
    is_default: bool
    n_estimators: int | None = None
    n_trees: int = 200
    bootstrap: bool = False
    feature_fraction: float = 1.0
    n_jobs: int | None = None
    callbacks: Sequence[Callback] | None = None
    verbose: bool | int = False
    title: str = "stack"

    def n_members(self, n_features: int) -> int:
        """How many networks are fitted to a table."""
        if self.n_estimators is not None:
            return int(self.n_estimators)
        return N_ON_WIDE if n_features >= WIDE else N_NETWORKS


@dataclass(frozen=True)
class FittedStack(FittedEnsemble):
    """A fitted stack: its networks as an ensemble, and all parts with their weights."""

    stack: Stack


def fit_stack(
    dataset: Dataset,
    config: StackConfig,
    reading: Reading,
    seed: int,
    *,
    validation: Dataset | None = None,
    start: None = None,
) -> FittedStack:
    """Fit all parts to scaled rows and weight them; parameters as of `fit_network`."""
    targets = dataset.targets
    target = reading.encoding.scaling or Scaling.identity(targets.n_outputs)
    folds = targets.folds(dataset.rows, min(FOLDS, len(dataset)), seed)
    grown = _grow_trees(config, dataset, folds, seed)
    patterns: list[PatternCounts] = []
    held_out = HeldOut(dataset, reading.scaling, target, folds)
    ensemble = Ensemble(target.center, "average" if targets.task == "regression" else "vote")
    n_members = config.n_members(dataset.table.shape[1])
    history = grow(
        ensemble,
        n_members,
        CrossFit(_kinds(config, dataset, seed, patterns), config.bootstrap, seed),
        held_out,
        callbacks=config.callbacks or (),
        progress=epoch_bar(config.title, n_members, "member") if config.verbose else None,
    )
    groups = np.zeros(len(ensemble), np.int64)
    if validation is None:
        outputs, scored, rows = [held_out.outputs(), *(part.held_out for part in grown)], targets, dataset.rows
    else:
        outputs = _outputs(ensemble, groups, [part.trees for part in grown], validation)
        scored, rows = validation.targets, validation.rows
    if targets.task == "regression":
        mean = np.average(targets.y[dataset.rows].astype(np.float64), axis=0, weights=targets.weights(dataset.rows))
        weights, constant = find_weights(outputs, scored, rows, mean), target.center + target.scale * mean
    else:
        constant = log_frequencies(targets, dataset.rows)
        weights = find_weights(outputs, scored, rows, constant)
    trees = [part.trees.on_raw(reading.scaling, target) for part in grown]
    spread = feature_spread(dataset.table) * reading.scaling.scale
    stack, places = Stack(targets.task, ensemble, groups, trees, weights, constant), class_places(reading)
    stack = stack if places is None else stack.reordered(places)
    return FittedStack(stack.networks, reading, history, patterns[: len(ensemble)], spread, stack)


def _grow_trees(config: StackConfig, dataset: Dataset, folds: list[Fold], seed: int) -> list[Grown]:
    """A random forest; and boosted trees, unless there are many features or, with a tree for each, many classes."""
    if not config.n_trees or len(dataset) < 2:
        return []
    # rows out of bag are single rows, whose groups or later rows a tree may have seen
    instead_of_bags = None if dataset.targets.folding is None else folds
    grown = [grow_forest(dataset, int(config.n_trees), seed, config.n_jobs, instead_of_bags)]
    boosted = None
    if dataset.table.shape[1] < WIDE and dataset.targets.task != "multiclass":
        boosted = grow_boosted(dataset, folds, seed)
    return grown if boosted is None else [*grown, boosted]


def _kinds(config: StackConfig, dataset: Dataset, seed: int, patterns: list[PatternCounts]) -> list[Kind]:
    """The kinds of networks to choose among: the member that was given, or else what suits the table's shape."""
    share, member = float(config.feature_fraction), untempered(config.member)
    if not config.is_default:
        chosen = choose(dataset, member, seed).hyper_parameters
        return [Kind(member_trainer(member, chosen, patterns), share)]
    kinds = []
    for style in ON_WIDE if dataset.table.shape[1] >= WIDE else USUAL:
        training = member.training.but(**style.training)
        if style.batches_per_pass is not None:
            n_rows = len(dataset) * (FOLDS - 1) // FOLDS
            batch_size = min(MOST_IN_BATCH, rows_in_batch(n_rows, style.batches_per_pass))
            training = training.but(batch_size=batch_size)
        one = replace(member, **style.parameters, training=training)
        kinds.append(Kind(member_trainer(one, None, patterns, style.epochs), min(share, style.feature_fraction)))
    return kinds


def _outputs(
    ensemble: Ensemble, groups: NDArray[np.int64], trees: list[Trees], dataset: Dataset
) -> list[NDArray[np.float64]]:
    """The outputs of each part for the rows of another data set, in its scaled units."""
    task, outputs = dataset.targets.task, []
    for group in np.unique(groups):
        members = [member for member, own in zip(ensemble.members, groups, strict=True) if own == group]
        of_group = []
        for member in members:
            scores = evaluate(member.network, dataset.table.columns(member.features), dataset.index).astype(np.float64)
            of_group.append(predictions(scores, task))
        outputs.append(np.mean(of_group, axis=0))
    return outputs + [part.outputs(dataset.table, task, dataset.index) for part in trees]
