"""Checks on the arrays that go into an ObliqueTree."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from treelu.tree.columns import FrameColumns
from treelu.tree.missing import MissingValues
from treelu.tree.observed import Observed

LINKS = ("identity", "logistic", "softmax", "probability")
NODE_COUNTS = ("n_samples", "weighted_n_samples")  # the fields that follow from rows at the nodes
SAME_WEIGHT = 1e-9  # weights of rows that differ from their number by rounding
MAX_FEATURES = 2**31  # of a tree in a file
MAX_UNSTORED = 2**22  # features of a tree in a file beyond one for each of its bytes


def read_only(array: np.ndarray) -> np.ndarray:
    """A view of ``array`` that cannot be written to; nothing is copied."""
    view = array.view()
    view.flags.writeable = False
    return view


def as_csr(matrix: Any) -> sparse.csr_array:
    """Any sparse matrix as CSR, without a copy where it is one; its indices are checked."""
    if matrix.format in ("csr", "csc"):
        lines, width = matrix.shape if matrix.format == "csr" else matrix.shape[::-1]
        _check_indices(matrix.data, matrix.indices, matrix.indptr, lines, width)
    return sparse.csr_array(matrix)


def csr_from_parts(data: Any, indices: Any, indptr: Any, n_rows: int, n_columns: int) -> sparse.csr_array:
    """A float64 CSR matrix from the three arrays of a file; a ValueError says what does not fit.

    SciPy's own checks let pass an ``indptr`` that ends in 0, after which its compiled functions write beyond the
    arrays. So nothing is handed to SciPy before these checks.

    Examples
    --------
    >>> csr_from_parts([2.0], [1], [0, 1, 1], 2, 3).toarray()
    array([[0., 2., 0.], [0., 0., 0.]])
    >>> csr_from_parts([], [], [0, 100000, 0], 2, 3)
    Traceback (most recent call last):
    ValueError: indptr must ascend from 0 to the number of indices, 0; it does not at place 1
    """
    values = float_array("data", data, (None,))
    columns, ends = (_whole_numbers(name, part) for name, part in (("indices", indices), ("indptr", indptr)))
    _check_indices(values, columns, ends, n_rows, n_columns)
    if not ends[-1] == len(columns) == len(values):
        raise ValueError(
            f"indptr must ascend from 0 to the number of indices and data, got {ends[-1]} for {len(columns)} and "
            f"{len(values)}"
        )
    return sparse.csr_array((values.copy(), columns, ends), shape=(n_rows, n_columns))


def _whole_numbers(name: str, value: Any) -> np.ndarray:
    """``value`` as a vector of int64, of which nothing was rounded or wrapped."""
    try:
        array = np.asarray(value)
    except ValueError as error:  # lists of unlike lengths
        raise ValueError(f"{name} must be a vector of integers: {error}") from None
    if array.size == 0 and array.ndim == 1:
        return np.zeros(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be a vector of integers, got {array.dtype} of shape {array.shape}")
    if array.dtype == np.uint64 and (array > np.iinfo(np.int64).max).any():
        raise ValueError(f"{name} must be below 2**63")
    return array.astype(np.int64)


def _check_indices(data: Any, indices: np.ndarray, indptr: np.ndarray, n_rows: int, n_columns: int) -> None:
    """Raise unless the three arrays are a compressed matrix of ``n_rows`` lines of ``n_columns`` places."""
    if len(indptr) != n_rows + 1:
        raise ValueError(f"indptr must have {n_rows + 1} numbers, one more than rows, got {len(indptr)}")
    if len(indices) < indptr[-1] or len(data) < indptr[-1]:
        place = n_rows
    elif indptr[0] != 0:
        place = 0
    elif (indptr[1:] < indptr[:-1]).any():
        place = int(np.flatnonzero(indptr[1:] < indptr[:-1])[0])
    else:
        place = -1
    if place >= 0:
        raise ValueError(
            f"indptr must ascend from 0 to the number of indices, {len(indices)}; it does not at place {place}"
        )
    used = indices[: indptr[-1]]
    if used.size and (used.min() < 0 or used.max() >= n_columns):
        odd = int(np.flatnonzero((used < 0) | (used >= n_columns))[0])
        raise ValueError(f"indices must be from 0 to {n_columns - 1}, got {used[odd]} at place {odd}")


def float_array(name: str, value: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    """``value`` as a finite, read-only float64 array of the given shape (None: any length)."""
    try:
        array = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be an array of numbers: {error}") from None
    if array.ndim == 1 and len(shape) > 1 and array.size == 0:
        array = array.reshape(tuple(length or 0 for length in shape))
    wanted = "(" + ", ".join("any" if length is None else str(length) for length in shape) + ")"
    if array.ndim != len(shape) or any(n is not None and n != m for n, m in zip(shape, array.shape, strict=True)):
        raise ValueError(f"{name} must have shape {wanted}, got {array.shape}")
    check_finite(name, array)
    return read_only(array)


def node_counts(n_samples: Any, weighted: Any, n_nodes: int) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The number and the weight of the rows at each node, each None where not known; no weight where it is the number.

    Fractional numbers of rows, as earlier versions stored them, are weights.

    Examples
    --------
    >>> node_counts([3, 1, 2], [3.0, 1.0, 2.0], 3)
    (array([3., 1., 2.]), None)
    >>> node_counts([1.5, 1.0, 0.5], None, 3)
    (None, array([1.5, 1. , 0.5]))
    """
    counts, weights = (
        None if value is None else float_array(name, value, (n_nodes,))
        for name, value in zip(NODE_COUNTS, (n_samples, weighted), strict=True)
    )
    if counts is not None and weights is None and (counts % 1).any():
        return None, counts
    if counts is not None and weights is not None and np.allclose(counts, weights, rtol=SAME_WEIGHT, atol=0):
        weights = None
    return counts, weights


def check_finite(name: str, array: np.ndarray) -> None:
    """Raise if ``array`` holds NaN or infinity, naming the first place."""
    finite = np.isfinite(array)
    if not finite.all():
        place = [int(i) for i in np.argwhere(~finite)[0]]
        raise ValueError(f"{name} must be finite, got {array[tuple(place)]} at index {place}")


def node_weights(weights: Any) -> np.ndarray | sparse.csr_array:
    """Node weights as a finite (n_splits, n_features) float64 array, dense or CSR."""
    if not sparse.issparse(weights):
        return float_array("weights", weights, (None, None))
    matrix = as_csr(weights).astype(np.float64)
    matrix.sum_duplicates()
    check_finite("weights", matrix.data)
    return matrix


def node_children(children: Any, n_splits: int) -> np.ndarray:
    """Children as an int64 (n_splits, 2) array that describes one tree rooted at node 0."""
    array = np.asarray(children)
    if array.size == 0 and n_splits == 0:
        return read_only(np.zeros((0, 2), dtype=np.int64))
    if array.shape != (n_splits, 2):
        raise ValueError(f"children must have shape ({n_splits}, 2), one row a split, got {array.shape}")
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"children must be integers, got dtype {array.dtype}")
    array = array.astype(np.int64)
    n_nodes = 2 * n_splits + 1
    outside = (array < 0) | (array >= n_nodes)
    if outside.any():
        node = int(np.argwhere(outside)[0, 0])
        raise ValueError(
            f"children of node {node} are {array[node].tolist()}, but the nodes are 0 to {n_nodes - 1}: "
            f"{n_splits} splits, then {n_splits + 1} leaves"
        )
    backward = array <= np.arange(n_splits)[:, None]
    if backward.any():
        node = int(np.argwhere(backward)[0, 0])
        raise ValueError(
            f"children of node {node} are {array[node].tolist()}: a child must have a higher number than "
            "its parent, or the tree would have a cycle"
        )
    parents = np.bincount(array.ravel(), minlength=n_nodes)
    if (parents[1:] != 1).any():
        node = int(np.flatnonzero(parents[1:] != 1)[0]) + 1
        raise ValueError(f"children must name every node but the root once, node {node} {parents[node]} times")
    return read_only(array)


def labels(classes: Any) -> np.ndarray:
    """Classes as an array; integers from 2^63 on, of which NumPy makes floats where others are below, stay whole.

    Examples
    --------
    >>> labels([2, 2**63 + 5])
    array([                  2, 9223372036854775813], dtype=uint64)
    """
    array = np.asarray(classes)
    if array.dtype.kind == "f" and isinstance(classes, list | tuple) and all(type(label) is int for label in classes):
        return np.asarray(classes, dtype=object if min(classes) < 0 else np.uint64)
    return array


def check_outputs(link: str, classes: np.ndarray | None, n_outputs: int, linear_leaves: bool) -> None:
    """Raise unless ``link``, ``classes`` and the width of the leaf values fit together."""
    if n_outputs == 0:
        raise ValueError("values must have at least one output per leaf, got none")
    if link not in LINKS:
        raise ValueError(f"link must be one of {', '.join(LINKS)}, got {link!r}")
    if link == "identity":
        if classes is not None:
            raise ValueError("classes must be None for link='identity'; a classifier needs another link")
        return
    if classes is None:
        raise ValueError(f"classes must be given for link={link!r}")
    if classes.ndim != 1 or not _distinct(classes.tolist()):
        raise ValueError(f"classes must be a vector of distinct labels, got {classes.tolist()}")
    wanted = (2, 1) if link == "logistic" else (len(classes), len(classes))
    if (len(classes), n_outputs) != wanted:
        raise ValueError(
            f"link={link!r} needs {wanted[0]} classes and {wanted[1]} outputs per leaf, "
            f"got {len(classes)} classes and {n_outputs} outputs"
        )
    if link == "probability" and linear_leaves:
        raise ValueError("leaf_weights must be None for link='probability'")


def feature_spreads(spreads: Any, n_features: int) -> np.ndarray | None:
    """Spreads of the features as a float array without negative numbers, or None."""
    if spreads is None:
        return None
    array = float_array("spreads", spreads, (n_features,))
    if (array < 0).any():
        feature = int(np.flatnonzero(array < 0)[0])
        raise ValueError(f"spreads must not be negative, got {array[feature]} at index {feature}")
    return array


def observed_rows(observed: Any, n_features: int) -> Observed | None:
    """What the training rows held, checked against the number of features."""
    if observed is None:
        return None
    if not isinstance(observed, Observed):
        raise TypeError(f"observed must be an Observed or None, got {type(observed).__name__}")
    if len(observed) != n_features:
        raise ValueError(f"observed must have {n_features} features, as the tree, got {len(observed)}")
    return observed


def missing_values(missing: Any, n_features: int) -> MissingValues | None:
    """How missing values are filled, checked against the number of features."""
    if missing is None:
        return None
    if not isinstance(missing, MissingValues):
        raise TypeError(f"missing must be a MissingValues or None, got {type(missing).__name__}")
    fills = np.asarray(missing.fills, dtype=np.float64)
    gaps = np.asarray(missing.gaps, dtype=np.int64)
    if fills.ndim != 1 or gaps.ndim != 1 or len(fills) + len(gaps) != n_features:
        raise ValueError(
            f"missing must have {n_features} columns and indicators together, as the tree has features, got "
            f"{fills.size} and {gaps.size}"
        )
    if np.isinf(fills).any():
        raise ValueError("missing.fills must be finite, or NaN where a missing value is an error")
    if len(np.unique(gaps)) < len(gaps) or not ((gaps >= 0) & (gaps < len(fills))).all():
        raise ValueError(f"missing.gaps must be distinct columns from 0 to {len(fills) - 1}, got {gaps.tolist()[:5]}")
    return MissingValues(read_only(fills), read_only(gaps))


def frame_columns(columns: Any, n_features: int, missing: Any) -> Any:
    """The columns of a data frame, checked against the number of features."""
    if columns is None:
        return None
    if not isinstance(columns, FrameColumns):
        raise TypeError(f"columns must be an encoder of columns or None, got {type(columns).__name__}")
    if len(columns.feature_names) != n_features:
        raise ValueError(f"columns must give the tree's {n_features} features, got {len(columns.feature_names)}")
    if missing is not None:
        raise ValueError("columns and missing cannot both be given: the columns say how missing values are filled")
    return columns


def _distinct(labels: list[Any]) -> bool:
    """Whether no two labels are equal; numbers and texts may stand together, which have no order."""
    try:
        return len(set(labels)) == len(labels)
    except TypeError:  # such as lists
        return False


def names_tuple(feature_names: Any, n_features: int) -> tuple[str, ...] | None:
    """Feature names as a tuple of distinct strings, one per feature, or None."""
    if feature_names is None:
        return None
    names = tuple(str(name) for name in feature_names)
    if len(names) != n_features:
        raise ValueError(f"feature_names must have {n_features} names, one per feature, got {len(names)}")
    if len(set(names)) != len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"feature_names must be distinct, {twice!r} is there more than once")
    return names
