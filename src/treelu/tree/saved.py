"""The state of a tree for saving, as arrays and JSON, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from treelu.tree import ObliqueTree
from treelu.tree.check import MAX_FEATURES, NODE_COUNTS, csr_from_parts
from treelu.tree.columns import columns_from_dict
from treelu.tree.missing import MissingValues

if TYPE_CHECKING:
    from treelu.persistence.values import ArrayReader, ArrayWriter, Fields


def describe_tree(tree: ObliqueTree, arrays: ArrayWriter) -> dict[str, Any]:
    """A tree as JSON; its arrays go into `arrays`."""
    weights = tree.weights
    if isinstance(weights, np.ndarray):
        arrays.put("weights", weights)
    else:
        arrays.put("weights.data", weights.data)
        arrays.put("weights.indices", weights.indices.astype(np.int64))
        arrays.put("weights.indptr", weights.indptr.astype(np.int64))
    for name in ("biases", "children", "values", "leaf_weights", *NODE_COUNTS, "spreads"):
        if getattr(tree, name) is not None:
            arrays.put(name, getattr(tree, name))
    if tree.missing is not None:
        arrays.put("missing.fills", tree.missing.fills)
        arrays.put("missing.gaps", tree.missing.gaps)
    return {
        "n_features": tree.n_features,
        "link": tree.link,
        "classes": None if tree.classes is None else arrays.labels(tree.classes),
        "feature_names": None if tree.feature_names is None else list(tree.feature_names),
        "notes": list(tree.notes),
        **({} if tree.columns is None else {"columns": tree.columns.to_dict()}),
    }


def restore_tree(fields: Fields, arrays: ArrayReader) -> ObliqueTree:
    """The inverse of `describe_tree`."""
    n_features = fields.whole("n_features", high=MAX_FEATURES)
    biases = arrays.floats("biases", None)
    n_splits = len(biases)
    weights: Any
    if arrays.has("weights"):
        weights = arrays.floats("weights", n_splits, n_features)
    else:
        data = arrays.floats("weights.data", None)
        indptr = arrays.integers("weights.indptr", n_splits + 1)
        weights = csr_from_parts(data, arrays.integers("weights.indices", len(data)), indptr, n_splits, n_features)
    leaf_weights = arrays.floats("leaf_weights", None, None, None) if arrays.has("leaf_weights") else None
    return ObliqueTree(
        weights,
        biases,
        arrays.integers("children", n_splits, 2),
        arrays.floats("values", n_splits + 1, None),
        leaf_weights=leaf_weights,
        link=fields.text("link"),
        classes=fields.labels("classes") if "classes" in fields else None,
        feature_names=tuple(fields.texts("feature_names")) if "feature_names" in fields else None,
        spreads=arrays.floats("spreads", n_features) if arrays.has("spreads") else None,
        missing=_restore_missing(arrays) if arrays.has("missing.fills") else None,
        columns=columns_from_dict(fields.any("columns")) if "columns" in fields else None,
        notes=tuple(fields.texts("notes")),
        **{name: arrays.floats(name, None) for name in NODE_COUNTS if arrays.has(name)},
    )


def _restore_missing(arrays: ArrayReader) -> MissingValues:
    return MissingValues(arrays.floats("missing.fills", None, gaps=True), arrays.integers("missing.gaps", None))
