"""Activations, their derivatives and the boundary z = 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from tests.nn.cases import ACTIVATIONS
from treelu.nn import Activation
from treelu.nn.activations import check_annealing

Z = torch.linspace(-4, 4, 40, dtype=torch.float64)  # without 0


@pytest.mark.parametrize(
    ("activation", "oracle"),
    [
        (Activation("relu"), F.relu),
        (Activation("leaky_relu", 0.2), lambda z: F.leaky_relu(z, 0.2)),
        (Activation("softplus"), F.softplus),
    ],
    ids=["relu", "leaky_relu", "softplus"],
)
def test_values_are_those_of_torch(activation: Activation, oracle) -> None:
    assert torch.allclose(activation(Z)[0], oracle(Z), atol=1e-15)


@given(annealing=st.floats(0, 1))
def test_annealing_is_equation_5(annealing: float) -> None:
    value, _ = Activation("relu")(Z, annealing)
    assert torch.allclose(value, annealing * F.relu(Z) + (1 - annealing) * F.softplus(Z), atol=1e-14)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("annealing", [None, 0.0, 0.3, 1.0])
def test_the_slope_is_the_derivative(activation: Activation, annealing: float | None) -> None:
    z = Z.clone().requires_grad_()
    value, slope = activation(z, annealing)
    (by_autograd,) = torch.autograd.grad(value.sum(), z)
    step = 1e-6
    by_difference = (activation(z + step, annealing)[0] - activation(z - step, annealing)[0]) / (2 * step)
    assert torch.allclose(slope, by_autograd, atol=1e-14)
    assert torch.allclose(slope, by_difference, atol=1e-8)


@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("activation", [a for a in ACTIVATIONS if a.is_piecewise_linear], ids=str)
def test_at_zero_the_right_side_counts(activation: Activation, zero: float) -> None:
    z = torch.tensor([zero], dtype=torch.float64, requires_grad=True)
    value, slope = activation(z)
    assert value.item() == 0
    assert slope.item() == 1
    assert torch.autograd.grad(value.sum(), z)[0].item() == 1


def test_defaults() -> None:
    assert Activation().is_piecewise_linear
    assert Activation("leaky_relu", 0.1).default_annealing == 1
    assert not Activation("softplus").is_piecewise_linear
    assert Activation("softplus").default_annealing == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("tanh",), "activation must be 'relu', 'leaky_relu' or 'softplus', got 'tanh'"),
        (("relu", 0.1), "negative_slope is for activation='leaky_relu' only, got 0.1 with 'relu'"),
        (("softplus", 0.1), "negative_slope is for"),
        (("leaky_relu", np.nan), "negative_slope must be finite, got nan"),
        (("leaky_relu", np.inf), "negative_slope must be finite, got inf"),
    ],
)
def test_bad_settings(settings: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Activation(*settings)


@pytest.mark.parametrize("annealing", [-0.1, 1.1, np.nan])
def test_bad_annealing(annealing: float) -> None:
    with pytest.raises(ValueError, match="annealing must be between 0"):
        check_annealing(annealing)


@pytest.mark.parametrize("annealing", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("kind", [("relu", 0.0), ("leaky_relu", 0.3)])
def test_straight_through_changes_only_the_gradient_of_the_slope(kind: tuple[Any, float], annealing: float) -> None:
    z = torch.linspace(-4, 4, 33, dtype=torch.float64).requires_grad_()
    value, slope = Activation(*kind, straight_through=True)(z, annealing)
    exact_value, exact_slope = Activation(*kind)(z, annealing)
    assert torch.equal(slope, exact_slope)
    assert torch.equal(value, exact_value)
    assert torch.equal(gradient(value, z), gradient(exact_value, z))
    smooth = torch.sigmoid(z)
    torch.testing.assert_close(gradient(slope, z), (1 - kind[1]) * smooth * (1 - smooth))


def gradient(of: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(of.sum(), z, retain_graph=True)[0]
