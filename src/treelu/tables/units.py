"""Numbers with a unit behind them: "12 kg", "3.5mg", "20 days"."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from treelu.tables.numbers import CURRENCIES, NUMERIC_SHARE, NumberFormat, different_texts, format_of
from treelu.tables.paths import TableError

if TYPE_CHECKING:
    import pandas as pd

_LETTER = r"[^\W\d_]|[°µΩÅ℃℉‰]"
_WORD = rf"(?:{_LETTER})+(?:\^?[23]|[²³])?"
UNIT = re.compile(rf"{_WORD}(?:[/·]{_WORD}| {_WORD})?")
_QUANTITY = re.compile(rf"([-+]?[\d.,][\d.,' ]*?(?:[eE][-+]?\d+)?)\s*({UNIT.pattern})")
_LONGEST = 20  # characters of a unit

# Different units of this list in one column are a mistake; other words behind numbers may be parts of names ("12a").
_KNOWN = """
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
KNOWN = frozenset(_KNOWN.split())


class _Quantity(NamedTuple):
    text: str
    number: str
    unit: str


def unit_format(column: pd.Series, decimal: str | None, marks: Iterable[str]) -> NumberFormat | None:
    """How a text column of numbers with one unit is written; None where it is none."""
    texts = different_texts(column)
    found = [quantity for text in texts if (quantity := _quantity(text)) is not None]
    plain = [text for text in texts if NumberFormat(",", ".").parse(text) or NumberFormat(".", ",").parse(text)]
    if not found or len(found) + len(plain) < NUMERIC_SHARE * len(texts):
        return None
    _check_units(column.name, found, plain)
    if len({_singular(quantity.unit) for quantity in found}) > 1 or len(found) < NUMERIC_SHARE * len(texts):
        return None
    written = tuple(sorted({quantity.unit for quantity in found}, key=lambda unit: (-len(unit), unit)))
    return format_of(column.name, texts, written, decimal=decimal, marks=marks)


def _quantity(text: str) -> _Quantity | None:
    match = _QUANTITY.fullmatch(text.replace("\u00a0", " ").replace("\u202f", " ").strip())
    # "12 e" and "12e" are too much like numbers; currencies have rules of their own.
    if match is None or len(match[2]) > _LONGEST or match[2] in ("e", "E", *CURRENCIES):
        return None
    return _Quantity(text, match[1].strip(), match[2])


def _singular(unit: str) -> str:
    """One spelling for one unit, day and days: without the s of a plural, and with one of the two characters for µ."""
    unit = unit.replace("\u03bc", "\u00b5")
    if unit in ("feet", "inches"):
        return {"feet": "foot", "inches": "inch"}[unit]
    return unit.removesuffix("s") if len(unit) > 3 or unit in ("lbs", "hrs", "yrs") else unit


def _check_units(name: object, found: Sequence[_Quantity], plain: Sequence[str]) -> None:
    """Raise where units are clearly mixed: with each other, or with numbers that have none."""
    counts = Counter(_singular(quantity.unit) for quantity in found)
    (usual, most), *others = counts.most_common()
    sure = all(unit in KNOWN for unit in counts) and any(_is_clear(quantity) for quantity in found)
    remedy = f"write all values in one unit, or add --text {quote(str(name))} to read them as categories"
    if others and (sure or most >= NUMERIC_SHARE * len(found)):
        first, second = (next(q.text for q in found if _singular(q.unit) == unit) for unit in (usual, others[0][0]))
        raise TableError(f"column {name!r} mixes {first!r} and {second!r}; {remedy}")
    bare = [text for text in plain if text.strip("+-0., ")]
    if not others and bare and sure:
        raise TableError(f"column {name!r} mixes {found[0].text!r} and {bare[0]!r}; {remedy}")


def _is_clear(quantity: _Quantity) -> bool:
    """Whether a value is more than digits with one letter behind them, which may well be a name."""
    return len(quantity.unit) > 1 or " " in quantity.text or "\u00a0" in quantity.text
