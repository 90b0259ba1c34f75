"""g_φ (§3.6): what turns the gradients of the neurons into the outputs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass
class Layer:
    """A fully connected layer: `weight` (out, in), `bias` (out,)."""

    weight: NDArray[Any]
    bias: NDArray[Any]

    def __call__(self, x: NDArray[Any]) -> NDArray[Any]:
        """Outputs (out, B) of inputs (in, B)."""
        return self.weight @ x + self.bias[:, None]


class Head:
    """g_φ (§3.6): a fully connected network on the vectorised Jacobian and the offsets.

    Parameters
    ----------
    in_features, depth, out_features : int
        D, M and L.
    hidden_layers : sequence of int
        Widths of the hidden ReLU layers; none makes g_φ linear.

    **Shape**: `weight` (H, M, D), `offset_weight` (H, M), `bias` (H,), where H is the first width, or L; `hidden` holds
    the layers after the first.

    Examples
    --------
    >>> head = Head(5, depth=3, out_features=2, hidden_layers=(), dtype="float64")
    >>> head.weight.shape, head.offset_weight.shape, head.bias.shape
    ((2, 3, 5), (2, 3), (2,))
    """

    def __init__(
        self, in_features: int, depth: int, out_features: int, hidden_layers: Sequence[int], dtype: Any
    ) -> None:
        if any(width < 1 for width in hidden_layers):
            raise ValueError(f"hidden_layers must be widths of at least 1, got {tuple(hidden_layers)!r}")
        widths = [*hidden_layers, out_features]
        self.weight = np.zeros((widths[0], depth, in_features), dtype)
        self.offset_weight = np.zeros((widths[0], depth), dtype)
        self.bias = np.zeros(widths[0], dtype)
        self.hidden = [
            Layer(np.zeros((after, before), dtype), np.zeros(after, dtype))
            for before, after in itertools.pairwise(widths)
        ]

    def reset_parameters(self, rng: np.random.RandomState) -> None:
        """Draw all uniformly within ±1/√fan_in; the first layer's fan_in is M(D + 1)."""
        _, depth, in_features = self.weight.shape
        bound = 1 / math.sqrt(depth * (in_features + 1))
        for array in (self.weight, self.offset_weight, self.bias):
            array[:] = uniform(array.shape, rng) * bound
        for layer in self.hidden:
            bound = 1 / math.sqrt(layer.weight.shape[1])
            for array in (layer.weight, layer.bias):
                array[:] = uniform(array.shape, rng) * bound

    def behind_first(self, first: NDArray[Any]) -> NDArray[Any]:
        """The outputs (L, B) from those of the first layer (H, B)."""
        for layer in self.hidden:
            first = layer(np.maximum(first, 0))
        return first

    def on_coefficients(self, coefficients: NDArray[Any], offsets: NDArray[Any], weight: NDArray[Any]) -> NDArray[Any]:
        """Outputs (B, L) from the coefficients C (B, M, M) and offsets (B, M), through G_hij = V_hi·w_j."""
        gram = self.weight @ weight  # (H, M, M)
        first = np.repeat(self.bias[:, None], len(offsets), axis=1)
        for i in range(gram.shape[1]):  # no BLAS product: one pattern has one value, whatever stands beside it
            first += self.offset_weight[:, i, None] * offsets[:, i]
            for j in range(i + 1):
                first += gram[:, i, j, None] * coefficients[:, i, j]
        return self.behind_first(first).T

    def rescale(self, scale: NDArray[Any], center: NDArray[Any]) -> None:
        """Turn outputs o into o · scale + center, in place."""
        if self.hidden:
            last = self.hidden[-1]
            last.weight *= scale[:, None]
            last.bias[:] = last.bias * scale + center
        else:
            self.weight *= scale[:, None, None]
            self.offset_weight *= scale[:, None]
            self.bias[:] = self.bias * scale + center

    def reorder(self, places: NDArray[np.int64]) -> None:
        """Turn outputs o into o[places], in place."""
        last = self.hidden[-1] if self.hidden else None
        arrays = (self.weight, self.offset_weight, self.bias) if last is None else (last.weight, last.bias)
        for array in arrays:
            array[:] = array[places]


def uniform(shape: tuple[int, ...], rng: np.random.RandomState) -> NDArray[np.float64]:
    """Uniform in ±1 in float64, from two 32-bit words each: the numbers that torch's generator of that seed gives."""
    words = rng.randint(0, 2**32, size=(*shape, 2), dtype=np.uint32).astype(np.uint64)
    bits = ((words[..., 0] << np.uint64(32)) | words[..., 1]) & np.uint64(2**53 - 1)
    return bits.astype(np.float64) * 2.0**-52 - 1
