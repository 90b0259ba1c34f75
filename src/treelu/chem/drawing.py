"""Pictures of fingerprint bits: the atoms and bonds behind a bit, in a molecule or alone, as SVG."""

from __future__ import annotations

from html import escape
from typing import Any

from treelu.chem._molecules import as_smiles, chem_extra, parse
from treelu.chem.fingerprints import MorganFingerprint

_CENTRE = (0.45, 0.62, 0.95)
_AROUND = (1.0, 0.82, 0.42)
_RIM = (0.88, 0.88, 0.88)


def draw_bit(
    fingerprint: MorganFingerprint,
    bit: int | str,
    *,
    smiles: str | None = None,
    example: int = 0,
    size: tuple[int, int] = (300, 220),
) -> str:
    """Draw a molecule with the atoms and bonds behind a bit highlighted; blue is an environment's centre.

    Parameters
    ----------
    fingerprint : MorganFingerprint
        Fitted, unless ``smiles`` is given.
    bit : int or str
        The bit, or its feature name such as ``"bit_0042"``.
    smiles : str, optional
        The molecule to draw, with every environment of the bit. By default a remembered training molecule
        with one environment.
    example : int, default 0
        Which of the remembered environments (0 is the most frequent one).
    size : (int, int)
        Width and height in pixels.

    Returns
    -------
    str
        An SVG document.

    Examples
    --------
    >>> from treelu.chem import MorganFingerprint, draw_bit
    >>> fingerprint = MorganFingerprint().fit(["CCO", "CCN", "c1ccccc1O"])
    >>> svg = draw_bit(fingerprint, "bit_0807")
    >>> svg[:5], "<title>bit 807 in CCO</title>" in svg
    ('<?xml', True)
    """
    number = bit_number(fingerprint, bit)
    if smiles is not None:
        places = fingerprint.environments(number, smiles)
        if not places:
            raise ValueError(f"smiles={smiles!r} does not set bit {number}")
    else:
        smiles, places = _example(fingerprint, number, example)
    (molecule,) = parse(as_smiles([smiles], "smiles"))
    atoms: set[int] = set()
    bonds: set[int] = set()
    for place in places:
        more_atoms, more_bonds = environment_parts(molecule, *place)
        atoms |= more_atoms
        bonds |= more_bonds
    colours = dict.fromkeys(atoms, _AROUND) | dict.fromkeys((atom for atom, _ in places), _CENTRE)
    prepared = chem_extra("rdkit.Chem.Draw.rdMolDraw2D").PrepareMolForDrawing(molecule)
    return _draw(prepared, colours, dict.fromkeys(bonds, _AROUND), size, f"bit {number} in {smiles}")


def draw_substructure(smiles: str, atom: int, radius: int, size: tuple[int, int] = (120, 100)) -> str:
    """Draw one atom environment alone: its atoms and, greyed, the bonds that lead out of it to a ``*``.

    Parameters
    ----------
    smiles : str
        The molecule that has it.
    atom : int
        Centre of the environment, marked blue.
    radius : int
        Size of the environment in bonds.
    size : (int, int)
        Width and height in pixels.

    Returns
    -------
    str
        An SVG document.

    Examples
    --------
    >>> from treelu.chem import draw_substructure
    >>> draw_substructure("c1ccccc1O", atom=6, radius=1)[:5]
    '<?xml'
    """
    (molecule,) = parse(as_smiles([smiles], "smiles"))
    if molecule is None or not 0 <= atom < molecule.GetNumAtoms():
        raise ValueError(f"RDKit finds no atom {atom} in smiles={smiles!r}")
    atoms, bonds = environment_parts(molecule, atom, radius)
    fragment, number = _cut_out(molecule, atoms)
    inner = {
        fragment.GetBondBetweenAtoms(number[bond.GetBeginAtomIdx()], number[bond.GetEndAtomIdx()]).GetIdx()
        for bond in map(molecule.GetBondWithIdx, bonds)
    }
    colours = {number[other]: _AROUND for other in atoms} | {number[atom]: _CENTRE}
    rim = {bond.GetIdx() for bond in fragment.GetBonds()} - inner
    return _draw(
        fragment,
        colours,
        dict.fromkeys(inner, _AROUND) | dict.fromkeys(rim, _RIM),
        size,
        f"atoms within {radius} bonds of atom {atom} in {smiles}",
    )


def bit_number(fingerprint: MorganFingerprint, bit: int | str) -> int:
    """The number of a bit that is given by number or feature name."""
    if isinstance(bit, str):
        names = fingerprint.get_feature_names_out().tolist()
        if bit not in names:
            raise ValueError(f"bit must be a name from {names[0]} to {names[-1]}, got {bit!r}")
        return names.index(bit)
    if not 0 <= bit < fingerprint.n_bits:
        raise ValueError(f"bit must be from 0 to {fingerprint.n_bits - 1}, got {bit}")
    return int(bit)


def _example(fingerprint: MorganFingerprint, bit: int, example: int) -> tuple[str, list[tuple[int, int]]]:
    remembered = fingerprint.examples(bit)
    if not remembered:
        raise ValueError(f"no training molecule sets bit {bit}; pass smiles= a molecule that does")
    if not 0 <= example < len(remembered):
        raise ValueError(f"example must be from 0 to {len(remembered) - 1} for bit {bit}, got {example}")
    found = remembered[example]
    return found.smiles, [(found.atom, found.radius)]


def environment_parts(molecule: Any, atom: int, radius: int) -> tuple[set[int], set[int]]:
    """Atoms and bonds of the environment of ``radius`` bonds around an atom."""
    Chem = chem_extra("rdkit.Chem")
    bonds = set(Chem.FindAtomEnvironmentOfRadiusN(molecule, radius, atom, enforceSize=False))
    atoms = {atom}
    for index in bonds:
        bond = molecule.GetBondWithIdx(index)
        atoms |= {bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()}
    return atoms, bonds


def _cut_out(molecule: Any, atoms: set[int]) -> tuple[Any, dict[int, int]]:
    """The atoms and their neighbours as a molecule of its own, and the new numbers of its atoms.

    Neighbours outside become dummy atoms, drawn as ``*``.
    """
    Chem = chem_extra("rdkit.Chem")
    chem_extra("rdkit.Chem.rdDepictor").Compute2DCoords(molecule)
    neighbours = {near.GetIdx() for index in atoms for near in molecule.GetAtomWithIdx(index).GetNeighbors()} - atoms
    # Atoms are removed, not copied, so that the rest keeps its place on the page.
    fragment = Chem.RWMol(molecule)
    for index in neighbours:
        fragment.ReplaceAtom(index, Chem.Atom(0))
    for bond in molecule.GetBonds():
        if not {bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()} & atoms:
            fragment.RemoveBond(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
    kept = sorted(atoms | neighbours)
    for index in sorted(set(range(molecule.GetNumAtoms())) - set(kept), reverse=True):
        fragment.RemoveAtom(index)
    fragment.UpdatePropertyCache(strict=False)
    Chem.FastFindRings(fragment)
    return fragment.GetMol(), {old: new for new, old in enumerate(kept)}


def _draw(molecule: Any, atoms: dict[int, Any], bonds: dict[int, Any], size: tuple[int, int], title: str) -> str:
    """A molecule with some of its atoms and bonds in colours."""
    drawing = chem_extra("rdkit.Chem.Draw.rdMolDraw2D")
    drawer = drawing.MolDraw2DSVG(*size)
    options = drawer.drawOptions()
    options.clearBackground = False  # the page behind shows through
    options.padding = 0.08
    options.fixedBondLength = 28
    options.prepareMolsBeforeDrawing = False  # a fragment would not pass RDKit's checks
    drawer.DrawMolecule(
        molecule,
        highlightAtoms=sorted(atoms),
        highlightBonds=sorted(bonds),
        highlightAtomColors=atoms,
        highlightBondColors=bonds,
    )
    drawer.FinishDrawing()
    svg = drawer.GetDrawingText()
    return svg.replace("<!-- END OF HEADER -->", f"<title>{escape(title)}</title>", 1)
