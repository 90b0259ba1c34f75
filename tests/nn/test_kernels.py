"""The Numba kernels against the torch form: shapes, sparsity, λ, masks, threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

from tests.nn.cases import Case, assert_all_close, assert_close, cases, gradients, rows_of
from treelu.nn import Activation, DropConnect, Table
from treelu.nn.arguments import Mask
from treelu.nn.drop_connect import WORD
from treelu.nn.kernels import row_keys
from treelu.nn.passes import _n_parts

FORMS = ("tensor", "dense", "csr")


def run(case: Case, backend: str, x, dtype: torch.dtype = torch.float64):
    network = case.network(backend, dtype)
    assert network.backend == backend
    out = network(x, annealing=case.annealing, drop=case.drop)
    return out.detach(), gradients(network, out, case.cotangent(dtype))


def assert_backends_agree(case: Case, form: str, dtype: torch.dtype = torch.float64) -> None:
    """Outputs and gradients of kernel and torch form on the same rows: 1e-9 in float64, 1e-4 in float32."""
    x = rows_of(case.x(), form, dtype)
    out, by_parameter = run(case, "numba", x, dtype)
    expected, expected_gradients = run(case, "torch", x, dtype)
    assert out.dtype == dtype
    tolerance = 1e-9 if dtype == torch.float64 else 1e-4
    assert_close(out, expected, tolerance, "output")
    assert_all_close(by_parameter, expected_gradients, tolerance)


@settings(deadline=None, max_examples=60)
@given(case=cases(), form=st.sampled_from(FORMS))
def test_locally_constant(case: Case, form: str) -> None:
    assert_backends_agree(case, form)


@settings(deadline=None, max_examples=40)
@given(case=cases(linear=True), form=st.sampled_from(FORMS))
def test_locally_linear(case: Case, form: str) -> None:
    assert_backends_agree(case, form)


@settings(deadline=None, max_examples=40)
@given(case=st.one_of(cases(), cases(linear=True)), form=st.sampled_from(FORMS))
def test_single_precision(case: Case, form: str) -> None:
    assume(case.far_from_jumps(1e-4))
    assert_backends_agree(case, form, torch.float32)


DROP = DropConnect(0.5, key=2**63 + 12345)
SPECIAL = {
    "empty rows": Case(density=0.0, drop=DROP),
    "one row": Case(n_rows=1, drop=DROP),
    "one feature": Case(in_features=1, density=1.0, drop=DROP),
    "one row of one feature": Case(in_features=1, n_rows=1, depth=1, out_features=1, drop=DROP),
    "depth 1": Case(depth=1, drop=DROP),
    "depth 64": Case(depth=64, drop=DROP, in_features=20),
    "depth 70": Case(depth=70, drop=None, in_features=20),
    "many features": Case(in_features=3000, density=0.01, drop=DROP, n_rows=20),
    "no masks": Case(drop=None),
    "nearly all dropped": Case(drop=DropConnect(0.999, 4)),
    "rate 0": Case(drop=DropConnect(0.0, 4)),
    "ReLU": Case(annealing=1.0, drop=DROP),
    "softplus": Case(annealing=0.0, drop=DROP),
    "leaky ReLU": Case(activation=Activation("leaky_relu", 0.2), annealing=1.0, drop=DROP),
    "straight through": Case(activation=Activation(straight_through=True), annealing=0.4, drop=DROP),
    "straight through a step": Case(activation=Activation(straight_through=True), annealing=1.0, drop=DROP),
    "deep head": Case(hidden_layers=(7, 5), drop=DROP),
    "wide output": Case(out_features=17, drop=DROP),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("is_linear", [False, True], ids=["LCN", "LLN"])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_shapes(name: str, is_linear: bool, form: str) -> None:
    case = SPECIAL[name]
    if is_linear:
        case = case.but(is_linear=True, hidden_layers=())
    assert_backends_agree(case, form)


@pytest.mark.parametrize("is_linear", [False, True], ids=["LCN", "LLN"])
def test_columns_of_zeros_and_stored_zeros(is_linear: bool) -> None:
    """A column without entries and entries stored as 0 change nothing, and get no gradient from the rows."""
    case = Case(in_features=6, density=1.0, is_linear=is_linear, drop=DROP)
    x = case.x()
    x[:, [0, 3]] = 0
    stored = sparse.csr_array(x + 1.0)
    stored.data -= 1.0  # the zeros are stored
    assert stored.nnz == x.size
    results = [run(case, "numba", Table(form, np.float64).rows()) for form in (stored, sparse.csr_array(x), x)]
    expected, expected_gradients = run(case, "torch", torch.from_numpy(x))
    for out, by_parameter in results:
        assert_close(out, expected, 1e-12)
        assert_all_close(by_parameter, expected_gradients, 1e-9)


def test_rows_in_any_order_and_repeated() -> None:
    case = Case(n_rows=5, drop=None, annealing=0.3)
    index = np.array([3, 3, 0, 4, 1, 3])
    network = case.network("numba")
    whole = network(torch.from_numpy(case.x()), annealing=0.3)
    for table in (Table(case.x(), np.float64), Table(sparse.csr_array(case.x()), np.float64)):
        assert_close(network(table.rows(index), annealing=0.3), whole[index], 1e-14)


@settings(deadline=None, max_examples=20)
@given(key=st.integers(0, 2**64 - 1), n_rows=st.integers(1, 50))
def test_kernel_and_torch_hash_rows_alike(key: int, n_rows: int) -> None:
    drop = DropConnect(0.5, key)
    words = np.uint32(key & WORD), np.uint32(key >> 32)
    mask = Mask(np.empty(n_rows, np.uint32), *words, np.uint32(drop.threshold), np.float32(drop.scale))
    row_keys(mask, np.uint64(0), np.uint64(n_rows))
    assert np.array_equal(mask.keys.astype(np.int64), drop.row_keys(n_rows).numpy())


@pytest.mark.parametrize("in_features", [1, 7])
@pytest.mark.parametrize("depth", [3, 7, 8])
@pytest.mark.parametrize("is_linear", [False, True], ids=["LCN", "LLN"])
def test_calls_do_not_disturb_each_other(is_linear: bool, depth: int, in_features: int) -> None:
    """Two networks, forward both, then backward both, twice: each gets twice its own gradients."""
    pair = [
        Case(in_features, depth, 1, drop=DROP, is_linear=is_linear, density=1.0, seed=seed, annealing=0.2)
        for seed in (1, 2)
    ]
    networks = [case.network("numba") for case in pair]
    for _ in range(2):
        losses = [
            (network(torch.from_numpy(case.x()), annealing=0.2, drop=DROP) * case.cotangent()).sum()
            for case, network in zip(pair, networks, strict=True)
        ]
        for loss in losses:
            loss.backward()
    for case, network in zip(pair, networks, strict=True):
        once = run(case, "torch", torch.from_numpy(case.x()))[1]
        assert_all_close(
            {name: p.grad for name, p in network.named_parameters()}, {k: 2 * g for k, g in once.items()}, 1e-9
        )


@pytest.mark.parametrize("is_linear", [False, True], ids=["LCN", "LLN"])
def test_a_graph_can_be_walked_back_twice(is_linear: bool) -> None:
    case = Case(drop=DROP, is_linear=is_linear)
    network = case.network("numba")
    loss = (network(torch.from_numpy(case.x()), annealing=case.annealing, drop=DROP) * case.cotangent()).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    once = run(case, "torch", torch.from_numpy(case.x()))[1]
    by_parameter = {name: p.grad for name, p in network.named_parameters()}
    assert_all_close(by_parameter, {name: 2 * g for name, g in once.items()}, 1e-9)


def test_a_parameter_changed_before_backward_is_noticed() -> None:
    case = Case()
    for backend in ("numba", "torch"):
        network = case.network(backend)
        out = network(torch.from_numpy(case.x()), annealing=0.5)
        with torch.no_grad():
            network.connection.mul_(2.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()


@settings(deadline=None, max_examples=40)
@given(case=st.one_of(cases(), cases(linear=True)), form=st.sampled_from(["dense", "csr"]), n_batches=st.integers(1, 3))
def test_a_gradient_pass_gives_what_autograd_gives(case: Case, form: str, n_batches: int) -> None:
    """Over batches of different sizes in turn: nothing of one batch is left in the next."""
    network = case.network("numba")
    fast = network.gradient_pass()
    if case.hidden_layers:
        assert fast is None
        return
    lam = case.activation.default_annealing if case.annealing is None else case.annealing
    drop = None if case.drop is None else DropConnect(case.drop.rate, case.drop.key)
    for number in range(n_batches):
        here = case.but(n_rows=1 + (case.n_rows + 3 * number) % 7, drop=drop)
        rows = rows_of(here.x(), form)
        out = fast.forward(rows, lam, case.activation, drop).copy()
        fast.backward(np.ascontiguousarray(here.cotangent().numpy().T))
        expected, expected_gradients = run(here, "torch", rows)
        assert_close(torch.from_numpy(out.T), expected, 1e-9)
        assert_all_close({name: p.grad for name, p in network.named_parameters()}, expected_gradients, 1e-9)


def test_no_gradient_pass_where_the_kernels_are_not_the_whole_network() -> None:
    assert Case().network("torch").gradient_pass() is None
    assert Case(hidden_layers=(3,)).network("numba").gradient_pass() is None
    network = Case().network("numba")
    network.drop_in_jacobian = True
    assert network.gradient_pass() is None


# Threads


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("is_linear", [False, True], ids=["LCN", "LLN"])
@pytest.mark.usefixtures("threads")
def test_threads_change_rounding_only_and_repeat_to_the_bit(is_linear: bool, form: str) -> None:
    case = Case(300, 12, 2, n_rows=600, drop=DROP, is_linear=is_linear, density=0.3, seed=1)
    rows = rows_of(case.x(), form, torch.float32)
    torch.set_num_threads(1)
    alone, alone_gradients = run(case, "numba", rows, torch.float32)
    again, again_gradients = run(case, "numba", rows, torch.float32)
    torch.set_num_threads(2)
    assert _n_parts(rows, case.depth, 2) == 2
    shared = [run(case, "numba", rows, torch.float32) for _ in range(3)]
    assert torch.equal(alone, again)
    assert all(torch.equal(alone_gradients[name], again_gradients[name]) for name in alone_gradients)
    assert_close(shared[0][0], alone, 1e-5)
    assert_all_close(shared[0][1], alone_gradients, 1e-5)
    for out, by_parameter in shared[1:]:
        assert torch.equal(out, shared[0][0])
        assert all(torch.equal(by_parameter[name], shared[0][1][name]) for name in by_parameter)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.usefixtures("threads")
def test_patterns_do_not_depend_on_threads(form: str) -> None:
    case = Case(300, 12, 2, n_rows=5000, density=0.3, seed=1)
    rows = rows_of(case.x(), form)
    network = case.network("numba")
    torch.set_num_threads(1)
    alone = network.activation_codes(rows)
    torch.set_num_threads(2)
    assert network._router().n_parts(rows, 2) == 2
    assert np.array_equal(network.activation_codes(rows), alone)


@pytest.mark.parametrize("weights", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("values", [np.float32, np.float64])
@pytest.mark.parametrize("depth", [1, 8, 9, 16, 17, 24, 33, 70])
def test_patterns_of_every_width_and_precision(depth: int, values: type, weights: torch.dtype) -> None:
    """Against the formula in float64, but where a neuron is near 0; weights of 8, 16, 24, … columns."""
    case = Case(40, depth, 1, n_rows=150, annealing=None, seed=depth)
    network = case.network("numba", weights)
    weight, connection, bias = (p.detach().double().numpy() for p in (network.weight, network.connection, network.bias))
    x = case.x()
    x[7] = 0  # an empty row
    a, z = np.zeros((150, depth)), np.zeros((150, depth))
    for i in range(depth):
        z[:, i] = x @ weight[:, i] + a @ np.where(np.arange(depth) < i, connection[i], 0) + bias[i]
        a[:, i] = np.maximum(z[:, i], 0)
    clear = np.abs(z).min(axis=1) > 1e-5
    assert clear.sum() > 50
    for form in (x, sparse.csr_array(x)):
        pattern = network.activation_pattern(Table(form, values).rows()).numpy()
        assert np.array_equal(pattern[clear], z[clear] >= 0)


@pytest.mark.parametrize("is_linear", [False, True], ids=["LCN", "LLN"])
@pytest.mark.usefixtures("threads")
def test_a_gradient_pass_with_threads(is_linear: bool) -> None:
    """Large batches for two threads and small ones for one in turn."""
    case = Case(300, 12, 2, drop=DROP, is_linear=is_linear, density=0.3, seed=1)
    torch.set_num_threads(2)
    network = case.network("numba")
    fast = network.gradient_pass()
    for n_rows, n_parts in ((600, 2), (5, 1), (700, 2)):
        here = case.but(n_rows=n_rows)
        rows = rows_of(here.x(), "csr")
        assert _n_parts(rows, case.depth, 2) == n_parts
        fast.forward(rows, case.annealing, case.activation, DROP)
        fast.backward(np.ascontiguousarray(here.cotangent().numpy().T))
        expected_gradients = run(here, "torch", rows)[1]
        assert_all_close({name: p.grad for name, p in network.named_parameters()}, expected_gradients, 1e-9)


def test_more_threads_than_rows(threads: None) -> None:
    torch.set_num_threads(4)
    case = Case(3, 128, 1, n_rows=2, drop=None, seed=2)
    x = rows_of(case.x(), "dense")
    assert _n_parts(x, case.depth, 4) == 2
    assert_close(run(case, "numba", x)[0], run(case, "torch", x)[0], 1e-9)


def test_extreme_inputs_stay_finite() -> None:
    """exp never overflows: far out, softplus and its derivatives are those of ReLU or zero."""
    case = Case(in_features=3, depth=3, annealing=0.5)
    x = torch.tensor([[1e4, -1e4, 1e4], [-1e4, 1e4, 0.0], [1e3, 800.0, -800.0]], dtype=torch.float64)
    case = case.but(n_rows=3)
    out, by_parameter = run(case, "numba", x)
    expected, expected_gradients = run(case, "torch", x)
    assert torch.isfinite(out).all()
    assert_close(out, expected, 1e-9)
    assert_all_close(by_parameter, expected_gradients, 1e-9)


@pytest.mark.parametrize("hidden_layers", [(), (5,)])
@pytest.mark.parametrize("activation", [Activation(), Activation("leaky_relu", 0.2)], ids=["relu", "leaky_relu"])
@pytest.mark.parametrize("count", [1, 256, 600])
def test_leaf_values(count: int, activation: Activation, hidden_layers: tuple[int, ...]) -> None:
    case = Case(6, 10, 3, activation=activation, hidden_layers=hidden_layers)
    patterns = torch.rand(count, 10, generator=torch.Generator().manual_seed(count)) < 0.6
    expected = case.network("torch").leaf_values(patterns)
    assert_close(case.network("numba").leaf_values(patterns), expected, 1e-12)
