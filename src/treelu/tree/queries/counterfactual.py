"""The smallest change of a row that gives another answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from treelu.tree.names import plain, shown_class
from treelu.tree.oblique_tree import ObliqueTree
from treelu.tree.queries.changes import Change, change_cells
from treelu.tree.queries.columns import short_numbers
from treelu.tree.queries.limits import Limits, values_of
from treelu.tree.queries.words import count, html_table, html_text, number, row_words, text_table

if TYPE_CHECKING:
    from treelu.tree.queries.columns import ColumnFeatures

_SAME = 1e-6  # a difference of distances, in parts of one more than them, that rounding in the solvers makes


@dataclass(frozen=True, eq=False)
class NearestRow:
    """A row that gets the wanted answer, the nearest of its leaf.

    Attributes
    ----------
    row : array of shape (n_features,)
    distance : float
        From the row asked about to the nearest one, in units of ``scale``. In the columns of a data frame ``row`` may
        lie a little beyond, as its numbers have few digits.
    prediction : class label or value
        By the tree's own `predict`.
    leaf : int
        Its leaf, as a node number.
    changes : tuple of Change
    values : dict or None
        Of a tree that was fitted to a data frame: the row in its columns, None where a value is missing.
    """

    row: np.ndarray
    distance: float
    prediction: Any
    leaf: int
    changes: tuple[Change, ...]
    values: dict[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class Counterfactual:
    """What :meth:`ObliqueTree.counterfactual` found; true where it found a row.

    Attributes
    ----------
    wanted : str
        What was asked for, in words.
    before : class label or value
        The prediction of the row asked about.
    rows : tuple of NearestRow
        Nearest first, each in another leaf. Empty: no permitted row gets the answer, which is proved where ``decided``.
    norm : str
    bound : float
        No permitted row nearer than this gets the answer. It is the distance, unless a search ended undecided.
    n_leaves, n_solved : int
        Leaves of the tree, and of how many a programme had to be solved.
    n_undecided : int
        Leaves in which no row was found and of which it is not proved that there is none: rounding decides there, or
        the search was given up or ran out of time.
    within : str
        Which rows were looked among, in words: "within the training ranges"; empty where these were no limit.
    """

    wanted: str
    before: Any
    rows: tuple[NearestRow, ...]
    norm: str
    bound: float
    n_leaves: int
    n_solved: int
    n_undecided: int = 0
    within: str = ""

    def __bool__(self) -> bool:
        return bool(self.rows)

    @property
    def decided(self) -> bool:
        """Whether a row was found, or it is proved that there is none."""
        return bool(self.rows) or not self.n_undecided

    @property
    def row(self) -> np.ndarray:
        """The nearest row that gets the answer."""
        return self._nearest.row

    @property
    def distance(self) -> float:
        """Its distance, in units of ``scale``; infinite where there is none."""
        return self.rows[0].distance if self.rows else np.inf

    @property
    def changes(self) -> tuple[Change, ...]:
        """What changes; nothing where the row already has the answer."""
        return self._nearest.changes

    @property
    def values(self) -> dict[str, Any] | None:
        """The nearest row in the columns of the data frame that the tree was fitted to; None without one."""
        return self._nearest.values

    def shortened(
        self, tree: ObliqueTree, row: np.ndarray, around: Limits, holds: Callable[[np.ndarray], bool]
    ) -> Counterfactual:
        """The same with fewer digits in the numbers of each row, where `holds` says that it remains an answer."""
        rows, whole = [], np.flatnonzero(around.whole).tolist()
        for found in self.rows:

            def stays(after: np.ndarray, leaf: int = found.leaf) -> bool:
                return holds(after) and int(tree.apply(after[None])[0]) == leaf

            after = short_numbers(row, found.row, whole, stays)
            changes = changes_between(tree, row, after)
            rows.append(replace(found, row=after, prediction=predicted(tree, after), changes=changes))
        return replace(self, rows=tuple(rows))

    def in_columns(self, columns: ColumnFeatures, row: np.ndarray, given: Any) -> Counterfactual:
        """The same in the columns of a data frame; `given` is the row asked about as it was given."""
        known = values_of(given)
        rows = []
        for found in self.rows:
            changes = columns.changes(row, found.row)
            own = columns.values(found.row)
            changed = {change.feature for change in changes}
            values = own | {name: value for name, value in known.items() if name not in changed}
            rows.append(replace(found, changes=changes, values=values))
        return replace(self, rows=tuple(rows))

    @property
    def prediction(self) -> Any:
        """The tree's prediction of the nearest row."""
        return self._nearest.prediction

    @property
    def _nearest(self) -> NearestRow:
        if not self.rows:
            raise ValueError(f"no {row_words(self.within)} is predicted {self.wanted}; see the result's text")
        return self.rows[0]

    def _heading(self) -> str:
        now = f"predicted {answer(self.before)}"
        if not self.rows:
            row = row_words(self.within)
            proof = f"proved over {count(self.n_leaves, 'leaf')}"
            if not self.decided:
                proof = f"not decided, {count(self.n_undecided, 'leaf')} of {self.n_leaves} left open"
                return f"{now}; no {row} predicted {self.wanted} was found: {proof}; narrower bounds may help"
            return f"{now}; no {row} is predicted {self.wanted}: {proof}"
        if not self.rows[0].changes:
            return f"{now}; that is as asked for ({self.wanted}), nothing has to change"
        away = f"predicted {self.wanted} is {number(self.distance, 4)} away ({self.norm})"
        if self.bound < self.distance - _SAME * (1 + self.distance):
            return f"{now}; a row {away}, and none is nearer than {number(self.bound, 4)}:"
        return f"{now}; the nearest row {away}:"

    def __str__(self) -> str:
        lines = [self._heading()]
        for place, found in enumerate(self.rows if self else ()):
            if place:
                lines.append(f"or, {number(found.distance, 4)} away, predicted {answer(found.prediction)}:")
            lines += text_table([[name, now, f"-> {then}", by] for name, now, then, by in change_cells(found.changes)])
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = [html_text(self._heading())]
        for place, found in enumerate(self.rows):
            if place:
                parts.append(html_text(f"or, {number(found.distance, 4)} away, predicted {answer(found.prediction)}:"))
            if found.changes:
                parts.append(html_table(["feature", "now", "then", "change"], change_cells(found.changes)))
        return "".join(parts)


def answer(prediction: Any) -> str:
    """A prediction in words: a label as it is typed, a value with six digits."""
    if isinstance(prediction, np.ndarray):
        return ", ".join(number(value) for value in prediction)
    return number(prediction) if isinstance(prediction, float) else shown_class(prediction)


def predicted(tree: ObliqueTree, row: np.ndarray) -> Any:
    """The tree's own prediction of one row: a label, a number, or an array of several outputs."""
    return plain(tree.predict(row[None])[0])


def changes_between(tree: ObliqueTree, before: np.ndarray, after: np.ndarray) -> tuple[Change, ...]:
    """The features in which two rows differ."""
    return tuple(Change(tree.feature_name(j), float(before[j]), float(after[j]))
                 for j in np.flatnonzero(before != after).tolist())  # fmt: skip
