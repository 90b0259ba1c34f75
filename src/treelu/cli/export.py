"""`treelu export` and `treelu report`: a saved model as text, Graphviz, JSON, a program or a page."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from treelu.cli.messages import InputError, Notes, say, tell, write_json
from treelu.cli.model import table_model, target_of, tree_text, visited_trees
from treelu.cli.options import ExportOptions, ReportOptions
from treelu.cli.pages import add_queries, score_lines, summarize_target
from treelu.cli.predict import check_file, write_output
from treelu.cli.prepare import TableRows, read_rows
from treelu.export.c import to_c
from treelu.export.javascript import to_javascript
from treelu.export.onnx_program import program_to_onnx
from treelu.export.program import Program, estimator_program, tree_program
from treelu.export.python import to_python
from treelu.export.sql import to_sql
from treelu.persistence import load_as_saved
from treelu.persistence.table_model import TableModel
from treelu.report import render, summarize
from treelu.report.summary import RowsAre
from treelu.tables.paths import find_files
from treelu.tree import ObliqueTree
from treelu.view.labels import Top

PROGRAMS = ("sql", "c", "js", "python", "onnx")


def export_tree(options: ExportOptions) -> None:
    """Write the tree of a saved model."""
    form, folder = options.format, options.model
    if options.out is not None:
        check_file(options.out, options.force, reads=[folder])
    elif form == "onnx" and sys.stdout.isatty():
        raise InputError("--format onnx is binary; give --out tree.onnx, or send the output to a file")
    if options.self_test and form != "sql":
        own = "has its self-test inside" if form in ("c", "js", "python") else "has none"
        raise InputError(f"--self-test is for --format sql; --format {form} {own}")
    write_output(options.out, _exported(load_as_saved(folder), folder.resolve().name, options))


def _exported(model: Any, name: str, options: ExportOptions) -> str | bytes:
    """A saved model, which may come from Python too, in the format asked for."""
    form, is_table, top = options.format, isinstance(model, TableModel), _top(options)
    if is_table and form == "html" and options.leaves is None:
        return render(summarize_target(model, None, target_of(model, options.label), title=name))
    if form in PROGRAMS:
        return _program_text(_program(model, name, options), options)
    tree = _tree(model, options.leaves or ("all" if form == "json" else "visited"), options.label)
    if form == "html":
        return render(summarize(tree, title=name))
    if form == "json":
        return tree.to_json()
    if form == "text" and is_table:
        return tree_text(model, tree, top)
    export = tree.export_text if form == "text" else tree.export_graphviz
    spread = model.spread if is_table else getattr(model, "spread_", None)
    return export(scale=spread, max_leaves=None, top=top)  # --leaves says which


def _top(options: ExportOptions) -> Top:
    """How many terms of a formula are shown."""
    given = options.top
    if given is not None and options.format not in ("text", "dot"):
        raise InputError(f"--top is for --format text and dot; leave it out of --format {options.format}")
    if given is None or given == "all":
        return None if given is None else "all"
    if not given.isdecimal() or int(given) < 1:
        raise InputError(f"--top must be a number of terms, or all, got {given}")
    return int(given)


def write_report(options: ReportOptions) -> None:
    """Write a page on a saved model, with its scores on the rows of a table."""
    data, out = options.data, options.out
    check_file(out, options.force, reads=[options.model, *([] if data in (None, "-") else find_files(data))])
    loaded = load_as_saved(options.model)
    model = table_model(loaded, options.model)
    target = target_of(model, options.label)
    rows: TableRows | None = None
    warnings: tuple[str, ...] = ()
    rows_are: RowsAre = "given"
    if model is not loaded:
        if data is not None:
            raise InputError(
                f"{options.model} was saved from Python and does not know the column of its target; report it there: "
                f"treelu.load({str(options.model)!r}).report(X, y)"
            )
        with suppress(AttributeError):  # no tree
            model = replace(model, trees=tuple(model.whole_trees()))
    if data is not None:
        rows = read_rows(model, data, options.reading, Notes(quiet=options.as_json))
        warnings, rows_are = _seen_in_training(model, rows)
        model = replace(model, trees=visited_trees(model, rows))
    title = Path(data or options.model.resolve().name).name
    summary = summarize_target(
        replace(model, warnings=(*warnings, *model.warnings)), rows, target, title=title, rows_are=rows_are
    )
    add_queries(model, rows, {target: summary})
    write_output(out, render(summary))
    if options.as_json:
        write_json({entry["name"]: entry.get("scores") for entry in summary["models"]})
        return
    where = "training rows" if rows_are == "training" else f"rows of {data}"
    for line in score_lines({target: summary}, model, rows, where):
        tell(line)
    say(f"wrote {out}; open it in a browser")


def _seen_in_training(model: TableModel, rows: TableRows) -> tuple[tuple[str, ...], RowsAre]:
    """A warning where the rows are training rows, and what to call them."""
    share = None if model.digest is None else model.digest.share_of(rows.X)
    if share is None or share < 0.3:
        return (), "given"
    if share > 0.99:
        return (), "training"
    return (f"{share:.0%} of these rows were used in training, so that the scores are too good",), "given"


def _tree(model: object, leaves: str, label: str | None) -> ObliqueTree:
    """One tree of a saved model, which may come from Python too."""
    if isinstance(model, ObliqueTree):
        return model
    if isinstance(model, TableModel):
        place = 0 if model.task == "regression" else model.targets.index(target_of(model, label))
        if not model.trees:
            raise InputError(
                f"a model of --method {model.method} is not a single tree; --format html shows what it predicts, "
                "--method lcn fits a tree"
            )
        return model.trees[place] if leaves == "visited" else model.whole_trees()[place]
    try:
        return model.tree_  # type: ignore[attr-defined]
    except AttributeError as error:
        raise InputError(f"a {type(model).__name__} is not a single tree: {error}") from None


def _program(model: Any, name: str, options: ExportOptions) -> Program:
    """The program of a saved model, which may come from Python too."""
    if isinstance(model, ObliqueTree):
        return tree_program(model, name=name)
    try:
        if not isinstance(model, TableModel) and "encoder_" not in vars(model):
            return estimator_program(model, name=name)
        model = table_model(model, options.model)
        if options.label is not None:
            target_of(model, options.label)  # or an error that names the targets
        return table_program(
            model, name=name, encoded=options.encoded, visited=options.leaves == "visited", label=options.label
        )
    except AttributeError as error:
        if isinstance(model, TableModel):
            method = f"a model of --method {model.method}"
            raise InputError(f"{method} cannot be written as a program ({error}); --method lcn fits a tree") from None
        raise InputError(f"a {type(model).__name__} is not a tree: {error}") from None
    except ValueError as error:
        raise InputError(str(error)) from None


def table_program(
    model: TableModel, *, name: str = "model", encoded: bool = False, visited: bool = False, label: str | None = None
) -> Program:
    """The program of the estimator with the names and the threshold of `treelu predict`.

    `visited`: only the branches that rows of the table reach; `label`: of several labels, the one to answer for.
    """
    program = estimator_program(
        model.estimator, name=name, trained=model.trained, targets=model.targets, of_file=True, encoded=encoded,
        trees=model.trees if visited else (),
    )  # fmt: skip
    if model.has_threshold:
        (part,) = program.parts
        program = replace(program, parts=(replace(part, threshold=(model.positive, model.threshold)),))
    if label is not None and model.task == "labels":
        program = replace(program, parts=(program.parts[model.targets.index(label)],))
    return program


def _program_text(program: Program, options: ExportOptions) -> str | bytes:
    """The text of a program, or the bytes of an ONNX model."""
    try:
        match options.format:
            case "sql":
                return _sql(program, options)
            case "c":
                return to_c(program, dtype="float" if options.single else "double")
            case "onnx":
                return program_to_onnx(program, dtype="float32" if options.single else "float64")
            case "js":
                return to_javascript(program)
        return to_python(program)
    except ValueError as error:
        raise InputError(str(error)) from None


def _sql(program: Program, options: ExportOptions) -> str:
    """One statement, as views and drivers take it: the query, or the one that tests it."""
    if options.self_test:
        words = "-- Self-test: the number of example rows that are not answered as expected, which must be 0."
        return f"{words}\n{to_sql(program, dialect=options.dialect, self_test=True)};\n"
    keep = [name.strip() for value in options.keep for name in value.split(",")]
    table, typed = options.table.split("."), options.typed
    return f"{to_sql(program, dialect=options.dialect, table=table, keep=keep, typed=typed)};\n"
