"""The canonical locally constant network (§3.3): the activation pattern of any ReLU network, looked up in a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treelu.nn.activations import Activation
from treelu.nn.head import Layer, uniform

MAX_NEURONS = 24  # the full table has a row for each of 2^N patterns


class CanonicalNetwork:
    """g(õ): a densely connected network with N_i neurons in layer i, whose activation pattern indexes a table.

    Parameters
    ----------
    in_features : int
        D.
    layer_sizes : sequence of int
        N_1, …, N_M. Layer i reads the input and all earlier layers.
    out_features : int
        L.
    activation : Activation
        Piece-wise linear.
    patterns : array of shape (K, N), int8, optional
        Rows of a table for networks of many neurons: 1, 0, or −1 for "either". A row of the input takes the value of
        the first row of `patterns` that fits. Without it, `table` has one row for each of the 2^N patterns, the
        first neuron in the lowest bit.
    seed : int, optional
        Draws the neurons' weights and biases; without it they are zero, as the table is.

    **Shape**: `layers[i].weight` (N_i, D + N_1 + … + N_{i−1}); `table` (2^N, L), or (K, L) with `patterns`; float64.

    Examples
    --------
    >>> network = CanonicalNetwork(2, [1], 1)
    >>> network.layers[0].weight[:] = [[1.0, -1.0]]
    >>> network.layers[0].bias[:] = 1.0
    >>> network.table[:] = [[10.0], [20.0]]
    >>> network(np.array([[0.0, 1.0], [0.0, 2.0]]))
    array([[20.],
           [10.]])
    """

    def __init__(
        self,
        in_features: int,
        layer_sizes: Sequence[int],
        out_features: int,
        *,
        activation: Activation | None = None,
        patterns: NDArray[Any] | None = None,
        seed: int | None = None,
    ) -> None:
        self.in_features, self.layer_sizes, self.out_features = in_features, tuple(layer_sizes), out_features
        if not self.layer_sizes or min(self.layer_sizes) < 1:
            raise ValueError(f"layer_sizes must be at least one layer of at least one neuron, got {layer_sizes!r}")
        self.activation = Activation() if activation is None else activation
        if not self.activation.is_piecewise_linear:
            raise ValueError("activation must be 'relu' or 'leaky_relu': a table needs a discrete pattern")
        n_neurons = sum(self.layer_sizes)
        if patterns is None and n_neurons > MAX_NEURONS:
            raise ValueError(
                f"layer_sizes has {n_neurons} neurons, a table of 2^{n_neurons} rows; give `patterns` for the rows "
                f"you need, or use at most {MAX_NEURONS} neurons"
            )
        if patterns is not None and (patterns.ndim != 2 or patterns.shape[1] != n_neurons):
            raise ValueError(f"patterns must be of shape (K, {n_neurons}), got {tuple(patterns.shape)}")
        self.patterns = None if patterns is None else patterns.astype(np.int8)
        widths = in_features + np.cumsum([0, *self.layer_sizes[:-1]])
        self.layers = [
            Layer(np.zeros((size, width)), np.zeros(size)) for size, width in zip(self.layer_sizes, widths, strict=True)
        ]
        if seed is not None:
            rng = np.random.RandomState(seed)
            for layer in self.layers:
                bound = 1 / np.sqrt(layer.weight.shape[1])
                layer.weight, layer.bias = (uniform(a.shape, rng) * bound for a in (layer.weight, layer.bias))
        n_rows = 2**n_neurons if patterns is None else len(patterns)
        self.table = np.zeros((n_rows, out_features))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of all arrays."""
        return self.table.dtype

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The table, and the neurons' weights and biases, by name, not copied."""
        arrays = {"table": self.table}
        for number, layer in enumerate(self.layers):
            arrays |= {f"layers.{number}.weight": layer.weight, f"layers.{number}.bias": layer.bias}
        return arrays

    def neurons(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Weights (D, N), connections (N, N) and biases (N,) of the neurons as a chain of single ones.

        Those of one layer follow each other, unconnected (proof of Theorem 3).
        """
        n_neurons = sum(self.layer_sizes)
        joined = np.zeros((n_neurons, self.in_features + n_neurons))
        start = 0
        for layer in self.layers:
            size, width = layer.weight.shape
            joined[start : start + size, :width] = layer.weight
            start += size
        bias = np.concatenate([layer.bias for layer in self.layers])
        return joined[:, : self.in_features].T, joined[:, self.in_features :], bias

    def activation_pattern(self, x: NDArray[Any]) -> NDArray[np.bool_]:
        """Which neurons are active (z ≥ 0, Eq. 3): bool (B, N), layer by layer."""
        inputs = np.asarray(x, np.float64).T  # (D, B), and below it the neurons so far
        active = []
        for layer in self.layers:
            z = layer(inputs)
            a, _ = self.activation(z)
            active.append(z >= 0)
            inputs = np.concatenate([inputs, a])
        return np.concatenate(active).T

    def table_rows(self, pattern: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The row of the table for each pattern, bool (B, N)."""
        if self.patterns is None:
            return pattern @ (2 ** np.arange(pattern.shape[1]))
        found = np.full(len(pattern), -1)
        for row in range(len(self.patterns) - 1, -1, -1):
            wanted = self.patterns[row]
            found[((pattern == wanted) | (wanted < 0)).all(axis=1)] = row
        if (found < 0).any():
            raise ValueError(f"patterns has no row for {int((found < 0).sum())} of the activation patterns met")
        return found

    def leaf_values(self, patterns: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The outputs (K, L) for patterns, bool (K, N)."""
        return self.table[self.table_rows(patterns)]

    def __call__(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Outputs (B, L)."""
        return self.leaf_values(self.activation_pattern(x))
