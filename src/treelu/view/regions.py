"""The regions of a tree's leaves in a rectangle of two features, as polygons: geometry only."""

from __future__ import annotations

import numpy as np

from treelu.tree import ObliqueTree


def leaf_polygons(tree: ObliqueTree, low: np.ndarray, high: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """The part of the rectangle ``low <= x <= high`` that belongs to each leaf, where that has an area.

    Returns
    -------
    list of (leaf counted from 0, corners of shape (n, 2) in order)

    Examples
    --------
    >>> tree = ObliqueTree([[1.0, -1.0]], [0.0], [[1, 2]], [[0], [1]])
    >>> [len(corners) for _, corners in leaf_polygons(tree, np.zeros(2), np.array([2.0, 1.0]))]
    [3, 4]
    """
    if tree.n_features != 2:
        raise ValueError(f"tree must have two features for a picture of its regions, got {tree.n_features}")
    corners = np.array([[low[0], low[1]], [high[0], low[1]], [high[0], high[1]], [low[0], high[1]]])
    least = 1e-14 * float(np.prod(high - low))
    found, stack = [], [(0, corners)]
    while stack:
        node, polygon = stack.pop()
        if node >= tree.n_splits:
            found.append((node - tree.n_splits, polygon))
            continue
        score = polygon @ tree.node_weights(node) + tree.biases[node]
        for side, child in enumerate(tree.children[node].tolist()):
            part = clipped(polygon, score if side else -score)
            if len(part) >= 3 and area(part) > least:
                stack.append((child, part))
    return sorted(found, key=lambda item: item[0])


def clipped(polygon: np.ndarray, score: np.ndarray) -> np.ndarray:
    """The part of a convex polygon where a linear function, given by its values at the corners, is not negative."""
    following, next_score = np.roll(polygon, -1, axis=0), np.roll(score, -1)
    corners = []
    for here, there, a, b in zip(polygon, following, score, next_score, strict=True):
        if a >= 0:
            corners.append(here)
        if min(a, b) < 0 < max(a, b):
            corners.append(here + a / (a - b) * (there - here))
    return np.array(corners)


def area(polygon: np.ndarray) -> float:
    """The area of a polygon (shoelace formula)."""
    x, y = (polygon - polygon[0]).T
    return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)
