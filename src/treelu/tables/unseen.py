"""Values of new rows that no training row had: unknown categories, numbers and dates far outside, missing values.

A number is *far* outside where it lies beyond the range of the training rows by more than the width of that range:
above 112 or below -29 where training rows had 18 to 65. Numbers that are outside, but not far, are reported where they
are many: five or more, and a twentieth of the rows.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["category", "far", "outside", "missing"]
SHOWN_ROWS, SHOWN_VALUES = 5, 3
MANY_ROWS, MANY_SHARE = 5, 0.05  # from which on numbers that are outside, but not far, are reported
_CLOSE = 0.8  # of difflib's ratio: categories at least so alike may be one, misspelt
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "æ": "ae", "ø": "oe", "å": "aa"})


@dataclass
class _Finding:
    """The unseen values of one kind in one column."""

    where: str = ""  # what they lie outside of
    effect: str = ""  # what the model does with them
    known: Sequence[str] = ()  # categories of the training rows
    n_rows: int = 0
    first_rows: list[int] = field(default_factory=list)
    values: Counter[str] = field(default_factory=Counter)


class UnseenValues:
    """Gathers, over all pieces of a table, the values that no training row had.

    Examples
    --------
    >>> import pandas as pd
    >>> from treelu.tables import TableEncoder
    >>> frame = pd.DataFrame({"age": [18.0, 40.0, 65.0], "team": ["Bayern München", "Bochum", "Bochum"]})
    >>> encoder, unseen = TableEncoder.learn(frame, note=lambda text: None), UnseenValues()
    >>> new = pd.DataFrame({"age": [650.0, 30.0], "team": ["Bochum", "bayern muenchen"]})
    >>> _ = encoder.encode(new, unseen=unseen)
    >>> print(*unseen.warnings(), sep="\\n")
    column 'age': 1 value far outside the training range 18 to 65 (650), in row 1; a typing error?
    column 'team': 1 value not seen in training ('bayern muenchen', did you mean 'Bayern München'?), in row 2; its \
features are all 0 there
    """

    def __init__(self) -> None:
        self.n_rows = 0
        self._found: dict[tuple[str, Kind], _Finding] = {}

    def add(self, column: str, kind: Kind, rows: NDArray[np.int64], values: Any = (), **words: Any) -> None:
        """Count cells of a column: the numbers of their rows, counted from 1, and what they hold."""
        if not len(rows):
            return
        finding = self._found.setdefault((column, kind), _Finding(**words))
        finding.n_rows += len(rows)
        finding.first_rows += rows[: SHOWN_ROWS - len(finding.first_rows)].tolist()
        finding.values.update(values)

    def add_numbers(
        self, column: str, values: NDArray[np.float64], limits: tuple[float, float] | None, first_row: int, shown: Any
    ) -> None:
        """Count the values outside `limits`; `shown` turns one into text."""
        if limits is None or not len(values):
            return
        low, high = limits
        reach = high - low
        outside = np.flatnonzero((values < low) | (values > high))  # not NaN
        if not len(outside):
            return
        is_far = (values[outside] < low - reach) | (values[outside] > high + reach)
        where = f"the training range {shown(low)} to {shown(high)}"
        far = outside[is_far]
        examples = [shown(value) for value in values[far]]
        self.add(column, "far", far + first_row + 1, examples, where=where, effect="a typing error?")
        self.add(
            column, "outside", outside[~is_far] + first_row + 1, where=where, effect="predictions extrapolate there"
        )

    def warnings(self) -> list[str]:
        """A sentence about each column with values that the model does not know: categories, far numbers, gaps."""
        return [_sentence(*key, found) for key, found in self._found.items() if key[1] != "outside"]

    def notes(self) -> list[str]:
        """A sentence about each column of which many numbers lie outside the training range, but not far."""
        most = max(MANY_ROWS, MANY_SHARE * self.n_rows)
        outside = {key: found for key, found in self._found.items() if key[1] == "outside"}
        return [_sentence(*key, found) for key, found in outside.items() if found.n_rows >= most]

    def warn(self, stacklevel: int = 3) -> None:
        """One UserWarning with all that was found; none where nothing was."""
        if found := self.warnings():
            warnings.warn("\n".join(found), UserWarning, stacklevel=stacklevel)


def warn_of_far_numbers(X: Any, rows: Any, observed: Any) -> None:
    """One UserWarning with the numbers of a data frame that lie far outside the training ranges.

    Parameters
    ----------
    X : DataFrame
        Of numbers; anything else is passed over, as arrays have no names to speak of.
    rows : array of shape (n_rows, n_features)
        The same as numbers.
    observed : Observed or None
        What the training rows held.
    """
    names = getattr(X, "columns", None)
    if observed is None or names is None or not isinstance(rows, np.ndarray) or not len(rows):
        return
    reach = observed.high[: rows.shape[1]] - observed.low[: rows.shape[1]]
    low, high = observed.low[: len(reach)] - reach, observed.high[: len(reach)] + reach
    least, greatest = np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0)
    unseen = UnseenValues()
    for j in np.flatnonzero((least < low) | (greatest > high)).tolist():
        limits = float(observed.low[j]), float(observed.high[j])
        unseen.add_numbers(str(names[j]), rows[:, j], limits, 0, lambda value: f"{value:.6g}")
    unseen.warn(stacklevel=5)


def _sentence(column: str, kind: Kind, found: _Finding) -> str:
    """What a column holds, in which rows, and what becomes of it."""
    what = {
        "category": "not seen in training",
        "far": f"far outside {found.where}",
        "outside": f"outside {found.where}",
        "missing": "missing, which no training row had",
    }[kind]
    counted = "1 value" if found.n_rows == 1 else f"{found.n_rows:,} values"
    rows = ", ".join(map(str, found.first_rows)) + (", …" if found.n_rows > len(found.first_rows) else "")
    examples = _examples(kind, found)
    return (
        f"column {column!r}: {counted} {what}{f' ({examples})' if examples else ''}, in row"
        f"{'s' if found.n_rows > 1 else ''} {rows}; {found.effect}"
    )


def _examples(kind: Kind, found: _Finding) -> str:
    """The most frequent values, with the category that each may have been meant to be."""
    shown = []
    for value, n in found.values.most_common(SHOWN_VALUES):
        near = nearest_category(value, found.known) if kind == "category" else None
        text = repr(value) if kind == "category" else value
        text += f" {n:,} times" if n > 1 else ""
        shown.append(text + (f", did you mean {near!r}?" if near is not None else ""))
    more = len(found.values) - len(shown)
    return "; ".join(shown) + (f"; and {more:,} more" if more else "")


def nearest_category(text: str, known: Collection[str]) -> str | None:
    """The known category that a text may be a misspelling of; None where none is much like it.

    Case, blanks and accents do not count, nor "ue" for "ü". Digits must be the same, as "type 5" is not "type 6".

    Examples
    --------
    >>> nearest_category("bayern muenchen", ["Bayern München", "Bochum"])
    'Bayern München'
    >>> print(nearest_category("male", ["female"]), nearest_category("type 6", ["type 5"]))
    None None
    """
    folded = {_folded(other): other for other in known}
    short = _folded(text)
    if short in folded:
        return folded[short]
    digits = re.findall(r"\d+", short)
    alike = [other for other in folded if re.findall(r"\d+", other) == digits]
    for other in get_close_matches(short, alike, n=3, cutoff=_CLOSE):
        part_of = (short in other or other in short) and abs(len(short) - len(other)) > 1
        if not part_of:  # "male" and "female" are two categories
            return folded[other]
    return None


def _folded(text: str) -> str:
    """A text without differences that a slip makes: case, blanks, accents."""
    composed = unicodedata.normalize("NFC", " ".join(text.casefold().split())).translate(_UMLAUTS)
    return "".join(letter for letter in unicodedata.normalize("NFKD", composed) if not unicodedata.combining(letter))
