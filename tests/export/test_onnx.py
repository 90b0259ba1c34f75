"""ONNX: onnxruntime as the judge."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from tests.tree.trees import KINDS, random_tree, trees
from treelu.export.onnx import compare_onnx, rows_in_doubt
from treelu.tree import ObliqueTree

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def run(tree: ObliqueTree, X: np.ndarray, **options) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(tree.to_onnx(**options), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X}), strict=True))


@pytest.mark.slow
@given(tree=trees(), seed=st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_float32_model_agrees_on_every_row_that_is_not_in_doubt(tree, seed):
    rows = np.random.default_rng(seed).standard_normal((100, tree.n_features)).astype(np.float32)
    sure = ~rows_in_doubt(tree, rows)
    assert sure.mean() > 0.9
    answer = run(tree, rows)
    if tree.is_classifier:
        assert list(answer) == ["label", "probabilities"]
        np.testing.assert_allclose(answer["probabilities"][sure], tree.predict_proba(rows)[sure], atol=2e-5)
        if tree.leaf_weights is None:
            np.testing.assert_array_equal(answer["label"][sure], tree.predict(rows)[sure])
    else:
        assert list(answer) == ["variable"]
        np.testing.assert_allclose(answer["variable"][sure], tree.decision_function(rows)[sure], atol=2e-5)
    found = compare_onnx(tree, tree.to_onnx(), rows)
    assert (found.n_rows, found.n_in_doubt, found.n_unexplained) == (100, (~sure).sum(), 0)


@pytest.mark.parametrize("kind", KINDS)
def test_float64_model_agrees_to_rounding(kind):
    rng = np.random.default_rng(0)
    tree = random_tree(rng, 40, 10, kind)
    rows = rng.standard_normal((500, 10))
    answer = list(run(tree, rows, dtype="float64").values())[-1]
    np.testing.assert_allclose(answer, tree.link_outputs(tree.decision_function(rows)), rtol=1e-12, atol=1e-12)
    assert compare_onnx(tree, tree.to_onnx(dtype="float64"), rows).n_on_other_leaf == 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["identity", "linear", "linear softmax", "logistic", "probability"])
def test_numbers_without_a_weight_are_not_read_and_others_must_be_finite(kind, dtype):
    """NaN and infinity: no matter in a column that a row's questions and leaf do not use, else NaN is the answer."""
    rng = np.random.default_rng(1)
    full = random_tree(rng, 12, 6, kind)
    leaf_weights = (
        None if full.leaf_weights is None else full.leaf_weights * (rng.random(full.leaf_weights.shape) < 0.3)
    )
    tree = replace(full, weights=full.weights * (rng.random(full.weights.shape) < 0.3), leaf_weights=leaf_weights)
    rows = rng.standard_normal((300, 6))
    rows[np.arange(300), rng.integers(6, size=300)] = rng.choice([np.nan, np.inf, -np.inf], 300)
    wanted = []
    for row in rows:
        try:
            wanted.append(tree.link_outputs(tree.decision_function(row[None]))[0])
        except ValueError:
            wanted.append(np.full(tree.link_outputs(tree.values).shape[1], np.nan))
    assert 0.2 < np.isnan(np.array(wanted)).any(axis=1).mean() < 0.8
    with np.errstate(invalid="ignore"):
        answer = list(run(tree, rows.astype(dtype), dtype=dtype).values())[-1]
    np.testing.assert_allclose(answer, wanted, atol=1e-5)


def test_rows_near_a_hyperplane_are_reported():
    """Rows at growing distance from random hyperplanes: float32 errs on the nearest, and all its errors are flagged."""
    rng = np.random.default_rng(0)
    tree = random_tree(rng, 15, 30, "identity")
    rows = rng.standard_normal((4000, 30))
    root = tree.weights[0]
    distance = 10.0 ** rng.uniform(-12, -2, 4000) * rng.choice([-1, 1], 4000)
    rows += np.outer(distance - (rows @ root + tree.biases[0]), root) / (root @ root)
    found = compare_onnx(tree, tree.to_onnx(), rows)
    assert found.n_on_other_leaf > 100  # there is something to report,
    assert found.n_unexplained == 0  # and it is reported
    assert found.n_on_other_leaf <= found.n_in_doubt < 4000
    assert found.largest_difference < 1e-5
    np.testing.assert_array_equal(rows_in_doubt(tree, sparse.csr_array(rows)), rows_in_doubt(tree, rows))


def test_points_on_a_hyperplane_go_right():
    tree = ObliqueTree([[1.0, -1.0]], [0.0], [[1, 2]], [[0.0], [1.0]])
    assert run(tree, np.array([[2, 2], [2, 3]], dtype=np.float32))["variable"].tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize("labels", [["benign", "malign"], [3, 7], [False, True], [0.0, 1.0]])
def test_cart_classifier_with_labels_of_any_type(labels):
    X, y = load_breast_cancer(return_X_y=True)
    cart = DecisionTreeClassifier(max_depth=5, random_state=0).fit(X, np.array(labels)[y])
    tree = ObliqueTree.from_sklearn(cart)
    answer = run(tree, X.astype(np.float32))
    sure = ~rows_in_doubt(tree, X)
    assert sure.mean() > 0.95
    assert answer["label"].shape == (len(X),)
    np.testing.assert_array_equal(answer["label"][sure], tree.predict(X)[sure])
    np.testing.assert_allclose(answer["probabilities"][sure], tree.predict_proba(X)[sure], atol=1e-6)


def test_deep_unbalanced_cart():
    X, y = load_diabetes(return_X_y=True)
    tree = ObliqueTree.from_sklearn(DecisionTreeRegressor(random_state=0).fit(X, y))
    assert tree.depth > 12
    found = compare_onnx(tree, tree.to_onnx(), X)
    assert found.n_unexplained == 0
    assert found.n_in_doubt < 0.05 * len(X)


def test_one_leaf_no_rows_and_a_file(tmp_path):
    lone = ObliqueTree(np.zeros((0, 2)), [], [], [[1.5]])
    assert run(lone, np.zeros((3, 2), dtype=np.float32))["variable"].tolist() == [[1.5]] * 3
    tree = random_tree(np.random.default_rng(0), 7, 3, "softmax", feature_names=["a", "b", "c"])
    assert run(tree, np.zeros((0, 3), dtype=np.float32))["label"].shape == (0,)
    data = tree.to_onnx(tmp_path / "tree.onnx")
    assert (tmp_path / "tree.onnx").read_bytes() == data
    model = onnx.load_from_string(data)
    assert {prop.key: prop.value for prop in model.metadata_props}["feature_names"] == "a\nb\nc"
    assert {node.domain for node in model.graph.node} == {""}  # standard operators only


def test_bad_dtype_and_missing_package(monkeypatch):
    tree = ObliqueTree([[1.0]], [0], [[1, 2]], [[0], [1]])
    with pytest.raises(ValueError, match="dtype must be 'float32' or 'float64', got 'half'"):
        tree.to_onnx(dtype="half")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'treelu\[onnx\]'"):
        tree.to_onnx()


@pytest.mark.parametrize(
    ("classes", "kind"),
    [
        (np.array([16777216.0, 16777217.0]), "f"),
        (np.array([0.1, 1e300]), "f"),
        (np.array([2**63, 2**63 + 1], dtype=np.uint64), "O"),
        (np.array([2**62, 2**62 + 1], dtype=np.uint64), "i"),
        (np.array([-(2**63), 2**63 - 1]), "i"),
        (np.array([False, True]), "i"),
        (np.array([10**30, 1], dtype=object), "O"),
        (np.array(["no", "yes"]), "O"),
    ],
)
def test_labels_come_out_as_they_are(classes, kind):
    tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[-1.0], [1.0]], link="logistic", classes=classes)
    rows = np.array([[-1.0], [1.0]])
    for dtype in ("float32", "float64"):
        labels = run(tree, rows.astype(dtype), dtype=dtype)["label"]
        assert labels.dtype.kind == kind
        wanted = [str(label) for label in classes.tolist()] if kind == "O" else classes.tolist()
        assert labels.tolist() == wanted
        assert compare_onnx(tree, tree.to_onnx(dtype=dtype), rows).n_other_label == 0


@pytest.mark.parametrize(
    ("weight", "bias", "value", "what"),
    [
        (1e100, 0.0, 1.0, "weights, which are 1e+100 to 1e+100 in size"),
        (1e-100, 0.0, 1.0, "weights"),
        (1.0, -1e39, 1.0, "biases"),
        (1.0, 0.0, -1e80, "values"),
        (1.0, 0.0, 1e-80, "values"),
    ],
)
def test_numbers_that_float32_cannot_hold_are_refused(weight, bias, value, what):
    """They once became infinite or 0, and the model answered with infinities, or sent all rows one way."""
    tree = ObliqueTree([[weight, 0.0]], [bias], [[1, 2]], [[0.0], [value]])
    with pytest.raises(ValueError, match=rf"dtype='float32' cannot hold the tree's {re.escape(what)}"):
        tree.to_onnx()
    far = max(3.0, -3 * bias) / weight
    rows = np.array([[far, 0.0], [-far, 1.0]])
    assert run(tree, rows, dtype="float64")["variable"].ravel().tolist() == [value, 0.0]
    chances = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[1.0, 1e-60], [0.5, 0.5]], link="probability", classes=[0, 1])
    assert run(chances, np.array([[-1.0]], np.float32))["probabilities"].tolist() == [[1.0, 0.0]]


def test_labels_that_only_differ_in_type_are_refused():
    tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[-1.0], [1.0]], link="logistic",
                       classes=np.array([1, "1"], dtype=object))  # fmt: skip
    with pytest.raises(ValueError, match="classes must differ as texts"):
        tree.to_onnx()


def test_labels_are_compared_too():
    tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[-1.0], [1.0]], link="logistic", classes=["no", "yes"])
    other = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[-1.0], [1.0]], link="logistic", classes=["yes", "no"])
    assert compare_onnx(tree, other.to_onnx(), [[-1.0], [1.0], [2.0]]).n_other_label == 3
