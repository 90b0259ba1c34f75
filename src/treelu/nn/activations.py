"""The activation of a neuron and its derivative: ReLU, leaky ReLU, softplus, and what lies between.

One formula covers all of them. With negative slope s and annealing λ,

    a(z) = s·z + (1 − s)·(λ·max(0, z) + (1 − λ)·log(1 + exp z))

λ = 1 is (leaky) ReLU, λ = 0 its smooth form, and s = 0 is Eq. 5 of the paper. The derivative at z = 0 is that of
the right side (Eq. 3): o = 1 where z ≥ 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

ActivationKind = Literal["relu", "leaky_relu", "softplus"]


@dataclass(frozen=True)
class Activation:
    """A neuron's activation function.

    Parameters
    ----------
    kind : {"relu", "leaky_relu", "softplus"}
        "softplus" is smooth by default (annealing 0), the other two piece-wise linear (annealing 1).
    negative_slope : float
        The slope below zero; must be 0 unless `kind` is "leaky_relu".
    straight_through : bool
        Let the gradients of the derivative o be those of softplus for any λ, so that a neuron whose derivative is
        a step still learns where to step. Values are the same.

    Examples
    --------
    >>> value, derivative = Activation("leaky_relu", 0.1)(np.array([-2.0, 0.0, 3.0]))
    >>> value
    array([-0.2,  0. ,  3. ])
    >>> derivative
    array([0.1, 1. , 1. ])
    """

    kind: ActivationKind = "relu"
    negative_slope: float = 0.0
    straight_through: bool = False

    def __post_init__(self) -> None:
        if self.kind not in ("relu", "leaky_relu", "softplus"):
            raise ValueError(f"activation must be 'relu', 'leaky_relu' or 'softplus', got {self.kind!r}")
        if not math.isfinite(self.negative_slope):
            raise ValueError(f"negative_slope must be finite, got {self.negative_slope!r}")
        if self.kind != "leaky_relu" and self.negative_slope != 0.0:
            raise ValueError(
                f"negative_slope is for activation='leaky_relu' only, got {self.negative_slope!r} with {self.kind!r}"
            )

    @property
    def is_piecewise_linear(self) -> bool:
        """Whether the default (un-annealed) form is piece-wise linear."""
        return self.kind != "softplus"

    @property
    def default_annealing(self) -> float:
        """λ when none is given: 1 for the piece-wise linear kinds, 0 for softplus."""
        return 1.0 if self.is_piecewise_linear else 0.0

    def bend(self, annealing: float) -> float:
        """The share of softplus's curvature that gradients of the derivative o have: 1 − λ, or all of it."""
        return 1.0 if self.straight_through else 1.0 - annealing

    def __call__(self, z: NDArray[Any], annealing: float | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the activation a(z) and its derivative o(z)."""
        lam = self.default_annealing if annealing is None else annealing
        s = self.negative_slope
        active = (z >= 0).astype(z.dtype)
        value, derivative = lam * active * z, lam * active
        if lam != 1.0:
            value = value + (1 - lam) * np.logaddexp(0, z)
            derivative = derivative + (1 - lam) * _sigmoid(z)
        return s * z + (1 - s) * value, s + (1 - s) * derivative


def _sigmoid(z: NDArray[Any]) -> NDArray[Any]:
    small = np.exp(-np.abs(z))
    return np.where(z >= 0, 1, small) / (1 + small)


def check_annealing(annealing: float | None) -> None:
    """Raise unless λ is None or within [0, 1]."""
    if annealing is not None and not 0.0 <= annealing <= 1.0:
        raise ValueError(f"annealing must be between 0 (softplus) and 1 (ReLU), got {annealing!r}")
