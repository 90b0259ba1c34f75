"""How the columns of a table become features: learned from training rows, then the same for every table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treelu.tables.column_warnings import warn_of_outliers, warn_of_rounding, warn_of_spellings
from treelu.tables.columns import KINDS, Column, DateColumn, Note, NumberColumn, SmilesColumn, TextColumn
from treelu.tables.dates import DateOrder, parse_dates, recognise_compact_date, recognise_date
from treelu.tables.errors import TableError
from treelu.tables.layout import check_columns_named
from treelu.tables.numbers import NumberFormat, decimal_marks, leading_zeros, number_format, to_numbers, to_texts
from treelu.tables.units import unit_format

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
        plain = [column for column in self.columns if isinstance(column, NumberColumn) and column.style.is_plain]
        return [column.name for column in self.columns if column not in plain]

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
        warn: Note | None = None,
        text: Sequence[str] = (),
        numbers: Sequence[str] = (),
        smiles: str | None = None,
        blocks: Sequence[str] = ("substructures",),
        radius: int = 2,
        n_bits: int = 2048,
        max_categories: int = MAX_CATEGORIES,
        decimal: str | None = None,
        dates: DateOrder | None = None,
    ) -> TableEncoder:
        """Decide how each column becomes features, from training rows.

        Parameters
        ----------
        frame : DataFrame
            The columns to use, training rows only.
        note : callable
            Called with a sentence about each column, and at the end with a list of those that are left out.
        warn : callable, optional
            Called with what may be wrong with a column; by default `note`.
        text : sequence of str
            Columns to take for text even if they hold numbers.
        numbers : sequence of str
            Columns to take for numbers even if they look like dates, such as 20210304.
        smiles : str, optional
            The column of molecules.
        blocks, radius, n_bits
            Of their `treelu.chem.MolecularFeatures`.
        max_categories : int
            Features that one text column may have, before missing values.
        decimal : {".", ","}, optional
            The decimal mark; by default recognised in each column.
        dates : {"day-first", "month-first"}, optional
            How to read 03/04/2021; by default recognised where a value tells.
        """
        columns: list[Column] = []
        left_out: dict[str, str] = {}
        marks = decimal_marks(frame) if decimal is None else set()
        for name in frame.columns:
            if name == smiles:
                columns.append(SmilesColumn.learn(frame[name], blocks, radius, n_bits, note))
                continue
            reason = _unusable(frame[name])
            learned = reason or _learn_column(
                frame[name],
                note,
                as_text=name in text,
                as_number=name in numbers,
                max_categories=max_categories,
                decimal=decimal,
                marks=marks,
                dates=dates,
            )
            if isinstance(learned, str):
                left_out[str(name)] = learned
                continue
            columns.append(learned)
            if _counts_rows(frame[name], learned):
                (warn or note)(
                    f"column {name!r} only rises from row to row; --drop {quote(str(name))} if it numbers the rows"
                )
            elif isinstance(learned, NumberColumn):
                warn_of_outliers(frame[name], learned.style, warn or note)
                warn_of_rounding(frame[name], warn or note)
            elif isinstance(learned, TextColumn):
                warn_of_spellings(frame[name], learned, warn or note)
        if left_out:
            note(_block(left_out))
        if not columns:
            raise TableError(
                "no column is left to learn from; see above what was left out, and why"
                if left_out
                else "the table has no column besides the target; there is nothing to learn from"
            )
        return cls(tuple(columns))

    def with_decimal(self, mark: str | None) -> TableEncoder:
        """The same for tables with another decimal mark; None changes nothing."""
        if mark is None:
            return self
        columns = []
        for column in self.columns:
            if isinstance(column, NumberColumn) and column.style.decimal != mark:
                style = column.style
                between = style.thousands if style.thousands in ("", " ", "'") else style.decimal
                column = replace(column, style=NumberFormat(mark, between, style.marks))
            columns.append(column)
        return TableEncoder(tuple(columns))

    def encode(
        self,
        frame: pd.DataFrame,
        *,
        note: Note | None = None,
        lenient: bool = False,
        first_row: int = 0,
        unused: Collection[str] = (),
    ) -> Encoded:
        """Features of a table's rows.

        Parameters
        ----------
        frame : DataFrame
            Must have all columns that were learned, but for those in `unused`; others are ignored.
        note : callable, optional
            Called with a sentence about values that no training row had.
        lenient : bool
            Whether a text among numbers counts as missing; otherwise it is an error that names the row.
        first_row : int
            Number of the first row in its file, for messages.
        unused : collection of str
            Columns that the model does not look at: they are not read and their features are 0.

        Returns
        -------
        Encoded
            X is a DataFrame; a CSR matrix where all features come from molecules.
        """
        import pandas as pd

        note = note or _silent
        check_columns([column.name for column in self.columns if column.name not in unused], frame)
        rows = np.arange(len(frame))
        bits = None
        molecules = self.smiles_column
        if molecules is not None and molecules.name not in unused:
            bits, rows = molecules.encode(frame[_known_name(molecules.name, frame)])
            if len(self.columns) == 1:
                return Encoded(bits, rows)
        parts = [
            np.zeros((len(rows), len(column.features))) if column.name in unused
            else bits.toarray() if bits is not None and column is molecules
            else column.encode(frame[_known_name(column.name, frame)], note, lenient=lenient, first_row=first_row)[rows]  # type: ignore[call-arg]
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
    treelu.tables.errors.TableError: the table has no column 'Age'; did you mean 'age'?
    """
    check_columns_named(wanted, [str(name) for name in frame.columns], option=option)


def _learn_column(
    column: pd.Series,
    note: Note,
    *,
    as_text: bool,
    as_number: bool,
    max_categories: int,
    decimal: str | None,
    marks: set[str],
    dates: DateOrder | None,
) -> Column | str:
    """The recipe of a column, or why it is left out."""
    if column.dtype.kind == "M":
        return _useless_date(column, None) or DateColumn.learn(column, None, note)
    style = None if as_text else number_format(column, decimal, marks)
    zeros = leading_zeros(column) if style is not None and not as_number else ()
    if zeros:
        note(_codes_note(column, zeros))
        style, as_text = (None, True) if len(zeros) == 2 else (style, as_text)
    format = (
        None if as_text or as_number else recognise_compact_date(column) if style else recognise_date(column, dates)
    )
    if format is not None:
        return _useless_date(column, format) or DateColumn.learn(column, format, note)
    style = style or (None if as_text else unit_format(column, decimal, marks))
    if style is not None:
        return _useless_number(column, style) or NumberColumn.learn(column, note, style)
    reason = _useless_text(column, forced=as_text, max_categories=max_categories)
    return reason or TextColumn.learn(column, max_categories, note)


def _codes_note(column: pd.Series, zeros: tuple[str, ...]) -> str:
    """The note about integers with leading zeros; two that are the same number are different codes."""
    name = quote(str(column.name))
    if len(zeros) == 2:
        words = f"{zeros[0]!r} and {zeros[1]!r} are codes, not numbers (--numbers {name} if they are)"
    else:
        words = f"{zeros[0]!r} is read as the number {int(zeros[0])} (--text {name} if they are codes)"
    return f"column {column.name!r}: {words}"


def _unusable(column: pd.Series) -> str | None:
    """Why a column of this name or type is left out."""
    if str(column.name).startswith("Unnamed: "):
        return "it has no name (row numbers?)"
    if column.dtype.kind == "m":
        return "it holds durations; give them as numbers"
    if column.dtype.kind == "c":
        return "it holds complex numbers; give real and imaginary part as two columns"
    if column.dtype.kind == "O":
        kinds = {type(value) for value in column.dropna().iloc[:1000]}
        nested = sorted(
            kind.__name__ for kind in kinds if issubclass(kind, list | tuple | dict | set | np.ndarray | bytes)
        )
        if nested:
            return f"it holds values of type {nested[0]}, not numbers or texts"
    return None


def _useless_number(column: pd.Series, style: NumberFormat) -> str | None:
    """Why a column of numbers cannot help, or None."""
    values, _ = to_numbers(column, style)
    known = values[~np.isnan(values)]
    if not len(known):
        return "it has no values"
    return "it has one value only" if len(known) == len(values) and (known == known[0]).all() else None


def _useless_date(column: pd.Series, format: str | None) -> str | None:
    moments = parse_dates(column, format)
    known = moments[~np.isnat(moments)]
    if not len(known):
        return "it has no values"
    return "it has one date only" if (known == known[0]).all() else None


def _useless_text(column: pd.Series, *, forced: bool, max_categories: int) -> str | None:
    texts = to_texts(column)
    counts = texts.value_counts()
    if not len(counts):
        return "it has no values"
    if len(counts) == 1 and texts.notna().all():
        return "it has one value only"
    if not forced and len(counts) > max(max_categories, _IDENTIFIER_SHARE * len(column)):
        few = f"text with {len(counts):,} different values in {len(column):,} rows (names?)"
        return f"{few}; --text {quote(str(column.name))} keeps it"
    return None


def _block(left_out: dict[str, str]) -> str:
    """The columns that are left out, as one note of several lines."""
    width = min(24, max(map(len, left_out)))
    count = "1 column" if len(left_out) == 1 else f"{len(left_out)} columns"
    return "\n".join([f"left out, {count}:", *(f"  {name:<{width}}  {reason}" for name, reason in left_out.items())])


def _counts_rows(column: pd.Series, learned: Column) -> bool:
    """Whether numbers or dates rise from each row to the next."""
    if len(column) < 20 or isinstance(learned, TextColumn | SmilesColumn):
        return False
    if isinstance(learned, DateColumn):
        return bool((np.diff(parse_dates(column, learned.format)) > np.timedelta64(0)).all())
    return bool((np.diff(to_numbers(column, learned.style)[0]) > 0).all())


def _distinct(names: list[str]) -> tuple[str, ...]:
    """Names made distinct by a number where two columns give the same."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(result)


def _known_name(name: str, frame: pd.DataFrame) -> str:
    """A name as the table has it: models of version 0.1 kept the blanks around names."""
    return name if name in frame.columns else name.strip()


def _silent(text: str) -> None:
    return None
