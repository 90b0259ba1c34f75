"""What one checkout of treelu computes, written into a folder: `benchmarks.freeze` runs this file in each of two.

It imports nothing of the repository but ``treelu`` (and the baselines, wherever they live), so that the same file runs
with an older checkout. Every result has a key ``what/table/seed/part``; arrays go to ``arrays.npz``, texts to
``texts.json``, and models to ``models/``.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import importlib
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn import datasets

SEEDS = (0, 1)
SMALL: dict[str, Any] = {"depth": 3, "epochs": 3, "drop_connect": 0.25}
FEW: dict[str, Any] = {"max_leaf_nodes": 4, "n_updates": 20}
STACK: dict[str, Any] = {"n_estimators": 2, "n_trees": 10}


class Data(NamedTuple):
    """Rows to fit, and what goes with them."""

    task: str  # "Classifier" or "Regressor"
    X: Any
    y: Any
    sample_weight: Any = None
    missing: bool = False


def tables() -> dict[str, Data]:
    """Small tables of every kind that estimators take."""
    rng = np.random.default_rng(0)
    iris, classes = datasets.load_iris(return_X_y=True)
    wine, kinds = datasets.load_wine(return_X_y=True, as_frame=True)
    tumours, benign = datasets.load_breast_cancer(return_X_y=True)
    digits, figures = datasets.load_digits(return_X_y=True)
    body, progress = (part[:200] for part in datasets.load_diabetes(return_X_y=True, as_frame=True))
    gaps, body_gaps = wine.to_numpy(copy=True), body.copy()
    gaps[rng.random(gaps.shape) < 0.1] = np.nan
    body_gaps[rng.random(body.shape) < 0.1] = np.nan
    bits = sparse.csr_array((rng.random((150, 40)) < 0.15).astype(float))
    counted = np.asarray(bits[:, :10].sum(axis=1)).ravel()
    labels = np.column_stack([iris[:, 0] > 5.8, iris[:, 1] > 3, classes == 2]).astype(float)
    labels[rng.random(labels.shape) < 0.1] = np.nan
    weight = rng.integers(0, 3, 150).astype(float)
    values = progress.to_numpy()
    return {
        "iris": Data("Classifier", iris, classes),
        "wine": Data("Classifier", wine, np.array(["a", "b", "c"])[kinds]),
        "tumours": Data("Classifier", tumours[:200], benign[:200]),
        "digits": Data("Classifier", digits[:200], figures[:200]),
        "noise": Data("Classifier", rng.normal(size=(120, 3)), rng.integers(0, 2, 120)),
        "sparse": Data("Classifier", bits, (counted > 1).astype(int)),
        "weights": Data("Classifier", iris, classes, weight),
        "gaps": Data("Classifier", gaps, kinds.to_numpy(), missing=True),
        "labels": Data("Classifier", iris, labels),
        "diabetes": Data("Regressor", body, values),
        "two values": Data("Regressor", body.to_numpy(), np.column_stack([values, np.sqrt(values)])),
        "sparse values": Data("Regressor", bits, counted + rng.normal(size=150)),
        "weighted values": Data("Regressor", body.to_numpy()[:150], values[:150], weight),
        "values with gaps": Data("Regressor", body_gaps, values, missing=True),
    }


class Names:
    """Classes of this checkout by the names of the older one; ``renamed`` maps those that differ.

    ``{"StackedClassifier(stack)": {"class": "ELCNClassifier", "parameters": {"n_trees": null}}}`` renames the class of
    the case ``stack`` and leaves a parameter out; a key without a case holds for all cases of a class, and a new name
    of the parameter may stand in place of null.
    """

    def __init__(self, renamed: dict[str, Any]) -> None:
        self.renamed = renamed

    def make(self, case: str, name: str, **parameters: Any) -> Any:
        """An unfitted estimator."""
        known = self.renamed.get(f"{name}({case})") or self.renamed.get(name) or {}
        for old, new in known.get("parameters", {}).items():
            value = parameters.pop(old, None)
            if new is not None and value is not None:
                parameters[new] = value
        return self._find(known.get("class", name))(**parameters)

    @staticmethod
    def _find(name: str) -> Any:
        for module in ("treelu", "treelu.baselines", "experiments.baselines"):
            with contextlib.suppress(ImportError, AttributeError):
                return getattr(importlib.import_module(module), name)
        raise LookupError(f"this checkout has no class {name}; name its new one with --renamed")


def estimators(names: Names, data: Data, seed: int) -> dict[str, Callable[[], Any]]:
    """Estimators for a table, each made when called."""
    task = data.task
    gaps = {"missing": "indicator"} if data.missing else {}

    def network(family: str, **parameters: Any) -> Any:
        return names.make(family.lower(), f"{family}{task}", **{**gaps, **parameters})

    def ensemble(case: str, member: str, **parameters: Any) -> Any:
        return names.make(case, f"ELCN{task}", estimator=network(member, **SMALL), random_state=seed, **parameters)

    def stack() -> Any:
        return names.make("stack", f"Stacked{task}", estimator=network("ALCN", **SMALL), random_state=seed, **STACK)

    def tree(case: str, **parameters: Any) -> Any:
        return names.make(case, f"ObliqueTree{task}", **{**FEW, **gaps, **parameters}, n_jobs=1, random_state=seed)

    return {
        "lcn": lambda: network("LCN", epochs=3, random_state=seed),
        "alcn": lambda: network("ALCN", **SMALL, random_state=seed),
        "lln": lambda: network("LLN", epochs=3, random_state=seed),
        "stack": stack,
        "boost": lambda: ensemble("boost", "LCN", n_estimators=3, combine="boost"),
        "average": lambda: ensemble("average", "LCN", n_estimators=2, combine="average", feature_fraction=0.7),
        "tree": lambda: tree("tree"),
        "tree of two terms": lambda: tree("tree of two terms", max_terms=2, teacher=None, selection="best"),
        "hhcart": lambda: names.make("hhcart", f"HHCART{task}", max_depth=3),
        "tao": lambda: names.make("tao", f"TAO{task}", max_depth=3, random_state=seed),
    }


def variants(names: Names, seed: int) -> Iterator[tuple[str, str, str, Callable[[], Any]]]:
    """Less usual parameters and ways to fit: name, table, way to fit, and what makes the estimator."""
    makers: list[tuple[str, str, str, str, dict[str, Any]]] = [
        ("default lcn", "iris", "fit", "LCNClassifier", {}),
        ("default lcn", "diabetes", "fit", "LCNRegressor", {}),
        ("default lln", "diabetes", "fit", "LLNRegressor", {}),
        ("default tree", "iris", "fit", "ObliqueTreeClassifier", {}),
        ("default stack", "tumours", "fit", "StackedClassifier", STACK),
        ("partial_fit", "iris", "partial", "LCNClassifier", SMALL),
        ("partial_fit", "diabetes", "partial", "LLNRegressor", SMALL),
        ("warm start", "iris", "twice", "ALCNClassifier", {**SMALL, "warm_start": True}),
        ("warm start of boosting", "diabetes", "more members", "ELCNRegressor",
         {"n_estimators": 2, "combine": "boost", "warm_start": True}),
        ("eval_set", "tumours", "eval_set", "LCNClassifier", SMALL),
        ("early stopping", "diabetes", "fit", "LCNRegressor", {**SMALL, "epochs": 8, "early_stopping": 2}),
        ("hidden layers", "iris", "fit", "LCNClassifier", {**SMALL, "hidden_layers": (4, 3)}),
        ("few features", "wine", "fit", "LCNClassifier", {**SMALL, "max_tree_features": 4}),
        ("balanced", "digits", "fit", "LCNClassifier", {**SMALL, "class_weight": "balanced"}),
        ("refined leaves", "iris", "fit", "LCNClassifier",
         {**SMALL, "training": {"refine_leaves": True, "n_init": 2, "negative_slope": 0.1}}),
        ("the paper's training", "tumours", "fit", "LCNClassifier", {**SMALL, "training": {
            "annealing": 1.0, "straight_through": False, "optimizer": "sgd", "schedule": "step", "temper": False}}),
        ("threads", "labels", "fit", "LCNClassifier", {**SMALL, "n_jobs": 2}),
        ("linear leaves", "diabetes", "fit", "ObliqueTreeRegressor", {**FEW, "linear_leaves": True}),
        ("monotonic", "tumours", "fit", "ObliqueTreeClassifier",
         {**FEW, "monotonic_cst": [-1] * 30, "class_weight": "balanced"}),
        ("rounded", "wine", "fit", "ObliqueTreeClassifier", {**FEW, "round_weights": 0.05, "shrinkage": 2.0}),
    ]  # fmt: skip
    for name, table, way, kind, parameters in makers:
        given = {**parameters, "random_state": seed}
        yield name, table, way, lambda name=name, kind=kind, given=given: names.make(name, kind, **given)


def fit(model: Any, data: Data, way: str) -> Any:
    """Fit an estimator in one of several ways."""
    X, y = data.X, data.y
    if way == "partial":
        known = {"classes": np.unique(y)} if data.task == "Classifier" else {}
        for rows in (slice(0, None, 2), slice(1, None, 2)):
            model.partial_fit(X.iloc[rows] if hasattr(X, "iloc") else X[rows], y[rows], **known)
        return model
    if way == "eval_set":
        return model.fit(X[::2], y[::2], eval_set=(X[1::2], y[1::2]))
    weight = {} if data.sample_weight is None else {"sample_weight": data.sample_weight}
    model.fit(X, y, **weight)
    if way == "more members":
        model.set_params(n_estimators=model.n_estimators + 1)
    return model.fit(X, y, **weight) if way in ("twice", "more members") else model


def plain(value: Any) -> Any:
    """A result as lists, numbers and texts, without the names of its classes."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, pd.DataFrame):
        return {str(column): plain(value[column].to_numpy()) for column in value}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.to_json() if hasattr(value, "to_json") else str(value)


# what no two runs share: dates, and the seconds of epochs
_CLOCK = re.compile(r"(?<=trained: )\d{4}-\d\d-\d\d|(?<=\"seconds\":)\s*(\[[^\]]*\]|[-+.\de]+)")
# trees to ask
QUERIED = {"tree/iris/0", "tree/diabetes/0", "linear leaves/diabetes/0", "few features/wine/0"}
METHODS = ("predict", "predict_proba", "decision_function", "apply")
ARRAYS = ("feature_importances_", "training_losses_")
RESULTS = ("cv_results_", "path_", "history_")


def outputs(model: Any, X: Any) -> Iterator[tuple[str, Any]]:
    """What a fitted model gives: each part with its name."""
    for name in METHODS:
        if hasattr(model, name):
            with contextlib.suppress(NotImplementedError, AttributeError, TypeError, ValueError):
                yield name, getattr(model, name)(X)
    for name in (*ARRAYS, *RESULTS):
        with contextlib.suppress(Exception):  # what a model does not have differs, and is the same in both checkouts
            found = getattr(model, name)
            yield name, found if name in ARRAYS else json.dumps(plain(found))
    with contextlib.suppress(Exception):
        yield "tree_", model.tree_.to_json()
    with contextlib.suppress(Exception):
        yield "trees_", json.dumps([tree.to_json() for tree in model.trees_])


class Record:
    """Results by key, and the folder they are written to."""

    def __init__(self, folder: Path, names: Names) -> None:
        self.folder, self.names = folder, names
        self.arrays: dict[str, np.ndarray] = {}
        self.texts: dict[str, str] = {}
        (folder / "models").mkdir(parents=True)

    def put(self, key: str, value: Any) -> None:
        """Keep one result."""
        if isinstance(value, bytes):
            value = hashlib.sha256(value).hexdigest()
        if isinstance(value, str):
            self.texts[key] = _CLOCK.sub("(time)", value)
        else:
            array = np.asarray(value)
            self.arrays[key] = array.astype(str) if array.dtype == object else array

    def fitted(self, key: str, make: Callable[[], Any], data: Data, way: str = "fit") -> None:
        """Fit, keep all that the model gives, its files and what was warned of; an error is a result too."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model = fit(make(), data, way)
            except LookupError:
                raise
            except Exception as error:  # such as a small tree for several labels
                self.put(f"{key}/error", f"{type(error).__name__}: {error}")
                return
        self.put(f"{key}/warnings", "\n".join(sorted({str(warning.message) for warning in caught})))
        with warnings.catch_warnings(action="ignore"):
            for part, value in outputs(model, data.X):
                self.put(f"{key}/{part}", value)
            self._saved(key, model)
        if key in QUERIED:
            record_queries(self, f"query {key}", model.tree_, data.X)

    def _saved(self, key: str, model: Any) -> None:
        folder = self.folder / "models" / key
        model.save(folder)
        manifest = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        self.put(f"{key}/saved arrays", manifest["arrays"]["sha256"])
        self.put(f"{key}/saved manifest", json.dumps(manifest["model"]))

    def write(self) -> None:
        """Write everything."""
        np.savez(self.folder / "arrays.npz", **self.arrays)
        (self.folder / "texts.json").write_text(json.dumps(self.texts), encoding="utf-8")


def record_queries(record: Record, key: str, tree: Any, X: Any) -> None:
    """Texts, exports and exact answers of a tree."""
    rows = np.asarray(X, dtype=float)[::40]
    for name in ("export_text", "export_graphviz", "to_sql", "to_c", "to_javascript", "to_python", "to_onnx"):
        record.put(f"{key}/{name}", getattr(tree, name)())
    change = {} if tree.is_classifier else {"change": 10.0}
    other = {} if tree.is_classifier else {"at_least": 200.0}
    last = {"target": tree.classes[-1]} if tree.is_classifier else {}
    asked: dict[str, Callable[[], Any]] = {
        **{f"describe {i}": lambda row=row: tree.describe(row) for i, row in enumerate(rows)},
        **{
            f"counterfactual {norm} {i}": lambda row=row, norm=norm: tree.counterfactual(row, norm=norm, **other)
            for norm in ("l1", "l2", "linf")
            for i, row in enumerate(rows)
        },
        "counterfactual kept": lambda: tree.counterfactual(rows[0], keep=[0], rise=[1], max_changes=2, n=2, **other),
        "counterfactual integers": lambda: tree.counterfactual(np.round(rows[0]), whole=[0, 1], **other),
        "robustness": lambda: tree.robustness(rows, **change),
        "output_range": lambda: tree.output_range((rows.min(axis=0), rows.max(axis=0)), **last),
        "rises": lambda: tree.rises(0, **last),
        "independent": lambda: tree.independent(0, **last),
        "at_most": lambda: tree.at_most(0.9, **last),
        "shap_values": lambda: tree.shap_values(rows, rows, **last),
        "prune": lambda: tree.prune(X).to_json(),
    }
    for name, ask in asked.items():
        try:
            answer: Any = ask()
            record.put(f"{key}/{name}", f"{answer}\n{json.dumps(plain(answer))}")
        except Exception as error:
            record.put(f"{key}/{name}", f"{type(error).__name__}: {error}")


COMMANDS = {
    "fit": "fit t.csv --target bought --out model --leaves 4 --no-compare",
    "fit lcn": "fit t.csv --target income --method lcn --depth 3 --epochs 3 --drop-connect 0.2 --out large",
    "predict": "predict model few.csv",
    "predict json": "predict large few.csv --json",
    **{f"export {kind}": f"export model --format {kind}" for kind in ("text", "json", "sql", "python")},
    "ask": "ask model few.csv --keep city",
    "verify": "verify model --rises age --json",
    "wrong": "fit t.csv --target nothing --out other",
}


def record_commands(record: Record, folder: Path) -> None:
    """Output, exit code and files of the command line on a small table with text and gaps."""
    rng, n = np.random.default_rng(0), 160
    table = pd.DataFrame({"age": rng.integers(18, 80, n), "income": rng.normal(50, 15, n).round(2)})
    table["city"] = rng.choice(["Rome", "Oslo", "Bonn"], n)
    table["bought"] = np.where(table["income"] + 0.5 * table["age"] + 8 * rng.normal(size=n) > 75, "yes", "no")
    table.loc[::17, "age"] = np.nan
    folder.mkdir()
    table.to_csv(folder / "t.csv", index=False)
    table.head(6).to_csv(folder / "few.csv", index=False)
    for name, command in COMMANDS.items():
        words = [sys.executable, "-P", "-m", "treelu", *command.split()]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        record.put(f"command/{name}/output", done.stdout)
        record.put(f"command/{name}/messages", f"{done.stderr}\nexit code {done.returncode}")
    for path in sorted(folder.glob("*/*")):
        if path.suffix != ".safetensors" and path.name != "model.json":
            record.put(f"command/files/{path.relative_to(folder)}", path.read_text(encoding="utf-8"))


def record_all(record: Record, only: str, scratch: Path) -> None:
    """All cases whose key contains a text."""
    known = tables()
    for seed in SEEDS:
        for table, data in known.items():
            for name, make in estimators(record.names, data, seed).items():
                if re.search(only, key := f"{name}/{table}/{seed}"):
                    record.fitted(key, make, data)
        for name, table, way, make in variants(record.names, seed):
            if re.search(only, key := f"{name}/{table}/{seed}"):
                record.fitted(key, make, known[table], way)
    if re.search(only, "command"):
        record_commands(record, scratch)


def load_earlier(record: Record, earlier: Path) -> None:
    """Predictions of the models that the older checkout saved."""
    import treelu

    known = tables()
    for manifest in sorted((earlier / "models").rglob("model.json")):
        key = str(manifest.parent.relative_to(earlier / "models"))
        with warnings.catch_warnings(action="ignore"):
            model, X = treelu.load(manifest.parent), known[key.split("/")[1]].X
            for part in METHODS[:2]:
                if hasattr(model, part):
                    record.put(f"loaded/{key}/{part}", getattr(model, part)(X))


def main() -> None:
    """Record, then read what the older checkout saved, if there is one."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--renamed", type=json.loads, default={})
    parser.add_argument("--earlier", type=Path)
    options = parser.parse_args()
    record = Record(options.folder, Names(options.renamed))
    record_all(record, options.only, options.folder / "commands")
    if options.earlier:
        load_earlier(record, options.earlier)
    record.write()


if __name__ == "__main__":
    main()
