"""Depth, drop rate and weight decay where the user leaves them open: what does best on rows held out of shorter
trainings.

Noisy targets want many weights dropped, and then few neurons; clean ones the opposite. Linear leaves do better with
decay in the place of dropping. With few rows for each feature, neither prevents oblique splits from fitting the noise
of irrelevant features: there a network on few features is a candidate too. Settings are compared by loss after
tempering: otherwise the low rate would lose by being too sure where it is right more often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treelu.estimators._trees import MAX_DEPTH
from treelu.nn import NeuronChain
from treelu.nn.cpu.threads import limited, n_threads
from treelu.training import Sample, evaluate
from treelu.training.calibration import CLEARLY, Tempered, Tempering, temper
from treelu.training.folds import by_group
from treelu.training.selection import compare
from treelu.training.targets import Targets
from treelu.training.together import in_order

RATES = (0.05, 0.3, 0.75)
LINEAR = ((0.05, 0.0), (0.3, 0.0), (0.0, 0.3), (0.0, 2.0))  # drop rates and decays for linear leaves
FEW_FEATURES, FEW_RATE = 16, 0.3  # of the candidate on few features
ROWS_A_FEATURE = 5  # with fewer rows for each feature it is tried
SHALLOW, DEEP = 12, MAX_DEPTH  # neurons: of small tables and where much is dropped or decays, and otherwise
SMALL = 500  # rows of a table that is not small
TREE_ENTRIES = 2**23  # of the weights of the whole tree, which limit the depth of wide tables
TRIAL_SHARE = 0.5  # of the epochs
MANY_OUTPUTS, LEAST_SHARE = 200, 0.15  # with more outputs trials are shorter, down to this share of the epochs
FOLDS, ENOUGH_ROWS = 5, 1000  # fifths of the rows are held out in turn, until this many rows have been scored
MOST_FOLDS = 3  # of tables that are not small
MIN_ROWS = 50


class Setting(NamedTuple):
    """Neurons, the share of weights dropped in training, the weights' decay, and the most features (None: all)."""

    depth: int
    rate: float
    decay: float = 0.0
    max_features: int | None = None


class Choice(NamedTuple):
    """A setting, and the tempering of its scores on the rows held out (None where nothing was tried)."""

    setting: Setting
    tempering: Tempering | None


class _Scored(NamedTuple):
    """Raw scores of rows held out, and what they are judged by."""

    scores: NDArray[np.float64]
    targets: Targets
    rows: NDArray[np.int64]


def settings_for(
    depth: int | str,
    drop_connect: float | str,
    weight_decay: float | str,
    n_rows: int,
    n_features: int,
    *,
    linear: bool = False,
    try_few_features: bool = False,
) -> list[Setting]:
    """The settings to choose among: what is given, and for "auto" what may suit a table of this shape.

    Examples
    --------
    >>> [tuple(setting[:3]) for setting in settings_for("auto", "auto", "auto", 1000, 20)]
    [(16, 0.05, 0.0), (16, 0.3, 0.0), (12, 0.75, 0.0)]
    >>> [tuple(setting[:3]) for setting in settings_for(4, "auto", "auto", 1000, 20, linear=True)]
    [(4, 0.05, 0.0), (4, 0.3, 0.0), (4, 0.0, 0.3), (4, 0.0, 2.0)]
    >>> settings_for("auto", 0.1, "auto", 1000, 1024)
    [Setting(depth=13, rate=0.1, decay=0.0, max_features=None)]
    >>> settings_for("auto", "auto", "auto", 1000, 500, try_few_features=True)[-1]
    Setting(depth=14, rate=0.3, decay=0.0, max_features=16)
    """
    decay = 0.0 if isinstance(weight_decay, str) else float(weight_decay)
    if not isinstance(drop_connect, str):
        pairs: tuple[tuple[float, float], ...] = ((float(drop_connect), decay),)
    elif linear and isinstance(weight_decay, str):
        pairs = LINEAR
    else:
        pairs = tuple((rate, decay) for rate in RATES)

    def setting(rate: float, decay: float, max_features: int | None = None) -> Setting:
        neurons = _depth_for(rate, decay, n_rows, n_features) if isinstance(depth, str) else int(depth)
        return Setting(neurons, rate, decay, max_features)

    settings = [setting(*pair) for pair in pairs]
    is_wide = n_features > 2 * FEW_FEATURES and n_rows < ROWS_A_FEATURE * n_features
    if try_few_features and is_wide and isinstance(drop_connect, str):
        settings.append(setting(FEW_RATE, decay, FEW_FEATURES))
    return settings


def _depth_for(rate: float, decay: float, n_rows: int, n_features: int) -> int:
    if max(rate, decay) > 0.5 or n_rows < SMALL:
        return SHALLOW
    return max(SHALLOW, min(DEEP, int(np.log2(TREE_ENTRIES / n_features))))


def choose_setting(
    trial: Callable[[Setting, Sample], NeuronChain],
    settings: Sequence[Setting],
    sample: Sample,
    validation: Sample | None,
    seed: int,
    on_trial: Callable[[Setting, float, int], None] | None = None,
) -> Choice:
    """The setting with the least loss on `validation`, or on parts of the sample held out in turn.

    A setting that is clearly worse than the best after a part (by `CLEARLY` standard errors) is not tried on the next.

    Parameters
    ----------
    trial : callable
        trial(setting, sample) trains a network for `TRIAL_SHARE` of its time.
    settings : sequence of Setting
        One alone is tried for its tempering, which does not depend on what it was compared with.
    sample, validation : Sample
        Training rows, and the user's own rows for validation where there are some.
    seed : int
        Draws the rows held out.
    on_trial : callable, optional
        on_trial(setting, loss, n_rows) after each trial: its loss on the rows held out so far, and how many they are.
    """
    parts = folds(sample, seed) if validation is None else iter([(sample, validation)])
    judged: dict[Setting, Tempered] = {}

    def scored(part: tuple[Sample, Sample], group: Sequence[Setting]) -> list[_Scored]:
        train, held_out = part
        networks = (trial(setting, train) for setting in group)
        scores = [evaluate(network, held_out.table, held_out.index).astype(np.float64) for network in networks]
        return [_Scored(of_one, held_out.targets, held_out.rows) for of_one in scores]

    def not_behind(found: dict[Setting, list[_Scored]]) -> list[Setting]:
        for setting, several in found.items():
            scores, targets, rows = (list(column) for column in zip(*several, strict=True))
            judged[setting] = temper(np.concatenate(scores), targets[0], np.concatenate(rows))
            if on_trial is not None:
                on_trial(setting, float(judged[setting].losses.mean()), sum(map(len, rows)))
        best = judged[_least(judged, found)].losses
        groups = targets[0].groups(np.concatenate(rows))
        return [setting for setting in found if not clearly_worse(judged[setting].losses, best, groups)]

    found = compare(
        [[setting] for setting in settings], parts, scored, keep=not_behind, run=partial(_in_threads, scored)
    )
    if not judged:
        return Choice(settings[0], None)
    most = max(map(len, found.values()))
    best = _least(judged, [setting for setting in settings if len(found[setting]) == most])
    return Choice(best, judged[best].how)


def _least(judged: dict[Setting, Tempered], among: Iterable[Setting]) -> Setting:
    """The setting with the least mean loss."""
    return min(among, key=lambda setting: judged[setting].losses.mean())


def trial_share(n_outputs: int) -> float:
    """The share of its epochs that a trial takes: less where each update is as much work as hundreds of classes make.

    Examples
    --------
    >>> trial_share(2), trial_share(400), trial_share(1000)
    (0.5, 0.25, 0.15)
    """
    return max(LEAST_SHARE, TRIAL_SHARE * min(1.0, MANY_OUTPUTS / n_outputs))


def trial_lines(title: str) -> Callable[[Setting, float, int], None]:
    """Prints a line for each trial: the setting, and its loss on the rows held out so far.

    Examples
    --------
    >>> trial_lines("LCNClassifier")(Setting(16, 0.3), 0.25, 90)
    LCNClassifier tries depth 16, drop_connect 0.3, weight_decay 0: loss 0.2500 on 90 rows held out
    """

    def show(setting: Setting, loss: float, n_rows: int) -> None:
        values = f"depth {setting.depth}, drop_connect {setting.rate:g}, weight_decay {setting.decay:g}"
        values += "" if setting.max_features is None else f", max_tree_features {setting.max_features}"
        print(f"{title} tries {values}: loss {loss:.4f} on {n_rows:,} rows held out")

    return show


def _in_threads(
    trial: Callable[[tuple[Sample, Sample], Sequence[Setting]], list[_Scored]], jobs: list[Any]
) -> list[list[_Scored]]:
    """trial(*job) of each, side by side: the kernels leave Python's lock to others."""
    count = min(n_threads(), len(jobs))
    if count == 1:
        return [trial(*job) for job in jobs]

    def alone(job: Any) -> list[_Scored]:
        with limited(1):
            return trial(*job)

    return list(in_order(alone, jobs, count))


def clearly_worse(
    losses: NDArray[np.float64], best: NDArray[np.float64], groups: NDArray[np.int64] | None = None
) -> bool:
    """Whether losses on the same rows are higher by more than chance makes them; chance is that of whole groups."""
    difference = by_group(losses - best, groups)
    return bool(difference.mean() > CLEARLY * difference.std() / np.sqrt(len(difference)))


def folds(sample: Sample, seed: int) -> Iterator[tuple[Sample, Sample]]:
    """Training rows and rows held out: the folds of `cv`, or fifths of each class until enough rows were held out.

    Without `cv`, all fifths of a small table and at most three of another, whose single trainings take longer; none
    where there are too few rows. None either where fewer than two classes would be held out.
    """
    table, targets, rows = sample.table, sample.targets, sample.rows
    by_user = targets.folding is not None and targets.folding.by_user
    if len(rows) < MIN_ROWS and not by_user:
        return
    parts = targets.folds(rows, FOLDS, seed)
    needed = 1 if targets.task == "regression" else 2
    if not parts or len(np.unique(targets.class_numbers(rows)[np.concatenate([test for _, test in parts])])) < needed:
        return
    n_scored = 0
    for train, test in parts if by_user or len(rows) < SMALL else parts[:MOST_FOLDS]:
        yield Sample(table, targets, rows[train]), Sample(table, targets, rows[test])
        n_scored += len(test)
        if n_scored >= ENOUGH_ROWS and not by_user:
            return
