"""`SmallTreeConfig`, the parameters of a small tree's fit, and the limits that follow from them for some rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from joblib import effective_n_jobs

from treelu.training.small.rows import TrainingRows

LEAVES = 16  # at most by default, or twice the classes
MORE_LEAVES, MANY_ROWS = 32, 10_000  # of values, and the rows from which these are the most by default
DEEPEST = 62  # splits on a path of a tree that is trained
MOST_SCORES = 20_000  # leaves times outputs of a tree that is trained by gradients: by default 100 classes
UPDATES = 800
Show = Callable[[str], None]  # shows a line of progress


def silent(line: str) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class SmallTreeConfig:
    """Parameters of `fit_small_tree`, named and explained as those of :class:`treelu.ObliqueTreeClassifier`."""

    max_leaf_nodes: int | None = None
    max_depth: int | None = None
    max_terms: int | None = None
    min_samples_leaf: int = 2
    selection: str = "smallest"
    shrinkage: float | str = "auto"
    n_updates: int | str = "auto"
    round_weights: float | None = 0.0
    leaves: str = "auto"
    teacher: Any = "auto"
    n_jobs: int | None = None
    verbose: bool | int = False
    title: str = "small tree"

    @property
    def show(self) -> Show:
        """Prints a line, or nothing."""
        return partial(print, self.title) if self.verbose else silent

    @property
    def n_threads(self) -> int:
        """`n_jobs` as scikit-learn counts: None for one, −1 for all processors."""
        return int(effective_n_jobs(self.n_jobs))

    def updates(self, n_rows: int) -> int:
        """Updates of a training from the start, as given or by the number of rows."""
        if not isinstance(self.n_updates, str):
            return int(self.n_updates)
        return 600 if n_rows < 2_000 else 1_000 if n_rows < 10_000 else 2_000 if n_rows < 50_000 else 3_000

    def limits(self, rows: TrainingRows) -> TreeLimits:
        """The limits for trees of these rows."""
        n_rows, n_outputs = rows.target.shape
        usual = MORE_LEAVES if n_rows >= MANY_ROWS else LEAVES
        leaves = self.max_leaf_nodes or (max(LEAVES, 2 * n_outputs) if rows.is_classifier else usual)
        if self.max_leaf_nodes is None and self.max_depth is not None:
            leaves = min(leaves, 2 ** min(self.max_depth, 30))
        leaves = max(2, min(leaves, n_rows))
        terms = min(self.max_terms or rows.n_terms, rows.n_terms)
        return TreeLimits(leaves, self.max_depth, terms, self.min_samples_leaf, self.updates(n_rows))


@dataclass(frozen=True)
class TreeLimits:
    """The largest tree that is trained, and for how long.

    Attributes
    ----------
    max_leaves : int
    max_depth : int, optional
    max_terms : int
        Terms of a split.
    min_samples : int
        The least rows of a leaf.
    n_updates : int
        Updates of a training from the start; those of pruned trees are fewer.
    """

    max_leaves: int
    max_depth: int | None
    max_terms: int
    min_samples: int = 1
    n_updates: int = UPDATES

    @property
    def depth(self) -> int:
        """The most splits on a path of a tree that is trained."""
        return self.max_depth or DEEPEST

    def can_train(self, rows: TrainingRows) -> bool:
        """Whether a training takes seconds: each update costs leaves times outputs products for every row."""
        return self.max_leaves * rows.target.shape[1] <= MOST_SCORES
