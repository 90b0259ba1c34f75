"""CART of cross-validated size and a linear model as yardsticks, against scikit-learn's own search."""

import json
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine, make_classification
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedGroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from treelu import ObliqueTreeClassifier
from treelu.report import fit_cart, fit_linear, fit_yardsticks, linear, summarize
from treelu.report.cart import SIZES, UNTRIED
from treelu.report.notebook import report_page
from treelu.report.yardsticks import verdicts


@pytest.mark.parametrize(
    ("load", "scoring"),
    [(load_breast_cancer, "roc_auc"), (load_wine, "roc_auc_ovr"), (load_diabetes, "neg_mean_squared_error")],
)
@pytest.mark.parametrize("limit", [None, 7])
def test_the_size_is_that_of_a_search(load: Any, scoring: str, limit: int | None) -> None:
    X, y = load(return_X_y=True)
    classifier = scoring != "neg_mean_squared_error"
    tree = (DecisionTreeClassifier if classifier else DecisionTreeRegressor)(random_state=0)
    sizes = [size for size in sorted({*SIZES, 7}) if limit is None or size <= limit]
    search = GridSearchCV(tree, {"max_leaf_nodes": sizes}, scoring=scoring, cv=5).fit(X, y)
    cart = fit_cart(X, y, classifier=classifier, max_leaf_nodes=limit)
    reached = search.cv_results_["mean_test_score"]
    assert reached[sizes.index(cart.max_leaf_nodes)] == pytest.approx(reached.max(), abs=1e-12)


def test_rows_of_a_group_are_held_out_together() -> None:
    """Copies of a row tell a large tree its answer, unless they are held out with it."""
    rng = np.random.default_rng(0)
    X, noise = rng.standard_normal((60, 3)), rng.normal(0, 2, 60)
    X, y, groups = np.repeat(X, 5, axis=0), np.repeat(X[:, 0] + noise, 5), np.repeat(np.arange(60), 5)
    told = fit_cart(X, y, classifier=False).get_n_leaves()
    for classifier, folds, scoring in (
        (False, GroupKFold(5), "neg_mean_squared_error"), (True, StratifiedGroupKFold(5), "roc_auc"),
    ):  # fmt: skip
        target = (y > 0) if classifier else y
        tree = (DecisionTreeClassifier if classifier else DecisionTreeRegressor)(random_state=0)
        search = GridSearchCV(tree, {"max_leaf_nodes": list(SIZES)}, scoring=scoring, cv=folds)
        reached = search.fit(X, target, groups=groups).cv_results_["mean_test_score"]
        cart = fit_cart(X, target, classifier=classifier, groups=groups)
        assert reached[SIZES.index(cart.max_leaf_nodes)] == pytest.approx(reached.max(), abs=1e-12)
        assert cart.get_n_leaves() < told
    ridge = make_pipeline(StandardScaler(), RidgeCV(linear.PENALTIES, cv=list(GroupKFold(5).split(X, y, groups))))
    of_groups = fit_linear(X, y, classifier=False, groups=groups)
    np.testing.assert_allclose(of_groups.predict(X), ridge.fit(X, y).predict(X), rtol=1e-9)
    assert "CART" in fit_yardsticks(X, y, classifier=False, groups=groups)
    alone = fit_cart(X, y > 0, classifier=True, groups=np.where(y > 0, 1, 0))  # no fold would hold out both classes
    assert alone.max_leaf_nodes == UNTRIED


def test_a_linear_model_is_scikit_learns_pipeline() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    own = LogisticRegressionCV(
        Cs=linear.STRENGTHS, cv=5, scoring="neg_log_loss", l1_ratios=(0.0,), max_iter=200, use_legacy_attributes=False
    )
    theirs = make_pipeline(StandardScaler(), own).fit(X, y)
    np.testing.assert_allclose(
        fit_linear(X, y, classifier=True).predict_proba(X), theirs.predict_proba(X), rtol=0, atol=1e-8
    )
    X, y = load_diabetes(return_X_y=True)
    ridge = make_pipeline(StandardScaler(), RidgeCV(linear.PENALTIES)).fit(X, y)
    np.testing.assert_allclose(fit_linear(X, y, classifier=False).predict(X), ridge.predict(X), rtol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_linear_model_of_sparse_rows_and_names(n_classes: int) -> None:
    X, y = make_classification(400, 6, n_informative=4, n_classes=n_classes, random_state=0)
    X[X < 0.5] = 0
    words = np.array(["one", "two", "three"])[y]
    model = fit_linear(pd.DataFrame(X, columns=list("abcdef")), words, classifier=True)
    assert model.feature_names == tuple("abcdef")
    assert model.classes is not None
    assert set(model.classes) == set(words)
    of_sparse = fit_linear(sparse.csr_array(X), words, classifier=True)
    np.testing.assert_allclose(of_sparse.predict_proba(X), model.predict_proba(X), atol=1e-3)
    assert (model.predict(X) == words).mean() > 0.6


def test_missing_values_of_a_linear_model() -> None:
    X, y = load_diabetes(return_X_y=True)
    X[::3, 2] = np.nan
    model = fit_linear(X, y, classifier=False)
    assert model.n_features == 11  # an indicator
    assert np.isfinite(model.predict(X)).all()


def test_many_rows_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "MOST_CELLS", 500)
    X, y = make_classification(1000, 5, n_informative=3, n_redundant=0, weights=[0.9], random_state=0)
    model = fit_linear(X, y, classifier=True)
    assert model.n_samples is not None
    assert model.n_samples.tolist() == [100]
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.04)  # the classes keep their share


def test_too_few_rows_for_folds() -> None:
    assert list(fit_yardsticks(np.arange(3.0)[:, None], list("aab"), classifier=True, max_leaf_nodes=1)) == [
        "CART", "small CART", "logistic regression",
    ]  # fmt: skip
    assert list(fit_yardsticks([[1.0], [2.0]], [3.0, 3.0], classifier=False)) == ["CART"]
    assert fit_linear([[1.0]], [3.0], classifier=False).predict([[5.0]]).tolist() == [3.0]


def entry(name: str, low: float, high: float, **scores: float) -> dict[str, Any]:
    lead = {key: {"value": (low + high) / 2, "low": low, "high": high} for key in scores}
    return {
        "name": name,
        "tree": None,
        "scores": {key: {"value": value} for key, value in scores.items()},
        "lead": lead,
    }


def test_verdicts_say_who_does_better_and_whether_it_may_be_chance() -> None:
    own = entry("small tree", 0, 0, auc=0.77, log_loss=0.4, accuracy=0.8)
    better = entry("logistic regression", -0.08, -0.02, auc=0.82, log_loss=0.45, accuracy=0.801)
    perhaps = entry("CART", -0.08, 0.02, auc=0.75, log_loss=0.40, accuracy=0.83)
    worse = entry("small CART", 0.02, 0.08, auc=0.7, log_loss=0.5, accuracy=0.7)
    assert verdicts({"models": [own, better, perhaps, worse]}) == [
        "A logistic regression ranks these rows better: AUC 0.82 : 0.77; it predicts more of these rows right: 80.1% : "
        "80.0%.",
        "CART predicts more of these rows right: 83% : 80% (the difference may be chance).",
    ]
    alone = "A CART as small as this tree has no better AUC, log-loss or accuracy."
    assert verdicts({"models": [own, worse]}) == [alone]
    none = "None of the models beside it has a better AUC, log-loss or accuracy."
    assert verdicts({"models": [own, worse, worse]}) == [none]
    slightly = entry("logistic regression", -0.01, 0.01, auc=0.7712, log_loss=0.4, accuracy=0.8004)  # 80.0 %
    ahead = "A logistic regression ranks these rows better: AUC 0.771 : 0.770 (the difference may be chance)."
    assert verdicts({"models": [own, worse, slightly]}) == [ahead]
    assert verdicts({"models": [own]}) == []


def test_a_lower_log_loss_wins_for_sure_only_where_its_interval_does() -> None:
    own = entry("small tree", 0, 0, log_loss=0.5)
    for low, high, words in [(0.05, 0.15, ""), (-0.05, 0.15, " (the difference may be chance)")]:
        other = entry("logistic regression", low, high, log_loss=0.4)
        (line,) = verdicts({"models": [own, other]})
        assert line == f"A logistic regression gives better probabilities: log-loss 0.40 : 0.50{words}."


def test_a_report_says_which_model_does_better() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    yardsticks = fit_yardsticks(X[::2], y[::2], classifier=True, max_leaf_nodes=2)
    stump = yardsticks["small CART"]
    summary = summarize(stump, X=X[1::2], y=y[1::2], baselines=yardsticks)
    scores = {model["name"]: model["scores"]["auc"]["value"] for model in summary["models"]}
    assert scores["logistic regression"] > scores["Tree"] + 0.01
    line = next(line for line in summary["verdicts"] if line.startswith("A logistic regression"))
    assert f"AUC {scores['logistic regression']:.2f} : {scores['Tree']:.2f}" in line


def test_training_rows_give_a_python_report_its_yardsticks() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(40, 9, 300), "job": rng.choice(["clerk", "cook"], 300)})
    frame.loc[::7, "age"] = np.nan
    y = np.where(frame["age"].fillna(40) + 9 * (frame["job"] == "cook") + rng.normal(0, 4, 300) > 44, "good", "bad")
    model = ObliqueTreeClassifier(max_leaf_nodes=3, random_state=0).fit(frame[:200], y[:200])
    page = model.report(frame[200:], y[200:], training=(frame[:200], y[:200]), questions=False)
    summary = json.loads(re.search(r'id="report-data">(.*?)</script>', page.html).group(1))  # type: ignore[union-attr]
    assert [entry["name"] for entry in summary["models"][1:]] == ["CART", "small CART", "logistic regression"]
    assert summary["models"][3]["scores"]["auc"]["value"] > 0.8
    assert summary["verdicts"]
    assert [column["name"] for column in summary["overview"]] == ["age", "job"]  # the frame's own columns
    pipeline = make_pipeline(PolynomialFeatures(), DecisionTreeRegressor(max_leaf_nodes=3))  # not affine
    X, target = load_diabetes(return_X_y=True)
    page = report_page(pipeline.fit(X[:200], target[:200]), X[200:], target[200:], training=(X[:200], target[:200]))
    assert "ridge regression" in page.html
    forest = RandomForestRegressor(5, random_state=0).fit(X[:200], target[:200])
    assert "ridge regression" in report_page(forest, X[200:], target[200:], training=(X[:200], target[:200])).html
