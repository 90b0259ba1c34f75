"""Reports of table models: a summary for each target, pages for the browser, scores for the terminal."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from treelu.cli.interrupt import time_limit
from treelu.cli.messages import InputError, count
from treelu.cli.model import QueriedModel
from treelu.cli.prepare import TableRows
from treelu.estimators._rows import on_features
from treelu.persistence.table_model import TableModel
from treelu.report import render, summarize
from treelu.report.molecules import drawings
from treelu.report.predictions import predict
from treelu.report.queries import SECONDS, TimeBudget, column_asking, page_answers
from treelu.report.render import render_index
from treelu.report.rows import Floats
from treelu.report.summary import SummaryOptions
from treelu.tree import ObliqueTree
from treelu.tree.names import shown_name

Summaries = dict[str, dict[str, Any]]  # by target
Predictions = dict[str, dict[str, Floats]]  # by target and model
MAX_HEAD = 12  # characters of a column's head, for which words are wrapped
MAX_WORD = 120  # bytes of a target's name in a file name; file systems allow 255 in all


def summarize_model(
    model: TableModel, rows: TableRows | None, *, title: str, seed: int = 0, predictions: Predictions | None = None
) -> Summaries:
    """A summary for each target, scored on rows that training did not see, or by `predictions` for these rows."""
    how: SummaryOptions = {"title": title, "random_state": seed, "rows_are": "hold-out"}
    if predictions is not None:
        how["scored"] = (
            f"The scores are of a model fitted to the other {model.n_rows_scored:,} rows; the tree shown here was then "
            f"fitted to all {model.n_rows:,}."
        )
    result: Summaries = {}
    for target in model.targets:
        how["predictions"] = None if predictions is None else predictions[target]
        result[target] = summarize_target(model, rows, target, **how)
    return result


def held_out_predictions(first: TableModel, rows: TableRows, model: TableModel) -> Predictions:
    """Predictions of the first fit for rows held out, by target and by name, in the order of the final model's classes.

    As the summary does: the tree predicts where there is one.
    """
    result: Predictions = {}
    for k, target in enumerate(model.targets):
        (tree, member), (final, _) = _of_target(first, k), _of_target(model, k)
        classes = None
        if model.task != "regression":
            classes = model.members[k].classes_ if final is None else final.classes
        named = {_name(first): tree if tree is not None else member} | _baselines(first, k)
        result[target] = {name: predict(name, one, rows.X, classes) for name, one in named.items()}
    return result


def _name(model: TableModel) -> str:
    return "small tree" if model.method == "tree" else model.method.upper()


def _baselines(model: TableModel, k: int) -> dict[str, ObliqueTree]:
    return dict(model.baselines[k]) if model.baselines else {}


def summarize_target(
    model: TableModel, rows: TableRows | None, target: str, /, **how: Unpack[SummaryOptions]
) -> dict[str, Any]:
    """The summary of one target; without rows, or where their targets are all unknown, of its tree alone."""
    k = model.targets.index(target)
    tree, member = _of_target(model, k)
    draw_feature, draw_row = drawings(model.encoder, () if rows is None else rows.names or ())
    options: SummaryOptions = {
        **how,
        "title": f"{how['title']}: {target}",
        "name": _name(model),
        "baselines": _baselines(model, k),
        "target": target,
        "notes": model.notes,
        "warnings": model.warnings,
        "columns": model.encoder.to_dict()["columns"],
        "threshold": model.threshold,
        "draw_feature": draw_feature,
        "draw_row": draw_row,
    }
    if model.task == "classification" and len(model.estimator.classes_) == 2:
        options["positive"] = model.positive
    rows = _of_known_target(rows, k)
    if rows is None:
        options["predictions"] = options["scored"] = None
        return summarize(tree, estimator=member, **options)
    options["row_names"], options["groups"] = rows.names or rows.labels, rows.groups
    options["row_numbers"] = None if rows.numbers is None else rows.numbers.tolist()
    return summarize(tree, X=rows.X, y=rows.y, estimator=member, **options)


def add_queries(model: TableModel, rows: TableRows | None, summaries: Summaries, seconds: float = SECONDS) -> None:
    """Add the answers about listed rows to the summary of each target; they have some seconds for all of them."""
    for target, summary in summaries.items():
        known = _of_known_target(rows, model.targets.index(target))
        if known is not None:
            budget = TimeBudget(seconds / len(summaries), time_limit)
            summary["questions"] = page_queries(model, target, known.X, summary, budget)


def _of_known_target(rows: TableRows | None, k: int) -> TableRows | None:
    """The rows with one of their targets; None where that is unknown in all."""
    if rows is None:
        return None
    rows = replace(rows, y=rows.y[:, k] if rows.y.ndim == 2 else rows.y)
    return rows if (rows.y == rows.y).any() else None


def _of_target(model: TableModel, k: int) -> tuple[ObliqueTree | None, Any]:
    """The tree and the estimator of one target."""
    if model.task == "labels":
        return model.trees[k] if model.trees else None, on_features(model.members[k])
    tree = model.trees[0] if model.trees else None
    if len(model.targets) == 1:
        return tree, on_features(model.estimator)
    if tree is not None:
        linear = None if tree.leaf_weights is None else tree.leaf_weights[:, [k]]
        tree = replace(tree, values=tree.values[:, [k]], leaf_weights=linear)
    return tree, _OneOutput(on_features(model.estimator), k)


@dataclass(frozen=True)
class _OneOutput:
    """A regressor of several values, seen as one of the k-th."""

    estimator: Any
    k: int

    def predict(self, X: Any) -> NDArray[np.float64]:
        return self.estimator.predict(X)[:, self.k]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return self.estimator.get_params(deep)


# Queries


def page_queries(
    model: TableModel, target: str, X: Any, summary: dict[str, Any], budget: TimeBudget | None = None
) -> dict[str, Any] | None:
    """Answers for the rows that a summary lists; None where the model is not a tree, or too large a one."""
    if model.encoder.smiles_column is not None:
        return None  # molecules do not change bit by bit
    try:
        queried = QueriedModel(model, target)
    except InputError:
        return None
    asking = column_asking(queried.tree, model.encoder, output=queried.output, decides=model.decided_tree(queried.tree))
    return page_answers(asking, X, summary, budget)


# Pages


def pages(summaries: Summaries) -> dict[str, bytes]:
    """``report.html``; with several targets one page for each and a first one that leads to them."""
    if len(summaries) == 1:
        (summary,) = summaries.values()
        return {"report.html": render(summary).encode()}
    names = {target: f"report-{word}.html" for target, word in file_words(list(summaries)).items()}
    first = {"report.html": _index(summaries, names).encode()}
    return first | {names[target]: render(summary).encode() for target, summary in summaries.items()}


def file_words(targets: Sequence[str]) -> dict[str, str]:
    """Each target's name as part of a file name; no two are the same, nor differ in capitals only."""
    words: dict[str, str] = {}
    taken: set[str] = set()
    for target in targets:
        word = plain = _file_word(target)
        number = 1
        while unicodedata.normalize("NFKC", word).casefold() in taken:
            number += 1
            word = f"{plain}-{number}"
        taken.add(unicodedata.normalize("NFKC", word).casefold())
        words[target] = word
    return words


def _file_word(target: str) -> str:
    word = re.sub(r"[^\w.-]+", "-", target).strip("-.")
    return word.encode()[:MAX_WORD].decode(errors="ignore") or "target"


def _index(summaries: Summaries, names: dict[str, str]) -> str:
    """A page of links, with each target's scores."""
    metric, models, scores = _by_target(summaries)
    rows = [(names[target], target, cells) for target, cells in scores.items()]
    return render_index(f"{metric} on hold-out rows, with 95 % intervals.", models, rows)


# Scores on the terminal


def _size(model: TableModel, k: int, tree: ObliqueTree) -> str:
    """How large a tree is, in words."""
    if model.method != "tree":
        return f"{count(tree.n_leaves, 'leaf')} that rows reach, of {2 ** model.members[k].network_.depth:,}"
    if tree.n_leaves == 1 and tree.leaf_weights is not None:
        return f"1 leaf: one formula of {count(int(np.count_nonzero(tree.leaf_weights)), 'term')} for all rows"
    if tree.n_leaves == 1:
        return "1 leaf: nothing found that helps on rows held out"
    return f"{count(tree.n_leaves, 'leaf')}, at most {count(tree.max_terms, 'term')} per question"


def _sizes_beside(model: TableModel, k: int) -> str:
    """The leaves of the trees that stand beside one, which were chosen by cross-validation."""
    if len(model.baselines) != len(model.trees):  # several values have one tree
        return ""
    sizes = {name: tree.n_leaves for name, tree in model.baselines[k].items() if tree.leaf_weights is None}
    return "".join(f"; {name}: {count(n_leaves, 'leaf')}" for name, n_leaves in sizes.items())


def score_lines(
    summaries: Summaries,
    model: TableModel,
    rows: TableRows | None,
    where: str = "hold-out rows that training did not see",
) -> list[str]:
    """The scores as a small table, the size of the tree, and warnings."""
    lines = [""]
    if rows is not None and summaries:
        where = where.replace("rows", "row", 1) if len(rows) == 1 else where
        lines += [f"scores on {len(rows):,} {where} (95 % interval)", ""]
        lines += _target_table(summaries) if len(model.targets) > 1 else _metric_table(next(iter(summaries.values())))
    lines += [""] * bool(model.trees and lines[-1])
    for k, (target, tree) in enumerate(zip(model.targets, model.trees, strict=False)):
        if target not in summaries:
            continue
        whose = f"{target}: " if model.task == "labels" else ""
        size = _size(model, k, tree)
        lines.append(f"{whose}tree: {size}{_sizes_beside(model, k)}")
    several = len(summaries) > 1
    found = {
        f"{target}: {line}" if several and line not in model.warnings else line: None
        for target, summary in summaries.items()
        for line in summary["warnings"]
    }
    return lines + [""] * bool(found) + [f"warning: {line}" for line in found]


def _metric_table(summary: dict[str, Any]) -> list[str]:
    """A line for each score: the model with its interval, the models beside it, and the baseline; who does better."""
    if not summary["metrics"]:
        return []
    shown = [*summary["models"], summary["baseline"]]
    keys = [metric["key"] for metric in summary["metrics"]]
    cells = [[_interval(shown[0], key), *(_value(entry, key) for entry in shown[1:])] for key in keys]
    heads = [textwrap.wrap(entry["name"], MAX_HEAD) for entry in shown]
    tall = max(map(len, heads))
    table = [["", *(head[i] if i < len(head) else "" for head in heads)] for i in range(tall)]
    table += [[metric["name"], *row] for metric, row in zip(summary["metrics"], cells, strict=True)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ["  " + "  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in table]
    lines = [line.rstrip() for line in lines]
    if summary["classes"] is not None and len(summary["classes"]) == 2:
        named = shown_name(summary["classes"][summary["positive"]])
        at = f" at a threshold of {summary['threshold']:g}" if summary["threshold"] != 0.5 else ""
        lines += ["", f"  recall and precision are those of {shown_name(summary['target'])} = {named}{at}"]
    wrapped = [line for words in summary["verdicts"] for line in textwrap.wrap(words, 78, subsequent_indent="  ")]
    return lines + [""] * bool(wrapped) + [f"  {line}" for line in wrapped]


def _target_table(summaries: Summaries) -> list[str]:
    """A line for each target."""
    metric, models, scores = _by_target(summaries)
    table = {metric: models} | {shown_name(target): cells for target, cells in scores.items()}
    width = max(map(len, table))
    return [f"  {name:<{width}}{''.join(f'  {cell:<22}' for cell in cells)}".rstrip() for name, cells in table.items()]


def _by_target(summaries: Summaries) -> tuple[str, list[str], dict[str, list[str]]]:
    """The first metric, the models, and their scores for each target; one without known targets has none."""
    found = [summary["metrics"][0] for summary in summaries.values() if summary["metrics"]]
    metric = found[0] if found else {"key": "", "name": "no scores"}
    models = [entry["name"] for entry in next(iter(summaries.values()))["models"]]
    scores = {
        target: [_interval(entry, metric["key"]) for entry in summary["models"]]
        for target, summary in summaries.items()
    }
    return metric["name"], models, scores


def _value(entry: dict[str, Any], key: str) -> str:
    return _interval({"scores": {key: {"value": ((entry.get("scores") or {}).get(key) or {}).get("value")}}}, key)


def _interval(entry: dict[str, Any], key: str) -> str:
    score = (entry.get("scores") or {}).get(key)
    if score is None or score["value"] is None:
        return "–"
    if score.get("low") is None or score.get("high") is None:
        return f"{score['value']:.3f}"
    return f"{score['value']:.3f} ({score['low']:.3f}–{score['high']:.3f})"
