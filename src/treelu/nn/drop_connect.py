"""DropConnect masks, one per sample, from a counter-based generator.

Whether the weight of feature d into neuron i is dropped for row r is a hash of (key, r, d, i). So a mask needs no
memory, the backward pass finds it again, it does not depend on the number of threads, and the CPU kernels and the
torch form drop the same weights. Connections from neuron k count as feature D + k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

WORD = 0xFFFFFFFF
ROW, FEATURE, NEURON = 0x9E3779B9, 0x85EBCA6B, 0xC2B2AE35  # odd constants that spread the counters
MIX_1, MIX_2 = 0x7FEB352D, 0x846CA68B


@dataclass(frozen=True)
class DropConnect:
    """One draw of DropConnect masks. They act inside the pre-activations z only, as in the authors' code.

    Parameters
    ----------
    rate : float in [0, 1)
        The share of weights that are dropped; the others are scaled by 1 / (1 − rate).
    key : int
        Names the draw: equal keys drop equal weights. 64 bits.

    Examples
    --------
    >>> DropConnect(0.5, key=1).dense_masks(1, n_features=4, depth=2)[0][0].T
    array([[2., 0., 2., 0.],
           [2., 2., 2., 0.]])
    """

    rate: float
    key: int

    def __post_init__(self) -> None:
        check_rate(self.rate)

    @property
    def threshold(self) -> int:
        """A weight is dropped where its 32-bit hash is below this."""
        return int(self.rate * 2.0**32)

    @property
    def scale(self) -> float:
        """The factor of the surviving weights."""
        return 1.0 / (1.0 - self.rate)

    def row_keys(self, n_rows: int) -> NDArray[np.uint64]:
        """The hash of each row's position, the start of all its masks. Shape (n_rows,)."""
        rows = np.arange(n_rows, dtype=np.uint64)
        low, high = np.uint64(self.key & WORD), np.uint64((self.key >> 32) & WORD)
        return _mix(_mix(rows * np.uint64(ROW) + low) + high)

    def mask(self, row_keys: NDArray[np.uint64], features: NDArray[Any], n_neurons: int) -> NDArray[np.float64]:
        """Factors (0 or `scale`) for pairs of a row and a feature: (..., n_neurons) for two arrays (...)."""
        pairs = _mix(row_keys + features.astype(np.uint64) * np.uint64(FEATURE))
        neurons = np.arange(1, n_neurons + 1, dtype=np.uint64) * np.uint64(NEURON)
        return np.where(_mix(pairs[..., None] + neurons) >= self.threshold, self.scale, 0.0)

    def dense_masks(self, n_rows: int, n_features: int, depth: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """All masks in full, for the slow forms: weights (B, D, M), connections (B, M, M) indexed [row, i, k]."""
        features = np.arange(n_features + depth)[None, :]
        mask = self.mask(self.row_keys(n_rows)[:, None], features, depth)  # (B, D + M, M)
        return mask[:, :n_features], mask[:, n_features:].transpose(0, 2, 1)


def check_rate(rate: float) -> None:
    """Raise unless the drop rate is within [0, 1)."""
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"drop_connect must be in [0, 1), got {rate!r}")


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """An integer hash of 32 bits in 64-bit arithmetic (products wrap, the low word stays right)."""
    word, half, fifteen = np.uint64(WORD), np.uint64(16), np.uint64(15)
    x = x & word
    x = ((x ^ (x >> half)) * np.uint64(MIX_1)) & word
    x = ((x ^ (x >> fifteen)) * np.uint64(MIX_2)) & word
    return x ^ (x >> half)
