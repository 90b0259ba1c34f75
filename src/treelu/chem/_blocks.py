"""Blocks of molecular columns: what each counts in a molecule, what a column is called, and where it is found."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import pairwise
from typing import Any

from treelu.chem._environments import Place, bit_places, environment_place, environment_places
from treelu.chem._molecules import chem_extra

# Keys without a pattern in RDKit's list (1 is never set by RDKit), and two whose pattern is too long to read.
_MACCS_WORDS = {
    1: "isotope",
    2: "atomic number above 103",
    101: "closed path of 8 to 14 ring atoms",
    125: "two or more aromatic rings",
    166: "two or more fragments",
}
_SKIPPED_DESCRIPTORS = {"Ipc"}  # up to 1e30; AvgIpc is the same on a scale that can be used


class Block(ABC):
    """A kind of column. ``learned``: its columns are the most frequent of the training molecules, else all."""

    learned: bool = True
    counted: bool = True  # values are counts
    drawn: bool = True  # a column is a part of a molecule
    _generator: Any  # RDKit's, of learned blocks

    def values(self, molecule: Any) -> dict[int, float]:
        """Keys of the columns that are not zero, with their values."""
        return dict(self._generator.GetSparseCountFingerprint(molecule).GetNonzeroElements())

    def all_keys(self) -> list[int]:
        """Keys of all columns, where they are not learned."""
        return []

    @abstractmethod
    def label(self, key: int) -> str:
        """The name of a column."""

    @abstractmethod
    def places(self, key: int, molecule: Any) -> list[Place]:
        """Where a molecule has what the column counts."""


class Substructures(Block):
    """Circular environments, up to a radius."""

    def __init__(self, radius: int) -> None:
        generators = chem_extra("rdkit.Chem.rdFingerprintGenerator")
        self._generator = generators.GetMorganGenerator(radius=int(radius))

    def values(self, molecule: Any) -> dict[int, float]:
        return {key: float(len(found)) for key, found in environment_places(molecule, self._generator).items()}

    def label(self, key: int) -> str:
        raise NotImplementedError("a substructure's name needs a molecule that has it: environment_name")

    def environments(self, molecule: Any) -> dict[int, list[tuple[int, int]]]:
        """(atom, radius) of each occurrence of each key."""
        return environment_places(molecule, self._generator)

    def places(self, key: int, molecule: Any) -> list[Place]:
        found = sorted(self.environments(molecule).get(key, ()))
        return [environment_place(molecule, atom, radius) for atom, radius in found]


class AtomPairs(Block):
    """Pairs of atoms (element, neighbours, π electrons) and the number of bonds between them."""

    def __init__(self) -> None:
        self._generator = chem_extra("rdkit.Chem.rdFingerprintGenerator").GetAtomPairGenerator()

    def label(self, key: int) -> str:
        first, distance, second = chem_extra("rdkit.Chem.AtomPairs.Pairs").ExplainPairScore(key)
        return f"{_atom_type(first)}..{distance}..{_atom_type(second)}"

    def places(self, key: int, molecule: Any) -> list[Place]:
        pairs = bit_places(molecule, self._generator).get(key, ())
        return [Place(frozenset(pair), frozenset(), tuple(pair)) for pair in pairs]


class Torsions(Block):
    """Paths of four atoms (element, neighbours, π electrons)."""

    def __init__(self) -> None:
        self._generator = chem_extra("rdkit.Chem.rdFingerprintGenerator").GetTopologicalTorsionGenerator()

    def label(self, key: int) -> str:
        return "-".join(map(_atom_type, chem_extra("rdkit.Chem.AtomPairs.Torsions").ExplainPathScore(key)))

    def places(self, key: int, molecule: Any) -> list[Place]:
        output = chem_extra("rdkit.Chem.rdFingerprintGenerator").AdditionalOutput()
        output.AllocateBitPaths()
        self._generator.GetSparseCountFingerprint(molecule, additionalOutput=output)
        return [_path(molecule, list(path)) for path in output.GetBitPaths().get(key, ())]


class Maccs(Block):
    """The 166 MACCS keys: whether a molecule has a pattern, often enough."""

    learned = counted = False

    def values(self, molecule: Any) -> dict[int, float]:
        bits = chem_extra("rdkit.Chem.rdMolDescriptors").GetMACCSKeysFingerprint(molecule).GetOnBits()
        return dict.fromkeys(bits, 1.0)

    def all_keys(self) -> list[int]:
        return list(range(1, 167))

    def label(self, key: int) -> str:
        pattern, at_most = self._patterns[key]
        words = _MACCS_WORDS.get(key) or (pattern if at_most == 0 else f"{pattern} more than {_times(at_most)}")
        return f"MACCS {key}: {words}"

    def places(self, key: int, molecule: Any) -> list[Place]:
        Chem = chem_extra("rdkit.Chem")
        pattern = self._patterns[key][0]
        if pattern == "?":
            return []
        return [_match(molecule, atoms) for atoms in molecule.GetSubstructMatches(Chem.MolFromSmarts(pattern))]

    @cached_property
    def _patterns(self) -> dict[int, tuple[str, int]]:
        return chem_extra("rdkit.Chem.MACCSkeys").smartsPatts


class Descriptors(Block):
    """RDKit's descriptors of the whole molecule; NaN where one is not defined."""

    learned = counted = drawn = False

    def values(self, molecule: Any) -> dict[int, float]:
        with chem_extra("rdkit.rdBase").BlockLogs():
            values = ((key, _defined(function, molecule)) for key, (_, function) in enumerate(self._functions))
            return {key: value for key, value in values if value != 0.0}

    def all_keys(self) -> list[int]:
        return list(range(len(self._functions)))

    def label(self, key: int) -> str:
        return str(self._functions[key][0])

    def places(self, key: int, molecule: Any) -> list[Place]:
        return []

    @cached_property
    def _functions(self) -> list[tuple[str, Any]]:
        known = chem_extra("rdkit.Chem.Descriptors").descList
        return [(name, function) for name, function in known if name not in _SKIPPED_DESCRIPTORS]


BLOCKS = ("substructures", "maccs", "atom_pairs", "torsions", "descriptors")


def make_block(name: str, radius: int) -> Block:
    """The block of a name."""
    makers: dict[str, Any] = {
        "substructures": lambda: Substructures(radius),
        "maccs": Maccs,
        "atom_pairs": AtomPairs,
        "torsions": Torsions,
        "descriptors": Descriptors,
    }
    return makers[name]()


def _atom_type(parts: tuple[str, int, int]) -> str:
    element, neighbours, pi_electrons = parts
    return f"{element}(D{neighbours},pi{pi_electrons})"


def _path(molecule: Any, atoms: list[int]) -> Place:
    bonds = (molecule.GetBondBetweenAtoms(*pair) for pair in pairwise(atoms))
    return Place(frozenset(atoms), frozenset(bond.GetIdx() for bond in bonds), (atoms[0], atoms[-1]))


def _match(molecule: Any, atoms: Iterable[int]) -> Place:
    chosen = frozenset(atoms)
    inner = (b for b in molecule.GetBonds() if {b.GetBeginAtomIdx(), b.GetEndAtomIdx()} <= chosen)
    return Place(chosen, frozenset(bond.GetIdx() for bond in inner))


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _defined(descriptor: Callable[[Any], float], molecule: Any) -> float:
    try:
        value = descriptor(molecule)
    except ZeroDivisionError:  # a mean over heavy atoms, of which a proton has none
        return math.nan
    return float(value) if math.isfinite(value) and abs(value) < 1e12 else math.nan
