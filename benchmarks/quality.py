"""Accuracy on tables, side by side with peers: `python -m benchmarks.quality`, `make bench-quality`.

The oblique-tree literature's protocol: per run a stratified half of the rows for training, a stratified half of the
rest for testing, accuracy at the end of training, mean over runs. One setting, `LCNClassifier()`, for all tables.
Results go to benchmarks/results/quality.json as they come; docs/quality.md is derived from it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from treelu import ELCNRegressor, LCNClassifier, LCNRegressor, LLNRegressor, ObliqueTree
from treelu.baselines import TAOClassifier

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "quality.json"
# published means of accuracy (per cent): 100 runs, best height up to 4, learning rate set per data set
PUBLISHED = {
    "breast-cancer": {"DTSemNet": 97.2, "DGT": 97.2, "TAO": 94.7, "CART": 94.7},
    "car": {"DTSemNet": 93.3, "DGT": 92.1, "TAO": 84.5, "CART": 84.3},
    "banknote": {"DTSemNet": 99.8, "DGT": 99.8, "TAO": 96.6, "CART": 93.6},
    "balance": {"DTSemNet": 90.2, "DGT": 88.6, "TAO": 77.4, "CART": 74.9},
    "sonar": {"DTSemNet": 82.1, "DGT": 80.8, "TAO": 70.9, "CART": 70.6},
    "optical": {"DTSemNet": 93.3, "DGT": 91.9, "TAO": 64.6, "CART": 53.2},
    "wine-red": {"DTSemNet": 58.6, "DGT": 56.6, "TAO": 56.9, "CART": 55.9},
}
CART_DEPTHS = {"max_depth": [2, 3, 4, 6, 8, 12, None]}


def classifiers(seed: int) -> dict[str, Any]:
    """The methods compared, each as a user would type it."""
    return {
        "LCN": LCNClassifier(random_state=seed),
        "CART depth 4": DecisionTreeClassifier(max_depth=4, random_state=seed),
        "CART tuned": GridSearchCV(DecisionTreeClassifier(random_state=seed), CART_DEPTHS, cv=3),
        "random forest": RandomForestClassifier(random_state=seed),
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
        "TAO": make_pipeline(StandardScaler(), TAOClassifier(max_depth=4, random_state=seed)),
    }


def regressors(seed: int) -> dict[str, Any]:
    """The methods compared on real targets."""
    return {
        "LCN": LCNRegressor(random_state=seed),
        "LLN": LLNRegressor(random_state=seed),
        "CART tuned": GridSearchCV(
            DecisionTreeRegressor(random_state=seed), CART_DEPTHS, cv=3, scoring="neg_root_mean_squared_error"
        ),
        "random forest": RandomForestRegressor(random_state=seed),
    }


def split_of(X: np.ndarray, y: np.ndarray, run: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Half of the rows for training, half of the others for testing, both stratified."""
    X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=0.5, random_state=run, stratify=y)
    _, X_test, _, y_test = train_test_split(X_rest, y_rest, test_size=0.5, random_state=run, stratify=y_rest)
    return X_train, X_test, y_train, y_test


def expected_calibration_error(y: np.ndarray, chances: np.ndarray, classes: np.ndarray, bins: int = 10) -> float:
    """Mean gap between confidence and accuracy over bins of confidence, weighted by their rows."""
    confidence, right = chances.max(axis=1), classes[chances.argmax(axis=1)] == y
    bin_of = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = [abs(confidence[bin_of == b].mean() - right[bin_of == b].mean()) * (bin_of == b).mean() for b in set(bin_of)]
    return float(sum(gaps))


def tree_size(estimator: Any, X: np.ndarray) -> dict[str, int]:
    """Leaves that training rows reach, and distinct features of the decisions, for methods that are one tree."""
    estimator = getattr(estimator, "best_estimator_", estimator)
    estimator = estimator[-1] if hasattr(estimator, "steps") else estimator
    tree = getattr(estimator, "tree_", None)
    if tree is None:
        return {}
    if not isinstance(tree, ObliqueTree):
        return {"leaves": int(tree.n_leaves), "features": len(set(tree.feature[tree.feature >= 0]))}
    weights = tree.weights if isinstance(tree.weights, np.ndarray) else tree.weights.toarray()
    counts = tree.n_samples
    leaves = tree.n_leaves if counts is None else int((counts[tree.n_splits :] > 0).sum())
    return {"leaves": leaves, "features": int((weights != 0).any(axis=0).sum())}


def run_table(
    name: str, X: np.ndarray, y: np.ndarray, runs: Iterable[int], methods: list[str] | None
) -> dict[str, Any]:
    """Accuracy, calibration, size and seconds of each method, one list over runs each."""
    found: dict[str, Any] = {}
    for run in runs:
        X_train, X_test, y_train, y_test = split_of(X, y, run)
        for method, estimator in classifiers(run).items():
            if methods and method not in methods:
                continue
            started = time.perf_counter()
            estimator.fit(X_train, y_train)
            record = {
                "accuracy": float(100 * estimator.score(X_test, y_test)),
                "ece": expected_calibration_error(y_test, estimator.predict_proba(X_test), estimator.classes_),
                "seconds": time.perf_counter() - started,
                **tree_size(estimator, X_train),
            }
            for key, value in record.items():
                found.setdefault(method, {}).setdefault(key, []).append(value)
    return found


def run_abalone(home: Path) -> dict[str, Any]:
    """RMSE on the five fixed shuffles."""
    found: dict[str, Any] = {}
    for shuffle in range(5):
        part = np.load(home / "uci" / f"abalone-{shuffle}.npz")
        for method, estimator in regressors(shuffle).items():
            estimator.fit(part["X_train"], part["y_train"].ravel())
            rmse = root_mean_squared_error(part["y_test"].ravel(), estimator.predict(part["X_test"]))
            found.setdefault(method, {}).setdefault("rmse", []).append(float(rmse))
    return found


def run_pdbbind(home: Path, seeds: Iterable[int]) -> dict[str, Any]:
    """Test RMSE on the PDBbind table, split by release."""
    data = pd.read_csv(home / "pdbbind" / "rfscore_v2.csv.gz")
    split = json.loads((home / "splits" / "pdbbind.json").read_text())
    X = data.drop(columns=["pdbid", "first_release", "affinity"]).to_numpy(float)
    y = data["affinity"].to_numpy(float)
    fit, test = np.r_[split["train"], split["valid"]], np.array(split["test"])
    found: dict[str, Any] = {}
    for seed in seeds:
        methods = regressors(seed)
        methods["ELCN"] = ELCNRegressor(random_state=seed)
        for method, estimator in methods.items():
            if method == "ELCN":
                estimator.fit(X[split["train"]], y[split["train"]], eval_set=(X[split["valid"]], y[split["valid"]]))
            else:
                estimator.fit(X[fit], y[fit])
            rmse = root_mean_squared_error(y[test], estimator.predict(X[test]))
            found.setdefault(method, {}).setdefault("rmse", []).append(float(rmse))
    return found


def load_uci(home: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and classes of a table of the literature."""
    data = pd.read_csv(home / "uci" / f"{name}.csv.gz")
    return data.drop(columns="target").to_numpy(float), data["target"].to_numpy()


def record(name: str, work: Callable[[], dict[str, Any]], results: dict[str, Any]) -> None:
    """Run one part and write all results so far."""
    results[name] = {**results.get(name, {}), **work()}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def tables(results: dict[str, Any]) -> list[Table]:
    """What was found, as tables to print."""
    accuracy = Table(title="Test accuracy, mean over runs (LCN: leaves reached, features used)")
    methods = list(next(iter(r for n, r in results.items() if n in PUBLISHED)))
    for column in ("table", *methods, "ECE LCN / CART tuned", "DTSemNet", "DGT", "TAO*", "CART*"):
        accuracy.add_column(column)
    for name, published in PUBLISHED.items():
        if name not in results:
            continue
        cells = []
        for method in methods:
            found = results[name].get(method, {})
            cell = f"{np.mean(found['accuracy']):.1f}" if found else ""
            if method == "LCN":
                cell += f" ({np.mean(found['leaves']):.0f}, {np.mean(found['features']):.0f})"
            cells.append(cell)
        eces = " / ".join(
            f"{np.mean(results[name][m]['ece']):.3f}" for m in ("LCN", "CART tuned") if m in results[name]
        )
        accuracy.add_row(name, *cells, eces, *(str(value) for value in published.values()))
    errors = Table(title="Test RMSE")
    for column in ("table", "method", "mean", "runs"):
        errors.add_column(column)
    for name in ("abalone", "pdbbind"):
        for method, found in results.get(name, {}).items():
            errors.add_row(name, method, f"{np.mean(found['rmse']):.3f}", str(len(found["rmse"])))
    return [accuracy, errors]


def main() -> None:
    """Run all parts, or those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--only", nargs="*", help="tables, or abalone, pdbbind")
    parser.add_argument("--methods", nargs="*")
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("TREELU_DATA", ROOT.parent / "shared" / "data"))
    )
    arguments = parser.parse_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in PUBLISHED:
        if not arguments.only or name in arguments.only:
            X, y = load_uci(arguments.data, name)
            record(
                name,
                lambda X=X, y=y, name=name: run_table(name, X, y, range(arguments.runs), arguments.methods),
                results,
            )
    if not arguments.only or "abalone" in arguments.only:
        record("abalone", lambda: run_abalone(arguments.data), results)
    if not arguments.only or "pdbbind" in arguments.only:
        record("pdbbind", lambda: run_pdbbind(arguments.data, range(3)), results)
    console = Console()
    for table in tables(results):
        console.print(table)


if __name__ == "__main__":
    main()
