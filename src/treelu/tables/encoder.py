"""How the columns of a table become features: learned from training rows, then the same for every table."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from treelu.tables.columns import KINDS, Column, DateColumn, Note, NumberColumn, SmilesColumn, TextColumn
from treelu.tables.dates import DateOrder, parse_dates, recognise_compact_date, recognise_date
from treelu.tables.frames import Frame, frame_of_array, native_frame, read_frame
from treelu.tables.layout import check_columns_named
from treelu.tables.missing import mark_missing, missing_of, occurring
from treelu.tables.numbers import (
    NumberFormat,
    decimal_marks,
    leading_zeros,
    number_format,
    to_numbers,
    to_texts,
    unit_format,
)
from treelu.tables.paths import TableError
from treelu.tables.suspects import column_suspects
from treelu.tables.unseen import UnseenValues
from treelu.tree.rows import take_rows

if TYPE_CHECKING:
    import pandas as pd

MAX_CATEGORIES = 30
_REMEDIES = {
    "--dates": "turn the column into dates first, for example with pandas.to_datetime(column, dayfirst=True)",
    "--decimal": "turn the column into numbers first",
    "--text": "write all values in one unit, or name the column in categorical_features",
}
_IDENTIFIER_SHARE = 0.5  # a text with more different values than this share of the rows names the rows


@dataclass(frozen=True)
class Encoded:
    """Features of a table's rows, with the encoder that made them: estimators take it in place of a frame.

    Attributes
    ----------
    X : DataFrame or CSR matrix of shape (n, n_features)
    rows : int array of shape (n,)
        Their rows in the table; those with a SMILES that RDKit cannot read are left out.
    encoder : TableEncoder

    Examples
    --------
    >>> import pandas as pd
    >>> from treelu import LCNClassifier
    >>> frame = pd.DataFrame({"zip": [10115, 50667] * 4, "size": range(8)})
    >>> encoded = TableEncoder.learn(frame, note=lambda text: None, text=["zip"]).encode(frame)
    >>> encoded.X.shape, encoded.rows.tolist()
    ((8, 3), [0, 1, 2, 3, 4, 5, 6, 7])
    >>> model = LCNClassifier(depth=2, epochs=2, random_state=0).fit(encoded, frame["size"] > 3)
    >>> model.predict(frame).shape  # frames are read by the same encoder from then on
    (8,)
    """

    X: Any
    rows: NDArray[np.int64]
    encoder: TableEncoder

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def numbers(self) -> Any:
        """X as an array of floats, or CSR."""
        return self.X if hasattr(self.X, "tocsr") else self.X.to_numpy(np.float64)

    def take(self, rows: NDArray[np.int64]) -> Encoded:
        """Some of the rows, by their numbers here."""
        return Encoded(take_rows(self.X, rows), self.rows[rows], self.encoder)


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
    left_out: tuple[tuple[str, str], ...] = ()  # columns that are no features, each with the reason
    fills_unseen: bool = False  # in `features`: whether missing values that no training row had are no error

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, in the order of X; one that two columns give has a number behind it."""
        seen: Counter[str] = Counter()
        names = []
        for name in (name for column in self.columns for name in column.features):
            seen[name] += 1
            names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
        return tuple(names)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """The column of a name."""
        return next(column for column in self.columns if column.name == name)

    @property
    def places(self) -> dict[str, range]:
        """The features of each column, as places in X."""
        ends = np.cumsum([0, *(len(column.features) for column in self.columns)]).tolist()
        spans = zip(self.columns, ends[:-1], ends[1:], strict=True)
        return {column.name: range(start, stop) for column, start, stop in spans}

    @property
    def text_columns(self) -> list[str]:
        """Columns to be read as text, whatever they look like."""
        plain = [column for column in self.columns if isinstance(column, NumberColumn) and column.style.is_plain]
        return [column.name for column in self.columns if column not in plain]

    @property
    def smiles_column(self) -> SmilesColumn | None:
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
        missing: Sequence[str] = (),
    ) -> TableEncoder:
        """Decide how each column becomes features, from training rows.

        Estimators keep the encoder of the rows that they are fitted to: ``model.fit(encoder.encode(frame), y)``. Notes
        and errors name the options of `treelu fit`, which are the keywords here: ``--text zip`` is ``text=["zip"]``.

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
        missing : sequence of str
            What stands for a missing value in columns of numbers, in the rows here and in later ones: "-999" in the
            columns that have it here, "age=-999" in one column.
        """
        columns, left_out = _learn_columns(
            frame,
            note=note,
            warn=warn or note,
            text=text,
            numbers=numbers,
            smiles=smiles,
            molecules=(blocks, radius, n_bits),
            max_categories=max_categories,
            decimal=decimal,
            dates=dates,
            missing=missing,
        )
        if left_out:
            count = "1 column" if len(left_out) == 1 else f"{len(left_out)} columns"
            width = min(24, max(map(len, left_out)))
            note("\n".join([f"left out, {count}:", *(f"  {name:<{width}}  {why}" for name, why in left_out.items())]))
        if not columns:
            raise TableError(
                "no column is left to learn from; see above what was left out, and why"
                if left_out
                else "the table has no column besides the target; there is nothing to learn from"
            )
        return cls(tuple(columns), tuple(left_out.items()))

    @classmethod
    def of_frame(
        cls, frame: Frame, *, given: Collection[str] = (), note: Note, fills_unseen: bool = False
    ) -> TableEncoder:
        """The same for a frame whose types tell what columns hold, as `fit` of an estimator is given one.

        Columns of one value are left out; a column that cannot be used is an error.

        Parameters
        ----------
        frame : Frame
        given : collection of str
            Columns that hold categories by the word of the user, of any number.
        note : callable
            Called with a sentence about each column.
        fills_unseen : bool
            Whether missing values are filled in later rows where none are missing in these; else they are an error.

        Examples
        --------
        >>> import pandas as pd
        >>> from treelu.tables.frames import native_frame, read_frame
        >>> frame = pd.DataFrame({"colour": ["red", "blue", "red"], "sold": pd.to_datetime(["2024-05-01"] * 3)})
        >>> TableEncoder.of_frame(read_frame(native_frame(frame)), note=lambda text: None).feature_names
        ('colour=blue', 'colour=red')
        """
        data = frame.data
        if not len(data):
            raise TableError("X has no rows; there is nothing to learn from")
        for name in sorted(frame.categories - set(given)):
            _check_kinds(data[name])
        notes: list[str] = []
        with _python_errors():
            text, numbers = [*frame.categories], [*frame.numbers]
            columns, left_out = _learn_columns(data, note=notes.append, warn=notes.append, text=text, numbers=numbers)
        for name, why in left_out.items():
            _check_kinds(data[name])
            notes.append(f"column {name!r} is left out: {why}")
        notes += filter(None, (_one_category(data[name]) for name in sorted(frame.categories)))
        for sentence in notes:
            note(_in_python(sentence, data.columns))
        if not columns:
            raise TableError("X has no column with two different values; there is nothing to learn from")
        return cls(tuple(columns), tuple(left_out.items()), fills_unseen)

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
        return replace(self, columns=tuple(columns))

    def encode(
        self,
        frame: pd.DataFrame,
        *,
        note: Note | None = None,
        lenient: bool = False,
        first_row: int = 0,
        unused: Collection[str] = (),
        unseen: UnseenValues | None = None,
    ) -> Encoded:
        """Features of a table's rows.

        Parameters
        ----------
        frame : DataFrame
            Must have all columns that were learned, but for those in `unused`; others are ignored.
        note : callable, optional
            Called with a sentence about values that were read in another way than training rows were; and about those
            that no training row had, unless `unseen` gathers them.
        lenient : bool
            Whether a text among numbers counts as missing; otherwise it is an error that names the row.
        first_row : int
            Number of the first row in its file, for messages.
        unused : collection of str
            Columns that the model does not look at: they are not read and their features are 0.
        unseen : UnseenValues, optional
            Gathers the values that no training row had.

        Returns
        -------
        Encoded
            Its X is a DataFrame; a CSR matrix where all features come from molecules.
        """
        import pandas as pd

        note, gathered = note or (lambda text: None), UnseenValues() if unseen is None else unseen
        gathered.n_rows += len(frame)
        used = {column.name for column in self.columns if column.name not in unused}
        check_columns([column.name for column in self.columns if column.name in used], frame)
        # models of version 0.1 kept the blanks around names
        cells = {name: frame[name if name in frame.columns else name.strip()] for name in used}
        rows, bits, molecules = np.arange(len(frame)), np.empty((0, 0)), self.smiles_column
        if molecules is not None and molecules.name in used:
            sparse, rows = molecules.encode(cells[molecules.name])
            if len(self.columns) == 1:
                return Encoded(sparse, rows, self)
            bits = sparse.toarray()
        parts = []
        for column in self.columns:
            if column.name not in used:
                parts.append(np.zeros((len(rows), len(column.features))))
            elif isinstance(column, SmilesColumn):
                parts.append(bits)
            else:
                cell = cells[column.name]
                parts.append(column.encode(cell, note, gathered, lenient=lenient, first_row=first_row)[rows])
        for sentence in (*gathered.warnings(), *gathered.notes()) if unseen is None else ():
            note(sentence)
        X = pd.DataFrame(np.concatenate(parts, axis=1), columns=list(self.feature_names))
        return Encoded(X, rows, self)

    def are_in(self, X: Any) -> bool:
        """Whether X is a frame with these columns rather than rows of features, with or without their names.

        An array is one of these columns if it is as wide as that which was learned from.
        """
        if isinstance(X, np.ndarray | list | tuple):
            width = len(self.array_names)
            return width != len(self.feature_names) and np.ndim(X) == 2 and np.shape(X)[1] == width
        if hasattr(X, "tocsr"):
            return False
        names = getattr(X, "column_names", None)  # of a pyarrow Table, whose columns are beside their names
        if names is None:
            names = getattr(X, "columns", None) if hasattr(X, "to_numpy") else None
        if names is None:
            return native_frame(X) is not None
        return not set(map(str, names)) & (set(self.feature_names) - set(self.names))

    @cached_property
    def array_names(self) -> tuple[str, ...]:
        """The names x0, x1, … of all columns of the array that was learned from; none of a frame's, whose are its own.

        Examples
        --------
        >>> size = NumberColumn("x1", 2.0, False)
        >>> TableEncoder((size,), left_out=(("x0", "it has one value only"),)).array_names
        ('x0', 'x1')
        """
        names = tuple(f"x{place}" for place in range(len(self.columns) + len(self.left_out)))
        return names if {*self.names, *(name for name, _ in self.left_out)} == set(names) else ()

    def features(self, X: Any, *, unused: Collection[str] = (), note: Note | None = None) -> Any:
        """Features of the rows of a frame of any library: an array, or CSR where all come from molecules.

        Parameters
        ----------
        X : frame
            Its columns are found by their names; those that were not learned are ignored.
        unused : collection of str
            Columns that need not be there: their features are 0.
        note : callable, optional
            Called with a sentence about values that no training row had.
        """
        if self.array_names and isinstance(X, np.ndarray | list | tuple):
            X = frame_of_array(X, self.array_names)
        frame = native_frame(X)
        if frame is None:
            raise TableError(f"X must be a data frame with the columns that were learned, got {type(X).__name__}")
        used = [column for column in self.columns if column.name not in unused]
        check_columns_named([column.name for column in used], list(frame.columns))
        texts = {column.name for column in used if isinstance(column, TextColumn)}
        data = read_frame(frame, texts=texts, only={column.name for column in used}).data
        if not self.fills_unseen:
            self.check_missing(data, unused)
        encoded = self.encode(data, note=note or _warn, unused=unused)
        if len(encoded.rows) < len(data):
            row = int(np.setdiff1d(np.arange(len(data)), encoded.rows)[0])
            raise TableError(f"the SMILES of row {row + 1} cannot be read; leave such rows out")
        return encoded.numbers

    def check_missing(self, data: pd.DataFrame, unused: Collection[str] = (), first_row: int = 0) -> None:
        """Raise where a column has missing values and had none in the training rows; `first_row` is that of `data`."""
        for column in self.columns:
            if had_missing(column) or column.name in unused or isinstance(column, SmilesColumn):
                continue
            cells = data[column.name]
            absent = (to_texts(cells) if isinstance(column, TextColumn) else cells).isna().to_numpy()
            if absent.any():
                raise TableError(
                    f"X has a missing value in column {column.name!r}, row {first_row + int(np.argmax(absent))}, where "
                    "no training row had one, so that nothing is known of such rows; impute it first, "
                    "or fit with missing='indicator', which fills it with what is usual"
                )

    def per_column(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Shares of the features, summed over those of each column.

        Examples
        --------
        >>> column = NumberColumn("size", 2.0, True)
        >>> TableEncoder((column, NumberColumn("age", 1.0, False))).per_column(np.array([0.5, 0.2, 0.3]))
        array([0.7, 0.3])
        """
        return np.array([shares[list(places)].sum() for places in self.places.values()])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        columns = [{"name": column.name, "kind": column.kind, **column.to_dict()} for column in self.columns]
        left_out: dict[str, Any] = {"left_out": dict(self.left_out)} if self.left_out else {}
        return {"columns": columns} | left_out | ({"fills_unseen": True} if self.fills_unseen else {})

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
        left_out = data.get("left_out", {})
        if not isinstance(left_out, dict) or not all(isinstance(text, str) for text in (*left_out, *left_out.values())):
            raise ValueError("left_out must give a text for each column")
        return cls(tuple(columns), tuple(left_out.items()), data.get("fills_unseen") is True)


def had_missing(column: Column) -> bool:
    """Whether training rows had missing values in a column."""
    return column.missing if isinstance(column, TextColumn) else column.indicator


def _learn_columns(
    frame: pd.DataFrame,
    *,
    note: Note,
    warn: Note | None,
    text: Sequence[str] = (),
    numbers: Sequence[str] = (),
    smiles: str | None = None,
    molecules: tuple[Sequence[str], int, int] = ((), 2, 2048),
    max_categories: int = MAX_CATEGORIES,
    decimal: str | None = None,
    dates: DateOrder | None = None,
    missing: Sequence[str] = (),
) -> tuple[list[Column], dict[str, str]]:
    """The recipe of each column, and why the others are left out; parameters as of `TableEncoder.learn`."""
    columns: list[Column] = []
    left_out: dict[str, str] = {}
    marks = decimal_marks(frame) if decimal is None else set()
    missing = occurring(frame, missing)
    for name in frame.columns:
        if name == smiles:
            columns.append(SmilesColumn.learn(frame[name], *molecules, note))
            continue
        absent = missing_of(str(name), missing)
        cells = mark_missing(frame[name], absent)
        learned = _learn_column(
            cells,
            note,
            "text" if name in text else "number" if name in numbers else None,
            max_categories=max_categories,
            decimal=decimal,
            marks=marks,
            dates=dates,
        )
        if isinstance(learned, str):
            left_out[str(name)] = learned
            continue
        if isinstance(learned, NumberColumn) and absent:
            learned = replace(learned, strays=tuple(dict.fromkeys((*learned.strays, *absent))))
        columns.append(learned)
        if warn is not None:
            for warning in column_suspects(cells, learned):
                warn(f"column {name!r}{warning}")
    return columns, left_out


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=4)


def _check_kinds(column: pd.Series) -> None:
    """Raise where a column of texts has nearly as many different ones as rows."""
    if column.dtype.kind not in "OUT" and str(column.dtype) not in ("str", "string"):
        return
    n_kinds = to_texts(column).nunique()
    if n_kinds > max(MAX_CATEGORIES, _IDENTIFIER_SHARE * len(column)):
        raise TableError(
            f"X has column {column.name!r} with {n_kinds:,} different texts in {len(column):,} rows, which are names "
            "or free text and no categories; drop it, or encode it in a pipeline, for example with skrub's "
            "TextEncoder or StringEncoder"
        )


def _one_category(column: pd.Series) -> str:
    """The note about categories that differ only in the blanks around them; "" where there are none."""
    trimmed: dict[str, str] = {}
    for text in column.dropna().unique():
        other = trimmed.setdefault(text.strip(), text)
        if other != text:
            return f"column {column.name!r}: {other!r} and {text!r} are one category, without the blanks around them"
    return ""


def _in_python(note: str, names: Iterable[Any]) -> str:
    """A note that names options of the command line, with what does the same in Python."""
    for name in names:
        option = quote(str(name))
        note = note.replace(f"--text {option}", f"categorical_features=[{name!r}]")
        note = note.replace(f"--numbers {option} if", "turn it into numbers first if")
        note = note.replace(f"--numbers {option} reads them as numbers", "numbers stay numbers")
        note = note.replace(f"--drop {option}", "drop it")
    note = re.sub(r"--missing \S+( --missing \S+)*", "replace by NaN", note)
    return note.replace(" (--max-categories)", "")


@contextmanager
def _python_errors() -> Iterator[None]:
    """Errors that name options of the command line, with what does the same in Python."""
    try:
        yield
    except TableError as error:
        message = str(error)
        for option, remedy in _REMEDIES.items():
            if option in message:
                raise TableError(f"{message.split('; ')[0].split(', or add --')[0]}; {remedy}") from None
        raise


def check_columns(wanted: Sequence[str], frame: pd.DataFrame, *, option: str | None = None) -> None:
    """Raise if a column is missing, with the name of one that is much like it.

    Examples
    --------
    >>> import pandas as pd
    >>> check_columns(["Age"], pd.DataFrame({"age": [1]}))
    Traceback (most recent call last):
    ...
    treelu.tables.paths.TableError: the table has no column 'Age'; did you mean 'age'?
    """
    check_columns_named(wanted, [str(name) for name in frame.columns], option=option)


def _learn_column(
    column: pd.Series,
    note: Note,
    wanted: Literal["text", "number"] | None,
    *,
    max_categories: int,
    decimal: str | None,
    marks: set[str],
    dates: DateOrder | None,
) -> NumberColumn | TextColumn | DateColumn | str:
    """The recipe of a column, or why it is left out; `wanted` is what the user says it holds."""
    if reason := _unusable(column):
        return reason
    if column.dtype.kind == "M":
        return _useless(parse_dates(column, None), "date") or DateColumn.learn(column, None, note)
    name = quote(str(column.name))
    style = None if wanted == "text" else number_format(column, decimal, marks)
    zeros = leading_zeros(column) if style is not None and wanted is None else ()
    if len(zeros) == 2:  # the same number twice: different codes
        both = f"{zeros[0]!r} and {zeros[1]!r} are codes, not numbers"
        note(f"column {column.name!r}: {both} (--numbers {name} if they are)")
        style, wanted = None, "text"
    elif zeros:
        read = f"{zeros[0]!r} is read as the number {int(zeros[0])}"
        note(f"column {column.name!r}: {read} (--text {name} if they are codes)")
    if wanted is None:
        format = recognise_compact_date(column) if style else recognise_date(column, dates)
        if format is not None:
            return _useless(parse_dates(column, format), "date") or DateColumn.learn(column, format, note, dates)
    style = style or (None if wanted == "text" else unit_format(column, decimal, marks))
    if style is not None:
        return _useless(to_numbers(column, style)[0]) or NumberColumn.learn(column, note, style)
    texts = to_texts(column)
    if reason := _useless(texts):
        return reason
    if wanted is None and texts.nunique() > max(max_categories, _IDENTIFIER_SHARE * len(column)):
        few = f"text with {texts.nunique():,} different values in {len(column):,} rows (names?)"
        return f"{few}; --text {name} keeps it"
    return TextColumn.learn(column, max_categories, note)


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
        nested = [kind.__name__ for kind in kinds if issubclass(kind, list | tuple | dict | set | np.ndarray | bytes)]
        if nested:
            return f"it holds values of type {min(nested)}, not numbers or texts"
    return None


def _useless(values: Any, what: str = "value") -> str | None:
    """Why a column of these values cannot help, or None; missing values are of use but beside a single date."""
    import pandas as pd

    column = pd.Series(values)
    if not column.notna().any():
        return "it has no values"
    return f"it has one {what} only" if column.nunique(dropna=what == "date") == 1 else None
