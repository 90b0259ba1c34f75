"""How a table is laid out: its encoding, what separates its columns, titles above their names, and the names.

Standard library only: the command line looks at a header here before it imports anything heavy.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from treelu.tables.paths import SAMPLE, EmptyTableError, TableError, base_suffix, open_bytes, plain_errors

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
BLANKS = r"\s+"  # as pandas writes "any number of blanks"
WINDOWS = "cp1252"  # Latin-1 with a few more characters, as Windows writes it
_ENCODING_NAMES = {WINDOWS: "Windows-1252 (Latin-1)", "latin-1": "Latin-1", "utf-16": "UTF-16"}
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
RECORDS = 60  # of the sample: they must agree on a delimiter, and show titles above the names
_NUMBER = r"[-+]?\d*\.?\d+([eE][-+]?\d+)?(\.\d+)?"  # the last part is what pandas adds to a name that stands twice


@dataclass(frozen=True)
class Layout:
    """How a text table is laid out."""

    encoding: str
    delimiter: str  # one character, or `BLANKS`
    names: tuple[str, ...]  # without blanks around them; pandas' "Unnamed: 2" for one that is blank
    first_line: int = 0  # records above the names, blank ones too
    has_rows: bool = True  # whether anything follows the names
    remarks: tuple[str, ...] = ()  # what was recognised and is not usual, in words


def look_at_text(path: str | Path, *, delimiter: str | None = None, encoding: str | None = None) -> Layout:
    """Recognise the layout of a text table from its first lines; a `TableError` where its header is unusable."""
    with plain_errors(path):
        with open_bytes(path) as file:
            sample = file.peek(SAMPLE)[:SAMPLE]
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
    if len(sample) >= SAMPLE:
        text = text[: text.rfind("\n") + 1] or text
    usual = "\t" if base_suffix(path) in (".tsv", ".tab") else ","
    hint = re.match(r"\ufeff?sep=(.)\r?\n", text)
    first_line = 0
    if hint:  # a line with which spreadsheets tell each other the delimiter
        first_line, text = 1, text[hint.end() :]
        delimiter = delimiter or hint.group(1)
    found = delimiter or recognise_delimiter(text, usual, path)
    records = _records(text, found)
    if not records:
        raise EmptyTableError(f"{path} is empty; a table needs a line of column names and rows below it")
    cells = [cells for _, cells in records]
    titles = count_titles(cells)
    header = [name.removeprefix("\ufeff").strip() for name in cells[titles]]
    names = tuple(name or f"Unnamed: {place}" for place, name in enumerate(header))
    remarks = []
    if encoding not in ("utf-8", "utf-8-sig"):
        remarks.append(f"text in {_ENCODING_NAMES.get(encoding, encoding)}")
    if found != usual:
        remarks.append(f"columns separated by {DELIMITERS.get(found, 'blanks' if found == BLANKS else repr(found))}")
    if titles:
        first_line += records[titles][0] - 1
        remarks.append(title_remark(cells[:titles]))
    _check_names(names, path, delimiter)
    return Layout(encoding, found, names, first_line, len(records) > titles + 1, tuple(remarks))


# Encoding


def recognise_encoding(chunks: Iterable[bytes], path: str | Path) -> str:
    """UTF-8 where all bytes are, UTF-16 by its mark or its zero bytes, else Windows-1252."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    found, unused = "utf-8", set(b"\x81\x8d\x8f\x90\x9d")  # by Windows-1252
    for number, chunk in enumerate(chunks):
        if number == 0:
            marked = next((name for mark, name in _MARKS.items() if chunk.startswith(mark)), None)
            if marked is not None:
                return marked
            if b"\0" in chunk[:SAMPLE]:
                return _zero_bytes(chunk[:SAMPLE], path)
        if found == "utf-8" and (not chunk.isascii() or decoder.getstate()[0]):
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError:
                found = WINDOWS
        if found == WINDOWS and unused & set(chunk):
            return "latin-1"
    return WINDOWS if decoder.getstate()[0] else found


def _zero_bytes(sample: bytes, path: str | Path) -> str:
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if max(even, odd) > 0.3 * len(sample) / 2 and min(even, odd) < 0.1 * max(even, odd):
        return "utf-16-le" if odd > even else "utf-16-be"
    raise TableError(f"{path} is not a text table: it has zero bytes; give a CSV, TSV, Parquet or .xlsx file")


# Delimiter


def recognise_delimiter(text: str, usual: str, path: str | Path = "the table") -> str:
    """The mark that cuts the first lines into as many fields as the header has."""
    scored: list[tuple[float, bool, int, str]] = []
    for mark in (usual, *(other for other in DELIMITERS if other != usual)):
        records = [cells for _, cells in _records(text, mark)]
        widths = [len(cells) for cells in records[count_titles(records) :]]
        if widths and widths[0] > 1:
            agreeing = sum(width == widths[0] for width in widths) / len(records)
            scored.append((agreeing, mark == usual, widths[0], mark))
    if scored:
        return max(scored, key=lambda score: score[:3])[3]
    _refuse_titles(text, usual, path)
    widths = [len(line.split()) for line in text.splitlines()[:RECORDS] if line.strip()]
    return BLANKS if len(widths) > 1 and widths[0] > 1 and len(set(widths)) == 1 else usual


def _refuse_titles(text: str, usual: str, path: str | Path) -> None:
    """Raise where lines of one field stand above what may be a header."""
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
    """The first records of a text that are not blank, each with its number, blank ones counted too."""
    if delimiter == BLANKS:
        lines = enumerate(text.splitlines()[:RECORDS], 1)
        return [(number, line.split()) for number, line in lines if line.strip()]
    records = []
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        for number, cells in enumerate(reader, 1):
            if any(cell.strip() for cell in cells) or len(cells) > 1:
                records.append((number, cells))
            if len(records) == RECORDS:
                break
    except (csv.Error, TypeError):  # a field of many pages, a delimiter of several characters
        pass
    return records


# Titles


def count_titles(records: Sequence[Sequence[str]]) -> int:
    """The records above the column names: titles, with less than half of the cells filled, and blank ones.

    The names are the first record of which most cells are filled. They must be words, not numbers, that no row below
    has in their column, and be three or more, or above numbers; otherwise the first record is taken for the names.

    Examples
    --------
    >>> count_titles([["Sales 2020", "", ""], ["", "", ""], ["shop", "sold", "paid"], ["a", "3", "4.50"]])
    2
    >>> count_titles([["shop", "", ""], ["a", "3", "4.50"], ["b", "7", "8.00"]])
    0
    """
    if not records:
        return 0
    counts = Counter(len(cells) for cells in records)
    width = max(counts, key=lambda width: (counts[width], width))
    titles = next((i for i, cells in enumerate(records) if _n_filled(cells) > max(1, (width - 1) // 2)), 0)
    if not 0 < titles < len(records) - 1 or len(records[titles]) != width:
        return 0
    names, below = records[titles], [cells for cells in records[titles + 1 :] if cells != records[titles]]
    if _n_filled(names) < max(2, width - width // 3) or not _are_names(names):
        return 0
    if any(name == cell != "" for cells in below for name, cell in zip(names, cells, strict=False)):
        return 0
    over_numbers = any(_is_number(cell) for cells in below for cell in cells)
    return titles if width > 2 or over_numbers else 0


def title_remark(titles: Sequence[Sequence[str]]) -> str:
    """The note that records above the column names are not read."""
    shown = next((cell.strip() for cells in titles for cell in cells if cell.strip()), "")
    shown = shown if len(shown) <= 40 else f"{shown[:40]}…"
    lines = "1 line" if len(titles) == 1 else f"{len(titles)} lines"
    return f"{lines} above the column names left out{f' ({shown!r})' if shown else ''}"


def _n_filled(cells: Sequence[str]) -> int:
    return sum(bool(cell.strip()) for cell in cells)


def _is_number(cell: str) -> bool:
    return re.fullmatch(_NUMBER, cell.strip()) is not None


def _are_names(cells: Sequence[str]) -> bool:
    """Whether the cells of a record may be names: words, and years beside them."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    numbers = [cell for cell in filled if _is_number(cell)]
    return len(numbers) < len(filled) and all(re.fullmatch(r"(19|20)\d\d", cell) for cell in numbers)


# Names


def _check_names(names: tuple[str, ...], path: str | Path, delimiter: str | None) -> None:
    """An error where the header shows that the table is no table, or was read in a wrong way."""
    for other, word in DELIMITERS.items() if len(names) == 1 else ():
        if other in names[0] and other != delimiter:
            option = "$'\\t'" if other == "\t" else f"'{other}'"
            shown = names[0] if len(names[0]) <= 60 else f"{names[0][:60]}…"
            raise TableError(
                f"{path} has one column only, {shown!r}: it seems to be separated by {word}; add --delimiter {option}"
            )
    check_distinct(names, path)
    numbered = [str(number) for number in range(len(names))]  # how pandas names columns that have no names
    if list(names) != numbered and all(re.fullmatch(_NUMBER, name) for name in names):
        raise TableError(f"the first line of {path} holds numbers only; add a first line with the columns' names")


def check_distinct(names: Sequence[str], path: str | Path) -> None:
    """Raise where a name stands twice, with both positions."""
    places: dict[str, int] = {}
    for place, name in enumerate(names, 1):
        if name in places:
            raise TableError(
                f"{path} has two columns named {name!r}, columns {places[name]} and {place}; rename one of them"
            )
        places[name] = place


def check_columns_named(wanted: Sequence[str], names: Sequence[str], *, option: str | None = None) -> None:
    """Raise if a column is missing, with the name of one that is much like it."""
    missing = [name for name in wanted if name not in names and name.strip() not in names]
    if not missing:
        return
    whose = f"{option}: " if option else ""
    if len(missing) > 1:
        shown = ", ".join(map(repr, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise TableError(f"{whose}the table lacks {len(missing)} columns: {shown}")
    folded = {other.casefold().strip(): other for other in reversed(names)}
    near = get_close_matches(missing[0].casefold().strip(), list(folded), n=1, cutoff=0.6)
    known = f"it has {', '.join(map(repr, names[:8]))}{', …' if len(names) > 8 else ''}"
    hint = f"did you mean {folded[near[0]]!r}?" if near else known
    raise TableError(f"{whose}the table has no column {missing[0]!r}; {hint}")


def split_names(values: Sequence[str], names: Sequence[str], option: str) -> list[str]:
    """Names of columns that were given one by one, or with commas between them."""
    known = set(names)
    given = [name for value in values for name in ([value] if value in known else value.split(","))]
    given = list(dict.fromkeys(name if name in known else name.strip() for name in given))
    check_columns_named(given, names, option=option)
    return given
