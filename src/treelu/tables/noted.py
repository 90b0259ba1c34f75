"""A table file as a data frame together with what was noticed when it was read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from treelu.tables import files

if TYPE_CHECKING:
    import pandas as pd


class NotedTable(NamedTuple):
    """A table and the notes of its reader.

    Attributes
    ----------
    frame : DataFrame
        Columns whose cells are not plain numbers are texts, as in the file: `fit` reads units, dates and categories.
    notes : tuple of str
        What was recognised, where it is not what the file's name suggests.
    """

    frame: pd.DataFrame
    notes: tuple[str, ...]


def read_table(path: str | Path, **options: Any) -> NotedTable:
    """Read a table file as `treelu fit` does; options as of :func:`treelu.tables.read_table`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("x;y\\n1;a\\n2;b\\n")
    ...     file.flush()
    ...     table = read_table(file.name)
    >>> table.frame.shape, table.notes
    ((2, 2), ('columns separated by semicolons',))
    """
    notes: list[str] = []
    frame = files.read_table(path, note=notes.append, **options)
    return NotedTable(frame, tuple(notes))
