"""Trees that follow a linear model, against scikit-learn's models and the largest score."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Ridge

from treelu import ObliqueTreeClassifier, ObliqueTreeRegressor
from treelu.training.small import linear_models
from treelu.training.small.candidates import linear_model_candidates
from treelu.training.small.config import TreeLimits
from treelu.training.small.cross_validation import HeldOutLoss
from treelu.training.small.linear_models import linear_scores, score_trees, strongest
from treelu.training.small.path import OWN, TEACHER, Candidate, PathJob, TreeSize, train_path
from treelu.training.small.rows import TrainingRows
from treelu.training.small.selection import chosen_size
from treelu.training.small.soft_tree import SoftTree
from treelu.training.small.starts import StartTrees
from treelu.view.score_card import score_card


def some_rows(n_classes: int, n: int = 300, n_features: int = 4, seed: int = 0) -> TrainingRows:
    """Rows of noisy linear scores, weighted; with no classes, of a noisy sum."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, n_features)), np.ones(n)]).astype(np.float32)
    noisy = X @ rng.normal(size=(n_features + 1, max(n_classes, 1))) + rng.normal(size=(n, max(n_classes, 1)))
    target = np.eye(n_classes)[noisy.argmax(axis=1)] if n_classes else noisy
    weight = rng.uniform(0.5, 2, n)
    return TrainingRows(X, target.astype(np.float32), weight.astype(np.float32), bool(n_classes))


def score_tree(rows: TrainingRows, scores: np.ndarray, max_leaves: int, max_depth: int | None = None) -> SoftTree:
    """The tree of one size."""
    return next(score_trees(rows, scores, [max_leaves], max_depth))


def differences(scores: np.ndarray) -> np.ndarray:
    """Scores less those of the first class: the others mean nothing."""
    return scores - scores[:, :1]


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_scores_of_classes_are_logistic_regressions(n_classes: int) -> None:
    rows = some_rows(n_classes)
    strength = 1 / (0.01 * rows.weight.sum(dtype=float))
    if n_classes == 2:  # scikit-learn has one vector in place of two that are opposite
        strength *= 2
    expected = LogisticRegression(C=strength, tol=1e-10, max_iter=10_000)
    expected.fit(rows.X[:, :-1], rows.target.argmax(axis=1), rows.weight)
    found = differences(linear_scores(rows, 0.01))
    coef = expected.coef_ if n_classes > 2 else np.vstack([0 * expected.coef_, expected.coef_])
    np.testing.assert_allclose(found[:-1], differences(coef.T), atol=2e-3)


def test_chances_teach_as_rows_in_their_proportion_do() -> None:
    """A row with the probabilities ¾ and ¼ says what four rows say of which three are of the first class."""
    rows = some_rows(2, n=100)
    probabilities = np.where(rows.target > 0, 0.75, 0.25).astype(np.float32)
    four = np.repeat(np.arange(100), 4)
    turned = rows.target[four].copy()
    turned[::4] = turned[::4, ::-1]
    soft = linear_scores(replace(rows, target=probabilities, soft=True), 0.01)
    np.testing.assert_allclose(soft, linear_scores(replace(rows.part(four), target=turned), 0.01), atol=1e-4)


def test_scores_of_values_are_ridge_regressions() -> None:
    rows = some_rows(0)
    expected = Ridge(alpha=0.1 * rows.weight.sum(dtype=float)).fit(rows.X[:, :-1], rows.target[:, 0], rows.weight)
    found = linear_scores(rows, 0.1)[:, 0]
    np.testing.assert_allclose(found, [*expected.coef_, expected.intercept_], atol=1e-5)


@pytest.mark.parametrize("n_classes", [0, 3])
def test_features_that_are_not_used_have_no_weight(n_classes: int) -> None:
    rows = some_rows(n_classes)
    used = np.array([0, 2])
    found = linear_scores(rows, 0.01, used)
    assert not found[[1, 3]].any()
    few = replace(rows, X=np.ascontiguousarray(rows.X[:, [0, 2, 4]]))
    np.testing.assert_allclose(found[[0, 2, 4]], linear_scores(few, 0.01))


def test_of_very_many_rows_some_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = some_rows(2, n=4_000)
    whole = differences(linear_scores(rows, 0.01))
    monkeypatch.setattr(linear_models, "MOST_ROWS", 2_000)
    some = differences(linear_scores(rows, 0.01))
    assert not np.array_equal(some, whole)
    np.testing.assert_allclose(some, whole, atol=0.2)


@given(st.integers(0, 1_000), st.integers(2, 6))
@settings(max_examples=40, deadline=None)
def test_a_tree_with_enough_leaves_finds_the_largest_score(seed: int, n_classes: int) -> None:
    """Whatever the scores are: each leaf has the rows of one class, which has the largest score there."""
    rows = some_rows(n_classes, seed=seed)
    scores = np.random.default_rng(seed + 1).normal(size=(5, n_classes))
    tree = score_tree(rows, scores, 2**n_classes)
    leaf, winner = tree.apply(rows.X), (rows.X @ scores).argmax(axis=1)
    lead = np.diff(np.sort(rows.X @ scores, axis=1)[:, -2:], axis=1)[:, 0]
    for one in range(tree.n_leaves):
        there = (leaf == one) & (lead > 1e-4)  # float32 decides others
        assert len(set(winner[there].tolist())) <= 1 or there.sum() < 6  # too few rows to part


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_questions_how_sure_a_row_is_change_no_class(n_classes: int) -> None:
    rows = some_rows(n_classes, n=600)
    scores = linear_scores(rows, 0.01)

    def classes(tree: SoftTree) -> np.ndarray:
        leaf = tree.apply(rows.X)
        shares = [np.average(rows.target[leaf == one], axis=0, weights=rows.weight[leaf == one]) for one in leaf]
        return np.argmax(shares, axis=1)

    sizes = range(2, 25)
    trees = list(score_trees(rows, scores, sizes))
    assert [tree.n_leaves for tree in trees] == list(sizes)
    leaf = [tree.apply(rows.X) for tree in trees]
    whole = next(place for place, of in enumerate(leaf) if all(_one_winner(rows, scores, of)))
    assert whole < len(trees) - 3
    for tree in trees[whole + 1 :]:
        np.testing.assert_array_equal(classes(tree), classes(trees[whole]))


def _one_winner(rows: TrainingRows, scores: np.ndarray, leaf: np.ndarray) -> list[bool]:
    winner = (rows.X @ scores).argmax(axis=1)
    return [len(set(winner[leaf == one].tolist())) == 1 for one in np.unique(leaf)]


def test_two_classes_have_one_boundary() -> None:
    rows = some_rows(2)
    scores = linear_scores(rows, 0.01)
    tree = score_tree(rows, scores, 2)
    np.testing.assert_allclose(tree.splits[0], scores[:, 1] - scores[:, 0], atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_of_two_classes_the_later_is_on_the_right(n_classes: int) -> None:
    """Whichever has more rows: splits about the same two classes have the same weights, but for their scale."""
    rows = some_rows(n_classes, n=600)
    scores = linear_scores(rows, 0.01)
    pairs = np.array([scores[:-1, j] - scores[:-1, i] for i in range(n_classes) for j in range(i + 1, n_classes)])
    for split in score_tree(rows, scores, 16).splits[:, :-1]:
        cosines = pairs @ split / np.linalg.norm(pairs, axis=1) / np.linalg.norm(split)
        assert np.isclose(cosines, 1, atol=1e-5).sum() == 1


@pytest.mark.parametrize("n_classes", [0, 6])
def test_a_tree_keeps_to_leaves_and_depth(n_classes: int) -> None:
    rows = some_rows(n_classes)
    scores = linear_scores(rows, 0.01)
    assert score_tree(rows, scores, 5).n_leaves == 5
    assert score_tree(rows, scores, 16, 2).n_leaves <= 4


def test_each_size_is_what_the_next_one_was_before() -> None:
    rows = some_rows(0)
    scores = linear_scores(rows, 0.01)
    for size, tree in zip((3, 7), score_trees(rows, scores, (3, 7)), strict=True):
        alone = score_tree(rows, scores, size)
        np.testing.assert_array_equal(tree.splits, alone.splits)
        np.testing.assert_array_equal(tree.children, alone.children)


def test_all_questions_about_values_ask_for_the_regression() -> None:
    rows = some_rows(0)
    scores = linear_scores(rows, 0.01)
    weights = score_tree(rows, scores, 8).splits[:, :-1]
    coefficients = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    np.testing.assert_allclose(
        coefficients, np.tile(scores[:-1, 0] / np.linalg.norm(scores[:-1, 0]), (7, 1)), atol=1e-5
    )


def test_the_strongest_features_part_the_classes() -> None:
    scores = np.array([[5.0, 5.0], [1.0, -1.0], [0.0, 0.1], [9.0, 0.0]])  # a weight that both have parts nothing
    assert strongest(scores, 1, is_classifier=True).tolist() == [1]
    assert strongest(scores, 2, is_classifier=True).tolist() == [1, 2]
    assert strongest(scores, 1, is_classifier=False).tolist() == [0]  # but moves both of two values
    assert strongest(np.array([[0.1], [-2.0], [0.5], [3.0]]), 2, is_classifier=False).tolist() == [1, 2]


def test_fewer_terms_are_the_same_features_in_all_questions() -> None:
    rows = some_rows(4, n_features=12)
    limits = TreeLimits(16, 62, 12)
    job = PathJob(rows, Candidate("scores", penalty=0.01), limits, StartTrees(limits, 0), 0)
    for size, tree in train_path(job):
        assert tree.n_leaves <= size.leaves
        assert (tree.splits[:, :-1] != 0).any(axis=0).sum() <= size.terms


@pytest.mark.parametrize(
    ("limits", "change", "some"),
    [
        (TreeLimits(16, 62, 4), {}, True),
        (TreeLimits(16, 62, 2), {}, False),  # pairs of features are sought there
        (TreeLimits(16, 62, 1), {}, False),
        (TreeLimits(16, 62, 4), {"linear": True}, False),  # leaves have the trend anyway
        (TreeLimits(16, 62, 4), {"signs": np.ones(4, np.float32)}, False),
    ],
)
def test_where_linear_models_are_tried(limits: TreeLimits, change: dict[str, object], some: bool) -> None:
    rows = replace(some_rows(2), **change)  # type: ignore[arg-type]
    assert bool(linear_model_candidates(rows, limits, [OWN, TEACHER])) == some


@pytest.mark.parametrize(("lost", "start"), [(0.299, "scores"), (0.301, "random")])
def test_a_linear_model_is_followed_where_it_loses_less(lost: float, start: str) -> None:
    sway = 0.2 * np.where(np.arange(400) % 2, 1.0, -1.0)  # a standard error of 0.01
    losses = {
        TreeSize(Candidate("random"), 8, 4): HeldOutLoss(
            [np.full(400, 0.3)], [sway], [np.ones(400)], [np.full((1, 400), 0.3)]
        ),
        TreeSize(Candidate("scores"), 4, 4): HeldOutLoss([lost + sway], [sway], [np.ones(400)], [lost + sway[None]]),
    }
    assert chosen_size(losses, {size: size[1:3] for size in losses}, "best").candidate.start == start


@pytest.mark.slow
def test_parallel_splits_lose_least_on_a_noisy_linear_table() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = X @ rng.normal(size=6) + 2 * rng.normal(size=300) > 0
    model = ObliqueTreeClassifier(leaves="constant", random_state=0).fit(X, y)
    assert model.path_["start"][model.path_["loss"].idxmin()] == "scores"
    for tree, start in zip(model.path_trees_, model.path_["start"], strict=True):
        if start == "scores":
            np.testing.assert_array_equal(tree.weights, np.tile(tree.node_weights(0), (tree.n_splits, 1)))
            assert tree.n_splits < 2 or score_card(tree) is not None


@pytest.mark.slow
def test_what_no_linear_model_knows_is_learnt_as_before() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    for model, y in (
        (ObliqueTreeClassifier(random_state=0), X[:, 0] * X[:, 1] > 0),
        (ObliqueTreeRegressor(random_state=0), np.abs(X[:, 0]) + np.abs(X[:, 1])),
    ):
        model.fit(X, y)
        assert model.path_.loc[model.path_["chosen"], "start"].tolist() != ["scores"]
        assert model.score(X, y) > 0.7
