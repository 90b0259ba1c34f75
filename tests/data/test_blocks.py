"""Rows outside memory that are no store: memory-mapped arrays, and rows stacked from several tables."""

import numpy as np
from scipy import sparse

from treelu.data.blocks import MappedRows, stacked_rows


def test_stacked_rows_are_of_the_kind_of_the_first() -> None:
    stacked = stacked_rows([np.array([[1.0, 2.0]]), sparse.csr_array([[0.0, 3.0]])])
    assert stacked.tolist() == [[1.0, 2.0], [0.0, 3.0]]


def test_mapped_rows_are_read_with_their_targets() -> None:
    rows = MappedRows(np.eye(3, dtype=np.float32), np.array([1.0, 2.0, 3.0]))
    assert rows.shape == (3, 3)
    assert rows.read(np.array([0])).y.tolist() == [1.0, 2.0, 3.0]
