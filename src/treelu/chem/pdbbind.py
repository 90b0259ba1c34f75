"""PDBbind, binding affinities of protein–ligand complexes: the contact table and the authors' grid features."""

from __future__ import annotations

import gzip
import os
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from treelu.chem._home import cached_split, data_folder
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
    216 contact counts (see :func:`treelu.chem.contact_counts`) and 6 Vina terms. These are not the paper's
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
    admits NumPy arrays and nothing else, and refuses a file that asks for more.

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
    >>> from treelu.chem import read_grid_features
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
        except (pickle.UnpicklingError, EOFError, OSError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{path} is not a gzipped pickle of NumPy arrays only: {error}") from error
    return _check_grid(content, path)


def _check_grid(content: Any, path: str | os.PathLike[str]) -> GridFeatures:
    if not isinstance(content, list | tuple) or len(content) != len(GridFeatures._fields):
        raise ValueError(f"{path} must hold six arrays ({', '.join(GridFeatures._fields)})")
    arrays = []
    for name, array in zip(GridFeatures._fields, content, strict=True):
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
            raise ValueError(f"{path}: {name} must be an array of numbers, got {kind}")
        arrays.append(np.ascontiguousarray(array, dtype=np.float64))
    for X, y in zip(arrays[::2], arrays[1::2], strict=True):
        if X.ndim != 2 or y.shape not in {(len(X),), (len(X), 1)} or X.shape[1] != arrays[0].shape[1]:
            raise ValueError(f"{path}: the arrays do not fit together: {[a.shape for a in arrays]}")
    return GridFeatures(*(a if index % 2 == 0 else a.reshape(-1) for index, a in enumerate(arrays)))


class _ArrayUnpickler(pickle.Unpickler):
    """Reads pickled NumPy arrays; any other class or function in the pickle is an error."""

    def find_class(self, module: str, name: str) -> Any:
        """What an admitted name stands for; nothing is ever imported by name."""
        # NumPy 2 renamed numpy.core to numpy._core.
        admitted = _ADMITTED.get((module.replace("numpy._core", "numpy.core"), name))
        if admitted is None:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return admitted


def _empty_array(subtype: Any, shape: Any, typecode: Any) -> np.ndarray:
    """Stands for NumPy's ``_reconstruct``: an empty array that the pickle then fills."""
    if subtype is not np.ndarray:
        raise pickle.UnpicklingError(f"it asks for an array of type {subtype!r}")
    return np.ndarray.__new__(np.ndarray, shape, typecode)


def _array_of_buffer(buffer: Any, dtype: Any, shape: Any, order: Any) -> np.ndarray:
    """Stands for NumPy's ``_frombuffer``, which pickles of protocol 5 use."""
    return np.frombuffer(buffer, dtype=dtype).reshape(shape, order=order)


def _latin1_bytes(text: Any, encoding: Any) -> bytes:
    """Stands for ``_codecs.encode``, by which Python 3 writes bytes into pickles of protocols up to 2."""
    if encoding != "latin1" or not isinstance(text, str):
        raise pickle.UnpicklingError(f"it asks for the encoding {encoding!r}")
    return text.encode("latin1")


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy.core.numeric", "_frombuffer"): _array_of_buffer,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _latin1_bytes,
}
