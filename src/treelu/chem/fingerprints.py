"""Morgan fingerprints as a scikit-learn transformer that remembers what its bits stand for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from treelu.chem._environments import Place, bit_places, environment_place
from treelu.chem._molecules import (
    CHUNK,
    SmilesTransformer,
    as_smiles,
    chem_extra,
    kept_rows,
    one_molecule,
    parse,
)


class Environment(NamedTuple):
    """An atom environment that sets a bit: the atoms within ``radius`` bonds of ``atom`` in ``smiles``.

    Examples
    --------
    >>> from treelu.chem import MorganFingerprint
    >>> fingerprint = MorganFingerprint(n_bits=64).fit(["CCO", "CCN"])
    >>> fingerprint.examples_[33][0]
    Environment(smiles='CCO', atom=0, radius=0, n_molecules=2)
    """

    smiles: str
    atom: int
    radius: int
    n_molecules: int  # training molecules that have it


class MorganFingerprint(SmilesTransformer):
    """SMILES to Morgan (extended-connectivity) fingerprints.

    A feature is one of ``n_bits`` bits; a bit is set where a molecule has one of the atom environments
    that hash to it. ``fit`` remembers the most frequent environments of each bit, each with the smallest
    training molecule that has it, so that the bit can be drawn later (:func:`treelu.chem.draw_bit`). The
    bits themselves are not learned: ``transform`` works without ``fit``.

    Parameters
    ----------
    radius : int, default 2
        Largest environment, in bonds from its centre. 2 is also called ECFP4.
    n_bits : int, default 2048
    counts : bool, default False
        How often environments occur instead of whether they do.
    invalid : {"error", "drop", "empty"}, default "error"
        What to do with SMILES that RDKit refuses and with missing ones: raise an error that lists their
        rows; leave the rows out of the result; or keep them as rows of zeros. The last two warn with the
        row numbers.
    n_examples : int, default 3
        Environments remembered for each bit.

    Attributes
    ----------
    examples_ : dict from bit to tuple of :class:`Environment`
        Most frequent first; bits that no training molecule sets are absent.
    refused_ : int array
        Rows of the training data whose SMILES RDKit refuses.
    kept_ : int array
        Rows of the training data that ``fit_transform`` returns; all of them unless ``invalid="drop"``.

    Notes
    -----
    The 41,127 molecules of HIV take some 14 seconds on one core, half of them RDKit's reading of the SMILES,
    and what is remembered of them 260 kB as JSON.

    References
    ----------
    D. Rogers and M. Hahn. Extended-connectivity fingerprints. J. Chem. Inf. Model. 50, 742–754, 2010.

    Examples
    --------
    >>> from treelu.chem import MorganFingerprint
    >>> fingerprint = MorganFingerprint()
    >>> X = fingerprint.fit_transform(["CCO", "CCN", "c1ccccc1O"])
    >>> X.shape, X.nnz
    ((3, 2048), 23)
    >>> fingerprint.get_feature_names_out()[807]
    'bit_0807'
    >>> fingerprint.examples(807)
    [Environment(smiles='CCO', atom=2, radius=0, n_molecules=2)]
    """

    def __init__(
        self,
        radius: int = 2,
        n_bits: int = 2048,
        *,
        counts: bool = False,
        invalid: str = "error",
        n_examples: int = 3,
    ) -> None:
        self.radius = radius
        self.n_bits = n_bits
        self.counts = counts
        self.invalid = invalid
        self.n_examples = n_examples

    def fit_transform(self, X: Any, y: Any = None) -> sparse.csr_matrix:
        """Remember example environments of each bit, and return the fingerprints of X."""
        found, smiles = self._read(X)
        self.examples_ = _choose_examples(found, smiles, self.radius, self.n_bits, self.n_examples)
        self._set_rows(len(smiles), found.refused)
        return self._matrix(found)[0]

    def transform_kept(self, X: Any) -> tuple[sparse.csr_matrix, np.ndarray]:
        """Fingerprints and the row numbers of X that they belong to.

        Examples
        --------
        >>> from treelu.chem import MorganFingerprint
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     X, kept = MorganFingerprint(invalid="drop").transform_kept(["CCO", "no SMILES", "CCN"])
        >>> X.shape, kept
        ((2, 2048), array([0, 2]))
        """
        return self._matrix(self._read(X)[0])

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the bits, ``bit_0000``, ``bit_0001``, …, as an object array of shape (n_bits,)."""
        width = len(str(self.n_bits - 1))
        return np.array([f"bit_{bit:0{width}d}" for bit in range(self.n_bits)], dtype=object)

    def examples(self, bit: int) -> list[Environment]:
        """The remembered environments of a bit, most frequent first; empty where training had none."""
        check_is_fitted(self, "examples_")
        if not 0 <= bit < self.n_bits:
            raise ValueError(f"bit must be from 0 to {self.n_bits - 1}, got {bit}")
        return list(self.examples_.get(int(bit), ()))

    def environments(self, bit: int, smiles: str) -> list[tuple[int, int]]:
        """Where a molecule sets a bit: (atom, radius) of each environment.

        Examples
        --------
        >>> from treelu.chem import MorganFingerprint
        >>> MorganFingerprint().environments(807, "OCCO")
        [(0, 0), (3, 0)]
        """
        places = bit_places(one_molecule(smiles), _generator(self.radius))
        return sorted(place for key, found in places.items() if key % self.n_bits == bit for place in found)

    def plain(self, smiles: str) -> str:
        """The molecule as it is read here."""
        return smiles

    def places(self, bit: int, smiles: str) -> list[Place]:
        """Where a molecule sets a bit: the atoms and bonds of each environment, and its centre."""
        molecule = one_molecule(smiles)
        return [environment_place(molecule, atom, radius) for atom, radius in self.environments(bit, smiles)]

    def example_places(self, bit: int, example: int = 0) -> tuple[str, list[Place]]:
        """A remembered molecule, and where the remembered environment of a bit is in it."""
        remembered = self.examples(bit)
        if not remembered:
            raise ValueError(f"no training molecule sets bit {bit}; pass smiles= a molecule that does")
        if not 0 <= example < len(remembered):
            raise ValueError(f"example must be from 0 to {len(remembered) - 1} for bit {bit}, got {example}")
        found = remembered[example]
        return found.smiles, [environment_place(parse([found.smiles])[0], found.atom, found.radius)]

    def column_number(self, bit: int | str) -> int:
        """The number of a bit that is given by number or feature name."""
        if isinstance(bit, str):
            names = self.get_feature_names_out().tolist()
            if bit not in names:
                raise ValueError(f"bit must be a name from {names[0]} to {names[-1]}, got {bit!r}")
            return names.index(bit)
        if not 0 <= bit < self.n_bits:
            raise ValueError(f"bit must be from 0 to {self.n_bits - 1}, got {bit}")
        return int(bit)

    def caption(self, bit: int) -> str:
        """The caption of a picture of a bit."""
        return f"bit {bit}"

    def to_dict(self) -> dict[str, Any]:
        """Parameters and memory as plain JSON types; the inverse of :meth:`from_dict`."""
        check_is_fitted(self, "examples_")
        molecules = sorted({found.smiles for group in self.examples_.values() for found in group})
        number = {smiles: index for index, smiles in enumerate(molecules)}
        return {
            "parameters": self.get_params(),
            "n_rows": self._n_rows,
            "refused": self.refused_.tolist(),
            "molecules": molecules,
            "examples": {
                str(bit): [[number[found.smiles], *found[1:]] for found in group]
                for bit, group in self.examples_.items()
            },
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> MorganFingerprint:
        """A fitted transformer from what :meth:`to_dict` gave.

        Examples
        --------
        >>> from treelu.chem import MorganFingerprint
        >>> fingerprint = MorganFingerprint(n_bits=64).fit(["CCO"])
        >>> MorganFingerprint.from_dict(fingerprint.to_dict()).examples_ == fingerprint.examples_
        True
        """
        fingerprint = cls(**data["parameters"])
        fingerprint._check_parameters()
        molecules = data["molecules"]
        fingerprint.examples_ = {
            int(bit): tuple(Environment(molecules[number], *place) for number, *place in group)
            for bit, group in data["examples"].items()
        }
        fingerprint._set_rows(int(data["n_rows"]), np.asarray(data["refused"], dtype=np.int64))
        return fingerprint

    def _read(self, X: Any) -> tuple[_Environments, list[str | None]]:
        self._check_parameters()
        smiles = as_smiles(X)
        found = _find_environments(smiles, self.radius)
        self._check_refused(found.refused, smiles)
        return found, smiles

    def _set_rows(self, n_rows: int, refused: np.ndarray) -> None:
        self._n_rows = n_rows
        self.refused_ = refused
        self.kept_ = kept_rows(n_rows, refused, self.invalid)

    def _matrix(self, found: _Environments) -> tuple[sparse.csr_matrix, np.ndarray]:
        # Bits are the environments' numbers modulo n_bits, as RDKit folds them; csr_matrix adds up
        # environments that fall on the same bit.
        shape = (found.n_rows, self.n_bits)
        entries = (found.counts.astype(np.float64), (found.rows, (found.keys % self.n_bits).astype(np.int32)))
        matrix = sparse.csr_matrix(entries, shape=shape)
        matrix.sum_duplicates()
        if not self.counts:
            matrix.data[:] = 1.0
        kept = kept_rows(found.n_rows, found.refused, self.invalid)
        return (matrix if len(kept) == found.n_rows else matrix[kept]), kept

    def _check_parameters(self) -> None:
        self._check_whole(radius=0, n_bits=1, n_examples=0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


class _Environments(NamedTuple):
    """Environments of molecules as parallel arrays, one entry for each molecule and environment."""

    rows: np.ndarray  # int32 row of the molecule
    keys: np.ndarray  # int64 Morgan number of the environment, before folding
    counts: np.ndarray  # int64 times it occurs in the molecule
    sizes: np.ndarray  # (n_rows,) heavy atoms of each molecule, -1 where there is none
    refused: np.ndarray  # rows without a molecule

    @property
    def n_rows(self) -> int:
        return len(self.sizes)


def _generator(radius: int) -> Any:
    return chem_extra("rdkit.Chem.rdFingerprintGenerator").GetMorganGenerator(radius=int(radius))


def _find_environments(smiles: list[str | None], radius: int) -> _Environments:
    generator = _generator(radius)
    lengths: list[int] = []
    keys: list[int] = []
    counts: list[int] = []
    sizes: list[int] = []  # -1 for a refused row
    for start in range(0, len(smiles), CHUNK):
        molecules = parse(smiles[start : start + CHUNK])
        readable = [molecule for molecule in molecules if molecule is not None]
        bags = iter(generator.GetSparseCountFingerprints(readable))
        for molecule in molecules:
            bag = {} if molecule is None else next(bags).GetNonzeroElements()
            lengths.append(len(bag))
            keys.extend(bag.keys())
            counts.extend(bag.values())
            sizes.append(-1 if molecule is None else molecule.GetNumHeavyAtoms())
    rows = np.repeat(np.arange(len(smiles), dtype=np.int32), np.array(lengths, dtype=np.int64))
    heavy = np.array(sizes, dtype=np.int64)
    refused = np.flatnonzero(heavy < 0)
    return _Environments(rows, np.array(keys, dtype=np.int64), np.array(counts, dtype=np.int64), heavy, refused)


def _choose_examples(
    found: _Environments, smiles: list[str | None], radius: int, n_bits: int, n_examples: int
) -> dict[int, tuple[Environment, ...]]:
    """The most frequent environments of each bit, each in the smallest molecule that has it."""
    keys, first, n_molecules = smallest_holders(found.keys, found.rows, found.sizes)
    order = np.lexsort((keys, -n_molecules, keys % n_bits))
    bits = (keys % n_bits)[order]
    rank = np.arange(len(bits)) - np.searchsorted(bits, bits)
    chosen = order[rank < n_examples]
    generator = _generator(radius)
    holders = np.unique(found.rows[first[chosen]]).tolist()
    places = {row: bit_places(one_molecule(str(smiles[row])), generator) for row in holders}
    examples: dict[int, tuple[Environment, ...]] = {}
    for index in chosen.tolist():
        key, row = int(keys[index]), int(found.rows[first[index]])
        atom, reach = places[row][key][0]
        environment = Environment(str(smiles[row]), atom, reach, int(n_molecules[index]))
        examples[key % n_bits] = (*examples.get(key % n_bits, ()), environment)
    return examples


def smallest_holders(
    keys: np.ndarray, rows: np.ndarray, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct keys, the entry of the smallest molecule with each, and how many molecules have it.

    An entry is a key and the row of a molecule that has it; `sizes` are those of the molecules.
    """
    order = np.lexsort((rows, sizes[rows], keys))
    different, start, n_molecules = np.unique(keys[order], return_index=True, return_counts=True)
    return different, order[start], n_molecules
