"""Accuracy at a size: `python -m benchmarks.size`, `make bench-size`.

Trees of the same number of leaves and of terms a split, side by side, on the tables of two folders of TREELU_DATA.
`uci`: the oblique-tree literature's protocol, ten runs (abalone: five fixed shuffles). `tables`: five folds. Each cell
(table, method, budget) is written as soon as it is done, and is not run again:

    python -m benchmarks.size                     everything, in the order of `BUDGETS`; large tables last
    python -m benchmarks.size --suite uci
    python -m benchmarks.size --suite uci --runs 100 --only wine-red      more runs, into cells of their own
    python -m benchmarks.size --suite tables --leaves 16 --terms all 1 --max-rows 5000
    python -m benchmarks.size --suite defaults --methods treelu constant
    python -m benchmarks.size --report            tables and pictures of docs/size.md from what has been run
"""

from __future__ import annotations

import argparse
import copy
import math
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from benchmarks.report import read_json, write_json
from benchmarks.size_peers import PEERS
from benchmarks.tables import data_home
from experiments.baselines import TAOClassifier, TAORegressor
from treelu import LCNClassifier, LCNRegressor, ObliqueTree, ObliqueTreeClassifier, ObliqueTreeRegressor
from treelu.training.small.fit import FittedTree
from treelu.training.small.selection import chosen_size

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "size"
LEAVES, TERMS = (2, 4, 8, 16, 32), (1, 2, 4, None)
LARGE = 10_000  # rows of a table that is left to the end
RUNS = 10  # of the literature's tables
APART, MOST_SECONDS = ("obliquetree",), 300  # methods that run in a process of their own, and how long a cell may take


class Budget(NamedTuple):
    """The most leaves, and the most terms of a split (None: all)."""

    leaves: int
    terms: int | None

    @property
    def name(self) -> str:
        """As in the files: "16 leaves, 2 terms"."""
        return f"{self.leaves} leaves, {self.terms or 'all'} terms"

    @property
    def title(self) -> str:
        """The name, or "default"."""
        return self.name if self.leaves else "default"

    @property
    def depth(self) -> int:
        """Of the complete tree with that many leaves."""
        return (self.leaves - 1).bit_length()


DEFAULT = Budget(0, None)  # a method without arguments
BUDGETS = [Budget(16, None), Budget(16, 1), DEFAULT, Budget(8, None), Budget(8, 4), Budget(4, None), Budget(16, 4)]
BUDGETS += [Budget(leaves, terms) for leaves in LEAVES for terms in TERMS if Budget(leaves, terms) not in BUDGETS]


class Task(NamedTuple):
    """A table and how it is parted."""

    suite: str
    name: str
    is_classifier: bool
    X: np.ndarray
    y: np.ndarray
    parts: list[tuple[np.ndarray, np.ndarray]]

    @property
    def is_literature(self) -> bool:
        """Whether the table is parted as in the literature, and not into folds."""
        return self.suite != "tables"


# Tables


def read_table(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Features and the last column."""
    table = pd.read_csv(path)
    return table.drop(columns="target").to_numpy(float), table["target"].to_numpy()


def uci_tasks(runs: int) -> Iterator[Task]:
    """The tables of the literature, half for training and a quarter for testing; and abalone, whose shuffles are fixed.

    Other numbers of runs than the usual one are a suite of their own.
    """
    suite = "uci" if runs == RUNS else f"uci-{runs}"
    for path in sorted((data_home() / "uci").glob("*.csv.gz")):
        X, y = read_table(path)
        parts = []
        for run in range(runs):
            train, rest = train_test_split(np.arange(len(y)), test_size=0.5, random_state=run, stratify=y)
            _, test = train_test_split(rest, test_size=0.5, random_state=run, stratify=y[rest])
            parts.append((train, test))
        yield Task(suite, path.name.split(".")[0], True, X, y, parts)
    if runs != RUNS:
        return
    shuffles = [np.load(data_home() / "uci" / f"abalone-{shuffle}.npz") for shuffle in range(5)]
    X = np.concatenate([np.concatenate([part["X_train"], part["X_test"]]) for part in shuffles])
    y = np.concatenate([np.concatenate([part["y_train"].ravel(), part["y_test"].ravel()]) for part in shuffles])
    parts, start = [], 0
    for part in shuffles:
        middle, end = start + len(part["X_train"]), start + len(part["X_train"]) + len(part["X_test"])
        parts.append((np.arange(start, middle), np.arange(middle, end)))
        start = end
    yield Task("uci", "abalone", False, X, y, parts)


def table_tasks(max_rows: int | None) -> Iterator[Task]:
    """The tables of `tables`, smallest first, five folds."""
    found = []
    for kind in ("classification", "regression"):
        for path in (data_home() / "tables" / kind).glob("*.csv.gz"):
            found.append((path.stat().st_size, path.name.split(".")[0], kind, path))
    for _, name, kind, path in sorted(found):
        X, y = read_table(path)
        if max_rows is not None and len(X) > max_rows:
            continue
        folds: Any = StratifiedKFold if kind == "classification" else KFold
        with warnings.catch_warnings(action="ignore"):  # of classes with fewer rows than folds
            parts = list(folds(5, shuffle=True, random_state=0).split(X, y))
        yield Task("tables", name, kind == "classification", X, y, parts)


# Methods


def ours(task: Task, budget: Budget, seed: int) -> Any:
    """The best size within the budget, by cross-validation in the training rows; no arguments for the default."""
    kind: Any = ObliqueTreeClassifier if task.is_classifier else ObliqueTreeRegressor
    if budget == DEFAULT:
        return kind(random_state=seed, n_jobs=1)
    limits = {"max_leaf_nodes": budget.leaves, "max_terms": budget.terms, "selection": "best"}
    return kind(**limits, random_state=seed, n_jobs=1)


def from_path(task: Task, budgets: list[Budget]) -> dict[Budget, dict[str, list[float]]]:
    """Cells of all budgets from one fit for each part: its path holds every size, and what held-out rows say of it.

    The fit has the default's arguments, but for leaves where a budget has more, and for one and two terms, whose trees
    start elsewhere (``max_terms``). A budget's tree is the step within it that ``selection="best"`` chooses.
    """
    kind: Any = _Remembering if task.is_classifier else _RememberingRegressor
    most, limits = max(budget.leaves for budget in budgets), _own_terms(budgets[0])
    limits |= {"max_leaf_nodes": most} if most > 16 else {}
    found: dict[Budget, dict[str, list[float]]] = {budget: {} for budget in budgets}
    for seed, (train, test) in enumerate(task.parts):
        model = kind(random_state=seed, n_jobs=1, **limits)
        started = time.process_time()
        with warnings.catch_warnings(action="ignore"):
            model.fit(task.X[train], task.y[train])
        seconds = time.process_time() - started
        for budget in budgets:
            add_record(found[budget], {"seconds": seconds, **score(task, model.at_most(budget), test)})
    return found


def _own_terms(budget: Budget) -> dict[str, int]:
    """The argument of a fit for few terms, which has starts of its own."""
    return {"max_terms": budget.terms} if budget.terms in (1, 2) else {}


class _Remembers:
    """Keeps the fit with all trees and losses of its path."""

    fitted: FittedTree

    def _set_fitted(self, fitted: FittedTree) -> None:
        super()._set_fitted(fitted)  # type: ignore[misc]
        self.fitted = fitted

    def at_most(self, budget: Budget) -> Any:
        """This model with the best tree of constant leaves within a budget."""
        if budget == DEFAULT or not self.fitted.training.losses:
            return self
        terms = math.inf if budget.terms is None else budget.terms
        losses = self.fitted.training.losses
        within = {
            size: found.typical_size
            for size, found in losses.items()
            if size.leaves <= budget.leaves and size.terms <= terms and size.formula is None
        }
        model: Any = copy.copy(self)
        model.tree_ = self.fitted.training.tree(chosen_size(losses, within, "best"))
        return model


class _Remembering(_Remembers, ObliqueTreeClassifier):
    pass


class _RememberingRegressor(_Remembers, ObliqueTreeRegressor):
    pass


def linear(task: Task, budget: Budget, seed: int) -> Any:
    """The same with linear leaves, on abalone only."""
    limits = {"max_leaf_nodes": budget.leaves, "max_terms": budget.terms, "selection": "best"}
    return ObliqueTreeRegressor(**limits, linear_leaves=True, random_state=seed, n_jobs=1)


def cart(task: Task, budget: Budget, seed: int) -> Any:
    """scikit-learn's tree, grown best first."""
    kind: Any = DecisionTreeClassifier if task.is_classifier else DecisionTreeRegressor
    return kind(max_leaf_nodes=budget.leaves, random_state=seed)


def tao(task: Task, budget: Budget, seed: int) -> Any:
    """The TAO baseline, from a tree of the depth that gives the leaves."""
    kind: Any = TAOClassifier if task.is_classifier else TAORegressor
    return make_pipeline(StandardScaler(), kind(max_depth=budget.depth, random_state=seed))


def lcn(task: Task, budget: Budget, seed: int) -> Any:
    """The large tree, without arguments."""
    return (LCNClassifier if task.is_classifier else LCNRegressor)(random_state=seed)


def constant(task: Task, budget: Budget, seed: int) -> Any:
    """The majority class, or the mean."""
    return DummyClassifier() if task.is_classifier else DummyRegressor()


def forest(task: Task, budget: Budget, seed: int) -> Any:
    """What many trees reach on the literature's tables, for a ceiling; nobody can read it."""
    kind: Any = RandomForestClassifier if task.is_classifier else RandomForestRegressor
    return kind(500, random_state=seed)


def suits(method: str, budget: Budget, task: Task) -> bool:
    """Whether a method can be held to a budget."""
    if method in ("LCN", "constant"):
        return budget == DEFAULT
    if method == "forest":  # beside the others of the column, though it keeps to no budget
        return task.is_literature and budget == Budget(16, None)
    if method == "linear":
        return task.name == "abalone" and budget == Budget(16, None)
    if budget == DEFAULT:
        return method == "treelu"
    if method == "CART":
        return budget.terms == 1
    if method == "TAO":
        return budget.terms is None
    if method == "STree":
        return budget.terms is None and task.is_classifier
    return method == "treelu" or budget.terms != 1


METHODS: dict[str, Callable[[Task, Budget, int], Any]] = {
    "CART": cart, "constant": constant, "treelu": ours, "linear": linear, "TAO": tao, **PEERS, "LCN": lcn,
    "forest": forest,
}  # fmt: skip


# Running


def tree_size(model: Any) -> dict[str, float]:
    """Leaves, and the median of the splits' terms, where the model is one of our trees or scikit-learn's."""
    model = model[-1] if hasattr(model, "steps") else model
    tree = getattr(model, "tree_", None)
    if isinstance(tree, ObliqueTree):
        weights: Any = tree.weights
        terms = np.asarray((weights != 0).sum(axis=1)).ravel()
        return {"leaves": tree.n_leaves, "terms": float(np.median(terms)) if len(terms) else 0.0}
    if isinstance(getattr(model, "n_leaves", None), int):  # a peer's
        return {"leaves": model.n_leaves}
    return {"leaves": int(tree.n_leaves), "terms": 1.0} if hasattr(tree, "n_leaves") else {}


def run_cell(task: Task, method: str, budget: Budget) -> dict[str, list[float]]:
    """Scores, sizes and processor seconds, part by part."""
    found: dict[str, list[float]] = {}
    for seed, (train, test) in enumerate(task.parts):
        model = METHODS[method](task, budget, seed)
        started = time.process_time()
        with warnings.catch_warnings(action="ignore"):
            model.fit(task.X[train], task.y[train])
        add_record(found, {"seconds": time.process_time() - started, **score(task, model, test)})
    return found


def run_apart(task: Task, method: str, budget: Budget, seconds: float) -> dict[str, list[float]] | str:
    """`run_cell` in a process of its own, which may crash or take too long; then a word on that."""
    context = multiprocessing.get_context("forkserver")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_cell, args=(sender, task, method, budget))
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(seconds) else f"took more than {seconds:g} s"
    except EOFError:
        return "ended the process"
    finally:
        process.kill()
        process.join()


def _send_cell(sender: Any, task: Task, method: str, budget: Budget) -> None:
    sender.send(run_cell(task, method, budget))


def score(task: Task, model: Any, test: np.ndarray) -> dict[str, float]:
    """Size and scores of a fitted model."""
    predicted = np.asarray(model.predict(task.X[test])).ravel()
    record: dict[str, float] = tree_size(model)
    if not task.is_classifier:
        error = np.mean((predicted - task.y[test]) ** 2)
        return {**record, "rmse": float(np.sqrt(error)), "score": float(1 - error / np.var(task.y[test]))}
    record["score"] = float(np.mean(predicted == task.y[test]))
    if hasattr(model, "predict_proba") and hasattr(model, "classes_"):
        with warnings.catch_warnings(action="ignore"):
            chances = model.predict_proba(task.X[test])
            if np.isfinite(chances).all():  # STree's are not always
                record["log_loss"] = float(log_loss(task.y[test], chances, labels=model.classes_))
    return record


def add_record(found: dict[str, list[float]], record: dict[str, float]) -> None:
    """Add one part's figures to a cell."""
    for name, value in record.items():
        found.setdefault(name, []).append(round(float(value), 6))


def run(task: Task, methods: list[str], budgets: list[Budget], console: Console) -> None:
    """Run the cells of a table that are not there yet."""
    for method in methods:
        path = RESULTS / task.suite / f"{task.name}-{method}.json"
        done = read_json(path)
        failed = done.setdefault("failed", {}) if method in APART else {}
        open_ones = [b for b in budgets if suits(method, b, task) and b.title not in {*done["parts"], *failed}]
        groups, is_path = [[budget] for budget in open_ones], method == "treelu" and not task.is_literature
        if is_path:  # one fit for all sizes up to 16 leaves, one beyond; one and two terms have their own
            kinds = {budget: (budget.leaves > 16, _own_terms(budget).get("max_terms")) for budget in open_ones}
            groups = [[b for b in open_ones if kinds[b] == kind] for kind in dict.fromkeys(kinds.values())]
        for group in groups:
            cells: dict[Budget, Any]
            if method in APART:
                cells = {group[0]: run_apart(task, method, group[0], MOST_SECONDS)}
            else:
                cells = from_path(task, group) if is_path else {group[0]: run_cell(task, method, group[0])}
            for budget, cell in cells.items():
                if isinstance(cell, str):
                    failed[budget.title] = cell
                    console.print(f"{task.name}, {method}, {budget.title}: {cell}")
                    continue
                done["parts"][budget.title] = cell
                console.print(
                    f"{task.name}, {method}, {budget.title}: {np.mean(cell['score']):.4f} ± "
                    f"{np.std(cell['score']):.4f}, {np.sum(cell['seconds']):.0f} s"
                )
            shape = {"rows": len(task.X), "features": task.X.shape[1]}
            write_json({**done, **shape, "classes": len(np.unique(task.y)) if task.is_classifier else 0}, path)


def run_all(tasks: list[Task], methods: list[str], budgets: list[Budget], console: Console) -> None:
    """The literature's tables first; then budget after budget, method after method, all tables; large tables last."""
    groups = [
        [task for task in tasks if task.is_literature],
        [task for task in tasks if not task.is_literature and len(task.X) <= LARGE],
        [task for task in tasks if not task.is_literature and len(task.X) > LARGE],
    ]
    for group in groups:
        for budget in budgets:
            for method in methods:
                if method == "treelu" and group and not group[0].is_literature:  # all sizes from few fits
                    for few in ([b for b in budgets if b.leaves <= 16], budgets) if budget == budgets[0] else ():
                        for task in group:
                            run(task, [method], few, console)
                    continue
                # an ordinary tree has one term whatever is allowed
                limit = Budget(budget.leaves, 1) if method == "CART" and budget != DEFAULT else budget
                for task in group:
                    if not task.is_literature or limit in (Budget(16, None), Budget(16, 1)):
                        run(task, [method], [limit], console)


def main() -> None:
    """Parse the arguments, run what is missing, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=["uci", "tables", "defaults", "all"], default="all")
    parser.add_argument("--only", nargs="+", help="names of tables")
    parser.add_argument("--methods", nargs="+", choices=METHODS)
    parser.add_argument("--leaves", nargs="+", type=int, default=list(LEAVES))
    parser.add_argument("--terms", nargs="+", default=["all", "1", "2", "4"])
    parser.add_argument("--max-rows", type=int)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--report", action="store_true", help="only write the page from what has been run")
    options = parser.parse_args()
    console = Console()
    terms = [None if word == "all" else int(word) for word in options.terms]
    if not options.report:
        tasks = [
            *(uci_tasks(options.runs) if options.suite in ("uci", "all") else ()),
            *(table_tasks(options.max_rows) if options.suite != "uci" else ()),
        ]
        tasks = [task for task in tasks if not options.only or task.name in options.only]
        budgets = [budget for budget in BUDGETS if budget.leaves in options.leaves and budget.terms in terms]
        if options.suite in ("defaults", "all"):
            budgets = [DEFAULT] if options.suite == "defaults" else [b for b in BUDGETS if b in budgets or b == DEFAULT]
        run_all(tasks, options.methods or list(METHODS), budgets, console)
    from benchmarks.size_page import refresh

    refresh(RESULTS, ROOT / "docs" / "size.md", RESULTS.parent / "notes" / "size.md")


if __name__ == "__main__":
    main()
