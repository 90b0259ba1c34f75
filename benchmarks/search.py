"""`LCN…CV` beside scikit-learn's `GridSearchCV`: the same grid, folds, losses and rules of choice.

    TREELU_DATA=… python -m benchmarks.search            four small tables, five splits each: some five minutes
    TREELU_DATA=… python -m benchmarks.search --splits 2 --tables glass

For each split of a table, both search the same grid by the same five folds of the training rows. They differ in one
thing: in `LCN…CV` a deeper network starts from the neurons of the shallower one. Both rules of choice are applied to
both tables of losses: the least mean loss, and the smallest depth within one standard error of it. The choice is
fitted to all training rows. Losses are those of the test part, which no search sees; seconds are processor time of the
search.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.base import clone
from sklearn.metrics import log_loss, root_mean_squared_error
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit

from benchmarks.size import read_table
from benchmarks.tables import data_home
from treelu import LCNClassifier, LCNClassifierCV, LCNRegressor, LCNRegressorCV
from treelu.training.selection import choose

TABLES = ("cleveland", "glass", "bodyfat", "machine_cpu")
DEPTHS, DROP_RATES, FOLDS = (2, 4, 8), (0.1, 0.25, 0.5), 5
RULES = {"least loss": False, "one standard error": True}
Records = dict[tuple[str, str], list[dict[str, float]]]  # (rule, search) → a record for each split


def searches(network: Any, folds: Any) -> dict[str, Any]:
    """Both searches, unfitted."""
    is_classifier = isinstance(network, LCNClassifier)
    own: Any = LCNClassifierCV if is_classifier else LCNRegressorCV
    scoring = "neg_log_loss" if is_classifier else "neg_root_mean_squared_error"
    return {
        "LCN…CV": own(depths=DEPTHS, drop_rates=DROP_RATES, cv=folds, random_state=network.random_state),
        "GridSearchCV": GridSearchCV(
            network, {"depth": list(DEPTHS), "drop_connect": list(DROP_RATES)}, scoring=scoring, cv=folds
        ),
    }


def losses_of(search: Any) -> dict[str, np.ndarray]:
    """Depth, drop rate, mean loss and standard error of each setting, whichever search it was."""
    results = search.cv_results_
    if "mean_loss" in results:
        return results
    return {
        "depth": np.asarray(results["param_depth"], int),
        "drop_connect": np.asarray(results["param_drop_connect"], float),
        "mean_loss": -results["mean_test_score"],
        "std_error": results["std_test_score"] / np.sqrt(FOLDS - 1),  # its deviation divides by n, not n - 1
    }


def test_loss(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Log-loss, or the root of the mean squared error in deviations of the target."""
    if isinstance(model, LCNClassifier):
        return float(log_loss(y, model.predict_proba(X), labels=model.classes_))
    return float(root_mean_squared_error(y, model.predict(X)) / y.std())


def run_table(name: str, n_splits: int) -> Records:
    """What each search comes to by each rule on each split of a table."""
    (path,) = (data_home() / "tables").glob(f"*/{name}.csv.gz")
    is_classifier = path.parent.name == "classification"
    X, y = read_table(path)
    outer: Any = StratifiedShuffleSplit if is_classifier else ShuffleSplit
    inner: Any = StratifiedKFold if is_classifier else KFold
    found: Records = {}
    for seed, (train, test) in enumerate(outer(n_splits, test_size=0.3, random_state=0).split(X, y)):
        network = (LCNClassifier if is_classifier else LCNRegressor)(random_state=seed)
        for method, search in searches(network, inner(FOLDS, shuffle=True, random_state=seed)).items():
            started = time.process_time()
            search.fit(X[train], y[train])
            seconds = time.process_time() - started
            table = losses_of(search)
            for rule, small in RULES.items():
                place = choose(table["depth"], table["mean_loss"], table["std_error"], one_standard_error=small)
                setting = {key: table[key][place].item() for key in ("depth", "drop_connect")}
                model = clone(network).set_params(**setting).fit(X[train], y[train])
                record = {"loss": test_loss(model, X[test], y[test]), "seconds": seconds, **setting}
                found.setdefault((rule, method), []).append(record)
    return found


def rows_of(found: Records) -> list[tuple[str, ...]]:
    """A row for each rule and search: means, and the paired difference to GridSearchCV with its standard error."""
    rows = []
    for (rule, method), records in found.items():
        mean = {key: np.mean([record[key] for record in records]) for key in ("loss", "depth", "seconds")}
        others = found[rule, "GridSearchCV"]
        less = [record["loss"] - other["loss"] for record, other in zip(records, others, strict=True)]
        error = np.std(less, ddof=1) / np.sqrt(len(less)) if len(less) > 1 else np.nan
        paired = "" if method == "GridSearchCV" else f"{np.mean(less):+.4f} ± {error:.4f}"
        rows.append((rule, method, f"{mean['loss']:.4f}", paired, f"{mean['depth']:.1f}", f"{mean['seconds']:.1f}"))
    return sorted(rows)


def main() -> None:
    """Run the searches and print a table."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--tables", nargs="*", default=TABLES)
    parser.add_argument("--splits", type=int, default=5)
    options = parser.parse_args()
    heads = ("table", "rule", "search", "test loss", "less GridSearchCV's", "mean depth", "processor s")
    table = Table(*heads, title="log-loss, or RMSE in deviations of the target: lower is better")
    for name in options.tables:
        with warnings.catch_warnings(action="ignore"):
            found = run_table(name, options.splits)
        for row in rows_of(found):
            table.add_row(name, *row)
        table.add_section()
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
