"""`treelu predict`: a table of any size through a saved model, a piece at a time."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from treelu.cli.check import MANIFEST
from treelu.cli.messages import OUTPUT, InputError, Notes, writes_unicode
from treelu.cli.model import load_table_model
from treelu.cli.options import PredictOptions
from treelu.persistence.folder import naming, replacing, write_atomically
from treelu.persistence.table_model import TableModel
from treelu.tables import Encoded, TableError, check_columns
from treelu.tables.layout import split_names
from treelu.tables.paths import find_files
from treelu.tables.pieces import iterate_pieces
from treelu.tables.unseen import UnseenValues

if TYPE_CHECKING:
    import pandas as pd

VALUES_AT_ONCE = 4_000_000  # numbers of X in memory at a time: 32 MB
MAX_ROWS = 20_000


def predict_table(options: PredictOptions) -> None:
    """Write predictions, a row for each row of the table, as CSV or JSON lines."""
    data, out, keep = options.data, options.out, options.keep
    files = [data] if data == "-" else find_files(data)
    if out is not None:
        check_file(out, options.force, reads=[options.model, *files])
    model = load_table_model(options.model)
    encoder = model.encoder.with_decimal(options.reading.decimal)
    needed = [name for name in encoder.names if name not in model.unused_columns]
    rows = max(1, min(MAX_ROWS, VALUES_AT_ONCE // len(encoder.feature_names)))
    # A kept column stands as it stood: an article number 00120 keeps its zeros.
    kept = [name for value in keep for name in (value, *(part.strip() for part in value.split(",")))]
    text, notes, unseen = [*encoder.text_columns, *kept], Notes(), dict[str, UnseenValues]()
    with open_output(out) as file:
        pieces = iterate_pieces(files, rows, note=notes, text=text, **options.reading.options())
        for number, (path, piece, first_row) in enumerate(pieces):
            check_columns(needed, piece, option=path)
            try:
                found = unseen.setdefault(path, UnseenValues())
                if not encoder.fills_unseen:
                    encoder.check_missing(piece, model.unused_columns, first_row + 1)
                encoded = encoder.encode(
                    piece, note=notes, first_row=first_row, unused=model.unused_columns, unseen=found
                )
                result = predicted_table(model, encoded, len(piece))
                _note_unread(encoded, len(piece), first_row, notes)
                if options.strict:
                    _refuse(found, notes)
                result = _with_kept(result, piece, keep, options.as_json)
            except TableError as error:
                raise TableError(str(error) if path == data else f"{path}: {error}") from None
            if options.as_json:
                ascii_only = out is None and not writes_unicode()
                file.write(result.to_json(orient="records", lines=True, force_ascii=ascii_only, double_precision=15))
            else:  # as one text: of a piece that cannot be written in this encoding nothing is
                file.write(for_spreadsheets(result).to_csv(index=False, header=number == 0, lineterminator="\n"))
    for path, found in unseen.items():
        _tell(found, notes, "" if path == data else f"{path}: ")


def predicted_table(model: TableModel, rows: Encoded, n_rows: int) -> pd.DataFrame:
    """Predictions and probabilities with a row for each of the table; rows whose SMILES cannot be read are empty."""
    import pandas as pd

    result = pd.DataFrame(model.predictions(rows), index=pd.Index(rows.rows))
    return result if len(rows) == n_rows else result.astype(object).reindex(range(n_rows))


def _note_unread(rows: Encoded, n_rows: int, first_row: int, notes: Notes) -> None:
    """Print which SMILES cannot be read."""
    unread = np.setdiff1d(np.arange(n_rows), rows.rows)
    if len(unread):
        shown = ", ".join(str(first_row + row + 1) for row in unread[:5]) + (", …" if len(unread) > 5 else "")
        notes(f"{len(unread):,} SMILES cannot be read (rows {shown}); their predictions are left empty")


def _tell(found: UnseenValues, notes: Notes, whose: str = "") -> None:
    """Print what the training rows did not have."""
    for sentence in found.warnings():
        notes.warn(f"{whose}{sentence}")
    for sentence in found.notes():
        notes(f"{whose}{sentence}")


def _refuse(found: UnseenValues, notes: Notes) -> None:
    """Raise where the model does not know all values."""
    if found.warnings():
        _tell(found, notes)
        raise TableError(
            "--strict: the table has values that no training row had, see above; correct them, or leave --strict out"
        )


def _with_kept(result: pd.DataFrame, piece: pd.DataFrame, keep: Sequence[str], as_json: bool) -> pd.DataFrame:
    """The output with some columns of the input before it."""
    for place, name in enumerate(split_names(keep, [str(column) for column in piece.columns], "--keep")):
        if name in result.columns:
            raise InputError(f"--keep {name}: the output has a column of that name; rename it in the table")
        result.insert(place, name, (_typed(piece[name]) if as_json else piece[name]).to_numpy())
    return result


# Integers that JSON's readers would change: zeros before them, more digits than a float keeps.
_CODE = r"[+-]?(?:0[0-9]+|[0-9]{16,})"


def _typed(column: pd.Series) -> pd.Series:
    """A column of texts as the numbers or truth values that it holds, for JSON; codes stay as they stand."""
    import pandas as pd

    if column.dtype.kind not in "OTU" or not all(isinstance(text, str) for text in column.dropna()):
        return column
    texts = column.str.strip()
    truth = texts.str.lower().map({"true": True, "false": False})
    if truth.notna().equals(texts.notna()):
        return truth
    numbers = pd.to_numeric(texts, errors="coerce")
    fits = numbers.notna().equals(texts.notna()) and np.isfinite(numbers.dropna()).all()
    return numbers if fits and not texts.str.fullmatch(_CODE).any() else column


# Output


def check_file(path: Path, force: bool, reads: Sequence[str | Path] = ()) -> None:
    """Raise unless a file may be written there: none that the command reads, nor one of the model's own."""
    if path.is_dir():
        raise InputError(f"--out {path} is a folder; give a file")
    for read in map(Path, reads):
        files = [read / MANIFEST, *read.glob("arrays-*.safetensors")] if read.is_dir() else [read]
        if any(path.exists() and file.exists() and path.samefile(file) for file in files):
            raise InputError(f"--out {path} is what is read; give another file")
    if path.exists() and not force:
        raise InputError(f"--out {path} exists; add --force to replace it")
    if not path.parent.is_dir():
        raise InputError(f"--out {path}: there is no folder {path.parent}; make it first")


@contextmanager
def open_output(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that appears when it is complete."""
    if path is None:
        with _data_on_stdout():
            yield sys.stdout
        return
    with replacing(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        try:
            yield text
            text.flush()
        finally:
            with suppress(OSError, ValueError):
                text.detach()  # `replacing` closes the file itself


@contextmanager
def _data_on_stdout() -> Iterator[None]:
    """Data are written as they are, or not at all: an error where standard output does not have a character."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="strict")
    try:
        with naming(Path(OUTPUT)):
            yield
    except UnicodeEncodeError as error:
        character = error.object[error.start]
        raise InputError(
            f"standard output is {error.encoding}, which has no {character!a}; give --out FILE, or set "
            "PYTHONIOENCODING=utf-8"
        ) from None


def write_output(path: Path | None, content: str | bytes) -> None:
    """Text or bytes to standard output or to a file."""
    if isinstance(content, str) and not content.endswith("\n"):
        content += "\n"
    if path is not None:
        write_atomically(path, content.encode() if isinstance(content, str) else content)
    else:
        with _data_on_stdout():
            if isinstance(content, str):
                sys.stdout.write(content)
            else:
                sys.stdout.buffer.write(content)


# CSV that a spreadsheet shows and does not execute

# What spreadsheets take for a formula or a command; a number keeps its sign.
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?%?")


def quoted(value: Any) -> Any:
    """A text that a spreadsheet would execute, with an apostrophe before it; everything else as it is."""
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def for_spreadsheets(frame: pd.DataFrame) -> pd.DataFrame:
    """A table whose texts and column names a spreadsheet shows and does not execute."""
    import pandas as pd
    from pandas.api.types import is_numeric_dtype

    # As objects: beside an empty prediction a class 1 would be read as 1.0.
    texts = {
        name: pd.Series([quoted(value) for value in frame[name]], frame.index, object)
        for name in frame.columns
        if not is_numeric_dtype(frame[name].dtype)
    }
    return frame.assign(**texts).rename(columns=quoted)
