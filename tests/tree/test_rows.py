"""The arithmetic of routing: one row, one answer, to the last bit, in the order that `treelu.tree.rows` states."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tests.tree.trees import random_tree, trees
from treelu.tree import ObliqueTree
from treelu.tree.rows import linear_form, node_scores


def score_by_hand(weights, bias, x) -> float:
    """The sum as the module states it, with Python's floats."""
    total = None
    for w, v in zip(weights, x, strict=True):
        if w != 0:
            product = float(w) * float(v)
            total = product if total is None else total + product
    return float(bias) if total is None else total + float(bias)


def rows_on_boundaries(rng, tree: ObliqueTree, n_rows: int) -> np.ndarray:
    """Rows of very unlike sizes, most of them moved onto a hyperplane of the tree as nearly as doubles allow."""
    x = rng.standard_normal((n_rows, tree.n_features)) * 10.0 ** rng.integers(-6, 7, (n_rows, tree.n_features))
    for row in x:
        node = rng.integers(tree.n_splits)
        weights = tree.node_weights(node)
        used = np.flatnonzero(weights)
        if used.size:
            feature = rng.choice(used)
            row[feature] -= score_by_hand(weights, tree.biases[node], row) / weights[feature]
    return x


@given(seed=st.integers(0, 9999), n_features=st.sampled_from([1, 2, 7, 8, 9, 31, 129, 700]), n_rows=st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_scores_are_the_sum_from_left_to_right(seed, n_features, n_rows):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, 5, n_features, "identity")
    x = rows_on_boundaries(rng, tree, n_rows)
    x[rng.random(x.shape) < 0.4] = 0
    other = ObliqueTree(sparse.csr_array(tree.weights), tree.biases, tree.children, tree.values)
    for node in range(tree.n_splits):
        wanted = [score_by_hand(tree.node_weights(node), tree.biases[node], row) for row in x]
        for rows in (x, sparse.csr_array(x), np.asfortranarray(x)):
            for weights in (tree.weights, other.weights):
                scores = node_scores(rows, np.arange(n_rows), weights, tree.biases, node)
                np.testing.assert_array_equal(scores, wanted)


@pytest.mark.parametrize("n_features", [3, 30, 400])
def test_a_row_takes_one_way_whatever_the_batch(n_features):
    rng = np.random.default_rng(n_features)
    tree = random_tree(rng, 15, n_features, "linear")
    x = rows_on_boundaries(rng, tree, 3000)
    leaves, values = tree.apply(x), tree.predict(x)
    for size in (1, 2, 3, 17, 999):
        chosen = rng.permutation(len(x))[: 60 * size]
        parts = np.array_split(chosen, -(-len(chosen) // size))
        assert np.concatenate([tree.apply(x[part]) for part in parts]).tolist() == leaves[chosen].tolist()
        np.testing.assert_array_equal(np.concatenate([tree.predict(x[part]) for part in parts]), values[chosen])
    np.testing.assert_array_equal(tree.predict(sparse.csr_array(x)), values)
    np.testing.assert_array_equal(tree.predict(np.asfortranarray(x)), values)


def leaf_by_hand(tree, row):
    """The leaf of one row by Python's floats: products from the first feature to the last, the bias at the end."""
    node = 0
    while node < tree.n_splits:
        products = [float(w) * float(v) for w, v in zip(tree.weights[node], row, strict=True) if w != 0]
        score = 0.0
        for term in (*products, float(tree.biases[node])):
            score += term
        node = int(tree.children[node, int(score >= 0)])
    return node


@pytest.mark.parametrize("size", [1e-320, 1e-170, 1.0, 1e150])
@pytest.mark.parametrize("n_features", [5, 40, 300])
def test_the_kernel_adds_as_documented(n_features, size, monkeypatch):
    """Rows on the planes themselves, of every size, in blocks of a few rows, in any order of memory and type."""
    rng = np.random.default_rng(n_features)
    tree = random_tree(rng, 15, n_features, "identity")
    unused = np.array(tree.weights)
    unused[:, 0] = 0
    tree = ObliqueTree(unused, tree.biases * size, tree.children, tree.values)
    x = rows_on_boundaries(rng, ObliqueTree(unused, tree.biases / size, tree.children, tree.values), 200) * size
    x[:, 0] = np.resize([np.nan, np.inf, 1e300, 0.0], 200)  # not read
    monkeypatch.setattr("treelu.tree.rows._BLOCK", 7 * n_features)
    wanted = [leaf_by_hand(tree, row) for row in x]
    assert tree.apply(x).tolist() == wanted
    assert tree.apply(x[::-1]).tolist() == wanted[::-1]
    assert tree.apply(np.asfortranarray(x)).tolist() == wanted
    with np.errstate(over="ignore"):
        short = x[:, 1:].astype(np.float32)
    if np.isfinite(short).all():
        narrow = ObliqueTree(unused[:, 1:], tree.biases, tree.children, tree.values)
        assert narrow.apply(short).tolist() == [leaf_by_hand(narrow, row) for row in short]


@pytest.mark.parametrize("n_splits", [0, 1, 15, 300])
def test_a_batch_of_any_length_goes_as_its_rows_go_alone(n_splits):
    """Of a few rows, and of more than the kernel takes through the tree at once."""
    rng = np.random.default_rng(n_splits)
    tree = random_tree(rng, n_splits, 6, "identity")
    x = rows_on_boundaries(rng, tree, 700) if n_splits else rng.standard_normal((700, 6))
    wanted = [leaf_by_hand(tree, row) for row in x]
    for length in (*range(20), 255, 256, 257, 511, 513, 700):
        assert tree.apply(x[:length]).tolist() == wanted[:length]
    assert tree.apply(x[::-1]).tolist() == wanted[::-1]


def test_the_first_row_that_is_not_finite_is_named_wherever_it_fails():
    """Row 400 fails at the root, row 300 below it, row 299 has NaN in a feature that its way does not read."""
    tree = ObliqueTree([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [0.0, 0.0], [[2, 1], [3, 4]], [[0], [1], [2]])
    x = np.ones((600, 3))
    x[400, 0] = x[300, 1] = np.nan
    x[299] = [-1.0, np.nan, np.inf]
    with pytest.raises(ValueError, match="row 300 has NaN"):
        tree.apply(x)


def test_the_first_row_that_is_not_finite_is_named(monkeypatch):
    monkeypatch.setattr("treelu.tree.rows._BLOCK", 4)
    tree = ObliqueTree([[1.0, 1.0]], [0.0], [[1, 2]], [[0], [1]])
    x = np.zeros((9, 2))
    x[[5, 7], 1] = np.nan
    with pytest.raises(ValueError, match="row 5 has NaN"):
        tree.apply(x)


def test_stored_zeros_of_weights_are_not_read_and_stay_where_they_are():
    weights = sparse.csr_array((np.array([1.0, 0.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    tree = ObliqueTree(weights, [0.0], [[1, 2]], [[0], [1]])
    assert tree.apply([[1.0, np.nan], [-1.0, np.inf]]).tolist() == [2, 1]
    assert tree.weights.nnz == 2


def test_a_pickled_tree_carries_its_weights_once():
    tree = ObliqueTree(np.ones((1, 1000)), [0.0], [[1, 2]], [[0], [1]])
    before = len(pickle.dumps(tree))
    tree.predict(np.zeros((1, 1000)))
    assert len(pickle.dumps(tree)) == before


@given(tree=trees(), seed=st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_sparse_and_dense_rows_and_weights_give_the_same_bits(tree, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((25, tree.n_features)) * 10.0 ** rng.integers(-9, 9, (25, tree.n_features))
    x[rng.random(x.shape) < 0.5] = 0
    wanted = tree.decision_function(x)
    dense = tree.weights if isinstance(tree.weights, np.ndarray) else tree.weights.toarray()
    for weights in (dense, sparse.csr_array(dense)):
        same = ObliqueTree(weights, tree.biases, tree.children, tree.values, leaf_weights=tree.leaf_weights,
                           link=tree.link, classes=tree.classes)  # fmt: skip
        for rows in (x, sparse.csr_array(x), sparse.csc_array(x)):
            np.testing.assert_array_equal(same.decision_function(rows), wanted)


def test_unordered_and_repeated_entries_of_sparse_rows():
    tree = ObliqueTree([[1.0, 1.0, 1.0]], [0.0], [[1, 2]], [[0], [1]])
    x = sparse.csr_array((np.array([-1e16, 0.5, 1e16, 0.5]), np.array([2, 1, 0, 1]), np.array([0, 4])), shape=(1, 3))
    data, indices = x.data.copy(), x.indices.copy()
    # 1e16 + 1 - 1e16 from left to right is 0
    assert linear_form(np.array([[1e16, 1.0, -1e16]]), np.array([0]), np.ones(3)).tolist() == [0.0]
    assert tree.apply(x).tolist() == tree.apply(x.toarray()).tolist() == [2]
    np.testing.assert_array_equal(x.data, data)  # the caller's matrix is left as it was
    np.testing.assert_array_equal(x.indices, indices)


@pytest.mark.parametrize("n_features", [3, 20])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_feature_without_weight_is_not_read(n_features, value):
    weights = np.zeros((1, n_features))
    weights[0, :2] = [1.0, -1.0]
    x = np.zeros((4, n_features))
    x[:, 0], x[:, 1] = [1, 2, 3, 4], 2.5
    x[1, -1] = value
    for given_weights in (weights, sparse.csr_array(weights)):
        tree = ObliqueTree(given_weights, [0.0], [[1, 2]], [[0], [1]])
        for rows in (x, sparse.csr_array(x)):
            assert tree.apply(rows).tolist() == [1, 1, 2, 2]
            broken = rows.copy()
            broken[2, 0] = value
            with pytest.raises(ValueError, match="X must be finite: row 2"):
                tree.apply(broken)


def test_whole_numbers_and_other_types_are_converted_first():
    tree = ObliqueTree([[1.0, 1.0]], [-(2.0**53)], [[1, 2]], [[0], [1]])
    x = np.array([[2**53 + 1, 0], [2**53 - 1, 0]])  # 2^53 + 1 is no double: it rounds to 2^53
    for rows in (x, x.astype(np.uint64), x.astype(np.longdouble), sparse.csr_array(x), x.astype(object)):
        assert tree.apply(rows).tolist() == [2, 1]


def test_a_linear_leaf_never_answers_with_what_is_not_finite():
    tree = ObliqueTree([[1.0, 0.0]], [0.0], [[1, 2]], [[0], [1]], leaf_weights=[[[0, 2.0]], [[0, 0]]])
    x = np.array([[1.0, 1.0], [1.0, np.nan], [-1.0, 2.0], [-1.0, np.nan]])
    assert tree.predict(x[:3]).tolist() == [1.0, 1.0, 4.0]
    with pytest.raises(ValueError, match="X must be finite: row 3"):
        tree.predict(x)


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("n_rows", [1, 700])
def test_outputs_of_linear_leaves_are_sums_in_order_with_the_value_last(n_outputs: int, n_rows: int) -> None:
    rng = np.random.default_rng(5)
    weights = rng.normal(size=(3, n_outputs, 7)) * (rng.random((3, n_outputs, 7)) < 0.6)
    values, X = rng.normal(size=(3, n_outputs)), rng.normal(size=(n_rows, 7)) * 10.0 ** rng.integers(-9, 9, 7)
    tree = ObliqueTree(rng.normal(size=(2, 7)), [0.0, 0.1], [[1, 2], [3, 4]], values, leaf_weights=weights)
    expected = np.empty((n_rows, n_outputs))
    for row, leaf in enumerate(tree.apply(X) - 2):
        for k in range(n_outputs):
            total = 0.0
            for j in np.flatnonzero(weights[leaf, k]):
                total += weights[leaf, k, j] * X[row, j]
            expected[row, k] = values[leaf, k] + total
    assert np.array_equal(tree.decision_function(X), expected)
    assert np.array_equal(tree.decision_function(sparse.csr_array(X)), expected)


def test_a_row_beyond_floats_in_a_linear_leaf_is_named() -> None:
    tree = ObliqueTree([[1.0, 0.0]], [0.0], [[1, 2]], [[0.0], [0.0]], leaf_weights=[[[0.0, 1.0]], [[0.0, 2.0]]])
    with pytest.raises(ValueError, match="row 2"):
        tree.decision_function([[1.0, 1.0], [-1.0, 1.0], [1.0, np.inf]])
