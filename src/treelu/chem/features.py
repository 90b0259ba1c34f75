"""Molecules as columns that can be named and drawn: substructures, keys, pairs, torsions, descriptors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from treelu.chem._blocks import BLOCKS, Block, Substructures, make_block
from treelu.chem._environments import Place, environment_name, environment_smarts
from treelu.chem._molecules import (
    SmilesTransformer,
    as_smiles,
    each_molecule,
    kept_rows,
    one_molecule,
    without_isotopes,
)
from treelu.chem.fingerprints import Environment, smallest_holders


@dataclass(frozen=True)
class MolecularColumn:
    """A column of :class:`MolecularFeatures`.

    Examples
    --------
    >>> column = MolecularFeatures(radius=1).fit(["CCO", "CCN", "CCCO"]).columns_[1]
    >>> column.block, column.name, column.n_molecules
    ('substructures', '[CH3]~*', 3)
    """

    block: str
    key: int  # within its block
    name: str
    n_molecules: int  # training molecules where it is not zero
    smiles: str | None = None  # the smallest of them
    atom: int = -1  # centre of a substructure there
    radius: int = -1
    fill: float = 0.0  # where a descriptor is not defined: the median of the training molecules


class MolecularFeatures(SmilesTransformer):
    """SMILES to columns of which each means one thing.

    The default block, ``"substructures"``, has a column for each of the ``n_bits`` circular substructures that most
    training molecules have (Sort & Slice). No two share a column, and the column's name is the substructure. Other
    blocks stand beside it:

    =================  ====================================================  ==========================================
    block              columns                                               value
    =================  ====================================================  ==========================================
    ``substructures``  atoms with all within ``radius`` bonds; learned       log(1 + count), or 1
    ``maccs``          the 166 MACCS keys                                    1
    ``atom_pairs``     two atoms and the bonds between them; learned         log(1 + count), or 1
    ``torsions``       paths of four atoms; learned                          log(1 + count), or 1
    ``descriptors``    RDKit's descriptors                                   the descriptor
    =================  ====================================================  ==========================================

    Parameters
    ----------
    blocks : sequence of str, default ("substructures",)
    radius : int, default 2
        Of the largest substructures, in bonds from their centre.
    n_bits : int, default 2048
        Most columns of each learned block; the most frequent ones are taken.
    counts : bool, default True
        log(1 + how often) in learned blocks instead of whether.
    min_molecules : int, default 2
        Least number of training molecules that must have a column of a learned block.
    invalid : {"error", "drop", "empty"}, default "error"
        What to do with SMILES that RDKit refuses and with missing ones: raise an error that lists their rows; leave
        the rows out of the result; or keep them as rows of zeros. The last two warn with the row numbers.

    Attributes
    ----------
    columns_ : tuple of :class:`MolecularColumn`
    refused_ : int array
        Rows of the training data whose SMILES RDKit refuses.
    kept_ : int array
        Rows of the training data that ``fit_transform`` returns; all of them unless ``invalid="drop"``.

    Notes
    -----
    Two environments are the same substructure where their atoms agree in element, number of neighbours, hydrogens,
    charge and ring membership, and their bonds in type; isotopes and stereochemistry do not count. The pattern of
    :meth:`smarts` matches exactly the molecules whose count is not zero.

    References
    ----------
    M. Dablander, T. Hanser, R. Lambiotte and G. M. Morris. Sort & Slice: a simple and superior alternative to
    hash-based folding for extended-connectivity fingerprints. J. Cheminform. 16, 135, 2024.

    Examples
    --------
    >>> from treelu.chem import MolecularFeatures
    >>> features = MolecularFeatures(radius=1)
    >>> X = features.fit_transform(["CCO", "CCN", "CCCO"])
    >>> features.get_feature_names_out().tolist()
    ['[CH2](~*)~*', '[CH3]~*', 'C[CH2]~*', '[OH]~*', 'O[CH2]~*']
    >>> features.smarts("O[CH2]~*")
    '[#8&X2&H1&+0&!R]-[#6&X4&H2&+0&!R]'
    """

    def __init__(
        self,
        blocks: Sequence[str] = ("substructures",),
        *,
        radius: int = 2,
        n_bits: int = 2048,
        counts: bool = True,
        min_molecules: int = 2,
        invalid: str = "error",
    ) -> None:
        self.blocks = blocks
        self.radius = radius
        self.n_bits = n_bits
        self.counts = counts
        self.min_molecules = min_molecules
        self.invalid = invalid

    def fit_transform(self, X: Any, y: Any = None) -> sparse.csr_matrix:
        """Fit to X and return its columns, reading the molecules once."""
        self._check_parameters()
        found, smiles = self._read(X)
        self.columns_ = self._choose(found, smiles)
        self.refused_ = found.refused
        self.kept_ = kept_rows(len(smiles), found.refused, self.invalid)
        return self._matrix(found)[self.kept_]

    def transform_kept(self, X: Any) -> tuple[sparse.csr_matrix, np.ndarray]:
        """Columns, and the row numbers of X that they belong to.

        Examples
        --------
        >>> from treelu.chem import MolecularFeatures
        >>> features = MolecularFeatures(invalid="drop").fit(["CCO", "CCN"])
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     X, kept = features.transform_kept(["CCO", "no SMILES", "CCC"])
        >>> X.shape, kept
        ((2, 3), array([0, 2]))
        """
        check_is_fitted(self, "columns_")
        found, smiles = self._read(X)
        kept = kept_rows(len(smiles), found.refused, self.invalid)
        return self._matrix(found)[kept], kept

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns, an object array of shape (n_columns,)."""
        check_is_fitted(self, "columns_")
        return np.array([column.name for column in self.columns_], dtype=object)

    def column_number(self, column: int | str) -> int:
        """The number of a column that is given by number or name."""
        check_is_fitted(self, "columns_")
        if isinstance(column, str):
            names = [known.name for known in self.columns_]
            if column not in names:
                raise ValueError(f"no column is called {column!r}; they are in get_feature_names_out()")
            return names.index(column)
        if not 0 <= column < len(self.columns_):
            raise ValueError(f"column must be from 0 to {len(self.columns_) - 1}, got {column}")
        return int(column)

    def smarts(self, column: int | str) -> str:
        """The exact pattern of a substructure: it matches the molecules whose count is not zero, and no others."""
        known = self.columns_[self.column_number(column)]
        if known.block != "substructures":
            raise ValueError(f"column {known.name!r} is not a substructure; its block is {known.block!r}")
        return environment_smarts(one_molecule(str(known.smiles)), known.atom, known.radius)

    def examples(self, column: int | str) -> list[Environment]:
        """The substructure of a column, in the smallest training molecule that has it; empty for other blocks."""
        known = self.columns_[self.column_number(column)]
        if known.block != "substructures":
            return []
        return [Environment(str(known.smiles), known.atom, known.radius, known.n_molecules)]

    def plain(self, smiles: str) -> str:
        """The molecule as it is read here: without isotopes."""
        return str(without_isotopes(smiles))

    def places(self, column: int | str, smiles: str) -> list[Place]:
        """Where a molecule (as :meth:`plain` gives it) has what a column counts: atoms, bonds, and centres.

        Examples
        --------
        >>> from treelu.chem import MolecularFeatures
        >>> features = MolecularFeatures().fit(["CCO", "CCN"])
        >>> [sorted(place.atoms) for place in features.places("C[CH2]~*", "CCCC")]
        [[0, 1], [2, 3]]
        """
        known = self.columns_[self.column_number(column)]
        return make_block(known.block, self.radius).places(known.key, one_molecule(self.plain(smiles)))

    def example_places(self, column: int | str, example: int = 0) -> tuple[str, list[Place]]:
        """The smallest training molecule that has a column, and the first place there."""
        known = self.columns_[self.column_number(column)]
        if example != 0:
            raise ValueError(f"example must be 0, as a column is one thing; got {example}")
        if known.smiles is None:
            why = "is of the whole molecule" if known.block == "descriptors" else "is in no training molecule"
            raise ValueError(f"column {known.name!r} {why}; there is nothing to draw")
        places = self.places(column, known.smiles)
        chosen = [place for place in places if place.centres == (known.atom,)] or places
        return known.smiles, chosen[:1]

    def caption(self, column: int) -> str:
        """The caption of a picture of a column: its name."""
        return self.columns_[column].name

    def to_dict(self) -> dict[str, Any]:
        """Parameters and columns as plain JSON types; the inverse of :meth:`from_dict`."""
        check_is_fitted(self, "columns_")
        molecules = sorted({column.smiles for column in self.columns_ if column.smiles is not None})
        number: dict[str | None, int | None] = {smiles: index for index, smiles in enumerate(molecules)}
        number[None] = None
        rows = [[*(vars(column) | {"smiles": number[column.smiles]}).values()] for column in self.columns_]
        return {
            "parameters": self.get_params() | {"blocks": list(self.blocks)},
            "n_rows": len(self.refused_) + len(self.kept_) if self.invalid == "drop" else len(self.kept_),
            "refused": self.refused_.tolist(),
            "molecules": molecules,
            "columns": rows,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> MolecularFeatures:
        """A fitted transformer from what :meth:`to_dict` gave.

        Examples
        --------
        >>> from treelu.chem import MolecularFeatures
        >>> features = MolecularFeatures().fit(["CCO", "CCN"])
        >>> MolecularFeatures.from_dict(features.to_dict()).columns_ == features.columns_
        True
        """
        features = cls(**data["parameters"] | {"blocks": tuple(data["parameters"]["blocks"])})
        features._check_parameters()
        molecules = data["molecules"]
        columns = [MolecularColumn(*row) for row in data["columns"]]
        features.columns_ = tuple(
            column if column.smiles is None else replace(column, smiles=molecules[column.smiles]) for column in columns
        )
        for column in features.columns_:
            _check_column(column, features.blocks)
        features.refused_ = np.asarray(data["refused"], dtype=np.int64)
        features.kept_ = kept_rows(int(data["n_rows"]), features.refused_, features.invalid)
        return features

    def _read(self, X: Any) -> tuple[_Read, list[str | None]]:
        smiles = [without_isotopes(text) for text in as_smiles(X)]
        found = _read(smiles, self._blocks())
        self._check_refused(found.refused, smiles)
        return found, smiles

    def _blocks(self) -> dict[str, Block]:
        return {name: make_block(name, self.radius) for name in self.blocks}

    def _choose(self, found: _Read, smiles: list[str | None]) -> tuple[MolecularColumn, ...]:
        columns: list[MolecularColumn] = []
        for name, block in self._blocks().items():
            if block.learned:
                columns += _most_frequent(name, block, found, smiles, self.n_bits, self.min_molecules)
            else:
                columns += _all_columns(name, block, found, smiles)
        if not columns and len(found.refused) < len(smiles):
            raise ValueError(
                f"no substructure is in {self.min_molecules} of the {len(smiles)} training molecules; give more "
                "molecules or a smaller min_molecules"
            )
        return tuple(columns)

    def _matrix(self, found: _Read) -> sparse.csr_matrix:
        parts = []
        for name, block in self._blocks().items():
            columns = [column for column in self.columns_ if column.block == name]
            parts.append(_block_matrix(found.entries[name], columns, len(found.sizes), block.counted, self.counts))
        return sparse.hstack(parts, format="csr")

    def _check_parameters(self) -> None:
        if isinstance(self.blocks, str) or not len(self.blocks) or len(set(self.blocks)) < len(self.blocks):
            raise ValueError(f"blocks must be different names in a sequence, got {self.blocks!r}")
        for name in self.blocks:
            if name not in BLOCKS:
                raise ValueError(f"blocks must be of {', '.join(BLOCKS)}; got {name!r}")
        self._check_whole(radius=0, n_bits=1, min_molecules=1)


class _Entries(NamedTuple):
    """Values of one block that are not zero, as parallel arrays."""

    rows: np.ndarray
    keys: np.ndarray
    values: np.ndarray


class _Read(NamedTuple):
    """Molecules as entries of each block."""

    entries: dict[str, _Entries]
    sizes: np.ndarray  # (n_rows,) heavy atoms of each molecule, -1 where there is none
    refused: np.ndarray  # rows without a molecule


def _read(smiles: list[str | None], blocks: dict[str, Block]) -> _Read:
    lengths: dict[str, list[int]] = {name: [] for name in blocks}
    keys: dict[str, list[int]] = {name: [] for name in blocks}
    values: dict[str, list[float]] = {name: [] for name in blocks}
    sizes: list[int] = []
    for molecule in each_molecule(smiles):
        sizes.append(-1 if molecule is None else molecule.GetNumHeavyAtoms())
        for name, block in blocks.items():
            found = {} if molecule is None else block.values(molecule)
            lengths[name].append(len(found))
            keys[name].extend(found.keys())
            values[name].extend(found.values())
    rows = np.arange(len(smiles), dtype=np.int64)
    entries = {
        name: _Entries(
            np.repeat(rows, np.array(lengths[name], dtype=np.int64)),
            np.array(keys[name], dtype=np.int64),
            np.array(values[name], dtype=np.float64),
        )
        for name in blocks
    }
    heavy = np.array(sizes, dtype=np.int64)
    return _Read(entries, heavy, np.flatnonzero(heavy < 0))


def _most_frequent(
    name: str, block: Block, found: _Read, smiles: list[str | None], n_columns: int, min_molecules: int
) -> list[MolecularColumn]:
    """Columns by falling number of training molecules, each with the smallest molecule that has it."""
    entries = found.entries[name]
    keys, first, n_molecules = smallest_holders(entries.keys, entries.rows, found.sizes)
    rows = entries.rows[first]
    ranked = np.lexsort((keys, -n_molecules))
    chosen = ranked[n_molecules[ranked] >= min_molecules][:n_columns]
    columns: dict[int, MolecularColumn] = {}
    for row in np.unique(rows[chosen]).tolist():  # each molecule is read once
        molecule = one_molecule(str(smiles[row]))
        here = chosen[rows[chosen] == row]
        environments = block.environments(molecule) if isinstance(block, Substructures) else {}
        for index in here.tolist():
            key = int(keys[index])
            place = environments[key][0] if environments else (-1, -1)
            label = environment_name(molecule, *place) if environments else block.label(key)
            columns[index] = MolecularColumn(name, key, label, int(n_molecules[index]), str(smiles[row]), *place)
    return _distinct([columns[index] for index in chosen.tolist()])


def _distinct(columns: list[MolecularColumn]) -> list[MolecularColumn]:
    """The same with numbers behind names that are there already."""
    seen: dict[str, int] = {}
    result = []
    for column in columns:
        again = seen[column.name] = seen.get(column.name, 0) + 1
        result.append(column if again == 1 else replace(column, name=f"{column.name} ({again})"))
    return result


def _all_columns(name: str, block: Block, found: _Read, smiles: list[str | None]) -> list[MolecularColumn]:
    """Every column of a block that is not learned."""
    entries = found.entries[name]
    known_keys, first, n_molecules = smallest_holders(entries.keys, entries.rows, found.sizes)
    holders = {key: place for place, key in enumerate(known_keys.tolist())}
    n_read = int(np.count_nonzero(found.sizes >= 0))
    columns = []
    for key in block.all_keys():
        holder = holders.get(key)
        column = MolecularColumn(name, key, block.label(key), 0)
        if holder is not None:
            smallest = str(smiles[entries.rows[first[holder]]]) if block.drawn else None
            values = entries.values[entries.keys == key]
            column = replace(
                column,
                n_molecules=int(n_molecules[holder]),
                smiles=smallest,
                fill=_median(values, n_read - len(values)),
            )
        columns.append(column)
    return columns


def _median(values: np.ndarray, n_zeros: int) -> float:
    """The median of the values that are known; 0 where none is."""
    known = np.append(values[~np.isnan(values)], np.zeros(n_zeros))
    return float(np.median(known)) if len(known) else 0.0


def _block_matrix(
    entries: _Entries, columns: list[MolecularColumn], n_rows: int, counted: bool, counts: bool
) -> sparse.csr_matrix:
    keys = np.array([column.key for column in columns], dtype=np.int64)
    if not len(keys):
        return sparse.csr_matrix((n_rows, 0))
    order = np.argsort(keys)
    place = np.minimum(np.searchsorted(keys[order], entries.keys), len(keys) - 1)
    number = order[place]
    here = keys[number] == entries.keys
    values = entries.values[here]
    if counted:
        values = np.log1p(values) if counts else np.ones_like(values)
    fill = np.array([column.fill for column in columns])
    values = np.where(np.isnan(values), fill[number[here]], values)
    return sparse.csr_matrix((values, (entries.rows[here], number[here])), shape=(n_rows, len(columns)))


def _check_column(column: MolecularColumn, blocks: Sequence[str]) -> None:
    """Raise unless a column that was read from a file could be one of ours."""
    block, key, name, n_molecules, smiles, atom, radius, fill = astuple(column)
    whole = all(isinstance(value, int) for value in (key, n_molecules, atom, radius))
    if block not in blocks or not whole or not isinstance(name, str) or not isinstance(fill, int | float):
        raise ValueError(f"not a molecular column: {astuple(column)!r}")
    if smiles is not None and not isinstance(smiles, str):
        raise ValueError(f"column {name!r} must have a SMILES text, got {smiles!r}")
    if block == "substructures" and (smiles is None or atom < 0 or radius < 0):
        raise ValueError(f"column {name!r} must have a molecule, an atom and a radius")
