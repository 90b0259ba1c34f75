"""Network → tree (Theorem 3): leaf for leaf, output for output."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given, settings
from scipy import sparse

from tests.convert.networks import fill, networks, pre_activations, random_rows, seeds, tell_apart
from treelu.convert import network_to_tree
from treelu.data.targets import Targets
from treelu.nn import Activation, CanonicalNetwork, LocallyConstantNetwork, LocallyLinearNetwork, Table
from treelu.training import Dataset, train


def pattern_codes(patterns: np.ndarray) -> np.ndarray:
    """Patterns as numbers, the first neuron in the highest bit: the order of the tree's leaves."""
    return patterns @ (2 ** np.arange(patterns.shape[1] - 1, -1, -1))


@given(network=networks(), seed=seeds)
@settings(max_examples=100, deadline=None)
def test_leaf_is_the_activation_pattern_and_output_the_networks(network, seed):
    x = random_rows(np.random.default_rng(seed), network.in_features)
    kept = tell_apart(network, x)
    assert kept.mean() > 0.9  # the exclusion is for rounding, not a way out
    x = x[kept]
    tree = network_to_tree(network)
    assert tree.n_leaves == 2**network.depth
    assert tree.depth == network.depth
    z, size = pre_activations(network, x)
    np.testing.assert_array_equal(tree.apply(x) - tree.n_splits, pattern_codes(z >= 0))
    np.testing.assert_array_equal(network.activation_pattern(x), z >= 0)
    outputs = network(x)
    # 1e-9 of the output; for linear leaves of the terms it is summed from, which grow with the row
    scale = 1 + np.abs(outputs)
    if isinstance(network, LocallyLinearNetwork):
        scale = scale + size.sum(axis=1, keepdims=True)
    assert (np.abs(tree.decision_function(x) - outputs) <= 1e-9 * scale).all()


@given(network=networks(kinds=("linear", "deep")), seed=seeds)
@settings(max_examples=40, deadline=None)
def test_leaf_values_against_the_materialised_jacobian(network, seed):
    """g_φ on ∇ₓa from autograd, at a row of the leaf: independent of the coefficient form on both sides."""
    x = random_rows(np.random.default_rng(seed), network.in_features, 6)[:2]
    assume(tell_apart(network, x).all())
    tree = network_to_tree(network)
    torch = pytest.importorskip("torch")
    from treelu.nn.torch import to_torch

    module = to_torch(network)
    for row in torch.from_numpy(x):
        row.requires_grad_()
        slope, activations = network.activation.negative_slope, []
        for i in range(network.depth):
            z = row @ module.weight[:, i] + module.bias[i]
            for k in range(i):
                z = z + module.connection[i, k] * activations[k]
            activations.append(torch.where(z >= 0, z, slope * z))
        jacobian = torch.stack([torch.autograd.grad(a, row, retain_graph=True)[0] for a in activations])
        offsets = torch.stack(activations) - jacobian @ row
        wanted = module.head(jacobian[None], offsets[None]).detach().numpy()
        got = tree.decision_function(row.detach().numpy()[None])
        # offsets lose digits at far rows; leaf values do not
        tolerance = 1e-9 * (1 + np.abs(wanted).max() + np.abs(row.detach().numpy()).max())
        np.testing.assert_allclose(got, wanted, rtol=1e-7, atol=tolerance)


@pytest.mark.parametrize("slope", [0.0, 0.5, 2.0])
@given(seed=seeds)
@settings(max_examples=30, deadline=None)
def test_points_on_a_hyperplane_go_right_in_both(slope, seed):
    """Small integers make every sum exact, so that z = 0 is met often and exactly."""
    rng = np.random.default_rng(seed)
    activation = Activation("relu") if slope == 0 else Activation("leaky_relu", slope)
    network = LocallyConstantNetwork(3, 5, 1, activation=activation)
    for parameter in (network.weight, network.connection, network.bias):
        parameter[:] = rng.integers(-2, 3, parameter.shape).astype(float)
    x = rng.integers(-2, 3, (80, 3)).astype(float)
    z, _ = pre_activations(network, x)
    assume((z == 0).any())
    leaves = network_to_tree(network).apply(x)
    np.testing.assert_array_equal(leaves - 31, pattern_codes(z >= 0))
    np.testing.assert_array_equal(network.activation_pattern(x), z >= 0)


def test_the_papers_toy_example():
    """Fig. 1, M = 2: z² is −4x₁ + x₂ + 4 left of z¹ and −3x₂ + 8 right of it."""
    network = LocallyConstantNetwork(2, 2, 1)
    network.weight[:] = np.array([[1.0, -4.0], [-1.0, 1.0]])
    network.bias[:] = np.array([1.0, 4.0])
    network.connection[:] = np.array([[0.0, 0.0], [4.0, 0.0]])
    tree = network_to_tree(network, feature_names=["x1", "x2"])
    np.testing.assert_array_equal(tree.weights, [[1, -1], [-4, 1], [0, -3]])
    np.testing.assert_array_equal(tree.biases, [1, 4, 8])
    np.testing.assert_array_equal(tree.children, [[1, 2], [3, 4], [5, 6]])


def test_upper_triangle_of_the_connections_is_ignored():
    network = LocallyConstantNetwork(3, 4, 1, seed=0)
    plain = network_to_tree(network)
    network.connection += np.triu(np.ones((4, 4)))
    assert network_to_tree(network) == plain


def test_float32_network_is_read_as_the_numbers_it_holds():
    network = LocallyConstantNetwork(4, 3, 1, dtype=np.float32, seed=0)
    tree = network_to_tree(network)
    assert network.dtype == np.float32
    np.testing.assert_array_equal(tree.weights[0], network.weight[:, 0])


@given(network=networks(kinds=("linear", "deep", "lln")), seed=seeds)
@settings(max_examples=40, deadline=None)
def test_visited_branches_keep_the_outputs_of_patterns_that_were_met(network, seed):
    x = random_rows(np.random.default_rng(seed), network.in_features)
    x = x[tell_apart(network, x)]
    met, new = x[::2], x[1::2]
    whole, part = network_to_tree(network), network_to_tree(network, visited_by=sparse.csr_array(met))
    patterns = network.activation_pattern(met)
    assert part.n_leaves == len(np.unique(patterns, axis=0))
    known = np.isin(whole.apply(new), whole.apply(met))
    for rows in (met, new[known]):
        # a matrix product rounds differently with the number of its rows
        got, wanted = part.decision_function(rows), whole.decision_function(rows)
        assert (np.abs(got - wanted) <= 1e-11 * (1 + np.abs(wanted).max(initial=0))).all()


def test_depth_forty_converts_by_visited_branches():
    rng = np.random.default_rng(0)
    network = LocallyConstantNetwork(30, 40, 2)
    fill(network, rng, 0.3)
    x = rng.standard_normal((500, 30))
    tree = network_to_tree(network, visited_by=x)
    assert tree.n_leaves <= 500
    assert tree.depth <= 40
    assert "exact for the activation patterns of these" in tree.notes[0]
    wanted = network(x)
    np.testing.assert_allclose(tree.decision_function(x), wanted, rtol=1e-9, atol=1e-9)
    assert network_to_tree(network, visited_by=x[:1]).n_leaves == 1


def test_depth_twelve_on_2048_features_stays_within_four_times_its_arrays():
    network = LocallyConstantNetwork(2048, 12, 1, seed=0)
    network_to_tree(LocallyConstantNetwork(3, 2, 1))  # imports and caches
    tracemalloc.start()
    tree = network_to_tree(network)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    own = tree.weights.nbytes + tree.values.nbytes + tree.biases.nbytes + tree.children.nbytes
    assert own > 4095 * 2048 * 8
    assert peak < 4 * own


@pytest.mark.parametrize(
    ("sizes", "slope"), [([1], 0.0), ([3], 0.0), ([2, 3], 0.0), ([2, 1, 2], 0.1), ([1, 1, 1, 1], 0.5)]
)
def test_wide_canonical_network_to_tree(sizes, slope):
    rng = np.random.default_rng(len(sizes))
    activation = Activation("relu") if slope == 0 else Activation("leaky_relu", slope)
    network = CanonicalNetwork(4, sizes, 2, activation=activation)
    fill(network, rng)
    x = random_rows(rng, 4, 300)
    tree = network_to_tree(network)
    assert tree.depth == sum(sizes)
    wanted = network(x)
    np.testing.assert_array_equal(tree.decision_function(x), wanted)
    visited = network_to_tree(network, visited_by=x)
    np.testing.assert_array_equal(visited.decision_function(x), wanted)


@given(seed=seeds)
@settings(max_examples=30, deadline=None)
def test_canonical_network_with_a_table_of_some_patterns(seed):
    """Overlapping rows, rows that never match, patterns without a row, connections between the layers."""
    rng = np.random.default_rng(seed)
    n_rows = int(rng.integers(2, 8))
    patterns = rng.integers(-1, 2, (n_rows, 5))
    patterns[-1] = -1 if rng.random() < 0.5 else patterns[-1]
    network = CanonicalNetwork(3, [2, 3], 1, patterns=patterns)
    fill(network, rng)
    x = random_rows(rng, 3, 200)
    active = network.activation_pattern(x)
    fits = ((patterns[:, None] < 0) | (patterns[:, None] == active)).all(axis=2)  # (K, n)
    known = fits.any(axis=0)
    wanted = network.table[fits.argmax(axis=0)]
    tree = network_to_tree(network)
    np.testing.assert_array_equal(tree.decision_function(x)[known], wanted[known])


@given(network=networks(kinds=("linear",), max_depth=6))
@settings(max_examples=25, deadline=None)
def test_lemma_6_and_proposition_7_on_random_networks(network):
    check_shared_parameters(network_to_tree(network), network.depth)


@pytest.mark.parametrize("kind", ["relu", "leaky_relu"])
def test_lemma_6_and_proposition_7_on_a_trained_network(kind):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((300, 8))
    y = (x[:, :1] * x[:, 1:2] > 0).astype(float)
    activation = Activation(kind, 0.1 if kind == "leaky_relu" else 0.0)
    network = LocallyConstantNetwork(8, 5, 1, activation=activation, seed=0)
    start = network.weight.copy()
    sample = Dataset(Table(x), Targets("binary", y, 1))
    train(network, sample, epochs=60, batch_size=300, optimizer="sgd", learning_rate=0.1, schedule="constant", rng=rng)
    assert np.abs(network.weight - start).max() > 0.1  # it did learn
    check_shared_parameters(network_to_tree(network), 5)


def check_shared_parameters(tree, depth):
    """ω_r − ω_r' lies in the span of the weights above the decisions in which r and r' differ.

    One difference is Lemma 6 (a multiple of one vector), several are Proposition 7.
    """
    weight_of = {}
    for level in range(depth):
        for number, path in enumerate(itertools.product((0, 1), repeat=level)):
            weight_of[path] = tree.weights[2**level - 1 + number]
    rng = np.random.default_rng(0)
    for path, weight in weight_of.items():
        if not path:
            continue
        flips = rng.random((3, len(path))) < 0.5
        for flip in np.vstack([np.eye(len(path), dtype=bool), flips]):
            other = tuple(int(bit) ^ int(f) for bit, f in zip(path, flip, strict=True))
            if not flip.any():
                continue
            basis = np.array([weight_of[path[:j]] for j in np.flatnonzero(flip)])
            difference = weight - weight_of[other]
            lengths = np.linalg.norm(basis, axis=1, keepdims=True)
            basis = basis / np.where(lengths > 0, lengths, 1)
            residue = difference - np.linalg.lstsq(basis.T, difference, rcond=None)[0] @ basis
            scale = np.linalg.norm(difference) + np.linalg.norm(weight)
            assert np.linalg.norm(residue) <= 1e-8 * scale, (path, other)


def test_softplus_and_other_modules_are_refused():
    network = LocallyConstantNetwork(3, 2, 1, activation=Activation("softplus"))
    with pytest.raises(ValueError, match=r"piece-wise linear.*softplus"):
        network_to_tree(network)
    with pytest.raises(TypeError, match=r"network must be.*dict"):
        network_to_tree({})


def test_deep_network_without_rows_is_refused_with_advice():
    network = LocallyConstantNetwork(3, 17, 1)
    with pytest.raises(ValueError, match=r"17 neurons.*to_tree\(visited_by=X\)"):
        network_to_tree(network)
    with pytest.raises(ValueError, match="visited_by must have at least one row"):
        network_to_tree(network, visited_by=np.zeros((0, 3)))
    with pytest.raises(ValueError, match="X must have 3 features, got 2"):
        network_to_tree(network, visited_by=np.zeros((5, 2)))
