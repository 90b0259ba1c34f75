"""Splits into training, validation and test rows: by scaffold, at random, by time, from a file."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from treelu.chem._molecules import as_smiles, check_refused, chem_extra, each_molecule

PARTS = ("train", "valid", "test")


class Split(NamedTuple):
    """Row numbers (int64, 0-based) of the three parts.

    Examples
    --------
    >>> from treelu.chem import random_split
    >>> split = random_split(10, random_state=0)
    >>> len(split.train), len(split.valid), len(split.test)
    (8, 1, 1)
    """

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray


def scaffold_split(
    smiles: Any, fractions: tuple[float, float, float] = (0.8, 0.1, 0.1), *, invalid: str = "drop"
) -> Split:
    """Split molecules so that those with the same ring skeleton stay together.

    Rows are grouped by Bemis–Murcko scaffold (without chirality; molecules without rings are one group).
    Groups, taken by size and then by first row, both descending, go into the training part where it would
    not exceed its fraction, else into the validation part where the two together would not exceed theirs,
    else into the test part. This is MoleculeNet's procedure, and on Bace it gives the paper's split.

    Parameters
    ----------
    smiles : list, array or Series of SMILES
    fractions : three numbers with sum 1
        Parts of the rows that RDKit reads.
    invalid : {"drop", "error"}, default "drop"
        Rows whose SMILES RDKit refuses or that are missing: in no part, with a warning that lists them; or
        an error.

    Returns
    -------
    Split
        Row numbers in the order in which they were taken.

    Examples
    --------
    >>> from treelu.chem import scaffold_split
    >>> train, valid, test = scaffold_split(["CCO", "c1ccccc1O", "c1ccccc1C", "C1CC1"], (0.5, 0.25, 0.25))
    >>> train.tolist(), valid.tolist(), test.tolist()
    ([1, 2], [3], [0])
    """
    if invalid not in ("drop", "error"):
        raise ValueError(f"invalid must be 'drop' or 'error', got {invalid!r}")
    texts = as_smiles(smiles, "smiles")
    scaffolds = _scaffolds(texts)
    refused = np.array([row for row, scaffold in enumerate(scaffolds) if scaffold is None], dtype=np.int64)
    check_refused(refused, texts, invalid, "They are in no part of the split.", "invalid='drop'")
    n_train, n_valid = _sizes(len(texts) - len(refused), fractions)
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for group in _largest_first(scaffolds):
        if len(parts[0]) + len(group) <= n_train:
            parts[0].extend(group)
        elif len(parts[0]) + len(parts[1]) + len(group) <= n_train + n_valid:
            parts[1].extend(group)
        else:
            parts[2].extend(group)
    return _as_split(parts)


def scaffold_groups(smiles: Any) -> np.ndarray:
    """A number for each molecule, the same for molecules with the same ring skeleton.

    For cross-validation that keeps them together: ``GroupKFold().split(X, y, groups=scaffold_groups(smiles))``.

    Parameters
    ----------
    smiles : list, array or Series of SMILES
        All of them readable; molecules without rings are one group.

    Returns
    -------
    int array of shape (n_molecules,)
        Numbers from 0 in the order of their first molecules.

    Examples
    --------
    >>> from treelu.chem import scaffold_groups
    >>> scaffold_groups(["c1ccccc1O", "CCO", "c1ccccc1C", "CC"])
    array([0, 1, 0, 1])
    """
    texts = as_smiles(smiles, "smiles")
    scaffolds = _scaffolds(texts)
    refused = np.array([row for row, scaffold in enumerate(scaffolds) if scaffold is None], dtype=np.int64)
    check_refused(refused, texts, "error", "", "only those that it reads")
    numbers: dict[str | None, int] = {}
    return np.array([numbers.setdefault(scaffold, len(numbers)) for scaffold in scaffolds], dtype=np.int64)


def random_split(
    n_rows: int, fractions: tuple[float, float, float] = (0.8, 0.1, 0.1), *, random_state: Any = None
) -> Split:
    """Split rows at random.

    Parameters
    ----------
    n_rows : int
    fractions : three numbers with sum 1
    random_state : int, RandomState or None

    Examples
    --------
    >>> from treelu.chem import random_split
    >>> [len(part) for part in random_split(50, random_state=0)]
    [40, 5, 5]
    """
    if not isinstance(n_rows, Integral) or n_rows < 0:
        raise ValueError(f"n_rows must be an integer of at least 0, got {n_rows!r}")
    n_train, n_valid = _sizes(int(n_rows), fractions)
    order = check_random_state(random_state).permutation(int(n_rows))
    return _cut(order, n_train, n_valid)


def time_split(
    times: Any, fractions: tuple[float, float, float] = (0.8, 0.1, 0.1), *, until: tuple[Any, Any] | None = None
) -> Split:
    """Split rows by time: old ones train, the newest test.

    Parameters
    ----------
    times : array or Series of years, dates, or anything else that sorts
    fractions : three numbers with sum 1
        Rows of the same time keep their order and may fall into two parts. Not used with ``until``.
    until : pair, optional
        Last time of the training part and last time of the validation part; no time is torn apart.

    Examples
    --------
    >>> from treelu.chem import time_split
    >>> [part.tolist() for part in time_split([2016, 2007, 2015, 2012], until=(2014, 2015))]
    [[1, 3], [2], [0]]
    """
    values = np.asarray(times)
    if values.ndim != 1:
        raise ValueError(f"times must be one column, got shape {values.shape}")
    missing = np.flatnonzero(np.array([value is None or value != value for value in values], dtype=bool))
    if len(missing):
        raise ValueError(f"times must not be missing; they are in rows {missing.tolist()}")
    if until is None:
        return _cut(np.argsort(values, kind="stable"), *_sizes(len(values), fractions))
    train_until, valid_until = (np.asarray(end).astype(values.dtype) for end in until)
    if not train_until <= valid_until:
        raise ValueError(f"until must be (end of train, end of valid) in this order, got {until!r}")
    valid = (values > train_until) & (values <= valid_until)
    return _as_split(
        (np.flatnonzero(values <= train_until), np.flatnonzero(valid), np.flatnonzero(values > valid_until))
    )


def load_split(path: str | os.PathLike[str]) -> Split:
    """Read a split from a JSON file ``{"train": [row, …], "valid": […], "test": […]}``.

    Parameters
    ----------
    path : path of the file

    Returns
    -------
    Split
        Rows in the order of the file; no row is in two places.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> from treelu.chem import load_split
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "split.json")
    ...     _ = path.write_text(json.dumps({"train": [0, 2], "valid": [3], "test": [1]}))
    ...     load_split(path).train
    array([0, 2])
    """
    data = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(data, dict) or set(data) != set(PARTS):
        found = sorted(data) if isinstance(data, dict) else type(data).__name__
        raise ValueError(f"{path} must hold an object with the keys train, valid and test, got {found}")
    for name, rows in data.items():
        if not isinstance(rows, list) or any(type(row) is not int or row < 0 for row in rows):
            raise ValueError(f"{path}: {name!r} must be a list of row numbers from 0")
    split = _as_split(tuple(data[name] for name in PARTS))
    rows, counts = np.unique(np.concatenate(split), return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"{path}: rows {rows[counts > 1].tolist()} occur more than once")
    return split


def _scaffolds(smiles: list[str | None]) -> list[str | None]:
    """Bemis–Murcko scaffold SMILES without chirality, None where RDKit refuses the molecule."""
    murcko = chem_extra("rdkit.Chem.Scaffolds.MurckoScaffold").MurckoScaffoldSmiles
    scaffolds: list[str | None] = []
    for molecule in each_molecule(smiles):
        for atom in () if molecule is None else molecule.GetAtoms():
            atom.SetAtomMapNum(0)  # it would be part of the scaffold, and tear equal molecules apart
        scaffolds.append(None if molecule is None else murcko(mol=molecule, includeChirality=False))
    return scaffolds


def _largest_first(labels: Iterable[str | None]) -> list[list[int]]:
    """Rows grouped by label, by (size, first row) descending; rows with the label None are left out."""
    groups: dict[str, list[int]] = {}
    for row, label in enumerate(labels):
        if label is not None:
            groups.setdefault(label, []).append(row)
    return sorted(groups.values(), key=lambda group: (len(group), group[0]), reverse=True)


def _sizes(n_rows: int, fractions: tuple[float, float, float]) -> tuple[int, int]:
    """Most rows of the training and of the validation part."""
    if len(fractions) != 3 or min(fractions) < 0 or not math.isclose(sum(fractions), 1.0, abs_tol=1e-9):
        raise ValueError(f"fractions must be three numbers of at least 0 with sum 1, got {fractions!r}")
    # 0.7 + 0.2 is a little less than 0.9; a rounding error must not cost a row.
    n_train = math.floor(fractions[0] * n_rows + 1e-6)
    return n_train, math.floor((fractions[0] + fractions[1]) * n_rows + 1e-6) - n_train


def _cut(order: np.ndarray, n_train: int, n_valid: int) -> Split:
    return _as_split(np.split(order, [n_train, n_train + n_valid]))


def _as_split(parts: Iterable[Any]) -> Split:
    return Split(*(np.asarray(part, dtype=np.int64) for part in parts))
