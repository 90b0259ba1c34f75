"""Features of a complex that is built here, against double loops over the text of its files."""

import math
from itertools import pairwise, product

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import AllChem, rdFingerprintGenerator
from rdkit.Geometry import Point3D

from experiments.datasets import Complex, ComplexFeatures, contact_counts, pair_fingerprint, read_complex
from experiments.datasets.complexes import LIGAND_ELEMENTS, PROTEIN_ELEMENTS

HETERO_ATOMS = (
    "HETATM  900  O   HOH A 201    {:8.3f}{:8.3f}{:8.3f}  1.00  0.00           O  \n"
    "HETATM  901 ZN    ZN A 202    {:8.3f}{:8.3f}{:8.3f}  1.00  0.00          ZN  \n"
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A peptide with hydrogen, a water and a zinc, and a ligand beside it."""
    folder = tmp_path_factory.mktemp("complex")
    peptide = Chem.AddHs(Chem.MolFromSequence("GSCMFD"), addResidueInfo=True)
    ligand = Chem.AddHs(Chem.MolFromSmiles("CC(=O)Nc1ccc(Cl)c(F)c1S(=O)(=O)NCCBr"))
    assert AllChem.EmbedMolecule(peptide, randomSeed=7) == 0
    assert AllChem.EmbedMolecule(ligand, randomSeed=3) == 0
    centre = peptide.GetConformer().GetPositions().mean(axis=0)
    position = ligand.GetConformer().GetPositions() + centre + [2.0, 1.0, -2.0]
    for atom, xyz in enumerate(position):
        ligand.GetConformer().SetAtomPosition(atom, Point3D(*xyz))
    lines = Chem.MolToPDBBlock(peptide).replace("END\n", "")
    (folder / "pocket.pdb").write_text(lines + HETERO_ATOMS.format(*centre, *(centre + 3)) + "END\n")
    with Chem.SDWriter(str(folder / "ligand.sdf")) as writer:
        writer.write(ligand)
    return folder / "ligand.sdf", folder / "pocket.pdb"


def atoms_of_pdb(path):
    """(element, x, y, z) of the heavy atoms but water, by the columns of the format."""
    lines = [line for line in path.read_text().splitlines() if line.startswith(("ATOM", "HETATM"))]
    atoms = [(line[76:78].strip().title(), *map(float, (line[30:38], line[38:46], line[46:54]))) for line in lines]
    kept = [atom for atom, line in zip(atoms, lines, strict=True) if line[17:20] != "HOH" and atom[0] != "H"]
    assert len(kept) == len(atoms) - sum(atom[0] == "H" for atom in atoms) - 1
    return kept


def atoms_of_sdf(path):
    lines = path.read_text().splitlines()
    fields = [line.split() for line in lines[4 : 4 + int(lines[3][:3])]]
    return [(field[3], *map(float, field[:3])) for field in fields if field[3] != "H"]


def close_pairs(files, bins):
    """(ligand atom, protein atom, bin) of every pair within the bins, by brute force."""
    for (i, small), (j, large) in product(enumerate(atoms_of_sdf(files[0])), enumerate(atoms_of_pdb(files[1]))):
        distance = math.dist(small[1:], large[1:])
        for index, (low, high) in enumerate(pairwise(bins)):
            if low <= distance < high:
                yield i, j, index


@pytest.mark.parametrize("bins", [(0, 2, 4, 6, 8, 10, 12), (1.0, 3.5), (0.0, 3.0, 4.5, 20.0)])
def test_contact_counts_by_brute_force(files, bins):
    small, large = atoms_of_sdf(files[0]), atoms_of_pdb(files[1])
    expected = np.zeros((9, 4, len(bins) - 1), dtype=int)
    for i, j, index in close_pairs(files, bins):
        if large[j][0] in PROTEIN_ELEMENTS:
            expected[LIGAND_ELEMENTS.index(small[i][0]), PROTEIN_ELEMENTS.index(large[j][0]), index] += 1
    assert expected.sum() > 20
    np.testing.assert_array_equal(contact_counts(read_complex(*files), bins), expected.ravel())


def atom_keys(molecule, radius):
    """Name of each atom: what the environments of one more bond add when it is the only centre."""

    def found(atom, size):
        generator = rdFingerprintGenerator.GetMorganGenerator(radius=size, includeRedundantEnvironments=True)
        return generator.GetSparseCountFingerprint(molecule, fromAtoms=[atom]).GetNonzeroElements()

    keys = []
    for atom in range(molecule.GetNumAtoms()):
        levels = [found(atom, size) for size in range(radius + 1)]
        new = [set(levels[0]), *(set(b) - set(a) for a, b in pairwise(levels))]
        (key,) = [names for names in new if names][-1]
        keys.append(key)
    return keys


def mixed(first, second):
    """The hash in Python's whole numbers."""
    word = 2**64 - 1
    value = (first << 32) | second
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & word
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & word
    return value ^ (value >> 31)


@pytest.mark.parametrize(("radius", "n_bits"), [(0, 64), (1, 512), (2, 1000)])
def test_pair_fingerprint_by_brute_force(files, radius, n_bits):
    pair = read_complex(*files)
    small, large = atom_keys(pair.ligand, radius), atom_keys(pair.protein, radius)
    bins = (0.0, 2.0, 3.0, 4.5)
    expected = np.zeros((3, n_bits), dtype=int)
    for i, j, index in close_pairs(files, bins):
        expected[index, mixed(small[i], large[j]) % n_bits] += 1
    assert expected.sum() > 20
    np.testing.assert_array_equal(pair_fingerprint(pair, n_bits, radius=radius, bins=bins), expected.ravel())


def test_features_do_not_change_when_the_complex_moves(files):
    pair = read_complex(*files)
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))
    matrix = np.eye(4)
    matrix[:3, :3] = turn * np.sign(np.linalg.det(turn))
    matrix[:3, 3] = [5.0, -3.0, 11.0]
    moved = Complex(Chem.Mol(pair.ligand), Chem.Mol(pair.protein))
    for molecule in (moved.ligand, moved.protein):
        AllChem.TransformConformer(molecule.GetConformer(), matrix)
    features = ComplexFeatures().transform([pair, moved]).toarray()
    np.testing.assert_array_equal(features[0], features[1])


def test_features_do_not_depend_on_the_order_of_atoms(files):
    pair = read_complex(*files)
    order = np.random.default_rng(0).permutation(pair.ligand.GetNumAtoms()).tolist()
    shuffled = Complex(Chem.RenumberAtoms(pair.ligand, order), pair.protein)
    features = ComplexFeatures().transform([pair, shuffled]).toarray()
    np.testing.assert_array_equal(features[0], features[1])


def single_atom(symbol, x):
    molecule = Chem.MolFromSmiles(f"[{symbol}]")
    conformer = Chem.Conformer(1)
    conformer.SetAtomPosition(0, Point3D(x, 0.0, 0.0))
    molecule.AddConformer(conformer)
    return molecule


@pytest.mark.parametrize(("distance", "expected"), [(0, 0), (1.999, 0), (2, 1), (11.999, 5), (12, None), (30, None)])
def test_bins_hold_their_lower_end(distance, expected):
    counts = contact_counts(Complex(single_atom("Cl", 0.0), single_atom("S", float(distance))))
    place = np.ravel_multi_index((6, 3, 0), (9, 4, 6))
    assert np.flatnonzero(counts).tolist() == ([] if expected is None else [place + expected])


def test_transformer_takes_files_and_names_its_columns(files):
    features = ComplexFeatures(n_bits=32)
    X = features.fit_transform([files, read_complex(*files)])
    names = features.get_feature_names_out()
    assert X.shape == (2, len(names)) == (2, 216 + 3 * 32)
    assert (X[0] != X[1]).nnz == 0
    pair = read_complex(*files)
    assert X[0, names.tolist().index("contact_Br_C_8_10")] == contact_counts(pair).reshape(9, 4, 6)[7, 0, 4]
    assert ComplexFeatures(n_bits=0).transform([files]).shape == (1, 216)
    assert ComplexFeatures().transform([]).shape == (0, 216 + 3 * 512)


def test_protein_with_an_impossible_valence_is_read(tmp_path, files):
    # A carbon on top of another, as alternative locations leave them.
    text = files[1].read_text().splitlines(keepends=True)
    carbon = next(line for line in text if line[76:78].strip() == "C")
    crowded = tmp_path / "crowded.pdb"
    twins = [
        carbon[:6] + f"{950 + n:5d}" + carbon[11:38] + f"{float(carbon[38:46]) + 0.9:8.3f}" + carbon[46:]
        for n in (0, 1)
    ]
    crowded.write_text("".join([*twins, *text]))
    assert contact_counts(read_complex(files[0], crowded)).sum() > contact_counts(read_complex(*files)).sum()


def test_errors(tmp_path, files):
    with pytest.raises(FileNotFoundError, match=r"no structure file .*nothing\.sdf"):
        read_complex(tmp_path / "nothing.sdf", files[1])
    bad = tmp_path / "bad.sdf"
    bad.write_text("nothing of the kind\n")
    with pytest.raises(ValueError, match=r"cannot read a ligand with coordinates from .*bad\.sdf"):
        read_complex(bad, files[1])
    with pytest.raises(ValueError, match=r"cannot read atoms from .*bad\.sdf"):
        read_complex(files[0], bad)
    for bins in ([1.0], [0.0, 2.0, 1.0], [-1.0, 2.0]):
        with pytest.raises(ValueError, match="two or more increasing distances"):
            contact_counts(read_complex(*files), bins)
