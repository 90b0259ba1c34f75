"""Dates as people write them, and what a tree can ask of them: year, month, day of the week, hour, day number."""

from __future__ import annotations

import re
from datetime import datetime
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from treelu.tables.numbers import MOST_TEXTS, NUMERIC_SHARE, to_texts
from treelu.tables.paths import TableError

if TYPE_CHECKING:
    import pandas as pd

DateOrder = Literal["day-first", "month-first"]
DAYS = "days since 1970"  # with decimals
PARTS = ("year", "month", "day of week", "hour", DAYS)  # Monday is 1
_DAYS = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y",
    "%d-%b-%Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%b-%y",
)  # fmt: skip
_TIMES = (
    "", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", " %H:%M:%S.%f", "T%H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p",
    "T%H:%M:%S%z", " %H:%M:%S%z", "T%H:%M:%S.%f%z", " %H:%M:%S.%f%z",
)  # fmt: skip
FORMATS = tuple(day + time for day, time in product(_DAYS, _TIMES))
ISO_DAY = "%Y-%m-%d"
BETWEEN = " | "  # between the formats of a column whose dates are written in several ways
_DATE_LIKE = (
    r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}(?:\D.*)?|\d{1,2}[ -][A-Za-z]{3,}[ -]\d{2,4}.*|[A-Za-z]{3,} \d{1,2}, \d{4}.*"
)
_MOST_SHAPES = 12  # ways of writing dates in one column
_MOST_WORDS = 24  # such as names of months, in one of them
_TWINS = {"%d/%m/": "%m/%d/", "%d-%m-": "%m-%d-"}  # what can be read in two ways


def recognise_date(column: pd.Series, order: DateOrder | None = None) -> str | None:
    """The format of a text column of dates, as `strptime` writes it; None where it holds no dates.

    Several formats, with `BETWEEN` between them, where dates are written in several ways that can each be told.
    """
    texts = to_texts(column).dropna().drop_duplicates()
    if not len(texts) or not any(letter.isdigit() for letter in str(texts.iloc[0])):
        return None
    few = [str(text) for text in texts.iloc[:200]]
    fitting = [style for style in FORMATS if _fits(few, style)]
    shares = {style: float((~np.isnat(parse_dates(texts, style))).mean()) for style in fitting}
    best = max(shares.values(), default=0.0)
    if best < NUMERIC_SHARE:
        return _several_formats(column.name, texts, order)
    fitting = [style for style in fitting if shares[style] == best]
    chosen = fitting[0]
    twin = _twin(chosen)
    if twin not in fitting or twin is None:
        return chosen
    if order is not None:
        return chosen if order == "day-first" else twin
    differing = texts[parse_dates(texts, chosen) != parse_dates(texts, twin)]
    if len(differing):
        raise _ambiguous(column.name, str(differing.iloc[0]), (chosen, twin))
    return chosen


def _several_formats(name: Any, texts: pd.Series, order: DateOrder | None) -> str | None:
    """The formats of dates that are written in several ways, first the one to be tried first; None if they are none."""
    texts = texts.iloc[:MOST_TEXTS]
    alike = texts[texts.str.fullmatch(_DATE_LIKE)]
    if len(alike) < NUMERIC_SHARE * len(texts):
        return None
    shapes: dict[str, list[str]] = {}
    for shape in dict.fromkeys(map(_shape, alike)):
        shapes.setdefault(re.sub("[A-Za-z]+", "a", shape), []).append(shape)
    if len(shapes) > _MOST_SHAPES:
        return None
    few = [shape for words in shapes.values() for shape in words[:_MOST_WORDS]]
    candidates = [style for style in FORMATS if any(_fits([shape], style) for shape in few)]
    readings = {style: parse_dates(texts, style) for style in candidates}
    readings = {style: moments for style, moments in readings.items() if not np.isnat(moments).all()}
    for one in [style for style in readings if _twin(style) in readings]:
        _settle(name, texts, readings, one, order)
    read, formats = np.zeros(len(texts), dtype=bool), []
    for style, moments in readings.items():
        if (~np.isnat(moments) & ~read).any():
            formats.append(style)
            read |= ~np.isnat(moments)
    return BETWEEN.join(formats) if read.mean() >= NUMERIC_SHARE else None


def _shape(text: str) -> str:
    """A date with other digits, written alike: 24.12.2021 is 01.01.2001, which fits the formats of both orders."""
    return re.sub(r"\d+", lambda found: "2001" if len(found[0]) > 2 else "01", text)


def _settle(
    name: Any, texts: pd.Series, readings: dict[str, NDArray[np.datetime64]], one: str, order: DateOrder | None
) -> None:
    """Of a day-first format and its month-first twin leave what the texts show; a TableError where they show both."""
    other = str(_twin(one))
    day, month = readings[one], readings[other]
    open_ = ~np.isnat(day) & ~np.isnat(month) & (day != month)
    sure = {one: np.isnat(month) & ~np.isnat(day), other: np.isnat(day) & ~np.isnat(month)}
    unused = [style for style in (one, other) if not sure[style].any()]
    if order is None and open_.any() and len(unused) != 1:
        examples = [str(texts[rows].iloc[0]) for rows in sure.values() if rows.any()]
        beside = f" beside {examples[0]!r} and {examples[1]!r}" if examples else ""
        raise _ambiguous(name, str(texts[open_].iloc[0]), (one, other), beside)
    first = one if order == "day-first" or (order is None and one not in unused) or len(unused) == 2 else other
    if order is not None:
        first = one if order == "day-first" else other
    kept = [first, *(style for style in (one, other) if style != first and style not in unused)]
    moments = {style: readings.pop(style) for style in (one, other)}
    readings.update({style: moments[style] for style in kept})


def _twin(style: str) -> str | None:
    """The month-first format of a day-first one that reads the same texts."""
    return next((_TWINS[day] + style.removeprefix(day) for day in _TWINS if style.startswith(day)), None)


def _ambiguous(name: Any, text: str, styles: tuple[str, str], beside: str = "") -> TableError:
    readings = [datetime.strptime(text, style) for style in styles]
    first, second = (f"{reading.day} {reading:%B}" for reading in readings)
    return TableError(
        f"column {name!r}: {text!r}{beside} may be {first} or {second}; add --dates day-first or --dates month-first"
    )


COMPACT = "%Y%m%d"  # 20210304
_LEAST_COMPACT = 3  # different values: fewer may look like dates by coincidence


def recognise_compact_date(column: pd.Series) -> str | None:
    """The format of dates that are written as integers, 20210304; None unless every value is such a date."""
    texts = whole_texts(column).dropna().drop_duplicates()
    if len(texts) < _LEAST_COMPACT or not texts.str.fullmatch(r"(19|20)[0-9]{6}").all():
        return None
    return COMPACT if not np.isnat(parse_dates(texts, COMPACT)).any() else None


def whole_texts(column: pd.Series) -> pd.Series:
    """Values as texts; integers without decimals, even where missing ones have made them floats."""
    texts = to_texts(column)
    return texts.str.removesuffix(".0") if column.dtype.kind in "fO" else texts


def _fits(texts: list[str], style: str) -> bool:
    """Whether a format reads nearly all of some texts."""
    misses = 0
    for text in texts:
        try:
            datetime.strptime(text, style)
        except ValueError:
            misses += 1
            if misses > max(1 - NUMERIC_SHARE, 0) * len(texts):
                return False
    return True


def parse_dates(column: pd.Series, style: str | None) -> NDArray[np.datetime64]:
    """Values as moments without a time zone, "not a time" where one cannot be read; None is ISO 8601."""
    import pandas as pd

    if style is not None and BETWEEN in style:
        first, _, others = style.partition(BETWEEN)
        read = parse_dates(column, first)
        return np.where(np.isnat(read), parse_dates(column, others), read)
    if column.dtype.kind != "M":
        texts = whole_texts(column) if style == COMPACT else to_texts(column)
        texts = texts.where(texts.str.contains("[0-9]", na=False))  # pandas takes "now" and "today" for dates
        moments = pd.to_datetime(texts, format=style or "ISO8601", errors="coerce", utc=True)
    else:
        moments = pd.to_datetime(column, utc=True)
    return moments.dt.tz_localize(None).to_numpy().astype("datetime64[us]")


def check_clear(column: pd.Series, style: str, first_row: int | None) -> None:
    """Raise for a date that two of a column's formats read differently; `first_row` is None while fitting."""
    readings = [parse_dates(column, one) for one in style.split(BETWEEN)]
    first = parse_dates(column, style)
    for moments in readings:
        differing = np.flatnonzero(~np.isnat(moments) & (moments != first))
        if len(differing):
            place = int(differing[0])
            where = "" if first_row is None else f", row {first_row + place + 1}"
            remedy = ", or fit with --dates day-first or --dates month-first" if first_row is None else ""
            one, other = (moment.astype(datetime) for moment in (first[place], moments[place]))
            raise TableError(
                f"column {column.name!r}{where}: {str(column.iloc[place]).strip()!r} may be {one.day} {one:%B} or "
                f"{other.day} {other:%B}, and training rows were written in both ways; write {one:%Y-%m-%d} or "
                f"{other:%Y-%m-%d}{remedy}"
            )


def date_parts(moments: NDArray[np.datetime64], parts: tuple[str, ...]) -> NDArray[np.float64]:
    """Features of moments, of shape (n, len(parts))."""
    days = moments.astype("datetime64[D]")
    months = moments.astype("datetime64[M]").astype(np.int64)
    known: dict[str, Any] = {
        "year": 1970 + months // 12,
        "month": 1 + months % 12,
        "day of week": 1 + (days.astype(np.int64) + 3) % 7,
        "hour": (moments - days) // np.timedelta64(1, "h"),
        "days since 1970": moments.astype(np.int64) / 86_400_000_000,
    }
    return np.column_stack([np.asarray(known[part], dtype=np.float64) for part in parts])
