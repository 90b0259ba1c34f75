"""A tree as the page shows it: weights by strength, rows and classes at each node, leaves, paths of some rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treelu.report.cards import MAX_SPLITS, score_cards
from treelu.report.rows import Floats, HoldOut, Rows
from treelu.report.scores import number
from treelu.tree import ObliqueTree
from treelu.tree.rows import dense_row
from treelu.view.labels import set_parts

HISTOGRAM_BINS = 24
HISTOGRAM_CLASSES = 8  # more colours than this cannot be told apart in a bar


def describe_tree(tree: ObliqueTree, scale: Floats, rows: HoldOut | None, max_weights: int) -> dict[str, Any]:
    """Everything that the page draws of one tree, as plain lists and numbers.

    Weights are ranked by |weight| × scale; of more than `max_weights` the page carries the strongest of each node. Per
    node: ``n`` rows, ``weight`` where the tree counts weighted rows, ``mix`` (rows of each class, or mean target).
    """
    n_weights = int(np.count_nonzero(tree.weights.data if sparse.issparse(tree.weights) else tree.weights))
    n_rows_of_weights = tree.n_splits
    if tree.leaf_weights is not None:
        n_weights += int(np.count_nonzero(tree.leaf_weights))
        n_rows_of_weights += tree.n_leaves * tree.n_outputs
    complete = n_weights <= max_weights
    keep = None if complete else max(8, min(64, max_weights // n_rows_of_weights))
    result: dict[str, Any] = {
        "link": tree.link,
        "n_splits": tree.n_splits,
        "depth": tree.depth,
        "n_weights": n_weights,
        "complete": complete,
        "children": tree.children.tolist(),
        "biases": tree.biases.tolist(),
        "values": tree.values.tolist(),
        "weights": weights_by_strength(tree.weights, scale, keep),
        "leaf_weights": None,
        "cards": score_cards(tree, scale),
        "sets": _sets(tree),
    }
    if tree.leaf_weights is not None:
        flat = tree.leaf_weights.reshape(-1, tree.n_features)
        result["leaf_weights"] = weights_by_strength(flat, scale, keep)
    if rows is None:
        n, weight = (
            None if of_nodes is None else of_nodes.tolist() for of_nodes in (tree.n_samples, tree.weighted_n_samples)
        )
        result |= {"n": n, "weight": weight, "mix": None}
        result["leaves"] = _leaves(tree, _leaf_predictions(tree), result["n"], None)
        return result
    path = sparse.csr_array(tree.decision_path(rows.X))  # (n_rows, n_nodes)
    leaf = np.asarray(path @ np.r_[np.zeros(tree.n_splits, dtype=np.int64), np.arange(tree.n_leaves)])
    result |= _counts(path, rows)
    predictions = _leaf_predictions(tree) if tree.leaf_weights is None else _mean_predictions(tree, rows.X, leaf)
    result["leaves"] = _leaves(tree, predictions, result["n"], result["mix"])
    if tree.leaf_weights is not None:
        for entry, ends in zip(result["leaves"], _prediction_ranges(tree, rows.X, leaf), strict=True):
            entry["range"] = ends
    result["histograms"] = _histograms(tree, path, rows)
    result["paths"] = _paths(tree, path[rows.samples], rows.X[rows.samples])
    return result


def _sets(tree: ObliqueTree) -> dict[str, list[str]]:
    """The splits by a set of a category's levels: the column, and the condition in words."""
    found = {}
    for node in range(tree.n_splits if tree.n_splits <= MAX_SPLITS else 0):
        parts = set_parts(tree, node)
        if parts is not None:
            found[str(node)] = list(parts)
    return found


def weights_by_strength(weights: Rows, scale: Floats, keep: int | None) -> dict[str, list[Any]]:
    """The non-zero weights of each row, strongest (|weight| × spread) first, at most ``keep`` of them."""
    features, values, counts = [], [], []
    for i in range(weights.shape[0]):
        row = dense_row(weights, i)
        used = np.flatnonzero(row)
        order = np.argsort(-np.abs(row[used]) * scale[used], kind="stable")[:keep]
        features.append(used[order])
        values.append(row[used[order]])
        counts.append(len(used))
    offsets = np.cumsum([0] + [len(part) for part in features])
    return {
        "offsets": offsets.tolist(),
        "features": np.concatenate([[], *features]).astype(int).tolist(),
        "values": np.concatenate([[], *values]).tolist(),
        "counts": counts,
    }


def _counts(path: sparse.csr_array, rows: HoldOut) -> dict[str, Any]:
    """Rows at each node and their classes or mean target."""
    n = np.asarray(path.sum(axis=0)).ravel()
    if rows.target is None:
        return {"n": n.tolist(), "weight": None, "mix": None}
    if rows.n_classes is not None:
        one_hot = np.eye(rows.n_classes, dtype=np.int64)[rows.target]
        return {"n": n.tolist(), "weight": None, "mix": (path.T @ one_hot).tolist()}
    sums = path.T @ rows.target
    means = [float(s / m) if m else None for s, m in zip(sums, n, strict=True)]
    return {"n": n.tolist(), "weight": None, "mix": means}


def _leaves(
    tree: ObliqueTree, predictions: list[Floats | None], n: list[float] | None, mix: list[Any] | None
) -> list[dict[str, Any]]:
    """One entry per leaf: depth, rows, prediction and what was observed there."""
    depths = tree.node_depths()[tree.n_splits :]
    total = n[0] if n else 0
    leaves = []
    for j, prediction in enumerate(predictions):
        node = tree.n_splits + j
        leaves.append(
            {
                "node": node,
                "depth": int(depths[j]),
                "n": n[node] if n else None,
                "share": n[node] / total if n and total else None,
                "prediction": None if prediction is None else prediction.tolist(),
                "observed": mix[node] if mix else None,
            }
        )
    return leaves


def _leaf_predictions(tree: ObliqueTree) -> list[Floats | None]:
    """Probabilities or values of each leaf; None for linear leaves."""
    return list(tree.link_outputs(tree.values)) if tree.leaf_weights is None else [None] * tree.n_leaves


def _mean_predictions(tree: ObliqueTree, X: Rows, leaf: NDArray[np.int64]) -> list[Floats | None]:
    """Mean over the rows of each linear leaf, None where there is no row."""
    predicted = tree.link_outputs(tree.decision_function(X))
    return [predicted[leaf == j].mean(axis=0) if (leaf == j).any() else None for j in range(tree.n_leaves)]


def _prediction_ranges(tree: ObliqueTree, X: Rows, leaf: NDArray[np.int64]) -> list[list[list[float]] | None]:
    """Lowest and highest prediction of each output over the rows of each linear leaf, None where there is no row."""
    predicted = tree.link_outputs(tree.decision_function(X))
    of_leaves = [predicted[leaf == j] for j in range(tree.n_leaves)]
    return [[part.min(axis=0).tolist(), part.max(axis=0).tolist()] if len(part) else None for part in of_leaves]


def _node_scores(tree: ObliqueTree, X: Rows, node: int) -> Floats:
    return X @ tree.node_weights(node) + tree.biases[node]


def _histograms(tree: ObliqueTree, path: sparse.csr_array, rows: HoldOut) -> list[dict[str, Any] | None]:
    """How the rows at each split spread over its score, by class; the split's threshold 0 is a bin edge.

    A split by a set has none: its score has two values.
    """
    columns = sparse.csc_array(path)
    by_class = rows.target is not None and rows.n_classes is not None and rows.n_classes <= HISTOGRAM_CLASSES
    sets = _sets(tree)
    result: list[dict[str, Any] | None] = []
    for node in range(tree.n_splits):
        at = columns.indices[columns.indptr[node] : columns.indptr[node + 1]]
        if not len(at) or str(node) in sets:
            result.append(None)
            continue
        scores = _node_scores(tree, rows.X[at], node)
        edges = bin_edges(float(scores.min()), float(scores.max()))
        groups = rows.target[at] if by_class and rows.target is not None else np.zeros(len(at), dtype=int)
        n_groups = (rows.n_classes or 1) if by_class else 1
        counts = [np.histogram(scores[groups == k], edges)[0].tolist() for k in range(n_groups)]
        result.append({"low": float(edges[0]), "width": float(edges[1] - edges[0]), "counts": counts})
    return result


def bin_edges(low: float, high: float) -> Floats:
    """Some two dozen bins of equal width over [low, high] and 0, with an edge at 0."""
    low, high = min(low, 0.0), max(high, 0.0)
    width = (high - low) / HISTOGRAM_BINS or 1.0
    below, above = (int(np.ceil(reach / width - 1e-9)) for reach in (-low, high))
    edges = width * np.arange(-below, max(above, 1) + 1, dtype=np.float64)
    edges[0], edges[-1] = min(edges[0], low), max(edges[-1], high)  # rounding may have left an end outside
    return edges


def _paths(tree: ObliqueTree, path: sparse.csr_array, X: Rows) -> list[dict[str, list[Any]]]:
    """The nodes that each row passes and its score at each split; node numbers grow along a path."""
    result = []
    for i in range(X.shape[0]):
        nodes = np.sort(path.indices[path.indptr[i] : path.indptr[i + 1]])
        scores = [number(_node_scores(tree, X[[i]], node)[0]) for node in nodes[:-1]]
        result.append({"nodes": nodes.tolist(), "scores": scores})
    return result
