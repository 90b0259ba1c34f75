"""The memory of a training: what further rows take beyond their own entries."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from treelu import LCNClassifier

pytestmark = pytest.mark.slow

FEW, MANY = 100_000, 200_000  # more than any block of rows


def sparse_rows(n: int, dtype: type) -> tuple[sparse.csr_array, np.ndarray]:
    starts = np.arange(0, 8 * n + 1, 8, dtype=np.int32)
    indices = np.random.default_rng(0).integers(0, 10, (n, 8), dtype=np.int32) + 10 * np.arange(8, dtype=np.int32)
    return sparse.csr_array((np.ones(8 * n, dtype), indices.reshape(-1), starts), (n, 80)), indices[:, 0]


def peak_of_fit(X: sparse.csr_array, y: np.ndarray) -> int:
    alone = {"batch_size": 1024, "temper": False}  # no further trainings for the temperature
    estimator = LCNClassifier(depth=3, drop_connect=0.5, epochs=1, training=alone, random_state=0)
    tracemalloc.start()
    estimator.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n_classes", "most"), [(2, 9), (4, 13)])
def test_a_further_row_takes_few_bytes(n_classes: int, most: int, dtype: type) -> None:
    """Its place in the order (4) and its target (4 or 8), of 68 or 100 bytes in the table."""
    X, y = sparse_rows(MANY, dtype)
    y = y % n_classes
    peak_of_fit(X[:100], y[:100])  # loads what a first fit loads
    few, many = (peak_of_fit(X[:n], y[:n]) for n in (FEW, MANY))
    assert (many - few) / (MANY - FEW) <= most
