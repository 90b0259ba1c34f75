"""Estimators on a Dask cluster of this machine."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from treelu import LCNClassifier, LCNRegressor

pytest.importorskip("dask.distributed", reason="needs Dask: pip install 'treelu[distributed]'")

import dask.array as da
import dask.dataframe as dd
from dask.distributed import Client, LocalCluster

import treelu.dask as on_dask
from treelu.dask import DaskLCNClassifier, DaskLCNRegressor, DaskObliqueTreeClassifier, DaskObliqueTreeRegressor

pytestmark = pytest.mark.slow

SETTING: dict[str, Any] = {"depth": 3, "drop_connect": 0.0, "epochs": 5, "random_state": 0}


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_dask, "SAMPLE_ROWS", 300)
    monkeypatch.setattr(on_dask, "ROW_VISITS", 6000)


@pytest.fixture(scope="module", params=[1, 3])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    options: dict[str, Any] = {"processes": False, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(n_workers=request.param, **options) as cluster, Client(cluster) as client:
        yield client


def table(n_rows: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(n_rows, 4)).astype(np.float32)
    return X, X[:, 0] * (X[:, 1] > 0) + X[:, 2]


SEEN: list[np.ndarray] = []


def test_the_model_does_not_depend_on_the_number_of_workers(client: Client) -> None:
    X, y = table()
    labels = np.where(y > 0, "high", "low")
    model = DaskLCNClassifier(**SETTING).fit(da.from_array(X, chunks=(400, 4)), da.from_array(labels, chunks=400))
    SEEN.append(model.to_local().predict_proba(X))
    assert model.n_rounds_ > 0
    assert model.classes_.tolist() == ["high", "low"]
    assert model.tree_.n_leaves == 8
    assert isinstance(model.to_local(), LCNClassifier)
    np.testing.assert_allclose(SEEN[-1], SEEN[0], atol=1e-4)


def test_rounds_on_all_rows_do_better_than_the_sample(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table(6000)
    rows, values = da.from_array(X[:2000], chunks=(400, 4)), da.from_array(y[:2000], chunks=400)
    model = DaskLCNRegressor(**SETTING).fit(rows, values)
    monkeypatch.setattr(on_dask, "ROUNDS_A_PASS", 0)
    first = DaskLCNRegressor(**SETTING).fit(rows, values)
    assert first.n_rounds_ == 0
    assert model.to_local().score(X[2000:], y[2000:]) > first.to_local().score(X[2000:], y[2000:])


def test_predictions_are_lazy_and_the_same(client: Client) -> None:
    X, y = table()
    frame = pd.DataFrame(X, columns=list("abcd"))
    rows = dd.from_pandas(frame, npartitions=4)
    model = DaskLCNClassifier(**SETTING).fit(rows, dd.from_pandas(pd.Series(y > 0), npartitions=4))
    local = model.to_local()
    assert local.feature_names_in_.tolist() == list("abcd")
    lazy = model.predict(rows)
    assert isinstance(lazy, dd.Series)
    np.testing.assert_array_equal(lazy.compute(), local.predict(frame))
    np.testing.assert_array_equal(model.predict_proba(rows).compute(), local.predict_proba(frame))
    lazy_array = model.predict_proba(da.from_array(X, chunks=(500, 4)))
    assert isinstance(lazy_array, da.Array)
    assert lazy_array.shape == (2000, 2)


def test_sparse_chunks(client: Client) -> None:
    X, y = table()
    X = np.where(np.abs(X) > 0.7, X, 0)
    rows = da.from_array(X, chunks=(500, 4)).map_blocks(sparse.csr_matrix)
    model = DaskLCNClassifier(**SETTING).fit(rows, da.from_array((y > 0).astype(int), chunks=500))
    assert model.to_local().score(X, (y > 0).astype(int)) > 0.65


def test_parameters_are_those_of_the_local_estimator() -> None:
    model = DaskLCNClassifier(depth=5)
    assert model.get_params()["depth"] == 5
    model.set_params(depth=6)
    assert model.estimator.depth == 6
    with pytest.raises(TypeError, match="dept"):
        DaskLCNClassifier(dept=5)
    with pytest.raises(AttributeError, match="tree_"):
        _ = model.tree_


def test_bad_input(client: Client) -> None:
    X, y = table()
    rows = da.from_array(X, chunks=(500, 4))
    with pytest.raises(ValueError, match="y must have the 4 partitions of X, got 2; repartition it"):
        DaskLCNClassifier(**SETTING).fit(rows, da.from_array(y > 0, chunks=1000))
    with pytest.raises(TypeError, match="y must be a Dask DataFrame, Series or Array, got ndarray"):
        DaskLCNClassifier(**SETTING).fit(rows, y > 0)
    with pytest.raises(ValueError, match="cv needs the rows in memory"):  # row numbers would be those of a sample
        DaskLCNClassifier(**SETTING, cv=[(range(9), range(9, 18))]).fit(rows, da.from_array(y > 0, chunks=500))


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_a_small_tree_has_the_leaf_values_of_all_rows(client: Client, kind: str) -> None:
    X, y = table()
    labels = np.where(y > 0, "high", "low") if kind == "classes" else y
    cls: Any = DaskObliqueTreeClassifier if kind == "classes" else DaskObliqueTreeRegressor
    setting = {"max_leaf_nodes": 4, "selection": "largest", "n_updates": 50, "shrinkage": 0.0, "random_state": 0}
    model = cls(**setting).fit(da.from_array(X, chunks=(400, 4)), da.from_array(labels, chunks=400))
    tree = model.tree_
    assert tree.n_samples[0] == 2000
    leaf = tree.apply(X) - tree.n_splits
    for number in range(tree.n_leaves):
        here = labels[leaf == number]
        wanted = [np.mean(here == name) for name in tree.classes] if kind == "classes" else [here.mean()]
        np.testing.assert_allclose(tree.values[number], wanted, atol=1e-9)
    SEEN_TREES.setdefault(kind, tree.values)
    np.testing.assert_allclose(tree.values, SEEN_TREES[kind], atol=1e-12)  # whatever the number of workers
    lazy = model.predict(da.from_array(X, chunks=(500, 4)))
    np.testing.assert_array_equal(lazy.compute(), model.to_local().predict(X))


SEEN_TREES: dict[str, np.ndarray] = {}


def test_linear_leaves_are_those_of_the_sample(client: Client) -> None:
    X, y = table()
    model = DaskObliqueTreeRegressor(linear_leaves=True, n_updates=20, max_leaf_nodes=3, teacher=None, random_state=0)
    tree = model.fit(da.from_array(X, chunks=(400, 4)), da.from_array(y, chunks=400)).to_local().tree_
    assert tree.leaf_weights is not None
    assert tree.n_samples is not None
    assert tree.n_samples[0] == len(X)


def test_few_features_stay_few(client: Client) -> None:
    X, y = table()
    model = DaskLCNRegressor(**SETTING, max_tree_features=2)
    model.fit(da.from_array(X, chunks=(400, 4)), da.from_array(y, chunks=400))
    assert model.n_rounds_ > 0
    assert np.count_nonzero(model.feature_importances_) == 2


THREADS: set[str] = set()


def note_thread(record: Any, network: Any) -> None:
    """A callback of training that a worker of this process finds by its name."""
    THREADS.add(threading.current_thread().name)


def test_many_fits_run_on_the_cluster_through_joblib(client: Client) -> None:
    X, y = table(300)
    labels = np.stack([y > 0, X[:, 1] > 0, X[:, 2] > 0], axis=1).astype(int)
    alone = LCNClassifier(**SETTING).fit(X, labels)
    THREADS.clear()
    with joblib.parallel_config("dask", n_jobs=-1):
        model = LCNClassifier(**SETTING, callbacks=[note_thread]).fit(X, labels)
    on_workers = [name for name in THREADS if "-Dask-" in name]
    assert len(on_workers) == (0 if len(client.nthreads()) == 1 else len(THREADS))  # joblib sends nothing to one worker
    for here, there in zip(alone.predict_proba(X), model.predict_proba(X), strict=True):
        np.testing.assert_allclose(here, there, atol=1e-6)


def test_a_search_runs_on_the_cluster_through_joblib(client: Client) -> None:
    X, y = table(300)
    grid = {"depth": [1, 2, 3]}
    search = GridSearchCV(LCNRegressor(drop_connect=0.0, epochs=2, random_state=0), grid, cv=2)
    here = clone(search).fit(X, y)
    with joblib.parallel_config("dask"):
        there = clone(search).fit(X, y)
    np.testing.assert_allclose(there.cv_results_["mean_test_score"], here.cv_results_["mean_test_score"], atol=1e-4)


def test_a_killed_worker_costs_no_fit_and_one_that_joins_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two processes one is killed after a round, and another joins: the model is that of a quiet fit."""
    X, y = table()
    rows, values = da.from_array(X, chunks=(400, 4)), da.from_array(y, chunks=400)
    average, done = on_dask._average, []

    def disturbed(*arguments: Any) -> Any:
        if not done:
            os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
            cluster.scale(3)
            client.wait_for_workers(3, timeout=60)
            done.append(set(client.scheduler_info()["workers"]))
        return average(*arguments)

    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(processes=True, **options) as cluster, Client(cluster) as client:
        quiet = DaskLCNRegressor(**SETTING).fit(rows, values)
        monkeypatch.setattr(on_dask, "_average", disturbed)
        model = DaskLCNRegressor(**SETTING).fit(rows, values)
        before = client.run(lambda dask_worker: dask_worker.state.executed_count)
        fresh = da.from_array(X + 1, chunks=(100, 4))  # 20 chunks that no worker holds yet
        DaskLCNRegressor(**SETTING).fit(fresh, da.from_array(y, chunks=100))
        after = client.run(lambda dask_worker: dask_worker.state.executed_count)
    np.testing.assert_allclose(model.to_local().predict(X), quiet.to_local().predict(X), atol=1e-6)
    assert model.n_rounds_ == quiet.n_rounds_
    assert len(after) == 3
    assert all(after[worker] > before[worker] for worker in after)


@pytest.mark.parametrize("of", ["experiments.sweep:_client", "treelu.cli.large:cluster"])
def test_workers_of_this_machine_are_heard_on_this_machine_only(of: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scheduler and dashboard ask for no password; 0.1 let the dashboard listen on all interfaces."""
    import importlib

    import psutil

    def heard() -> set[tuple[str, int]]:
        found = psutil.Process().net_connections(kind="inet")
        return {(one.laddr.ip, one.laddr.port) for one in found if one.status == psutil.CONN_LISTEN}

    class WithoutWorkers(LocalCluster):
        def __init__(self, **options: Any) -> None:
            super().__init__(n_workers=0, **options)

    monkeypatch.setattr("dask.distributed.LocalCluster", WithoutWorkers)
    module, name = of.split(":")
    before = heard()
    with getattr(importlib.import_module(module), name)("local"):
        new = heard() - before
    assert new
    assert {address for address, _ in new} <= {"127.0.0.1", "::1"}
