"""TAO: a loss that never rises, rows that a node cares about, and what comes out against CART."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine, make_classification
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import compute_sample_weight
from sklearn.utils.estimator_checks import check_estimator

from experiments.baselines import TAOClassifier, TAORegressor
from experiments.baselines._alternation import Alternation, Problem
from experiments.baselines.tao import random_tree
from treelu.tree import ObliqueTree

pytestmark = pytest.mark.slow


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("estimator", [TAOClassifier(), TAORegressor()])
def test_scikit_learns_own_checks(estimator) -> None:
    check_estimator(estimator)


@given(
    st.integers(0, 2**32 - 1), st.sampled_from(["cart", "random"]), st.sampled_from([0.05, 1.0, 50.0]), st.booleans()
)
@settings(max_examples=40, deadline=None)
def test_the_training_error_never_rises(seed: int, init: str, C: float, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4)) * rng.choice([0.01, 1, 100], 4)
    y = rng.integers(0, 3, 60)
    weight = rng.uniform(0.1, 3, 60) if weighted else None
    depth = int(rng.integers(1, 5))
    model = TAOClassifier(max_depth=depth, C=C, init=init, random_state=seed).fit(X, y, sample_weight=weight)
    losses = model.training_losses_
    assert (np.diff(losses) <= 1e-12).all()
    # What the sweeps counted is what the finished tree does.
    assert losses[-1] == pytest.approx(np.average(model.predict(X) != y, weights=weight), abs=1e-12)
    if init == "cart":
        cart = DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X, y, sample_weight=weight)
        assert losses[0] <= np.average(cart.predict(X) != y, weights=weight) + 0.1
    assert model.tree_.depth <= depth
    assert (model.tree_.n_samples > 0).all()  # no dead branches


@given(st.integers(0, 2**32 - 1), st.sampled_from(["cart", "random"]), st.booleans())
@settings(max_examples=20, deadline=None)
def test_the_squared_error_never_rises(seed: int, init: str, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(60, 3)), 1000 + 50 * rng.normal(size=60)
    weight = rng.uniform(0.1, 3, 60) if weighted else None
    model = TAORegressor(max_depth=3, init=init, random_state=seed).fit(X, y, sample_weight=weight)
    assert (np.diff(model.training_losses_) <= 1e-12).all()
    mean = np.average(y, weights=weight)
    variance = np.average((y - mean) ** 2, weights=weight)
    loss = 0.5 * np.average((model.predict(X) - y) ** 2, weights=weight) / variance
    assert model.training_losses_[-1] == pytest.approx(loss)


def test_a_sweep_loses_nothing_at_any_node() -> None:
    # Stronger than the loss of whole sweeps: after each single node the tree's error is no higher.
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    problem = Problem(X, np.eye(10)[y], np.ones(300), hard=True)
    cart = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, y)
    alternation = Alternation(ObliqueTree.from_sklearn(cart), problem, C=1.0, seed=0)
    errors = [alternation.loss()]
    assert errors[0] == pytest.approx(1 - cart.score(X, y))
    refit = alternation._refit_node

    def watched(*args) -> bool:
        changed = refit(*args)
        errors.append(alternation.loss())
        return changed

    alternation._refit_node = watched
    alternation.sweep()
    assert len(errors) > 10
    assert (np.diff(errors) <= 1e-12).all()


def test_care_rows_are_those_that_one_child_alone_gets_right() -> None:
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(80, 3)), rng.integers(0, 3, 80)
    problem = Problem(X, np.eye(3)[y], np.ones(80), hard=True)
    alternation = Alternation(random_tree(X, 3, np.random.RandomState(0)), problem, C=1.0, seed=0)
    tree = ObliqueTree(
        alternation.tree.weights, alternation.tree.biases, alternation.children, alternation.predictions.copy()
    )
    seen = {}
    alternation._refit_node = lambda node, rows, gain: seen.setdefault(node, (rows, gain)) is None
    alternation.sweep()

    def correct_from(node: int, row: int) -> bool:
        while node < tree.n_splits:
            node = tree.children[node][int(X[row] @ tree.weights[node] + tree.biases[node] >= 0)]
        return bool(tree.values[node - tree.n_splits].argmax() == y[row])

    paths = tree.decision_path(X).toarray()
    for node in range(tree.n_splits):
        outcomes = {
            row: [correct_from(child, row) for child in tree.children[node]] for row in np.flatnonzero(paths[:, node])
        }
        care = {row: right for row, (left, right) in outcomes.items() if left != right}
        assert care == {} if node not in seen else care == dict(zip(seen[node][0], seen[node][1] > 0, strict=True))


@pytest.mark.parametrize(("load", "margin"), [(load_breast_cancer, 0.0), (load_wine, 0.0), (load_digits, 0.1)])
def test_at_least_as_accurate_as_cart_of_the_same_depth(load, margin) -> None:
    X, y = load(return_X_y=True)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for depth in (2, 4, 6):
        cart = cross_val_score(DecisionTreeClassifier(max_depth=depth, random_state=0), X, y, cv=folds).mean()
        ours = cross_val_score(TAOClassifier(max_depth=depth, random_state=0), X, y, cv=folds).mean()
        assert ours >= cart + (margin if depth > 2 else 0.0)


def test_regression_beats_cart_of_the_same_depth() -> None:
    X, y = load_diabetes(return_X_y=True)
    cart = cross_val_score(DecisionTreeRegressor(max_depth=3, random_state=0), X, y).mean()
    assert cross_val_score(TAORegressor(max_depth=3, random_state=0), X, y).mean() > cart + 0.03


def test_the_penalty_makes_nodes_sparse() -> None:
    X, y = make_classification(400, 30, n_informative=4, random_state=0)
    counts = [
        np.count_nonzero(TAOClassifier(max_depth=2, C=C, random_state=0).fit(X, y).tree_.weights) for C in (0.02, 10)
    ]
    assert counts[0] < counts[1] / 2


def test_bits_give_the_same_tree_dense_and_sparse() -> None:
    rng = np.random.default_rng(1)
    X = (rng.random((200, 15)) < 0.3).astype(float)
    y = (X @ rng.normal(size=15) > 0).astype(int)
    dense, thin = (TAOClassifier(max_depth=3, random_state=0).fit(rows, y) for rows in (X, sparse.csr_array(X)))
    np.testing.assert_allclose(dense.tree_.spreads, thin.tree_.spreads)
    assert replace(dense.tree_, spreads=None) == replace(thin.tree_, spreads=None)
    assert sparse.issparse(thin.tree_.weights)


@pytest.mark.parametrize("model", [TAOClassifier(max_depth=4), TAORegressor(max_depth=4), TAOClassifier(init="random")])
def test_predictions_are_the_trees_and_survive_json(model) -> None:
    X, y = load_iris(return_X_y=True)
    model = clone(model).set_params(random_state=0).fit(X, y)
    back = ObliqueTree.from_json(model.tree_.to_json())
    assert back == model.tree_
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    np.testing.assert_array_equal(back.apply(X), model.apply(X))
    assert model.feature_importances_.sum() == pytest.approx(1)


def test_equal_seeds_give_equal_trees() -> None:
    X, y = load_wine(return_X_y=True)
    for init in ("cart", "random"):
        first, second = (TAOClassifier(init=init, random_state=7).fit(X, y) for _ in range(2))
        assert first.tree_ == second.tree_


def test_balanced_weights_find_a_rare_class() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5))
    y = (X @ [1.0, 1, 1, 0, 0] + rng.normal(size=2000) > 4).astype(int)
    assert 0.005 < y.mean() < 0.05
    model = TAOClassifier(max_depth=2, random_state=0).fit(X, y, sample_weight=compute_sample_weight("balanced", y))
    assert roc_auc_score(y, model.predict_proba(X)[:, 1]) > 0.9


def test_names_of_a_data_frame_are_kept() -> None:
    data = load_iris(as_frame=True)
    model = TAOClassifier(max_depth=2, random_state=0).fit(data.data, data.target)
    assert list(model.feature_names_in_) == list(model.tree_.feature_names) == list(data.data.columns)
    assert "petal width (cm)" in model.tree_.describe(data.data.iloc[0])


def test_search_over_parameters() -> None:
    X, y = load_wine(return_X_y=True)
    search = GridSearchCV(TAOClassifier(random_state=0), {"max_depth": [1, 3], "C": [0.1, 1]}, cv=3).fit(X, y)
    assert search.best_params_["max_depth"] == 3


def test_bace_by_validation(bace) -> None:
    def auc(model, part: str) -> float:
        return roc_auc_score(bace[part].y, model.predict_proba(bace[part].X)[:, 1])

    models = [TAOClassifier(max_depth=d, random_state=0).fit(bace["train"].X, bace["train"].y) for d in range(2, 13)]
    assert auc(max(models, key=lambda model: auc(model, "valid")), "test") >= 0.72


def test_a_regression_target_is_told_what_to_use() -> None:
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(ValueError, match=r"real values such as 151\.0.*TAORegressor.*HHCARTRegressor.*LCNRegressor"):
        TAOClassifier().fit(X, y + 0.0 * X[:, 0] + np.where(np.arange(len(y)) == 1, 0.5, 0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"C": 0}, "C"), ({"init": "forest"}, "init"), ({"max_depth": 0}, "max_depth"), ({"max_sweeps": 0}, "max_sweeps")],
)
def test_bad_settings_are_named(settings, message) -> None:
    with pytest.raises(ValueError, match=message):
        TAOClassifier(**settings).fit([[0.0], [1.0]], [0, 1])


def test_text_columns_are_named() -> None:
    with pytest.raises(ValueError, match=r"text columns \(colour\)"):
        TAOClassifier().fit(pd.DataFrame({"size": [0.0, 1.0], "colour": ["red", "blue"]}), [0, 1])
