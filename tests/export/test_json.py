"""JSON: an exact round trip, and errors that name the field."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse

from tests.tree.trees import trees
from treelu.tree import ObliqueTree


@given(tree=trees())
@settings(max_examples=80, deadline=None)
def test_round_trip_is_exact(tree):
    back = ObliqueTree.from_json(tree.to_json())
    assert back == tree
    assert sparse.issparse(back.weights) == sparse.issparse(tree.weights)
    assert ObliqueTree.from_dict(tree.to_dict()) == tree
    assert ObliqueTree.from_json(tree.to_json().encode()).to_json() == tree.to_json()


@given(tree=trees())
@settings(max_examples=40, deadline=None)
def test_text_row_by_row_is_that_of_the_whole(tree):
    assert tree.to_json() == json.dumps(tree.to_dict(), ensure_ascii=False)


def test_text_takes_no_more_memory_than_a_few_times_its_size():
    """Python's numbers took ten times as much: 4.2 GB for 10,000 columns."""
    tree = ObliqueTree(np.random.default_rng(0).standard_normal((60, 1000)), np.zeros(60),
                       np.column_stack([np.arange(60, 120), np.append(np.arange(1, 60), 120)]),
                       np.zeros((61, 1)))  # fmt: skip
    tracemalloc.start()
    size = len(tree.to_json())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3.2 * size


@pytest.mark.parametrize("numbers", [[0.1, 1 / 3], [5e-324, -1.7976931348623157e308], [-0.0, 1e-17]])
def test_awkward_numbers_come_back_bit_for_bit(numbers):
    tree = ObliqueTree([numbers], [numbers[0]], [[1, 2]], [[numbers[0]], [numbers[1]]], notes=["ü, “quoted”"])
    back = ObliqueTree.from_json(tree.to_json())
    assert back.weights.tobytes() == tree.weights.tobytes()
    assert back.values.tobytes() == tree.values.tobytes()
    assert back.notes == tree.notes


@pytest.mark.parametrize(
    "classes", [[0, 1], ["ja", "nein"], [False, True], [1.5, 2.5], [2, 2**63 + 5], [-1, 2**63 + 5]]
)
def test_labels_keep_their_type(classes):
    tree = ObliqueTree([[1.0]], [0], [[1, 2]], [[0], [1]], link="logistic", classes=classes)
    back = ObliqueTree.from_json(tree.to_json())
    assert back.classes.dtype.kind == tree.classes.dtype.kind
    assert back.predict([[1.0]]).tolist() == [classes[1]]


def test_labels_that_json_has_no_form_for():
    days = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]")
    tree = ObliqueTree([[1.0]], [0], [[1, 2]], [[0], [1]], link="logistic", classes=days)
    with pytest.raises(TypeError, match="classes must be numbers, strings or booleans"):
        tree.to_json()


def a_tree(**changes):
    tree = ObliqueTree([[1.0, -1.0], [2.0, 0.0]], [0, 1], [[1, 2], [3, 4]], [[0], [1], [2]], feature_names=["a", "b"])
    return {**tree.to_dict(), **changes}


CSR = {"indptr": [0, 1, 2], "indices": [0, 1], "data": [1.0, 2.0]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "format must be 'treelu.tree', got 'other'"),
        ({"version": 2}, "version must be 1, got 2"),
        ({"extra": 1}, "extra is not a key of a tree"),
        ({"n_features": "2"}, "n_features must be an integer from 0 to 2147483648, got"),
        ({"n_features": 3}, "weights must be lists of n_features = 3 numbers"),
        ({"feature_names": ["a"]}, "feature_names must have 2 names"),
        ({"feature_names": "ab"}, "feature_names must be a list of strings"),
        ({"weights": [[1.0], [2.0]]}, "weights must be lists of n_features = 2 numbers"),
        ({"weights": [[1.0, None], [2.0, 0.0]]}, "weights must be"),
        ({"weights": 5}, "weights must be lists"),
        ({"weights": {"indptr": [0]}}, "weights must have the keys indptr, indices and data"),
        ({"weights": {**CSR, "indices": [0, 7]}}, "weights are not a CSR matrix of width 2"),
        ({"weights": {**CSR, "indptr": [0, 9, 2]}}, "weights are not a CSR matrix"),
        ({"weights": {**CSR, "indptr": [0, 100_000, 0], "indices": [], "data": []}}, "indptr must ascend from 0"),
        ({"weights": {**CSR, "indptr": [0, -1, 2]}}, "indptr must ascend from 0 .* at place 0"),
        ({"weights": {**CSR, "indptr": [1, 1, 2]}}, "indptr must ascend from 0 .* at place 0"),
        ({"weights": {**CSR, "indptr": [0, 1, 3]}}, "indptr must ascend from 0 .* at place 2"),
        ({"weights": {**CSR, "indptr": [0, 1, 2**62]}}, "indptr must ascend from 0 .* at place 2"),
        ({"weights": {**CSR, "indptr": []}}, "indptr must be a list of at least one number"),
        ({"weights": {**CSR, "indptr": [0, 1.5, 2]}}, "indptr must be a vector of integers"),
        ({"weights": {**CSR, "indices": [0, -1]}}, "indices must be from 0 to 1, got -1 at place 1"),
        ({"weights": {**CSR, "indices": [2**63, 2**63 + 1]}}, "indices must be below 2"),
        ({"weights": {**CSR, "indices": [0, 10**30]}}, "indices must be a vector of integers"),
        ({"weights": {**CSR, "data": [1.0, "x"]}}, "weights are not a CSR matrix"),
        ({"n_features": 10**30, "weights": CSR, "feature_names": None}, "n_features must be an integer from 0"),
        ({"n_features": True}, "n_features must be an integer from 0"),
        ({"weights": {**CSR, "data": 3}}, "weights are not a CSR matrix"),
        ({"biases": [0]}, "biases must have shape"),
        ({"biases": None}, "biases must"),
        ({"biases": [0, 10**400]}, "biases must be an array of numbers: int too large"),
        ({"values": [[], [], []]}, "values must have at least one output per leaf"),
        ({"children": [[1, 2], [0, 4]]}, "cycle"),
        ({"children": [[1, 2], [3, 40]]}, "children of node 1 are .3, 40., but the nodes are 0 to 4"),
        ({"children": [[1, 2], [3, "x"]]}, "children must be integers"),
        ({"values": [[0], [1]]}, "values must have shape"),
        ({"link": "logit"}, "link must be one of"),
        ({"link": ["identity"]}, "link must be one of"),
        ({"notes": "none"}, "notes must be a list of strings"),
    ],
)
def test_malformed_objects_name_the_field(changes, message):
    for data in (a_tree(**changes), json.loads(json.dumps(a_tree(**changes)))):
        with pytest.raises(ValueError, match=message):
            ObliqueTree.from_dict(data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "text must be JSON"),
        ("", "text must be JSON"),
        ("[1, 2]", "data must be an object with the keys of a tree, got list"),
        ("{}", "format must be 'treelu.tree', got None"),
        ('{"format": "treelu.tree", "version": 1}', "n_features is missing"),
        (b"\xff\xfe\xfa", "text must be JSON"),
    ],
)
def test_malformed_text(text, message):
    with pytest.raises(ValueError, match=message):
        ObliqueTree.from_json(text)


def test_json_nan_is_refused_by_name():
    text = json.dumps(a_tree()).replace('"biases": [0.0', '"biases": [NaN')
    with pytest.raises(ValueError, match=r"biases must be finite, got nan at index \[0\]"):
        ObliqueTree.from_json(text)


def test_weights_of_rows_are_written_where_they_are_not_their_number():
    tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[0.0], [1.0]]).with_counts([[-1.0], [1.0]])
    assert "weighted_n_samples" not in tree.to_dict()
    weighted = tree.with_counts([[-1.0], [1.0]], sample_weight=[0.25, 2.0])
    assert weighted.to_dict()["n_samples"] == [2.0, 1.0, 1.0]
    assert weighted.to_dict()["weighted_n_samples"] == [2.25, 0.25, 2.0]


def test_trees_written_before_spreads_were_kept_read_as_before():
    tree = ObliqueTree([[1.0, 2.0]], [0.0], [[1, 2]], [[0.0], [1.0]], spreads=[3.0, 4.0])
    data = tree.to_dict()
    assert data["spreads"] == [3.0, 4.0]
    del data["spreads"]
    assert ObliqueTree.from_dict(data).spreads is None
    for wrong, message in (([1.0], "spreads must have shape"), ([1.0, -1.0], "spreads must not be negative, got -1.0")):
        with pytest.raises(ValueError, match=message):
            ObliqueTree.from_dict(data | {"spreads": wrong})
