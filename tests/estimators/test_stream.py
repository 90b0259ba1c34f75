"""`partial_fit`: rows that are kept, networks that are fitted anew or go on, and the state that is saved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from treelu import LCNClassifier, LCNRegressor
from treelu.persistence import ModelFileError, dumps, loads
from treelu.training import stream as stream_module
from treelu.training.stream import Stream

SETTING: dict[str, Any] = {"depth": 3, "drop_connect": 0.0, "epochs": 5, "random_state": 0}


def table(n_rows: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).normal(size=(n_rows, 4))
    return X, X[:, 0] * (X[:, 1] > 0) + X[:, 2]


def feed(model: Any, X: Any, y: np.ndarray, n_pieces: int) -> Any:
    for piece in np.array_split(np.arange(len(y)), n_pieces):
        model.partial_fit(X[piece], y[piece])
    return model


def stream_of(numbers: np.ndarray, keys: np.ndarray) -> Stream:
    n = len(numbers)
    return Stream(numbers[:, None].astype(float), numbers, np.ones(n), keys, n, 0, 1)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(1, 40), st.integers(0, 2**31))
def test_kept_rows_are_those_with_the_smallest_keys(sizes: list[int], most: int, seed: int) -> None:
    """Whatever the pieces: each set of as many rows has the same chance."""
    keys = np.random.default_rng(seed).random(sum(sizes))
    numbers = np.arange(sum(sizes))
    parts = np.split(numbers, np.cumsum(sizes)[:-1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_module, "KEPT_ROWS", most)
        stream = stream_of(parts[0], keys[parts[0]]).bounded()
        for part in parts[1:]:
            stream = stream.add(stream_of(part, keys[part]))
    assert set(stream.y) == set(np.argsort(keys)[:most])
    assert (stream.n_seen, stream.n_pieces) == (len(keys), len(sizes))
    assert stream.holds_all == (len(keys) <= most)
    np.testing.assert_array_equal(stream.X[:, 0], stream.y)


def test_memory_bounds_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "KEPT_BYTES", 800)
    X, y = table()
    dense = feed(LCNRegressor(**SETTING), X, y, 3).stream_
    assert len(dense) == 25
    few = feed(LCNRegressor(**SETTING), sparse.csr_array(np.where(X > 1, X, 0)), y, 3).stream_
    assert 25 < len(few) < 600
    assert few.X.data.nbytes <= 800 * 1.3  # rows differ in length


def test_a_fit_whenever_there_are_a_quarter_more_rows() -> None:
    X, y = table(500)
    model, fitted = LCNRegressor(**SETTING), []
    for piece in np.array_split(np.arange(500), 10):
        model.partial_fit(X[piece], y[piece])
        fitted.append(model.stream_.n_fitted)
    assert fitted == [50, 100, 150, 200, 250, 250, 350, 350, 450, 450]
    again = feed(LCNRegressor(**SETTING), X[:450], y[:450], 9)
    np.testing.assert_array_equal(again.predict(X), LCNRegressor(**SETTING).fit(X[:450], y[:450]).predict(X))


def test_pieces_of_other_scales_do_no_harm() -> None:
    """Rows sorted by a feature of another unit: the first piece says little of the others' scale."""
    X, y = table(800)
    X[:, 0] *= 1000
    y[X[:, 0] > 1500] += 100.0
    order = np.argsort(X[:, 0])
    model = feed(LCNRegressor(**SETTING), X[order], y[order], 10)
    assert model.score(X, y) > LCNRegressor(**SETTING).fit(X, y).score(X, y) - 0.1
    assert model.stream_.n_fitted == 800  # their number alone would have had 720 rows fitted last


@pytest.mark.parametrize("as_sparse", [False, True])
def test_a_constant_column_has_no_weight_until_it_varies(as_sparse: bool) -> None:
    X, y = table()
    X[:300, 1] = 7.0
    model = LCNRegressor(**SETTING)
    for start in range(0, 600, 100):
        rows = sparse.csr_array(X[start : start + 100]) if as_sparse else X[start : start + 100]
        model.partial_fit(rows, y[start : start + 100])
        assert (model.network_.weight[1] != 0).any() == (start >= 300)
        assert (model.spread_[1] > 0) == (start >= 300)


def test_more_rows_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trained on through rows that are dropped afterwards, it does better than its sample alone."""
    monkeypatch.setattr(stream_module, "KEPT_ROWS", 150)
    monkeypatch.setattr(stream_module, "RATE", 1.0)  # so few rows would hardly move it otherwise
    X, y = table(6000)
    new, wanted = table(3000, seed=1)
    setting = {**SETTING, "epochs": 40}
    model = feed(LCNRegressor(**setting), X, y, 12)
    assert (len(model.stream_), model.stream_.n_seen) == (150, 6000)
    alone = LCNRegressor(**setting).fit(model.stream_.X, model.stream_.y)
    assert model.score(new, wanted) > alone.score(new, wanted)


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("kind", [LCNClassifier, LCNRegressor])
def test_a_saved_stream_goes_on_as_if_it_had_not_been_saved(kind: Any, as_sparse: bool) -> None:
    X, y = table(300)
    X = X if not as_sparse else sparse.csr_array(np.where(X > 0.3, X, 0))
    y = np.where(y > 0, "high", "low") if kind is LCNClassifier else y
    model = feed(kind(**SETTING), X[:200], y[:200], 3)
    loaded = loads(*dumps(model))
    assert loaded.stream_.n_fitted == model.stream_.n_fitted
    for one in (model, loaded):
        one.partial_fit(X[200:], y[200:])
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_the_drop_rate_falls_once_the_rows_are_more_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "KEPT_ROWS", 200)
    n_times: list[float] = []

    def spied(fitted: Any, config: Any, times: float, start: Any = stream_module.start_from) -> Any:
        n_times.append(times)
        return start(fitted, config, times)

    monkeypatch.setattr(stream_module, "start_from", spied)
    model = feed(LCNRegressor(depth=3, epochs=5, random_state=0), *table(), 6)
    assert n_times == [1.5, 2.0, 2.5, 3.0]  # fitted to the first two hundred rows, a hundred more each time
    assert model.drop_connect_ > 0


def test_no_rows_are_saved_where_none_are_kept() -> None:
    X, y = table(200)
    model = feed(LCNRegressor(**SETTING), X, y, 2)
    del model.stream_
    loaded = loads(*dumps(model))
    assert not hasattr(loaded, "stream_")
    loaded.partial_fit(X, y)
    assert loaded.stream_.n_fitted == 0
    assert not hasattr(LCNRegressor(**SETTING).partial_fit(X, y).fit(X, y), "stream_")


def test_kept_rows_of_another_model_are_refused() -> None:
    X, y = table(200)
    model = feed(LCNClassifier(**SETTING), X, y > 0, 2)
    model.stream_.y[3] = 7
    with pytest.raises(ModelFileError, match="the kept rows do not belong to this estimator"):
        loads(*dumps(model))


def test_a_bad_piece_changes_nothing() -> None:
    X, y = table(200)
    model = feed(LCNClassifier(**SETTING), X, y > 0, 2)
    before = model.predict_proba(X)
    for rows, targets in ((X[:, :3], y > 0), (X, np.full(200, 2)), (X[:5], y[:6] > 0), (X * np.nan, y > 0)):
        with pytest.raises(ValueError):
            model.partial_fit(rows, targets)
    np.testing.assert_array_equal(model.predict_proba(X), before)
    assert model.stream_.n_seen == 200


def test_few_features_stay_few() -> None:
    X, y = table(600)
    model = feed(LCNRegressor(**SETTING, max_tree_features=2), X, y, 6)
    assert np.count_nonzero(model.feature_importances_) == 2


def test_columns_with_gaps_and_weights() -> None:
    X, y = table(400)
    X[300:, 2] = np.where(X[300:, 2] > 1, np.nan, X[300:, 2])  # gaps appear late
    model = LCNRegressor(**{**SETTING, "epochs": 30}, missing="indicator", training={"refine_leaves": True})
    for start in range(0, 400, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100], sample_weight=np.full(100, 2.0))
    assert model.network_.in_features == 5
    assert model.score(X, y) > 0.3


def test_the_first_piece_may_show_one_class() -> None:
    X, y = table(400)
    model = LCNClassifier(random_state=0, epochs=2, early_stopping=True)
    low = y < -0.5
    model.partial_fit(X[low], y[low] > 0, classes=[False, True])
    model.partial_fit(X[~low], y[~low] > 0)
    assert model.score(X, y > 0) > 0.6


def test_a_piece_may_have_its_values_in_a_column() -> None:
    X, y = table(60)
    pieces = [(X[:30], y[:30]), (X[30:], y[30:])]
    expected, model = LCNRegressor(**SETTING), LCNRegressor(**SETTING)
    for number, (rows, target) in enumerate(pieces):
        expected.partial_fit(rows, target)
        model.partial_fit(rows, target[:, None] if number else target)
    assert np.array_equal(model.predict(X), expected.predict(X))


@pytest.mark.parametrize("first", [np.asarray, sparse.csr_array])
def test_dense_and_sparse_pieces_may_follow_each_other(first: Any) -> None:
    X, y = table(60)
    other = sparse.csr_array if first is np.asarray else np.asarray
    expected = LCNRegressor(**SETTING).partial_fit(first(X[:30]), y[:30]).partial_fit(first(X[30:]), y[30:])
    model = LCNRegressor(**SETTING).partial_fit(first(X[:30]), y[:30]).partial_fit(other(X[30:]), y[30:])
    assert np.array_equal(model.predict(X), expected.predict(X))
