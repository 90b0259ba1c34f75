"""Networks that each leave a part of the rows out, which then tell how far to trust them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treelu.data.dataset import Dataset
from treelu.data.folds import Fold
from treelu.data.scaling import Scaling
from treelu.data.targets import predictions
from treelu.nn import LocallyConstantNetwork, NeuronChain
from treelu.training.boosting import Ensemble, Member, drawn_features
from treelu.training.calibration import within_range
from treelu.training.loop import EpochRecord, History, evaluate
from treelu.training.stacking import logs


@dataclass(frozen=True)
class Kind:
    """A kind of networks: how one is trained, and the share of the features that it sees.

    `train(sample, rng)` gives the network and its history; KeyboardInterrupt must come through.
    """

    train: Callable[[Dataset, np.random.Generator], tuple[LocallyConstantNetwork, History]]
    feature_fraction: float = 1.0


class HeldOut:
    """Out-of-fold predictions of the members; the counterpart of `Sums` for stacks.

    Members 1, 2, … hold out the folds in turn; with no folds, no row is held out.

    Parameters
    ----------
    sample : Dataset
    scaling, target_scaling : Scaling
        How the features and targets of the sample came from the raw ones.
    folds : sequence of Fold
        As places among the rows of the sample.
    """

    def __init__(self, sample: Dataset, scaling: Scaling, target_scaling: Scaling, folds: Sequence[Fold]) -> None:
        self.sample, self.scaling, self.target_scaling = sample, scaling, target_scaling
        self.folds, self.n_members = folds, 0
        self.totals = np.zeros((len(sample), sample.targets.n_columns))
        self.counts = np.zeros(len(sample), np.int64)
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
        self.totals[out] += predictions(scores, targets.task)
        self.counts[out] += 1
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
        with np.errstate(invalid="ignore"):
            return self.totals / self.counts[:, None]

    def loss(self) -> float:
        """The out-of-fold loss of the last member."""
        return self._loss


@dataclass
class CrossFit:
    """How the members of a stack are made: what `Recipe` is for other ensembles.

    Attributes
    ----------
    kinds : sequence of Kind
        Of several, each trains a first member, and the one whose member has the least out-of-fold loss makes the
        others; from then on it is the only one here.
    bootstrap : bool
        Whether each member sees as many rows drawn with replacement from those it does not hold out.
    seed : int
        Member e depends on (seed, e), and on the kind, only.
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
