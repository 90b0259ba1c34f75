"""The league: scores against scikit-learn, numbers against hand counts, folds written once, fits that end badly."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score, root_mean_squared_error
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from benchmarks import league
from benchmarks.league_methods import _ALL, METHODS, Method
from benchmarks.league_scores import class_scores, numbers_to_read, value_scores
from benchmarks.size import Task
from treelu import ObliqueTree


def tiny(is_classifier: bool = True, n_classes: int = 2, n: int = 90) -> Task:
    """Three features, two folds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = np.digitize(X[:, 0] + X[:, 1], np.linspace(-1, 1, n_classes + 1)[1:-1]) if is_classifier else X[:, 0] * 3
    rows = np.arange(n)
    return Task("tables", "tiny", is_classifier, X, y, [(rows[: n // 2], rows[n // 2 :]), (rows[n // 2 :], rows[:30])])


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for the cells."""
    monkeypatch.setattr(league, "RESULTS", tmp_path)
    return tmp_path


@pytest.mark.parametrize("n_classes", [2, 4])
def test_scores_of_classes_are_scikit_learns(n_classes: int) -> None:
    task = tiny(n_classes=n_classes)
    model = LogisticRegression(C=0.1).fit(task.X, task.y)
    p = model.predict_proba(task.X)
    found = class_scores(task.y, model.classes_, model.predict(task.X), p)
    area = roc_auc_score(task.y, p[:, 1]) if n_classes == 2 else roc_auc_score(task.y, p, multi_class="ovr")
    expected = {"accuracy": accuracy_score(task.y, model.predict(task.X)), "log_loss": log_loss(task.y, p), "auc": area}
    assert found == pytest.approx(expected)


def test_certain_and_wrong_costs_what_is_said() -> None:
    found = class_scores(np.array([0, 1]), np.array([0, 1]), np.array([1, 1]), np.array([[0.0, 1.0], [0.0, 1.0]]))
    assert found["log_loss"] == pytest.approx(-(np.log(1e-6) + np.log(1 - 1e-6)) / 2)


def test_probabilities_that_are_not_finite_give_no_loss() -> None:
    found = class_scores(np.array([0, 1]), np.array([0, 1]), np.array([0, 1]), np.full((2, 2), np.nan))
    assert found == {"accuracy": 1.0}


def test_scores_of_values_are_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    y, predicted = rng.normal(size=20), rng.normal(size=20)
    expected = {"r2": r2_score(y, predicted), "rmse": root_mean_squared_error(y, predicted)}
    assert value_scores(y, predicted) == pytest.approx(expected)


class Fitted:
    """A model that is a tree of ours."""

    def __init__(self, tree: ObliqueTree) -> None:
        self.tree_ = tree


def test_numbers_of_oblique_trees() -> None:
    splits: Any = ([[1.0, 2.0, 0.0], [0.0, 0.0, 1.0]], [0.0, 1.0], [[1, 2], [3, 4]])
    values = np.arange(3.0)[:, None]
    tree = ObliqueTree([[1.0, 2.0, 0.0], [0.0, 0.0, 1.0]], [0.0, 1.0], [[1, 2], [3, 4]], values)
    # two weights and a threshold; a threshold; three values
    assert numbers_to_read(Fitted(tree)) == {"leaves": 3, "numbers": 3 + 1 + 3}
    leaf_weights = np.zeros((3, 1, 3))
    leaf_weights[:2, 0, :2] = 1.0, 2.0  # shared by two leaves
    linear = ObliqueTree(*splits, values, leaf_weights=leaf_weights)
    assert numbers_to_read(Fitted(linear)) == {"leaves": 3, "numbers": 3 + 1 + 3 + 2}


def test_numbers_of_scikit_learns_models() -> None:
    task, values = tiny(n_classes=3), tiny(is_classifier=False)
    tree = DecisionTreeClassifier(max_leaf_nodes=4).fit(task.X, task.y)
    assert numbers_to_read(tree) == {"leaves": 4, "numbers": 3 + 4 * 3}
    assert numbers_to_read(DecisionTreeRegressor(max_leaf_nodes=4).fit(values.X, values.y))["numbers"] == 3 + 4
    assert numbers_to_read(LogisticRegression().fit(task.X, task.y)) == {"numbers": 3 * 3 + 3}


QUICK = ("CART", "linear", "Cubist", "YDF tree", "STree", "stack without networks", "ConTree, 4 leaves", "LightGBM")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("name", QUICK)
def test_peers_are_fitted_and_counted(name: str) -> None:
    package = _ALL[name].package
    if package is not None and find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install -c constraints.txt 'treelu[league]'")
    for kind in METHODS[name].kinds:
        found = league.fit_fold(name, tiny(kind == "classes", 3, n=300), 0)
        assert found.get("accuracy", found.get("r2")) > (0.6 if kind == "classes" else 0.5)
        if METHODS[name].group in ("readable", "one term"):
            assert found["numbers"] > 1


def test_folds_are_written_and_not_run_again(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(quiet=True)
    league.run_method("CART, 4 leaves", [tiny()], 1, 60, False, console)
    first = league.read_results("CART, 4 leaves")["tables"]["tiny"]
    league.run_method("CART, 4 leaves", [tiny()], 2, 60, False, console)
    both = league.read_results("CART, 4 leaves")["tables"]["tiny"]
    assert {name: values[:1] for name, values in both.items()} == first
    assert len(both["seconds"]) == 2
    monkeypatch.setattr(league.Worker, "run", lambda *_: pytest.fail("a fold was run again"))
    league.run_method("CART, 4 leaves", [tiny()], 2, 60, False, console)


class Raises(BaseEstimator):
    """A model that is broken, or that ends the process, or that never ends, on a table of 90 rows."""

    def __init__(self, how: str) -> None:
        self.how = how

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        if len(X) != 45:
            return
        if self.how == "ValueError: no":
            raise ValueError("no\nmore")
        if self.how == "ended the process":
            os._exit(1)
        while True:
            pass


@pytest.mark.slow
@pytest.mark.parametrize("word", ["ValueError: no", "ended the process", "took more than 1 s"])
def test_a_fit_that_ends_badly_is_recorded(word: str, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "bad", Method(lambda is_classifier, seed: Raises(word), "readable", ("classes",)))
    other = tiny()._replace(name="other")
    league.run_method("bad", [other, tiny()], 1, 1, False, Console(quiet=True))
    assert league.read_results("bad")["failed"] == {"other": word, "tiny": word}
    assert league.read_results("bad")["tables"] == {}
