"""A network's training steps: many updates in one call of a kernel, or forward and backward passes around BLAS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treelu.kernels import compiled
from treelu.nn.cpu.evaluation import activation_of, drop_of, entries_of, padded_zeros
from treelu.nn.drop_connect import DropConnect
from treelu.nn.networks import LocallyConstantNetwork, NeuronChain
from treelu.nn.rows import Rows, Table


class TrainingPass:
    """The arrays of a network's training steps.

    Parameters
    ----------
    network : LocallyConstantNetwork or LocallyLinearNetwork
        Its arrays are read in place at each step.
    gradients : dict of arrays
        By the parameters' names; where gradients are written.
    """

    def __init__(self, network: NeuronChain, gradients: dict[str, NDArray[Any]]) -> None:
        self.network = network
        # those of hidden layers are the head's own business
        self.parameters, self.gradients = list(network.arrays().values())[:6], list(gradients.values())[:6]
        self.state = np.empty(0, network.dtype)
        self.packed, self.by_packed = (
            padded_zeros(network.in_features, network.depth, network.dtype) for _ in range(2)
        )

    def updates(
        self,
        table: Table,
        batches: Sequence[NDArray[np.int64]],
        keys: NDArray[Any],
        annealing: float,
        targets: Sequence[Any],
        step: Sequence[Any],
    ) -> float:
        """One update on each batch of rows, with masks drawn by its key; returns the sum of the rows' losses.

        `targets` and `step` are the kernels' arguments of the loss and the optimiser.
        """
        network, rate = self.network, self.network.drop_connect
        kernel = compiled.linear_updates
        if isinstance(network, LocallyConstantNetwork):
            kernel = compiled.constant_updates
        cuts = np.cumsum([0, *map(len, batches)], dtype=np.int64)
        return kernel(
            *entries_of(table),
            *(np.concatenate(batches), cuts, keys.astype(np.uint64)),
            *self.parameters,
            *self.gradients,
            *activation_of(network.activation, annealing),
            *drop_of(DropConnect(rate, 0) if rate > 0 else None),
            *targets,
            *step,
        )

    # Locally constant networks with hidden layers, or with so many outputs that BLAS pays

    def forward(self, rows: Rows, annealing: float, drop: DropConnect | None) -> NDArray[Any]:
        """Outputs (H, B) of g_φ's first layer."""
        weight, connection, bias, head, head_offset, head_bias = self.parameters
        depth, n_rows, dtype = self.network.depth, len(rows.index), self.network.dtype
        self.packed[:, :depth] = weight
        self.arguments = (
            (*entries_of(rows.table), rows.index),
            (connection, bias, *activation_of(self.network.activation, annealing), *drop_of(drop)),
            0 if drop is None else drop.key,
        )
        blocks = -(-n_rows // int(compiled.block_rows()))
        if len(self.state) < blocks * int(compiled.state_size(depth)):
            self.state = np.empty(blocks * int(compiled.state_size(depth)), dtype)
        self.below = np.tril_indices(depth)  # C is zero above the diagonal
        self.coefficients = np.empty((len(self.below[0]), n_rows), dtype)
        self.offsets = np.empty((depth, n_rows), dtype)
        entries, neurons, key = self.arguments
        compiled.paths_forward(*entries, self.packed, *neurons, key, self.state, self.coefficients, self.offsets)
        # out_h = β_h + Σ_ij G_hij C_ij + Σ_i v_hi c_i, (H, B), by BLAS
        self.gram = np.matmul(head, weight)[:, *self.below]  # (H, P)
        out = self.gram @ self.coefficients
        out += head_offset @ self.offsets
        out += head_bias[:, None]
        return out

    def backward(self, grad_out: NDArray[Any]) -> None:
        """Write the parameters' gradients from those of the first layer's outputs (H, B)."""
        weight, _, _, head, head_offset, _ = self.parameters
        by_weight, by_connection, by_bias, by_head, by_offset, by_head_bias = self.gradients
        by_connection[:], by_bias[:], depth = 0, 0, self.network.depth
        entries, neurons, key = self.arguments
        compiled.paths_backward(
            *(*entries, self.by_packed, *neurons, key, self.state),
            *(self.gram.T @ grad_out, head_offset.T @ grad_out, by_connection, by_bias),
        )
        by_gram = np.zeros((len(head), depth, depth), grad_out.dtype)
        by_gram[:, *self.below] = grad_out @ self.coefficients.T
        by_offset[:] = grad_out @ self.offsets.T
        by_head_bias[:] = grad_out.sum(axis=1)
        np.matmul(by_gram, weight.T, out=by_head)
        flat = head.reshape(-1, head.shape[2])
        by_weight[:] = self.by_packed[:, :depth] + flat.T @ by_gram.reshape(len(flat), depth)
        self.by_packed.fill(0)
