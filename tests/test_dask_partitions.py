"""Partitions as they come on a Dask cluster: empty, unlike each other, of unknown length."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("dask.distributed", reason="needs Dask: pip install 'treelu[distributed]'")

import dask
import dask.array as da
import dask.dataframe as dd
from dask.distributed import Client, LocalCluster

import treelu.dask as on_dask
from tests.test_dask import SETTING, table
from treelu.dask import DaskLCNClassifier, DaskLCNRegressor, DaskObliqueTreeRegressor

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_dask, "SAMPLE_ROWS", 300)
    monkeypatch.setattr(on_dask, "ROW_VISITS", 6000)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    options: dict[str, Any] = {"processes": False, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(n_workers=2, **options) as cluster, Client(cluster) as client:
        yield client


def delayed_array(parts: list[Any], width: int | None = None) -> da.Array:
    """An array of unknown lengths whose chunks are these."""
    shapes = [(np.nan,) if width is None else (np.nan, width)] * len(parts)
    dtype = parts[0].dtype
    return da.concatenate(
        [da.from_delayed(dask.delayed(part), shape, dtype) for part, shape in zip(parts, shapes, strict=True)],
        allow_unknown_chunksizes=True,
    )


@pytest.mark.parametrize("cls", [DaskLCNRegressor, DaskObliqueTreeRegressor])
def test_empty_partitions_and_unknown_lengths(client: Client, cls: Any) -> None:
    X, y = table()
    cuts = [0, 0, 500, 500, 1200, 2000, 2000]
    spans = list(itertools.pairwise(cuts))
    setting = SETTING if cls is DaskLCNRegressor else {"max_leaf_nodes": 4, "n_updates": 50, "random_state": 0}
    rows = delayed_array([X[start:stop] for start, stop in spans], 4)
    values = delayed_array([y[start:stop] for start, stop in spans])
    model = cls(**setting).fit(rows, values)
    lazy = model.predict(rows)
    np.testing.assert_array_equal(lazy.compute(), model.to_local().predict(X))
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=4)
    some = frame.map_partitions(lambda part: part[part.index < 600])  # leaves partitions without rows
    np.testing.assert_array_equal(model.predict(some.to_dask_array()).compute(), model.to_local().predict(X[:600]))
    labels = dd.from_pandas(pd.Series(y), npartitions=4)
    named = cls(**setting).fit(some, labels.map_partitions(lambda part: part[part.index < 600]))
    assert named.predict(some).compute().shape == (600,)
    assert named.tree_.feature_names == ("a", "b", "c", "d")


def test_a_class_of_one_partition_only_is_known(client: Client) -> None:
    """Categories that other partitions do not have, and labels that are not whole numbers."""
    X, y = table()
    labels = pd.Series(np.where(y > 0, "high", "low"))
    labels[1999] = "rare"
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=5)
    by_part = dd.from_pandas(labels, npartitions=5).astype("category")  # each partition with categories of its own
    model = DaskLCNClassifier(**SETTING).fit(frame, by_part)
    assert model.classes_.tolist() == ["high", "low", "rare"]
    numbers = labels.map({"high": 0.0, "low": 1.0, "rare": 2.0})
    model = DaskLCNClassifier(**SETTING).fit(da.from_array(X, chunks=(400, 4)), da.from_array(numbers, chunks=400))
    assert model.classes_.tolist() == [0.0, 1.0, 2.0]


def test_many_small_partitions_give_a_sample_of_the_size_asked_for(client: Client) -> None:
    """Of values too that are whole numbers, each of its own."""
    seen = []
    X = np.arange(2000, dtype=np.float32).reshape(-1, 1)
    parts = [on_dask.Window(X[start : start + 4], np.arange(start, start + 4), None) for start in range(0, 2000, 4)]
    draw = on_dask._Draw.of(2000, seed=0)
    facts = [on_dask._facts_of(part, are_classes=False) for part in parts]
    needed = on_dask._first_of_classes(facts)
    for number, part in enumerate(parts):
        drawn, held_out = (
            on_dask._drawn(part, number, needed[number], draw=draw),
            on_dask._held_out(part, number, draw=draw),
        )
        assert not set(drawn.y) & set(held_out.y)
        seen.append((len(drawn.y), len(held_out.y)))
    n_drawn, n_held_out = np.sum(seen, axis=0)
    assert 250 < n_drawn < 350
    assert 60 < n_held_out < 140


def test_rows_held_out_are_not_trained_on() -> None:
    part = on_dask.Window(np.zeros((500, 1)), np.arange(500.0), None)
    draw = on_dask._Draw(seed=3, share=0.3, held_out=0.1)
    drawn, held_out, rest = draw.rows(500, number=2)
    assert len(drawn) in (150, 151)
    assert len(held_out) in (50, 51)
    np.testing.assert_array_equal(np.sort(np.concatenate([held_out, rest])), np.arange(500))
    assert np.isin(drawn, rest).all()
    np.testing.assert_array_equal(on_dask._held_out(part, 2, draw=draw).y, np.sort(held_out))


def test_partitions_with_constant_targets(client: Client) -> None:
    """Rows sorted by their targets, and partitions that have one value only."""
    X, y = table()
    order = np.argsort(y)
    X, y = X[order], np.round(y[order])
    model = DaskLCNRegressor(**SETTING).fit(da.from_array(X, chunks=(200, 4)), da.from_array(y, chunks=200))
    assert model.n_rounds_ > 0
    assert np.isfinite(model.to_local().predict(X)).all()
    assert model.to_local().score(X, y) > 0


def test_rows_without_weight_do_not_count(client: Client) -> None:
    X, y = table()
    false, weight = np.where(np.arange(2000) < 1000, -y, y), np.repeat([0.0, 1.0], 1000)
    rows, values = da.from_array(X, chunks=(500, 4)), da.from_array(false, chunks=500)
    setting = {**SETTING, "epochs": 60}
    model = DaskLCNRegressor(**setting).fit(rows, values, da.from_array(weight, chunks=500))
    misled = DaskLCNRegressor(**setting).fit(rows, values)
    assert model.to_local().score(X, y) > misled.to_local().score(X, y) + 0.2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.nan}, "y must be finite; leave rows without a target out"),
        ({"weight": -1.0}, "sample_weight must be 400 finite numbers from 0"),
        (
            {"columns": 3},
            "X must have the same columns in all partitions, but has 3 in partition 4 and 4 in partition 0",
        ),
        ({"rows": 399}, "a partition of y has 400 rows, that of X 399; partition y like X"),
    ],
)
def test_bad_partitions_are_named(client: Client, change: dict[str, Any], message: str) -> None:
    X, y = table()
    weight = np.ones(2000)
    y[1999], weight[1999] = change.get("y", y[1999]), change.get("weight", 1.0)
    parts = [X[start : start + 400] for start in range(0, 2000, 400)]
    parts[-1] = parts[-1][: change.get("rows", 400), : change.get("columns", 4)]
    with pytest.raises(ValueError, match=message):
        DaskLCNRegressor(**SETTING).fit(
            delayed_array(parts, 4), da.from_array(y, chunks=400), da.from_array(weight, chunks=400)
        )
    frame = pd.DataFrame(X, columns=list("abcd"))
    unlike = dd.from_delayed([dask.delayed(frame), dask.delayed(frame[["b", "a", "c", "d"]])], verify_meta=False)
    values = dd.from_delayed([dask.delayed(pd.Series(y))] * 2)
    if not change.keys() & {"y", "weight"}:
        with pytest.raises(ValueError, match=r"X must have the same columns in all partitions, but has \['b', 'a'"):
            DaskLCNRegressor(**SETTING).fit(unlike, values)


def test_rounds_that_made_the_network_worse_are_not_kept(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table()
    rows, values = da.from_array(X, chunks=(400, 4)), da.from_array(y, chunks=400)
    setting = {**SETTING, "epochs": 60}
    with monkeypatch.context() as patch:
        patch.setattr(on_dask, "ROUNDS_A_PASS", 0)
        first = DaskLCNRegressor(**setting).fit(rows, values)
    monkeypatch.setattr(on_dask, "learning_rate_factor", lambda *_: 1e4)
    with pytest.warns(UserWarning, match="training on all rows made the held-out loss worse"):
        model = DaskLCNRegressor(**setting).fit(rows, values)
    np.testing.assert_allclose(model.to_local().score(X, y), first.to_local().score(X, y), atol=0.05)
