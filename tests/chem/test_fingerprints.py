"""Morgan fingerprints against RDKit's own, and what is remembered about their bits."""

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from experiments.datasets import load_moleculenet
from treelu.chem import MorganFingerprint

SMILES = [
    "CCO",
    "c1ccccc1O",
    "CC(=O)Nc1ccc(O)cc1",
    "C[C@H](N)C(=O)O",
    "[Na+].[Cl-]",
    "OCC1OC(O)C(O)C(O)C1O",
    "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
    "C1CC2CCC1C2",
]
# The first row of the authors' own file of Bace test fingerprints; row 381 of the table.
PAPER_SMILES = "O1CCC(CC1)CNC(=O)C(Cc1cc2cc(ccc2nc1N)-c1ccccc1C)C"
PAPER_BITS = """1 29 79 80 155 180 197 204 283 286 334 352 378 523 572 573 650 656 701 716 807 875 878 896 926 950
961 984 1019 1057 1068 1088 1097 1152 1160 1171 1199 1325 1347 1349 1380 1391 1405 1453 1457 1459 1530 1604
1719 1722 1750 1760 1855 1858 1873 1875 1917 1951 1999"""


def by_rdkit(smiles, radius, n_bits, counts):
    """The same fingerprints from RDKit, one molecule at a time."""
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=radius, fpSize=n_bits)
    read = generator.GetCountFingerprintAsNumPy if counts else generator.GetFingerprintAsNumPy
    return np.array([read(Chem.MolFromSmiles(text)) for text in smiles], dtype=float)


@settings(max_examples=40, deadline=None)
@given(
    smiles=st.lists(st.sampled_from(SMILES), min_size=1, max_size=6),
    radius=st.integers(0, 4),
    n_bits=st.sampled_from([1, 7, 64, 1000, 2048]),
    counts=st.booleans(),
)
def test_equals_rdkit(smiles, radius, n_bits, counts):
    fingerprint = MorganFingerprint(radius, n_bits, counts=counts)
    expected = by_rdkit(smiles, radius, n_bits, counts)
    np.testing.assert_array_equal(fingerprint.transform(smiles).toarray(), expected)
    np.testing.assert_array_equal(fingerprint.fit_transform(smiles).toarray(), expected)


def test_equals_the_papers_fingerprint():
    X = MorganFingerprint().transform([PAPER_SMILES])
    assert X.indices.tolist() == [int(bit) for bit in PAPER_BITS.split()]


def test_whole_bace_equals_rdkit(shared_data):
    table = load_moleculenet("bace", shared_data)
    X = MorganFingerprint().transform(table.smiles)
    np.testing.assert_array_equal(X.toarray(), by_rdkit(table.smiles, 2, 2048, False))
    assert table.smiles[table.split.test[0]] == PAPER_SMILES


def test_matrix_is_what_scikit_learn_expects():
    X = MorganFingerprint().transform(SMILES)
    assert (X.format, X.dtype, X.indices.dtype) == ("csr", np.float64, np.int32)
    assert X.has_canonical_format


@pytest.mark.parametrize("container", [list, tuple, np.array, pd.Series, pd.Index])
def test_takes_any_column(container):
    expected = MorganFingerprint().transform(SMILES).toarray()
    np.testing.assert_array_equal(MorganFingerprint().transform(container(SMILES)).toarray(), expected)


def test_takes_a_table_of_one_column_and_a_shuffled_series():
    expected = MorganFingerprint().transform(SMILES).toarray()
    table = pd.DataFrame({"smiles": SMILES}, index=range(50, 50 + len(SMILES)))
    for X in (table, table["smiles"], table.to_numpy()):
        np.testing.assert_array_equal(MorganFingerprint().transform(X).toarray(), expected)


def test_no_rows():
    assert MorganFingerprint().fit([]).transform([]).shape == (0, 2048)


def test_refused_smiles_are_an_error_that_lists_rows():
    smiles = ["CCO", "C1CC", None, "CCN", np.nan, "", pd.NA]
    with pytest.raises(ValueError, match=r"5 of 7 SMILES: rows 1 \('C1CC'\), 2 .*, 4 .*, 5 .*, 6 .*invalid='drop'"):
        MorganFingerprint().fit(smiles)


def test_every_refused_row_is_named_however_many_there_are():
    with pytest.raises(ValueError) as caught:
        MorganFingerprint().transform(["C", *["C1"] * 30])
    assert all(f"{row}" in str(caught.value) for row in range(1, 31))


def test_drop_leaves_rows_out_and_says_which():
    fingerprint = MorganFingerprint(invalid="drop")
    with pytest.warns(UserWarning, match=r"rows 1 \('C1CC'\).*left out"):
        X = fingerprint.fit_transform(["CCO", "C1CC", "CCN"])
    assert fingerprint.kept_.tolist() == [0, 2]
    assert fingerprint.refused_.tolist() == [1]
    np.testing.assert_array_equal(X.toarray(), by_rdkit(["CCO", "CCN"], 2, 2048, False))
    with pytest.warns(UserWarning, match="rows 0"):
        X, kept = fingerprint.transform_kept(["no", "CCO"])
    assert X.shape == (1, 2048)
    assert kept.tolist() == [1]


def test_empty_keeps_rows_of_zeros_and_warns():
    fingerprint = MorganFingerprint(invalid="empty")
    with pytest.warns(UserWarning, match="rows of zeros"):
        X = fingerprint.fit_transform(["CCO", "C1CC", "CCN"])
    assert fingerprint.kept_.tolist() == [0, 1, 2]
    assert X[1].nnz == 0
    np.testing.assert_array_equal(X[[0, 2]].toarray(), by_rdkit(["CCO", "CCN"], 2, 2048, False))


def test_readable_smiles_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MorganFingerprint(invalid="drop").fit_transform(SMILES)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"radius": -1}, "radius must be an integer of at least 0, got -1"),
        ({"n_bits": 0}, "n_bits must be an integer of at least 1, got 0"),
        ({"n_bits": 2.5}, "n_bits must be an integer"),
        ({"invalid": "ignore"}, "invalid must be 'error', 'drop' or 'empty', got 'ignore'"),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        MorganFingerprint(**parameters).fit(["C"])


def test_wrong_input():
    with pytest.raises(TypeError, match="single string 'CCO'"):
        MorganFingerprint().transform("CCO")
    with pytest.raises(TypeError, match="got 3 in row 1"):
        MorganFingerprint().transform(["C", 3])
    with pytest.raises(ValueError, match=r"shape \(1, 2\)"):
        MorganFingerprint().transform(np.array([["C", "N"]]))


def test_without_rdkit_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rdkit.Chem.rdFingerprintGenerator", None)
    with pytest.raises(ImportError, match=r"pip install 'treelu\[chem\]'"):
        MorganFingerprint().transform(["C"])


def test_examples_set_their_bit():
    fingerprint = MorganFingerprint(n_bits=128).fit(SMILES)
    assert set(fingerprint.examples_) == set(fingerprint.transform(SMILES).indices.tolist())
    for bit, found in fingerprint.examples_.items():
        for example in found:
            assert example.smiles in SMILES
            assert (example.atom, example.radius) in fingerprint.environments(bit, example.smiles)


def test_examples_are_the_most_frequent_in_the_smallest_molecule():
    fingerprint = MorganFingerprint(n_bits=1, radius=0, n_examples=2).fit(["CCCCO", "CO", "CN", "CCl", "OCCO"])
    first, second = fingerprint.examples(0)
    assert (first.n_molecules, first.smiles, first.atom) == (4, "CO", 0)  # the methyl group
    assert (second.n_molecules, second.smiles, second.atom) == (3, "CO", 1)  # the hydroxyl group
    assert MorganFingerprint(n_bits=1, n_examples=0).fit(["CO"]).examples(0) == []


def test_bit_out_of_range():
    with pytest.raises(ValueError, match="from 0 to 2047, got 2048"):
        MorganFingerprint().fit(SMILES).examples(2048)


def test_dictionary_round_trip_through_json():
    fingerprint = MorganFingerprint(radius=1, n_bits=256, counts=True, invalid="drop", n_examples=2)
    with pytest.warns(UserWarning, match="left out"):
        fingerprint.fit([*SMILES, "C1"])
    back = MorganFingerprint.from_dict(json.loads(json.dumps(fingerprint.to_dict())))
    assert back.get_params() == fingerprint.get_params()
    assert back.examples_ == fingerprint.examples_
    assert back.kept_.tolist() == fingerprint.kept_.tolist()
    assert back.refused_.tolist() == fingerprint.refused_.tolist()
    assert back.to_dict() == fingerprint.to_dict()


def test_pickle_and_clone():
    fingerprint = MorganFingerprint(n_bits=256).fit(SMILES)
    assert pickle.loads(pickle.dumps(fingerprint)).examples_ == fingerprint.examples_
    fresh = clone(fingerprint)
    assert fresh.n_bits == 256
    assert not hasattr(fresh, "examples_")


def test_feature_names_sort_as_the_bits_do():
    names = MorganFingerprint(n_bits=1000).get_feature_names_out()
    assert names[42] == "bit_042"
    assert sorted(names) == names.tolist()


def test_in_a_pipeline():
    y = [0, 1, 1, 0, 0, 0, 1, 0]
    model = make_pipeline(MorganFingerprint(), LogisticRegression(C=100.0)).fit(SMILES, y)
    assert model.predict(SMILES).tolist() == y
    assert model[:-1].get_feature_names_out()[0] == "bit_0000"
