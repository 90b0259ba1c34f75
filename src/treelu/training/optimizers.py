"""The optimisers' updates of one vector: SGD with Nesterov momentum, and AMSGrad with decoupled decay (AdamW).

The updates themselves are in ``learning.h`` of `treelu.kernels`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treelu.kernels import compiled

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
        compiled.take_step(*self.next_step(rate))
        self.n_steps += 1

    def next_step(self, rate: float) -> Step:
        """The next step, for kernels that take it, and those after it; who does so counts them in `n_steps`."""
        (beta_1, beta_2), epsilon = ((MOMENTUM, 0.0), 0.0) if self.is_sgd else (BETAS, EPSILON)
        arrays = self.vector, self.gradient, self.mean, self.square, self.largest
        number = float(self.n_steps + 1)
        return Step(*arrays, self.is_sgd, number, float(rate), float(self.decay), beta_1, beta_2, epsilon)
