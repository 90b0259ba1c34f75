"""Kernels around those of the neurons: parameters into their padded form and gradients out of it, and f_θ's outputs.

Arrays of a batch may be wider than the batch: `count` says how many rows there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treelu.nn.cpu.compile import fast_part
from treelu.nn.cpu.kernels import weighted_sums


@fast_part
def pack(block: Any, column: int, packed: Any) -> None:
    """Copy a block (D, ·) of columns into the padded weights, from `column` on."""
    for d in range(block.shape[0]):
        for i in range(block.shape[1]):
            packed[d, column + i] = block[d, i]


@fast_part
def _unpack(packed: Any, column: int, block: Any) -> None:
    """Copy columns of the padded gradient, from `column` on, to a block (D, ·); then set them to zero."""
    for d in range(block.shape[0]):
        for i in range(block.shape[1]):
            block[d, i] = packed[d, column + i]
            packed[d, column + i] = 0


@fast_part
def prepare_constant(parameters: Any, packed: Any, gram: Any) -> None:
    """Pack the weights; multiply them with g_φ's first layer: G_hij = V_hi·w_j, read instead of D gradient values."""
    head = parameters.head_weight
    pack(parameters.weight, 0, packed)
    n_features = np.int64(head.shape[2])
    for h in range(head.shape[0]):
        for i in range(head.shape[1]):
            begin = (h * head.shape[1] + i) * n_features
            weighted_sums(head, None, packed, begin, begin + n_features, gram[h, i])


@fast_part
def collect_constant(parameters: Any, packed: Any, grad: Any, grad_layer: Any, gradients: Any) -> None:
    """The sums over rows in `grad` and `grad_layer` → the parameters' gradients; grad.weight is zeroed."""
    head, gram = parameters.head_weight, grad_layer.gram
    depth = gradients.weight.shape[1]
    for d in range(head.shape[2]):
        for h in range(head.shape[0]):
            for i in range(depth):
                v, total = head[h, i, d], packed.dtype.type(0)
                for j in range(gram.shape[2]):
                    grad.weight[d, j] += v * gram[h, i, j]
                    total += gram[h, i, j] * packed[d, j]
                gradients.head_weight[h, i, d] = total
    _unpack(grad.weight, 0, gradients.weight)
    for i in range(depth):
        gradients.bias[i] = grad.bias[i]
        for k in range(depth):
            gradients.connection[i, k] = grad.connection[i, k]
    for h in range(head.shape[0]):
        gradients.head_bias[h] = grad_layer.bias[h]
        for i in range(depth):
            gradients.head_offset[h, i] = grad_layer.offset[h, i]


@fast_part
def prepare_linear(parameters: Any, packed: Any) -> None:
    """Pack the neurons' weights and, beside them, those of the outputs."""
    pack(parameters.weight, 0, packed)
    pack(parameters.output_weight, parameters.weight.shape[1], packed)


@fast_part
def outputs_forward(parameters: Any, state: Any, out: Any, first: Any, last: Any) -> None:
    """out = A x + B a + c, (L, B); A x is in s, after the neurons' projections."""
    connection = parameters.output_connection
    depth = connection.shape[0]
    for k in range(out.shape[0]):
        for r in range(first, last):
            out[k, r] = state.s[depth + k, r] + parameters.output_bias[k]
        for i in range(depth):
            for r in range(first, last):
                out[k, r] += connection[i, k] * state.a[i, r]


@fast_part
def outputs_backward(parameters: Any, grad_out: Any, grad: Any, count: Any) -> None:
    """Fill grad.s, grad.a and grad.o from the gradient of the outputs (L, B)."""
    connection = parameters.output_connection
    depth = connection.shape[0]
    for i in range(depth):
        for r in range(count):
            grad.s[i, r] = 0
            grad.o[i, r] = 0
            grad.a[i, r] = 0
        for k in range(grad_out.shape[0]):
            for r in range(count):
                grad.a[i, r] += connection[i, k] * grad_out[k, r]
    for k in range(grad_out.shape[0]):
        for r in range(count):
            grad.s[depth + k, r] = grad_out[k, r]


@fast_part
def collect_linear(state: Any, grad_out: Any, grad: Any, gradients: Any, count: Any) -> None:
    """The sums over rows in `grad`, and those of the outputs' own parameters → the parameters' gradients."""
    depth = gradients.weight.shape[1]
    _unpack(grad.weight, 0, gradients.weight)
    _unpack(grad.weight, depth, gradients.output_weight)
    for i in range(depth):
        gradients.bias[i] = grad.bias[i]
        for k in range(depth):
            gradients.connection[i, k] = grad.connection[i, k]
    for k in range(grad_out.shape[0]):
        total = grad_out.dtype.type(0)
        for r in range(count):
            total += grad_out[k, r]
        gradients.output_bias[k] = total
        for i in range(depth):
            total = grad_out.dtype.type(0)
            for r in range(count):
                total += state.a[i, r] * grad_out[k, r]
            gradients.output_connection[i, k] = total
