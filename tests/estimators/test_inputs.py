"""Tables as users have them: DataFrames, sparse formats, dtypes."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.tree import DecisionTreeRegressor

from tests.estimators.tables import ESTIMATORS, FAST, REGRESSORS, bits, data_for, scores, two_classes, values
from treelu import ELCNRegressor, LCNClassifier, LCNRegressor, ObliqueTreeRegressor

NAMES = ["length", "width", "height", "mass"]


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "bsr", "dok"])
def test_every_sparse_format(form: str, kind: str) -> None:
    X, y = bits()
    expected = LCNClassifier(**FAST).fit(sparse.csr_array(X), y).decision_function(sparse.csr_array(X))
    given = getattr(sparse, f"{form}_{kind}")(X)
    classifier = LCNClassifier(**FAST).fit(given, y, eval_set=(given, y))
    last = LCNClassifier(**FAST).fit(given, y)
    assert np.array_equal(last.decision_function(given), expected)
    assert len(classifier.history_["valid_score"]) == 4


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_sparse_and_dense_rows_give_the_same(estimator_class: type) -> None:
    X, y = bits()
    y = y if estimator_class.__name__.endswith("Classifier") else y + X[:, 3]
    dense, rows = estimator_class(**FAST).fit(X, y), estimator_class(**FAST).fit(sparse.csr_array(X), y)
    assert np.allclose(scores(dense, X), scores(rows, sparse.csr_array(X)), atol=1e-4)
    assert np.allclose(scores(dense, X), scores(dense, sparse.csc_array(X)), atol=1e-12)


def test_sparse_rows_with_repeated_and_unsorted_entries() -> None:
    X, y = bits()
    csr = sparse.csr_array(X)
    expected = LCNClassifier(**FAST).fit(csr, y).decision_function(csr)
    order = np.concatenate([np.arange(b, a)[::-1] for a, b in zip(csr.indptr[1:], csr.indptr, strict=False)])
    untidy = sparse.csr_array((np.repeat(csr.data[order] / 2, 2), np.repeat(csr.indices[order], 2), 2 * csr.indptr))
    assert untidy.nnz == 2 * csr.nnz
    assert np.allclose(LCNClassifier(**FAST).fit(untidy, y).decision_function(untidy), expected, atol=1e-6)


def test_sparse_rows_scaled_on_demand_stay_sparse() -> None:
    X, y = bits()
    X = X * np.linspace(1, 100, X.shape[1])
    classifier = LCNClassifier(**FAST, standardize=True).fit(sparse.csr_array(X), y)
    assert not classifier.scaling_.center.any()
    assert classifier.scaling_.scale[-1] > 5 * classifier.scaling_.scale[0]
    plain = classifier.decision_function(sparse.csr_array(X))
    assert np.allclose(plain, classifier.network_(X)[:, 0], atol=1e-9)


def test_a_table_too_large_to_make_dense() -> None:
    """3 × 10⁹ cells; the whole fit and prediction stay within a few times the parameters."""
    n, d = 10_000, 300_000
    rng = np.random.default_rng(0)
    columns = np.column_stack([rng.integers(1, d, (n, 3)), np.zeros(n, np.int64)])
    y = rng.integers(0, 2, n)
    X = sparse.csr_array((np.ones(4 * n), columns.reshape(-1), np.arange(0, 4 * n + 1, 4)), shape=(n, d))
    X.data[3::4] = y  # the first feature tells
    X.eliminate_zeros()
    tracemalloc.start()
    classifier = LCNClassifier(**{**FAST, "depth": 2, "epochs": 1, "training": {"batch_size": 1000}}).fit(X, y)
    out = classifier.predict(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert out.shape == (n,)
    assert peak < 400e6


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.int64, np.uint8, bool])
def test_dtypes(dtype: type) -> None:
    X, y = bits()
    expected = LCNClassifier(**FAST).fit(X, y).decision_function(X)
    for form in (np.asarray, sparse.csr_array):
        given = form(X.astype(dtype))
        assert np.allclose(LCNClassifier(**FAST).fit(given, y).decision_function(given), expected, atol=1e-5)


def test_lists_will_do() -> None:
    X, y = two_classes()
    listed = LCNClassifier(**FAST).fit(X.tolist(), y.tolist())
    assert np.array_equal(listed.predict(X.tolist()), LCNClassifier(**FAST).fit(X, y).predict(X))


@pytest.mark.parametrize(
    "y", [np.array([0, 1]), np.array([-1, 1]), np.array([False, True]), np.array([2.0, 5.0]), np.array(["a", "b"])]
)
def test_labels_of_any_kind(y: np.ndarray) -> None:
    X, names = two_classes()
    given = y[(names == "yes").astype(int)]
    classifier = LCNClassifier(**FAST).fit(X, given)
    assert classifier.classes_.tolist() == y.tolist()
    expected = LCNClassifier(**FAST).fit(X, names)
    assert np.array_equal(classifier.decision_function(X), expected.decision_function(X))
    assert set(classifier.predict(X)) <= set(y.tolist())


def test_pandas_targets() -> None:
    X, y = two_classes()
    expected = LCNClassifier(**FAST).fit(X, y).predict(X)
    for given in (pd.Series(y, index=range(500, 500 + len(y))), pd.Series(y, dtype="category")):
        assert np.array_equal(LCNClassifier(**FAST).fit(X, given).predict(X), expected)
    X, y = values(n_outputs=2)
    frame = pd.DataFrame(y, columns=["first", "second"])
    assert LCNRegressor(**FAST).fit(X, frame).predict(X).shape == y.shape


def test_a_column_of_classes_is_a_vector_with_a_warning() -> None:
    X, y = two_classes()
    with pytest.warns(match="column-vector y was passed when a 1d array was expected"):
        classifier = LCNClassifier(**FAST).fit(X, y[:, None])
    assert classifier.predict(X).shape == y.shape


@pytest.mark.parametrize("form", ["array", "frame"])
@pytest.mark.parametrize("estimator_class", [*REGRESSORS, ELCNRegressor, ObliqueTreeRegressor])
def test_a_column_of_values_is_a_vector_as_in_scikit_learn(estimator_class: type, form: str) -> None:
    X, y = values(n=30)
    column = pd.DataFrame({"price": y}) if form == "frame" else y[:, None]
    settings: dict[str, Any] = FAST
    if estimator_class is ELCNRegressor:
        settings = {"estimator": LCNRegressor(**FAST), "n_estimators": 2, "combine": "average", "random_state": 0}
    elif estimator_class is ObliqueTreeRegressor:
        settings = {"selection": "largest", "max_leaf_nodes": 2, "n_updates": 5, "teacher": None, "random_state": 0}
    predicted = estimator_class(**settings).fit(X, column).predict(X)
    assert predicted.shape == DecisionTreeRegressor().fit(X, column).predict(X).shape
    assert np.array_equal(predicted, estimator_class(**settings).fit(X, y).predict(X))


# Names


@pytest.mark.parametrize("estimator_class", ESTIMATORS)
def test_names_are_kept(estimator_class: type) -> None:
    X, y = data_for(estimator_class)
    frame = pd.DataFrame(X, columns=NAMES)
    estimator = estimator_class(**FAST).fit(frame, y)
    assert estimator.feature_names_in_.tolist() == NAMES
    assert np.allclose(scores(estimator, frame), scores(estimator_class(**FAST).fit(X, y), X), rtol=1e-4, atol=1e-4)
    if hasattr(estimator, "tree_"):
        assert estimator.tree_.feature_names == tuple(NAMES)


def test_columns_of_several_dtypes() -> None:
    X, y = two_classes()
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1].astype(np.float32), "c": (X[:, 2] > 0), "d": X[:, 3].astype(int)})
    classifier = LCNClassifier(**FAST).fit(frame, y)
    assert np.array_equal(classifier.decision_function(frame), classifier.decision_function(frame.astype(float)))


def test_a_frame_of_sparse_columns() -> None:
    X, y = bits()
    frame = pd.DataFrame.sparse.from_spmatrix(sparse.csr_array(X), columns=[f"bit{i}" for i in range(X.shape[1])])
    classifier = LCNClassifier(**FAST).fit(frame, y)
    expected = LCNClassifier(**FAST).fit(X, y)
    assert np.allclose(classifier.decision_function(frame), expected.decision_function(X), atol=1e-4)
    assert classifier.feature_names_in_[0] == "bit0"


def test_the_given_table_is_left_alone() -> None:
    X, y = two_classes()
    before, weight = X.copy(), np.ones(len(X))
    X.flags.writeable = False
    weight.flags.writeable = False
    classifier = LCNClassifier(**FAST).fit(X, y, sample_weight=weight)
    classifier.predict(X)
    assert np.array_equal(X, before)
