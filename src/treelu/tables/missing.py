"""Values that stand for missing ones, such as -999: given by whoever knows the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from treelu.tables.numbers import to_texts
from treelu.tables.paths import TableError

if TYPE_CHECKING:
    import pandas as pd


def missing_of(column: str, values: Sequence[str]) -> list[str]:
    """The values that are missing in a column: those given for all, and those given as COLUMN=VALUE.

    Examples
    --------
    >>> missing_of("age", ["-999", "age=0", "income=-1"])
    ['-999', '0']
    """
    own = [value.removeprefix(f"{column}=") for value in values if value.startswith(f"{column}=")]
    return [value for value in values if "=" not in value] + own


def occurring(frame: pd.DataFrame, values: Sequence[str]) -> list[str]:
    """Values that stand for missing ones, as COLUMN=VALUE: those given so, and the others by the columns they are in.

    Examples
    --------
    >>> import pandas as pd
    >>> occurring(pd.DataFrame({"age": [-999, 3], "sold": [2, 4]}), ["-999", "sold=-1"])
    ['sold=-1', 'age=-999']
    """
    anywhere = [value for value in values if "=" not in value]
    found = [
        f"{name}={value}" for name in frame.columns for value in anywhere if _is_one_of(frame[name], [value]).any()
    ]
    return [value for value in values if "=" in value] + found


def mark_missing(column: pd.Series, values: Sequence[str]) -> pd.Series:
    """A column whose cells with one of some values are missing; -999, -999.0 and "-999" are one value.

    Examples
    --------
    >>> import pandas as pd
    >>> mark_missing(pd.Series([-999, 3]), ["-999"]).tolist()
    [nan, 3.0]
    """
    hit = _is_one_of(column, values)
    return column.mask(hit) if hit.any() else column


def _is_one_of(column: pd.Series, values: Sequence[str]) -> NDArray[np.bool_]:
    numbers = [number for number in map(_number, values) if number is not None]
    if column.dtype.kind in "bMmc" or not values:
        return np.zeros(len(column), dtype=bool)
    if column.dtype.kind in "iuf":
        return np.isin(column.to_numpy(), numbers)
    texts = to_texts(column)
    same = {text for text in texts.dropna().unique() if text in values or _number(text) in numbers}
    return texts.isin(same).to_numpy()


def mark_missing_in(frame: pd.DataFrame, values: Sequence[object]) -> pd.DataFrame:
    """A table in which some values are missing, in all columns or, as "COLUMN=VALUE", in one."""
    if isinstance(values, str):
        raise TableError(f"missing_values must be a list of values, got {values!r}; write [{values!r}]")
    given = [str(value) for value in values]
    for value in given:
        if "=" in value and not any(value.startswith(f"{name}=") for name in frame.columns):
            raise TableError(f"missing value {value!r}: the table has no column {value.rpartition('=')[0]!r}")
    for name in frame.columns if given else ():
        if missing := missing_of(str(name), given):
            frame[name] = mark_missing(frame[name], missing)
    return frame


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
