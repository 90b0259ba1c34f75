"""An ObliqueTree as JSON and back, exactly.

The schema, version 1. All keys but those of `_OPTIONAL` must be there; numbers are written so that they read
back to the same float64.

- ``format``: ``"treelu.tree"``; ``version``: ``1``
- ``n_features``: number of features; ``feature_names``: list of strings, or null
- ``link``: ``"identity"``, ``"logistic"``, ``"softmax"`` or ``"probability"``
- ``classes``: list of labels (numbers, strings or booleans), or null for regression
- ``weights``: one list of ``n_features`` numbers a split; or, sparse, an object with ``indptr``, ``indices``
  and ``data`` as in the CSR format, one row a split
- ``biases``: one number per split; a row goes right where ``weights · x + bias >= 0``
- ``children``: one pair [left, right] of node numbers a split; splits are numbered from 0 (the root), a child
  higher than its parent, then the leaves
- ``values``: one list of outputs per leaf
- ``leaf_weights``: null, or for linear leaves one list a leaf of one list an output of ``n_features`` numbers
- ``n_samples``: null, or the number of rows that reach each node, one per node
- ``weighted_n_samples``: only where it is not the number of rows, their total weight, one per node
- ``spreads``: null or missing where not known, or the standard deviation of each feature over the training rows
- ``observed``: only where known what the training rows held, an object with ``low`` and ``high``, the range of each
  feature (null where not known), ``integers``, whether all its values were, and ``groups``, lists of the features of
  one-hot groups
- ``missing``: only where the tree accepts missing values, an object with ``fills``, what fills a missing value of each
  column (null where it is an error), and ``gaps``, the columns whose indicators (1 where missing) are the last features
- ``columns``: only where the features were made of the columns of a data frame, how each column was: see
  :meth:`treelu.tables.TableEncoder.to_dict`
- ``notes``: list of strings, what was done to the tree and what that kept exact
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from typing import Any

import numpy as np
from scipy import sparse

from treelu.tree import ObliqueTree
from treelu.tree.check import MAX_FEATURES, MAX_UNSTORED, NODE_COUNTS, csr_from_parts
from treelu.tree.columns import FrameColumns, columns_from_dict
from treelu.tree.missing import MissingValues
from treelu.tree.observed import Observed

FORMAT, VERSION = "treelu.tree", 1
_ARRAYS = ("biases", "children", "values", "leaf_weights", "classes", *NODE_COUNTS, "spreads")
_FIELDS = (
    "format", "version", "n_features", "feature_names", "link", "weights", *_ARRAYS, "observed", "missing", "columns",
    "notes",
)  # fmt: skip
_OPTIONAL = ("spreads", "weighted_n_samples", "observed", "missing", "columns")  # trees written by 0.1 do not have them


def to_dict(tree: ObliqueTree) -> dict[str, Any]:
    """The tree as plain lists, numbers and strings, in the schema of this module.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0, -1.0]], [0.5], [[1, 2]], [[0], [1]])
    >>> data = to_dict(tree)
    >>> data["weights"], data["children"]
    ([[1.0, -1.0]], [[1, 2]])
    >>> from_dict(data) == tree
    True
    """
    return _fields(tree)


def _fields(tree: ObliqueTree, without: Collection[str] = ()) -> dict[str, Any]:
    """The fields of the schema in their order; those named in ``without`` are None."""
    names, weights = tree.feature_names, tree.weights
    absent = ("weighted_n_samples",) if tree.weighted_n_samples is None else ()  # 0.1 does not know it
    return {
        "format": FORMAT,
        "version": VERSION,
        "n_features": tree.n_features,
        "feature_names": None if names is None else list(names),
        "link": tree.link,
        "weights": None if "weights" in without else _to_list(weights),
        **{name: None if name in without else _to_list(getattr(tree, name)) for name in _ARRAYS if name not in absent},
        **({} if tree.observed is None else {"observed": _observed_to_dict(tree.observed)}),
        **({} if tree.missing is None else {"missing": _missing_to_dict(tree.missing)}),
        **({} if tree.columns is None else {"columns": tree.columns.to_dict()}),
        "notes": list(tree.notes),
    }


def to_json(tree: ObliqueTree) -> str:
    """The tree as JSON text.

    Examples
    --------
    >>> tree = ObliqueTree([[0.1, -1e-300]], [1 / 3], [[1, 2]], [[0], [1]])
    >>> from_json(to_json(tree)) == tree
    True
    """
    big = [name for name in ("weights", "leaf_weights") if isinstance(getattr(tree, name), np.ndarray)]
    try:
        fields = {name: _text(value) for name, value in _fields(tree, without=big).items()}
    except TypeError as error:
        raise TypeError(f"classes must be numbers, strings or booleans to be written as JSON: {error}") from None
    for name in big:  # a row at a time: as Python's numbers they would need many times the memory of their text
        fields[name] = "[" + ", ".join(_text(row.tolist()) for row in getattr(tree, name)) + "]"
    return "{" + ", ".join(f'"{name}": {text}' for name, text in fields.items()) + "}"


def _text(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def from_dict(data: dict[str, Any]) -> ObliqueTree:
    """The tree that :func:`to_dict` wrote; a ValueError names the field that does not fit."""
    if not isinstance(data, dict):
        raise ValueError(f"data must be an object with the keys of a tree, got {type(data).__name__}")
    if data.get("format") != FORMAT:
        raise ValueError(f"format must be {FORMAT!r}, got {data.get('format')!r}")
    if data.get("version") != VERSION:
        raise ValueError(f"version must be {VERSION}, got {data.get('version')!r}")
    missing = [name for name in _FIELDS if name not in data and name not in _OPTIONAL]
    if missing:
        raise ValueError(f"{missing[0]} is missing; a tree has the keys {', '.join(_FIELDS)}")
    unknown = [name for name in data if name not in _FIELDS]
    if unknown:
        raise ValueError(f"{unknown[0]} is not a key of a tree; they are {', '.join(_FIELDS)}")
    n_features = data["n_features"]
    if not isinstance(n_features, int) or isinstance(n_features, bool) or not 0 <= n_features <= MAX_FEATURES:
        raise ValueError(f"n_features must be an integer from 0 to {MAX_FEATURES}, got {n_features!r}")
    names, notes = data["feature_names"], data["notes"]
    if names is not None and not _is_strings(names):
        raise ValueError("feature_names must be a list of strings or null")
    if not _is_strings(notes):
        raise ValueError("notes must be a list of strings")
    arrays: dict[str, Any] = {name: data.get(name) for name in _ARRAYS}
    return ObliqueTree(
        _weights(data["weights"], n_features),
        **arrays,
        link=data["link"],
        feature_names=None if names is None else tuple(names),
        observed=_observed(data.get("observed")),
        missing=_missing(data.get("missing")),
        columns=_columns(data.get("columns")),
        notes=tuple(notes),
    )


def from_json(text: str | bytes) -> ObliqueTree:
    """The tree that :func:`to_json` wrote."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ValueError(f"text must be JSON: {error}") from None
    tree = from_dict(data)
    if tree.n_features > MAX_UNSTORED + len(text):
        raise ValueError(f"n_features is {tree.n_features:,} in a text of {len(text):,} characters: it was altered")
    return tree


def _is_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _to_list(array: np.ndarray | sparse.csr_array | None) -> Any:
    if array is None or isinstance(array, np.ndarray):
        return None if array is None else array.tolist()
    return {name: getattr(array, name).tolist() for name in ("indptr", "indices", "data")}


def _observed_to_dict(observed: Observed) -> dict[str, Any]:
    ends = {name: [end if math.isfinite(end) else None for end in getattr(observed, name).tolist()]
            for name in ("low", "high")}  # fmt: skip
    return {**ends, "integers": observed.integers.tolist(), "groups": [list(group) for group in observed.groups]}


def _observed(observed: Any) -> Observed | None:
    """The field `observed`; whether it fits the tree is checked by the tree."""
    if observed is None:
        return None
    names = {"low", "high", "integers", "groups"}
    if not isinstance(observed, dict) or set(observed) != names:
        raise ValueError(f"observed must be an object with the keys {', '.join(sorted(names))}, got {observed!r:.100}")
    low, high, integers, groups = (observed[name] for name in ("low", "high", "integers", "groups"))
    if not all(isinstance(ends, list) and all(type(end) in (int, float, type(None)) for end in ends)
               for ends in (low, high)):  # fmt: skip
        raise ValueError("observed.low and observed.high must be lists of numbers or nulls")
    if not isinstance(integers, list) or not all(type(one) is bool for one in integers):
        raise ValueError("observed.integers must be a list of true and false")
    if not isinstance(groups, list) or not all(
        isinstance(group, list) and all(type(j) is int for j in group) for group in groups
    ):
        raise ValueError("observed.groups must be lists of feature numbers")
    first, last = (np.array([infinite if end is None else end for end in given], np.float64)
                   for given, infinite in ((low, -np.inf), (high, np.inf)))  # fmt: skip
    return Observed(first, last, np.array(integers, dtype=bool), tuple(map(tuple, groups)))


def _missing_to_dict(missing: MissingValues) -> dict[str, Any]:
    fills = [None if math.isnan(value) else value for value in missing.fills.tolist()]
    return {"fills": fills, "gaps": missing.gaps.tolist()}


def _missing(missing: Any) -> MissingValues | None:
    """The field `missing`; what it holds is checked by the tree."""
    if missing is None:
        return None
    if not isinstance(missing, dict) or set(missing) != {"fills", "gaps"}:
        raise ValueError(f"missing must be null or an object with the keys fills and gaps, got {missing!r:.100}")
    fills, gaps = missing["fills"], missing["gaps"]
    known = isinstance(fills, list) and all(isinstance(value, int | float | None) for value in fills)
    if not known or not isinstance(gaps, list) or not all(type(gap) is int for gap in gaps):
        raise ValueError("missing.fills must be a list of numbers or nulls, missing.gaps one of column numbers")
    filled = np.array([math.nan if value is None else value for value in fills], np.float64)
    return MissingValues(filled, np.array(gaps, np.int64))


def _columns(columns: Any) -> FrameColumns | None:
    """The field `columns`; a ValueError where it is no encoding of columns."""
    if columns is None:
        return None
    try:
        return columns_from_dict(columns)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"columns must be those of TableEncoder.to_dict: {error!r}") from None


def _weights(weights: Any, n_features: int) -> Any:
    """The weights field as a dense array or a CSR matrix of width ``n_features``."""
    if not isinstance(weights, dict):
        if weights == []:
            return np.zeros((0, n_features))
        if not isinstance(weights, list) or not all(
            isinstance(row, list) and len(row) == n_features for row in weights
        ):
            raise ValueError(f"weights must be lists of n_features = {n_features} numbers, one per split")
        return weights
    if set(weights) != {"indptr", "indices", "data"}:
        raise ValueError(f"weights must have the keys indptr, indices and data, got {', '.join(weights)}")
    data, indices, indptr = (weights[name] for name in ("data", "indices", "indptr"))
    if not isinstance(indptr, list) or not indptr:
        raise ValueError("weights.indptr must be a list of at least one number")
    try:
        return csr_from_parts(data, indices, indptr, len(indptr) - 1, n_features)
    except ValueError as error:
        raise ValueError(f"weights are not a CSR matrix of width {n_features}: {error}") from None
