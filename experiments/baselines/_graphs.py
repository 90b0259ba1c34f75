"""SMILES as graphs: atoms with features, bonds as pairs of atoms, and batches of molecules."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_ELEMENTS = (5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 19, 20, 26, 29, 30, 33, 34, 35, 47, 50, 51, 53, 78, 80)
_DEGREES = tuple(range(7))
_HYDROGENS = tuple(range(5))
_HYBRIDIZATIONS = ("S", "SP", "SP2", "SP3", "SP3D", "SP3D2")
_CHARGES = (-2, -1, 0, 1, 2)

N_ATOM_FEATURES = sum(len(known) + 1 for known in (_ELEMENTS, _DEGREES, _HYDROGENS, _HYBRIDIZATIONS, _CHARGES)) + 3


@dataclass(frozen=True)
class GraphBatch:
    """Some molecules as one graph.

    Attributes
    ----------
    atoms : Tensor of shape (n_atoms, N_ATOM_FEATURES)
    bonds : Tensor of shape (2, n_directed_bonds)
        From atom, to atom; each bond stands in both directions.
    molecule : Tensor of shape (n_atoms,)
        The place in the batch of the molecule that an atom belongs to.
    index : array of shape (n_molecules,)
        Row numbers of the molecules in their table.
    """

    atoms: Tensor
    bonds: Tensor
    molecule: Tensor
    index: NDArray[np.int64]


class GraphTable:
    """Graphs of many molecules, from which batches are taken by row number.

    Parameters
    ----------
    molecules : list of RDKit molecules

    Examples
    --------
    >>> from rdkit import Chem
    >>> table = GraphTable([Chem.MolFromSmiles(smiles) for smiles in ("CCO", "O", "C=C")])
    >>> batch = table.rows(np.array([2, 0]))
    >>> batch.molecule
    tensor([0, 0, 1, 1, 1])
    >>> batch.bonds
    tensor([[0, 1, 2, 3, 3, 4],
            [1, 0, 3, 2, 4, 3]])
    """

    def __init__(self, molecules: list[Any]) -> None:
        self.atoms = [atom_features(molecule) for molecule in molecules]
        self.bonds = [_bond_pairs(molecule) for molecule in molecules]

    @property
    def shape(self) -> tuple[int, int]:
        """Molecules and features of an atom."""
        return len(self.atoms), N_ATOM_FEATURES

    def rows(self, index: NDArray[np.int64]) -> GraphBatch:
        """The molecules of some rows as one graph."""
        atoms = [self.atoms[row] for row in index]
        sizes = np.array([len(features) for features in atoms])
        firsts = np.cumsum(sizes) - sizes
        bonds = [self.bonds[row] + first for row, first in zip(index, firsts, strict=True)]
        return GraphBatch(
            torch.from_numpy(np.concatenate(atoms).astype(np.float32)),
            torch.from_numpy(np.concatenate(bonds, axis=1)),
            torch.from_numpy(np.repeat(np.arange(len(index)), sizes)),
            index,
        )


def atom_features(molecule: Any) -> NDArray[np.bool_]:
    """What the network sees of each atom: element, bonds, hydrogens, hybridisation, charge, aromatic, ring, radical.

    Parameters
    ----------
    molecule : RDKit molecule

    Returns
    -------
    bool array of shape (n_atoms, N_ATOM_FEATURES)

    Examples
    --------
    >>> from rdkit import Chem
    >>> atom_features(Chem.MolFromSmiles("c1ccccc1O")).shape
    (7, 57)
    """
    rows = [
        _features_of(
            atom.GetAtomicNum(),
            atom.GetDegree(),
            atom.GetTotalNumHs(),
            atom.GetHybridization(),
            atom.GetFormalCharge(),
            atom.GetIsAromatic(),
            atom.IsInRing(),
            atom.GetNumRadicalElectrons() > 0,
        )
        for atom in molecule.GetAtoms()
    ]
    return np.array(rows, dtype=bool).reshape(-1, N_ATOM_FEATURES)


@lru_cache(maxsize=10_000)  # kinds of atoms are few, atoms are many
def _features_of(
    element: int, degree: int, hydrogens: int, hybridization: Any, charge: int, *flags: bool
) -> NDArray[np.bool_]:
    places = [
        *_one_hot(element, _ELEMENTS),
        *_one_hot(degree, _DEGREES),
        *_one_hot(hydrogens, _HYDROGENS),
        *_one_hot(str(hybridization), _HYBRIDIZATIONS),
        *_one_hot(charge, _CHARGES),
        *flags,
    ]
    return np.array(places, dtype=bool)


def _one_hot(value: Any, known: tuple[Any, ...]) -> list[bool]:
    """One place for each known value and a last one for all others."""
    places = [value == one for one in known]
    return [*places, not any(places)]


def _bond_pairs(molecule: Any) -> NDArray[np.int64]:
    pairs = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
    both = [pair for begin, end in pairs for pair in ((begin, end), (end, begin))]
    return np.array(both, dtype=np.int64).reshape(-1, 2).T
