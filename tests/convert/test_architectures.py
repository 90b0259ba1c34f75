"""Canonical ↔ standard networks (Theorem 8)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.convert.networks import fill, networks, random_rows, seeds, tell_apart
from treelu.convert import canonical_to_standard, standard_to_canonical
from treelu.nn import Activation, CanonicalNetwork, LocallyConstantNetwork


@given(network=networks(kinds=("linear", "deep")), seed=seeds)
@settings(max_examples=25, deadline=None)
def test_standard_to_canonical_by_enumeration(network, seed):
    x = random_rows(np.random.default_rng(seed), network.in_features)
    x = x[tell_apart(network, x)]
    canonical = standard_to_canonical(network)
    assert canonical.table.shape == (2**network.depth, network.out_features)
    np.testing.assert_allclose(canonical(x), network(x), rtol=1e-9, atol=1e-9)


@given(network=networks(kinds=("linear",)), seed=seeds, scale=st.sampled_from([1.0, 1e6, 1e-6]))
@settings(max_examples=25, deadline=None)
def test_constructed_head_reproduces_any_table_bit_for_bit(network, seed, scale):
    """f_θ of any kind, a table of unrelated random numbers; features on scales from 1e-6 to 1e6."""
    rng = np.random.default_rng(seed)
    canonical = standard_to_canonical(network)
    spread = scale ** rng.uniform(0, 1, network.in_features)
    for layer in canonical.layers:
        layer.weight[:, : network.in_features] /= spread
    canonical.table[:] = rng.standard_normal(canonical.table.shape)
    x = random_rows(rng, network.in_features, 200)
    x = x[tell_apart(network, x)] * spread
    standard = canonical_to_standard(canonical)
    same = (canonical.activation_pattern(x) == standard.activation_pattern(x)).all(axis=1)
    assert same.mean() > 0.9
    assert np.array_equal(standard(x)[same], canonical(x)[same])
    # every pattern, reachable or not, with the head on the materialised Jacobian too
    patterns = rng.random((50, network.depth)) < 0.5
    codes = patterns @ 2 ** np.arange(network.depth)
    assert np.array_equal(standard.leaf_values(patterns), canonical.table[codes])


@given(seed=seeds, depth=st.integers(2, 5))
@settings(max_examples=20, deadline=None)
def test_constructed_head_on_more_neurons_than_features_and_dead_neurons(seed, depth):
    """One feature, integer weights, a neuron without weights, one whose form vanishes on a branch."""
    rng = np.random.default_rng(seed)
    network = CanonicalNetwork(1, [1] * depth, 1)
    for layer in network.layers:
        layer.weight[:] = rng.integers(-1, 2, layer.weight.shape).astype(float)
        layer.bias[:] = rng.integers(-1, 2, 1).astype(float)
    network.layers[-1].weight[:] = 0
    network.table[:] = rng.standard_normal(network.table.shape)
    x = np.arange(-6, 7)[:, None] / 2
    assert np.array_equal(canonical_to_standard(network)(x), network(x))


def test_wide_canonical_network_with_a_sparse_table():
    rng = np.random.default_rng(5)
    patterns = np.array([[1, -1, -1, 0], [0, 1, -1, -1], [-1, -1, -1, -1]])
    network = CanonicalNetwork(3, [2, 2], 2, patterns=patterns)
    fill(network, rng)
    x = random_rows(rng, 3, 300)
    assert np.array_equal(canonical_to_standard(network)(x), network(x))


def test_constructed_head_at_depth_twelve():
    network = LocallyConstantNetwork(20, 12, 1)
    fill(network, np.random.default_rng(0), 0.5)
    x = np.random.default_rng(1).standard_normal((500, 20))
    canonical = standard_to_canonical(network)
    canonical.table[:] = np.random.default_rng(2).standard_normal(canonical.table.shape)
    assert np.array_equal(canonical_to_standard(canonical)(x), canonical(x))


def test_refusals():
    with pytest.raises(ValueError, match=r"17 neurons.*at most 16"):
        standard_to_canonical(LocallyConstantNetwork(2, 17, 1))
    with pytest.raises(ValueError, match="piece-wise linear"):
        standard_to_canonical(LocallyConstantNetwork(2, 3, 1, activation=Activation("softplus")))
    flat = CanonicalNetwork(2, [1, 1], 1, activation=Activation("leaky_relu", 1.0))
    with pytest.raises(ValueError, match="negative_slope must not be 1"):
        canonical_to_standard(flat)
