"""One-hot groups in formulas: a yes/no column as one term, a category as one group of points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from treelu.tree.names import AFFIRMATIVE
from treelu.tree.oblique_tree import ObliqueTree


def one_hot_groups(tree: ObliqueTree) -> tuple[tuple[int, ...], ...]:
    """The groups of features of which exactly one was 1 in every training row, as the tree remembers them."""
    return () if tree.observed is None else tree.observed.groups


def one_hot_pairs(X: Any, features: Sequence[int]) -> list[tuple[int, int]]:
    """Neighbours among some features of which exactly one is 1 in every row of X, and the other 0.

    Examples
    --------
    >>> one_hot_pairs(np.array([[1, 0, 5], [0, 1, 0]]), [0, 1, 2])
    [(0, 1)]
    """
    columns: Any = X
    if sparse.issparse(X) and len(features) > 1:
        columns = columns.tocsc()
    found: list[tuple[int, int]] = []
    before, taken = None, -1
    for feature in sorted(features):
        values = columns[:, [feature]].toarray()[:, 0] if sparse.issparse(X) else columns[:, feature]
        binary = bool(((values == 0) | (values == 1)).all())
        if binary and before is not None and feature - 1 not in (-1, taken) and (before + values == 1).all():
            found.append((feature - 1, feature))
            taken = feature
        before = values if binary and feature + 1 in features else None
    return found


def pairs_as_one_term(tree: ObliqueTree, groups: Iterable[Sequence[int]]) -> ObliqueTree:
    """The tree with one term where both features of a pair carry weights, as x=yes and x=no do.

    As the two add up to 1, w·yes + v·no is (w − v)·yes + v; v joins the threshold of a split or the constant of a leaf.
    Scores are the same for every row in which exactly one of the two is 1, but for the rounding of sums.

    Parameters
    ----------
    tree : ObliqueTree
    groups : sequence of sequences of int
        One-hot groups; those of more than two features are left as they are.

    Examples
    --------
    >>> names = ["paid=no", "paid=yes", "age"]
    >>> tree = ObliqueTree([[2.0, -1.0, 3.0]], [0.5], [[1, 2]], [[0], [1]], feature_names=names)
    >>> merged = pairs_as_one_term(tree, [(0, 1)])
    >>> merged.weights, merged.biases
    (array([[ 0., -3.,  3.]]), array([2.5]))
    """
    pairs = [(group[0], group[1]) for group in groups if len(group) == 2]
    used = set(tree.used_features().tolist())
    pairs = [_kept_first(tree, pair) for pair in pairs if used.issuperset(pair)]
    if not pairs:
        return tree
    weights: Any = tree.weights.toarray() if sparse.issparse(tree.weights) else np.array(tree.weights)
    biases, values = np.array(tree.biases), np.array(tree.values)
    leaf_weights = None if tree.leaf_weights is None else np.array(tree.leaf_weights)
    for kept, gone in pairs:
        biases += one_term(weights, kept, gone)
        if leaf_weights is not None:
            values += one_term(leaf_weights, kept, gone)
    found: Any = sparse.csr_array(weights) if sparse.issparse(tree.weights) else weights
    return replace(tree, weights=found, biases=biases, values=values, leaf_weights=leaf_weights)


def _kept_first(tree: ObliqueTree, pair: tuple[int, int]) -> tuple[int, int]:
    """A pair with the feature that stays first: the one that means yes, else the second, as in x=no, x=yes."""
    first, second = pair
    ending = tree.feature_name(first).rpartition("=")[2].strip().lower()
    return (first, second) if ending in AFFIRMATIVE else (second, first)


def one_term(weights: np.ndarray, kept: int, gone: int) -> np.ndarray:
    """Give one of two features the weight of both, in place, where both have one; what joins the constants.

    Examples
    --------
    >>> weights = np.array([[2.0, -1.0], [2.0, 0.0]])
    >>> one_term(weights, 1, 0), weights
    (array([2., 0.]), array([[ 0., -3.],
           [ 2.,  0.]]))
    """
    both = (weights[..., kept] != 0) & (weights[..., gone] != 0)
    constant = np.where(both, weights[..., gone], 0.0)
    weights[..., kept] -= constant
    weights[..., gone] = np.where(both, 0.0, weights[..., gone])
    return constant


def group_name(names: Sequence[str]) -> tuple[str, list[str]] | None:
    """The name of a column and its categories, from names as "colour=red"; None where they are not such names.

    Examples
    --------
    >>> group_name(["colour=red", "colour=blue"]), group_name(["a", "b"])
    (('colour', ['red', 'blue']), None)
    """
    parts = [name.split("=", 1) for name in names]
    if any(len(part) != 2 for part in parts) or len({part[0] for part in parts}) != 1:
        return None
    return parts[0][0], [part[1] for part in parts]
