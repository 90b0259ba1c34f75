"""The files that a path, a folder or a pattern names, and the columns in their paths. Standard library only."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from treelu.tables.errors import TableError
from treelu.tables.layout import file_kind, is_packed, plain_errors

ENDINGS = (".csv", ".tsv", ".txt", ".parquet", ".csv.gz", ".tsv.gz", ".txt.gz")
PACKED, PARQUET = 5, 3  # bytes of text in a byte of a gzip-compressed file, and in one of a Parquet file, about


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
    treelu.tables.errors.TableError: no file matches no/such/*.csv; check the pattern
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
    """The columns that a path's folders give, as in a partitioned data set.

    Examples
    --------
    >>> partition("sales/year=2024/month=05/part.csv")
    {'year': '2024', 'month': '05'}
    """
    pairs = (folder.split("=", 1) for folder in Path(path).parts[:-1] if "=" in folder.strip("="))
    return {name: value for name, value in pairs if name}


def check_alike(files: Sequence[str]) -> str:
    """The kind of some files, "text", "parquet" or "xlsx"; a TableError where they differ."""
    kinds: dict[str, str] = {}
    for path in files:
        with plain_errors(path):
            kinds.setdefault(file_kind(path), path)
    if len(kinds) > 1:
        (one, first), (other, second) = list(kinds.items())[:2]
        raise TableError(f"{first} is {one} and {second} is {other}; all files of a table must be of one kind")
    return next(iter(kinds))


def text_bytes(path: str) -> int:
    """About how many bytes a table takes as text.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("x,y\\n1,2\\n")
    ...     file.flush()
    ...     text_bytes(file.name)
    8
    """
    with plain_errors(path):
        size = Path(path).stat().st_size
        return size * (PACKED if is_packed(path) else PARQUET if file_kind(path) == "parquet" else 1)
