"""Which size: every step of the path judged on rows held out, and the smallest tree that is as good as the best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treelu.training.small.leaves import STRENGTHS, losses_by_strength, row_losses
from treelu.training.small.path import Budget, Family, Grow, Key, first_tree, thinner, walk
from treelu.training.small.soft_tree import Rows, SoftTree, one_leaf

DROPS = (0.0, 0.1, 0.25)  # shares of weights left out at random, of which the best is chosen
STRENGTH = 3.0  # of the shrinkage while steps are compared
Fold = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass
class Judged:
    """What held-out rows say of a step: a loss for each row, what part of them was missed, and a loss by shrinkage."""

    losses: list[NDArray[np.float64]]
    missed: list[NDArray[np.float64]]
    weights: list[NDArray[np.float64]]
    by_strength: NDArray[np.float64]

    def loss(self) -> NDArray[np.float64]:
        """Row losses times weights of mean 1."""
        weight = np.concatenate(self.weights)
        return np.concatenate(self.losses) * weight / weight.mean()

    def miss(self) -> NDArray[np.float64]:
        """Rows missed, or squared errors, times weights of mean 1."""
        weight = np.concatenate(self.weights)
        return np.concatenate(self.missed) * weight / weight.mean()


def judge(judged: dict[Key, Judged], key: Key, tree: SoftTree, train: Rows, test: Rows) -> None:
    """Add what the rows of a fold say of a tree."""
    weight = test.weight.astype(np.float64)
    missed, squared = row_losses(tree, train, test, STRENGTH)
    found = judged.setdefault(key, Judged([], [], [], np.zeros(len(STRENGTHS))))
    found.losses.append((missed + squared) / 2)
    found.missed.append(missed)
    found.weights.append(weight)
    found.by_strength += losses_by_strength(tree, train, test)


def families(rows: Rows, budget: Budget) -> list[Family]:
    """Starts worth a trial: random questions with some shares of weights left out, and an ordinary tree."""
    if budget.max_terms == 1:
        return [Family("random"), Family("cart")]
    drops = DROPS if rows.n_features > 1 else DROPS[:1]
    return [*(Family("random", drop) for drop in drops), Family("cart", 0.1)]


def ordinary_families(rows: Rows) -> list[Family]:
    """Ordinary trees, one term a question, which cost next to nothing."""
    return [Family("gini"), Family("entropy")] if rows.is_classifier else [Family("squared_error")]


def trial(rows: Rows, family: Family, budget: Budget, grow: Grow, seed: int) -> Iterator[tuple[Key, SoftTree]]:
    """The steps of a family's path that have the most leaves and terms."""
    tree = first_tree(rows, family, budget.max_leaves, budget, grow, seed)
    if budget.max_terms >= rows.n_features:
        yield Key(family, budget.max_leaves, rows.n_features), tree
        return
    for key, small in thinner(tree, rows, family, budget.max_leaves, budget, seed, sides=False):
        if key.terms == budget.max_terms:
            yield key, small
            return


def compare(rows: Rows, folds: Sequence[Fold], budget: Budget, grow: Grow, seed: int, n_jobs: int) -> dict[Key, Judged]:
    """Judge the steps of the best family's path and of ordinary trees, fold by fold.

    The best family is the one whose largest tree loses least on the rows held out. The result does not depend on
    `n_jobs`, the threads.
    """
    parts = [(rows.part(train), rows.part(test)) for train, test in folds]

    def run(job: tuple[int, Family, Callable[..., Any]]) -> list[tuple[Key, SoftTree]]:
        fold, family, steps = job
        return list(steps(parts[fold][0], family, budget, grow, seed + fold))

    def judged_steps(kinds: Iterable[tuple[Family, Callable[..., Any]]]) -> dict[Key, Judged]:
        jobs = [(fold, family, steps) for family, steps in kinds for fold in range(len(parts))]
        judged: dict[Key, Judged] = {}
        with ThreadPoolExecutor(max(1, n_jobs)) as pool:
            for (fold, _, _), found in zip(jobs, pool.map(run, jobs), strict=True):
                for key, tree in found:
                    judge(judged, key, tree, *parts[fold])
        return judged

    trials = judged_steps([(family, trial) for family in families(rows, budget)])
    best = min(trials, key=lambda key: trials[key].loss().mean()).family
    judged = judged_steps([(best, walk), *((family, walk) for family in ordinary_families(rows))])
    for train, test in parts:
        judge(judged, Key(Family("constant"), 1, 0), one_leaf(train), train, test)
    return judged


def choose(judged: dict[Key, Judged], rule: str) -> Key:
    """The key of the best step, or by the rule "smallest" the one with the fewest numbers to read among those that are
    not behind it by more than one standard error of the difference.
    """
    mean = {key: found.loss().mean() for key, found in judged.items()}
    best = min(mean, key=lambda key: (mean[key], key.n_numbers))
    if rule == "best":
        return best

    def as_good(key: Key) -> bool:
        difference = judged[key].loss() - judged[best].loss()
        return bool(difference.mean() <= difference.std() / np.sqrt(len(difference)))

    return min((key for key in judged if as_good(key)), key=lambda key: (key.n_numbers, mean[key]))
