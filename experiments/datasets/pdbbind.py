"""PDBbind, binding affinities of protein–ligand complexes: the contact table and the authors' grid features."""

from __future__ import annotations

import gzip
import os
import pickle
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.datasets._home import cached_split, data_folder
from treelu.chem.splits import Split, time_split

_TABLE = Path("pdbbind", "rfscore_v2.csv.gz")
_LAST_RELEASES = (2014, 2015)  # of the training and of the validation part


@dataclass(frozen=True)
class ComplexTable:
    """Protein–ligand complexes with their features and affinities.

    Attributes
    ----------
    pdbids : object array of shape (n_rows,)
    X : float64 array of shape (n_rows, n_features)
    y : float64 array of shape (n_rows,)
        Affinities, as −log10 of the binding constant.
    feature_names : tuple of str
    releases : int64 array of shape (n_rows,)
        First release of PDBbind with the complex.
    split : Split
    """

    pdbids: np.ndarray = field(repr=False)
    X: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    feature_names: tuple[str, ...] = field(repr=False)
    releases: np.ndarray = field(repr=False)
    split: Split = field(repr=False)

    def __len__(self) -> int:
        return len(self.y)


class GridFeatures(NamedTuple):
    """The six arrays of the authors' PDBbind file."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_valid: np.ndarray
    y_valid: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def load_pdbbind(data_home: str | os.PathLike[str] | None = None) -> ComplexTable:
    """The PDBbind table with counts of protein–ligand contacts and the terms of Vina's score.

    It lies in ``<data_home>/pdbbind/rfscore_v2.csv.gz`` with the columns pdbid, first_release, affinity,
    216 contact counts (see :func:`experiments.datasets.contact_counts`) and 6 Vina terms. These are not the paper's
    2,052 grid features; for those see :func:`read_grid_features`.

    Parameters
    ----------
    data_home : path, optional
        The data folder; by default the environment variable TREELU_DATA, else a folder in the user's cache.

    Returns
    -------
    ComplexTable
        Its split is that of ``<data_home>/splits/pdbbind.json`` or, where there is none, by release: until
        2014, 2015, later.
    """
    import pandas as pd

    home = data_folder(data_home)
    path = home / _TABLE
    if not path.exists():
        raise FileNotFoundError(
            f"no PDBbind table at {path}. Put it there, or name the folder that has {_TABLE} by data_home or "
            "the variable TREELU_DATA; treelu does not download it"
        )
    table = pd.read_csv(path, dtype={"pdbid": str})
    features = table.drop(columns=["pdbid", "first_release", "affinity"])
    releases = table["first_release"].to_numpy(dtype=np.int64)
    split = cached_split("pdbbind", home)
    return ComplexTable(
        pdbids=table["pdbid"].to_numpy(dtype=object),
        X=features.to_numpy(dtype=np.float64),
        y=table["affinity"].to_numpy(dtype=np.float64),
        feature_names=tuple(features.columns),
        releases=releases,
        split=time_split(releases, until=_LAST_RELEASES) if split is None else split,
    )


def read_grid_features(path: str | os.PathLike[str]) -> GridFeatures:
    """Read the authors' own PDBbind file, the paper's 2,052 grid features with affinities.

    The file is a gzipped pickle of six arrays. A pickle can run any code when it is read; this reader
    admits NumPy arrays of numbers and nothing else, and refuses a file that asks for more.

    Parameters
    ----------
    path : path of the file, ``PDBbind.pkl.gz`` in the authors' repository

    Returns
    -------
    GridFeatures
        Features and affinities of the training, validation and test parts.

    Examples
    --------
    >>> import gzip, pathlib, pickle, tempfile
    >>> import numpy as np
    >>> from experiments.datasets import read_grid_features
    >>> arrays = [np.ones((4, 3)), np.zeros(4), np.ones((2, 3)), np.zeros(2), np.ones((1, 3)), np.zeros(1)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "grid.pkl.gz")
    ...     _ = path.write_bytes(gzip.compress(pickle.dumps(arrays)))
    ...     read_grid_features(path).X_train.shape
    (4, 3)
    """
    with gzip.open(path, "rb") as file:
        try:
            # The encoding lets pickles of Python 2 keep the bytes of their arrays.
            content = _ArrayUnpickler(file, encoding="latin1").load()
        except Exception as error:  # there is no end to what a crafted pickle can raise
            raise ValueError(f"{path} is not a gzipped pickle of NumPy arrays only: {error}") from error
    if not isinstance(content, list | tuple) or len(content) != len(GridFeatures._fields):
        raise ValueError(f"{path} must hold six arrays ({', '.join(GridFeatures._fields)})")
    arrays: list[np.ndarray] = []
    for name, item in zip(GridFeatures._fields, content, strict=True):
        if not isinstance(item, _Array):
            raise ValueError(f"{path}: {name} must be an array, got {type(item).__name__}")
        arrays.append(item.values.astype(np.float64))
    for X, y in zip(arrays[::2], arrays[1::2], strict=True):
        if X.ndim != 2 or y.shape not in {(len(X),), (len(X), 1)} or X.shape[1] != arrays[0].shape[1]:
            raise ValueError(f"{path}: the arrays do not fit together: {[a.shape for a in arrays]}")
    return GridFeatures(*(a if index % 2 == 0 else a.reshape(-1) for index, a in enumerate(arrays)))


class _ArrayUnpickler(pickle.Unpickler):
    """Reads pickled arrays of numbers; whatever else a pickle asks for is an error.

    The names that NumPy writes into pickles stand for the classes below, so that not even NumPy's own
    reading of array states, which trusts them, meets what the file holds.
    """

    def find_class(self, module: str, name: str) -> Any:
        """What an admitted name stands for; nothing is ever imported."""
        # NumPy 2 renamed numpy.core to numpy._core.
        admitted = _ADMITTED.get((module.replace("numpy._core", "numpy.core"), name))
        if admitted is None:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return admitted


class _NumberType:
    """Stands for ``numpy.dtype``: booleans, integers and floats only."""

    def __init__(self, code: str, align: Any = False, copy: Any = False) -> None:
        if not re.fullmatch(r"b1|[iu][1248]|f[248]", str(code)):
            raise pickle.UnpicklingError(f"it asks for an array of type {code!r}")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        self.dtype = self.dtype.newbyteorder(">" if state[1] == ">" else "<")


class _Array:
    """Stands for ``numpy.ndarray``; its state is (version, shape, type, Fortran's order or not, bytes)."""

    def __init__(self) -> None:
        self.values: np.ndarray = np.empty(0)

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, data = state
        self.fill(data.encode("latin1") if isinstance(data, str) else data, kind, shape, "F" if fortran else "C")

    def fill(self, data: Any, kind: _NumberType, shape: Any, order: Any) -> _Array:
        self.values = np.frombuffer(data, dtype=kind.dtype).reshape(shape, order=order)
        return self


def _reconstruct(subtype: Any, shape: Any, typecode: Any) -> _Array:
    """Stands for NumPy's function of this name: an array that the pickle then fills."""
    if subtype is not _Array:
        raise pickle.UnpicklingError(f"it asks for an array of class {subtype!r}")
    return _Array()


def _from_buffer(data: Any, kind: Any, shape: Any, order: Any) -> _Array:
    """Stands for NumPy's ``_frombuffer``, which pickles of protocol 5 use."""
    return _Array().fill(data, kind, shape, order)


def _encode(text: str, encoding: str) -> bytes:
    """Stands for ``_codecs.encode``, by which Python 3 writes bytes into pickles of protocols up to 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it asks for the encoding {encoding!r}")
    return text.encode("latin1")


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _NumberType,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("_codecs", "encode"): _encode,
}
