"""Activation patterns as bits of integers: 63 neurons a word, the first neuron in the lowest bit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BITS_A_WORD = 63


def n_words(depth: int) -> int:
    """Words that a pattern of so many neurons takes."""
    return -(-depth // BITS_A_WORD)


def pack_pattern(pattern: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The inverse of `unpack_codes`."""
    depth = pattern.shape[1]
    codes = np.zeros((len(pattern), n_words(depth)), np.int64)
    for i in range(depth):
        codes[:, i // BITS_A_WORD] |= pattern[:, i].astype(np.int64) << (i % BITS_A_WORD)
    return codes


def unpack_codes(codes: NDArray[np.int64], depth: int) -> NDArray[np.bool_]:
    """Packed patterns (K, words) to bool (K, M)."""
    neurons = np.arange(depth)
    return (codes[:, neurons // BITS_A_WORD] >> (neurons % BITS_A_WORD)) & 1 == 1
