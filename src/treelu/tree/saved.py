"""The state of a tree for saving, as arrays and JSON, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from treelu.tree import ObliqueTree
from treelu.tree.check import MAX_FEATURES, NODE_COUNTS, csr_from_parts
from treelu.tree.columns import columns_from_dict
from treelu.tree.missing import MissingValues
from treelu.tree.observed import Observed

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
    put_observed(tree.observed, arrays)
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
        observed=take_observed(arrays, n_features),
        missing=_restore_missing(arrays) if arrays.has("missing.fills") else None,
        columns=columns_from_dict(fields.any("columns")) if "columns" in fields else None,
        notes=tuple(fields.texts("notes")),
        **{name: arrays.floats(name, None) for name in NODE_COUNTS if arrays.has(name)},
    )


def _restore_missing(arrays: ArrayReader) -> MissingValues:
    return MissingValues(arrays.floats("missing.fills", None, gaps=True), arrays.integers("missing.gaps", None))


def put_observed(observed: Observed | None, arrays: ArrayWriter) -> None:
    """What the training rows held, as arrays."""
    if observed is None:
        return
    for name, ends in (("low", observed.low), ("high", observed.high)):
        arrays.put(f"observed.{name}", np.where(np.isfinite(ends), ends, np.nan))
    arrays.put("observed.integers", observed.integers.astype(np.int64))
    if observed.groups:
        arrays.put("observed.groups", np.concatenate([np.array(group, np.int64) for group in observed.groups]))
        arrays.put("observed.group_sizes", np.array([len(group) for group in observed.groups], np.int64))


def take_observed(arrays: ArrayReader, n_features: int) -> Observed | None:
    """The inverse of `put_observed`; None for a tree that does not know."""
    if not arrays.has("observed.low"):
        return None
    groups: tuple[tuple[int, ...], ...] = ()
    if arrays.has("observed.groups"):
        members, sizes = arrays.integers("observed.groups", None), arrays.integers("observed.group_sizes", None)
        if (sizes < 1).any() or sizes.sum() != len(members):
            raise ValueError(f"observed.group_sizes sum to {sizes.sum()}, and there are {len(members)} members")
        groups = tuple(tuple(part.tolist()) for part in np.split(members, np.cumsum(sizes)[:-1]))
    low, high = (arrays.floats(f"observed.{name}", n_features, gaps=True) for name in ("low", "high"))
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    return Observed(low, high, arrays.integers("observed.integers", n_features) != 0, groups)
