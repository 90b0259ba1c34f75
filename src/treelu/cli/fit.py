"""`treelu fit`: a table in; a saved model, its tree and a report out."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import typer
from sklearn.base import clone

from treelu.cli.compare import compare_with_large, comparison_line, other_command
from treelu.cli.interrupt import Interrupted, check_not_interrupted
from treelu.cli.messages import InputError, Notes, count, flush_output, say, step, tell, write_json
from treelu.cli.model import tree_text
from treelu.cli.options import FitOptions
from treelu.cli.pages import (
    Predictions,
    Summaries,
    add_queries,
    file_words,
    held_out_predictions,
    pages,
    score_lines,
    summarize_model,
)
from treelu.cli.prepare import Prepared, TableRows, prepare_files
from treelu.cli.train import choose_estimator, train
from treelu.persistence import save
from treelu.persistence.files import MANIFEST, check_beside
from treelu.persistence.table_model import TableModel
from treelu.report.queries import SECONDS

REPORT = "report.html"
_KINDS = (("tree", "txt"), ("tree", "json"), ("report", "html"))
_SHOWN_PARAMETERS = (
    "max_leaf_nodes", "max_terms", "depth", "drop_connect", "weight_decay", "epochs", "random_state",
)  # fmt: skip
MAX_JSON_WEIGHTS = 2_000_000  # of a tree; more would be some 40 MB of text, which `treelu export` writes on demand


def fit_table(options: FitOptions, context: typer.Context) -> None:
    """Read, train, save, score, report, and say what was done."""
    out, quiet = options.out, options.quiet
    with prepare_files(options, Notes(quiet=quiet)) as table:
        check_files(out, table)
        _check_threshold(options, table)
        estimator = choose_estimator(options, table)
        unfitted = clone(estimator)
        with step(_training_words(estimator, table), quiet):
            first = train(estimator, table, options)
    fitted = Fitted(first, table.held_out)
    if options.refit and table.whole is not None and not table.is_sample:
        fitted = _fit_all_rows(unfitted, first, table, options)
    check_not_interrupted()
    with step(f"saving the model in {out}", quiet):
        files = tree_files(fitted.model)
        save(fitted.model, out, beside=files)
    _report(fitted, files, options)
    if not options.as_json:  # whatever ends the comparison does not cost the scores
        _say_scores(fitted, options.valid)
    compared = None
    if options.compare and first.method == "tree" and fitted.error is None:
        flush_output()
        compared = compare_with_large(first, table, options)
    if options.as_json:
        write_json(_for_machines(fitted, out) | {"compared": compared})
    else:
        _say_other(fitted.model, compared, context, out)
        _say_next(fitted, out)
    if fitted.error is not None:
        _say_failed(fitted.error, options)
        raise fitted.error


@dataclass
class Fitted:
    """The model that is saved, the rows held out, and what has become of the report."""

    model: TableModel
    held_out: TableRows | None
    predictions: Predictions | None = None  # of another fit without the rows held out, for these
    summaries: Summaries = field(default_factory=dict)
    files: list[str] = field(default_factory=list)  # of the model's folder
    error: BaseException | None = None  # what ended the report before its time


def _fit_all_rows(unfitted: Any, first: TableModel, table: Prepared, options: FitOptions) -> Fitted:
    """Fit the same once more, to all rows; the rows held out keep the predictions of the first fit."""
    assert table.whole is not None
    assert table.held_out is not None
    whole = table.whole()
    words = f"fitting it again, to all {count(whole.n_rows, 'row')}; the scores are of the first fit"
    with step(words, options.quiet):
        model = train(unfitted, whole, options, like=first)
    model = replace(model, warnings=first.warnings, n_rows_scored=first.n_rows)
    return Fitted(model, whole.held_out, held_out_predictions(first, table.held_out, model))


def _report(fitted: Fitted, files: dict[str, bytes], options: FitOptions) -> None:
    """Score, ask and draw; whatever ends this costs the report only, as the model and `files` are saved."""
    model, rows = fitted.model, fitted.held_out
    fitted.files = [MANIFEST, *files]
    try:
        with step("measuring scores", options.quiet):
            fitted.summaries = summarize_model(
                model, rows, title=Path(options.data).name, seed=options.seed, predictions=fitted.predictions
            )
        with step(f"writing the report (its queries may take {SECONDS:g} s of processor time)", options.quiet):
            add_queries(model, rows, fitted.summaries)
            check_not_interrupted()
            files = files | pages(fitted.summaries)
            save(model, options.out, beside=files)
            fitted.files = [MANIFEST, *files]
    except (Exception, Interrupted, KeyboardInterrupt) as error:
        fitted.error = error


def _check_threshold(options: FitOptions, table: Prepared) -> None:
    two = table.task == "classification" and len(set(table.training.y.tolist())) == 2
    if options.model.positive is not None and not two:
        raise InputError("--positive is for a target of two classes; leave it out")
    if options.model.threshold is not None and not two:
        raise InputError("--threshold is for a target of two classes; leave it out")


def _training_words(estimator: Any, table: Prepared) -> str:
    rows = f"{count(table.n_rows, 'row')}, {count(len(table.encoder.feature_names), 'feature')}"
    depth = "" if getattr(estimator, "depth", "auto") == "auto" else f" (depth {estimator.depth})"
    return f"training {type(estimator).__name__}{depth} on {rows}"


# The folder


def check_files(folder: Path, table: Prepared) -> None:
    """Raise if the folder has files of others by the names that the model's will have."""
    if folder.is_dir():
        words = file_words(table.targets).values()
        ends = ["", *(f"-{word}" for word in words)] if len(table.targets) > 1 else [""]
        check_beside(folder, [f"{name}{end}.{kind}" for end in ends for name, kind in _KINDS])


def tree_files(model: TableModel) -> dict[str, bytes]:
    """The trees of a model as text and as JSON, by the names of their files."""
    files = {}
    ends = [f"-{word}" for word in file_words(model.targets).values()] if model.task == "labels" else [""]
    for name, tree in zip(ends, model.trees, strict=False):
        files[f"tree{name}.txt"] = f"{tree_text(model, tree)}\n".encode()
        if tree.weights.size <= MAX_JSON_WEIGHTS:
            files[f"tree{name}.json"] = tree.to_json().encode()
    return files


# Speaking


def _for_machines(fitted: Fitted, out: Path) -> dict[str, Any]:
    model, summaries = fitted.model, fitted.summaries
    parameters = model.estimator.get_params(deep=False)
    for name in ("depth", "drop_connect", "weight_decay"):  # as chosen, where they were left open
        if name in parameters:
            parameters[name] = getattr(model.estimator, f"{name}_", parameters[name])
    return {
        "model": str(out),
        "files": fitted.files,
        "method": type(model.estimator).__name__,
        "task": model.task,
        "targets": list(model.targets),
        "parameters": {name: parameters[name] for name in _SHOWN_PARAMETERS if name in parameters},
        "n_features": len(model.encoder.feature_names),
        "n_rows": model.n_rows,
        "n_training_rows": model.n_rows_scored or model.n_rows,
        "n_hold_out_rows": 0 if fitted.held_out is None else len(fitted.held_out),
        "trees": [{"leaves": tree.n_leaves, "depth": tree.depth} for tree in model.trees],
        "scores": {
            target: {entry["name"]: entry.get("scores") for entry in summary["models"]}
            for target, summary in summaries.items()
        },
        "baseline": {target: summary["baseline"] for target, summary in summaries.items()},
        "warnings": list(dict.fromkeys(line for summary in summaries.values() for line in summary["warnings"])),
        "notes": list(model.notes),
    }


def _say_scores(fitted: Fitted, valid: str | None) -> None:
    model = fitted.model
    where = f"rows of {valid}" if valid else "hold-out rows that training did not see"
    for line in score_lines(fitted.summaries, model, fitted.held_out, where):
        tell(line)
    if fitted.predictions is not None:
        first, total = f"{model.n_rows_scored:,}", f"{model.n_rows:,}"
        tell(f"\nthe scores are of the fit to {first} rows; the model saved is fitted to all {total}")
    elif fitted.held_out is not None and valid is None:
        tell(f"\nthe model saved is this fit to {model.n_rows:,} rows; those held out are not among them")


def _say_failed(error: BaseException, options: FitOptions) -> None:
    """The message that the model is saved, whatever ended the report, and how to get the report."""
    words = "was interrupted" if isinstance(error, Interrupted | KeyboardInterrupt) else "failed"
    command = shlex.join(["treelu", "report", str(options.out), options.data])
    say(f"treelu: the report {words}; the model is saved in {options.out}, for a report: {command}")


def _say_other(model: TableModel, compared: dict[str, Any] | None, context: typer.Context, out: Path) -> None:
    """How the other kind of tree does, where it was fitted, and the command for it."""
    if model.method not in ("tree", "lcn") or model.task == "labels":
        return
    if compared is not None:
        to = f"fitted to {model.n_rows_scored:,} rows: " if model.n_rows != model.n_rows_scored else ""
        tell(f"\n{to}{comparison_line(compared)}")
    small = model.method == "tree"
    what = "the large tree" if small else "a small tree, to read"
    if small and compared is None:
        what += ", which may be more accurate"
    command = other_command(context, out, "lcn" if small else "tree")
    tell(f"{'' if compared else chr(10)}for {what}:\n  {command}")


def _say_next(fitted: Fitted, out: Path) -> None:
    model, files = fitted.model, fitted.files
    tell(f"\nwrote {out}: {', '.join(files[:4])}{', …' if len(files) > 4 else ''}")
    quoted = shlex.quote(str(out))
    tell("next:")
    tell(f"  treelu predict {quoted} NEW.csv > scores.csv")
    if model.trees:
        label = f" --label {shlex.quote(model.targets[0])}" if model.task == "labels" else ""
        tell(f"  treelu export {quoted} --format text{label}")
    if REPORT in files:
        tell(f"  open {out / REPORT} in a browser")
