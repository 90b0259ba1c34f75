"""Numba kernels of the optimisers' updates of one vector: what `torch.optim` computes, on its settings and state."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import njit

_kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})


class Step(NamedTuple):
    """An optimiser's vector, gradient, state and settings; `number` counts AMSGrad's steps from 1.

    SGD keeps its momentum in `mean` and has neither `square` nor `largest`; its momentum's factor is `beta_1`.
    """

    vector: Any
    gradient: Any
    mean: Any
    square: Any
    largest: Any
    is_sgd: bool
    number: float
    rate: float
    decay: float
    beta_1: float
    beta_2: float
    epsilon: float


class Update:
    """A step of an optimiser of one vector on the CPU: SGD with Nesterov momentum, or AdamW with AMSGrad.

    `torch.optim` spends several times longer on finding its way to an update than on the update of a small network.
    Learning rate and state are read from and left in the optimiser.

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
        self.group = optimizer.param_groups[0]
        (vector,) = self.group["params"]
        self.is_sgd = isinstance(optimizer, torch.optim.SGD)
        names = ("momentum_buffer",) if self.is_sgd else ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
        if not optimizer.state[vector]:  # before its first step
            optimizer.state[vector] = {name: torch.zeros_like(vector.detach()) for name in names}
            if not self.is_sgd:
                optimizer.state[vector]["step"] = torch.zeros(())
        state = optimizer.state[vector]
        self.arrays = [tensor.numpy() for tensor in (vector.detach(), vector.grad, *(state[name] for name in names))]
        self.arrays += [np.empty(0, self.arrays[0].dtype)] * (5 - len(self.arrays))
        self.n_steps = np.zeros(1) if self.is_sgd else state["step"].reshape(-1).numpy()

    def __call__(self) -> None:
        """Do what `optimizer.step()` does."""
        take_step(self.steps(1))

    def steps(self, count: int) -> Step:
        """The optimiser as it is now, for `take_step`; so many steps count as taken."""
        group, number = self.group, float(self.n_steps[0]) + 1
        self.n_steps += count
        (beta_1, beta_2), epsilon = ((group["momentum"], 0.0), 0.0) if self.is_sgd else (group["betas"], group["eps"])
        rate, decay = float(group["lr"]), float(group["weight_decay"])
        vector, gradient, mean, square, largest = self.arrays
        return Step(vector, gradient, mean, square, largest, self.is_sgd, number, rate, decay, beta_1, beta_2, epsilon)


@_kernel
def take_step(step: Any, ahead: int = 0) -> None:
    """Update the vector in place; `ahead` steps have been taken since `step` was made."""
    if step.is_sgd:
        nesterov(step.vector, step.gradient, step.mean, step.rate, step.decay, step.beta_1)
    else:
        amsgrad(
            step.vector,
            step.gradient,
            step.mean,
            step.square,
            step.largest,
            step.number + ahead,
            step.rate,
            step.decay,
            step.beta_1,
            step.beta_2,
            step.epsilon,
        )


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
