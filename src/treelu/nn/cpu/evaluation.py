"""Networks on rows: activation patterns of trees, and outputs of networks that are smooth or have linear leaves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treelu.kernels import compiled
from treelu.nn.cpu.threads import n_threads, share_out
from treelu.nn.drop_connect import DropConnect
from treelu.nn.rows import Rows, Table

if TYPE_CHECKING:
    from treelu.nn.activations import Activation
    from treelu.nn.networks import LocallyConstantNetwork, LocallyLinearNetwork, NeuronChain

COLUMNS = 8  # what weights are padded to a multiple of, as the kernels take them
CACHE_LINE = 64  # bytes
COPIED_ENTRIES = 2**22  # of a table in float32, copied in float64 at once
# below this many multiply-adds a second thread costs more than it saves
WORK_PER_THREAD, ROUTING_PER_THREAD = 400_000, 4_000_000


class Router:
    """Activation patterns of a piece-wise linear network, from its neurons' parameters as they are now.

    Rows are routed in float64, whatever the network's and the table's precision.

    Parameters
    ----------
    weight, connection, bias : arrays of shape (D, M), (M, M), (M,)
    negative_slope : float
        Of the activation.
    """

    def __init__(
        self, weight: NDArray[Any], connection: NDArray[Any], bias: NDArray[Any], negative_slope: float
    ) -> None:
        scalar = np.float64
        self.neurons = packed_weight(weight.astype(scalar)), connection.astype(scalar), bias.astype(scalar)
        self.negative_slope = negative_slope

    def codes(self, rows: Rows) -> NDArray[np.int64]:
        """Packed patterns (B, words) of rows, 63 neurons a word."""
        codes = np.zeros((len(rows.index), -(-len(self.neurons[2]) // 63)), np.int64)
        if rows.table.dtype == np.float64:
            self._fill(codes, rows)
            return codes
        step = max(1, COPIED_ENTRIES // rows.shape[1])
        for start in range(0, len(codes), step):
            some = Rows(rows.table, rows.index[start : start + step])
            self._fill(codes[start : start + step], some.in_float64())
        return codes

    def _fill(self, codes: NDArray[np.int64], rows: Rows) -> None:
        entries, width = entries_of(rows.table), self.neurons[0].shape[1]
        share_out(
            lambda first, last: compiled.patterns(
                *entries, rows.index, *self.neurons, self.negative_slope, codes, first, last
            ),
            len(codes),
            _n_parts(rows, _entries_per_row(rows) * width, ROUTING_PER_THREAD),
        )


def first_layer(network: LocallyConstantNetwork, rows: Rows, annealing: float) -> NDArray[Any]:
    """Outputs (H, B) of g_φ's first layer, nothing dropped."""
    head, depth = network.head, network.depth
    gram = head.weight @ network.weight  # (H, M, M)
    out = np.empty((len(head.bias), len(rows.index)), network.dtype)
    arguments = *network_on_rows(network, rows, annealing), gram, head.offset_weight, head.bias, out
    share_out(
        lambda first, last: compiled.constant_outputs(*arguments, first, last),
        len(rows.index),
        _n_parts(rows, _entries_per_row(rows) * (depth + 4) + depth**3, WORK_PER_THREAD),
    )
    return out


def linear_outputs(network: LocallyLinearNetwork, rows: Rows, annealing: float) -> NDArray[Any]:
    """Outputs (L, B) of f_θ, nothing dropped."""
    out = np.empty((network.out_features, len(rows.index)), network.dtype)
    arguments = network_on_rows(network, rows, annealing, network.output_weight)
    arguments = *arguments, network.output_connection, network.output_bias, out
    n_columns = network.depth + network.out_features
    share_out(
        lambda first, last: compiled.linear_outputs(*arguments, first, last),
        len(rows.index),
        _n_parts(rows, _entries_per_row(rows) * (n_columns + 4) + network.depth**2, WORK_PER_THREAD),
    )
    return out


# The kernels' arguments from networks and rows, in the order of their signatures


def network_on_rows(network: NeuronChain, rows: Rows, annealing: float, *others: NDArray[Any]) -> tuple[Any, ...]:
    """Rows and neurons, with `others`, columns (D, ·) of weights beside those of the neurons."""
    packed = packed_weight(network.weight, *others)
    neurons = packed, network.connection, network.bias
    return *entries_of(rows.table), rows.index, *neurons, *activation_of(network.activation, annealing)


def entries_of(table: Table) -> tuple[Any, ...]:
    """A table: values, features, starts, and the width of a dense one, 0 for CSR."""
    return table.values, table.features, table.starts, 0 if table.is_sparse else table.shape[1]


def activation_of(activation: Activation, annealing: float) -> tuple[float, float, float]:
    """λ, the negative slope, and the share of softplus's curvature in gradients of the derivative."""
    return annealing, activation.negative_slope, activation.bend(annealing)


def drop_of(drop: DropConnect | None) -> tuple[int, float]:
    """Hashes below this are dropped (0: none), and what the surviving weights are multiplied by."""
    return (0, 1.0) if drop is None else (drop.threshold, drop.scale)


def packed_weight(*blocks: NDArray[Any]) -> NDArray[Any]:
    """Blocks (D, ·) of weights side by side, padded."""
    n_columns = sum(block.shape[1] for block in blocks)
    packed = padded_zeros(len(blocks[0]), n_columns, blocks[0].dtype)
    packed[:, :n_columns] = np.concatenate(blocks, axis=1)
    return packed


def padded_zeros(n_rows: int, n_columns: int, dtype: Any) -> NDArray[Any]:
    """Zeros (n_rows, n_columns padded to whole vectors) that begin with a cache line, so that rows share few."""
    dtype, shape = np.dtype(dtype), (n_rows, -(-n_columns // COLUMNS) * COLUMNS)
    whole = np.zeros(math.prod(shape) + CACHE_LINE // dtype.itemsize, dtype)
    start = -whole.ctypes.data % CACHE_LINE // dtype.itemsize
    return whole[start : start + math.prod(shape)].reshape(shape)


def _entries_per_row(rows: Rows) -> float:
    return len(rows.table.values) / max(1, rows.table.shape[0])


def _n_parts(rows: Rows, work_per_row: float, worthwhile: int) -> int:
    """How many threads pay for these rows."""
    return max(1, min(n_threads(), int(len(rows.index) * work_per_row / worthwhile), len(rows.index)))
