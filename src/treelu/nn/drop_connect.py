"""DropConnect masks, one per sample, from a counter-based generator.

Whether the weight of feature d into neuron i is dropped for row r is a hash of (key, r, d, i). So a mask needs no
memory, the backward pass finds it again, it does not depend on the number of threads, and the CPU kernel and the
torch form drop the same weights. Connections from neuron k count as feature D + k.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

WORD = 0xFFFFFFFF
ROW, FEATURE, NEURON = 0x9E3779B9, 0x85EBCA6B, 0xC2B2AE35  # odd constants that spread the counters
MIX_1, MIX_2 = 0x7FEB352D, 0x846CA68B


@dataclass(frozen=True)
class DropConnect:
    """One draw of DropConnect masks.

    Parameters
    ----------
    rate : float in [0, 1)
        The share of weights that are dropped; the others are scaled by 1 / (1 − rate).
    key : int
        Names the draw: equal keys drop equal weights. 64 bits.
    in_jacobian : bool
        False: masks act inside the pre-activations z only, as in the authors' code. True: the masked weights also
        make the Jacobian and the offsets, as the paper's text (§3.7) reads.
    """

    rate: float
    key: int
    in_jacobian: bool = False

    def __post_init__(self) -> None:
        check_rate(self.rate)

    @property
    def threshold(self) -> int:
        """A weight is dropped where its 32-bit hash is below this."""
        return int(self.rate * 2.0**32)

    @property
    def scale(self) -> float:
        """What the surviving weights are multiplied by."""
        return 1.0 / (1.0 - self.rate)

    def row_keys(self, n_rows: int, device: torch.device | str = "cpu") -> Tensor:
        """The hash of each row's position, the start of all its masks. Shape (n_rows,), int64."""
        rows = torch.arange(n_rows, device=device)
        low, high = self.key & WORD, (self.key >> 32) & WORD
        return _mix(_mix(rows * ROW + low) + high)

    def mask(self, row_keys: Tensor, features: Tensor, n_neurons: int, dtype: torch.dtype) -> Tensor:
        """Factors (0 or `scale`) for pairs of a row and a feature: (..., n_neurons) for two tensors (...)."""
        pairs = _mix(row_keys + features * FEATURE)
        neurons = torch.arange(1, n_neurons + 1, device=row_keys.device) * NEURON
        kept = _mix(pairs[..., None] + neurons) >= self.threshold
        return kept.to(dtype) * self.scale

    def dense_masks(
        self, n_rows: int, n_features: int, depth: int, dtype: torch.dtype, device: torch.device | str = "cpu"
    ) -> tuple[Tensor, Tensor]:
        """All masks in full, for the slow forms: weights (B, D, M), connections (B, M, M) indexed [row, i, k]."""
        keys = self.row_keys(n_rows, device)[:, None]
        features = torch.arange(n_features + depth, device=device)[None, :]
        mask = self.mask(keys, features, depth, dtype)  # (B, D + M, M)
        return mask[:, :n_features], mask[:, n_features:].transpose(1, 2)


def check_rate(rate: float) -> None:
    """Raise unless the drop rate is within [0, 1)."""
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"drop_connect must be in [0, 1), got {rate!r}")


def _mix(x: Tensor) -> Tensor:
    """An integer hash of 32 bits in int64 arithmetic (products wrap, the low word stays right)."""
    x = x & WORD
    x = ((x ^ (x >> 16)) * MIX_1) & WORD
    x = ((x ^ (x >> 15)) * MIX_2) & WORD
    return x ^ (x >> 16)
