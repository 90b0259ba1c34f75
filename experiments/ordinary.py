"""Averages of members with their own defaults beside a stack's defaults, on ordinary tables.

TREELU_DATA=… python -m experiments.ordinary run --table car                  three of five folds
TREELU_DATA=… python -m experiments.ordinary run --table car --method elcn    of one method only
python -m experiments.ordinary table                                                       what the file says
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold

from benchmarks.report import markdown
from experiments.members import ensemble
from treelu import ALCNClassifier, ELCNClassifier, LCNClassifier, StackedClassifier

RESULTS = Path(__file__).parent / "results" / "ordinary.json"
FOLDS = 3  # of five


def average(kind: Any, X: Any, y: Any, Z: Any, n: int = 16) -> np.ndarray:
    """The classes by the mean of members; the first chooses depth and drop rate, the others take them."""
    first = kind(random_state=0).fit(X, y)
    total = first.predict_proba(Z)
    for seed in range(1, n):
        member = kind(depth=first.depth_, drop_connect=first.drop_connect_, random_state=seed)
        total += member.fit(X, y).predict_proba(Z)
    return first.classes_[total.argmax(axis=1)]


def one(model: Any) -> Callable[[Any, Any, Any], np.ndarray]:
    """Fit and predict with one estimator."""
    return lambda X, y, Z: model.fit(X, y).predict(Z)


METHODS: dict[str, Callable[[Any, Any, Any], np.ndarray]] = {
    "lcn": one(LCNClassifier(random_state=0)),
    "alcn": one(ALCNClassifier(random_state=0)),
    "elcn": one(StackedClassifier(random_state=0)),
    "average": one(ELCNClassifier(combine="average", random_state=0)),
    "avg16lcn": lambda X, y, Z: average(LCNClassifier, X, y, Z),
    "avg16alcn": lambda X, y, Z: average(ALCNClassifier, X, y, Z),
    "paper": one(ensemble("classification", {}, random_state=0)),
    "paper-p0": one(ensemble("classification", {"drop_connect": 0.05}, random_state=0)),
    "rf": one(RandomForestClassifier(500, random_state=0)),
}
NAMES = {
    "lcn": "`LCNClassifier()`",
    "alcn": "`ALCNClassifier()`",
    "elcn": "`StackedClassifier()`",
    "average": '`ELCNClassifier(combine="average")`',
    "paper": "the paper's ELCN, for fingerprints",
    "paper-p0": "the paper's ELCN with `drop_connect=0.05`",
    "avg16lcn": "mean of 16 `LCNClassifier`",
    "avg16alcn": "mean of 16 `ALCNClassifier`",
    "rf": "random forest of 500",
}


def run(name: str, methods: list[str]) -> dict[str, Any]:
    """Accuracy in percent and processor seconds of a fit, for some methods."""
    table = pd.read_csv(Path(os.environ["TREELU_DATA"]) / "uci" / f"{name}.csv.gz")
    X, y = table.iloc[:, :-1].to_numpy(float), table.iloc[:, -1].to_numpy()
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))[:FOLDS]
    found = {}
    for method in methods:
        predict = METHODS[method]
        started = time.process_time()
        right = [float((predict(X[train], y[train], X[test]) == y[test]).mean()) for train, test in folds]
        seconds = (time.process_time() - started) / FOLDS
        found[method] = {"accuracy": round(100 * float(np.mean(right)), 1), "seconds": round(seconds, 1)}
    return found


def table() -> str:
    """Methods down, tables across."""
    results = json.loads(RESULTS.read_text())
    rows = []
    for method, name in NAMES.items():
        cells = [f"{found[method]['accuracy']:.1f} ({found[method]['seconds']:.1f} s)" for found in results.values()]
        rows.append([name, *cells])
    return markdown(["accuracy in percent", *results], rows)


def main() -> None:
    """Run, or print the table."""
    parser = argparse.ArgumentParser(prog="python -m experiments.ordinary", description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--table", action="append", default=[])
    parser.add_argument("--method", action="append", choices=tuple(METHODS))
    options = parser.parse_args()
    if options.what == "run":
        results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        for name in options.table:
            results[name] = results.get(name, {}) | run(name, options.method or list(METHODS))
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(table())


if __name__ == "__main__":
    main()
