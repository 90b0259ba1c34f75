"""How a text table is laid out: its encoding, what separates its columns, and their names.

Standard library only: the command line looks at a header here before it imports anything heavy.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from treelu.tables.errors import EmptyTableError, TableError

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
BLANKS = r"\s+"  # as pandas writes "any number of blanks"
WINDOWS = "cp1252"  # Latin-1 with a few more characters, as Windows writes it
_ENCODING_NAMES = {WINDOWS: "Windows-1252 (Latin-1)", "latin-1": "Latin-1", "utf-16": "UTF-16"}
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_GZIP, _ZIP, _OLD_SHEET, _PARQUET = b"\x1f\x8b", b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"PAR1"
_SAMPLE = 1 << 16  # bytes that are looked at
_RECORDS = 60  # of the sample that must agree on a delimiter
_NUMBER = r"[-+]?\d*\.?\d+([eE][-+]?\d+)?(\.\d+)?"  # the last part is what pandas adds to a name that stands twice

FileKind = Literal["text", "parquet", "xlsx"]


@dataclass(frozen=True)
class Layout:
    """How a text table is laid out.

    Attributes
    ----------
    encoding : str
        As Python names it.
    delimiter : str
        One character, or ``\\s+`` for any number of blanks.
    names : tuple of str
        The column names without blanks around them; pandas' "Unnamed: 2" for one that is blank.
    first_line : int
        Number of lines above the names.
    has_rows : bool
        Whether anything follows the names.
    remarks : tuple of str
        What was recognised and is not usual, in words.
    """

    encoding: str
    delimiter: str
    names: tuple[str, ...]
    first_line: int = 0
    has_rows: bool = True
    remarks: tuple[str, ...] = ()


def look_at_text(path: str | Path, *, delimiter: str | None = None, encoding: str | None = None) -> Layout:
    """Recognise the layout of a text table from its first lines; a `TableError` where its header is unusable.

    Parameters
    ----------
    path : path
        CSV, TSV or the like, possibly gzip-compressed. For "-" use `look_at_sample`.
    delimiter, encoding : str, optional
        Used as given instead of recognised.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".csv") as file:
    ...     _ = file.write("Größe;x\\n1,5;2\\n".encode("latin-1"))
    ...     file.flush()
    ...     layout = look_at_text(file.name)
    >>> layout.encoding, layout.delimiter, layout.names
    ('cp1252', ';', ('Größe', 'x'))
    """
    with plain_errors(path):
        with open_bytes(path) as file:
            sample = file.peek(_SAMPLE)[:_SAMPLE]
        if encoding is None:
            with open_bytes(path) as file:
                encoding = recognise_encoding(iter(lambda: file.read(1 << 20), b""), path)
    return look_at_sample(sample, path, delimiter=delimiter, encoding=encoding)


def look_at_sample(sample: bytes, path: str | Path, *, delimiter: str | None, encoding: str | None) -> Layout:
    """The same for the first bytes of a table."""
    if not sample.strip():
        raise EmptyTableError(f"{path} is empty; a table needs a line of column names and rows below it")
    encoding = encoding or recognise_encoding([sample], path)
    try:
        text = codecs.getincrementaldecoder(encoding)("replace").decode(sample)
    except LookupError:
        raise TableError(f"--encoding {encoding} is unknown; use for instance utf-8, latin-1 or utf-16") from None
    if len(sample) >= _SAMPLE:
        text = text[: text.rfind("\n") + 1] or text
    usual, hint = usual_delimiter(path), re.match(r"\ufeff?sep=(.)\r?\n", text)
    first_line = 0
    if hint:  # a line with which spreadsheets tell each other the delimiter
        first_line, text = 1, text[hint.end() :]
        delimiter = delimiter or hint.group(1)
    found = delimiter or recognise_delimiter(text, usual, path)
    records = _records(text, found)
    if not records:
        raise EmptyTableError(f"{path} is empty; a table needs a line of column names and rows below it")
    header = [name.removeprefix("\ufeff").strip() for name in records[0][1]]
    names = tuple(name or f"Unnamed: {place}" for place, name in enumerate(header))
    remarks = []
    if encoding not in ("utf-8", "utf-8-sig"):
        remarks.append(f"text in {_ENCODING_NAMES.get(encoding, encoding)}")
    if found != usual:
        remarks.append(f"columns separated by {DELIMITERS.get(found, 'blanks' if found == BLANKS else repr(found))}")
    layout = Layout(encoding, found, names, first_line, len(records) > 1, tuple(remarks))
    _check_names(names, path, delimiter)
    return layout


# Encoding


def recognise_encoding(chunks: Iterable[bytes], path: str | Path) -> str:
    """UTF-8 where all bytes are, UTF-16 by its mark or its zero bytes, else Windows-1252.

    Examples
    --------
    >>> [recognise_encoding([text], "x") for text in ("é".encode(), "é".encode("cp1252"), "é".encode("utf-16"))]
    ['utf-8', 'cp1252', 'utf-16']
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    found, first, unused = "utf-8", True, set(b"\x81\x8d\x8f\x90\x9d")  # by Windows-1252
    for chunk in chunks:
        if first:
            marked = [name for mark, name in _MARKS.items() if chunk.startswith(mark)]
            if marked:
                return marked[0]
            if b"\0" in chunk[:_SAMPLE]:
                return _zero_bytes(chunk[:_SAMPLE], path)
            first = False
        if found == "utf-8" and not (chunk.isascii() and not decoder.getstate()[0]):
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError:
                found = WINDOWS
        if found == WINDOWS and unused & set(chunk):
            return "latin-1"
    if found == "utf-8" and decoder.getstate()[0]:
        return WINDOWS
    return found


def _zero_bytes(sample: bytes, path: str | Path) -> str:
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if max(even, odd) > 0.3 * len(sample) / 2 and min(even, odd) < 0.1 * max(even, odd):
        return "utf-16-le" if odd > even else "utf-16-be"
    raise TableError(f"{path} is not a text table: it has zero bytes; give a CSV, TSV, Parquet or .xlsx file")


# Delimiter


def usual_delimiter(path: str | Path) -> str:
    """A tab in ``.tsv`` and ``.tab``, a comma elsewhere."""
    return "\t" if base_suffix(path) in (".tsv", ".tab") else ","


def recognise_delimiter(text: str, usual: str, path: str | Path = "the table") -> str:
    """The mark that cuts the first lines into as many fields as the header has.

    Examples
    --------
    >>> recognise_delimiter("a;b\\n1,5;2,5\\n3;4\\n", usual=",")
    ';'
    """
    scored: list[tuple[float, bool, int, str]] = []
    for mark in (usual, *(other for other in DELIMITERS if other != usual)):
        widths = [len(cells) for _, cells in _records(text, mark)]
        if widths and widths[0] > 1:
            agreeing = sum(width == widths[0] for width in widths) / len(widths)
            scored.append((agreeing, mark == usual, widths[0], mark))
    if scored:
        return max(scored, key=lambda score: score[:3])[3]
    _refuse_titles(text, usual, path)
    widths = [len(line.split()) for line in text.splitlines()[:_RECORDS] if line.strip()]
    if len(widths) > 1 and widths[0] > 1 and len(set(widths)) == 1:
        return BLANKS
    return usual


def _refuse_titles(text: str, usual: str, path: str | Path) -> None:
    """Raise where lines of one field stand above a header."""
    for mark in (usual, *DELIMITERS):
        records = _records(text, mark)
        common, n = Counter(len(cells) for _, cells in records).most_common(1)[0] if records else (1, 0)
        if common > 1 and n > 2:
            line = next(number for number, cells in records if len(cells) == common)
            raise TableError(
                f"{path}: line 1 is not a line of column names; they seem to stand in line {line}, so remove the lines "
                "above it"
            )


def _records(text: str, delimiter: str) -> list[tuple[int, list[str]]]:
    """The first records of a text that are not blank, each with the number of its last line."""
    if delimiter == BLANKS:
        lines = enumerate(text.splitlines()[:_RECORDS], 1)
        return [(number, line.split()) for number, line in lines if line.strip()]
    records = []
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        for cells in reader:
            if any(cell.strip() for cell in cells) or len(cells) > 1:
                records.append((reader.line_num, cells))
            if len(records) == _RECORDS:
                break
    except (csv.Error, TypeError):  # a field of many pages, a delimiter of several characters
        pass
    return records


# Names


def _check_names(names: tuple[str, ...], path: str | Path, delimiter: str | None) -> None:
    """An error where the header shows that the table is no table, or was read in a wrong way."""
    if len(names) == 1:
        wrong = _wrong_delimiter(names[0], path, delimiter)
        if wrong:
            raise TableError(wrong)
    check_distinct(names, path)
    numbered = [str(number) for number in range(len(names))]  # how pandas names columns that have no names
    if list(names) != numbered and all(re.fullmatch(_NUMBER, name) for name in names):
        raise TableError(f"the first line of {path} holds numbers only; add a first line with the columns' names")


def check_distinct(names: Sequence[str], path: str | Path) -> None:
    """Raise where a name stands twice, with both positions.

    Examples
    --------
    >>> check_distinct(["a", "b", "a"], "t.csv")
    Traceback (most recent call last):
    ...
    treelu.tables.errors.TableError: t.csv has two columns named 'a', columns 1 and 3; rename one of them
    """
    places: dict[str, int] = {}
    for place, name in enumerate(names, 1):
        if name in places:
            raise TableError(
                f"{path} has two columns named {name!r}, columns {places[name]} and {place}; rename one of them"
            )
        places[name] = place


def _wrong_delimiter(header: str, path: str | Path, delimiter: str | None) -> str | None:
    """The message about a header that is a single name with another delimiter in it."""
    for other, word in DELIMITERS.items():
        if other in header and other != delimiter:
            option = "$'\\t'" if other == "\t" else f"'{other}'"
            shown = header if len(header) <= 60 else f"{header[:60]}…"
            return (
                f"{path} has one column only, {shown!r}: it seems to be separated by {word}; add --delimiter {option}"
            )
    return None


def check_columns_named(wanted: Sequence[str], names: Sequence[str], *, option: str | None = None) -> None:
    """Raise if a column is missing, with the name of one that is much like it."""
    missing = [name for name in wanted if name not in names and name.strip() not in names]
    if not missing:
        return
    whose = f"{option}: " if option else ""
    if len(missing) > 1:
        shown = ", ".join(map(repr, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise TableError(f"{whose}the table lacks {len(missing)} columns: {shown}")
    raise TableError(f"{whose}the table has no column {missing[0]!r}{_did_you_mean(missing[0], list(names))}")


def _did_you_mean(name: str, names: list[str]) -> str:
    from difflib import get_close_matches

    folded = {other.casefold().strip(): other for other in reversed(names)}
    near = get_close_matches(name.casefold().strip(), list(folded), n=1, cutoff=0.6)
    if near:
        return f"; did you mean {folded[near[0]]!r}?"
    return f"; it has {', '.join(map(repr, names[:8]))}{', …' if len(names) > 8 else ''}"


def split_names(values: Sequence[str], names: Sequence[str], option: str) -> list[str]:
    """Names of columns that were given one by one, or with commas between them.

    Examples
    --------
    >>> split_names(["a,b", "x, y"], ["a", "b", "x, y"], "--drop")
    ['a', 'b', 'x, y']
    """
    known = set(names)
    given = [name for value in values for name in ([value] if value in known else value.split(","))]
    given = list(dict.fromkeys(name if name in known else name.strip() for name in given))
    check_columns_named(given, names, option=option)
    return given


# Files


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
    if start == _ZIP:
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
    return "text"


class _Unclosed(io.BufferedReader):
    """A reader of standard input that leaves it open."""

    def close(self) -> None:
        """Standard input belongs to the process."""


def open_bytes(path: str | Path) -> Any:
    """The bytes of a text table, unpacked, as a reader that can look ahead."""
    raw: Any = _Unclosed(sys.stdin.buffer, _SAMPLE) if str(path) == "-" else open(path, "rb", buffering=_SAMPLE)  # type: ignore[arg-type] # noqa: SIM115
    if not raw.peek(2).startswith(_GZIP):
        return raw
    return io.BufferedReader(gzip.GzipFile(fileobj=raw), _SAMPLE)


def is_packed(path: str | Path) -> bool:
    """Whether a file is gzip-compressed."""
    with open(path, "rb") as file:
        return file.read(2) == _GZIP


def base_suffix(path: str | Path) -> str:
    """The suffix of a name, before ``.gz``."""
    name = Path(path)
    return Path(name.stem).suffix.lower() if name.suffix.lower() == ".gz" else name.suffix.lower()


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
    from difflib import get_close_matches

    try:
        near = get_close_matches(path.name, [entry.name for entry in path.parent.iterdir()], n=1, cutoff=0.75)
    except OSError:
        return f"there is no folder {path.parent} either"
    return f"did you mean {path.parent / near[0]}?" if near else "check its name and folder"
