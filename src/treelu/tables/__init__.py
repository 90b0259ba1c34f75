"""The one place that turns a table file into X and y, and a model that reads tables.

Imports are lazy, so that the command line can look at a header (`treelu.tables.layout`) without NumPy or pandas.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treelu.tables.encoder import Encoded, TableEncoder, check_columns
    from treelu.tables.errors import TableError
    from treelu.tables.files import iterate_table, read_table
    from treelu.tables.model import TableModel
    from treelu.tables.pieces import RowStore, draw_rows, draw_table, find_files, iterate_files, iterate_pieces
    from treelu.tables.targets import TableTargets, Task, read_targets

__all__ = [
    "Encoded",
    "RowStore",
    "TableEncoder",
    "TableError",
    "TableModel",
    "TableTargets",
    "Task",
    "check_columns",
    "draw_rows",
    "draw_table",
    "find_files",
    "iterate_files",
    "iterate_pieces",
    "iterate_table",
    "read_table",
    "read_targets",
]

_HOMES = {
    **dict.fromkeys(("Encoded", "TableEncoder", "check_columns"), "encoder"),
    **dict.fromkeys(("iterate_table", "read_table"), "files"),
    **dict.fromkeys(("TableTargets", "Task", "read_targets"), "targets"),
    **dict.fromkeys(("RowStore", "draw_rows", "draw_table", "iterate_files", "iterate_pieces"), "pieces"),
    "TableError": "errors",
    "find_files": "found",
    "TableModel": "model",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'treelu.tables' has no attribute {name!r}")
    return getattr(importlib.import_module(f"treelu.tables.{_HOMES[name]}"), name)
