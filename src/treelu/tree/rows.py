"""Rows through a tree of plain arrays: validation of X, routing, and the outputs of linear leaves.

One row has one answer: it depends neither on the other rows of X, nor on whether X or the weights are sparse, nor on
the processor. So the arithmetic is fixed to the last bit. The score of a row x at a node with weights w and bias b is

    ((w_i x_i + w_j x_j) + w_k x_k) + … + b        i < j < k < …: the features whose weight is not 0

in IEEE double precision, rounded to nearest: x is converted to double first, every product is rounded once, the
products are added from left to right, each addition rounded once, no multiplication and addition are fused, the bias
comes last. The row goes right where the score is ``>= 0``. A node without weights has the score b. Terms with
``x_i = 0`` add nothing, so they may be left out; a feature with weight 0 is not read, whatever it holds. The output of
a linear leaf is the same sum with the leaf's weights and, last, its value. Exports of a tree that compute in double in
this order agree with it on every row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from treelu.kernels import compiled
from treelu.tree.check import as_csr
from treelu.tree.names import shown_name

Rows: TypeAlias = np.ndarray | sparse.csr_array

NO_NUMBERS = {"m": "durations", "M": "dates or times", "c": "complex numbers"}  # by NumPy's kind of dtype

# The same by how libraries of frames name types: pandas, pyarrow, Polars.
_NO_COLUMNS = {
    **dict.fromkeys(("timedelta", "duration", "month_day"), "durations"),
    **dict.fromkeys(("date", "time"), "dates or times"),  # timestamps as well
    **dict.fromkeys(("category of", "dictionary", "categorical", "enum"), "a category"),
    **dict.fromkeys(("string", "large_string", "utf8"), "text"),
    "complex": "complex numbers",
}
_REMEDIES = {
    "durations": "turn them into numbers first, such as days",
    "dates or times": "turn them into numbers first, such as days or years",
    "complex numbers": "turn them into real numbers first",
    "text": "encode it first, for example with scikit-learn's OneHotEncoder",
}
_ENCODE = (
    "encode it first, for example with scikit-learn's OneHotEncoder, or make numbers of it where they are amounts, "
    "with astype(float)"
)

_BLOCK = 1 << 18  # numbers of X copied at a time: 2 MB of float64, which stay in a processor's cache
_SMALL = 1 << 12
_NOT_FINITE = "X must be finite: row {} has NaN, infinity or numbers too large to add up"


def as_rows(X: Any, n_features: int, feature_names: tuple[str, ...] | None) -> Rows:
    """Rows to route: a 2-D numeric array or CSR of the right width; a frame's columns must be the names.

    Neither copies a numeric array nor makes a sparse one dense.
    """
    if type(X) is np.ndarray and X.dtype.kind in "fiub" and X.ndim == 2 and X.shape[1] == n_features:
        return X
    X = _arrow_as_frame(X)
    if is_frame(X):
        columns = [str(name) for name in X.columns]
        if feature_names is not None and tuple(columns) != feature_names:
            raise ValueError(_columns_message(columns, feature_names))
        # A pandas frame has `.sparse` only when all its columns are sparse.
        refuse_columns(X)
        X = X.sparse.to_coo() if hasattr(X, "sparse") else _frame_values(X)
    if sparse.issparse(X):
        rows: Any = _ordered(as_csr(X))
    else:
        refuse_mask("X", X, "fill them first")
        rows = np.asarray(X)
    if rows.dtype.kind in NO_NUMBERS:
        raise ValueError(f"X must hold numbers, got {NO_NUMBERS[rows.dtype.kind]} ({rows.dtype})")
    if isinstance(rows, np.ndarray) and rows.dtype.kind not in "fiub":
        try:
            rows = rows.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"X must hold numbers: {error}") from None
    if rows.ndim != 2:
        raise ValueError(f"X must have two dimensions (rows, features), got shape {rows.shape}")
    if rows.shape[1] != n_features:
        raise ValueError(f"X must have {n_features} features, got {rows.shape[1]}")
    return rows


def _frame_values(X: Any) -> np.ndarray:
    """The values of a frame; pandas' nullable numbers and truth values as floats, NaN where one is missing."""
    kinds = getattr(X, "dtypes", ())
    if hasattr(X, "iloc") and any(not isinstance(kind, np.dtype) and kind.kind in "biuf" for kind in kinds):
        columns = zip((column for _, column in X.items()), kinds, strict=True)
        return np.column_stack([
            column.to_numpy(np.float64, na_value=np.nan) if kind.kind in "biuf" else column.to_numpy()
            for column, kind in columns
        ])  # fmt: skip
    return X.to_numpy()


def refuse_mask(name: str, values: Any, remedy: str = "leave out the rows that have them") -> None:
    """Raise if an array has masked entries: NumPy would read what is under the mask."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{name} has masked entries; {remedy}")


def _ordered(matrix: Any) -> Any:
    """A CSR matrix with the columns of each row ascending, each once: itself where it is so, else a copy."""
    if matrix.has_canonical_format:
        return matrix
    matrix = matrix.copy()
    matrix.sum_duplicates()
    return matrix


def is_frame(X: Any) -> bool:
    """Whether X has named columns, as a DataFrame or a pyarrow Table has."""
    return hasattr(X, "columns") and (hasattr(X, "to_numpy") or hasattr(X, "to_pandas"))


def _arrow_as_frame(X: Any, names: Sequence[str] | None = None) -> Any:
    """A pyarrow Table, which NumPy would read without its names, as a DataFrame; anything else as it is.

    Dates are refused here, in all columns or those of these names: in a DataFrame they may be plain objects.
    """
    if not is_frame(X) or hasattr(X, "to_numpy"):
        return X
    refuse_columns(X if names is None else X.select([name for name in column_names(X) if name in names]))
    return X.to_pandas()


def one_row_table(x: Any, feature_names: tuple[str, ...] | None) -> Any:
    """One row as a table of one: a Series with its names where there are some to compare them with.

    Examples
    --------
    >>> import pandas as pd
    >>> one_row_table(pd.Series({"b": 2.0, "a": 1.0}), ("a", "b")).columns.tolist()
    ['b', 'a']
    >>> one_row_table([2.0, 1.0], ("a", "b"))
    array([[2., 1.]])
    """
    if hasattr(x, "index") and hasattr(x, "to_frame") and getattr(x, "ndim", 0) == 1:
        named = feature_names is not None and x.index.dtype.kind not in "iu"
        return x.to_frame().T if named else x.to_numpy()[None]
    if hasattr(x, "tocsr") or is_frame(x):
        return x
    return np.asanyarray(x)[None] if np.ndim(x) == 1 else x


def column_names(X: Any) -> list[str]:
    """The names of a frame's columns; a pyarrow Table has them beside its columns."""
    names = getattr(X, "column_names", None)
    return [str(name) for name in (X.columns if names is None else names)]


def refuse_columns(X: Any) -> None:
    """Raise where a frame has a column of dates, durations or categories, which NumPy may read as numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> refuse_columns(pd.DataFrame({"zip": pd.Series([8001, 3012], dtype="category")}))
    Traceback (most recent call last):
    ...
    ValueError: X must hold numbers, got a category in column 'zip' (category of int64); encode it first, for example \
with scikit-learn's OneHotEncoder, or make numbers of it where they are amounts, with astype(float)
    """
    for name, kind in zip(column_names(X), _column_types(X), strict=True):
        what = next((what for start, what in _NO_COLUMNS.items() if kind.lower().startswith(start)), None)
        if what is not None:
            raise ValueError(
                f"X must hold numbers, got {what} in column {shown_name(name)!r} ({kind}); "
                f"{_REMEDIES.get(what, _ENCODE)}"
            )


def _column_types(X: Any) -> list[str]:
    """The type of each column as its library names it."""
    if hasattr(X, "schema") and hasattr(X, "column_names"):  # pyarrow
        return [str(kind) for kind in X.schema.types]
    kinds = getattr(X, "dtypes", ())
    return [f"category of {kind.categories.dtype}" if str(kind) == "category" else str(kind) for kind in kinds]


def named_rows(X: Any, feature_names: tuple[str, ...], used: np.ndarray) -> Rows:
    """The used features of a frame, found by name, in a matrix of all features; the others are 0.

    Examples
    --------
    >>> import pandas as pd
    >>> named_rows(pd.DataFrame({"c": [3.0], "b": [2.0], "note": ["new"]}), ("a", "b", "c"), np.array([1, 2]))
    array([[0., 2., 3.]])
    """
    X = _arrow_as_frame(X, [feature_names[feature] for feature in used])
    columns = [str(name) for name in X.columns]
    place = {name: column for column, name in enumerate(columns)}
    if len(place) < len(columns):
        twice = next(name for i, name in enumerate(columns) if name in columns[:i])
        raise ValueError(f"the columns of X must have distinct names, {shown_name(twice)!r} is there more than once")
    missing = [feature_names[feature] for feature in used if feature_names[feature] not in place]
    if missing:
        raise ValueError(
            f"X must have the columns that the tree uses; missing: {_some_names(missing)}; X has {_some_names(columns)}"
        )
    wanted = [place[feature_names[feature]] for feature in used]
    if len(used) == len(columns) == len(feature_names) and wanted == list(range(len(columns))):
        return as_rows(X, len(feature_names), feature_names)
    if not wanted:
        return np.zeros((len(X), len(feature_names)))
    part = X.iloc[:, wanted] if hasattr(X, "iloc") else X[[columns[i] for i in wanted]]
    rows = as_rows(part, len(used), None)
    shape = (rows.shape[0], len(feature_names))
    if not isinstance(rows, np.ndarray):
        return sparse.csr_array((rows.data, used[rows.indices], rows.indptr), shape=shape)
    full = np.zeros(shape, dtype=np.result_type(rows.dtype, np.float32))
    full[:, used] = rows
    return full


def _some_names(names: list[str]) -> str:
    """The first five names on one line."""
    return ", ".join(shown_name(name) for name in names[:5]) + (", …" if len(names) > 5 else "") or "no columns"


def _columns_message(columns: list[str], feature_names: tuple[str, ...]) -> str:
    unknown = [name for name in columns if name not in feature_names]
    missing = [name for name in feature_names if name not in columns]
    parts = []
    if unknown:
        parts.append(f"unknown: {_some_names(unknown)}")
    if missing:
        parts.append(f"missing: {_some_names(missing)}")
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


def dense(matrix: Any) -> np.ndarray:
    """A dense or sparse matrix as a dense array; not copied where it is one."""
    return matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)


def take_rows(X: Any, rows: np.ndarray) -> Any:
    """Some rows of an array, a DataFrame or a CSR matrix, by their numbers."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def node_scores(X: Rows, rows: np.ndarray, weights: Rows, biases: np.ndarray, node: int) -> np.ndarray:
    """The scores of some rows of X at a node, in the order of summation that the module's first lines fix."""
    columns = None if isinstance(weights, np.ndarray) else csr_row(weights, node)[0]
    scores = linear_form(X, rows, dense_row(weights, node), columns)
    scores += biases[node]
    _check_finite(scores, rows)
    return scores


def _check_finite(sums: np.ndarray, rows: np.ndarray) -> None:
    if not np.isfinite(sums).all():
        row = int(rows[~np.isfinite(sums)][0])
        raise ValueError(_NOT_FINITE.format(row))


def linear_form(X: Rows, rows: np.ndarray, weights: np.ndarray, columns: np.ndarray | None = None) -> np.ndarray:
    """``X[rows] @ weights``, each sum from the first feature to the last, copying a block of X at a time.

    ``columns``, where known, ascend and hold all features whose weight is not 0. A row with NaN or infinity in a
    feature whose weight is not 0 gets NaN or infinity.
    """
    columns = np.flatnonzero(weights) if columns is None else columns
    # Whole rows are copied faster than chosen columns; their products with weight 0 add nothing.
    few = isinstance(X, np.ndarray) and 4 * len(columns) <= len(weights)
    vector = weights[columns] if few else weights
    width = len(vector) if isinstance(X, np.ndarray) else X.nnz // max(1, X.shape[0])
    step = max(1, _BLOCK // max(1, width))
    sums = np.empty(len(rows))
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        if not isinstance(X, np.ndarray):
            sums[start : start + step] = _sparse_sums(X[block], vector)
        elif few:
            sums[start : start + step] = _dense_sums(X[block[:, None], columns], vector)
        else:
            sums[start : start + step] = _dense_sums(X.take(block, axis=0), vector)
    if not few:
        columns = columns[weights[columns] != 0]
        for place in np.flatnonzero(~np.isfinite(sums)).tolist():  # perhaps only because 0 times infinity is NaN
            row = dense_row(X, int(rows[place]))[columns]
            sums[place] = _dense_sums(row[None, :], weights[columns])[0]
    return sums


def _dense_sums(part: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """``part @ vector``, each row from left to right. ``part`` is the caller's own copy."""
    with np.errstate(over="ignore", invalid="ignore"):
        products = np.multiply(part, vector, out=part if part.dtype == np.float64 else None, dtype=np.float64)
    n_rows, n_terms = products.shape
    if n_terms == 0:
        return np.zeros(n_rows)
    if products.size < _SMALL:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.add.accumulate(products, axis=1)[:, -1]  # slower for each number, quicker to begin
    ends = np.arange(0, products.size + 1, n_terms, dtype=np.int32)
    column = np.zeros(products.size, dtype=np.int32)
    return sparse.csr_array((products.ravel(), column, ends), shape=(n_rows, 1)) @ np.ones(1)


def _sparse_sums(part: sparse.csr_array, vector: np.ndarray) -> np.ndarray:
    """``part @ vector``, each row from left to right. ``part`` is the caller's own copy.

    SciPy's product of a CSR matrix and a vector adds a row's terms in their order. With a vector of ones no product of
    it is rounded, hence none differs where a compiler fuses multiplication and addition.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        part.data = np.multiply(part.data, vector.take(part.indices), dtype=np.float64)
    return part @ np.ones(part.shape[1])


class Terms(NamedTuple):
    """The weights (S, D) of nodes that are not 0, as in a CSR matrix: those of node i stand from starts[i] on."""

    starts: np.ndarray
    features: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, weights: Rows) -> Terms:
        """Taken from a dense or CSR matrix."""
        matrix = sparse.csr_array(weights)
        if not matrix.data.all():
            matrix = matrix.copy()  # the arrays are the caller's
            matrix.eliminate_zeros()
        return cls(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data.astype(np.float64))


def route(X: Rows, weights: Rows, terms: Terms, biases: np.ndarray, children: np.ndarray) -> np.ndarray:
    """The node number of each row's leaf."""
    leaves = np.empty(X.shape[0], dtype=np.int64)
    if isinstance(X, np.ndarray):
        for start, block in _blocks(X):
            found = int(compiled.tree_leaves(block, *terms, biases, children, leaves[start : start + len(block)]))
            if found >= 0:
                raise ValueError(_NOT_FINITE.format(start + found))
        return leaves
    stack = [(0, np.arange(X.shape[0]))]
    while stack:  # only nodes that rows reach are visited, each with these rows only
        node, rows = stack.pop()
        if node >= len(children):
            leaves[rows] = node
        elif rows.size:
            right = node_scores(X, rows, weights, biases, node) >= 0
            stack += [(int(children[node, 0]), rows[~right]), (int(children[node, 1]), rows[right])]
    return leaves


def linear_outputs(
    X: Rows, leaves: np.ndarray, values: np.ndarray, leaf_weights: np.ndarray, terms: Terms
) -> np.ndarray:
    """``leaf_weights @ x + value`` of each row's leaf (leaves counted from 0), of shape (n_rows, n_outputs).

    ``terms`` are those of the leaf weights as a matrix with a row for each leaf and output.
    """
    outputs = np.empty((len(leaves), leaf_weights.shape[1]))
    if isinstance(X, np.ndarray):
        for start, block in _blocks(X):
            part = slice(start, start + len(block))
            found = int(compiled.leaf_outputs(block, leaves[part], *terms, values, outputs[part]))
            if found >= 0:
                raise ValueError(_NOT_FINITE.format(start + found))
        return outputs
    order = np.argsort(leaves, kind="stable")
    present, starts = np.unique(leaves[order], return_index=True)
    for leaf, rows in zip(present, np.split(order, starts[1:]), strict=True):
        for output, weights in enumerate(leaf_weights[leaf]):
            sums = linear_form(X, rows, weights)
            _check_finite(sums, rows)
            outputs[rows, output] = values[leaf, output] + sums
    return outputs


def _blocks(X: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Parts of the rows in float64, and where each begins."""
    if X.size <= _BLOCK:  # a single row, most often: not a view of it as well
        yield 0, np.ascontiguousarray(X, np.float64)
        return
    step = max(1, _BLOCK // X.shape[1])
    for start in range(0, len(X), step):
        yield start, np.ascontiguousarray(X[start : start + step], np.float64)


def leaf_counts(leaf: np.ndarray, weight: np.ndarray, n_leaves: int) -> tuple[np.ndarray, np.ndarray]:
    """The number of rows with a weight other than 0 in each leaf, and their weight.

    Examples
    --------
    >>> leaf_counts(np.array([0, 1, 1]), np.array([0.5, 2.0, 0.0]), 2)
    (array([1., 1.]), array([0.5, 2. ]))
    """
    counts = np.bincount(leaf[weight != 0], minlength=n_leaves).astype(np.float64)
    return counts, np.bincount(leaf, weight, n_leaves)


def node_totals(children: np.ndarray, leaves: np.ndarray) -> np.ndarray:
    """The sum over the leaves at or below each node, from a number for each leaf.

    Examples
    --------
    >>> node_totals(np.array([[1, 2], [3, 4]]), np.array([5, 1, 2]))
    array([8, 3, 5, 1, 2])
    """
    totals = np.concatenate([np.zeros(len(children), leaves.dtype), leaves])
    for node in range(len(children) - 1, -1, -1):  # children before parents
        totals[node] = totals[children[node]].sum()
    return totals


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
