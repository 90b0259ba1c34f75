"""Kernels around those of the neurons: parameters into their padded form and gradients out of it, and f_θ's outputs.

`parameters` and `gradients` are tuples of arrays in the order of `treelu.nn.passes`. Arrays of a batch may be wider
than the batch: `count` says how many rows there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})


@_kernel
def pack(block: Any, column: int, packed: Any) -> None:
    """Copy a block (D, ·) of columns into the padded weights, from `column` on."""
    for d in range(block.shape[0]):
        for i in range(block.shape[1]):
            packed[d, column + i] = block[d, i]


@_kernel
def _unpack(packed: Any, column: int, block: Any) -> None:
    """Copy columns of the padded gradient, from `column` on, to a block (D, ·); zero the padded one behind."""
    for d in range(block.shape[0]):
        for i in range(block.shape[1]):
            block[d, i] = packed[d, column + i]
            packed[d, column + i] = 0


@_kernel
def _copy(table: Any, column: Any, to_table: Any, to_column: Any) -> None:
    """Copy both; the assignment of whole arrays takes Numba seconds to compile."""
    for i in range(table.shape[0]):
        to_column[i] = column[i]
        for k in range(table.shape[1]):
            to_table[i, k] = table[i, k]


@_kernel
def prepare_constant(parameters: Any, packed: Any, gram: Any) -> None:
    """Pack the weights; multiply them with g_φ's first layer: G_hij = V_hi·w_j, read instead of D gradient values."""
    head = parameters[3]
    pack(parameters[0], 0, packed)
    flat = head.shape[0] * head.shape[1]
    np.dot(head.reshape(flat, head.shape[2]), packed, gram.reshape(flat, gram.shape[2]))


@_kernel
def collect_constant(parameters: Any, packed: Any, grad: Any, grad_head: Any, product: Any, gradients: Any) -> None:
    """The sums over rows in `grad` and `grad_head` → the parameters' gradients. `product` (D, padded) is room."""
    head, gram = parameters[3], grad_head.gram
    flat = head.shape[0] * head.shape[1]
    flat_head, flat_gram = head.reshape(flat, head.shape[2]), gram.reshape(flat, gram.shape[2])
    np.dot(flat_head.T, flat_gram, product)
    np.dot(flat_gram, packed.T, gradients[3].reshape(flat, head.shape[2]))
    _unpack(grad.weight, 0, gradients[0])
    for d in range(product.shape[0]):
        for i in range(gradients[0].shape[1]):
            gradients[0][d, i] += product[d, i]
    _copy(grad.connection, grad.bias, gradients[1], gradients[2])
    _copy(grad_head.offset, grad_head.bias, gradients[4], gradients[5])


@_kernel
def prepare_linear(parameters: Any, packed: Any) -> None:
    """Pack the neurons' weights and, beside them, those of the outputs."""
    pack(parameters[0], 0, packed)
    pack(parameters[3], parameters[0].shape[1], packed)


@_kernel
def linear_outputs(parameters: Any, state: Any, out: Any, count: int) -> None:
    """out = A x + B a + c, (L, B); A x stands in s behind the neurons' projections."""
    connection, bias = parameters[4], parameters[5]
    depth = connection.shape[0]
    for k in range(out.shape[0]):
        for r in range(np.uint64(count)):
            out[k, r] = state.s[depth + k, r] + bias[k]
        for i in range(depth):
            for r in range(np.uint64(count)):
                out[k, r] += connection[i, k] * state.a[i, r]


@_kernel
def linear_outputs_backward(parameters: Any, grad_out: Any, grad: Any, count: int) -> None:
    """Fill grad.s, grad.a and grad.o from the gradient of the outputs (L, B)."""
    connection = parameters[4]
    depth = connection.shape[0]
    for i in range(depth):
        for r in range(np.uint64(count)):
            grad.s[i, r] = 0
            grad.o[i, r] = 0
            grad.a[i, r] = 0
        for k in range(grad_out.shape[0]):
            for r in range(np.uint64(count)):
                grad.a[i, r] += connection[i, k] * grad_out[k, r]
    for k in range(grad_out.shape[0]):
        for r in range(np.uint64(count)):
            grad.s[depth + k, r] = grad_out[k, r]


@_kernel
def collect_linear(state: Any, grad_out: Any, grad: Any, gradients: Any, count: int) -> None:
    """The sums over rows in `grad`, and those of the outputs' own parameters → the parameters' gradients."""
    of_connection, of_bias = gradients[4], gradients[5]
    depth = of_connection.shape[0]
    _unpack(grad.weight, 0, gradients[0])
    _unpack(grad.weight, depth, gradients[3])
    _copy(grad.connection, grad.bias, gradients[1], gradients[2])
    for k in range(grad_out.shape[0]):
        total = grad_out.dtype.type(0)
        for r in range(np.uint64(count)):
            total += grad_out[k, r]
        of_bias[k] = total
        for i in range(depth):
            total = grad_out.dtype.type(0)
            for r in range(np.uint64(count)):
                total += state.a[i, r] * grad_out[k, r]
            of_connection[i, k] = total
