"""Terms that decide nothing, against the rows' own ways."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treelu import ObliqueTreeClassifier
from treelu.training.small.finish import raw_tree
from treelu.training.small.redundant import AS_CLEARLY, without_redundant_terms
from treelu.training.small.rows import FeatureScale
from treelu.training.small.soft_tree import SoftTree


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 3))
@settings(max_examples=80, deadline=None)
def test_every_row_goes_the_same_way_and_as_clearly(seed: int, n_features: int, n_questions: int) -> None:
    rng = np.random.default_rng(seed)
    tables = [np.round(rng.normal(size=(rng.integers(0, 400), n_features)), 1) for _ in range(n_questions)]
    weights = rng.normal(size=n_features) * 10.0 ** rng.integers(-3, 1, n_features)
    biases = rng.normal(size=n_questions)
    kept, moved = without_redundant_terms(weights, biases, np.ones(n_features), tables)
    assert np.isin(kept, [*weights, 0]).all()
    assert np.count_nonzero(kept) >= 1
    for table, old, new in zip(tables, biases, moved, strict=True):
        before, after = table @ weights + old, table @ kept + new
        np.testing.assert_array_equal(after >= 0, before >= 0)
        assert (np.abs(after) >= AS_CLEARLY * np.abs(before) - 1e-12).all()


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_terms_go_as_when_each_is_tried_on_every_row(seed: int) -> None:
    """The obvious form: the weakest first, a feature put to its mean in a copy of the rows, each row looked at."""
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(300, 5)), rng.normal(size=5) * [1, 1, 0.1, 0.01, 0.001]
    spread = X.std(axis=0)
    kept, _ = without_redundant_terms(weights, np.zeros(1), spread, [X])
    before, redundant = X @ weights, []
    for feature in sorted(range(5), key=lambda feature: abs(weights[feature]) * spread[feature])[:-1]:
        put = X.copy()
        put[:, [*redundant, feature]] = X.mean(axis=0)[[*redundant, feature]]
        if all(z * old >= AS_CLEARLY * old**2 for z, old in zip(put @ weights, before, strict=True)):
            redundant.append(feature)
    np.testing.assert_array_equal(np.flatnonzero(kept == 0), sorted(redundant))


def test_a_term_goes_only_where_no_question_with_these_weights_needs_it() -> None:
    far, near = np.array([[-3.0, 1.0], [3.0, -1.0]]), np.array([[-0.05, 1.0], [0.05, 1.0], [0.05, -1.0]])
    weights = np.array([1.0, 0.1])
    alone, _ = without_redundant_terms(weights, np.zeros(1), np.ones(2), [far])
    assert alone.tolist() == [1.0, 0.0]
    both, biases = without_redundant_terms(weights, np.zeros(2), np.ones(2), [far, near])
    assert both.tolist() == [1.0, 0.1]
    assert biases.tolist() == [0.0, 0.0]


def test_a_row_on_the_boundary_stays_where_it_was() -> None:
    """0.1 · 3 is not 0.3 in binary: replaced by its mean, the second feature would send the row left."""
    X = np.array([[0.3, 0.0], [0.3, 0.0], [-1.0, 0.0]])
    weights, bias = np.array([1.0, 1e-3]), -0.3
    kept, (moved,) = without_redundant_terms(weights, np.array([bias]), np.ones(2), [X])
    np.testing.assert_array_equal(X @ kept + moved >= 0, [True, True, False])


@pytest.mark.parametrize("falls", [False, True])
def test_a_question_of_which_one_term_is_left_has_a_threshold(falls: bool) -> None:
    X = np.array([[1.0, 5.0], [2.0, 4.0], [4.0, 5.0], [5.0, 4.0]])
    scale = FeatureScale(np.arange(2), np.zeros(2), np.ones(2), 2)
    sign = -1.0 if falls else 1.0
    split = np.array([[sign, 0.01, -2.7 * sign]], np.float32)
    soft = SoftTree(np.array([[1, 2]]), split, np.zeros((2, 1), np.float32), np.ones_like(split))
    tree = raw_tree(soft, scale, X)
    assert np.asarray(tree.weights).tolist() == [[1.0, 0.0]]
    assert tree.biases.tolist() == [-3.0]
    assert tree.children.tolist() == ([[2, 1]] if falls else [[1, 2]])


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_questions_of_any_unit_stay_apart(unit: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) * unit
    scale = FeatureScale(np.arange(2), np.zeros(2), np.full(2, unit), 2)
    splits = np.array([[1.0, 1.0, 0.1], [1.0, -1.0, 0.2], [2.0, 2.0, 0.8]], np.float32)
    children = np.array([[1, 2], [3, 4], [5, 6]])
    soft = SoftTree(children, splits, np.zeros((4, 1), np.float32), np.ones_like(splits))
    tree = raw_tree(soft, scale, X)
    np.testing.assert_array_equal(tree.apply(X) - 3, soft.apply(np.column_stack([X / unit, np.ones(200)]).astype("f4")))
    np.testing.assert_array_equal(tree.node_weights(2), tree.node_weights(0))
    assert tree.node_weights(1)[1] < 0 < tree.node_weights(1)[0]


def test_a_fitted_tree_asks_for_what_decides() -> None:
    """Classes that lie far apart in one feature: the others' weights are not 0 after training, and change nothing."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2 == 1
    X = np.column_stack([np.where(y, 20.0, -20.0) + rng.normal(size=200), rng.normal(size=(200, 5))])
    model = ObliqueTreeClassifier(max_leaf_nodes=2, selection="largest", random_state=0).fit(X, y)
    assert model.tree_.max_terms == 1
    assert model.score(X, y) == 1
