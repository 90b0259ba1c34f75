"""Numba kernels of the three losses: a batch's mean loss, and its gradient with respect to the outputs.

Outputs and gradients are (outputs, B), as the kernels of `treelu.nn` keep them; y and the rows' weights are whole
columns of the table, read at `index`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_kernel = njit(cache=True, nogil=True, error_model="numpy")


@_kernel
def logistic(out: Any, y: Any, weight: Any, index: Any, grad: Any) -> float:
    """Cross entropy log(1 + exp z) − y z of one raw score; its derivative is σ(z) − y."""
    total = 0.0
    for r in range(index.shape[0]):
        z, target = out[0, r], y[index[r], 0]
        factor = (weight[index[r]] if weight.shape[0] else 1.0) / index.shape[0]
        small = np.exp(-abs(z))
        total += factor * (max(z, 0.0) + np.log1p(small) - target * z)
        grad[0, r] = factor * ((1.0 if z >= 0 else small) / (1.0 + small) - target)
    return total


@_kernel
def softmax(out: Any, y: Any, weight: Any, index: Any, grad: Any) -> float:
    """Cross entropy of one raw score per class; the derivative is the probability, less 1 for the true class."""
    total = 0.0
    for r in range(index.shape[0]):
        factor = (weight[index[r]] if weight.shape[0] else 1.0) / index.shape[0]
        highest, mass = out[:, r].max(), 0.0
        for k in range(out.shape[0]):
            mass += np.exp(out[k, r] - highest)
        for k in range(out.shape[0]):
            grad[k, r] = factor * np.exp(out[k, r] - highest) / mass
        grad[y[index[r]], r] -= factor
        total += factor * (np.log(mass) + highest - out[y[index[r]], r])
    return total


@_kernel
def squared(out: Any, y: Any, weight: Any, index: Any, grad: Any) -> float:
    """Squared error, averaged over the outputs."""
    total, n_outputs = 0.0, out.shape[0]
    for r in range(index.shape[0]):
        factor = (weight[index[r]] if weight.shape[0] else 1.0) / (index.shape[0] * n_outputs)
        for k in range(n_outputs):
            error = out[k, r] - y[index[r], k]
            total += factor * error * error
            grad[k, r] = 2 * factor * error
    return total
