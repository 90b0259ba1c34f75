"""Some rows of a table, dense or CSR, that a network reads where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Table:
    """A dense or CSR table in the one form that kernels read: flat values, feature numbers, row starts.

    A dense table keeps its values as they are (row-major) and needs neither feature numbers nor row starts. Values need
    not have the network's precision: what reads one turns it into that.

    Parameters
    ----------
    X : ndarray of shape (n, d), or a SciPy sparse matrix or array
        Copied only where its layout or dtype has to change.
    dtype : {numpy.float32, numpy.float64}, optional
        The type of the values; by default that of X where it is one of these, float32 elsewhere.

    Examples
    --------
    >>> table = Table(np.eye(3, dtype=np.float32))
    >>> table.rows(np.array([2, 0])).to_dense()
    array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float32)
    """

    def __init__(self, X: Any, dtype: Any = None) -> None:
        if dtype is None:
            dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.float32
        self.shape: tuple[int, int] = X.shape
        self.is_sparse: bool = hasattr(X, "tocsr")
        if self.is_sparse:
            csr = X.tocsr()
            if not csr.has_canonical_format:
                csr = csr.copy()
                csr.sum_duplicates()
            self.values, self.features, self.starts = _csr_arrays(csr.data, csr.indices, csr.indptr, dtype)
        else:
            self.values = _readable(X, dtype)
            self.features = self.starts = _readable(np.empty(0), np.int32)

    @classmethod
    def from_csr(cls, values: Any, features: Any, starts: Any, shape: tuple[int, int], dtype: Any) -> Table:
        """A sparse table from its three arrays."""
        table = cls.__new__(cls)
        table.shape, table.is_sparse = shape, True
        table.values, table.features, table.starts = _csr_arrays(values, features, starts, dtype)
        return table

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in ("values", "features", "starts"):  # a copy by pickle can be written to
            setattr(self, name, _readable(state[name], state[name].dtype))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values."""
        return self.values.dtype

    def columns(self, chosen: NDArray[np.int64] | None) -> Table:
        """A table of the chosen features only, in ascending order; the same table where they are None."""
        if chosen is None:
            return self
        if not self.is_sparse:
            return Table(self.values.reshape(self.shape)[:, chosen], self.dtype)
        place = np.full(self.shape[1], -1, np.int32)
        place[chosen] = np.arange(len(chosen))
        kept = place[self.features] >= 0
        starts = np.concatenate([[0], np.cumsum(kept)])[self.starts]
        shape = self.shape[0], len(chosen)
        return Table.from_csr(self.values[kept], place[self.features][kept], starts, shape, self.dtype)

    def rows(self, index: NDArray[np.int64] | None = None) -> Rows:
        """The rows numbered by `index`, or all."""
        return Rows(self, np.arange(self.shape[0]) if index is None else index)


def _csr_arrays(values: Any, features: Any, starts: Any, dtype: Any) -> tuple[NDArray[Any], ...]:
    index = np.int32 if len(values) < 2**31 else np.int64
    return _readable(values, dtype), _readable(features, np.int32), _readable(starts, index)


def _readable(array: Any, dtype: Any) -> NDArray[Any]:
    """A flat view of an array, or of a copy where its layout or dtype has to change.

    It is read-only, as arrays shared between processes are: kernels compiled for one serve the other.
    """
    flat = np.require(np.asarray(array), dtype, ["C", "A"]).reshape(-1)
    flat.flags.writeable = False
    return flat


class Rows:
    """The rows `index` of a `Table`; a network takes it wherever it takes a dense array.

    Examples
    --------
    >>> import scipy.sparse
    >>> rows = Table(scipy.sparse.csr_array([[0.0, 2.0], [1.0, 0.0]])).rows()
    >>> rows.nonzeros()
    (array([0, 1]), array([1, 0]), array([2., 1.]))
    """

    def __init__(self, table: Table, index: NDArray[np.int64]) -> None:
        self.table = table
        self.index = np.ascontiguousarray(index, np.int64)

    @property
    def shape(self) -> tuple[int, int]:
        """(number of rows, number of features)."""
        return len(self.index), self.table.shape[1]

    def nonzeros(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
        """Row position, feature and value of each stored entry (each entry of a dense table)."""
        table = self.table
        if not table.is_sparse:
            n, d = self.shape
            row, feature = np.repeat(np.arange(n), d), np.tile(np.arange(d), n)
            value = table.values.reshape(table.shape)[self.index].reshape(-1)
        else:
            start = table.starts[self.index].astype(np.int64)
            count = table.starts[self.index + 1] - start
            row = np.repeat(np.arange(len(self.index)), count)
            entry = np.arange(len(row)) + np.repeat(start - np.cumsum(count) + count, count)
            feature, value = table.features[entry].astype(np.int64), table.values[entry]
        return row, feature, value

    def in_float64(self) -> Rows:
        """These rows in a table of their own, in float64; the same rows where they are in float64.

        Examples
        --------
        >>> Table(np.eye(2, dtype=np.float32)).rows(np.array([1])).in_float64().to_dense()
        array([[0., 1.]])
        """
        if self.table.dtype == np.float64:
            return self
        if not self.table.is_sparse:
            return Table(self.to_dense(), np.float64).rows()
        row, feature, value = self.nonzeros()
        starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(self.index)))])
        return Table.from_csr(value, feature, starts, self.shape, np.float64).rows()

    def to_dense(self) -> NDArray[Any]:
        """These rows as a dense array."""
        if not self.table.is_sparse:
            return self.table.values.reshape(self.table.shape)[self.index]
        row, feature, value = self.nonzeros()
        dense = np.zeros(self.shape, value.dtype)
        dense[row, feature] = value
        return dense
