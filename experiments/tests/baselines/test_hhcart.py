"""HHCART as an estimator: the trees it grows, what it accepts, and how it compares with CART."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import check_estimator

from experiments.baselines import HHCARTClassifier, HHCARTRegressor
from treelu.tree import ObliqueTree

pytestmark = pytest.mark.slow


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("estimator", [HHCARTClassifier(), HHCARTRegressor()])
def test_scikit_learns_own_checks(estimator) -> None:
    check_estimator(estimator)


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine, load_digits])
def test_at_least_as_accurate_as_cart_of_the_same_depth(load) -> None:
    X, y = load(return_X_y=True)
    # Five folds of wine's 178 rows differ by more than the methods do: several shuffles.
    shuffles = [StratifiedKFold(5, shuffle=True, random_state=s) for s in range(1 if len(y) > 1000 else 5)]
    for depth in (2, 4):
        cart, ours = (
            np.mean([cross_val_score(model, X, y, cv=folds).mean() for folds in shuffles])
            for model in (DecisionTreeClassifier(max_depth=depth, random_state=0), HHCARTClassifier(max_depth=depth))
        )
        assert ours >= cart


def test_two_slanted_classes_take_one_split() -> None:
    rng = np.random.default_rng(0)
    along = rng.normal(size=400)
    y = np.repeat([0, 1], 200)
    X = np.column_stack([along, along + np.where(y, 1.0, -1.0) + rng.uniform(-0.3, 0.3, 400)])
    assert HHCARTClassifier(max_depth=1).fit(X, y).score(X, y) == 1
    assert DecisionTreeClassifier(max_depth=1).fit(X, y).score(X, y) < 0.9


def test_all_eigenvectors_find_what_the_dominant_one_does_not() -> None:
    # The classes differ along the second axis of a rotated box whose first axis is the longest.
    rng = np.random.default_rng(0)
    box = rng.uniform(-1, 1, (600, 3)) * [5.0, 1.0, 3.0]
    y = (box[:, 1] > 0).astype(int)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    X = box @ turn
    scores = {
        which: HHCARTClassifier(eigenvectors=which, max_depth=1).fit(X, y).score(X, y) for which in ("all", "dominant")
    }
    assert scores["all"] > 0.97 > scores["dominant"]


def test_criteria_agree_on_two_classes_only() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    gini, twoing = (HHCARTClassifier(max_depth=3, criterion=c).fit(X, y) for c in ("gini", "twoing"))
    assert gini.tree_ == twoing.tree_
    X, y = load_digits(return_X_y=True)
    gini, twoing = (HHCARTClassifier(max_depth=3, criterion=c).fit(X, y) for c in ("gini", "twoing"))
    assert gini.tree_ != twoing.tree_


@pytest.mark.parametrize("model", [HHCARTClassifier(max_depth=4), HHCARTRegressor(max_depth=4)])
def test_predictions_are_the_trees_and_survive_json(model) -> None:
    X, y = load_iris(return_X_y=True)
    model = clone(model).fit(X, y)
    back = ObliqueTree.from_json(model.tree_.to_json())
    assert back == model.tree_
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    np.testing.assert_array_equal(back.apply(X), model.apply(X))
    assert (back.decision_path(X) != model.decision_path(X)).nnz == 0
    assert model.get_depth() == back.depth <= 4
    assert model.get_n_leaves() == back.n_leaves
    assert model.feature_importances_.sum() == pytest.approx(1)


def test_leaves_hold_weighted_class_frequencies() -> None:
    X, y = load_iris(return_X_y=True)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    model = HHCARTClassifier(max_depth=2).fit(X, np.array(["a", "b", "c"])[y], sample_weight=weight)
    leaves = model.apply(X)
    for leaf in np.unique(leaves):
        own = leaves == leaf
        frequencies = np.bincount(y[own], weight[own], 3) / weight[own].sum()
        np.testing.assert_allclose(model.predict_proba(X[own])[0], frequencies)
        assert model.tree_.weighted_n_samples[leaf] == pytest.approx(weight[own].sum())
    assert set(model.predict(X)) <= {"a", "b", "c"}


def test_regression_beats_cart_where_the_slope_is_slanted() -> None:
    rng = np.random.default_rng(0)
    along = rng.normal(size=(500, 1)) * 3
    X = along * [1.0, 1.0] + rng.normal(size=(500, 2)) * 0.3
    y = along[:, 0]
    ours = HHCARTRegressor(max_depth=3).fit(X[:300], y[:300]).score(X[300:], y[300:])
    assert ours > DecisionTreeRegressor(max_depth=3).fit(X[:300], y[:300]).score(X[300:], y[300:])


def test_regression_on_several_targets() -> None:
    X, y = load_diabetes(return_X_y=True)
    both = HHCARTRegressor(max_depth=3).fit(X, np.column_stack([y, -2 * y]))
    np.testing.assert_allclose(both.predict(X)[:, 1], -2 * both.predict(X)[:, 0])


def test_names_of_a_data_frame_are_kept() -> None:
    data = load_iris(as_frame=True)
    model = HHCARTClassifier(max_depth=2).fit(data.data, data.target)
    assert list(model.feature_names_in_) == list(model.tree_.feature_names) == list(data.data.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(data.data.rename(columns=str.upper))


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_sparse_rows_grow_the_tree_of_dense_ones(kind) -> None:
    rng = np.random.default_rng(1)
    X = (rng.random((150, 12)) < 0.3).astype(float)
    y = (X @ rng.normal(size=12) + 0.3 * rng.normal(size=150) > 0).astype(int)
    dense, thin = HHCARTClassifier(max_depth=3).fit(X, y), HHCARTClassifier(max_depth=3).fit(kind(X), y)
    np.testing.assert_array_equal(dense.predict_proba(X), thin.predict_proba(X))
    np.testing.assert_array_equal(thin.predict(kind(X)), thin.predict(X))


def test_sparse_rows_are_never_made_dense() -> None:
    rng = np.random.default_rng(0)
    X = sparse.random_array((4000, 2000), density=0.01, rng=rng, format="csr")
    y = rng.integers(0, 2, 4000)
    HHCARTClassifier(max_depth=1).fit(X[:50], y[:50])  # compile
    tracemalloc.start()
    HHCARTClassifier(max_depth=2).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4000 * 2000 * 8 / 8


def test_search_over_parameters() -> None:
    X, y = load_wine(return_X_y=True)
    search = GridSearchCV(HHCARTClassifier(), {"max_depth": [1, 3], "eigenvectors": ["all", "dominant"]}, cv=3).fit(
        X, y
    )
    assert search.best_params_["max_depth"] == 3


def test_bace_by_validation(bace) -> None:
    def auc(model, part: str) -> float:
        return roc_auc_score(bace[part].y, model.predict_proba(bace[part].X)[:, 1])

    models = [HHCARTClassifier(max_depth=d).fit(bace["train"].X, bace["train"].y) for d in range(2, 7)]
    assert auc(max(models, key=lambda model: auc(model, "valid")), "test") >= 0.54


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"eigenvectors": "some"}, "eigenvectors"),
        ({"max_depth": 0}, "max_depth"),
        ({"criterion": "entropy"}, "criterion"),
        ({"min_samples_leaf": 0}, "min_samples_leaf"),
    ],
)
def test_bad_settings_are_named(settings, message) -> None:
    with pytest.raises(ValueError, match=message):
        HHCARTClassifier(**settings).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize(
    ("X", "y", "weight", "message"),
    [
        ([[0.0], [np.nan]], [0, 1], None, "NaN"),
        ([[0.0], [1.0]], [0.5, 1.5], None, "Unknown label type"),
        ([[0.0], [1.0]], [0, 1], [0, 0], "Sample weights must contain at least one non-zero"),
        ([[0.0], [1.0]], [0, 1], [1, -1], "sample_weight"),
        ([[0.0], [1.0]], [0, 1, 1], None, "inconsistent"),
        (pd.DataFrame({"size": [0.0, 1.0], "colour": ["red", "blue"]}), [0, 1], None, "text columns .colour"),
    ],
)
def test_bad_rows_are_refused(X, y, weight, message) -> None:
    with pytest.raises(ValueError, match=message):
        HHCARTClassifier().fit(X, y, sample_weight=weight)
