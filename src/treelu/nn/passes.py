"""One forward and one backward pass of the kernels over a batch, on NumPy views of a network's parameters.

A pass is made once and run many times: its arrays are kept from batch to batch, so that a training step touches no
fresh memory. `treelu.nn.fused` wraps passes as torch autograd functions. Rows are shared out over threads where there
is work enough; a result depends on the seed and the number of threads.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from treelu.nn import kernels, layers
from treelu.nn.activations import Activation
from treelu.nn.arguments import Chain, Entries, Gradients, Head, Mask, PathGradients, Paths, State
from treelu.nn.drop_connect import WORD, DropConnect
from treelu.nn.kernels import LANES
from treelu.nn.rows import Rows

# below this many multiply-adds a second thread costs more than it saves
WORK_PER_THREAD = 400_000
ROUTING_PER_THREAD = 4_000_000  # the same, of finding patterns
PATTERNS_AT_ONCE = 256  # bounds the memory
CACHE_LINE = 64  # bytes
Work = Callable[[int, Any, Any], None]


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads - 1, thread_name_prefix="treelu")


def _share_out(work: Work, n_rows: int, n_parts: int) -> None:
    """Call work(part, first, last) for `n_parts` even parts of the rows, one of them in this thread."""
    cuts = [np.uint64(n_rows * part // n_parts) for part in range(n_parts + 1)]
    others = [_pool(n_parts).submit(work, part, cuts[part], cuts[part + 1]) for part in range(1, n_parts)]
    work(0, cuts[0], cuts[1])
    for other in others:
        other.result()


def _n_parts(rows: Rows, depth: int, n_threads: int) -> int:
    """How many of `n_threads` threads pay for these rows."""
    table = rows.table
    per_row = len(table.values) / max(1, table.shape[0]) * (depth + 4) + depth**3
    worthwhile = int(len(rows.index) * per_row / WORK_PER_THREAD)
    return max(1, min(n_threads, worthwhile, len(rows.index)))


def _entries(rows: Rows) -> Entries:
    table = rows.table
    return Entries(table.values, table.features, table.starts, 0 if table.is_sparse else table.shape[1], rows.index)


def _padded_zeros(n_rows: int, n_columns: int, dtype: Any) -> NDArray[Any]:
    """Zeros (n_rows, n_columns padded to whole vectors) that begin with a cache line, so that rows share few."""
    dtype, shape = np.dtype(dtype), (n_rows, -(-n_columns // LANES) * LANES)
    whole = np.zeros(math.prod(shape) + CACHE_LINE // dtype.itemsize, dtype)
    start = -whole.ctypes.data % CACHE_LINE // dtype.itemsize
    return whole[start : start + math.prod(shape)].reshape(shape)


def _mask(drop: DropConnect | None, keys: NDArray[np.uint32], dtype: np.dtype[Any]) -> Mask:
    word = np.uint32
    if drop is None:
        return Mask(keys, word(0), word(0), word(0), dtype.type(1))
    return Mask(keys, word(drop.key & WORD), word(drop.key >> 32 & WORD), word(drop.threshold), dtype.type(drop.scale))


def _sum_parts(parts: NDArray[Any]) -> None:
    """Sum the parts' gradients into the first part's; zero the others."""
    for part in parts[1:]:
        parts[0] += part
        part.fill(0)


def _cut(vector: NDArray[Any], shapes: Sequence[tuple[int, ...]]) -> list[NDArray[Any]]:
    """Consecutive pieces of a vector, in these shapes."""
    pieces, start = [], 0
    for shape in shapes:
        end = start + math.prod(shape)
        pieces.append(vector[start:end].reshape(shape))
        start = end
    return pieces


class Pass(ABC):
    """A network's layer on rows: `forward`, then `backward`, over the same arrays.

    Parameters
    ----------
    parameters : sequence of arrays
        Weights (D, M), connections (M, M), biases (M,), then what stands above the neurons.
    gradients : sequence of arrays, optional
        Where `backward` writes; by default new ones at each call.
    """

    def __init__(self, parameters: Sequence[NDArray[Any]], gradients: Sequence[NDArray[Any]] | None = None) -> None:
        self.parameters = tuple(parameters)
        self.gradients = None if gradients is None else tuple(gradients)
        weight, _, bias = self.parameters[:3]
        self.depth, self.dtype = len(bias), bias.dtype
        self.n_columns = self._n_columns()
        self.packed = _padded_zeros(len(weight), self.n_columns, self.dtype)
        self.n_threads = torch.get_num_threads()
        self.batch = self.n_parts = -1

    @abstractmethod
    def _n_columns(self) -> int:
        """How many columns the rows are projected on."""

    @abstractmethod
    def forward(self, rows: Rows, annealing: float, activation: Activation, drop: DropConnect | None) -> NDArray[Any]:
        """The outputs, (outputs, B)."""

    @abstractmethod
    def backward(self, grad: NDArray[Any]) -> Sequence[NDArray[Any]]:
        """Gradients of all parameters from that of the outputs."""

    @abstractmethod
    def _prepare_outputs(self) -> Sequence[tuple[int, ...]]:
        """New arrays for another number of rows or parts; returns the shapes of the gradients, above those of the
        neurons, that each part sums up by itself.
        """

    def n_parts_for(self, rows: Rows) -> int:
        """How many threads the rows would be shared out over."""
        return _n_parts(rows, self.depth, self.n_threads)

    def start(self, rows: Rows, annealing: float, activation: Activation, drop: DropConnect | None) -> None:
        """Set the kernels' arguments for a batch, or for batches of at most so many rows."""
        n_parts = self.n_parts_for(rows)
        if (len(rows.index), n_parts) != (self.batch, self.n_parts):
            self.batch, self.n_parts = len(rows.index), n_parts
            self._prepare()
        _, connection, bias = self.parameters[:3]
        numbers = annealing, activation.negative_slope, activation.bend(annealing)
        chain = Chain(self.packed, connection, bias, *map(self.dtype.type, numbers))
        self.arguments = _entries(rows), _mask(drop, self.keys, self.dtype), chain, self.state

    def _prepare(self) -> None:
        """New arrays for another number of rows or parts. Gradients of s, z, a and o are shared by all parts."""
        depth, batch, n_parts = self.depth, self.batch, self.n_parts
        self.keys = np.empty(batch, np.uint32)
        self.state = State(np.empty((self.n_columns, batch), self.dtype), *np.empty((4, depth, batch), self.dtype))
        self.grad_s, self.grad_rows = np.empty_like(self.state.s), np.empty((3, depth, batch), self.dtype)
        shapes = (depth, depth), (depth,), *self._prepare_outputs()
        n_features, n_columns = self.packed.shape
        parts = _padded_zeros(n_parts * n_features, n_columns, self.dtype)  # zero before each backward pass
        self.grad_packed = parts.reshape(n_parts, n_features, n_columns)
        self.grad_others = np.zeros((n_parts, sum(math.prod(shape) for shape in shapes)), self.dtype)
        self.grads: list[Gradients] = []
        self.grads_above: list[list[NDArray[Any]]] = []
        for packed, others in zip(self.grad_packed, self.grad_others, strict=True):
            of_connection, of_bias, *above = _cut(others, shapes)
            of_z, of_a, of_o = self.grad_rows
            self.grads.append(Gradients(self.grad_s, of_z, of_a, of_o, packed, of_connection, of_bias))
            self.grads_above.append(above)

    def targets(self) -> tuple[NDArray[Any], ...]:
        """Where `backward` writes the parameters' gradients."""
        return tuple(np.empty_like(p) for p in self.parameters) if self.gradients is None else self.gradients


class LocallyConstantPass(Pass):
    """First layer of g_φ: h = β + Σ_ij C_ij G_hij + Σ_i v_hi c_i with G_hij = V_hi·w_j.

    Parameters above the neurons: V (H, M, D), v (H, M), β (H,).
    """

    def _n_columns(self) -> int:
        return self.depth

    def _prepare_outputs(self) -> Sequence[tuple[int, ...]]:
        depth, batch = self.depth, self.batch
        _, _, _, _, head_offset, head_bias = self.parameters
        squares, rows = np.zeros((3, depth, depth, batch), self.dtype), np.empty((2, depth, batch), self.dtype)
        self.paths, self.grad_paths = Paths(squares[0], squares[1], rows[0]), PathGradients(squares[2], rows[1])
        gram = np.zeros((*head_offset.shape, self.packed.shape[1]), self.dtype)
        self.head, self.product = Head(gram, head_offset, head_bias), np.empty_like(self.packed)
        return [part.shape for part in self.head]

    def forward(self, rows: Rows, annealing: float, activation: Activation, drop: DropConnect | None) -> NDArray[Any]:
        """The layer's outputs (H, B)."""
        self.start(rows, annealing, activation, drop)
        layers.prepare_constant(self.parameters, self.packed, self.head.gram)
        out = np.empty((len(self.head.bias), self.batch), self.dtype)
        _share_out(
            lambda _, first, last: kernels.constant_forward(*self.arguments, self.head, self.paths, out, first, last),
            self.batch,
            self.n_parts,
        )
        return out

    def on_patterns(self, patterns: NDArray[np.bool_], slope: float) -> NDArray[Any]:
        """The layer's outputs (H, K) of the piece-wise linear network for activation patterns (K, M)."""
        _, connection, bias = self.parameters[:3]
        scalar, count = self.dtype.type, len(patterns)
        self.batch, self.n_parts = min(count, PATTERNS_AT_ONCE), 1
        self._prepare()
        layers.prepare_constant(self.parameters, self.packed, self.head.gram)
        chain = Chain(self.packed, connection, bias, scalar(1), scalar(slope), scalar(0))
        # the offsets C b (`path_offsets`) are what a − C s gives for a = 0 and s = −b
        self.state.a.fill(0)
        self.state.s[:] = -bias[:, None]
        outputs = np.empty((len(self.head.bias), count), self.dtype)
        for start in range(0, count, PATTERNS_AT_ONCE):
            some = patterns[start : start + PATTERNS_AT_ONCE]
            self.state.o[:, : len(some)] = np.where(some.T, 1, slope)
            out = np.empty((len(outputs), self.batch), self.dtype)
            kernels.patterns_forward(chain, self.state, self.head, self.paths, out, np.uint64(0), np.uint64(len(some)))
            outputs[:, start : start + len(some)] = out[:, : len(some)]
        return outputs

    def backward(self, grad: NDArray[Any]) -> Sequence[NDArray[Any]]:
        """Gradients of all parameters from that of the outputs (H, B)."""
        self.grad_others.fill(0)
        heads = [Head(*above) for above in self.grads_above]
        _share_out(
            lambda part, first, last: kernels.constant_backward(
                *self.arguments,
                self.head,
                self.paths,
                grad,
                self.grad_paths,
                heads[part],
                self.grads[part],
                first,
                last,
            ),
            self.batch,
            self.n_parts,
        )
        _sum_parts(self.grad_packed)
        _sum_parts(self.grad_others)
        targets = self.targets()
        layers.collect_constant(self.parameters, self.packed, self.grads[0], heads[0], self.product, targets)
        return targets


class LocallyLinearPass(Pass):
    """Outputs of f_θ: A x + B a + c on the neurons' activations a.

    Parameters above the neurons: A (D, L), B (M, L), c (L,).
    """

    def _n_columns(self) -> int:
        return self.depth + self.parameters[3].shape[1]

    def _prepare_outputs(self) -> Sequence[tuple[int, ...]]:
        return ()

    def forward(self, rows: Rows, annealing: float, activation: Activation, drop: DropConnect | None) -> NDArray[Any]:
        """The outputs (L, B)."""
        self.start(rows, annealing, activation, drop)
        layers.prepare_linear(self.parameters, self.packed)
        _share_out(
            lambda _, first, last: kernels.neurons_forward(*self.arguments, first, last), self.batch, self.n_parts
        )
        out = np.empty((self.parameters[5].shape[0], self.batch), self.dtype)
        layers.linear_outputs(self.parameters, self.state, out, self.batch)
        return out

    def backward(self, grad: NDArray[Any]) -> Sequence[NDArray[Any]]:
        """Gradients of all parameters from that of the outputs (L, B)."""
        layers.linear_outputs_backward(self.parameters, grad, self.grads[0], self.batch)
        self.grad_others.fill(0)
        _share_out(
            lambda part, first, last: kernels.neurons_backward(*self.arguments, self.grads[part], first, last),
            self.batch,
            self.n_parts,
        )
        _sum_parts(self.grad_packed)
        _sum_parts(self.grad_others)
        targets = self.targets()
        layers.collect_linear(self.state, grad, self.grads[0], targets, self.batch)
        return targets


class Router:
    """Activation patterns of a piece-wise linear network, from its neurons' parameters as they are now.

    Parameters
    ----------
    weight, connection, bias : arrays of shape (D, M), (M, M), (M,)
    slope : float
        The activation's slope below zero.
    """

    def __init__(self, weight: NDArray[Any], connection: NDArray[Any], bias: NDArray[Any], slope: float) -> None:
        packed, scalar = _padded_zeros(len(weight), len(bias), bias.dtype), bias.dtype.type
        layers.pack(weight, 0, packed)
        self.chain = Chain(packed, connection.copy(), bias.copy(), scalar(1), scalar(slope), scalar(0))

    def codes(self, rows: Rows) -> NDArray[np.int64]:
        """Packed patterns (B, words) of rows, 63 neurons a word."""
        entries, chain = _entries(rows), self.chain
        codes = np.zeros((len(rows.index), -(-len(chain.bias) // 63)), np.int64)
        _share_out(
            lambda _, first, last: kernels.patterns(entries, chain, codes, first, last),
            len(codes),
            self.n_parts(rows, torch.get_num_threads()),
        )
        return codes

    def n_parts(self, rows: Rows, n_threads: int) -> int:
        """How many of `n_threads` threads pay for these rows."""
        table = rows.table
        work = len(rows.index) * len(table.values) / max(1, table.shape[0]) * self.chain.weight.shape[1]
        return max(1, min(n_threads, int(work / ROUTING_PER_THREAD), len(rows.index)))
