"""Pictures of molecular columns: the atoms and bonds behind one, in a molecule or alone, as SVG."""

from __future__ import annotations

from html import escape
from typing import Any

from treelu.chem._environments import Fragment, Place, cut_out, environment_parts
from treelu.chem._molecules import as_smiles, chem_extra, parse
from treelu.chem.features import MolecularFeatures
from treelu.chem.fingerprints import MorganFingerprint

_CENTRE = (0.45, 0.62, 0.95)
_AROUND = (1.0, 0.82, 0.42)
_RIM = (0.88, 0.88, 0.88)
_STUB = 0.7  # length of a bond that leads out of a substructure, to others


def draw_bit(
    fingerprint: MolecularFeatures | MorganFingerprint,
    bit: int | str,
    *,
    smiles: str | None = None,
    example: int = 0,
    size: tuple[int, int] = (300, 220),
) -> str:
    """Draw a molecule with the atoms and bonds behind a column highlighted; blue is an environment's centre.

    Parameters
    ----------
    fingerprint : MolecularFeatures or MorganFingerprint
        Fitted; a MorganFingerprint need not be where ``smiles`` is given.
    bit : int or str
        The column, or its feature name such as ``"C[OH]"`` or ``"bit_0042"``.
    smiles : str, optional
        The molecule to draw, with every place where it has what the column counts. By default a remembered training
        molecule with one place.
    example : int, default 0
        Which of the environments that a MorganFingerprint remembers (0 is the most frequent one).
    size : (int, int)
        Width and height in pixels.

    Returns
    -------
    str
        An SVG document.

    Examples
    --------
    >>> from treelu.chem import MolecularFeatures, draw_bit
    >>> features = MolecularFeatures().fit(["CCO", "CCN", "c1ccccc1O"])
    >>> svg = draw_bit(features, "[OH]~*")
    >>> svg[:5], "<title>[OH]~* in CCO</title>" in svg
    ('<?xml', True)
    """
    number = fingerprint.column_number(bit)
    if smiles is not None:
        smiles = fingerprint.plain(smiles)
        places = fingerprint.places(number, smiles)
        if not places:
            raise ValueError(f"smiles={smiles!r} does not set {fingerprint.caption(number)}")
    else:
        smiles, places = fingerprint.example_places(number, example)
    (molecule,) = parse(as_smiles([smiles], "smiles"))
    return _mark(molecule, places, size, f"{fingerprint.caption(number)} in {smiles}")


def draw_column(
    fingerprint: MolecularFeatures | MorganFingerprint, column: int | str, size: tuple[int, int] = (120, 100)
) -> str | None:
    """Draw what a column stands for: a substructure alone, others in a molecule; None where there is nothing to draw.

    Examples
    --------
    >>> from treelu.chem import MolecularFeatures, draw_column
    >>> features = MolecularFeatures(blocks=("substructures", "descriptors")).fit(["CCO", "CCN"])
    >>> draw_column(features, "C[CH2]~*")[:5], draw_column(features, "MolLogP")
    ('<?xml', None)
    """
    number = fingerprint.column_number(column)
    examples = fingerprint.examples(number)
    if examples:
        return draw_substructure(examples[0].smiles, examples[0].atom, examples[0].radius, size)
    if isinstance(fingerprint, MorganFingerprint) or fingerprint.columns_[number].smiles is None:
        return None
    return draw_bit(fingerprint, number, size=size)


def draw_substructure(smiles: str, atom: int, radius: int, size: tuple[int, int] = (120, 100)) -> str:
    """Draw one atom environment alone, with what decides whether a molecule has it and nothing else.

    Bonds that lead out of it are grey and dotted, as they may be of any type and end at any atom ``*``. Carbon atoms
    at such bonds are written with their hydrogens. R marks an atom that is in a ring, where no aromatic bond tells.

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
    fragment = cut_out(molecule, *environment_parts(molecule, atom, radius))
    _lay_out(molecule, fragment)
    inner = set(fragment.bonds.values())
    rim = {bond.GetIdx() for bond in fragment.molecule.GetBonds()} - inner
    return _draw(
        fragment.molecule.GetMol(),
        dict.fromkeys(fragment.number.values(), _AROUND) | {fragment.number[atom]: _CENTRE},
        dict.fromkeys(inner, _AROUND) | dict.fromkeys(rim, _RIM),
        size,
        f"atoms within {radius} bonds of atom {atom} in {smiles}",
    )


def _mark(molecule: Any, places: list[Place], size: tuple[int, int], title: str) -> str:
    """A molecule with places in colours."""
    atoms = frozenset().union(*(place.atoms for place in places))
    bonds = frozenset().union(*(place.bonds for place in places))
    centres = [centre for place in places for centre in place.centres]
    prepared = chem_extra("rdkit.Chem.Draw.rdMolDraw2D").PrepareMolForDrawing(molecule)
    colours = dict.fromkeys(atoms, _AROUND) | dict.fromkeys(centres, _CENTRE)
    return _draw(prepared, colours, dict.fromkeys(bonds, _AROUND), size, title)


def _lay_out(molecule: Any, fragment: Fragment) -> None:
    """Give a fragment the places that its atoms have in a drawing of the whole molecule, and letters where needed."""
    Chem = chem_extra("rdkit.Chem")
    chem_extra("rdkit.Chem.rdDepictor").Compute2DCoords(molecule)
    points = molecule.GetConformer().GetPositions()  # (A, 3)
    places = [points[index] for index in fragment.number]
    for start, far in fragment.stubs:
        # Two stubs take the place of a bond between two atoms of the fragment: they must not touch.
        share = _STUB / 2 if far in fragment.number else _STUB
        places.append(points[start] + share * (points[far] - points[start]))
        _write_hydrogens(fragment.molecule.GetAtomWithIdx(fragment.number[start]))
    shape = Chem.Conformer(len(places))
    for index, place in enumerate(places):
        shape.SetAtomPosition(index, place.tolist())
    fragment.molecule.AddConformer(shape)
    for index, new in fragment.number.items():
        atom = fragment.molecule.GetAtomWithIdx(new)
        if molecule.GetAtomWithIdx(index).IsInRing() and not any(bond.GetIsAromatic() for bond in atom.GetBonds()):
            atom.SetProp("atomNote", "R")


def _write_hydrogens(atom: Any) -> None:
    """Write a carbon atom, which a drawing would leave without letters, with its hydrogens."""
    if atom.GetAtomicNum() != 6 or atom.GetFormalCharge():
        return
    hydrogens = atom.GetNumExplicitHs()
    count = f"<sub>{hydrogens}</sub>" if hydrogens > 1 else ""
    atom.SetProp("_displayLabel", f"CH{count}" if hydrogens else "C")
    atom.SetProp("_displayLabelW", f"H{count}C" if hydrogens else "C")


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
