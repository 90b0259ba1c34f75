"""NaN in X: refused by default, filled and flagged on request."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.impute import SimpleImputer

from treelu import LCNClassifier, LCNRegressor, ObliqueTreeClassifier
from treelu.persistence import dumps, loads


@pytest.fixture
def gaps() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] > 0).astype(int)
    X[rng.random((200, 3)) < [0.3, 0.1, 0.0]] = np.nan
    return X, y


def test_same_as_scikit_learns_imputer_in_front(gaps: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = gaps
    inside = LCNClassifier(depth=3, epochs=10, missing="indicator", random_state=0).fit(X, y)
    filled = SimpleImputer(strategy="median", add_indicator=True).fit_transform(X)
    outside = LCNClassifier(depth=3, epochs=10, random_state=0).fit(filled, y)
    np.testing.assert_allclose(inside.decision_function(X), outside.decision_function(filled), atol=1e-9)
    assert inside.n_features_in_ == 3
    assert inside.tree_.feature_names == ("x0", "x1", "x2", "x0 is missing", "x1 is missing")
    assert inside.apply(X).shape == (200,)


def test_refused_by_default(gaps: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = gaps
    with pytest.raises(ValueError, match="NaN"):
        LCNClassifier().fit(X, y)


def test_infinity_is_refused_all_the_same() -> None:
    X = np.array([[1.0], [np.inf], [2.0]])
    with pytest.raises(ValueError, match="infinity"):
        LCNRegressor(missing="indicator").fit(X, [1.0, 2.0, 3.0])


def test_sparse_rows_have_no_missing_values() -> None:
    with pytest.raises(ValueError, match="dense X"):
        LCNRegressor(missing="indicator").fit(sparse.eye_array(3).tocsr(), [1.0, 2.0, 3.0])


def test_several_labels_share_the_gaps(gaps: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = gaps
    settings = {"depth": 2, "drop_connect": 0.1, "epochs": 5, "missing": "indicator", "random_state": 0}
    both = LCNClassifier(**settings).fit(X, np.column_stack([y, 1 - y]))
    chances = both.predict_proba(X)
    for label, member in enumerate(both.estimators_):
        np.testing.assert_allclose(member.predict_proba(X)[:, 1], chances[:, label])
        assert member.tree_.feature_names[-1] == "x1 is missing"


def test_a_feature_may_have_the_name_of_an_indicator() -> None:
    frame = pd.DataFrame({"x": [1.0, np.nan, 3.0, 4.0] * 5, "x is missing": [0.0, 1.0, 2.0, 3.0] * 5})
    model = LCNClassifier(depth=1, epochs=1, missing="indicator").fit(frame, [0, 1, 0, 1] * 5)
    assert model.tree_.feature_names == ("x", "x is missing", "x is missing (2)")


@pytest.mark.parametrize(
    "model",
    [
        LCNClassifier(depth=2, drop_connect=0, epochs=2, missing="indicator", random_state=0),
        ObliqueTreeClassifier(n_updates=10, teacher=None, n_jobs=1, missing="indicator", random_state=0),
    ],
)
def test_a_new_fit_forgets_the_gaps_of_the_last(gaps: tuple[np.ndarray, np.ndarray], model: Any) -> None:
    X, y = gaps
    model.fit(X, y).set_params(missing="error").fit(np.nan_to_num(X), y)
    assert model.tree_.n_features == 3
    np.testing.assert_array_equal(loads(*dumps(model)).predict(X[:, [2, 2, 2]]), model.predict(X[:, [2, 2, 2]]))


@pytest.mark.parametrize(
    "model",
    [
        LCNClassifier(depth=2, drop_connect=0, epochs=2, missing="indicator", random_state=0),
        ObliqueTreeClassifier(n_updates=10, teacher=None, n_jobs=1, missing="indicator", random_state=0),
    ],
)
def test_rows_without_weight_do_not_fill_gaps(model: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y, weight = (X[:, 0] > 0).astype(int), (np.arange(60) % 2).astype(float)
    X[5::6, 0] = np.nan
    X[0::2] += 100
    X[2::6, 1] = np.nan  # where only rows without weight have gaps
    weighted = clone(model).fit(X, y, sample_weight=weight)
    removed = clone(model).fit(X[1::2], y[1::2])
    np.testing.assert_array_equal(weighted.missing_values_.fills, removed.missing_values_.fills)
    np.testing.assert_array_equal(weighted.missing_values_.gaps, [0])
    np.testing.assert_array_equal(weighted.predict_proba(X), removed.predict_proba(X))


def test_warm_start_does_not_go_on_with_indicators_of_other_columns(gaps: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = gaps
    model = LCNClassifier(depth=2, drop_connect=0, epochs=2, missing="indicator", warm_start=True).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(
        ValueError, match=r"columns with missing values 0, 1, but .* are 0, 2 now; set warm_start=False"
    ):
        model.fit(X[:, [0, 2, 1]], y)
    np.testing.assert_array_equal(model.predict_proba(X), before)


@pytest.mark.parametrize(
    "model",
    [
        LCNClassifier(depth=2, drop_connect=0, epochs=2, random_state=0),
        ObliqueTreeClassifier(n_updates=10, teacher=None, n_jobs=1, random_state=0),
    ],
)
def test_a_fitted_model_fills_gaps_as_it_was_fitted(model: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] > 0
    whole, gaps = X.copy(), X
    gaps[::5, 1] = np.nan
    filling = clone(model).set_params(missing="indicator").fit(gaps, y)
    before = filling.predict_proba(gaps)
    np.testing.assert_array_equal(filling.set_params(missing="error").predict_proba(gaps), before)
    refusing = clone(model).fit(whole, y)
    before = refusing.predict_proba(whole)
    np.testing.assert_array_equal(refusing.set_params(missing="indicator").predict_proba(whole), before)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        refusing.predict_proba(gaps)
