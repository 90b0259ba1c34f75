"""What training rows held: found in rows of any kind, kept by every way a tree is made, saved or changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import treelu
from treelu import (
    ELCNClassifier,
    LCNClassifier,
    LCNRegressor,
    LLNClassifier,
    ObliqueTreeClassifier,
    ObliqueTreeRegressor,
)
from treelu.estimators import _large
from treelu.tree import ObliqueTree
from treelu.tree.missing import MissingValues
from treelu.tree.observed import Observed


def table(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Age in years, an amount, three categories, a constant; two classes."""
    rng = np.random.default_rng(seed)
    job = np.eye(3)[rng.integers(0, 3, n)]
    X = np.column_stack([rng.integers(18, 80, n), rng.gamma(2, 700, n), job, np.full(n, 7.0)])
    return X, (X[:, 0] / 30 + X[:, 1] / 1000 + X[:, 2] > 3.3).astype(int)


def expected(X: np.ndarray) -> Observed:
    """By plain NumPy."""
    return Observed(X.min(axis=0), X.max(axis=0), (X.round() == X).all(axis=0), ((2, 3, 4),))


def test_rows_of_any_kind() -> None:
    X, _ = table()
    assert Observed.of(X) == expected(X)
    assert Observed.of(sparse.csr_array(X)) == expected(X)
    assert Observed.of(X[:150]).joined(Observed.of(X[150:])) == expected(X)
    assert Observed.of(X).holds(X).all()
    changed = X[:4].copy()
    changed[0, 0] += 0.5  # no integer
    changed[1, 1] = X[:, 1].max() * 1.01  # beyond the range
    changed[2, 2:5] = 0  # none of the group
    assert Observed.of(X).holds(changed).tolist() == [False, False, False, True]


def test_missing_values_were_not_observed() -> None:
    X = np.array([[1.0, 3.0], [np.nan, 4.0], [2.0, 9.0]])
    missing = MissingValues.of(X)  # fills with 1.5
    observed = Observed.of(missing.fill(X), missing)
    assert (observed.low.tolist(), observed.high.tolist()) == ([1, 3, 0], [2, 9, 1])
    assert observed.integers.all()


def test_groups_are_neighbours_of_which_one_is_1() -> None:
    rng = np.random.default_rng(0)
    a, b = np.eye(4)[rng.integers(0, 4, 900)], np.eye(2)[rng.integers(0, 2, 900)]
    free = rng.integers(0, 2, (900, 2))
    X = np.hstack([a, b, free, rng.random((900, 1)), a[:, :2]])  # the last two: not all of a group
    assert Observed.of(X).groups == ((0, 1, 2, 3), (4, 5))
    X[899, :4] = 0
    assert Observed.of(X).groups == ((4, 5),)


@pytest.mark.parametrize(
    "estimator",
    [
        ObliqueTreeClassifier(max_leaf_nodes=3, teacher=None, random_state=0),
        ObliqueTreeRegressor(max_leaf_nodes=3, teacher=None, random_state=0),
        LCNClassifier(depth=2, epochs=2, drop_connect=0.1, random_state=0),
        LCNRegressor(depth=2, epochs=2, drop_connect=0.1, random_state=0),
        LLNClassifier(depth=2, epochs=2, drop_connect=0.1, random_state=0),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_every_fit_makes_trees_that_know_it_and_saves_it(estimator: Any, tmp_path: Path) -> None:
    X, y = table()
    weight = np.ones(len(X))
    X[0, 0], weight[0] = 150.5, 0.0  # a row that does not count
    fitted = estimator.fit(X, y, sample_weight=weight)
    tree = fitted.tree_
    assert tree.observed == expected(X[1:])
    assert tree.prune(bounds=(X.min(axis=0), X.max(axis=0))).observed == tree.observed
    assert ObliqueTree.from_json(tree.to_json()) == tree
    fitted.save(tmp_path / "model")
    assert treelu.load(tmp_path / "model").tree_.observed == tree.observed
    tree.save(tmp_path / "tree")
    assert treelu.load(tmp_path / "tree") == tree


def test_members_labels_and_pieces() -> None:
    X, y = table()
    members = ELCNClassifier(LCNClassifier(depth=1, epochs=1), n_estimators=2, random_state=0).fit(X, y)
    assert all(tree.observed == expected(X) for tree in members.trees_)
    labels = LCNClassifier(depth=1, epochs=1, drop_connect=0.1, random_state=0).fit(X, np.column_stack([y, 1 - y]))
    assert all(member.tree_.observed == expected(X) for member in labels.estimators_)
    pieces = LCNClassifier(depth=1, epochs=1, drop_connect=0.1, random_state=0)
    for rows in (slice(0, 200), slice(200, 400)):
        pieces.partial_fit(X[rows], y[rows], classes=[0, 1])
    assert pieces.tree_.observed == expected(X)


@pytest.mark.parametrize(
    "estimator",
    [ObliqueTreeClassifier(max_leaf_nodes=3, teacher=None), LCNClassifier(depth=1, epochs=1, drop_connect=0.1)],
    ids=["tree", "network"],
)
def test_all_rows_outside_memory_count(estimator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_large, "SAMPLE_ROWS", 100)
    monkeypatch.setattr(_large, "ROW_VISITS", 400)
    X, y = table()
    X = X.astype(np.float32).astype(np.float64)  # as pieces are stored
    fitted = estimator.set_params(random_state=0).fit(iter([(X[:200], y[:200]), (X[200:], y[200:])]))
    assert fitted.tree_.observed == expected(X)


def test_trees_of_scikit_learn_and_pipelines() -> None:
    X, y = table()
    cart = DecisionTreeClassifier(max_depth=2).fit(X, y)
    assert ObliqueTree.from_sklearn(cart).observed is None
    assert ObliqueTree.from_sklearn(cart, X=X).observed == expected(X)
    for scaler in (StandardScaler(), MinMaxScaler((-1, 1))):
        tree = ObliqueTree.from_sklearn(
            make_pipeline(scaler, ObliqueTreeClassifier(max_leaf_nodes=3, teacher=None, random_state=0)).fit(X, y)
        )
        assert tree.observed is not None
        np.testing.assert_allclose(tree.observed.low, X.min(axis=0), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(tree.observed.high, X.max(axis=0), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"low": [0.0]}, "of one length"),
        ({"low": [2.0, 0.0]}, "low must not exceed high, got 2.0 and 1.0 at index 0"),
        ({"integers": [1, 0]}, "integers \\(bool\\)"),
        ({"groups": [(0, 5)]}, "groups must be disjoint"),
    ],
)
def test_bad_values(change: dict[str, Any], words: str) -> None:
    fine: dict[str, Any] = {"low": [0.0, 0.0], "high": [1.0, 1.0], "integers": [True, False]}
    with pytest.raises(ValueError, match=words):
        Observed(**fine | change)
    with pytest.raises(ValueError, match="observed must have 1 features"):
        ObliqueTree([[1.0]], [0.0], [[1, 2]], [[0], [1]], observed=Observed(**fine))
