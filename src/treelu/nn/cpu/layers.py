"""Kernels around those of the neurons: parameters into their padded form and gradients out of it, and f_θ's outputs.

Arrays of a batch may be wider than the batch: `count` says how many rows there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treelu.nn.cpu.compile import fast_part


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
def prepare_constant(parameters: Any, packed: Any, by_neuron: Any, gram: Any) -> None:
    """Pack and turn the weights; multiply them with g_φ's first layer: G_hij = V_hi·w_j for j ≤ i, read instead of D
    gradient values.
    """
    weight, head = parameters.weight, parameters.head_weight
    n_features = np.uint64(head.shape[2])
    for d in range(weight.shape[0]):
        for j in range(weight.shape[1]):
            packed[d, j] = weight[d, j]
            by_neuron.weight[j, d] = weight[d, j]
    for h in range(head.shape[0]):
        for i in range(head.shape[1]):
            v = head[h, i]
            for j in range(i + 1):
                w, total = by_neuron.weight[j], packed.dtype.type(0)
                for d in range(n_features):
                    total += v[d] * w[d]
                gram[h, i, j] = total


@fast_part
def collect_constant(parameters: Any, grad: Any, grad_layer: Any, by_neuron: Any, gradients: Any) -> None:
    """The sums over rows in `grad` and `grad_layer` → the parameters' gradients; grad.weight is zeroed.

    The products with G's gradient, which is zero above the diagonal, go by blocks of features that stay in the
    processor's nearest cache.
    """
    head, gram, zero = parameters.head_weight, grad_layer.gram, grad.weight.dtype.type(0)
    depth, n_features = np.int64(gradients.weight.shape[1]), np.int64(head.shape[2])
    block = np.int64(by_neuron.grad.shape[1])
    for begin in range(0, n_features, block):
        count = np.uint64(block if begin + block <= n_features else n_features - begin)
        for j in range(depth):
            for d in range(count):
                by_neuron.grad[j, d] = zero
        for h in range(head.shape[0]):
            for i in range(depth):
                v, grad_v = head[h, i, begin:], gradients.head_weight[h, i, begin:]
                for d in range(count):
                    grad_v[d] = zero
                for j in range(i + 1):
                    g, w = gram[h, i, j], by_neuron.weight[j, begin:]
                    for d in range(count):
                        grad_v[d] += g * w[d]
                for j in range(i + 1):
                    g, grad_w = gram[h, i, j], by_neuron.grad[j]
                    for d in range(count):
                        grad_w[d] += g * v[d]
        for d in range(count):
            for j in range(depth):
                gradients.weight[begin + d, j] = grad.weight[begin + d, j] + by_neuron.grad[j, d]
                grad.weight[begin + d, j] = zero
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
