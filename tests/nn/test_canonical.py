"""The canonical network against an enumeration of its patterns by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treelu.nn import Activation, CanonicalNetwork


def filled(in_features: int, layer_sizes: list[int], out_features: int, seed: int, **options) -> CanonicalNetwork:
    rng = np.random.default_rng(seed)
    network = CanonicalNetwork(in_features, layer_sizes, out_features, **options)
    for layer in network.layers:
        layer.weight[:], layer.bias[:] = rng.standard_normal(layer.weight.shape), rng.standard_normal(layer.bias.shape)
    network.table[:] = rng.standard_normal(network.table.shape)
    return network


def pattern_by_hand(network: CanonicalNetwork, x: np.ndarray) -> tuple[int, ...]:
    """Neuron by neuron, for one row."""
    slope, before, pattern = network.activation.negative_slope, list(x), []
    for layer in network.layers:
        weight, bias = layer.weight, layer.bias
        z = [sum(w * v for w, v in zip(weight[n], before, strict=True)) + bias[n] for n in range(len(bias))]
        pattern += [int(value >= 0) for value in z]
        before += [value if value >= 0 else slope * value for value in z]
    return tuple(pattern)


@settings(deadline=None, max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    slope=st.sampled_from([0.0, 0.2]),
    seed=st.integers(0, 2**31),
)
def test_output_is_the_row_of_the_pattern(sizes: list[int], slope: float, seed: int) -> None:
    activation = Activation("leaky_relu", slope) if slope else Activation("relu")
    network = filled(3, sizes, 2, seed, activation=activation)
    table = dict(zip(itertools.product([0, 1], repeat=sum(sizes)), itertools.count(), strict=False))
    x = np.random.default_rng([seed, 1]).standard_normal((20, 3))
    out, pattern = network(x), network.activation_pattern(x)
    for row in range(len(x)):
        by_hand = pattern_by_hand(network, x[row])
        assert by_hand == tuple(pattern[row].astype(int).tolist())
        # itertools counts with the last place lowest, the table with the first
        assert np.array_equal(out[row], network.table[table[by_hand[::-1]]])


def test_every_row_of_the_table_is_used_by_its_pattern() -> None:
    network = filled(2, [2, 1], 1, seed=0)
    patterns = np.array(list(itertools.product([False, True], repeat=3)))
    rows = network.table_rows(patterns)
    assert sorted(rows.tolist()) == list(range(8))
    assert network.table_rows(np.array([[True, False, False], [False, False, True]])).tolist() == [1, 4]


def test_given_patterns_with_wildcards_take_the_first_that_fits() -> None:
    patterns = np.array([[1, 1, 0], [1, -1, -1], [-1, -1, 1], [0, 0, 0]])
    network = CanonicalNetwork(2, [2, 1], 1, patterns=patterns)
    met = np.array(list(itertools.product([0, 1], repeat=3))) == 1
    met = met[~((~met[:, 0]) & met[:, 1] & (~met[:, 2]))]  # 010 fits none
    for pattern, row in zip(met.tolist(), network.table_rows(met).tolist(), strict=True):
        fits = [
            all(wanted in (-1, int(bit)) for wanted, bit in zip(given, pattern, strict=True))
            for given in patterns.tolist()
        ]
        assert row == fits.index(True)
    with pytest.raises(ValueError, match="patterns has no row for 1 of the activation patterns met"):
        network.table_rows(np.array([[False, True, False]]))


def test_zero_counts_as_active() -> None:
    network = filled(2, [2, 2], 1, seed=1)
    for layer in network.layers:
        layer.bias[:] = 0
    assert network.activation_pattern(np.zeros((1, 2))).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layer_sizes": []}, "layer_sizes must be at least one layer of at least one neuron, got"),
        ({"layer_sizes": [2, 0]}, "layer_sizes must be at least one layer"),
        ({"layer_sizes": [20, 20]}, r"40 neurons, a table of 2\^40 rows; give `patterns`"),
        ({"activation": Activation("softplus")}, "activation must be 'relu' or 'leaky_relu'"),
        ({"patterns": np.zeros((3, 5))}, r"patterns must be of shape \(K, 2\), got \(3, 5\)"),
    ],
)
def test_bad_settings(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CanonicalNetwork(**{"in_features": 2, "layer_sizes": [2], "out_features": 1, **settings})
