"""Networks on rows: activation patterns of trees, and outputs of networks that are smooth or have linear leaves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treelu.nn.cpu.compile import fast_entry
from treelu.nn.cpu.kernels import BLOCK, LANES, constant_forward, neurons_forward, patterns
from treelu.nn.cpu.layers import outputs_forward
from treelu.nn.cpu.structs import (
    ConstantParameters,
    Entries,
    FirstLayer,
    LinearParameters,
    Mask,
    Neurons,
    Paths,
    State,
)
from treelu.nn.cpu.threads import n_threads, share_out
from treelu.nn.drop_connect import NEURON, WORD, DropConnect
from treelu.nn.rows import Rows

if TYPE_CHECKING:
    from treelu.nn.activations import Activation
    from treelu.nn.networks import LocallyConstantNetwork, LocallyLinearNetwork

CACHE_LINE = 64  # bytes
COPIED_ENTRIES = 2**22  # of a table in float32, copied in float64 at once
# below this many multiply-adds a second thread costs more than it saves
WORK_PER_THREAD, ROUTING_PER_THREAD = 400_000, 4_000_000


class Router:
    """Activation patterns of a piece-wise linear network, from its neurons' parameters as they are now.

    Rows are routed in float64, whatever the network's and the table's precision: the one kernel that training compiles
    is the one that predicts.

    Parameters
    ----------
    weight, connection, bias : arrays of shape (D, M), (M, M), (M,)
    slope : float
        The activation's slope below zero.
    """

    def __init__(self, weight: NDArray[Any], connection: NDArray[Any], bias: NDArray[Any], slope: float) -> None:
        scalar = np.float64
        packed = packed_weight(weight.astype(scalar))
        self.neurons = Neurons(
            packed, connection.astype(scalar), bias.astype(scalar), scalar(1), scalar(slope), scalar(0)
        )

    def codes(self, rows: Rows) -> NDArray[np.int64]:
        """Packed patterns (B, words) of rows, 63 neurons a word."""
        codes = np.zeros((len(rows.index), -(-len(self.neurons.bias) // 63)), np.int64)
        if rows.table.dtype == np.float64:
            self._fill(codes, rows)
            return codes
        step = max(1, COPIED_ENTRIES // rows.shape[1])
        for start in range(0, len(codes), step):
            some = Rows(rows.table, rows.index[start : start + step])
            self._fill(codes[start : start + step], some.in_float64())
        return codes

    def _fill(self, codes: NDArray[np.int64], rows: Rows) -> None:
        weight, depth = self.neurons.weight, len(self.neurons.bias)

        def route(first: np.uint64, last: np.uint64) -> None:
            total, z = np.empty(weight.shape[1], weight.dtype), np.empty((depth, BLOCK), weight.dtype)
            patterns(entries_of(rows), self.neurons, total, z, codes, first, last)

        n_parts = _n_parts(rows, _entries_per_row(rows) * weight.shape[1], ROUTING_PER_THREAD)
        share_out(route, len(codes), n_parts)


def first_layer(network: LocallyConstantNetwork, rows: Rows, annealing: float) -> NDArray[Any]:
    """Outputs (H, B) of g_φ's first layer, nothing dropped."""
    parameters, batch, dtype = constant_parameters(network), len(rows.index), network.dtype
    packed = packed_weight(network.weight)
    gram = padded_zeros(len(parameters.head_bias) * network.depth, network.depth, dtype)
    gram[:, : network.depth] = (parameters.head_weight @ parameters.weight).reshape(-1, network.depth)
    layer = FirstLayer(
        gram.reshape(len(parameters.head_bias), network.depth, -1), parameters.head_offset, parameters.head_bias
    )
    state, mask = new_state(network.depth, network.depth, batch, dtype), mask_of(None, batch, packed)
    neurons = neurons_of(packed, parameters, network.activation, annealing)
    squares = np.zeros((2, network.depth, network.depth, batch), dtype)
    paths = Paths(squares[0], squares[1], np.empty((network.depth, batch), dtype))
    out = np.empty((len(layer.bias), batch), dtype)
    share_out(
        lambda first, last: _constant_forward(
            entries_of(rows), mask, neurons, own_sums(state), layer, paths, out, first, last
        ),
        batch,
        _n_parts(rows, _entries_per_row(rows) * (network.depth + 4) + network.depth**3, WORK_PER_THREAD),
    )
    return out


def linear_outputs(network: LocallyLinearNetwork, rows: Rows, annealing: float) -> NDArray[Any]:
    """Outputs (L, B) of f_θ, nothing dropped."""
    parameters, batch, dtype = linear_parameters(network), len(rows.index), network.dtype
    packed = packed_weight(network.weight, network.output_weight)
    n_columns = network.depth + network.out_features
    state, mask = new_state(network.depth, n_columns, batch, dtype), mask_of(None, batch, packed)
    neurons = neurons_of(packed, parameters, network.activation, annealing)
    out = np.empty((network.out_features, batch), dtype)
    share_out(
        lambda first, last: _linear_forward(
            entries_of(rows), mask, neurons, own_sums(state), parameters, out, first, last
        ),
        batch,
        _n_parts(rows, _entries_per_row(rows) * (n_columns + 4) + network.depth**2, WORK_PER_THREAD),
    )
    return out


@fast_entry
def _constant_forward(
    entries: Any, mask: Any, neurons: Any, state: Any, layer: Any, paths: Any, out: Any, first: Any, last: Any
) -> None:
    constant_forward(entries, mask, neurons, state, layer, paths, out, first, last)


@fast_entry
def _linear_forward(
    entries: Any, mask: Any, neurons: Any, state: Any, parameters: Any, out: Any, first: Any, last: Any
) -> None:
    neurons_forward(entries, mask, neurons, state, first, last)
    outputs_forward(parameters, state, out, first, last)


# The kernels' arguments from networks and rows


def entries_of(rows: Rows) -> Entries:
    """Rows as kernels take them."""
    table = rows.table
    return Entries(table.values, table.features, table.starts, 0 if table.is_sparse else table.shape[1], rows.index)


def constant_parameters(network: LocallyConstantNetwork) -> ConstantParameters:
    """A network's arrays as kernels take them."""
    head = network.head
    neurons = network.weight, network.connection, network.bias
    return ConstantParameters(*neurons, head.weight, head.offset_weight, head.bias)


def linear_parameters(network: LocallyLinearNetwork) -> LinearParameters:
    """A network's arrays as kernels take them."""
    neurons = network.weight, network.connection, network.bias
    return LinearParameters(*neurons, network.output_weight, network.output_connection, network.output_bias)


def neurons_of(packed: NDArray[Any], parameters: Any, activation: Activation, annealing: float) -> Neurons:
    """The neurons with λ and the numbers that follow from it."""
    scalar = packed.dtype.type
    numbers = annealing, activation.negative_slope, activation.bend(annealing)
    return Neurons(packed, parameters.connection, parameters.bias, *map(scalar, numbers))


def mask_of(drop: DropConnect | None, batch: int, packed: NDArray[Any]) -> Mask:
    """A draw of masks for a batch and padded weights; none where `drop` is None."""
    keys, word, scalar = np.empty(batch, np.uint32), np.uint32, packed.dtype.type
    counters = np.arange(1, packed.shape[1] + 1, dtype=np.uint32) * word(NEURON)
    if drop is None:
        return Mask(keys, counters, word(0), word(0), word(0), scalar(1))
    low, high = word(drop.key & WORD), word(drop.key >> 32 & WORD)
    return Mask(keys, counters, low, high, word(drop.threshold), scalar(drop.scale))


def new_state(depth: int, n_columns: int, batch: int, dtype: Any) -> State:
    """Arrays for the forward pass of a batch."""
    z, a, o, curvature = np.empty((4, depth, batch), dtype)
    kept, sums = np.ones((depth, depth, batch), dtype), np.empty((2, -(-n_columns // LANES) * LANES), dtype)
    return State(np.empty((n_columns, batch), dtype), z, a, o, curvature, kept, sums)


def own_sums(state: State) -> State:
    """The same arrays, but sums of its own for one more thread."""
    return state._replace(sums=np.empty_like(state.sums))


def packed_weight(*blocks: NDArray[Any]) -> NDArray[Any]:
    """Blocks (D, ·) of weights side by side, padded."""
    n_columns = sum(block.shape[1] for block in blocks)
    packed = padded_zeros(len(blocks[0]), n_columns, blocks[0].dtype)
    packed[:, :n_columns] = np.concatenate(blocks, axis=1)
    return packed


def padded_zeros(n_rows: int, n_columns: int, dtype: Any) -> NDArray[Any]:
    """Zeros (n_rows, n_columns padded to whole vectors) that begin with a cache line, so that rows share few."""
    dtype, shape = np.dtype(dtype), (n_rows, -(-n_columns // LANES) * LANES)
    whole = np.zeros(math.prod(shape) + CACHE_LINE // dtype.itemsize, dtype)
    start = -whole.ctypes.data % CACHE_LINE // dtype.itemsize
    return whole[start : start + math.prod(shape)].reshape(shape)


def _entries_per_row(rows: Rows) -> float:
    return len(rows.table.values) / max(1, rows.table.shape[0])


def _n_parts(rows: Rows, work_per_row: float, worthwhile: int) -> int:
    """How many threads pay for these rows."""
    return max(1, min(n_threads(), int(len(rows.index) * work_per_row / worthwhile), len(rows.index)))
