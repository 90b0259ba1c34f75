"""The standard deviation of each column, exact for constant columns and for very large and very small numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Matrix = NDArray[np.float64] | sparse.csr_array
SURE = 1e-140, 1e140  # between these squares neither overflow nor vanish


def spread(X: Matrix, sample_weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weighted standard deviation of each column; sparse rows stay sparse."""
    share = sample_weight / sample_weight.sum()
    found = np.zeros(X.shape[1])
    varies = np.flatnonzero(~_is_constant(X))  # rounding would give a constant column a little
    found[varies] = _deviation(X if len(varies) == len(found) else X[:, varies], share)
    low, high = SURE
    for column in varies[~((found[varies] > low) & (found[varies] < high))]:  # squares are beyond arithmetic
        unit = 2.0**600 if found[column] < 1 else 2.0**-600  # not finite: too large
        found[column] = _deviation(X[:, [column]] * unit, share)[0] / unit
    return found


def _is_constant(X: Matrix) -> NDArray[np.bool_]:
    low, high = X.min(axis=0), X.max(axis=0)
    if sparse.issparse(X):
        low, high = low.toarray(), high.toarray()
    return np.asarray(low == high).reshape(-1)


def _deviation(X: Matrix, share: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.asarray(share @ X)
        if not sparse.issparse(X):
            return np.sqrt(share @ (X - mean) ** 2)
        entries = sparse.coo_array(X)
        if not X.has_canonical_format:
            entries.sum_duplicates()
        of = share[entries.row]
        n_columns = X.shape[1]
        # centred first, as the mean may be far larger than the deviation
        far = np.bincount(entries.col, of * (entries.data - mean[entries.col]) ** 2, n_columns)
        absent = np.maximum(1 - np.bincount(entries.col, of, n_columns), 0)
        full = np.bincount(entries.col, minlength=n_columns) >= X.shape[0]
        return np.sqrt(far + np.where(full, 0, absent) * mean**2)
