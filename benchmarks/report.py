"""Results of the speed benchmark as JSON, as one table on the screen, and as tables in a page."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from benchmarks.comparison import Comparison

HEADS = ("what", "A", "B", "B ÷ A", "goal or exponent")


def write_json(results: Mapping[str, Any], path: Path) -> None:
    """Write results so that an interrupted write leaves the old file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".part")
    draft.write_text(json.dumps(results, indent=1, ensure_ascii=False, default=float) + "\n", encoding="utf-8")
    draft.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """Results, or none yet."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"parts": {}}


def amount(value: float, unit: str) -> str:
    """A number with its unit, three digits.

    Examples
    --------
    >>> amount(0.00123, "s"), amount(75.4, "s"), amount(2345.6, "ns/row"), amount(12.34, "MB")
    ('1.23 ms', '75.4 s', '2,346 ns/row', '12.3 MB')
    """
    if unit == "s":
        for factor, name in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
            if value * factor >= 1:
                return f"{digits(value * factor)} {name}"
        return f"{digits(value * 1e9)} ns"
    return f"{digits(value)} {unit}"


def digits(value: float) -> str:
    """Three significant digits, or all before the point.

    Examples
    --------
    >>> digits(0.12345), digits(12.345), digits(12345.6), digits(0.0)
    ('0.123', '12.3', '12,346', '0')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    after = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{after}f}"


def cells(comparison: Comparison) -> tuple[str, ...]:
    """A comparison as a line of a table."""
    a, b = (f"{measure.name} {amount(measure.value, comparison.unit)}" for measure in (comparison.a, comparison.b))
    mark = {True: " ✓", False: " ✗", None: ""}[comparison.met]
    return comparison.what, a, b, digits(comparison.ratio), comparison.goal + mark


def comparisons(results: Mapping[str, Any], part: str) -> list[Comparison]:
    """The comparisons of a part."""
    return [Comparison.from_dict(fields) for fields in results["parts"][part]["comparisons"]]


def screen_table(results: Mapping[str, Any]) -> Table:
    """All comparisons as one table."""
    table = Table(*HEADS, title="Speed: A and B were measured in turn in one run", title_justify="left")
    for column in table.columns[3:4]:
        column.justify = "right"
    for part in results["parts"]:
        for comparison in comparisons(results, part):
            style = {True: "green", False: "red", None: ""}[comparison.met]
            *most, goal = cells(comparison)
            table.add_row(*most, Text(goal, style=style))
        table.add_section()
    return table


def markdown(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table.

    Examples
    --------
    >>> print(markdown(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    rule = "|" + "---|" * len(heads)
    return "\n".join([f"| {' | '.join(heads)} |", rule, *(f"| {' | '.join(line)} |" for line in lines)])


def fill(text: str, blocks: Mapping[str, str]) -> str:
    """Replace what stands between ``<!-- begin: name -->`` and ``<!-- end: name -->`` by the block of that name.

    Examples
    --------
    >>> fill("<!-- begin: a -->old<!-- end: a -->", {"a": "new"})
    '<!-- begin: a -->\\nnew\\n<!-- end: a -->'
    """
    for name, block in blocks.items():
        begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"the page has no place for {name!r}: add {begin} and {end}")
        text = f"{before}{begin}\n{block}\n{end}{after}"
    return text
