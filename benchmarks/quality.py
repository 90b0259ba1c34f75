"""Accuracy on tables, side by side with peers: `python -m benchmarks.quality`, `make bench-quality`.

The oblique-tree literature's protocol: per run a stratified half of the rows for training, a stratified half of the
rest for testing, accuracy at the end of training, mean over runs. One setting, `LCNClassifier()`, for all tables.
Results go to benchmarks/results/quality.json as they come; the tables of docs/quality.md are written from it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score, root_mean_squared_error
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from benchmarks.report import markdown
from benchmarks.tables import data_home
from experiments.baselines import TAOClassifier
from experiments.datasets import load_moleculenet
from experiments.members import ensemble
from treelu import LCNClassifier, LCNRegressor, LLNRegressor, ObliqueTree
from treelu.chem import MorganFingerprint

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
# an average of trees instead of the paper's boosting, chosen on the validation part of the PDBbind table
AVERAGED: dict[str, Any] = {
    "member": "lcn", "combine": "average", "bootstrap": True, "feature_fraction": 0.3, "n_estimators": 64,
    "drop_connect": 0.0, "annealing": 0.5, "straight_through": True, "epochs": 30, "batch_size": 64,
    "schedule": "cosine",
}  # fmt: skip
# boosting in small steps of smooth members on drawn rows and features, chosen on earlier years of the training rows
SMALL_STEPS: dict[str, Any] = {
    **AVERAGED, "member": "alcn", "combine": "boost", "shrinkage": 0.03, "first_shrinkage": 0.03, "n_estimators": 80,
}  # fmt: skip
STEPS, STUDENT = "ELCN in small steps", "LCN fitted to its predictions"
MARKER = "<!-- tables: written by benchmarks.quality -->"
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


def run_table(X: np.ndarray, y: np.ndarray, runs: Iterable[int], methods: list[str] | None) -> dict[str, Any]:
    """Accuracy, calibration, size and seconds of each method, one list over runs each."""
    found: dict[str, Any] = {}
    for run in runs:
        X_train, X_test, y_train, y_test = split_of(X, y, run)
        for method, estimator in classifiers(run).items():
            if methods and method not in methods:
                continue
            started = time.process_time()
            estimator.fit(X_train, y_train)
            record = {
                "accuracy": float(100 * estimator.score(X_test, y_test)),
                "ece": expected_calibration_error(y_test, estimator.predict_proba(X_test), estimator.classes_),
                "seconds": time.process_time() - started,
                **tree_size(estimator, X_train),
            }
            _add(found, method, record)
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


def run_pdbbind(home: Path, seeds: Iterable[int], wanted: list[str] | None = None) -> dict[str, Any]:
    """Test RMSE on the PDBbind table, split by release; ensembles with the first three seeds only."""
    data = pd.read_csv(home / "pdbbind" / "rfscore_v2.csv.gz")
    split = json.loads((home / "splits" / "pdbbind.json").read_text())
    X = data.drop(columns=["pdbid", "first_release", "affinity"]).to_numpy(float)
    y = data["affinity"].to_numpy(float)
    fit, test = np.r_[split["train"], split["valid"]], np.array(split["test"])
    found: dict[str, Any] = {}
    for seed in seeds:
        methods = regressors(seed)
        if seed < 3:
            methods["ELCN"] = ensemble("regression", {}, random_state=seed)
            methods["ELCN averaged"] = ensemble("regression", AVERAGED, random_state=seed)
            methods[STEPS] = ensemble("regression", SMALL_STEPS, random_state=seed)
            methods[STUDENT] = LCNRegressor(random_state=seed)  # one tree again
        for method, estimator in methods.items():
            if wanted and method not in wanted:
                continue
            if method == "ELCN":
                estimator.fit(X[split["train"]], y[split["train"]], eval_set=(X[split["valid"]], y[split["valid"]]))
            else:
                estimator.fit(X[fit], methods[STEPS].predict(X[fit]) if method == STUDENT else y[fit])
            rmse = root_mean_squared_error(y[test], estimator.predict(X[test]))
            found.setdefault(method, {}).setdefault("rmse", []).append(float(rmse))
    return found


def run_few_features(home: Path, seeds: Iterable[int]) -> dict[str, Any]:
    """Trees on at most k features: test AUC on Bace by its split, accuracy on breast-cancer by the protocol."""
    molecules = load_moleculenet("bace", data_home=home)
    assert molecules.split is not None
    X, y = MorganFingerprint().fit_transform(molecules.smiles), np.asarray(molecules.y, float).reshape(-1)
    train, valid, test = molecules.split
    fit = np.r_[train, valid]
    cells, classes = load_uci(home, "breast-cancer")
    found: dict[str, Any] = {}
    for seed in seeds:
        for k in (None, 128, 64, 32, 16, 8):
            model = LCNClassifier(max_tree_features=k, random_state=seed).fit(X[fit], y[fit])
            score = roc_auc_score(y[test], model.decision_function(X[test]))
            _add(found, f"Bace, {k or 'all'}", {"score": score, "features": n_features_of(model)})
        X_train, X_test, y_train, y_test = split_of(cells, classes, seed)
        for k in (None, 6, 4, 2):
            model = LCNClassifier(max_tree_features=k, random_state=seed).fit(X_train, y_train)
            score = 100 * model.score(X_test, y_test)
            _add(found, f"breast-cancer, {k or 'all'}", {"score": score, "features": n_features_of(model)})
    return found


def n_features_of(model: LCNClassifier) -> int:
    """How many features the tree's decisions read: those with a weight in some neuron."""
    return int((model.network_.weight != 0).any(axis=1).sum())


def run_times() -> dict[str, Any]:
    """Seconds of `LCNClassifier().fit` on tables of two sizes."""
    found: dict[str, Any] = {}
    for n_rows, n_features in ((1_000, 20), (1_000_000, 50)):
        X, y = make_classification(n_rows, n_features, n_informative=10, flip_y=0.05, random_state=0)
        X = X.astype(np.float32)
        LCNClassifier(epochs=1, random_state=0).fit(X[:200], y[:200])  # kernels are loaded
        started = time.perf_counter()
        LCNClassifier(random_state=0).fit(X, y)
        _add(found, f"{n_rows:,} rows × {n_features} features", {"seconds": time.perf_counter() - started})
    return found


def _add(found: dict[str, Any], name: str, record: dict[str, float]) -> None:
    for key, value in record.items():
        found.setdefault(name, {}).setdefault(key, []).append(float(value))


def load_uci(home: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and classes of a table of the literature."""
    data = pd.read_csv(home / "uci" / f"{name}.csv.gz")
    return data.drop(columns="target").to_numpy(float), data["target"].to_numpy()


def record(name: str, work: Callable[[], dict[str, Any]]) -> None:
    """Run one part and add it to the results, which another process may have added to meanwhile."""
    found, results = work(), read_results()
    results[name] = {**results.get(name, {}), **found}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def read_results() -> dict[str, Any]:
    """All results so far."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def tables(results: dict[str, Any]) -> list[Table]:
    """What was found, as tables to print and to write."""
    return [
        build(results)
        for build, names in (
            (_accuracies, PUBLISHED),
            (_sizes, PUBLISHED),
            (_errors, ("abalone", "pdbbind")),
            (_few_features, ("features",)),
            (_times, ("times",)),
        )
        if any(name in results for name in names)
    ]


def _accuracies(results: dict[str, Any]) -> Table:
    methods = list(classifiers(0))
    literature = list(next(iter(PUBLISHED.values())))
    table = Table(
        "table", *methods, *(f"{name}*" for name in literature), title="Test accuracy (%), mean over runs; * published"
    )
    for name, published in PUBLISHED.items():
        found = results.get(name, {})
        cells = [f"{np.mean(found[m]['accuracy']):.1f}" if m in found else "–" for m in methods]
        table.add_row(name, *cells, *(str(published[each]) for each in literature))
    return table


def _sizes(results: dict[str, Any]) -> Table:
    methods = ("LCN", "CART tuned", "TAO")
    table = Table(
        "table",
        *(f"{m}: leaves, features" for m in methods),
        *(f"{m}: ECE" for m in methods),
        "LCN: accuracy ± deviation",
        "processor seconds a fit",
        title="Size, calibration and time",
    )
    for name in PUBLISHED:
        found = results.get(name, {})
        sizes = [_means(found.get(m, {}), ("leaves", "features"), "{:.0f}") for m in methods]
        errors = [_means(found.get(m, {}), ("ece",), "{:.3f}") for m in methods]
        scores = found.get("LCN", {}).get("accuracy", [])
        spread = f"{np.mean(scores):.2f} ± {np.std(scores):.2f} ({len(scores)} runs)" if scores else "–"
        table.add_row(name, *sizes, *errors, spread, _means(found.get("LCN", {}), ("seconds",), "{:.1f}"))
    return table


def _means(found: dict[str, list[float]], keys: tuple[str, ...], form: str) -> str:
    return ", ".join(form.format(np.mean(found[key])) if key in found else "–" for key in keys)


def _errors(results: dict[str, Any]) -> Table:
    table = Table("table", "method", "test RMSE", "runs", title="Regression")
    for name in ("abalone", "pdbbind"):
        for method, found in results.get(name, {}).items():
            table.add_row(name, method, f"{np.mean(found['rmse']):.3f}", str(len(found["rmse"])))
    return table


def _few_features(results: dict[str, Any]) -> Table:
    table = Table(
        "table, max_features", "features used", "score", "runs", title="Few features: AUC on Bace, accuracy elsewhere"
    )
    for name, found in results["features"].items():
        form = "{:.3f}" if name.startswith("Bace") else "{:.1f}"
        n_used, score = _means(found, ("features",), "{:.0f}"), _means(found, ("score",), form)
        table.add_row(name, n_used, score, str(len(found["score"])))
    return table


def _times(results: dict[str, Any]) -> Table:
    table = Table("table", "seconds", title="Time of LCNClassifier().fit")
    for name, found in results["times"].items():
        table.add_row(name, _means(found, ("seconds",), "{:.1f}"))
    return table


def write_page(results: dict[str, Any], page: Path) -> None:
    """Replace what stands below the page's marker by the tables."""
    text = page.read_text()
    head, marker, _ = text.partition(MARKER)
    if not marker:
        raise ValueError(f"{page.name} must hold the line {MARKER!r}, below which the tables are written")
    parts = [head + marker]
    for table in tables(results):
        columns = [str(column.header) for column in table.columns]
        rows = zip(*(map(str, column.cells) for column in table.columns), strict=True)
        parts.append(f"\n\n## {table.title}\n\n{markdown(columns, rows)}")
    page.write_text("".join(parts) + "\n")


def main() -> None:
    """Run all parts, or those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--only", nargs="*", help="tables, or abalone, pdbbind, features, times")
    parser.add_argument("--methods", nargs="*")
    arguments = parser.parse_args()
    home, wanted = data_home(), arguments.only or [*PUBLISHED, "abalone", "pdbbind", "features", "times"]
    for name in PUBLISHED:
        if name in wanted:
            X, y = load_uci(home, name)
            record(name, lambda X=X, y=y: run_table(X, y, range(arguments.runs), arguments.methods))
    if "abalone" in wanted:
        record("abalone", lambda: run_abalone(home))
    if "pdbbind" in wanted:
        record("pdbbind", lambda: run_pdbbind(home, range(arguments.runs), arguments.methods))
    if "features" in wanted:
        record("features", lambda: run_few_features(home, range(3)))
    if "times" in wanted:
        record("times", run_times)
    results = read_results()
    console = Console()
    for table in tables(results):
        console.print(table)
    write_page(results, ROOT / "docs" / "quality.md")


if __name__ == "__main__":
    main()
