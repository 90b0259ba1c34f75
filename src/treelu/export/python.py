"""A program as one Python file that needs the standard library only."""

from __future__ import annotations

from typing import Any

from treelu.export.examples import Example
from treelu.export.literals import digits
from treelu.export.program import Column, Part, Program, as_program
from treelu.export.scripts import Language, write_script
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
    return write_script(as_program(model, name, trained), _PYTHON)


def _column(column: Column) -> str:
    how = {
        "number": (column.decimal, column.thousands, column.marks) if column.is_styled else None,
        "date": column.format,
        "text": column.rewritten or None,
    }
    return f"({column.name!a}, {column.kind!r}, {column.missing!a}, {how[column.kind]!a}, {column.required})"


def _feature(column: int, kind: str, fields: tuple[Any, ...]) -> str:
    texts = [digits(field) if isinstance(field, float) else ascii(field) for field in fields or (None,)]
    return f'("{kind}", {column}, {texts[0] if len(texts) == 1 else "(" + ", ".join(texts) + ")"})'


def _part(first: int, part: Part) -> str:
    link = "lookup" if part.is_lookup else part.link
    classes = None if part.classes is None else ascii(part.classes)
    least = None if part.threshold is None else f"({part.threshold[0]}, {digits(part.threshold[1])})"
    names, mean = ascii(list(part.outputs)), part.combine != "sum"
    fields = (first, len(part.trees), mean, f"{link!r}", part.only, least, classes, part.leaf_labels, names)
    return f"({', '.join(map(str, fields))})"


def _examples(program: Program, examples: list[Example]) -> list[str]:
    lines, classes = [], program.parts[0].classes
    for example in examples:
        row = {program.columns[number].name: example.row[number] for number in program.used_columns}
        label = None if example.label is None or classes is None else classes[example.label]
        lines.append(f"({row!a}, {list(example.leaves)}, {label!a}, [{', '.join(map(digits, example.outputs))}])")
    return lines


_PYTHON = Language(
    "program.py.txt", "#", "    ", "({}, {}, {}, {})", "({}, {})", ascii, _column, _feature, _part, _examples
)
