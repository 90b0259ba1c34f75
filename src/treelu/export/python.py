"""A program as one Python file that needs the standard library only."""

from __future__ import annotations

from typing import Any

from treelu.export.examples import examples
from treelu.export.literals import digits, header
from treelu.export.program import (
    BLANKS,
    Category,
    DatePart,
    Feature,
    Missing,
    Number,
    Other,
    Part,
    Program,
    Term,
    as_program,
    linear_terms,
    questions,
)
from treelu.export.templates import fill
from treelu.tree import ObliqueTree


def to_python(model: ObliqueTree | Program, *, name: str | None = None, trained: str | None = None) -> str:
    """A tree or a program as a typed Python module without dependencies.

    The module has ``predict(row)`` for a mapping from column names to values, ``apply(row)`` for the leaves, and
    ``self_test()``. As a script it runs its self-test, or predicts for a CSV file: ``python -I model.py rows.csv``.

    Parameters
    ----------
    model : ObliqueTree or Program
    name, trained : str, optional
        For the header: what it is called, and the day of training.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0, -1.0]], [0.5], [[1, 2]], [[0.25], [4.0]], feature_names=["height", "age"])
    >>> module = {"__name__": "tree"}
    >>> exec(tree.to_python(), module)
    >>> module["predict"]({"height": 2, "age": 1})
    {'prediction': 4.0}
    """
    whole = as_program(model, name, trained)
    program = whole.compacted()
    return fill(
        _TEMPLATE,
        HEADER="\n".join(f"# {line}" for line in header(whole)),
        BLANKS=ascii(BLANKS),
        COLUMNS=_lines(_column(program, number) for number in program.used_columns),
        FEATURES=_lines(_feature(program, number) for number in range(len(program.features))),
        QUESTIONS=_trees(program, _questions),
        LEAVES=_trees(program, _leaves),
        LINEAR=_trees(program, _linear),
        PARTS=_lines(_parts(program)),
        EXAMPLES=_lines(_examples(program)),
    )


def _lines(items: Any) -> str:
    return "".join(f"    {item},\n" for item in items)


def _column(program: Program, number: int) -> str:
    column = program.columns[number]
    style = None
    if column.kind == "number" and (column.decimal, column.thousands, column.marks) != (".", "", ()):
        style = (column.decimal, column.thousands, column.marks)
    how = ascii(column.format if column.kind == "date" else style)
    return f"({ascii(column.name)}, {column.kind!r}, {ascii(column.missing)}, {how})"


def _feature(program: Program, number: int) -> str:
    feature: Feature = program.features[number]
    column = program.used_columns.index(feature.column)
    if isinstance(feature, Number):
        return f'("number", {column}, {None if feature.fill is None else digits(feature.fill)})'
    if isinstance(feature, Missing):
        return f'("missing", {column}, None)'
    if isinstance(feature, Category):
        return f'("category", {column}, {ascii(feature.text)})'
    if isinstance(feature, Other):
        return f'("other", {column}, {ascii(feature.known)})'
    if isinstance(feature, DatePart):
        return f'("date", {column}, ({feature.part!r}, {digits(feature.fill)}))'
    raise TypeError(f"features of the kind {type(feature).__name__} cannot be written as Python")


def _trees(program: Program, write: Any) -> str:
    return "".join(f"    [\n{write(part, tree)}    ],\n" for part in program.parts for tree in part.trees)


def _written(terms: list[Term]) -> str:
    return "[" + ", ".join(f"({feature}, {digits(weight)})" for feature, weight in terms) + "]"


def _questions(part: Part, tree: ObliqueTree) -> str:
    return "".join(
        f"        ({_written(asked.terms)}, {digits(asked.bias)}, {asked.left}, {asked.right}),\n"
        for asked in questions(tree)
    )


def _leaves(part: Part, tree: ObliqueTree) -> str:
    values = part.leaf_answers()[0] if part.is_lookup else part.leaf_values(tree).tolist()
    return "".join(f"        [{', '.join(map(digits, leaf))}],\n" for leaf in values)


def _linear(part: Part, tree: ObliqueTree) -> str:
    leaves = linear_terms(tree) or []
    return "".join(f"        [{', '.join(_written(terms) for terms in leaf)}],\n" for leaf in leaves)


def _parts(program: Program) -> list[str]:
    lines, first = [], 0
    for part in program.parts:
        labels = part.leaf_answers()[1] if part.is_lookup else None
        link = "lookup" if part.is_lookup else part.link
        classes = None if part.classes is None else ascii(part.classes)
        mean = part.combine != "sum"
        names = ascii(list(part.outputs))
        lines.append(f"({first}, {len(part.trees)}, {mean}, {link!r}, {part.only}, {classes}, {labels}, {names})")
        first += len(part.trees)
    return lines


def _examples(program: Program) -> list[str]:
    lines = []
    for example in examples(program):
        row = {program.columns[number].name: example.row[number] for number in program.used_columns}
        label = None
        if example.label is not None and program.parts[0].classes is not None:
            label = program.parts[0].classes[example.label]
        outputs = ", ".join(map(digits, example.outputs))
        lines.append(f"({ascii(row)}, {list(example.leaves)}, {ascii(label)}, [{outputs}])")
    return lines


_TEMPLATE = '''\
@HEADER@
#
# predict(row) takes a mapping from column names to values: numbers, texts, None where one is missing.
# python -I THIS_FILE              runs the self-test
# python -I THIS_FILE rows.csv     predicts for the rows of a CSV file

from __future__ import annotations

import csv
import math
import re
import sys
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from typing import Any

BLANKS = @BLANKS@
SPACES = {0xA0: " ", 0x202F: " ", 0x2009: " ", 0x2212: "-", 0x2019: "'"}
# name, kind, texts that count as missing, how numbers or dates are written
COLUMNS: list[tuple[str, str, tuple[str, ...], Any]] = [
@COLUMNS@]
# kind, column, what it is compared with or filled with
FEATURES: list[tuple[str, int, Any]] = [
@FEATURES@]
# for each tree its questions: terms (feature, weight), bias, next node if the sum is below 0, next node otherwise
QUESTIONS: list[list[tuple[list[tuple[int, float]], float, int, int]]] = [
@QUESTIONS@]
# for each tree the outputs of its leaves
LEAVES: list[list[list[float]]] = [
@LEAVES@]
# for each tree with linear leaves the terms of each output of each leaf
LINEAR: list[list[list[list[tuple[int, float]]]]] = [
@LINEAR@]
# first tree, number of trees, whether their mean is taken, link, the only output, classes, classes of leaves, outputs
PARTS: list[tuple[int, int, bool, str, int | None, list[Any] | None, list[int] | None, list[str]]] = [
@PARTS@]
# row, leaves, class, outputs
EXAMPLES: list[tuple[dict[str, Any], list[int], Any, list[float]]] = [
@EXAMPLES@]


def _text(value: Any, missing: tuple[str, ...]) -> str | None:
    if value is None or value != value:
        return None
    text = str(value).strip(BLANKS)
    return None if text == "" or text in missing else text


def _written_number(text: str, style: tuple[str, str, tuple[str, ...]] | None) -> float | None:
    """A text as a number; None where it is none."""
    decimal, thousands, marks = style if style is not None else (".", "", ())
    if style is not None:
        text = text.translate(SPACES).strip()
        for mark in marks:
            text = text.replace(mark, "", 1)
        text = text.strip()
        if text.startswith("(") and text.endswith(")"):
            text = "-" + text[1:-1].strip()
        text = re.sub(r"^([-+])\\s+", r"\\1", text)
    groups = rf"|[0-9]{{1,3}}(?:{re.escape(thousands)}[0-9]{{3}})+" if thousands else ""
    point = re.escape(decimal)
    if not re.fullmatch(rf"[-+]?(?:(?:[0-9]+{groups})(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][-+]?[0-9]+)?", text):
        return None
    text = text.replace(thousands, "") if thousands else text
    return float(text.replace(decimal, "."))


def _number(name: str, value: Any, missing: tuple[str, ...], style: Any) -> float | None:
    if isinstance(value, str):
        text = _text(value, missing)
        if text is None:
            return None
        number = {"true": 1.0, "false": 0.0}.get(text.lower(), _written_number(text, style))
        if number is None:
            raise ValueError(f"column {name!r}: {value!r} is not a number")
        value = number
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"column {name!r}: {value!r} is not a number") from None
    if math.isinf(number):
        raise ValueError(f"column {name!r}: infinity; None if it is unknown")
    return None if math.isnan(number) else number


def _written_date(text: str, style: str | None) -> datetime | None:
    """A text as a moment, in its own format or as ISO 8601; None where it is none."""
    if style is not None:
        try:
            return datetime.strptime(text, style)
        except ValueError:
            pass
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _date(name: str, value: Any, missing: tuple[str, ...], style: str | None) -> datetime | None:
    """A moment in UTC, from a date, a datetime or a text."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    moment = value if isinstance(value, datetime) else None
    text = _text(value, missing) if moment is None else None
    if moment is None and text is None:
        return None
    if text is not None:
        moment = _written_date(text, style)
    if moment is None:
        raise ValueError(f"column {name!r}: {value!r} is not a date")
    return moment if moment.tzinfo is None else moment.astimezone(timezone.utc).replace(tzinfo=None)


def _date_part(moment: datetime, part: str) -> float:
    if part == "days since 1970":
        return float((moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)) / 86_400_000_000
    parts = {"year": moment.year, "month": moment.month, "hour": moment.hour, "day of week": moment.isoweekday()}
    return float(parts[part])


READERS: dict[str, Any] = {
    "number": _number,
    "text": lambda name, value, missing, style: _text(value, missing),
    "date": _date,
}


def encode(row: Mapping[str, Any]) -> list[float]:
    """The features that the trees ask about; NaN where a value is missing and nothing stands in for it."""
    cells: list[Any] = []
    for name, kind, missing, style in COLUMNS:
        if name not in row:
            raise KeyError(f"the row has no column {name!r}")
        cells.append(READERS[kind](name, row[name], missing, style))
    x: list[float] = []
    for kind, column, other in FEATURES:
        cell = cells[column]
        if kind == "number":
            filled = other if cell is None else cell
            x.append(math.nan if filled is None else filled)
        elif kind == "missing":
            x.append(1.0 if cell is None else 0.0)
        elif kind == "category":
            x.append(1.0 if cell == other else 0.0)
        elif kind == "other":
            x.append(0.0 if cell is None or cell in other else 1.0)
        else:
            x.append(other[1] if cell is None else _date_part(cell, other[0]))
    return x


def _sum(terms: list[tuple[int, float]], last: float, x: list[float]) -> float:
    if not terms:
        return last
    feature, weight = terms[0]
    total = weight * x[feature]
    for feature, weight in terms[1:]:
        total += weight * x[feature]
    return total + last


def _route(tree: int, x: list[float]) -> int:
    node, questions = 0, QUESTIONS[tree]
    while node < len(questions):
        terms, bias, left, right = questions[node]
        score = _sum(terms, bias, x)
        if not math.isfinite(score):
            raise ValueError("a number that the tree asks for is missing, or the numbers are too large to add up")
        node = right if score >= 0 else left
    return node


def apply(row: Mapping[str, Any]) -> list[int]:
    """The number of the leaf that the row reaches in each tree."""
    x = encode(row)
    return [_route(tree, x) for tree in range(len(QUESTIONS))]


def _leaf_outputs(tree: int, leaf: int, x: list[float]) -> list[float]:
    values = LEAVES[tree][leaf]
    if not LINEAR[tree]:
        return values
    return [_sum(terms, value, x) for terms, value in zip(LINEAR[tree][leaf], values)]


def _probabilities(link: str, scores: list[float]) -> list[float]:
    if link == "logistic":
        small = math.exp(-abs(scores[0]))
        low, high = small / (1.0 + small), 1.0 / (1.0 + small)
        return [low, high] if scores[0] > 0 else [high, low]
    if link == "softmax":
        largest = max(scores)
        parts = [math.exp(score - largest) for score in scores]
        return [part / sum(parts) for part in parts]
    return scores


def predict(row: Mapping[str, Any]) -> dict[str, Any]:
    """The answers by name: the class as "prediction" and probabilities, or values."""
    x = encode(row)
    answer: dict[str, Any] = {}
    for first, count, mean, link, only, classes, leaf_labels, names in PARTS:
        leaf = _route(first, x) - len(QUESTIONS[first])
        outputs = _leaf_outputs(first, leaf, x)
        if link == "lookup":
            label = leaf_labels[leaf] if leaf_labels is not None else 0
        else:
            scores = list(outputs)
            for tree in range(first + 1, first + count):
                leaf = _route(tree, x) - len(QUESTIONS[tree])
                scores = [total + value for total, value in zip(scores, _leaf_outputs(tree, leaf, x))]
            if mean:
                scores = [total / count for total in scores]
            label = int(scores[0] > 0) if link == "logistic" else scores.index(max(scores))
            outputs = _probabilities(link, scores)
            outputs = outputs if only is None else [outputs[only]]
        if classes is not None:
            answer["prediction"] = classes[label]
        answer.update(zip(names, outputs))
    return answer


def self_test() -> int:
    """The number of example rows whose leaf or answer is not the expected one."""
    failures = 0
    for row, leaves, label, outputs in EXAMPLES:
        answer = predict(row)
        found = [answer[name] for part in PARTS for name in part[-1]]
        close = all(abs(a - b) <= 1e-9 * (1.0 + abs(b)) for a, b in zip(found, outputs))
        failures += apply(row) != leaves or not close or (label is not None and answer["prediction"] != label)
    return failures


def main(arguments: list[str]) -> int:
    """Run the self-test, or predict for a CSV file."""
    if not arguments:
        failures = self_test()
        print(f"{len(EXAMPLES) - failures} of {len(EXAMPLES)} example rows as expected")
        return 1 if failures else 0
    with open(arguments[0], encoding="utf-8-sig", newline="") as file:
        writer = None
        for row in csv.DictReader(file):
            answer = predict(row)
            if writer is None:
                writer = csv.writer(sys.stdout, lineterminator="\\n")
                writer.writerow(answer)
            writer.writerow(answer.values())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
'''
