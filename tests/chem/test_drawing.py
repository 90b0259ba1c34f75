"""Pictures of bits: that the right atoms and bonds are marked, and that the SVG is sound."""

import re
from xml.etree import ElementTree

import pytest
from rdkit import Chem

from treelu.chem import MorganFingerprint, draw_bit, draw_substructure

SMILES = ["CCO", "CCN", "c1ccccc1O", "CC(=O)Nc1ccc(O)cc1", "[NH3+]C(C)C(=O)[O-]"]
BLUE, AMBER, GREY = "#729EF2", "#FFD16B", "#E0E0E0"


@pytest.fixture(scope="module")
def fingerprint():
    return MorganFingerprint().fit(SMILES)


def marked(svg, colour):
    """Atoms and bonds whose shapes are filled with a colour."""
    shapes = [shape for shape in ElementTree.fromstring(svg.encode("iso-8859-1")).iter() if "class" in shape.attrib]
    classes = [shape.attrib["class"].split() for shape in shapes if colour in shape.attrib.get("style", "")]
    atoms = {int(names[0][5:]) for names in classes if names[0].startswith("atom")}
    bonds = {int(names[0][5:]) for names in classes if names[0].startswith("bond")}
    return atoms, bonds


def by_distance(smiles, centre, radius):
    """Atoms and bonds of an environment, from RDKit's matrix of distances along bonds."""
    molecule = Chem.MolFromSmiles(smiles)
    distance = Chem.GetDistanceMatrix(molecule)[centre]
    atoms = {atom for atom in range(molecule.GetNumAtoms()) if distance[atom] <= radius}
    ends = [(bond.GetIdx(), bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
    return atoms, {bond for bond, i, j in ends if min(distance[i], distance[j]) < radius}


@pytest.mark.parametrize("bit", sorted(MorganFingerprint().fit(SMILES).examples_))
def test_the_atoms_and_bonds_behind_a_bit_are_marked(fingerprint, bit):
    found = fingerprint.examples(bit)[0]
    svg = draw_bit(fingerprint, bit)
    atoms, bonds = by_distance(found.smiles, found.atom, found.radius)
    centre, _ = marked(svg, BLUE)
    around, marked_bonds = marked(svg, AMBER)
    assert centre == {found.atom}
    assert around == atoms - centre
    assert marked_bonds == bonds


def test_every_place_in_a_given_molecule_is_marked(fingerprint):
    svg = draw_bit(fingerprint, 807, smiles="OCC(O)CO", size=(400, 300))
    assert marked(svg, BLUE)[0] == {0, 3, 5}
    assert "width='400px' height='300px'" in svg


def test_bit_by_name_and_title(fingerprint):
    assert draw_bit(fingerprint, "bit_0807") == draw_bit(fingerprint, 807)
    assert "<title>bit 807 in CCO</title>" in draw_bit(fingerprint, 807)


def test_drawing_without_fit_needs_only_a_molecule():
    assert "<title>bit 807 in CO</title>" in draw_bit(MorganFingerprint(), 807, smiles="CO")


def test_errors(fingerprint):
    unset = next(bit for bit in range(2048) if bit not in fingerprint.examples_)
    with pytest.raises(ValueError, match=f"no training molecule sets bit {unset}; pass smiles="):
        draw_bit(fingerprint, unset)
    with pytest.raises(ValueError, match="smiles='CC' does not set bit 807"):
        draw_bit(fingerprint, 807, smiles="CC")
    with pytest.raises(ValueError, match="cannot read smiles='C1'"):
        draw_bit(fingerprint, 807, smiles="C1")
    with pytest.raises(ValueError, match="example must be from 0 to 1 for bit 807, got 3"):
        draw_bit(fingerprint, 807, example=3)
    with pytest.raises(ValueError, match="from bit_0000 to bit_2047, got 'logP'"):
        draw_bit(fingerprint, "logP")
    with pytest.raises(ValueError, match="from 0 to 2047, got -1"):
        draw_bit(fingerprint, -1)
    with pytest.raises(ValueError, match="no atom 9 in smiles='CC'"):
        draw_substructure("CC", 9, 1)


@pytest.mark.parametrize(
    ("smiles", "atom", "radius", "stars"),
    [
        ("c1ccccc1O", 6, 1, 2),  # C–OH with the ring's two neighbours cut off
        ("c1ccccc1O", 6, 0, 1),
        ("CCO", 1, 1, 0),  # nothing is cut off
        ("C", 0, 0, 0),
        ("[Na+].[Cl-]", 0, 0, 0),
        ("C1CC1", 0, 1, 2),  # the bond between the neighbours is not part of it
        ("CS(=O)(=O)c1cc[nH]c1", 1, 1, 2),
    ],
)
def test_substructure_shows_what_is_cut_off(smiles, atom, radius, stars):
    svg = draw_substructure(smiles, atom, radius)
    atoms, bonds = by_distance(smiles, atom, radius)
    assert len(marked(svg, BLUE)[0]) == 1
    assert len(marked(svg, AMBER)[0]) == len(atoms) - 1
    assert len(marked(svg, AMBER)[1]) == len(bonds)
    ends = [{bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()} for bond in Chem.MolFromSmiles(smiles).GetBonds()]
    assert sum(len(pair & atoms) for bond, pair in enumerate(ends) if bond not in bonds) == stars
    assert len(marked(svg, GREY)[1]) == stars


def test_substructure_keeps_charges_and_hydrogen():
    svg = draw_substructure("C[NH2+]C", 1, 0)
    centre = re.findall(r"class='atom-0'", svg)
    assert len(centre) > 3  # the letters N, H, 2 and +, besides the mark
