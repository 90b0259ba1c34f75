"""A program as one JavaScript (ES) module without dependencies, for browsers, Node, Deno and Bun."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from treelu.export.examples import examples
from treelu.export.literals import digits, fill, header, source
from treelu.export.program import (
    BLANKS,
    Category,
    Column,
    DatePart,
    Feature,
    Missing,
    Number,
    Other,
    Part,
    Program,
    Term,
    as_program,
    linear_splits,
    linear_terms,
)
from treelu.tree import ObliqueTree

_SAFE_INTEGER = 2**53
_DIRECTIVES = {
    **dict.fromkeys("mdHIMS", "(\\d{1,2})"),
    "Y": "(\\d{4})",
    "y": "(\\d{2})",
    "b": "([A-Za-z]{3})",
    "B": "([A-Za-z]+)",
    "p": "([AaPp][Mm])",
    "f": "(\\d{1,6})",
    "z": "(Z|[-+]\\d{2}:?\\d{2})",
}


def to_javascript(model: ObliqueTree | Program, *, name: str | None = None, trained: str | None = None) -> str:
    """A tree or a program as an ES module.

    It exports ``predict(row)`` for an object with a property for each column, ``apply(row)`` for the leaves, and
    ``selfTest()``, the number of example rows that are not answered as expected.

    Parameters
    ----------
    model : ObliqueTree or Program
    name, trained : str, optional
        For the header: what it is called, and the day of training.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0, -1.0]], [0.5], [[1, 2]], [[0.25], [4.0]], feature_names=["height", "age"])
    >>> print(tree.to_javascript(name="growth"))
    // growth: 1 tree, 2 leaves, 2 of 2 columns used
    ...
    """
    whole = as_program(model, name, trained)
    program = whole.compacted()
    return fill(
        source("program.js"),
        HEADER="\n".join(f"// {line}" for line in header(whole)),
        BLANKS=_text(BLANKS),
        COLUMNS=_lines(_column(program, number) for number in program.used_columns),
        FEATURES=_lines(_feature(program, feature) for feature in program.features),
        SPLITS=_trees(program, _splits),
        LEAVES=_trees(program, _leaves),
        LINEAR=_trees(program, _linear),
        PARTS=_lines(_parts(program)),
        EXAMPLES=_lines(_examples(program)),
    )


def _text(text: str) -> str:
    """A string literal, in which nothing ends a script element either."""
    return json.dumps(text).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _texts(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"


def _value(value: Any) -> str:
    """A label or a cell."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return f"{value}n" if abs(value) > _SAFE_INTEGER else str(value)
    return digits(value) if isinstance(value, float) else _text(str(value))


def _lines(items: Iterable[str]) -> str:
    return "".join(f"  {item},\n" for item in items)


def _column(program: Program, number: int) -> str:
    column = program.columns[number]
    return f'[{_text(column.name)}, "{column.kind}", {_texts(column.missing)}, {_style(column)}]'


def _style(column: Column) -> str:
    """How numbers or dates are written as texts (a regular expression and its groups), or the categories of numbers."""
    if column.is_styled:
        return f"[{_text(column.decimal)}, {_text(column.thousands)}, {_texts(column.marks)}]"
    if column.kind == "date" and column.format is not None:
        pattern, groups = _date_pattern(column.format)
        return f"[new RegExp({_text(pattern)}), {_text(groups)}]"
    if column.rewritten:
        return f"new Map([{', '.join(f'[{_text(text)}, {_text(code)}]' for text, code in column.rewritten.items())}])"
    return "null"


def _date_pattern(format: str) -> tuple[str, str]:
    """The regular expression of a format of `strptime`, and the letter of each of its groups."""
    pattern, groups, place = "", "", 0
    while place < len(format):
        if format[place] != "%":
            pattern += f"\\u{ord(format[place]):04x}"
            place += 1
            continue
        letter = format[place + 1]
        if letter not in _DIRECTIVES:
            raise ValueError(f"a format of dates with %{letter} cannot be written as JavaScript: {format!r}")
        pattern, groups, place = pattern + _DIRECTIVES[letter], groups + letter, place + 2
    return f"^{pattern}$", groups


def _feature(program: Program, feature: Feature) -> str:
    column = program.used_columns.index(feature.column)
    match feature:
        case Number(_, fill):
            return f'["number", {column}, {"NaN" if fill is None else digits(fill)}]'
        case Missing():
            return f'["missing", {column}]'
        case Category(_, text):
            return f'["category", {column}, {_text(text)}]'
        case Other(_, known):
            return f'["other", {column}, {_texts(known)}]'
        case DatePart(_, part, fill):
            return f'["date", {column}, "{part}", {digits(fill)}]'


def _trees(program: Program, write: Callable[[Part, ObliqueTree], str]) -> str:
    return "".join(f"  [\n{write(part, tree)}  ],\n" for part in program.parts for tree in part.trees)


def _written(terms: list[Term]) -> str:
    return "[" + ", ".join(f"{feature}, {digits(weight)}" for feature, weight in terms) + "]"


def _splits(part: Part, tree: ObliqueTree) -> str:
    return "".join(
        f"    [{_written(split.terms)}, {digits(split.bias)}, {split.left}, {split.right}],\n"
        for split in linear_splits(tree)
    )


def _leaves(part: Part, tree: ObliqueTree) -> str:
    return "".join(f"    [{', '.join(map(digits, leaf))}],\n" for leaf in part.leaf_outputs(tree))


def _linear(part: Part, tree: ObliqueTree) -> str:
    return "".join(f"    [{', '.join(map(_written, leaf))}],\n" for leaf in linear_terms(tree) or [])


def _parts(program: Program) -> list[str]:
    lines, first = [], 0
    for part in program.parts:
        fields = {
            "first": str(first),
            "count": str(len(part.trees)),
            "mean": _value(part.combine != "sum"),
            "link": _text("lookup" if part.is_lookup else part.link),
            "only": json.dumps(part.only),
            "threshold": "null" if part.threshold is None else f"[{part.threshold[0]}, {digits(part.threshold[1])}]",
            "classes": "null" if part.classes is None else f"[{', '.join(map(_value, part.classes))}]",
            "leafLabels": json.dumps(part.leaf_labels),
            "names": _texts(part.outputs),
        }
        lines.append("{ " + ", ".join(f"{name}: {value}" for name, value in fields.items()) + " }")
        first += len(part.trees)
    return lines


def _examples(program: Program) -> list[str]:
    lines = []
    names = _texts(program.columns[number].name for number in program.used_columns)
    for example in examples(program):
        row = ", ".join(_value(example.row[number]) for number in program.used_columns)
        outputs = ", ".join(map(digits, example.outputs))
        label = "null" if example.label is None else str(example.label)
        lines.append(f"[[{row}], {list(example.leaves)}, {label}, [{outputs}]]")
    return [names, *lines]
