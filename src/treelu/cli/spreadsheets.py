"""CSV that a spreadsheet shows and does not execute."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# What spreadsheets take for a formula or a command; a number keeps its sign.
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?%?")


def quoted(value: Any) -> Any:
    """A text that a spreadsheet would execute, with an apostrophe before it; everything else as it is.

    Examples
    --------
    >>> quoted("=1+1"), quoted("-5.2"), quoted("@name"), quoted("plain"), quoted(3)
    ("'=1+1", '-5.2', "'@name", 'plain', 3)
    """
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def for_spreadsheets(frame: pd.DataFrame) -> pd.DataFrame:
    """A table whose texts and column names a spreadsheet shows and does not execute.

    Examples
    --------
    >>> import pandas as pd
    >>> for_spreadsheets(pd.DataFrame({"=a": ["=b", "c"], "d": [-1, 2]})).to_csv(index=False)
    "'=a,d\\n'=b,-1\\nc,2\\n"
    """
    from pandas.api.types import is_numeric_dtype

    texts = {name: frame[name].map(quoted) for name in frame.columns if not is_numeric_dtype(frame[name].dtype)}
    return frame.assign(**texts).rename(columns=quoted)
