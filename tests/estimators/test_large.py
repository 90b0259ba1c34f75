"""Rows outside memory: stores, memory-mapped arrays, iterators of pieces."""

from __future__ import annotations

import copy
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.utils.class_weight import compute_sample_weight

from treelu import (
    ELCNClassifier,
    LCNClassifier,
    LCNRegressor,
    LLNRegressor,
    ObliqueTreeClassifier,
    ObliqueTreeRegressor,
)
from treelu.data import blocks
from treelu.data.blocks import Window
from treelu.data.reading import RowWeights
from treelu.data.store import RowStore
from treelu.estimators import _large
from treelu.estimators._inputs import network_config
from treelu.training import History
from treelu.training.continuing import start_from
from treelu.training.hyper_parameters import HyperParameters
from treelu.training.small.finish import with_leaf_values

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


def test_a_drop_rate_that_was_chosen_falls_with_the_rows_and_one_that_was_given_stays() -> None:
    """What 300 rows want dropped keeps a network from what thousands teach."""
    X, y = table()
    rates: dict[Any, set[float]] = {}
    for given in ("auto", 0.2):
        seen = rates[given] = set()

        def note(record: Any, network: Any, seen: set[float] = seen) -> None:
            seen.add(round(network.drop_connect, 6))

        model = LCNClassifier(depth=3, drop_connect=given, epochs=5, random_state=0, callbacks=[note])
        model.fit(pieces(X, y > 0))
        assert round(model.drop_connect_, 6) in seen  # of the sample
    assert rates[0.2] == {0.2}
    chosen = max(rates["auto"])
    odds = chosen / (1 - chosen) * 300 / 2000
    assert min(rates["auto"]) == pytest.approx(odds / (1 + odds), rel=0.02)  # the sample has a row more for a class


def test_decay_that_was_chosen_falls_too() -> None:
    X, y = table(200)
    model = LLNRegressor(depth=2, epochs=2, random_state=0).fit(X, y)
    fitted = replace(model.fitted_, chosen=HyperParameters(2, 0.0, 2.0))
    assert start_from(fitted, network_config(model), n_times=4.0).decay == 0.5
    model.weight_decay = 2.0
    assert start_from(fitted, network_config(model), n_times=4.0).decay == 2.0


def spoiled(start: Any, *_: Any, **__: Any) -> Any:
    """In the place of further training: a network that knows nothing."""
    start.network.reset_parameters(1)
    return start.network, History()


@pytest.mark.parametrize("with_eval_set", [False, True])
def test_a_network_that_all_rows_made_worse_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, with_eval_set: bool
) -> None:
    monkeypatch.setattr(_large, "continue_training", spoiled)
    X, y = table(3000)
    eval_set = (X[2000:], y[2000:]) if with_eval_set else None
    fitted: list[Any] = []
    fit = LCNRegressor.fit

    def spied(self: Any, X: Any, *arguments: Any, **more: Any) -> Any:
        done = fit(self, X, *arguments, **more)
        fitted.append(copy.deepcopy(self))
        return done

    monkeypatch.setattr(LCNRegressor, "fit", spied)
    with pytest.warns(UserWarning, match="training on all rows made the held-out loss worse"):
        model = LCNRegressor(**{**SETTING, "epochs": 60}).fit(pieces(X[:2000], y[:2000]), eval_set=eval_set)
    np.testing.assert_array_equal(model.predict(X), fitted[0].predict(X))


def test_ctrl_c_while_the_sample_is_fitted_ends_the_fit() -> None:
    X, y = table()

    def press(record: Any, network: Any) -> None:
        if record.epoch == 2:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="training interrupted"):
        model = LCNRegressor(**SETTING, callbacks=[press]).fit(pieces(X, y))
    assert len(model.history_) <= 2
    assert model.predict(X).shape == (2000,)


def test_rows_without_weight_do_not_count() -> None:
    """Whole windows of them, and rows whose targets are false."""
    X, y = table()
    weight = np.repeat([0.0, 1.0], 1000)
    false = np.where(weight == 0, -y, y)
    weighted = ((X[rows], false[rows], weight[rows]) for rows in np.array_split(np.arange(2000), 10))
    setting = {**SETTING, "epochs": 60}
    model, misled = LCNRegressor(**setting).fit(weighted), LCNRegressor(**setting).fit(pieces(X, false))
    new, wanted = (part[2000:] for part in table(4000))
    assert model.score(new, wanted) > 0.5 > misled.score(new, wanted) + 0.3


def test_class_weights_are_those_of_all_rows() -> None:
    """Windows in which one class is rarer than in others are weighed alike."""
    X, y = table()
    labels = y > 1.2
    some = Window(X[:500], labels[:500], np.linspace(0, 1, 500, dtype=np.float32))
    model = LCNClassifier(**SETTING, class_weight="balanced").fit(*some[:2], sample_weight=some.weight)
    weights = RowWeights.of(model.fitted_.reading.encoding, some.y, some.weight)
    whole = weights.dataset(model.fitted_.reading, *some).targets.weight
    expected = model.fitted_.reading.encoding.targets(some.y, some.weight).weight
    np.testing.assert_allclose(whole, expected, rtol=1e-5)
    for rows in (np.flatnonzero(some.y)[:3], np.flatnonzero(~some.y)[:3]):
        np.testing.assert_allclose(
            weights.dataset(model.fitted_.reading, *some.take(rows)).targets.weight, expected[rows], rtol=1e-5
        )


@pytest.mark.parametrize("form", ["Fortran", "int16", "float16", "float64", "bool"])
def test_memory_mapped_arrays_of_any_real_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setattr(_large, "LARGE_BYTES", 1000)
    X, y = table(1000)
    X = np.round(100 * X)
    dtype, order = ("float32", "F") if form == "Fortran" else (form, "C")
    mapped = np.memmap(tmp_path / "X", dtype, "w+", shape=X.shape, order=order)
    mapped[:] = X
    weight = np.linspace(0.5, 2, 1000)
    model = LCNClassifier(**SETTING).fit(
        np.memmap(tmp_path / "X", dtype, "r", shape=X.shape, order=order), y > 0, weight
    )
    plain = np.asarray(mapped, np.float32)
    by_pieces = LCNClassifier(**SETTING).fit(
        (plain[rows], y[rows] > 0, weight[rows]) for rows in np.array_split(np.arange(1000), 4)
    )
    np.testing.assert_array_equal(model.predict_proba(plain), by_pieces.predict_proba(plain))


@pytest.mark.parametrize(
    ("dtype", "shape", "y", "weight", "message"),
    [
        ("complex64", (100, 4), np.arange(100), None, "X must be a table of real numbers, got shape .* complex64"),
        ("float32", (400,), np.arange(400), None, r"X must be a table of real numbers, got shape \(400,\)"),
        ("float32", (100, 4), None, None, "y must have one target for each row of X, got None"),
        ("float32", (100, 4), np.arange(99), None, "y must have 100 targets, one for each row of X, got 99"),
        ("float32", (100, 4), np.r_[np.nan, np.arange(99.0)], None, "y must be finite"),
        ("float32", (100, 4), np.arange(100.0), np.ones(99), "sample_weight must be 100 finite numbers"),
    ],
)
def test_bad_memory_mapped_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, shape: Any, y: Any, weight: Any, message: str
) -> None:
    monkeypatch.setattr(_large, "LARGE_BYTES", 100)
    with pytest.raises(ValueError, match=message):
        LCNRegressor(**SETTING).fit(np.memmap(tmp_path / "X", dtype, "w+", shape=shape), y, weight)


@pytest.mark.parametrize("n_rows", [250, 2000])
def test_pieces_with_gaps(n_rows: int) -> None:
    """A feature that a piece has not at all is filled as in memory, where the estimator is to do so."""
    X, y = table(n_rows)
    X[:300, 3] = np.nan
    with pytest.raises(ValueError, match=r"X must not miss values: fill them .* or give missing='indicator'"):
        LCNRegressor(**SETTING, missing="error").fit(pieces(X, y))
    model = LCNRegressor(**SETTING, missing="indicator").fit(pieces(X, y))
    if n_rows > 300:
        assert model.score(X, y) > 0.3
    else:
        whole = LCNRegressor(**SETTING, missing="indicator").fit(X, y)
        np.testing.assert_array_equal(model.predict(X), whole.predict(X))


def test_pieces_that_are_frames() -> None:
    X, y = table(1000)
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = LCNRegressor(**SETTING).fit((frame.iloc[rows], y[rows]) for rows in np.array_split(np.arange(1000), 4))
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.tree_.feature_names == ("a", "b", "c", "d")
    np.testing.assert_allclose(model.predict(frame), LCNRegressor(**SETTING).fit(pieces(X, y)).predict(X), atol=1e-5)
    turned = iter([(frame[:500], y[:500]), (frame[500:][list("dcba")], y[500:])])
    with pytest.raises(ValueError, match="X must have its columns in the order of the pieces before"):
        LCNRegressor(**SETTING).fit(turned)
    with pytest.raises(ValueError, match=r"X has text columns \(b\)"):
        LCNRegressor(**SETTING).fit(iter([(frame.assign(b="red"), y)]))


def test_empty_pieces_are_passed_over() -> None:
    X, y = table(1000)
    empty = (X[:0], y[:0])
    with_gaps = LCNRegressor(**SETTING).fit(iter([empty, (X[:600], y[:600]), empty, (X[600:], y[600:]), empty]))
    np.testing.assert_array_equal(with_gaps.predict(X), LCNRegressor(**SETTING).fit(pieces(X, y)).predict(X))


def test_a_folder_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(OSError, match=r"rows cannot be stored in .*gone"):
        LCNRegressor(**SETTING).fit(pieces(*table(100)))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (iter([]), None, "X gave no pieces"),
        (iter([(np.ones((0, 2)), [])]), None, "X has no rows"),
        (iter([([], [])]), None, r"each piece must have a table X, got one of shape \(0,\)"),
        (iter([(np.ones((2, 2)), [0, None])]), None, "y must have a label for each row"),
        (iter([(np.ones((2, 2)), ["a", "b"]), (np.ones((2, 2)), [1, 2])]), None, "y must be text in all pieces or in"),
        (iter([(np.ones((2, 2)), [0, 0]), (np.ones((2, 2)), [0, 0])]), None, "y has one class only"),
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
    monkeypatch.setattr(_large, "SAMPLE_ROWS", 300)
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
    of_leaves = slice(model.tree_.n_splits, None)
    np.testing.assert_array_equal(model.tree_.n_samples[of_leaves], np.bincount(leaf)[of_leaves])
    if class_weight is None:
        assert model.tree_.weighted_n_samples is None
    else:
        np.testing.assert_allclose(model.tree_.weighted_n_samples[of_leaves], np.bincount(leaf, weight)[of_leaves])
    assert model.path_trees_[int(model.path_.chosen.to_numpy().argmax())] is model.tree_


@pytest.mark.parametrize("target", ["classes", "values"])
def test_rows_without_weight_do_not_count_in_leaves(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves are shrunk by the number of rows that count."""
    monkeypatch.setattr(_large, "SAMPLE_ROWS", 300)
    X, y = table()
    kind: Any = ObliqueTreeRegressor if target == "values" else ObliqueTreeClassifier
    y = y if target == "values" else y > 0.5
    weight = (np.arange(len(y)) % 4 == 0).astype(float)
    model = kind(**{**SMALL, "shrinkage": 100.0})
    model.fit((X[rows], y[rows], weight[rows]) for rows in np.array_split(np.arange(len(y)), 10))
    of_all, kept = model.tree_.values, weight > 0
    targets = np.eye(2)[y.astype(int)] if target == "classes" else y[:, None].astype(float)
    wanted = with_leaf_values(model.tree_, X[kept], targets[kept], weight[kept], 100.0, target == "classes")
    np.testing.assert_allclose(of_all, wanted.values, rtol=1e-6)
    np.testing.assert_array_equal(model.tree_.n_samples, wanted.n_samples)


@pytest.mark.parametrize("n_rows", [250, 2000])
def test_a_small_tree_of_pieces_with_gaps(n_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_large, "SAMPLE_ROWS", 300)
    X, y = table(n_rows)
    X[::5, 3] = np.nan
    with pytest.raises(ValueError, match=r"X must not miss values: fill them .* or give missing='indicator'"):
        ObliqueTreeRegressor(**SMALL, missing="error").fit(pieces(X, y))
    model = ObliqueTreeRegressor(**SMALL, missing="indicator").fit(pieces(X, y))
    if n_rows <= 300:
        whole = ObliqueTreeRegressor(**SMALL, missing="indicator").fit(X, y)
        np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    leaf = model.apply(X)
    for place, value in enumerate(model.tree_.values[:, 0]):
        assert value == pytest.approx(y[leaf == model.tree_.n_splits + place].mean(), abs=1e-6)


def test_a_small_tree_of_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_large, "SAMPLE_ROWS", 300)
    X, y = table()
    with RowStore.create(tmp_path, 4) as store:
        for piece in pieces(X, y):
            store.append(*piece, np.full(len(piece[1]), 2.0))
        model = ObliqueTreeRegressor(**SMALL, monotonic_cst=[0, 0, 1, 0]).fit(store)
        linear = ObliqueTreeRegressor(**SMALL, leaves="linear").fit(store)  # formulas of the sample, counts of all rows
    assert linear.tree_.leaf_weights is not None
    assert linear.tree_.n_samples is not None
    assert linear.tree_.n_samples[0] == len(X)
    assert model.tree_.n_samples is not None
    assert model.tree_.n_samples[0] == len(X)
    assert model.tree_.weighted_n_samples is not None
    assert model.tree_.weighted_n_samples[0] == 2 * len(X)
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
