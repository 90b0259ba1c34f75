"""The networks as torch modules: patterns, leaves, prediction, backends, starts, bad settings."""

from __future__ import annotations

import copy
import io
import itertools
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tests.nn.cases import Case, assert_close, cases, neurons, rows_of
from treelu.nn import Activation, DropConnect, LocallyConstantNetwork, LocallyLinearNetwork, Table, networks
from treelu.nn.corrections import LeafCorrections
from treelu.nn.patterns import pack_pattern, unpack_codes

BACKENDS = ("numba", "torch")
FORMS = ("tensor", "dense", "csr")


def predict(network, x) -> torch.Tensor:
    with torch.no_grad():
        return network(x)


# Patterns, leaves, prediction


@settings(deadline=None, max_examples=50)
@given(case=cases(piecewise=True), form=st.sampled_from(FORMS))
def test_patterns_leaves_and_prediction(case: Case, form: str) -> None:
    """o by hand is the pattern; the value of the pattern is the output; prediction is the form that is trained."""
    by_hand = np.array([neurons(case, row)[0] >= 0 for row in range(case.n_rows)])
    x = rows_of(case.x(), form)
    for backend in BACKENDS:
        network = case.network(backend)
        pattern = network.activation_pattern(x)
        assert np.array_equal(pattern.numpy(), by_hand)
        out = network(x)
        assert out.requires_grad
        assert_close(network.leaf_values(pattern), out, 1e-10)
        for _ in range(3):  # leaf by leaf at first, from a table of all leaves once that pays
            assert_close(predict(network, x), out, 1e-10)


@settings(deadline=None, max_examples=30)
@given(case=cases(piecewise=True, linear=True), form=st.sampled_from(FORMS))
def test_patterns_of_locally_linear_networks(case: Case, form: str) -> None:
    by_hand = np.array([neurons(case, row)[0] >= 0 for row in range(case.n_rows)])
    x = rows_of(case.x(), form)
    for backend in BACKENDS:
        network = case.network(backend)
        assert np.array_equal(network.activation_pattern(x).numpy(), by_hand)
        assert_close(predict(network, x), network(x), 1e-12)


@pytest.mark.parametrize(
    ("depth", "form"), [*itertools.product([1, 12, 13], FORMS), (63, "csr"), (64, "dense"), (130, "csr")]
)
def test_prediction_at_any_depth(depth: int, form: str) -> None:
    """Around the sizes where a table of all leaves, one word, or two words of a pattern end."""
    case = Case(in_features=8, depth=depth, n_rows=20, annealing=None, density=0.7, seed=depth)
    x = rows_of(case.x(), form)
    network, other = case.network("numba"), case.network("torch")
    assert_close(predict(network, x), predict(other, x), 1e-9)
    pattern = network.activation_pattern(x)
    assert pattern.shape == (20, depth)
    assert torch.equal(pattern, other.activation_pattern(x))
    assert len(torch.unique(pattern, dim=0)) > 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("depth", [3, 70])
def test_no_rows(backend: str, depth: int) -> None:
    none = torch.zeros(0, 5, dtype=torch.float64)
    for is_linear in (False, True):
        network = Case(is_linear=is_linear, depth=depth).network(backend)
        assert predict(network, none).shape == (0, 2)
        assert network.activation_pattern(none).shape == (0, depth)


@given(depth=st.integers(1, 140), seed=st.integers(0, 2**31))
def test_packing_patterns_round_trip(depth: int, seed: int) -> None:
    pattern = np.random.default_rng(seed).random((5, depth)) < 0.5
    codes = pack_pattern(pattern)
    assert codes.shape == (5, -(-depth // 63))
    assert np.array_equal(unpack_codes(codes, depth), pattern)
    first_word = [sum(2**i for i in range(min(depth, 63)) if row[i]) for row in pattern]
    assert codes[:, 0].tolist() == first_word


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("is_linear", [False, True], ids=["LCN", "LLN"])
def test_zero_counts_as_active(backend: str, is_linear: bool) -> None:
    """z = 0 exactly in every neuron: o = 1 (Eq. 3) in pattern, output, gradient and prediction."""
    case = Case(annealing=None, is_linear=is_linear)
    network = case.network(backend)
    with torch.no_grad():
        network.bias.zero_()
    x = torch.zeros(3, 5, dtype=torch.float64)
    assert network.activation_pattern(x).all()
    if not is_linear:
        active = torch.ones(3, 4, dtype=torch.bool)
        assert_close(network(x), network.leaf_values(active), 1e-14)
        assert_close(predict(network, x), network.leaf_values(active), 1e-14)
        assert not torch.allclose(network(x), network.leaf_values(~active))
    network(x).sum().backward()
    assert network.bias.grad.abs().min() > 0


def test_the_boundary_belongs_to_the_right_side() -> None:
    """One neuron x ≥ 1: the row x = 1 itself is on the right."""
    for backend in BACKENDS:
        network = LocallyConstantNetwork(1, 1, 1, backend=backend, dtype=torch.float64).eval()
        with torch.no_grad():
            network.weight.fill_(1.0)
            network.bias.fill_(-1.0)
        x = torch.tensor([[1.0], [np.nextafter(1.0, 0.0)], [np.nextafter(1.0, 2.0)]], dtype=torch.float64)
        assert network.activation_pattern(x)[:, 0].tolist() == [True, False, True]
        out = predict(network, x)[:, 0]
        assert out[0] == out[2] != out[1]


# The table of leaves follows the parameters


def _by_step(optimizer: str) -> Callable:
    def change(network) -> None:
        settings = {"fused": True, "lr": 0.5}
        if optimizer == "SGD":
            settings.update(momentum=0.9, nesterov=True)
        chosen = getattr(torch.optim, optimizer)(network.parameters(), **settings)
        network(torch.ones(2, 5, dtype=network.weight.dtype)).sum().backward()
        chosen.step()

    return change


def _in_place(network) -> None:
    with torch.no_grad():
        network.head.bias.add_(1.0)


def _through_data(network) -> None:
    network.weight.data.mul_(-1.0)


def _by_state(network) -> None:
    network.load_state_dict(Case(seed=99, annealing=None).network(dtype=network.weight.dtype).state_dict())


def _by_dtype(network) -> None:
    network.to(torch.float32 if network.weight.dtype == torch.float64 else torch.float64)


@pytest.mark.parametrize(
    "change",
    [_by_step("SGD"), _by_step("AdamW"), _in_place, _through_data, _by_state, _by_dtype],
    ids=["fused SGD", "fused AdamW", "in place", "through .data", "load_state_dict", "dtype"],
)
def test_leaves_follow_the_parameters(change: Callable) -> None:
    case = Case(annealing=None, n_rows=40)
    network = case.network("numba")
    for _ in range(3):  # enough rows for a table of all leaves to pay
        before = predict(network, torch.from_numpy(case.x()))
    change(network)
    x = torch.from_numpy(case.x()).to(network.weight.dtype)
    tolerance = 1e-12 if network.weight.dtype == torch.float64 else 1e-5
    for _ in range(3):
        assert_close(predict(network, x), network(x), tolerance)
    if network.weight.dtype == torch.float64:
        assert not torch.allclose(predict(network, x), before)


def test_leaves_follow_the_slope_and_the_corrections() -> None:
    case = Case(annealing=None, n_rows=40, activation=Activation("leaky_relu", 0.3))
    network, x = case.network("numba"), torch.from_numpy(case.x())
    for _ in range(3):
        before = predict(network, x)
    network.activation = Activation("leaky_relu", -0.2)
    assert_close(predict(network, x), network(x), 1e-12)
    assert not torch.allclose(predict(network, x), before)
    network.correct_leaves(LeafCorrections(np.unique(network.activation_codes(x), axis=0)[:1], np.ones((1, 2))))
    assert_close(predict(network, x), network(x), 1e-12)


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda n: pickle.loads(pickle.dumps(n))], ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("is_linear", [False, True], ids=["LCN", "LLN"])
def test_copies_are_independent(copier: Callable, is_linear: bool) -> None:
    case = Case(annealing=None, is_linear=is_linear)
    network = case.network("numba")
    x = torch.from_numpy(case.x())
    before = predict(network, x)
    twin = copier(network)
    assert torch.equal(predict(twin, x), before)
    with torch.no_grad():
        twin.bias.add_(1.0)
        twin.weight.mul_(2.0)
    assert torch.equal(predict(network, x), before)
    assert_close(predict(twin, x), twin(x), 1e-12)


def test_a_state_dict_holds_the_parameters_only() -> None:
    network = Case(annealing=None).network("numba")
    predict(network, torch.zeros(1, 5, dtype=torch.float64))
    assert set(network.state_dict()) == {name for name, _ in network.named_parameters()}
    buffer = io.BytesIO()
    torch.save(network.state_dict(), buffer)
    buffer.seek(0)
    twin = Case(seed=5, annealing=None).network("numba")
    twin.load_state_dict(torch.load(buffer, weights_only=True))
    x = torch.from_numpy(Case().x())
    assert torch.equal(predict(twin, x), predict(network, x))


# Modes


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("network_class", [LocallyConstantNetwork, LocallyLinearNetwork])
def test_training_mode_draws_masks_anew_and_evaluation_none(network_class, backend: str) -> None:
    network = network_class(20, 5, 2, drop_connect=0.5, backend=backend)
    x = torch.ones(4, 20)
    network.train()
    torch.manual_seed(0)
    first, second = network(x), network(x)
    torch.manual_seed(0)
    again = network(x)
    assert torch.equal(first, again)
    assert not torch.allclose(first, second)
    assert len(torch.unique(first, dim=0)) > 1  # equal rows have masks of their own
    network.eval()
    assert torch.equal(network(x), network(x))
    assert torch.allclose(network(x)[0], network(x)[3])


def test_both_backends_draw_the_same_masks_in_training_mode() -> None:
    outs = []
    for backend in BACKENDS:
        network = LocallyConstantNetwork(20, 5, 2, drop_connect=0.5, backend=backend)
        network.reset_parameters(torch.Generator().manual_seed(1))
        torch.manual_seed(2)
        outs.append(network.train()(torch.ones(4, 20), annealing=0.5))
    assert_close(outs[0], outs[1], 1e-5)


@pytest.mark.parametrize("network_class", [LocallyConstantNetwork, LocallyLinearNetwork])
def test_the_mean_over_masks_of_one_neuron_is_the_undropped_projection(network_class) -> None:
    """Survivors are scaled by 1/(1 − p): on average over masks, z is what it is without masks (one smooth neuron)."""
    network = network_class(30, 1, 1, activation=Activation("softplus"), dtype=torch.float64).eval()
    rows = torch.ones(20000, 30, dtype=torch.float64)
    z = lambda drop: network._neurons(rows, 0.0, drop)[0]  # noqa: E731
    dropped, whole = z(DropConnect(0.75, 5)), z(None)
    error = (dropped.mean() - whole.mean()) / (dropped.std() / np.sqrt(len(rows)))
    assert abs(error) < 4.5


def test_softplus_stays_smooth_in_evaluation() -> None:
    case = Case(activation=Activation("softplus"), annealing=None)
    x = torch.from_numpy(case.x())
    for backend in BACKENDS:
        network = case.network(backend)
        assert_close(predict(network, x), network(x, annealing=0.0), 1e-14)
        assert not torch.allclose(predict(network, x), network(x, annealing=1.0))


# Backends


@pytest.fixture
def without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "fused", None)
    monkeypatch.setattr(networks, "passes", None)


@pytest.mark.usefixtures("without_numba")
def test_without_numba_the_torch_form_runs_and_says_so() -> None:
    for is_linear in (False, True):
        case = Case(annealing=None, is_linear=is_linear)
        network = case.network(None)
        assert network.backend == "torch"
        for form in FORMS:
            assert_close(predict(network, rows_of(case.x(), form)), network(torch.from_numpy(case.x())), 1e-12)
        with pytest.raises(RuntimeError, match="backend='numba' needs Numba, a CPU and float32 or float64"):
            _ = case.network("numba").backend


def test_backends() -> None:
    assert Case().network(None).backend == "numba"
    assert Case().network("torch").backend == "torch"
    half = LocallyConstantNetwork(3, 2, 1, dtype=torch.bfloat16)
    assert half.backend == "torch"
    assert half(torch.ones(2, 3, dtype=torch.bfloat16)).shape == (2, 1)
    with pytest.raises(ValueError, match="backend must be 'numba', 'torch' or None, got 'cuda'"):
        LocallyConstantNetwork(3, 2, 1, backend="cuda")  # type: ignore[arg-type]


# Starts


@pytest.mark.parametrize("hidden_layers", [(), (300,)], ids=["linear head", "deep head"])
def test_locally_constant_networks_start_as_the_authors_do(hidden_layers: tuple[int, ...]) -> None:
    """Uniform in ±1/√fan_in: D + i − 1 for neuron i, M(D + 1) for the first layer of g_φ."""
    D, M = 500, 4
    network = LocallyConstantNetwork(D, M, 3, hidden_layers=hidden_layers)
    network.reset_parameters(torch.Generator().manual_seed(0))
    for i in range(M):
        bound = 1 / np.sqrt(D + i)
        column = network.weight[:, i].detach().numpy()
        assert 0.98 * bound < np.abs(column).max() <= bound * (1 + 1e-6)
        assert abs(column.std() - bound / np.sqrt(3)) < 0.1 * bound
        assert network.bias[i].abs() <= bound
        assert (network.connection[i, :i].abs() <= bound).all()
        assert not network.connection[i, i:].any()
    bound = 1 / np.sqrt(M * (D + 1))
    assert 0.99 * bound < network.head.weight.abs().max() <= bound * (1 + 1e-6)
    assert network.head.offset_weight.abs().max() <= bound
    for layer in network.head.hidden:
        if isinstance(layer, torch.nn.Linear):
            assert 0.98 / np.sqrt(300) < layer.weight.abs().max() <= 1 / np.sqrt(300) * (1 + 1e-6)


def test_locally_linear_networks_start_within_their_fan_in() -> None:
    network = LocallyLinearNetwork(500, 4, 2)
    bound = 1 / np.sqrt(504)
    assert 0.98 * bound < network.output_weight.abs().max() <= bound * (1 + 1e-6)
    assert network.output_connection.abs().max() <= bound


def test_a_generator_fixes_the_start_in_every_dtype() -> None:
    starts = []
    for dtype in (torch.float32, torch.float64):
        network = LocallyConstantNetwork(7, 3, 2, hidden_layers=(4,), dtype=dtype)
        network.reset_parameters(torch.Generator().manual_seed(3))
        starts.append({name: p.detach().float() for name, p in network.named_parameters()})
    assert all(torch.equal(starts[0][name], starts[1][name]) for name in starts[0])


# Bad settings and input


@pytest.mark.parametrize("network_class", [LocallyConstantNetwork, LocallyLinearNetwork])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"depth": 0}, "depth must be at least 1, got 0"),
        ({"in_features": 0}, "in_features must be at least 1, got 0"),
        ({"out_features": -1}, "out_features must be at least 1, got -1"),
        ({"drop_connect": 1.0}, r"drop_connect must be in \[0, 1\), got 1.0"),
    ],
)
def test_bad_settings(network_class, settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        network_class(**{"in_features": 3, "depth": 2, "out_features": 1, **settings})


def test_bad_hidden_layers() -> None:
    with pytest.raises(ValueError, match=r"hidden_layers must be widths of at least 1, got \(4, 0\)"):
        LocallyConstantNetwork(3, 2, 1, hidden_layers=(4, 0))


@pytest.mark.parametrize("backend", BACKENDS)
def test_bad_calls(backend: str) -> None:
    network = LocallyConstantNetwork(3, 2, 1, backend=backend)
    with pytest.raises(ValueError, match="x must have 3 features, got 4"):
        network(torch.zeros(2, 4))
    with pytest.raises(ValueError, match="annealing must be between 0"):
        network(torch.zeros(2, 3), annealing=1.5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("is_linear", [False, True], ids=["LCN", "LLN"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_values_are_read_in_the_precision_of_the_network(form: Callable, is_linear: bool, backend: str) -> None:
    """Bit for bit as if the table had been converted; numbers too small for float32 are zeros there."""
    case = Case(is_linear=is_linear, drop=DropConnect(0.5, 3))
    x = case.x()
    x[0] = 1e-60
    for dtype, own, other in ((torch.float32, np.float32, np.float64), (torch.float64, np.float64, np.float32)):
        network = case.network(backend, dtype)
        as_they_are, converted = Table(form(x.astype(other))).rows(), Table(form(x.astype(other)), own).rows()
        assert as_they_are.table.dtype == other
        results = []
        for rows in (as_they_are, converted):
            out = network(rows, annealing=0.3, drop=case.drop)
            of_weight = torch.autograd.grad(out.sum(), network.weight)[0]
            results.append((out, of_weight, predict(network, rows), network.activation_pattern(rows)))
        assert all(torch.equal(first, second) for first, second in zip(*results, strict=True))


# Composition


def test_a_network_composes_with_torch() -> None:
    """Below, beside and above other modules, trained by any optimiser."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 6),
        LocallyConstantNetwork(6, 3, 5, activation=Activation("softplus")),
        torch.nn.ReLU(),
        torch.nn.Linear(5, 1),
    )
    x = torch.randn(64, 4)
    y = (x[:, :1] > 0).float()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


def test_repr_names_the_settings() -> None:
    text = repr(LocallyConstantNetwork(3, 2, 1, drop_connect=0.25))
    assert "in_features=3, depth=2, out_features=1" in text
    assert "drop_connect=0.25" in text
