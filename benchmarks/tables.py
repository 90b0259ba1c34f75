"""The tables that are timed: Bace and HIV fingerprints, and random sparse rows of any size."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from experiments.data import load_dataset


class Pair(NamedTuple):
    """Rows and their labels."""

    X: Any
    y: np.ndarray


class Data(NamedTuple):
    """A classification table with its parts."""

    name: str
    train: Pair
    valid: Pair
    test: Pair

    @property
    def nonzeros(self) -> float:
        """Mean number of non-zero features of a training row."""
        return self.train.X.nnz / self.train.X.shape[0]


def data_home() -> Path:
    """The folder that TREELU_DATA names."""
    if not os.environ.get("TREELU_DATA"):
        raise SystemExit("set TREELU_DATA to the folder with the data (its uci/ and tables/)")
    return Path(os.environ["TREELU_DATA"])


def molecules(name: str, most_rows: int | None = None) -> Data:
    """Bace or HIV: Morgan fingerprints on the paper's split, from the folder TREELU_DATA or the network."""
    dataset = load_dataset(name, os.environ.get("TREELU_DATA"))
    pairs = {part: Pair(X[:most_rows], y[:most_rows]) for part, (X, y) in dataset.parts(dataset.labels[0]).items()}
    return Data(name.upper() if name == "hiv" else name.capitalize(), pairs["train"], pairs["valid"], pairs["test"])


def random_rows(rows: int, features: int, nonzeros: int, seed: int = 0) -> Pair:
    """Rows of a float32 CSR table with `nonzeros` ones each, and labels that depend on the first features.

    Examples
    --------
    >>> X, y = random_rows(50, features=20, nonzeros=4)
    >>> X.shape, X.nnz, sorted(set(y.tolist()))
    ((50, 20), 200, [0, 1])
    """
    rng = np.random.default_rng(seed)
    # one feature from each of `nonzeros` even ranges: sorted and without repetition
    edges = np.linspace(0, features, nonzeros + 1).astype(np.int64)
    indices = rng.integers(edges[:-1], edges[1:], size=(rows, nonzeros), dtype=np.int64).astype(np.int32)
    y = (indices[:, 0] >= (edges[0] + edges[1]) / 2).astype(np.int64)
    y[:2] = 0, 1  # both classes, whatever the size
    starts = np.arange(0, rows * nonzeros + 1, nonzeros, dtype=np.int32)
    X = sparse.csr_matrix((np.ones(rows * nonzeros, np.float32), indices.reshape(-1), starts), (rows, features))
    return Pair(X, y)


def random_data(rows: int, features: int, nonzeros: int) -> Data:
    """`random_rows` with a tenth as many for validation and for testing."""
    held_out = max(2, rows // 10)
    parts = [random_rows(n, features, nonzeros, seed) for seed, n in enumerate((rows, held_out, held_out))]
    return Data("Random", *parts)
