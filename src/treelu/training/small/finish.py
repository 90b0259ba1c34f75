"""From a tree in training, on scaled features, to an ObliqueTree on the raw ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treelu.training.small.leaves import in_order, linear_leaves, shrunk_means
from treelu.training.small.soft_tree import Rows, SoftTree, node_sums, weighted_sums
from treelu.tree import ObliqueTree
from treelu.tree.check import as_csr

DIGITS = 12  # at most, of rounded weights
ROUNDING = 1e-6  # of weights in float32, as a share of them


@dataclass(frozen=True)
class Scale:
    """Which raw columns the trained tree reads, and their means and spreads.

    Attributes
    ----------
    columns : int array of shape (D,)
    mean, spread : float64 arrays of shape (D,)
    n_features : int
        Of the raw rows.
    """

    columns: NDArray[np.int64]
    mean: NDArray[np.float64]
    spread: NDArray[np.float64]
    n_features: int


def raw_tree(tree: SoftTree, scale: Scale, X: Any) -> ObliqueTree:
    """The questions on raw features, in float64; leaf values are zero.

    A question of one term becomes "x − threshold ≥ 0", with the threshold half way between the two nearest of the rows
    X that reach it. Any other question is divided by the spread of its value over the rows, and has the very weights of
    an earlier one from which only the rounding of float32 parts it, so that a reader meets them once.
    """
    weights = np.zeros((tree.n_splits, scale.n_features))
    weights[:, scale.columns] = tree.questions[:, :-1] / scale.spread
    biases = tree.questions[:, -1] - weights[:, scale.columns] @ scale.mean
    children = tree.children.copy()
    reached: dict[int, NDArray[np.int64]] = {0: np.arange(X.shape[0])}
    for node in range(tree.n_splits):
        rows = reached[node]
        used = np.flatnonzero(weights[node])
        if len(used) == 1:
            feature, falls = used[0], weights[node, used[0]] < 0
            threshold = -biases[node] / weights[node, feature]
            if falls:  # x ≤ threshold goes right; the other way round, x beyond it does
                threshold, children[node] = np.nextafter(threshold, np.inf), tree.children[node, ::-1]
            x = _columns(X, rows, used)[:, 0]
            weights[node, feature], biases[node] = 1.0, -_threshold(x, x >= threshold, threshold)
            right = x + biases[node] >= 0
        else:
            unit = np.std(_columns(X, slice(None), used) @ weights[node, used]) or 1.0
            weights[node] /= unit
            biases[node] /= unit
            alike = np.isclose(weights[:node], weights[node], rtol=ROUNDING, atol=0).all(axis=1)
            weights[node] = weights[alike.argmax()] if alike.any() else weights[node]
            right = _columns(X, rows, used) @ weights[node, used] + biases[node] >= 0
        reached[int(children[node, 0])], reached[int(children[node, 1])] = rows[~right], rows[right]
    kept: Any = sparse.csr_array(weights) if sparse.issparse(X) else weights
    return ObliqueTree(kept, biases, children, np.zeros((tree.n_leaves, 1)))


def _columns(X: Any, rows: Any, used: NDArray[np.int64]) -> NDArray[np.float64]:
    part: Any = X[rows][:, used]
    return as_csr(part).toarray() if sparse.issparse(part) else np.asarray(part, np.float64)


def _threshold(x: NDArray[np.float64], right: NDArray[np.bool_], default: float) -> float:
    """Half way between the largest value on the left and the smallest on the right."""
    if right.all() or not right.any():
        return float(default)
    low, high = x[~right].max(), x[right].min()
    middle = low + (high - low) / 2
    return float(middle if middle > low else high)


def leaf_values(
    tree: ObliqueTree,
    X: Any,
    target: NDArray[np.float64],
    weight: NDArray[np.float64],
    strength: float,
    is_classifier: bool,
    signs: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shrunk means of the targets (n, K) in the leaves, and the weight of the rows at each node.

    With `signs` (n_features,) the values are ordered, so that the output does not fall with a feature of sign 1 nor
    rise with one of sign −1.
    """
    leaf = tree.apply(X) - tree.n_splits
    unit = weight.mean()  # the strength is a number of rows
    sums, mass = weighted_sums(leaf, target, weight / unit, tree.n_leaves)
    _, counts = node_sums(tree.children, sums, mass)
    return values_of_sums(tree, sums, mass, strength, is_classifier, signs), counts * unit


def values_of_sums(
    tree: ObliqueTree,
    sums: NDArray[np.float64],
    mass: NDArray[np.float64],
    strength: float,
    is_classifier: bool,
    signs: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """`leaf_values` from the sums of the targets (leaves, K) and the weights (leaves,), whose unit is a row."""
    values = shrunk_means(tree.children, sums, mass, strength, is_classifier)
    if signs is None:
        return values
    weights: Any = tree.weights
    return in_order(tree.children, weights @ signs[:, None], np.ones(1), values, mass)


def linear_outputs(
    tree: ObliqueTree, X: Any, rows: Rows, scale: Scale, strength: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values (leaves, K) and weights (leaves, K, n_features) of linear leaves, on the raw features."""
    models = linear_leaves(tree.children, tree.apply(X) - tree.n_splits, rows, strength)
    slopes = models[:, :, :-1] / scale.spread
    weights = np.zeros((*slopes.shape[:2], scale.n_features))
    weights[:, :, scale.columns] = slopes
    return models[:, :, -1] - slopes @ scale.mean, weights


def rounded(tree: ObliqueTree, X: Any, most_changed: float) -> ObliqueTree:
    """The tree with weights and biases of as few significant digits as change the leaf of at most a share of the rows.

    Parameters
    ----------
    tree : ObliqueTree
    X : array or sparse matrix of shape (n, n_features)
    most_changed : float
        The largest share of the rows X that may come to another leaf, such as 0.0 for none.
    """
    leaves = tree.apply(X)
    for digits in range(1, DIGITS + 1):
        weights: Any = tree.weights.copy()
        if isinstance(weights, np.ndarray):
            weights = _significant(weights, digits)
        else:
            weights.data = _significant(weights.data, digits)
        short = replace(tree, weights=weights, biases=_significant(tree.biases, digits))
        changed = float((short.apply(X) != leaves).mean())
        if changed <= most_changed:
            note = f"weights rounded to {digits} digit{'' if digits == 1 else 's'}: {changed:.1%} of the training rows"
            return replace(short, notes=(*tree.notes, f"{note} come to another leaf"))
    return tree


def _significant(values: NDArray[np.float64], digits: int) -> NDArray[np.float64]:
    """Numbers rounded to a count of significant digits.

    Examples
    --------
    >>> _significant(np.array([0.012345, -98.7, 0.0]), 2).tolist()
    [0.012, -99.0, 0.0]
    """
    shown = [float(f"{value:.{digits - 1}e}") for value in values.ravel().tolist()]
    return np.array(shown, np.float64).reshape(values.shape)
