"""The coefficient form, the dynamic programme, autograd per neuron and the formulas by hand are one function."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch.func import functional_call

from tests.nn.cases import ACTIVATIONS, Case, assert_all_close, assert_close, cases, gradients, output, rows_of
from treelu.nn import Activation, DropConnect
from treelu.nn.reference import autograd_per_neuron, dynamic_programme

FORMS = (dynamic_programme, autograd_per_neuron)
BACKENDS = ("torch", "numba")


def by_reference(case: Case, form, dtype: torch.dtype = torch.float64):
    """Output and gradients through a materialised Jacobian."""
    network = case.network(dtype=dtype)
    x = torch.from_numpy(case.x()).to(dtype)
    jacobian, offsets = form(
        x, network.weight, network.connection, network.bias, network.activation, case.annealing, case.drop
    )
    out = network.head(jacobian, offsets)
    return out.detach(), gradients(network, out, case.cotangent(dtype))


def by_network(case: Case, backend: str, dtype: torch.dtype = torch.float64):
    """Output and gradients as users get them."""
    network = case.network(backend, dtype)
    x = torch.from_numpy(case.x()).to(dtype)
    out = network(x, annealing=case.annealing, drop=case.drop)
    return out.detach(), gradients(network, out, case.cotangent(dtype))


@settings(deadline=None, max_examples=60)
@given(case=cases())
def test_all_forms_agree_in_value_and_every_gradient(case: Case) -> None:
    expected, expected_gradients = by_reference(case, dynamic_programme)
    by_hand = np.array([output(case, row) for row in range(case.n_rows)])
    assert_close(expected, torch.from_numpy(by_hand), 1e-10, "dynamic programme")
    others = {
        "autograd": by_reference(case, autograd_per_neuron),
        **{backend: by_network(case, backend) for backend in BACKENDS},
    }
    for name, (out, by_parameter) in others.items():
        assert_close(out, expected, 1e-10, name)
        assert_all_close(by_parameter, expected_gradients, 1e-9)


@settings(deadline=None, max_examples=30)
@given(case=cases(linear=True))
def test_the_locally_linear_network_is_its_formula(case: Case) -> None:
    by_hand = torch.from_numpy(np.array([output(case, row) for row in range(case.n_rows)]))
    results = [by_network(case, backend) for backend in BACKENDS]
    for out, _ in results:
        assert_close(out, by_hand, 1e-10)
    assert_all_close(results[1][1], results[0][1], 1e-9)


@pytest.mark.parametrize("form", [*FORMS, *BACKENDS], ids=["dynamic_programme", "autograd_per_neuron", *BACKENDS])
@pytest.mark.parametrize("in_jacobian", [False, True])
@pytest.mark.parametrize("hidden_layers", [(), (6, 3)], ids=["linear head", "deep head"])
def test_single_precision_agrees_with_double(form, in_jacobian: bool, hidden_layers: tuple[int, ...]) -> None:
    drop = DropConnect(0.5, key=7, in_jacobian=in_jacobian)
    case = Case(
        in_features=30, depth=10, n_rows=32, hidden_layers=hidden_layers, annealing=0.6, drop=drop, density=0.3, seed=3
    )
    assert case.far_from_jumps(1e-4)
    run = by_network if form in BACKENDS else by_reference
    out, by_parameter = run(case, form, torch.float32)
    exact, exact_gradients = by_reference(case, dynamic_programme)
    assert_close(out.double(), exact, 1e-4)
    assert_all_close({name: g.double() for name, g in by_parameter.items()}, exact_gradients, 1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_a_network_without_smoothness_is_locally_constant(form) -> None:
    """The Jacobian of a ReLU network does not move with x inside a region; nor do the offsets (§3.2)."""
    case = Case(activation=Activation("relu"), annealing=None, density=1.0, seed=5)
    network = case.network()
    x = torch.from_numpy(case.x())
    assert case.far_from_jumps(1e-4)
    here = form(x, network.weight, network.connection, network.bias, network.activation)
    near = form(x + 1e-6, network.weight, network.connection, network.bias, network.activation)
    assert_close(near[0], here[0], 1e-14)
    assert_close(near[1], here[1], 1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("is_linear", [False, True], ids=["LCN", "LLN"])
def test_gradcheck(backend: str, activation: Activation, is_linear: bool) -> None:
    drop = DropConnect(0.4, key=12)
    hidden = () if is_linear else (3,)
    case = Case(4, 3, 2, 3, hidden, activation, annealing=0.3, drop=drop, density=0.8, is_linear=is_linear, seed=11)
    assert case.far_from_jumps(1e-3)
    network = case.network(backend)
    names, values = zip(*network.named_parameters(), strict=True)
    rows = rows_of(case.x(), "csr")

    def outputs(*parameters: torch.Tensor) -> torch.Tensor:
        named = dict(zip(names, parameters, strict=True))
        return functional_call(network, named, (rows,), {"annealing": case.annealing, "drop": case.drop})

    assert torch.autograd.gradcheck(outputs, values, eps=1e-6, atol=1e-7)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("in_jacobian", [False, True])
@pytest.mark.parametrize("is_linear", [False, True], ids=["LCN", "LLN"])
def test_gradcheck_by_the_input(backend: str, in_jacobian: bool, is_linear: bool) -> None:
    """A network composes with torch code below it: zero entries of x have gradients too."""
    case = Case(
        4, 3, 2, 3, drop=DropConnect(0.4, 3, in_jacobian and not is_linear), is_linear=is_linear, density=0.6, seed=6
    )
    assert case.far_from_jumps(1e-3)
    network = case.network(backend)
    x = torch.from_numpy(case.x()).requires_grad_()
    assert (x == 0).any()
    assert torch.autograd.gradcheck(
        lambda x: network(x, annealing=case.annealing, drop=case.drop), (x,), eps=1e-6, atol=1e-7
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("is_linear", [False, True], ids=["LCN", "LLN"])
def test_connections_above_the_diagonal_are_ignored(backend: str, is_linear: bool) -> None:
    case = Case(is_linear=is_linear, drop=DropConnect(0.5, 1))
    network = case.network(backend)
    x = torch.from_numpy(case.x())
    expected = network(x, annealing=0.4, drop=case.drop)
    with torch.no_grad():
        network.connection[np.triu_indices(case.depth)] = np.nan
    out = network(x, annealing=0.4, drop=case.drop)
    assert torch.equal(out, expected)
    upper = gradients(network, out, case.cotangent())["connection"][np.triu_indices(case.depth)]
    assert not upper.any()
