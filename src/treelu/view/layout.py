"""Where the nodes of a tree go: geometry only, no meaning and no drawing.

All drawings use this one rule; the report page has it once more in JavaScript (`report/page/layout.js`), because its
branches open and close, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

Children = Mapping[int, tuple[int, ...]]


@dataclass(frozen=True)
class TreeLayout:
    """Positions of nodes: `level` counts from the root, `centre` is the middle of a node's box along its level.

    All boxes together reach from 0 to `extent`.
    """

    level: dict[int, int]
    centre: dict[int, float]
    extent: float


def layout(children: Children, breadth: Callable[[int], float], gap: float = 0.0, root: int = 0) -> TreeLayout:
    """Place the boxes of a tree: a parent half way between its first and its last child, no two boxes overlapping.

    The boxes below a node take a strip of their own along the levels; strips of siblings lie beside each other.

    Parameters
    ----------
    children : mapping of node to its children, two or more
        Nodes that are not in it are ends.
    breadth : callable
        How much of its level a node's box takes.
    gap : float
        What is left free between boxes.

    Examples
    --------
    >>> places = layout({0: (1, 2), 1: (3, 4)}, breadth=lambda node: 1.0)
    >>> places.centre
    {0: 1.75, 1: 1.0, 2: 2.5, 3: 0.5, 4: 1.5}
    >>> places.extent
    3.0
    """
    level = _levels(children, root)
    before = {node: breadth(node) / 2 for node in level}  # how far a node's strip reaches before its centre
    after = dict(before)
    offsets: dict[int, list[float]] = {}  # of a node's children from it
    parents = [node for node in level if node in children]  # each before its children
    for node in reversed(parents):
        below, places = children[node], [0.0]
        for child, following in pairwise(below):
            places.append(places[-1] + after[child] + gap + before[following])
        half = places[-1] / 2
        offsets[node] = [place - half for place in places]
        before[node] = max(before[node], half + before[below[0]])
        after[node] = max(after[node], half + after[below[-1]])
    centre = {root: before[root]}
    for node in parents:
        centre |= {child: centre[node] + offset for child, offset in zip(children[node], offsets[node], strict=True)}
    return TreeLayout(level, centre, before[root] + after[root])


def _levels(children: Children, root: int) -> dict[int, int]:
    """The level of each node, level by level."""
    level, found = {root: 0}, [root]
    for node in found:
        for child in children.get(node, ()):
            level[child] = level[node] + 1
            found.append(child)
    return level


def children_above(pairs: Iterable[Iterable[int]], depths: np.ndarray, max_depth: int) -> dict[int, tuple[int, int]]:
    """The children of a tree's splits above a depth: what is drawn of a tree that is cut there.

    Examples
    --------
    >>> children_above([[1, 2], [3, 4]], np.array([0, 1, 1, 2, 2]), max_depth=1)
    {0: (1, 2)}
    """
    return {node: (int(first), int(second)) for node, (first, second) in enumerate(pairs) if depths[node] < max_depth}


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
