"""Pruning: exact where it says so, and as small as the geometry allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tests.convert.networks import fill, networks, random_rows, seeds
from tests.tree.trees import random_tree
from treelu.convert import network_to_tree
from treelu.nn import LocallyConstantNetwork
from treelu.tree import ObliqueTree
from treelu.tree.prune import reachable_nodes


def regions_by_clipping(tree: ObliqueTree, low: float, high: float) -> int:
    """Oracle for two features: cut the square polygon by polygon, count the leaves that keep an area."""
    square = np.array([[low, low], [high, low], [high, high], [low, high]], dtype=float)
    stack, count = [(0, square)], 0
    while stack:
        node, polygon = stack.pop()
        if node >= tree.n_splits:
            count += 1
            continue
        score = polygon @ tree.weights[node] + tree.biases[node]
        for side, child in enumerate(tree.children[node].tolist()):
            part = clip(polygon, score if side else -score)
            if len(part) >= 3 and area(part) > 1e-15 * (high - low) ** 2:
                stack.append((child, part))
    return count


def clip(polygon: np.ndarray, score: np.ndarray) -> np.ndarray:
    corners = []
    for i in range(len(polygon)):
        j = (i + 1) % len(polygon)
        if score[i] >= 0:
            corners.append(polygon[i])
        if (score[i] >= 0) != (score[j] >= 0):
            corners.append(polygon[i] + score[i] / (score[i] - score[j]) * (polygon[j] - polygon[i]))
    return np.array(corners)


def area(polygon: np.ndarray) -> float:
    x, y = polygon.T
    return abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2


def random_network(seed: int, depth: int = 12, n_features: int = 2) -> LocallyConstantNetwork:
    network = LocallyConstantNetwork(n_features, depth, 1)
    fill(network, np.random.default_rng(seed))
    return network


@pytest.mark.parametrize("seed", range(2))
def test_twelve_lines_leave_seventy_nine_regions(seed):
    """Without connections the neurons are 12 lines in general position: 1 + 12 + 66 regions of the plane."""
    network = random_network(seed)
    network.connection[:] = 0
    tree = network_to_tree(network)
    assert tree.n_leaves == 4096
    assert tree.prune().n_leaves == 79
    assert tree.prune(bounds=(-1, 1)).n_leaves == regions_by_clipping(tree, -1, 1) <= 79


@pytest.mark.parametrize("seed", range(3))
def test_connected_neurons_leave_the_regions_that_clipping_finds(seed):
    tree = network_to_tree(random_network(seed))
    small = tree.prune(bounds=(-10, 10))
    assert small.n_leaves == regions_by_clipping(tree, -10, 10)
    rows = np.random.default_rng(seed).uniform(-10, 10, (2000, 2))
    np.testing.assert_array_equal(small.predict(rows), tree.predict(rows))


def test_connected_neurons_can_make_more_regions_than_lines():
    """Each neuron folds the line once more, f ← |f| − 1/2^i: 2^M regions, where M lines in the plane make 16."""
    depth = 5
    network = LocallyConstantNetwork(2, depth, 1, seed=0)
    for parameter in (network.weight, network.connection, network.bias):
        parameter[:] = 0
    form = np.zeros(depth + 2)  # f over (x, a_1 … a_M, 1)
    form[0] = 1.0
    for i in range(depth):
        network.weight[0, i], network.bias[i] = form[0], form[-1]
        network.connection[i] = form[1:-1]
        form = -form
        form[1 + i] += 2.0  # |f| = 2 max(0, f) − f
        form[-1] -= 0.5**i
    tree = network_to_tree(network)
    assert tree.prune(bounds=(-2, 2)).n_leaves == 2**depth > 1 + depth + depth * (depth - 1) // 2


@given(network=networks(max_depth=5), seed=seeds, width=st.sampled_from([0.1, 1.0, 100.0]))
@settings(max_examples=25, deadline=None)
def test_outputs_are_the_same_within_the_bounds(network, seed, width):
    rng = np.random.default_rng(seed)
    tree = network_to_tree(network)
    centre = rng.standard_normal(tree.n_features)
    low, high = centre - width * rng.random(tree.n_features), centre + width * rng.random(tree.n_features)
    small = tree.prune(bounds=(low, high))
    rows = rng.uniform(low, high, (300, tree.n_features))
    rows[:150] = np.where(rng.random((150, tree.n_features)) < 0.5, low, high)  # corners of the box
    np.testing.assert_array_equal(small.decision_function(rows), tree.decision_function(rows))
    assert small.n_leaves <= tree.n_leaves


@pytest.mark.slow
@given(network=networks(kinds=("linear", "lln"), max_depth=6), seed=seeds)
@settings(max_examples=20, deadline=None)
def test_rows_given_keep_their_outputs_under_both_rules(network, seed):
    rng = np.random.default_rng(seed)
    tree = network_to_tree(network)
    rows = random_rows(rng, tree.n_features, 40)
    for given_rows in (rows, sparse.csr_array(rows)):
        within = tree.prune(given_rows)
        visited = tree.prune(given_rows, unvisited=True)
        for small in (within, visited):
            np.testing.assert_array_equal(small.decision_function(rows), tree.decision_function(rows))
        # with random weights no two leaves are equal, so what is left is what the rows visit
        assert visited.n_leaves == len(np.unique(tree.apply(rows))) <= within.n_leaves
    inside = rng.uniform(rows.min(axis=0), rows.max(axis=0), (200, tree.n_features))
    np.testing.assert_array_equal(within.decision_function(inside), tree.decision_function(inside))


def test_points_that_only_touch_a_boundary_are_reached():
    """Going right includes the hyperplane, so a corner of the box, or a single point, is a region."""
    corner = ObliqueTree([[1.0, 1.0]], [-2.0], [[1, 2]], [[0.0], [1.0]])
    assert corner.prune(bounds=(0, 1)).n_leaves == 2
    assert corner.prune(bounds=(0, 0.999)).n_leaves == 1
    point = ObliqueTree([[1.0], [-1.0]], [-0.5, 0.5], [[2, 1], [3, 4]], [[0.0], [1.0], [2.0]])  # x >= 1/2, x <= 1/2
    assert point.prune(bounds=(0, 1)).n_leaves == 3
    assert point.prune(bounds=(0, 1)).predict([[0.5]]) == 2.0


def test_going_left_excludes_the_hyperplane():
    """x < 1/2 and then x >= 1/2: nobody."""
    tree = ObliqueTree([[1.0], [2.0]], [-0.5, -1.0], [[1, 2], [3, 4]], [[0.0], [1.0], [2.0]])
    small = tree.prune(bounds=(0, 1))
    assert small.n_leaves == 2
    assert small.predict([[0.4], [0.5]]).tolist() == [1.0, 0.0]
    assert tree.prune().n_leaves == 2


def test_dummy_nodes_and_one_sided_bounds():
    tree = ObliqueTree([[0.0], [1.0]], [1.0, 3.0], [[2, 1], [3, 4]], [[9.0], [1.0], [2.0]])
    assert tree.prune().values.ravel().tolist() == [1.0, 2.0]
    above = tree.prune(bounds=(0, np.inf))
    assert above.values.ravel().tolist() == [2.0]
    assert above.notes == (
        "2 branches that no row within the given bounds reaches left out: exact within these bounds",
    )
    assert tree.prune(bounds=([-np.inf], [0])).n_leaves == 2


def test_equal_siblings_are_joined_up_to_the_root():
    tree = ObliqueTree(
        [[1.0, 0], [0, 1.0], [1.0, 1.0]], [0, 0, 0], [[1, 2], [3, 4], [5, 6]], [[1.0], [1.0], [1.0], [1.0]],
        n_samples=[10, 4, 6, 1, 3, 2, 4], weighted_n_samples=[5.0, 2, 3, 0.5, 1.5, 1, 2],
    )  # fmt: skip
    small = tree.prune()
    assert small.n_leaves == 1
    assert small.n_samples.tolist() == [10]
    assert small.weighted_n_samples.tolist() == [5.0]
    assert small.notes == ("3 pairs of equal siblings joined: exact everywhere",)
    linear = ObliqueTree([[1.0]], [0], [[1, 2]], [[1.0], [1.0]], leaf_weights=[[[1.0]], [[2.0]]])
    assert linear.prune().n_leaves == 2


def test_notes_and_counts_are_carried_on():
    rows = np.array([[-3.0], [-1.0], [1.0], [2.0]])
    tree = ObliqueTree(
        [[1.0], [1.0], [1.0]], [0, 10, -1.5], [[1, 2], [3, 4], [5, 6]], [[0.0], [1.0], [2.0], [3.0]]
    ).with_counts(rows)
    small = tree.prune(rows)
    assert small.n_samples.tolist() == [4, 2, 2, 1, 1]
    assert small.children.tolist() == [[2, 1], [3, 4]]
    again = small.prune(rows[:3], unvisited=True)
    assert again.notes == (
        "1 branch that no row within the range of the given rows reaches left out: exact within these bounds",
        "1 branch that no given row visits left out: exact on rows that follow the branches of these",
    )
    assert again.predict(rows[:3]).tolist() == tree.predict(rows[:3]).tolist()


def test_unbounded_independent_weights_leave_everything():
    """With more features than neurons every decision pattern has rows."""
    tree = network_to_tree(random_network(0, depth=5, n_features=8))
    assert tree.prune().n_leaves == 32
    assert tree.prune().notes == ()
    assert reachable_nodes(tree, np.full(8, -np.inf), np.full(8, np.inf)).all()


def test_one_leaf_and_sparse_weights():
    lone = ObliqueTree(np.zeros((0, 2)), [], [], [[1.0]])
    assert lone.prune(bounds=(0, 1)) == lone
    tree = ObliqueTree(sparse.csr_array([[1.0, 0], [1.0, 0]]), [0, -9], [[2, 1], [3, 4]], [[0.0], [1.0], [2.0]])
    small = tree.prune(bounds=(-1, 1))
    assert sparse.issparse(small.weights)
    assert small.n_leaves == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"unvisited": True}, "X must be given for unvisited=True"),
        ({"bounds": ([0, 0, 0], 1)}, r"bounds: low must be a number or have shape \(2,\), got \(3,\)"),
        ({"bounds": (1, [2, 0])}, r"low must not exceed high, got 1.0 and 0.0 for feature 1"),
        ({"bounds": (np.nan, 1)}, "low must not exceed high"),
        ({"X": np.zeros((0, 2))}, "X must have at least one row"),
        ({"X": np.zeros((3, 1))}, "X must have 2 features, got 1"),
    ],
)
def test_bad_arguments(arguments, message):
    tree = ObliqueTree([[1.0, 1.0]], [-2.0], [[1, 2]], [[0.0], [1.0]])
    with pytest.raises(ValueError, match=message):
        tree.prune(**arguments)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("known", [False, True])
def test_without_bounds_the_units_of_the_features_make_no_difference(seed, known):
    """A feature of the size 1e-8 has narrow regions, which are not empty."""
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, 10, 4, "identity")
    units = 10.0 ** rng.integers(-8, 9, 4)
    other = replace(tree, weights=tree.weights / units, spreads=units if known else None)
    X = rng.uniform(-2, 2, (300, 4))
    pruned = other.prune()
    assert pruned.n_leaves == tree.prune().n_leaves
    np.testing.assert_array_equal(pruned.decision_function(X * units), other.decision_function(X * units))
