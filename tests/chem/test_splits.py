"""Splits of molecules: the published ones exactly, and properties that any split has."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem
from rdkit.Chem.Scaffolds import MurckoScaffold

from experiments.datasets import load_moleculenet
from treelu.chem import MorganFingerprint, load_split, random_split, scaffold_groups, scaffold_split, time_split

RINGS = ["c1ccccc1", "C1CC1", "C1CCC1", "c1ccncc1", "c1ccc2ccccc2c1"]
TAILS = ["", "C", "CC", "O", "CN"]


@pytest.mark.slow
def test_scaffold_split_of_bace_is_the_papers(shared_data):
    table = load_moleculenet("bace", shared_data)
    split = scaffold_split(table.smiles)
    X = MorganFingerprint().transform(table.smiles)
    for ours, published in zip(split, table.split, strict=True):
        assert sorted(ours) == sorted(published)
        # The published rows were found by fingerprint: their order is ours but for rows whose fingerprints
        # are equal, a macrocycle and its homologue twice.
        differ = ours != published
        assert differ.sum() <= 2
        assert (X[ours[differ]] != X[published[differ]]).nnz == 0


@pytest.mark.slow
def test_scaffold_split_of_hiv_is_the_published_one(shared_data):
    table = load_moleculenet("hiv", shared_data)
    with pytest.warns(UserWarning, match="7 of 41127 SMILES: rows 137 .* They are in no part"):
        split = scaffold_split(table.smiles)
    for ours, published in zip(split, table.split, strict=True):
        np.testing.assert_array_equal(ours, published)


@settings(max_examples=30, deadline=None)
@given(
    parts=st.lists(st.tuples(st.sampled_from(RINGS), st.sampled_from(TAILS)), min_size=1, max_size=40),
    percent=st.tuples(st.integers(0, 100), st.integers(0, 100)).map(sorted),
)
def test_no_scaffold_is_torn_and_training_not_too_large(parts, percent):
    smiles = [ring + tail for ring, tail in parts]
    fractions = (percent[0] / 100, (percent[1] - percent[0]) / 100, (100 - percent[1]) / 100)
    split = scaffold_split(smiles, fractions)
    assert sorted(np.concatenate(split)) == list(range(len(smiles)))
    assert 100 * len(split.train) <= percent[0] * len(smiles)
    owners = [{MurckoScaffold.MurckoScaffoldSmiles(mol=Chem.MolFromSmiles(smiles[r])) for r in p} for p in split]
    assert sum(map(len, owners)) == len(set.union(*owners))


def test_scaffold_split_ignores_chirality_and_groups_chains():
    train, valid, test = scaffold_split(["C[C@H]1CC1O", "C[C@@H]1CC1O", "CCC", "CCCO"], (0.5, 0.5, 0))
    assert (train.tolist(), valid.tolist(), test.tolist()) == ([2, 3], [0, 1], [])


def test_refused_rows_can_be_an_error():
    with pytest.raises(ValueError, match=r"1 of 2 SMILES: rows 1 \('C1'\).*invalid='drop'"):
        scaffold_split(["C", "C1"], invalid="error")
    with pytest.raises(ValueError, match="invalid must be 'drop' or 'error', got 'empty'"):
        scaffold_split(["C"], invalid="empty")


@given(st.integers(0, 200), st.integers(0, 5))
def test_random_split_is_a_repeatable_partition(n_rows, seed):
    split = random_split(n_rows, (0.7, 0.2, 0.1), random_state=seed)
    assert sorted(np.concatenate(split)) == list(range(n_rows))
    assert [len(split.train), len(split.valid)] == [7 * n_rows // 10, 9 * n_rows // 10 - 7 * n_rows // 10]
    again = random_split(n_rows, (0.7, 0.2, 0.1), random_state=seed)
    assert all((a == b).all() for a, b in zip(split, again, strict=True))


def test_random_splits_of_two_seeds_differ():
    assert random_split(100, random_state=0).test.tolist() != random_split(100, random_state=1).test.tolist()


@pytest.mark.parametrize("fractions", [(0.8, 0.1), (0.8, 0.1, 0.2), (1.2, -0.1, -0.1)])
def test_wrong_fractions(fractions):
    with pytest.raises(ValueError, match="three numbers of at least 0 with sum 1"):
        random_split(10, fractions)


@pytest.mark.parametrize("n_rows", [-3, 2.5, "10"])
def test_wrong_number_of_rows(n_rows):
    with pytest.raises(ValueError, match="n_rows must be an integer of at least 0"):
        random_split(n_rows)


@given(st.lists(st.integers(2000, 2020), max_size=60))
def test_time_split_by_fractions_never_trains_on_the_future(years):
    years = np.array(years, dtype=int)
    train, valid, test = time_split(years)
    assert sorted(np.concatenate([train, valid, test])) == list(range(len(years)))
    for earlier, later in ((train, valid), (valid, test), (train, test)):
        assert not len(earlier) or not len(later) or years[earlier].max() <= years[later].min()


def test_time_split_of_pdbbind_by_release(shared_data):
    table = pd.read_csv(shared_data / "pdbbind" / "rfscore_v2.csv.gz")
    published = load_split(shared_data / "splits" / "pdbbind.json")
    for ours, theirs in zip(time_split(table["first_release"], until=(2014, 2015)), published, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("convert", [list, np.array, pd.Series, pd.to_datetime])
def test_time_split_by_dates(convert):
    dates = convert(["2020-05-01", "2019-01-01", "2021-03-01", "2018-01-01"])
    until = ("2019-12-31", "2020-12-31")
    assert [part.tolist() for part in time_split(dates, until=until)] == [[1, 3], [0], [2]]
    assert [part.tolist() for part in time_split(dates, (0.5, 0.25, 0.25))] == [[3, 1], [0], [2]]


def test_time_split_refuses_what_it_cannot_sort():
    with pytest.raises(ValueError, match=r"rows \[1\]"):
        time_split([2001.0, np.nan])
    with pytest.raises(ValueError, match=r"rows \[0\]"):
        time_split(pd.to_datetime(pd.Series([None, "2020-01-01"])))
    with pytest.raises(ValueError, match=r"in this order, got \(2015, 2014\)"):
        time_split([2001], until=(2015, 2014))
    with pytest.raises(ValueError, match=r"one column, got shape \(2, 1\)"):
        time_split([[1], [2]])


def test_load_split_keeps_the_order_of_the_file(tmp_path):
    path = tmp_path / "split.json"
    path.write_text(json.dumps({"test": [1], "train": [4, 0, 3], "valid": []}))
    split = load_split(path)
    assert [part.tolist() for part in split] == [[4, 0, 3], [], [1]]
    assert split.valid.dtype == np.int64


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"train": [0], "test": [1]}, "keys train, valid and test"),
        ([0, 1], "keys train, valid and test, got list"),
        ({"train": [0], "valid": [0], "test": [1]}, r"rows \[0\] occur more than once"),
        ({"train": [0.5], "valid": [], "test": []}, "'train' must be a list of row numbers"),
        ({"train": [0], "valid": [-1], "test": []}, "'valid' must be a list of row numbers"),
    ],
)
def test_load_split_refuses(tmp_path, content, message):
    path = tmp_path / "split.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        load_split(path)


@given(st.lists(st.tuples(st.sampled_from(RINGS), st.sampled_from(TAILS)), min_size=1, max_size=12))
def test_groups_are_scaffolds(parts):
    smiles = [ring + tail for ring, tail in parts]
    groups = scaffold_groups(smiles)
    skeletons = [MurckoScaffold.MurckoScaffoldSmiles(text) for text in smiles]
    same = np.array(skeletons)[:, None] == np.array(skeletons)
    np.testing.assert_array_equal(groups[:, None] == groups, same)
    assert groups[0] == 0


def test_groups_need_readable_molecules():
    with pytest.raises(ValueError, match="cannot read 1 of 2 SMILES: rows 1"):
        scaffold_groups(["CC", "C1"])


def test_numbers_of_atoms_do_not_tear_a_scaffold_apart():
    smiles = ["[cH:1]1[cH:2][cH:3][cH:4][cH:5][c:6]1[OH:7]", "C1CC1", "[CH2:3]1[CH2:9]C1", "c1ccccc1C"]
    assert scaffold_groups(smiles).tolist() == [0, 1, 1, 0]
    assert [sorted(part) for part in scaffold_split(smiles, (0.5, 0.5, 0.0))] == [[1, 2], [0, 3], []]
