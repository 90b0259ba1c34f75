"""Tables and their rows against NumPy and SciPy."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from treelu.nn import Table

FORMATS = {
    "ndarray": np.asarray,
    "fortran": np.asfortranarray,
    "view": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "csr_array": sparse.csr_array,
    "csr_matrix": sparse.csr_matrix,
    "csc": sparse.csc_array,
    "coo": sparse.coo_array,
    "lil": sparse.lil_array,
}


def some_table(n: int, d: int, density: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, d)) < density, rng.standard_normal((n, d)), 0.0)


@given(
    n=st.integers(1, 9),
    d=st.integers(1, 6),
    density=st.sampled_from([0.0, 0.4, 1.0]),
    seed=st.integers(0, 2**31),
    form=st.sampled_from(sorted(FORMATS)),
    data=st.data(),
)
def test_rows_of_every_format(n: int, d: int, density: float, seed: int, form: str, data: st.DataObject) -> None:
    X = some_table(n, d, density, seed)
    index = np.array(data.draw(st.lists(st.integers(0, n - 1), max_size=12)), np.int64)
    rows = Table(FORMATS[form](X), np.float64).rows(index)
    assert rows.shape == (len(index), d)
    assert np.array_equal(rows.to_dense(), X[index])
    row, feature, value = rows.nonzeros()
    rebuilt = np.zeros(rows.shape)
    np.add.at(rebuilt, (row, feature), value)
    assert np.array_equal(rebuilt, X[index])


def test_all_rows_by_default() -> None:
    X = some_table(5, 3, 0.5, 0)
    assert np.array_equal(Table(X, np.float64).rows().to_dense(), X)


def test_duplicate_entries_are_summed_and_the_given_matrix_is_left_alone() -> None:
    csr = sparse.csr_array((np.array([1.0, 2.0, 4.0]), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))
    dense = csr.toarray()
    table = Table(csr, np.float64)
    assert np.array_equal(table.rows().to_dense(), dense)
    assert csr.nnz == 3


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_values_are_shared_where_nothing_has_to_change(form) -> None:
    X = form(some_table(5, 3, 0.5, 0))
    values = X.data if sparse.issparse(X) else X
    assert np.shares_memory(Table(X).values, values)
    assert np.shares_memory(Table(X, np.float64).values, values)
    assert Table(X, np.float32).dtype == np.float32
    assert Table(X.astype(np.float32)).dtype == np.float32
    assert Table(X.astype(np.int8)).dtype == np.float32


@pytest.mark.parametrize("word", [np.int32, np.int64])
def test_numbers_of_a_sparse_table_take_four_bytes(word: type) -> None:
    X = sparse.csr_array(some_table(5, 3, 0.5, 0))
    X.indices, X.indptr = X.indices.astype(word), X.indptr.astype(word)
    table = Table(X)
    assert table.features.dtype == table.starts.dtype == np.int32
    assert np.shares_memory(table.starts, X.indptr) == np.shares_memory(table.features, X.indices) == (word is np.int32)
    assert np.array_equal(table.rows().to_dense(), X.toarray())


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_tables_are_read_only_wherever_they_come_from(form) -> None:
    """Kernels are compiled once for rows in memory, in shared memory and from another process."""
    table = Table(form(some_table(5, 3, 0.5, 0)))
    for each in (table, pickle.loads(pickle.dumps(table)), table.columns(np.array([0, 2]))):
        for array in (each.values, each.features, each.starts):
            assert not array.flags.writeable
