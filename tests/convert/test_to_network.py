"""Tree → network (Theorem 2), balancing, one neuron per layer; tree → network → tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_diabetes, load_iris
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from tests.convert.networks import fill, random_rows, seeds
from treelu.convert import balanced, network_to_tree, one_neuron_per_layer, tree_to_network
from treelu.nn import Activation, CanonicalNetwork
from treelu.tree import ObliqueTree


@st.composite
def trees(draw: st.DrawFn, max_splits: int = 12):
    """Trees of any shape with their splits numbered level by level and their leaves from left to right."""
    rng = np.random.default_rng(draw(seeds))
    n_splits, n_features = draw(st.integers(0, max_splits)), draw(st.integers(1, 6))
    paths = {(): None}  # leaves by path; a random one becomes a split until there are enough
    splits: list[tuple[int, ...]] = []
    for _ in range(n_splits):
        path = list(paths)[rng.integers(len(paths))]
        del paths[path]
        paths[(*path, 0)] = paths[(*path, 1)] = None
        splits.append(path)
    splits.sort(key=lambda path: (len(path), path))
    number = {path: i for i, path in enumerate([*splits, *sorted(paths)])}
    children = [[number[(*path, 0)], number[(*path, 1)]] for path in splits]
    weights = rng.standard_normal((n_splits, n_features))
    values = rng.standard_normal((n_splits + 1, 2))
    return ObliqueTree(weights, rng.standard_normal(n_splits), np.reshape(children, (-1, 2)).astype(int), values)


@given(tree=trees(), seed=seeds)
@settings(max_examples=60, deadline=None)
def test_tree_to_network_and_back(tree, seed):
    x = random_rows(np.random.default_rng(seed), tree.n_features, 100)
    network = tree_to_network(tree)
    assert network.layer_sizes == (max(1, tree.n_splits),)
    np.testing.assert_array_equal(network(x), tree.decision_function(x))
    back = network_to_tree(network)
    assert back == tree


@given(tree=trees(max_splits=7), seed=seeds)
@settings(max_examples=40, deadline=None)
def test_balanced_tree_has_all_leaves_at_one_depth(tree, seed):
    x = random_rows(np.random.default_rng(seed), tree.n_features, 100)
    full = balanced(tree)
    assert full.n_leaves == 2**tree.depth
    assert set(full.node_depths()[full.n_splits :]) == {tree.depth}
    np.testing.assert_array_equal(full.decision_function(x), tree.decision_function(x))
    dummies = ~full.weights.any(axis=1)
    assert dummies.sum() == full.n_splits - tree.n_splits
    np.testing.assert_array_equal(full.biases[dummies], 1)
    network = tree_to_network(full)
    np.testing.assert_array_equal(network(x), tree.decision_function(x))


@pytest.mark.parametrize("max_depth", [None, 3])
def test_cart_to_network_and_back(max_depth):
    X, y = load_iris(return_X_y=True)
    cart = DecisionTreeClassifier(max_depth=max_depth, random_state=0).fit(X, y)
    network = tree_to_network(ObliqueTree.from_sklearn(cart))
    np.testing.assert_allclose(network(X), cart.predict_proba(X), atol=1e-15)
    back = network_to_tree(network, classes=cart.classes_, link="probability")
    np.testing.assert_array_equal(back.predict(X), cart.predict(X))
    assert back.n_leaves == cart.get_n_leaves()


def test_large_unbalanced_cart_to_network_and_back():
    X, y = load_diabetes(return_X_y=True)
    cart = DecisionTreeRegressor(random_state=0).fit(X, y)
    assert cart.get_n_leaves() > 300
    tree = ObliqueTree.from_sklearn(cart)
    back = network_to_tree(tree_to_network(tree))
    assert back.n_leaves == tree.n_leaves
    np.testing.assert_array_equal(back.predict(X), cart.predict(X))


def test_sparse_weights_stay_sparse_when_balanced():
    tree = ObliqueTree(sparse.csr_array([[1.0, 0], [0, 2]]), [0, 1], [[1, 2], [3, 4]], [[0], [1], [2]])
    full = balanced(tree)
    assert sparse.issparse(full.weights)
    np.testing.assert_array_equal(full.weights.toarray(), [[1, 0], [0, 2], [0, 0]])


def test_refusals():
    linear = ObliqueTree([[1.0]], [0], [[1, 2]], [[0], [1]], leaf_weights=np.ones((2, 1, 1)))
    with pytest.raises(ValueError, match="constant leaves"):
        tree_to_network(linear)
    n = 20
    chain = ObliqueTree(
        np.ones((n, 1)), np.arange(n),
        [[n + i, i + 1] if i < n - 1 else [2 * n - 1, 2 * n] for i in range(n)], np.zeros((n + 1, 1)),
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"depth 20, 2\^20 leaves"):
        balanced(chain)


@pytest.mark.parametrize("slope", [0.0, 0.2])
def test_one_neuron_per_layer_is_the_same_network(slope):
    rng = np.random.default_rng(1)
    activation = Activation("relu") if slope == 0 else Activation("leaky_relu", slope)
    wide = CanonicalNetwork(3, [2, 3, 1], 2, activation=activation)
    fill(wide, rng)
    narrow = one_neuron_per_layer(wide)
    x = random_rows(rng, 3, 300)
    assert narrow.layer_sizes == (1,) * 6
    np.testing.assert_array_equal(narrow(x), wide(x))
    assert np.array_equal(narrow.activation_pattern(x), wide.activation_pattern(x))
