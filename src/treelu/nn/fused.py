"""The kernels as torch autograd functions: one call forward, one backward, parameters stay torch's.

`locally_constant_layer` yields the first layer of g_φ from rows, `locally_linear_layer` the outputs of f_θ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from treelu.nn.activations import Activation
from treelu.nn.drop_connect import DropConnect
from treelu.nn.passes import LocallyConstantPass, LocallyLinearPass
from treelu.nn.rows import Rows


class _Layer(torch.autograd.Function):
    """A pass of the given class over rows, as a function of the parameters."""

    @staticmethod
    def forward(
        ctx: Any,
        make: type[LocallyConstantPass] | type[LocallyLinearPass],
        rows: Rows,
        annealing: float,
        activation: Activation,
        drop: DropConnect | None,
        *parameters: Tensor,
    ) -> Tensor:
        ctx.layer = make([parameter.numpy() for parameter in parameters])
        ctx.save_for_backward(*parameters)  # torch then notices if one is changed before backward
        return torch.from_numpy(ctx.layer.forward(rows, annealing, activation, drop).T)

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        _ = ctx.saved_tensors
        gradients = ctx.layer.backward(np.ascontiguousarray(grad_out.numpy().T))
        return None, None, None, None, None, *(torch.from_numpy(gradient) for gradient in gradients)


layer = _Layer.apply
