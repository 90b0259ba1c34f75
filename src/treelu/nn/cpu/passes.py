"""What a training step works on: a network's parameters, their gradients, and the arrays in between, made once.

`forward` and `backward` are the steps of networks whose g_φ has more layers; `treelu.training.epochs` runs
the others without coming back to Python.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treelu.nn.cpu.compile import fast_entry
from treelu.nn.cpu.evaluation import (
    constant_parameters,
    entries_of,
    linear_parameters,
    mask_of,
    neurons_of,
    new_state,
    padded_zeros,
)
from treelu.nn.cpu.kernels import paths_backward, paths_forward
from treelu.nn.cpu.structs import (
    ByNeuron,
    ConstantParameters,
    FirstLayer,
    Gradients,
    LinearParameters,
    PathGradients,
    Paths,
)
from treelu.nn.drop_connect import DropConnect
from treelu.nn.networks import LocallyConstantNetwork, LocallyLinearNetwork, NeuronChain, cut
from treelu.nn.rows import Rows

BLOCK = 256  # features whose gradients are collected together


class TrainingPass:
    """The arrays of a network's training steps.

    Parameters
    ----------
    network : LocallyConstantNetwork or LocallyLinearNetwork
        Its arrays are read in place at each step.
    gradients : dict of arrays
        By the parameters' names; where gradients are written.
    """

    parameters: ConstantParameters | LinearParameters
    gradients: ConstantParameters | LinearParameters

    def __init__(self, network: NeuronChain, gradients: dict[str, NDArray[Any]]) -> None:
        self.network, self.depth, self.dtype = network, network.depth, network.dtype
        self.batch = -1
        own = list(gradients.values())[:6]  # those of hidden layers are the head's own business
        if isinstance(network, LocallyConstantNetwork):
            self.parameters, self.gradients = constant_parameters(network), ConstantParameters(*own)
            self.n_columns = network.depth
        elif isinstance(network, LocallyLinearNetwork):
            self.parameters, self.gradients = linear_parameters(network), LinearParameters(*own)
            self.n_columns = network.depth + network.out_features
        self.packed = padded_zeros(network.in_features, self.n_columns, self.dtype)

    def start(self, rows: Rows, annealing: float, drop: DropConnect | None) -> None:
        """Set the kernels' arguments for a batch, or for batches of at most so many rows."""
        if len(rows.index) > self.batch:
            self.batch = len(rows.index)
            self._make_arrays()
        self.entries, self.mask = entries_of(rows), mask_of(drop, self.batch, self.packed)
        self.neurons = neurons_of(self.packed, self.parameters, self.network.activation, annealing)

    def _make_arrays(self) -> None:
        depth, batch, dtype = self.depth, self.batch, self.dtype
        self.state = new_state(depth, self.n_columns, batch, dtype)
        shapes: list[tuple[int, ...]] = [(depth, depth), (depth,)]
        if isinstance(self.parameters, ConstantParameters):
            n_first = len(self.parameters.head_bias)
            shapes += [(n_first, depth, self.packed.shape[1]), (n_first, depth), (n_first,)]
            squares, rows = np.zeros((3, depth, depth, batch), dtype), np.empty((2, depth, batch), dtype)
            self.paths, self.grad_paths = Paths(squares[0], squares[1], rows[0]), PathGradients(squares[2], rows[1])
            gram = np.zeros(shapes[2], dtype)
            self.layer = FirstLayer(gram, self.parameters.head_offset, self.parameters.head_bias)
            # rows of 2^n features would take each other's place in the cache
            by_neuron = np.empty((depth, self.packed.shape[0] + 16), dtype), np.empty((depth, BLOCK), dtype)
            self.by_neuron = ByNeuron(*by_neuron)
        # what is summed up over a batch's rows, zero before each: the weights' gradient, and all others
        self.grad_packed = padded_zeros(self.packed.shape[0], self.packed.shape[1], dtype)
        self.sums = np.zeros(sum(math.prod(shape) for shape in shapes), dtype)
        of_connection, of_bias, *above = cut(self.sums, shapes)
        of_z, of_a, of_o = np.empty((3, depth, batch), dtype)
        of_s = np.empty_like(self.state.s)
        self.grad = Gradients(of_s, of_z, of_a, of_o, self.grad_packed, of_connection, of_bias)
        if above:
            self.grad_layer = FirstLayer(*above)

    # Locally constant networks with hidden layers, or with so many outputs that BLAS pays

    def forward(self, rows: Rows, annealing: float, drop: DropConnect | None) -> NDArray[Any]:
        """Outputs (H, B) of g_φ's first layer."""
        self.start(rows, annealing, drop)
        parameters, depth = self.parameters, self.depth
        assert isinstance(parameters, ConstantParameters)
        self.packed[:, :depth] = parameters.weight
        np.matmul(parameters.head_weight, self.packed, out=self.layer.gram)
        n_rows = len(rows.index)
        _forward(self.entries, self.mask, self.neurons, self.state, self.paths, np.uint64(n_rows))
        # out_h = β_h + Σ_ij G_hij C_ij + Σ_i v_hi c_i, (H, B), by BLAS
        self.below = np.tril_indices(depth)  # C is zero above the diagonal
        self.used = self.layer.gram[:, *self.below], self.paths.coefficients[*self.below, :n_rows]  # (H, P), (P, B)
        out = self.used[0] @ self.used[1]
        out += parameters.head_offset @ self.paths.offsets[:, :n_rows]
        out += parameters.head_bias[:, None]
        return out

    def backward(self, grad_out: NDArray[Any]) -> None:
        """Write the parameters' gradients from those of the first layer's outputs (H, B)."""
        parameters, gradients, depth = self.parameters, self.gradients, self.depth
        assert isinstance(parameters, ConstantParameters)
        assert isinstance(gradients, ConstantParameters)
        self.sums.fill(0)
        n_rows, above, (used_gram, coefficients) = grad_out.shape[1], self.grad_layer, self.used
        self.grad_paths.coefficients[*self.below, :n_rows] = used_gram.T @ grad_out
        self.grad_paths.offsets[:, :n_rows] = parameters.head_offset.T @ grad_out
        above.gram[:, *self.below] = grad_out @ coefficients.T
        above.offset[:] = grad_out @ self.paths.offsets[:, :n_rows].T
        above.bias[:] = grad_out.sum(axis=1)
        _backward(
            self.entries, self.mask, self.neurons, self.state, self.paths, self.grad_paths, self.grad, np.uint64(n_rows)
        )
        gram, head = self.grad_layer.gram, parameters.head_weight  # (H, M, padded), (H, M, D)
        np.matmul(gram, self.packed.T, out=gradients.head_weight)
        flat = head.reshape(-1, head.shape[2])
        gradients.weight[:] = self.grad_packed[:, :depth] + flat.T @ gram.reshape(len(flat), -1)[:, :depth]
        gradients.connection[:], gradients.bias[:] = self.grad.connection, self.grad.bias
        gradients.head_offset[:], gradients.head_bias[:] = self.grad_layer.offset, self.grad_layer.bias
        self.grad_packed.fill(0)


@fast_entry
def _forward(entries: Any, mask: Any, neurons: Any, state: Any, paths: Any, last: Any) -> None:
    paths_forward(entries, mask, neurons, state, paths, np.uint64(0), last)


@fast_entry
def _backward(
    entries: Any, mask: Any, neurons: Any, state: Any, paths: Any, grad_paths: Any, grad: Any, last: Any
) -> None:
    paths_backward(entries, mask, neurons, state, paths, grad_paths, grad, np.uint64(0), last)
