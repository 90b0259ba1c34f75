"""A program's tables as literals in a template: what the Python and JavaScript exports share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from treelu.export.examples import Example, examples
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
    linear_splits,
    linear_terms,
)


@dataclass(frozen=True)
class Language:
    """How a language writes what the templates of all have.

    `value` writes a label, a text or a sequence of them; `split` and `term` have places for their parts; `examples`
    writes the example rows of a program, on the columns that it uses.
    """

    template: str
    comment: str
    indent: str
    split: str
    term: str
    value: Callable[[Any], str]
    column: Callable[[Column], str]
    feature: Callable[[int, str, tuple[Any, ...]], str]
    part: Callable[[int, Part], str]
    examples: Callable[[Program, list[Example]], Iterable[str]]


def write_script(program: Program, language: Language) -> str:
    """The whole text."""
    whole, program = program, program.compacted()
    columns, trees = program.used_columns, [(part, tree) for part in program.parts for tree in part.trees]
    firsts = [sum(len(before.trees) for before in program.parts[:number]) for number in range(len(program.parts))]

    def lines(items: Iterable[str], depth: int = 1) -> str:
        return "".join(f"{language.indent * depth}{item},\n" for item in items)

    def blocks(items: Iterable[Iterable[str]]) -> str:
        return "".join(f"{language.indent}[\n{lines(block, 2)}{language.indent}],\n" for block in items)

    def terms(found: list[Term]) -> str:
        return "[" + ", ".join(language.term.format(feature, digits(weight)) for feature, weight in found) + "]"

    return fill(
        source(language.template),
        HEADER="\n".join(f"{language.comment} {line}" for line in header(whole)),
        BLANKS=language.value(BLANKS),
        COLUMNS=lines(language.column(program.columns[number]) for number in columns),
        FEATURES=lines(language.feature(columns.index(each.column), *_fields(each)) for each in program.features),
        SPLITS=blocks(
            [
                language.split.format(terms(split.terms), digits(split.bias), split.left, split.right)
                for split in linear_splits(tree)
            ]
            for _, tree in trees
        ),
        LEAVES=blocks(
            [f"[{', '.join(map(digits, leaf))}]" for leaf in part.leaf_outputs(tree)] for part, tree in trees
        ),
        LINEAR=blocks([f"[{', '.join(map(terms, leaf))}]" for leaf in linear_terms(tree) or []] for _, tree in trees),
        PARTS=lines(map(language.part, firsts, program.parts)),
        EXAMPLES=lines(language.examples(program, examples(program))),
    )


def _fields(feature: Feature) -> tuple[str, tuple[Any, ...]]:
    """The kind of a feature, and what it is compared or filled with."""
    match feature:
        case Number(_, fill):
            return "number", (fill,)
        case Missing():
            return "missing", ()
        case Category(_, text):
            return "category", (text,)
        case Other(_, known):
            return "other", (known,)
        case DatePart(_, part, fill):
            return "date", (part, fill)
