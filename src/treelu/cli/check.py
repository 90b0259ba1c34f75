"""Early checks of the input: a file that is not a table, a column that is not there, a folder that is not empty.

Imports nothing heavy, so that a slip costs a moment.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from treelu.cli.messages import InputError
from treelu.cli.options import FitOptions, ReadOptions
from treelu.tables.layout import check_columns_named, look_at_text, split_names
from treelu.tables.paths import (
    EmptyTableError,
    TableError,
    check_alike,
    file_kind,
    find_files,
    partition,
    plain_errors,
)

MANIFEST = "model.json"  # of a saved model


def check_folder(folder: Path, force: bool) -> None:
    """Raise unless a model may be written there, and can be."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder} is a file; give a folder")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        what = "already holds a model" if (folder / MANIFEST).exists() else "is not empty"
        raise InputError(f"--out {folder} {what}; add --force to write there anyway, or choose another folder")
    there = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise InputError(f"--out {folder}: nothing can be written to {there} ({error.strerror})") from None


def check_table(path: str, reading: ReadOptions) -> tuple[str, ...] | None:
    """The column names of a text table; None where only other packages can read them. Raises for bad tables."""
    options = reading.options()
    if path == "-":
        return None
    files = find_files(path)
    if len(files) > 1:
        return _check_first(files, reading)
    path = files[0]
    with plain_errors(path):
        kind = file_kind(path)
    if kind != "text":
        return None
    layout = look_at_text(path, delimiter=options["delimiter"], encoding=options["encoding"])
    if not layout.has_rows:
        raise EmptyTableError(f"{path} has a header but no rows; add rows below it")
    return (*layout.names, *partition(path))


def _check_first(files: Sequence[str], reading: ReadOptions) -> tuple[str, ...] | None:
    """The names of the columns of the first of many text tables that is not empty; all must be of one kind."""
    if check_alike(files) != "text":
        return None
    for path in files:
        try:
            return check_table(path, reading)
        except EmptyTableError:
            continue
    raise TableError(f"none of the {len(files)} files has rows; add some")


def check_fit(options: FitOptions) -> None:
    """Raise for what is wrong with a fit before it begins."""
    check_folder(options.out, options.force)
    names = check_table(options.data, options.reading)
    targets = None
    if names is not None:
        targets = split_names(options.target, names, "--target")
        options.columns.named_in(names)
    if options.valid is not None:
        others = check_table(options.valid, options.reading)
        if targets is not None and others is not None:
            check_columns_named(targets, others, option=options.valid)
