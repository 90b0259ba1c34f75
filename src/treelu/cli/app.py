"""The commands and their options; the work is in the other modules, imported when a command runs."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from treelu import __version__
from treelu.cli.check import check_fit, check_table
from treelu.cli.interrupt import check_not_interrupted
from treelu.cli.messages import OUTPUT, InputError, flush_output, open_terminal, say
from treelu.cli.options import (
    AskOptions,
    DemoOptions,
    ExportOptions,
    FitOptions,
    PredictOptions,
    ReportOptions,
    VerifyOptions,
    with_options,
)

app = typer.Typer(
    name="treelu",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Oblique decision trees trained by gradient descent.\n\nStart with: treelu demo",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"treelu {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command()
@with_options
def demo(options: DemoOptions) -> None:
    """Train trees on two built-in data sets and compare them with CART."""
    from treelu.cli.demo import run_demo

    run_demo(options)


@app.command()
@with_options
def fit(context: typer.Context, options: FitOptions) -> None:
    """Fit a model to a table; write the model, its tree and a report."""
    check_fit(options)

    from treelu.cli.fit import fit_table

    fit_table(options, context)


@app.command()
@with_options
def predict(options: PredictOptions) -> None:
    """Predict the rows of a table of any size."""
    check_table(options.data, options.reading)

    from treelu.cli.predict import predict_table

    predict_table(options)


@app.command()
@with_options
def export(options: ExportOptions) -> None:
    """Write the tree as text, a picture, data, or a program that predicts."""
    from treelu.cli.export import export_tree

    export_tree(options)


@app.command()
@with_options
def report(options: ReportOptions) -> None:
    """Write a report page on a model, with its scores on DATA."""
    if options.data is not None:
        check_table(options.data, options.reading)

    from treelu.cli.export import write_report

    write_report(options)


@app.command()
@with_options
def ask(options: AskOptions) -> None:
    """Find the smallest change of each row that gives another answer."""
    check_table(options.data, options.reading)

    from treelu.cli.ask import ask_table

    ask_table(options)


@app.command()
@with_options
def verify(options: VerifyOptions) -> None:
    """Prove properties of a model for all possible rows; exit with 1 if one does not hold."""
    from treelu.cli.verify import verify_model

    if not verify_model(options):
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
