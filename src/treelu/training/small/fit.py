"""`fit_small_tree`: one small tree whose size is chosen by cross-validation. A fit is a value.

    fitted = fit_small_tree(data, SmallTreeConfig(max_terms=2), seed=0)
    fitted.tree           # on the raw features
    fitted.path           # the table from which its size was selected

A fit takes these steps, each in a module of its own:

1. `PreparedData.of` (`rows`): features of mean 0 and standard deviation 1, classes or targets encoded.
2. `all_targets` (`distillation`): soft targets of a teacher, for each fold's training rows and for all rows.
3. `cross_validate` (`cross_validation`): the held-out loss of each size on the paths of the best candidates, which
   `candidates` lists as data (start, regularisation, targets) and `path` trains.
4. `path_table` (`selection`): the table of sizes, and the one that the rule selects.
5. `FinalTraining.tree` (`finish`): its tree, trained on all rows, on the raw features, without redundant terms. The
   trees of other sizes are trained when they are asked for.

From the call to the kernel:

    ObliqueTreeClassifier.fit                   estimators/small.py
      fit_small_tree                            training/small/fit.py
        cross_validate                          training/small/cross_validation.py
          evaluate                              in threads: one for each job
            trained_path                        training/small/path.py
              trained                           training/small/soft_tree.py
                run_updates                     nn/soft_tree.py
                  compiled.soft_updates         kernels
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treelu.data.spread import spread
from treelu.nn.cpu.threads import one_blas_thread
from treelu.training.parallel import in_order
from treelu.training.pattern_counts import column_importances
from treelu.training.small.candidates import largest_candidate, own_and_soft
from treelu.training.small.config import MOST_SCORES, SmallTreeConfig, TreeLimits
from treelu.training.small.cross_validation import (
    HeldOutLoss,
    Losses,
    Targets,
    add_loss,
    cross_validate,
    leaf_rows,
    no_worse_than_held_out,
)
from treelu.training.small.distillation import all_targets
from treelu.training.small.finish import finished_tree
from treelu.training.small.formulas import USUAL_RIDGE, with_formulas
from treelu.training.small.leaf_models import Ridge
from treelu.training.small.leaves import STRENGTH, STRENGTHS
from treelu.training.small.path import CONSTANT, OWN, TRAINED, Formula, PathJob, TreeSize, train_path
from treelu.training.small.progress import show_path
from treelu.training.small.rows import PreparedData, TrainingRows, TreeData, cross_validation_rows
from treelu.training.small.selection import path_table
from treelu.training.small.soft_tree import SoftTree, one_leaf
from treelu.training.small.starts import StartTrees
from treelu.tree import ObliqueTree
from treelu.tree.observed import Observed
from treelu.tree.to_read import numbers_to_read

if TYPE_CHECKING:
    import pandas as pd


Folds = Sequence[tuple[Targets, TrainingRows]]


class PathTrees(Sequence[ObliqueTree]):
    """The tree of each row of a path's table. All but the chosen one are trained when they are asked for.

    Parameters
    ----------
    sizes : sequence of TreeSize
        One for each row of the table.
    train : callable
        train(size) gives its tree. It holds the training rows, so it is dropped once all trees are there.
    made : dict of int to ObliqueTree
        The trees that are there, by row.
    """

    def __init__(
        self, sizes: Sequence[TreeSize], train: Callable[[TreeSize], ObliqueTree], made: dict[int, ObliqueTree]
    ) -> None:
        self._sizes, self._made = sizes, made
        self._train: Callable[[TreeSize], ObliqueTree] | None = train

    def __len__(self) -> int:
        return len(self._sizes)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[i] for i in range(len(self))[row]]
        row = range(len(self))[row]
        if row not in self._made and self._train is not None:
            self._made[row] = self._train(self._sizes[row])
            if len(self._made) == len(self):
                self._train = None
        return self._made[row]

    def __setitem__(self, row: int, tree: ObliqueTree) -> None:
        self._made[range(len(self))[row]] = tree

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


@dataclass(frozen=True)
class FittedTree:
    """A fitted small tree, and all others on the path of sizes.

    Attributes
    ----------
    path : DataFrame
        A row for each size; `path_table` has the columns.
    trees : PathTrees
        The tree of each row of `path`, on the raw features.
    training : FinalTraining
        Gives the tree of each size that was compared.
    """

    path: pd.DataFrame
    trees: PathTrees
    training: FinalTraining

    @property
    def chosen(self) -> int:
        """The row of `path` that was selected."""
        return chosen_row(self.path)

    @property
    def tree(self) -> ObliqueTree:
        """The tree that was selected."""
        tree: ObliqueTree = self.trees[self.chosen]
        return tree

    @property
    def importances(self) -> NDArray[np.float64]:
        """Importances of the columns of X; that of an indicator of missing values counts for its column."""
        return column_importances(self.tree)


def fit_small_tree(data: TreeData, config: SmallTreeConfig, seed: int, **labels: Any) -> FittedTree:
    """Fit a small tree to raw rows.

    Parameters
    ----------
    data : TreeData
    config : SmallTreeConfig
    seed : int
    **labels
        What the trees know beside their splits: `link`, `classes`, `feature_names`, `missing` of `ObliqueTree`.
    """
    may_be_linear, is_free = config.leaves != "constant", data.signs is None
    prepared = PreparedData.of(data, linear_leaves=may_be_linear and is_free and not data.is_classifier)
    rows, limits = prepared.rows, config.limits(prepared.rows)
    losses: Losses = {}
    targets: Targets = {OWN: rows}
    too_few = len(rows) < 4 * rows.target.shape[1] or rows.n_features == 0
    if not too_few and not limits.can_train(rows):
        warn_of_outputs(rows.target.shape[1], limits.max_leaves)
    seen = Observed.of(prepared.data.X, labels.get("missing"))
    labels = {**labels, "spreads": spread(prepared.data.X, prepared.data.weight), "observed": seen}
    with one_blas_thread():  # products are small, and rounded alike with any number of threads
        if too_few or config.selection == "largest":
            size = CONSTANT if too_few else largest_size(rows, limits)
            if config.leaves == "linear":
                formula = Formula(min(limits.max_terms, rows.n_terms), own=is_free)
                size = size._replace(formula=formula, candidate=size.candidate._replace(linear=rows.linear))
            sizes = {size: (size.leaves, size.terms)}
        else:
            folds, targets, shorter = folds_and_targets(rows, config, limits, seed, may_be_linear=may_be_linear)
            losses = compared_losses(folds, shorter, config, seed, may_be_linear=may_be_linear)
            compared = [size for size in losses if allowed(size, limits, config.leaves)]
            sizes = {size: losses[size].typical_size for size in compared}
    training = FinalTraining(prepared, targets, limits, seed, config, labels, losses)
    table = path_table(losses, sizes, config.selection)
    steps = [list(sizes)[step] for step in table.pop("step")]
    chosen = chosen_row(table)
    tree = training.tree(steps[chosen])
    table.loc[chosen, ["leaves", "terms"]] = tree.n_leaves, tree.max_terms
    if not losses:
        table["numbers"] = numbers_to_read(tree)
    show_path(config.show, table)
    return FittedTree(table, PathTrees(steps, training.tree, {chosen: tree}), training)


def compared_losses(
    folds: Folds, limits: TreeLimits, config: SmallTreeConfig, seed: int, *, may_be_linear: bool
) -> Losses:
    """Held-out losses of all sizes, with constant and with linear leaves.

    Splits of values are trained for either kind, those of classes or with monotonic features for constant leaves.
    """
    strength = None if isinstance(config.shrinkage, str) else float(config.shrinkage)

    def losses_of(folds: Folds) -> Losses:
        starts = StartTrees(limits, seed)
        return cross_validate(
            folds, limits, starts, seed, config.n_threads, config.show, linear_models=not may_be_linear
        )

    if not folds[0][1].linear:
        found = losses_of(folds)
        if not may_be_linear:
            return found
        of_formulas = None if folds[0][1].is_classifier else strength
        return found | with_formulas(found, folds, limits.max_terms, of_formulas)
    for_linear = {
        size._replace(candidate=size.candidate._replace(linear=True)): found for size, found in losses_of(folds).items()
    }
    constant_folds = [(constant_targets(targets), replace(rows, linear=False)) for targets, rows in folds]
    constant: Losses = {}
    for targets, held_out in constant_folds:
        add_loss(constant, CONSTANT, one_leaf(targets[OWN]), targets[OWN], held_out)
    if config.leaves == "auto":
        constant = losses_of(constant_folds)
    formulas = with_formulas({**constant, **for_linear}, constant_folds, limits.max_terms, strength)
    own = Formula(folds[0][1].n_terms, own=True)
    of_race = {size._replace(formula=own): found for size, found in for_linear.items() if size.leaves > 1}
    return constant | formulas | of_race


def constant_targets(targets: Targets) -> dict[str, TrainingRows]:
    """The rows with the targets of constant leaves: not those of locally linear networks."""
    return {kind: replace(targets[kind], linear=False) for kind in own_and_soft(list(targets))}


def allowed(size: TreeSize, limits: TreeLimits, leaves: str) -> bool:
    """Whether a size has leaves of the kind that was asked for, with as many terms as may be."""
    if size.formula is None:
        return leaves != "linear"
    return size.formula.terms <= limits.max_terms


def folds_and_targets(
    rows: TrainingRows, config: SmallTreeConfig, limits: TreeLimits, seed: int, *, may_be_linear: bool
) -> tuple[Folds, Targets, TreeLimits]:
    """The folds, as `cross_validate` takes them, all rows with each kind of targets, and the limits for the folds."""
    sample, folds = cross_validation_rows(rows, seed)
    if not folds:
        raise ValueError(
            "no group can be held out, as each class has all its rows in one group; give more groups, or "
            "selection='largest', which compares nothing"
        )
    teacher = config.teacher
    if isinstance(teacher, str) and rows.is_classifier and may_be_linear:  # it would add nothing
        teacher = None
    of_folds, targets = all_targets(rows, sample, folds, teacher, limits, seed, config.n_threads)
    held_out = [sample.part(test) for _, test in folds]
    shorter = replace(limits, n_updates=min(limits.n_updates, config.updates(len(sample))))
    return list(zip(of_folds, held_out, strict=True)), targets, shorter


@dataclass(frozen=True)
class FinalTraining:
    """What it takes to train the tree of a size on all rows.

    Attributes
    ----------
    prepared : PreparedData
    targets : Targets
        All rows with each kind of targets.
    limits : TreeLimits
    seed : int
    config : SmallTreeConfig
    labels : mapping
        Fields of `ObliqueTree` beside splits and leaves.
    losses : Losses
        From the cross-validation; empty where nothing was compared.
    trained : dict of TreeSize to SoftTree
        Splits that several kinds of leaves share.
    """

    prepared: PreparedData
    targets: Targets
    limits: TreeLimits
    seed: int
    config: SmallTreeConfig
    labels: Mapping[str, Any]
    losses: Losses
    trained: dict[TreeSize, SoftTree] = field(default_factory=dict)

    def tree(self, size: TreeSize) -> ObliqueTree:
        """The tree of a size, trained on all rows, on the raw features."""
        with one_blas_thread():  # as in the cross-validation
            found = self.losses.get(size)
            soft = one_leaf(self.targets[OWN]) if size.leaves == 1 else self._trained(size)
            rows = leaf_rows(self._targets(size), size.candidate)
            strength: Any = shrinkage(self.config, found) if found or not size.formula else self._usual(size)
            formula = size.formula if isinstance(strength, Ridge) else None
            tree = finished_tree(soft, self.prepared, rows, self.config, strength, formula)
            link = {} if size.formula is None or not tree.is_classifier else {"link": tree.link}
            return replace(tree, **{**self.labels, **link})

    def _targets(self, size: TreeSize) -> Targets:
        """All rows with each kind of targets, for linear or for constant leaves."""
        return self.targets if size.candidate.linear else constant_targets(self.targets)

    def _usual(self, size: TreeSize) -> Ridge | float:
        """The strength of linear leaves where nothing was compared."""
        all_terms = size.formula == Formula(self.prepared.rows.n_terms, own=True)
        return shrinkage(self.config, None) if size.candidate.linear and all_terms else USUAL_RIDGE

    def _trained(self, size: TreeSize) -> SoftTree:
        """The splits of a size, trained on all rows."""
        splits = size.splits
        if splits in self.trained:
            return self.trained[splits]
        targets = self._targets(size)
        rows, starts = targets[size.candidate.targets], StartTrees(self.limits, self.seed)
        job = PathJob(rows, size.candidate, self.limits, starts, self.seed, only=splits)
        with closing(in_order(dict, [train_path(job)], 1)) as paths:  # in a thread, which Ctrl-C ends
            tree: SoftTree = next(paths)[splits]
        full = splits._replace(formula=Formula(self.prepared.rows.n_terms, own=True))
        if (found := self.losses.get(full if size.candidate.linear else splits)) is not None:
            tree = no_worse_than_held_out(tree, found, targets[OWN], rows)
        self.trained[splits] = tree
        return tree


def largest_size(rows: TrainingRows, limits: TreeLimits) -> TreeSize:
    """The most leaves and terms, of a candidate that is never far behind the best."""
    candidate = largest_candidate(rows, limits)
    return TreeSize(candidate, limits.max_leaves, 1 if candidate.start not in TRAINED else limits.max_terms)


def shrinkage(config: SmallTreeConfig, found: HeldOutLoss | None) -> float:
    """The strength of shrinkage, as given or with the least held-out loss."""
    if not isinstance(config.shrinkage, str) and (found is None or found.strengths is STRENGTHS):
        return float(config.shrinkage)
    return STRENGTH if found is None else found.strength


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
