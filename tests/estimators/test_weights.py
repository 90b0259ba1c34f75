"""Weights: integers are repetitions of a small tree's rows, to the bit; rows of weight 0 are as good as removed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold

from treelu import LCNClassifier, ObliqueTreeClassifier, ObliqueTreeRegressor
from treelu.training.small import rows as training_rows

pytestmark = pytest.mark.slow

QUICK: dict[str, Any] = {"n_updates": 20, "max_leaf_nodes": 4, "random_state": 0}
MODELS: dict[str, Any] = {
    "classes": ObliqueTreeClassifier(**QUICK),
    "three leaf rows": ObliqueTreeClassifier(**QUICK, min_samples_leaf=3, teacher=None),
    "balanced": ObliqueTreeClassifier(**QUICK, class_weight="balanced", teacher=None),
    "largest": ObliqueTreeClassifier(**QUICK, selection="largest"),
    "values": ObliqueTreeRegressor(**QUICK),
    "linear leaves": ObliqueTreeRegressor(**QUICK, linear_leaves=True),
}


def weighted_rows() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """X, y, weights from 0 to 4, and the row number of each repetition."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    y = (X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=90) > 0).astype(int)
    weight = rng.integers(0, 5, 90)
    return X, y, weight, np.repeat(np.arange(90), weight)


def assert_same(first: Any, second: Any, X: Any) -> None:
    pd.testing.assert_frame_equal(first.path_, second.path_, check_exact=True)
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    np.testing.assert_array_equal(first.tree_.n_samples, second.tree_.n_samples)
    np.testing.assert_array_equal(first.tree_.values, second.tree_.values)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_integer_weights_are_repeated_rows_of_a_group(model: Any, form: Any) -> None:
    X, y, weight, rows = weighted_rows()
    weighted = clone(model).fit(form(X), y, sample_weight=weight)
    repeated = clone(model).fit(form(X[rows]), y[rows], groups=rows)
    assert_same(weighted, repeated, X)
    if model.get_params().get("class_weight") is None:
        assert weighted.tree_.n_samples[0] == weight.sum()


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_with_folds_that_are_given(model: Any) -> None:
    """Then no groups are needed."""
    X, y, weight, rows = weighted_rows()
    parts = list(KFold(3, shuffle=True, random_state=0).split(X))
    copies = [tuple(np.flatnonzero(np.isin(rows, side)) for side in part) for part in parts]
    weighted = clone(model).set_params(cv=parts).fit(X, y, sample_weight=weight)
    repeated = clone(model).set_params(cv=copies).fit(X[rows], y[rows])
    assert_same(weighted, repeated, X)


@pytest.mark.parametrize("cv", [None, 3, GroupKFold(3)], ids=str)
def test_with_groups(cv: Any) -> None:
    X, y, weight, rows = weighted_rows()
    groups = np.arange(90) // 3
    model = ObliqueTreeClassifier(**QUICK, teacher=None, cv=cv if isinstance(cv, int) else None)
    weighted = clone(model).fit(X, y, sample_weight=weight, groups=groups)
    assert_same(weighted, clone(model).fit(X[rows], y[rows], groups=groups[rows]), X)
    if isinstance(cv, GroupKFold):  # a splitter divides the rows, not their copies
        by_splitter = clone(model).set_params(cv=cv).fit(X, y, sample_weight=weight, groups=groups)
        counted = np.flatnonzero(weight)
        parts = [(counted[a], counted[b]) for a, b in cv.split(X[counted], y[counted], groups[counted])]
        by_list = clone(model).set_params(cv=parts).fit(X, y, sample_weight=weight, groups=groups)
        assert_same(by_splitter, by_list, X)


def test_missing_values_are_filled_with_the_median_of_the_repeated_rows() -> None:
    X, y, weight, rows = weighted_rows()
    X[::7, 0] = np.nan
    model = ObliqueTreeClassifier(**QUICK, teacher=None, missing="indicator")
    weighted = clone(model).fit(X, y, sample_weight=weight)
    assert_same(weighted, clone(model).fit(X[rows], y[rows], groups=rows), X)
    np.testing.assert_array_equal(weighted.missing_values_.fills[0], np.nanmedian(X[rows, 0]))


def test_a_class_without_weight_is_known() -> None:
    X, y, weight, _ = weighted_rows()
    three = np.where(np.arange(90) < 10, 2, y)
    model = ObliqueTreeClassifier(**QUICK, teacher=None).fit(X, three, sample_weight=np.where(three == 2, 0, weight))
    assert model.classes_.tolist() == [0, 1, 2]
    assert not (model.predict(X) == 2).any()


def test_weights_of_ones_and_of_other_numbers_repeat_nothing() -> None:
    X, y, weight, _ = weighted_rows()
    model = ObliqueTreeClassifier(**QUICK, teacher=None)
    assert_same(clone(model).fit(X, y, sample_weight=np.ones(90)), clone(model).fit(X, y), X)
    relative = clone(model).fit(X, y, sample_weight=weight / 4)
    assert np.array_equal(relative.predict(X), clone(model).fit(X, y, sample_weight=weight / 8).predict(X))


def test_many_repetitions_are_relative_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of a fit is bounded, whatever the unit of the weights."""
    X, y, weight, _ = weighted_rows()
    monkeypatch.setattr(training_rows, "REPEATED", 1000)
    model = ObliqueTreeClassifier(**QUICK, teacher=None)
    with warnings.catch_warnings(action="ignore"):
        many = clone(model).fit(X, y, sample_weight=weight * 1024)
        few = clone(model).fit(X, y, sample_weight=weight / 1024)
    assert np.array_equal(many.predict(X), few.predict(X))


@pytest.mark.parametrize("model", [ObliqueTreeClassifier(max_leaf_nodes=3, teacher=None), LCNClassifier(epochs=3)])
def test_rows_of_a_frame_without_weight_teach_the_encoder_nothing(model: Any) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=80), "colour": rng.choice(["red", "blue"], 80)})
    y = np.where(frame["size"] + (frame["colour"] == "red") > 0.5, "yes", "no")
    weight = np.ones(80)
    weight[:9] = 0.0
    frame.loc[0, "colour"], frame.loc[1, "size"], frame.loc[2, "size"], frame.loc[3, "colour"] = (
        "green",
        None,
        1e9,
        None,
    )
    weighted = clone(model).set_params(random_state=0).fit(frame, y, sample_weight=weight)
    removed = clone(model).set_params(random_state=0).fit(frame[9:], y[9:])
    assert weighted.encoder_ == removed.encoder_
    assert "colour=green" not in weighted.encoder_.feature_names
    np.testing.assert_allclose(weighted.predict_proba(frame[9:]), removed.predict_proba(frame[9:]), atol=1e-6)
