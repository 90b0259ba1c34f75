"""The rows that `partial_fit` keeps, as arrays and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from treelu.estimators._stream import Stream
from treelu.persistence.values import ArrayReader, ArrayWriter, Fields, ModelFileError

_FLOATS = ("float32", "float64")


def describe_stream(stream: Stream, arrays: ArrayWriter) -> dict[str, Any]:
    """A stream as JSON; its rows go into `arrays`."""
    if hasattr(stream.X, "tocsr"):
        arrays.put("entries", stream.X.data)
        arrays.put("columns", stream.X.indices.astype(np.int64))
        arrays.put("starts", stream.X.indptr.astype(np.int64))
    else:
        arrays.put("rows", stream.X)
    arrays.put("y", stream.y.astype(np.int64 if stream.y.dtype.kind in "iu" else np.float64))
    arrays.put("weight", stream.weight)
    arrays.put("keys", stream.keys)
    return {
        "dtype": stream.X.dtype.name,
        "n_seen": stream.n_seen,
        "n_fitted": stream.n_fitted,
        "n_pieces": stream.n_pieces,
    }


def restore_stream(fields: Fields, arrays: ArrayReader, estimator: Any) -> Stream:
    """The inverse of `describe_stream`, for the estimator that it belongs to."""
    keys = arrays.floats("keys", None)
    n_rows, n_seen, n_fitted = len(keys), fields.whole("n_seen"), fields.whole("n_fitted")
    weight = arrays.floats("weight", n_rows)
    if hasattr(estimator, "classes_"):
        y = arrays.integers("y", n_rows)
        right = bool(((y >= 0) & (y < len(estimator.classes_))).all())
    else:
        outputs = () if estimator.n_outputs_ is None else (estimator.n_outputs_,)
        y, right = arrays.floats("y", n_rows, *outputs), True
    if not right or not n_rows or n_fitted > n_seen or n_rows > n_seen or not (weight >= 0).all() or weight.max() <= 0:
        raise ModelFileError(f"{fields.where}: the kept rows do not belong to this estimator")
    X = _rows(fields, arrays, n_rows, estimator)
    return Stream(X, y, weight, keys, n_seen, n_fitted, fields.whole("n_pieces", low=1))


def _rows(fields: Fields, arrays: ArrayReader, n_rows: int, estimator: Any) -> Any:
    """The features, dense or CSR; NaN where the estimator takes it."""
    dtype, width = fields.text("dtype"), int(estimator.n_features_in_)
    if dtype not in _FLOATS:
        raise ModelFileError(f"{fields.where}: rows of {dtype!r} are not known")
    gaps = estimator.missing == "indicator"
    if not arrays.has("starts"):
        return arrays.floats("rows", n_rows, width, dtype=np.dtype(dtype), gaps=gaps)
    values = arrays.floats("entries", None, dtype=np.dtype(dtype), gaps=gaps)
    columns, starts = arrays.integers("columns", len(values)), arrays.integers("starts", n_rows + 1)
    ascend = starts[0] == 0 and starts[-1] == len(values) and bool((starts[1:] >= starts[:-1]).all())
    if not ascend or (len(columns) and not 0 <= columns.min() <= columns.max() < width):
        raise ModelFileError(f"{fields.where}: the kept rows are no sparse table of {width} features")
    return sparse.csr_array((values, columns, starts), shape=(n_rows, width))
