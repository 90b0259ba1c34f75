"""Scaling of features and targets, and networks rewritten for the raw ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treelu.nn import NeuronChain


@dataclass(frozen=True)
class Scaling:
    """x ↦ (x − center) / scale for each feature."""

    center: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def identity(cls, n_features: int) -> Scaling:
        return cls(np.zeros(n_features), np.ones(n_features))

    @property
    def is_identity(self) -> bool:
        return not self.center.any() and bool((self.scale == 1).all())

    def transform(self, X: Any) -> Any:
        """Scaled rows; sparse ones stay sparse where nothing is centred, and are dense otherwise."""
        if self.is_identity:
            return X
        if hasattr(X, "tocsr"):
            if not self.center.any():
                return X.multiply(1 / self.scale).tocsr()
            X = X.toarray()
        return (X - self.center) / self.scale

    def inverse(self) -> Scaling:
        """The scaling that undoes this one."""
        return Scaling(-self.center / self.scale, 1 / self.scale)


HEAVY = 3.0  # a tail is heavy when it makes the deviation so many times what the quartiles say
QUARTILES_TO_DEVIATION = 1.349  # the distance of a normal distribution's quartiles, in deviations
QUARTILE_ROWS = 100_000  # are enough to know the quartiles
SPREADS = 1e-120, 1e120  # between these a deviation, its square and its inverse are finite, and so is a folded network
NOTHING = 1e120  # what is divided by it is 0 in float32
ENTRIES = 2**18  # of a sparse table, summed at once
DENSE_ENOUGH = 1 / 3  # of a sparse table's entries stored: it takes no more memory as a dense one of float32


def fit_scaling(X: Any, standardize: bool | str, name: str = "X") -> Scaling:
    """Centre and scale of each feature that is to be scaled: mean and standard deviation; `name` is for messages.

    - True scales all features (sparse ones are not centred), False none, "auto" those that are not binary.
    - "auto": a feature with heavy tails takes its median, and the deviation that its quartiles say: a few far values
      would squeeze all others into a point that training cannot part. Sparse features are centred only where most of
      them is stored anyway; others are divided by the root mean square of their entries, so that zeros stay zeros.
    - Constant features become 0, to the last digit: they are centred and keep their scale, and where nothing is centred
      they are divided by `NOTHING`.
    """
    if not standardize:
        return Scaling.identity(X.shape[1])
    scaling = _sparse_scaling(X, standardize) if hasattr(X, "tocsr") else _dense_scaling(X, standardize)
    check_scale(scaling.center, scaling.scale, name)
    return scaling


def check_scale(center: NDArray[np.float64], scale: NDArray[np.float64], name: str) -> None:
    """Raise where a column's centre or deviation is beyond what can be computed with; `name`: of what."""
    low, high = SPREADS
    bad = ~((scale >= low) & (scale <= high)) | ~(np.abs(center) <= high)
    if bad.any():
        column = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{name} cannot be scaled: column {column} has values that are too large or too small for floating-point "
            f"arithmetic (centre {center[column]:.3g}, deviation {scale[column]:.3g}); change its unit"
        )


def check_scaled(rows: NDArray[np.float32], start: int = 0) -> None:
    """Raise where a scaled value is beyond float32; `start` is the number of the first row."""
    if not np.isfinite(rows).all():
        row, column = np.argwhere(~np.isfinite(rows))[0].tolist()
        raise ValueError(
            f"X cannot be scaled: row {start + row} has a value in column {column} that is too far from the others; "
            "correct or clip it"
        )


def _dense_scaling(X: NDArray[Any], standardize: bool | str) -> Scaling:
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused
        center, scale = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    # not scale == 0: rounding gives a constant column a deviation, and a mean beside its value
    low = X.min(axis=0)
    constant = X.max(axis=0) == low
    center, scale = np.where(constant, low, center), np.where(constant, 1.0, scale)
    if standardize == "auto":
        binary = ((X == 0) | (X == 1)).all(axis=0) & ~constant
        center, scale = np.where(binary, 0.0, center), np.where(binary, 1.0, scale)
        median, spread = _quartiles(X)
        heavy = (spread > 0) & (scale > HEAVY * spread) & ~binary
        center, scale = np.where(heavy, median, center), np.where(heavy, spread, scale)
    return Scaling(center, scale)


def _sparse_scaling(X: Any, standardize: bool | str) -> Scaling:
    """Without making the table dense, and a block of entries at a time."""
    (n_rows, n_features), csr = X.shape, X.tocsr()
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()

    def sums(term: Callable[[NDArray[np.float64], NDArray[Any]], Any]) -> NDArray[np.float64]:
        """The sum over each column's entries of term(values, columns)."""
        total = np.zeros(n_features)
        for start in range(0, csr.nnz, ENTRIES):
            values, columns = (part[start : start + ENTRIES] for part in (csr.data, csr.indices))
            total += np.bincount(columns, term(values.astype(np.float64), columns), n_features)
        return total

    with np.errstate(over="ignore", invalid="ignore"):
        squares = sums(lambda values, columns: values**2)
        constant = _constant_entries(csr)
        if standardize != "auto":
            scale = np.where(squares > 0, np.sqrt(squares / n_rows), 1.0)
            return Scaling(np.zeros(n_features), np.where(constant, NOTHING, scale))
        binary = sums(lambda values, columns: (values != 0) & (values != 1)) == 0
        if binary.all():
            return Scaling(np.zeros(n_features), np.where(constant, NOTHING, 1.0))
        if csr.nnz >= DENSE_ENOUGH * n_rows * n_features:
            mean = sums(lambda values, columns: values) / n_rows
            mean, binary = np.where(constant, csr[[0]].toarray()[0], mean), binary & ~constant
            stored = sums(lambda values, columns: np.ones(len(values)))
            far = sums(lambda values, columns: (values - mean[columns]) ** 2) + (n_rows - stored) * mean**2
            return Scaling(np.where(binary, 0.0, mean), np.where(binary | (far == 0), 1.0, np.sqrt(far / n_rows)))
        known = np.maximum(sums(lambda values, columns: values != 0), 1)
        scale = np.where(binary, 1.0, np.sqrt(squares / known))
        return Scaling(np.zeros(n_features), np.where(constant, NOTHING, scale))


def _constant_entries(csr: Any) -> NDArray[np.bool_]:
    """Which columns have one value, other than 0, in all rows."""
    n_rows, n_features = csr.shape
    first, count = np.zeros(n_features), np.zeros(n_features, np.int64)
    if n_rows:
        entries = slice(csr.indptr[0], csr.indptr[1])
        first[csr.indices[entries]] = csr.data[entries]
    for start in range(0, csr.nnz, ENTRIES):
        values, columns = (part[start : start + ENTRIES] for part in (csr.data, csr.indices))
        count += np.bincount(columns[values == first[columns]], minlength=n_features)
    return (count == n_rows) & (first != 0)


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
