"""Trees on few features: a group penalty by proximal steps, and a choice of at most k features along its path.

A feature leaves the tree when all its weights in the neurons are zero, since every node's weights and every gradient
are combinations of the neurons' weights. The penalty is μ Σ_d ‖W_d‖₂ over the features' rows W_d.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from treelu.nn import LocallyConstantNetwork, LocallyLinearNetwork, NeuronChain
from treelu.training.loop import BETAS, MOMENTUM

FIRST_PENALTY, GROWTH, MAX_POINTS = 1e-4, 2.0, 24


def feature_norms(network: NeuronChain) -> Tensor:
    """The Euclidean norm of each feature's weights (D,), those of linear outputs included."""
    squares = (network.weight.detach() ** 2).sum(dim=1)
    if isinstance(network, LocallyLinearNetwork):
        squares = squares + (network.output_weight.detach() ** 2).sum(dim=1)
    return squares.sqrt()


def shrink_features(network: NeuronChain, amount: float | Tensor) -> None:
    """The proximal step of the group penalty: shorten each feature's weights by `amount`, down to exact zeros.

    Parameters
    ----------
    network : NeuronChain
    amount : float or tensor (D,)
        The same for all features, or one for each.

    Examples
    --------
    >>> network = LocallyConstantNetwork(2, depth=2, out_features=1)
    >>> _ = network.weight.data.copy_(torch.tensor([[3.0, 4.0], [0.1, 0.0]]))
    >>> shrink_features(network, 1.0)
    >>> network.weight.data
    tensor([[2.4000, 3.2000],
            [0.0000, 0.0000]])
    """
    norms = feature_norms(network)
    factor = (1 - amount / norms.clamp(min=1e-30)).clamp(min=0)[:, None]
    with torch.no_grad():
        network.weight.mul_(factor)
        if isinstance(network, LocallyLinearNetwork):
            network.output_weight.mul_(factor)


def proximal_step(penalty: float) -> Callable[[NeuronChain, float], None] | None:
    """What the training loop does after each update where a penalty is given by hand; None without one."""
    if penalty == 0:
        return None
    return lambda network, learning_rate: shrink_features(network, penalty * learning_rate)


def path_step(penalty: float, optimizer: str) -> Callable[[NeuronChain, float], None]:
    """What the training loop does after each update on the way to few features.

    AMSGrad does not step along the loss's gradient but divides it by its root mean square r, so that features that
    matter and features that do not move alike. Here the penalty is divided too, by one r_d for each feature: a feature
    then leaves the tree where the loss's gradient with respect to its weights is shorter than the penalty, and is kept
    where the loss needs it. That takes a trained network: an untrained one needs none of its features yet.

    Parameters
    ----------
    penalty : float
        μ, in units of the loss.
    optimizer : {"amsgrad", "sgd"}
        SGD's momentum of 0.9 makes its steps ten times as long, of all features alike.
    """
    if optimizer == "sgd":
        return lambda network, learning_rate: shrink_features(network, penalty * learning_rate / (1 - MOMENTUM))
    roots = _RootMeanSquares()
    return lambda network, learning_rate: shrink_features(network, penalty * learning_rate / roots.after(network))


class _RootMeanSquares:
    """AMSGrad's divisor, with one value for the weights of each feature: the largest mean square so far, its root."""

    def __init__(self) -> None:
        self.n_steps = 0
        self.square = self.largest = torch.zeros(())

    def after(self, network: NeuronChain) -> Tensor:
        """The divisors (D,) after a step, by the gradients that it left."""
        gradients = [network.weight.grad]
        if isinstance(network, LocallyLinearNetwork):
            gradients.append(network.output_weight.grad)
        new = torch.cat([gradient for gradient in gradients if gradient is not None], dim=1).square().mean(dim=1)
        self.n_steps += 1
        _, beta = BETAS
        self.square = beta * self.square.to(new) + (1 - beta) * new
        self.largest = torch.maximum(self.largest.to(new), self.square)
        return (self.largest / (1 - beta**self.n_steps)).sqrt().clamp(min=1e-8)


def choose_features(network: NeuronChain, n_features: int, train_with: Callable[[float], object]) -> NDArray[np.int64]:
    """The features that remain as the penalty grows until at most `n_features` do, in ascending order.

    `train_with(penalty)` goes on training `network` with that penalty. Where the last step of the path drops too many,
    the strongest of the step before fill up.
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
        after = torch.zeros_like(before)
    # those that survive first, by norm; then those that survived longest
    strength = after + 1e-6 * before / before.max().clamp(min=1e-30)
    chosen = torch.argsort(strength, descending=True)[:n_features]
    return np.sort(chosen[strength[chosen] > 0].cpu().numpy())


def embed(small: NeuronChain, chosen: NDArray[np.int64], blank: NeuronChain) -> NeuronChain:
    """`blank`, a network on all features, made equal to `small` on the chosen ones and deaf to the others."""
    index = torch.from_numpy(chosen).to(small.weight.device)
    with torch.no_grad():
        blank.weight.zero_()[index] = small.weight
        blank.connection.copy_(small.connection)
        blank.bias.copy_(small.bias)
        if isinstance(small, LocallyConstantNetwork) and isinstance(blank, LocallyConstantNetwork):
            blank.head.weight.zero_()[:, :, index] = small.head.weight
            blank.head.offset_weight.copy_(small.head.offset_weight)
            blank.head.bias.copy_(small.head.bias)
            blank.head.hidden.load_state_dict(small.head.hidden.state_dict())
        elif isinstance(small, LocallyLinearNetwork) and isinstance(blank, LocallyLinearNetwork):
            blank.output_weight.zero_()[index] = small.output_weight
            blank.output_connection.copy_(small.output_connection)
            blank.output_bias.copy_(small.output_bias)
    return blank
