"""`treelu export` and `treelu report`: a saved model as text, Graphviz, JSON, a program or a page."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from treelu.cli.check import ReadOptions
from treelu.cli.messages import InputError, Notes, say, tell, write_json
from treelu.cli.pages import add_queries, score_lines, summarize_target
from treelu.cli.predict import check_file, load_table_model, write_output
from treelu.cli.prepare import TableRows, read_rows
from treelu.cli.programs import PROGRAMS, ProgramOptions, model_program, write_program
from treelu.cli.trees import target_of, tree_text, visited_trees
from treelu.persistence import load
from treelu.report import render, summarize
from treelu.report.summary import RowsAre
from treelu.tables import TableModel
from treelu.tables.paths import find_files
from treelu.tree import ObliqueTree


def export_tree(
    folder: Path,
    form: str,
    out: Path | None,
    *,
    leaves: str | None,
    label: str | None,
    options: ProgramOptions,
    force: bool,
) -> None:
    """Write the tree of a saved model."""
    if out is not None:
        check_file(out, force, reads=[folder])
    elif form == "onnx" and sys.stdout.isatty():
        raise InputError("--format onnx is binary; give --out tree.onnx, or send the output to a file")
    if options.self_test and form != "sql":
        raise InputError(f"--self-test is for --format sql; --format {form} {_own_test(form)}")
    model = load(folder)
    if isinstance(model, TableModel) and form == "html" and leaves is None:
        summary = summarize_target(model, None, target_of(model, label), title=folder.resolve().name)
        write_output(out, render(summary))
        return
    if form in PROGRAMS:
        program = model_program(model, folder.resolve().name, leaves, label, encoded=options.encoded)
        write_output(out, write_program(program, form, options))
        return
    tree = _tree(model, leaves or ("all" if form == "json" else "visited"), label)
    spread = model.spread if isinstance(model, TableModel) else getattr(model, "spread_", None)
    if form == "html":
        write_output(out, render(summarize(tree, title=folder.resolve().name)))
    elif form == "json":
        write_output(out, tree.to_json())
    elif form == "text" and isinstance(model, TableModel):
        write_output(out, tree_text(model, tree))
    else:
        export = tree.export_text if form == "text" else tree.export_graphviz
        write_output(out, export(scale=spread, max_leaves=None))  # --leaves says which


def _own_test(form: str) -> str:
    """Where the self-test of a format is."""
    return "has its self-test inside" if form in ("c", "js", "python") else "has none"


def write_report(
    folder: Path, data: str | None, out: Path, *, label: str | None, reading: ReadOptions, force: bool, as_json: bool
) -> None:
    """Write a page on a saved model, with its scores on the rows of a table."""
    check_file(out, force, reads=[folder, *([] if data in (None, "-") else find_files(data))])
    model = load_table_model(folder)
    target = target_of(model, label)
    rows: TableRows | None = None
    warnings: tuple[str, ...] = ()
    rows_are: RowsAre = "given"
    if data is not None:
        rows = read_rows(model, data, reading, Notes(quiet=as_json))
        warnings, rows_are = _seen_in_training(model, rows)
        model = replace(model, trees=visited_trees(model, rows) if model.trees else ())
    title = Path(data or folder.resolve().name).name
    summary = summarize_target(model, rows, target, title=title, rows_are=rows_are, warnings=warnings)
    add_queries(model, rows, {target: summary})
    write_output(out, render(summary))
    if as_json:
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
