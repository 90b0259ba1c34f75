"""The large tree (LCN) beside the small one: same training rows, same hold-out rows; and the command for the other."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import typer
from sklearn.metrics import r2_score, roc_auc_score

from treelu.cli.messages import count, say, step
from treelu.cli.options import FitOptions, ModelOptions
from treelu.cli.prepare import Prepared, TableRows
from treelu.cli.train import make_estimator, train
from treelu.persistence.table_model import TableModel

MOST_CELLS = 3_000_000  # rows × features: what LCN trains on in less time than the small tree; more is not compared
RARE = 0.1  # a class with a smaller share of the rows, for which accuracy says little
_OF_BOTH = {"method", "out", "compare", "force"}  # options that the other command has otherwise
_OF_TREES = {"leaves", "terms"}
_OF_NETWORKS = {item.name for item in fields(ModelOptions)} - _OF_TREES - {"balanced", "threshold"}


def compare_with_large(model: TableModel, table: Prepared, options: FitOptions) -> dict[str, Any] | None:
    """Sizes and scores of the small tree and the large one; None where no rows are held out or the table is large."""
    rows = table.held_out
    if rows is None:
        return None
    if table.is_sample or n_cells(table.training) > MOST_CELLS:
        if not options.quiet:
            say("the table is large: the large tree (LCN) is not fitted for comparison")
        return None
    weight = model.estimator.get_params().get("class_weight")
    estimator = make_estimator("lcn", model.task, {} if weight is None else {"class_weight": weight}, options.seed)
    with step(f"training {type(estimator).__name__}, the large tree, for comparison", options.quiet):
        large = train(estimator, table, replace(options, cart=False))
        large = replace(large, threshold=model.threshold)
        metric = metric_of(model, rows)
        return {"metric": metric, "small": _size(model, rows, metric), "large": _size(large, rows, metric)}


def _size(model: TableModel, rows: TableRows, metric: str) -> dict[str, float]:
    tree = model.trees[0]
    return {"leaves": tree.n_leaves, "terms": tree.max_terms, "score": _score(model, rows, metric)}


def n_cells(rows: TableRows) -> int:
    """Rows times features; the stored values of sparse features."""
    return int(rows.X.nnz) if hasattr(rows.X, "nnz") else int(np.prod(rows.X.shape))


def metric_of(model: TableModel, rows: TableRows) -> str:
    """The metric that compares trees: accuracy of classes, ROC AUC where one of two is rare, R² of values."""
    if model.task != "classification":
        return "R²"
    counts = np.unique(rows.y, return_counts=True)[1]
    is_rare = len(model.estimator.classes_) == len(counts) == 2 and counts.min() < RARE * counts.sum()
    return "ROC AUC" if is_rare else "accuracy"


def _score(model: TableModel, rows: TableRows, metric: str) -> float:
    if metric == "ROC AUC":
        probabilities = model.estimator.predict_proba(rows.encoded)[:, 1]
        return float(roc_auc_score(rows.y == model.estimator.classes_[1], probabilities))
    answers = model.predictions(rows.encoded)
    if metric == "accuracy":
        return float(np.mean(answers["prediction"] == rows.y))
    return float(r2_score(rows.y, np.column_stack(list(answers.values())).reshape(np.shape(rows.y))))


def comparison_line(found: dict[str, Any]) -> str:
    """The comparison in one line."""
    small, large = found["small"], found["large"]
    most = f"at most {count(small['terms'], 'term')}" if small["terms"] else "no question"
    return (
        f"{count(small['leaves'], 'leaf')}, {most}: {found['metric']} {small['score']:.3f}; the large tree (LCN, "
        f"{count(large['leaves'], 'leaf')} that rows reach, {count(large['terms'], 'term')}): {large['score']:.3f}"
    )


def other_command(context: typer.Context, out: Path, method: str) -> str:
    """The command that was typed, for the other kind of tree and into another folder."""
    names = _OF_BOTH | (_OF_TREES if method == "lcn" else _OF_NETWORKS)
    n_words = {  # that follow an option to be left out
        option: 0 if getattr(parameter, "is_flag", False) else 1
        for parameter in context.command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
        if parameter.name in names
    }
    kept, skip = [], 0
    for word in context.obj:
        name = word.split("=")[0]
        if skip:
            skip -= 1
        elif name in n_words:
            skip = 0 if "=" in word else n_words[name]
        else:
            kept.append(word)
    folder = out.with_name(f"{out.name}-{'large' if method == 'lcn' else 'small'}")
    return shlex.join(["treelu", *kept, "--method", method, "--out", str(folder)])
