"""Names for rows: a column that tells rows apart and is no feature."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

LEAST_DIFFERENT = 0.95  # of the rows
LONGEST = 60  # characters of a usual name
_WORDS = re.compile(r"(^|[\W_])(id|name|nr|no|number|nummer|key|code)([\W_]|$)|(Id|ID|Name)$", re.IGNORECASE)


def row_names(frame: pd.DataFrame, used: Collection[str]) -> list[str] | None:
    """A name for each row from a column that is not used: one called like an id, else the first with different values.

    Examples
    --------
    >>> import pandas as pd
    >>> row_names(pd.DataFrame({"customer": ["Ada", "Bo"], "id": [7, 8], "age": [30, 40]}), {"age"})
    ['id 7', 'id 8']
    >>> row_names(pd.DataFrame({"customer": ["Ada", "Bo"], "age": [30, 40]}), {"age"})
    ['Ada', 'Bo']
    >>> row_names(pd.DataFrame({"age": [30, 40]}), {"age"}) is None
    True
    """
    fitting = [name for name in frame.columns if name not in used and _tells_apart(frame[name])]
    if not fitting:
        return None
    chosen = next((name for name in fitting if _WORDS.search(str(name))), fitting[0])
    texts = frame[chosen].astype(str).str.strip().where(frame[chosen].notna(), "")
    return [text if text and not text[0].isdigit() else f"{chosen} {text}".strip() for text in texts]


def _tells_apart(column: pd.Series) -> bool:
    """Whether a column of texts or integers has hardly two rows of the same value."""
    if column.dtype.kind in "fmcMb":
        return False
    try:
        different = column.nunique()
    except TypeError:  # lists
        return False
    return different >= LEAST_DIFFERENT * len(column) and column.astype(str).str.len().median() <= LONGEST
