"""Where a small tree starts: random questions, or an ordinary tree; `growth` has others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treelu.training.small.soft_tree import FLOAT, Rows, SoftTree, no_values, with_values

START_SPREAD = 0.5  # of z, in random questions


def complete_children(depth: int) -> NDArray[np.int64]:
    """Children of a complete tree, level by level.

    Examples
    --------
    >>> complete_children(2).tolist()
    [[1, 2], [3, 4], [5, 6]]
    """
    first = 2 * np.arange(2**depth - 1, dtype=np.int64) + 1
    return np.column_stack([first, first + 1])


def random_tree(rows: Rows, depth: int, rng: np.random.Generator) -> SoftTree:
    """A complete tree of random questions through the middle of the rows."""
    weights = rng.normal(size=(2**depth - 1, rows.n_features)).astype(FLOAT)
    spread = (rows.X[:, :-1] @ weights.T).std(axis=0)[:, None]
    weights *= START_SPREAD / np.maximum(spread, 1e-6)
    questions = np.column_stack([weights, np.zeros(len(weights), FLOAT)])
    return with_values(
        SoftTree(complete_children(depth), questions, no_values(len(weights), rows), np.ones_like(questions)), rows
    )


def axis_tree(
    rows: Rows,
    children: NDArray[np.int64],
    feature: NDArray[np.int64],
    threshold: NDArray[np.float64],
    steepness: float,
) -> SoftTree:
    """An ordinary tree on scaled rows: right where `steepness` · (x_feature − threshold) ≥ 0.

    Where the output must not rise with a feature, sides are exchanged and the weight is negative.
    """
    steep = np.full(len(children), steepness)
    if rows.signs is not None:
        falls = rows.signs[feature] < 0
        steep[falls] *= -1
        children = np.where(falls[:, None], children[:, ::-1], children)
    questions = np.zeros((len(children), rows.n_features + 1), FLOAT)
    questions[np.arange(len(children)), feature] = steep
    questions[:, -1] = -steep * threshold
    allowed = (questions != 0).astype(FLOAT)
    allowed[:, -1] = 1
    return with_values(SoftTree(children, questions, no_values(len(children), rows), allowed), rows)
