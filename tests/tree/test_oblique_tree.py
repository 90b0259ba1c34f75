"""ObliqueTree: routing, predicting, reading, and what it refuses."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier
from sklearn.utils.class_weight import compute_sample_weight

from tests.tree.trees import leaf_by_hand, random_tree, trees
from treelu.tree import ObliqueTree
from treelu.tree import rows as _tree_rows
from treelu.tree.from_sklearn import first_right


def small_tree(**options) -> ObliqueTree:
    """Three leaves, two features; the numbers are whole so that all sums are exact."""
    arrays = {"weights": [[1, -1], [2, 0]], "biases": [0, 1], "children": [[1, 2], [3, 4]], "values": [[0], [1], [2]]}
    return ObliqueTree(**{**arrays, **options})


# Routing and predicting


@given(tree=trees(), seed=st.integers(0, 999))
@settings(max_examples=80, deadline=None)
def test_apply_and_decision_path_against_a_walk_by_hand(tree, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((20, tree.n_features)) * 10.0 ** rng.integers(-3, 6)
    paths = [leaf_by_hand(tree, row) for row in x]
    np.testing.assert_array_equal(tree.apply(x), [path[-1] for path in paths])
    marked = tree.decision_path(x)
    assert marked.shape == (20, tree.n_nodes)
    for row, path in zip(marked.toarray(), paths, strict=True):
        assert np.flatnonzero(row).tolist() == path
    assert tree.depth == tree.node_depths().max()


@given(tree=trees(), seed=st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_predictions_by_link_and_leaf_kind(tree, seed):
    x = np.random.default_rng(seed).standard_normal((15, tree.n_features))
    leaves = tree.apply(x) - tree.n_splits
    raw = tree.values[leaves]
    if tree.leaf_weights is not None:
        raw = raw + np.einsum("nld,nd->nl", tree.leaf_weights[leaves], x)
    if tree.link == "logistic":
        np.testing.assert_allclose(tree.decision_function(x), raw[:, 0])
        wanted = np.column_stack([expit(-raw[:, 0]), expit(raw[:, 0])])
    else:
        np.testing.assert_allclose(tree.decision_function(x), raw)
        wanted = softmax(raw, axis=1) if tree.link == "softmax" else raw
    if tree.is_classifier:
        np.testing.assert_allclose(tree.predict_proba(x), wanted, rtol=1e-12)
        np.testing.assert_array_equal(tree.predict(x), tree.classes[wanted.argmax(axis=1)])
    else:
        np.testing.assert_allclose(tree.predict(x), raw[:, 0] if tree.n_outputs == 1 else raw)
        with pytest.raises(ValueError, match="predict_proba needs a classification tree"):
            tree.predict_proba(x)


@pytest.mark.parametrize("kind", ["identity", "linear"])
@pytest.mark.parametrize("sparse_weights", [False, True])
def test_every_form_of_rows_gives_the_same(kind, sparse_weights, monkeypatch):
    rng = np.random.default_rng(0)
    names = tuple("abcdef")
    tree = random_tree(rng, 20, 6, kind, feature_names=names)
    if sparse_weights:
        tree = ObliqueTree(sparse.csc_array(tree.weights), tree.biases, tree.children, tree.values,
                           leaf_weights=tree.leaf_weights, feature_names=names)  # fmt: skip
        assert isinstance(tree.weights, sparse.csr_array)
    x = rng.integers(-3, 4, (50, 6)) * (rng.random((50, 6)) < 0.5)
    frame = pd.DataFrame(x, columns=list(names))
    wanted = tree.predict(x.astype(float))
    forms = [
        x, x.tolist(), x.astype(np.float32), x.astype(np.int8), x.astype(object), np.asfortranarray(x),
        sparse.csr_array(x), sparse.csc_matrix(x), sparse.coo_array(x), sparse.lil_array(x),
        frame, frame.astype(pd.SparseDtype(float, 0)),
    ]  # fmt: skip
    for form in forms:
        np.testing.assert_allclose(tree.predict(form), wanted, rtol=1e-12)
    monkeypatch.setattr(_tree_rows, "_BLOCK", 10)  # blocks of one or two rows
    for form in (x, sparse.csr_array(x)):
        np.testing.assert_allclose(tree.predict(form), wanted, rtol=1e-12)


def test_boolean_rows_and_no_rows():
    tree = small_tree()
    assert tree.apply(np.array([[True, False], [False, True]])).tolist() == [2, 4]
    assert tree.apply(np.zeros((0, 2))).tolist() == []
    assert tree.decision_path(np.zeros((0, 2))).shape == (0, 5)
    assert tree.predict(sparse.csr_array((0, 2))).shape == (0,)


def test_on_the_hyperplane_is_right():
    tree = small_tree()
    assert tree.apply([[3, 3], [-0.5, 0], [-1, 0]]).tolist() == [2, 4, 3]


def test_ties_and_large_scores_of_the_logistic_link():
    tree = small_tree(values=[[0.0], [800.0], [-800.0]], link="logistic", classes=["no", "yes"])
    proba = tree.predict_proba([[1, 0], [-1, 0], [0, 1]])
    np.testing.assert_array_equal(proba, [[0.5, 0.5], [0, 1], [1, 0]])
    assert tree.predict([[1, 0], [-1, 0], [0, 1]]).tolist() == ["no", "yes", "no"]


def test_a_tree_of_one_leaf():
    tree = ObliqueTree(np.zeros((0, 3)), [], [], [[1.5]])
    assert (tree.n_splits, tree.n_leaves, tree.n_nodes, tree.depth) == (0, 1, 1, 0)
    assert tree.apply(np.ones((2, 3))).tolist() == [0, 0]
    assert tree.decision_path(np.ones((2, 3))).toarray().tolist() == [[1], [1]]
    assert tree.predict(np.ones((2, 3))).tolist() == [1.5, 1.5]
    assert repr(tree) == "ObliqueTree(1 leaf, depth 0, 3 features, regression)"
    assert tree.describe([1, 2, 3]) == "leaf 0: value 1.5"


# Reading


def test_counts_and_importances():
    x = np.array([[1.0, 0], [2, 0], [-1, 0], [0, 9]])
    tree = small_tree().with_counts(x)
    assert tree.n_samples.tolist() == [4, 2, 2, 1, 1]
    weighted = small_tree().with_counts(x, sample_weight=[1, 2, 3, 4])
    assert weighted.n_samples.tolist() == [4, 2, 2, 1, 1]
    assert weighted.weighted_n_samples.tolist() == [10, 7, 3, 3, 4]
    # 10 and 7 of the weight
    np.testing.assert_allclose(weighted.feature_importances(), [(10 * 0.5 + 7) / 17, 10 * 0.5 / 17])
    # node 0 is half and half, node 1 all on feature 0; 4 and 2 rows
    np.testing.assert_allclose(tree.feature_importances(), [(4 * 0.5 + 2) / 6, 4 * 0.5 / 6])
    # on the scale of the data node 0 is 3 : 1
    np.testing.assert_allclose(tree.feature_importances(scale=[3, 1]), [(4 * 0.75 + 2) / 6, 4 * 0.25 / 6])
    with pytest.raises(ValueError, match="feature_importances needs n_samples"):
        small_tree().feature_importances()
    assert ObliqueTree(np.zeros((0, 2)), [], [], [[1]], n_samples=[5]).feature_importances().tolist() == [0, 0]


def test_rows_without_weight_do_not_count():
    x = np.array([[1.0, 0], [2, 0], [-1, 0], [0, 9]])
    tree = small_tree().with_counts(x, sample_weight=[0, 1, 1, 1])
    assert tree == small_tree().with_counts(x[1:])
    assert tree.weighted_n_samples is None
    assert tree != small_tree().with_counts(x[1:], sample_weight=[2, 1, 1])


def test_fractional_counts_of_earlier_versions_are_weights():
    tree = small_tree(n_samples=[2.5, 1.5, 1, 0.5, 1])
    assert tree.n_samples is None
    assert tree.weighted_n_samples.tolist() == [2.5, 1.5, 1, 0.5, 1]
    assert tree.feature_importances().sum() == pytest.approx(1)
    assert "rows" not in tree.export_text()
    assert "[weight 2.5]" in tree.export_text()


def test_spreads_are_kept_checked_and_compared():
    tree = small_tree(spreads=[3, 1], n_samples=[6, 4, 2, 3, 1])
    np.testing.assert_array_equal(tree.effect_scale(), [3, 1])
    np.testing.assert_allclose(tree.feature_importances(), tree.feature_importances(scale=[3, 1]))
    assert tree != small_tree(n_samples=tree.n_samples)
    assert tree == small_tree(spreads=np.array([3.0, 1.0]), n_samples=tree.n_samples)
    assert tree.prune().spreads is not None
    assert tree.with_counts([[0.0, 1.0]]).spreads is not None
    for wrong in ([1.0], [1.0, np.nan], [1.0, -2.0], [[1.0, 2.0]], "ab"):
        with pytest.raises(ValueError, match="spreads"):
            small_tree(spreads=wrong)


def test_describe_names_the_largest_contributions():
    tree = small_tree(
        weights=[[1, -1, 0.5, 0.25], [2, 0, 0, 0]], biases=[0, 1],
        feature_names=["height", "age", "mass", "year"], values=[[-1.0], [2.0], [0.5]],
        link="logistic", classes=["no", "yes"],
    )  # fmt: skip
    assert tree.describe([1, 10, 2, 4], top=2).splitlines() == [
        "node 0: -7 >= 0? no",
        "    -10  age = 10 (weight -1)",
        "    +1   height = 1 (weight 1)",
        "    +2   2 other features",
        "    +0   bias",
        "node 1: 3 >= 0? yes",
        "    +2  height = 1 (weight 2)",
        "    +1  bias",
        "leaf 4: class 'yes', probability 0.6225",
    ]
    frame = pd.DataFrame([[1, 10, 2, 4]], columns=["height", "age", "mass", "year"])
    for form in (frame, sparse.csr_array([[1, 10, 2, 4]]), np.array([1, 10, 2, 4])):
        assert tree.describe(form, top=2) == tree.describe([1, 10, 2, 4], top=2)
    assert tree.describe(frame.iloc[0, ::-1], top=2) == tree.describe([1, 10, 2, 4], top=2)  # by name, as predict
    assert tree.describe(pd.Series([1, 10, 2, 4]), top=2) == tree.describe([1, 10, 2, 4], top=2)
    with pytest.raises(ValueError, match="x must be one row, got 2 rows"):
        tree.describe(np.ones((2, 4)))


def test_describe_a_linear_leaf():
    tree = ObliqueTree([[1.0, 0]], [0], [[1, 2]], [[1.0], [2.0]], leaf_weights=[[[1.0, 0]], [[0, -3.0]]])
    assert tree.describe([1, 5]).splitlines()[-2:] == ["leaf 2: value -3·x1 + 2", "    here: value -13"]


def test_equality_copies_and_pickles():
    tree = small_tree(n_samples=[1, 1, 0, 1, 0], feature_names=["a", "b"])
    same = small_tree(n_samples=[1, 1, 0, 1, 0], feature_names=("a", "b"))
    assert tree == same
    assert pickle.loads(pickle.dumps(tree)) == copy.deepcopy(tree) == tree
    assert tree == small_tree(weights=sparse.csr_array([[1, -1], [2, 0]]), n_samples=tree.n_samples,
                              feature_names=["a", "b"])  # fmt: skip
    different = [
        small_tree(), small_tree(values=[[0], [1], [3]]), small_tree(biases=[0, 1 + 1e-16 + 1e-15]),
        small_tree(children=[[1, 3], [2, 4]]), small_tree(feature_names=["a", "c"]),
        small_tree(leaf_weights=np.zeros((3, 1, 2))), small_tree(link="logistic", classes=[0, 1]),
        ObliqueTree([[1.0]], [0], [[1, 2]], [[0], [1]]),
    ]  # fmt: skip
    assert all(tree != other and different[0] != other for other in different[1:])
    assert tree != different[0]
    assert tree != "tree"


def test_arrays_cannot_be_written_through_the_tree():
    weights = np.eye(2)
    tree = small_tree(weights=weights)
    with pytest.raises(ValueError, match="read-only"):
        tree.weights[0, 0] = 5
    with pytest.raises(AttributeError):
        tree.biases = np.zeros(2)
    assert np.shares_memory(tree.weights, weights)
    weights[0, 0] = 1  # the caller's own array stays writeable


def test_the_tree_needs_neither_torch_nor_sklearn():
    """The tree is what is shipped: NumPy and SciPy are all it imports."""
    program = (
        "import sys; from treelu.tree import ObliqueTree; t = ObliqueTree([[1.0]], [0], [[1, 2]], [[0], [1]]);"
        "t.predict([[1.0]]); t.export_text(); t.export_graphviz(); ObliqueTree.from_json(t.to_json());"
        "t.describe([1.0]); t.prune();"
        "bad = {'torch', 'sklearn', 'pandas', 'matplotlib', 'onnx'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# scikit-learn's trees


@given(
    threshold=st.one_of(
        st.floats(-1e30, 1e30), st.floats(-2, 2, width=32), st.sampled_from([0.0, -0.0, 1.0, 1e-45, 5e-39])
    )
)
@settings(max_examples=300, deadline=None)
def test_first_right_is_the_first_float64_that_rounds_beyond_the_threshold(threshold):
    first = float(first_right(np.array([threshold]))[0])
    assert float(np.float32(first)) > threshold
    assert float(np.float32(np.nextafter(first, -np.inf))) <= threshold


@pytest.mark.parametrize("kind", [DecisionTreeClassifier, ExtraTreeClassifier])
@pytest.mark.parametrize("options", [{}, {"max_depth": 3}, {"max_leaf_nodes": 7}])
def test_from_sklearn_classifier(kind, options):
    X, y = load_breast_cancer(return_X_y=True)
    labels = np.array(["benign", "malign"])[y]
    model = kind(random_state=0, **options).fit(X, labels)
    tree = ObliqueTree.from_sklearn(model)
    assert tree.n_leaves == model.get_n_leaves()
    assert tree.depth == model.get_depth()
    np.testing.assert_array_equal(tree.predict(X), model.predict(X))
    np.testing.assert_array_equal(tree.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(tree.n_samples[0], len(X))
    # the paths visit as many nodes, and rows that share a leaf there share one here
    np.testing.assert_array_equal(tree.decision_path(X).sum(axis=1), model.decision_path(X).sum(axis=1).A1)
    pairs = set(zip(tree.apply(X).tolist(), model.apply(X).tolist(), strict=True))
    assert len(pairs) == len(np.unique(model.apply(X)))


def test_from_sklearn_tells_rows_from_their_weight():
    X, y = load_breast_cancer(return_X_y=True)
    model = DecisionTreeClassifier(max_leaf_nodes=5, class_weight="balanced", random_state=0)
    tree = ObliqueTree.from_sklearn(model.fit(X, y, np.arange(len(y)) % 3))
    counted = tree.with_counts(X, (np.arange(len(y)) % 3) * compute_sample_weight("balanced", y))
    assert tree.n_samples.tolist() == counted.n_samples.tolist()
    np.testing.assert_allclose(tree.weighted_n_samples, counted.weighted_n_samples)


def test_from_sklearn_at_the_thresholds():
    """Rows at each threshold, just beside it in float64, and half way between float32 numbers."""
    X, y = load_iris(return_X_y=True)
    model = DecisionTreeClassifier(random_state=0).fit(X, y)
    tree = ObliqueTree.from_sklearn(model)
    rows = []
    for feature, threshold in zip(model.tree_.feature, model.tree_.threshold, strict=True):
        if feature < 0:
            continue
        above = np.nextafter(np.float32(threshold), np.float32(np.inf)).astype(float)
        middle = (float(np.float32(threshold)) + above) / 2
        for centre in (threshold, float(np.float32(threshold)), above, middle):
            for value in (centre, np.nextafter(centre, -np.inf), np.nextafter(centre, np.inf)):
                block = X[:20].copy()
                block[:, feature] = value
                rows.append(block)
    rows = np.concatenate(rows)
    np.testing.assert_array_equal(tree.predict_proba(rows), model.predict_proba(rows))


def test_from_sklearn_regressor_with_names_and_several_outputs():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = DecisionTreeRegressor(max_depth=5, random_state=0).fit(X, y)
    tree = ObliqueTree.from_sklearn(model)
    assert tree.feature_names == tuple(X.columns)
    np.testing.assert_array_equal(tree.predict(X), model.predict(X))
    two = np.column_stack([y, -y])
    model = DecisionTreeRegressor(max_depth=4, random_state=0).fit(X.to_numpy(), two)
    np.testing.assert_array_equal(ObliqueTree.from_sklearn(model).predict(X), model.predict(X.to_numpy()))


def test_from_sklearn_takes_estimators_with_an_oblique_tree_and_refuses_others():
    class Fitted:
        tree_ = small_tree()

    assert ObliqueTree.from_sklearn(Fitted()) is Fitted.tree_
    with pytest.raises(TypeError, match="got LogisticRegression"):
        ObliqueTree.from_sklearn(LogisticRegression())
    with pytest.raises(TypeError, match="fitted scikit-learn decision tree"):
        ObliqueTree.from_sklearn(DecisionTreeClassifier())
    X, y = load_iris(return_X_y=True)
    several = DecisionTreeClassifier(max_depth=2).fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="one label, this classifier has 2 outputs"):
        ObliqueTree.from_sklearn(several)


# What is refused


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("weights", [[1, np.nan], [2, 0]], r"weights must be finite, got nan at index \[0, 1\]"),
        ("weights", [[1, -1], [2]], "weights must be an array of numbers"),
        ("weights", [1, 2], r"weights must have shape \(any, any\), got \(2,\)"),
        ("weights", [["a", "b"], ["c", "d"]], "weights must be an array of numbers"),
        ("weights", sparse.csr_array([[np.inf, 0], [0, 1]]), "weights must be finite, got inf"),
        ("biases", [0, np.inf], r"biases must be finite, got inf at index \[1\]"),
        ("biases", [0], r"biases must have shape \(2\), got \(1,\)"),
        ("children", [[1, 2], [3, 9]], "children of node 1 are .3, 9., but the nodes are 0 to 4"),
        ("children", [[1, 2], [-1, 3]], "children of node 1 are"),
        ("children", [[1, 2], [1, 4]], "higher number than its parent, or the tree would have a cycle"),
        ("children", [[1, 2], [0, 4]], "cycle"),
        ("children", [[1, 2], [2, 4]], "node 2 2 times"),
        ("children", [[1.0, 2], [3, 4]], "children must be integers, got dtype float64"),
        ("children", [[1, 2]], r"children must have shape \(2, 2\), one row a split, got \(1, 2\)"),
        ("values", [[0], [1]], r"values must have shape \(3, any\), got \(2, 1\)"),
        ("values", [[0], [1], [None]], "values"),
        ("leaf_weights", np.zeros((3, 1, 3)), r"leaf_weights must have shape \(3, 1, 2\), got \(3, 1, 3\)"),
        ("n_samples", [1, 2], r"n_samples must have shape \(5\), got \(2,\)"),
        ("weighted_n_samples", [1, 2], r"weighted_n_samples must have shape \(5\), got \(2,\)"),
        ("link", "probit", "link must be one of identity, logistic, softmax, probability, got 'probit'"),
        ("link", "logistic", "classes must be given for link='logistic'"),
        ("classes", [0, 1], "classes must be None for link='identity'"),
        ("feature_names", ["a"], "feature_names must have 2 names, one per feature, got 1"),
        ("feature_names", ["a", "a"], "feature_names must be distinct, 'a' is there more than once"),
    ],
)
def test_malformed_fields_are_named(field, value, message):
    with pytest.raises(ValueError, match=message):
        small_tree(**{field: value})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"link": "logistic", "classes": [0, 1, 2]}, "needs 2 classes and 1 outputs per leaf, got 3 classes"),
        ({"link": "softmax", "classes": [0, 1, 2]}, "needs 3 classes and 3 outputs per leaf, got 3 classes and 1"),
        ({"link": "logistic", "classes": [1, 1]}, "distinct labels"),
        ({"link": "probability", "classes": [1], "leaf_weights": np.ones((3, 1, 2))}, "leaf_weights must be None"),
    ],
)
def test_links_classes_and_outputs_must_fit(options, message):
    with pytest.raises(ValueError, match=message):
        small_tree(**options)


@given(tree=trees(), seed=st.integers(0, 999), thin=st.booleans())
@settings(max_examples=60, deadline=None)
def test_frames_are_read_by_name(tree, seed, thin):
    """Columns in any order, unknown ones beside them, unused ones missing: the same leaf as from the array."""
    rng = np.random.default_rng(seed)
    tree = replace(tree, feature_names=[f"feature {i}" for i in range(tree.n_features)])
    X = rng.standard_normal((6, tree.n_features))
    frame = pd.DataFrame(X, columns=tree.feature_names)
    used = tree.used_features().tolist()
    weighed = [f for f in range(tree.n_features) if any(tree.node_weights(node)[f] for node in range(tree.n_splits))]
    if tree.leaf_weights is None:
        assert used == weighed
    kept = rng.permutation([*used, *rng.permutation(tree.n_features)[:2]]).astype(int)
    shuffled = frame.iloc[:, list(dict.fromkeys(kept.tolist()))]
    if thin:
        shuffled = shuffled.astype(pd.SparseDtype(float, 0.0))
    else:
        shuffled = shuffled.assign(note="text", **{f"feature {f}": np.nan for f in range(len(X[0])) if f not in used})
    np.testing.assert_array_equal(tree.apply(shuffled), tree.apply(X))
    np.testing.assert_array_equal(tree.decision_path(shuffled).toarray(), tree.decision_path(X).toarray())
    np.testing.assert_allclose(tree.decision_function(shuffled), tree.decision_function(X))
    if used:
        with pytest.raises(ValueError, match=f"missing: feature {used[0]}; X has"):
            tree.predict(frame.drop(columns=f"feature {used[0]}"))
    with pytest.raises(ValueError, match="X must have"):  # without names the width counts
        tree.predict(np.column_stack([X, X[:, 0]]))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((3, 5)), "X must have 2 features, got 5"),
        (np.zeros(2), r"X must have two dimensions \(rows, features\), got shape \(2,\)"),
        ([["a", "b"]], "X must hold numbers"),
        ([[0, 0], [1, np.nan]], "X must be finite: row 1"),
        ([[np.inf, 0]], "X must be finite: row 0"),
        (pd.DataFrame([[1, 2]], columns=["height", "weight"]), "missing: age; X has height, weight"),
        (pd.DataFrame([[1, 2]], columns=["height", "height"]), "'height' is there more than once"),
        (pd.DataFrame([["tall", 2]], columns=["height", "age"]), "X must hold numbers"),
        (pd.DataFrame(index=[0]), "missing: height, age; X has no columns"),
        (np.ma.masked_equal([[1, 2]], 2), "X has masked entries; fill them first"),
        (np.array([[1, 2]], "M8[s]"), r"X must hold numbers, got dates or times \(datetime64\[s\]\)"),
        (np.array([[1, 2]], "m8[s]"), "X must hold numbers, got durations"),
        (pd.DataFrame([[1, 2]], columns=["height", "age"], dtype="M8[ns]"), "got dates or times"),
        (np.array([[1j, 2]]), "X must hold numbers, got complex numbers"),
        (sparse.csr_array([[1j, 2]]), "X must hold numbers, got complex numbers"),
    ],
)
def test_bad_rows(X, message):
    with pytest.raises(ValueError, match=message):
        small_tree(feature_names=["height", "age"]).apply(X)


def test_arrow_tables_are_read_by_name():
    pa = pytest.importorskip("pyarrow")
    tree = small_tree(feature_names=["height", "age"])
    for row in ([1, 0], [0, 1]):
        table = pa.table({"age": row[1:], "height": row[:1]})
        assert tree.apply(table) == tree.apply([row])


def test_frames_pass_without_names():
    assert small_tree().apply(pd.DataFrame([[1, 0]], columns=["any", "thing"])).tolist() == [2]


@pytest.mark.parametrize("name", ["csr_array", "csc_array"])
@pytest.mark.parametrize(
    ("indptr", "indices"), [([0, 100_000, 0], []), ([0, 2, 1], [0, 1]), ([0, 1, 2], [0, 9]), ([0, 1, 2], [-1, 0])]
)
def test_broken_sparse_matrices_are_refused_before_compiled_code_sees_them(name, indptr, indices):
    """SciPy's own check lets the first of these pass, and its functions then write beyond the arrays."""
    matrix = getattr(sparse, name)((2, 2))
    matrix.indptr, matrix.indices = np.array(indptr, dtype=np.int32), np.array(indices, dtype=np.int32)
    matrix.data = np.ones(len(indices))
    with pytest.raises(ValueError, match=r"(indptr|indices) must"):
        ObliqueTree(matrix, [0, 0], [[1, 2], [3, 4]], [[0], [1], [2]])
    with pytest.raises(ValueError, match=r"(indptr|indices) must"):
        small_tree().predict(matrix)
