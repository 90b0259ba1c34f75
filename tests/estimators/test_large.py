"""Rows outside memory: stores, memory-mapped arrays, iterators of pieces."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.class_weight import compute_sample_weight

from treelu import ELCNClassifier, LCNClassifier, LCNRegressor, ObliqueTreeClassifier, ObliqueTreeRegressor
from treelu.estimators import _large, _leaves
from treelu.training import blocks
from treelu.training.store import RowStore

SETTING = {"depth": 3, "drop_connect": 0.0, "epochs": 5, "random_state": 0}


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 50)
    monkeypatch.setattr(blocks, "WINDOW_BYTES", 8_000)
    monkeypatch.setattr(_large, "SAMPLE_ROWS", 300)
    monkeypatch.setattr(_large, "ROW_VISITS", 20_000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def table(n_rows: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(n_rows, 4)).astype(np.float32)
    return X, X[:, 0] * (X[:, 1] > 0) + X[:, 2]


def pieces(X: Any, y: np.ndarray) -> Any:
    return ((X[start : start + 300], y[start : start + 300]) for start in range(0, len(y), 300))


def test_all_rows_are_trained_on(tmp_path: Path) -> None:
    """A store does better on new rows than its sample alone, and nearly as well as a fit in memory."""
    X, y = table()
    new, wanted = table(6000)[0][2000:], table(6000)[1][2000:]
    with RowStore.create(tmp_path, 4) as store:
        for piece in pieces(X, y):
            store.append(*piece)
        model = LCNRegressor(**SETTING).fit(store)
        part = store.sample(300, np.random.default_rng(0))
    assert len(model.history_) > 5
    assert model.score(new, wanted) > LCNRegressor(**SETTING).fit(part.X, part.y).score(new, wanted) + 0.02


def test_all_ways_in_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_large, "LARGE_BYTES", 1000)
    X, y = table(1000)
    labels = np.where(y > 0, "high", "low")
    with RowStore.create(tmp_path, 4, are_classes=True) as store:
        store.append(X, labels)
        by_store = LCNClassifier(**SETTING).fit(store)
    by_pieces = LCNClassifier(**SETTING).fit(pieces(X, labels))
    mapped = np.memmap(tmp_path / "X", np.float32, "w+", shape=X.shape)
    mapped[:] = X
    by_map = LCNClassifier(**SETTING).fit(mapped, labels)
    assert by_store.classes_.tolist() == ["high", "low"]
    for other in (by_pieces, by_map):
        np.testing.assert_array_equal(other.predict_proba(X), by_store.predict_proba(X))
    assert list(tmp_path.iterdir()) == [tmp_path / "X"]


def test_sparse_pieces() -> None:
    X, y = table(1000)
    X = np.where(np.abs(X) > 0.7, X, 0)
    model = LCNClassifier(**SETTING).fit(pieces(sparse.csr_array(X), y > 0))
    in_memory = LCNClassifier(**SETTING).fit(sparse.csr_array(X), y > 0)
    assert model.score(X, y > 0) > in_memory.score(X, y > 0) - 0.05


def test_a_class_that_the_sample_misses_is_known() -> None:
    X, y = table(1000)
    labels = np.where(y > 0, "high", "low").astype("<U4")
    labels[777] = "rare"
    model = LCNClassifier(**SETTING).fit(pieces(X, labels))
    assert model.classes_.tolist() == ["high", "low", "rare"]


def test_a_small_store_is_fitted_as_arrays_are(tmp_path: Path) -> None:
    X, y = table(250)
    with RowStore.create(tmp_path, 4) as store:
        store.append(X, y)
        model = LCNRegressor(**SETTING).fit(store)
    np.testing.assert_array_equal(model.predict(X), LCNRegressor(**SETTING).fit(X, y).predict(X))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (iter([]), None, "X gave no pieces"),
        (iter([np.ones((2, 2))]), None, r"must give pairs \(X, y\)"),
        (iter([(np.ones((2, 2)), [0, 1])]), [0, 1], "y and sample_weight must be None"),
        (iter([(np.ones((2, 2)), [0, 1]), (np.ones((2, 3)), [0, 1])]), None, "X must have 2 columns"),
    ],
)
def test_bad_pieces(X: Any, y: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        LCNClassifier(**SETTING).fit(X, y)
    assert not list(tmp_path.iterdir())


def test_an_ensemble_says_that_it_needs_arrays() -> None:
    with pytest.raises(ValueError, match="ELCNClassifier needs its rows in memory"):
        ELCNClassifier().fit(iter([(np.ones((2, 2)), [0, 1])]))


SMALL: dict[str, Any] = {
    "max_leaf_nodes": 4, "selection": "largest", "n_updates": 50, "shrinkage": 0.0, "random_state": 0,
}  # fmt: skip


@pytest.mark.parametrize("class_weight", [None, "balanced", {True: 5.0, False: 1.0}])
def test_a_small_tree_has_the_leaf_values_of_all_rows(class_weight: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_leaves, "SAMPLE_ROWS", 300)
    X, y = table()
    labels = y > 0.5
    model = ObliqueTreeClassifier(**SMALL, class_weight=class_weight).fit(pieces(X, labels))
    weight = compute_sample_weight(class_weight, labels)
    leaf = model.apply(X)
    for place, row in enumerate(model.tree_.values):
        here = leaf == model.tree_.n_splits + place
        wanted = [weight[here & (labels == name)].sum() / weight[here].sum() for name in (False, True)]
        np.testing.assert_allclose(row, wanted, atol=1e-9)
    assert model.tree_.n_samples is not None
    np.testing.assert_allclose(model.tree_.n_samples[0], weight.sum())
    assert model.path_trees_[int(model.path_.chosen.to_numpy().argmax())] is model.tree_


def test_a_small_tree_of_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_leaves, "SAMPLE_ROWS", 300)
    X, y = table()
    with RowStore.create(tmp_path, 4) as store:
        for piece in pieces(X, y):
            store.append(*piece, np.full(len(piece[1]), 2.0))
        model = ObliqueTreeRegressor(**SMALL, monotonic_cst=[0, 0, 1, 0]).fit(store)
        with pytest.raises(ValueError, match="linear_leaves=True needs its rows in memory"):
            ObliqueTreeRegressor(linear_leaves=True).fit(store)
    assert model.tree_.n_samples is not None
    assert model.tree_.n_samples[0] == 4000
    higher = X + np.array([0, 0, 1, 0], np.float32)
    assert (model.predict(higher) >= model.predict(X)).all()
    free = ObliqueTreeRegressor(**SMALL).fit(pieces(X, y))
    means = [y[free.apply(X) == free.tree_.n_splits + leaf].mean() for leaf in range(free.tree_.n_leaves)]
    np.testing.assert_allclose(free.tree_.values[:, 0], means, atol=1e-6)


def test_few_features_stay_few() -> None:
    X, y = table()
    model = LCNRegressor(**SETTING, max_tree_features=2).fit(pieces(X, y))
    assert len(model.history_) > 5
    assert np.count_nonzero(model.feature_importances_) == 2
