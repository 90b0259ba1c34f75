"""The kernels as torch autograd functions: one call forward, one backward, parameters stay torch's.

`locally_constant_layer` yields the first layer of g_φ from rows, `locally_linear_layer` the outputs of f_θ.
Rows are shared out over threads where there is work enough; a result depends on the seed and the number of threads.
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
from treelu.nn.rows import Rows

# below this many multiply-adds a second thread costs more than it saves
WORK_PER_THREAD = 400_000


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


def n_parts(rows: Rows, depth: int) -> int:
    """How many threads pay for these rows."""
    table = rows.table
    per_row = len(table.values) / max(1, table.shape[0]) * (depth + 4) + depth**3
    worthwhile = int(len(rows.index) * per_row / WORK_PER_THREAD)
    return max(1, min(torch.get_num_threads(), worthwhile, len(rows.index)))


def pack(*blocks: Tensor) -> NDArray[Any]:
    """Blocks of columns (D, ·) side by side, padded with zeros to a multiple of `LANES` columns."""
    width = sum(block.shape[1] for block in blocks)
    packed = blocks[0].new_zeros(blocks[0].shape[0], -(-width // kernels.LANES) * kernels.LANES)
    column = 0
    for block in blocks:
        packed[:, column : column + block.shape[1]] = block
        column += block.shape[1]
    return packed.numpy()


class _Trunk:
    """One pass through the neurons: what the forward kernels leave for the backward ones."""

    def __init__(
        self,
        rows: Rows,
        weight: NDArray[Any],
        n_columns: int,
        connection: Tensor,
        bias: Tensor,
        annealing: float,
        slope: float,
        drop: DropConnect | None,
    ) -> None:
        table, batch, depth = rows.table, len(rows.index), len(bias)
        dtype = weight.dtype
        self.entries = (table.values, table.features, table.starts, 0 if table.is_sparse else table.shape[1])
        self.index, self.n_features, self.padded = rows.index, table.shape[1], weight.shape[1]
        self.connection, self.n_parts = connection.numpy(), n_parts(rows, depth)
        if drop is None or drop.threshold == 0:
            self.mask = (np.empty(0, np.uint32), np.uint32(0), dtype.type(1))
        else:
            keys = kernels.row_keys(batch, np.uint32(drop.key & WORD), np.uint32(drop.key >> 32 & WORD))
            self.mask = (keys, np.uint32(drop.threshold), dtype.type(drop.scale))
        self.s = np.empty((n_columns, batch), dtype)
        self.z = np.empty((depth, batch), dtype)
        self.a, self.o, self.curvature = np.empty((3, depth, batch), dtype)
        form = (dtype.type(annealing), dtype.type(slope), self.n_features)

        def forward(_: int, first: int, last: int) -> None:
            kernels.project(*self.entries, self.index, weight, *self.mask, self.s, self.z, first, last)
            if not self.mask[1]:
                self.z[:, first:last] = self.s[:depth, first:last]
            kernels.activate(
                self.z,
                self.connection,
                bias.numpy(),
                *form,
                *self.mask,
                self.a,
                self.o,
                self.curvature,
                first,
                last,
            )

        _share_out(forward, batch, self.n_parts)

    def backward(
        self,
        grad_s: NDArray[Any],
        grad_a: NDArray[Any],
        grad_o: NDArray[Any],
        before: Callable[[NDArray[Any], int, int], None] | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of the packed weights (D, padded), the connections and the biases.

        `before(grad_connection, first, last)` may complete grad_s, grad_a and grad_o first.
        """
        depth, batch = self.z.shape
        dtype = self.z.dtype
        grad_z = np.empty((depth, batch), dtype)
        grad_weight = np.zeros((self.n_parts, self.n_features, self.padded), dtype)
        grad_connection = np.zeros((self.n_parts, depth, depth), dtype)
        grad_bias = np.zeros((self.n_parts, depth), dtype)

        def backward(part: int, first: int, last: int) -> None:
            if before is not None:
                before(grad_connection[part], first, last)
            kernels.activate_backward(
                grad_a, grad_o, self.connection, self.n_features, *self.mask, self.a, self.o, self.curvature,
                grad_z, grad_connection[part], grad_bias[part], first, last,
            )  # fmt: skip
            kernels.project_backward(
                *self.entries, self.index, *self.mask, grad_s, grad_z, grad_weight[part], first, last
            )

        _share_out(backward, batch, self.n_parts)
        return _sum_parts(grad_weight), _sum_parts(grad_connection), _sum_parts(grad_bias)


def _sum_parts(parts: NDArray[Any]) -> Tensor:
    return torch.from_numpy(parts[0] if len(parts) == 1 else parts.sum(axis=0))


class _LocallyConstantLayer(torch.autograd.Function):
    """First layer of g_φ: h = β + Σ_ij C_ij G_hij + Σ_i v_hi c_i with G_hij = V_hi·w_j."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Rows,
        annealing: float,
        slope: float,
        drop: DropConnect | None,
        weight: Tensor,
        connection: Tensor,
        bias: Tensor,
        head_weight: Tensor,
        head_offset: Tensor,
        head_bias: Tensor,
    ) -> Tensor:
        depth, batch = len(bias), len(rows.index)
        trunk = _Trunk(rows, pack(weight), depth, connection, bias, annealing, slope, drop)
        paths, coefficients = np.zeros((2, depth, depth, batch), trunk.z.dtype)
        offsets = np.empty((depth, batch), trunk.z.dtype)

        def unroll(_: int, first: int, last: int) -> None:
            kernels.unroll(trunk.o, trunk.s, trunk.a, trunk.connection, paths, coefficients, offsets, first, last)

        _share_out(unroll, batch, trunk.n_parts)
        gram = (head_weight.reshape(-1, weight.shape[0]) @ weight).view(len(head_bias), -1)  # G: (H, M·M)
        ctx.save_for_backward(weight, head_weight, head_offset, gram)
        ctx.trunk, ctx.paths, ctx.coefficients, ctx.offsets = trunk, paths, coefficients, offsets
        out = torch.addmm(head_bias[:, None], gram, torch.from_numpy(coefficients).view(-1, batch))  # (H, B)
        return out.addmm_(head_offset, torch.from_numpy(offsets)).T

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        weight, head_weight, head_offset, gram = ctx.saved_tensors
        trunk, paths, coefficients = ctx.trunk, ctx.paths, ctx.coefficients
        (depth, batch), width = trunk.z.shape, len(gram)
        grad = grad_out.T.contiguous()  # (H, B)
        flat = torch.from_numpy(coefficients).view(-1, batch)
        grad_coefficients = (gram.T @ grad).view(depth, depth, batch).numpy()
        grad_a = (head_offset.T @ grad).numpy()
        grad_offsets = grad_a.copy()
        grad_o, grad_s = np.zeros((2, depth, batch), trunk.z.dtype)

        def unroll(grad_connection: NDArray[Any], first: int, last: int) -> None:
            kernels.unroll_backward(
                grad_coefficients, grad_offsets, trunk.o, trunk.s, trunk.connection, paths, coefficients,
                grad_o, grad_s, grad_connection, first, last,
            )  # fmt: skip

        grad_weight, grad_connection, grad_bias = trunk.backward(grad_s, grad_a, grad_o, unroll)
        grad_gram = (grad @ flat.T).view(width * depth, depth)
        rows_of_head = head_weight.reshape(width * depth, -1)
        grad_weight = torch.addmm(grad_weight[:, :depth], rows_of_head.T, grad_gram)
        grad_head = (grad_gram @ weight.T).view_as(head_weight)
        grad_head_offset = grad @ torch.from_numpy(ctx.offsets).T
        return (
            None, None, None, None, grad_weight, grad_connection, grad_bias,
            grad_head, grad_head_offset, grad.sum(dim=1),
        )  # fmt: skip


class _LocallyLinearLayer(torch.autograd.Function):
    """Outputs of f_θ: A x + B a + c on the neurons' activations a."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Rows,
        annealing: float,
        slope: float,
        drop: DropConnect | None,
        weight: Tensor,
        connection: Tensor,
        bias: Tensor,
        output_weight: Tensor,
        output_connection: Tensor,
        output_bias: Tensor,
    ) -> Tensor:
        depth = len(bias)
        packed = pack(weight, output_weight)
        columns = depth + len(output_bias)
        trunk = _Trunk(rows, packed, columns, connection, bias, annealing, slope, drop)
        ctx.save_for_backward(output_connection)
        ctx.trunk = trunk
        out = torch.from_numpy(trunk.s[depth:]) + output_bias[:, None]
        return out.addmm_(output_connection.T, torch.from_numpy(trunk.a)).T

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        (output_connection,) = ctx.saved_tensors
        trunk = ctx.trunk
        depth, batch = trunk.z.shape
        grad = grad_out.T.contiguous()  # (L, B)
        grad_s = np.concatenate([np.zeros((depth, batch), trunk.z.dtype), grad.numpy()])
        grad_a = (output_connection @ grad).numpy()
        grad_packed, grad_connection, grad_bias = trunk.backward(grad_s, grad_a, np.zeros_like(grad_a))
        grad_output = grad_packed[:, depth : depth + len(grad)]
        return (
            None, None, None, None, grad_packed[:, :depth].contiguous(), grad_connection, grad_bias,
            grad_output.contiguous(), torch.from_numpy(trunk.a) @ grad.T, grad.sum(dim=1),
        )  # fmt: skip


locally_constant_layer = _LocallyConstantLayer.apply
locally_linear_layer = _LocallyLinearLayer.apply


def activation_codes(
    rows: Rows, weight: NDArray[Any], connection: Tensor, bias: Tensor, slope: float
) -> NDArray[np.int64]:
    """Packed activation patterns of a piece-wise linear network, 63 neurons a word; weights as `pack` lays them."""
    table, depth = rows.table, len(bias)
    codes = np.zeros((len(rows.index), -(-depth // 63)), np.int64)
    width = 0 if table.is_sparse else table.shape[1]
    u, b = connection.numpy(), bias.numpy()

    def work(_: int, first: int, last: int) -> None:
        kernels.patterns(
            table.values, table.features, table.starts, width, rows.index, weight, u, b, weight.dtype.type(slope),
            codes, first, last,
        )  # fmt: skip

    _share_out(work, len(codes), n_parts(rows, depth))
    return codes
