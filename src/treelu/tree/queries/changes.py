"""One change of a row, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from treelu.tree.names import shown_name
from treelu.tree.queries.words import apart, number


@dataclass(frozen=True)
class Change:
    """One feature of a row before and after, or one column of a data frame: numbers or texts."""

    feature: str
    before: Any
    after: Any

    def __str__(self) -> str:
        name, before, after, by = change_cells([self])[0]
        return f"{name} {before} -> {after} ({by})"

    @property
    def condition(self) -> str:
        """The change as what follows "if": "income were 2,100 lower (…)"."""
        name = shown_name(self.feature)
        if isinstance(self.before, str) or isinstance(self.after, str):
            return f"{name} were {_cell(self.after)} instead of {_cell(self.before)}"
        by = self.after - self.before
        how = "higher" if by > 0 else "lower"
        return f"{name} were {number(abs(by))} {how} ({number(self.after)} instead of {number(self.before)})"


def _cell(value: float | str) -> str:
    return shown_name(value) if isinstance(value, str) else number(value)


def change_cells(changes: Sequence[Change]) -> list[list[str]]:
    """Cells of a table of changes: feature, before, after, difference."""
    rows = []
    for change in changes:
        if isinstance(change.before, str) or isinstance(change.after, str):
            cells = [value if isinstance(value, str) else number(value) for value in (change.before, change.after)]
            rows.append([shown_name(change.feature), *map(shown_name, cells), ""])
            continue
        by = number(change.after - change.before)
        sign = "+" if change.after > change.before else ""
        rows.append([shown_name(change.feature), *apart([change.before, change.after]), sign + by])
    return rows
