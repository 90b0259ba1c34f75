"""The one place that turns a table file into X and y, and a model that reads tables."""

from treelu.tables.encoder import Encoded, TableEncoder, check_columns
from treelu.tables.files import TableError, iterate_table, read_table
from treelu.tables.model import TableModel
from treelu.tables.targets import TableTargets, Task, read_targets

__all__ = [
    "Encoded",
    "TableEncoder",
    "TableError",
    "TableModel",
    "TableTargets",
    "Task",
    "check_columns",
    "iterate_table",
    "read_table",
    "read_targets",
]
