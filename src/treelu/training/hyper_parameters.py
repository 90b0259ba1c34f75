"""Depth, drop rate and weight decay where the user leaves them open: a race of short trainings on held-out rows.

Noisy targets want a high drop rate and few neurons; clean ones the opposite. Linear leaves do better with weight decay
instead of dropping. With few rows for each feature, neither prevents oblique splits from fitting the noise of
irrelevant features: there a network on few features is a candidate too. Candidates are compared by their loss after
tempering: otherwise a low rate would lose by being overconfident where it is right more often.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treelu.data.dataset import Dataset
from treelu.data.folds import by_group
from treelu.training.calibration import CLEARLY, Tempered, Tempering, temper

RATES = (0.05, 0.3, 0.75)
LINEAR = ((0.05, 0.0), (0.3, 0.0), (0.0, 0.3), (0.0, 2.0))  # drop rates and decays for linear leaves
FEW_FEATURES, FEW_RATE = 16, 0.3  # of the candidate on few features
ROWS_PER_FEATURE = 5  # with fewer rows for each feature it is tried
MAX_DEPTH = 16  # 2^16 leaves; a deeper tree is built for given rows only
SHALLOW, DEEP = 12, MAX_DEPTH  # neurons: of small tables and where much is dropped or decays, and otherwise
SMALL = 500  # rows of a table that is not small
TREE_ENTRIES = 2**23  # of the weights of the whole tree, which limit the depth of wide tables
TRIAL_SHARE = 0.5  # of the epochs
TRIAL_HASTE = 2  # times fewer updates an epoch, with a learning rate as many times higher, in a short race
MANY_OUTPUTS, LEAST_SHARE = 200, 0.15  # with more outputs trials are shorter, down to this share of the epochs
FOLDS, ENOUGH_ROWS = 5, 1000  # fifths of the rows are held out in turn, until this many rows have been scored
GO_ON = (2, 1)  # how many go on after the first fold, and after the second
ENOUGH_TO_TEMPER = 300  # rows held out, on which one that is left alone is tempered
MOST_FOLDS = 3  # of tables that are not small
MIN_ROWS = 50


class HyperParameters(NamedTuple):
    """Number of neurons, drop rate, weight decay, and the most features (None: all)."""

    depth: int
    drop_connect: float
    weight_decay: float = 0.0
    max_tree_features: int | None = None


class Choice(NamedTuple):
    """Hyper-parameters, and the tempering of their held-out scores (None where nothing was tried)."""

    hyper_parameters: HyperParameters
    tempering: Tempering | None


def candidates_for(
    depth: int | str,
    drop_connect: float | str,
    weight_decay: float | str,
    n_rows: int,
    n_features: int,
    *,
    linear: bool = False,
    try_few_features: bool = False,
) -> list[HyperParameters]:
    """The candidates to choose among: what is given, and for "auto" what may suit a table of this shape.

    Examples
    --------
    >>> [tuple(one[:3]) for one in candidates_for("auto", "auto", "auto", 1000, 20)]
    [(16, 0.05, 0.0), (16, 0.3, 0.0), (12, 0.75, 0.0)]
    >>> [tuple(one[:3]) for one in candidates_for(4, "auto", "auto", 1000, 20, linear=True)]
    [(4, 0.05, 0.0), (4, 0.3, 0.0), (4, 0.0, 0.3), (4, 0.0, 2.0)]
    >>> candidates_for("auto", 0.1, "auto", 1000, 1024)
    [HyperParameters(depth=13, drop_connect=0.1, weight_decay=0.0, max_tree_features=None)]
    >>> candidates_for("auto", "auto", "auto", 1000, 500, try_few_features=True)[-1]
    HyperParameters(depth=14, drop_connect=0.3, weight_decay=0.0, max_tree_features=16)
    """
    decay = 0.0 if isinstance(weight_decay, str) else float(weight_decay)
    if not isinstance(drop_connect, str):
        pairs: tuple[tuple[float, float], ...] = ((float(drop_connect), decay),)
    elif linear and isinstance(weight_decay, str):
        pairs = LINEAR
    else:
        pairs = tuple((rate, decay) for rate in RATES)

    def candidate(rate: float, decay: float, max_features: int | None = None) -> HyperParameters:
        neurons = _depth_for(rate, decay, n_rows, n_features) if isinstance(depth, str) else int(depth)
        return HyperParameters(neurons, rate, decay, max_features)

    candidates = [candidate(*pair) for pair in pairs]
    is_wide = n_features > 2 * FEW_FEATURES and n_rows < ROWS_PER_FEATURE * n_features
    if try_few_features and is_wide and isinstance(drop_connect, str):
        candidates.append(candidate(FEW_RATE, decay, FEW_FEATURES))
    return candidates


def _depth_for(rate: float, decay: float, n_rows: int, n_features: int) -> int:
    if max(rate, decay) > 0.5 or n_rows < SMALL:
        return SHALLOW
    return max(SHALLOW, min(DEEP, int(np.log2(TREE_ENTRIES / n_features))))


class Race:
    """Candidates compared by their loss, after tempering, on the same held-out rows, fold by fold.

    One that is clearly worse than the best after a fold (by `CLEARLY` standard errors) is out. In a short race, of
    classes, the best two of the first fold go on to the second, and the better of them to the others. One alone is
    tempered, which does not depend on what it is compared with.

    Parameters
    ----------
    candidates : sequence of HyperParameters
    is_short : bool
        Not for regression, which lost 0.003 to 0.009 of R² on eight tables.

    Attributes
    ----------
    left : list of HyperParameters
        The candidates to train for the next fold.
    """

    def __init__(self, candidates: Sequence[HyperParameters], *, is_short: bool) -> None:
        self.candidates, self.left, self.is_short = candidates, list(candidates), is_short
        self.held_out: list[NDArray[np.int64]] = []
        self.scores: dict[HyperParameters, list[NDArray[np.float64]]] = {one: [] for one in candidates}
        self.tempered: dict[HyperParameters, Tempered] = {}

    def add_fold(self, test: Dataset, scores: Iterable[NDArray[Any]], title: str | None = None) -> None:
        """Count in the scores of the candidates left for the rows of a fold; with a title, print their losses."""
        self.held_out.append(test.rows)
        rows = np.concatenate(self.held_out)
        for candidate, found in zip(self.left, scores, strict=True):
            self.scores[candidate].append(found.astype(np.float64))
            self.tempered[candidate] = temper(np.concatenate(self.scores[candidate]), test.targets, rows)
            if title is not None:
                show_trial(title, candidate, float(self.tempered[candidate].losses.mean()), len(rows))
        ranked = sorted(self.left, key=lambda one: self.tempered[one].losses.mean())
        best, groups = self.tempered[ranked[0]].losses, test.targets.groups(rows)
        most = GO_ON[min(len(self.held_out), len(GO_ON)) - 1] if self.is_short else len(ranked)
        self.left = [one for one in ranked[:most] if not clearly_worse(self.tempered[one].losses, best, groups)]

    @property
    def is_over(self) -> bool:
        """Whether no others can be left, and enough rows were held out to temper one."""
        enough = sum(map(len, self.held_out)) >= ENOUGH_TO_TEMPER
        return self.is_short and len(self.held_out) >= len(GO_ON) and enough

    def choice(self) -> Choice:
        """The candidate with the least loss of those compared on most folds; the first where there were none."""
        if not self.tempered:
            return Choice(self.candidates[0], None)
        most = max(map(len, self.scores.values()))
        finalists = [candidate for candidate in self.candidates if len(self.scores[candidate]) == most]
        best = min(finalists, key=lambda candidate: self.tempered[candidate].losses.mean())
        return Choice(best, self.tempered[best].how)


def trial_share(n_outputs: int) -> float:
    """The share of its epochs that a trial takes: less where each update is as much work as hundreds of classes make.

    Examples
    --------
    >>> trial_share(2), trial_share(400), trial_share(1000)
    (0.5, 0.25, 0.15)
    """
    return max(LEAST_SHARE, TRIAL_SHARE * min(1.0, MANY_OUTPUTS / n_outputs))


def show_trial(title: str, candidate: HyperParameters, loss: float, n_rows: int) -> None:
    """Print a candidate and its loss on the rows held out so far.

    Examples
    --------
    >>> show_trial("LCNClassifier", HyperParameters(16, 0.3), 0.25, 90)
    LCNClassifier tries depth 16, drop_connect 0.3, weight_decay 0: loss 0.2500 on 90 rows held out
    """
    values = (
        f"depth {candidate.depth}, drop_connect {candidate.drop_connect:g}, weight_decay {candidate.weight_decay:g}"
    )
    values += "" if candidate.max_tree_features is None else f", max_tree_features {candidate.max_tree_features}"
    print(f"{title} tries {values}: loss {loss:.4f} on {n_rows:,} rows held out")


def clearly_worse(
    losses: NDArray[np.float64], best: NDArray[np.float64], groups: NDArray[np.int64] | None = None
) -> bool:
    """Whether losses on the same rows are significantly higher; with groups, the standard error is over groups."""
    difference = by_group(losses - best, groups)
    return bool(difference.mean() > CLEARLY * difference.std() / np.sqrt(len(difference)))


def folds(dataset: Dataset, seed: int) -> Iterator[tuple[Dataset, Dataset]]:
    """Training rows and held-out rows: the folds of `cv`, or fifths of each class until enough rows were held out.

    Without `cv`, all fifths of a small table and at most three of another, whose single trainings take longer; none
    where there are too few rows. None either where fewer than two classes would be held out.
    """
    targets, rows = dataset.targets, dataset.rows
    by_user = targets.folding is not None and targets.folding.by_user
    if len(rows) < MIN_ROWS and not by_user:
        return
    parts = targets.folds(rows, FOLDS, seed)
    needed = 1 if targets.task == "regression" else 2
    if not parts or len(np.unique(targets.class_numbers(rows)[np.concatenate([test for _, test in parts])])) < needed:
        return
    n_scored = 0
    for train, test in parts if by_user or len(rows) < SMALL else parts[:MOST_FOLDS]:
        yield replace(dataset, index=rows[train]), replace(dataset, index=rows[test])
        n_scored += len(test)
        if n_scored >= ENOUGH_ROWS and not by_user:
            return
