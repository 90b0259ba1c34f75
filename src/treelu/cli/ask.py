"""`treelu ask`: the nearest change of each row of a table that gives another answer, in the columns of the table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treelu.cli.columns import named, named_numbers, typed_limits
from treelu.cli.interrupt import check_not_interrupted
from treelu.cli.messages import InputError, Notes, flush_output, progress_bar, tell, write_json
from treelu.cli.model import QueriedModel, in_columns, json_value, load_table_model, shown
from treelu.cli.options import AskOptions
from treelu.tables import read_table
from treelu.tree.names import plain, shown_name
from treelu.tree.queries.counterfactual import NearestRow
from treelu.tree.queries.words import number
from treelu.tree.rows import dense

MAX_ROWS = 1_000  # asked about in one go


def ask_table(options: AskOptions) -> None:
    """Print the nearest change of each row of a table that gives the wanted answer."""
    queried = QueriedModel(load_table_model(options.model), options.label)
    encoder, data = queried.model.encoder, options.data
    frame = read_table(data, text=encoder.text_columns, **options.reading.options())
    if len(frame) > MAX_ROWS:
        raise InputError(f"{data} has {len(frame):,} rows; ask about at most {MAX_ROWS:,} at a time")
    encoded = encoder.encode(frame, note=Notes(quiet=options.as_json))
    X = dense(encoded.X).astype(np.float64)
    asked = {
        "keep": named(encoder, options.keep, "--keep"),
        "rise": named_numbers(encoder, options.rise, "--rise"),
        "fall": named_numbers(encoder, options.fall, "--fall"),
        "norm": options.norm,
        "max_changes": options.max_changes,
        "n": options.nearest,
        **typed_limits(encoder, options),
    }
    with progress_bar("asking", len(X), quiet=False) as advance:
        for row, x in zip(encoded.rows.tolist(), X, strict=True):
            answer = ask_row(queried, x, options, asked)
            check_not_interrupted()
            if options.as_json:
                write_json({"row": row + 1} | answer.plain(), indent=None)
            else:
                tell(f"row {row + 1}: " + "\n".join(answer.lines()))
            flush_output()
            advance()


@dataclass(frozen=True)
class Answer:
    """The answer about one row, in columns: ways to it, the nearest first."""

    target: str
    now: Any
    asked_for: str
    ways: tuple[NearestRow, ...]  # with the model's own predictions
    n: int = 1
    proved: bool = True  # whether the leaves without a way have none
    observed: bool = True  # whether ways stay within what the training rows held

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
            lines += [
                f"{start} would be {self._then(way)} if",
                "  " + " and\n  ".join(change.condition for change in way.changes),
            ]
        if len(self.ways) < self.n:
            lines.append(f"no other leaf within the limits is predicted {self.asked_for} ({self._certainty()})")
        return lines

    def _certainty(self) -> str:
        text = "proved" if self.proved else "none was found; whether there is one is not decided"
        return f"{text}; --anywhere looks beyond what the training rows held" if self.observed else text

    def _then(self, way: NearestRow) -> str:
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
        ways = list(map(_plain, self.ways))
        return result | (ways[0] if ways else none) | ({"others": ways[1:]} if self.n > 1 else {})


def _plain(way: NearestRow) -> dict[str, Any]:
    """JSON values."""
    return {
        "distance": way.distance,
        "new_prediction": json_value(way.prediction),
        "changes": {change.feature: {"from": change.before, "to": change.after} for change in way.changes},
    }


def ask_row(queried: QueriedModel, x: np.ndarray, options: AskOptions, asked: dict[str, Any]) -> Answer:
    """The nearest changes of one row; `asked` are arguments of :meth:`ObliqueTree.counterfactual`."""
    now = plain(queried.predict(x[None])[0])
    wanted, holds = queried.wanted(options, now)
    try:
        found = queried.tree.counterfactual(x, **wanted, **asked, check=holds)
    except ValueError as error:
        raise InputError(in_columns(str(error))) from None
    rows = found.rows if found and found.changes else found.rows[:1]
    ways = [replace(one, prediction=plain(queried.predict(one.row[None])[0])) for one in rows]
    text, observed = _goal_text(queried, options, now), not options.anywhere and queried.tree.observed is not None
    return Answer(queried.name, now, text, tuple(ways), options.nearest, not found.n_undecided, observed)


def _goal_text(queried: QueriedModel, options: AskOptions, now: Any) -> str:
    limits = [f"at least {number(options.at_least)}"] if options.at_least is not None else []
    limits += [f"at most {number(options.at_most)}"] if options.at_most is not None else []
    if not queried.labels:
        return " and ".join(limits)
    if limits:
        return f"{shown_name(options.want)} with a probability of {' and '.join(limits)}"
    if options.want is not None:
        return shown_name(options.want)
    return f"anything but {shown(now)}"
