"""The options of each command as one value; typer reads their fields as arguments and options.

Imports nothing heavy, so that help and a slip cost a moment.
"""

# ruff: noqa: RUF009  the functions that are called in the classes make fields
from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from treelu.cli.messages import InputError
from treelu.tables.layout import check_columns_named, split_names

Method = Literal["tree", "lcn", "alcn", "lln", "elcn", "stacked"]
TaskName = Literal["classification", "regression", "labels"]
DateOrder = Literal["day-first", "month-first"]
Format = Literal["text", "dot", "json", "onnx", "sql", "c", "js", "python", "html"]
Dialect = Literal["plain", "sqlite", "duckdb", "postgresql"]
Norm = Literal["l1", "l2", "linf"]
Leaves = Literal["visited", "all"]
LeafKind = Literal["auto", "constant", "linear"]


class MoleculeBlock(StrEnum):
    """Encodings of molecules; an enumeration, as typer takes no list of literals."""

    substructures = "substructures"
    maccs = "maccs"
    atom_pairs = "atom_pairs"
    torsions = "torsions"
    descriptors = "descriptors"


def option(words: str, *names: str, default: Any = None, **how: Any) -> Any:
    """A field that is an option."""
    return field(default=default, metadata={"typer": typer.Option(*names, help=words, **how)})


def argument(words: str, metavar: str, default: Any = MISSING) -> Any:
    """A field that is an argument."""
    return field(default=default, metadata={"typer": typer.Argument(help=words, metavar=metavar)})


def columns(words: str) -> Any:
    """A field of columns, given one by one or with commas between them."""
    return option(words, default=(), metavar="COL")


def flag(words: str, *names: str, default: bool = False) -> Any:
    """A field that is a switch."""
    return option(words, *names, default=default)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command for typer, with the fields of its values of options as parameters."""
    kinds = {name: kind for name, kind in get_type_hints(command).items() if name != "return"}

    @wraps(command)
    def expanded(**given: Any) -> None:
        command(**{name: _value(kind, given) if is_dataclass(kind) else given[name] for name, kind in kinds.items()})

    parameters: list[inspect.Parameter] = []
    for name, kind in kinds.items():
        own = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind)
        parameters += _parameters(kind) if is_dataclass(kind) else [own]
    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return expanded


def _typed_fields(kind: Any) -> Iterator[tuple[Field[Any], Any]]:
    hints = get_type_hints(kind)
    return ((item, hints[item.name]) for item in fields(kind))


def _parameters(kind: Any) -> Iterator[inspect.Parameter]:
    for item, hint in _typed_fields(kind):
        if is_dataclass(hint):
            yield from _parameters(hint)
            continue
        default = inspect.Parameter.empty if item.default is MISSING else item.default
        described: Any = Annotated[hint, item.metadata["typer"]]
        yield inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=described)


def _value(kind: Any, given: dict[str, Any]) -> Any:
    return kind(
        **{
            item.name: _value(hint, given) if is_dataclass(hint) else given[item.name]
            for item, hint in _typed_fields(kind)
        }
    )


# Fields of several commands; the classes below are named after the command.
_model = partial(argument, "Folder written by `treelu fit`.", "MODEL")
_data = partial(
    argument,
    "CSV, TSV, Parquet or .xlsx file; a folder or a pattern ('data/*.parquet') of such files; - reads CSV from "
    "standard input.",
    "DATA",
)
_out = partial(option, "File to write; standard output by default.", metavar="FILE")
_label = partial(option, "Which target to show, if the model has several.", metavar="COL")
_force = partial(flag, "Overwrite what is there.", "--force")
_as_json = partial(flag, "Print JSON for other programs.", "--json")
_seed = partial(option, "Seed of the hold-out split and of training.", default=0, min=0)
_within = partial(
    option,
    "Range of a column, such as age=18..100 or job=clerk|student; repeat for others.",
    default=(),
    metavar="RANGE",
)
_anywhere = partial(
    flag, "Also look beyond what the training rows held: outside their ranges, between integers.", "--anywhere"
)
_positive = partial(
    option, "Of two classes, the one that recall, precision and --threshold speak of; by default one named like a yes, "
    "else the rarer one.", metavar="CLASS",
)  # fmt: skip
_whole = partial(columns, "Columns that take integers only (a,b,c).")


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How text tables are read; None is recognised."""

    delimiter: str | None = option("Character between columns; detected by default.", metavar="CHAR")
    decimal: str | None = option("Decimal mark, . or , ; detected in each column by default.", metavar="CHAR")
    encoding: str | None = option("Encoding of the text; detected by default.", metavar="NAME")
    missing: list[str] = option(
        "Value that stands for a missing one, such as -999; COL=VALUE in one column (several: a,b,c).",
        default=(),
        metavar="VALUE",
    )

    @property
    def missing_values(self) -> list[str]:
        """The values that stand for missing ones, each on its own."""
        return [part.strip() for value in self.missing for part in value.split(",") if part.strip()]

    def options(self) -> dict[str, Any]:
        """Keyword arguments of `read_table`."""
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise InputError(
                f"--delimiter must be one character, got {self.delimiter!r}; a tab is $'\\t' in most shells"
            )
        if self.decimal not in (None, ".", ","):
            raise InputError(f"--decimal must be . or , got {self.decimal!r}")
        given = {"delimiter": self.delimiter, "decimal": self.decimal, "encoding": self.encoding}
        return given | {"missing_values": self.missing_values}


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """Which columns become features, and how."""

    smiles: str | None = option("Column of SMILES, which become substructures.", metavar="COL")
    features: list[str] = columns("Columns to use (a,b,c); with --smiles, in addition to the molecules.")
    drop: list[str] = columns("Columns to leave out (a,b,c).")
    groups: str | None = option(
        "Column of groups, such as patients: rows of one group are held out together.", metavar="COL"
    )
    text: list[str] = columns("Columns to read as categories, even if they hold numbers.")
    numbers: list[str] = columns("Columns to read as numbers, even if they look like dates (20210304).")
    dates: DateOrder | None = option("How to read dates such as 03/04/2021; detected by default.")
    max_categories: int = option("Maximum number of features made from one text column.", default=30, min=2)
    blocks: list[MoleculeBlock] = option(
        "What molecules become: substructures, maccs, atom_pairs, torsions, descriptors; repeat for several.",
        default=(),
        metavar="BLOCK",
    )
    bits: int = option("Maximum number of substructures.", default=2048, min=1, max=1 << 20)
    radius: int = option("Radius of substructures, in bonds.", default=2, min=0, max=10)

    def named_in(self, names: Sequence[str]) -> ColumnOptions:
        """The same, with lists of names between commas split and all names checked."""
        check_columns_named([self.smiles] if self.smiles else [], names, option="--smiles")
        lists = ("features", "drop", "text", "numbers")
        split: dict[str, Any] = {name: split_names(getattr(self, name), names, f"--{name}") for name in lists}
        check_columns_named([self.groups] if self.groups else [], names, option="--groups")
        return replace(self, **split)


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The parameters of the estimator, how they are chosen, and how it decides; None is left to it."""

    leaves: int | None = option("Maximum number of leaves of a small tree; 16 by default.", min=2)
    terms: int | None = option("Maximum number of terms in a split of a small tree; a category is one.", min=1)
    leaf_kind: LeafKind | None = option("Leaves of a small tree with one value or a formula each; auto compares both.")
    depth: int | None = option("Depth of the tree, which has up to 2^depth leaves.", min=1)
    drop_connect: float | None = option("Share of the weights dropped in each training step.", min=0.0, max=0.99)
    epochs: int | None = option("Passes over the training rows.", min=1)
    batch_size: int | None = option("Rows in each training step.", min=1)
    learning_rate: float | None = option("Step size.", min=1e-9)
    max_tree_features: int | None = option(
        "Maximum number of features that the tree may use; all by default.",
        "--max-tree-features",
        "--max-features",
        min=1,
    )
    members: int | None = option("Number of networks of elcn or stacked.", min=1)
    balanced: bool = flag(
        "Give each class the same total weight; a rare one of two is predicted from its frequency on.", "--balanced"
    )
    positive: str | None = _positive()
    threshold: float | None = option("Probability at which the positive of two classes is predicted.", min=0.0, max=1.0)
    early_stopping: bool = flag(
        "Stop when the score on a tenth of the training rows stops improving.", "--early-stopping"
    )
    tune: bool = flag("Choose depth and drop rate by cross-validation.", "--tune")
    folds: int = option("Folds of the cross-validation.", default=3, min=2)

    def parameters(self) -> dict[str, Any]:
        """The parameters of an estimator that were given."""
        given: dict[str, Any] = {
            "max_leaf_nodes": self.leaves,
            "max_terms": self.terms,
            "leaves": self.leaf_kind,
            "depth": self.depth,
            "drop_connect": self.drop_connect,
            "epochs": self.epochs,
            "learning_rate": self.learning_rate,
            "max_tree_features": self.max_tree_features,
            "n_estimators": self.members,
            "training": None if self.batch_size is None else {"batch_size": self.batch_size},
            "class_weight": "balanced" if self.balanced else None,
            "early_stopping": self.early_stopping or None,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    out: Path = option("Folder for the reports and pictures.", default=Path("treelu-demo"), metavar="DIR")
    seed: int = _seed()


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    data: str = _data()
    target: list[str] = option(
        "Column to predict; several (a,b,c) for several 0/1 labels.", default=MISSING, metavar="COL"
    )
    out: Path = option("Folder for the model, the tree and the report.", default=MISSING, metavar="DIR")
    method: Method | None = option(
        "tree: a small tree to read (default); lcn: a large tree (default for molecules, for several labels and "
        "with options of networks); alcn: a smooth network; lln: a tree with linear leaves; elcn: the paper's "
        "ensemble; stacked: networks, a forest and boosted trees, the most accurate."
    )
    task: TaskName | None = option("Kind of target; inferred by default.")
    columns: ColumnOptions = ColumnOptions()
    hold_out: float = option("Share of the rows held out to score the model.", default=0.2, min=0.0, max=0.9)
    valid: str | None = option("Table to score the model on, instead of a hold-out.", metavar="FILE")
    model: ModelOptions = ModelOptions()
    cart: bool = flag("Also fit scikit-learn's decision tree, for comparison.", "--cart/--no-cart", default=True)
    compare: bool = flag(
        "After a small tree also fit the large one (lcn), and print both scores.", "--compare/--no-compare"
    )
    refit: bool = flag(
        "Once scored, fit the model again, to all rows; without, it lacks the hold-out.",
        "--refit/--no-refit",
        default=True,
    )
    seed: int = _seed()
    store: Path | None = option(
        "Folder for the encoded rows of a table larger than memory, which are removed at the end; by default the "
        "one for temporary files.",
        metavar="DIR",
    )
    scheduler: str | None = option(
        "Fit on a Dask cluster whose workers can read the files: tcp://HOST:PORT, or local for the processors of "
        "this machine.",
        metavar="ADDRESS",
    )
    reading: ReadOptions = ReadOptions()
    force: bool = _force()
    quiet: bool = flag("Print only errors and scores.", "--quiet")
    as_json: bool = _as_json()

    @property
    def as_text(self) -> list[str]:
        """Columns that are read as text; names may have been given with commas between them."""
        names = (*self.columns.text, self.columns.smiles or "")
        return [part for name in names for part in (name, *name.split(","))]


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    model: Path = _model()
    data: str = _data()
    out: Path | None = _out()
    keep: list[str] = columns("Columns to copy into the output (a,b,c).")
    strict: bool = flag("Refuse a table with values that no training row had.", "--strict")
    reading: ReadOptions = ReadOptions()
    force: bool = _force()
    as_json: bool = flag("Print one JSON object per line instead of CSV.", "--json")


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    model: Path = _model()
    format: Format = option("What to write.", "--format", default="text")
    out: Path | None = _out()
    leaves: Leaves | None = option("Leaves that rows reach, or all leaves; by default all in formats that predict.")
    label: str | None = _label()
    dialect: Dialect = option("SQL dialect of --format sql.", default="plain")
    table: str = option("Table that --format sql reads.", default="data", metavar="NAME")
    keep: list[str] = columns("Columns that --format sql copies to its output (a,b,c).")
    top: str | None = option(
        "Terms that --format text or dot shows of a formula: a number, or all; by default the strongest of a long one.",
        metavar="N",
    )
    encoded: bool = flag("Take encoded features instead of the table's columns; for molecules.", "--encoded")
    single: bool = flag("Compute --format c or onnx in single precision.", "--single")
    typed: bool = flag(
        "Columns of numbers hold numbers only: a shorter query of --format sql --dialect sqlite.", "--typed"
    )
    self_test: bool = flag(
        "Instead of the query of --format sql, write one that tests it on example rows.", "--self-test"
    )
    force: bool = _force()


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    model: Path = _model()
    data: str | None = argument("Table with the target, to score the model on.", "[DATA]", default=None)
    out: Path = option("HTML file to write.", default=Path("report.html"), metavar="FILE")
    label: str | None = _label()
    reading: ReadOptions = ReadOptions()
    force: bool = _force()
    as_json: bool = _as_json()


@dataclass(frozen=True, kw_only=True)
class AskOptions:
    model: Path = _model()
    data: str = argument("Table with the rows to ask about.", "DATA")
    want: str | None = option("Class wanted; by default any other than the predicted one.")
    at_least: float | None = option("Lowest value wanted, or lowest probability of --want.")
    at_most: float | None = option("Highest value wanted, or highest probability of --want.")
    keep: list[str] = columns("Columns that stay as they are (a,b,c).")
    within: list[str] = _within()
    anywhere: bool = _anywhere()
    rise: list[str] = columns("Columns that may only rise (a,b,c).")
    fall: list[str] = columns("Columns that may only fall (a,b,c).")
    whole: list[str] = _whole()
    max_changes: int | None = option("Maximum number of columns that may change.", min=1)
    nearest: int = option("How many changes to find, each leading to a different leaf.", default=1, min=1)
    norm: Norm = option("How changes add up, in units of each column's spread.", default="l1")
    label: str | None = _label()
    reading: ReadOptions = ReadOptions()
    as_json: bool = flag("Print one JSON object per line.", "--json")


@dataclass(frozen=True, kw_only=True)
class VerifyOptions:
    model: Path = _model()
    data: str | None = argument("Table whose rows a counterexample starts from, if it can.", "[DATA]", default=None)
    rises: list[str] = columns("The prediction never falls when these columns rise (a,b,c).")
    falls: list[str] = columns("The prediction never rises when these columns rise (a,b,c).")
    independent: list[str] = columns("The answer never depends on these columns (a,b,c).")
    at_most: float | None = option("The prediction is never above this.")
    at_least: float | None = option("The prediction is never below this.")
    want: str | None = option("Class whose probability is checked; of two by default the positive one.")
    within: list[str] = _within()
    anywhere: bool = _anywhere()
    whole: list[str] = _whole()
    label: str | None = _label()
    out: Path | None = option("CSV file for the rows that refute, as `treelu predict` reads them.", metavar="FILE")
    reading: ReadOptions = ReadOptions()
    force: bool = _force()
    as_json: bool = _as_json()
