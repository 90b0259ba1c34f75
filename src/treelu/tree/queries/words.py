"""Numbers, features and tables in words, for the results of queries."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from treelu.tree.numbers import shown_apart as apart
from treelu.tree.numbers import shown_number as number

__all__ = ["apart", "count", "html_table", "html_text", "number", "text_table"]


def count(n: int, word: str) -> str:
    """A number with its noun.

    Examples
    --------
    >>> count(1, "leaf"), count(3, "leaf"), count(2, "programme")
    ('1 leaf', '3 leaves', '2 programmes')
    """
    plural = {"leaf": "leaves", "is": "are"}.get(word, f"{word}s")
    return f"{n:,} {word if n == 1 else plural}"


def row_words(within: str) -> str:
    """A row that a query permits, in words.

    Examples
    --------
    >>> row_words("within the training ranges"), row_words("")
    ('row within the training ranges', 'permitted row')
    """
    return f"row {within}" if within else "permitted row"


def text_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Indented lines with aligned columns, the first one to the left, the others to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))] if rows else []
    lines = []
    for row in rows:
        cells = [cell.ljust(width) if k == 0 else cell.rjust(width)
                 for k, (cell, width) in enumerate(zip(row, widths, strict=True))]  # fmt: skip
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A plain table for a notebook."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:{"left" if k == 0 else "right"}">{escape(cell)}</td>'
                         for k, cell in enumerate(row)) + "</tr>"
        for row in rows
    )  # fmt: skip
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_text(*paragraphs: str) -> str:
    """Paragraphs for a notebook."""
    return "".join(f"<p>{escape(text)}</p>" for text in paragraphs)
