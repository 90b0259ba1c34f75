"""The kernels as torch autograd functions: one call forward, one backward, parameters stay torch's.

`locally_constant_layer` yields the first layer of g_φ from rows, `locally_linear_layer` the outputs of f_θ.
Rows are shared out over threads where there is work enough; a result depends on the seed and the number of threads.
Small products go through NumPy, whose calls cost a fraction of torch's.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from treelu.nn import kernels
from treelu.nn.drop_connect import WORD, DropConnect
from treelu.nn.kernels import LANES, Chain, Entries, Gradients, Mask, Paths, State
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


def _n_parts(rows: Rows, depth: int) -> int:
    """How many threads pay for these rows."""
    table = rows.table
    per_row = len(table.values) / max(1, table.shape[0]) * (depth + 4) + depth**3
    worthwhile = int(len(rows.index) * per_row / WORK_PER_THREAD)
    return max(1, min(torch.get_num_threads(), worthwhile, len(rows.index))) if worthwhile > 1 else 1


def pack(*blocks: NDArray[Any]) -> NDArray[Any]:
    """Blocks of columns (D, ·) side by side, padded with zeros to a multiple of `LANES` columns."""
    width = sum(block.shape[1] for block in blocks)
    packed = np.zeros((len(blocks[0]), -(-width // LANES) * LANES), blocks[0].dtype)
    column = 0
    for block in blocks:
        packed[:, column : column + block.shape[1]] = block
        column += block.shape[1]
    return packed


def _entries(rows: Rows) -> Entries:
    table = rows.table
    return Entries(table.values, table.features, table.starts, 0 if table.is_sparse else table.shape[1], rows.index)


def _mask(drop: DropConnect | None, n_rows: int, dtype: np.dtype[Any]) -> Mask:
    if drop is None or drop.threshold == 0:
        return Mask(_NO_KEYS, np.uint32(0), dtype.type(1))
    keys = kernels.row_keys(n_rows, np.uint32(drop.key & WORD), np.uint32(drop.key >> 32 & WORD))
    return Mask(keys, np.uint32(drop.threshold), dtype.type(drop.scale))


class _Trunk:
    """One pass through the neurons: the kernels' arguments, from forward to backward."""

    def __init__(
        self,
        rows: Rows,
        blocks: tuple[NDArray[Any], ...],
        connection: NDArray[Any],
        bias: NDArray[Any],
        annealing: float,
        slope: float,
        drop: DropConnect | None,
    ) -> None:
        self.batch, self.depth, self.dtype = len(rows.index), len(bias), bias.dtype
        self.entries, self.mask = _entries(rows), _mask(drop, self.batch, self.dtype)
        self.chain = Chain(pack(*blocks), connection, bias, self.dtype.type(annealing), self.dtype.type(slope))
        n_columns = sum(block.shape[1] for block in blocks)
        self.state = State(np.empty((n_columns, self.batch), self.dtype), *self._new(4, empty=True))
        self.n_parts = _n_parts(rows, self.depth)

    def _new(self, count: int, empty: bool = False) -> NDArray[Any]:
        """`count` arrays (M, B)."""
        return (np.empty if empty else np.zeros)((count, self.depth, self.batch), self.dtype)

    @property
    def arguments(self) -> tuple[Entries, Mask, Chain, State]:
        """What every kernel takes first."""
        return self.entries, self.mask, self.chain, self.state

    def gradients(self, grad_s: NDArray[Any], grad_a: NDArray[Any]) -> list[Gradients]:
        """Blank gradients: those of rows are shared, those of parameters are each part's own."""
        grad_z, grad_o = self._new(2)
        return [
            Gradients(
                grad_s,
                grad_z,
                grad_a,
                grad_o,
                np.zeros_like(self.chain.weight),
                np.zeros_like(self.chain.connection),
                np.zeros_like(self.chain.bias),
            )
            for _ in range(self.n_parts)
        ]


def _sum_parts(parts: list[Gradients]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The parameters' gradients of all parts, summed into the first."""
    first, *others = parts
    for part in others:
        for total, term in zip(first[4:], part[4:], strict=True):
            total += term
    return first.weight, first.connection, first.bias


class _LocallyConstantLayer(torch.autograd.Function):
    """First layer of g_φ: h = β + Σ_ij C_ij G_hij + Σ_i v_hi c_i with G_hij = V_hi·w_j."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Rows,
        annealing: float,
        slope: float,
        drop: DropConnect | None,
        *parameters: Tensor,
    ) -> Tensor:
        weight, connection, bias, head_weight, head_offset, head_bias = (p.numpy() for p in parameters)
        trunk = _Trunk(rows, (weight,), connection, bias, annealing, slope, drop)
        depth, batch, width = trunk.depth, trunk.batch, len(head_bias)
        squares = np.zeros((2, depth, depth, batch), trunk.dtype)
        paths = Paths(squares[0], squares[1], np.empty((depth, batch), trunk.dtype))
        _share_out(
            lambda _, first, last: kernels.paths_forward(*trunk.arguments, paths, first, last), batch, trunk.n_parts
        )
        flat_head = head_weight.reshape(width * depth, -1)
        gram = (flat_head @ weight).reshape(width, depth * depth)  # G
        ctx.save_for_backward(*parameters)
        ctx.trunk, ctx.paths, ctx.gram = trunk, paths, gram
        out = gram @ paths.coefficients.reshape(depth * depth, batch)  # (H, B)
        out += head_offset @ paths.offsets
        out += head_bias[:, None]
        return torch.from_numpy(out.T)

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        trunk, paths, gram = ctx.trunk, ctx.paths, ctx.gram
        weight, _, _, head_weight, head_offset, _ = (p.detach().numpy() for p in ctx.saved_tensors)
        depth, batch, width = trunk.depth, trunk.batch, len(gram)
        grad = np.ascontiguousarray(grad_out.numpy().T)  # (H, B)
        grad_c = (gram.T @ grad).reshape(depth, depth, batch)
        grad_offsets = head_offset.T @ grad
        parts = trunk.gradients(np.zeros((depth, batch), trunk.dtype), grad_offsets.copy())
        _share_out(
            lambda part, first, last: kernels.paths_backward(
                *trunk.arguments, paths, grad_c, grad_offsets, parts[part], first, last
            ),
            batch,
            trunk.n_parts,
        )
        grad_packed, grad_connection, grad_bias = _sum_parts(parts)
        grad_gram = (grad @ paths.coefficients.reshape(depth * depth, batch).T).reshape(width * depth, depth)
        grad_weight = head_weight.reshape(width * depth, -1).T @ grad_gram
        grad_weight += grad_packed[:, :depth]
        grad_head = (grad_gram @ weight.T).reshape(head_weight.shape)
        gradients = grad_weight, grad_connection, grad_bias, grad_head, grad @ paths.offsets.T, grad.sum(axis=1)
        return None, None, None, None, *(torch.from_numpy(g) for g in gradients)


class _LocallyLinearLayer(torch.autograd.Function):
    """Outputs of f_θ: A x + B a + c on the neurons' activations a."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Rows,
        annealing: float,
        slope: float,
        drop: DropConnect | None,
        *parameters: Tensor,
    ) -> Tensor:
        weight, connection, bias, output_weight, output_connection, output_bias = (p.numpy() for p in parameters)
        trunk = _Trunk(rows, (weight, output_weight), connection, bias, annealing, slope, drop)
        _share_out(
            lambda _, first, last: kernels.neurons_forward(*trunk.arguments, first, last), trunk.batch, trunk.n_parts
        )
        ctx.save_for_backward(*parameters)
        ctx.trunk = trunk
        out = output_connection.T @ trunk.state.a  # (L, B)
        out += trunk.state.s[trunk.depth :]
        out += output_bias[:, None]
        return torch.from_numpy(out.T)

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        trunk = ctx.trunk
        output_connection = ctx.saved_tensors[4].detach().numpy()
        depth, batch = trunk.depth, trunk.batch
        grad = np.ascontiguousarray(grad_out.numpy().T)  # (L, B)
        grad_s = np.concatenate([np.zeros((depth, batch), trunk.dtype), grad])
        parts = trunk.gradients(grad_s, output_connection @ grad)
        _share_out(
            lambda part, first, last: kernels.neurons_backward(*trunk.arguments, parts[part], first, last),
            batch,
            trunk.n_parts,
        )
        grad_packed, grad_connection, grad_bias = _sum_parts(parts)
        gradients = (
            np.ascontiguousarray(grad_packed[:, :depth]),
            grad_connection,
            grad_bias,
            np.ascontiguousarray(grad_packed[:, depth : depth + len(grad)]),
            trunk.state.a @ grad.T,
            grad.sum(axis=1),
        )
        return None, None, None, None, *(torch.from_numpy(g) for g in gradients)


locally_constant_layer = _LocallyConstantLayer.apply
locally_linear_layer = _LocallyLinearLayer.apply


def activation_codes(
    rows: Rows, weight: NDArray[Any], connection: NDArray[Any], bias: NDArray[Any], slope: float
) -> NDArray[np.int64]:
    """Packed activation patterns of a piece-wise linear network, 63 neurons a word."""
    depth = len(bias)
    codes = np.zeros((len(rows.index), -(-depth // 63)), np.int64)
    chain = Chain(pack(weight), connection, bias, bias.dtype.type(1), bias.dtype.type(slope))
    entries = _entries(rows)
    _share_out(
        lambda _, first, last: kernels.patterns(entries, chain, codes, first, last), len(codes), _n_parts(rows, depth)
    )
    return codes
