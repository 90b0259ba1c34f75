"""Search of axis-parallel splits in the raw and in reflected feature spaces, for dense and sparse rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treelu.data.spread import Matrix
from treelu.kernels import compiled

_BLOCK = 1 << 22  # values of a dense table that are reflected at a time: 32 MB of float64
# Distinct values of an oblique projection are taken to differ by more than the rounding error of the projection.
_PROJECTION_TOLERANCE = 1e-11
# A later split must beat an earlier one by more than rounding: ties go to raw axes and to lower columns.
_TIE = 1e-9


@dataclass(frozen=True)
class Split:
    """A row x goes right where ``weights @ x + bias >= 0``; ``score`` ranks splits of the same rows."""

    weights: NDArray[np.float64]
    bias: float
    score: float


def reflector(direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """The unit vector u of the Householder reflection I − 2uuᵀ that maps ``direction`` to the first axis.

    The direction's sign is chosen so that its largest component is negative: u is then never a small
    difference, and an eigenvector gives the same reflection whichever sign its solver returned.

    Parameters
    ----------
    direction : array of shape (n_features,)
        A unit vector.

    Returns
    -------
    array of shape (n_features,)

    Examples
    --------
    >>> import numpy as np
    >>> u = reflector(np.array([0.6, 0.8]))
    >>> (np.eye(2) - 2 * np.outer(u, u)).round(3)
    array([[-0.6, -0.8],
           [-0.8,  0.6]])
    """
    largest = direction[np.argmax(np.abs(direction))]
    difference = direction if largest > 0 else -direction  # −d
    difference = difference.copy()
    difference[0] += 1.0  # e₁ − d
    return difference / np.linalg.norm(difference)


def best_split(
    X: Matrix,
    targets: NDArray[np.float64],
    sample_weight: NDArray[np.float64],
    reflectors: list[NDArray[np.float64]],
    min_samples_leaf: int,
    twoing: bool = False,
) -> Split | None:
    """The best split along the axes and along the axes of each reflected space.

    Let S be the weighted sum on the left of the targets less their mean, W_left and W_right the weights of
    the sides. A split scores ‖S‖² / (W_left W_right), up to a constant of the node its gain in Gini impurity for
    one-hot targets and in squared error for real ones; with the sum of absolute values as norm it is Breiman's twoing
    rule. A reflection takes column j to x_j − 2 u_j (x·u): it needs the raw column and the one product Xu.

    Parameters
    ----------
    X : array or CSR array of shape (n_rows, n_features)
    targets : array of shape (n_rows, n_targets)
    sample_weight : array of shape (n_rows,)
    reflectors : list of arrays of shape (n_features,)
        Unit vectors u of the reflections I − 2uuᵀ.
    min_samples_leaf : int
        Rows that each side must keep.
    twoing : bool
        Score by the twoing rule. For two classes both rules rank alike.

    Returns
    -------
    Split or None
        None where no hyperplane of the search parts the rows.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    >>> best_split(X, np.array([[0.0], [0.0], [9.0]]), np.ones(3), [], 1)
    Split(weights=array([1., 0.]), bias=-1.5, score=18.0)
    """
    weighted = targets - np.average(targets, axis=0, weights=sample_weight)
    weighted *= sample_weight[:, None]
    options = (weighted, sample_weight, min_samples_leaf, twoing)
    columns: Any = X
    search: Any = _search_dense
    if sparse.issparse(X):
        columns, search = sparse.csc_array(X), _search_sparse
        columns.sum_duplicates()  # the scan counts on one entry for each row
    no_reflection = np.zeros(X.shape[1]), np.zeros(X.shape[0])
    best = _better(None, search(columns, *no_reflection, 0.0, options), None)
    tolerance = _PROJECTION_TOLERANCE * _largest_norm(X)
    for u in reflectors:
        best = _better(best, search(columns, u, X @ u, tolerance, options), u)
    return None if best is None else _as_split(best, X.shape[1])


_Scored = tuple[float, int, float]  # score, column and threshold of a split; score −1 where there is none
_Found = tuple[float, int, float, NDArray[np.float64] | None]  # the same and the reflector


def _search_dense(
    X: NDArray[np.float64],
    u: NDArray[np.float64],
    product: NDArray[np.float64],
    tolerance: float,
    options: tuple[Any, ...],
) -> _Scored:
    """Sort and scan the columns x_j − 2 u_j (x·u), a block at a time."""
    best = (-1.0, 0, 0.0)
    width = max(1, _BLOCK // len(X))
    for start in range(0, X.shape[1], width):
        table = np.ascontiguousarray(X[:, start : start + width].T)  # (B, n)
        table = table - np.multiply.outer(2.0 * u[start : start + width], product)
        order = np.argsort(table, axis=1)
        score, column, threshold = _scored(compiled.scan_table, table, order, tolerance, *options)
        if score > best[0] * (1.0 + _TIE):
            best = (score, start + column, threshold)
    return best


def _search_sparse(
    X: sparse.csc_array,
    u: NDArray[np.float64],
    product: NDArray[np.float64],
    tolerance: float,
    options: tuple[Any, ...],
) -> _Scored:
    """The same search without a dense column: rows where x_j is zero keep the order of x·u."""
    order = np.argsort(product)
    columns = X.indices.astype(np.int32, copy=False), X.data, X.indptr.astype(np.int64, copy=False)
    return _scored(compiled.scan_sparse, *columns, -2.0 * u, product, order, tolerance, *options)


def _scored(kernel: Callable[..., float], *arguments: Any) -> _Scored:
    """What a kernel of ``splits.h`` in `treelu.kernels` finds."""
    found = np.empty(3)
    kernel(*arguments, found)
    return float(found[0]), int(found[1]), float(found[2])


def _better(best: _Found | None, scored: _Scored, u: NDArray[np.float64] | None) -> _Found | None:
    needed = -0.5 if best is None else best[0] * (1.0 + _TIE)
    return (*scored, u) if scored[0] > needed else best


def _as_split(found: _Found, n_features: int) -> Split:
    score, column, threshold, u = found
    weights = np.zeros(n_features)
    if u is not None:
        weights -= 2.0 * u[column] * u
    weights[column] += 1.0
    return Split(weights, -threshold, score)


def _largest_norm(X: Matrix) -> float:
    squares = X.multiply(X).sum(axis=1) if sparse.issparse(X) else np.einsum("ij,ij->i", X, X)
    return float(np.sqrt(squares.max()))
