"""Small trees with linear leaves: chosen and not asked for, within limits, the same by every way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import sparse

from benchmarks import engines
from treelu import ObliqueTreeClassifier, ObliqueTreeRegressor, load
from treelu.export.program import tree_program
from treelu.tree.to_read import numbers_to_read

QUICK: dict[str, Any] = {"n_updates": 40, "max_leaf_nodes": 4, "teacher": None, "random_state": 0}


def graded(n_classes: int = 2, n_rows: int = 240) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Classes whose probability rises smoothly along a direction, which constant leaves can only cut into steps."""
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(n_rows, 5)) * [1, 10, 1, 0.1, 1] + [0, 3, 0, 0, 7]
    scores = np.column_stack([np.zeros(n_rows), 1.5 * X[:, 0] + 0.15 * (X[:, 1] - 3), 2 * X[:, 2]])[:, :n_classes]
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_linear_leaves_are_chosen_where_probabilities_are_graded(n_classes: int) -> None:
    X, y = graded(n_classes)
    tree = ObliqueTreeClassifier(**QUICK).fit(X, y).tree_
    assert tree.leaf_weights is not None
    assert tree.link == ("logistic" if n_classes == 2 else "softmax")
    assert len(np.unique(tree.predict_proba(X)[:, 0])) > 100


def test_constant_leaves_are_chosen_where_regions_decide() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 2))
    y = np.abs(X[:, 0]) < 0.5
    model = ObliqueTreeClassifier(max_leaf_nodes=4, max_terms=1, teacher=None, random_state=0).fit(X, y)
    assert model.tree_.leaf_weights is None
    assert model.score(X, y) > 0.95


@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_the_kind_that_is_asked_for_is_taken(leaves: str) -> None:
    model = ObliqueTreeClassifier(**QUICK, leaves=leaves).fit(*graded())
    assert (model.tree_.leaf_weights is None) == (leaves == "constant")
    assert (model.path_["leaf_terms"] > 0).all() == (leaves == "linear")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_max_terms_holds_in_formulas_too(n_classes: int) -> None:
    X, y = graded(n_classes)
    model = ObliqueTreeClassifier(**QUICK, max_terms=2, leaves="linear", selection="best").fit(X, y)
    for tree in model.path_trees_:
        assert tree.leaf_weights is not None
        assert 1 <= (tree.leaf_weights != 0).any(axis=1).sum(axis=1).max() <= 2


def test_the_table_counts_the_numbers_of_the_trees() -> None:
    """Those of folds' trees in the median: where all have the same leaves and terms, those of the tree."""
    model = ObliqueTreeClassifier(**QUICK, leaves="linear").fit(*graded())
    one_leaf = model.path_[model.path_.leaves == 1]
    assert len(one_leaf) > 2
    assert [numbers_to_read(model.path_trees_[row]) for row in one_leaf.index] == one_leaf.numbers.tolist()
    assert one_leaf.numbers.tolist() == (one_leaf.leaf_terms + 1).tolist()


def test_a_tree_is_the_same_however_rows_are_given() -> None:
    X, y = graded()
    X[np.abs(X) < 0.5] = 0
    tree = ObliqueTreeClassifier(**QUICK, leaves="linear").fit(X, y).tree_
    assert tree == ObliqueTreeClassifier(**QUICK, leaves="linear", n_jobs=2).fit(X, y).tree_
    of_sparse = ObliqueTreeClassifier(**QUICK, leaves="linear").fit(sparse.csr_array(X), y).tree_
    np.testing.assert_allclose(of_sparse.predict_proba(X), tree.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_names_of_classes_do_not_matter(n_classes: int) -> None:
    X, y = graded(n_classes)
    one, two = (ObliqueTreeClassifier(**QUICK, leaves="linear").fit(X, labels) for labels in (y, n_classes - 1 - y))
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X)[:, ::-1], rtol=1e-12)


def test_saving_keeps_everything(tmp_path: Path) -> None:
    X, y = graded(3)
    model = ObliqueTreeClassifier(**QUICK).fit(X, y)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.leaves == "auto"
    assert loaded.tree_ == model.tree_
    assert loaded.path_.equals(model.path_)
    assert (loaded.predict_proba(X) == model.predict_proba(X)).all()


def test_missing_values_and_weights() -> None:
    X, y = graded()
    X[::7, 1] = np.nan
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    settings = {**QUICK, "missing": "indicator", "leaves": "linear", "cv": 3}
    model = ObliqueTreeClassifier(**settings).fit(X, y, sample_weight=weight)
    assert np.isfinite(model.predict_proba(X)).all()
    assert model.score(X, y) > 0.6


SIGNS = [1, -1, 0, 1, -1]  # the last two are against the trend of `with_trend`


def with_trend(kind: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A linear trend and a step, as values or as the log-odds of the second class."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(500, 5)) * [1, 10, 1, 0.1, 1]
    z = 1.5 * X[:, 0] - 0.1 * X[:, 1] + 4 * (X[:, 2] > 0.3) - 6 * X[:, 3] + X[:, 4]
    return X, z + 0.3 * rng.normal(size=500) if kind is ObliqueTreeRegressor else np.sign(z + rng.logistic(size=500))


def outputs(model: Any, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """The prediction, or the probability of the last class."""
    return np.asarray(model.predict_proba(X)[:, -1] if hasattr(model, "classes_") else model.predict(X))


@pytest.mark.slow
@pytest.mark.parametrize("leaves", ["auto", "linear"])
@pytest.mark.parametrize("kind", [ObliqueTreeClassifier, ObliqueTreeRegressor])
def test_linear_leaves_are_monotonic_as_asked(kind: Any, leaves: str) -> None:
    """Chosen for a trend, proved, and true of random pairs, of every tree on the path."""
    X, y = with_trend(kind)
    model = kind(**QUICK, leaves=leaves, selection="best", monotonic_cst=SIGNS).fit(X, y)
    assert model.tree_.leaf_weights is not None
    assert model.tree_.n_leaves > 1
    assert (model.tree_.leaf_weights == model.tree_.leaf_weights[:1]).all()
    assert model.tree_.leaf_weights[0, 0, 0] > 0 > model.tree_.leaf_weights[0, 0, 1]
    assert (model.tree_.leaf_weights[:, :, 3:] == 0).all()
    rng = np.random.default_rng(0)
    first = rng.normal(size=(10_000, 5)) * X.std(axis=0) * 3
    for j, sign in enumerate(SIGNS):
        for tree in model.path_trees_ if sign else ():
            assert tree.rises(j) if sign > 0 else tree.falls(j)
            second = first.copy()
            second[:, j] += sign * rng.exponential(size=len(first)) * X[:, j].std()
            low, high = (tree.decision_function(rows).reshape(len(rows), -1)[:, -1] for rows in (first, second))
            assert (low <= high).all()
        second = first + np.eye(5)[j] * sign
        assert (outputs(model, first) <= outputs(model, second)).all()
    free = kind(**QUICK, leaves=leaves).fit(X, y)
    assert not free.tree_.rises(3)


@pytest.mark.parametrize("kind", [ObliqueTreeClassifier, ObliqueTreeRegressor])
def test_monotonic_linear_leaves_are_saved_and_exported(kind: Any, tmp_path: Path) -> None:
    X, y = with_trend(kind)
    model = kind(**QUICK, leaves="linear", selection="best", monotonic_cst=SIGNS).fit(X, y)
    assert model.tree_.n_leaves > 1
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.tree_ == model.tree_
    assert list(loaded.monotonic_cst) == SIGNS
    program = tree_program(model.tree_)
    for run in (engines.run_sqlite, engines.run_python):
        answers = run(program, X.tolist()).answers
        assert len(answers) == len(X)
        if kind is ObliqueTreeClassifier:
            assert [row[0] for row in answers] == model.predict(X).tolist()
        wanted = np.atleast_2d(model.predict_proba(X) if kind is ObliqueTreeClassifier else model.predict(X)[:, None])
        found = np.array([row[int(program.has_label) :][: wanted.shape[1]] for row in answers], np.float64)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_monotonic_linear_leaves_of_the_largest_tree_and_with_a_given_strength() -> None:
    X, y = with_trend(ObliqueTreeRegressor)
    settings = {**QUICK, "linear_leaves": True, "monotonic_cst": SIGNS}
    saw = 3 * X[:, 0] - 4 * (X[:, 0] > 0.5)  # rises on either side of a step down
    largest = ObliqueTreeRegressor(**settings, max_terms=1, selection="largest").fit(X, saw).tree_
    assert largest.leaf_weights is not None
    assert largest.n_leaves == 4
    assert largest.rises(0)
    steps = np.linspace(-3, 3, 2001)[:, None] * np.eye(5)[0]
    assert (np.diff(largest.predict(steps)) >= 0).all()
    soft, hard = (ObliqueTreeRegressor(**settings, shrinkage=strength).fit(X, y) for strength in (1.0, 1e4))
    slopes = [np.abs(model.path_trees_[0].leaf_weights).max() for model in (soft, hard)]
    assert slopes[1] < slopes[0] / 5


@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_levels_with_signs_are_features_of_their_own(leaves: str) -> None:
    """Weights relative to another level would have other signs."""
    rng = np.random.default_rng(1)
    level = rng.choice(3, size=400, p=[0.5, 0.3, 0.2])
    frame = pd.DataFrame(np.eye(3)[level], columns=["hue=a", "hue=b", "hue=c"]).assign(x=rng.normal(size=400))
    y = np.array([3.0, 2.0, 0.0])[level] + frame["x"] + 0.3 * rng.normal(size=400)
    settings = {**QUICK, "leaves": leaves, "selection": "best"}
    tree = ObliqueTreeRegressor(**settings, monotonic_cst={"hue=a": 1, "hue=b": 1}).fit(frame, y).tree_
    assert tree.used_features().tolist() == [0, 1, 2, 3]
    rows = rng.uniform(-2, 2, (500, 4))
    for level in (0, 1):
        assert (tree.decision_function(rows + np.eye(4)[level]) >= tree.decision_function(rows)).all()


def test_the_names_of_classes_do_not_matter_to_monotonic_linear_leaves() -> None:
    X, y = with_trend(ObliqueTreeClassifier)
    signs = np.array(SIGNS)
    one = ObliqueTreeClassifier(**QUICK, leaves="linear", monotonic_cst=signs).fit(X, y)
    two = ObliqueTreeClassifier(**QUICK, leaves="linear", monotonic_cst=-signs).fit(X, -y)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X)[:, ::-1], rtol=1e-12)


def test_linear_leaves_of_the_regressor_by_both_names() -> None:
    X, _ = graded()
    y = X @ np.arange(5.0)
    named = ObliqueTreeRegressor(**QUICK, leaves="linear").fit(X, y)
    assert named.tree_ == ObliqueTreeRegressor(**QUICK, linear_leaves=True).fit(X, y).tree_
    assert named.tree_.leaf_weights is not None
    with pytest.raises(ValueError, match="contradict"):
        ObliqueTreeRegressor(**QUICK, leaves="constant", linear_leaves=True).fit(X, y)


def test_the_largest_tree_has_the_leaves_that_are_asked_for() -> None:
    X, y = graded()
    linear = ObliqueTreeClassifier(**QUICK, leaves="linear", selection="largest", max_terms=3).fit(X, y).tree_
    assert linear.leaf_weights is not None
    assert (linear.leaf_weights != 0).sum(axis=-1).max() == 3
    assert ObliqueTreeClassifier(**QUICK, selection="largest").fit(X, y).tree_.leaf_weights is None


def test_formulas_count_in_the_importances() -> None:
    X, y = graded()
    model = ObliqueTreeClassifier(**QUICK, leaves="linear").fit(X, y)
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert model.feature_importances_.argmax() in (0, 1)  # the two that matter have the same effect


def test_several_targets_have_a_formula_each() -> None:
    X, _ = graded()
    Y = np.column_stack([X @ np.arange(5.0), X[:, 0]])
    model = ObliqueTreeRegressor(**QUICK).fit(X, Y)
    assert model.tree_.leaf_weights is not None
    assert model.tree_.leaf_weights.shape[1:] == (2, 5)
    assert model.score(X, Y) > 0.99


def test_values_choose_their_leaves() -> None:
    """Linear ones for a slope, with as many terms as may be; constant ones for a step."""
    X, _ = graded()
    slope = ObliqueTreeRegressor(**QUICK, max_terms=2).fit(X, X[:, 0] + X[:, 4] + 0.1 * X[:, 2]).tree_
    assert slope.leaf_weights is not None
    assert (slope.leaf_weights != 0).sum(axis=2).max() == 2
    X[:, 0] += np.where(X[:, 0] > 0.2, 1.0, -1.0)
    step = ObliqueTreeRegressor(**QUICK).fit(X, X[:, 0] > 0.2).tree_
    assert step.leaf_weights is None
    assert step.n_leaves == 2


def test_separable_classes_have_bounded_scores() -> None:
    """The strength is chosen by held-out log-loss, so that rows of another sample are not answered with certainty."""
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = X[:, 0] > 0
    model = ObliqueTreeClassifier(**QUICK, leaves="linear").fit(X, y)
    assert np.abs(np.diff(model.predict_log_proba(X), axis=1)).max() < 100
