"""Rows through a tree of plain arrays: validation of X, routing, and the outputs of linear leaves."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from treelu.tree.check import as_csr

Rows: TypeAlias = np.ndarray | sparse.csr_array

_BLOCK = 1 << 22  # numbers of X copied at a time: 32 MB of float64


def as_rows(X: Any, n_features: int, feature_names: tuple[str, ...] | None) -> Rows:
    """Rows to route: a 2-D numeric array or CSR of the right width; a frame's columns must be the names.

    Neither copies a numeric array nor makes a sparse one dense.
    """
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        columns = [str(name) for name in X.columns]
        if feature_names is not None and tuple(columns) != feature_names:
            raise ValueError(_columns_message(columns, feature_names))
        # A pandas frame has `.sparse` only when all its columns are sparse.
        X = X.sparse.to_coo() if hasattr(X, "sparse") else X.to_numpy()
    if sparse.issparse(X):
        rows: Any = as_csr(X)
    else:
        rows = np.asarray(X)
        if rows.dtype.kind not in "fiub":
            try:
                rows = rows.astype(np.float64)
            except (TypeError, ValueError) as error:
                raise ValueError(f"X must hold numbers: {error}") from None
    if rows.ndim != 2:
        raise ValueError(f"X must have two dimensions (rows, features), got shape {rows.shape}")
    if rows.shape[1] != n_features:
        raise ValueError(f"X must have {n_features} features, got {rows.shape[1]}")
    return rows


def _columns_message(columns: list[str], feature_names: tuple[str, ...]) -> str:
    unknown = [name for name in columns if name not in feature_names]
    missing = [name for name in feature_names if name not in columns]
    parts = []
    if unknown:
        parts.append(f"unknown: {', '.join(unknown[:5])}")
    if missing:
        parts.append(f"missing: {', '.join(missing[:5])}")
    if not parts:
        parts.append("the same names in another order; select them with X[list(tree.feature_names)]")
    return f"the columns of X must be the tree's feature names ({'; '.join(parts)})"


def csr_row(matrix: Any, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns and data of one row of a CSR matrix, without a copy."""
    span = slice(matrix.indptr[row], matrix.indptr[row + 1])
    return matrix.indices[span], matrix.data[span]


def dense_row(matrix: Rows, row: int) -> np.ndarray:
    """One row of a dense or CSR matrix as a dense vector."""
    if isinstance(matrix, np.ndarray):
        return matrix[row]
    columns, data = csr_row(matrix, row)
    dense = np.zeros(matrix.shape[1])
    dense[columns] = data
    return dense


def node_scores(X: Rows, rows: np.ndarray, weights: Rows, biases: np.ndarray, node: int) -> np.ndarray:
    """``weights @ x + bias`` of a node for some rows of X, copying a block of them at a time."""
    columns = None
    if isinstance(weights, np.ndarray) or not isinstance(X, np.ndarray):
        vector = dense_row(weights, node)
    else:
        columns, vector = csr_row(weights, node)
    step = max(1, _BLOCK // max(1, len(vector)))
    scores = np.empty(len(rows))
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        part = X[block] if columns is None else X[block[:, None], columns]
        scores[start : start + step] = part @ vector
    scores += biases[node]
    if not np.isfinite(scores).all():
        row = int(rows[~np.isfinite(scores)][0])
        raise ValueError(f"X must be finite: row {row} has NaN, infinity or numbers too large to add up")
    return scores


def route(X: Rows, weights: Rows, biases: np.ndarray, children: np.ndarray) -> np.ndarray:
    """The node number of each row's leaf. Only nodes that rows reach are visited, each with these rows only."""
    leaves = np.empty(X.shape[0], dtype=np.int64)
    stack = [(0, np.arange(X.shape[0]))]
    while stack:
        node, rows = stack.pop()
        if node >= len(children):
            leaves[rows] = node
        elif rows.size:
            right = node_scores(X, rows, weights, biases, node) >= 0
            stack += [(int(children[node, 0]), rows[~right]), (int(children[node, 1]), rows[right])]
    return leaves


def linear_outputs(X: Rows, leaves: np.ndarray, leaf_weights: np.ndarray) -> np.ndarray:
    """``leaf_weights @ x`` of each row's leaf (leaves counted from 0), of shape (n_rows, n_outputs)."""
    outputs = np.empty((len(leaves), leaf_weights.shape[1]))
    order = np.argsort(leaves, kind="stable")
    present, starts = np.unique(leaves[order], return_index=True)
    step = max(1, _BLOCK // max(1, X.shape[1]))
    for leaf, rows in zip(present, np.split(order, starts[1:]), strict=True):
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            outputs[block] = X[block] @ leaf_weights[leaf].T
    return outputs


def leaf_paths(children: np.ndarray) -> sparse.csr_array:
    """The nodes on the way to each leaf: a CSR matrix of ones of shape (n_leaves, n_nodes)."""
    n_splits = len(children)
    n_nodes = 2 * n_splits + 1
    parent = np.full(n_nodes, -1)
    parent[children] = np.arange(n_splits)[:, None]
    leaf, at = np.arange(n_splits + 1), np.arange(n_splits, n_nodes)
    steps = []
    while leaf.size:  # every leaf climbs one node a turn until it stands on the root
        steps.append((leaf, at))
        above = parent[at]
        leaf, at = leaf[above >= 0], above[above >= 0]
    rows = np.concatenate([leaf for leaf, _ in steps])
    nodes = np.concatenate([at for _, at in steps])
    ones = np.ones(len(rows), dtype=np.int64)
    return sparse.csr_array((ones, (rows, nodes)), shape=(n_splits + 1, n_nodes))
