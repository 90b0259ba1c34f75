"""Circular environments of atoms: which a molecule has, what each is called, and its exact pattern.

An environment is an atom with everything up to ``radius`` bonds away. Two environments are the same where their
atoms agree in element, neighbours, hydrogens, charge and ring membership, and their bonds in type. RDKit's Morgan
generator numbers them and leaves out those that a smaller environment of the same molecule already covers.
Its numbers do not tell a ring that closes within the environment from a longer one (cyclobutane, cyclohexane); the
numbers of atoms and bonds, which are part of the keys here, do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from treelu.chem._molecules import chem_extra

_BOND_SMARTS = {"SINGLE": "-", "DOUBLE": "=", "TRIPLE": "#", "AROMATIC": ":"}
_OTHER_BOND = "!-!=!#!:"  # such as a dative one, whose arrow would depend on the end that is written first


class Place(NamedTuple):
    """Where a molecule has what a column counts."""

    atoms: frozenset[int]
    bonds: frozenset[int]
    centres: tuple[int, ...] = ()  # atoms that stand out


def environment_parts(molecule: Any, atom: int, radius: int) -> tuple[set[int], set[int]]:
    """Atoms and bonds of the environment of ``radius`` bonds around an atom."""
    Chem = chem_extra("rdkit.Chem")
    bonds = set(Chem.FindAtomEnvironmentOfRadiusN(molecule, radius, atom, enforceSize=False))
    atoms = {atom}
    for index in bonds:
        bond = molecule.GetBondWithIdx(index)
        atoms |= {bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()}
    return atoms, bonds


def environment_place(molecule: Any, atom: int, radius: int) -> Place:
    """The environment of an atom as a place."""
    atoms, bonds = environment_parts(molecule, atom, radius)
    return Place(frozenset(atoms), frozenset(bonds), (atom,))


def bit_places(molecule: Any, generator: Any) -> Mapping[int, tuple[tuple[int, int], ...]]:
    """The environments that an RDKit generator finds in a molecule: keys, each with pairs of numbers that locate it.

    Of Morgan's generator these are (atom, radius), of that of atom pairs the two atoms.
    """
    output = chem_extra("rdkit.Chem.rdFingerprintGenerator").AdditionalOutput()
    output.AllocateBitInfoMap()
    generator.GetSparseCountFingerprint(molecule, additionalOutput=output)
    return output.GetBitInfoMap()


def environment_places(molecule: Any, generator: Any) -> dict[int, list[tuple[int, int]]]:
    """Keys of a molecule's environments, each with the (atom, radius) pairs where it occurs.

    A key is Morgan's number (32 bits) and from radius 2 on, where it can be ambiguous, the numbers of atoms (15 bits)
    and bonds (16 bits).
    """
    sizes: dict[int, list[int]] = {}
    places: dict[int, list[tuple[int, int]]] = {}
    for number, found in bit_places(molecule, generator).items():
        for place in found:
            atom, radius = place
            if radius > 1 and radius not in sizes:
                sizes[radius] = _sizes(molecule, radius)
            key = number | sizes[radius][atom] if radius > 1 else number
            places.setdefault(key, []).append(place)
    return places


def _sizes(molecule: Any, radius: int) -> list[int]:
    """For each atom, the numbers of atoms and bonds of its environment, moved to their bits of a key."""
    distances = chem_extra("rdkit.Chem").GetDistanceMatrix(molecule)  # (A, A)
    ends = np.array([(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()], dtype=np.int64)
    n_atoms = (distances <= radius).sum(axis=1)
    n_bonds = (distances[:, ends].min(axis=2) < radius).sum(axis=1)
    return (n_atoms << 32 | n_bonds << 47).tolist()


class Fragment(NamedTuple):
    """Some atoms and bonds of a molecule as a molecule of its own.

    Every other bond of the atoms becomes a stub, a bond of type ZERO that ends at a dummy atom.
    """

    molecule: Any
    number: dict[int, int]  # of an atom of the whole molecule → in the fragment
    bonds: dict[int, int]  # the same of the bonds
    stubs: list[tuple[int, int]]  # atoms of the whole molecule: where a stub begins and what it leads to


def cut_out(molecule: Any, atoms: set[int], bonds: set[int]) -> Fragment:
    """Cut a fragment out; dummy atoms come last, in the order of the stubs."""
    Chem = chem_extra("rdkit.Chem")
    fragment = Chem.RWMol()
    number = {index: fragment.AddAtom(_frozen(molecule.GetAtomWithIdx(index))) for index in sorted(atoms)}
    inner = {}
    for bond in map(molecule.GetBondWithIdx, sorted(bonds)):
        ends = number[bond.GetBeginAtomIdx()], number[bond.GetEndAtomIdx()]
        inner[bond.GetIdx()] = fragment.AddBond(*ends, bond.GetBondType()) - 1
        fragment.GetBondBetweenAtoms(*ends).SetIsAromatic(bond.GetIsAromatic())
    stubs = []
    for index in sorted(atoms):
        for bond in molecule.GetAtomWithIdx(index).GetBonds():
            if bond.GetIdx() not in bonds:
                fragment.AddBond(number[index], fragment.AddAtom(Chem.Atom(0)), Chem.BondType.ZERO)
                stubs.append((index, bond.GetOtherAtomIdx(index)))
    fragment.UpdatePropertyCache(strict=False)
    Chem.FastFindRings(fragment)
    return Fragment(fragment, number, inner, stubs)


def _frozen(atom: Any) -> Any:
    """A copy of an atom that keeps its hydrogens whatever bonds it has."""
    copy = chem_extra("rdkit.Chem").Atom(atom.GetAtomicNum())
    copy.SetFormalCharge(atom.GetFormalCharge())
    copy.SetNumExplicitHs(atom.GetTotalNumHs())
    copy.SetNoImplicit(True)
    return copy


def environment_name(molecule: Any, atom: int, radius: int) -> str:
    """An environment as SMILES, its centre first; atoms beyond it are ``*``, at a bond ``~`` of any type.

    Hydrogens are written where the bonds do not tell them, ``;R`` where an atom is in a ring. Small letters stand for
    atoms with an aromatic bond inside the environment. ``~`` also stands for rare bonds, such as dative ones.

    Examples
    --------
    >>> from rdkit import Chem
    >>> environment_name(Chem.MolFromSmiles("c1ccccc1C(=O)OC"), 6, 1)
    'C(=O)([O]~*)[C;R](~*)~*'
    >>> environment_name(Chem.MolFromSmiles("c1ccccc1C(=O)OC"), 0, 0)
    '[CH;R](~*)~*'
    """
    fragment = cut_out(molecule, *environment_parts(molecule, atom, radius))
    rim = {index for index, _ in fragment.stubs}
    symbols = [_symbol(molecule.GetAtomWithIdx(index), fragment.bonds, index in rim) for index in fragment.number]
    symbols += ["*"] * len(fragment.stubs)
    signs = [_sign(bond, symbols) for bond in fragment.molecule.GetBonds()]
    return _write(fragment, symbols, signs, fragment.number[atom])


def environment_smarts(molecule: Any, atom: int, radius: int) -> str:
    """An environment as a SMARTS pattern that matches exactly the molecules which have it.

    Examples
    --------
    >>> from rdkit import Chem
    >>> environment_smarts(Chem.MolFromSmiles("CCO"), 2, 1)
    '[#8&X2&H1&+0&!R]-[#6&X4&H2&+0&!R]'
    """
    fragment = cut_out(molecule, *environment_parts(molecule, atom, radius))
    symbols = [_query(molecule.GetAtomWithIdx(index)) for index in fragment.number] + ["*"] * len(fragment.stubs)
    signs = [_BOND_SMARTS.get(str(bond.GetBondType()), _OTHER_BOND) for bond in fragment.molecule.GetBonds()]
    return _write(fragment, symbols, signs, fragment.number[atom], stubs=False)


def _write(fragment: Fragment, symbols: list[str], signs: list[str], first: int, *, stubs: bool = True) -> str:
    atoms = range(len(symbols)) if stubs else fragment.number.values()
    bonds = range(len(signs)) if stubs else fragment.bonds.values()
    return chem_extra("rdkit.Chem").MolFragmentToSmiles(
        fragment.molecule,
        atomsToUse=list(atoms),
        bondsToUse=list(bonds),
        atomSymbols=symbols,
        bondSymbols=signs,
        rootedAtAtom=first,
    )


def _sign(bond: Any, symbols: list[str]) -> str:
    """A bond as SMILES writes it; a single one between two small letters needs its sign."""
    kind = str(bond.GetBondType())
    if kind not in ("SINGLE", "AROMATIC"):
        return _BOND_SMARTS.get(kind, "~")
    ends = symbols[bond.GetBeginAtomIdx()], symbols[bond.GetEndAtomIdx()]
    small = all(end.lstrip("[")[:1].islower() for end in ends)
    return "-" if small and kind == "SINGLE" else ""


def _symbol(atom: Any, bonds: Iterable[int], on_rim: bool) -> str:
    """An atom as SMILES writes it, with what its bonds inside the environment do not tell."""
    aromatic = any(bond.GetIsAromatic() for bond in atom.GetBonds() if bond.GetIdx() in bonds)
    element = atom.GetSymbol().lower() if aromatic else atom.GetSymbol()
    hydrogens, charge = atom.GetTotalNumHs(), atom.GetFormalCharge()
    ring = ";R" if atom.IsInRing() and not aromatic else ""
    plain = element in {"B", "C", "N", "O", "P", "S", "F", "Cl", "Br", "I", "c", "o", "s"}
    if plain and not (charge or ring or on_rim or atom.GetNumRadicalElectrons()):
        return element
    count = f"H{hydrogens if hydrogens > 1 else ''}" if hydrogens else ""
    sign = f"{'+' if charge > 0 else '-'}{abs(charge) if abs(charge) > 1 else ''}" if charge else ""
    return f"[{element}{count}{sign}{ring}]"


def _query(atom: Any) -> str:
    charge = atom.GetFormalCharge()
    parts = [
        f"#{atom.GetAtomicNum()}",
        f"X{atom.GetTotalDegree()}",
        f"H{atom.GetTotalNumHs(includeNeighbors=True)}",
        f"{'-' if charge < 0 else '+'}{abs(charge)}",
        "R" if atom.IsInRing() else "!R",
    ]
    return f"[{'&'.join(parts)}]"
