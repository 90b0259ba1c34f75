"""From a tree in training, on scaled features, to an ObliqueTree on the raw ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treelu.training.small.config import SmallTreeConfig
from treelu.training.small.formulas import formula_models
from treelu.training.small.leaves import STRENGTH, in_order, linear_leaves, shrunk_means
from treelu.training.small.monotone import directions
from treelu.training.small.path import Formula
from treelu.training.small.redundant import without_redundant_terms
from treelu.training.small.rows import FeatureScale, PreparedData, TrainingRows
from treelu.training.small.soft_tree import SoftTree, weighted_sums
from treelu.tree import ObliqueTree, terms
from treelu.tree.check import as_csr
from treelu.tree.one_hot import one_hot_pairs, relative_to
from treelu.tree.prune import rebuilt
from treelu.tree.rows import leaf_counts

DIGITS = 12  # at most, of rounded weights
ROUNDING = 1e-6  # the relative error of weights in float32


def finished_tree(
    tree: SoftTree,
    prepared: PreparedData,
    leaf_rows: TrainingRows,
    config: SmallTreeConfig,
    strength: Any,
    formula: Formula | None = None,
) -> ObliqueTree:
    """The tree on the raw features: rounded, with leaf values and counts of all rows, in the units of the targets.

    `leaf_rows` have the targets of linear leaves; `strength` is that of the shrinkage, or the ridge of a formula.
    """
    data, scale = prepared.data, prepared.scale
    raw = raw_tree(tree, scale, data.X, data.signs, data.group)
    if config.round_weights is not None:
        raw = rounded(raw, data.X, config.round_weights)
    raw = without_small_leaves(raw, data.X, config.min_samples_leaf)
    shrinkage = STRENGTH if formula is not None else strength
    raw = with_leaf_values(raw, data.X, data.target, data.weight, shrinkage, data.is_classifier, data.signs)
    if formula is not None:
        direction = None if data.signs is None else directions(raw.weights, data.signs)
        leaf = raw.apply(data.X) - raw.n_splits
        models = formula_models(prepared.rows, leaf, raw.children, formula, strength, direction)
        raw = with_models(raw, models, scale, data.is_classifier, references(data.X, data.group))
    elif leaf_rows.linear:
        (models,) = linear_leaves(raw.children, raw.apply(data.X) - raw.n_splits, leaf_rows, [strength])
        raw = with_models(raw, models, scale, data.is_classifier, references(data.X, data.group))
    return prepared.decoded(raw)


def raw_tree(
    tree: SoftTree, scale: FeatureScale, X: Any, signs: NDArray[np.float64] | None = None, group: terms.Group = None
) -> ObliqueTree:
    """The splits on raw features, in float64, without redundant terms; leaf values are zero.

    A split of one term becomes "x − threshold ≥ 0", with the threshold half way between the two nearest of the rows
    X that reach it. Any other split is divided by the spread of its value over the rows. Splits that only the
    rounding of float32 parts have the very same weights, so that a reader meets them once. Of two features that are a
    yes/no column (one of them 1 in every row) one has the weight of both, unless their signs are given. A category of
    which all levels have weights gets them relative to its most frequent level, and a split of one category alone
    becomes one by a set of levels.
    """
    weights = np.zeros((tree.n_splits, scale.n_features))
    weights[:, scale.columns] = tree.splits[:, :-1] / scale.spread
    biases = tree.splits[:, -1] - weights[:, scale.columns] @ scale.mean
    free = weights.any(axis=0) if signs is None else weights.any(axis=0) & (signs == 0)
    for first, second in one_hot_pairs(X, np.flatnonzero(free).tolist()):
        biases += relative_to(weights, (first, second), first)
    for levels, reference in references(X, group).items():
        biases += relative_to(weights, levels, reference)
    reached = _reached(tree.children, weights, biases, X)
    children = tree.children.copy()
    spread = np.zeros(scale.n_features)
    spread[scale.columns] = scale.spread
    for nodes, sizes in _alike(tree.splits[:, :-1].astype(np.float64)):  # scaled: no unit is too large
        used = np.flatnonzero(weights[nodes[0]])
        tables = [_columns(X, reached[node], used) for node in nodes]
        biases[nodes] *= sizes[0] / sizes
        common, biases[nodes] = without_redundant_terms(weights[nodes[0], used], biases[nodes], spread[used], tables)
        weights[np.ix_(nodes, used)] = common
        left = np.flatnonzero(common)
        if group is not None and _split_by_sets(nodes, group, weights, biases, children, X, reached):
            continue
        if len(left) != 1:
            unit = np.std(X @ weights[nodes[0]]) or 1.0
            weights[nodes] /= unit
            biases[nodes] /= unit
            continue
        for node, table in zip(nodes, tables, strict=True):
            if common[left[0]] < 0:
                children[node] = tree.children[node, ::-1]
            weights[node, used[left]] = 1.0
            biases[node] = -_nearest_threshold(common[left[0]], biases[node], table[:, left[0]])
    kept: Any = sparse.csr_array(weights) if sparse.issparse(X) else weights
    return ObliqueTree(kept, biases, children, np.zeros((tree.n_leaves, 1)))


def references(X: Any, group: terms.Group) -> dict[tuple[int, ...], int]:
    """The levels of each category, and the most frequent one; of two the first."""
    if group is None:
        return {}
    counts = np.asarray(X.sum(axis=0)).ravel()
    parts = [part for part in terms.members(group) if len(part) > 1]
    return {tuple(part.tolist()): int(part[0 if len(part) == 2 else counts[part].argmax()]) for part in parts}


def _split_by_sets(
    nodes: NDArray[np.int64],
    group: NDArray[np.int64],
    weights: NDArray[np.float64],
    biases: NDArray[np.float64],
    children: NDArray[np.int64],
    X: Any,
    reached: Mapping[int, NDArray[np.int64]],
) -> bool:
    """Write splits of one category, in place, as x ≥ ½ for the sum x of the levels on their side of fewer; whether they
    are such splits.

    Levels that no row has there are on the other side.
    """
    used = np.flatnonzero(weights[nodes[0]])
    levels = np.flatnonzero(group == group[used[0]])
    if len(used) < 2 or not np.isin(used, levels).all():
        return False
    for node in nodes:
        inside = weights[node, levels] + biases[node] >= 0
        present = _columns(X, reached[node], levels).any(axis=0)
        sides = inside & present, ~inside & present
        if not (sides[0].any() and sides[1].any()):
            continue
        is_left = int(sides[0].sum() > sides[1].sum())
        weights[node, levels], biases[node] = sides[is_left], -0.5
        if is_left:
            children[node] = children[node, ::-1]
    return True


def _reached(
    children: NDArray[np.int64], weights: NDArray[np.float64], biases: NDArray[np.float64], X: Any
) -> dict[int, NDArray[np.int64]]:
    """The rows of X that reach each node."""
    reached: dict[int, NDArray[np.int64]] = {0: np.arange(X.shape[0])}
    for node, (left, right) in enumerate(children.tolist()):
        rows = reached[node]
        yes = (X @ weights[node] + biases[node])[rows] >= 0
        reached[left], reached[right] = rows[~yes], rows[yes]
    return reached


def _alike(splits: NDArray[np.float64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Splits (S, D) of the same direction, and the lengths of their weights."""
    sizes = np.linalg.norm(splits, axis=1)
    sizes[sizes == 0] = 1.0
    directions = splits / sizes[:, None]
    waiting = np.arange(len(splits))
    while len(waiting):
        same = np.isclose(directions[waiting], directions[waiting[0]], rtol=ROUNDING, atol=0).all(axis=1)
        yield waiting[same], sizes[waiting[same]]
        waiting = waiting[~same]


def _columns(X: Any, rows: NDArray[np.int64], used: NDArray[np.int64]) -> NDArray[np.float64]:
    if isinstance(X, np.ndarray):
        return np.asarray(X[rows] if len(used) == X.shape[1] else X[np.ix_(rows, used)], np.float64)
    return as_csr(X[rows][:, used]).toarray()


def _nearest_threshold(weight: float, bias: float, x: NDArray[np.float64]) -> float:
    """The threshold of weight · x + bias ≥ 0, half way between the two nearest of x."""
    threshold = -bias / weight
    if weight < 0:  # x ≤ threshold is the other side; x beyond it has to be right
        threshold = np.nextafter(threshold, np.inf)
    right = x >= threshold
    if right.all() or not right.any():
        return float(threshold)
    low, high = x[~right].max(), x[right].min()
    middle = low + (high - low) / 2
    return float(middle if middle > low else high)


def with_leaf_values(
    tree: ObliqueTree,
    X: Any,
    target: NDArray[np.float64],
    weight: NDArray[np.float64],
    strength: float,
    is_classifier: bool,
    signs: NDArray[np.float64] | None = None,
) -> ObliqueTree:
    """The tree with shrunk means of the targets (n, K) in the leaves, and with the rows at each node counted.

    With `signs` (n_features,) the values are ordered, so that the output does not fall with a feature of sign 1 nor
    rise with one of sign −1.
    """
    leaf = tree.apply(X) - tree.n_splits
    unit = weight.mean()  # the strength is a number of rows
    sums, mass = weighted_sums(leaf, target, weight / unit, tree.n_leaves)
    values = values_of_sums(tree, sums, mass, strength, is_classifier, signs)
    return replace(tree, values=values).with_leaf_counts(*leaf_counts(leaf, weight, tree.n_leaves))


def values_of_sums(
    tree: ObliqueTree,
    sums: NDArray[np.float64],
    mass: NDArray[np.float64],
    strength: float,
    is_classifier: bool,
    signs: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """The values from the sums of the targets (leaves, K) and the weights (leaves,), whose unit is a row."""
    values = shrunk_means(tree.children, sums, mass, strength, is_classifier)
    if signs is None:
        return values
    return in_order(tree.children, tree.weights, signs, values, mass)


def with_models(
    tree: ObliqueTree,
    models: NDArray[np.float64],
    scale: FeatureScale,
    is_classifier: bool,
    categories: Mapping[tuple[int, ...], int] = MappingProxyType({}),
) -> ObliqueTree:
    """The tree with linear leaves: models (leaves, K, D + 1) of the scaled features, on the raw ones.

    Weights of categories are relative to their `references`. Scores of classes get their link, and numbers for the
    names of the classes.
    """
    coefficients = models[:, :, :-1] / scale.spread
    weights = np.zeros((*coefficients.shape[:2], scale.n_features))
    weights[:, :, scale.columns] = coefficients
    values = models[:, :, -1] - (coefficients * scale.mean).sum(axis=2)  # equal slopes: rounded alike
    for levels, reference in categories.items():
        values += relative_to(weights, levels, reference)
    if not is_classifier:
        return replace(tree, values=values, leaf_weights=weights)
    n_scores = values.shape[1]
    link, classes = ("logistic", np.arange(2)) if n_scores == 1 else ("softmax", np.arange(n_scores))
    return replace(tree, values=values, leaf_weights=weights, link=link, classes=classes)


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
            note = f"weights rounded to {digits} digit{'' if digits == 1 else 's'}: "
            note += f"{changed:.1%} of the training rows come" if changed else "no training row comes"
            return replace(short, notes=(*tree.notes, f"{note} to another leaf"))
    return tree


def without_small_leaves(tree: ObliqueTree, X: Any, least: int) -> ObliqueTree:
    """The tree without leaves that fewer than `least` of the rows X reach: a sibling takes its parent's place.

    Trees in training keep to that too, but on scaled rows in float32, and before weights are rounded.
    """
    while tree.n_splits:
        counts = np.bincount(tree.apply(X) - tree.n_splits, minlength=tree.n_leaves)
        leaf = int(counts.argmin())
        if counts[leaf] >= least:
            break
        ((parent, side),) = np.argwhere(tree.children == tree.n_splits + leaf)
        stands_for = np.arange(tree.n_nodes)
        stands_for[parent] = tree.children[parent, 1 - side]
        tree = rebuilt(tree, stands_for)
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
