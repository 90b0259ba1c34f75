"""The paper's five data sets as features, labels and a fixed split."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

DATASETS = ("bace", "hiv", "sider", "tox21", "pdbbind")
PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Dataset:
    """A table with a split.

    Attributes
    ----------
    name : str
    task : {"classification", "regression"}
    X : CSR matrix of 0 and 1, or array, of shape (n, n_features)
    Y : array of shape (n, n_labels)
        NaN where a label was not measured.
    labels : tuple of str
    split : dict from "train", "valid" and "test" to row numbers
    smiles : object array of shape (n,) or None
    """

    name: str
    task: Literal["classification", "regression"]
    X: Any
    Y: np.ndarray
    labels: tuple[str, ...]
    split: dict[str, np.ndarray]
    smiles: np.ndarray | None = None

    def rows(self, label: str) -> dict[str, np.ndarray]:
        """The rows of each part where a label was measured."""
        measured = ~np.isnan(self.Y[:, self.labels.index(label)])
        return {part: rows[measured[rows]] for part, rows in self.split.items()}

    def parts(self, label: str) -> dict[str, tuple[Any, np.ndarray]]:
        """Features and values of a label in each part; class labels are integers."""
        y = self.Y[:, self.labels.index(label)]
        return {part: (self.X[rows], self.values(y[rows])) for part, rows in self.rows(label).items()}

    def values(self, y: np.ndarray) -> np.ndarray:
        """Class labels as integers, other values as they are."""
        return y.astype(np.int64) if self.task == "classification" else y


@lru_cache(maxsize=2)
def load_dataset(name: str, data_home: str | os.PathLike[str] | None = None) -> Dataset:
    """One of the paper's data sets, from the cache folder or downloaded into it.

    Molecules are Morgan fingerprints (radius 2, 2,048 bits) on the split that lies beside the table. PDBbind is the
    table of contact counts, which is not the paper's: see ``experiments.datasets.load_pdbbind``.

    Parameters
    ----------
    name : {"bace", "hiv", "sider", "tox21", "pdbbind"}
    data_home : path, optional
        By default the environment variable TREELU_DATA, else a folder in the user's cache.
    """
    from experiments.datasets import load_moleculenet, load_pdbbind
    from treelu.chem import MorganFingerprint

    if name == "pdbbind":
        table = load_pdbbind(data_home)
        split = dict(zip(PARTS, table.split, strict=True))
        return Dataset(name, "regression", table.X, table.y[:, None], ("affinity",), split)
    if name not in DATASETS:
        raise ValueError(f"name must be one of {', '.join(DATASETS)}; got {name!r}")
    molecules = load_moleculenet(name, data_home)
    if molecules.split is None:
        raise FileNotFoundError(
            f"the paper's split of {name} is not there: put splits/{name}.json into the data folder "
            '({"train": [row, …], "valid": […], "test": […]})'
        )
    with warnings.catch_warnings():  # a few SMILES are refused; they are in no part of the split
        warnings.simplefilter("ignore")
        X, kept = MorganFingerprint(invalid="drop").transform_kept(molecules.smiles)
    place = np.full(len(molecules), -1)
    place[kept] = np.arange(len(kept))
    split = {part: _readable(place[rows]) for part, rows in zip(PARTS, molecules.split, strict=True)}
    Y = molecules.y.reshape(len(molecules), -1)[kept].astype(np.float64)
    return Dataset(name, "classification", X, Y, molecules.label_names, split, molecules.smiles[kept])


def _readable(rows: np.ndarray) -> np.ndarray:
    return rows[rows >= 0]
