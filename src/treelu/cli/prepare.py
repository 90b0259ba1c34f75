"""From a table file to training rows and hold-out rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from treelu.cli.interrupt import check_not_interrupted
from treelu.cli.messages import InputError, Notes, count, progress_bar, step
from treelu.cli.options import ColumnOptions, FitOptions, ReadOptions
from treelu.data.folds import fold_numbers
from treelu.data.store import RowStore
from treelu.persistence.table_model import TableModel
from treelu.report.digest import RowDigest
from treelu.tables import (
    Encoded,
    TableEncoder,
    TableError,
    TableTargets,
    Task,
    check_columns,
    read_table,
    read_targets,
)
from treelu.tables.layout import split_names
from treelu.tables.missing import mark_missing_in, occurring
from treelu.tables.numbers import NumberFormat
from treelu.tables.paths import find_files, partition
from treelu.tables.pieces import Drawn, TableReader, draw_table, estimate_rows
from treelu.tables.row_names import row_names
from treelu.tables.suspects import bounds_among, far_values, total_row
from treelu.tables.targets import suspicious_classes

if TYPE_CHECKING:
    import pandas as pd

MOST_PARTS = 20  # into which groups are divided to hold some of the parts out


def feature_columns(columns: ColumnOptions, frame: pd.DataFrame, targets: Sequence[str], notes: Notes) -> list[str]:
    """Names of the columns that become features."""
    smiles = columns.smiles
    if smiles is None:
        _hint_at_molecules([name for name in frame.columns if name not in (*targets, *columns.drop)], notes)
    both = [name for name in (*columns.features, smiles) if name in targets]
    if both:
        raise InputError(f"column {both[0]!r} is a --target and cannot be a feature too")
    if smiles is None:
        names = columns.features or [name for name in frame.columns if name not in (*targets, columns.groups)]
        return [name for name in names if name not in columns.drop]
    unused = [name for name in frame.columns if name not in (*targets, smiles, *columns.features, columns.groups)]
    if unused:
        shown = ", ".join(map(repr, unused[:4])) + (f" and {len(unused) - 4} more" if len(unused) > 4 else "")
        notes(f"besides molecules, {shown} are not used; --features adds columns")
    return [smiles, *(name for name in columns.features if name not in (smiles, *columns.drop))]


def _unused(columns: ColumnOptions, names: Sequence[str]) -> dict[str, str]:
    """The option by which each of some columns is no feature."""
    dropped = dict.fromkeys(columns.drop, "by --drop")
    groups = {} if columns.groups is None else {columns.groups: "it is the --groups column"}
    return {name: (dropped | groups).get(name, "it is not among --features") for name in names}


def _hint_at_molecules(names: Sequence[str], notes: Notes) -> None:
    """Say how to use a column of molecules that was not named as one."""
    for name in names:
        if re.fullmatch(r"(.*[\s_-])?smiles([\s_-].*)?", name, flags=re.IGNORECASE):
            notes.warn(f"column {name!r} seems to hold molecules; add --smiles {quote(name)} to use their structures")


@dataclass(frozen=True)
class TableRows:
    """Features and targets of some rows, with SMILES where they are molecules, numbers in the file, and groups.

    `labels` are their names by a column that is no feature; `encoder` is what made the features.
    """

    X: Any
    y: NDArray[Any]
    names: list[str] | None = None
    numbers: NDArray[np.int64] | None = None
    groups: NDArray[np.int64] | None = None
    labels: list[str] | None = None
    encoder: TableEncoder | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def encoded(self) -> Encoded:
        """The features as estimators of the table take them."""
        assert self.encoder is not None
        return Encoded(self.X, np.arange(len(self)), self.encoder)

    @property
    def targets(self) -> NDArray[Any]:
        """The values of each target, of shape (n_targets, n_rows)."""
        return np.atleast_2d(self.y.T)


@dataclass(frozen=True)
class Prepared:
    """A table ready for training."""

    encoder: TableEncoder
    task: Task
    targets: list[str]
    training: TableRows
    held_out: TableRows | None
    notes: Notes = field(repr=False)
    styles: tuple[NumberFormat, ...] = ()
    digest: RowDigest | None = None
    store: RowStore | None = None  # all training rows, where they do not fit into memory; `training` is a sample
    held_out_numbers: NDArray[np.int64] | None = None  # in the table that was drawn from
    windows: list[Any] | None = None  # the training rows of each file as a delayed window, for a Dask cluster
    n_rows_elsewhere: int = 0  # in these windows
    whole: Callable[[], Prepared] | None = None  # the same with all rows to train on, those held out among them

    @property
    def n_rows(self) -> int:
        """How many rows are trained on."""
        if self.windows is not None:
            return self.n_rows_elsewhere
        return len(self.training) if self.store is None else len(self.store)

    @property
    def is_sample(self) -> bool:
        """Whether `training` is a part of the training rows only."""
        return self.store is not None or self.windows is not None


def prepare(options: FitOptions, notes: Notes) -> Prepared:
    """Read a table that fits into memory, decide what its columns are, and split its rows; as `prepare_files`."""
    with prepare_files(options, notes, in_memory=True) as table:
        return table


@contextmanager
def prepare_files(options: FitOptions, notes: Notes, *, in_memory: bool = False) -> Iterator[Prepared]:
    """Read a table, decide what its columns are, and split its rows.

    What is learned from the columns (medians, categories) is learned from the training rows alone; where the table does
    not fit into memory, from a sample of them, and all of them are in a store until the end of the block.
    """
    data, on_cluster = options.data, options.scheduler is not None
    with step(f"reading {'standard input' if data == '-' else data}", notes.quiet):
        drawn = _draw(options, notes, in_memory=in_memory)
        table, reader = prepare_frame(options, drawn.frame, notes)
    if len(drawn.frame) == drawn.n_rows and not on_cluster:
        yield table
        return
    if options.columns.groups is not None:
        where = "a cluster takes none" if on_cluster else f"{data} does not fit into memory, as groups must"
        raise InputError(f"--groups: {where}; leave it out, or fit fewer rows")
    if table.task == "labels":
        where = (
            "a cluster takes one --target" if on_cluster else f"{data} does not fit into memory, as several labels must"
        )
        raise InputError(f"{where}; fit one --target at a time")
    if table.held_out_numbers is not None:
        table = replace(table, held_out_numbers=drawn.numbers[table.held_out_numbers])
    from treelu.cli.large import stored, with_windows

    if on_cluster:
        yield with_windows(table, drawn, find_files(data), reader)
        return
    with stored(table, drawn.n_rows, find_files(data), reader, options.store) as whole:
        yield whole


def _draw(options: FitOptions, notes: Notes, *, in_memory: bool) -> Drawn:
    """The rows of a table, or a sample of them."""
    from treelu.cli.large import MOST_ROWS, n_drawn

    data, how = options.data, {"text": options.as_text, **options.reading.options()}
    how["missing_values"] = []  # they are marked when it is known which columns have them
    files = [data] if data == "-" else find_files(data)
    share = options.hold_out if options.valid is None else 0.0
    most = MOST_ROWS if data == "-" or in_memory else n_drawn(files, share)
    if len(files) == 1 and most == MOST_ROWS and not partition(files[0]) and options.scheduler is None:
        frame = read_table(files[0], note=lambda text: notes(f"{data}: {text}"), **how)
        return Drawn(frame, np.arange(len(frame)), len(frame))
    with progress_bar("reading", estimate_rows(files), notes.quiet) as advance:

        def told(n_rows: int) -> None:
            check_not_interrupted()
            advance(n_rows)

        target = options.target[0] if len(options.target) == 1 else None
        return draw_table(files, most, options.seed, classes=target, note=notes, told=told, **how)


def prepare_frame(options: FitOptions, frame: pd.DataFrame, notes: Notes) -> tuple[Prepared, TableReader]:
    """The rows of a frame, split and encoded, and how more rows like these are read."""
    known = [str(name) for name in frame.columns]
    names = split_names(options.target, known, "--target")
    options = replace(options, target=names, columns=options.columns.named_in(known))
    notes(f"{options.data}: {count(len(frame), 'row')}, {count(len(known), 'column')}")
    missing = occurring(frame, options.reading.missing_values)
    frame = mark_missing_in(frame, options.reading.missing_values)
    if totals := total_row(frame):
        notes.warn(f"{totals}; remove it if it is no row of its own")
    y = read_targets(frame, names, options.task, notes, decimal=options.reading.decimal)
    table = _Table(frame, y, _read_groups(frame, options, y.rows, notes), names)
    for name, style in zip(names, y.styles, strict=True):
        for warning in bounds_among(frame[name], style):
            notes.warn(f"target {name!r}{warning}")
    if (suspicion := suspicious_classes(names[0], y.y)) is not None:
        notes.warn(suspicion)
    everything, numbers = np.arange(len(y.y)), None
    if options.valid is not None:
        training = table.part(everything)
        held_out = _Table.read(options.valid, options.as_text, names, y.task, options.reading, y.styles)
        if y.task == "classification":
            _check_known(held_out.y.y, y.y, options.valid)
    else:
        groups = None if table.groups is None else table.groups[y.rows]
        rows, others = split_rows(y, options.hold_out, options.seed, groups)
        training, held_out = table.part(rows), table.part(others)
        numbers = held_out.y.rows
    noted = notes.copy()
    prepared = replace(_encode(options, training, held_out, missing, notes), held_out_numbers=numbers)
    if options.valid is None and prepared.held_out is not None:
        whole = partial(_encode, options, table.part(everything), held_out, missing, noted, seen=True)
        prepared = replace(prepared, whole=whole)
    return prepared, TableReader(prepared.encoder, names, y, options.reading.options())


def _encode(
    options: FitOptions, training: _Table, held_out: _Table, missing: Sequence[str], notes: Notes, *, seen: bool = False
) -> Prepared:
    """Learn the encoding from the training rows and encode both parts; `seen`: the second is a part of the first."""
    columns, names, task = options.columns, options.target, training.y.task
    used = feature_columns(columns, training.frame, names, notes)
    encoder = TableEncoder.learn(
        training.features[used],
        note=notes,
        warn=notes.warn,
        text=columns.text,
        numbers=columns.numbers,
        smiles=columns.smiles,
        blocks=[block.value for block in columns.blocks] or ["substructures"],
        radius=columns.radius,
        n_bits=columns.bits,
        max_categories=columns.max_categories,
        decimal=options.reading.decimal,
        dates=columns.dates,
        missing=missing,
    )
    unused = _unused(columns, [name for name in training.frame.columns if name not in (*names, *used)])
    encoder = replace(encoder, left_out=(*encoder.left_out, *unused.items()), fills_unseen=True)
    training_rows = training.encode(encoder, notes, options.data)
    held_out_rows = held_out.encode(encoder, notes, options.valid or options.data) if len(held_out.y.y) else None
    _check_learnable(training_rows, task, names)
    if task == "regression":
        _warn_of_far_targets(training_rows, names, notes)
    digest = RowDigest.of(training_rows.X)
    shared = None if seen or held_out_rows is None else digest.share_of(held_out_rows.X)
    if shared is not None and shared >= 0.5:
        notes.warn(
            f"{shared:.0%} of the hold-out rows have the same features as a training row: the scores may be too good; "
            "are rows repeated? --groups COL holds rows that belong together out together"
        )
    notes.finish()
    return Prepared(encoder, task, names, training_rows, held_out_rows, notes, styles=training.y.styles, digest=digest)


def _warn_of_far_targets(rows: TableRows, names: Sequence[str], notes: Notes) -> None:
    """Warn where a few targets outweigh all others."""
    for name, column in zip(names, rows.targets, strict=True):
        found = far_values(column)
        if found is not None:
            low, high, far = found
            notes.warn(
                f"target {name!r}: {len(far):,} of {len(column):,} values lie far from the others, such as "
                f"{far[0]:.6g} (nearly all are from {low:.6g} to {high:.6g}); RMSE and R² depend mostly on these few"
            )


def read_rows(model: TableModel, path: str, reading: ReadOptions, notes: Notes) -> TableRows:
    """The rows of a table with targets, encoded for a fitted model."""
    encoder = model.encoder.with_decimal(reading.decimal)
    styles = None if reading.decimal else model.styles or None
    written = [name for name, style in zip(model.targets, model.styles, strict=False) if not style.is_plain]
    as_text = [*encoder.text_columns, *written]
    table = _Table.read(path, as_text, list(model.targets), model.task, reading, styles)
    if model.task == "classification":
        _check_known(table.y.y, model.estimator.classes_, path)
    return table.encode(encoder, notes, path)


@dataclass(frozen=True)
class _Table:
    """A frame, the targets of those of its rows that have some, and the groups of all rows where they have any."""

    frame: pd.DataFrame
    y: TableTargets
    groups: NDArray[np.int64] | None = None
    targets: Sequence[str] = ()

    @property
    def features(self) -> pd.DataFrame:
        """The rows that have targets."""
        return self.frame.iloc[self.y.rows]

    @classmethod
    def read(
        cls,
        path: str,
        as_text: list[str],
        targets: list[str],
        task: Task,
        reading: ReadOptions,
        styles: Sequence[NumberFormat] | None,
    ) -> _Table:
        """A table to be scored, whose target may well be constant."""
        frame = read_table(path, text=as_text, **reading.options())
        check_columns(targets, frame, option=path)
        known = styles if styles and task == "regression" else None
        quiet = Notes(quiet=True)
        y = read_targets(frame, targets, task, quiet, varied=False, decimal=reading.decimal, styles=known)
        return cls(frame, y, targets=targets)

    def part(self, rows: NDArray[np.int64]) -> _Table:
        """Some of the rows that have targets."""
        targets = TableTargets(self.y.task, self.y.y[rows], self.y.rows[rows], self.y.styles)
        return replace(self, y=targets)

    def encode(self, encoder: TableEncoder, notes: Notes, path: str) -> TableRows:
        """Features and targets of these rows, less those with an unreadable SMILES."""
        used = [column.name for column in encoder.columns]
        check_columns(used, self.frame, option=path)
        # A text among numbers that no training row has counts as missing, as it would in a training row.
        encoded = encoder.encode(self.features, note=notes, lenient=True)
        if not len(encoded.rows):
            raise TableError(f"RDKit can read none of the SMILES of {path}; check --smiles")
        if len(encoded.rows) < len(self.y.y):
            lost = np.setdiff1d(np.arange(len(self.y.y)), encoded.rows)
            shown = ", ".join(str(self.y.rows[row] + 1) for row in lost[:5]) + (", …" if len(lost) > 5 else "")
            notes(f"{count(len(lost), 'row')} of {path} left out, RDKit cannot read their SMILES (rows {shown})")
        molecules = encoder.smiles_column
        texts = None if molecules is None else self.features[molecules.name].astype(str).iloc[encoded.rows].to_list()
        numbers = self.y.rows[encoded.rows]
        groups = None if self.groups is None else self.groups[numbers]
        labels = row_names(self.features.iloc[encoded.rows], {*used, *self.targets})
        return TableRows(encoded.X, self.y.y[encoded.rows], texts, numbers + 1, groups, labels, encoder)


def _read_groups(
    frame: pd.DataFrame, options: FitOptions, rows: NDArray[np.int64], notes: Notes
) -> NDArray[np.int64] | None:
    """The number of each row's group; an error where a row with a target has none, or where they have but one."""
    name = options.columns.groups
    if name is None:
        return None
    if name in (*options.target, *options.columns.features, options.columns.smiles):
        raise InputError(f"column {name!r} has the --groups and cannot be a target or a feature too")
    number: NDArray[np.int64] = frame[name].astype("category").cat.codes.to_numpy().astype(np.int64)
    missing = rows[number[rows] < 0]
    if len(missing):
        raise InputError(
            f"--groups: column {name!r} has no value in row {missing[0] + 1}; give each row a group, a row that "
            "belongs to no other one of its own"
        )
    n_groups = len(np.unique(number[rows]))
    if n_groups < 2:
        raise InputError(
            f"--groups: column {name!r} has a single group, of which no part can be held out; leave it out"
        )
    notes(f"column {name!r} has {n_groups:,} groups, whose rows are held out together; it is not a feature")
    return number


def _check_known(labels: NDArray[Any], known: NDArray[Any], path: str) -> None:
    new = sorted({str(label) for label in labels.tolist()} - {str(label) for label in known.tolist()})
    if new:
        raise InputError(f"{path} has the class {new[0]!r}, which no training row has; leave those rows out")


def split_rows(
    targets: TableTargets, share: float, seed: int, groups: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows for training and rows held out, with the classes in like shares; a class of one row is for training."""
    rows = np.arange(len(targets.y))
    n_held_out = round(share * len(rows))
    if n_held_out == 0:
        return rows, rows[:0]
    if groups is not None:
        is_held_out = _held_out_groups(targets, groups, share, seed)
        return rows[~is_held_out], rows[is_held_out]
    if len(rows) - n_held_out < 2:
        return rows, rows[:0]
    if targets.task != "classification":
        training, held_out = train_test_split(rows, test_size=n_held_out, random_state=seed)
        return np.sort(training), np.sort(held_out)
    _, number, counts = np.unique(targets.y.astype(str), return_inverse=True, return_counts=True)
    lone = counts[number] < 2
    others = rows[~lone]
    n_held_out = min(n_held_out, len(others) - 1)
    enough = n_held_out >= (counts >= 2).sum() and len(others) - n_held_out >= (counts >= 2).sum()
    training, held_out = train_test_split(
        others, test_size=n_held_out, random_state=seed, stratify=number[others] if enough else None
    )
    return np.sort(np.concatenate([training, rows[lone]])), np.sort(held_out)


def _held_out_groups(targets: TableTargets, groups: NDArray[np.int64], share: float, seed: int) -> NDArray[np.bool_]:
    """Which rows are held out where the rows of each group are on the same side."""
    is_classification = targets.task == "classification"
    key = np.unique(targets.y.astype(str), return_inverse=True)[1] if is_classification else targets.y
    if targets.task == "labels":
        key = np.zeros(len(groups))
    n_groups = len(np.unique(groups))
    if n_groups < 3:
        raise InputError(
            f"--groups: {n_groups} groups are too few to hold one out and train on others; give --hold-out 0"
        )
    most = min(MOST_PARTS, n_groups)
    parts = Fraction(share).limit_denominator(most)
    parts = min(max(parts, Fraction(1, most)), Fraction(most - 2, most))  # two groups are left to train on
    fold = fold_numbers(key, parts.denominator, np.random.default_rng(seed), groups, are_classes=is_classification)
    is_held_out = fold < parts.numerator
    if not is_held_out.any():
        raise InputError(
            "--groups: each class has all its rows in one group, so that none can be held out; give "
            "--hold-out 0, or leave --groups out"
        )
    return is_held_out


def _check_learnable(rows: TableRows, task: Task, targets: Sequence[str]) -> None:
    """Raise if the training rows have but one class, or but one of a label."""
    for name, column in zip(targets, rows.targets, strict=True):
        known = column[~np.isnan(column)] if task == "labels" else column
        if task != "regression" and len(set(known.tolist())) < 2:
            raise InputError(
                f"target {name!r} has one value only in the training rows; give more rows, another --seed or a smaller "
                "--hold-out"
            )
