"""Scaling of features and targets, and networks rewritten for the raw ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treelu.nn import NeuronChain


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

    `fold(…, scaling.inverse())` undoes it.
    """
    network.read_raw(scaling.center, scaling.scale)
    if target is not None:
        network.rescale_outputs(target.scale, target.center)
