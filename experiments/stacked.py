"""The default ensemble beside a random forest of 500 and histogram gradient boosting, on tables.

    TREELU_DATA=… python -m experiments.stacked run classification   resumes
    TREELU_DATA=… python -m experiments.stacked run regression
    TREELU_DATA=… python -m experiments.stacked run pdbbind --seeds 0-2
    python -m experiments.stacked table                                         what the file says

Tables are every third by name (the first, the fourth, …) of those in the data folder, without the ones of more than
10,000 rows; the first two of five shuffled folds, `random_state` 0, are test parts. The PDBbind table has the complexes
of 2016 as its test part, for each seed. All methods are as they come. A run adds to experiments/results/stacked.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
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
from treelu import ELCNClassifier, ELCNRegressor
from treelu.chem import load_pdbbind

RESULTS = Path(__file__).parent / "results" / "stacked.json"
EVERY, MOST_ROWS, FOLDS = 3, 10_000, 2
CLASSIFIERS = {
    "rf": lambda seed: RandomForestClassifier(500, random_state=seed),
    "hgb": lambda seed: HistGradientBoostingClassifier(random_state=seed),
    "elcn": lambda seed: ELCNClassifier(random_state=seed),
}
REGRESSORS = {
    "rf": lambda seed: RandomForestRegressor(500, random_state=seed),
    "hgb": lambda seed: HistGradientBoostingRegressor(random_state=seed),
    "elcn": lambda seed: ELCNRegressor(random_state=seed),
}
NAMES = {"rf": "random forest of 500", "hgb": "histogram gradient boosting", "elcn": "`ELCN…()`"}


def cells(kind: str, seeds: tuple[int, ...]) -> Iterator[tuple[str, int, Any, Any, Any, Any]]:
    """Name, fold or seed, and training and test parts."""
    if kind == "pdbbind":
        table = load_pdbbind()
        train = np.concatenate([table.split.train, table.split.valid])
        for seed in seeds:
            yield kind, seed, table.X[train], table.y[train], table.X[table.split.test], table.y[table.split.test]
        return
    paths = sorted((Path(os.environ["TREELU_DATA"]) / "tables" / kind).glob("*.csv.gz"))[::EVERY]
    for fold in range(FOLDS):  # the first fold of all tables, then the second
        for path in paths:
            frame = pd.read_csv(path)
            if len(frame) > MOST_ROWS:
                continue
            X, y = frame.iloc[:, :-1].to_numpy(float), frame.iloc[:, -1].to_numpy()
            folds = (StratifiedKFold if kind == "classification" else KFold)(5, shuffle=True, random_state=0)
            train, test = list(folds.split(X, y))[fold]
            yield path.name.split(".")[0], fold, X[train], y[train], X[test], y[test]


def score(model: Any, Z: Any, truth: Any) -> dict[str, float]:
    """Accuracy and log-loss, or R² and RMSE."""
    if not hasattr(model, "predict_proba"):
        values = model.predict(Z)
        return {"r2": model.score(Z, truth), "rmse": float(root_mean_squared_error(truth, values))}
    chances = np.clip(model.predict_proba(Z), 1e-15, 1)
    chances /= chances.sum(axis=1, keepdims=True)
    accuracy = float(np.mean(model.classes_[chances.argmax(axis=1)] == truth))
    return {"accuracy": accuracy, "log_loss": float(log_loss(truth, chances, labels=model.classes_))}


def run(kind: str, seeds: tuple[int, ...]) -> None:
    """Fit what has not been fitted yet."""
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    done = {(row["kind"], row["name"], row["part"], row["method"]) for row in rows}
    for name, part, X, y, Z, truth in cells(kind, seeds):
        for method, make in (CLASSIFIERS if kind == "classification" else REGRESSORS).items():
            if (kind, name, part, method) in done:
                continue
            started = time.process_time()
            model = make(part).fit(X, y)
            seconds = time.process_time() - started
            found = {key: round(value, 5) for key, value in score(model, Z, truth).items()}
            row = {"kind": kind, "name": name, "part": part, "method": method, **found, "seconds": round(seconds, 2)}
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
    return [row for row in rows if row["kind"] == kind and methods[row["name"], row["part"]] == set(NAMES)]


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


def table() -> str:
    """Means over tables, differences, and how many tables are won."""
    rows = json.loads(RESULTS.read_text())
    lines = []
    for kind, measure, better in (
        ("classification", "accuracy", 1),
        ("classification", "log_loss", -1),
        ("regression", "r2", 1),
        ("pdbbind", "rmse", -1),
    ):
        by_table = means(rows, kind, measure)
        if not by_table:
            continue
        for method, name in NAMES.items():
            mean = np.mean([row[method] for row in by_table.values()])
            seconds = sum(row["seconds"] for row in complete(rows, kind) if row["method"] == method)
            best = sum(
                row[method] * better >= max(better * value for value in row.values()) for row in by_table.values()
            )
            apart = ["", ""] if method != "elcn" else [paired(by_table, method, other) for other in ("rf", "hgb")]
            what = f"{kind}, {measure} ({len(by_table)})"
            lines.append([what, name, f"{mean:.4f}", *apart, str(best), f"{seconds:.0f}"])
    return markdown(["set, measure (tables)", "method", "mean", "− forest", "− boosting", "best on", "seconds"], lines)


def main() -> None:
    """Run, or print the table."""
    parser = argparse.ArgumentParser(prog="python -m experiments.stacked", description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("kind", nargs="?", choices=("classification", "regression", "pdbbind"))
    parser.add_argument("--seeds", type=numbers, default=(0, 1, 2))
    options = parser.parse_args()
    if options.what == "run":
        run(options.kind, options.seeds)
    else:
        print(table())


if __name__ == "__main__":
    main()
