"""Dates as people write them, and what a tree can ask of them: year, month, day of the week, hour, day number."""

from __future__ import annotations

from datetime import datetime
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from treelu.tables.numbers import NUMERIC_SHARE, to_texts
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
_TWINS = {"%d/%m/": "%m/%d/", "%d-%m-": "%m-%d-"}  # what can be read in two ways


def recognise_date(column: pd.Series, order: DateOrder | None = None) -> str | None:
    """The format of a text column of dates, as `strptime` writes it; None where it holds no dates."""
    texts = to_texts(column).dropna().drop_duplicates()
    if not len(texts) or not any(letter.isdigit() for letter in str(texts.iloc[0])):
        return None
    few = [str(text) for text in texts.iloc[:200]]
    fitting = [style for style in FORMATS if _fits(few, style)]
    if not fitting:
        return None
    shares = {style: float((~np.isnat(parse_dates(texts, style))).mean()) for style in fitting}
    best = max(shares.values())
    if best < NUMERIC_SHARE:
        return None
    fitting = [style for style in fitting if shares[style] == best]
    chosen = fitting[0]
    twin = next((_TWINS[day] + chosen.removeprefix(day) for day in _TWINS if chosen.startswith(day)), None)
    if twin not in fitting or twin is None:
        return chosen
    if order is not None:
        return chosen if order == "day-first" else twin
    differing = texts[parse_dates(texts, chosen) != parse_dates(texts, twin)]
    if not len(differing):
        return chosen
    text = str(differing.iloc[0])
    readings = [datetime.strptime(text, style) for style in (chosen, twin)]
    first, second = (f"{reading.day} {reading:%B}" for reading in readings)
    raise TableError(
        f"column {column.name!r}: {text!r} may be {first} or {second}; add --dates day-first or --dates month-first"
    )


def mixed_dates(column: pd.Series) -> tuple[str, str] | None:
    """Two dates of a text column that are written in different ways; None unless nearly all texts are dates."""
    few = [str(text) for text in to_texts(column).dropna().drop_duplicates().iloc[:40]]
    if not any(len(text) >= 6 and text[0].isdigit() for text in few):
        return None
    ways = {text: next((style for style in FORMATS if _fits([text], style)), None) for text in few}
    read = [text for text in few if ways[text] is not None]
    if not read or len(read) < NUMERIC_SHARE * len(few):
        return None
    other = next((text for text in read if ways[text] != ways[read[0]]), None)
    return None if other is None else (read[0], other)


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

    if column.dtype.kind != "M":
        texts = whole_texts(column) if style == COMPACT else to_texts(column)
        texts = texts.where(texts.str.contains("[0-9]", na=False))  # pandas takes "now" and "today" for dates
        moments = pd.to_datetime(texts, format=style or "ISO8601", errors="coerce", utc=True)
    else:
        moments = pd.to_datetime(column, utc=True)
    return moments.dt.tz_localize(None).to_numpy().astype("datetime64[us]")


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
