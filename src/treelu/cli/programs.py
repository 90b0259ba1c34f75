"""`treelu export --format sql|c|js|python|onnx`: a saved model as a program that predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from treelu.cli.messages import InputError
from treelu.cli.trees import target_of
from treelu.export.c import to_c
from treelu.export.javascript import to_javascript
from treelu.export.onnx_program import program_to_onnx
from treelu.export.program import Program, estimator_program, tree_program
from treelu.export.python import to_python
from treelu.export.sql import to_sql
from treelu.tables import TableModel
from treelu.tables.programs import encoded_program, table_program
from treelu.tree import ObliqueTree

PROGRAMS = ("sql", "c", "js", "python", "onnx")


@dataclass(frozen=True)
class ProgramOptions:
    """How a program is to be written: options of SQL, for encoded features, in single precision, or its self-test."""

    dialect: str
    table: str
    keep: tuple[str, ...]
    encoded: bool
    single: bool
    self_test: bool = False


def model_program(model: Any, name: str, leaves: str | None, label: str | None, *, encoded: bool) -> Program:
    """The program of a saved model, which may come from Python too."""
    if isinstance(model, ObliqueTree):
        return tree_program(model, name=name)
    try:
        if isinstance(model, TableModel):
            return _of_table(model, name, leaves, label, encoded)
        return estimator_program(model, name=name)
    except AttributeError as error:
        raise InputError(f"a {type(model).__name__} is not a tree: {error}") from None
    except ValueError as error:
        raise InputError(str(error)) from None


def _of_table(model: TableModel, name: str, leaves: str | None, label: str | None, encoded: bool) -> Program:
    """The program of a model that `treelu fit` saved."""
    if label is not None:
        target_of(model, label)  # or an error that names the targets
    build = encoded_program if encoded else table_program
    try:
        return build(model, name=name, visited=leaves == "visited", label=label)
    except AttributeError as error:
        raise InputError(
            f"a model of --method {model.method} cannot be written as a program ({error}); --method lcn fits a tree"
        ) from None


def write_program(program: Program, form: str, options: ProgramOptions) -> str | bytes:
    """The text of a program, or the bytes of an ONNX model."""
    try:
        if form == "sql":
            return _sql(program, options)
        if form == "c":
            return to_c(program, dtype="float" if options.single else "double")
        if form == "onnx":
            return program_to_onnx(program, dtype="float32" if options.single else "float64")
        return to_javascript(program) if form == "js" else to_python(program)
    except ValueError as error:
        raise InputError(str(error)) from None


def _sql(program: Program, options: ProgramOptions) -> str:
    """One statement, as views and drivers take it: the query, or the one that tests it."""
    dialect: Any = options.dialect
    if options.self_test:
        words = "-- Self-test: the number of example rows that are not answered as expected, which must be 0."
        return f"{words}\n{to_sql(program, dialect=dialect, self_test=True)};\n"
    keep = [name.strip() for value in options.keep for name in value.split(",")]
    return f"{to_sql(program, dialect=dialect, table=options.table.split('.'), keep=keep)};\n"
