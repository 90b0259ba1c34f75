"""Candidates, and the path of sizes that each gives: trees with fewer and fewer leaves and terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from treelu.nn.soft_training import SoftTraining
from treelu.training.small.config import TreeLimits
from treelu.training.small.growth import linear_tree, model_trees
from treelu.training.small.leaves import mean_loss
from treelu.training.small.levels import set_trees
from treelu.training.small.linear_models import MOST_ROWS, linear_scores, score_trees, strongest
from treelu.training.small.prune import pruned
from treelu.training.small.rows import TrainingRows
from treelu.training.small.short_trees import Criterion
from treelu.training.small.soft_tree import SoftTree, masked, trained
from treelu.training.small.starts import StartTrees, random_tree

TERMS = (8, 4, 2)  # terms of a split on the path, after all
FEWER = 4  # a split loses at most three of four terms at once
MOST_LINEAR = 128  # features, beyond which regressions at every node take too long
TRAINED = ("random", "cart", "linear", "pairs")  # starts from which all weights are trained
SMALL_BATCH, LARGE_BATCH, SMALL_TABLE = 128, 512, 2_000  # rows of a batch, and of a table with small ones
STEEPNESS = 2.0  # of an ordinary tree's splits when training starts from them
MOST_MODELS = 8  # leaves of trees that are grown for linear leaves
GROWN = {"sets": set_trees, "models": model_trees}
CRITERIA = {"exact": Criterion(0.0, 1.0), "exact errors": Criterion(1.0, 0.1)}  # of exact pieces
OWN, TEACHER = "own", "teacher"  # kinds of targets, beside `network_targets`


class Candidate(NamedTuple):
    """A way to train trees: where it starts, its regularisation, and its targets.

    Attributes
    ----------
    start : str
        - "random": random splits
        - "cart": scikit-learn's tree, from which all terms are trained; "thresholds": only its thresholds
        - "linear": a tree of linear regressions at the nodes; "pairs": of the best pairs of features
        - "gini", "entropy", "squared_error": scikit-learn's tree of that criterion, not trained further
        - "exact", "exact errors": a tree of exact pieces of depth 2 by Gini index or squared error, or by errors
        - "sets": a tree of one term a split, where some are sets of a category's levels, not trained further
        - "models": a tree of one term a split, chosen for linear leaves, not trained further
        - "scores": a tree that follows one linear model of all rows, not trained further
        - "network": the linear regions of a locally linear network, not trained further
        - "constant": one leaf
    drop_rate : float
        Of DropConnect.
    penalty : float
        The l1 penalty on the weights; for "scores" the ridge of the linear model.
    targets : str
        "own", "teacher" (soft targets), or the predictions of a network (`network_targets`).
    linear : bool
        Whether splits are trained for linear leaves: on targets less a linear trend.
    """

    start: str
    drop_rate: float = 0.0
    penalty: float = 0.0
    targets: str = OWN
    linear: bool = False


class Formula(NamedTuple):
    """The kind of linear leaves: the terms of their formulas, and whether each leaf has slopes of its own."""

    terms: int
    own: bool = False


class TreeSize(NamedTuple):
    """A step of a candidate's path: the most leaves and terms; and the formula of its leaves, unless constant."""

    candidate: Candidate
    leaves: int
    terms: int
    formula: Formula | None = None

    @property
    def splits(self) -> TreeSize:
        """The same splits with constant leaves."""
        return self._replace(formula=None)


CONSTANT = TreeSize(Candidate("constant"), 1, 0)  # the tree without splits
Path = Iterator[tuple[TreeSize, SoftTree]]


def network_targets(depth: int) -> str:
    """The kind of targets that the predictions of a locally linear network of some depth are."""
    return f"network of depth {depth}"


@dataclass(frozen=True)
class PathJob:
    """A candidate to be trained on some rows.

    Attributes
    ----------
    rows : TrainingRows
        With the candidate's targets.
    candidate : Candidate
    limits : TreeLimits
    starts : StartTrees
    seed : int
    leaves : sequence of int, optional
        Sizes that are trained from the start, largest first; None for all of the path.
    is_trial : bool
        Whether only the step with the most leaves and terms is trained.
    only : TreeSize, optional
        The one step that is wanted.
    """

    rows: TrainingRows
    candidate: Candidate
    limits: TreeLimits
    starts: StartTrees
    seed: int
    leaves: Sequence[int] | None = None
    is_trial: bool = False
    only: TreeSize | None = None

    def wants(self, leaves: int, terms: int) -> bool:
        """Whether a step of the path is asked for."""
        return self.only is None or self.only[1:3] == (leaves, terms)

    def parts(self) -> list[PathJob]:
        """Independent jobs, for threads, that are this one together: one for each size that is trained."""
        if self.candidate.start not in TRAINED:
            return [self]
        return [replace(self, leaves=[leaves]) for leaves in trained_sizes(self.limits.max_leaves)]

    def sizes(self) -> list[int]:
        """Numbers of leaves, largest first."""
        return [self.limits.max_leaves] if self.is_trial else sizes(self.limits.max_leaves)

    def terms(self) -> list[int]:
        """Numbers of terms of a split, all of them first; of a trial, down to the most that are allowed."""
        ladder = term_ladder(self.rows.n_terms, self.limits.max_terms)
        return [terms for terms in ladder if terms >= self.limits.max_terms] if self.is_trial else ladder


def sizes(max_leaves: int) -> list[int]:
    """Numbers of leaves on the path, largest first.

    Examples
    --------
    >>> sizes(16)
    [16, 12, 8, 6, 4, 3, 2]
    >>> sizes(5)
    [5, 4, 3, 2]
    """
    found = {max_leaves}
    for power in range(1, 20):
        found |= {2**power, 3 * 2 ** (power - 1)}
    return sorted((size for size in found if 2 <= size <= max_leaves), reverse=True)


def trained_sizes(max_leaves: int) -> list[int]:
    """Numbers of leaves for which a tree is trained from the start; those between are pruned from these.

    Examples
    --------
    >>> trained_sizes(12)
    [12, 8, 4, 2]
    """
    return [size for size in sizes(max_leaves) if size == max_leaves or size.bit_count() == 1]


def term_ladder(n_terms: int, max_terms: int) -> list[int]:
    """Terms of a split on the way down: all, and then those of the path, with steps between where these are far.

    Examples
    --------
    >>> term_ladder(60, 60)
    [60, 15, 8, 4, 2]
    >>> term_ladder(60, 3)
    [60, 15, 4, 3, 2]
    """
    wanted = sorted({t for t in (*TERMS, max_terms) if t <= max_terms and t < n_terms}, reverse=True)
    steps = [n_terms]
    for terms in wanted:
        while steps[-1] > FEWER * terms:
            steps.append(-(-steps[-1] // FEWER))
        if terms < steps[-1]:
            steps.append(terms)
    return steps


def train_path(job: PathJob) -> Path:
    """The trees of a job, trained one after the other as they are asked for."""
    job, start = replace(job, rows=job.rows.for_splits), job.candidate.start
    if start in TRAINED:
        return trained_path(job)
    if start == "scores":
        return linear_model_path(job)
    if start == "network":
        return network_path(job)
    if start in CRITERIA:
        return exact_path(job)
    if start in GROWN:
        return grown_path(job)
    return threshold_path(job) if start == "thresholds" else ordinary_path(job)


def trained_path(job: PathJob) -> Path:
    """Trees trained from the candidate's start, with all terms and with fewer.

    Each is also pruned to the sizes between its own and the next smaller one that is trained.
    """
    rows, seed = job.rows, job.seed
    first = _training(rows, job.candidate)._replace(n_updates=job.limits.n_updates)
    n_updates, rate = max(1, first.n_updates // 2), first.learning_rate * 2 / 3
    again = first._replace(n_updates=n_updates, softest=4.0, learning_rate=rate)
    ladder = [2] if job.candidate.start == "pairs" else job.terms()
    trial = [job.limits.max_leaves] if job.is_trial else None
    for leaves in trial or job.leaves or trained_sizes(job.limits.max_leaves):
        steps = [leaves] if trial else [size for size in sizes(leaves) if 2 * size > 2 ** (leaves - 1).bit_length()]
        if job.only is not None and job.only.leaves not in steps:
            continue
        tree = job.starts.trained(rows, job.candidate, leaves)
        if tree is None:
            tree = _within_limits(trained(start_tree(job, leaves), rows, first, seed), job, first, leaves)
        if trial:
            job.starts.keep_trained(rows, job.candidate, leaves, tree)
        for terms in ladder:
            if terms < ladder[0]:
                tree = _within_limits(trained(masked(tree, terms), rows, again, seed), job, again, leaves)
            for size in steps if terms <= job.limits.max_terms else []:
                if job.wants(size, terms):
                    small = tree if size == leaves else _within_limits(tree, job, again, size)
                    yield TreeSize(job.candidate, size, terms), small
            if job.only is not None and terms <= job.only.terms:
                break


def start_tree(job: PathJob, leaves: int) -> SoftTree:
    """The tree with at most so many leaves from which training starts."""
    rows, limits = job.rows, job.limits
    if job.candidate.start == "cart":
        criterion = "entropy" if rows.is_classifier and not rows.soft else "squared_error"
        tree = job.starts.ordinary(rows, leaves, criterion, STEEPNESS)
        return replace(tree, allowed=np.ones_like(tree.allowed))
    if job.candidate.start == "linear":
        return linear_tree(rows, leaves, limits.depth)
    if job.candidate.start == "pairs":
        return job.starts.pairs(rows, leaves)
    depth = min(limits.depth, (leaves - 1).bit_length())
    return random_tree(rows, depth, np.random.default_rng([job.seed, depth]))


def linear_model_path(job: PathJob) -> Path:
    """Trees that follow a linear model of all features, and then of fewer and fewer of the strongest."""
    rows, limits, scores = job.rows, job.limits, None
    leaves = job.sizes()[::-1]
    for terms in job.terms():
        used = None if scores is None else strongest(scores, terms, rows.is_classifier, rows.group)
        scores = linear_scores(rows, job.candidate.penalty, used)
        if terms > limits.max_terms:
            continue
        for size, tree in zip(leaves, score_trees(rows, scores, leaves, limits.depth), strict=True):
            if job.wants(size, terms):
                yield TreeSize(job.candidate, size, terms), pruned(tree, rows, size, limits.min_samples)


def network_path(job: PathJob) -> Path:
    """The linear regions of a network and fewer of them; each has as many rows as a linear function has weights."""
    rows, tree = job.rows.some(MOST_ROWS), job.rows.pieces
    assert tree is not None
    least = max(job.limits.min_samples, rows.n_features + 1)
    for size in job.sizes():
        tree = pruned(tree, rows, size, least, linear=rows.n_features <= MOST_LINEAR)
        yield TreeSize(job.candidate, size, rows.n_terms), tree


def ordinary_path(job: PathJob) -> Path:
    """scikit-learn's trees of the candidate's criterion."""
    for size in job.sizes():
        if job.wants(size, 1):
            yield TreeSize(job.candidate, size, 1), job.starts.ordinary(job.rows, size, job.candidate.start)


def exact_path(job: PathJob) -> Path:
    """Trees of exact pieces."""
    for size in job.sizes():
        if job.wants(size, 1):
            yield TreeSize(job.candidate, size, 1), job.starts.exact(job.rows, size, CRITERIA[job.candidate.start])


def grown_path(job: PathJob) -> Path:
    """Trees grown to one size after the other."""
    rows, limits = job.rows, job.limits
    leaves = [size for size in job.sizes()[::-1] if size <= MOST_MODELS or job.candidate.start != "models"]
    for size, tree in zip(leaves, GROWN[job.candidate.start](rows, leaves, limits.depth), strict=True):
        if job.wants(size, 1):
            yield TreeSize(job.candidate, size, 1), pruned(tree, rows, size, limits.min_samples)


def threshold_path(job: PathJob) -> Path:
    """scikit-learn's trees after all thresholds were trained at once; as they were where that has the lower loss.

    The search has found the best threshold of a single split, and mostly of a few.
    """
    rows, limits = job.rows, job.limits
    first = _training(rows, job.candidate)
    n_updates, rate = max(1, limits.n_updates // 2), first.learning_rate / 3
    how = first._replace(n_updates=n_updates, softest=6.0, learning_rate=rate, decay=0.0)
    for size in filter(lambda size: job.wants(size, 1), job.sizes()):
        tree = job.starts.ordinary(rows, size, "gini" if rows.is_classifier else "squared_error", STEEPNESS)
        moved = pruned(trained(tree, rows, how, job.seed), rows, size, limits.min_samples)
        yield TreeSize(job.candidate, size, 1), min(moved, tree, key=lambda tree: mean_loss(tree, rows, rows))


def _training(rows: TrainingRows, candidate: Candidate) -> SoftTraining:
    """Squared error needs larger steps, hardly any decay, and leaves kept apart; an l1 penalty replaces the decay."""
    decay = 0.0 if candidate.penalty else 0.3 if rows.is_classifier else 0.01
    batch_size = SMALL_BATCH if len(rows) < SMALL_TABLE else LARGE_BATCH
    how = SoftTraining(batch_size=batch_size, drop=candidate.drop_rate, penalty=candidate.penalty, decay=decay)
    if rows.is_classifier:
        return how._replace(learning_rate=0.03)
    how = how._replace(firmness=0.5)
    if candidate.start in ("linear", "pairs"):
        return how._replace(learning_rate=0.03, softest=4.0)
    return how._replace(learning_rate=0.1)


def _within_limits(tree: SoftTree, job: PathJob, how: SoftTraining, leaves: int) -> SoftTree:
    """The tree pruned to so many leaves and the least rows of a leaf; trained again if that took leaves away."""
    rows, min_samples = job.rows, job.limits.min_samples
    small = pruned(tree, rows, leaves, min_samples)
    if small.n_leaves in (1, tree.n_leaves):
        return small
    n_updates, rate = max(1, how.n_updates // 3), how.learning_rate / 2
    again = how._replace(n_updates=n_updates, softest=6.0, learning_rate=rate)
    return pruned(trained(small, rows, again, job.seed), rows, leaves, min_samples)
