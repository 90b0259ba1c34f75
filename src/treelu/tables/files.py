"""Table files as pandas frames, whole or a piece at a time: CSV, TSV, Parquet and .xlsx, gzip as well."""

from __future__ import annotations

import gzip
import io
import re
import warnings
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treelu.tables.layout import (
    BLANKS,
    RECORDS,
    Layout,
    check_distinct,
    count_titles,
    look_at_sample,
    look_at_text,
    title_remark,
)
from treelu.tables.missing import mark_missing_in
from treelu.tables.numbers import decimal_marks, leading_zeros, point_is_open, reads_two_ways
from treelu.tables.paths import EmptyTableError, TableError, file_kind, is_packed, open_bytes, plain_errors

if TYPE_CHECKING:
    import pandas as pd


def read_table(
    path: str | Path,
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    text: Collection[str] = (),
    missing_values: Sequence[Any] = (),
    note: Callable[[str], None] | None = None,
) -> pd.DataFrame:
    """Read a whole table.

    Parameters
    ----------
    path : path
        CSV (also "-", standard input), TSV, Parquet or .xlsx; text may be gzip-compressed.
    delimiter, encoding : str, optional
        What stands between columns, and the encoding of the text; by default recognised.
    decimal : {".", ","}, optional
        What stands before decimals. By default columns whose numbers are not written with a point, or may not be,
        are left as text, for `TableEncoder` to recognise.
    text : collection of str
        Columns to be read as text even if they hold numbers.
    missing_values : sequence of number or str
        What stands for a missing value, such as -999; "income=-1" in one column only.
    note : callable, optional
        Called with what was recognised, where it is not what the file's name suggests.

    Returns
    -------
    pandas.DataFrame
        At least one column and one row.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("x;y\\n1;a\\n2;b\\n")
    ...     file.flush()
    ...     read_table(file.name, note=print).shape == (2, 2)
    columns separated by semicolons
    True
    """
    note = note or (lambda text: None)
    with plain_errors(path):
        kind = file_kind(path)
    if kind == "text":
        frame = _read_text(path, delimiter, decimal, encoding, text, note)
    else:
        with reader_errors(path):
            frame = parquet_file(path).read().to_pandas() if kind == "parquet" else _read_sheet(path, text, note)
    frame = _named(frame, path)
    if not len(frame):
        raise EmptyTableError(f"{path} has a header but no rows; add rows below it")
    return mark_missing_in(frame, missing_values)


def iterate_table(
    path: str | Path,
    rows: int,
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    text: Collection[str] = (),
    missing_values: Sequence[Any] = (),
    all_text: bool = False,
) -> Iterator[pd.DataFrame]:
    """Read a table in pieces of at most `rows` rows, so that it need not fit into memory; otherwise as `read_table`.

    `all_text` leaves all cells of a text table as they stand.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("x\\n1\\n2\\n3\\n")
    ...     file.flush()
    ...     [len(piece) for piece in iterate_table(file.name, 2)]
    [2, 1]
    """
    with plain_errors(path):
        kind = file_kind(path)
    with reader_errors(path):
        if kind == "parquet":
            pieces = (batch.to_pandas() for batch in parquet_file(path).iter_batches(batch_size=rows))
        elif kind == "xlsx":
            sheet = _read_sheet(path, text, lambda text: None)
            pieces = (sheet.iloc[first : first + rows] for first in range(0, len(sheet), rows))
        else:
            file, layout = _look(path, delimiter, encoding)
            pieces = iter(_read_csv(file, layout, decimal, layout.names if all_text else text, chunksize=rows))
    empty = True
    while True:
        with reader_errors(path):
            piece = next(pieces, None)
        if piece is None:
            break
        if len(piece):
            empty = False
            yield mark_missing_in(_named(piece, path), missing_values)
    if empty:
        raise EmptyTableError(f"{path} has a header but no rows; add rows below it")


# Text


def _read_text(
    path: str | Path,
    delimiter: str | None,
    decimal: str | None,
    encoding: str | None,
    text: Collection[str],
    note: Callable[[str], None],
) -> pd.DataFrame:
    file, layout = _look(path, delimiter, encoding)
    for remark in layout.remarks:
        note(remark)
    content = io.BytesIO(file.read()) if str(path) == "-" else None  # read twice, maybe
    with reader_errors(path):
        frame = _read_csv(content or file, layout, decimal, text)

        def again() -> Any:
            return io.BytesIO(content.getvalue()) if content is not None else open_bytes(path)

        floats = [name for name in frame.columns if frame[name].dtype.kind == "f"]
        points = [name for name in floats if decimal is None and reads_two_ways(frame[name].to_numpy())]
        whole = [name for name in frame.columns if _is_whole(frame[name])]
        codes = whole if whole and _has_codes(again(), layout) else []
        if points or codes:
            # The numbers as they stand, so that 1.234 can be told from 1.2340, and 01 from 1.
            texts = _read_csv(again(), layout, ".", [*points, *codes], usecols=[*points, *codes])
            commas = bool(points) and decimal_marks(frame) == {","}
            for name in (*points, *codes):
                if point_is_open(texts[name], commas) if name in points else leading_zeros(texts[name]):
                    frame[name] = texts[name].astype(object)
    return frame


def _look(path: str | Path, delimiter: str | None, encoding: str | None) -> tuple[Any, Layout]:
    """The open file and its layout."""
    file = open_bytes(path)
    if str(path) == "-":
        return file, look_at_sample(file.peek(1), path, delimiter=delimiter, encoding=encoding)
    return file, look_at_text(path, delimiter=delimiter, encoding=encoding)


def _read_csv(file: Any, layout: Layout, decimal: str | None, text: Collection[str], **options: Any) -> Any:
    import pandas as pd

    return pd.read_csv(
        file,
        sep=layout.delimiter,
        decimal=decimal or ".",
        header=0,
        names=None if layout.delimiter == BLANKS else list(layout.names),  # without the blanks around them
        dtype=dict.fromkeys(text, str),
        encoding=layout.encoding,
        skiprows=layout.first_line,
        skipinitialspace=layout.delimiter != BLANKS,
        index_col=False,  # a row longer than the header is a mistake, not a row with a name
        low_memory=False,
        **options,
    )


def _is_whole(column: pd.Series) -> bool:
    """Whether a column was read as integers, perhaps with missing values."""
    if column.dtype.kind != "f":
        return column.dtype.kind in "iu"
    known = column.dropna()
    return bool(len(known) and (known == known.round()).all())


def _has_codes(file: Any, layout: Layout) -> bool:
    """Whether some field of a text begins with a zero and a digit."""
    if "16" in layout.encoding or "32" in layout.encoding:
        return True  # a digit is not one byte
    before = b"[" + re.escape("\n\r\"' \t" + layout.delimiter[:1]).encode() + b"]"
    code = re.compile(before + b"0[0-9]")
    tail = b"\n"
    while piece := file.read(1 << 20):
        if code.search(tail + piece):
            return True
        tail = piece[-2:]
    return False


# Other formats


def parquet_file(path: str | Path) -> Any:
    """A Parquet file, opened by pyarrow."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"reading {path} needs pyarrow: pip install 'treelu[parquet]'") from error
    return parquet.ParquetFile(gzip.open(path) if is_packed(path) else path)


def _read_sheet(path: str | Path, text: Collection[str], note: Callable[[str], None]) -> pd.DataFrame:
    """The first sheet of a workbook."""
    import pandas as pd

    try:
        import openpyxl  # noqa: F401
    except ImportError as error:
        raise ImportError(f"reading {path} needs openpyxl: pip install 'treelu[excel]'") from error
    with pd.ExcelFile(path, engine="openpyxl") as book:
        names = [str(name) for name in book.sheet_names]
        top = pd.read_excel(book, sheet_name=names[0], header=None, nrows=RECORDS, dtype=str).fillna("")
        if not top.shape[1]:
            raise TableError(f"{path}: the sheet {names[0]!r} is empty; a table needs a line of column names")
        records = top.to_numpy().tolist()
        titles = count_titles(records)
        check_distinct([name.strip() for name in records[titles] if name], path)
        frame = pd.read_excel(book, sheet_name=names[0], skiprows=titles, dtype=dict.fromkeys(text, str))
    if titles:
        note(title_remark(records[:titles]))
    if len(names) > 1:
        note(f"the first of {len(names)} sheets, {names[0]!r}, was read")
    return frame


def _named(frame: pd.DataFrame, path: str | Path) -> pd.DataFrame:
    """The same with names that are texts without blanks around them."""
    names = [str(name).strip() for name in frame.columns]
    check_distinct(names, path)
    frame.columns = names
    return frame


@contextmanager
def reader_errors(path: str | Path) -> Iterator[None]:
    """Turn errors of pandas and pyarrow about a bad file into a `TableError` with the remedy."""
    with plain_errors(path):
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", message="Length of header")
                yield
        except (TableError, ImportError, OSError, EOFError, UnicodeDecodeError, zlib.error):
            raise
        except Exception as error:
            raise TableError(_parser_message(path, error)) from None


def _parser_message(path: str | Path, error: Exception) -> str:
    if type(error).__name__ == "EmptyDataError":
        return f"{path} is empty; a table needs a line of column names and rows below it"
    ragged = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
    if ragged:
        header, line, found = ragged.groups()
        return f"{path}: line {line} has {found} fields, but the header {header}; check --delimiter and quotes there"
    if "Length of header" in str(error):
        return f"{path}: rows have more fields than the header has names; check --delimiter, or name all columns"
    reason = str(error).strip().splitlines()[0].removeprefix("Error tokenizing data. ").removeprefix("C error: ")
    return f"{path} cannot be read as a table ({reason}); check that it is CSV, TSV, Parquet or .xlsx"
