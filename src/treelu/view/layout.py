"""Where the nodes of a binary tree go: geometry only, no meaning and no drawing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

Children = Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class Layout:
    """Positions of nodes: `column` counts from the root, `row` from the top; ends of branches are a row apart."""

    column: dict[int, int]
    row: dict[int, float]

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return max(self.column.values()) + 1

    @property
    def n_rows(self) -> int:
        """Number of rows: one for each end of a branch."""
        return round(max(self.row.values())) + 1


def layout(children: Children, root: int = 0) -> Layout:
    """Place a tree from left to right: every end of a branch on a row of its own, a parent half way between its two.

    Nodes of one column never come nearer than a row, two parents never nearer than two.

    Parameters
    ----------
    children : mapping of node to (upper child, lower child)
        Nodes that are not in it are ends.

    Examples
    --------
    >>> layout({0: (1, 2), 1: (3, 4)}).row
    {3: 0.0, 4: 1.0, 1: 0.5, 2: 2.0, 0: 1.25}
    """
    column, row = {root: 0}, {}
    stack, n_ends = [(root, False)], 0
    while stack:
        node, children_placed = stack.pop()
        if node not in children:
            row[node] = float(n_ends)
            n_ends += 1
        elif children_placed:
            upper, lower = children[node]
            row[node] = (row[upper] + row[lower]) / 2
        else:
            upper, lower = children[node]
            column[upper] = column[lower] = column[node] + 1
            stack += [(node, True), (lower, False), (upper, False)]
    return Layout(column, row)


def depth_that_fits(depths: np.ndarray, is_end: np.ndarray, most: int) -> int:
    """The largest depth at which a tree, cut there, has no more than ``most`` ends (but at least 1).

    Parameters
    ----------
    depths : int array of shape (n_nodes,)
        Depth of each node.
    is_end : bool array of shape (n_nodes,)
        Which nodes are leaves.

    Examples
    --------
    >>> depth_that_fits(np.array([0, 1, 1, 2, 2, 2, 2]), np.array([0, 0, 0, 1, 1, 1, 1]) == 1, most=3)
    1
    """
    best = 1
    for depth in range(1, int(depths.max(initial=0)) + 1):
        if int(((depths == depth) | ((depths < depth) & is_end)).sum()) > most:
            break
        best = depth
    return best
