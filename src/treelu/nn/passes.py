"""One forward and one backward pass of the kernels over a batch, on NumPy views of a network's parameters.

A pass is made once and run many times: its arrays are kept from batch to batch, so that a training step touches no
fresh memory. `treelu.nn.fused` wraps passes as torch autograd functions. Rows are shared out over threads where there
is work enough; a result depends on the seed and the number of threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from treelu.nn import kernels
from treelu.nn.drop_connect import WORD, DropConnect
from treelu.nn.kernels import LANES, Chain, Entries, Gradients, Head, Mask, PathGradients, Paths, State
from treelu.nn.rows import Rows

# below this many multiply-adds a second thread costs more than it saves
WORK_PER_THREAD = 400_000
_NO_KEYS = np.empty(0, np.uint32)


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads - 1, thread_name_prefix="treelu")


def _share_out(work: Callable[[int, int, int], None], n_rows: int, n_parts: int) -> None:
    """Call work(part, first, last) for `n_parts` even parts of the rows, one of them in this thread."""
    if n_parts == 1:
        work(0, 0, n_rows)
        return
    cuts = [n_rows * part // n_parts for part in range(n_parts + 1)]
    pool = _pool(n_parts)
    others = [pool.submit(work, part, cuts[part], cuts[part + 1]) for part in range(1, n_parts)]
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


def _mask(drop: DropConnect | None, n_rows: int, dtype: np.dtype[Any]) -> Mask:
    if drop is None or drop.threshold == 0:
        return Mask(_NO_KEYS, np.uint32(0), dtype.type(1))
    keys = kernels.row_keys(n_rows, np.uint32(drop.key & WORD), np.uint32(drop.key >> 32 & WORD))
    return Mask(keys, np.uint32(drop.threshold), dtype.type(drop.scale))


def _sum_parts(parts: Sequence[Sequence[NDArray[Any]]]) -> Sequence[NDArray[Any]]:
    """Each gradient summed over the parts, into the first part's arrays; the others are zeroed."""
    first, *others = parts
    for part in others:
        for total, term in zip(first, part, strict=True):
            total += term
            term.fill(0)
    return first


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
        self.parameters, self.gradients = tuple(parameters), gradients
        weight, _, bias = self.parameters[:3]
        self.depth, self.dtype = len(bias), bias.dtype
        self.n_columns = self._n_columns()
        self.packed = np.zeros((len(weight), -(-self.n_columns // LANES) * LANES), self.dtype)
        self.partial = np.zeros((0, *self.packed.shape), self.dtype)
        self.n_threads = torch.get_num_threads()
        self.batch = -1

    @abstractmethod
    def _n_columns(self) -> int:
        """How many columns the rows are projected on."""

    @abstractmethod
    def forward(self, rows: Rows, annealing: float, slope: float, drop: DropConnect | None) -> NDArray[Any]:
        """The outputs, (outputs, B)."""

    @abstractmethod
    def backward(self, grad: NDArray[Any]) -> Sequence[NDArray[Any]]:
        """Gradients of all parameters from that of the outputs."""

    @abstractmethod
    def _prepare(self) -> None:
        """New arrays for batches of another size."""

    def _start(self, rows: Rows, annealing: float, slope: float, drop: DropConnect | None) -> None:
        """Set the kernels' arguments for a batch; `packed` must be filled."""
        _, connection, bias = self.parameters[:3]
        if len(rows.index) != self.batch:
            self.batch = len(rows.index)
            self.state = State(
                np.empty((self.n_columns, self.batch), self.dtype),
                *np.empty((4, self.depth, self.batch), self.dtype),
            )
            self._prepare()
        scalar = self.dtype.type
        self.n_parts = _n_parts(rows, self.depth, self.n_threads)
        self.arguments = (
            _entries(rows),
            _mask(drop, self.batch, self.dtype),
            Chain(self.packed, connection, bias, scalar(annealing), scalar(slope)),
            self.state,
        )

    def _part_gradients(
        self, of_s: NDArray[Any], of_z: NDArray[Any], of_a: NDArray[Any], of_o: NDArray[Any]
    ) -> list[Gradients]:
        """Gradients of s, z, a and o, shared by all parts, and of parameters, each part's own and zero."""
        if len(self.partial) < self.n_parts:
            self.partial = np.zeros((self.n_parts, *self.packed.shape), self.dtype)
        connections = np.zeros((self.n_parts, self.depth, self.depth), self.dtype)
        biases = np.zeros((self.n_parts, self.depth), self.dtype)
        return [
            Gradients(of_s, of_z, of_a, of_o, self.partial[part], connections[part], biases[part])
            for part in range(self.n_parts)
        ]

    def _targets(self) -> Sequence[NDArray[Any]]:
        return [np.empty_like(p) for p in self.parameters] if self.gradients is None else self.gradients


class LocallyConstantPass(Pass):
    """First layer of g_φ: h = β + Σ_ij C_ij G_hij + Σ_i v_hi c_i with G_hij = V_hi·w_j.

    Parameters above the neurons: V (H, M, D), v (H, M), β (H,).
    """

    def _n_columns(self) -> int:
        return self.depth

    def _prepare(self) -> None:
        depth, batch = self.depth, self.batch
        squares = np.zeros((3, depth, depth, batch), self.dtype)
        rows = np.empty((6, depth, batch), self.dtype)
        self.paths = Paths(squares[0], squares[1], rows[0])
        self.grad_paths = PathGradients(squares[2], rows[1])
        self.grad_rows = rows[2], rows[3], rows[4], rows[5]  # of s, z, a and o
        self.gram = np.zeros((len(self.parameters[5]), depth, self.packed.shape[1]), self.dtype)

    def forward(self, rows: Rows, annealing: float, slope: float, drop: DropConnect | None) -> NDArray[Any]:
        """The layer's outputs (H, B)."""
        weight, _, _, head_weight, head_offset, head_bias = self.parameters
        self._start(rows, annealing, slope, drop)
        flat_head, gram = head_weight.reshape(-1, len(weight)), self.gram.reshape(-1, self.packed.shape[1])
        kernels.pack(weight, 0, self.packed)
        np.matmul(flat_head, self.packed, out=gram)
        self.head = Head(self.gram, head_offset, head_bias)
        out = np.empty((len(head_bias), self.batch), self.dtype)
        _share_out(
            lambda _, first, last: kernels.constant_forward(*self.arguments, self.head, self.paths, out, first, last),
            self.batch,
            self.n_parts,
        )
        return out

    def backward(self, grad: NDArray[Any]) -> Sequence[NDArray[Any]]:
        """Gradients of all parameters from that of the outputs (H, B)."""
        weight, _, _, head_weight, _, _ = self.parameters
        heads = [Head(np.zeros_like(a), np.zeros_like(b), np.zeros_like(c)) for a, b, c in [self.head] * self.n_parts]
        parts = self._part_gradients(*self.grad_rows)
        _share_out(
            lambda part, first, last: kernels.constant_backward(
                *self.arguments, self.head, self.paths, grad, self.grad_paths, heads[part], parts[part], first, last
            ),
            self.batch,
            self.n_parts,
        )
        grad_packed, grad_connection, grad_bias = _sum_parts([part[4:] for part in parts])
        grad_gram, grad_offset, grad_head_bias = _sum_parts(heads)
        of_weight, of_connection, of_bias, of_head, of_offset, of_head_bias = targets = self._targets()
        flat_head, flat_gram = head_weight.reshape(-1, len(weight)), grad_gram.reshape(-1, self.packed.shape[1])
        np.matmul(flat_head.T, flat_gram[:, : self.depth], out=of_weight)
        np.matmul(flat_gram[:, : self.depth], weight.T, out=of_head.reshape(flat_head.shape))
        kernels.unpack_add(grad_packed, 0, of_weight)
        of_connection[:], of_bias[:] = grad_connection, grad_bias
        of_offset[:], of_head_bias[:] = grad_offset, grad_head_bias
        return targets


class LocallyLinearPass(Pass):
    """Outputs of f_θ: A x + B a + c on the neurons' activations a.

    Parameters above the neurons: A (D, L), B (M, L), c (L,).
    """

    def _n_columns(self) -> int:
        return self.depth + self.parameters[3].shape[1]

    def _prepare(self) -> None:
        pass

    def forward(self, rows: Rows, annealing: float, slope: float, drop: DropConnect | None) -> NDArray[Any]:
        """The outputs (L, B)."""
        weight, _, _, output_weight, output_connection, output_bias = self.parameters
        kernels.pack(weight, 0, self.packed)
        kernels.pack(output_weight, self.depth, self.packed)
        self._start(rows, annealing, slope, drop)
        _share_out(
            lambda _, first, last: kernels.neurons_forward(*self.arguments, first, last), self.batch, self.n_parts
        )
        out = output_connection.T @ self.state.a
        out += self.state.s[self.depth :]
        out += output_bias[:, None]
        return out

    def backward(self, grad: NDArray[Any]) -> Sequence[NDArray[Any]]:
        """Gradients of all parameters from that of the outputs (L, B)."""
        grad_s = np.concatenate([np.zeros((self.depth, self.batch), self.dtype), grad])
        grad_z, grad_o = np.zeros((2, self.depth, self.batch), self.dtype)
        parts = self._part_gradients(grad_s, grad_z, self.parameters[4] @ grad, grad_o)
        _share_out(
            lambda part, first, last: kernels.neurons_backward(*self.arguments, parts[part], first, last),
            self.batch,
            self.n_parts,
        )
        grad_packed, grad_connection, grad_bias = _sum_parts([part[4:] for part in parts])
        of_weight, of_connection, of_bias, of_output, of_output_connection, of_output_bias = targets = self._targets()
        of_weight.fill(0)
        of_output.fill(0)
        kernels.unpack_add(grad_packed, 0, of_weight)
        kernels.unpack_add(grad_packed, self.depth, of_output)
        of_connection[:], of_bias[:] = grad_connection, grad_bias
        np.matmul(self.state.a, grad.T, out=of_output_connection)
        np.sum(grad, axis=1, out=of_output_bias)
        return targets


def activation_codes(
    rows: Rows, weight: NDArray[Any], connection: NDArray[Any], bias: NDArray[Any], slope: float
) -> NDArray[np.int64]:
    """Packed activation patterns of a piece-wise linear network, 63 neurons a word."""
    depth, scalar = len(bias), bias.dtype.type
    packed = np.zeros((len(weight), -(-depth // LANES) * LANES), bias.dtype)
    kernels.pack(weight, 0, packed)
    codes = np.zeros((len(rows.index), -(-depth // 63)), np.int64)
    entries, chain = _entries(rows), Chain(packed, connection, bias, scalar(1), scalar(slope))
    _share_out(
        lambda _, first, last: kernels.patterns(entries, chain, codes, first, last),
        len(codes),
        _n_parts(rows, depth, torch.get_num_threads()),
    )
    return codes
