"""One-hot groups in formulas: a yes/no column as one term, a category as one group of points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from treelu.tree.columns import level_groups
from treelu.tree.names import AFFIRMATIVE

if TYPE_CHECKING:
    from treelu.tree.oblique_tree import ObliqueTree


def one_hot_groups(tree: ObliqueTree) -> tuple[tuple[int, ...], ...]:
    """The groups of features of which exactly one was 1 in every training row: levels of a data frame's categories, and
    others that the tree remembers.
    """
    groups = level_groups(tree.columns)
    taken = {feature for group in groups for feature in group}
    others = () if tree.observed is None else tree.observed.groups
    return (*groups, *(group for group in others if taken.isdisjoint(group)))


def named_groups(groups: Iterable[Sequence[int]], names: Sequence[str] | None) -> tuple[tuple[int, ...], ...]:
    """The groups whose names are those of a column's levels, as "colour=red" and "colour=blue".

    Examples
    --------
    >>> named_groups([(0, 1), (2, 3)], ["colour=red", "colour=blue", "a", "b"])
    ((0, 1),)
    """
    if names is None:
        return ()
    return tuple(tuple(group) for group in groups if group_name([names[j] for j in group]) is not None)


def categories(tree: ObliqueTree) -> tuple[tuple[int, ...], ...]:
    """The features of each category: one-hot groups with names of levels."""
    return named_groups(one_hot_groups(tree), tree.feature_names)


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
    >>> from treelu.tree import ObliqueTree
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
        biases += relative_to(weights, (kept, gone), gone)
        if leaf_weights is not None:
            values += relative_to(leaf_weights, (kept, gone), gone)
    found: Any = sparse.csr_array(weights) if sparse.issparse(tree.weights) else weights
    return replace(tree, weights=found, biases=biases, values=values, leaf_weights=leaf_weights)


def _kept_first(tree: ObliqueTree, pair: tuple[int, int]) -> tuple[int, int]:
    """A pair with the feature that stays first: the one that means yes, else the second, as in x=no, x=yes."""
    first, second = pair
    ending = tree.feature_name(first).rpartition("=")[2].strip().lower()
    return (first, second) if ending in AFFIRMATIVE else (second, first)


def relative_to(weights: np.ndarray, levels: Sequence[int], reference: int) -> np.ndarray:
    """Give a category's weights relative to that of one level, in place, where all have one; what joins the constants.

    Examples
    --------
    >>> weights = np.array([[2.0, -1.0], [2.0, 0.0]])
    >>> relative_to(weights, [0, 1], 0), weights
    (array([2., 0.]), array([[ 0., -3.],
           [ 2.,  0.]]))
    """
    columns = list(levels)
    constant = np.where((weights[..., columns] != 0).all(axis=-1), weights[..., reference], 0.0)
    weights[..., columns] -= constant[..., None]
    return constant


@dataclass(frozen=True)
class LevelSet:
    """A split by a set of a category's levels.

    Attributes
    ----------
    column : str
    levels : tuple of str
        The levels that it names.
    inside : bool
        Whether rows of these levels go right; otherwise all others do, with those of levels that training had not.
    """

    column: str
    levels: tuple[str, ...]
    inside: bool


def level_set(tree: ObliqueTree, node: int) -> LevelSet | None:
    """The set that a split of one category is; None for any other split.

    Examples
    --------
    >>> from treelu.tree import ObliqueTree
    >>> from treelu.tree.observed import Observed
    >>> seen = Observed.of(np.eye(3))
    >>> names = ["colour=red", "colour=blue", "colour=green"]
    >>> tree = ObliqueTree([[1.0, 0, 3]], [-0.5], [[1, 2]], [[0], [1]], feature_names=names, observed=seen)
    >>> level_set(tree, 0)
    LevelSet(column='colour', levels=('red', 'green'), inside=True)
    """
    weights, bias = tree.node_weights(node), float(tree.biases[node])
    used = set(np.flatnonzero(weights).tolist())
    if not used or group_name([tree.feature_name(j) for j in used]) is None:  # most splits, at little cost
        return None
    group = next((group for group in categories(tree) if used.issubset(group)), None)
    if group is None:
        return None
    inside = bias < 0
    named = group_name([tree.feature_name(j) for j in group if (weights[j] + bias >= 0) == inside])
    return None if named is None else LevelSet(named[0], tuple(named[1]), inside)


def group_name(names: Sequence[str]) -> tuple[str, list[str]] | None:
    """The name of a column and its categories, from names as "colour=red"; None where they are not such names.

    Examples
    --------
    >>> group_name(["colour=red", "colour=blue"]), group_name(["a", "b"])
    (('colour', ['red', 'blue']), None)
    """
    parts = [name.split("=", 1) for name in names]
    if not parts or any(len(part) != 2 for part in parts) or len({part[0] for part in parts}) != 1:
        return None
    return parts[0][0], [part[1] for part in parts]
