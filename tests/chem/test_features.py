"""MolecularFeatures: each column against RDKit's own answer, names, and what is remembered."""

import json
import random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem, rdBase
from rdkit.Chem import Descriptors, rdMolDescriptors
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from experiments.datasets import load_moleculenet
from treelu.chem import MolecularFeatures, draw_bit, draw_column

SMILES = [
    "CCO",
    "CCN",
    "CC(=O)Oc1ccccc1C(=O)O",
    "CC(=O)Nc1ccc(O)cc1",
    "Cn1c(=O)c2c(ncn2C)n(C)c1=O",
    "[NH3+]C(C)C(=O)[O-]",
    "C1CC1C",
    "C1CCC1C",
    "C1CCCCC1C",
    "CS(=O)(=O)c1cc[nH]c1",
    "[13CH3]CO",
    "[2H]C([2H])([2H])O",
    "[14CH3]N.OS(=O)(=O)O",
    "B(O)(O)c1ccncc1",
    "C[Si](C)(C)C#N",
    "O=[N+]([O-])c1ccc[se]1",
    "[CH2]CC[Pt](Cl)Cl",
    "F[C@H](Cl)Br",
    "C/C=C/C",
    "[Na+].[Cl-]",
    "c1ccc2ccccc2c1",
]


def read(smiles):
    """A molecule without marks of isotopes, which do not count."""
    molecule = Chem.MolFromSmiles(smiles)
    for atom in molecule.GetAtoms():
        atom.SetIsotope(0)
    return Chem.RemoveHs(molecule)


def has(features, smiles):
    """Which molecules RDKit finds each substructure in, by the exact pattern; shape (molecules, columns)."""
    molecules = [read(text) for text in smiles]
    patterns = [Chem.MolFromSmarts(features.smarts(column)) for column in range(len(features.columns_))]
    return np.array([[molecule.HasSubstructMatch(pattern) for pattern in patterns] for molecule in molecules])


def n_places(features, column, smiles):
    """How often RDKit finds a substructure: matches that differ in their bonds, or in the atom where there are none."""
    molecule, pattern = read(smiles), Chem.MolFromSmarts(features.smarts(column))
    found = set()
    for match in molecule.GetSubstructMatches(pattern, uniquify=False, maxMatches=100_000):
        ends = [(match[bond.GetBeginAtomIdx()], match[bond.GetEndAtomIdx()]) for bond in pattern.GetBonds()]
        found.add(frozenset(map(frozenset, ends)) or match)
    return len(found)


@pytest.mark.slow
@given(
    training=st.lists(st.sampled_from(SMILES), min_size=1, max_size=8),
    others=st.lists(st.sampled_from(SMILES), min_size=1, max_size=4),
    radius=st.integers(0, 3),
)
def test_substructures_are_where_their_patterns_match(training, others, radius):
    features = MolecularFeatures(radius=radius, min_molecules=1).fit(training)
    for smiles in (training, others):
        np.testing.assert_array_equal(features.transform(smiles).toarray() > 0, has(features, smiles))


def test_counts_are_the_number_of_places():
    features = MolecularFeatures(min_molecules=1)
    X = features.fit_transform(SMILES).toarray()
    expected = [[n_places(features, column, text) for column in range(X.shape[1])] for text in SMILES]
    np.testing.assert_allclose(X, np.log1p(expected))
    whether = MolecularFeatures(min_molecules=1, counts=False).fit_transform(SMILES).toarray()
    np.testing.assert_array_equal(whether, X > 0)


@pytest.mark.slow
def test_substructures_of_bace_are_where_their_patterns_match(shared_data):
    """Every sixteenth of the 2,048 columns, on all 1,513 molecules; no exception."""
    smiles = load_moleculenet("bace", data_home=shared_data).smiles
    features = MolecularFeatures()
    X = features.fit_transform(smiles).tocsc()
    assert X.shape == (1513, 2048)
    assert len(set(features.get_feature_names_out())) == 2048
    molecules = [Chem.MolFromSmiles(text) for text in smiles]
    for column in range(0, 2048, 16):
        pattern = Chem.MolFromSmarts(features.smarts(column))
        expected = [row for row, molecule in enumerate(molecules) if molecule.HasSubstructMatch(pattern)]
        assert np.sort(X.indices[X.indptr[column] : X.indptr[column + 1]]).tolist() == expected
        assert features.columns_[column].n_molecules == len(expected)


def test_rings_that_close_within_a_substructure_are_told_apart():
    """Morgan's numbers of a CH2 with radius 2 are the same in cyclobutane and in cyclohexane."""
    features = MolecularFeatures(min_molecules=1).fit(["C1CCC1", "C1CCCCC1"])
    four, six = features.transform(["C1CCC1", "C1CCCCC1"]).toarray()
    assert ((four > 0) != (six > 0)).sum() == 2


def test_columns_are_the_most_frequent_substructures():
    features = MolecularFeatures(min_molecules=1).fit(SMILES)
    counts = [column.n_molecules for column in features.columns_]
    assert counts == sorted(counts, reverse=True)
    first = MolecularFeatures(n_bits=10).fit(SMILES)
    assert first.columns_ == features.columns_[:10]
    often = MolecularFeatures(min_molecules=3).fit(SMILES)
    assert often.columns_ == tuple(column for column in features.columns_ if column.n_molecules >= 3)


def test_names_do_not_depend_on_the_order_of_molecules():
    names = set(MolecularFeatures(min_molecules=1).fit(SMILES).get_feature_names_out())
    for seed in range(5):
        shuffled = random.Random(seed).sample(SMILES, len(SMILES))
        renumbered = [Chem.MolToSmiles(Chem.MolFromSmiles(text), doRandom=True) for text in shuffled]
        features = MolecularFeatures(min_molecules=1).fit(renumbered)
        assert set(features.get_feature_names_out()) == names
        assert len(features.columns_) == len(names)


@pytest.mark.parametrize(
    ("block", "oracle"),
    [
        ("atom_pairs", rdMolDescriptors.GetAtomPairFingerprint),
        ("torsions", rdMolDescriptors.GetTopologicalTorsionFingerprint),
    ],
)
def test_pairs_and_torsions_equal_rdkit(block, oracle):
    features = MolecularFeatures((block,), min_molecules=1)
    X = features.fit_transform(SMILES).toarray()
    with rdBase.BlockLogs():
        expected = [oracle(read(text)).GetNonzeroElements() for text in SMILES]
    keys = [column.key for column in features.columns_]
    assert set(keys) == {key for counts in expected for key in counts}
    np.testing.assert_allclose(X, np.log1p([[counts.get(key, 0) for key in keys] for counts in expected]))


def test_maccs_keys_equal_rdkit():
    features = MolecularFeatures(("maccs",))
    X = features.fit_transform(SMILES).toarray()
    keys = [rdMolDescriptors.GetMACCSKeysFingerprint(read(text)) for text in SMILES]
    np.testing.assert_array_equal(X, [[key[bit] for bit in range(1, 167)] for key in keys])
    assert features.get_feature_names_out()[[41, 164]].tolist() == ["MACCS 42: F", "MACCS 165: [R]"]


def test_descriptors_equal_rdkit_and_unknown_ones_are_medians():
    features = MolecularFeatures(("descriptors",))
    X = features.fit_transform(SMILES).toarray()
    table = pd.DataFrame([Descriptors.CalcMolDescriptors(read(text)) for text in SMILES])
    expected = table.drop(columns="Ipc").replace([np.inf, -np.inf], np.nan)
    assert expected.isna().any().any()  # the partial charges of NaCl
    np.testing.assert_allclose(X, expected.fillna(expected.median()), rtol=1e-12)
    assert features.get_feature_names_out().tolist() == expected.columns.tolist()


def test_descriptors_that_only_new_molecules_lack_are_medians_too():
    training = ["CCO", "CCN", "CC(=O)O", "c1ccccc1O"]  # all of them have all descriptors
    features = MolecularFeatures(("descriptors",)).fit(training)
    known = pd.DataFrame([Descriptors.CalcMolDescriptors(read(text)) for text in training]).drop(columns="Ipc")
    new = pd.DataFrame([Descriptors.CalcMolDescriptors(read("C[Pt]C"))]).drop(columns="Ipc")
    new = new.replace([np.inf, -np.inf], np.nan)
    assert new["MaxPartialCharge"].isna().all()
    np.testing.assert_allclose(features.transform(["C[Pt]C"]).toarray(), new.fillna(known.median()), rtol=1e-12)


def test_descriptors_of_a_molecule_without_heavy_atoms():
    features = MolecularFeatures(("descriptors",)).fit(["CCO", "CCN", "CCCO"])
    column = features.column_number("SPS")  # RDKit divides by the number of heavy atoms
    expected = np.median([Descriptors.SPS(read(text)) for text in ("CCO", "CCN", "CCCO")])
    assert features.transform(["[H+]"]).toarray()[0, column] == pytest.approx(expected)


@pytest.mark.parametrize("radius", [1, 2])
def test_dative_bonds_have_no_arrow_that_points_the_wrong_way(radius):
    smiles = ["N->[Pt](<-N)(Cl)Cl", "[Pt](Cl)(Cl)(N)N", "C1CN(C)(C)->[Pd](Cl)(Cl)<-N1(C)C", "C[N+](C)(C)C"]
    features = MolecularFeatures(radius=radius, min_molecules=1)
    found = features.fit_transform(smiles).toarray() > 0
    np.testing.assert_array_equal(found, has(features, smiles))
    assert not any("->" in name for name in features.get_feature_names_out())


def test_blocks_stand_side_by_side():
    blocks = ("substructures", "maccs", "torsions")
    together = MolecularFeatures(blocks).fit_transform(SMILES).toarray()
    apart = [MolecularFeatures((block,)).fit_transform(SMILES).toarray() for block in blocks]
    np.testing.assert_array_equal(together, np.concatenate(apart, axis=1))


def test_memory_round_trip():
    features = MolecularFeatures(("substructures", "maccs", "descriptors"), radius=1, invalid="drop")
    with pytest.warns(UserWarning, match="rows 1"):
        X = features.fit_transform([SMILES[0], "no smiles", *SMILES[1:]])
    back = MolecularFeatures.from_dict(json.loads(json.dumps(features.to_dict())))
    assert back.get_params() == features.get_params()
    assert back.columns_ == features.columns_
    np.testing.assert_array_equal(back.kept_, features.kept_)
    np.testing.assert_array_equal(back.transform(SMILES).toarray(), X.toarray())


@pytest.mark.parametrize(
    ("place", "value"),
    [(0, "none"), (1, "1"), (2, None), (3, 0.5), (4, None), (5, -1), (7, "x")],
)
def test_memory_that_is_not_its_own_is_refused(place, value):
    data = MolecularFeatures().fit(SMILES).to_dict()
    data["columns"][0][place] = value
    with pytest.raises((ValueError, TypeError)):
        MolecularFeatures.from_dict(data)


def test_refused_smiles():
    with pytest.raises(ValueError, match=r"cannot read 1 of 3 SMILES: rows 1 \('C1'\)"):
        MolecularFeatures().fit(["CC", "C1", "CC"])
    empty = MolecularFeatures(invalid="empty")
    with pytest.warns(UserWarning, match="rows of zeros"):
        assert empty.fit_transform(["CC", "C1", "CC"]).getnnz(axis=1).tolist() == [2, 0, 2]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"blocks": "maccs"}, "blocks must be different names in a sequence, got 'maccs'"),
        ({"blocks": ()}, "blocks must be different names"),
        ({"blocks": ("maccs", "bits")}, "blocks must be of substructures, .*; got 'bits'"),
        ({"radius": -1}, "radius must be an integer of at least 0, got -1"),
        ({"n_bits": 0}, "n_bits must be an integer of at least 1, got 0"),
        ({"min_molecules": 9}, "no substructure is in 9 of the 2 training molecules"),
        ({"invalid": "keep"}, "invalid must be 'error', 'drop' or 'empty', got 'keep'"),
    ],
)
def test_errors(parameters, message):
    with pytest.raises(ValueError, match=message):
        MolecularFeatures(**parameters).fit(["CC", "CCO"])


def test_errors_of_columns():
    features = MolecularFeatures(("substructures", "maccs", "descriptors")).fit(SMILES)
    with pytest.raises(ValueError, match="no column is called 'x'"):
        features.smarts("x")
    with pytest.raises(ValueError, match="column must be from 0 to"):
        features.places(100_000, "C")
    with pytest.raises(ValueError, match="'MolLogP' is not a substructure"):
        features.smarts("MolLogP")
    with pytest.raises(ValueError, match="'MolLogP' is of the whole molecule; there is nothing to draw"):
        draw_bit(features, "MolLogP")
    with pytest.raises(ValueError, match=r"'MACCS 10: .*' is in no training molecule"):
        draw_bit(features, next(name for name in features.get_feature_names_out() if name.startswith("MACCS 10:")))


@pytest.mark.parametrize("block", ["substructures", "maccs", "atom_pairs", "torsions"])
def test_every_column_can_be_drawn_where_a_molecule_has_it(block):
    features = MolecularFeatures((block,)).fit(SMILES)
    X = features.transform(SMILES)
    for column, known in enumerate(features.columns_[::5]):
        here = X[:, [column * 5]].nonzero()[0]
        picture = draw_column(features, known.name)
        assert (picture is not None) == (len(here) > 0)
        if len(here) and (block != "maccs" or features.places(known.name, SMILES[here[0]])):
            assert "<svg" in draw_bit(features, known.name, smiles=SMILES[here[0]])


def test_in_a_pipeline():
    y = [int("O" in text) for text in SMILES]
    model = make_pipeline(MolecularFeatures(), LogisticRegression(C=100.0)).fit(SMILES, y)
    assert model.score(SMILES, y) == 1.0
