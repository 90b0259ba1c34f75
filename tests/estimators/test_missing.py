"""NaN in X: refused by default, filled and flagged on request."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.impute import SimpleImputer

from treelu import ELCNClassifier, LCNClassifier, LCNRegressor, ObliqueTreeClassifier
from treelu.persistence import dumps, loads
from treelu.report import summarize
from treelu.tree import ObliqueTree


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


def test_refused_where_asked(gaps: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = gaps
    with pytest.raises(ValueError, match="NaN"):
        LCNClassifier(missing="error").fit(X, y)


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


# Everything that a fitted model offers, on rows with NaN

MODELS = [
    LCNClassifier(depth=3, drop_connect=0, epochs=3, missing="indicator", random_state=0),
    ObliqueTreeClassifier(n_updates=10, teacher=None, n_jobs=1, selection="best", missing="indicator", random_state=0),
]


@pytest.fixture(params=["array", "frame"])
def table(gaps: tuple[np.ndarray, np.ndarray], request: pytest.FixtureRequest) -> tuple[Any, np.ndarray]:
    X, y = gaps
    return (X if request.param == "array" else pd.DataFrame(X, columns=["a", "b", "c"])), y


@pytest.mark.parametrize("model", MODELS)
def test_the_tree_reads_rows_with_nan(table: tuple[Any, np.ndarray], model: Any) -> None:
    X, y = table
    model = clone(model).fit(X, y)
    tree = model.tree_
    np.testing.assert_array_equal(tree.predict(X), model.predict(X))
    np.testing.assert_array_equal(tree.apply(X), model.apply(X))
    filled = model.missing_values_.fill(np.asarray(X))
    np.testing.assert_array_equal(tree.predict_proba(filled), tree.predict_proba(X))  # rows with indicators, too
    for again in (ObliqueTree.from_json(tree.to_json()), loads(*dumps(tree)), loads(*dumps(model)).tree_):
        assert again == tree
        np.testing.assert_array_equal(again.predict_proba(X), tree.predict_proba(X))


def test_the_columns_of_a_frame_are_found_by_name(gaps: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = gaps
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    tree = clone(MODELS[0]).fit(frame, y).tree_
    np.testing.assert_array_equal(tree.predict(frame[["c", "b", "a"]].assign(d="text")), tree.predict(frame))
    with pytest.raises(ValueError, match="missing: b"):
        tree.predict(frame[["a", "c"]])


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_importances_count_indicators_for_their_columns(gaps: tuple[np.ndarray, np.ndarray], model: Any) -> None:
    X, y = gaps
    model = clone(model).fit(X, y)
    of_tree = model.tree_.feature_importances(getattr(model, "spread_", None))
    np.testing.assert_allclose(model.feature_importances_, of_tree[:3] + np.append(of_tree[3:], 0))
    assert loads(*dumps(model)).feature_importances_.shape == (3,)
    assert SelectFromModel(model, max_features=2, threshold=-np.inf).fit(X, y).get_support().sum() == 2
    assert RFE(model, n_features_to_select=1).fit(X, y).get_support().sum() == 1


def test_importances_of_ensembles_and_deep_networks(gaps: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = gaps
    quick = {"drop_connect": 0, "epochs": 1, "missing": "indicator", "random_state": 0}
    member = LCNClassifier(depth=2, drop_connect=0, epochs=1, missing="indicator")
    several = ELCNClassifier(member, n_estimators=2, combine="average", random_state=0)
    for model in (several, LCNClassifier(depth=18, **quick)):
        assert model.fit(X, y).feature_importances_.shape == (3,)


def test_tags_say_whether_nan_is_accepted() -> None:
    several = ELCNClassifier(LCNClassifier(missing="indicator"))
    for model in (*MODELS, several):
        tags = model.__sklearn_tags__().input_tags
        assert (tags.allow_nan, tags.sparse) == (True, False)
    for model in (LCNClassifier(), ObliqueTreeClassifier(), ELCNClassifier()):
        tags = model.__sklearn_tags__().input_tags
        assert (tags.allow_nan, tags.sparse) == (True, True)
    assert not LCNClassifier(missing="error").__sklearn_tags__().input_tags.allow_nan


def test_by_default_a_missing_value_that_training_had_is_filled_and_another_one_is_an_error() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    X[::5, 1] = np.nan
    y = (np.nan_to_num(X[:, 1]) + X[:, 0] > 0).astype(int)
    for kind in (
        LCNClassifier(depth=2, epochs=2, drop_connect=0),
        ObliqueTreeClassifier(max_leaf_nodes=3, teacher=None),
    ):
        asked = clone(kind).set_params(missing="indicator", random_state=0).fit(X, y)
        model = kind.set_params(random_state=0).fit(X, y)
        np.testing.assert_array_equal(model.predict_proba(X), asked.predict_proba(X))
        np.testing.assert_array_equal(model.tree_.predict(X), model.predict(X))
        odd = np.array([[np.nan, 0.0, 0.0]])
        with pytest.raises(ValueError, match="NaN in column 0, row 0: no training row had a missing value there"):
            model.predict(odd)
        asked.predict(odd)
        full = clone(kind).fit(np.nan_to_num(X), y)
        with pytest.raises(ValueError, match="no training row had a missing value there"):
            full.predict(odd)


@pytest.mark.parametrize("model", MODELS)
def test_a_missing_value_stays_missing_in_queries(table: tuple[Any, np.ndarray], model: Any) -> None:
    X, y = table
    tree = clone(model).fit(X, y).tree_
    for i in [*np.flatnonzero(np.isnan(np.asarray(X)[:, 0]))[:5], 0]:
        row = X.iloc[i] if isinstance(X, pd.DataFrame) else X[i]
        before = tree.read_rows(np.asarray(X)[[i]])[0]
        found = tree.counterfactual(row, norm="l2")
        if found:
            changed = np.flatnonzero(found.row != before)
            absent = np.isnan(np.asarray(X)[i])
            assert not set(changed) & {3, 4, *np.flatnonzero(absent).tolist()}
            assert tree.predict(found.row[None])[0] != tree.predict(np.asarray(X)[[i]])[0]
        np.testing.assert_allclose(tree.robustness(row).distances, found.bound if found else np.inf, rtol=1e-6)
        assert f"{tree.feature_name(3)} = {int(before[3])}" in tree.describe(row) or "leaf 0" in tree.describe(row)
    shares = tree.shap_values(X[:4], X[4:12])
    np.testing.assert_allclose(shares.values.sum(axis=1) + shares.base_values, tree.predict_proba(X[:4])[:, 1])
    assert tree.rises(0).text if hasattr(tree.rises(0), "text") else str(tree.rises(0))


@pytest.mark.slow
@pytest.mark.parametrize("model", [*MODELS, ELCNClassifier(MODELS[0], n_estimators=2)])
def test_reports_read_rows_with_nan(table: tuple[Any, np.ndarray], model: Any) -> None:
    X, y = table
    model = clone(model).fit(X, y)
    page = model.report(X, y, title="Gaps").html
    assert "<title>Gaps</title>" in page
    summary = summarize(getattr(model, "tree_", None), X=X, y=y, estimator=model)
    assert summary["models"][0]["scores"]["accuracy"]["value"] == pytest.approx(model.score(X, y))


def test_exports_of_the_tree_fill_missing_values(gaps: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = gaps
    model = clone(MODELS[0]).fit(X, y)
    module: dict[str, Any] = {}
    exec(model.tree_.to_python(), module)
    rows = [{f"x{j}": None if np.isnan(value) else value for j, value in enumerate(row)} for row in X[:50]]
    answers = [module["predict"](row) for row in rows]
    assert [answer["prediction"] for answer in answers] == model.predict(X[:50]).tolist()
