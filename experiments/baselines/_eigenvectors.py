"""Eigenvectors of the covariance of dense and of sparse rows."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, eigsh

from treelu.data.spread import Matrix
from treelu.tree.rows import dense

Eigenvectors = Literal["all", "dominant"]

_LANCZOS_FROM = 256  # features from which the dominant eigenvector comes without the covariance matrix


def covariance_eigenvectors(X: Matrix, sample_weight: NDArray[np.float64], which: Eigenvectors) -> NDArray[np.float64]:
    """Eigenvectors of the weighted covariance of X whose eigenvalues are not zero, largest first.

    Sparse rows are never centred. For ``"all"`` one symmetric matrix of side min(n_rows, n_features) is
    formed; the ``"dominant"`` one of a wide table comes from products with X alone (Lanczos).

    Parameters
    ----------
    X : array or CSR array of shape (n_rows, n_features)
    sample_weight : array of shape (n_rows,)
    which : {"all", "dominant"}

    Returns
    -------
    array of shape (n_vectors, n_features)
        Unit vectors; none where the rows are all the same.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    >>> abs(covariance_eigenvectors(X, np.ones(3), "all")).round(3)
    array([[0.6, 0.8]])
    """
    n_rows, n_features = X.shape
    share = sample_weight / sample_weight.sum()
    mean, noise = share @ X, _rounding(X, share)
    if not sparse.issparse(X):
        X, mean = X - mean, np.zeros(n_features)
    if which == "dominant" and min(n_rows, n_features) >= _LANCZOS_FROM:
        return _dominant_by_lanczos(X, share, mean, noise)
    root = np.sqrt(share)
    rows = sparse.diags_array(root) @ X if sparse.issparse(X) else root[:, None] * X
    if n_rows < n_features:
        # Eigenvectors v of the small matrix A Aᵀ give those of AᵀA as Aᵀv, where A = √w (X − mean).
        gram, shift = dense(rows @ rows.T), rows @ mean
        gram += np.multiply.outer(root, root) * (mean @ mean)
        gram -= np.multiply.outer(root, shift) + np.multiply.outer(shift, root)
        values, vectors = eigh(gram)
        keep = _not_zero(values, noise, which)
        found = (rows.T @ vectors[:, keep]).T - np.multiply.outer(root @ vectors[:, keep], mean)
    else:
        values, vectors = eigh(dense(rows.T @ rows) - np.multiply.outer(mean, mean))
        keep = _not_zero(values, noise, which)
        found = vectors[:, keep].T
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def _mean_squares(X: Matrix, share: NDArray[np.float64]) -> NDArray[np.float64]:
    return share @ X.multiply(X) if sparse.issparse(X) else np.einsum("i,ij,ij->j", share, X, X)


def _rounding(X: Matrix, share: NDArray[np.float64]) -> float:
    """A variance that rounding alone may make: of differences of squares (sparse rows) or squares of differences."""
    return float(_mean_squares(X, share).sum()) * (1e-13 if sparse.issparse(X) else 1e-26)


def _not_zero(values: NDArray[np.float64], noise: float, which: Eigenvectors) -> NDArray[np.int64]:
    """Places of the eigenvalues that count, largest first; ``values`` ascend."""
    floor = max(noise, len(values) * 1e-12 * values[-1])
    keep = np.flatnonzero(values > floor)[::-1]
    return keep[:1] if which == "dominant" else keep


def _dominant_by_lanczos(
    X: Matrix, share: NDArray[np.float64], mean: NDArray[np.float64], noise: float
) -> NDArray[np.float64]:
    n_features = X.shape[1]
    variances = _mean_squares(X, share) - mean * mean
    if variances.sum() <= noise:
        return np.empty((0, n_features))

    def covariance(vector: NDArray[np.float64]) -> NDArray[np.float64]:
        return X.T @ (share * (X @ vector - mean @ vector))

    operator = LinearOperator((n_features, n_features), matvec=covariance, dtype=np.float64)
    # The start must not be orthogonal to the answer; signs that alternate at random make that unlikely.
    start = np.random.default_rng(0).choice([-1.0, 1.0], n_features) * np.sqrt(np.maximum(variances, 0.0))
    _, vectors = eigsh(operator, k=1, which="LA", v0=start, tol=1e-6)
    return vectors.T
