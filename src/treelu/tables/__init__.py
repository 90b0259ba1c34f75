"""Table files as data frames with notes, and frames as features and targets.

Imports are lazy, so that the command line can look at a header (`treelu.tables.layout`) without NumPy or pandas.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treelu.data.store import RowStore
    from treelu.tables.encoder import Encoded, TableEncoder, check_columns
    from treelu.tables.files import iterate_table, read_table
    from treelu.tables.paths import TableError, find_files
    from treelu.tables.pieces import draw_rows, draw_table, iterate_files, iterate_pieces
    from treelu.tables.targets import TableTargets, Task, read_targets

__all__ = [
    "Encoded",
    "RowStore",
    "TableEncoder",
    "TableError",
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

_MODULES = {
    "data.store": ("RowStore",),
    "tables.encoder": ("Encoded", "TableEncoder", "check_columns"),
    "tables.files": ("iterate_table", "read_table"),
    "tables.paths": ("TableError", "find_files"),
    "tables.pieces": ("draw_rows", "draw_table", "iterate_files", "iterate_pieces"),
    "tables.targets": ("TableTargets", "Task", "read_targets"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"treelu.{module}"), name)
    raise AttributeError(f"module 'treelu.tables' has no attribute {name!r}")
