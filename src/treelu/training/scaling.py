"""Scaling of features, and networks rewritten: on the raw features, with other outputs, deeper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from treelu.nn import LocallyConstantNetwork, LocallyLinearNetwork, NeuronChain


@dataclass(frozen=True)
class Scaling:
    """x ↦ (x − center) / scale for each feature.

    Examples
    --------
    >>> scaling = Scaling(np.array([1.0]), np.array([2.0]))
    >>> scaling.transform(np.array([[5.0]]))
    array([[2.]])
    """

    center: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def identity(cls, n_features: int) -> Scaling:
        """The scaling that changes nothing."""
        return cls(np.zeros(n_features), np.ones(n_features))

    @property
    def is_identity(self) -> bool:
        """Whether it changes nothing."""
        return not self.center.any() and bool((self.scale == 1).all())

    def transform(self, X: Any) -> Any:
        """Scaled rows; sparse ones stay sparse where nothing is centred."""
        if self.is_identity:
            return X
        if hasattr(X, "tocsr"):
            if self.center.any():
                raise ValueError("sparse X cannot be centred; use standardize=False or a dense X")
            return X.multiply(1 / self.scale).tocsr()
        return (X - self.center) / self.scale

    def inverse(self) -> Scaling:
        """The scaling that undoes this one."""
        return Scaling(-self.center / self.scale, 1 / self.scale)


HEAVY = 3.0  # a tail is heavy when it makes the deviation so many times what the quartiles say
QUARTILES_TO_DEVIATION = 1.349  # the distance of a normal distribution's quartiles, in deviations
QUARTILE_ROWS = 100_000  # are enough to know the quartiles


def fit_scaling(X: Any, standardize: bool | str) -> Scaling:
    """Centre and scale of each feature that is to be scaled: mean and standard deviation.

    Under "auto" a feature with heavy tails takes its median, and the deviation that its quartiles say: a few far values
    would squeeze all others into a point that training cannot part.

    Parameters
    ----------
    X : ndarray or SciPy sparse
        The training rows.
    standardize : bool or "auto"
        True scales all features by mean and deviation (sparse ones are not centred), False none, "auto" those of a
        dense table that are not binary. Constant features are centred and keep their scale.
    """
    n_features = X.shape[1]
    if not standardize or (standardize == "auto" and hasattr(X, "tocsr")):
        return Scaling.identity(n_features)
    if hasattr(X, "tocsr"):
        squares = np.asarray(X.multiply(X).mean(axis=0), np.float64).reshape(-1)
        return Scaling(np.zeros(n_features), np.where(squares > 0, np.sqrt(squares), 1.0))
    center, scale = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    # not scale == 0: rounding gives a constant column a deviation
    scale = np.where((X.max(axis=0) > X.min(axis=0)) & (scale > 0), scale, 1.0)
    if standardize == "auto":
        binary = ((X == 0) | (X == 1)).all(axis=0)
        center, scale = np.where(binary, 0.0, center), np.where(binary, 1.0, scale)
        median, spread = _quartiles(X)
        heavy = (spread > 0) & (scale > HEAVY * spread) & ~binary
        center, scale = np.where(heavy, median, center), np.where(heavy, spread, scale)
    return Scaling(center, scale)


def _quartiles(X: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Each feature's median, and the deviation of a normal distribution with its quartiles."""
    some = X[:: -(-len(X) // QUARTILE_ROWS)]
    low, median, high = (
        np.array([np.percentile(column, [25, 50, 75]) for column in some.T], np.float64).reshape(-1, 3).T
    )
    return median, (high - low) / QUARTILES_TO_DEVIATION


def fold(network: NeuronChain, scaling: Scaling, target: Scaling | None = None) -> None:
    """Rewrite in place a network on scaled features (and targets) as the same function of the raw ones.

    With x' = (x − μ)/s: w·x' = (w/s)·x − (w/s)·μ. The Jacobian with respect to x' is s times that with respect to
    x, and an offset gains J·μ, so g_φ's first layer takes V·s + v μᵀ for V. `fold(…, scaling.inverse())` undoes it.
    """
    with torch.no_grad():
        center, scale = (torch.as_tensor(v, dtype=network.weight.dtype) for v in (scaling.center, scaling.scale))
        center, scale = center.to(network.weight.device), scale.to(network.weight.device)
        network.weight.div_(scale[:, None])
        network.bias.sub_(_at(center, network.weight))
        if isinstance(network, LocallyConstantNetwork):
            head = network.head
            head.weight.mul_(scale).add_(head.offset_weight[:, :, None] * center)
        elif isinstance(network, LocallyLinearNetwork):
            network.output_weight.div_(scale[:, None])
            network.output_bias.sub_(_at(center, network.output_weight))
        if target is not None:
            _fold_target(network, target)


def _at(center: Tensor, weight: Tensor) -> Tensor:
    """center @ weight, the same to the bit wherever the two lie: the BLAS's order of sums depends on alignment."""
    return (center[:, None] * weight).sum(dim=0)


def _fold_target(network: NeuronChain, target: Scaling) -> None:
    """Outputs o become o · scale + center."""
    if network.leaf_corrections is not None:
        network.correct_leaves(network.leaf_corrections.scaled(target.scale))
    scale = torch.as_tensor(target.scale, dtype=network.weight.dtype, device=network.weight.device)
    center = torch.as_tensor(target.center, dtype=network.weight.dtype, device=network.weight.device)
    if isinstance(network, LocallyLinearNetwork):
        network.output_weight.mul_(scale)
        network.output_connection.mul_(scale)
        network.output_bias.mul_(scale).add_(center)
    elif isinstance(network, LocallyConstantNetwork) and len(network.head.hidden):
        last = network.head.hidden[-1]
        assert isinstance(last, torch.nn.Linear)
        last.weight.mul_(scale[:, None])
        last.bias.mul_(scale).add_(center)
    elif isinstance(network, LocallyConstantNetwork):
        network.head.weight.mul_(scale[:, None, None])
        network.head.offset_weight.mul_(scale[:, None])
        network.head.bias.mul_(scale).add_(center)


def rescale_outputs(network: NeuronChain, factor: float) -> None:
    """Multiply all outputs of a network by a factor, in place."""
    with torch.no_grad():
        _fold_target(network, Scaling(np.zeros(network.out_features), np.full(network.out_features, factor)))


def deepen(shallow: NeuronChain, deep: NeuronChain) -> None:
    """Give the first neurons of `deep` the parameters of `shallow`; its other neurons stay as they are."""
    depth = shallow.depth
    with torch.no_grad():
        deep.weight[:, :depth] = shallow.weight
        deep.connection[:depth, :depth] = shallow.connection
        deep.bias[:depth] = shallow.bias
        if isinstance(shallow, LocallyConstantNetwork) and isinstance(deep, LocallyConstantNetwork):
            deep.head.weight[:, :depth] = shallow.head.weight
            deep.head.offset_weight[:, :depth] = shallow.head.offset_weight
            deep.head.bias.copy_(shallow.head.bias)
            deep.head.hidden.load_state_dict(shallow.head.hidden.state_dict())
        elif isinstance(shallow, LocallyLinearNetwork) and isinstance(deep, LocallyLinearNetwork):
            deep.output_weight.copy_(shallow.output_weight)
            deep.output_connection[:depth] = shallow.output_connection
            deep.output_bias.copy_(shallow.output_bias)
