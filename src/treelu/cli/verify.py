"""`treelu verify`: properties of a saved tree, proved for all rows or refuted by rows, in the columns of its table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treelu.cli.messages import InputError, count, tell, write_json
from treelu.cli.model import QueriedModel, in_columns, json_value, load_table_model, shown
from treelu.cli.options import VerifyOptions
from treelu.tree.names import shown_name
from treelu.tree.queries.properties import Verdict
from treelu.tree.queries.words import apart, number


def verify_model(options: VerifyOptions) -> bool:
    """Print whether each property is proved or refuted; True where all are proved."""
    queried = QueriedModel(load_table_model(options.model), options.label)
    checked = [
        (claim, verdict, [queried.columns.values(row) for row in verdict.rows])
        for claim, verdict in _verdicts(queried, options)
    ]
    if not checked:
        raise InputError("nothing to verify; give --rises, --falls, --independent, --at-most or --at-least")
    if options.as_json:
        write_json([_plain(*one) for one in checked])
    else:
        for one in checked:
            tell("\n".join(_lines(*one)))
    return all(verdict for _, verdict, _ in checked)


def _verdicts(queried: QueriedModel, options: VerifyOptions) -> list[tuple[str, Verdict]]:
    columns, tree = queried.columns, queried.tree
    permitted = columns.everywhere(options.within, options.whole)
    name, value = _checked_value(queried, options.want)
    value |= permitted
    rising = columns.number_columns(options.rises, "--rises")
    falling = columns.number_columns(options.falls, "--falls")
    result = []
    try:
        for column, place in rising.items():
            result.append((f"{name} never falls when {shown_name(column)} rises", tree.rises(place, **value)))
        for column, place in falling.items():
            result.append((f"{name} never rises when {shown_name(column)} rises", tree.falls(place, **value)))
        decides = queried.model.decided_tree(tree)  # the class that the model decides
        for column in columns.named(options.independent, "--independent"):
            verdict = decides.independent(columns.places[column], output=queried.output, **permitted)
            result.append((f"the predicted {queried.name} never depends on {shown_name(column)}", verdict))
        if options.at_most is not None:
            result.append((f"{name} is at most {number(options.at_most)}", tree.at_most(options.at_most, **value)))
        if options.at_least is not None:
            result.append((f"{name} is at least {number(options.at_least)}", tree.at_least(options.at_least, **value)))
    except ValueError as error:
        raise InputError(in_columns(str(error))) from None
    return result


def _checked_value(queried: QueriedModel, want: str | None) -> tuple[str, dict[str, Any]]:
    """The name of the value that properties are about, and the arguments that select it."""
    name, labels, value = queried.name, queried.labels, {"output": queried.output}
    if not labels:
        if want is not None:
            raise InputError(f"--want {want}: {name} is a number")
        return name, value
    if want is None and len(labels) > 2:
        raise InputError(f"--want is needed: {name} is {' or '.join(map(shown_name, labels[:8]))}")
    label = labels[1 if want is None else queried.find_label(want)]
    return f"the probability of {name} = {shown_name(label)}", value | {"target": label}


def _lines(claim: str, verdict: Verdict, rows: Sequence[dict[str, Any]]) -> list[str]:
    """The printed lines of a property."""
    if verdict:
        return [f"proved: {claim} ({count(verdict.n_solved, 'programme')})"]
    if not verdict.decided:
        return [f"not decided: {claim}; give narrower ranges with --within"]
    lines = [f"refuted: {claim}"]
    for place, row in enumerate(rows):
        differing = [name for name, value in row.items() if place == 0 or value != rows[0][name]]
        words = ", ".join(f"{shown_name(name)} {_among(rows, name, place)}" for name in differing)
        lines.append(f"{'  and then' if place else '  with'} {words}: {shown(verdict.outputs[place])}")
    return lines


def _plain(claim: str, verdict: Verdict, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "claim": claim,
        "proved": bool(verdict),
        "decided": verdict.decided,
        "rows": rows,
        "predictions": [json_value(value) for value in verdict.outputs],
        "programmes": verdict.n_solved,
    }


def _among(rows: Sequence[dict[str, Any]], name: str, place: int) -> str:
    """A column of one of some rows, with as many digits as tell it from the others."""
    values = [row[name] for row in rows]
    return apart(values)[place] if all(isinstance(value, float) for value in values) else shown(values[place])
