"""The trees of a path of sizes of which only some are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from treelu.tree import ObliqueTree


class KnownTrees(Sequence[ObliqueTree]):
    """The trees of some rows of a path's table. The others were not trained, and asking for one is an error.

    Parameters
    ----------
    n_rows : int
        Of the table.
    trees : mapping of int to ObliqueTree
        The trees that are there, by row.
    """

    def __init__(self, n_rows: int, trees: Mapping[int, ObliqueTree]) -> None:
        self.n_rows, self.trees = n_rows, dict(trees)

    def __len__(self) -> int:
        return self.n_rows

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[i] for i in range(len(self))[row]]
        row = range(len(self))[row]
        if row not in self.trees:
            raise AttributeError(
                f"the tree of row {row} of path_ was not trained; `treelu fit` trains the chosen one "
                f"({', '.join(map(str, self.trees))}), and fit() of the estimator trains others when they are asked for"
            )
        return self.trees[row]

    def __setitem__(self, row: int, tree: ObliqueTree) -> None:
        self.trees[range(len(self))[row]] = tree


def known_trees(trees: Sequence[ObliqueTree]) -> dict[int, ObliqueTree]:
    """The trees by row; those of a path that trains on demand are trained."""
    return dict(trees.trees) if isinstance(trees, KnownTrees) else dict(enumerate(trees))


def changed_trees(
    trees: Sequence[ObliqueTree], change: Callable[[ObliqueTree], ObliqueTree]
) -> list[ObliqueTree] | KnownTrees:
    """A path with each of its trees changed."""
    if isinstance(trees, KnownTrees):
        return KnownTrees(len(trees), {row: change(tree) for row, tree in trees.trees.items()})
    return [change(tree) for tree in trees]
