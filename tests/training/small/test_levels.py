"""Categories in small trees: sets of levels against all subsets, terms as groups, the way back to raw columns."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from treelu.training.small.finish import raw_tree
from treelu.training.small.formulas import SCREENED, eliminated, screened
from treelu.training.small.growth import LEAST_ROWS
from treelu.training.small.leaf_models import LeafProblem, LeafRows, Ridge
from treelu.training.small.levels import Levels, level_scores, set_pair_tree, set_trees
from treelu.training.small.linear_models import strongest
from treelu.training.small.numbers import numbers_of
from treelu.training.small.rows import FeatureScale, TrainingRows, scaled_rows
from treelu.training.small.soft_tree import SoftTree, impurity, masked, with_values
from treelu.tree import ObliqueTree
from treelu.tree.to_read import split_numbers

GROUP = np.array([0, 0, 0, 0, 0, 0, 1, 2, 2, 2])  # a category of six levels, a number, a category of three


def some_levels(seed: int, n: int = 150, n_levels: int = 6) -> NDArray[np.int64]:
    """Levels of which each has at least `LEAST_ROWS` rows."""
    rng = np.random.default_rng(seed)
    level = np.concatenate([np.repeat(np.arange(n_levels), LEAST_ROWS), rng.integers(0, n_levels, n)])
    return rng.permutation(level)


def table(seed: int, is_classifier: bool, n_classes: int = 2) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Raw rows of `GROUP`, targets that follow the first category, and weights."""
    rng = np.random.default_rng(seed)
    level = some_levels(seed)
    n = len(level)
    X = np.hstack([np.eye(6)[level], rng.normal(size=(n, 1)), np.eye(3)[rng.integers(0, 3, n)]])
    effect = rng.normal(size=6)[level] + rng.normal(size=n) + X[:, 6]
    target = np.eye(n_classes)[np.digitize(effect, [0.0, 1.5][: n_classes - 1])] if is_classifier else effect[:, None]
    return X, target, rng.uniform(0.5, 2.0, n)


def rows_of(X: Any, target: Any, weight: Any, is_classifier: bool, group: Any) -> tuple[FeatureScale, TrainingRows]:
    scale, rows = scaled_rows(X, target, weight, is_classifier)
    return scale, replace(rows, group=group)


def gain(right: NDArray[np.bool_], rows: TrainingRows) -> float:
    """How much a split lowers the loss."""

    def lost(part: NDArray[np.bool_]) -> float:
        weight = rows.weight[part].astype(float)
        sums = (rows.target[part] * weight[:, None]).sum(axis=0, keepdims=True)
        return float(impurity(sums, weight.sum(keepdims=True), rows.is_classifier)[0])

    return lost(np.ones(len(right), bool)) - lost(right) - lost(~right)


@pytest.mark.parametrize("is_classifier", [True, False])
@given(seed=st.integers(0, 10_000), n_levels=st.integers(2, 6))
@settings(max_examples=40, deadline=None)
def test_the_best_set_is_that_of_all_subsets(is_classifier: bool, seed: int, n_levels: int) -> None:
    rng = np.random.default_rng(seed)
    level = some_levels(seed, n_levels=n_levels)
    effect = rng.normal(size=n_levels)[level] + rng.normal(size=len(level))
    target = np.eye(2)[(effect > 0).astype(int)] if is_classifier else effect[:, None]
    weight = rng.uniform(0.5, 2.0, len(level))
    _, rows = rows_of(np.eye(n_levels)[level], target, weight, is_classifier, np.zeros(n_levels, np.int64))
    subsets = chain(*(combinations(range(1, n_levels), size) for size in range(1, n_levels)))
    best = max(gain(np.isin(level, subset), rows) for subset in subsets)
    (tree,) = set_trees(rows, [2])
    leaf = tree.apply(rows.X)
    assert gain(leaf == 1, rows) == pytest.approx(best, rel=1e-6, abs=1e-6)
    assert all(len(np.unique(leaf[level == one])) == 1 for one in range(n_levels))
    assert 1 <= np.count_nonzero(tree.splits[0, :-1]) <= n_levels // 2  # the smaller set is named


def test_the_best_set_of_three_classes_whose_levels_lie_on_a_line() -> None:
    """Then the first principal component orders levels as any of their probabilities does."""
    share = np.array([0.1, 0.9, 0.3, 0.7, 0.5])
    counts = np.column_stack([share, 0.6 * (1 - share), 0.4 * (1 - share)]) * 1000
    level, label = (part.ravel() for part in np.indices(counts.shape))
    repeats = counts.round().astype(int).ravel()
    level, label = np.repeat(level, repeats), np.repeat(label, repeats)
    _, rows = rows_of(np.eye(5)[level], np.eye(3)[label], np.ones(len(level)), True, np.zeros(5, np.int64))
    subsets = chain(*(combinations(range(1, 5), size) for size in range(1, 5)))
    best = max(gain(np.isin(level, subset), rows) for subset in subsets)
    (tree,) = set_trees(rows, [2])
    assert gain(tree.apply(rows.X) == 1, rows) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("n_classes", [0, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_levels_does_not_matter(n_classes: int, seed: int) -> None:
    X, target, weight = table(seed, n_classes > 0, n_classes)
    order = np.concatenate([np.random.default_rng(seed).permutation(6), 6 + np.arange(4)])
    _, rows = rows_of(X, target, weight, n_classes > 0, GROUP)
    _, turned = rows_of(X[:, order], target, weight, n_classes > 0, GROUP)
    for tree, other in zip(set_trees(rows, [2, 4, 7]), set_trees(turned, [2, 4, 7]), strict=True):
        together = tree.apply(rows.X) * 100 + other.apply(turned.X)
        assert len(np.unique(together)) == tree.n_leaves == other.n_leaves


def test_scores_of_levels_follow_their_means() -> None:
    rng = np.random.default_rng(0)
    mass, sums = rng.uniform(1, 5, 6), rng.normal(size=(6, 1))
    assert np.argsort(level_scores(sums, mass)).tolist() == np.argsort(sums[:, 0] / mass).tolist()
    two = np.column_stack([mass - sums[:, 0], sums[:, 0]])
    order = np.argsort(level_scores(two, mass)).tolist()
    assert order in (np.argsort(sums[:, 0] / mass).tolist(), np.argsort(-sums[:, 0] / mass).tolist())


@pytest.mark.parametrize("is_classifier", [True, False])
def test_trees_of_sets_and_pairs_keep_to_their_terms(is_classifier: bool) -> None:
    _, rows = rows_of(*table(1, is_classifier), is_classifier, GROUP)
    (tree,) = set_trees(rows, [8])
    assert tree.n_leaves == 8
    assert tree.max_terms == 1 < np.count_nonzero(tree.splits[:, :-1], axis=1).max()
    pairs = set_pair_tree(rows, 6)
    assert pairs.max_terms == 2
    for allowed in pairs.allowed[:, :-1] > 0:  # all levels of a category or none
        assert all(len(np.unique(allowed[term == GROUP])) == 1 for term in range(3))


@given(seed=st.integers(0, 1000), most=st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_masked_splits_keep_whole_categories(seed: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    _, rows = rows_of(*table(0, True), True, GROUP)
    splits = rng.normal(size=(3, 11)).astype(np.float32)
    values = np.zeros((4, 2), np.float32)
    tree = with_values(SoftTree(np.array([[1, 2], [3, 4], [5, 6]]), splits, values, np.ones_like(splits)), rows)
    small = masked(tree, most)
    assert small.max_terms == most
    for before, after in zip(splits[:, :-1], small.splits[:, :-1], strict=True):
        norms = np.array([np.linalg.norm(before[term == GROUP]) for term in range(3)])
        kept = np.isin(GROUP, np.argsort(-norms)[:most])
        np.testing.assert_array_equal(after, np.where(kept, before, 0))
    alone = masked(replace(tree, group=None), most)
    assert np.count_nonzero(alone.splits[:, :-1], axis=1).tolist() == [most] * 3


def test_the_strongest_terms_of_a_linear_model() -> None:
    scores = np.zeros((11, 2))
    scores[[0, 1, 6, 7], 1] = 3.0, 3.0, 4.0, 1.0  # norms 4.24, 4, 1
    assert strongest(scores, 2, False, GROUP).tolist() == list(range(7))
    assert strongest(scores, 2, False).tolist() == [0, 6]


@pytest.mark.parametrize("own", [False, True])
def test_a_category_is_as_important_as_the_loss_without_it(own: bool) -> None:
    """Against fits without all its columns."""
    X, target, weight = table(2, False)
    leaf = (X[:, 6] > 0).astype(np.int64)
    X = np.column_stack([X, np.ones(len(X))])
    rows = LeafRows(X, target, weight, leaf, np.array([[1, 2]]), False)
    ridge, problem = Ridge(0.5, 2.0), LeafProblem(rows, own)
    theta = problem.solve(ridge)

    def loss(problem: LeafProblem, theta: NDArray[np.float64]) -> float:
        squares = (problem.weight * (problem.scores(theta) - problem.target) ** 2).sum()
        return float(squares + (theta * (problem.penalty(ridge) @ theta)).sum())

    def rise(term: int) -> float:
        part = LeafProblem(rows._replace(X=X[:, [*np.flatnonzero(term != GROUP), -1]]), own)
        return loss(part, part.solve(ridge)) - loss(problem, theta)

    rises = [rise(term) for term in range(3)]
    inverse = np.linalg.inv(problem.bound(problem.penalty(ridge)))
    np.testing.assert_allclose(problem.importances(theta, inverse, GROUP), rises, rtol=1e-6)
    kept = [features.tolist() for _, features, _ in eliminated(problem, theta, ridge, [2, 1], GROUP)]
    assert kept[0] == np.flatnonzero(int(np.argmin(rises)) != GROUP).tolist()
    assert len(np.unique(GROUP[kept[1]])) == 1


def test_formulas_choose_from_whole_categories() -> None:
    group = np.repeat(np.arange(60), 4)
    strength = np.zeros(240)
    strength[::4] = np.arange(60)
    found = screened(strength, group)
    assert found.tolist() == np.flatnonzero(group >= 60 - SCREENED // 4).tolist()
    assert screened(np.ones(200), np.zeros(200, np.int64)).tolist() == list(range(200))


def soft_tree(split: NDArray[np.float64], rows: TrainingRows) -> SoftTree:
    splits = split[None].astype(np.float32)
    return with_values(
        SoftTree(np.array([[1, 2]]), splits, np.zeros((2, rows.target.shape[1]), np.float32), np.ones_like(splits)),
        rows,
    )


@given(seed=st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_a_split_of_one_category_becomes_a_set(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, target, weight = table(seed % 7, True)
    scale, rows = rows_of(X, target, weight, True, GROUP)
    split = np.zeros(11)
    split[:6], split[-1] = rng.normal(size=6), rng.normal() / 3
    soft = soft_tree(split, rows)
    leaf = soft.apply(rows.X)
    tree = raw_tree(soft, scale, X, group=GROUP)
    np.testing.assert_array_equal(tree.apply(X) - 1, leaf)
    if len(np.unique(leaf)) == 2:
        named = np.flatnonzero(tree.weights[0])
        assert np.asarray(tree.weights)[0, named].tolist() == [1.0] * len(named)
        assert tree.biases.tolist() == [-0.5]
        assert 1 <= len(named) <= 3
        assert numbers_of(soft, 2, is_classifier=True) >= split_numbers(np.asarray(tree.weights), GROUP) + 2


@given(seed=st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_weights_are_relative_to_the_most_frequent_level(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, target, weight = table(seed % 7, True)
    scale, rows = rows_of(X, target, weight, True, GROUP)
    soft = soft_tree(rng.normal(size=11), rows)
    tree = raw_tree(soft, scale, X, group=GROUP)
    plain: ObliqueTree = raw_tree(soft, scale, X)
    np.testing.assert_array_equal(tree.apply(X), plain.apply(X))
    used = np.asarray(tree.weights)[0] != 0
    if used.sum() == 8:  # no redundant terms
        assert not used[X[:, :6].sum(axis=0).argmax()]
        assert numbers_of(soft, 2, is_classifier=True) == 8 + 1 + 2


@given(seed=st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_a_set_has_the_rows_of_its_split(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, target, weight = table(seed % 7, True)
    _, rows = rows_of(X, target, weight, True, GROUP)
    split = np.zeros(11)
    split[:6], split[-1] = rng.normal(size=6), rng.normal()
    scaled = rows.X.astype(np.float64)
    found = Levels.of(rows).as_set(split, np.arange(6), np.ones(6, bool))
    np.testing.assert_array_equal(scaled @ found >= 0, scaled @ split >= 0)


def test_levels_that_no_row_has_at_a_node_are_not_named() -> None:
    _, rows = rows_of(*table(0, True), True, GROUP)
    levels = Levels.of(rows)
    split = np.zeros(11)
    split[:6] = (np.array([1.0, 1, 1, -1, -1, -1]) / levels.step[:6]).round(6)
    split[-1] = -split[:6] @ levels.low[:6]
    found = levels.as_set(split, np.arange(6), np.array([True, False, False, True, True, False]))
    assert np.flatnonzero(found[:-1]).tolist() == [0]
    inside = found[:6] * levels.step[:6] + found[-1] + found[:6] @ levels.low[:6] >= 0
    assert inside.tolist() == [True, False, False, False, False, False]
