"""Shares of predictions: against sums over all sets, shap's exact explainer and its TreeExplainer."""

from __future__ import annotations

import itertools
from math import factorial

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from tests.tree.trees import random_tree
from treelu.tree import ObliqueTree


def predictions(tree: ObliqueTree, X: np.ndarray) -> np.ndarray:
    """What the shares explain: probabilities or values, (n, k)."""
    if tree.is_classifier:
        chances = tree.predict_proba(X)
        return chances[:, [1]] if chances.shape[1] == 2 else chances
    return tree.decision_function(X)


def by_definition(tree: ObliqueTree, x: np.ndarray, behind: np.ndarray) -> np.ndarray:
    """Σ over S of |S|! (d − |S| − 1)! / d! · (v(S ∪ j) − v(S)), each v from mixed rows."""
    d = len(x)

    def value(chosen: tuple[int, ...]) -> np.ndarray:
        rows = behind.copy()
        rows[:, list(chosen)] = x[list(chosen)]
        return predictions(tree, rows).mean(axis=0)

    values = {chosen: value(chosen) for size in range(d + 1) for chosen in itertools.combinations(range(d), size)}
    result = np.zeros((d, len(values[()])))
    for j in range(d):
        for chosen in values:
            if j not in chosen:
                weight = factorial(len(chosen)) * factorial(d - len(chosen) - 1) / factorial(d)
                result[j] += weight * (values[tuple(sorted((*chosen, j)))] - values[chosen])
    return result


@pytest.mark.parametrize(
    "kind", ["identity", "identity2", "logistic", "softmax", "probability", "linear", "linear softmax"]
)
def test_exact_values_are_those_of_the_definition(kind):
    rng = np.random.default_rng(len(kind))
    tree = random_tree(rng, 7, 5, kind)
    X, behind = rng.standard_normal((3, 5)), rng.standard_normal((6, 5))
    result = tree.shap_values(X, behind)
    values = result.values if result.values.ndim == 3 else result.values[:, :, None]
    for x, found in zip(X, values, strict=True):
        np.testing.assert_allclose(found, by_definition(tree, x, behind), atol=1e-12)
    base = result.base_values if result.values.ndim == 3 else result.base_values[:, None]
    np.testing.assert_allclose(base + values.sum(axis=1), predictions(tree, X), atol=1e-12)
    assert result.standard_errors is None


def test_permutations_come_near_and_their_sums_are_exact():
    rng = np.random.default_rng(0)
    tree = random_tree(rng, 12, 8, "softmax")
    X, behind = rng.standard_normal((4, 8)), rng.standard_normal((10, 8))
    exact = tree.shap_values(X, behind)
    near = tree.shap_values(X, behind, max_exact=3, n_permutations=20)
    np.testing.assert_allclose(near.base_values + near.values.sum(axis=1), tree.predict_proba(X), atol=1e-12)
    away = np.abs(near.values - exact.values)
    assert (away <= 4.5 * near.standard_errors + 1e-12).mean() > 0.98
    assert 0 < near.standard_errors.max() < 0.05
    again = tree.shap_values(X, behind, max_exact=3, n_permutations=20)
    np.testing.assert_array_equal(near.values, again.values)


def test_raw_scores_targets_and_features_that_are_not_used():
    rng = np.random.default_rng(1)
    tree = random_tree(rng, 5, 6, "logistic")
    tree = ObliqueTree(tree.weights * [1, 1, 0, 1, 0, 1], tree.biases, tree.children, tree.values, link="logistic",
                       classes=["no", "yes"])  # fmt: skip
    X, behind = rng.standard_normal((3, 6)), rng.standard_normal((4, 6))
    yes, no = tree.shap_values(X, behind), tree.shap_values(X, behind, target="no")
    np.testing.assert_allclose(yes.values, -no.values, atol=1e-12)
    assert (yes.values[:, [2, 4]] == 0).all()
    raw = tree.shap_values(X, behind, raw=True)
    np.testing.assert_allclose(raw.base_values + raw.values.sum(axis=1), tree.decision_function(X), atol=1e-12)
    other = tree.shap_values(X, behind, raw=True, target="no")
    np.testing.assert_allclose(other.values, -raw.values, atol=1e-12)
    assert (raw.output_names, other.output_names) == (["yes"], ["no"])
    assert tree.shap_values(X[:0], behind).values.shape == (0, 6)


def test_words_and_what_is_refused():
    rng = np.random.default_rng(1)
    tree = random_tree(rng, 5, 4, "identity")
    X = rng.standard_normal((2, 4))
    assert str(tree.shap_values(X, X)) == "shares of 2 rows over 4 features, exact"
    near = tree.shap_values(X, X, max_exact=1)
    assert str(near).startswith("shares of 2 rows over 4 features, by permutations, standard error at most 0")
    assert near._repr_html_() == f"<p>{near}</p>"
    with pytest.raises(ValueError, match="background must have at least one row"):
        tree.shap_values(X, X[:0])
    with pytest.raises(ValueError, match="n_permutations must be at least 2, to state a standard error; got 1"):
        tree.shap_values(X, X, n_permutations=1)
    with pytest.raises(ValueError, match="target names a class, and this tree predicts numbers; leave it out"):
        tree.shap_values(X, X, target="yes")


# Beside shap


@pytest.mark.slow
def test_shaps_exact_explainer():
    shap = pytest.importorskip("shap")
    rng = np.random.default_rng(2)
    tree = random_tree(rng, 9, 6, "softmax")
    X, behind = rng.standard_normal((4, 6)), rng.standard_normal((12, 6))
    wanted = shap.explainers.ExactExplainer(tree.predict_proba, shap.maskers.Independent(behind))(X)
    result = tree.shap_values(X, behind)
    np.testing.assert_allclose(result.values, wanted.values, atol=1e-10)
    np.testing.assert_allclose(result.base_values, wanted.base_values, atol=1e-10)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_shaps_tree_explainer(task):
    shap = pytest.importorskip("shap")
    if task == "classification":
        data, target = load_iris(return_X_y=True)
        cart = DecisionTreeClassifier(max_depth=4, random_state=0).fit(data, target)
    else:
        data, target = load_diabetes(return_X_y=True)
        cart = DecisionTreeRegressor(max_depth=4, random_state=0).fit(data, target)
    rows, behind = data[::37], data[5::40]
    explainer = shap.TreeExplainer(cart, behind, feature_perturbation="interventional")
    result = ObliqueTree.from_sklearn(cart).shap_values(rows, behind)
    np.testing.assert_allclose(result.values, explainer.shap_values(rows), atol=1e-6, rtol=1e-5)  # shap adds in float32


def test_shaps_plots_take_them():
    shap = pytest.importorskip("shap")
    import matplotlib

    matplotlib.use("agg")
    rng = np.random.default_rng(3)
    tree = random_tree(rng, 6, 4, "logistic", feature_names=("a", "b", "c", "d"))
    explanation = tree.shap_values(rng.standard_normal((20, 4)), rng.standard_normal((5, 4))).explanation()
    assert isinstance(explanation, shap.Explanation)
    shap.plots.bar(explanation, show=False)
    shap.plots.waterfall(explanation[0], show=False)
    shap.plots.beeswarm(explanation, show=False)
    matplotlib.pyplot.close("all")
