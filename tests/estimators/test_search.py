"""Cross-validated choice of depth and drop rate, restarts, and plans of training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.model_selection import KFold
from sklearn.utils.estimator_checks import check_estimator

from tests.estimators.tables import EXPECTED_FAILED_CHECKS
from treelu import LCNClassifier, LCNClassifierCV, LCNRegressor, LCNRegressorCV
from treelu.estimators._plan import plan_training

QUICK = {"depths": [1, 3], "drop_rates": [0.0, 0.25], "cv": 3, "random_state": 0}


def test_search_finds_the_depth_that_is_needed() -> None:
    X = np.random.default_rng(0).normal(size=(600, 2))
    y = ((X[:, 0] > 0) ^ (X[:, 1] > 0)).astype(int)  # no single cut will do
    several = LCNClassifier(
        epochs=100, training={"batch_size": 32, "n_init": 3}
    )  # one start may end in three quadrants
    search = LCNClassifierCV(**QUICK, estimator=several).fit(X, y)
    assert search.depth_ == 3
    assert search.score(X, y) > 0.75  # one cut reaches about a half
    assert search.cv_results_["mean_loss"].shape == (4,)
    np.testing.assert_array_equal(search.predict(X), search.tree_.predict(X))


def test_regression_and_processes() -> None:
    X, y = load_diabetes(return_X_y=True)
    quick = LCNRegressor(epochs=5)
    alone = LCNRegressorCV(**QUICK, estimator=quick).fit(X, y)
    together = LCNRegressorCV(**QUICK, estimator=quick, n_jobs=2).fit(X, y)
    # another split or seed would show; the last digit is the BLAS's, whose sums follow the memory's layout
    np.testing.assert_allclose(alone.cv_results_["mean_loss"], together.cv_results_["mean_loss"], rtol=1e-5)
    np.testing.assert_allclose(alone.predict(X), together.predict(X), rtol=1e-4)


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_rows_held_out_count_by_their_weights(kind: str) -> None:
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(90, 3)), rng.integers(0, 3, 90).astype(float)
    y = X[:, 0] if kind == "values" else (X[:, 0] > 0).astype(int)
    quick: dict[str, Any] = {"epochs": 3, "random_state": 0}
    member = LCNRegressor(**quick, smoothing=0) if kind == "values" else LCNClassifier(**quick)
    search: Any = (LCNRegressorCV if kind == "values" else LCNClassifierCV)(
        depths=[2], drop_rates=[0.0], cv=KFold(3), estimator=member, random_state=0
    )
    counted = np.flatnonzero(weight)
    losses = []
    for train, test in KFold(3).split(counted):
        train, test = counted[train], counted[test]
        model = clone(member).set_params(depth=2, drop_connect=0.0).fit(X[train], y[train], weight[train])
        if kind == "values":
            losses.append(mean_squared_error(y[test], model.predict(X[test]), sample_weight=weight[test]) ** 0.5)
        else:
            losses.append(log_loss(y[test], model.predict_proba(X[test]), sample_weight=weight[test]))
    found = search.fit(X, y, sample_weight=weight).cv_results_["mean_loss"]
    np.testing.assert_allclose(found, np.mean(losses), rtol=1e-6)
    same = [(counted[train], counted[test]) for train, test in KFold(3).split(counted)]
    given = clone(search).set_params(cv=same).fit(X, y, sample_weight=weight).cv_results_["mean_loss"]
    np.testing.assert_allclose(given, found, rtol=1e-12)
    with pytest.raises(ValueError, match="sample_weight"):
        search.fit(X, y, sample_weight=weight[:5])


@pytest.mark.parametrize("search", [LCNClassifierCV, LCNRegressorCV])
def test_scikit_learns_checks(search: type) -> None:
    quick = {"epochs": 20, "training": {"batch_size": 16, "temper": False}}
    base = LCNClassifier(**quick) if search is LCNClassifierCV else LCNRegressor(**quick, smoothing=0)
    small = search(depths=[4], drop_rates=[0.0], cv=2, estimator=base)
    check_estimator(small, expected_failed_checks=EXPECTED_FAILED_CHECKS)


def test_restarts_keep_the_least_training_loss() -> None:
    X, y = load_iris(return_X_y=True)
    several = LCNClassifier(depth=2, epochs=5, training={"n_init": 4}, random_state=0).fit(X, y)
    first = LCNClassifier(depth=2, epochs=5, random_state=0).fit(X, y)
    number = np.searchsorted(first.classes_, y)
    rows = np.arange(len(y))
    losses = [-np.log(each.predict_proba(X)[rows, number]).mean() for each in (several, first)]
    assert losses[0] <= losses[1]


def test_plans() -> None:
    small, large = plan_training(100, "auto", "auto"), plan_training(10_000_000, "auto", "auto")
    assert small.epochs == large.epochs
    assert small.batch_size < large.batch_size
    assert small.updates_per_epoch is not None
    assert large.updates_per_epoch is not None
    assert small.updates_per_epoch * small.epochs * small.batch_size > 100 * 20  # many passes over a small table
    assert plan_training(100, 7, 9) == (7, 9, None)
    assert plan_training(100, 7, "auto").epochs == 7
