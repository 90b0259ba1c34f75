"""`treelu verify`: properties of a saved tree, proved for all rows or refuted by rows, in the columns of its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treelu.cli.messages import InputError, count, tell, write_json
from treelu.cli.predict import load_table_model
from treelu.cli.queried_model import QueriedModel, in_columns, json_value, shown
from treelu.tree.names import shown_name
from treelu.tree.queries.properties import Verdict
from treelu.tree.queries.words import apart, number


@dataclass(frozen=True)
class Claims:
    """Properties to be proved, as they were typed."""

    rises: Sequence[str] = ()
    falls: Sequence[str] = ()
    independent: Sequence[str] = ()
    at_most: float | None = None
    at_least: float | None = None


def verify_model(
    folder: Path,
    claims: Claims,
    *,
    want: str | None,
    within: Sequence[str],
    whole: Sequence[str],
    label: str | None,
    as_json: bool,
) -> bool:
    """Print whether each property is proved or refuted; True where all are proved."""
    queried = QueriedModel(load_table_model(folder), label)
    verdicts = [Checked(queried, claim, verdict) for claim, verdict in _verdicts(queried, claims, want, within, whole)]
    if not verdicts:
        raise InputError("nothing to verify; give --rises, --falls, --independent, --at-most or --at-least")
    if as_json:
        write_json([checked.plain() for checked in verdicts])
    else:
        for checked in verdicts:
            tell("\n".join(checked.lines()))
    return all(checked.verdict for checked in verdicts)


def _verdicts(
    queried: QueriedModel, claims: Claims, want: str | None, within: Sequence[str], whole: Sequence[str]
) -> list[tuple[str, Verdict]]:
    columns, tree = queried.columns, queried.tree
    permitted = columns.everywhere(within, whole)
    value: dict[str, Any] = permitted | {"output": queried.output}
    name = queried.name
    if queried.labels:
        k = queried.find_label(want) if want is not None else 1
        if want is None and len(queried.labels) > 2:
            raise InputError(f"--want is needed: {name} is {' or '.join(map(shown_name, queried.labels[:8]))}")
        value["target"] = queried.labels[k]
        name = f"the probability of {name} = {shown_name(queried.labels[k])}"
    elif want is not None:
        raise InputError(f"--want {want}: {name} is a number")
    rising = columns.number_columns(claims.rises, "--rises")
    falling = columns.number_columns(claims.falls, "--falls")
    result = []
    try:
        for column, place in rising.items():
            result.append((f"{name} never falls when {shown_name(column)} rises", tree.rises(place, **value)))
        for column, place in falling.items():
            result.append((f"{name} never rises when {shown_name(column)} rises", tree.falls(place, **value)))
        for column in columns.named(claims.independent, "--independent"):
            result.append(
                (
                    f"the predicted {queried.name} never depends on {shown_name(column)}",
                    _independent(queried, column, permitted),
                )
            )
        if claims.at_most is not None:
            result.append((f"{name} is at most {number(claims.at_most)}", tree.at_most(claims.at_most, **value)))
        if claims.at_least is not None:
            result.append((f"{name} is at least {number(claims.at_least)}", tree.at_least(claims.at_least, **value)))
    except ValueError as error:
        raise InputError(in_columns(str(error))) from None
    return result


def _independent(queried: QueriedModel, column: str, permitted: dict[str, Any]) -> Verdict:
    """Of the class that the model decides."""
    tree = queried.model.decided_tree(queried.tree)
    return tree.independent(queried.columns.places[column], output=queried.output, **permitted)


@dataclass(frozen=True)
class Checked:
    """A property and its verdict, in columns."""

    queried: QueriedModel
    claim: str
    verdict: Verdict

    def lines(self) -> list[str]:
        """The printed lines."""
        if self.verdict:
            return [f"proved: {self.claim} ({count(self.verdict.n_solved, 'programme')})"]
        if not self.verdict.decided:
            return [f"not decided: {self.claim}; give narrower ranges with --within"]
        rows = [self.queried.columns.values(row) for row in self.verdict.rows]
        lines = [f"refuted: {self.claim}"]
        for place, row in enumerate(rows):
            differing = {name: value for name, value in row.items() if place == 0 or value != rows[0][name]}
            words = ", ".join(f"{shown_name(name)} {_among(rows, name, place)}" for name in differing)
            start = "  with" if place == 0 else "  and then"
            lines.append(f"{start} {words}: {shown(self.verdict.outputs[place])}")
        return lines

    def plain(self) -> dict[str, Any]:
        """JSON values."""
        rows = [self.queried.columns.values(row) for row in self.verdict.rows]
        return {
            "claim": self.claim,
            "proved": bool(self.verdict),
            "decided": self.verdict.decided,
            "rows": rows,
            "predictions": [json_value(value) for value in self.verdict.outputs],
            "programmes": self.verdict.n_solved,
        }


def _among(rows: Sequence[dict[str, Any]], name: str, place: int) -> str:
    """A column of one of some rows, with as many digits as tell it from the others."""
    values = [row[name] for row in rows]
    return apart(values)[place] if all(isinstance(value, float) for value in values) else shown(values[place])
