"""Which size: a small tree whose cross-validated loss is about as good as the best, where numbers to read cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treelu.training.small.cross_validation import HeldOutLoss
from treelu.training.small.path import CONSTANT, TreeSize


class Tolerance(NamedTuple):
    """How much worse than the best a smaller tree may be.

    Attributes
    ----------
    errors : float
        Standard errors of the difference of two losses.
    least : float
        A difference of losses that is always tolerated.
    most, share : float
        A difference that may be tolerated at most where the rows cannot tell the two apart; the same relative to the
        best tree's loss, where that is more.
    """

    errors: float
    least: float
    most: float = np.inf
    share: float = 0.0

    def of(self, std_error: Any, best_loss: float) -> Any:
        """The difference of losses that is tolerated, from its standard error and the best tree's loss."""
        return np.clip(self.errors * std_error, self.least, max(self.most, self.share * best_loss))


class SizeRule(NamedTuple):
    """Tolerances of the trees, and of the constant."""

    trees: Tolerance
    constant: Tolerance
    guard: float  # how far the accuracy may be below the highest

    def tolerance(self, table: Any, best: Any) -> NDArray[np.float64]:
        """The difference of losses that is tolerated in each row, from the row of the best."""
        error, loss = table["difference_std_error"], table.loc[best, "loss"]
        return np.where(is_constant(table), self.constant.of(error, loss), self.trees.of(error, loss))


PRICE = 0.02  # by how much each doubling of the numbers to read must lower the loss
OF_CLASSES = SizeRule(Tolerance(1.0, 0.005), Tolerance(1.0, 0.003, 0.005, 0.02), 0.02)
OF_VALUES = SizeRule(Tolerance(1.0, 0.002, 0.003, 0.01), Tolerance(2.0, 0.005, 0.01, 0.1), np.inf)
COLUMNS = ["leaves", "terms", "leaf_terms", "numbers", "score", "std_error", "loss", "loss_difference",
           "difference_std_error", "eligible", "chosen", "start"]  # fmt: skip


def path_table(
    losses: Mapping[TreeSize, HeldOutLoss], sizes: Mapping[TreeSize, tuple[int, int]], rule: str
) -> pd.DataFrame:
    """The table from which a size is selected: a row for each number of leaves and terms, and kind of leaves.

    With "best" for the row with the least log-loss or squared error (of equals the fewest numbers to read) whose score
    is at most `guard` below the highest, and the `SizeRule` of classes or values:

        tolerance = errors * difference_std_error, but from least to max(most, share * best loss)
        eligible  = loss_difference <= tolerance and score >= highest score - guard

    The constant, the tree of one leaf without a formula, has a tolerance of its own. The rule "smallest" takes it if it
    is eligible, and otherwise the eligible row with the least `cost`; "best" takes the best one:

        cost = loss + PRICE * log2(numbers)

    Parameters
    ----------
    losses : mapping of TreeSize to HeldOutLoss
        Empty where nothing was compared; the only size is then chosen.
    sizes : mapping of TreeSize to (leaves, terms)
        Leaves and terms of the folds' trees, in the median. Of several alike the one with the least loss whose score
        is near the highest has a row; of trees that have lost all their splits, that is `CONSTANT`.
    rule : {"smallest", "best"}

    Returns
    -------
    DataFrame
        The columns `COLUMNS`, and `step`, the position of the row's size in `sizes`; ordered by leaves and terms.
    """
    row_losses = {size: losses[size].score() for size in sizes if size in losses}
    records = []
    for step, (size, (leaves, terms)) in enumerate(sizes.items()):
        if leaves == 1 and size.splits != CONSTANT and CONSTANT in losses:
            continue
        found = losses.get(size)
        error, loss = (found.error(), row_losses[size]) if found else (np.full(1, np.nan), np.full(1, np.nan))
        numbers = (
            math.ceil(np.median(found.numbers)) if found and found.numbers else (leaves - 1) * (terms + 1) + leaves
        )
        formula = size.formula or (0, False)
        score, std_error = 1 - error.mean(), error.std() / np.sqrt(len(error))
        values = (*formula, numbers, score, std_error, loss.mean(), size.candidate.start, step)
        records.append((leaves, terms, *values))
    names = ["leaves", "terms", "leaf_terms", "own", "numbers", "score", "std_error", "loss", "start", "step"]
    table = pd.DataFrame(records, columns=names)
    kinds = ["leaves", "terms", "leaf_terms", "own"]
    allowed = OF_CLASSES if any(losses[size].errors for size in row_losses) else OF_VALUES
    table["beyond"] = ~near_highest(table, allowed.guard)
    table = table.sort_values([*kinds, "beyond", "loss"], kind="stable").drop_duplicates(kinds)
    table = table[(table["leaf_terms"] == 0) | ~dominated(table, near_highest(table, allowed.guard))]
    guarded = near_highest(table, allowed.guard)
    by_loss = table[guarded].sort_values(["loss", "numbers", "leaves"], kind="stable")
    best = by_loss.index[0]
    steps = list(sizes)
    table["loss_difference"] = table["loss"] - table.loc[best, "loss"]
    table["difference_std_error"] = np.nan
    if losses:
        of_best = row_losses[steps[table.loc[best, "step"]]]
        differences = [row_losses[steps[step]] - of_best for step in table["step"]]
        table["difference_std_error"] = [rows.std() / np.sqrt(len(rows)) for rows in differences]
    table["eligible"] = guarded & ~(table["loss_difference"] > allowed.tolerance(table, best))
    eligible = table[table["eligible"]]
    cost = (eligible["loss"] + PRICE * np.log2(eligible["numbers"])).mask(is_constant(eligible), -np.inf)
    smallest = eligible.assign(cost=cost).sort_values(["cost", "numbers", "leaves"], kind="stable").index[0]
    table["chosen"] = table.index == (best if rule == "best" else smallest)
    return table[[*COLUMNS, "step"]].reset_index(drop=True)


def is_constant(table: pd.DataFrame) -> pd.Series:
    """Whether a row is the tree of one leaf without a formula."""
    return (table["leaves"] == 1) & (table["leaf_terms"] == 0)


def near_highest(table: pd.DataFrame, guard: float) -> pd.Series:
    """Whether a row's score is at most `guard` below the highest; true where nothing was compared."""
    return ~(table["score"] < table["score"].max() - guard)


def dominated(table: pd.DataFrame, guarded: pd.Series) -> pd.Series:
    """Whether a row has a larger loss than a guarded one with no more numbers to read."""
    order = table.sort_values(["numbers", "loss"], kind="stable")
    return (order["loss"] > order["loss"].where(guarded, np.inf).cummin()).reindex(table.index)


def chosen_size(
    losses: Mapping[TreeSize, HeldOutLoss], sizes: Mapping[TreeSize, tuple[int, int]], rule: str
) -> TreeSize:
    """The size that the rule selects."""
    table = path_table(losses, sizes, rule)
    return list(sizes)[table.loc[table["chosen"], "step"].item()]
