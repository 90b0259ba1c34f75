"""A digest of training rows: enough to tell later whether a table is made of them, without keeping the rows."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

KEPT = 4096  # hashes; tables of up to so many different rows are recognised exactly


@dataclass(frozen=True, eq=False)
class RowDigest:
    """The smallest hashes of some rows, as a sample of them that any other table can be compared with."""

    hashes: NDArray[np.uint64]  # ascending, different
    n_rows: int
    n_different: int

    @classmethod
    def of(cls, X: Any) -> RowDigest:
        """The digest of the rows of an array, DataFrame or sparse matrix."""
        hashes = row_hashes(X)
        different = np.unique(hashes)
        return cls(different[:KEPT], len(hashes), len(different))

    def share_of(self, X: Any) -> float | None:
        """The share of the rows of X that are among those of the digest; None where it cannot be told."""
        if self.n_different < 0.5 * self.n_rows:  # rows of few different values agree by coincidence
            return None
        hashes = row_hashes(X)
        if self.n_different > len(self.hashes):  # the sample speaks of small hashes only
            hashes = hashes[hashes <= self.hashes[-1]]
        return float(np.isin(hashes, self.hashes).mean()) if len(hashes) else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        text = base64.b64encode(self.hashes.astype("<u8").tobytes()).decode("ascii")
        return {"hashes": text, "n_rows": self.n_rows, "n_different": self.n_different}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RowDigest:
        """The inverse of `to_dict`; a ValueError, KeyError or TypeError where the data are not its own."""
        try:
            content = base64.b64decode(data["hashes"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"the digest of training rows is damaged: {error}") from None
        n_rows, n_different = data["n_rows"], data["n_different"]
        sizes = all(isinstance(n, int) and not isinstance(n, bool) for n in (n_rows, n_different))
        if len(content) % 8 or len(content) > 8 * KEPT or not sizes or not 0 <= n_different <= n_rows:
            raise ValueError("the digest of training rows is damaged")
        return cls(np.frombuffer(content, dtype="<u8").astype(np.uint64), n_rows, n_different)


def row_hashes(X: Any) -> NDArray[np.uint64]:
    """A hash of each row, the same for dense and sparse rows."""
    given: Any = X
    rows: Any = given.tocsr() if hasattr(X, "tocsr") else np.asarray(X, dtype=np.float64)
    n_rows, n_features = rows.shape
    keys = _mixed(np.arange(1, n_features + 1, dtype=np.uint64))
    total = np.zeros(n_rows, dtype=np.uint64)
    if isinstance(rows, np.ndarray):
        for j in range(n_features):
            values = rows[:, j]
            total += np.where(values == 0, np.uint64(0), _mixed(_bits(values) ^ keys[j]))
        return total
    terms = np.where(rows.data == 0, np.uint64(0), _mixed(_bits(rows.data) ^ keys[rows.indices]))
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(terms, dtype=np.uint64)])
    return sums[rows.indptr[1:]] - sums[rows.indptr[:-1]]


def _bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    return np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64: each bit of the input changes about half of the output."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
