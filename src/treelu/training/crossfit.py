"""Networks that each leave a part of the rows out, which then tell how far to trust them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treelu.nn import LocallyConstantNetwork, NeuronChain
from treelu.training.boosting import Ensemble, Member, drawn_features
from treelu.training.loop import EpochRecord, History, Sample, evaluate
from treelu.training.scaling import Scaling
from treelu.training.targets import predictions


@dataclass(frozen=True)
class Kind:
    """A kind of networks: how one is trained, and the share of the features that it sees.

    `train(sample, rng)` gives the network and its history; KeyboardInterrupt must come through.
    """

    train: Callable[[Sample, np.random.Generator], tuple[LocallyConstantNetwork, History]]
    feature_fraction: float = 1.0


def turn_of(number: int, n_kinds: int, n_folds: int) -> tuple[int, int]:
    """The kind of member 1, 2, …, and the fold of the rows that it leaves out: all kinds, then the next fold.

    Examples
    --------
    >>> [turn_of(number, n_kinds=2, n_folds=3) for number in (1, 2, 3, 7)]
    [(0, 0), (1, 0), (0, 1), (0, 0)]
    """
    turn, kind = divmod(number - 1, n_kinds)
    return kind, turn % n_folds


class HeldOut:
    """What members say of the rows that they left out, kind by kind; the counterpart of `Sums` for stacks.

    Parameters
    ----------
    sample : Sample
    scaling, target_scaling : Scaling
        How the features and targets of the sample came from the raw ones.
    folds : array of int
        The fold of each row of the sample; a row of fold `n_folds` is never left out.
    n_kinds, n_folds : int
    """

    def __init__(
        self,
        sample: Sample,
        scaling: Scaling,
        target_scaling: Scaling,
        folds: NDArray[np.int64],
        n_kinds: int,
        n_folds: int,
    ) -> None:
        self.sample, self.scaling, self.target_scaling = sample, scaling, target_scaling
        self.folds, self.n_kinds, self.n_folds, self.n_members = folds, n_kinds, n_folds, 0
        self.totals = np.zeros((n_kinds, len(sample), sample.targets.n_columns))
        self.counts = np.zeros((n_kinds, len(sample)), np.int64)
        self._loss = float("nan")

    def turn_of(self, number: int) -> tuple[int, int]:
        """(kind, fold) of a member."""
        return turn_of(number, self.n_kinds, self.n_folds)

    def add(self, member: Member, network: NeuronChain) -> None:
        """Count one more member in."""
        self.n_members += 1
        kind, fold = self.turn_of(self.n_members)
        out = np.flatnonzero(self.folds == fold)
        rows = self.sample.rows[out]
        if not len(rows):
            return
        scores = evaluate(network, self.sample.table.columns(member.features), rows).astype(np.float64)
        targets = self.sample.targets
        self.totals[kind, out] += predictions(scores, targets.task)
        self.counts[kind, out] += 1
        self._loss = targets.loss(scores.astype(np.float32), rows)

    def outputs(self) -> list[NDArray[np.float64]]:
        """For each kind that has a member: its mean probabilities, or values; NaN where no member left a row out."""
        there = range(min(self.n_kinds, self.n_members))
        with np.errstate(invalid="ignore"):
            return [self.totals[kind] / self.counts[kind][:, None] for kind in there]

    def loss(self) -> float:
        """The loss of the last member on the rows that it left out."""
        return self._loss


@dataclass(frozen=True)
class CrossFit:
    """How the members of a stack are made: what `Recipe` is for other ensembles.

    Attributes
    ----------
    kinds : sequence of Kind
    bootstrap : bool
        Whether each member sees as many rows drawn with replacement from those it does not leave out.
    seed : int
        Member e depends on (seed, e) only.
    """

    kinds: Sequence[Kind]
    bootstrap: bool = False
    seed: int = 0

    def make(self, number: int, ensemble: Ensemble, held_out: HeldOut) -> tuple[Member, NeuronChain, EpochRecord]:
        """Train member `number` = 1, 2, …; with it the network in training form and its last epoch."""
        sample, rng = held_out.sample, np.random.default_rng([self.seed, number])
        place, fold = held_out.turn_of(number)
        kind = self.kinds[place]
        features = drawn_features(sample.table.shape[1], kind.feature_fraction, rng)
        index = sample.rows[held_out.folds != fold]
        if self.bootstrap:
            index = rng.choice(index, len(index))
        network, history = kind.train(Sample(sample.table.columns(features), sample.targets, index), rng)
        member = Member(network.copy(), held_out.scaling, held_out.target_scaling.scale, features)
        return member, network, history.records[-1]
