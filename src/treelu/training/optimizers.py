"""The optimisers' updates of one vector: SGD with Nesterov momentum, and AMSGrad with decoupled decay (AdamW)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treelu.nn.cpu.compile import entry, part

MOMENTUM, BETAS, EPSILON = 0.9, (0.9, 0.999), 1e-8  # of SGD, of AMSGrad


class Step(NamedTuple):
    """A vector, its gradient, the optimiser's state and settings; `number` counts the steps from 1.

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


class Optimizer:
    """SGD with Nesterov momentum 0.9 ("sgd"), or AMSGrad ("amsgrad"), of one vector in place.

    Both work element by element and compute what torch.optim's do.

    Examples
    --------
    >>> vector, gradient = np.array([1.0, 2.0]), np.array([1.0, -1.0])
    >>> optimizer = Optimizer("sgd", vector, gradient, decay=0.0)
    >>> optimizer.take_step(rate=0.1)
    >>> optimizer.take_step(rate=0.1)
    >>> vector
    array([0.539, 2.461])
    """

    def __init__(self, name: str, vector: NDArray[Any], gradient: NDArray[Any], decay: float) -> None:
        self.is_sgd, self.vector, self.gradient, self.decay = name == "sgd", vector, gradient, decay
        self.n_steps = 0
        self.mean = np.zeros_like(vector)
        self.square, self.largest = (np.zeros(0 if self.is_sgd else len(vector), vector.dtype) for _ in range(2))

    def take_step(self, rate: float) -> None:
        """One step along the gradient."""
        step_once(self.next_step(rate))
        self.n_steps += 1

    def next_step(self, rate: float) -> Step:
        """The next step, for kernels that take it, and those after it; who does so counts them in `n_steps`."""
        (beta_1, beta_2), epsilon = ((MOMENTUM, 0.0), 0.0) if self.is_sgd else (BETAS, EPSILON)
        arrays = self.vector, self.gradient, self.mean, self.square, self.largest
        number = float(self.n_steps + 1)
        return Step(*arrays, self.is_sgd, number, float(rate), float(self.decay), beta_1, beta_2, epsilon)


@part
def take_step(step: Any, ahead: int) -> None:
    """Update the vector in place; `ahead` steps have been taken since `step` was made.

    SGD: m ← μ m + g and p ← p − η (g + μ m), where g is the gradient and the decay. AMSGrad: Adam's update with the
    largest mean square so far, after the vector has shrunk by the decay.
    """
    vector, gradient, mean, scalar = step.vector, step.gradient, step.mean, step.vector.dtype.type
    keep_mean, one = scalar(step.beta_1), scalar(1)
    if step.is_sgd:
        rate, decay = scalar(step.rate), scalar(step.decay)
        for i in range(len(vector)):
            g = gradient[i] + decay * vector[i]
            m = keep_mean * mean[i] + g
            mean[i] = m
            vector[i] -= rate * (g + keep_mean * m)
        return
    number = step.number + ahead
    shrink, length = scalar(1 - step.rate * step.decay), scalar(step.rate / (1 - step.beta_1**number))
    root, small = scalar(1 / math.sqrt(1 - step.beta_2**number)), scalar(step.epsilon)
    keep_square = scalar(step.beta_2)
    for i in range(len(vector)):
        g = gradient[i]
        mean[i] = keep_mean * mean[i] + (one - keep_mean) * g
        step.square[i] = keep_square * step.square[i] + (one - keep_square) * g * g
        step.largest[i] = step.square[i] if step.square[i] > step.largest[i] else step.largest[i]
        vector[i] = shrink * vector[i] - length * mean[i] / (np.sqrt(step.largest[i]) * root + small)


@entry
def step_once(step: Any) -> None:
    """`take_step`, for callers in Python."""
    take_step(step, 0)
