"""Columns of a table as features: numbers, texts, dates and molecules, each with what it learned from training rows.

A column is a recipe: a few explicit parameters (`to_dict`), with which any row of any table becomes features alike.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from treelu.tables.dates import (
    BETWEEN,
    COMPACT,
    ISO_DAY,
    PARTS,
    DateOrder,
    check_clear,
    date_parts,
    parse_dates,
    whole_texts,
)
from treelu.tables.missing import mark_missing
from treelu.tables.numbers import CURRENCIES, MARKS, PLAIN, NumberFormat, to_numbers, to_texts
from treelu.tables.paths import TableError
from treelu.tables.unseen import UnseenValues
from treelu.tree.missing import MissingValues
from treelu.tree.names import shown_name

if TYPE_CHECKING:
    import pandas as pd

    from treelu.chem import MolecularFeatures, MorganFingerprint

MISSING, OTHER = "(missing)", "(other)"
MAX_BITS = 1 << 20
MOST_RARE = 1_000  # rare categories that are remembered
Range = tuple[float, float]
_NOT_NUMBERS = {"M": "dates", "m": "durations", "c": "complex numbers"}  # by the kind of their dtype
_NO_ROWS: dict[str, Any] = {"n_rows": 0, "refused": []}  # which training rows were read matters to nobody later
Note = Callable[[str], None]


@dataclass(frozen=True)
class NumberColumn:
    """Numbers as they are; the median of the training rows where one is missing, and an indicator of that."""

    kind: ClassVar[str] = "number"
    name: str
    median: float
    indicator: bool  # whether training rows had missing values
    strays: tuple[str, ...] = ()  # texts among the numbers that count as missing
    style: NumberFormat = PLAIN  # how they are written
    binary: bool = False  # whether all numbers of the training rows are 0 or 1, truth values too
    limits: Range | None = None  # the range of the training rows; older models do not have it
    integers: bool = False  # whether all numbers of the training rows are integers

    @property
    def features(self) -> list[str]:
        """Names of its features."""
        return [self.name, f"{self.name}={MISSING}"] if self.indicator else [self.name]

    @classmethod
    def learn(cls, column: pd.Series, note: Note, style: NumberFormat = PLAIN) -> NumberColumn:
        """Take the median of the training rows."""
        values, strays = to_numbers(column, style)
        if not style.is_plain:
            units = [mark for mark in style.units if mark not in MARKS]
            unit = f" (all in {units[0]}; --text {quote(str(column.name))} reads categories)" if units else ""
            note(f"column {column.name!r}: {example_of(column, style)}{unit}")
        median, missing = float(MissingValues.of(values[:, None]).fills[0]), np.isnan(values)
        _note_strays(column.name, strays, "numbers", note)
        _note_missing(column.name, missing, f"the median {median:.6g}", note)
        binary = bool(np.isin(values[~missing], (0.0, 1.0)).all())
        limits = _range(values)
        integers = bool((values[~missing] == np.rint(values[~missing])).all())
        return cls(str(column.name), median, bool(missing.any()), tuple(strays), style, binary, limits, integers)

    def encode(
        self, column: pd.Series, note: Note, unseen: UnseenValues, *, lenient: bool, first_row: int
    ) -> NDArray[np.float64]:
        """One or two features."""
        found = _NOT_NUMBERS.get(column.dtype.kind)
        if found is not None and column.notna().any():
            raise TableError(f"column {self.name!r} holds {found}, but held numbers in training; give it as numbers")
        if found is not None:
            column = column.astype(object)  # missing values alone
        if any(
            self.style.parse(text) is not None for text in self.strays
        ):  # codes, and texts that could not be read yet
            column = mark_missing(column, self.strays)
        values, strays = to_numbers(column, self.style)
        unknown = [text for text in strays if text not in self.strays]
        if unknown and not lenient:
            mark = "," if self.style.decimal == "." else "."
            other = NumberFormat(mark, "", self.style.marks).parse(unknown[0]) is not None
            remedy = f"give --decimal {mark} if that is the decimal mark of this table" if other else ""
            raise _unreadable(
                self.name,
                column,
                unknown[0],
                first_row,
                "a number" + (f" with {self.style.decimal!r} before decimals, as in training" if other else ""),
                remedy,
            )
        _note_strays(self.name, unknown, "numbers", note)
        bare = self._without_unit(column)
        if bare is not None:
            unit = self.style.units[0]
            note(f"column {self.name!r}: {bare!r} has no {unit}, unlike the training rows; read as {bare} {unit}")
        if np.isinf(values).any():
            row = first_row + int(np.flatnonzero(np.isinf(values))[0])
            raise TableError(f"column {self.name!r}, row {row + 1}: infinity; leave it empty if it is unknown")
        unseen.add_numbers(self.name, values, self.limits, first_row, lambda value: f"{value:.6g}")
        if not self.indicator:
            rows = np.flatnonzero(np.isnan(values)) + first_row + 1
            unseen.add(self.name, "missing", rows, effect=f"replaced by {self.median:.6g}")
        return MissingValues(np.array([self.median]), np.arange(int(self.indicator))).fill(values[:, None])

    def _without_unit(self, column: pd.Series) -> str | None:
        """A value without the unit, or the %, of the training rows; 0 needs none."""
        if not self.style.units:
            return None
        texts = to_texts(column).dropna().unique()
        others = (*self.style.units, *CURRENCIES)
        bare = (text for text in texts if not any(mark in text for mark in others if mark in self.style.marks))
        return next((text for text in bare if self.style.parse(text)), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        recipe: dict[str, Any] = {"median": self.median, "indicator": self.indicator, "strays": list(self.strays)}
        recipe |= {} if self.style.is_plain else {"style": self.style.to_dict()}
        recipe |= {} if self.limits is None else {"range": list(self.limits)}
        return recipe | {name: True for name in ("binary", "integers") if getattr(self, name)}

    @classmethod
    def from_dict(cls, name: str, data: dict[str, Any]) -> NumberColumn:
        """The inverse of `to_dict`."""
        median, indicator = data["median"], data["indicator"]
        if not isinstance(median, int | float) or not math.isfinite(median) or not isinstance(indicator, bool):
            raise ValueError(f"column {name!r} must have a finite median")
        style = NumberFormat.from_dict(data["style"]) if "style" in data else PLAIN
        binary, limits, integers = data.get("binary") is True, _read_range(name, data), data.get("integers") is True
        return cls(name, float(median), indicator, _texts(data["strays"]), style, binary, limits, integers)


@dataclass(frozen=True)
class TextColumn:
    """Texts one-hot: a feature of 0 and 1 for each category, for rarer ones together, and for missing values."""

    kind: ClassVar[str] = "text"
    name: str
    indicator: ClassVar[bool] = False  # missing values are a category
    categories: tuple[str, ...]
    other: bool  # whether there is a feature for all other categories
    missing: bool  # whether there is one for missing values
    rare: tuple[str, ...] = ()  # the other categories of the training rows; none where they are too many

    @property
    def answers(self) -> list[str]:
        """The meaning of each of its features."""
        return [*self.categories, *[OTHER] * self.other, *[MISSING] * self.missing]

    @property
    def features(self) -> list[str]:
        return [f"{self.name}={answer}" for answer in self.answers]

    @classmethod
    def learn(cls, column: pd.Series, max_categories: int, note: Note) -> TextColumn:
        """Take the categories of the training rows, the most frequent ones where there are too many."""
        texts = to_texts(column)
        counts = {str(text): n for text, n in texts.value_counts().items()}
        ranked = sorted(counts, key=lambda text: (-counts[text], text))
        other = len(ranked) > max_categories
        kept = sorted(ranked[: max_categories - 1] if other else ranked)
        missing = bool(texts.isna().any())
        name, shown = shown_name(column.name), [shown_name(text) for text in kept[:5]]
        message = f"column {column.name!r}: text with {len(ranked)} categories"
        message += f" ({', '.join(shown)})" if len(kept) <= 5 else f" ({', '.join(shown[:4])}, …)"
        message += f", one-hot encoded as '{name}={shown[0]}', …" if kept else ""
        if other:
            rest = sum(counts[text] for text in ranked[max_categories - 1 :])
            message += (
                f"; the {len(kept)} most frequent have a feature each, the others ({rest:,} rows) share "
                f"'{name}={OTHER}' (--max-categories)"
            )
        if missing:
            message += f"; missing values are marked in '{name}={MISSING}'"
        note(message)
        rare = ranked[max_categories - 1 :] if other else []
        return cls(str(column.name), tuple(kept), other, missing, tuple(sorted(rare)) if len(rare) <= MOST_RARE else ())

    def encode(
        self, column: pd.Series, note: Note, unseen: UnseenValues, *, lenient: bool, first_row: int
    ) -> NDArray[np.float64]:
        """One feature per category."""
        texts = to_texts(column)
        absent = texts.isna().to_numpy()
        places = {category: place for place, category in enumerate(self.categories)}
        if column.dtype.kind in "iuf":  # a missing value makes floats of integers: 120.0 is the category 120
            texts = texts.map({text: _other_writing(text, places) for text in texts.dropna().unique()})
        place = np.array(texts.map(places).fillna(-1), dtype=np.int64)
        others, zeros = np.flatnonzero((place < 0) & ~absent), "its features are all 0 there"
        self._add_unseen(texts, others, unseen, f"read as '{self.name}={OTHER}'" if self.other else zeros, first_row)
        if self.other:
            place[others] = len(places)
        if self.missing:
            place[absent] = len(places) + self.other
        else:
            unseen.add(self.name, "missing", np.flatnonzero(absent) + first_row + 1, effect=zeros)
        encoded = np.zeros((len(column), len(self.features)))
        rows = np.flatnonzero(place >= 0)
        encoded[rows, place[rows]] = 1.0
        return encoded

    def _add_unseen(
        self, texts: pd.Series, others: NDArray[np.int64], unseen: UnseenValues, effect: str, first_row: int
    ) -> None:
        """Count the texts that no training row had; where rare ones were too many to remember, none can be told."""
        if self.other and not self.rare:
            return
        rare = set(self.rare)
        new = [(row, text) for row, text in zip(others.tolist(), texts.iloc[others], strict=True) if text not in rare]
        rows = np.array([row for row, _ in new], dtype=np.int64) + first_row + 1
        known = (*self.categories, *self.rare)
        unseen.add(self.name, "category", rows, [text for _, text in new], effect=effect, known=known)

    def to_dict(self) -> dict[str, Any]:
        recipe = {"categories": list(self.categories), "other": self.other, "missing": self.missing}
        return recipe | ({"rare": list(self.rare)} if self.rare else {})

    @classmethod
    def from_dict(cls, name: str, data: dict[str, Any]) -> TextColumn:
        if not isinstance(data["other"], bool) or not isinstance(data["missing"], bool):
            raise ValueError(f"column {name!r}: other and missing must be true or false")
        rare = _texts(data.get("rare", []))
        return cls(name, _texts(data["categories"]), data["other"], data["missing"], rare)


@dataclass(frozen=True)
class DateColumn:
    """Dates as year, month, day of the week (Monday is 1), hour and days since 1970; the middle date where missing."""

    kind: ClassVar[str] = "date"
    name: str
    format: str | None  # as `strptime` writes it; None is ISO 8601
    parts: tuple[str, ...]  # of `dates.PARTS`: those that differ between training rows
    middle: float  # days since 1970, in place of a missing date
    indicator: bool  # whether training rows had missing values
    strays: tuple[str, ...] = ()  # texts among the dates that count as missing
    limits: Range | None = None  # the first and the last date of the training rows, in days since 1970
    order: DateOrder | None = None  # how to read what the formats of a column leave open; None refuses it

    @property
    def features(self) -> list[str]:
        return [f"{self.name} ({part})" for part in self.parts] + [f"{self.name}={MISSING}"] * self.indicator

    def features_of(self, moments: NDArray[Any]) -> NDArray[np.float64]:
        """The features of moments, without that of a missing date."""
        return date_parts(moments, self.parts)

    @property
    def middle_moment(self) -> np.datetime64:
        """The middle date as a moment."""
        return _moment(self.middle)

    @classmethod
    def learn(cls, column: pd.Series, format: str | None, note: Note, order: DateOrder | None = None) -> DateColumn:
        """Take the parts that vary, and the middle date of the training rows."""
        moments = parse_dates(column, format)
        missing = np.isnat(moments)
        known = np.sort(moments[~missing])
        values = date_parts(known, PARTS)
        varying = tuple(part for part, column in zip(PARTS, values.T, strict=True) if (column != column[0]).any())
        example = str(whole_texts(column).dropna().iloc[0])
        first = _day(moments[~missing][0])
        overrule = f" (--numbers {quote(str(column.name))} reads them as numbers)" if format == COMPACT else ""
        ways = 1 if format is None else format.count(BETWEEN) + 1
        written = f", written in {ways} ways" if ways > 1 else ""
        note(f"column {column.name!r}: dates ({example!r} is {first}{written}), as {', '.join(varying)}{overrule}")
        strays = [str(text) for text in to_texts(column)[missing].dropna().unique()]
        middle = len(known) // 2
        _note_strays(column.name, strays, "dates", note)
        _note_missing(column.name, missing, f"the middle date {_day(known[middle])}", note)
        days = values[:, -1]
        recipe = (varying, float(days[middle]), bool(missing.any()), tuple(strays), _range(days))
        return cls(str(column.name), format, *recipe, order if ways > 1 else None)

    def encode(
        self, column: pd.Series, note: Note, unseen: UnseenValues, *, lenient: bool, first_row: int
    ) -> NDArray[np.float64]:
        """One feature per part, and one that marks missing dates."""
        format = self.format
        if format is not None and BETWEEN in format:
            format += f"{BETWEEN}{ISO_DAY}"  # with which any date can be written so that it is clear
            if self.order is None:
                check_clear(column, format, None if lenient else first_row)
        moments = parse_dates(column, format)
        missing = np.isnat(moments)
        unknown = [str(text) for text in to_texts(column)[missing].dropna().unique() if text not in self.strays]
        if unknown and not lenient:
            written = "a date" if self.format is None else f"a date like {self.format.replace(BETWEEN, ' or ')}"
            raise _unreadable(self.name, column, unknown[0], first_row, written)
        _note_strays(self.name, unknown, "dates", note)
        middle = self.middle_moment
        filled = np.where(missing, middle, moments)
        values = date_parts(filled, self.parts)
        unseen.add_numbers(self.name, date_parts(filled, PARTS[-1:])[:, 0], self.limits, first_row, _day_of)
        if self.indicator:
            return np.column_stack([values, missing])
        rows = np.flatnonzero(missing) + first_row + 1
        unseen.add(self.name, "missing", rows, effect=f"replaced by {_day(middle)}")
        return values

    def to_dict(self) -> dict[str, Any]:
        recipe: dict[str, Any] = {
            "format": self.format,
            "parts": list(self.parts),
            "middle": self.middle,
            "indicator": self.indicator,
            "strays": list(self.strays),
        }
        recipe |= {} if self.order is None else {"order": self.order}
        return recipe | ({} if self.limits is None else {"range": list(self.limits)})

    @classmethod
    def from_dict(cls, name: str, data: dict[str, Any]) -> DateColumn:
        format, parts, middle, indicator = data["format"], data["parts"], data["middle"], data["indicator"]
        if not isinstance(format, str | None) or not isinstance(indicator, bool):
            raise ValueError(f"column {name!r} must have a format of dates")
        if not isinstance(middle, int | float) or not abs(middle) < 1e7:
            raise ValueError(f"column {name!r} must have a middle date")
        if not parts or not set(_texts(parts)) <= set(PARTS):
            raise ValueError(f"column {name!r}: parts of a date are {', '.join(PARTS)}")
        order = data.get("order")
        if order not in (None, *get_args(DateOrder)):
            raise ValueError(f"column {name!r}: dates are day-first or month-first, got {order!r}")
        strays, limits = _texts(data["strays"]), _read_range(name, data)
        return cls(name, format, tuple(parts), float(middle), indicator, strays, limits, order)


@dataclass(frozen=True)
class SmilesColumn:
    """Molecules as named columns; models of version 0.1 have the bits of a hashed Morgan fingerprint."""

    kind: ClassVar[str] = "smiles"
    indicator: ClassVar[bool] = False
    name: str
    fingerprint: MolecularFeatures | MorganFingerprint = field(repr=False)

    @property
    def features(self) -> list[str]:
        return self.fingerprint.get_feature_names_out().tolist()

    @classmethod
    def learn(cls, column: pd.Series, blocks: Sequence[str], radius: int, n_bits: int, note: Note) -> SmilesColumn:
        """Choose the columns from the training molecules."""
        from treelu.chem import MolecularFeatures

        features = MolecularFeatures(tuple(blocks), radius=radius, n_bits=n_bits, invalid="drop")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # rows that RDKit refuses are told of by `encode`
            try:
                features.fit(column.to_list())
            except ValueError as error:
                raise TableError(f"column {column.name!r}: {error}") from error
        if not len(features.kept_):
            raise TableError(f"RDKit can read none of the SMILES of column {column.name!r}; check --smiles")
        counts = Counter(known.block.replace("_", " ") for known in features.columns_)
        words = ", ".join(f"{number} {block}" for block, number in counts.items())
        words = words.replace("substructures", f"substructures (of up to {radius} bonds from an atom)")
        note(f"column {column.name!r}: molecules, as {words}")
        return cls(str(column.name), features)

    def encode(self, column: pd.Series) -> tuple[Any, NDArray[np.int64]]:
        """A CSR matrix for the rows that RDKit can read, and their numbers."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return self.fingerprint.transform_kept(column.to_list())

    def to_dict(self) -> dict[str, Any]:
        return {"fingerprint": self.fingerprint.to_dict() | _NO_ROWS}

    @classmethod
    def from_dict(cls, name: str, data: dict[str, Any]) -> SmilesColumn:
        from treelu.chem import MolecularFeatures, MorganFingerprint

        memory = data["fingerprint"]
        parameters = memory["parameters"]
        if not 1 <= parameters["n_bits"] <= MAX_BITS or not 0 <= parameters["radius"] <= MAX_BITS:
            raise ValueError(f"column {name!r}: n_bits must be from 1 to {MAX_BITS}")
        kind: Any = MolecularFeatures if "blocks" in parameters else MorganFingerprint
        fingerprint = kind.from_dict(memory | {"parameters": parameters | {"invalid": "drop"}} | _NO_ROWS)
        return cls(name, fingerprint)


def _other_writing(text: str, known: Container[str]) -> str:
    """A number as the known texts write it, 120 or 120.0; as it is where they do not have it."""
    other = text.removesuffix(".0") if text.endswith(".0") else f"{text}.0"
    return other if text not in known and other in known else text


def alike(texts: Iterable[str]) -> tuple[str, str] | None:
    """Two texts that differ only in case and blanks, None where there are none."""
    known: dict[str, str] = {}
    for text in texts:
        other = known.setdefault(" ".join(text.casefold().split()), text)
        if other != text:
            return other, text
    return None


Column = NumberColumn | TextColumn | DateColumn | SmilesColumn
KINDS: dict[str, Any] = {kind.kind: kind for kind in (NumberColumn, TextColumn, DateColumn, SmilesColumn)}


def example_of(column: pd.Series, style: NumberFormat) -> str:
    """The note about numbers that are not written as in Python, with an example."""
    texts = to_texts(column).dropna().astype(str)
    example = max(texts, key=lambda text: (style.parse(text) is not None, len(text)))
    return f"read as numbers, {example!r} is {style.parse(example):.10g}"


def _note_strays(name: Any, strays: list[str], what: str, note: Note) -> None:
    if strays:
        note(f"column {name!r}: {_listed(strays)} among {what} count as missing")


def _note_missing(name: Any, missing: NDArray[np.bool_], fill: str, note: Note) -> None:
    if missing.any():
        note(
            f"column {name!r}: {missing.sum():,} of {len(missing):,} values missing, replaced by {fill} and marked in "
            f"'{name}={MISSING}'"
        )


def _day(moment: np.datetime64) -> str:
    return str(moment.astype("datetime64[D]"))


def _day_of(days: float) -> str:
    """Days since 1970 as a date."""
    return _day(_moment(days))


def _moment(days: float) -> np.datetime64:
    return np.datetime64(round(days * 86_400_000_000), "us")


def _range(values: NDArray[np.float64]) -> Range | None:
    """The smallest and the largest finite value."""
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if len(known) else None


def _read_range(name: str, data: dict[str, Any]) -> Range | None:
    """The range of a recipe, which older ones do not have."""
    limits = data.get("range")
    if limits is None:
        return None
    low, high = limits
    if not all(isinstance(end, int | float) and math.isfinite(end) for end in limits) or low > high:
        raise ValueError(f"column {name!r}: a range has a finite low and high end, got {limits!r}")
    return float(low), float(high)


def _unreadable(name: str, column: pd.Series, text: str, first_row: int, wanted: str, remedy: str = "") -> TableError:
    row = first_row + int(np.flatnonzero(column.astype(str).str.strip() == text)[0])
    remedy = remedy or "correct it, or leave it empty if it is missing"
    return TableError(f"column {name!r}, row {row + 1}: {text!r} is not {wanted}; {remedy}")


def _listed(texts: list[str]) -> str:
    return ", ".join(texts[:3]) + (f" and {len(texts) - 3} more" if len(texts) > 3 else "")


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError("categories and strays must be lists of texts")
    return tuple(values)
