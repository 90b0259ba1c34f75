"""The kernels, the torch form, the dynamic programme, autograd per neuron and the formulas by hand are one function."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.nn.cases import ACTIVATIONS, Case, assert_all_close, assert_close, by_kernels, by_torch, cases, output
from treelu.nn import Activation, DropConnect

torch = pytest.importorskip("torch")

from torch.func import functional_call  # noqa: E402

from tests.nn.reference import autograd_per_neuron, dynamic_programme  # noqa: E402
from treelu.nn.torch import to_torch  # noqa: E402

FORMS = (dynamic_programme, autograd_per_neuron)


def by_reference(case: Case, form, dtype=np.float64):
    """Output and gradients through a materialised Jacobian."""
    module = to_torch(case.network(dtype))
    parameters = module.weight, module.connection, module.bias, case.activation, case.annealing, case.drop
    jacobian, offsets = form(torch.from_numpy(case.x().astype(dtype)), *parameters)
    out = module.head(jacobian, offsets)
    out.backward(torch.from_numpy(case.cotangent().astype(dtype)))
    return out.detach().numpy(), {
        name: np.zeros(p.shape) if p.grad is None else p.grad.numpy() for name, p in module.named_parameters()
    }


@settings(deadline=None, max_examples=60)
@given(case=cases(), form=st.sampled_from(["dense", "csr"]))
def test_all_forms_agree_in_value_and_every_gradient(case: Case, form: str) -> None:
    expected, expected_gradients = by_reference(case, dynamic_programme)
    by_hand = np.array([output(case, row) for row in range(case.n_rows)])
    assert_close(expected, by_hand, 1e-10, "dynamic programme")
    for out, gradients in (by_reference(case, autograd_per_neuron), by_torch(case)):
        assert_close(out, expected, 1e-10)
        assert_all_close(gradients, expected_gradients, 1e-9)
    assert_all_close(by_kernels(case, form)[1], expected_gradients, 1e-9)
    if case.drop is None or case.drop.rate == 0:
        assert_close(case.network()(case.x(), annealing=case.annealing), expected, 1e-10, "kernels")


@settings(deadline=None, max_examples=30)
@given(case=cases(linear=True), form=st.sampled_from(["dense", "csr"]))
def test_the_locally_linear_network_is_its_formula(case: Case, form: str) -> None:
    by_hand = np.array([output(case, row) for row in range(case.n_rows)])
    out, gradients = by_torch(case)
    assert_close(out, by_hand, 1e-10)
    assert_all_close(by_kernels(case, form)[1], gradients, 1e-9)
    if case.drop is None or case.drop.rate == 0:
        assert_close(case.network()(case.x(), annealing=case.annealing), by_hand, 1e-10)


@settings(deadline=None, max_examples=30)
@given(case=st.one_of(cases(), cases(linear=True)), form=st.sampled_from(["dense", "csr"]))
def test_one_step_in_single_precision(case: Case, form: str) -> None:
    assume(case.far_from_jumps(1e-4))
    gradients = by_kernels(case, form, np.float32)[1]
    assert all(gradient.dtype == np.float32 for gradient in gradients.values())
    assert_all_close(gradients, by_torch(case)[1], 1e-3)


@pytest.mark.parametrize("form", FORMS)
def test_a_network_without_smoothness_is_locally_constant(form) -> None:
    """The Jacobian of a ReLU network does not move with x inside a region; nor do the offsets (§3.2)."""
    case = Case(activation=Activation("relu"), annealing=None, density=1.0, seed=5)
    module = to_torch(case.network())
    x = torch.from_numpy(case.x())
    assert case.far_from_jumps(1e-4)
    here = form(x, module.weight, module.connection, module.bias, case.activation)
    near = form(x + 1e-6, module.weight, module.connection, module.bias, case.activation)
    assert_close(near[0].detach(), here[0].detach(), 1e-14)
    assert_close(near[1].detach(), here[1].detach(), 1e-12)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("is_linear", [False, True], ids=["LCN", "LLN"])
def test_gradcheck(activation: Activation, is_linear: bool) -> None:
    drop = DropConnect(0.4, key=12)
    hidden = () if is_linear else (3,)
    case = Case(4, 3, 2, 3, hidden, activation, annealing=0.3, drop=drop, density=0.8, is_linear=is_linear, seed=11)
    assert case.far_from_jumps(1e-3)
    module = to_torch(case.network())
    names, values = zip(*module.named_parameters(), strict=True)

    def outputs(*parameters):
        named = dict(zip(names, parameters, strict=True))
        settings = {"annealing": case.annealing, "drop": case.drop}
        return functional_call(module, named, (torch.from_numpy(case.x()),), settings)

    assert torch.autograd.gradcheck(outputs, values, eps=1e-6, atol=1e-7)


@pytest.mark.parametrize("is_linear", [False, True], ids=["LCN", "LLN"])
def test_gradcheck_by_the_input(is_linear: bool) -> None:
    """A module composes with torch code below it: zero entries of x have gradients too."""
    case = Case(4, 3, 2, 3, drop=DropConnect(0.4, 3), is_linear=is_linear, density=0.6, seed=6)
    assert case.far_from_jumps(1e-3)
    module = to_torch(case.network())
    x = torch.from_numpy(case.x()).requires_grad_()
    assert (x == 0).any()
    assert torch.autograd.gradcheck(
        lambda x: module(x, annealing=case.annealing, drop=case.drop), (x,), eps=1e-6, atol=1e-7
    )


@pytest.mark.parametrize("is_linear", [False, True], ids=["LCN", "LLN"])
def test_connections_on_and_above_the_diagonal_do_not_matter(is_linear: bool) -> None:
    case = Case(drop=DropConnect(0.3, 5), is_linear=is_linear)
    _, gradients = by_kernels(case, "dense")
    assert not gradients["connection"][np.triu_indices(case.depth)].any()
    network = case.network()
    before = network(case.x(), annealing=0.4)
    network.connection[np.triu_indices(case.depth)] = np.nan
    assert np.array_equal(network(case.x(), annealing=0.4), before)
