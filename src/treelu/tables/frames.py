"""Data frames of any library as one kind of table: a pandas DataFrame of numbers, texts and moments.

The kind of a column follows from its type, whichever library holds it:

- integers, floats, decimals and booleans are numbers, durations are numbers of days;
- dates and moments are moments, in UTC where they have a time zone;
- categories and enumerations are categories, but for those of truth values, which are numbers;
- texts are read as the command line reads them: as categories, numbers with a unit, or dates.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta
from numbers import Number, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treelu.tables.paths import TableError
from treelu.tree.names import shown_name

if TYPE_CHECKING:
    import pandas as pd

_MICROSECONDS = 86_400_000_000  # of a day


@dataclass(frozen=True, eq=False)
class Frame:
    """A table with the kind of each column.

    Attributes
    ----------
    data : DataFrame
        Floats, texts (objects) and moments.
    numbers : set of str
        The columns whose type says that they hold numbers.
    categories : set of str
        Those whose type says that they hold categories.
    is_named : bool
        Whether the columns came with names.
    """

    data: pd.DataFrame
    numbers: frozenset[str] = field(default=frozenset())
    categories: frozenset[str] = field(default=frozenset())
    is_named: bool = True


def native_frame(X: Any) -> Any:
    """X as an eager frame of narwhals; None where it is no frame. Lazy ones are collected, which is reported."""
    if isinstance(X, np.ndarray | list | tuple) or sparse.issparse(X) or X is None:
        return None
    import narwhals as nw

    names = getattr(X, "column_names", getattr(X, "columns", None))  # a pyarrow Table has its columns beside them
    if isinstance(names, Iterable):
        check_names(names)
        if hasattr(X, "set_axis"):  # pandas, whose names narwhals wants as texts
            X = X.set_axis([str(name) for name in names], axis=1)
    found = nw.from_native(X, pass_through=True)
    if isinstance(found, nw.LazyFrame):
        warnings.warn("X is a lazy frame, which is collected as a whole; collect() it first", UserWarning, stacklevel=2)
        found = found.collect()
    return found if isinstance(found, nw.DataFrame) else None


def check_names(names: Iterable[Any]) -> None:
    """Raise where two columns have one name."""
    twice = [name for name, count in Counter(str(name) for name in names).items() if count > 1]
    if twice:
        raise TableError(f"the columns of X must have distinct names, {shown_name(twice[0])!r} is there more than once")


def is_plain(X: Any) -> bool:
    """Whether X is a pandas frame of NumPy's numbers alone, dense or sparse, which scikit-learn reads as it is."""
    if not hasattr(X, "iloc") or not hasattr(X, "columns"):
        return False
    return all(kind.kind in "biuf" and (isinstance(kind, np.dtype) or hasattr(kind, "fill_value")) for kind in X.dtypes)


def other_columns(X: Any) -> list[str]:
    """The columns of a narwhals frame that hold neither numbers nor truth values."""
    import narwhals as nw

    return [
        name
        for name, kind in X.schema.items()
        if kind == nw.Duration or _is_category(kind) or not _holds_numbers(X[name], kind)
    ]


def read_frame(X: Any, *, texts: Collection[str] = (), only: Collection[str] | None = None) -> Frame:
    """A frame of any library, or an array without names, as a table.

    Parameters
    ----------
    X : frame of narwhals, or array of shape (n_rows, n_columns)
    texts : collection of str
        Columns of categories, whatever their type.
    only : collection of str, optional
        The columns that are wanted; the others are left out.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"size": [1, None], "colour": pd.Series(["red", "blue"], dtype="category")})
    >>> read = read_frame(native_frame(frame))
    >>> read.data["size"].tolist(), read.data["colour"].tolist(), sorted(read.categories)
    ([1.0, nan], ['red', 'blue'], ['colour'])
    """
    import pandas as pd

    data: dict[str, Any] = {}
    numbers, categories = set(), set()
    for name, kind in X.schema.items():
        if only is not None and name not in only:
            continue
        column = X[name]
        if name in texts or (_is_category(kind) and not holds_truth(column, kind)):
            data[name] = _as_texts(column)
            categories.add(name)
        elif _holds_numbers(column, kind):
            data[name] = _as_numbers(column, kind)
            numbers.add(name)
        else:
            data[name] = _as_read(column, kind)
    n_rows = len(X)
    frame = pd.DataFrame({name: pd.Series(values) for name, values in data.items()}, index=range(n_rows))
    return Frame(frame, frozenset(numbers), frozenset(categories))


def frame_of_array(X: Any, names: Iterable[str]) -> pd.DataFrame:
    """An array without names as a DataFrame whose columns have the types of their values."""
    import pandas as pd

    values = np.asarray(X)
    if values.ndim != 2:
        raise TableError(f"X must have two dimensions (rows, columns), got shape {values.shape}")
    return pd.DataFrame(values, columns=list(names)).infer_objects()


# Kinds of columns, by the types of narwhals


def _is_category(kind: Any) -> bool:
    import narwhals as nw

    return kind == nw.Categorical or kind == nw.Enum


def _holds_numbers(column: Any, kind: Any) -> bool:
    import narwhals as nw

    if _is_object(kind):
        values = _some_values(column)
        return bool(values) and all(
            isinstance(value, Real | np.bool_ | timedelta) or _is_decimal(value) for value in values
        )
    return kind.is_numeric() or kind == nw.Boolean or kind == nw.Duration or holds_truth(column, kind)


def holds_truth(column: Any, kind: Any) -> bool:
    """Whether a column holds truth values, as categories too, which databases would write as texts in many ways."""
    import narwhals as nw

    if kind == nw.Boolean:
        return True
    if not _is_category(kind) and not _is_object(kind):
        return False
    values = _some_values(column.unique() if _is_category(kind) else column)
    return bool(values) and all(isinstance(value, bool | np.bool_) for value in values)


def _is_object(kind: Any) -> bool:
    """Whether a column holds objects of Python, or has a type that narwhals does not know."""
    import narwhals as nw

    return kind == nw.Object or kind == nw.Unknown


def _is_decimal(value: Any) -> bool:
    return type(value).__name__ == "Decimal" and isinstance(value, Number)


def _some_values(column: Any) -> list[Any]:
    """The values of a column of objects that are not missing."""
    import pandas as pd

    return [
        value for value in column.to_list() if not (value is None or (np.isscalar(pd.isna(value)) and pd.isna(value)))
    ]


def _as_numbers(column: Any, kind: Any) -> NDArray[np.float64]:
    """Values as floats, NaN where one is missing."""
    import narwhals as nw

    if kind == nw.Duration:
        return _as_numbers(column.dt.total_microseconds(), nw.Float64()) / _MICROSECONDS
    if _is_object(kind) or _is_category(kind):
        import pandas as pd

        return np.array([np.nan if pd.isna(value) else _number(value) for value in column.to_list()])
    native = column.to_native()
    if hasattr(native, "isna"):  # pandas, whose types of numbers are many
        return native.to_numpy(np.float64, na_value=np.nan)
    if kind == nw.Decimal or column.null_count():  # Arrow's own cast rounds decimals badly, and refuses large integers
        return np.array([np.nan if value is None else value for value in column.to_list()], np.float64)
    return np.asarray(column.to_numpy(), np.float64)


def _number(value: Any) -> float:
    return value / timedelta(microseconds=1) / _MICROSECONDS if isinstance(value, timedelta) else float(value)


def _as_texts(column: Any) -> NDArray[np.object_]:
    """Values as texts, None where one is missing; integers without decimals, whatever their type."""
    import pandas as pd

    values = column.to_list()
    known: dict[Any, str | None] = {}
    for value in values:
        if value not in known:
            known[value] = None if value is None or pd.isna(value) else _text(value)
    texts = np.empty(len(values), object)
    texts[:] = [known[value] for value in values]
    return texts


def _number_text(value: Any) -> str | None:
    import pandas as pd

    return None if value is None or pd.isna(value) else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, Real | np.bool_) and not isinstance(value, bool | np.bool_) and float(value).is_integer():
        return str(int(value))  # type: ignore[call-overload]
    return str(value)


def _as_read(column: Any, kind: Any) -> Any:
    """Moments, and texts as they are; an error for types that are neither."""
    import narwhals as nw

    if kind == nw.String:
        return _objects(column.to_list())
    if kind == nw.Date or kind == nw.Datetime:
        if kind == nw.Datetime and kind.time_zone is not None:
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        values = column.cast(nw.Datetime("us")).to_numpy()
        return np.asarray(values).astype("datetime64[us]")
    if _is_object(kind):
        values = _some_values(column)
        if all(isinstance(value, str | Real | np.bool_) for value in values):
            return _objects([value if isinstance(value, str) else _number_text(value) for value in column.to_list()])
        if all(isinstance(value, date) for value in values):
            import pandas as pd

            moments = pd.to_datetime(pd.Series(column.to_list(), dtype=object), utc=True)
            return moments.dt.tz_localize(None).to_numpy().astype("datetime64[us]")
        kind = type(values[0]).__name__
    raise TableError(
        f"X has column {shown_name(column.name)!r} of type {kind}, which is no number, text, category or date; drop "
        "it, or turn it into one of these first"
    )


def _objects(values: list[Any]) -> NDArray[np.object_]:
    import pandas as pd

    objects = np.empty(len(values), object)
    objects[:] = [None if value is None or value is pd.NA or value != value else value for value in values]
    return objects
