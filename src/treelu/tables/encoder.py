"""How the columns of a table become features: learned from training rows, then the same for every table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treelu.tables.columns import (
    KINDS,
    NUMERIC_SHARE,
    Column,
    Note,
    NumberColumn,
    SmilesColumn,
    TextColumn,
    looks_decimal,
    to_numbers,
    to_texts,
)
from treelu.tables.files import TableError

if TYPE_CHECKING:
    import pandas as pd

MAX_CATEGORIES = 30
_IDENTIFIER_SHARE = 0.5  # a text with more different values than this share of the rows names the rows


@dataclass(frozen=True)
class Encoded:
    """Features of a table's rows.

    Attributes
    ----------
    X : DataFrame or CSR matrix of shape (n, n_features)
    rows : int array of shape (n,)
        Their rows in the table; those with a SMILES that RDKit cannot read are left out.
    """

    X: Any
    rows: NDArray[np.int64]


@dataclass(frozen=True)
class TableEncoder:
    """Turns tables with the columns of a training table into features; plain data, without code.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"size": [1.0, None, 3.0], "colour": ["red", "blue", "red"]})
    >>> encoder = TableEncoder.learn(frame, note=lambda text: None)
    >>> encoder.feature_names
    ('size', 'size=(missing)', 'colour=blue', 'colour=red')
    >>> encoder.encode(frame).X.to_numpy()
    array([[1., 0., 0., 1.], [2., 1., 1., 0.], [3., 0., 0., 1.]])
    >>> TableEncoder.from_dict(encoder.to_dict()) == encoder
    True
    """

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        names = [name for column in self.columns for name in column.features]
        object.__setattr__(self, "_names", _distinct(names))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, in the order of X."""
        return self._names  # type: ignore[attr-defined]

    @property
    def text_columns(self) -> list[str]:
        """Columns to be read as text, whatever they look like."""
        return [column.name for column in self.columns if not isinstance(column, NumberColumn)]

    @property
    def smiles_column(self) -> SmilesColumn | None:
        """The column of molecules, if there is one."""
        return next((column for column in self.columns if isinstance(column, SmilesColumn)), None)

    @classmethod
    def learn(
        cls,
        frame: pd.DataFrame,
        *,
        note: Note,
        text: Sequence[str] = (),
        smiles: str | None = None,
        radius: int = 2,
        n_bits: int = 2048,
        max_categories: int = MAX_CATEGORIES,
    ) -> TableEncoder:
        """Decide how each column becomes features, from training rows.

        Parameters
        ----------
        frame : DataFrame
            The columns to use, training rows only.
        note : callable
            Told, in a sentence, what is done with a column.
        text : sequence of str
            Columns to take for text even if they hold numbers.
        smiles : str, optional
            The column of molecules.
        radius, n_bits : int
            Of their fingerprints.
        max_categories : int
            Features that one text column may have, before missing values.
        """
        columns: list[Column] = []
        for name in frame.columns:
            if name == smiles:
                columns.append(SmilesColumn.learn(frame[name], radius, n_bits, note))
                continue
            is_text = name in text or _is_text(frame[name])
            reason = _useless(frame[name], is_text, forced=name in text, max_categories=max_categories)
            if reason:
                note(f"column {name!r} left out: {reason}")
            elif is_text:
                columns.append(TextColumn.learn(frame[name], max_categories, note))
            else:
                columns.append(NumberColumn.learn(frame[name], note))
                if _counts_rows(frame[name]):
                    note(f"column {name!r} rises from row to row; --drop {name} if it only numbers the rows")
        if not columns:
            raise TableError("no column is left to learn from; see what was left out, and why, above")
        return cls(tuple(columns))

    def encode(
        self, frame: pd.DataFrame, *, note: Note | None = None, lenient: bool = False, first_row: int = 0
    ) -> Encoded:
        """Features of a table's rows.

        Parameters
        ----------
        frame : DataFrame
            Must have all columns that were learned; others are ignored.
        note : callable, optional
            Told of values that training had not.
        lenient : bool
            Whether a text among numbers counts as missing; otherwise it is an error that names the row.
        first_row : int
            Number of the first row in its file, for messages.

        Returns
        -------
        Encoded
            X is a DataFrame; a CSR matrix where all features come from molecules.
        """
        import pandas as pd

        note = note or _silent
        check_columns([column.name for column in self.columns], frame)
        rows = np.arange(len(frame))
        bits = None
        molecules = self.smiles_column
        if molecules is not None:
            bits, rows = molecules.encode(frame[molecules.name])
            if len(self.columns) == 1:
                return Encoded(bits, rows)
        parts = [
            bits.toarray() if bits is not None and column is molecules
            else column.encode(frame[column.name], note, lenient=lenient, first_row=first_row)[rows]  # type: ignore[call-arg]
            for column in self.columns
        ]  # fmt: skip
        return Encoded(pd.DataFrame(np.concatenate(parts, axis=1), columns=list(self.feature_names)), rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"columns": [{"name": column.name, "kind": column.kind, **column.to_dict()} for column in self.columns]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TableEncoder:
        """The inverse of `to_dict`; a ValueError, KeyError or TypeError where the data are not its own."""
        columns = []
        for column in data["columns"]:
            if not isinstance(column["name"], str) or column["kind"] not in KINDS:
                raise ValueError(f"unknown kind of column {column['kind']!r}")
            columns.append(KINDS[column["kind"]].from_dict(column["name"], column))
        if not columns or sum(isinstance(column, SmilesColumn) for column in columns) > 1:
            raise ValueError("an encoder needs at least one column, and at most one of molecules")
        return cls(tuple(columns))


def check_columns(wanted: Sequence[str], frame: pd.DataFrame, *, option: str | None = None) -> None:
    """Raise if a column is missing, with the name of one that is much like it.

    Examples
    --------
    >>> import pandas as pd
    >>> check_columns(["Age"], pd.DataFrame({"age": [1]}))
    Traceback (most recent call last):
    ...
    treelu.tables.files.TableError: the table has no column 'Age'; did you mean 'age'?
    """
    names = [str(name) for name in frame.columns]
    missing = [name for name in wanted if name not in names]
    if not missing:
        return
    whose = f"{option}: " if option else ""
    if len(missing) > 1:
        shown = ", ".join(map(repr, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise TableError(f"{whose}the table lacks {len(missing)} columns: {shown}")
    raise TableError(f"{whose}the table has no column {missing[0]!r}{_did_you_mean(missing[0], names)}")


def _did_you_mean(name: str, names: list[str]) -> str:
    from difflib import get_close_matches

    folded = {other.casefold().strip(): other for other in reversed(names)}
    near = get_close_matches(name.casefold().strip(), list(folded), n=1, cutoff=0.6)
    if near:
        return f"; did you mean {folded[near[0]]!r}?"
    return f"; it has {', '.join(map(repr, names[:8]))}{', …' if len(names) > 8 else ''}"


def _is_text(column: pd.Series) -> bool:
    if column.dtype.kind in "biuf":
        return False
    values, _ = to_numbers(column)
    return bool((~np.isnan(values)).sum() < NUMERIC_SHARE * to_texts(column).notna().sum())


def _useless(column: pd.Series, is_text: bool, *, forced: bool, max_categories: int) -> str | None:
    """Why a column cannot help, or None."""
    if str(column.name).startswith("Unnamed: "):
        return "it has no name (row numbers?)"
    if column.dtype.kind in "mMc":
        return "dates, times and complex numbers are not used"
    if not is_text:
        values, _ = to_numbers(column)
        known = values[~np.isnan(values)]
        if not len(known):
            return "it has no values"
        return "it has one value only" if len(known) == len(values) and (known == known[0]).all() else None
    texts = to_texts(column)
    counts = texts.value_counts()
    if not len(counts):
        return "it has no values"
    if len(counts) == 1 and texts.notna().all():
        return "it has one value only"
    if looks_decimal(counts.index):
        raise TableError(f"column {column.name!r} holds numbers with decimal commas; add --decimal ,")
    if not forced and len(counts) > max(max_categories, _IDENTIFIER_SHARE * len(column)):
        few = f"text with {len(counts):,} different values in {len(column):,} rows (names?)"
        return f"{few}; --text {column.name} keeps it"
    return None


def _counts_rows(column: pd.Series) -> bool:
    if column.dtype.kind not in "iu" or len(column) < 20:
        return False
    return bool((np.diff(column.to_numpy()) > 0).all())


def _distinct(names: list[str]) -> tuple[str, ...]:
    """Names made distinct by a number where two columns give the same."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(result)


def _silent(text: str) -> None:
    return None
