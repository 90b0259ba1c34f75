"""Activation patterns as bits of integers: 63 neurons a word, the first neuron in the lowest bit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def pack_pattern(pattern: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The inverse of `unpack_codes`."""
    depth = pattern.shape[1]
    codes = np.zeros((len(pattern), -(-depth // 63)), np.int64)
    for i in range(depth):
        codes[:, i // 63] |= pattern[:, i].astype(np.int64) << (i % 63)
    return codes


def unpack_codes(codes: NDArray[np.int64], depth: int) -> NDArray[np.bool_]:
    """Packed patterns (K, words) to bool (K, M); 63 neurons a word, the first neuron in the lowest bit."""
    neurons = np.arange(depth)
    return (codes[:, neurons // 63] >> (neurons % 63)) & 1 == 1
