"""Rows with their targets, a block at a time."""

import numpy as np

from treelu.data.dataset import row_blocks
from treelu.nn import Table


def test_blocks_of_rows() -> None:
    assert [rows.index.tolist() for rows in row_blocks(Table(np.eye(3)), at_once=2)] == [[0, 1], [2]]
