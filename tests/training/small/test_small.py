"""Small trees in training: pruning, fewer terms, shrinkage, the way back to raw features."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from treelu import ObliqueTreeClassifier
from treelu.nn.soft_training import SoftTraining
from treelu.training.small.config import TreeLimits
from treelu.training.small.cross_validation import HeldOutLoss, add_loss, cross_validate, no_worse_than_held_out
from treelu.training.small.finish import raw_tree, rounded, without_small_leaves
from treelu.training.small.growth import LEAST_ROWS, RIDGE, linear_tree
from treelu.training.small.leaves import STRENGTHS, outputs_by_strength, shrunk_means
from treelu.training.small.path import (
    CONSTANT,
    OWN,
    TEACHER,
    TRAINED,
    Candidate,
    TreeSize,
    _training,
    sizes,
    term_ladder,
)
from treelu.training.small.prune import pruned
from treelu.training.small.rows import FeatureScale, TrainingRows
from treelu.training.small.selection import chosen_size
from treelu.training.small.soft_tree import SoftTree, masked, trained
from treelu.training.small.starts import StartTrees, random_tree
from treelu.tree import ObliqueTree


def some_rows(n: int = 200, d: int = 3, seed: int = 0, is_classifier: bool = True) -> TrainingRows:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, d)), np.ones(n)]).astype(np.float32)
    target = np.eye(2, dtype=np.float32)[(X[:, 0] * X[:, 1] > 0).astype(int)] if is_classifier else X[:, :1] ** 2
    return TrainingRows(X, np.ascontiguousarray(target), rng.uniform(0.5, 2, n).astype(np.float32), is_classifier)


def some_tree(rows: TrainingRows, depth: int = 4, seed: int = 0) -> SoftTree:
    return random_tree(rows, depth, np.random.default_rng(seed))


@given(st.integers(0, 100), st.integers(1, 20), st.integers(0, 40), st.booleans())
@settings(max_examples=40, deadline=None)
def test_pruned_trees_keep_to_their_limits(seed: int, max_leaves: int, least: int, is_classifier: bool) -> None:
    rows = some_rows(seed=seed, is_classifier=is_classifier)
    small = pruned(some_tree(rows, seed=seed), rows, max_leaves, least)
    counts = np.bincount(small.apply(rows.X), minlength=small.n_leaves)
    assert small.n_leaves <= max_leaves
    assert counts.min() >= min(least, len(rows))
    assert sorted(small.children.ravel().tolist()) == list(range(1, 2 * small.n_splits + 1))
    assert (small.children > np.arange(small.n_splits)[:, None]).all()


def test_pruning_takes_the_question_that_costs_least() -> None:
    """Against each way to close one split, by the entropy of all leaves."""
    rows = some_rows()
    tree = pruned(some_tree(rows, depth=3), rows, 8)
    small = pruned(tree, rows, tree.n_leaves - 1)

    def loss(leaf: np.ndarray) -> float:
        total = 0.0
        for one in np.unique(leaf):
            inside = leaf == one
            sums = (rows.target[inside] * rows.weight[inside, None]).sum(axis=0)
            total -= (sums * np.log(np.maximum(sums / sums.sum(), 1e-12))).sum()
        return float(total)

    leaf = tree.apply(rows.X)
    ways = []
    for pair in tree.children:
        if (pair >= tree.n_splits).all():
            ways.append(loss(np.where(leaf == pair[1] - tree.n_splits, pair[0] - tree.n_splits, leaf)))
    assert loss(small.apply(rows.X)) == pytest.approx(min(ways), rel=1e-5)


def test_masked_keeps_the_strongest() -> None:
    rows = some_rows(d=6)
    tree = some_tree(rows)
    few = masked(tree, 2)
    assert ((few.splits[:, :-1] != 0).sum(axis=1) == 2).all()
    least = np.where(few.splits != 0, np.abs(tree.splits), np.inf)[:, :-1].min(axis=1)
    left_out = np.where(few.splits == 0, np.abs(tree.splits), 0)[:, :-1].max(axis=1)
    assert (least >= left_out).all()
    assert masked(tree, 6) is tree


def test_shrinkage_is_the_mean_at_none_and_the_root_at_infinity() -> None:
    children = np.array([[1, 2], [3, 4]])
    sums, mass = np.array([[4.0], [1.0], [3.0]]), np.array([4.0, 2.0, 10.0])
    for is_classifier in (False, True):
        np.testing.assert_allclose(shrunk_means(children, sums, mass, 0.0, is_classifier), sums / mass[:, None])
        np.testing.assert_allclose(shrunk_means(children, sums, mass, 1e12, is_classifier), 0.5, rtol=1e-6)


def test_a_leaf_of_one_row_is_not_certain_of_its_class() -> None:
    X = np.array([[0.0]] * 60 + [[1.0]] + [[2.0]] * 60)
    y = np.array(["no"] * 60 + ["yes"] + ["no"] * 60)
    options: dict[str, Any] = {"max_terms": 1, "min_samples_leaf": 1, "selection": "largest", "random_state": 0}
    tree = ObliqueTreeClassifier(**options).fit(X, y).tree_
    small = np.flatnonzero(tree.n_samples[tree.n_splits :] == 1)
    assert len(small) == 1
    assert 0.5 < tree.values[small[0], 1] < 0.7
    plain = ObliqueTreeClassifier(**options, shrinkage=0.0).fit(X, y).tree_
    assert plain.values[:, 1].max() == 1.0


@pytest.mark.parametrize("terms", [1, 2, 3])
def test_the_raw_tree_takes_the_same_decisions(terms: int) -> None:
    rows = some_rows(d=3)
    raw = rows.X[:, :-1].astype(np.float64) * [2.0, 0.1, 30.0] + [5.0, -1.0, 100.0]
    scale = FeatureScale(np.array([1, 2, 4]), np.array([5.0, -1.0, 100.0]), np.array([2.0, 0.1, 30.0]), 6)
    X = np.zeros((len(raw), 6))
    X[:, scale.columns] = raw
    tree = masked(some_tree(rows, depth=3), terms)
    found = raw_tree(tree, scale, X)
    counts = np.bincount(found.apply(X))[found.n_splits :]
    assert (np.sort(counts[counts > 0]) == np.sort([c for c in np.bincount(tree.apply(rows.X)) if c])).all()
    if terms == 1:
        assert set(found.weights.ravel()) == {0.0, 1.0}
        for node in range(found.n_splits):  # half way between two rows
            x = X[:, np.flatnonzero(found.weights[node])[0]]
            assert np.abs(x + found.biases[node]).min() > 0


def test_rounding_changes_no_more_rows_than_allowed() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    tree = ObliqueTree(rng.normal(size=(3, 3)), rng.normal(size=3) / 5, [[1, 2], [3, 4], [5, 6]], [[0], [1], [2], [3]])
    exact, loose = rounded(tree, X, 0.0), rounded(tree, X, 0.2)
    assert (exact.apply(X) == tree.apply(X)).all()
    assert (loose.apply(X) != tree.apply(X)).mean() <= 0.2

    def digits(one: ObliqueTree) -> int:
        weights: Any = one.weights
        return max(len(f"{w:.15g}".replace(".", "").replace("-", "").strip("0")) for w in weights.ravel())

    assert digits(loose) <= digits(exact) < digits(tree)
    assert "rounded" in exact.notes[-1]


def chosen_of(losses: dict[TreeSize, HeldOutLoss], rule: str) -> TreeSize:
    """The choice where every tree has as many leaves and terms as its size allows."""
    return chosen_size(losses, {size: (size.leaves, size.terms) for size in losses}, rule)


def swaying(
    losses: dict[tuple[int, int], float], width: float, are_classes: bool = True
) -> dict[TreeSize, HeldOutLoss]:
    """Steps with these mean losses; rows sway about them by `width`, independently of one another."""
    sway = width * np.where(np.arange(400) // 2 ** np.arange(len(losses))[:, None] % 2, 1.0, -1.0)  # of mean 0
    return {
        TreeSize(Candidate("random"), *size): HeldOutLoss(
            [mean + sway[i]], [sway[i]] if are_classes else [], [np.ones(400)], [np.array([mean + sway[i]])]
        )
        for i, (size, mean) in enumerate(losses.items())
    }


def test_the_smallest_as_good_is_chosen() -> None:
    losses = swaying({(8, 4): 0.3, (4, 4): 0.301, (4, 2): 0.302, (3, 2): 0.33, (2, 2): 0.5}, 0.3)
    assert chosen_of(losses, "best")[1:3] == (8, 4)
    assert chosen_of(losses, "smallest")[1:3] == (4, 2)  # a standard error of the difference is 0.021


def test_what_rows_tell_apart_is_not_as_good() -> None:
    losses = swaying({(64, 4): 0.3, (4, 4): 0.311}, 0.03)  # a standard error of the difference is 0.002
    assert chosen_of(losses, "smallest")[1:3] == (64, 4)
    losses = swaying({(64, 4): 0.3, (4, 4): 0.3049}, 0.0)  # but 0.0049 are nothing
    assert chosen_of(losses, "smallest")[1:3] == (4, 4)


def test_each_doubling_of_the_numbers_to_read_must_lower_the_loss() -> None:
    price = 0.02 * np.log2(43 / 37)  # of 43 numbers instead of 37
    losses = swaying({(8, 4): 0.3, (7, 4): 0.3001 + price}, 0.0)
    assert chosen_of(losses, "smallest")[1:3] == (8, 4)
    losses = swaying({(8, 4): 0.3, (7, 4): 0.2999 + price}, 0.0)
    assert chosen_of(losses, "smallest")[1:3] == (7, 4)


def test_a_tree_of_values_must_be_more_clearly_better_than_the_constant() -> None:
    larger = swaying({(8, 4): 0.3, (4, 4): 0.311}, 0.09, are_classes=False)
    size = TreeSize(Candidate("random"), 4, 4)
    assert chosen_of(larger, "smallest")[1:3] == (8, 4)  # a standard error of the difference is 0.006
    assert chosen_of({**larger, CONSTANT: larger.pop(size)}, "smallest") == CONSTANT


def test_of_trees_alike_one_of_good_accuracy_is_compared() -> None:
    """The least log-loss of a size does not hide a tree of the same size that misses fewer rows."""
    sharp, grown = (TreeSize(Candidate(start), 4, 1) for start in ("exact errors", "entropy"))
    rows = [np.ones(400)]
    losses = {
        grown: HeldOutLoss([np.zeros(400)], [np.full(400, 0.35)], rows, [np.full((1, 400), 0.30)]),
        sharp: HeldOutLoss([np.zeros(400)], [np.full(400, 0.30)], rows, [np.full((1, 400), 0.31)]),
    }
    for rule in ("smallest", "best"):
        assert chosen_of(losses, rule) == sharp


@pytest.mark.parametrize("rule", ["smallest", "best"])
def test_accuracy_is_a_guard(rule: str) -> None:
    """The least log-loss is not taken where its classes are wrong too often."""
    losses = swaying({(8, 4): 0.3, (4, 4): 0.301}, 0.0)
    of_four, of_eight = losses[TreeSize(Candidate("random"), 4, 4)], losses[TreeSize(Candidate("random"), 8, 4)]
    of_eight.errors[0], of_four.errors[0] = np.full(400, 0.21), np.full(400, 0.2)
    assert chosen_of(losses, "best")[1:3] == (8, 4)
    of_eight.errors[0] = np.full(400, 0.23)
    assert chosen_of(losses, rule)[1:3] == (4, 4)


@pytest.mark.parametrize("rule", ["smallest", "best"])
def test_of_equals_the_smallest_is_chosen(rule: str) -> None:
    losses = swaying({(6, 4): 0.1, (3, 4): 0.1, (4, 4): 0.1}, 0.0)
    assert chosen_of(losses, rule)[1:3] == (3, 4)


def test_leaves_of_too_few_rows_go() -> None:
    X = np.array([[-3.0], [-2.0], [-1.0], [1.0], [2.0], [9.0]])
    tree = ObliqueTree([[1.0], [1.0], [1.0]], [0.0, 2.5, -5.0], [[1, 2], [3, 4], [5, 6]], [[0], [1], [2], [3]])
    assert without_small_leaves(tree, X, 1) == tree
    small = without_small_leaves(tree, X, 2)  # the row at 9 and the one at -3 had leaves of their own
    assert small.n_leaves == 2
    assert np.bincount(small.apply(X)).tolist() == [0, 3, 3]
    assert without_small_leaves(tree, X, 4).n_leaves == 1


@given(st.integers(1, 300), st.integers(1, 300))
def test_the_ladder_of_terms_ends_within_the_budget(n_features: int, max_terms: int) -> None:
    ladder = term_ladder(n_features, max_terms)
    assert ladder[0] == n_features
    assert min(ladder) <= max_terms
    assert all(4 * low >= high > low for high, low in pairwise(ladder))
    assert min(max_terms, n_features) in ladder


@given(st.integers(2, 100))
def test_sizes_fall_to_two(most: int) -> None:
    assert sizes(most)[0] == most
    assert sizes(most)[-1] == 2


# Starts, the penalty


def noisy_rows(is_classifier: bool = True) -> TrainingRows:
    """400 rows of 6 features, of which two decide; targets of two classes, or one value."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(400, 6)), np.ones(400)]).astype(np.float32)
    value = X[:, 0] - X[:, 1] + rng.normal(size=400) / 4
    target = np.column_stack([value < 0, value >= 0]) if is_classifier else value[:, None]
    return TrainingRows(X, target.astype(np.float32), np.ones(400, np.float32), is_classifier)


@pytest.mark.parametrize("is_classifier", [True, False])
def test_a_penalty_removes_features_that_say_nothing(is_classifier: bool) -> None:
    """At least three of the four, with exact zeros; without it all stay."""
    rows = noisy_rows(is_classifier)
    start = linear_tree(rows, 2, 1)
    free, held = (
        trained(start, rows, SoftTraining(n_updates=600, decay=0.0, penalty=penalty), seed=0).splits[0, :-1]
        for penalty in (0.0, 0.01)
    )
    assert (free != 0).all()
    assert (held[:2] != 0).all()
    assert (held[2:] == 0).sum() >= 3


@pytest.mark.parametrize("is_classifier", [True, False])
def test_a_linear_tree_asks_for_the_regression(is_classifier: bool) -> None:
    """Its first split is proportional to scikit-learn's ridge regression, at the threshold that an ordinary tree of
    that one feature finds.
    """
    rows = noisy_rows(is_classifier)
    X, y = rows.X[:, :-1].astype(float), rows.target[:, -1].astype(float)
    slope = Ridge(alpha=RIDGE * len(y)).fit(X, y).coef_
    split = linear_tree(rows, 2, 1).splits[0]
    np.testing.assert_allclose(split[:-1] / np.linalg.norm(split[:-1]), slope / np.linalg.norm(slope), atol=1e-5)
    z = (X @ split[:-1])[:, None]
    kind: Any = DecisionTreeClassifier(criterion="entropy", max_depth=1, min_samples_leaf=LEAST_ROWS)
    kind = kind if is_classifier else DecisionTreeRegressor(max_depth=1, min_samples_leaf=LEAST_ROWS)
    assert -split[-1] == pytest.approx(kind.fit(z, y).tree_.threshold[0], abs=1e-5)


def test_a_linear_tree_keeps_to_leaves_and_depth() -> None:
    rows = noisy_rows()
    assert linear_tree(rows, 16, 2).n_leaves <= 4
    assert linear_tree(rows, 5, 62).n_leaves == 5
    one_class = replace(rows, target=np.tile(np.float32([1, 0]), (400, 1)))
    assert linear_tree(one_class, 8, 62).n_leaves == 1


def test_where_weights_are_penalised_they_do_not_decay() -> None:
    assert _training(noisy_rows(), Candidate("cart", penalty=0.003)).decay == 0
    assert _training(noisy_rows(), Candidate("cart")).decay > 0


# A poor end of the training


def test_a_tree_worse_than_its_held_out_loss_is_replaced() -> None:
    """The tree of all rows asks nothing useful; one of two folds' trees asks what decides."""
    rows = noisy_rows()
    good = linear_tree(rows, 2)
    elsewhere = np.column_stack([np.roll(good.splits[:, :-1], 3, axis=1), good.splits[:, -1:]])
    useless = replace(good, splits=elsewhere)
    losses: dict[TreeSize, HeldOutLoss] = {}
    size, folds = TreeSize(Candidate("linear"), 2, 6), [np.arange(200), np.arange(200, 400)]
    for tree, held_out in zip((good, useless), folds, strict=True):
        add_loss(losses, size, tree, rows, rows.part(held_out))
    assert no_worse_than_held_out(useless, losses[size], rows, rows) is good
    assert no_worse_than_held_out(good, losses[size], rows, rows) is good
    other = linear_tree(rows, 3)  # as good as any, and so kept
    assert no_worse_than_held_out(other, losses[size], rows, rows) is other


# The race


def test_the_race_finds_the_teacher_that_takes_the_noise_away() -> None:
    """Labels of which a third are flipped; a teacher that knows better."""
    rng = np.random.default_rng(1)
    rows = noisy_rows()
    truth = (rows.X[:, 0] - rows.X[:, 1] >= 0).astype(int)
    noisy = np.where(rng.random(400) < 1 / 3, 1 - truth, truth)
    rows = replace(rows, target=np.eye(2, dtype=np.float32)[noisy])
    order = rng.permutation(400)
    parts = [(rows.part(np.sort(order[200:])), rows.part(np.sort(order[:200])))]
    parts += [(held_out, train) for train, held_out in parts]
    with_teacher, alone = [], []
    for train, held_out in parts:
        known = (train.X[:, 0] - train.X[:, 1] >= 0).astype(int)
        soft = replace(train, target=(0.3 + 0.4 * np.eye(2)[known]).astype(np.float32), soft=True)
        with_teacher.append(({OWN: train, TEACHER: soft}, held_out))
        alone.append(({OWN: train}, held_out))
    limits = TreeLimits(8, None, 6, n_updates=200)
    found = cross_validate(with_teacher, limits, StartTrees(limits, 0), seed=0, n_jobs=2)
    assert next(size.candidate.targets for size in found if size.candidate.start in TRAINED) == TEACHER
    without = cross_validate(alone, limits, StartTrees(limits, 0), seed=0, n_jobs=1)
    assert all(size.candidate.targets == OWN for size in without)
    best, best_without = chosen_of(found, "best"), chosen_of(without, "best")
    assert found[best].loss().mean() < without[best_without].loss().mean()
    again = cross_validate(with_teacher, limits, StartTrees(limits, 0), seed=0, n_jobs=1)  # threads do not matter
    assert list(again) == list(found)
    assert all((again[size].loss() == found[size].loss()).all() for size in again)


def test_a_row_far_out_costs_linear_leaves_no_more_than_the_range_of_the_targets() -> None:
    """Otherwise its extrapolated output alone would decide which tree and which strength is chosen."""
    rows = replace(noisy_rows(is_classifier=False), linear=True)
    far = rows.X.copy()
    far[0, 0] = 1e6
    tree = linear_tree(rows, 2, 1)
    near, beyond = (np.array(list(outputs_by_strength(tree, rows, X, STRENGTHS))) for X in (rows.X, far))
    np.testing.assert_allclose(beyond[:, 1:], near[:, 1:])
    assert beyond[:, 0].max() == rows.target.max()
