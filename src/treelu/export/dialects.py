"""Differences between SQLite, DuckDB, PostgreSQL and plain SQL: numbers, names, types, blanks, exponentials."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from treelu.export.literals import digits
from treelu.export.program import BLANKS, Column

COMPACT_DATE = "%Y%m%d"  # 20210304
_LARGE_POWER = 62  # the largest power of two that SQLite holds as an integer


@dataclass(frozen=True)
class Dialect:
    """How one database writes what they all can do.

    Attributes
    ----------
    name : str
    number : callable
        A double as a literal that the database reads to the last bit.
    quotes : str
        What stands around a name, doubled within.
    double, text, timestamp : str
        Names of types.
    trim : str
        What removes blanks around the text ``{}``.
    fence : str
        What keeps a common table expression from being copied into each place that uses it.
    is_number : str
        Whether ``{}`` is of a type of numbers; empty where this cannot be told.
    has_nan : bool
        Whether numbers may be NaN, which counts as missing.
    exp : bool
        Whether there is certain to be a function ``exp``.
    max_terms : int
        The longest sum that its parser takes.
    typed : bool
        Whether columns of numbers are known to hold numbers; otherwise SQLite, whose columns hold values of any type,
        reads texts of numbers as the training table's were read.
    """

    name: str
    number: Callable[[float], str]
    quotes: str = '"'
    double: str = "DOUBLE PRECISION"
    text: str = "TEXT"
    timestamp: str = "TIMESTAMP"
    trim: str = "TRIM({})"
    fence: str = ""
    is_number: str = ""
    has_nan: bool = False
    exp: bool = True
    max_terms: int = 100_000
    typed: bool = False

    def identifier(self, name: str) -> str:
        """A name in quotes."""
        if "\0" in name or not name:
            raise ValueError(f"{name[:60]!r} cannot be the name of a column in SQL; rename it in the table")
        return f"{self.quotes}{name.replace(self.quotes, self.quotes * 2)}{self.quotes}"

    def string(self, text: str) -> str:
        """A text in quotes."""
        return _string(text)

    def label(self, value: object) -> str:
        """A class."""
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, int):
            return str(value) if abs(value) < 2**63 else self.string(str(value))
        return self.number(value) if isinstance(value, float) else self.string(str(value))

    def cell(self, column: Column, reference: str) -> str:
        """The value of a column, NULL where it is missing."""
        if column.kind == "text":
            trimmed = self.trim.format(f"CAST({reference} AS {self.text})")
            if column.rewritten and self.is_number:
                cases = " ".join(
                    f"WHEN {_string(text)} THEN {_string(code)}" for text, code in column.rewritten.items()
                )
                other = f"CASE {trimmed} {cases} ELSE {trimmed} END"
                trimmed = f"CASE WHEN {self.is_number.format(reference)} THEN {other} ELSE {trimmed} END"
            if not column.missing:
                return f"NULLIF({trimmed}, '')"
            return f"CASE WHEN {trimmed} IN ({_words(column)}) THEN NULL ELSE {trimmed} END"
        if column.kind == "date":
            if self.name == "plain":
                raise ValueError(f"dates ({column.name[:60]!r}) have no plain SQL; choose sqlite, duckdb or postgresql")
            moment = self._spelled_date(reference) if column.format == COMPACT_DATE else reference
            return _sqlite_date(moment, column) if self.name == "sqlite" else f"CAST({moment} AS TIMESTAMP)"
        if self.name == "sqlite" and not self.typed:
            return _sqlite_number(reference, column)
        number = f"CAST({reference} AS {self.double})"
        return f"NULLIF({number}, CAST('NaN' AS {self.double}))" if self.has_nan else number

    def _spelled_date(self, reference: str) -> str:
        """A column of dates as integers, 20210304, as texts like 2021-03-04; dates of the database stay."""
        text = self.trim.format(f"CAST({reference} AS {self.text})")
        whole = f"REPLACE({text}, '.0', '')"
        spelled = " || '-' || ".join(f"SUBSTR({whole}, {first}, {n})" for first, n in ((1, 4), (5, 2), (7, 2)))
        return f"CASE WHEN LENGTH({whole}) = 8 THEN {spelled} ELSE NULLIF({text}, '') END"

    def date_part(self, part: str, moment: str) -> str:
        """A part of a date as a double; NULL of NULL."""
        return f"CAST({_DATE_PARTS[self.name][part].format(moment)} AS {self.double})"

    def exponential(self, value: str) -> str:
        """e to the power of a number from -80 to 0, given as a column."""
        return f"EXP({value})" if self.exp else _exponential(value, self.number)


def _string(text: str) -> str:
    if "\0" in text:
        raise ValueError(f"{text[:60]!r} holds the character NUL, which a text in SQL cannot; remove it in the table")
    return "'" + text.replace("'", "''") + "'"


_SPACES = {"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u2019": "'", "\u2212": "-"}
# Texts of digits, points, signs and exponents that are no number: 1-2, 1.2.3, 1e, e5 and their like.
_NO_NUMBERS = (
    "", "*[^0-9.e+-]*", "*[0-9.+-][+-]*", "*e*[.e]*", "*.*.*", "*[e+-]", "e*", "[+-]e*", ".e*", "[+-].e*", ".", "[+-].",
)  # fmt: skip
NO_DATE = "no date"  # what SQLite has in place of a text that is no date, and that no answer is given for


def _sqlite_number(reference: str, column: Column) -> str:
    """A column of any type: numbers, and texts of them; infinity, which has no answer, where a text is none."""
    number = f"CASE WHEN TYPEOF({reference}) IN ('integer', 'real') THEN CAST({reference} AS REAL)"
    if not column.missing:  # a feature of a tree, not a column of a table
        text = f"LOWER(TRIM({reference}, ' ' || CHAR(9, 10, 13)))"
        return f"{number} WHEN {text} = '' THEN NULL WHEN {_no_number(text)} THEN 9e999 ELSE CAST({text} AS REAL) END"
    steps, last = _sqlite_core(reference, column)
    return (
        f"{number} WHEN {reference} IS NOT NULL THEN ({steps} SELECT CASE "
        f"WHEN treelu_text IN ({_words(column)}) THEN NULL "
        "WHEN LOWER(treelu_text) = 'true' THEN 1.0 WHEN LOWER(treelu_text) = 'false' THEN 0.0 "
        f"WHEN {_no_number('treelu_core')} THEN 9e999 ELSE CAST(treelu_core AS REAL) END FROM {last}) END"
    )


def _no_number(text: str) -> str:
    return " OR ".join(f"{text} GLOB {_string(pattern)}" for pattern in _NO_NUMBERS)


def _sqlite_core(reference: str, column: Column) -> tuple[str, str]:
    """The text of a number (`treelu_text`) and how SQLite writes it (`treelu_core`), "-7" for "($7)".

    Common table expressions and the name of the last: parsers allow few levels of nesting.
    """
    core = "treelu_text"
    for written, meant in _SPACES.items():
        core = f"REPLACE({core}, {_string(written)}, {_string(meant)})"
    steps = [core]
    for mark in column.marks:
        place = f"INSTR(treelu_core, {_string(mark)})"
        before, after = f"SUBSTR(treelu_core, 1, {place} - 1)", f"SUBSTR(treelu_core, {place} + {len(mark)})"
        outside = f"TRIM({before}, '-+( ') = '' OR TRIM({after}, ' )') = ''"  # not between digits
        steps.append(f"CASE WHEN {place} > 0 AND ({outside}) THEN TRIM({before} || {after}) ELSE treelu_core END")
    steps.append(
        "CASE WHEN treelu_core GLOB '(*)' THEN '-' || TRIM(SUBSTR(treelu_core, 2, LENGTH(treelu_core) - 2)) "
        "ELSE treelu_core END"
    )
    steps.append(
        "LOWER(CASE WHEN treelu_core GLOB '[+-] *' THEN SUBSTR(treelu_core, 1, 1) || TRIM(SUBSTR(treelu_core, 2)) "
        "ELSE treelu_core END)"
    )
    if column.thousands or column.decimal != ".":
        steps.append(_sqlite_point(column))
    query = f"treelu_0 AS MATERIALIZED (SELECT {DIALECTS['sqlite'].trim.format(reference)} AS treelu_text)"
    for n, step in enumerate(steps):
        query += f", treelu_{n + 1} AS MATERIALIZED (SELECT treelu_text, {step} AS treelu_core FROM treelu_{n})"
    return f"WITH {query}", f"treelu_{len(steps)}"


def _sqlite_point(column: Column) -> str:
    """The text of a number with a decimal point and nothing between thousands; "" where they are no groups of three."""
    mark, digit = column.thousands, "[0-9]"
    if not mark:
        refused = ["*.*"]
    else:
        refused = [f"{mark}*", f"[+-]{mark}*", f"*[{column.decimal}e]*{mark}*", f"*{digit * 4}{mark}*"]
        refused += [f"*{mark}{digit * n}[^0-9]*" for n in range(3)] + [f"*{mark}{digit * 4}*"]
    tests = " OR ".join(f"treelu_core || ' ' GLOB {_string(pattern)}" for pattern in refused)
    plain = f"REPLACE(treelu_core, {_string(mark)}, '')" if mark else "treelu_core"
    return f"CASE WHEN {tests} THEN '' ELSE REPLACE({plain}, {_string(column.decimal)}, '.') END"


def _sqlite_date(moment: str, column: Column) -> str:
    """A column of texts in ISO 8601, NULL where one is missing, `NO_DATE` where one is no date."""
    day = "SUBSTR(treelu_text, 1, 10)"
    tests = f"DATE({day}, '+0 days') = {day} AND treelu_text NOT GLOB '*[T ]24:*' AND "
    tests += "STRFTIME('%H:%M:%f', treelu_text) " + ("= '00:00:00.000'" if column.is_day else "IS NOT NULL")
    return (
        f"(SELECT CASE WHEN treelu_text IN ({_words(column)}) THEN NULL WHEN {tests} THEN treelu_text "
        f"WHEN treelu_text IS NOT NULL THEN {_string(NO_DATE)} END "
        f"FROM (SELECT {DIALECTS['sqlite'].trim.format(moment)} AS treelu_text))"
    )


def _words(column: Column) -> str:
    """The texts that count as missing."""
    return ", ".join(_string(text) for text in ("", *column.missing) if "\0" not in text)


def _exact_digits(value: float) -> str:
    """17 digits where SQLite reads them to the last bit, on any processor; else an integer and powers of two.

    SQLite's reader multiplies by a power of ten, which is exact up to 10^27 only.
    """
    if value == 0 or 1e-9 <= abs(value) < 1e15:
        return digits(value)
    fraction, exponent = math.frexp(value)
    whole, exponent = int(fraction * 2**53), exponent - 53
    text = f"{whole}.0" if abs(whole) < 10**15 else f"CAST({whole} AS REAL)"
    while exponent:
        step = max(-_LARGE_POWER, min(_LARGE_POWER, exponent))
        text += f" {'*' if step > 0 else '/'} {2 ** abs(step)}"
        exponent -= step
    return f"({text})"


def _exponential(value: str, number: Callable[[float], str]) -> str:
    """e to the power of x in arithmetic that every SQLite has: x = r - n ln 2, a series for r, and n halvings."""
    halvings = f"CAST({value} / {number(-math.log(2))} AS INTEGER)"
    rest = f"({value} + {halvings} * {number(math.log(2))})"
    series = number(1 / math.factorial(17))
    for power in range(16, -1, -1):
        series = f"({series} * {rest} + 1.0 / {math.factorial(power)})"
    half = f"{halvings} / 2"
    return f"{series} / (1 << ({half})) / (1 << ({halvings} - {half}))"


def _with_exponent(value: float) -> str:
    """Plain SQL and DuckDB: a literal with an exponent is a double, one without is a decimal."""
    return f"{value:.16e}"


def _quoted(value: float) -> str:
    """PostgreSQL: a bare literal is numeric; a minus before a cast binds looser than it looks."""
    return f"'{digits(value)}'::float8"


_SECONDS = "CAST(STRFTIME('%s', {0}) AS INTEGER) * 1000 + CAST(SUBSTR(STRFTIME('%f', {0}), 4) AS INTEGER)"
_EXTRACTED = {
    "year": "EXTRACT(YEAR FROM {})",
    "month": "EXTRACT(MONTH FROM {})",
    "day of week": "EXTRACT(ISODOW FROM {})",
    "hour": "EXTRACT(HOUR FROM {})",
}
_DATE_PARTS = {
    "sqlite": {  # which knows milliseconds, not microseconds
        "year": "STRFTIME('%Y', {})",
        "month": "STRFTIME('%m', {})",
        "day of week": "(STRFTIME('%w', {}) + 6) % 7 + 1",
        "hour": "STRFTIME('%H', {})",
        "days since 1970": f"({_SECONDS}) * 1000.0 / 86400000000.0",
    },
    "duckdb": _EXTRACTED | {"days since 1970": "CAST(EPOCH_US({}) AS DOUBLE) / 8.64e10"},
    "postgresql": _EXTRACTED
    | {
        "days since 1970": "CAST(ROUND(CAST(EXTRACT(EPOCH FROM {}) * 1000000 AS NUMERIC)) AS float8) "
        "/ '8.64e10'::float8"
    },
}
_CODES = [ord(blank) for blank in BLANKS]
_POSTGRES_BLANKS = "E'" + "".join(f"\\u{code:04x}" for code in _CODES) + "'"
DIALECTS = {
    "sqlite": Dialect(
        "sqlite",
        _exact_digits,
        quotes="`",  # SQLite takes an unknown name in double quotes for a text
        double="REAL",
        timestamp="TEXT",
        trim=f"TRIM({{}}, CHAR({', '.join(map(str, _CODES))}))",
        fence="MATERIALIZED ",
        is_number="TYPEOF({}) IN ('integer', 'real')",
        exp=False,
        max_terms=900,
    ),
    "duckdb": Dialect(
        "duckdb",
        _with_exponent,
        double="DOUBLE",
        text="VARCHAR",
        trim=f"TRIM({{}}, {' || '.join(f'CHR({code})' for code in _CODES)})",
        fence="MATERIALIZED ",
        is_number="TYPEOF({}) <> 'VARCHAR'",
        has_nan=True,
        max_terms=900,
    ),
    "postgresql": Dialect(
        "postgresql",
        _quoted,
        trim=f'(BTRIM({{}}, {_POSTGRES_BLANKS}) COLLATE "C")',
        fence="MATERIALIZED ",
        is_number="CAST(PG_TYPEOF({}) AS text) NOT IN ('text', 'character varying', 'character')",
        has_nan=True,
        max_terms=3000,
    ),
    "plain": Dialect("plain", _with_exponent, text="VARCHAR(4000)"),
}
