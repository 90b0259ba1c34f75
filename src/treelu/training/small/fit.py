"""`fit_small_tree`: one small tree whose size is chosen by cross-validation. A fit is a value.

    fitted = fit_small_tree(data, SmallTreeConfig(max_terms=2), seed=0)
    fitted.tree           # on the raw features
    fitted.path           # the table from which its size was selected

A fit takes these steps, each in a module of its own:

1. `PreparedData.of` (`rows`): features of mean 0 and standard deviation 1, classes or targets encoded.
2. `all_targets` (`distillation`): soft targets of a teacher, for each fold's training rows and for all rows.
3. `cross_validate` (`cross_validation`): the held-out loss of each size on the paths of the best candidates, which
   `candidates` lists as data (start, regularisation, targets) and `path` trains.
4. `train_on_all_rows`: the same paths, trained on all rows.
5. `finish` (`finish`, `selection`): trees on the raw features, without redundant terms; the table of sizes, and the
   one that the rule selects.

From the call to the kernel:

    ObliqueTreeClassifier.fit                   estimators/small.py
      fit_small_tree                            training/small/fit.py
        cross_validate                          training/small/cross_validation.py
          evaluate                              in threads: one for each job
            trained_path                        training/small/path.py
              trained                           training/small/soft_tree.py
                run_updates                     nn/soft_tree.py
                  compiled.soft_updates         nn/kernels
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from treelu.data.spread import spread
from treelu.training.parallel import in_order
from treelu.training.pattern_counts import column_importances
from treelu.training.small.candidates import largest_candidate
from treelu.training.small.config import MOST_SCORES, Limits, SmallTreeConfig
from treelu.training.small.cross_validation import (
    HeldOutLoss,
    Losses,
    Targets,
    cross_validate,
    leaf_rows,
    no_worse_than_held_out,
)
from treelu.training.small.distillation import all_targets
from treelu.training.small.finish import finished_tree
from treelu.training.small.leaves import STRENGTH, STRENGTHS
from treelu.training.small.path import CONSTANT, OWN, PathJob, TreeSize, train_path
from treelu.training.small.rows import PreparedData, TrainingRows, TreeData, cross_validation_rows
from treelu.training.small.selection import chosen_size, path_table
from treelu.training.small.soft_tree import SoftTree, one_leaf
from treelu.training.small.starts import StartTrees
from treelu.tree import ObliqueTree

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class FittedTree:
    """A fitted small tree, and all others on the path of sizes.

    Attributes
    ----------
    path : DataFrame
        A row for each size; `path_table` has the columns.
    trees : list of ObliqueTree
        The tree of each row of `path`, on the raw features.
    by_size : mapping of TreeSize to ObliqueTree
        All trees that were finished, those without a row too.
    losses : mapping of TreeSize to HeldOutLoss
        Empty where nothing was compared.
    """

    path: pd.DataFrame
    trees: list[ObliqueTree]
    by_size: Mapping[TreeSize, ObliqueTree]
    losses: Mapping[TreeSize, HeldOutLoss]

    @property
    def chosen(self) -> int:
        """The row of `path` that was selected."""
        return chosen_row(self.path)

    @property
    def tree(self) -> ObliqueTree:
        """The tree that was selected."""
        return self.trees[self.chosen]

    @property
    def importances(self) -> NDArray[np.float64]:
        """Importances of the columns of X; that of an indicator of missing values counts for its column."""
        return column_importances(self.tree)


def fit_small_tree(data: TreeData, config: SmallTreeConfig, seed: int, **labels: Any) -> FittedTree:
    """Fit a small tree to raw rows.

    Ctrl-C raises KeyboardInterrupt until a tree of all rows is there; then the best of those is kept, with a warning.

    Parameters
    ----------
    data : TreeData
    config : SmallTreeConfig
    seed : int
    **labels
        What the trees know beside their splits: `link`, `classes`, `feature_names`, `missing` of `ObliqueTree`.
    """
    prepared = PreparedData.of(data, linear_leaves=bool(config.linear_leaves))
    rows, limits, n_jobs = prepared.rows, config.limits(prepared.rows), config.n_threads
    starts, losses = StartTrees(limits, seed), {}
    targets: Targets = {OWN: rows}
    too_few = len(rows) < 4 * rows.target.shape[1] or rows.n_features == 0
    if not too_few and not limits.can_train(rows):
        warn_of_outputs(rows.target.shape[1], limits.max_leaves)
    with threadpool_limits(1, user_api="blas"):  # products are small, and rounded alike with any number of threads
        if too_few:
            trees = {CONSTANT: one_leaf(rows)}
        elif config.selection == "largest":
            job = PathJob(rows, largest_candidate(rows, limits), limits, starts, seed, is_trial=True)
            trees = dict(train_path(job))
        else:
            folds, targets, shorter = folds_and_targets(rows, config, limits, seed)
            losses = cross_validate(folds, shorter, starts, seed, n_jobs)
            trees = train_on_all_rows(losses, targets, limits, starts, seed, n_jobs)
    return finish(trees, losses, targets, prepared, config, labels)


def folds_and_targets(
    rows: TrainingRows, config: SmallTreeConfig, limits: Limits, seed: int
) -> tuple[list[tuple[Targets, TrainingRows]], Targets, Limits]:
    """The folds, as `cross_validate` takes them, all rows with each kind of targets, and the limits for the folds."""
    sample, folds = cross_validation_rows(rows, seed)
    if not folds:
        raise ValueError(
            "no group can be held out, as each class has all its rows in one group; give more groups, or "
            "selection='largest', which compares nothing"
        )
    parts = [*(sample.part(train) for train, _ in folds), rows]
    *of_folds, targets = all_targets(parts, sample, config.teacher, limits, seed, config.n_threads)
    held_out = [sample.part(test) for _, test in folds]
    shorter = replace(limits, n_updates=min(limits.n_updates, config.updates(len(sample))))
    return list(zip(of_folds, held_out, strict=True)), targets, shorter


def train_on_all_rows(
    losses: Losses, targets: Targets, limits: Limits, starts: StartTrees, seed: int, n_jobs: int
) -> dict[TreeSize, SoftTree]:
    """The trees of the paths that were compared, trained on all rows; on Ctrl-C those that are finished."""
    found: dict[TreeSize, SoftTree] = {}
    candidates = dict.fromkeys(size.candidate for size in losses if size != CONSTANT)
    jobs = [PathJob(targets[candidate.targets], candidate, limits, starts, seed) for candidate in candidates]
    paths = [train_path(part) for job in jobs for part in job.parts()]
    try:
        with closing(in_order(found.update, paths, n_jobs)) as finished:  # tree by tree
            for _ in finished:
                pass
    except KeyboardInterrupt:
        if not found:
            raise
        warn_of_interrupt(len(found) + 1, len(losses))
    found = {size: found[size] for size in losses if size in found}  # in whichever order threads came
    for size, tree in found.items():
        found[size] = no_worse_than_held_out(tree, losses[size], targets[OWN], targets[size.candidate.targets])
    return {CONSTANT: one_leaf(targets[OWN]), **found}


def finish(
    trees: Mapping[TreeSize, SoftTree],
    losses: Losses,
    targets: Targets,
    prepared: PreparedData,
    config: SmallTreeConfig,
    labels: Mapping[str, Any],
) -> FittedTree:
    """The trees on the raw features, the one to be selected first, and the table of their sizes."""
    found: dict[TreeSize, ObliqueTree] = {}
    labels = {**labels, "spreads": spread(prepared.data.X, prepared.data.weight)}
    likely = chosen_size(losses, {size: (size.leaves, size.terms) for size in trees}, config.selection)
    try:
        for size in sorted(trees, key=lambda size: size != likely):  # first what Ctrl-C should leave
            rows, strength = leaf_rows(targets, size.candidate), shrinkage(config, losses.get(size))
            tree = finished_tree(trees[size], prepared, rows, config, strength)
            found[size] = replace(tree, **labels)
    except KeyboardInterrupt:
        if not found:
            raise
        warn_of_interrupt(len(found), len(trees))
    by_size = {size: found[size] for size in trees if size in found}
    sizes = {size: (tree.n_leaves, tree.max_terms) for size, tree in by_size.items()}
    table = path_table(losses, sizes, config.selection)
    in_order_of_path = list(by_size.values())
    return FittedTree(table, [in_order_of_path[step] for step in table.pop("step")], by_size, losses)


def shrinkage(config: SmallTreeConfig, found: HeldOutLoss | None) -> float:
    """The strength of shrinkage, as given or with the least held-out loss."""
    if not isinstance(config.shrinkage, str):
        return float(config.shrinkage)
    return STRENGTH if found is None else STRENGTHS[int(found.by_strength.argmin())]


def chosen_row(path: pd.DataFrame) -> int:
    """The row of a path's table that was selected."""
    return int(path["chosen"].to_numpy().argmax())


def warn_of_outputs(n_outputs: int, max_leaves: int) -> None:
    """Warn that splits have one feature because training more would take hours."""
    warnings.warn(
        f"{max_leaves:,} leaves of {n_outputs:,} outputs each would take long to train: only ordinary trees, of one "
        f"feature a split, are compared; max_leaf_nodes={max(2, MOST_SCORES // n_outputs)} is few enough for others",
        stacklevel=5,
    )


def warn_of_interrupt(done: int, of: int) -> None:
    """Warn that Ctrl-C has left some of the sizes out."""
    left = f"{done} of {of} sizes are finished, and the best of these is kept"
    warnings.warn(f"fitting interrupted: {left}", stacklevel=5)
