"""Tables larger than memory: `treelu fit` on files of 100 million rows, beside a fit in memory and reading alone.

    python -m benchmarks.large --rows 100_000_000 --folder DIR           # 12 GB of files, 13 GB of encoded rows
    python -m benchmarks.large --rows 2_000_000 --only tree              # a small one, with the small tree
    python -m benchmarks.large --rows 5_000_000 --only memory            # the same rows as arrays
    python -m benchmarks.large --only stream,other                       # partial_fit beside fit on ten tables
    python -m benchmarks.large --rows 20_000_000 --only workers          # two Dask workers beside one process
    python -m benchmarks.large --only killed,tasks                       # workers that are killed; what a task costs
    python -m benchmarks.large --rows 20_000_000 --only limited          # under a limit of memory

Each part adds to ``results/large.json``. Fits run in processes of their own, of which the system tells the time and the
largest resident memory.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import facts

RESULTS = Path(__file__).parent / "results" / "large.json"
N_FEATURES = 30
FILE_ROWS = 2_500_000
GROUP_ROWS = 100_000  # of a Parquet row group
TEST_ROWS = 500_000
PREDICT_ROWS = 20_000_000  # at most so many are predicted
LIMIT = 2 * 2**30  # bytes of data, for the run under a limit
STREAM_TABLES = ("phoneme", "satimage", "magic", "spambase", "houses")  # on which partial_fit's constants were chosen
MOST_ROWS = 20_000  # of the tables on which they are tried out: the five with the most rows below this
PIECES, SEEDS, OTHER_SEEDS = 10, 2, 3
TASKS = 3_000


# Data


def make_rows(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal features and two classes: three linear rules of which two others decide, and noise.

    Examples
    --------
    >>> X, y = make_rows(1000, seed=0)
    >>> X.shape, X.dtype, bool(0.4 < y.mean() < 0.6)
    ((1000, 30), dtype('float32'), True)
    """
    rules = np.random.default_rng(12345).normal(size=(5, N_FEATURES)).astype(np.float32)
    rng = np.random.default_rng([seed, 1])
    X = rng.standard_normal((n_rows, N_FEATURES), dtype=np.float32)
    s = X @ rules.T
    score = np.where(s[:, 3] > 0, s[:, 0], np.where(s[:, 4] > 0, s[:, 1], s[:, 2]))
    noise = rng.standard_normal(n_rows, dtype=np.float32)
    return X, (score + 2 * noise > 0).astype(np.int8)


def write_files(folder: Path, n_rows: int) -> list[str]:
    """Parquet files of the rows, those that are there already left alone."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, start in enumerate(range(0, n_rows, FILE_ROWS)):
        path = folder / f"part-{number:04}.parquet"
        paths.append(str(path))
        if path.exists():
            continue
        X, y = make_rows(min(FILE_ROWS, n_rows - start), seed=1000 + number)
        table = pa.table({**{f"x{i}": X[:, i] for i in range(N_FEATURES)}, "y": y})
        parquet.write_table(table, f"{path}.new", row_group_size=GROUP_ROWS, compression="none", use_dictionary=False)
        os.replace(f"{path}.new", path)
    return paths


# Processes


def measured(code: str, *arguments: str, limit: int | None = None) -> dict[str, Any]:
    """Run Python code in a process of its own: its seconds, its largest resident memory, and the JSON it printed."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        started = time.perf_counter()
        pid = os.fork()
        if pid == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(errors.fileno(), 2)
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
            os.execv(sys.executable, [sys.executable, "-c", code, *arguments])
        _, status, usage = os.wait4(pid, 0)
        seconds = time.perf_counter() - started
        out.seek(0)
        errors.seek(0)
        told, said = out.read(), errors.read()
    found = {
        "exit_code": os.waitstatus_to_exitcode(status),
        "seconds": round(seconds, 1),
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "resident_mb": round(usage.ru_maxrss / 1024),
    }
    if found["exit_code"] != 0:
        return {**found, "error": said.strip().splitlines()[-1][-200:] if said.strip() else ""}
    return {**found, "told": json.loads(told)} if told.strip().startswith("{") else found


TREELU = "import sys; from treelu.cli import main; sys.exit(main(sys.argv[1:]))"
SCORE = """
import json, sys
from benchmarks.large import TEST_ROWS, make_rows
import numpy as np, pandas as pd
from treelu.persistence import load_as_saved
from sklearn.metrics import log_loss, roc_auc_score
model = load_as_saved(sys.argv[1])
X, y = make_rows(TEST_ROWS, seed=7)
frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
chances = (model.predict_proba(frame) if hasattr(model, "encoder") else model.predict_proba(X))[:, 1]
print(json.dumps({
    "accuracy": float(np.mean((chances > 0.5) == y)), "auc": float(roc_auc_score(y, chances)),
    "log_loss": float(log_loss(y, chances)), "mean_chance": float(chances.mean()), "share": float(y.mean()),
}))
"""
READ = """
import sys, pyarrow.parquet as parquet
n = 0
for path in sys.argv[1:]:
    for batch in parquet.ParquetFile(path).iter_batches(batch_size=50_000):
        n += float(batch.column(0).to_numpy()[0]) is not None
"""
IN_MEMORY = """
import json, sys
import numpy as np
from benchmarks.large import make_rows
from treelu import LCNClassifier
n_rows, rate, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
parts = [make_rows(min(1_000_000, n_rows - start), seed=1000 + start) for start in range(0, n_rows, 1_000_000)]
X, y = (np.concatenate(part) for part in zip(*parts))
del parts
model = LCNClassifier(drop_connect=rate if rate == "auto" else float(rate), random_state=0).fit(X, y)
model.save(out)
print(json.dumps({"depth": model._setting().depth, "drop_connect": model._setting().rate}))
"""
WHOLE = """
import sys, pandas as pd
from treelu import LCNClassifier
table = pd.concat([pd.read_parquet(path) for path in sys.argv[1:]])
LCNClassifier(random_state=0).fit(table.drop(columns="y"), table.y)
"""


def score(model: str) -> dict[str, float]:
    """Accuracy and AUC of a saved model on rows that no training saw."""
    return {name: round(value, 5) for name, value in measured(SCORE, model)["told"].items()}


# Parts


def run_files(folder: Path, n_rows: int, methods: tuple[str, ...] = ("lcn",)) -> dict[str, Any]:
    """`treelu fit` and `treelu predict` on files, and reading them alone."""
    files = write_files(folder / "data", n_rows)
    n_bytes = sum(Path(path).stat().st_size for path in files)
    reading = measured(READ, *files)
    found: dict[str, Any] = {"rows": n_rows, "files": len(files), "bytes": n_bytes, "reading": reading}
    (folder / "store").mkdir(exist_ok=True)
    for method in methods:
        out = folder / f"model-{method}"
        shutil.rmtree(out, ignore_errors=True)
        fitted = measured(
            TREELU, "fit", str(folder / "data" / "*.parquet"), "--target", "y", "--method", method, "--out", str(out),
            "--store", str(folder / "store"), "--json", "--no-cart", "--no-compare",
        )  # fmt: skip
        told = fitted.pop("told", {})
        found[method] = fitted | {
            "parameters": told.get("parameters"),
            "rows_a_second": round(n_rows / fitted["seconds"]),
        }
        if fitted["exit_code"] == 0:
            found[method]["test"] = score(str(out))
        found[method]["store_left"] = len(list((folder / "store").iterdir()))
        print(method, json.dumps(found[method]), flush=True)
    some = files[: max(1, PREDICT_ROWS // FILE_ROWS)]
    parts = folder / "some"
    shutil.rmtree(parts, ignore_errors=True)
    parts.mkdir()
    for path in some:
        os.link(path, parts / Path(path).name)
    predicted = measured(TREELU, "predict", str(folder / "model-lcn"), str(parts), "--out", str(folder / "scores.csv"))
    found["predict"] = predicted | {"rows": sum(_n_rows(path) for path in some)}
    (folder / "scores.csv").unlink(missing_ok=True)
    return found


def _n_rows(path: str) -> int:
    from pyarrow import parquet

    return int(parquet.ParquetFile(path).metadata.num_rows)


def run_tree(folder: Path, n_rows: int) -> dict[str, Any]:
    """The same with the small tree."""
    return run_files(folder, n_rows, ("lcn", "tree"))


def run_memory(folder: Path, n_rows: int) -> dict[str, Any]:
    """`LCNClassifier.fit` on arrays, with its defaults, and with nothing dropped."""
    found: dict[str, Any] = {"rows": n_rows}
    for rate in ("auto", "0"):
        out = folder / f"model-memory-{rate}"
        fitted = measured(IN_MEMORY, str(n_rows), rate, str(out))
        found[f"drop_connect={rate}"] = fitted | {"test": score(str(out)) if fitted["exit_code"] == 0 else None}
    return found


def run_limited(folder: Path, n_rows: int) -> dict[str, Any]:
    """The same files under a limit of data memory: read as a whole, and by `treelu fit`."""
    files = write_files(folder / "data", n_rows)
    (folder / "store").mkdir(exist_ok=True)
    out = folder / "model-limited"
    shutil.rmtree(out, ignore_errors=True)
    whole = measured(WHOLE, *files, limit=LIMIT)
    fitted = measured(
        TREELU, "fit", str(folder / "data" / "*.parquet"), "--target", "y", "--method", "lcn", "--out", str(out),
        "--store", str(folder / "store"), "--json", "--no-cart", limit=LIMIT,
    )  # fmt: skip
    fitted.pop("told", None)
    test = score(str(out)) if fitted["exit_code"] == 0 else None
    return {"rows": n_rows, "limit_bytes": LIMIT, "as_a_whole": whole, "treelu fit": fitted | {"test": test}}


def run_stream(folder: Path, n_rows: int) -> dict[str, Any]:
    """`partial_fit` in pieces beside `fit`, on rows held out, on the tables on which its constants were chosen."""
    return {name: stream_table(_table_path(name), SEEDS) for name in STREAM_TABLES}


def run_other(folder: Path, n_rows: int) -> dict[str, Any]:
    """The same on tables that had no part in it."""
    return {name: stream_table(_table_path(name), OTHER_SEEDS) for name in other_tables()}


def other_tables() -> list[str]:
    """The five tables with the most rows below `MOST_ROWS`, but those of `STREAM_TABLES`."""
    from benchmarks.tables import data_home

    found = []
    for path in (data_home() / "tables").glob("*/*.csv.gz"):
        with gzip.open(path) as file:
            n_rows = sum(block.count(b"\n") for block in iter(lambda file=file: file.read(1 << 20), b"")) - 1
        name = path.name.removesuffix(".csv.gz")
        if n_rows < MOST_ROWS and name not in STREAM_TABLES:
            found.append((-n_rows, name))
    return [name for _, name in sorted(found)[:5]]


def _table_path(name: str) -> Path:
    from benchmarks.tables import data_home

    return next((data_home() / "tables").glob(f"*/{name}.csv.gz"))


def stream_table(path: Path, n_splits: int) -> dict[str, Any]:
    """Scores (accuracy, R²) and processor seconds of `fit` and of `partial_fit`, a fifth of the rows held out."""
    from benchmarks.size import read_table
    from treelu import LCNClassifier, LCNRegressor

    kind: Any = LCNClassifier if path.parent.name == "classification" else LCNRegressor
    X, y = read_table(path)
    scores: dict[str, list[float]] = {"fit": [], "partial_fit": [], "fit_seconds": [], "partial_fit_seconds": []}
    for seed in range(n_splits):
        order = np.random.default_rng(seed).permutation(len(y))
        test, train = order[: len(y) // 5], order[len(y) // 5 :]
        started = time.process_time()
        whole = kind(random_state=seed).fit(X[train], y[train])
        between = time.process_time()
        model = kind(random_state=seed)
        first = {"classes": np.unique(y)} if kind is LCNClassifier else {}
        for piece in np.array_split(train, PIECES):
            model.partial_fit(X[piece], y[piece], **first)
        scores["partial_fit_seconds"].append(round(time.process_time() - between, 2))
        scores["fit_seconds"].append(round(between - started, 2))
        scores["fit"].append(round(whole.score(X[test], y[test]), 4))
        scores["partial_fit"].append(round(model.score(X[test], y[test]), 4))
        print(path.name, {name: values[-1] for name, values in scores.items()}, flush=True)
    return {"rows": len(y), "features": X.shape[1], **scores}


def run_workers(folder: Path, n_rows: int) -> dict[str, Any]:
    """Two Dask workers beside one process, on the same rows."""
    out = str(folder / "dask")
    workers = measured(WORKERS, "2", str(n_rows), out) | {"test": score(out)}
    alone = measured(ONE_PROCESS, str(n_rows), str(folder), str(folder / "one")) | {"test": score(str(folder / "one"))}
    return {"rows": n_rows, "two workers": workers, "one process, a store": alone}


WORKERS = """
import json, pickle, sys, time
import dask, dask.array as da
from dask.distributed import Client, LocalCluster
from benchmarks.large import N_FEATURES, make_rows
from treelu.dask import DaskLCNClassifier
if __name__ == "__main__":
    n_workers, n_rows, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    n_parts = max(2, n_rows // 1_000_000)
    size = n_rows // n_parts
    parts = [dask.delayed(make_rows, nout=2)(size, 1000 + part) for part in range(n_parts)]
    X = da.concatenate([da.from_delayed(X, (size, N_FEATURES), "float32") for X, _ in parts])
    y = da.concatenate([da.from_delayed(y, (size,), "int8") for _, y in parts])
    cluster = LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0)
    with cluster, Client(cluster) as client:
        X, y = dask.persist(X, y)
        dask.distributed.wait([X, y])
        before = sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())
        started = time.perf_counter()
        model = DaskLCNClassifier(random_state=0).fit(X, y)
        seconds = time.perf_counter() - started
        sent = sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values()) - before
    local = model.to_local()
    state = len(pickle.dumps(local._unfolded(local.network_).state()))
    local.save(out)
    print(json.dumps({
        "fit_seconds": round(seconds, 1), "rounds": model.n_rounds_, "partitions": n_parts,
        "bytes_of_a_network": state, "bytes_of_networks": state * model.n_rounds_ * (n_parts + n_workers),
        "bytes_between_workers": sent, "bytes_of_rows": n_rows * N_FEATURES * 4,
    }))
"""
ONE_PROCESS = """
import json, sys, time
from benchmarks.large import make_rows
from treelu import LCNClassifier
from treelu.data.store import RowStore
n_rows, folder, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
n_parts = max(2, n_rows // 1_000_000)
with RowStore.create(folder, 30, are_classes=True) as store:
    for part in range(n_parts):
        store.append(*make_rows(n_rows // n_parts, 1000 + part))
    started = time.perf_counter()
    model = LCNClassifier(random_state=0).fit(store)
    seconds = time.perf_counter() - started
model.save(out)
print(json.dumps({"fit_seconds": round(seconds, 1)}))
"""


def run_killed(folder: Path, n_rows: int) -> dict[str, Any]:
    """Workers killed at three random moments: the fit ends with the same model."""
    found = measured(KILLED, str(min(n_rows, 2_000_000)))
    return found.pop("told", {}) | found


KILLED = """
import json, os, random, signal, sys, threading, time
import dask, dask.array as da, numpy as np
from dask.distributed import Client, LocalCluster
from benchmarks.large import N_FEATURES, make_rows
from treelu.dask import DaskLCNClassifier, DaskObliqueTreeClassifier

def fitted(client, n_rows):
    size = n_rows // 8
    parts = [dask.delayed(make_rows, nout=2)(size, 1000 + part) for part in range(8)]
    X = da.concatenate([da.from_delayed(X, (size, N_FEATURES), "float32") for X, _ in parts])
    y = da.concatenate([da.from_delayed(y, (size,), "int8") for _, y in parts])
    started = time.perf_counter()
    model = DaskLCNClassifier(depth=8, drop_connect=0.05, random_state=0).fit(X, y)
    seconds = time.perf_counter() - started
    tree = DaskObliqueTreeClassifier(max_leaf_nodes=4, selection="largest", n_updates=50, random_state=0).fit(X, y)
    return model.to_local().predict_proba(make_rows(20_000, 7)[0]), int(tree.tree_.n_samples[0]), seconds

def kill(cluster, seconds, killed):
    for _ in range(3):
        time.sleep(random.uniform(0.1, 0.3) * seconds)
        os.kill(random.choice([nanny.pid for nanny in cluster.workers.values() if nanny.pid]), signal.SIGKILL)
        killed.append(round(time.perf_counter() - begun, 1))

if __name__ == "__main__":
    dask.config.set({"distributed.scheduler.allowed-failures": 10})
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0)
    with cluster, Client(cluster) as client:
        plain, n_counted, seconds = fitted(client, int(sys.argv[1]))
        killed, begun = [], time.perf_counter()
        thread = threading.Thread(target=kill, args=(cluster, seconds, killed))
        thread.start()
        again, n_counted_again, longer = fitted(client, int(sys.argv[1]))
        thread.join()
    print(json.dumps({
        "rows": int(sys.argv[1]), "seconds": round(seconds, 1), "seconds_with_kills": round(longer, 1),
        "killed_after_seconds": killed, "largest_difference": float(np.abs(plain - again).max()),
        "rows_counted_by_a_tree": n_counted, "rows_counted_with_kills": n_counted_again,
    }))
"""


def run_tasks(folder: Path, n_rows: int) -> dict[str, Any]:
    """What a task of a round costs beside its training: a network sent to a worker and gathered."""
    found = measured(TASKS_CODE, str(TASKS))
    return found.pop("told", {}) | found


TASKS_CODE = """
import json, sys, time
import numpy as np
from dask.distributed import Client, LocalCluster

def same(number, network):
    return network

if __name__ == "__main__":
    n_tasks, seconds = int(sys.argv[1]), {}
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0)
    with cluster, Client(cluster) as client:
        client.gather(client.map(same, range(100), network=np.zeros(10), pure=False))
        for n_features in (30, 2048):
            network = np.zeros(16 * (2 * n_features + 20), np.float32)
            started, used = time.perf_counter(), time.process_time()
            client.gather(client.map(same, range(n_tasks), network=client.submit(same, 0, network), pure=False))
            seconds[f"{n_features} features"] = {
                "bytes_of_a_network": network.nbytes,
                "milliseconds_a_task": round(1000 * (time.perf_counter() - started) / n_tasks, 3),
                "processor_milliseconds_here": round(1000 * (time.process_time() - used) / n_tasks, 3),
            }
    print(json.dumps({"tasks": n_tasks, **seconds}))
"""

PARTS: dict[str, Callable[[Path, int], dict[str, Any]]] = {
    "files": run_files,
    "tree": run_tree, "memory": run_memory, "limited": run_limited, "stream": run_stream, "workers": run_workers,
    "killed": run_killed, "other": run_other, "tasks": run_tasks,
}  # fmt: skip


def record(name: str, found: dict[str, Any]) -> None:
    """Add one part to the results."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results[name] = {"machine": facts(), **found}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def main(arguments: list[str] | None = None) -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--only", default="files,memory", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--folder", type=Path, help="for files and stores; by default a temporary one")
    options = parser.parse_args(arguments)
    with _folder(options.folder) as folder:
        for part in options.only.split(","):
            found = PARTS[part](folder, options.rows)
            print(part, json.dumps(found), flush=True)
            name = part if part in ("stream", "other", "killed", "tasks") else f"{part}, {options.rows:,} rows"
            record(name, found)


@contextmanager
def _folder(path: Path | None) -> Iterator[Path]:
    """The folder given, or a temporary one that is removed."""
    if path is not None:
        path.mkdir(parents=True, exist_ok=True)
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


if __name__ == "__main__":
    main()
