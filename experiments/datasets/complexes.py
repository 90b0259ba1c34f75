"""Features of protein–ligand complexes from structure files: contact counts and hashed pairs of environments."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial import cKDTree
from sklearn.base import BaseEstimator, TransformerMixin

from treelu.chem._environments import bit_places
from treelu.chem._molecules import chem_extra

LIGAND_ELEMENTS = ("C", "N", "O", "F", "P", "S", "Cl", "Br", "I")
PROTEIN_ELEMENTS = ("C", "N", "O", "S")
CONTACT_BINS = (0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0)
PAIR_BINS = (0.0, 2.0, 3.0, 4.5)

_WATER = {"HOH", "WAT", "DOD", "H2O"}


@dataclass(frozen=True)
class Complex:
    """A ligand and the protein atoms around it, as RDKit molecules with coordinates and without hydrogen."""

    ligand: Any = field(repr=False)
    protein: Any = field(repr=False)
    name: str = ""


def read_complex(ligand: str | os.PathLike[str], protein: str | os.PathLike[str]) -> Complex:
    """Read a complex from a ligand's SDF file (its first record) and a pocket's or protein's PDB file.

    Hydrogen and water are left out. The protein is read without RDKit's check of valences, which few
    crystal structures pass.

    Parameters
    ----------
    ligand, protein : paths

    Returns
    -------
    Complex
    """
    Chem = chem_extra("rdkit.Chem")
    for path in (ligand, protein):
        if not Path(path).is_file():
            raise FileNotFoundError(f"no structure file {path}")
    with chem_extra("rdkit.rdBase").BlockLogs():
        records = Chem.SDMolSupplier(str(ligand), removeHs=True)
        small = records[0] if len(records) else None
        large = Chem.MolFromPDBFile(str(protein), sanitize=False, removeHs=False)
    if small is None or not small.GetNumConformers():
        raise ValueError(f"RDKit cannot read a ligand with coordinates from {ligand}")
    if large is None or not large.GetNumAtoms():
        raise ValueError(f"RDKit cannot read atoms from {protein}")
    return Complex(small, _without_water_and_hydrogen(large), Path(ligand).stem)


def contact_counts(pair: Complex, bins: Sequence[float] = CONTACT_BINS) -> np.ndarray:
    """Count protein–ligand atom pairs by elements and distance.

    With the default bins these are the 216 descriptors of RF-Score v2, in the order of the ``contact_*``
    columns of the PDBbind table: by the ligand's element, then the protein's, then the distance.

    Parameters
    ----------
    pair : Complex
    bins : increasing distances in Å
        A distance d is in bin i where ``bins[i] <= d < bins[i + 1]``.

    Returns
    -------
    int64 array of shape (9 * 4 * (len(bins) - 1),)

    References
    ----------
    P. J. Ballester, A. Schreyer and T. L. Blundell. Does a more precise chemical description of
    protein–ligand complexes lead to more accurate prediction of binding affinity? J. Chem. Inf. Model. 54,
    944–955, 2014.
    """
    edges = _check_bins(bins)
    ligand_atoms, protein_atoms, which = _contacts(pair, edges)
    small = _element_numbers(pair.ligand, LIGAND_ELEMENTS)[ligand_atoms]
    large = _element_numbers(pair.protein, PROTEIN_ELEMENTS)[protein_atoms]
    counted = (small >= 0) & (large >= 0)
    shape = (len(LIGAND_ELEMENTS), len(PROTEIN_ELEMENTS), len(edges) - 1)
    flat = np.ravel_multi_index((small[counted], large[counted], which[counted]), shape)
    return np.bincount(flat, minlength=int(np.prod(shape)))


def pair_fingerprint(
    pair: Complex, n_bits: int = 512, *, radius: int = 1, bins: Sequence[float] = PAIR_BINS
) -> np.ndarray:
    """Count close protein–ligand atom pairs by their hashed surroundings (SPLIF-like).

    Each pair of atoms in contact is named by the Morgan environments of the two atoms; the name is hashed
    to one of ``n_bits`` numbers, separately for each distance bin.

    Parameters
    ----------
    pair : Complex
    n_bits : int, default 512
        Numbers for each distance bin.
    radius : int, default 1
        Size of the environments, in bonds.
    bins : increasing distances in Å
        A distance d is in bin i where ``bins[i] <= d < bins[i + 1]``.

    Returns
    -------
    int64 array of shape ((len(bins) - 1) * n_bits,)

    References
    ----------
    C. Da and D. Kireev. Structural protein–ligand interaction fingerprints (SPLIF) for structure-based
    virtual screening. J. Chem. Inf. Model. 54, 2555–2561, 2014.
    """
    edges = _check_bins(bins)
    ligand_atoms, protein_atoms, which = _contacts(pair, edges)
    small = _atom_environments(pair.ligand, radius)[ligand_atoms]
    large = _atom_environments(pair.protein, radius)[protein_atoms]
    bits = (_hash_pairs(small, large) % np.uint64(n_bits)).astype(np.int64)
    return np.bincount(which * n_bits + bits, minlength=(len(edges) - 1) * n_bits)


class ComplexFeatures(TransformerMixin, BaseEstimator):
    """Structure files to contact counts followed by pair fingerprints.

    Parameters
    ----------
    n_bits : int, default 512
        Hashed pairs for each distance bin; 0 leaves the pair fingerprints out.
    radius : int, default 1
        Size of the hashed environments, in bonds.
    contact_bins, pair_bins : increasing distances in Å

    Examples
    --------
    >>> from experiments.datasets import ComplexFeatures
    >>> names = ComplexFeatures().get_feature_names_out()
    >>> len(names), names[0], names[7], names[-1]
    (1752, 'contact_C_C_0_2', 'contact_C_N_2_4', 'pair_3_4.5_511')
    """

    def __init__(
        self,
        n_bits: int = 512,
        *,
        radius: int = 1,
        contact_bins: Sequence[float] = CONTACT_BINS,
        pair_bins: Sequence[float] = PAIR_BINS,
    ) -> None:
        self.n_bits = n_bits
        self.radius = radius
        self.contact_bins = contact_bins
        self.pair_bins = pair_bins

    def fit(self, X: Any, y: Any = None) -> ComplexFeatures:
        """Do nothing: there is nothing to learn."""
        return self

    def transform(self, X: Iterable[Any]) -> sparse.csr_matrix:
        """Features of complexes.

        Parameters
        ----------
        X : sequence of :class:`Complex` or of pairs (ligand's SDF file, protein's PDB file)

        Returns
        -------
        float64 CSR matrix of shape (n_complexes, n_features)
        """
        rows = [self._row(item if isinstance(item, Complex) else read_complex(*item)) for item in X]
        empty = sparse.csr_matrix((0, len(self.get_feature_names_out())))
        return sparse.vstack([empty, *rows], format="csr", dtype=np.float64)

    def _row(self, pair: Complex) -> sparse.csr_matrix:
        counts = contact_counts(pair, self.contact_bins)
        if self.n_bits:
            pairs = pair_fingerprint(pair, self.n_bits, radius=self.radius, bins=self.pair_bins)
            counts = np.concatenate([counts, pairs])
        return sparse.csr_matrix(counts)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """``contact_<ligand>_<protein>_<from>_<to>``, then ``pair_<from>_<to>_<bit>``."""
        contacts = [
            f"contact_{small}_{large}_{span}"
            for small in LIGAND_ELEMENTS
            for large in PROTEIN_ELEMENTS
            for span in _spans(self.contact_bins)
        ]
        pairs = [f"pair_{span}_{bit}" for span in _spans(self.pair_bins) for bit in range(self.n_bits)]
        return np.array(contacts + pairs, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array = False
        return tags


def _without_water_and_hydrogen(molecule: Any) -> Any:
    Chem = chem_extra("rdkit.Chem")
    editable = Chem.RWMol(molecule)
    editable.BeginBatchEdit()
    for atom in molecule.GetAtoms():
        residue = atom.GetPDBResidueInfo()
        water = residue is not None and residue.GetResidueName().strip() in _WATER
        if water or atom.GetAtomicNum() == 1:
            editable.RemoveAtom(atom.GetIdx())
    editable.CommitBatchEdit()
    kept = editable.GetMol()
    # Morgan environments need valences and rings; neither may fail on an odd crystal structure.
    kept.UpdatePropertyCache(strict=False)
    Chem.FastFindRings(kept)
    return kept


def _check_bins(bins: Sequence[float]) -> np.ndarray:
    edges = np.asarray(bins, dtype=np.float64)
    if edges.ndim != 1 or len(edges) < 2 or edges[0] < 0 or not (np.diff(edges) > 0).all():
        raise ValueError(f"bins must be two or more increasing distances of at least 0, got {bins!r}")
    return edges


def _spans(bins: Sequence[float]) -> list[str]:
    return [f"{low:g}_{high:g}" for low, high in itertools.pairwise(bins)]


def _contacts(pair: Complex, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ligand atom, protein atom and distance bin of every pair of atoms within the bins."""
    trees = [cKDTree(molecule.GetConformer().GetPositions()) for molecule in (pair.ligand, pair.protein)]
    found = trees[0].sparse_distance_matrix(trees[1], edges[-1], output_type="ndarray")
    which = np.searchsorted(edges, found["v"], side="right") - 1
    inside = (which >= 0) & (which < len(edges) - 1)
    return found["i"][inside], found["j"][inside], which[inside]


def _element_numbers(molecule: Any, elements: Sequence[str]) -> np.ndarray:
    """Place of each atom's element in ``elements``, -1 where it is not there."""
    place = {symbol: index for index, symbol in enumerate(elements)}
    return np.array([place.get(atom.GetSymbol(), -1) for atom in molecule.GetAtoms()], dtype=np.int64)


def _atom_environments(molecule: Any, radius: int) -> np.ndarray:
    """Morgan number of the largest environment, up to ``radius``, around each atom: uint64 (n_atoms,)."""
    generators = chem_extra("rdkit.Chem.rdFingerprintGenerator")
    # Redundant environments are kept: every atom must have a name.
    generator = generators.GetMorganGenerator(radius=radius, includeRedundantEnvironments=True)
    names = np.zeros(molecule.GetNumAtoms(), dtype=np.uint64)
    reach = np.full(molecule.GetNumAtoms(), -1)
    for key, places in bit_places(molecule, generator).items():
        for atom, size in places:
            if size > reach[atom]:
                names[atom], reach[atom] = key, size
    return names


def _hash_pairs(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Mix two arrays of 32-bit numbers into 64 bits, the same on every machine (splitmix64's last steps)."""
    mixed = (first << np.uint64(32)) | second
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
