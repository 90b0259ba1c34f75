"""`treelu ask`: the nearest change of each row of a table that gives another answer, in the columns of the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from treelu.cli.check import ReadOptions
from treelu.cli.interrupt import check_not_interrupted
from treelu.cli.messages import InputError, Notes, flush_output, progress_bar, tell, write_json
from treelu.cli.predict import load_table_model
from treelu.cli.queried_model import QueriedModel, QueryOptions, in_columns, json_value, shown
from treelu.tables import read_table
from treelu.tables.queries import ColumnChange, short_numbers
from treelu.tree.names import plain, shown_name
from treelu.tree.queries.goal import read_goal
from treelu.tree.queries.limits import read_limits
from treelu.tree.queries.nearest import nearest
from treelu.tree.queries.words import number
from treelu.tree.rows import dense

MAX_ROWS = 1_000  # asked about in one go


def ask_table(
    folder: Path,
    data: str,
    question: QueryOptions,
    *,
    columns: dict[str, Sequence[str]],
    label: str | None,
    reading: ReadOptions,
    as_json: bool,
) -> None:
    """Print the nearest change of each row of a table that gives the wanted answer."""
    queried = QueriedModel(load_table_model(folder), label)
    notes = Notes(quiet=as_json)
    frame = read_table(data, text=queried.model.encoder.text_columns, **reading.options())
    if len(frame) > MAX_ROWS:
        raise InputError(f"{data} has {len(frame):,} rows; ask about at most {MAX_ROWS:,} at a time")
    encoded = queried.model.encoder.encode(frame, note=notes)
    X = dense(encoded.X).astype(np.float64)
    options = queried.columns.options(**columns)
    with progress_bar("asking", len(X), quiet=False) as advance:
        for row, x in zip(encoded.rows.tolist(), X, strict=True):
            answer = ask_row(queried, x, question, options)
            check_not_interrupted()
            if as_json:
                write_json({"row": row + 1} | answer.plain(), indent=None)
            else:
                tell(f"row {row + 1}: " + "\n".join(answer.lines()))
            flush_output()
            advance()


@dataclass(frozen=True)
class Way:
    """One change of a row that gives the answer, in columns."""

    distance: float
    prediction: Any
    changes: tuple[ColumnChange, ...]

    def lines(self) -> list[str]:
        """The conditions, one per line."""
        return [str(change) + (" and" if place < len(self.changes) - 1 else "")
                for place, change in enumerate(self.changes)]  # fmt: skip

    def plain(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "distance": self.distance,
            "new_prediction": json_value(self.prediction),
            "changes": {change.column: {"from": change.before, "to": change.after} for change in self.changes},
        }


@dataclass(frozen=True)
class Answer:
    """The answer about one row, in columns: ways to it, the nearest first."""

    target: str
    now: Any
    asked_for: str
    ways: tuple[Way, ...]
    n: int = 1
    proved: bool = True  # whether the leaves without a way have none

    def lines(self) -> list[str]:
        """The printed lines."""
        now = f"{self.target} is predicted {shown(self.now)}"
        if not self.ways:
            return [f"{now}; no row within the limits is predicted {self.asked_for} ({self._certainty()})"]
        if not self.ways[0].changes:
            return [f"{now}, as asked for"]
        lines = []
        for place, way in enumerate(self.ways):
            start = "or it" if place else f"{now}; it"
            lines += [f"{start} would be {self._then(way)} if", *(f"  {line}" for line in way.lines())]
        if len(self.ways) < self.n:
            lines.append(f"no other leaf within the limits is predicted {self.asked_for} ({self._certainty()})")
        return lines

    def _certainty(self) -> str:
        return "proved" if self.proved else "none was found; whether there is one is not decided"

    def _then(self, way: Way) -> str:
        # A probability may be reached without another class.
        return shown(way.prediction) if way.prediction != self.now else f"predicted {self.asked_for}"

    def plain(self) -> dict[str, Any]:
        """JSON values."""
        result: dict[str, Any] = {
            "prediction": json_value(self.now),
            "wanted": self.asked_for,
            "found": bool(self.ways),
            "proved": self.proved,
        }
        none: dict[str, Any] = {"distance": None, "new_prediction": None, "changes": {}}
        result |= self.ways[0].plain() if self.ways else none
        return result | ({"others": [way.plain() for way in self.ways[1:]]} if self.n > 1 else {})


def ask_row(queried: QueriedModel, x: np.ndarray, question: QueryOptions, options: dict[str, Any]) -> Answer:
    """The nearest changes of one row, as short numbers where these do as well."""
    now = plain(queried.predict(x[None])[0])
    wanted, holds = queried.wanted(question, now)
    try:
        goal = read_goal(queried.tree, **wanted).also(holds)
        around = {name: options[name] for name in ("rise", "fall")}
        limits = read_limits(queried.tree, **{name: options[name] for name in ("bounds", "whole", "groups")})
        limits = limits.around(x, [*options["keep"], *queried.columns.missing(x)], **around)
        result = nearest(
            queried.tree, x, goal, limits, norm=question.norm, max_changes=question.max_changes, n=question.n
        )
    except ValueError as error:
        raise InputError(in_columns(str(error))) from None
    ways = []
    for found in result.rows if result.rows[:1] and result.rows[0].changes else result.rows[:1]:
        row = _shortened(x, found.row, options, holds)
        ways.append(Way(found.distance, plain(queried.predict(row[None])[0]), tuple(queried.columns.changes(x, row))))
    return Answer(
        queried.name, now, _goal_text(queried, question, now), tuple(ways), question.n, not result.n_undecided
    )


def _shortened(x: np.ndarray, found: np.ndarray, options: dict[str, Any], holds: Any) -> np.ndarray:
    """A row that was found, with fewer digits where it still has the answer."""
    discrete = {*options["whole"], *(place for group in options["groups"] for place in group)}
    low, high = _limits(x, options)

    def accepted(row: np.ndarray) -> bool:
        return bool(((low <= row) & (row <= high)).all() and holds(row[None])[0])

    return short_numbers(x, found, discrete, accepted)


def _limits(x: np.ndarray, options: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The ranges of all features for one row."""
    low, high = np.full(len(x), -np.inf), np.full(len(x), np.inf)
    for place, (first, last) in options["bounds"].items():
        low[place], high[place] = -np.inf if first is None else first, np.inf if last is None else last
    low[options["rise"]] = np.maximum(low[options["rise"]], x[options["rise"]])
    high[options["fall"]] = np.minimum(high[options["fall"]], x[options["fall"]])
    return low, high


def _goal_text(queried: QueriedModel, question: QueryOptions, now: Any) -> str:
    limits = [f"at least {number(question.at_least)}"] if question.at_least is not None else []
    limits += [f"at most {number(question.at_most)}"] if question.at_most is not None else []
    if not queried.labels:
        return " and ".join(limits)
    if limits:
        return f"{shown_name(question.want)} with a probability of {' and '.join(limits)}"
    if question.want is not None:
        return shown_name(question.want)
    return f"anything but {shown(now)}"
