"""The commands and their options; the work is in the other modules, imported when a command runs."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from treelu import __version__
from treelu.cli.interrupt import check_not_interrupted
from treelu.cli.messages import OUTPUT, InputError, flush_output, open_terminal, say

app = typer.Typer(
    name="treelu",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Oblique decision trees trained by gradient descent.\n\nStart with: treelu demo",
)


Method = Literal["tree", "lcn", "alcn", "lln", "elcn", "stacked"]
TaskName = Literal["classification", "regression", "labels"]
DateOrder = Literal["day-first", "month-first"]
Format = Literal["text", "dot", "json", "onnx", "sql", "c", "js", "python", "html"]
Dialect = Literal["plain", "sqlite", "duckdb", "postgresql"]
Norm = Literal["l1", "l2", "linf"]
Leaves = Literal["visited", "all"]


class MoleculeBlock(StrEnum):
    """Encodings of molecules; an enumeration, as typer takes no list of literals."""

    substructures = "substructures"
    maccs = "maccs"
    atom_pairs = "atom_pairs"
    torsions = "torsions"
    descriptors = "descriptors"


def _option(words: str, *names: str, metavar: str | None = None, **limits: Any) -> Any:
    return typer.Option(*names, help=words, metavar=metavar, **limits)


ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder written by `treelu fit`.")]
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="CSV, TSV, Parquet or .xlsx file; a folder or a pattern ('data/*.parquet') of such files; - reads CSV "
        "from standard input.",
    ),
]
Columns = list[str] | None
Delimiter = Annotated[str | None, _option("Character between columns; detected by default.", metavar="CHAR")]
Decimal = Annotated[str | None, _option("Decimal mark, . or , ; detected in each column by default.", metavar="CHAR")]
Encoding = Annotated[str | None, _option("Encoding of the text; detected by default.", metavar="NAME")]
AsJson = Annotated[bool, _option("Print JSON for other programs.", "--json")]
Force = Annotated[bool, _option("Overwrite what is there.", "--force")]
Output = Annotated[Path | None, _option("File to write; standard output by default.", metavar="FILE")]
Label = Annotated[str | None, _option("Which target to show, if the model has several.", metavar="COL")]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"treelu {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, _option("Print the version.", "--version", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    out: Annotated[Path, _option("Folder for the reports and pictures.", metavar="DIR")] = Path("treelu-demo"),
    seed: Annotated[int, _option("Seed of the hold-out split and of training.", min=0)] = 0,
) -> None:
    """Train trees on two built-in data sets and compare them with CART."""
    from treelu.cli.demo import run_demo

    run_demo(out, seed)


@app.command()
def fit(
    context: typer.Context,
    data: Data,
    target: Annotated[list[str], _option("Column to predict; several (a,b,c) for several 0/1 labels.", metavar="COL")],
    out: Annotated[Path, _option("Folder for the model, the tree and the report.", metavar="DIR")],
    method: Annotated[
        Method | None,
        _option(
            "tree: a small tree to read (default); lcn: a large tree (default for molecules, for several labels and "
            "with options of networks); alcn: a smooth network; lln: a tree with linear leaves; elcn: the paper's "
            "ensemble; stacked: networks, a forest and boosted trees, the most accurate."
        ),
    ] = None,
    task: Annotated[TaskName | None, _option("Kind of target; inferred by default.")] = None,
    smiles: Annotated[str | None, _option("Column of SMILES, which become substructures.", metavar="COL")] = None,
    features: Annotated[
        Columns, _option("Columns to use (a,b,c); with --smiles, in addition to the molecules.", metavar="COL")
    ] = None,
    drop: Annotated[Columns, _option("Columns to leave out (a,b,c).", metavar="COL")] = None,
    groups: Annotated[
        str | None,
        _option("Column of groups, such as patients: rows of one group are held out together.", metavar="COL"),
    ] = None,
    text: Annotated[
        Columns, _option("Columns to read as categories, even if they hold numbers.", metavar="COL")
    ] = None,
    numbers: Annotated[
        Columns, _option("Columns to read as numbers, even if they look like dates (20210304).", metavar="COL")
    ] = None,
    dates: Annotated[DateOrder | None, _option("How to read dates such as 03/04/2021; detected by default.")] = None,
    max_categories: Annotated[int, _option("Maximum number of features made from one text column.", min=2)] = 30,
    blocks: Annotated[
        list[MoleculeBlock] | None,
        _option(
            "What molecules become: substructures, maccs, atom_pairs, torsions, descriptors; repeat for several.",
            metavar="BLOCK",
        ),
    ] = None,
    bits: Annotated[int, _option("Maximum number of substructures.", min=1, max=1 << 20)] = 2048,
    radius: Annotated[int, _option("Radius of substructures, in bonds.", min=0, max=10)] = 2,
    hold_out: Annotated[float, _option("Share of the rows held out to score the model.", min=0.0, max=0.9)] = 0.2,
    valid: Annotated[str | None, _option("Table to score the model on, instead of a hold-out.", metavar="FILE")] = None,
    leaves: Annotated[int | None, _option("Maximum number of leaves of a small tree; 16 by default.", min=2)] = None,
    terms: Annotated[int | None, _option("Maximum number of features in a split of a small tree.", min=1)] = None,
    depth: Annotated[int | None, _option("Depth of the tree, which has up to 2^depth leaves.", min=1)] = None,
    drop_connect: Annotated[
        float | None, _option("Share of the weights dropped in each training step.", min=0.0, max=0.99)
    ] = None,
    epochs: Annotated[int | None, _option("Passes over the training rows.", min=1)] = None,
    batch_size: Annotated[int | None, _option("Rows in each training step.", min=1)] = None,
    learning_rate: Annotated[float | None, _option("Step size.", min=1e-9)] = None,
    max_tree_features: Annotated[
        int | None,
        _option(
            "Maximum number of features that the tree may use; all by default.",
            "--max-tree-features",
            "--max-features",
            min=1,
        ),
    ] = None,
    members: Annotated[int | None, _option("Number of networks of elcn or stacked.", min=1)] = None,
    balanced: Annotated[
        bool,
        _option(
            "Give each class the same total weight; a rare one of two is predicted from its frequency on.", "--balanced"
        ),
    ] = False,
    threshold: Annotated[
        float | None,
        _option("Probability at which the positive of two classes is predicted.", min=0.0, max=1.0),
    ] = None,
    early_stopping: Annotated[
        bool,
        _option("Stop when the score on a tenth of the training rows stops improving.", "--early-stopping"),
    ] = False,
    tune: Annotated[bool, _option("Choose depth and drop rate by cross-validation.", "--tune")] = False,
    folds: Annotated[int, _option("Folds of the cross-validation.", min=2)] = 3,
    cart: Annotated[bool, _option("Also fit scikit-learn's decision tree, for comparison.", "--cart/--no-cart")] = True,
    compare: Annotated[
        bool,
        _option("After a small tree also fit the large one (lcn), and print both scores.", "--compare/--no-compare"),
    ] = False,
    refit: Annotated[
        bool,
        _option("Once scored, fit the model again, to all rows; without, it lacks the hold-out.", "--refit/--no-refit"),
    ] = True,
    seed: Annotated[int, _option("Seed of the hold-out split and of training.", min=0)] = 0,
    store: Annotated[
        Path | None,
        _option(
            "Folder for the encoded rows of a table larger than memory, which are removed at the end; by default the "
            "one for temporary files.",
            metavar="DIR",
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        _option(
            "Fit on a Dask cluster whose workers can read the files: tcp://HOST:PORT, or local for the processors of "
            "this machine.",
            metavar="ADDRESS",
        ),
    ] = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    force: Force = False,
    quiet: Annotated[bool, _option("Print only errors and scores.", "--quiet")] = False,
    as_json: AsJson = False,
) -> None:
    """Fit a model to a table; write the model, its tree and a report."""
    from treelu.cli.check import ReadOptions, check_fit

    reading = ReadOptions(delimiter, decimal, encoding)
    named = {"--features": features or (), "--drop": drop or (), "--text": text or (), "--numbers": numbers or ()}
    named["--groups"] = [groups] if groups else ()
    check_fit(data, out, target=target, smiles=smiles, columns=named, valid=valid, reading=reading, force=force)

    from treelu.cli.fit import fit_table
    from treelu.cli.prepare import ColumnChoice, Source

    given: dict[str, Any] = {
        "max_leaf_nodes": leaves, "max_terms": terms,
        "depth": depth, "drop_connect": drop_connect, "epochs": epochs,
        "learning_rate": learning_rate, "max_tree_features": max_tree_features, "n_estimators": members,
        "training": None if batch_size is None else {"batch_size": batch_size},
        "class_weight": "balanced" if balanced else None, "early_stopping": early_stopping or None,
    }  # fmt: skip
    columns = ColumnChoice(
        smiles=smiles,
        features=features or (),
        drop=drop or (),
        text=text or (),
        numbers=numbers or (),
        max_categories=max_categories,
        bits=bits,
        radius=radius,
        dates=dates,
        blocks=tuple(block.value for block in blocks or (MoleculeBlock.substructures,)),
        groups=groups,
    )
    fit_table(
        Source(data, target, columns, reading, task, hold_out, valid, seed),
        out,
        method=method,
        parameters={name: value for name, value in given.items() if value is not None},
        threshold=threshold,
        folds=folds if tune else None,
        with_cart=cart,
        force=force,
        quiet=quiet,
        as_json=as_json,
        store=store,
        scheduler=scheduler,
        compare=compare,
        refit=refit,
        typed=context.obj or (),
    )


@app.command()
def predict(
    model: ModelFolder,
    data: Data,
    out: Output = None,
    keep: Annotated[Columns, _option("Columns to copy into the output (a,b,c).", metavar="COL")] = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    force: Force = False,
    as_json: Annotated[bool, _option("Print one JSON object per line instead of CSV.", "--json")] = False,
) -> None:
    """Predict the rows of a table of any size."""
    from treelu.cli.check import ReadOptions, check_table

    reading = ReadOptions(delimiter, decimal, encoding)
    check_table(data, reading)

    from treelu.cli.predict import predict_table

    predict_table(model, data, out, keep=keep or (), reading=reading, force=force, as_json=as_json)


@app.command()
def export(
    model: ModelFolder,
    format: Annotated[Format, _option("What to write.", "--format")] = "text",
    out: Output = None,
    leaves: Annotated[
        Leaves | None, _option("Leaves that rows reach, or all leaves; by default all in formats that predict.")
    ] = None,
    label: Label = None,
    dialect: Annotated[Dialect, _option("SQL dialect of --format sql.")] = "plain",
    table: Annotated[str, _option("Table that --format sql reads.", metavar="NAME")] = "data",
    keep: Annotated[Columns, _option("Columns that --format sql copies to its output (a,b,c).", metavar="COL")] = None,
    encoded: Annotated[
        bool, _option("Take encoded features instead of the table's columns; for molecules.", "--encoded")
    ] = False,
    single: Annotated[bool, _option("Compute --format c or onnx in single precision.", "--single")] = False,
    self_test: Annotated[
        bool,
        _option("Instead of the query of --format sql, write one that tests it on example rows.", "--self-test"),
    ] = False,
    force: Force = False,
) -> None:
    """Write the tree as text, a picture, data, or a program that predicts."""
    from treelu.cli.export import export_tree
    from treelu.cli.programs import ProgramOptions

    export_tree(
        model,
        format,
        out,
        leaves=leaves,
        label=label,
        options=ProgramOptions(dialect, table, tuple(keep or ()), encoded, single, self_test),
        force=force,
    )


@app.command()
def report(
    model: ModelFolder,
    data: Annotated[
        str | None, typer.Argument(metavar="[DATA]", help="Table with the target, to score the model on.")
    ] = None,
    out: Annotated[Path, _option("HTML file to write.", metavar="FILE")] = Path("report.html"),
    label: Label = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a report page on a model, with its scores on DATA."""
    from treelu.cli.check import ReadOptions, check_table

    reading = ReadOptions(delimiter, decimal, encoding)
    if data is not None:
        check_table(data, reading)

    from treelu.cli.export import write_report

    write_report(model, data, out, label=label, reading=reading, force=force, as_json=as_json)


Within = Annotated[
    Columns, _option("Range of a column, such as age=18..100 or job=clerk|student; repeat for others.", metavar="RANGE")
]
Whole = Annotated[Columns, _option("Columns that take integers only (a,b,c).", metavar="COL")]


@app.command()
def ask(
    model: ModelFolder,
    data: Annotated[str, typer.Argument(metavar="DATA", help="Table with the rows to ask about.")],
    want: Annotated[str | None, _option("Class wanted; by default any other than the predicted one.")] = None,
    at_least: Annotated[float | None, _option("Lowest value wanted, or lowest probability of --want.")] = None,
    at_most: Annotated[float | None, _option("Highest value wanted, or highest probability of --want.")] = None,
    keep: Annotated[Columns, _option("Columns that stay as they are (a,b,c).", metavar="COL")] = None,
    within: Within = None,
    rise: Annotated[Columns, _option("Columns that may only rise (a,b,c).", metavar="COL")] = None,
    fall: Annotated[Columns, _option("Columns that may only fall (a,b,c).", metavar="COL")] = None,
    whole: Whole = None,
    max_changes: Annotated[int | None, _option("Maximum number of columns that may change.", min=1)] = None,
    nearest: Annotated[int, _option("How many changes to find, each leading to a different leaf.", min=1)] = 1,
    norm: Annotated[Norm, _option("How changes add up, in units of each column's spread.")] = "l1",
    label: Label = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    as_json: Annotated[bool, _option("Print one JSON object per line.", "--json")] = False,
) -> None:
    """Find the smallest change of each row that gives another answer."""
    from treelu.cli.check import ReadOptions, check_table

    reading = ReadOptions(delimiter, decimal, encoding)
    check_table(data, reading)

    from treelu.cli.ask import ask_table
    from treelu.cli.queried_model import QueryOptions

    columns = {"keep": keep, "within": within, "rise": rise, "fall": fall, "whole": whole}
    ask_table(
        model,
        data,
        QueryOptions(want, at_least, at_most, norm, max_changes, nearest),
        columns={option: names or () for option, names in columns.items()},
        label=label,
        reading=reading,
        as_json=as_json,
    )


@app.command()
def verify(
    model: ModelFolder,
    rises: Annotated[
        Columns, _option("The prediction never falls when these columns rise (a,b,c).", metavar="COL")
    ] = None,
    falls: Annotated[
        Columns, _option("The prediction never rises when these columns rise (a,b,c).", metavar="COL")
    ] = None,
    independent: Annotated[
        Columns, _option("The answer never depends on these columns (a,b,c).", metavar="COL")
    ] = None,
    at_most: Annotated[float | None, _option("The prediction is never above this.")] = None,
    at_least: Annotated[float | None, _option("The prediction is never below this.")] = None,
    want: Annotated[str | None, _option("Class whose probability is checked; by default the second of two.")] = None,
    within: Within = None,
    whole: Whole = None,
    label: Label = None,
    as_json: AsJson = False,
) -> None:
    """Prove properties of a model for all possible rows; exit with 1 if one does not hold."""
    from treelu.cli.verify import Claims, verify_model

    claims = Claims(rises or (), falls or (), independent or (), at_most, at_least)
    if not verify_model(model, claims, want=want, within=within or (), whole=whole or (), label=label, as_json=as_json):
        raise typer.Exit(1)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the work of `treelu.cli.main`, but for Ctrl-C."""
    try:
        with open_terminal(), warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            command = typer.main.get_command(app)
            # Not command.main(), which ends the process in ways of its own.
            typed = list(sys.argv[1:] if arguments is None else arguments)
            with command.make_context("treelu", list(typed), obj=typed) as context:
                command.invoke(context)
            flush_output()
    except typer.Exit as end:
        return end.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    except BrokenPipeError:  # the reader of our output, such as head, has had enough
        _drop_output()
        return 0
    except Exception as error:
        check_not_interrupted()  # an error that follows from it
        if os.environ.get("TREELU_TRACEBACK"):
            raise
        if isinstance(error, OSError) and error.filename == OUTPUT:
            _drop_output()
        return _report_error(error)
    return 0


def _drop_output() -> None:
    """Send what is left of the output to nowhere: the end of the process would try to write it again, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_error(error: Exception) -> int:
    """Say what went wrong in one line; returns the exit code."""
    if hasattr(error, "format_message"):  # of the option parser, which typer bundles under changing names
        text = error.format_message()
        if text.startswith("Usage:"):  # a bare `treelu`
            print(text)
            return 2
        text = text.replace("Value error, ", "")  # how pydantic begins what typer says
        command = getattr(getattr(error, "ctx", None), "command_path", "treelu")
        say(f"treelu: {' '.join(text.split())} (see: {command} --help)")
        return 2
    text = " ".join(str(error).split())
    tables, models = _loaded("treelu.tables.paths", "TableError"), _loaded("treelu.persistence", "ModelFileError")
    if isinstance(error, (InputError, *tables, *models)):
        say(f"treelu: {text}")
        return 2
    if isinstance(error, OSError) and error.filename and error.strerror:
        text = f"{error.filename}: {error.strerror}"
    if isinstance(error, ImportError | MemoryError | OSError | FloatingPointError):
        say(f"treelu: {text or 'not enough memory'}")
        return 1
    say(f"treelu: {type(error).__name__}: {text} (TREELU_TRACEBACK=1 shows where)")
    return 1


def _loaded(module: str, name: str) -> tuple[type[Exception], ...]:
    """An error class of a module, if that has been imported at all."""
    return (getattr(sys.modules[module], name),) if module in sys.modules else ()


def _show_warning(message: Warning | str, category: type[Warning], *place: Any) -> None:
    """Warnings of the library as plain lines; those of other libraries to developers are not for the user."""
    if issubclass(category, UserWarning):
        say(f"  {message}")
