"""The errors of tables that cannot be used as they are. Imports nothing, so that a bad header is refused at once."""


class TableError(ValueError):
    """A table that cannot be used as it is; the message says what to change."""


class EmptyTableError(TableError):
    """A table without rows; of many files it is passed over."""
