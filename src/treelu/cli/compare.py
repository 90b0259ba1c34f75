"""The large tree (LCN) beside the small one: same training rows, same hold-out rows; and the command for the other."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from treelu.cli.messages import count
from treelu.cli.prepare import Prepared, TableRows
from treelu.tables import TableModel

MOST_CELLS = 3_000_000  # rows × features: what LCN trains on in less time than the small tree; more is not compared
RARE = 0.1  # a class with a smaller share of the rows, for which accuracy says little
# Options by how many words follow them: those that belong to one of the two trees.
_OF_TREES = {"--leaves": 1, "--terms": 1}
_OF_NETWORKS = {
    "--depth": 1, "--drop-connect": 1, "--epochs": 1, "--batch-size": 1, "--learning-rate": 1,
    "--max-tree-features": 1, "--max-features": 1, "--members": 1, "--folds": 1, "--early-stopping": 0, "--tune": 0,
}  # fmt: skip
_OF_BOTH = {"--method": 1, "--out": 1, "--compare": 0, "--no-compare": 0, "--force": 0}


@dataclass(frozen=True)
class Size:
    """A tree's size and score."""

    leaves: int
    terms: int
    score: float


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
    from sklearn.metrics import r2_score, roc_auc_score

    if metric == "ROC AUC":
        probabilities = model.estimator.predict_proba(rows.X)[:, 1]
        return float(roc_auc_score(rows.y == model.estimator.classes_[1], probabilities))
    answers = model.columns_of(rows.X)
    if metric == "accuracy":
        return float(np.mean(answers["prediction"] == rows.y))
    return float(r2_score(rows.y, np.column_stack(list(answers.values())).reshape(np.shape(rows.y))))


def comparison(model: TableModel, large: TableModel, table: Prepared) -> dict[str, Any]:
    """The sizes and scores of both trees on the hold-out rows."""
    rows = table.held_out
    assert rows is not None
    large = replace(large, threshold=model.threshold)
    metric = metric_of(model, rows)
    small_size, large_size = (
        Size(each.trees[0].n_leaves, each.trees[0].max_terms, _score(each, rows, metric)) for each in (model, large)
    )
    return {"metric": metric, "small": vars(small_size), "large": vars(large_size)}


def comparison_line(found: dict[str, Any]) -> str:
    """The comparison in one line.

    Examples
    --------
    >>> small, large = vars(Size(8, 3, 0.951)), vars(Size(34, 30, 0.963))
    >>> comparison_line({"metric": "accuracy", "small": small, "large": large})
    '8 leaves, at most 3 terms: accuracy 0.951; the large tree (LCN, 34 leaves that rows reach, 30 terms): \
0.963'
    """
    small, large = found["small"], found["large"]
    most = f"at most {count(small['terms'], 'term')}" if small["terms"] else "no question"
    return (
        f"{count(small['leaves'], 'leaf')}, {most}: {found['metric']} {small['score']:.3f}; the large tree (LCN, "
        f"{count(large['leaves'], 'leaf')} that rows reach, {count(large['terms'], 'term')}): {large['score']:.3f}"
    )


def other_command(typed: Sequence[str], out: Path, method: str) -> str:
    """The command that was typed, for the other kind of tree and into another folder.

    Examples
    --------
    >>> other_command(["fit", "a b.csv", "--target", "y", "--leaves", "8", "--out", "m"], Path("m"), "lcn")
    "treelu fit 'a b.csv' --target y --method lcn --out m-large"
    >>> other_command(["fit", "a.csv", "--target=y", "--depth=4", "--tune", "--out=m"], Path("m"), "tree")
    'treelu fit a.csv --target=y --method tree --out m-small'
    """
    left_out = _OF_BOTH | (_OF_TREES if method == "lcn" else _OF_NETWORKS)
    kept, skip = [], 0
    for word in typed:
        name = word.split("=")[0]
        if skip:
            skip -= 1
        elif name in left_out:
            skip = 0 if "=" in word else left_out[name]
        else:
            kept.append(word)
    folder = out.with_name(f"{out.name}-{'large' if method == 'lcn' else 'small'}")
    return shlex.join(["treelu", *kept, "--method", method, "--out", str(folder)])
