"""The three losses: a batch's mean loss, and its gradient with respect to the outputs.

Outputs and gradients are (outputs, B), as the kernels of `treelu.nn` keep them, or wider than the batch; y and the
rows' weights are whole columns of the table, read at `index`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treelu.nn.cpu.compile import entry, part


@part
def element_loss(out: Any, y: Any, weight: Any, index: Any, is_binary: bool, grad: Any) -> float:
    """The mean over the observed elements of y (n, L), of which NaN is none, times their rows' weights.

    Two classes: cross entropy log(1 + exp z) − y z of a raw score, derivative σ(z) − y. Values: squared error.
    """
    n_observed = 0
    for r in range(index.shape[0]):
        for k in range(y.shape[1]):
            n_observed += y[index[r], k] == y[index[r], k]
    total, share = 0.0, 1.0 / (n_observed if n_observed else 1)
    for r in range(index.shape[0]):
        factor = share * weight[index[r]] if weight.shape[0] else share
        for k in range(y.shape[1]):
            z, target = out[k, r], y[index[r], k]
            if target != target:
                grad[k, r] = 0.0
            elif is_binary:
                small = np.exp(-abs(z))
                total += factor * ((z if z > 0 else 0.0) + np.log1p(small) - target * z)
                grad[k, r] = factor * ((1.0 if z >= 0 else small) / (1.0 + small) - target)
            else:
                total += factor * (z - target) * (z - target)
                grad[k, r] = 2 * factor * (z - target)
    return total


@part
def class_loss(out: Any, y: Any, weight: Any, index: Any, grad: Any) -> float:
    """Cross entropy of one raw score per class; the derivative is the probability, less 1 for the true class."""
    total = 0.0
    for r in range(index.shape[0]):
        factor = (weight[index[r]] if weight.shape[0] else 1.0) / index.shape[0]
        highest, mass = out[0, r], 0.0
        for k in range(out.shape[0]):
            highest = out[k, r] if out[k, r] > highest else highest
        for k in range(out.shape[0]):
            grad[k, r] = np.exp(out[k, r] - highest)
            mass += grad[k, r]
        for k in range(out.shape[0]):
            grad[k, r] = factor * grad[k, r] / mass
        grad[y[index[r]], r] -= factor
        total += factor * (np.log(mass) + highest - out[y[index[r]], r])
    return total


@part
def loss(out: Any, y: Any, wanted: Any, index: Any, grad: Any) -> float:
    """The mean loss of the rows `index`; adds the stored scores to `out` and fills `grad`.

    `y` is wanted.y: Numba leaves the other branch out where the number of dimensions is that of an argument.
    """
    if wanted.offset.shape[0]:
        for k in range(out.shape[0]):
            for r in range(len(index)):
                out[k, r] += wanted.offset[index[r], k]
    if y.ndim == 1:
        return class_loss(out, y, wanted.weight, index, grad)
    return element_loss(out, y, wanted.weight, index, wanted.is_binary, grad)


@entry
def loss_of(out: Any, wanted: Any, index: Any, grad: Any) -> float:
    """`loss`, for callers in Python."""
    return loss(out, wanted.y, wanted, index, grad)
