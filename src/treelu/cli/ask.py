"""`treelu ask`: the nearest change of each row of a table that gives another answer, in the columns of the table."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from treelu.cli.asked import Asked, Question, in_columns, item, plain, shown
from treelu.cli.check import Reading
from treelu.cli.messages import InputError, Notes
from treelu.cli.predict import load_table_model
from treelu.tables import read_table
from treelu.tables.questions import short_numbers
from treelu.tree.questions.counterfactual import Counterfactual, counterfactual
from treelu.tree.questions.words import number

MAX_ROWS = 1_000  # asked about in one go


def ask_table(
    folder: Path,
    data: str,
    question: Question,
    *,
    columns: dict[str, Sequence[str]],
    label: str | None,
    reading: Reading,
    as_json: bool,
) -> None:
    """Print the nearest change of each row of a table that gives the wanted answer."""
    asked = Asked(load_table_model(folder), label)
    notes = Notes(quiet=as_json)
    frame = read_table(data, text=asked.model.encoder.text_columns, **reading.options())
    if len(frame) > MAX_ROWS:
        raise InputError(f"{data} has {len(frame):,} rows; ask about at most {MAX_ROWS:,} at a time")
    encoded = asked.model.encoder.encode(frame, note=notes)
    X = np.asarray(encoded.X.toarray() if hasattr(encoded.X, "toarray") else encoded.X, dtype=np.float64)
    options = asked.columns.options(**columns)
    for row, x in zip(encoded.rows.tolist(), X, strict=True):
        answer = ask_row(asked, x, question, options)
        if as_json:
            print(json.dumps({"row": row + 1} | answer.plain(), ensure_ascii=False, allow_nan=False))
        else:
            print("\n".join([f"row {row + 1}: {answer.heading()}", *(f"  {line}" for line in answer.lines())]))
    sys.stdout.flush()


@dataclass(frozen=True)
class Answer:
    """The answer about one row, in columns."""

    target: str
    now: Any
    asked_for: str
    result: Counterfactual
    then: Any
    changes: tuple[Any, ...]

    def heading(self) -> str:
        """The first line."""
        now = f"{self.target} is predicted {shown(self.now)}"
        if not self.result:
            return f"{now}; no row within the limits is predicted {self.asked_for} (proved)"
        if not self.changes:
            return f"{now}, as asked for"
        return f"{now}; it would be {self._then()} if"

    def _then(self) -> str:
        # A probability may be reached without another class.
        return shown(self.then) if self.then != self.now else f"predicted {self.asked_for}"

    def lines(self) -> list[str]:
        """The conditions, one a line."""
        return [str(change) + (" and" if place < len(self.changes) - 1 else "")
                for place, change in enumerate(self.changes)]  # fmt: skip

    def plain(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "prediction": plain(self.now),
            "wanted": self.asked_for,
            "found": bool(self.result),
            "distance": self.result.distance if self.result else None,
            "new_prediction": plain(self.then) if self.result else None,
            "changes": {change.column: {"from": change.before, "to": change.after} for change in self.changes},
        }


def ask_row(asked: Asked, x: np.ndarray, question: Question, options: dict[str, Any]) -> Answer:
    """The nearest change of one row, as short numbers where these do as well."""
    now = item(asked.predict(x[None])[0])
    wanted, holds = asked.wanted(question, now)
    keep = [*options["keep"], *asked.columns.missing(x)]
    try:
        result = counterfactual(
            asked.tree, x, **wanted, **(options | {"keep": keep}), norm=question.norm, max_changes=question.max_changes,
            check=holds,
        )  # fmt: skip
    except ValueError as error:
        raise InputError(in_columns(str(error))) from None
    asked_for = _asked_for(asked, question, now)
    if not result:
        return Answer(asked.target, now, asked_for, result, None, ())
    discrete = {*options["whole"], *(place for group in options["groups"] for place in group)}
    low, high = _limits(x, options)

    def accepted(row: np.ndarray) -> bool:
        return bool(((low <= row) & (row <= high)).all() and holds(row[None])[0])

    row = short_numbers(x, result.row, discrete, accepted)
    then = item(asked.predict(row[None])[0])
    return Answer(asked.target, now, asked_for, result, then, tuple(asked.columns.changes(x, row)))


def _limits(x: np.ndarray, options: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The ranges of all features for one row."""
    low, high = np.full(len(x), -np.inf), np.full(len(x), np.inf)
    for place, (first, last) in options["bounds"].items():
        low[place], high[place] = -np.inf if first is None else first, np.inf if last is None else last
    low[options["rise"]] = np.maximum(low[options["rise"]], x[options["rise"]])
    high[options["fall"]] = np.minimum(high[options["fall"]], x[options["fall"]])
    return low, high


def _asked_for(asked: Asked, question: Question, now: Any) -> str:
    limits = [f"at least {number(question.at_least)}"] if question.at_least is not None else []
    limits += [f"at most {number(question.at_most)}"] if question.at_most is not None else []
    if not asked.labels:
        return " and ".join(limits)
    if limits:
        return f"{question.want} with a probability of {' and '.join(limits)}"
    if question.want is not None:
        return question.want
    return f"anything but {shown(now)}"
