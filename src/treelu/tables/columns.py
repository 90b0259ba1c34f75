"""Columns of a table as features: numbers, texts and molecules, each with what it learned from training rows."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treelu.tables.files import TableError

if TYPE_CHECKING:
    import pandas as pd

    from treelu.chem import MorganFingerprint

MISSING, OTHER = "(missing)", "(other)"
NUMERIC_SHARE = 0.9  # a column is one of numbers where at least this share of its values are
MAX_BITS = 1 << 20
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

    @property
    def features(self) -> list[str]:
        """Names of its features."""
        return [self.name, f"{self.name}={MISSING}"] if self.indicator else [self.name]

    @classmethod
    def learn(cls, column: pd.Series, note: Note) -> NumberColumn:
        """Take the median of the training rows."""
        values, strays = to_numbers(column)
        missing = np.isnan(values)
        median = float(np.median(values[~missing])) if not missing.all() else 0.0
        if strays:
            note(f"column {column.name!r}: {_listed(strays)} among numbers count as missing")
        if missing.any():
            note(
                f"column {column.name!r}: {missing.sum():,} of {len(values):,} values missing, replaced by the median "
                f"{median:.6g} and marked in '{column.name}={MISSING}'"
            )
        return cls(str(column.name), median, bool(missing.any()), tuple(strays))

    def encode(self, column: pd.Series, note: Note, *, lenient: bool, first_row: int) -> NDArray[np.float64]:
        """One or two features."""
        values, strays = to_numbers(column)
        unknown = [text for text in strays if text not in self.strays]
        if unknown and not lenient:
            row = first_row + int(np.flatnonzero(column.astype(str).str.strip() == unknown[0])[0])
            raise TableError(
                f"column {self.name!r}, row {row + 1}: {unknown[0]!r} is not a number; correct it, or leave it empty "
                "if it is missing"
            )
        if unknown:
            note(f"column {self.name!r}: {_listed(unknown)} among numbers count as missing")
        if np.isinf(values).any():
            row = first_row + int(np.flatnonzero(np.isinf(values))[0])
            raise TableError(f"column {self.name!r}, row {row + 1}: infinity; leave it empty if it is unknown")
        missing = np.isnan(values)
        values = np.where(missing, self.median, values)
        if self.indicator:
            return np.column_stack([values, missing])
        if missing.any():
            note(f"column {self.name!r}: missing values, of which training had none, replaced by {self.median:.6g}")
        return values[:, None]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"median": self.median, "indicator": self.indicator, "strays": list(self.strays)}

    @classmethod
    def from_dict(cls, name: str, data: dict[str, Any]) -> NumberColumn:
        """The inverse of `to_dict`."""
        median, indicator, strays = data["median"], data["indicator"], data["strays"]
        if not isinstance(median, int | float) or not math.isfinite(median) or not isinstance(indicator, bool):
            raise ValueError(f"column {name!r} must have a finite median")
        return cls(name, float(median), indicator, _texts(strays))


@dataclass(frozen=True)
class TextColumn:
    """Texts one-hot: a feature of 0 and 1 for each category, for rarer ones together, and for missing values."""

    kind: ClassVar[str] = "text"
    name: str
    categories: tuple[str, ...]
    other: bool  # whether there is a feature for all further categories
    missing: bool  # whether there is one for missing values

    @property
    def features(self) -> list[str]:
        """Names of its features."""
        extra = [OTHER] * self.other + [MISSING] * self.missing
        return [f"{self.name}={category}" for category in (*self.categories, *extra)]

    @classmethod
    def learn(cls, column: pd.Series, max_categories: int, note: Note) -> TextColumn:
        """Take the categories of the training rows, the most frequent ones where there are too many."""
        texts = to_texts(column)
        counts = {str(text): n for text, n in texts.value_counts().items()}
        ranked = sorted(counts, key=lambda text: (-counts[text], text))
        other = len(ranked) > max_categories
        kept = sorted(ranked[: max_categories - 1] if other else ranked)
        missing = bool(texts.isna().any())
        message = f"column {column.name!r}: text with {len(ranked)} categories"
        message += f" ({', '.join(kept)})" if len(kept) <= 5 else f" ({', '.join(kept[:4])}, …)"
        message += f", one-hot encoded as '{column.name}={kept[0]}', …" if kept else ""
        if other:
            rest = sum(counts[text] for text in ranked[max_categories - 1 :])
            message += (
                f"; the {len(kept)} most frequent have a feature each, the others ({rest:,} rows) share "
                f"'{column.name}={OTHER}' (--max-categories)"
            )
        if missing:
            message += f"; missing values are marked in '{column.name}={MISSING}'"
        note(message)
        return cls(str(column.name), tuple(kept), other, missing)

    def encode(self, column: pd.Series, note: Note, *, lenient: bool, first_row: int) -> NDArray[np.float64]:
        """One feature a category."""
        texts = to_texts(column)
        absent = texts.isna().to_numpy()
        places = {category: place for place, category in enumerate(self.categories)}
        place = np.array(texts.map(places).fillna(-1), dtype=np.int64)
        unseen = (place < 0) & ~absent
        if self.other:
            place[unseen] = len(places)
        elif unseen.any():
            examples = sorted({repr(text) for text in texts[unseen]})
            note(f"column {self.name!r}: {_listed(examples)} not seen in training; its features are all 0 there")
        if self.missing:
            place[absent] = len(places) + self.other
        elif absent.any():
            note(f"column {self.name!r}: missing values, of which training had none; its features are all 0 there")
        encoded = np.zeros((len(column), len(self.features)))
        rows = np.flatnonzero(place >= 0)
        encoded[rows, place[rows]] = 1.0
        return encoded

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"categories": list(self.categories), "other": self.other, "missing": self.missing}

    @classmethod
    def from_dict(cls, name: str, data: dict[str, Any]) -> TextColumn:
        """The inverse of `to_dict`."""
        if not isinstance(data["other"], bool) or not isinstance(data["missing"], bool):
            raise ValueError(f"column {name!r}: other and missing must be true or false")
        return cls(name, _texts(data["categories"]), data["other"], data["missing"])


@dataclass(frozen=True)
class SmilesColumn:
    """Molecules as the bits of a Morgan fingerprint."""

    kind: ClassVar[str] = "smiles"
    name: str
    fingerprint: MorganFingerprint = field(repr=False)

    @property
    def features(self) -> list[str]:
        """Names of its features."""
        return self.fingerprint.get_feature_names_out().tolist()

    @classmethod
    def learn(cls, column: pd.Series, radius: int, n_bits: int, note: Note) -> SmilesColumn:
        """Remember example molecules of each bit."""
        from treelu.chem import MorganFingerprint

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # rows that RDKit refuses are told of by `encode`
            fingerprint = MorganFingerprint(radius, n_bits, invalid="drop").fit(column.to_list())
        note(f"column {column.name!r}: molecules, as {n_bits} bits of a Morgan fingerprint of radius {radius}")
        return cls(str(column.name), fingerprint)

    def encode(self, column: pd.Series) -> tuple[Any, NDArray[np.int64]]:
        """A CSR matrix for the rows that RDKit can read, and their numbers."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return self.fingerprint.transform_kept(column.to_list())

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"fingerprint": self.fingerprint.to_dict() | _NO_ROWS}

    @classmethod
    def from_dict(cls, name: str, data: dict[str, Any]) -> SmilesColumn:
        """The inverse of `to_dict`."""
        from treelu.chem import MorganFingerprint

        memory = data["fingerprint"]
        parameters = memory["parameters"]
        if not 1 <= parameters["n_bits"] <= MAX_BITS or not 0 <= parameters["radius"] <= MAX_BITS:
            raise ValueError(f"column {name!r}: n_bits must be from 1 to {MAX_BITS}")
        fingerprint = MorganFingerprint.from_dict(memory | {"parameters": parameters | {"invalid": "drop"}} | _NO_ROWS)
        fingerprint._check_parameters()
        return cls(name, fingerprint)


Column = NumberColumn | TextColumn | SmilesColumn
KINDS: dict[str, Any] = {kind.kind: kind for kind in (NumberColumn, TextColumn, SmilesColumn)}


def to_numbers(column: pd.Series) -> tuple[NDArray[np.float64], list[str]]:
    """Values as numbers, NaN where one is missing or a text, and those texts.

    Examples
    --------
    >>> import pandas as pd
    >>> to_numbers(pd.Series(["1", "?", None, "2.5"]))
    (array([1. , nan, nan, 2.5]), ['?'])
    """
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column.dtype):
        return column.to_numpy(np.float64, na_value=np.nan), []
    values = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan, copy=True)
    rows = np.flatnonzero(np.isnan(values) & column.notna().to_numpy())
    texts = column.iloc[rows].astype(str).str.strip()
    values[rows] = texts.str.lower().map({"true": 1.0, "false": 0.0}).to_numpy(np.float64, na_value=np.nan)
    strays = texts[np.isnan(values[rows]) & (texts != "").to_numpy()]
    return values, list(dict.fromkeys(strays))


def to_texts(column: pd.Series) -> pd.Series:
    """Values as texts without blanks around them, missing where one is missing or blank."""
    texts = column.astype(str).str.strip()
    return texts.where(column.notna() & (texts != ""))


def looks_decimal(texts: Iterable[str]) -> bool:
    """Whether texts are numbers with decimal commas, nearly all of them.

    Examples
    --------
    >>> looks_decimal(["1,5", "-20,25"]), looks_decimal(["a", "1,5"])
    (True, False)
    """
    fits = [re.fullmatch(r"\s*[-+]?\d+,\d+\s*", str(text)) is not None for text in texts]
    return bool(fits) and sum(fits) >= NUMERIC_SHARE * len(fits)


def _listed(texts: list[str]) -> str:
    return ", ".join(texts[:3]) + (f" and {len(texts) - 3} more" if len(texts) > 3 else "")


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError("categories and strays must be lists of texts")
    return tuple(values)
