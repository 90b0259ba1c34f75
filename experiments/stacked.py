"""The default ensemble beside a random forest of 500 and histogram gradient boosting, on tables.

    TREELU_DATA=… python -m experiments.stacked run classification   resumes
    TREELU_DATA=… python -m experiments.stacked run regression
    TREELU_DATA=… python -m experiments.stacked run pdbbind --seeds 0-9
    python -m experiments.stacked table                                         what the file says
    python -m experiments.stacked losses                                        tables on which the ensemble is behind
    python -m experiments.stacked choice                                        what the default was chosen by

Test parts are the first two of five shuffled folds, `random_state` 0, of each table in the data folder, and the first
one of tables with more than 10,000 rows. Rules and constants of the default were chosen on every third table by name,
beginning with the second; the means over the others are given as well. The PDBbind table has the complexes of 2016 as
its test part, for each seed. All methods are as they come. A run adds to experiments/results/stacked.json. Seconds are
processor time, without what compiles the kernels once on a machine.

experiments/results/stack-choice.json has what other defaults did on other folds, the third and fourth, of the tables of
classes that rules were chosen on (up to 10,000 rows), and the fourth and fifth of car, balance and sonar: parts of a
stack were trained once each and weighed together in different selections. `forest` is the forest's time.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.metrics import log_loss, root_mean_squared_error
from sklearn.model_selection import KFold, StratifiedKFold

from benchmarks.report import markdown
from experiments.__main__ import numbers
from experiments.datasets import load_pdbbind
from treelu import ALCNClassifier, ALCNRegressor, ELCNClassifier, ELCNRegressor

RESULTS = Path(__file__).parent / "results" / "stacked.json"
CHOICE = RESULTS.with_name("stack-choice.json")
FOLDS, LARGE = 2, 10_000  # folds that are test parts; rows from which only the first is
CHOSEN_ON = slice(1, None, 3)  # the tables by name that rules and constants were chosen on
CLASSIFIERS = {
    "rf": lambda seed: RandomForestClassifier(500, random_state=seed),
    "hgb": lambda seed: HistGradientBoostingClassifier(random_state=seed),
    "elcn": lambda seed: ELCNClassifier(random_state=seed),
    "alcn": lambda seed: ALCNClassifier(random_state=seed),
}
REGRESSORS = {
    "rf": lambda seed: RandomForestRegressor(500, random_state=seed),
    "hgb": lambda seed: HistGradientBoostingRegressor(random_state=seed),
    "elcn": lambda seed: ELCNRegressor(random_state=seed),
    "alcn": lambda seed: ALCNRegressor(random_state=seed),
}
MEASURES = {"accuracy": 1, "log_loss": -1, "r2": 1, "rmse": -1}  # 1 where more is better
SHOWN = {"classification": ("accuracy", "log_loss"), "regression": ("r2",), "pdbbind": ("rmse",)}
POINT = 0.01
TREES = Path(__file__).parents[1] / "benchmarks" / "results" / "size" / "tables"
BESIDE = {"rf": "forest", "hgb": "boosting", "lcn": "`LCN…()`", "alcn": "`ALCN…()`"}
NAMES = {"rf": "random forest of 500", "hgb": "histogram gradient boosting", "elcn": "`ELCN…()`"}


def cells(kind: str, seeds: tuple[int, ...]) -> Iterator[tuple[str, int, Any, Any, Any, Any]]:
    """Name, fold or seed, and training and test parts."""
    if kind == "pdbbind":
        table = load_pdbbind()
        train = np.concatenate([table.split.train, table.split.valid])
        for seed in seeds:
            yield kind, seed, table.X[train], table.y[train], table.X[table.split.test], table.y[table.split.test]
        return
    for fold in range(FOLDS):  # the first fold of all tables, small files before large ones, then the second
        for path in sorted(table_files(kind), key=lambda path: path.stat().st_size):
            frame = pd.read_csv(path)
            if fold and len(frame) > LARGE:
                continue
            X, y = frame.iloc[:, :-1].to_numpy(float), frame.iloc[:, -1].to_numpy()
            folds = (StratifiedKFold if kind == "classification" else KFold)(5, shuffle=True, random_state=0)
            train, test = list(folds.split(X, y))[fold]
            yield path.name.split(".")[0], fold, X[train], y[train], X[test], y[test]


def table_files(kind: str) -> list[Path]:
    """The tables of a kind, by name."""
    return sorted((Path(os.environ["TREELU_DATA"]) / "tables" / kind).glob("*.csv.gz"))


def score(model: Any, Z: Any, truth: Any) -> dict[str, float]:
    """Accuracy and log-loss, or R² and RMSE."""
    if not hasattr(model, "predict_proba"):
        values = model.predict(Z)
        return {"r2": model.score(Z, truth), "rmse": float(root_mean_squared_error(truth, values))}
    chances = np.clip(model.predict_proba(Z), 1e-15, 1)
    chances /= chances.sum(axis=1, keepdims=True)
    accuracy = float(np.mean(model.classes_[chances.argmax(axis=1)] == truth))
    return {"accuracy": accuracy, "log_loss": float(log_loss(truth, chances, labels=model.classes_))}


def compile_kernels(kind: str, methods: list[str]) -> None:
    """Fit a few rows of two and of three classes, or of values, with each method."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    for n_classes in (2, 3) if kind == "classification" else (60,):
        for method in methods:
            (CLASSIFIERS if kind == "classification" else REGRESSORS)[method](0).fit(X, np.arange(60) % n_classes)


def run(kind: str, seeds: tuple[int, ...], methods: list[str]) -> None:
    """Fit what has not been fitted yet."""
    compile_kernels(kind, methods)
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    done = {(row["kind"], row["name"], row["part"], row["method"]) for row in rows}
    chosen_on = {path.name.split(".")[0] for path in table_files(kind)[CHOSEN_ON]} if kind != "pdbbind" else set()
    for name, part, X, y, Z, truth in cells(kind, seeds):
        for method in methods:
            if (kind, name, part, method) in done:
                continue
            started = time.process_time()
            model = (CLASSIFIERS if kind == "classification" else REGRESSORS)[method](part).fit(X, y)
            seconds = time.process_time() - started
            found = {key: round(value, 5) for key, value in score(model, Z, truth).items()}
            row = {"kind": kind, "name": name, "part": part, "method": method, **found, "seconds": round(seconds, 2)}
            if name in chosen_on:
                row["chosen_on"] = True
            print(row, flush=True)
            rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []  # another run may have added some
            rows = sorted([*rows, row], key=lambda one: (one["kind"], one["name"], one["part"], one["method"]))
            RESULTS.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


def complete(rows: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The results of a kind on the parts that all methods were fitted to."""
    methods: dict[tuple[str, int], set[str]] = {}
    for row in rows:
        if row["kind"] == kind:
            methods.setdefault((row["name"], row["part"]), set()).add(row["method"])
    return [row for row in rows if row["kind"] == kind and methods[row["name"], row["part"]] >= set(NAMES)]


def means(rows: list[dict[str, Any]], kind: str, measure: str) -> dict[str, dict[str, float]]:
    """For each table, and seed of the PDBbind one, the mean over folds of each method."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in complete(rows, kind):
        name = f"{row['name']} {row['part']}" if kind == "pdbbind" else row["name"]
        found.setdefault(name, {}).setdefault(row["method"], []).append(row[measure])
    return {name: {method: float(np.mean(one)) for method, one in found[name].items()} for name in found}


def paired(by_table: dict[str, dict[str, float]], method: str, beside: str) -> str:
    """The mean difference over tables ± its standard error."""
    differences = [row[method] - row[beside] for row in by_table.values()]
    error = f" ± {np.std(differences, ddof=1) / len(differences) ** 0.5:.4f}" if len(differences) > 1 else ""
    return f"{np.mean(differences):+.4f}{error}".replace("-", "−")


def unseen(by_table: dict[str, dict[str, float]], rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Those of the tables that no rule was chosen on."""
    chosen_on = {row["name"] for row in rows if row.get("chosen_on")}
    return {name: found for name, found in by_table.items() if name not in chosen_on}


def table() -> str:
    """Means over tables, differences, and how many tables are won."""
    rows = json.loads(RESULTS.read_text())
    lines = []
    for kind, (measure, better) in product(("classification", "regression", "pdbbind"), MEASURES.items()):
        if measure not in SHOWN[kind]:
            continue
        by_table = means(rows, kind, measure)
        groups = [by_table] if kind == "pdbbind" else [by_table, unseen(by_table, rows)]
        for group, method in product(filter(None, groups), NAMES):
            best = sum(row[method] * better >= max(better * row[name] for name in NAMES) for row in group.values())
            apart = ["", ""] if method != "elcn" else [paired(group, method, other) for other in ("rf", "hgb")]
            seconds = sum(
                row["seconds"]
                for row in complete(rows, kind)
                if row["method"] == method and (kind == "pdbbind" or row["name"] in group)
            )
            mean = np.mean([row[method] for row in group.values()])
            what = f"{kind}, {measure} ({len(group)}{'' if group is by_table else ' unseen'})"
            lines.append([what, NAMES[method], f"{mean:.4f}", *apart, str(best), f"{seconds:.0f}"])
    return markdown(["set, measure (tables)", "method", "mean", "− forest", "− boosting", "best on", "seconds"], lines)


def losses() -> str:
    """Tables on which the ensemble is more than a point of accuracy or R² behind a method, or one of its own members.

    The scores of LCN are those of `benchmarks.size`, on the same folds.
    """
    rows = json.loads(RESULTS.read_text())
    lines = []
    for kind, measure in (("classification", "accuracy"), ("regression", "r2")):
        with_alcn = {(row["name"], row["part"]) for row in rows if row["kind"] == kind and row["method"] == "alcn"}
        for name in means(rows, kind, measure):
            here = [row for row in complete(rows, kind) if row["name"] == name]
            parts = sorted({row["part"] for row in here})
            cells = {
                method: [
                    row[measure] for part in parts for row in here if (row["part"], row["method"]) == (part, method)
                ]
                for method in (*NAMES, *(["alcn"] if all((name, part) in with_alcn for part in parts) else []))
            }
            cells["lcn"] = [lcn_scores(name)[part] for part in parts]
            found = {method: float(np.mean(values)) for method, values in cells.items()}
            behind = {other: found["elcn"] - found[other] for other in found if found["elcn"] - found[other] < -POINT}
            if behind:
                shown = [f"{behind[other]:+.4f}".replace("-", "−") if other in behind else "" for other in BESIDE]
                lines.append([f"{name}, {measure}", f"{found['elcn']:.4f}", *shown])
    return markdown(["table", NAMES["elcn"], *(f"− {name}" for name in BESIDE.values())], lines)


def lcn_scores(name: str) -> list[float]:
    """Accuracy or R² of a single `LCN…()` on each fold of a table."""
    return json.loads((TREES / f"{name}-LCN.json").read_text())["parts"]["default"]["score"]


def choice() -> str:
    """Each variant less the default before, on the parts that it was tried on."""
    found: dict[str, dict[tuple[str, int], dict[str, Any]]] = {}
    for row in json.loads(CHOICE.read_text()):
        found.setdefault(row["variant"], {})[row["name"], row["part"]] = row
    before, lines = next(iter(found.values())), []
    for variant, parts in found.items():
        apart = []
        for measure in ("accuracy", "log_loss"):
            pairs = {str(part): {"new": row[measure], "old": before[part][measure]} for part, row in parts.items()}
            apart.append(paired(pairs, "new", "old") if parts is not before else "")
        seconds = [sum(row[name] for row in parts.values()) for name in ("seconds", "forest")]
        lines.append([variant, str(len(parts)), *apart, *(f"{one:.0f}" for one in seconds)])
    return markdown(["variant", "parts", "accuracy", "log-loss", "seconds", "forest's"], lines)


def main() -> None:
    """Run, or print the table."""
    parser = argparse.ArgumentParser(prog="python -m experiments.stacked", description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("run", "table", "losses", "choice"))
    parser.add_argument("kind", nargs="?", choices=("classification", "regression", "pdbbind"))
    parser.add_argument("--seeds", type=numbers, default=tuple(range(10)))
    parser.add_argument("--method", action="append", choices=tuple(CLASSIFIERS))
    options = parser.parse_args()
    if options.what == "run":
        run(options.kind, options.seeds, options.method or list(NAMES))
    else:
        print({"table": table, "losses": losses, "choice": choice}[options.what]())


if __name__ == "__main__":
    main()
