"""The split search against brute force, and its sparse form against its dense one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from experiments.baselines._splits import best_split, reflector

seeds = st.integers(0, 2**32 - 1)


def table(seed: int, binary: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    n, d, k = rng.integers(2, 25), rng.integers(2, 6), rng.integers(1, 4)
    X = (rng.random((n, d)) < 0.4).astype(float) if binary else rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    targets = np.eye(3)[rng.integers(0, 3, n)] if rng.random() < 0.5 else rng.normal(size=(n, k))
    directions = rng.normal(size=(2, d))
    reflectors = [reflector(direction / np.linalg.norm(direction)) for direction in directions]
    return X, targets, rng.integers(1, 4, n).astype(float), reflectors


def impurity(targets: np.ndarray, weight: np.ndarray) -> float:
    mean = np.average(targets, axis=0, weights=weight)
    return float((weight[:, None] * (targets - mean) ** 2).sum())


def twoing(targets: np.ndarray, weight: np.ndarray, right: np.ndarray) -> float:
    means = [np.average(targets[side], axis=0, weights=weight[side]) for side in (~right, right)]
    shares = [weight[side].sum() / weight.sum() for side in (~right, right)]
    return shares[0] * shares[1] / 4 * np.abs(means[0] - means[1]).sum() ** 2


@given(seeds, st.booleans(), st.booleans(), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_no_split_of_the_reflected_spaces_is_better(seed: int, binary: bool, by_twoing: bool, min_leaf: int) -> None:
    X, targets, weight, reflectors = table(seed, binary)
    split = best_split(X, targets, weight, reflectors, min_leaf, by_twoing)

    def worth(right: np.ndarray) -> float:
        if by_twoing:
            return twoing(targets, weight, right)
        parts = sum(impurity(targets[side], weight[side]) for side in (~right, right))
        return impurity(targets, weight) - parts

    best = -np.inf
    identity = np.eye(X.shape[1])
    for matrix in [identity, *(identity - 2 * np.outer(u, u) for u in reflectors)]:
        for column in (X @ matrix).T:
            for low, high in pairwise(np.unique(column)):
                right = column > (low + high) / 2
                if high - low > 1e-9 and min(right.sum(), (~right).sum()) >= min_leaf:
                    best = max(best, worth(right))
    if split is None:
        assert best == -np.inf
        return
    right = X @ split.weights + split.bias >= 0
    assert min(right.sum(), (~right).sum()) >= min_leaf
    assert worth(right) == pytest.approx(best, rel=1e-6, abs=1e-9)
    assert np.linalg.norm(split.weights) == pytest.approx(1)


@given(seeds, st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_sparse_rows_give_the_split_of_dense_ones(seed: int, binary: bool, by_twoing: bool) -> None:
    X, targets, weight, reflectors = table(seed, binary)
    dense = best_split(X, targets, weight, reflectors, 1, by_twoing)
    thin = best_split(sparse.csr_array(X), targets, weight, reflectors, 1, by_twoing)
    if dense is None or thin is None:
        assert dense is thin
        return
    assert thin.score == pytest.approx(dense.score, rel=1e-8)
    np.testing.assert_allclose(thin.weights, dense.weights, atol=1e-12)
    assert thin.bias == pytest.approx(dense.bias, abs=1e-9)


def test_entries_stored_twice_are_added() -> None:
    twice = sparse.csr_array((np.ones(6), ([0, 0, 1, 1, 2, 3], [0, 0, 1, 1, 0, 1])), shape=(4, 2))
    assert twice.nnz == 4 or twice.has_canonical_format
    raw = sparse.csr_array((4, 2))
    raw.indptr, raw.indices, raw.data = np.array([0, 2, 4, 5, 6]), np.array([0, 0, 1, 1, 0, 1]), np.ones(6)
    targets = np.array([[5.0], [0.0], [0.0], [0.0]])
    split = best_split(raw, targets, np.ones(4), [reflector(np.array([0.6, 0.8]))], 1)
    assert split is not None
    assert (raw @ split.weights + split.bias >= 0).tolist() in ([True, False, False, False], [False, True, True, True])


@pytest.mark.parametrize("binary", [False, True])
def test_raw_axes_alone_are_cart(binary: bool) -> None:
    rng = np.random.default_rng(0)
    X = (rng.random((200, 6)) < 0.3).astype(float) if binary else rng.normal(size=(200, 6)).astype(np.float32)
    y = rng.integers(0, 3, 200)
    for targets, cart in (
        (np.eye(3)[y], DecisionTreeClassifier(max_depth=1).fit(X, y)),
        (y[:, None].astype(float), DecisionTreeRegressor(max_depth=1).fit(X, y)),
    ):
        split = best_split(X.astype(float), targets, np.ones(200), [], 1)
        assert split is not None
        assert int(np.argmax(split.weights)) == cart.tree_.feature[0]
        assert -split.bias == pytest.approx(cart.tree_.threshold[0])


@given(seeds, st.integers(2, 8))
@settings(max_examples=50, deadline=None)
def test_a_reflection_maps_its_direction_to_the_first_axis(seed: int, n: int) -> None:
    direction = np.random.default_rng(seed).normal(size=n)
    direction /= np.linalg.norm(direction)
    u = reflector(direction)
    matrix = np.eye(n) - 2 * np.outer(u, u)
    np.testing.assert_allclose(matrix @ matrix, np.eye(n), atol=1e-12)
    np.testing.assert_allclose(np.abs(matrix @ direction), np.eye(n)[0], atol=1e-12)
    np.testing.assert_array_equal(u, reflector(-direction))  # the sign that a solver returns does not matter


def test_an_axis_may_be_its_own_direction() -> None:
    u = reflector(np.array([1.0, 0.0]))
    np.testing.assert_allclose(np.abs(np.eye(2) - 2 * np.outer(u, u)), np.eye(2))


def test_neighbouring_floats_are_parted() -> None:
    low = 1.0
    high = np.nextafter(low, 2.0)
    split = best_split(np.array([[low], [high]]), np.array([[0.0], [1.0]]), np.ones(2), [], 1)
    assert split is not None
    assert (np.array([low, high]) * split.weights[0] + split.bias >= 0).tolist() == [False, True]
