"""A program as one Python file that needs the standard library only."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from treelu.export.examples import examples
from treelu.export.literals import digits, fill, header, source
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
    linear_splits,
    linear_terms,
)
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
        source("program.py.txt"),
        HEADER="\n".join(f"# {line}" for line in header(whole)),
        BLANKS=ascii(BLANKS),
        COLUMNS=_lines(_column(program, number) for number in program.used_columns),
        FEATURES=_lines(_feature(program, feature) for feature in program.features),
        SPLITS=_trees(program, _splits),
        LEAVES=_trees(program, _leaves),
        LINEAR=_trees(program, _linear),
        PARTS=_lines(_parts(program)),
        EXAMPLES=_lines(_examples(program)),
    )


def _lines(items: Iterable[str]) -> str:
    return "".join(f"    {item},\n" for item in items)


def _column(program: Program, number: int) -> str:
    column = program.columns[number]
    how = {
        "number": (column.decimal, column.thousands, column.marks) if column.is_styled else None,
        "date": column.format,
        "text": column.rewritten or None,
    }
    return f"({column.name!a}, {column.kind!r}, {column.missing!a}, {how[column.kind]!a})"


def _feature(program: Program, feature: Feature) -> str:
    column = program.used_columns.index(feature.column)
    match feature:
        case Number(_, fill):
            return f'("number", {column}, {None if fill is None else digits(fill)})'
        case Missing():
            return f'("missing", {column}, None)'
        case Category(_, text):
            return f'("category", {column}, {text!a})'
        case Other(_, known):
            return f'("other", {column}, {known!a})'
        case DatePart(_, part, fill):
            return f'("date", {column}, ({part!r}, {digits(fill)}))'


def _trees(program: Program, write: Callable[[Part, ObliqueTree], str]) -> str:
    return "".join(f"    [\n{write(part, tree)}    ],\n" for part in program.parts for tree in part.trees)


def _written(terms: list[Term]) -> str:
    return "[" + ", ".join(f"({feature}, {digits(weight)})" for feature, weight in terms) + "]"


def _splits(part: Part, tree: ObliqueTree) -> str:
    return "".join(
        f"        ({_written(split.terms)}, {digits(split.bias)}, {split.left}, {split.right}),\n"
        for split in linear_splits(tree)
    )


def _leaves(part: Part, tree: ObliqueTree) -> str:
    return "".join(f"        [{', '.join(map(digits, leaf))}],\n" for leaf in part.leaf_outputs(tree))


def _linear(part: Part, tree: ObliqueTree) -> str:
    return "".join(f"        [{', '.join(map(_written, leaf))}],\n" for leaf in linear_terms(tree) or [])


def _parts(program: Program) -> list[str]:
    lines, first = [], 0
    for part in program.parts:
        link = "lookup" if part.is_lookup else part.link
        classes = None if part.classes is None else ascii(part.classes)
        mean = part.combine != "sum"
        names = ascii(list(part.outputs))
        least = None if part.threshold is None else f"({part.threshold[0]}, {digits(part.threshold[1])})"
        fields = (first, len(part.trees), mean, f"{link!r}", part.only, least, classes, part.leaf_labels, names)
        lines.append(f"({', '.join(map(str, fields))})")
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
        lines.append(f"({row!a}, {list(example.leaves)}, {label!a}, [{outputs}])")
    return lines
