"""Which size: the smallest tree whose cross-validated loss is about as good as the best."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from treelu.training.calibration import CLEARLY
from treelu.training.small.cross_validation import HeldOutLoss
from treelu.training.small.path import CONSTANT, TreeSize

NEGLIGIBLE = 0.005  # a difference of losses, which are about 0 to 1, for which a smaller tree is always taken
NOTICEABLE = 0.01  # one for which it may be, where the rows cannot tell the two apart
MOST_WORSE = 0.04  # the same relative to the best tree's loss, where that is more
COLUMNS = ["leaves", "terms", "score", "std_error", "loss", "loss_difference", "difference_std_error", "eligible",
           "chosen", "start"]  # fmt: skip


def path_table(
    losses: Mapping[TreeSize, HeldOutLoss], sizes: Mapping[TreeSize, tuple[int, int]], rule: str
) -> pd.DataFrame:
    """The table from which a size is selected: a row for each number of leaves and terms.

    With ``numbers = (leaves - 1) * terms + leaves``, the numbers to read in the tree, and "best" for the row with the
    least `loss` (of equals the fewest numbers):

        tolerance = CLEARLY * difference_std_error, but from NEGLIGIBLE to max(NOTICEABLE, MOST_WORSE * best loss)
        eligible  = loss_difference <= tolerance

    The rule "smallest" takes the eligible row with the fewest numbers (of equals the least loss), "best" the best one.

    Parameters
    ----------
    losses : mapping of TreeSize to HeldOutLoss
        Empty where nothing was compared; the only size is then chosen.
    sizes : mapping of TreeSize to (leaves, terms)
        Leaves and terms of the folds' trees, in the median. Of several alike the one with the least loss has a row;
        of trees that have lost all their splits, that is `CONSTANT`.
    rule : {"smallest", "best"}

    Returns
    -------
    DataFrame
        The columns `COLUMNS`, and `step`, the position of the row's size in `sizes`; ordered by leaves and terms.
    """
    row_losses = {size: found.loss() for size, found in losses.items()}
    records = []
    for step, (size, (leaves, terms)) in enumerate(sizes.items()):
        if leaves == 1 and size != CONSTANT and CONSTANT in sizes:
            continue
        error, loss = (losses[size].error(), row_losses[size]) if losses else (np.full(1, np.nan), np.full(1, np.nan))
        score, std_error = 1 - error.mean(), error.std() / np.sqrt(len(error))
        records.append((leaves, terms, score, std_error, loss.mean(), size.candidate.start, step))
    table = pd.DataFrame(records, columns=["leaves", "terms", "score", "std_error", "loss", "start", "step"])
    table = table.sort_values(["leaves", "terms", "loss"], kind="stable").drop_duplicates(["leaves", "terms"])
    table["numbers"] = (table["leaves"] - 1) * table["terms"] + table["leaves"]
    by_loss = table.sort_values(["loss", "numbers", "leaves"], kind="stable")
    best = by_loss.index[0]
    steps = list(sizes)
    table["loss_difference"] = table["loss"] - table.loc[best, "loss"]
    table["difference_std_error"] = np.nan
    if losses:
        of_best = row_losses[steps[table.loc[best, "step"]]]
        differences = [row_losses[steps[step]] - of_best for step in table["step"]]
        table["difference_std_error"] = [rows.std() / np.sqrt(len(rows)) for rows in differences]
    tolerance = np.clip(
        CLEARLY * table["difference_std_error"], NEGLIGIBLE, max(NOTICEABLE, MOST_WORSE * table.loc[best, "loss"])
    )
    table["eligible"] = ~(table["loss_difference"] > tolerance)  # NaN where nothing was compared
    smallest = table[table["eligible"]].sort_values(["numbers", "loss", "leaves"], kind="stable").index[0]
    table["chosen"] = table.index == (best if rule == "best" else smallest)
    return table[[*COLUMNS, "step"]].reset_index(drop=True)


def chosen_size(
    losses: Mapping[TreeSize, HeldOutLoss], sizes: Mapping[TreeSize, tuple[int, int]], rule: str
) -> TreeSize:
    """The size that the rule selects."""
    table = path_table(losses, sizes, rule)
    return list(sizes)[table.loc[table["chosen"], "step"].item()]
