"""A program as one JavaScript (ES) module without dependencies, for browsers, Node, Deno and Bun."""

from __future__ import annotations

import json
import re
from typing import Any

from treelu.export.examples import Example
from treelu.export.literals import digits
from treelu.export.program import Column, Part, Program, as_program
from treelu.export.scripts import Language, write_script
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
    return write_script(as_program(model, name, trained), _JAVASCRIPT)


def _value(value: Any) -> str:
    """A label, a cell, or a sequence; in a text nothing ends a script element either."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return f"{value}n" if abs(value) > _SAFE_INTEGER else str(value)
    if isinstance(value, float):
        return digits(value)
    return json.dumps(str(value)).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _column(column: Column) -> str:
    fields = (_value(column.missing), _style(column), _value(column.required))
    return f'[{_value(column.name)}, "{column.kind}", {", ".join(fields)}]'


def _style(column: Column) -> str:
    """How numbers or dates are written as texts (a regular expression and its groups), or the categories of numbers."""
    if column.is_styled:
        return _value((column.decimal, column.thousands, column.marks))
    if column.kind == "date" and column.format is not None:
        pattern, groups = _date_pattern(column.format)
        return f"[new RegExp({_value(pattern)}), {_value(groups)}]"
    return f"new Map({_value(tuple(column.rewritten.items()))})" if column.rewritten else "null"


def _date_pattern(format: str) -> tuple[str, str]:
    """The regular expression of a format of `strptime`, and the letter of each of its groups."""
    pattern, groups = "", ""
    for letter, plain in re.findall(r"%(.)|([^%])", format, re.DOTALL):
        if letter and letter not in _DIRECTIVES:
            raise ValueError(f"a format of dates with %{letter} cannot be written as JavaScript: {format!r}")
        pattern += _DIRECTIVES[letter] if letter else f"\\u{ord(plain):04x}"
        groups += letter
    return f"^{pattern}$", groups


def _feature(column: int, kind: str, fields: tuple[Any, ...]) -> str:
    texts = ("NaN" if field is None else _value(field) for field in fields)
    return f"[{', '.join([_value(kind), str(column), *texts])}]"


def _part(first: int, part: Part) -> str:
    fields = {
        "first": first,
        "count": len(part.trees),
        "mean": part.combine != "sum",
        "link": "lookup" if part.is_lookup else part.link,
        "only": part.only,
        "threshold": part.threshold,
        "classes": part.classes,
        "leafLabels": part.leaf_labels,
        "names": part.outputs,
    }
    return "{ " + ", ".join(f"{name}: {_value(value)}" for name, value in fields.items()) + " }"


def _examples(program: Program, examples: list[Example]) -> list[str]:
    """The names of the columns, then a line for each row."""
    used = program.used_columns
    lines = [_value([program.columns[number].name for number in used])]
    for example in examples:
        row = [example.row[number] for number in used]
        lines.append(_value([row, example.leaves, example.label, example.outputs]))
    return lines


_JAVASCRIPT = Language(
    "program.js", "//", "  ", "[{}, {}, {}, {}]", "{}, {}", _value, _column, _feature, _part, _examples
)
