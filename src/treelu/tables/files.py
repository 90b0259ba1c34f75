"""Table files as pandas frames, whole or a piece at a time: CSV, TSV and Parquet, gzip as well."""

from __future__ import annotations

import gzip
import re
import sys
import warnings
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
_GZIP = b"\x1f\x8b"
_SHEETS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # the first bytes of .xlsx, .ods and .xls


class TableError(ValueError):
    """A table that cannot be used as it is; the message says what to change."""


def read_table(
    path: str | Path, *, delimiter: str | None = None, decimal: str = ".", text: Collection[str] = ()
) -> pd.DataFrame:
    """Read a whole table.

    Parameters
    ----------
    path : path
        CSV (also "-", standard input), TSV (``.tsv``, ``.tab``) or Parquet; each may be gzip-compressed.
    delimiter : str, optional
        What stands between columns; by default a tab in a TSV and a comma elsewhere.
    decimal : str
        What stands before decimals.
    text : collection of str
        Columns to be read as text even if they hold numbers.

    Returns
    -------
    pandas.DataFrame
        At least one column and one row.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("x,y\\n1,a\\n2,b\\n")
    ...     file.flush()
    ...     read_table(file.name).shape
    (2, 2)
    """
    with _plain_errors(path, delimiter):
        if _is_parquet(path):
            frame = _parquet_file(path).read().to_pandas()
        else:
            frame = _read_csv(path, delimiter, decimal, text)
    _check_columns(frame, path, delimiter)
    if not len(frame):
        raise TableError(f"{path} has a header but no rows; add rows below it")
    return frame


def iterate_table(
    path: str | Path,
    rows: int,
    *,
    delimiter: str | None = None,
    decimal: str = ".",
    text: Collection[str] = (),
) -> Iterator[pd.DataFrame]:
    """Read a table in pieces of at most `rows` rows, so that it need not fit into memory; otherwise as `read_table`."""
    with _plain_errors(path, delimiter):
        if _is_parquet(path):
            pieces = (batch.to_pandas() for batch in _parquet_file(path).iter_batches(batch_size=rows))
        else:
            pieces = iter(_read_csv(path, delimiter, decimal, text, chunksize=rows))
    empty = True
    while True:
        with _plain_errors(path, delimiter):
            piece = next(pieces, None)
        if piece is None:
            break
        _check_columns(piece, path, delimiter)
        if len(piece):
            empty = False
            yield piece
    if empty:
        raise TableError(f"{path} has a header but no rows; add rows below it")


def _read_csv(path: str | Path, delimiter: str | None, decimal: str, text: Collection[str], **options: Any) -> Any:
    import pandas as pd

    return pd.read_csv(
        _open(path),
        sep=_separator(path, delimiter),
        decimal=decimal,
        dtype=dict.fromkeys(text, str),
        encoding="utf-8-sig",
        index_col=False,  # a row longer than the header is a mistake, not a row with a name
        low_memory=False,
        **options,
    )


def _separator(path: str | Path, delimiter: str | None) -> str:
    return delimiter or ("\t" if _base_suffix(path) in (".tsv", ".tab") else ",")


def _open(path: str | Path) -> Any:
    """The bytes of a text table, unpacked."""
    if str(path) == "-":
        return sys.stdin.buffer
    file = open(path, "rb")  # noqa: SIM115 (pandas reads from it piece by piece; it closes with its last reference)
    start = file.read(4)
    file.seek(0)
    if start.startswith(_SHEETS):
        raise TableError(f"{path} is a spreadsheet or an archive; save the sheet as CSV")
    return gzip.open(file) if start.startswith(_GZIP) else file


def _is_packed(path: str | Path) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == _GZIP


def _is_parquet(path: str | Path) -> bool:
    if str(path) == "-":
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1" or _base_suffix(path) in (".parquet", ".pq")


def _parquet_file(path: str | Path) -> Any:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"reading {path} needs pyarrow: pip install 'treelu[parquet]'") from error
    return parquet.ParquetFile(gzip.open(path) if _is_packed(path) else path)


def _base_suffix(path: str | Path) -> str:
    name = Path(path)
    return Path(name.stem).suffix.lower() if name.suffix.lower() == ".gz" else name.suffix.lower()


@contextmanager
def _plain_errors(path: str | Path, delimiter: str | None) -> Iterator[None]:
    """What pandas, pyarrow and the system say of a bad file, as a `TableError` that says what to do."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="Length of header")
            yield
    except (TableError, ImportError):
        raise
    except FileNotFoundError:
        raise TableError(f"{path} does not exist; {_where_it_might_be(Path(path))}") from None
    except IsADirectoryError:
        raise TableError(f"{path} is a folder; give a table file (CSV, TSV or Parquet)") from None
    except UnicodeDecodeError as error:
        raise TableError(
            f"{path} is not UTF-8 text (byte {error.start}); convert it: iconv -f latin1 -t utf-8 {path} > utf8.csv"
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise TableError(f"{path} is cut short or damaged: it cannot be unpacked; copy it again") from None
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception as error:
        raise TableError(_parser_message(path, delimiter, error)) from None


def _parser_message(path: str | Path, delimiter: str | None, error: Exception) -> str:
    if type(error).__name__ == "EmptyDataError":
        return f"{path} is empty; a table needs a line of column names and rows below it"
    wrong = _wrong_delimiter(_first_line(path), path, delimiter)
    if wrong:
        decimal = ", and --decimal , if its commas are decimal" if _separator(path, delimiter) == "," else ""
        return wrong + decimal
    ragged = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
    if ragged:
        header, line, found = ragged.groups()
        return f"{path}: line {line} has {found} fields, but the header {header}; check --delimiter and quotes there"
    if "Length of header" in str(error):
        return f"{path}: rows have more fields than the header has names; check --delimiter, or name all columns"
    reason = str(error).strip().splitlines()[0].removeprefix("Error tokenizing data. ").removeprefix("C error: ")
    return f"{path} cannot be read as a table ({reason}); check that it is CSV, TSV or Parquet"


def _first_line(path: str | Path) -> str:
    """The line of column names; none for standard input, which has been read."""
    if str(path) == "-" or _is_parquet(path):
        return ""
    return _open(path).readline(1 << 16).decode("utf-8-sig", "replace").strip()


def _wrong_delimiter(header: str, path: str | Path, delimiter: str | None) -> str | None:
    """What to say of a header that is a single name, with another delimiter in it."""
    if _separator(path, delimiter) in header:
        return None
    for other, word in DELIMITERS.items():
        if other in header:
            option = "$'\\t'" if other == "\t" else f"'{other}'"
            shown = header if len(header) <= 60 else f"{header[:60]}…"
            return (
                f"{path} has one column only, {shown!r}: it seems to be separated by {word}; add --delimiter {option}"
            )
    return None


def _check_columns(frame: pd.DataFrame, path: str | Path, delimiter: str | None) -> None:
    """Give names as text; an error where the header shows that the table was read in a wrong way."""
    frame.columns = [str(name) for name in frame.columns]
    names = list(frame.columns)
    wrong = _wrong_delimiter(names[0], path, delimiter) if len(names) == 1 else None
    if wrong:
        raise TableError(wrong)
    numbered = [str(number) for number in range(len(names))]  # how pandas names columns that have no names
    if names != numbered and all(re.fullmatch(r"[-+]?\d*\.?\d+([eE][-+]?\d+)?(\.\d+)?", name) for name in names):
        raise TableError(f"the first line of {path} holds numbers only; add a first line with the columns' names")


def _where_it_might_be(path: Path) -> str:
    """What to do about a file that is not there: one with nearly the same name, or a look at the path."""
    from difflib import get_close_matches

    try:
        near = get_close_matches(path.name, [entry.name for entry in path.parent.iterdir()], n=1, cutoff=0.75)
    except OSError:
        return f"there is no folder {path.parent} either"
    return f"did you mean {path.parent / near[0]}?" if near else "check its name and folder"
