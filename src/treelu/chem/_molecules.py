"""SMILES in, RDKit molecules out, and a word about those that RDKit refuses."""

from __future__ import annotations

import importlib
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin

_SHOWN_ROWS = 10  # refused rows that a message shows with their SMILES
CHUNK = 2000  # molecules that are alive at once; 41,127 of them take some 400 MB


def chem_extra(module: str) -> Any:
    """Import a module of the ``chem`` extra, or say how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"treelu.chem needs {package}: pip install 'treelu[chem]'") from error


def as_smiles(X: Any, name: str = "X") -> list[str | None]:
    """SMILES strings of a list, array, Series or one-column table; None where one is missing or blank."""
    if isinstance(X, str):
        raise TypeError(f"{name} must be a sequence of SMILES, got the single string {X!r}; pass [{X!r}]")
    values = X if isinstance(X, list | tuple) else np.asarray(X, dtype=object)
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise ValueError(f"{name} must be one column of SMILES, got shape {values.shape}")
    return [_as_text(value, row, name) for row, value in enumerate(values)]


def _as_text(value: Any, row: int, name: str) -> str | None:
    if isinstance(value, str):
        return str(value) if value.strip() else None
    # None, NaN, pandas.NA and NaT are what tables use for "missing"; only NaN is unequal to itself.
    if value is None or type(value).__name__ in {"NAType", "NaTType"} or value != value:
        return None
    raise TypeError(f"{name} must hold SMILES strings, got {value!r} in row {row}")


def parse(smiles: Sequence[str | None]) -> list[Any]:
    """RDKit molecules, None where RDKit refuses a SMILES (or there is none)."""
    Chem = chem_extra("rdkit.Chem")
    # RDKit would print its complaints on stderr, without the row they belong to.
    with chem_extra("rdkit.rdBase").BlockLogs():
        return [None if text is None else Chem.MolFromSmiles(text) for text in smiles]


def each_molecule(smiles: Sequence[str | None]) -> Iterator[Any]:
    """The same one after the other, few of them alive at once."""
    for start in range(0, len(smiles), CHUNK):
        yield from parse(smiles[start : start + CHUNK])


def one_molecule(smiles: str) -> Any:
    """The molecule of one SMILES; an error where RDKit refuses it."""
    (molecule,) = parse(as_smiles([smiles], "smiles"))
    if molecule is None:
        raise ValueError(f"RDKit cannot read smiles={smiles!r}")
    return molecule


def without_isotopes(smiles: str | None) -> str | None:
    """The SMILES of a molecule without marks of isotopes; deuterium becomes hydrogen like any other.

    Morgan's numbers tell some isotopes apart (carbon-14, deuterium) and others not (carbon-13).

    Examples
    --------
    >>> without_isotopes("[2H]C([2H])([2H])O"), without_isotopes("CO")
    ('CO', 'CO')
    """
    if smiles is None or not re.search(r"\[\d", smiles):
        return smiles
    (molecule,) = parse([smiles])
    if molecule is None:
        return smiles
    for atom in molecule.GetAtoms():
        atom.SetIsotope(0)
    Chem = chem_extra("rdkit.Chem")
    return Chem.MolToSmiles(Chem.RemoveHs(molecule))


def check_refused(
    refused: np.ndarray,
    smiles: Sequence[str | None],
    invalid: str,
    consequence: str,
    remedy: str,
    stacklevel: int = 3,
) -> None:
    """Raise for ``invalid="error"``, else warn, with the numbers of the refused rows. Nothing for none."""
    if not len(refused):
        return
    shown = ", ".join(f"{row} ({_shortened(smiles[row])})" for row in refused[:_SHOWN_ROWS])
    more = f" and rows {refused[_SHOWN_ROWS:].tolist()}" if len(refused) > _SHOWN_ROWS else ""
    found = f"RDKit cannot read {len(refused)} of {len(smiles)} SMILES: rows {shown}{more}"
    if invalid == "error":
        raise ValueError(f"{found}. Correct them, or pass {remedy}.")
    warnings.warn(f"{found}. {consequence}", UserWarning, stacklevel=stacklevel)


def _shortened(text: str | None, length: int = 40) -> str:
    return repr(text if text is None or len(text) <= length else f"{text[:length]}…")


def kept_rows(n_rows: int, refused: np.ndarray, invalid: str) -> np.ndarray:
    """Rows that a transformer returns."""
    rows = np.arange(n_rows)
    return np.delete(rows, refused) if invalid == "drop" else rows


class SmilesTransformer(TransformerMixin, BaseEstimator, ABC):
    """SMILES to columns of numbers: what fingerprints and substructures share."""

    invalid: str

    @abstractmethod
    def fit_transform(self, X: Any, y: Any = None) -> sparse.csr_matrix:
        """Fit to X and return its columns, reading the molecules once."""

    @abstractmethod
    def transform_kept(self, X: Any) -> tuple[sparse.csr_matrix, np.ndarray]:
        """Columns, and the row numbers of X that they belong to."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what the columns are.

        Parameters
        ----------
        X : list, array or Series of SMILES, or a table with one column
        y : ignored

        Returns
        -------
        self
        """
        self.fit_transform(X)
        return self

    def transform(self, X: Any) -> sparse.csr_matrix:
        """Columns of SMILES.

        Parameters
        ----------
        X : list, array or Series of SMILES, or a table with one column

        Returns
        -------
        float64 CSR matrix of shape (n_rows, n_columns)
            With ``invalid="drop"`` only the rows that RDKit reads; :meth:`transform_kept` says which.
        """
        return self.transform_kept(X)[0]

    def _check_whole(self, **least: int) -> None:
        """Raise unless these parameters are integers of at least so much, and `invalid` is known."""
        for name, low in least.items():
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < low:
                raise ValueError(f"{name} must be an integer of at least {low}, got {value!r}")
        if self.invalid not in ("error", "drop", "empty"):
            raise ValueError(f"invalid must be 'error', 'drop' or 'empty', got {self.invalid!r}")

    def _check_refused(self, refused: np.ndarray, smiles: Sequence[str | None]) -> None:
        """Raise or warn about rows without a molecule, as `invalid` says."""
        consequence = "They are left out." if self.invalid == "drop" else "They become rows of zeros."
        remedy = "invalid='drop' to leave them out or invalid='empty' to keep rows of zeros"
        check_refused(refused, smiles, self.invalid, consequence, remedy, stacklevel=5)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags
