"""The cross-validated loss of the sizes on the best candidates' paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treelu.training.parallel import in_order
from treelu.training.small.candidates import (
    linear_model_candidates,
    network_candidates,
    ordinary_candidates,
    regularised,
    trained_candidates,
)
from treelu.training.small.config import Show, TreeLimits, silent
from treelu.training.small.leaves import (
    STRENGTHS,
    combined,
    held_out_outputs,
    mean_loss,
    row_losses,
)
from treelu.training.small.numbers import numbers_of
from treelu.training.small.path import CONSTANT, OWN, Candidate, PathJob, TreeSize, train_path
from treelu.training.small.progress import candidate_text
from treelu.training.small.rows import TrainingRows
from treelu.training.small.soft_tree import SoftTree, one_leaf
from treelu.training.small.starts import StartTrees
from treelu.tree.terms import n_weights

FEW_ROWS = 320  # to train on, below which a fold says little: more candidates go on to the next
Targets = Mapping[str, TrainingRows]  # the same rows with each kind of targets


@dataclass
class HeldOutLoss:
    """The cross-validated loss of a size; lists have an entry for each fold.

    Attributes
    ----------
    losses, errors : lists of arrays
        The loss of each held-out row by which candidates are ranked, and whether its class is wrong (none for values).
        Where rows come in groups, means of the groups: their rows are not independent, and standard errors must not
        count them as if they were.
    weights : list of arrays
    scores : list of arrays of shape (strengths, rows)
        The log-loss, or squared error, with each strength of shrinkage.
    trees : list of SoftTree
    numbers : list of int
        Numbers to read in the folds' trees.
    strengths : sequence of float, or of Ridge
        Of the shrinkage, or of linear leaves.
    """

    losses: list[NDArray[np.float64]]
    errors: list[NDArray[np.float64]]
    weights: list[NDArray[np.float64]]
    scores: list[NDArray[np.float64]]
    trees: list[SoftTree] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    strengths: Sequence[Any] = STRENGTHS

    @property
    def typical_size(self) -> tuple[int, int]:
        """Leaves and terms of the folds' trees, in the median."""
        leaves = np.median([tree.n_leaves for tree in self.trees])
        terms = np.median([tree.max_terms for tree in self.trees])
        return int(np.ceil(leaves)), int(np.ceil(terms))

    @cached_property
    def best_strength(self) -> int:
        """The position of the strength with the least log-loss or squared error."""
        totals = sum(scores @ weight for scores, weight in zip(self.scores, self.weights, strict=True))
        return int(np.argmin(totals))

    @property
    def strength(self) -> Any:
        """The strength with the least log-loss or squared error."""
        return self.strengths[self.best_strength]

    def score(self) -> NDArray[np.float64]:
        """Log-losses or squared errors with the best strength, times weights of mean 1."""
        weight = np.concatenate(self.weights)
        return np.concatenate([scores[self.best_strength] for scores in self.scores]) * weight / weight.mean()

    def loss(self) -> NDArray[np.float64]:
        """Losses times weights of mean 1."""
        weight = np.concatenate(self.weights)
        return np.concatenate(self.losses) * weight / weight.mean()

    def error(self) -> NDArray[np.float64]:
        """Wrong classes, or squared errors, times weights of mean 1."""
        if not self.errors:
            return self.score()
        weight = np.concatenate(self.weights)
        return np.concatenate(self.errors) * weight / weight.mean()


Losses = dict[TreeSize, HeldOutLoss]


def cross_validate(
    folds: Sequence[tuple[Targets, TrainingRows]],
    limits: TreeLimits,
    starts: StartTrees,
    seed: int,
    n_jobs: int,
    show: Show = silent,
    *,
    linear_models: bool = True,
) -> Losses:
    """Held-out losses of all sizes on the paths of four kinds of candidates.

    Of the trained candidates, the starts race on the first fold, then the best two of them with other
    regularisations; the best third of all go on to the next fold, and so on. Linear models race likewise. Only the
    winners' paths are trained. The linear regions of networks, ordinary trees and the constant are always compared.

    Parameters
    ----------
    folds : sequence of pairs (Targets, TrainingRows)
        The rows to train on, with each kind of targets, and those held out.
    limits : TreeLimits
    starts : StartTrees
    seed : int
    n_jobs : int
        Threads, on which the result does not depend.
    show : callable, optional
        Gets a line for each candidate on each fold of the races, and for each winner.
    linear_models : bool
        Whether trees that follow a linear model are among the candidates. Linear leaves make them superfluous.
    """
    rows, kinds = folds[0][0][OWN], list(folds[0][0])
    share, least = (2, 4) if len(rows) < FEW_ROWS else (3, 2)

    def evaluate(losses: Losses, candidates: Iterable[Candidate], of: Iterable[int], *, is_trial: bool) -> None:
        """Add the losses of candidates' trials, or of all sizes on their paths, in some of the folds."""
        jobs = []
        for fold in of:
            targets = folds[fold][0]
            for candidate in candidates:
                job = PathJob(targets[candidate.targets], candidate, limits, starts, seed + fold, is_trial=is_trial)
                jobs += [(fold, part) for part in ([job] if is_trial else job.parts())]
        with closing(in_order(list, [train_path(job) for _, job in jobs], n_jobs)) as results:
            for (fold, job), path in zip(jobs, results, strict=True):
                targets, held_out = folds[fold]
                for size, tree in path:
                    add_loss(losses, size, tree, leaf_rows(targets, job.candidate), held_out)
                if is_trial:
                    loss = trial_loss(losses, job.candidate)
                    show(f"tries {candidate_text(job.candidate)}: loss {loss:.4f} on folds 1 to {fold + 1}")

    def race(trials: Losses, left: list[Candidate]) -> list[Candidate]:
        """Successive halving: after each fold the best third of the candidates, at least two, go on to the next."""
        for fold in range(1, len(folds)):
            left = ranked(trials, left)[: max(least, len(left) // share)]
            evaluate(trials, left, [fold], is_trial=True)
        winner = ranked(trials, left)[:1]
        show(f"goes on with {candidate_text(*winner)}: all sizes")
        return winner

    every = range(len(folds))
    found: Losses = {}
    if trained := trained_candidates(rows, limits, kinds):
        trials: Losses = {}
        evaluate(trials, trained, [0], is_trial=True)
        others = regularised(ranked(trials, trained)[:2], rows)
        evaluate(trials, others, [0], is_trial=True)
        evaluate(found, race(trials, [*trained, *others]), every, is_trial=False)
    if linear_models and (linear := linear_model_candidates(rows, limits, kinds)):
        trials = {}
        evaluate(trials, linear, [0], is_trial=True)
        evaluate(found, race(trials, linear), every, is_trial=False)
    evaluate(found, network_candidates(kinds), every, is_trial=False)
    evaluate(found, ordinary_candidates(rows, limits, kinds), every, is_trial=False)
    for targets, held_out in folds:
        add_loss(found, CONSTANT, one_leaf(targets[OWN]), targets[OWN], held_out)
    return found


def leaf_rows(targets: Targets, candidate: Candidate) -> TrainingRows:
    """The rows from which leaf values come: linear leaves are fitted to the candidate's targets, constants to the rows'
    own.
    """
    return targets[candidate.targets] if targets[OWN].linear else targets[OWN]


def ranked(trials: Losses, candidates: Iterable[Candidate]) -> list[Candidate]:
    """Candidates by the mean loss of their trials, the least first."""
    return sorted(candidates, key=lambda candidate: trial_loss(trials, candidate))


def trial_loss(trials: Losses, candidate: Candidate) -> float:
    """The mean loss of a candidate's trials on the rows held out so far."""
    return float(np.mean([found.loss().mean() for size, found in trials.items() if size.candidate == candidate]))


def add_loss(losses: Losses, size: TreeSize, tree: SoftTree, train: TrainingRows, held_out: TrainingRows) -> None:
    """Add a fold's tree and its losses on the rows held out."""
    outputs, scores = held_out_outputs(tree, train, held_out)
    found = losses.setdefault(size, HeldOutLoss([], [], [], []))
    record(found, tree, outputs, scores, held_out)
    n_slopes = tree.n_leaves * n_weights(train.n_features, train.group) if train.linear else 0
    found.numbers.append(numbers_of(tree, train.target.shape[1], n_slopes, is_classifier=train.is_classifier))


def record(
    found: HeldOutLoss, tree: SoftTree, outputs: NDArray[np.float64], scores: NDArray[np.float64], rows: TrainingRows
) -> None:
    """Add a fold's outputs (n, K), and scores (strengths, n), for the rows held out."""
    error, squared = row_losses(outputs, rows)
    *scores_and_losses, weight = means_by_group([combined(error, squared), error, *scores], rows)
    found.trees.append(tree)
    found.losses.append(scores_and_losses[0])
    if rows.is_classifier:
        found.errors.append(scores_and_losses[1])
    found.scores.append(np.array(scores_and_losses[2:]))
    found.weights.append(weight)


def means_by_group(losses: Sequence[NDArray[np.float64]], rows: TrainingRows) -> list[NDArray[np.float64]]:
    """Weighted means of losses in each group, and the groups' weights; those of rows where there are no groups."""
    weight = rows.weight.astype(np.float64)
    if rows.groups is None:
        return [*losses, weight]
    number = np.unique(rows.groups, return_inverse=True)[1]
    mass = np.bincount(number, weight).astype(np.float64)
    return [*(np.bincount(number, weight * loss) / mass for loss in losses), mass]


def no_worse_than_held_out(
    tree: SoftTree, found: HeldOutLoss, rows: TrainingRows, trained_on: TrainingRows
) -> SoftTree:
    """The tree of all rows or, where its loss on them is higher than the held-out loss, the best of it and the folds'.

    Training sometimes ends in a poor tree, which is then not the one that was compared. Higher is by more than a
    standard error. The best has the least loss on `trained_on`, the rows with the targets of the training.
    """
    loss = found.loss()
    if mean_loss(tree, trained_on if rows.linear else rows, rows) <= loss.mean() + loss.std() / np.sqrt(len(loss)):
        return tree
    return min([tree, *found.trees], key=lambda tree: mean_loss(tree, trained_on, trained_on))
