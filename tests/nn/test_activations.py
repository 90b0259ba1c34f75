"""Activations, their derivatives and the boundary z = 0."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nn.cases import ACTIVATIONS
from treelu.nn import Activation
from treelu.nn.activations import check_annealing

Z = np.linspace(-4, 4, 40)  # without 0


@pytest.mark.parametrize(
    ("activation", "oracle"),
    [
        (Activation("relu"), lambda z: np.maximum(z, 0)),
        (Activation("leaky_relu", 0.2), lambda z: np.where(z >= 0, z, 0.2 * z)),
        (Activation("softplus"), lambda z: np.log1p(np.exp(z))),
    ],
    ids=["relu", "leaky_relu", "softplus"],
)
def test_values(activation: Activation, oracle) -> None:
    assert np.allclose(activation(Z)[0], oracle(Z), atol=1e-15)


@given(annealing=st.floats(0, 1))
def test_annealing_is_equation_5(annealing: float) -> None:
    value, _ = Activation("relu")(Z, annealing)
    assert np.allclose(value, annealing * np.maximum(Z, 0) + (1 - annealing) * np.log1p(np.exp(Z)), atol=1e-14)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
@pytest.mark.parametrize("annealing", [None, 0.0, 0.3, 1.0])
def test_the_slope_is_the_derivative(activation: Activation, annealing: float | None) -> None:
    _, slope = activation(Z, annealing)
    step = 1e-6
    by_difference = (activation(Z + step, annealing)[0] - activation(Z - step, annealing)[0]) / (2 * step)
    assert np.allclose(slope, by_difference, atol=1e-8)


@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("activation", [a for a in ACTIVATIONS if a.is_piecewise_linear], ids=str)
def test_at_zero_the_right_side_counts(activation: Activation, zero: float) -> None:
    value, slope = activation(np.array([zero]))
    assert value[0] == 0
    assert slope[0] == 1


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


def test_far_out_nothing_overflows() -> None:
    with np.errstate(over="raise", invalid="raise"):
        value, slope = Activation("softplus")(np.array([-1e4, 1e4]))
    assert value.tolist() == [0, 1e4]
    assert slope.tolist() == [0, 1]
