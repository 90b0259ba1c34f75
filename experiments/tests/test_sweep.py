"""Sweeps: killed ones resume, several processes share, a cluster survives the death of a worker."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from experiments.data import Dataset
from experiments.methods import execute
from experiments.runs import Result, Run, Store
from experiments.sweep import sweep, sweep_on_cluster
from experiments.tests.tiny import LOG, NotedDataset, read_log, slow, tiny_dataset, tiny_runs

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    return tmp_path / "log"


def start(folder: Path, n_seeds: int, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "experiments.tests.tiny", str(folder), str(n_seeds), str(seconds)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def wait_until(condition, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def test_a_killed_sweep_resumes_and_repeats_nothing_finished(tmp_path: Path, log: Path):
    runs, store = tiny_runs(4), Store(tmp_path / "results")
    first = start(store.folder, 4, 0.1)
    wait_until(lambda: len(store.finished(runs)) >= 5)
    first.send_signal(signal.SIGKILL)
    first.wait()
    finished = store.finished(runs)
    assert 5 <= len(finished) < len(runs)
    made = sweep(runs, store, tiny_dataset, partial(slow, seconds=0.0))
    assert made == len(runs) - len(finished)
    began = Counter(key for key, _ in read_log(log, "began"))
    assert set(began) == {run.key for run in runs}
    assert all(began[key] == 1 for key in finished)
    assert sum(began.values()) <= len(runs) + 1  # the one it was killed in was begun twice


def test_two_processes_share_the_work(tmp_path: Path, log: Path):
    runs, store = tiny_runs(8), Store(tmp_path / "results")
    both = [start(store.folder, 8, 0.15) for _ in range(2)]
    made = [int(process.communicate()[0]) for process in both]
    assert sum(made) == len(runs)
    assert min(made) > 0
    began = Counter(key for key, _ in read_log(log, "began"))
    assert began == Counter(run.key for run in runs)


def test_a_process_takes_over_what_a_dead_one_had_claimed(tmp_path: Path, log: Path):
    runs, store = tiny_runs(1)[:1], Store(tmp_path / "results")
    dying = start(store.folder, 1, 60.0)
    wait_until(lambda: len(read_log(log, "began")) == 1)
    helper = threading.Timer(1.5, dying.kill)
    helper.start()
    assert sweep(runs, store, tiny_dataset, execute) == 1  # waits while the claim is held
    helper.join()
    dying.wait()


def test_failures_are_reported_after_the_others_are_done(tmp_path: Path):
    runs, store = tiny_runs(1), Store(tmp_path)

    def fails(run: Run, dataset: Dataset) -> Result:
        if run == runs[0]:
            raise ValueError("no good")
        return {"config": {}}

    with pytest.raises(RuntimeError, match=r"1 runs failed.*max_depth=1.*no good"):
        sweep(runs, store, tiny_dataset, fails)
    assert len(store.finished(runs)) == len(runs) - 1


def test_results_hold_scores_and_seconds(tmp_path: Path):
    runs, store = tiny_runs(1), Store(tmp_path)
    sweep(runs, store, tiny_dataset, execute)
    result = store.results("bace", "cart")[0]
    assert set(result["scores"]["best"]) == {"train", "valid", "test"}
    assert result["config"]["estimator"] == "DecisionTreeClassifier"
    assert result["seconds"] >= 0


def test_a_cluster_survives_the_death_of_a_worker(tmp_path: Path, log: Path):
    distributed = pytest.importorskip("dask.distributed")
    runs, store = tiny_runs(8), Store(tmp_path / "results")
    load = partial(tiny_dataset, kind=NotedDataset)
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        victim, survivor = client.run(os.getpid).values()

        def kill_one() -> None:
            wait_until(lambda: len(store.finished(runs)) >= len(runs) // 2)
            os.kill(victim, signal.SIGKILL)

        killer = threading.Thread(target=kill_one)
        killer.start()
        made = sweep_on_cluster(runs, store, load, partial(slow, seconds=0.2), client)
        killer.join()
    assert made == len(runs)
    assert len(list((store.folder / "runs").rglob("*.json"))) == len(runs)
    assert store.finished(runs) == {run.key for run in runs}
    workers = Counter(int(process) for _, process in read_log(log, "began"))
    assert workers[victim] >= 1
    assert workers[survivor] >= 1
    arrivals = Counter(int(process) for (process,) in read_log(log, "arrived"))
    # the table was sent once to each worker, not with each run; once more perhaps when one that held it had died
    assert all(1 <= arrivals[process] <= 2 for process in workers)
    assert workers[survivor] > 2


def test_a_cluster_makes_only_what_is_missing(tmp_path: Path, log: Path):
    distributed = pytest.importorskip("dask.distributed")
    runs, store = tiny_runs(2), Store(tmp_path / "results")
    sweep(runs[:5], store, tiny_dataset, execute)
    with distributed.Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as client:
        assert sweep_on_cluster(runs, store, tiny_dataset, execute, client) == len(runs) - 5
        assert sweep_on_cluster(runs, store, tiny_dataset, execute, client) == 0


def test_a_local_cluster_is_for_this_machine_only() -> None:
    """The dashboard asks for no password: it must not listen on other interfaces."""
    from experiments.sweep import _client

    with _client("local") as client:
        scheduler = client.cluster.scheduler
        listening = [socket.getsockname()[0] for socket in scheduler.http_server._sockets.values()]
        assert listening
        assert set(listening) == {"127.0.0.1"}
        assert all(address.startswith("tcp://127.0.0.1:") for address in scheduler.workers)
