"""Networks as plain arrays: patterns, leaves, prediction, rewriting, starts, bad settings."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tests.nn.cases import Case, assert_close, cases, neurons, output, rows_of
from treelu.nn import Activation, LocallyConstantNetwork, LocallyLinearNetwork, Table
from treelu.nn.corrections import LeafCorrections
from treelu.nn.patterns import pack_pattern, unpack_codes

FORMS = ("dense", "csr")
KINDS = pytest.mark.parametrize("is_linear", [False, True], ids=["LCN", "LLN"])


def by_hand(case: Case) -> np.ndarray:
    return np.array([output(case, row) for row in range(case.n_rows)])


# Patterns, leaves, prediction


@settings(deadline=None, max_examples=50)
@given(case=cases(piecewise=True), form=st.sampled_from(FORMS))
def test_patterns_leaves_and_prediction(case: Case, form: str) -> None:
    """o by hand is the pattern; the value of the pattern is the output."""
    expected = np.array([neurons(case, row)[0] >= 0 for row in range(case.n_rows)])
    x, network = rows_of(case.x(), form), case.network()
    pattern = network.activation_pattern(x)
    assert np.array_equal(pattern, expected)
    assert_close(network.leaf_values(pattern), by_hand(case), 1e-10)
    for _ in range(3):  # leaf by leaf at first, from a table of all leaves once that pays
        assert_close(network(x), by_hand(case), 1e-10)


@settings(deadline=None, max_examples=30)
@given(case=cases(piecewise=True, linear=True), form=st.sampled_from(FORMS))
def test_patterns_of_locally_linear_networks(case: Case, form: str) -> None:
    expected = np.array([neurons(case, row)[0] >= 0 for row in range(case.n_rows)])
    assert np.array_equal(case.network().activation_pattern(rows_of(case.x(), form)), expected)


@pytest.mark.parametrize(
    ("depth", "form"), [*itertools.product([1, 12, 13], FORMS), (63, "csr"), (64, "dense"), (130, "csr")]
)
def test_prediction_at_any_depth(depth: int, form: str) -> None:
    """Around the sizes where a table of all leaves, one word, or two words of a pattern end."""
    case = Case(in_features=8, depth=depth, n_rows=20, annealing=None, density=0.7, seed=depth)
    x, network = rows_of(case.x(), form), case.network()
    assert_close(network(x), by_hand(case), 1e-9)
    pattern = network.activation_pattern(x)
    assert pattern.shape == (20, depth)
    assert len(np.unique(pattern, axis=0)) > 1


def test_a_leaf_has_one_value_whatever_stands_beside_it() -> None:
    case = Case(in_features=6, depth=14, out_features=3, annealing=None, n_rows=400, density=1.0)
    network, x = case.network(), case.x()
    alone = np.concatenate([network(x[row : row + 1]) for row in range(0, 400, 7)])
    assert np.array_equal(network(x)[::7], alone)


@KINDS
@pytest.mark.parametrize("depth", [3, 70])
def test_no_rows(depth: int, is_linear: bool) -> None:
    network = Case(is_linear=is_linear, depth=depth).network()
    assert network(np.zeros((0, 5))).shape == (0, 2)
    assert network.activation_pattern(np.zeros((0, 5))).shape == (0, depth)


@given(depth=st.integers(1, 140), seed=st.integers(0, 2**31))
def test_packing_patterns_round_trip(depth: int, seed: int) -> None:
    pattern = np.random.default_rng(seed).random((5, depth)) < 0.5
    codes = pack_pattern(pattern)
    assert codes.shape == (5, -(-depth // 63))
    assert np.array_equal(unpack_codes(codes, depth), pattern)
    first_word = [sum(2**i for i in range(min(depth, 63)) if row[i]) for row in pattern]
    assert codes[:, 0].tolist() == first_word


def test_zero_counts_as_active() -> None:
    """z = 0 exactly in every neuron: o = 1 (Eq. 3) in pattern and output."""
    network = Case(annealing=None).network()
    network.bias[:] = 0
    x = np.zeros((3, 5))
    assert network.activation_pattern(x).all()
    active = np.ones((3, 4), bool)
    assert_close(network(x), network.leaf_values(active), 1e-14)
    assert not np.allclose(network(x), network.leaf_values(~active))


def test_the_boundary_belongs_to_the_right_side() -> None:
    """One neuron x ≥ 1: the row x = 1 itself is on the right."""
    network = LocallyConstantNetwork(1, 1, 1, seed=0)
    network.weight[:], network.bias[:] = 1.0, -1.0
    x = np.array([[1.0], [np.nextafter(1.0, 0.0)], [np.nextafter(1.0, 2.0)]])
    assert network.activation_pattern(x)[:, 0].tolist() == [True, False, True]
    out = network(x)[:, 0]
    assert out[0] == out[2] != out[1]


# The table of leaves follows the parameters


def _in_place(network) -> None:
    network.head.bias += 1.0


def _another_array(network) -> None:
    network.weight = -network.weight


def _by_state(network) -> None:
    network.load_state(Case(seed=99, annealing=None).network().state())


def _flat(network) -> None:
    network.flatten()[:] *= 1.5


@pytest.mark.parametrize("change", [_in_place, _another_array, _by_state, _flat])
def test_leaves_follow_the_parameters(change: Callable) -> None:
    case = Case(annealing=None, n_rows=40)
    network, x = case.network(), case.x()
    for _ in range(3):  # enough rows for a table of all leaves to pay
        before = network(x)
    change(network)
    fresh = copy.deepcopy(network)
    fresh._leaves = None
    for _ in range(3):
        assert np.array_equal(network(x), fresh(x))
    assert not np.allclose(network(x), before)


def test_leaves_follow_the_slope_and_the_corrections() -> None:
    case = Case(annealing=None, n_rows=40, activation=Activation("leaky_relu", 0.3))
    network, x = case.network(), case.x()
    for _ in range(3):
        before = network(x)
    network.activation = Activation("leaky_relu", -0.2)
    other = case.but(activation=Activation("leaky_relu", -0.2))
    assert_close(network(x), by_hand(other), 1e-12)
    assert not np.allclose(network(x), before)
    codes = network.activation_codes(x)
    network.correct_leaves(LeafCorrections(np.unique(codes, axis=0)[:1], np.ones((1, 2))))
    corrected = by_hand(other) + (codes == codes.min())
    assert_close(network(x), corrected, 1e-12)
    assert_close(network.leaf_values(network.activation_pattern(x)), corrected, 1e-12)
    with pytest.raises(ValueError, match="leaf corrections need a piece-wise linear activation"):
        Case(activation=Activation("softplus")).network().correct_leaves(network.leaf_corrections)


COPIERS = {"copy": lambda n: n.copy(), "deepcopy": copy.deepcopy, "pickle": lambda n: pickle.loads(pickle.dumps(n))}


@pytest.mark.parametrize("how", COPIERS)
@KINDS
def test_copies_are_independent(how: str, is_linear: bool) -> None:
    case = Case(annealing=None, is_linear=is_linear, hidden_layers=() if is_linear else (3,))
    network, x = case.network(), case.x()
    before = network(x)
    twin = COPIERS[how](network)
    assert np.array_equal(twin(x), before)
    for array in twin.arrays().values():
        array += 1.0
    assert np.array_equal(network(x), before)
    assert not np.allclose(twin(x), before)
    assert network.copy(np.float32).dtype == np.float32


@KINDS
def test_flattening_keeps_the_function_and_shares_the_vector(is_linear: bool) -> None:
    case = Case(annealing=0.3, is_linear=is_linear, hidden_layers=() if is_linear else (3, 2))
    network, x = case.network(), case.x()
    before, names = network(x, annealing=0.3), list(network.arrays())
    flat = network.flatten()
    assert np.array_equal(network(x, annealing=0.3), before)
    assert list(network.arrays()) == names
    flat *= 2
    assert np.shares_memory(network.bias, flat)
    assert np.array_equal(network.bias, 2 * case.network().bias)
    with pytest.raises(ValueError, match=r"weight must have the shape \(5, 4\), got \(2, 4\)"):
        network.set_arrays({**network.arrays(), "weight": np.zeros((2, 4))})


# Rewriting


@KINDS
def test_widening_keeps_the_function_of_the_features_it_reads(is_linear: bool) -> None:
    case = Case(annealing=0.3, is_linear=is_linear, n_rows=9, density=1.0)
    network, rng = case.network(), np.random.default_rng(0)
    features, wide_x = np.array([1, 2, 4, 7, 8]), rng.standard_normal((9, 10))
    wide = network.widen(features, 10)
    assert wide.in_features == 10
    assert_close(wide(wide_x, annealing=0.3), network(wide_x[:, features], annealing=0.3), 1e-12)
    assert network.weight.shape == (5, 4)


@KINDS
def test_a_deeper_network_starts_with_the_neurons_of_a_shallower(is_linear: bool) -> None:
    kind = LocallyLinearNetwork if is_linear else LocallyConstantNetwork
    shallow, deep = kind(5, 2, 1, seed=0), kind(5, 4, 1, seed=1)
    untouched = deep.weight[:, 2:].copy()
    deep.start_with(shallow)
    x = np.random.default_rng(0).standard_normal((30, 5))
    assert np.array_equal(deep.activation_pattern(x)[:, :2], shallow.activation_pattern(x))
    assert np.array_equal(deep.weight[:, 2:], untouched)
    name = "output_connection" if is_linear else "head.weight"
    places = tuple(slice(length) for length in shallow.arrays()[name].shape)
    assert np.array_equal(deep.arrays()[name][places], shallow.arrays()[name])


# Smooth networks


def test_softplus_stays_smooth_in_evaluation() -> None:
    case = Case(activation=Activation("softplus"), annealing=None)
    network, x = case.network(), case.x()
    assert_close(network(x), network(x, annealing=0.0), 1e-14)
    assert not np.allclose(network(x), network(x, annealing=1.0))


# Starts


@pytest.mark.parametrize("hidden_layers", [(), (300,)], ids=["linear head", "deep head"])
def test_locally_constant_networks_start_as_the_authors_do(hidden_layers: tuple[int, ...]) -> None:
    """Uniform in ±1/√fan_in: D + i − 1 for neuron i, M(D + 1) for the first layer of g_φ."""
    D, M = 500, 4
    network = LocallyConstantNetwork(D, M, 3, hidden_layers=hidden_layers, seed=0)
    for i in range(M):
        bound = 1 / np.sqrt(D + i)
        column = network.weight[:, i]
        assert 0.98 * bound < np.abs(column).max() <= bound * (1 + 1e-6)
        assert abs(column.std() - bound / np.sqrt(3)) < 0.1 * bound
        assert abs(network.bias[i]) <= bound
        assert (np.abs(network.connection[i, :i]) <= bound).all()
        assert not network.connection[i, i:].any()
    bound = 1 / np.sqrt(M * (D + 1))
    assert 0.99 * bound < np.abs(network.head.weight).max() <= bound * (1 + 1e-6)
    assert np.abs(network.head.offset_weight).max() <= bound
    for layer in network.head.hidden:
        assert 0.98 / np.sqrt(300) < np.abs(layer.weight).max() <= 1 / np.sqrt(300) * (1 + 1e-6)


def test_locally_linear_networks_start_within_their_fan_in() -> None:
    network = LocallyLinearNetwork(500, 4, 2, seed=0)
    bound = 1 / np.sqrt(504)
    assert 0.98 * bound < np.abs(network.output_weight).max() <= bound * (1 + 1e-6)
    assert np.abs(network.output_connection).max() <= bound


@pytest.mark.parametrize("seed", [0, 3, 2**31 - 1, 2**40 + 5])
def test_a_seed_draws_what_torchs_generator_draws(seed: int) -> None:
    """Models of version 0.1 started so; one seed fixes the start in every precision."""
    torch = pytest.importorskip("torch")
    network = LocallyConstantNetwork(7, 3, 2, hidden_layers=(4,), seed=seed)
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand((7, 3), generator=generator, dtype=torch.float64).numpy() * 2 - 1
    assert_close(network.weight * np.sqrt(7 + np.arange(3)), drawn, 1e-6)
    single = LocallyConstantNetwork(7, 3, 2, hidden_layers=(4,), dtype=np.float32, seed=seed)
    assert all(np.array_equal(single.arrays()[name], a.astype(np.float32)) for name, a in network.arrays().items())


# Bad settings and input


@pytest.mark.parametrize("network_class", [LocallyConstantNetwork, LocallyLinearNetwork])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"depth": 0}, "depth must be at least 1, got 0"),
        ({"in_features": 0}, "in_features must be at least 1, got 0"),
        ({"out_features": -1}, "out_features must be at least 1, got -1"),
        ({"drop_connect": 1.0}, r"drop_connect must be in \[0, 1\), got 1.0"),
        ({"dtype": np.int64}, "dtype must be float32 or float64, got"),
    ],
)
def test_bad_settings(network_class, settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        network_class(**{"in_features": 3, "depth": 2, "out_features": 1, **settings})


def test_bad_hidden_layers() -> None:
    with pytest.raises(ValueError, match=r"hidden_layers must be widths of at least 1, got \(4, 0\)"):
        LocallyConstantNetwork(3, 2, 1, hidden_layers=(4, 0))


def test_bad_calls() -> None:
    network = LocallyConstantNetwork(3, 2, 1)
    with pytest.raises(ValueError, match="x must have 3 features, got 4"):
        network(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="annealing must be between 0"):
        network(np.zeros((2, 3)), annealing=1.5)


@KINDS
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_values_are_read_in_the_precision_of_the_network(form: Callable, is_linear: bool) -> None:
    """Bit for bit as if the table had been converted; numbers too small for float32 are zeros there."""
    case = Case(is_linear=is_linear)
    x = case.x()
    x[0] = 1e-60
    for own, other in ((np.float32, np.float64), (np.float64, np.float32)):
        network = case.network(own)
        as_they_are, converted = Table(form(x.astype(other))).rows(), Table(form(x.astype(other)), own).rows()
        assert as_they_are.table.dtype == other
        for annealing in (0.3, 1.0):
            assert np.array_equal(network(as_they_are, annealing=annealing), network(converted, annealing=annealing))
        assert np.array_equal(network.activation_codes(as_they_are), network.activation_codes(converted))


def test_repr_names_the_settings() -> None:
    text = repr(LocallyConstantNetwork(3, 2, 1, drop_connect=0.25))
    assert "in_features=3, depth=2, out_features=1" in text
    assert "drop_connect=0.25" in text
