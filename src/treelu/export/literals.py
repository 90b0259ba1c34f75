"""Numbers, texts and comments as source code, such that no name or category can end a literal or a comment."""

from __future__ import annotations

import re
from importlib import resources

from treelu import __version__
from treelu.export.program import Program

_LONGEST = 80  # characters of a name in a comment


def digits(value: float) -> str:
    """A double with 17 significant digits, from which it reads back to the last bit.

    >>> digits(0.1), digits(3.0), digits(-1e-300)
    ('0.10000000000000001', '3.0', '-1.0000000000000000e-300')
    """
    text = f"{value:.17g}"
    if "e" in text:
        return f"{value:.16e}"
    return text if "." in text else f"{text}.0"


def comment(text: str) -> str:
    """A text that is safe in a comment of any language: plain characters, others as codes, cut if long.

    >>> print(comment('age */ DROP TABLE "x"; --'))
    age \\u002a\\u002f DROP TABLE \\u0022x\\u0022\\u003b --
    """
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return re.sub(r"[^A-Za-z0-9 _.,:()+-]", lambda match: _code(ord(match[0])), shown)


def _code(number: int) -> str:
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def identifier(text: str, fallback: str = "tree") -> str:
    """A name for functions: letters, digits and underscores, not beginning with a digit.

    >>> identifier("loan risk (2026)"), identifier("9 lives"), identifier("дерево")
    ('loan_risk_2026', 'tree_9_lives', 'tree')
    """
    plain = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:40] or fallback
    return f"{fallback}_{plain}" if plain[0].isdigit() else plain


def header(program: Program) -> list[str]:
    """The header of each export: the model and its origin; safe in comments."""
    trees, used = program.trees, len(program.used_columns)
    leaves = sum(tree.n_leaves for tree in trees)
    size = f"{len(trees)} tree{'s' * (len(trees) != 1)}, {'1 leaf' if leaves == 1 else f'{leaves} leaves'}"
    lines = [
        f"{comment(program.name)}: {size}, {used} of {len(program.columns)} columns used",
        f"written by treelu {__version__}",
        f"trained: {comment(program.trained) or 'not recorded'}",
        f"sha256: {program.digest}",
    ]
    return lines + [f"note: {comment(note)}" for note in dict.fromkeys(note for tree in trees for note in tree.notes)]


def fill(template: str, **places: str) -> str:
    """The template with each ``@NAME@`` replaced, in one pass: what is filled in is never taken for a mark.

    >>> fill("x = @VALUE@", VALUE="'@VALUE@'")
    "x = '@VALUE@'"
    """
    return re.sub(r"@([A-Z_]+)@", lambda match: places[match[1]], template)


def source(name: str) -> str:
    """The text of a template in the folder ``sources``."""
    return resources.files("treelu.export").joinpath("sources", name).read_text("utf-8")


def sections(name: str) -> dict[str, str]:
    """The parts of a template, each below a line ``//// NAME``."""
    parts = re.split(r"^//// ([A-Z_]+)\n", source(name), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))
