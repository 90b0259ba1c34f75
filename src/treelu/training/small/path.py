"""The path of sizes: trees of fewer and fewer leaves and terms, from one kind of start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from treelu.nn.soft_training import SoftTraining
from treelu.training.small.growth import linear_tree
from treelu.training.small.leaves import mean_loss
from treelu.training.small.prune import pruned
from treelu.training.small.scores import MOST_ROWS, linear_scores, score_trees, strongest
from treelu.training.small.soft_tree import Rows, SoftTree, masked, one_leaf, trained
from treelu.training.small.starts import axis_tree, random_tree

TERMS = (8, 4, 2)  # terms a question on the path, after all
FEWER = 4  # a question loses at most three of four terms at once
UPDATES = 800
MOST_LINEAR = 128  # features, beyond which regressions at every node take too long
TRAINED = ("random", "cart", "linear", "pairs")  # starts from which questions are trained
STEEPNESS = 2.0  # of an ordinary tree's questions, from which gradients go on


class Grow(Protocol):
    """Trees grown best first, of which the same are asked for again and again."""

    def __call__(
        self, rows: Rows, size: int, criterion: str
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Children, features and thresholds of the ordinary tree with at most `size` leaves."""

    def pairs(self, rows: Rows, size: int) -> SoftTree:
        """The tree of one or two terms a question with at most `size` leaves."""


@dataclass(frozen=True)
class Budget:
    """What a tree may have at most, and how it is trained.

    Attributes
    ----------
    max_leaves, max_depth, max_terms : int
    min_samples : float
        The least rows of a leaf.
    n_updates : int
        Updates of a training from the start; others take a part of it.
    """

    max_leaves: int
    max_depth: int
    max_terms: int
    min_samples: float = 1.0
    n_updates: int = UPDATES


class Family(NamedTuple):
    """Where trees start, how they are held back while they train, and whose targets they learn.

    The start is "random" questions, "linear" regressions, a tree of "pairs" of features, an ordinary tree ("gini" and
    "entropy", its criteria, or "squared_error") that is kept as it is, or one from which gradients go on: with all
    terms ("cart"), or its thresholds only ("thresholds"). Weights are left out at random (a share `drop` of them) or
    penalised (`penalty` times their sizes). Trees that follow the "scores" of one linear model are kept as they are;
    `penalty` is its ridge. Targets are the rows' own or, if `taught`, a teacher's. A tree of the pieces of a linear
    "network" of some `depth` learns from that.
    """

    start: str
    drop: float = 0.0
    penalty: float = 0.0
    taught: bool = False
    depth: int = 0


class Key(NamedTuple):
    """A step of a path: the family, and the most leaves and terms."""

    family: Family
    leaves: int
    terms: int

    @property
    def n_numbers(self) -> int:
        """Numbers that a reader meets: terms of all questions, and leaves."""
        return (self.leaves - 1) * self.terms + self.leaves

    @property
    def is_trained(self) -> bool:
        """Whether the step comes from gradients, not from an ordinary tree as it is."""
        return self.family.start in (*TRAINED, "thresholds")


CONSTANT = Key(Family("constant"), 1, 0)  # the tree without questions
Path = Iterator[tuple[Key, SoftTree]]
Walk = Callable[..., Path]  # `walk` or a part of it
First = dict[tuple[Family, int], SoftTree]  # trees with all terms that have been trained, by family and leaves


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


def term_ladder(n_features: int, max_terms: int) -> list[int]:
    """Terms a question on the way down: all, and then those of the path, with steps between where these are far.

    Examples
    --------
    >>> term_ladder(60, 60)
    [60, 15, 8, 4, 2]
    >>> term_ladder(60, 3)
    [60, 15, 4, 3, 2]
    """
    wanted = sorted({t for t in (*TERMS, max_terms) if t <= max_terms and t < n_features}, reverse=True)
    steps = [n_features]
    for terms in wanted:
        while steps[-1] > FEWER * terms:
            steps.append(-(-steps[-1] // FEWER))
        if terms < steps[-1]:
            steps.append(terms)
    return steps


def walk(
    rows: Rows,
    family: Family,
    budget: Budget,
    grow: Grow,
    seed: int,
    first: First | None = None,
    sizes_to_train: Sequence[int] | None = None,
) -> Path:
    """The whole path of a family: sizes from the largest down to two leaves, each with all terms and with fewer.

    Trees that are trained from a start have some of the sizes only, if `sizes_to_train` names those (`stretches`).
    """
    rows = rows.to_question
    if family.start in TRAINED:
        for size in sizes_to_train or trained_sizes(budget.max_leaves):
            tree = (first or {}).get((family, size)) or first_tree(rows, family, size, budget, grow, seed)
            yield from thinner(tree, rows, family, size, budget, seed)
        return
    if family.start == "scores":
        yield from followed(rows, family, budget, sizes(budget.max_leaves)[::-1])
        return
    if rows.pieces is not None:
        yield from fewer_pieces(rows.some(MOST_ROWS), rows.pieces, family, budget)
        return
    for size in sizes(budget.max_leaves):
        if family.start == "thresholds":
            yield Key(family, size, 1), _moved_thresholds(rows, size, budget, grow, seed)
        else:
            yield Key(family, size, 1), _ordinary(rows, family.start, size, grow, 1.0)


def trained_sizes(max_leaves: int) -> list[int]:
    """Numbers of leaves for which a tree is trained from the start; those between are pruned from these.

    Examples
    --------
    >>> trained_sizes(12)
    [12, 8, 4, 2]
    """
    return [size for size in sizes(max_leaves) if size == max_leaves or size.bit_count() == 1]


def stretches(family: Family, budget: Budget) -> list[Walk]:
    """Walks that together are the family's, in its order, and do not depend on one another: for threads."""
    if family.start not in TRAINED:
        return [walk]
    return [partial(walk, sizes_to_train=[size]) for size in trained_sizes(budget.max_leaves)]


def followed(rows: Rows, family: Family, budget: Budget, leaves: Sequence[int]) -> Path:
    """Trees of some numbers of leaves, smallest first, that follow a linear model of all rows.

    The model is one of all features, and then of fewer and fewer of the strongest.
    """
    scores = None
    for terms in term_ladder(rows.n_features, budget.max_terms):
        used = None if scores is None else strongest(scores, terms, rows.is_classifier)
        scores = linear_scores(rows, family.penalty, used)
        if terms > budget.max_terms:
            continue
        for size, tree in zip(leaves, score_trees(rows, scores, leaves, budget.max_depth), strict=True):
            yield Key(family, size, terms), pruned(tree, rows, size, budget.min_samples)


def fewer_pieces(rows: Rows, pieces: SoftTree, family: Family, budget: Budget) -> Path:
    """A linear network's pieces and fewer of them; each has as many rows as a linear function has numbers."""
    least = max(budget.min_samples, rows.n_features + 1)
    for size in sizes(budget.max_leaves):
        pieces = pruned(pieces, rows, size, least, linear=rows.n_features <= MOST_LINEAR)
        yield Key(family, size, rows.n_features), pieces


def first_tree(rows: Rows, family: Family, size: int, budget: Budget, grow: Grow, seed: int) -> SoftTree:
    """A tree with all terms and at most `size` leaves, trained from the family's start."""
    how = _how(rows, family)._replace(n_updates=budget.n_updates)
    if family.start == "cart":
        criterion = "entropy" if rows.is_classifier and not rows.taught else "squared_error"
        tree = _ordinary(rows, criterion, size, grow, STEEPNESS)
        tree = replace(tree, allowed=np.ones_like(tree.allowed))
    elif family.start == "linear":
        tree = linear_tree(rows, size, budget.max_depth)
    elif family.start == "pairs":
        tree = grow.pairs(rows, size)
    else:
        depth = min(budget.max_depth, (size - 1).bit_length())
        tree = random_tree(rows, depth, np.random.default_rng([seed, depth]))
    return fitted(trained(tree, rows, how, seed), rows, how, size, budget, seed)


def _moved_thresholds(rows: Rows, size: int, budget: Budget, grow: Grow, seed: int) -> SoftTree:
    """An ordinary tree whose thresholds have been trained on, all at once; as it was where that loses less.

    The search has found the best threshold of a single question, and mostly of a few.
    """
    tree = _ordinary(rows, "gini" if rows.is_classifier else "squared_error", size, grow, STEEPNESS)
    first = _how(rows, Family("thresholds"))
    n_updates, rate = max(1, budget.n_updates // 2), first.learning_rate / 3
    how = first._replace(n_updates=n_updates, softest=6.0, learning_rate=rate, decay=0.0)
    moved = pruned(trained(tree, rows, how, seed), rows, size, budget.min_samples)
    return min(moved, tree, key=lambda tree: mean_loss(tree, rows, rows))


def _how(rows: Rows, family: Family) -> SoftTraining:
    """Squared error wants larger steps, hardly any decay, and leaves that stay apart; a penalty takes decay's place."""
    decay = 0.0 if family.penalty else 0.3 if rows.is_classifier else 0.01
    held = SoftTraining(drop=family.drop, penalty=family.penalty, decay=decay)
    if rows.is_classifier:
        return held._replace(learning_rate=0.03)
    held = held._replace(firmness=0.5)
    if family.start in ("linear", "pairs"):
        return held._replace(learning_rate=0.03, softest=4.0)
    return held._replace(learning_rate=0.1)


def _ordinary(rows: Rows, criterion: str, size: int, grow: Grow, steepness: float) -> SoftTree:
    children, feature, threshold = grow(rows, size, criterion)
    if not len(children):
        return one_leaf(rows)
    return axis_tree(rows, children, feature, threshold, steepness)


def fitted(tree: SoftTree, rows: Rows, how: SoftTraining, size: int, budget: Budget, seed: int) -> SoftTree:
    """The tree within `size` leaves and the least rows of a leaf, trained on where that took leaves away."""
    small = pruned(tree, rows, size, budget.min_samples)
    if small.n_leaves in (1, tree.n_leaves):
        return small
    n_updates, rate = max(1, how.n_updates // 3), how.learning_rate / 2
    again = how._replace(n_updates=n_updates, softest=6.0, learning_rate=rate)
    return pruned(trained(small, rows, again, seed), rows, size, budget.min_samples)


def thinner(
    tree: SoftTree, rows: Rows, family: Family, size: int, budget: Budget, seed: int, *, sides: bool = True
) -> Path:
    """The tree with all terms and with fewer, each also with three quarters of the leaves (if `sides`)."""
    first = _how(rows, family)
    n_updates, rate = max(1, budget.n_updates // 2), first.learning_rate * 2 / 3
    how = first._replace(n_updates=n_updates, softest=4.0, learning_rate=rate)
    between = [fewer for fewer in sizes(size)[1:] if 2 * fewer > 2 ** (size - 1).bit_length()]
    ladder = [2] if family.start == "pairs" else term_ladder(rows.n_features, budget.max_terms)
    for terms in ladder:
        if terms < ladder[0]:
            tree = trained(masked(tree, terms), rows, how, seed)
            tree = fitted(tree, rows, how, size, budget, seed)
        if terms > budget.max_terms:
            continue
        yield Key(family, size, terms), tree
        for fewer in between if sides else ():
            yield Key(family, fewer, terms), fitted(tree, rows, how, fewer, budget, seed)
