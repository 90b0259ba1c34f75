"""Which size: the cross-validated loss of every step of the path, and the smallest tree that is as good as the best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treelu.training.calibration import CLEARLY
from treelu.training.parallel import in_order
from treelu.training.small.leaves import (
    STRENGTH,
    STRENGTHS,
    combined,
    mean_loss,
    outputs_by_strength,
    row_losses,
    total_loss,
)
from treelu.training.small.lessons import Lessons
from treelu.training.small.path import (
    CONSTANT,
    MOST_LINEAR,
    Budget,
    Family,
    First,
    Grow,
    Key,
    Path,
    Walk,
    first_tree,
    followed,
    stretches,
    thinner,
    walk,
)
from treelu.training.small.soft_tree import Rows, SoftTree, one_leaf


class Hold(NamedTuple):
    """How weights are held back: the share left out at random, and the penalty on their sizes."""

    drop: float = 0.0
    penalty: float = 0.0


# The first of these is tried with every start, the others with the best two
HOLDS = [Hold(), Hold(0.1), Hold(0.25), Hold(0.5), Hold(penalty=0.003)]
REGRESSION_HOLDS = [Hold(penalty=0.0003), Hold(penalty=0.001), Hold(), Hold(0.05), Hold(0.1)]
NEGLIGIBLE = 0.005  # a difference of losses, which are about 0 to 1, for which a smaller tree is always taken
NOTICEABLE = 0.01  # one for which it may be, where the rows cannot tell the two apart
MOST_WORSE = 0.04  # the same as a share of the best tree's loss, where that is more
FINALISTS = 3  # families that are tried on all folds; the others on the first ones only
MOST_SCORES = 20_000  # leaves times outputs of a tree that is trained by gradients: by default 100 classes
COLUMNS = ["leaves", "terms", "score", "std_error", "loss", "loss_difference", "difference_std_error", "eligible",
           "chosen", "start"]  # fmt: skip
RIDGES = (0.001, 0.01, 0.1)  # of linear models, a row


@dataclass
class Judged:
    """What held-out rows say of a step: a loss for each row, what part of them was missed, and a loss by shrinkage.

    The lists have an entry for each fold; `trees` are the trees that were judged. Where rows come in groups, an entry
    is that of a group: rows of a group are not independent, and standard errors must not count them as if they were.
    """

    losses: list[NDArray[np.float64]]
    missed: list[NDArray[np.float64]]
    weights: list[NDArray[np.float64]]
    by_strength: NDArray[np.float64]
    trees: list[SoftTree] = field(default_factory=list)

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
    outputs = list(outputs_by_strength(tree, train, test.X, STRENGTHS))
    missed, squared = row_losses(outputs[STRENGTHS.index(STRENGTH)], test)
    found = judged.setdefault(key, Judged([], [], [], np.zeros(len(STRENGTHS))))
    found.trees.append(tree)
    loss, missed, weight = means_by_group(combined(missed, squared), missed, test)
    found.losses.append(loss)
    found.missed.append(missed)
    found.weights.append(weight)
    found.by_strength += [total_loss(of_one, test) for of_one in outputs]


def means_by_group(
    loss: NDArray[np.float64], missed: NDArray[np.float64], test: Rows
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Weighted means of two losses in each group, and the groups' weights; those of rows where there are no groups."""
    weight = test.weight.astype(np.float64)
    if test.groups is None:
        return loss, missed, weight
    number = np.unique(test.groups, return_inverse=True)[1]
    mass = np.bincount(number, weight).astype(np.float64)
    return np.bincount(number, weight * loss) / mass, np.bincount(number, weight * missed) / mass, mass


def not_worse_than_judged(tree: SoftTree, judged: Judged, rows: Rows, learnt: Rows) -> SoftTree:
    """The tree of all rows or, where it loses more on them than the folds' trees on rows held out, the best of all.

    Training sometimes ends in a poor tree, and other rows than those of the folds may be enough for that; the tree is
    then not the one that was chosen. More is by more than a standard error, so that chance replaces none. The best is
    the one with the least loss on `learnt`, the rows with the targets that the trees were trained on, which are the
    teacher's if there is one.
    """

    loss = judged.loss()
    if mean_loss(tree, learnt if rows.linear else rows, rows) <= loss.mean() + loss.std() / np.sqrt(len(loss)):
        return tree
    return min([tree, *judged.trees], key=lambda tree: mean_loss(tree, learnt, learnt))


def starts(rows: Rows, budget: Budget, can_teach: bool) -> list[Family]:
    """Starts worth a trial, with the rows' own targets and a teacher's."""
    if budget.max_terms == 1 or not is_trainable(rows, budget):
        return []
    found = ["random", "cart"]
    if rows.n_features <= MOST_LINEAR:
        found.append("linear")
    if budget.max_terms == 2:
        found.append("pairs")
    hold = holds(rows)[0]
    return [Family(start, *hold, taught) for taught in (False, True)[: 1 + can_teach] for start in found]


def holds(rows: Rows) -> list[Hold]:
    """Ways of holding weights back that are worth a trial."""
    if rows.n_features == 1:
        return [Hold()]
    return HOLDS if rows.is_classifier else REGRESSION_HOLDS


def ordinary_families(rows: Rows, budget: Budget, can_teach: bool) -> list[Family]:
    """Trees of one term a question, which cost next to nothing."""
    found = [Family("gini"), Family("entropy")] if rows.is_classifier else [Family("squared_error")]
    found += [Family("squared_error", taught=True)] if can_teach else []
    return [*found, Family("thresholds")] if budget.max_terms == 1 and is_trainable(rows, budget) else found


def score_families(rows: Rows, budget: Budget, can_teach: bool) -> list[Family]:
    """Linear models that a tree may follow; none for one or two terms, where others see more, nor for linear leaves."""
    few_terms = budget.max_terms == 1 or budget.max_terms < min(3, rows.n_features)
    if few_terms or rows.linear or rows.signs is not None or not is_trainable(rows, budget):
        return []
    taught = (False, True)[: 1 + can_teach]
    return [Family("scores", penalty=ridge, taught=of) for of in taught for ridge in RIDGES]


def is_trainable(rows: Rows, budget: Budget) -> bool:
    """Whether a training takes seconds: each update costs as many products as leaves times outputs, for every row."""
    return budget.max_leaves * rows.target.shape[1] <= MOST_SCORES


def trial(rows: Rows, family: Family, budget: Budget, grow: Grow, seed: int, first: First | None = None) -> Path:
    """The step of a family's path with the most leaves and terms; its tree with all terms is kept in `first`."""
    if family.start == "scores":
        path = followed(rows, family, budget, [budget.max_leaves])
        yield next(step for step in path if step[0].terms == budget.max_terms)
        return
    rows, size = rows.to_question, budget.max_leaves
    tree = first_tree(rows, family, size, budget, grow, seed)
    if first is not None:
        first[family, size] = tree
    path = thinner(tree, rows, family, size, budget, seed, sides=False)
    yield next((key, small) for key, small in path if key.terms == budget.max_terms)


def largest(rows: Rows, budget: Budget, grow: Grow, seed: int) -> Path:
    """First the step with the most leaves and terms, of a family that is never far behind: nothing is compared."""
    if not is_trainable(rows, budget):
        return walk(rows, Family("gini" if rows.is_classifier else "squared_error"), budget, grow, seed)
    if budget.max_terms == 1:
        return walk(rows, Family("thresholds"), budget, grow, seed)
    return trial(rows, Family("pairs") if budget.max_terms == 2 else Family("cart", 0.1), budget, grow, seed)


def compare(
    parts: Sequence[tuple[Lessons, Rows]], budget: Budget, grow: Grow, seed: int, n_jobs: int
) -> dict[Key, Judged]:
    """Judge the steps of the best family's path, of the best linear model's, of linear networks' pieces and of ordinary
    trees, fold by fold.

    The best family is the one whose trials lose least on the rows held out: the best start first, then the best way of
    holding weights back. After the first folds only the best few go on.

    Parameters
    ----------
    parts : sequence of pairs (Lessons, Rows)
        The rows to train on and those held out, for each fold.
    budget, grow
        As of `walk`.
    seed : int
    n_jobs : int
        Threads, on which the result does not depend.
    """
    rows, can_teach = parts[0][0].own, parts[0][0].taught is not None
    first = [First() for _ in parts]

    def judge_steps(judged: dict[Key, Judged], walks: Sequence[tuple[int, Family, Walk]]) -> None:
        def run(of: tuple[int, Family, Walk]) -> list[tuple[Key, SoftTree]]:
            fold, family, steps = of
            return list(steps(parts[fold][0].of(family), family, budget, grow, seed + fold, first[fold]))

        with closing(in_order(run, walks, n_jobs)) as results:
            for (fold, family, _), found in zip(walks, results, strict=True):
                lessons, test = parts[fold]
                for key, tree in found:
                    judge(judged, key, tree, lessons.to_leaves(family), test)

    def try_out(trials: dict[Key, Judged], families: Iterable[Family], folds: Iterable[int]) -> None:
        judge_steps(trials, [(fold, family, trial) for fold in folds for family in families])

    def walk_all(families: Sequence[Family]) -> None:
        walks = [(family, steps) for family in families for steps in stretches(family, budget)]
        judge_steps(judged, [(fold, family, steps) for fold in range(len(parts)) for family, steps in walks])

    judged: dict[Key, Judged] = {}
    if tried := starts(rows, budget, can_teach):
        trials: dict[Key, Judged] = {}
        some = (len(parts) + 1) // 2 if len(parts) > 3 else 1
        try_out(trials, tried, range(some))
        best = ranked(trials, tried)[:2]
        others = [family._replace(**hold._asdict()) for family in best for hold in holds(rows)[1:]]
        try_out(trials, others, range(some))
        finalists = ranked(trials, [*tried, *others])[:FINALISTS]
        try_out(trials, finalists, range(some, len(parts)))
        walk_all(ranked(trials, finalists)[:1])
    if tried := score_families(rows, budget, can_teach):
        trials = {}
        try_out(trials, tried, range(len(parts)))
        walk_all(ranked(trials, tried)[:1])
    walk_all([Family("network", depth=depth) for depth in parts[0][0].networks])
    walk_all(ordinary_families(rows, budget, can_teach))
    for lessons, test in parts:
        judge(judged, CONSTANT, one_leaf(lessons.own), lessons.own, test)
    return judged


def ranked(trials: dict[Key, Judged], tried: Iterable[Family]) -> list[Family]:
    """Families, the one whose trials lose least in the mean first."""
    means = {key: found.loss().mean() for key, found in trials.items()}
    return sorted(tried, key=lambda family: np.mean([means[key] for key in means if key.family == family]))


def compared_sizes(judged: dict[Key, Judged], sizes: Mapping[Key, tuple[int, int]], rule: str) -> pd.DataFrame:
    """The table that a size is chosen from, and by: a row for each number of leaves and terms.

    With ``numbers = (leaves - 1) * terms + leaves``, what a reader of the tree meets, and "best" for the row with the
    least `loss` (of equals the fewest numbers):

        tolerance = CLEARLY * difference_std_error, but from NEGLIGIBLE to max(NOTICEABLE, MOST_WORSE * best loss)
        eligible  = loss_difference <= tolerance

    The rule "smallest" takes the eligible row with the fewest numbers (of equals the least loss), "best" the best one.

    Parameters
    ----------
    judged : dict of Key to Judged
        Empty where nothing was compared; the one step there is is then chosen.
    sizes : mapping of Key to (leaves, terms)
        Of the trees fitted to all rows. Of several with the same size the one with the least loss has a row; of those
        that have lost all their splits, that is `CONSTANT`.
    rule : {"smallest", "best"}

    Returns
    -------
    DataFrame
        The columns `COLUMNS`, and `step`, the place of the row's key in `sizes`; ordered by leaves and terms.
    """
    row_losses = {key: found.loss() for key, found in judged.items()}
    records = []
    for step, (key, (leaves, terms)) in enumerate(sizes.items()):
        if leaves == 1 and key != CONSTANT and CONSTANT in sizes:
            continue
        miss, loss = (judged[key].miss(), row_losses[key]) if judged else (np.full(1, np.nan), np.full(1, np.nan))
        score, error = 1 - miss.mean(), miss.std() / np.sqrt(len(miss))
        records.append((leaves, terms, score, error, loss.mean(), key.family.start, step))
    table = pd.DataFrame(records, columns=["leaves", "terms", "score", "std_error", "loss", "start", "step"])
    table = table.sort_values(["leaves", "terms", "loss"], kind="stable").drop_duplicates(["leaves", "terms"])
    table["numbers"] = (table["leaves"] - 1) * table["terms"] + table["leaves"]
    by_loss = table.sort_values(["loss", "numbers", "leaves"], kind="stable")
    best = by_loss.index[0]
    keys = list(sizes)
    table["loss_difference"] = table["loss"] - table.loc[best, "loss"]
    table["difference_std_error"] = np.nan
    if judged:
        of_best = row_losses[keys[table.loc[best, "step"]]]
        differences = [row_losses[keys[step]] - of_best for step in table["step"]]
        table["difference_std_error"] = [rows.std() / np.sqrt(len(rows)) for rows in differences]
    tolerance = np.clip(
        CLEARLY * table["difference_std_error"], NEGLIGIBLE, max(NOTICEABLE, MOST_WORSE * table.loc[best, "loss"])
    )
    table["eligible"] = ~(table["loss_difference"] > tolerance)  # NaN where nothing was compared
    smallest = table[table["eligible"]].sort_values(["numbers", "loss", "leaves"], kind="stable").index[0]
    table["chosen"] = table.index == (best if rule == "best" else smallest)
    return table[[*COLUMNS, "step"]].reset_index(drop=True)


def chosen_key(judged: dict[Key, Judged], sizes: Mapping[Key, tuple[int, int]], rule: str) -> Key:
    """The key of the row that is chosen."""
    table = compared_sizes(judged, sizes, rule)
    return list(sizes)[table.loc[table["chosen"], "step"].item()]
