"""Constants added to some leaves of a piece-wise linear network, by activation pattern."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class LeafCorrections:
    """Constants added to the outputs of the leaves with given patterns; 0 for all others.

    Parameters
    ----------
    codes : int64 array of shape (K, words)
        Distinct activation patterns as `treelu.nn` packs them.
    values : array of shape (K, L)

    Examples
    --------
    >>> corrections = LeafCorrections(np.array([[2], [5]]), np.array([[0.5], [-1.0]]))
    >>> corrections.lookup(np.array([[5], [0], [2]]))
    array([[-1. ],
           [ 0. ],
           [ 0.5]])
    """

    def __init__(self, codes: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        self.codes, order = np.unique(codes, axis=0, return_index=True)
        if len(self.codes) != len(codes):
            raise ValueError("codes must be distinct")
        self.values = np.asarray(values, np.float64)[order]

    def lookup(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """The corrections (B, L) of the rows with these codes."""
        padded = np.concatenate([self.values, np.zeros((1, self.values.shape[1]))])
        _, inverse = np.unique(np.concatenate([self.codes, codes]), axis=0, return_inverse=True)
        inverse = inverse.reshape(-1)
        place = np.full(len(inverse), len(self.codes))
        place[inverse[: len(self.codes)]] = np.arange(len(self.codes))
        return padded[place[inverse[len(self.codes) :]]]

    def scaled(self, scale: NDArray[np.float64]) -> LeafCorrections:
        """The same with the outputs multiplied by `scale` (L,)."""
        return LeafCorrections(self.codes, self.values * scale)

    def reordered(self, places: NDArray[np.int64]) -> LeafCorrections:
        """The same with outputs o turned into o[places]."""
        return LeafCorrections(self.codes, self.values[:, places])
