"""Trees on few features: a group penalty by proximal steps, and a choice of at most k features along its path.

A feature leaves the tree when all its weights in the neurons are zero, since every node's weights and every gradient
are combinations of the neurons' weights. The penalty is μ Σ_d ‖W_d‖₂ over the features' rows W_d.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treelu.nn import NeuronChain
from treelu.training.loop import AfterStep
from treelu.training.optimizers import BETAS, MOMENTUM

FIRST_PENALTY, GROWTH, MAX_POINTS = 1e-4, 2.0, 24


def feature_norms(network: NeuronChain) -> NDArray[Any]:
    """The Euclidean norm of each feature's weights (D,), those of linear outputs included."""
    arrays = network.arrays()
    return np.sqrt(sum((arrays[name] ** 2).sum(axis=1) for name in network.feature_rows))


def shrink_features(network: NeuronChain, amount: float | NDArray[Any]) -> None:
    """The proximal step of the group penalty: shorten each feature's weights by `amount`, down to exact zeros.

    Examples
    --------
    >>> from treelu.nn import LocallyConstantNetwork
    >>> network = LocallyConstantNetwork(2, depth=2, out_features=1)
    >>> network.weight[:] = [[3.0, 4.0], [0.1, 0.0]]
    >>> shrink_features(network, 1.0)
    >>> network.weight
    array([[2.4, 3.2],
           [0. , 0. ]])
    """
    norms = feature_norms(network)
    factor = np.maximum(1 - amount / np.maximum(norms, 1e-30), 0)[:, None].astype(network.dtype)
    arrays = network.arrays()
    for name in network.feature_rows:
        arrays[name] *= factor


def proximal_step(penalty: float) -> AfterStep | None:
    """The callback of the training loop after each update for a given penalty; None without one."""
    if penalty == 0:
        return None
    return lambda network, gradients, rate: shrink_features(network, penalty * rate)


def path_step(penalty: float, optimizer: str) -> AfterStep:
    """The callback of the training loop after each update on the path to few features.

    AMSGrad does not step along the loss's gradient but divides it by its root mean square r, so that features that
    matter and features that do not move alike. Here the penalty is divided too, by one r_d for each feature: a feature
    then leaves the tree where the loss's gradient with respect to its weights is shorter than the penalty, and is kept
    where the loss needs it. That takes a trained network: an untrained one needs none of its features yet. SGD's
    momentum of 0.9 makes its steps ten times as long, of all features alike.
    """
    if optimizer == "sgd":
        return lambda network, gradients, rate: shrink_features(network, penalty * rate / (1 - MOMENTUM))
    roots = _RootMeanSquares(BETAS[1])

    def shrink(network: NeuronChain, gradients: dict[str, NDArray[Any]], rate: float) -> None:
        divisors = roots.after([gradients[name] for name in network.feature_rows])
        shrink_features(network, penalty * rate / divisors)

    return shrink


class _RootMeanSquares:
    """AMSGrad's divisor, with one value for the weights of each feature: the largest mean square so far, its root."""

    def __init__(self, beta: float) -> None:
        self.n_steps, self.beta = 0, beta
        self.square: Any = 0.0
        self.largest: Any = 0.0

    def after(self, gradients: list[NDArray[Any]]) -> NDArray[Any]:
        """The divisors (D,) after a step, by the gradients that it left, each with a row for each feature."""
        new = (np.concatenate(gradients, axis=1) ** 2).mean(axis=1)
        self.n_steps += 1
        beta = self.beta
        self.square = beta * self.square + (1 - beta) * new
        self.largest = np.maximum(self.largest, self.square)
        return np.maximum(np.sqrt(self.largest / (1 - beta**self.n_steps)), 1e-8)


def choose_features(network: NeuronChain, n_features: int, train_with: Callable[[float], object]) -> NDArray[np.int64]:
    """The features that remain as the penalty grows until at most `n_features` do, in ascending order.

    `train_with(penalty)` continues training `network` with that penalty. Where the last step of the path drops too
    many, the strongest of the step before fill up.
    """
    before = feature_norms(network)
    penalty = FIRST_PENALTY
    for _ in range(MAX_POINTS):
        train_with(penalty)
        after = feature_norms(network)
        if int((after > 0).sum()) <= n_features:
            break
        before, penalty = after, penalty * GROWTH
    else:
        after = np.zeros_like(before)
    # those that survive first, by norm; then those that survived longest
    strength = after + 1e-6 * before / max(before.max(), 1e-30)
    chosen = np.argsort(-strength, kind="stable")[:n_features]
    return np.sort(chosen[strength[chosen] > 0])
