"""Numba kernels of the optimisers' updates of one vector: what `torch.optim` computes, on its settings and state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numba import njit

_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})


class Update:
    """A step of an optimiser of one vector on the CPU: SGD with Nesterov momentum, or AdamW with AMSGrad.

    `torch.optim` spends several times longer on finding its way to an update than on the update of a small network.
    Learning rate and state are read from and left in the optimiser, and its first step is its own: that makes the
    state.

    Examples
    --------
    >>> vector = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    >>> vector.grad = torch.tensor([1.0, -1.0])
    >>> update = Update(torch.optim.SGD([vector], lr=0.1, momentum=0.9, nesterov=True))
    >>> update(), update()
    (None, None)
    >>> vector.detach()
    tensor([0.5390, 2.4610])
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer, self.group = optimizer, optimizer.param_groups[0]
        (self.vector,) = self.group["params"]
        self.arrays: Any = None

    def __call__(self) -> None:
        """Do what `optimizer.step()` does."""
        if self.arrays is None:
            self.optimizer.step()
            self.arrays = self._state()
            return
        group, (vector, gradient, *state) = self.group, self.arrays
        rate, decay = group["lr"], group["weight_decay"]
        if isinstance(self.optimizer, torch.optim.SGD):
            nesterov(vector, gradient, state[0], rate, decay, group["momentum"])
            return
        mean, square, largest, step = state
        step += 1
        (beta_1, beta_2), epsilon = group["betas"], group["eps"]
        amsgrad(vector, gradient, mean, square, largest, float(step[0]), rate, decay, beta_1, beta_2, epsilon)

    def _state(self) -> tuple[Any, ...]:
        """The vector, its gradient and the optimiser's state, as the kernels take them."""
        state = self.optimizer.state[self.vector]
        names = (
            ("momentum_buffer",) if "momentum_buffer" in state else ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step")
        )
        tensors = self.vector.detach(), self.vector.grad, *(state[name].reshape(-1) for name in names)
        return tuple(tensor.numpy() for tensor in tensors)


@_kernel
def nesterov(vector: Any, gradient: Any, momentum: Any, rate: float, decay: float, factor: float) -> None:
    """m ← μ m + g and p ← p − η (g + μ m), where g is the gradient and the decay."""
    scalar = vector.dtype.type
    rate_, decay_, factor_ = scalar(rate), scalar(decay), scalar(factor)
    for i in range(len(vector)):
        g = gradient[i] + decay_ * vector[i]
        m = factor_ * momentum[i] + g
        momentum[i] = m
        vector[i] -= rate_ * (g + factor_ * m)


@_kernel
def amsgrad(
    vector: Any,
    gradient: Any,
    mean: Any,
    square: Any,
    largest: Any,
    step: float,
    rate: float,
    decay: float,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> None:
    """Adam's update with the largest mean square so far, after the vector has shrunk by the decay."""
    scalar = vector.dtype.type
    shrink, length = scalar(1 - rate * decay), scalar(rate / (1 - beta_1**step))
    root, small = scalar(1 / math.sqrt(1 - beta_2**step)), scalar(epsilon)
    keep_mean, keep_square, one = scalar(beta_1), scalar(beta_2), scalar(1)
    for i in range(len(vector)):
        g = gradient[i]
        mean[i] = keep_mean * mean[i] + (one - keep_mean) * g
        square[i] = keep_square * square[i] + (one - keep_square) * g * g
        largest[i] = max(largest[i], square[i])
        vector[i] = shrink * vector[i] - length * mean[i] / (np.sqrt(largest[i]) * root + small)
