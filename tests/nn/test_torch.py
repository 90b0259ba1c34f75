"""The networks as torch modules: conversions both ways, masks, training mode, composition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nn.cases import Case, assert_close, cases, rows_of
from treelu.nn import Activation, CanonicalNetwork, DropConnect, LocallyConstantNetwork, LocallyLinearNetwork
from treelu.nn.corrections import LeafCorrections

torch = pytest.importorskip("torch")

from treelu.nn.torch import from_torch, to_torch  # noqa: E402
from treelu.nn.torch.functions import activate, mask, row_keys  # noqa: E402


@settings(deadline=None, max_examples=30)
@given(case=st.one_of(cases(), cases(linear=True)), form=st.sampled_from(["dense", "csr"]))
def test_there_and_back_nothing_changes(case: Case, form: str) -> None:
    network = case.network()
    module = to_torch(network)
    assert [name for name, _ in module.named_parameters()] == list(network.arrays())
    rows = rows_of(case.x(), form)
    out = module(rows, annealing=case.annealing).detach().numpy()
    assert_close(out, network(rows, annealing=case.annealing), 1e-9)
    back = from_torch(module)
    assert (back.activation, back.drop_connect, type(back)) == (network.activation, network.drop_connect, type(network))
    assert all(np.array_equal(back.arrays()[name], array) for name, array in network.arrays().items())
    assert np.array_equal(back(rows, annealing=case.annealing), network(rows, annealing=case.annealing))


@pytest.mark.parametrize("patterns", [None, np.array([[1, -1, 0], [-1, -1, -1]])])
def test_canonical_networks_there_and_back(patterns: np.ndarray | None) -> None:
    network = CanonicalNetwork(4, [2, 1], 2, patterns=patterns, seed=0)
    rng = np.random.default_rng(0)
    network.table[:] = rng.standard_normal(network.table.shape)
    x = rng.standard_normal((50, 4))
    module = to_torch(network)
    assert np.array_equal(module(torch.from_numpy(x)).detach().numpy(), network(x))
    assert np.array_equal(from_torch(module)(x), network(x))
    module(torch.from_numpy(x)).sum().backward()
    rows = network.table_rows(network.activation_pattern(x))
    counts = np.bincount(rows, minlength=len(network.table))
    assert np.array_equal(module.table.grad[:, 0].numpy(), counts)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision_is_kept_and_parameters_are_copies(dtype: type) -> None:
    network = LocallyConstantNetwork(3, 2, 1, dtype=dtype, seed=0)
    module = to_torch(network)
    before = network.weight.copy()
    with torch.no_grad():
        module.weight += 1
    assert np.array_equal(network.weight, before)
    assert from_torch(module).dtype == dtype


def test_what_has_no_module_is_refused() -> None:
    network = LocallyConstantNetwork(3, 2, 1, seed=0)
    network.correct_leaves(LeafCorrections(np.array([[0]]), np.ones((1, 1))))
    with pytest.raises(ValueError, match="network has corrected leaves"):
        to_torch(network)
    with pytest.raises(TypeError, match=r"network must be one of treelu.nn, got str"):
        to_torch("network")
    with pytest.raises(TypeError, match="module must be one that to_torch makes, got Linear"):
        from_torch(torch.nn.Linear(1, 1))


@settings(deadline=None, max_examples=20)
@given(key=st.integers(0, 2**64 - 1))
def test_masks_are_those_of_numpy(key: int) -> None:
    drop = DropConnect(0.4, key)
    keys = row_keys(drop, 9)
    assert np.array_equal(keys.numpy(), drop.row_keys(9).astype(np.int64))
    features = np.arange(6)[None, :]
    ours = drop.mask(drop.row_keys(9)[:, None], features, 5)
    assert np.array_equal(mask(drop, keys[:, None], torch.from_numpy(features), 5, torch.float64).numpy(), ours)


@pytest.mark.parametrize("network_class", [LocallyConstantNetwork, LocallyLinearNetwork])
def test_training_mode_draws_masks_anew_and_evaluation_none(network_class) -> None:
    module = to_torch(network_class(20, 5, 2, drop_connect=0.5, seed=0)).train()
    x = torch.ones(4, 20, dtype=torch.float64)
    torch.manual_seed(0)
    first, second = module(x), module(x)
    torch.manual_seed(0)
    assert torch.equal(first, module(x))
    assert not torch.allclose(first, second)
    assert len(torch.unique(first, dim=0)) > 1  # equal rows have masks of their own
    module.eval()
    assert torch.equal(module(x), module(x))


def test_the_mean_over_masks_of_one_neuron_is_the_undropped_projection() -> None:
    """Survivors are scaled by 1/(1 − p): on average over masks, z is what it is without masks (one neuron)."""
    network = LocallyLinearNetwork(30, 1, 1, activation=Activation("leaky_relu", 1.0), seed=0)
    network.output_weight[:] = 0
    module, rows = to_torch(network), torch.ones(20000, 30, dtype=torch.float64)
    dropped, whole = module(rows, drop=DropConnect(0.75, 5)), module(rows)
    error = (dropped.mean() - whole.mean()) / (dropped.std() / np.sqrt(len(rows)))
    assert abs(float(error.detach())) < 4.5


@pytest.mark.parametrize("annealing", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_straight_through_changes_only_the_gradient_of_the_slope(slope: float, annealing: float) -> None:
    kind = "leaky_relu" if slope else "relu"
    z = torch.linspace(-4, 4, 33, dtype=torch.float64).requires_grad_()
    value, o = activate(Activation(kind, slope, straight_through=True), z, annealing)
    exact_value, exact_o = activate(Activation(kind, slope), z, annealing)
    assert torch.equal(o, exact_o)
    assert torch.equal(value, exact_value)

    def gradient(of):
        return torch.autograd.grad(of.sum(), z, retain_graph=True)[0]

    assert torch.equal(gradient(value), gradient(exact_value))
    smooth = torch.sigmoid(z)
    torch.testing.assert_close(gradient(o), (1 - slope) * smooth * (1 - smooth))


def test_bad_calls() -> None:
    module = to_torch(LocallyConstantNetwork(3, 2, 1, seed=0))
    with pytest.raises(ValueError, match="x must have 3 features, got 4"):
        module(torch.zeros(2, 4))
    with pytest.raises(ValueError, match="annealing must be between 0"):
        module(torch.zeros(2, 3), annealing=1.5)


def test_a_module_composes_with_torch() -> None:
    """Below, beside and above other modules, trained by any optimiser."""
    torch.manual_seed(0)
    network = LocallyConstantNetwork(6, 3, 5, activation=Activation("softplus"), dtype=np.float32, seed=0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), to_torch(network), torch.nn.ReLU(), torch.nn.Linear(5, 1))
    x = torch.randn(64, 4)
    y = (x[:, :1] > 0).float()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())
