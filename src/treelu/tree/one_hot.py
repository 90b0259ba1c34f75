"""One-hot groups in formulas: a yes/no column as one term, a category as one group of points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from treelu.tree.oblique_tree import ObliqueTree

YES = ("yes", "true", "1", "1.0", "y", "t", "ja", "wahr", "oui", "vrai", "si", "sí")


def one_hot_groups(tree: ObliqueTree) -> tuple[tuple[int, ...], ...]:
    """The groups of features of which exactly one was 1 in every training row, as the tree remembers them."""
    observed: Any = getattr(tree, "observed", None)
    return () if observed is None else observed.groups


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
        biases += _moved(weights, kept, gone)
        if leaf_weights is not None:
            values += _moved(leaf_weights, kept, gone)
    found: Any = sparse.csr_array(weights) if sparse.issparse(tree.weights) else weights
    return replace(tree, weights=found, biases=biases, values=values, leaf_weights=leaf_weights)


def _kept_first(tree: ObliqueTree, pair: tuple[int, int]) -> tuple[int, int]:
    """A pair with the feature that stays first: the one that means yes, else the second, as in x=no, x=yes."""
    first, second = pair
    ending = tree.feature_name(first).rpartition("=")[2].strip().lower()
    return (first, second) if ending in YES else (second, first)


def _moved(weights: np.ndarray, kept: int, gone: int) -> np.ndarray:
    """What joins the constants; the weights (…, features) are changed where both have one."""
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
