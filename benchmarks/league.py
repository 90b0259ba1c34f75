"""The league: `python -m benchmarks.league`.

Readable models, large trees and ensembles on the 75 tables of TREELU_DATA: five folds (stratified for classes,
shuffled, random_state 0), the same for all methods; each with its defaults and one thread (set OMP_NUM_THREADS=1). A
fit may take `--seconds` of processor time. Every fold is written when it is done, and is not run again:

    python -m benchmarks.league                                             everything, smallest tables first
    python -m benchmarks.league --methods CART forest --max-rows 5000 --folds 2
    python -m benchmarks.league --methods EBM --again                       also what failed or took too long
    python -m benchmarks.league --report                                    docs/results.md from what has been run
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import signal
import time
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.model_selection import StratifiedShuffleSplit
from threadpoolctl import threadpool_limits

from benchmarks.league_methods import METHODS
from benchmarks.league_scores import class_scores, numbers_to_read, value_scores
from benchmarks.size import Task, read_table, table_tasks
from benchmarks.tables import data_home

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "league"
SECONDS = 120  # of the processor, for a fit and its predictions
FOLDS = 5
SLOW = ("interpret", "pytabkit")  # nothing is compiled, and even a few rows take long
LITERATURE = [
    ("satimage", 3104, 2000),
    ("pendigits", 5995, 3498),
    ("connect_4", 43236, 13512),
]  # rows to train and test
PACKAGES = {"interpret": "interpret-core", "stree": "STree"}  # where a package has another name than its module


# Results: a file for each method, a line for each table


def result_file(method: str) -> Path:
    """Where the cells of a method stand."""
    return RESULTS / f"{method.lower().replace(', ', '-').replace(' ', '-')}.json"


def read_results(method: str) -> dict[str, Any]:
    """The cells of a method: scores of each fold by table, and what failed."""
    path = result_file(method)
    return json.loads(path.read_text("utf-8")) if path.exists() else {"method": method, "tables": {}, "failed": {}}


def write_results(found: dict[str, Any]) -> None:
    """Write the cells of a method so that an interrupted write leaves the old file."""
    path = result_file(found["method"])
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for key, value in found.items():
        if key in ("tables", "failed"):
            inner = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value[name])}" for name in sorted(value))
            lines.append(f' "{key}": {{\n{inner}\n }}' if inner else f' "{key}": {{}}')
        else:
            lines.append(f' "{key}": {json.dumps(value)}')
    draft = path.with_suffix(".part")
    draft.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    draft.replace(path)


def rounded(value: float) -> float:
    """Five significant digits, so that files stay small."""
    return float(f"{value:.5g}")


# Fits, in a process that may be ended


def fit_fold(method: str, task: Task, fold: int) -> dict[str, float]:
    """Scores, size and processor seconds of the fit on one fold."""
    train, test = task.parts[fold]
    model = METHODS[method].make(task.is_classifier, fold)
    started = time.process_time()
    model.fit(task.X[train], task.y[train])
    seconds = time.process_time() - started
    predicted, truth = np.asarray(model.predict(task.X[test])).ravel(), task.y[test]
    if task.is_classifier:
        p = np.array(model.predict_proba(task.X[test]), float) if hasattr(model, "predict_proba") else None
        scores = class_scores(truth, np.unique(task.y), predicted, p)
    else:
        scores = value_scores(truth, predicted)
    return {name: rounded(value) for name, value in {**scores, **numbers_to_read(model), "seconds": seconds}.items()}


def _work(parents_end: Any, pipe: Any, method: str, seconds: float) -> None:
    """Fit what comes through the pipe. The system ends this process where a fit takes too much processor time."""
    parents_end.close()  # or this process would not learn that its parent has ended
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    _warm_up(method)
    threadpool_limits(1)
    pipe.send("ready")
    while True:
        try:
            task, fold = pipe.recv()
        except EOFError:
            return
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime + seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        try:
            pipe.send(fit_fold(method, task, fold))
        except Exception as error:
            pipe.send(f"{type(error).__name__}: {str(error).splitlines()[0][:100] if str(error) else ''}".rstrip(": "))


def _warm_up(method: str) -> None:
    """Import and compile what a first fit would wait for."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    for kind in METHODS[method].kinds:
        model = METHODS[method].make(kind == "classes", 0)
        if METHODS[method].package not in SLOW:
            model.fit(X, (X[:, 0] > 0).astype(int) if kind == "classes" else X[:, 0])


class Worker:
    """A process that fits one method, started again where it was ended."""

    def __init__(self, method: str, seconds: float) -> None:
        self.method, self.seconds, self.process = method, seconds, None

    def _start(self) -> None:
        context: Any = multiprocessing.get_context("fork")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_work, args=(self.pipe, other, self.method, self.seconds), daemon=True)
        self.process.start()
        other.close()
        self.pipe.recv()  # it is ready

    def run(self, task: Task, fold: int) -> dict[str, float] | str:
        """The figures of a fold, or why there are none."""
        try:
            if self.process is None:
                self._start()
            self.pipe.send((task, fold))
            return self.pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self.process.join()
            too_long = self.process.exitcode == -signal.SIGXCPU
            self.process = None
            return f"took more than {self.seconds:g} s" if too_long else "ended the process"

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()


# Running


def run_method(method: str, tasks: list[Task], n_folds: int, seconds: float, again: bool, console: Console) -> None:
    """Run the folds of a method that are not there yet."""
    found, worker = read_results(method), Worker(method, seconds)
    found["version"] = version(PACKAGES.get(METHODS[method].package or "", METHODS[method].package or "scikit-learn"))
    for task in tasks:
        kind = "classes" if task.is_classifier else "values"
        if kind not in METHODS[method].kinds or task.name not in (METHODS[method].tables or [task.name]):
            continue
        if task.name in found["failed"] and not again:
            continue
        cell = found["tables"].setdefault(task.name, {})
        for fold in range(len(cell.get("seconds", [])), min(n_folds, len(task.parts))):
            figures = worker.run(task, fold)
            if isinstance(figures, str):
                found["failed"][task.name] = figures
                console.print(f"{task.name}, {method}: {figures}")
                break
            found["failed"].pop(task.name, None)
            for name, value in figures.items():
                cell.setdefault(name, []).append(value)
        if not cell:
            del found["tables"][task.name]
        else:
            score = cell.get("log_loss", cell.get("accuracy", cell.get("r2")))
            console.print(f"{task.name}, {method}: {np.mean(score):.4f}, {np.sum(cell['seconds']):.1f} s")
        write_results(found)
    worker.stop()


def league_tasks(max_rows: int | None, only: list[str] | None) -> list[Task]:
    """The tables, those of fewer rows first; their shapes are written beside the results."""
    tasks: Iterator[Task] = table_tasks(max_rows)
    found = sorted((task for task in tasks if not only or task.name in only), key=lambda task: len(task.y))
    path = RESULTS / "tables.txt"
    if max_rows is None and not only:
        lines = [
            f"{task.name} {'classes' if task.is_classifier else 'values'} {len(task.y)} {task.X.shape[1]} "
            f"{len(np.unique(task.y)) if task.is_classifier else 0}\n"
            for task in found
        ]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(lines), encoding="utf-8")
    return found


def literature_tasks() -> list[Task]:
    """Abalone's five shuffles, and larger tables with as many rows to train on as DTSemNet's authors have.

    Those are the parts of LIBSVM's files of satimage and pendigits, and 64 of 100 rows of connect_4, whose columns
    stand for one of three states each. The splits themselves are ten of our own, stratified.
    """
    folder = data_home() / "uci"
    shuffles = [np.load(folder / f"abalone-{shuffle}.npz") for shuffle in range(5)]
    X = np.concatenate([np.concatenate([part["X_train"], part["X_test"]]) for part in shuffles])
    y = np.concatenate([np.concatenate([part["y_train"].ravel(), part["y_test"].ravel()]) for part in shuffles])
    rows = np.arange(len(shuffles[0]["X_train"]) + len(shuffles[0]["X_test"]))
    middle = len(shuffles[0]["X_train"])
    parts = [(rows[:middle] + shuffle * len(rows), rows[middle:] + shuffle * len(rows)) for shuffle in range(5)]
    tasks = [Task("literature", "abalone", False, X, y, parts)]
    for name, n_train, n_test in LITERATURE:
        X, y = read_table(data_home() / "tables" / "classification" / f"{name}.csv.gz")
        if name == "connect_4":
            X = np.concatenate([np.equal(X, state) for state in np.unique(X)], axis=1).astype(float)
        splits = StratifiedShuffleSplit(10, train_size=n_train, test_size=n_test, random_state=0)
        tasks.append(Task("literature", name, True, X, y, list(splits.split(X, y))))
    return tasks


def main() -> None:
    """Parse the arguments, run what is missing, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=METHODS, metavar="METHOD", help=", ".join(METHODS))
    parser.add_argument("--only", nargs="+", help="names of tables")
    parser.add_argument("--max-rows", type=int)
    parser.add_argument("--folds", type=int, default=FOLDS, help="the first so many of five")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of the processor, for a fit")
    parser.add_argument("--again", action="store_true", help="also what failed before")
    parser.add_argument("--report", action="store_true", help="only write the page")
    options = parser.parse_args()
    if not options.report:
        methods, console = options.methods or list(METHODS), Console()
        tables = league_tasks(options.max_rows, options.only)
        for method in methods:
            is_ours = METHODS[method].group == "literature"
            tasks, n_folds = (literature_tasks(), 10) if is_ours else (tables, options.folds)
            run_method(method, tasks, n_folds, options.seconds, options.again, console)


if __name__ == "__main__":
    main()
