"""Numbers as people write them: decimal commas, thousands marks, currencies, per cent, units."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treelu.tables.paths import TableError

if TYPE_CHECKING:
    import pandas as pd

MOST_TEXTS = 20_000  # different values of a column that are looked at
NUMERIC_SHARE = 0.9  # a column is one of numbers where at least this share of its values are
CURRENCIES = ("$", "€", "£", "¥", "₹", "USD", "EUR", "GBP", "CHF", "JPY", "CAD", "AUD", "Fr.", "kr", "zł", "R$")
MARKS = (*sorted(CURRENCIES, key=len, reverse=True), "%")
CENSORS = ("<=", ">=", "≤", "≥", "<", ">")  # before a number that is a bound: below what a laboratory can measure
_SPACES = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u2212": "-", "\u2019": "'"})


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a column are written."""

    decimal: str = "."  # or ","
    thousands: str = ""  # or one of ",", ".", " ", "'" between groups of three digits, which may be left out
    marks: tuple[str, ...] = ()  # currencies, "%" or a unit before or after the number, which are left out

    @property
    def units(self) -> list[str]:
        """The marks that change what a number means: %, or a unit."""
        return [mark for mark in self.marks if mark not in CURRENCIES and mark not in CENSORS]

    @property
    def is_plain(self) -> bool:
        """Whether numbers are written as in Python."""
        return self == NumberFormat()

    def parse(self, text: str) -> float | None:
        """A text as a number; None where it is none."""
        core = _core(text, self.marks)
        if not re.fullmatch(self._pattern(), core):
            return None
        if self.thousands:
            core = core.replace(self.thousands, "")
        return float(core.replace(self.decimal, "."))

    def _pattern(self) -> str:
        groups = rf"|\d{{1,3}}(?:{re.escape(self.thousands)}\d{{3}})+" if self.thousands else ""
        point = re.escape(self.decimal)
        return rf"[-+]?(?:(?:\d+{groups})(?:{point}\d*)?|{point}\d+)(?:[eE][-+]?\d+)?"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"decimal": self.decimal, "thousands": self.thousands, "marks": list(self.marks)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> NumberFormat:
        """The inverse of `to_dict`."""
        decimal, thousands, marks = data["decimal"], data["thousands"], data["marks"]
        if decimal not in (".", ",") or thousands not in ("", ",", ".", " ", "'") or thousands == decimal:
            raise ValueError(f"numbers cannot be written with {decimal!r} before decimals and {thousands!r} in between")
        if not isinstance(marks, list) or not all(_is_mark(mark) for mark in marks):
            raise ValueError(f"unknown marks of numbers {marks!r}")
        return cls(decimal, thousands, tuple(marks))


PLAIN = NumberFormat()


def _is_mark(mark: Any) -> bool:
    """Whether a mark that is left out: a currency, "%", or a unit, which has no digit where a number may stand."""
    if not isinstance(mark, str):
        return False
    return mark in MARKS or (0 < len(mark) <= 20 and mark not in ("e", "E") and not re.match(r"[\d\s.,'+()-]", mark))


def _core(text: str, marks: Iterable[str]) -> str:
    """A text without its marks; parentheses are the minus sign of accounts."""
    core = text.translate(_SPACES).strip()
    for mark in marks:
        core = _without(core, mark)
    core = core.strip()
    if core.startswith("(") and core.endswith(")"):
        core = f"-{core[1:-1].strip()}"
    return re.sub(r"^([-+])\s+", r"\1", core)


def _without(core: str, mark: str) -> str:
    """A text without a mark that stands before or after its number; one between digits stays."""
    before = re.sub(rf"^([-+(]*\s*){re.escape(mark)}", r"\1", core)
    return before if before != core else re.sub(rf"{re.escape(mark)}(\s*\)?)$", r"\1", core)


def to_numbers(column: pd.Series, style: NumberFormat = PLAIN) -> tuple[NDArray[np.float64], list[str]]:
    """Values as numbers, NaN where one is missing or a text, and those texts."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column.dtype):
        return column.to_numpy(np.float64, na_value=np.nan), []
    if style.is_plain:
        try:
            values = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan, copy=True)
        except OverflowError:  # an integer of more than 308 digits, which pandas does not coerce
            values = _parsed(column, style)
    else:
        values = _parsed(column, style)
    rows = np.flatnonzero(np.isnan(values) & column.notna().to_numpy())
    texts = column.iloc[rows].astype(str).str.strip()
    if style.is_plain:  # what pandas does not read: "(7)" of accounts, other minus signs and blanks
        values[rows] = _parsed(texts, style)
    truth = texts.str.lower().map({"true": 1.0, "false": 0.0}).to_numpy(np.float64, na_value=np.nan)
    values[rows] = np.where(np.isnan(truth), values[rows], truth)
    strays = texts[np.isnan(values[rows]) & (texts != "").to_numpy()]
    return values, list(dict.fromkeys(strays))


def _parsed(column: pd.Series, style: NumberFormat) -> NDArray[np.float64]:
    texts = column.where(column.notna(), "").astype(str)
    read = {text: style.parse(text) for text in texts.unique()}
    return np.array([np.nan if read[text] is None else read[text] for text in texts], dtype=np.float64)


def to_texts(column: pd.Series) -> pd.Series:
    """Values as texts without blanks around them, missing where one is missing or blank."""
    texts = column.astype(str).str.strip()
    return texts.where(column.notna() & (texts != ""))


# Recognising how a column is written


@dataclass(frozen=True)
class _Evidence:
    """An example of each way in which the values of a column use points and commas; "" where there is none."""

    comma_decimal: str = ""  # 1,5: can only be read in one way
    comma_thousands: str = ""  # 1,234,567
    comma_open: str = ""  # 1,234: can be read in two ways
    dot_decimal: str = ""
    dot_thousands: str = ""
    dot_open: str = ""
    grouped: str = ""  # "1 234" or "1'234": the mark
    small: str = ""  # plain integers below 1000, and above
    large: str = ""
    padded: str = ""  # 2.500: an open one with an unneeded zero


def _evidence(cores: Iterable[str]) -> _Evidence:
    found: dict[str, str] = {}
    for core in cores:
        for kind, example in _kinds(core):
            found.setdefault(kind, example)
    return _Evidence(**found)


def _kinds(core: str) -> list[tuple[str, str]]:
    """The evidence of one value, with the example of each."""
    core = core.lstrip("+-").strip()
    if re.fullmatch(r"\d+", core):
        return [("small" if len(core.lstrip("0")) < 4 else "large", core)]
    spaced = re.fullmatch(r"\d{1,3}(?:([ '])\d{3})(?:\1\d{3})*([.,]\d*)?", core)
    if spaced:
        tail = {",": [("comma_decimal", core)], ".": [("dot_decimal", core)]}.get((spaced.group(2) or " ")[0], [])
        return [("grouped", spaced.group(1)), *tail]
    for name, mark, other in (("comma", ",", "."), ("dot", ".", ",")):
        m, o = re.escape(mark), re.escape(other)
        if re.fullmatch(rf"[1-9]\d{{0,2}}{m}\d{{3}}", core):
            padded = [("padded", core)] if core.endswith("0") else []
            return [(f"{name}_open", core), *padded]
        if re.fullmatch(rf"\d{{1,3}}(?:{m}\d{{3}}){{2,}}", core):
            return [(f"{name}_thousands", core)]
        if re.fullmatch(rf"\d{{1,3}}(?:{m}\d{{3}})+{o}\d*", core):
            return [(f"{name}_thousands", core), (f"{'dot' if name == 'comma' else 'comma'}_decimal", core)]
        if re.fullmatch(rf"\d*{m}\d+", core) or re.fullmatch(rf"\d+{m}", core):
            return [(f"{name}_decimal", core)]
    return []


def decimal_marks(frame: pd.DataFrame) -> set[str]:
    """The decimal marks that a table's values show unambiguously."""
    marks = set()
    for _, column in frame.items():
        if column.dtype.kind == "f":
            known = column.to_numpy()
            known = known[np.isfinite(known)]
            if (np.round(1000 * known) != 1000 * known).any() or ((known != 0) & (np.abs(known) < 1)).any():
                marks.add(".")
        elif column.dtype.kind == "O":
            cores = [_core(text, MARKS) for text in different_texts(column)]
            if _share_of_numbers(cores) < NUMERIC_SHARE:
                continue
            seen = _evidence(cores)
            marks |= {","} if seen.comma_decimal or seen.dot_thousands else set()
            marks |= {"."} if seen.dot_decimal or seen.comma_thousands else set()
    return marks


def _share_of_numbers(cores: Sequence[str]) -> float:
    return sum(bool(_kinds(core)) for core in cores) / max(1, len(cores))


def different_texts(column: pd.Series) -> list[str]:
    """Different texts of a column, as many as are enough to tell how they are written."""
    return [str(text) for text in to_texts(column).dropna().unique()[:MOST_TEXTS]]


def number_format(column: pd.Series, decimal: str | None, marks: Iterable[str]) -> NumberFormat | None:
    """How a column's numbers are written; None where it holds texts, a TableError where there are two ways to read it.

    `marks` are the decimal marks that other columns of the table show: they settle what this one leaves open.
    """
    texts = [] if column.dtype.kind in "biuf" else different_texts(column)
    if not texts:
        return PLAIN
    used = tuple(mark for mark in MARKS if any(mark in text for text in texts))
    used = tuple(mark for mark in used if not any(mark != other and mark in other for other in used))
    censors = tuple(mark for mark in CENSORS if any(text.startswith(mark) for text in texts))
    if sum(text.startswith(CENSORS) for text in texts) > len(texts) / 2:
        censors = ()  # "<18" and ">65" are two categories
    cores = [_core(text, (*censors, *used)) for text in texts]
    if _share_of_numbers(cores) < NUMERIC_SHARE:
        plain = NumberFormat(decimal or ".")
        return plain if _read_share(texts, plain) >= NUMERIC_SHARE else None
    _check_marks(column.name, texts, cores, used)
    return format_of(column.name, texts, (*censors, *used), decimal=decimal, marks=marks)


def format_of(
    name: Any, texts: Sequence[str], used: tuple[str, ...], *, decimal: str | None, marks: Iterable[str]
) -> NumberFormat | None:
    """How numbers are written whose marks are known; None where too few texts can be read so."""
    seen = _evidence(_core(text, used) for text in texts)
    decimal = decimal or _decimal_of(name, seen, set(marks))
    if decimal == ".":
        thousands = "," if seen.comma_decimal or seen.comma_thousands or seen.comma_open else seen.grouped
    else:
        thousands = "." if seen.dot_decimal or seen.dot_thousands or seen.dot_open else seen.grouped
    style = NumberFormat(decimal, thousands, used)
    return style if _read_share(texts, style) >= NUMERIC_SHARE else None


def _read_share(texts: Sequence[str], style: NumberFormat) -> float:
    truth = ("true", "false")
    return sum(style.parse(text) is not None or text.lower() in truth for text in texts) / len(texts)


def _check_marks(name: Any, texts: Sequence[str], cores: Sequence[str], used: tuple[str, ...]) -> None:
    """Raise where a column mixes currencies, or per cent and shares."""
    if len(used) > 1:
        examples = [next(text for text in texts if mark in text) for mark in used[:2]]
        raise TableError(f"column {name!r} mixes {examples[0]!r} and {examples[1]!r}; write all values in one unit")
    if used == ("%",):
        without = [core for text, core in zip(texts, cores, strict=True) if "%" not in text and core not in ("0", "")]
        without = [core for core in without if _kinds(core)]
        if without:
            example = next(text for text in texts if "%" in text)
            raise TableError(
                f"column {name!r} mixes {example!r} and {without[0]!r}; write all values with % or none of them"
            )


def _decimal_of(name: Any, seen: _Evidence, marks: set[str]) -> str:
    """The decimal mark of a column."""
    sure = bool(seen.comma_decimal or seen.dot_thousands or seen.comma_thousands or seen.dot_decimal)
    for one, other in (
        (seen.comma_decimal, seen.comma_thousands),
        (seen.dot_thousands, seen.dot_decimal),
        (seen.comma_decimal, seen.dot_decimal),
        ("" if sure else seen.comma_open, seen.dot_open),
    ):
        if one and other:
            raise TableError(
                f"column {name!r} mixes {one!r} and {other!r}, which use points and commas in different ways; correct "
                "one of them"
            )
    if sure:
        return "," if seen.comma_decimal or seen.dot_thousands else "."
    if len(marks) == 1:
        return next(iter(marks))
    if seen.comma_open:
        if seen.small and not seen.large:
            return "."
        raise _ambiguous(name, seen.comma_open)
    if seen.padded and seen.small and not seen.large:
        raise _ambiguous(name, seen.padded)
    return "."


def _ambiguous(name: Any, example: str) -> TableError:
    digits = example.replace(",", "").replace(".", "")
    small = example.replace(",", ".")
    return TableError(f"column {name!r}: {example!r} may be {digits} or {small}; add --decimal . or --decimal ,")


def beyond_floats(column: pd.Series) -> NDArray[Any]:
    """The integers of a column that have more digits than a float keeps."""
    values = column.to_numpy()
    return values[(values > 2**53) | (values < -(2**53))] if column.dtype.kind in "iu" else values[:0]


def leading_zeros(column: pd.Series) -> tuple[str, ...]:
    """Integers with zeros before them, as codes have: an example; two of them where they are the same number."""
    if column.dtype.kind in "biufM":
        return ()
    texts = different_texts(column)
    padded = [text for text in texts if re.fullmatch(r"0\d+", text)]
    if not padded:
        return ()
    known: dict[str, str] = {}
    for text in (text for text in texts if re.fullmatch(r"\d+", text)):
        other = known.setdefault(text.lstrip("0"), text)
        if other != text:
            return (text, other) if text.startswith("0") else (other, text)
    return (padded[0],)


def reads_two_ways(values: NDArray[np.float64]) -> bool:
    """Whether numbers that were read with a decimal point may have had a thousands point: 1.234, 2.500 and 980."""
    known = np.abs(values[np.isfinite(values)])
    broken = known[known != np.round(known)]
    if not len(broken) or not (broken >= 1).all() or not (known < 1000).all():
        return False
    return bool(np.allclose(1000 * broken, np.round(1000 * broken), rtol=0, atol=1e-6))


def point_is_open(column: pd.Series, commas: bool) -> bool:
    """Whether the points of a column of texts may be thousands points; `commas`: other columns have decimal commas."""
    seen = _evidence(_core(text, ()) for text in different_texts(column))
    if not seen.dot_open or seen.dot_decimal:
        return False
    return commas or bool(seen.padded and seen.small and not seen.large)


# Units: "12 kg", "3.5mg", "20 days"

_LETTER = r"[^\W\d_]|[°µΩÅ℃℉‰]"
_WORD = rf"(?:{_LETTER})+(?:\^?[23]|[²³])?"
_UNIT = rf"{_WORD}(?:[/·]{_WORD}| {_WORD})?"
_QUANTITY = re.compile(rf"[-+]?[\d.,][\d.,' ]*?(?:[eE][-+]?\d+)?\s*({_UNIT})")
_LONGEST_UNIT = 20  # characters of a unit

# Different units of this list in one column are a mistake; other words behind numbers may be parts of names ("12a").
_UNITS = """
    kg g mg µg ug ng t lb oz stone
    km m cm mm µm um nm mi mile ft foot in inch yd yard
    l L dl dL cl cL ml mL µl µL gal gallon pint
    m2 m² m^2 cm2 cm² km2 km² ft2 ft² sqft ha acre m3 m³ cm3 cm³
    s sec second ms µs ns min minute h hr hour d day week month year yr
    °C °F °K K C F ℃ ℉
    V mV kV A mA µA W mW kW MW GW Wh kWh MWh J kJ MJ cal kcal eV keV MeV Hz kHz MHz GHz
    B kB KB MB GB TB KiB MiB GiB bit Mbit Gbit
    Pa kPa hPa MPa bar mbar psi atm mmHg
    M mM µM uM nM pM mol mmol µmol g/L g/l g/dL g/dl mg/L mg/l mg/dL mg/dl µg/L µg/l ng/mL mmol/L mmol/l µmol/L µmol/l
    IU IU/L U/L km/h m/s mph kmh ppm ppb bpm rpm dB
"""
_KNOWN_UNITS = frozenset(_UNITS.split())


def unit_format(column: pd.Series, decimal: str | None, marks: Iterable[str]) -> NumberFormat | None:
    """How a text column of numbers with one unit is written; None where it is none."""
    texts = different_texts(column)
    units = {text: unit for text in texts if (unit := _unit(text)) is not None}
    plain = [text for text in texts if NumberFormat(",", ".").parse(text) or NumberFormat(".", ",").parse(text)]
    if not units or len(units) + len(plain) < NUMERIC_SHARE * len(texts):
        return None
    _check_units(column.name, units, plain)
    if len(set(map(_singular, units.values()))) > 1 or len(units) < NUMERIC_SHARE * len(texts):
        return None
    written = tuple(sorted(set(units.values()), key=lambda unit: (-len(unit), unit)))
    return format_of(column.name, texts, written, decimal=decimal, marks=marks)


def _unit(text: str) -> str | None:
    """What stands behind the number of a text."""
    match = _QUANTITY.fullmatch(text.replace("\u00a0", " ").replace("\u202f", " ").strip())
    # "12 e" and "12e" are too much like numbers; currencies have rules of their own.
    if match is None or len(match[1]) > _LONGEST_UNIT or match[1] in ("e", "E", *CURRENCIES):
        return None
    return match[1]


def _singular(unit: str) -> str:
    """One spelling for one unit, day and days: without the s of a plural, and with one of the two characters for µ."""
    unit = unit.replace("\u03bc", "\u00b5")
    if unit in ("feet", "inches"):
        return {"feet": "foot", "inches": "inch"}[unit]
    return unit.removesuffix("s") if len(unit) > 3 or unit in ("lbs", "hrs", "yrs") else unit


def _check_units(name: object, units: dict[str, str], plain: Sequence[str]) -> None:
    """Raise where the units of some texts are clearly mixed: with each other, or with numbers that have none."""
    counts = Counter(map(_singular, units.values()))
    (usual, most), *others = counts.most_common()
    # Digits with one letter behind them may well be a name.
    clear = any(len(unit) > 1 or " " in text or "\u00a0" in text for text, unit in units.items())
    sure = clear and all(unit in _KNOWN_UNITS for unit in counts)
    remedy = f"write all values in one unit, or add --text {quote(str(name))} to read them as categories"
    if others and (sure or most >= NUMERIC_SHARE * len(units)):
        pair = (usual, others[0][0])
        first, second = (next(text for text, unit in units.items() if _singular(unit) == one) for one in pair)
        raise TableError(f"column {name!r} mixes {first!r} and {second!r}; {remedy}")
    bare = [text for text in plain if text.strip("+-0., ")]
    if not others and bare and sure:
        raise TableError(f"column {name!r} mixes {next(iter(units))!r} and {bare[0]!r}; {remedy}")
