"""Table files before they are read: which ones a path names, of what kind, opened; and the errors of bad ones.

Standard library only, as `treelu.tables.layout`: the command line refuses a bad file before it imports anything heavy.
"""

from __future__ import annotations

import glob
import gzip
import io
import sys
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

ENDINGS = (".csv", ".tsv", ".txt", ".parquet", ".csv.gz", ".tsv.gz", ".txt.gz")
PACKED, PARQUET = 5, 3  # bytes of text in a byte of a gzip-compressed file, and in one of a Parquet file, about
SAMPLE = 1 << 16  # bytes that a reader can look ahead
_GZIP, _ZIP, _OLD_SHEET, _PARQUET = b"\x1f\x8b", b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"PAR1"

FileKind = Literal["text", "parquet", "xlsx"]


class TableError(ValueError):
    """A table that cannot be used as it is; the message says what to change.

    Examples
    --------
    >>> import treelu
    >>> treelu.read_table("no-such-file.csv")
    Traceback (most recent call last):
        ...
    treelu.tables.paths.TableError: ...
    """


class EmptyTableError(TableError):
    """A table without rows; of many files it is passed over."""


def find_files(data: str | Path) -> list[str]:
    """The files that a path, a folder or a pattern names, in the order of their names.

    Parameters
    ----------
    data : str or path
        A file; a folder, whose tables are taken, those in folders below too, but for names that begin with a point or
        an underscore; or a pattern such as ``data/*.parquet``.

    Examples
    --------
    >>> find_files("no/such/*.csv")
    Traceback (most recent call last):
    ...
    treelu.tables.paths.TableError: no file matches no/such/*.csv; check the pattern
    """
    text = str(data)
    if Path(text).is_dir():
        inside = (path for path in Path(text).rglob("*") if path.name.endswith(ENDINGS) and path.is_file())
        found = [str(path) for path in inside if not path.name.startswith((".", "_"))]
        if not found:
            raise TableError(f"the folder {text} has no table; tables end in {', '.join(ENDINGS)}")
        return sorted(found)
    if glob.has_magic(text) and not Path(text).exists():
        found = [path for path in glob.glob(text, recursive=True) if Path(path).is_file()]
        if not found:
            raise TableError(f"no file matches {text}; check the pattern")
        return sorted(found)
    return [text]


def partition(path: str) -> dict[str, str]:
    """The columns that a path's folders give, as in a partitioned data set: year=2024/month=05/part.csv."""
    pairs = (folder.split("=", 1) for folder in Path(path).parts[:-1] if "=" in folder.strip("="))
    return {name: value for name, value in pairs if name}


def file_kind(path: str | Path) -> FileKind:
    """The kind of a file, by its first bytes; a `TableError` for archives and old spreadsheets."""
    if str(path) == "-":
        return "text"
    with open(path, "rb") as file:
        start = file.read(4)
    if start == _PARQUET or base_suffix(path) in (".parquet", ".pq"):
        return "parquet"
    if start == _OLD_SHEET:
        raise TableError(f"{path} is an old spreadsheet (.xls); save the sheet as .xlsx or CSV")
    if start != _ZIP:
        return "text"
    try:
        with zipfile.ZipFile(path) as archive:
            inside = archive.namelist()
    except zipfile.BadZipFile:
        inside = []
    if "xl/workbook.xml" in inside:
        return "xlsx"
    if "content.xml" in inside:
        raise TableError(f"{path} is an OpenDocument file; save the sheet as .xlsx or CSV")
    raise TableError(f"{path} is an archive; unpack it and give the table in it")


def check_alike(files: Sequence[str]) -> FileKind:
    """The kind of some files; a TableError where they differ."""
    kinds: dict[FileKind, str] = {}
    for path in files:
        with plain_errors(path):
            kinds.setdefault(file_kind(path), path)
    if len(kinds) > 1:
        (one, first), (other, second) = list(kinds.items())[:2]
        raise TableError(f"{first} is {one} and {second} is {other}; all files of a table must be of one kind")
    return next(iter(kinds))


def text_bytes(path: str) -> int:
    """About how many bytes a table takes as text."""
    with plain_errors(path):
        size = Path(path).stat().st_size
        return size * (PACKED if is_packed(path) else PARQUET if file_kind(path) == "parquet" else 1)


def is_packed(path: str | Path) -> bool:
    """Whether a file is gzip-compressed."""
    with open(path, "rb") as file:
        return file.read(2) == _GZIP


def base_suffix(path: str | Path) -> str:
    """The suffix of a name, before ``.gz``."""
    name = Path(path)
    return Path(name.stem).suffix.lower() if name.suffix.lower() == ".gz" else name.suffix.lower()


class _Unclosed(io.BufferedReader):
    """A reader of standard input, which belongs to the process and stays open."""

    def close(self) -> None:
        pass


def open_bytes(path: str | Path) -> Any:
    """The bytes of a text table, unpacked, as a reader that can look ahead."""
    raw: Any = _Unclosed(sys.stdin.buffer, SAMPLE) if str(path) == "-" else open(path, "rb", buffering=SAMPLE)  # type: ignore[arg-type] # noqa: SIM115
    if not raw.peek(2).startswith(_GZIP):
        return raw
    return io.BufferedReader(gzip.GzipFile(fileobj=raw), SAMPLE)


@contextmanager
def plain_errors(path: str | Path) -> Iterator[None]:
    """Turn errors of the system about a bad file into a `TableError` with the remedy."""
    try:
        yield
    except (TableError, ImportError):
        raise
    except FileNotFoundError:
        raise TableError(f"{path} does not exist; {_where_it_might_be(Path(path))}") from None
    except IsADirectoryError:
        raise TableError(f"{path} is a folder; give a table file (CSV, TSV, Parquet or .xlsx)") from None
    except UnicodeDecodeError as error:
        raise TableError(
            f"{path} is not text in {error.encoding} (byte {error.start}); give another --encoding, such as latin-1"
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise TableError(f"{path} is cut short or damaged: it cannot be unpacked; copy it again") from None
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or error}") from None


def _where_it_might_be(path: Path) -> str:
    """The remedy for a missing file: a similar name, or a look at the path."""
    try:
        near = get_close_matches(path.name, [entry.name for entry in path.parent.iterdir()], n=1, cutoff=0.75)
    except OSError:
        return f"there is no folder {path.parent} either"
    return f"did you mean {path.parent / near[0]}?" if near else "check its name and folder"
