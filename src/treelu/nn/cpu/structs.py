"""What the kernels take: arrays and numbers that belong together, by name. B rows, D features, M neurons, L outputs.

"padded" is the number of columns, rounded up to whole vectors.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Entries(NamedTuple):
    """The rows `index` of a `Table`; `width` is 0 for CSR, D for a dense table."""

    values: Any
    features: Any
    starts: Any
    width: int
    index: Any


class Mask(NamedTuple):
    """DropConnect: a key per row, filled by the forward pass from the draw's two words; the neurons' counters
    (padded,); weights whose hash is below `threshold` are dropped. Threshold 0: none.
    """

    keys: Any
    counters: Any
    low: Any
    high: Any
    threshold: Any
    scale: Any


class Neurons(NamedTuple):
    """Weights (D, padded), connections (M, M), biases (M,), λ, the slope below zero, and the share of softplus's
    curvature in gradients of the slope.
    """

    weight: Any
    connection: Any
    bias: Any
    annealing: Any
    slope: Any
    bend: Any


class State(NamedTuple):
    """What the forward pass leaves: projections s (columns, B); z, a, o = σ'(z) and σ''(z), each (M, B); and the masks
    of the connections (M, M, B), which are 1 where nothing is dropped. `sums` (2, padded) is room for one row's
    projections, with all weights and with the surviving ones: threads that share the rest have their own.
    """

    s: Any
    z: Any
    a: Any
    o: Any
    curvature: Any
    kept: Any
    sums: Any


class Gradients(NamedTuple):
    """Gradients of s (columns, B), z, a and o (M, B), and of the parameters (D, padded), (M, M), (M,)."""

    s: Any
    z: Any
    a: Any
    o: Any
    weight: Any
    connection: Any
    bias: Any


class Paths(NamedTuple):
    """T_i = e_i + Σ u_ik C_k and C_i = o_i T_i, (M, M, B), zero above the diagonal; offsets c (M, B)."""

    paths: Any
    coefficients: Any
    offsets: Any


class PathGradients(NamedTuple):
    """Gradients of C (M, M, B) and of the offsets (M, B)."""

    coefficients: Any
    offsets: Any


class FirstLayer(NamedTuple):
    """First layer of g_φ on coefficients: G_hij = V_hi·w_j as (H, M, padded), v (H, M), β (H,); or their gradients."""

    gram: Any
    offset: Any
    bias: Any


class ByNeuron(NamedTuple):
    """Room for the weights turned, so that loops run over features: (M, at least D), and for their gradient on some
    features at a time, (M, a block).
    """

    weight: Any
    grad: Any


class ConstantParameters(NamedTuple):
    """Of a locally constant network: (D, M), (M, M), (M,); V (H, M, D), v (H, M), β (H,). Or their gradients."""

    weight: Any
    connection: Any
    bias: Any
    head_weight: Any
    head_offset: Any
    head_bias: Any


class LinearParameters(NamedTuple):
    """Of a locally linear network: (D, M), (M, M), (M,); A (D, L), B (M, L), c (L,). Or their gradients."""

    weight: Any
    connection: Any
    bias: Any
    output_weight: Any
    output_connection: Any
    output_bias: Any
