"""From an estimator to its tree: the same function, leaf for leaf, on the raw features."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from tests.estimators.tables import FAST, WITH_TREE, bits, data_for, scores, three_classes, two_classes, values
from treelu import LCNClassifier, LCNRegressor, LLNClassifier, LLNRegressor


def elsewhere(X: np.ndarray, n: int = 2000) -> np.ndarray:
    """Rows in and far outside the range of the training rows."""
    rng = np.random.default_rng(1)
    return X.mean(axis=0) + X.std(axis=0) * rng.standard_normal((n, X.shape[1])) * rng.choice([1.0, 30.0], (n, 1))


@pytest.mark.parametrize("estimator_class", WITH_TREE)
@pytest.mark.parametrize("depth", [1, 4, 9])
def test_the_tree_is_the_network(estimator_class: type, depth: int) -> None:
    X, y = data_for(estimator_class)
    estimator = estimator_class(**{**FAST, "depth": depth, "drop_connect": 0.25}).fit(X, y)
    tree = estimator.tree_
    assert tree.n_leaves == 2**depth
    for rows in (X, elsewhere(X)):
        by_network = scores(estimator, rows)
        by_tree = tree.decision_function(rows).reshape(len(rows))
        assert np.abs(by_tree - by_network).max() <= 1e-9 * max(1.0, np.abs(by_network).max())
        assert np.array_equal(tree.predict(rows), estimator.predict(rows)) or estimator_class in (
            LCNRegressor,
            LLNRegressor,
        )


@pytest.mark.parametrize("estimator_class", [LCNClassifier, LLNClassifier])
def test_trees_of_three_classes(estimator_class: type) -> None:
    X, y = three_classes()
    classifier = estimator_class(**FAST).fit(X, y)
    rows = elsewhere(X)
    assert np.allclose(classifier.tree_.predict_proba(rows), classifier.predict_proba(rows), atol=1e-9)
    assert classifier.tree_.classes.tolist() == [0, 1, 2]


@pytest.mark.parametrize("estimator_class", [LCNRegressor, LLNRegressor])
def test_trees_of_several_targets(estimator_class: type) -> None:
    X, y = values(n_outputs=2)
    regressor = estimator_class(**FAST).fit(X, y)
    rows = elsewhere(X)
    assert np.allclose(regressor.tree_.predict(rows), regressor.predict(rows), rtol=1e-9)


@pytest.mark.parametrize("estimator_class", WITH_TREE)
def test_apply_and_decision_path(estimator_class: type) -> None:
    X, y = data_for(estimator_class)
    estimator = estimator_class(**FAST).fit(X, y)
    leaf, path, tree = estimator.apply(X), estimator.decision_path(X), estimator.tree_
    assert ((leaf >= tree.n_splits) & (leaf < tree.n_nodes)).all()
    assert path.shape == (len(X), tree.n_nodes)
    assert (path.sum(axis=1) == 4).all()  # three decisions and a leaf
    dense = path.toarray().astype(bool)
    assert dense[:, 0].all()
    assert dense[np.arange(len(X)), leaf].all()
    for row in range(0, len(X), 10):
        node = 0
        while node < tree.n_splits:
            assert dense[row, node]
            node = tree.children[node][int(tree.weights[node] @ X[row] + tree.biases[node] >= 0)]
        assert node == leaf[row]


def test_rows_of_a_leaf_have_one_pattern_and_one_value() -> None:
    X, y = two_classes()
    classifier = LCNClassifier(**FAST).fit(X, y)
    rows = elsewhere(X)
    leaf = classifier.apply(rows)
    for number in np.unique(leaf):
        assert len(np.unique(classifier.decision_function(rows[leaf == number]))) == 1


@pytest.mark.parametrize("estimator_class", WITH_TREE)
def test_training_rows_are_counted(estimator_class: type) -> None:
    X, y = data_for(estimator_class)
    estimator = estimator_class(**FAST).fit(X, y)
    tree = estimator.tree_
    assert tree.n_samples[0] == len(X)
    assert np.array_equal(tree.n_samples[: tree.n_splits], tree.n_samples[tree.children].sum(axis=1))
    by_leaf = np.bincount(estimator.apply(X), minlength=tree.n_nodes)[tree.n_splits :]
    # counted in single precision, applied in double: a row on a border may change sides
    assert np.abs(by_leaf - tree.n_samples[tree.n_splits :]).sum() <= 2


@pytest.mark.parametrize("estimator_class", WITH_TREE)
def test_importances(estimator_class: type) -> None:
    X, y = data_for(estimator_class)
    estimator = estimator_class(**{**FAST, "epochs": 100}).fit(X, y)
    importances = estimator.feature_importances_
    assert importances.shape == (4,)
    assert importances.sum() == pytest.approx(1)
    assert (importances >= 0).all()
    assert importances[:2].sum() > importances[2:].sum()  # the target depends on these two
    units = np.array([1e3, 1e-3, 1.0, 10.0])
    other = estimator_class(**{**FAST, "epochs": 100}).fit(X * units, y)
    assert np.allclose(other.feature_importances_, importances, atol=0.1)


def test_a_tree_is_built_once_and_anew_after_a_fit() -> None:
    X, y = two_classes()
    classifier = LCNClassifier(**FAST).fit(X, y)
    first = classifier.tree_
    assert classifier.tree_ is first
    classifier.set_params(random_state=1).fit(X, y)
    assert classifier.tree_ is not first
    assert np.allclose(classifier.tree_.decision_function(X), classifier.decision_function(X), atol=1e-9)
    classifier.partial_fit(X, y)
    assert np.allclose(classifier.tree_.decision_function(X), classifier.decision_function(X), atol=1e-9)


def test_changing_a_parameter_does_not_change_the_fitted_tree() -> None:
    X, y = two_classes()
    classifier = LCNClassifier(**FAST).fit(X, y)
    classifier.set_params(depth=6)
    assert classifier.tree_.n_leaves == 8
    assert classifier.tree_.n_samples[0] == len(X)


@pytest.mark.parametrize("estimator_class", WITH_TREE)
def test_a_deep_network_becomes_a_tree_for_given_rows(estimator_class: type) -> None:
    X, y = data_for(estimator_class)
    estimator = estimator_class(**{**FAST, "depth": 40, "epochs": 2}).fit(X, y)
    with pytest.raises(AttributeError, match=r"tree_ would have 2\^40 leaves; to_tree\(visited_by=X\)"):
        _ = estimator.tree_
    tree = estimator.to_tree(visited_by=X)
    assert 1 < tree.n_leaves <= len(X)
    assert np.allclose(
        tree.decision_function(X).reshape(-1), scores(estimator, X), atol=1e-9 * np.abs(scores(estimator, X)).max()
    )


@pytest.mark.parametrize("form", [sparse.csr_array, pd.DataFrame], ids=["csr", "frame"])
def test_the_rows_that_visit_may_come_in_any_form(form) -> None:
    X, y = bits()
    classifier = LCNClassifier(**{**FAST, "depth": 20, "epochs": 2}).fit(form(X), y)
    tree = classifier.to_tree(visited_by=form(X))
    assert np.allclose(tree.decision_function(form(X)), classifier.decision_function(form(X)), atol=1e-9)


def test_sparse_rows_reach_the_tree() -> None:
    X, y = bits()
    classifier = LCNClassifier(**FAST).fit(sparse.csr_array(X), y)
    for rows in (X, sparse.csr_array(X), sparse.csc_array(X)):
        assert np.allclose(classifier.tree_.decision_function(rows), classifier.decision_function(rows), atol=1e-9)
        assert np.array_equal(classifier.apply(rows), classifier.apply(X))


@pytest.mark.parametrize("estimator_class", WITH_TREE)
def test_nothing_of_this_before_fit(estimator_class: type) -> None:
    X, _ = data_for(estimator_class)
    estimator = estimator_class()
    for ask in (lambda: estimator.tree_, lambda: estimator.feature_importances_, lambda: estimator.apply(X)):
        with pytest.raises(NotFittedError):
            ask()


def test_importances_of_a_network_too_deep_for_its_tree() -> None:
    """The same as those of the tree that its training rows visit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    y = (X[:, 0] > 0).astype(int)
    deep = LCNClassifier(depth=20, epochs=5, random_state=0).fit(X, y)
    visited = deep.to_tree(visited_by=X).with_counts(X)
    np.testing.assert_allclose(deep.feature_importances_, visited.feature_importances(scale=X.std(axis=0)), atol=0.02)
    assert deep.feature_importances_.sum() == pytest.approx(1)


def test_the_tree_remembers_the_spreads_of_the_features() -> None:
    X, y = load_iris(return_X_y=True)
    X = X * [1, 10, 100, 1000]
    model = LCNClassifier(depth=2, epochs=1, drop_connect=0.0, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.tree_.spreads, X.std(axis=0), rtol=1e-5)
    np.testing.assert_array_equal(model.to_tree(visited_by=X[:5]).spreads, model.tree_.spreads)
