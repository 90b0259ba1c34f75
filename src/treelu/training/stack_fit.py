"""`fit_stack`: networks that leave a fifth of the rows out in turn, a random forest and boosted trees, weighted by
their out-of-fold predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from treelu.data.dataset import Dataset
from treelu.data.folds import Fold
from treelu.data.reading import Reading
from treelu.data.scaling import Scaling
from treelu.data.targets import predictions
from treelu.nn import LocallyConstantNetwork, NeuronChain
from treelu.training.boosting import Ensemble, Member, drawn_features, grow
from treelu.training.calibration import log_frequencies, within_range
from treelu.training.config import NetworkConfig, rows_in_batch
from treelu.training.ensemble import FittedEnsemble, class_places, member_trainer, untempered
from treelu.training.fit import choose
from treelu.training.forest import Grown, RowMeans, Trees, grow_boosted, grow_forest
from treelu.training.history import Callback, EpochRecord, History
from treelu.training.hyper_parameters import FOLDS
from treelu.training.loop import evaluate
from treelu.training.pattern_counts import PatternCounts, feature_spread
from treelu.training.progress import epoch_bar
from treelu.training.stacking import Stack, find_weights, logs

WIDE = 512  # features from which members see half of them each, and trees are not boosted
MOST_IN_BATCH = 256  # rows, in networks that take small batches
N_NETWORKS, N_ON_WIDE = 5, 30  # where n_estimators is None
RATES = (0.05, 0.3)  # drop rates that are compared by their loss on the rows that both networks hold out
EPOCHS, BATCHES_PER_PASS = 0.75, 64  # share of a member's own epochs, and batches that its rows are divided into


@dataclass(frozen=True)
class StackConfig:
    """Configuration of `fit_stack`; see `StackedClassifier` for the parameters."""

    member: NetworkConfig
    is_default: bool  # whether the kind of member is chosen by the table's shape, rather than given
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
    if validation is None:
        outputs, scored, rows = [held_out.outputs(), *(part.held_out for part in grown)], targets, dataset.rows
    else:
        outputs = _outputs(ensemble, [part.trees for part in grown], validation)
        scored, rows = validation.targets, validation.rows
    if targets.task == "regression":
        mean = np.average(targets.y[dataset.rows].astype(np.float64), axis=0, weights=targets.weights(dataset.rows))
        weights, constant = find_weights(outputs, scored, rows, mean), target.center + target.scale * mean
    else:
        constant = log_frequencies(targets, dataset.rows)
        weights = find_weights(outputs, scored, rows, constant)
    trees = [part.trees.on_raw(reading.scaling, target) for part in grown]
    spread = feature_spread(dataset.table) * reading.scaling.scale
    groups, places = np.zeros(len(ensemble), np.int64), class_places(reading)
    stack = Stack(targets.task, ensemble, groups, trees, weights, constant)
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
    if dataset.table.shape[1] >= WIDE:
        # on fingerprints members that fit well do best if each sees other columns (docs/ensembles-study.md)
        training = member.training.but(batch_size=256, optimizer="amsgrad", schedule="constant")
        one = replace(member, depth=8, drop_connect=0.0, epochs=30, training=training)
        return [Kind(member_trainer(one, None, patterns), min(share, 0.5))]
    # small batches: an update's time goes with its rows, and a mean of networks smooths the noise of few rows
    batch_size = min(MOST_IN_BATCH, rows_in_batch(len(dataset) * (FOLDS - 1) // FOLDS, BATCHES_PER_PASS))
    training = member.training.but(batch_size=batch_size)
    several = [replace(member, drop_connect=rate, training=training) for rate in RATES]
    return [Kind(member_trainer(one, None, patterns, EPOCHS), share) for one in several]


def _outputs(ensemble: Ensemble, trees: list[Trees], dataset: Dataset) -> list[NDArray[np.float64]]:
    """The outputs of each part for the rows of another data set, in its scaled units."""
    task, of_members = dataset.targets.task, []
    for member in ensemble.members:
        scores = evaluate(member.network, dataset.table.columns(member.features), dataset.index).astype(np.float64)
        of_members.append(predictions(scores, task))
    return [np.mean(of_members, axis=0), *(part.outputs(dataset.table, task, dataset.index) for part in trees)]


# Cross-fitting


@dataclass(frozen=True)
class Kind:
    """A kind of networks: how one is trained, and the share of the features that it sees.

    `train(sample, rng)` gives the network and its history; KeyboardInterrupt must come through.
    """

    train: Callable[[Dataset, np.random.Generator], tuple[LocallyConstantNetwork, History]]
    feature_fraction: float = 1.0


class HeldOut:
    """Out-of-fold predictions of the members; the counterpart of `Sums` for stacks.

    Members 1, 2, … hold out the folds, places among the rows of the sample, in turn; with no folds, no row is held out.
    """

    def __init__(self, sample: Dataset, scaling: Scaling, target_scaling: Scaling, folds: Sequence[Fold]) -> None:
        self.sample, self.scaling, self.target_scaling = sample, scaling, target_scaling
        self.folds, self.n_members = folds, 0
        self.means = RowMeans(len(sample), sample.targets.n_columns)
        self._loss = float("nan")

    def fold(self, number: int) -> Fold:
        """The places of the rows that member 1, 2, … is trained on, and of those that it holds out."""
        if not self.folds:
            return np.arange(len(self.sample)), np.arange(0)
        return self.folds[(number - 1) % len(self.folds)]

    def add(self, member: Member, network: NeuronChain) -> None:
        """Count one more member in."""
        self.n_members += 1
        out = self.fold(self.n_members)[1]
        rows = self.sample.rows[out]
        if not len(rows):
            return
        scores, targets = self._scores(member, network, rows), self.sample.targets
        self.means.add(out, predictions(scores, targets.task))
        self._loss = targets.loss(scores.astype(np.float32), rows)

    def loss_as_part(self, member: Member, network: NeuronChain, number: int) -> float:
        """The out-of-fold loss of a member as a part of a stack, which is never certain.

        Infinity where no row is out of its fold.
        """
        rows = self.sample.rows[self.fold(number)[1]]
        if not len(rows):
            return float("inf")
        targets, y = self.sample.targets, self.sample.targets.y[rows]
        predicted = predictions(self._scores(member, network, rows), targets.task)
        if targets.task == "regression":
            losses = ((within_range(predicted, targets.y) - y) ** 2).mean(axis=1)
        else:
            losses = -np.take_along_axis(logs(predicted), y.reshape(-1, 1).astype(np.int64), axis=1)[:, 0]
        weights = targets.weights(rows)
        return float(np.average(losses, weights=weights)) if weights.any() else float("inf")

    def _scores(self, member: Member, network: NeuronChain, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return evaluate(network, self.sample.table.columns(member.features), rows).astype(np.float64)

    def outputs(self) -> NDArray[np.float64]:
        """Mean probabilities, or values; NaN where no member held the row out."""
        return self.means.values()

    def loss(self) -> float:
        """The out-of-fold loss of the last member."""
        return self._loss


@dataclass
class CrossFit:
    """How the members of a stack are made: what `Recipe` is for other ensembles.

    Of several `kinds` each trains a first member, and the one whose member has the least out-of-fold loss makes the
    others; from then on it is the only one here. Member e depends on (seed, e), and on the kind, only.
    """

    kinds: Sequence[Kind]
    bootstrap: bool = False
    seed: int = 0

    def make(self, number: int, ensemble: Ensemble, held_out: HeldOut) -> tuple[Member, NeuronChain, EpochRecord]:
        """Train member `number` = 1, 2, …; with it the network in training form and its last epoch."""
        made = [self._train(kind, number, held_out) for kind in self.kinds]
        best = 0
        if len(made) > 1:
            losses = [held_out.loss_as_part(member, network, number) for member, network, _ in made]
            best = int(np.argmin(losses))
            self.kinds = [self.kinds[best]]
        return made[best]

    def _train(self, kind: Kind, number: int, held_out: HeldOut) -> tuple[Member, NeuronChain, EpochRecord]:
        sample, rng = held_out.sample, np.random.default_rng([self.seed, number])
        features = drawn_features(sample.table.shape[1], kind.feature_fraction, rng)
        index = sample.rows[held_out.fold(number)[0]]
        if self.bootstrap:
            index = rng.choice(index, len(index))
        network, history = kind.train(Dataset(sample.table.columns(features), sample.targets, index), rng)
        member = Member(network.copy(), held_out.scaling, held_out.target_scaling.scale, features)
        return member, network, history.records[-1]
