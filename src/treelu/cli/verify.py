"""`treelu verify`: properties of a saved tree, proved or refuted by rows, in the columns of its table.

What is refuted is shown by whole rows that `treelu predict` reads, and that break the property by its own answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from treelu.cli.columns import cells, named, named_numbers, typed_limits
from treelu.cli.counterexamples import MOST_VALUES, from_table, shortened
from treelu.cli.messages import InputError, Notes, count, tell, write_json
from treelu.cli.model import QueriedModel, in_columns, json_value, load_table_model, shown
from treelu.cli.options import VerifyOptions
from treelu.cli.predict import check_file
from treelu.persistence.folder import write_atomically
from treelu.tables import read_table
from treelu.tables.columns import Column, NumberColumn
from treelu.tree.names import plain, shown_name
from treelu.tree.queries.dates import Broken, between_dates
from treelu.tree.queries.limits import Limits, tree_limits
from treelu.tree.queries.properties import Verdict
from treelu.tree.queries.words import apart, number, text_table
from treelu.tree.rows import dense

MOST_COLUMNS = 20  # of a table that are all printed; of a wider one those that the tree uses


def verify_model(options: VerifyOptions) -> bool:
    """Print whether each property is proved or refuted; True where all are proved."""
    if options.out is not None:
        check_file(options.out, options.force, reads=[options.model])
    queried = QueriedModel(load_table_model(options.model), options.label)
    verification = Verification(queried, options)
    checked = [verification.check(claim) for claim in verification.claims()]
    if not checked:
        raise InputError("nothing to verify; give --rises, --falls, --independent, --at-most or --at-least")
    if options.as_json:
        write_json([one.plain() for one in checked])
    else:
        for one in checked:
            tell("\n".join(one.lines()))
    if options.out is not None:
        said = _write_rows(checked, options.out, queried.model.encoder.columns)
        if not options.as_json:
            tell(said)
    return all(one.verdict for one in checked)


@dataclass(frozen=True)
class Claim:
    """A property in words, how it is proved, and which rows break it by the model's own answers.

    Attributes
    ----------
    ask : callable
        Gives the verdict on the tree.
    value : callable
        Rows (n, n_features) → what the property is about, by the model.
    broken : callable
        First and second rows → which pairs break it; for a property of single rows both are the same.
    column : str or None
        The column in which the rows of a pair differ.
    sign : int
        1: never falls; -1: never rises; 0: others.
    """

    words: str
    ask: Callable[[], Verdict]
    value: Callable[[np.ndarray], np.ndarray]
    broken: Broken
    column: str | None = None
    sign: int = 0


@dataclass(frozen=True)
class Checked:
    """A property with its verdict, and the rows that refute it in the columns of the table."""

    claim: Claim
    verdict: Verdict
    among: str  # which rows it is about
    rows: list[dict[str, str]] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    shown: tuple[str, ...] = ()  # the columns that are printed

    def lines(self) -> list[str]:
        """The printed lines."""
        if self.verdict:
            return [f"proved: {self.claim.words}{self.among}"]
        if not self.verdict.decided:
            return [f"not decided: {self.claim.words}{self.among}; give narrower ranges with --within"]
        cells = [[shown_name(name), *(shown_name(row[name]) if row[name] else "(missing)" for row in self.rows)]
                 for name in self.shown]  # fmt: skip
        numbers = all(isinstance(output, float) for output in self.outputs)
        cells.append(["predicted", *(apart(self.outputs) if numbers else map(shown, self.outputs))])
        return [f"refuted: {self.claim.words}", *text_table(cells)]

    def plain(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "claim": self.claim.words,
            "among": self.among.removeprefix(", for "),
            "proved": bool(self.verdict),
            "decided": self.verdict.decided,
            "rows": self.rows,
            "predictions": [json_value(value) for value in self.outputs],
            "programmes": self.verdict.n_solved,
        }


class Verification:
    """The properties that were typed, for one model."""

    def __init__(self, queried: QueriedModel, options: VerifyOptions) -> None:
        self.queried, self.options, self.columns = queried, options, queried.columns
        self.encoder = queried.model.encoder
        self.permitted = typed_limits(self.encoder, options)
        try:
            self.limits: Limits = tree_limits(queried.tree, **self.permitted)
        except ValueError as error:
            raise InputError(in_columns(str(error))) from None
        self.X = self._table_rows()
        words = [] if options.anywhere or queried.tree.observed is None else ["within the training ranges"]
        words += ["without missing values"] if self.columns.marks else []
        self.among = f", for rows {' '.join(words)}" if words else ""

    def _table_rows(self) -> np.ndarray:
        """The rows that counterexamples start from: those given, without missing values."""
        data, encoder = self.options.data, self.encoder
        if data is None:
            return np.zeros((0, len(encoder.feature_names)))
        frame = read_table(data, text=encoder.text_columns, **self.options.reading.options())
        unused = self.queried.model.unused_columns - set(frame.columns)
        encoded = encoder.encode(frame, note=Notes(quiet=self.options.as_json), unused=unused)
        X = dense(encoded.X).astype(np.float64)
        return X[(X[:, self.columns.marks] == 0).all(axis=1)]

    # Claims

    def claims(self) -> list[Claim]:
        """All properties, in the order of the options."""
        options, queried = self.options, self.queried
        name, asked, value = self._value()
        found = [
            self._rising(name, asked, value, column, sign)
            for sign, chosen, option in ((1, options.rises, "--rises"), (-1, options.falls, "--falls"))
            for column in named(self.encoder, chosen, option)
        ]
        decides = queried.model.decided_tree(queried.tree)  # the class that the model decides
        for column in named(self.encoder, options.independent, "--independent"):
            ask = partial(decides.independent, [column], output=queried.output, **self.permitted)
            words = f"the predicted {queried.name} never depends on {shown_name(column)}"
            found.append(Claim(words, ask, queried.predict, _differ(queried.predict), column))
        tree = queried.tree
        for limit, sign, method in ((options.at_most, 1, tree.at_most), (options.at_least, -1, tree.at_least)):
            if limit is not None:
                words = f"{name} is at {'most' if sign > 0 else 'least'} {number(limit)}"
                ask = partial(method, limit, **asked, **self.permitted)
                found.append(Claim(words, ask, value, _beyond(value, limit, sign)))
        return found

    def _value(self) -> tuple[str, dict[str, Any], Callable[[np.ndarray], np.ndarray]]:
        """The value that properties are about: its name, the arguments that select it, and the model's own."""
        queried, want = self.queried, self.options.want
        name, labels = queried.name, queried.labels
        if not labels:
            if want is not None:
                raise InputError(f"--want {want}: {name} is a number")
            return name, {"output": queried.output}, queried.predict
        if want is None and len(labels) > 2:
            raise InputError(f"--want is needed: {name} is {' or '.join(map(shown_name, labels[:8]))}")
        k = queried.model.positive if want is None else queried.find_label(want)
        words = f"the probability of {name} = {shown_name(labels[k])}"
        return words, {"target": labels[k]}, partial(queried.probabilities, k=k)

    def _rising(
        self, name: str, asked: dict[str, Any], value: Callable[[np.ndarray], np.ndarray], column: str, sign: int
    ) -> Claim:
        words = f"{name} never {'falls' if sign > 0 else 'rises'} when {shown_name(column)} rises"
        tree = self.queried.tree
        option, method = ("--rises", tree.rises) if sign > 0 else ("--falls", tree.falls)
        if column not in self.columns.dates:
            named_numbers(self.encoder, [column], option)
        ask = partial(method, column, **asked, **self.permitted)
        return Claim(words, ask, value, _goes(value, sign), column, sign)

    # Verdicts

    def check(self, claim: Claim) -> Checked:
        """Prove a property, or refute it by rows of the table's columns."""
        try:
            verdict = claim.ask()
        except ValueError as error:
            raise InputError(in_columns(str(error))) from None
        rows = None if verdict else self._rows(claim, verdict)
        if rows is None:
            return Checked(claim, verdict if verdict else replace(verdict, decided=False), self.among)
        outputs = [plain(output) for output in claim.value(rows)]
        found = [cells(self.columns, row) for row in rows]
        return Checked(claim, replace(verdict, decided=True), self.among, found, outputs, self._shown(found))

    def _rows(self, claim: Claim, verdict: Verdict) -> np.ndarray | None:
        """Rows that break a property by the model's own answers: of the table given, or else those found."""
        found = self._of_table(claim)
        if found is not None:
            return found
        if not len(verdict.rows):
            return None
        found = shortened(verdict.rows, self.columns, self.limits, claim.broken)
        return found if claim.broken(found[:1], found[-1:])[0] else None

    def _of_table(self, claim: Claim) -> np.ndarray | None:
        """Rows of the table given, with another value of the property's column that some row has."""
        if not len(self.X):
            return None
        if claim.column is None:
            rows = self.X[[self.limits.holds(x) for x in self.X]]
            return next((row[None] for row in rows if claim.broken(row[None], row[None])[0]), None)
        if claim.column in self.columns.dates:
            return between_dates(self.X, claim.column, self.columns, self.limits, claim.value, claim.sign)
        places = self.columns.places[claim.column]
        values = np.unique(self.X[:, places], axis=0)
        some = np.unique(np.linspace(0, len(values) - 1, min(len(values), MOST_VALUES)).astype(int))
        return from_table(self.X, list(values[some]), places, self.limits, claim.broken, ordered=claim.sign != 0)

    def _shown(self, cells: Sequence[dict[str, str]]) -> tuple[str, ...]:
        """The columns to print: those that differ first; of many only those that the tree uses."""
        unused = self.queried.model.unused_columns if len(cells[0]) > MOST_COLUMNS else frozenset()
        differ = [name for name in cells[0] if cells[0][name] != cells[-1][name]]
        return tuple(differ + [name for name in cells[0] if name not in differ and name not in unused])


def _goes(value: Callable[[np.ndarray], np.ndarray], sign: int) -> Broken:
    """The second row, with more of a column, has a lower (sign 1) or higher value."""
    return lambda first, second: sign * (value(first) - value(second)) > 0


def _differ(value: Callable[[np.ndarray], np.ndarray]) -> Broken:
    return lambda first, second: value(first) != value(second)


def _beyond(value: Callable[[np.ndarray], np.ndarray], limit: float, sign: int) -> Broken:
    return lambda first, second: sign * (value(first) - limit) > 0


def _write_rows(checked: Sequence[Checked], out: Path, columns: Sequence[Column]) -> str:
    """The rows that refute, as a CSV file; what was written, in words. With decimal commas, semicolons part columns."""
    import pandas as pd

    rows = [row for one in checked for row in one.rows]
    if not rows:
        return f"no row refutes; {out} was not written"
    commas = any(isinstance(column, NumberColumn) and column.style.decimal == "," for column in columns)
    text = pd.DataFrame(rows).to_csv(index=False, sep=";" if commas else ",", lineterminator="\n")
    write_atomically(out, text.encode())
    return f"{out}: {count(len(rows), 'row')}"
