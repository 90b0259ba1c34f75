"""Random networks and rows for the conversion tests, and the paper's recursions written out as oracles."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from treelu.nn import Activation, CanonicalNetwork, LocallyConstantNetwork, LocallyLinearNetwork, NeuronChain

seeds = st.integers(0, 2**32 - 1)


def fill(network: NeuronChain | CanonicalNetwork, rng: np.random.Generator, scale: float = 1.0) -> None:
    """Draw all parameters from a normal distribution: wilder than any initialisation."""
    if isinstance(network, NeuronChain):
        arrays = list(network.arrays().values())
    else:
        arrays = [array for layer in network.layers for array in (layer.weight, layer.bias)] + [network.table]
    for array in arrays:
        array[:] = scale * rng.standard_normal(array.shape)


@st.composite
def networks(draw: st.DrawFn, kinds: tuple[str, ...] = ("linear", "deep", "lln"), max_depth: int = 8):
    """A network of one neuron per layer: depth 1–8, 1–30 features, any piece-wise linear activation and head."""
    depth, n_features = draw(st.integers(1, max_depth)), draw(st.integers(1, 30))
    n_outputs, kind = draw(st.integers(1, 3)), draw(st.sampled_from(kinds))
    slope = draw(st.sampled_from([0.0, 0.01, 0.3, -0.5, 2.0]))
    activation = Activation("relu") if slope == 0 else Activation("leaky_relu", slope)
    options = {"activation": activation}
    if kind == "lln":
        network = LocallyLinearNetwork(n_features, depth, n_outputs, **options)
    else:
        hidden = (5, 4) if kind == "deep" else ()
        network = LocallyConstantNetwork(n_features, depth, n_outputs, hidden_layers=hidden, **options)
    fill(network, np.random.default_rng(draw(seeds)), scale=0.7)
    return network


def random_rows(rng: np.random.Generator, n_features: int, n_rows: int = 60) -> np.ndarray:
    """Rows near zero, far out (up to 1e6) and with many zeros."""
    rows = rng.standard_normal((n_rows, n_features))
    rows[n_rows // 3 :] *= 10.0 ** rng.uniform(0, 6, (n_rows - n_rows // 3, 1))
    rows[rng.random(rows.shape) < 0.2] = 0
    return rows


def pre_activations(network, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """z (n, M) by Eq. 1–2 neuron by neuron, and the sum of the sizes of its terms, the scale of its rounding."""
    w, u, b = network.weight, network.connection, network.bias
    slope = network.activation.negative_slope
    z, size = np.empty((len(x), network.depth)), np.empty((len(x), network.depth))
    a, a_size = np.zeros_like(z), np.zeros_like(z)
    for i in range(network.depth):
        z[:, i] = x @ w[:, i] + a[:, :i] @ u[i, :i] + b[i]
        size[:, i] = np.abs(x) @ np.abs(w[:, i]) + a_size[:, :i] @ np.abs(u[i, :i]) + abs(b[i])
        a[:, i] = np.where(z[:, i] >= 0, z[:, i], slope * z[:, i])
        a_size[:, i] = size[:, i] * max(1.0, abs(slope))
    return z, size


def tell_apart(network, x: np.ndarray) -> np.ndarray:
    """Rows no nearer to any hyperplane than rounding: on the others two exact forms may differ in sign."""
    z, size = pre_activations(network, x)
    return (np.abs(z) > 1e-12 * size).all(axis=1)
