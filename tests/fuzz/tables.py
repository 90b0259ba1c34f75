"""Altered tables: each becomes features and targets, or raises TableError or InputError with one line."""

from __future__ import annotations

import random
import tempfile
import warnings
from pathlib import Path

import numpy as np

from tests.fuzz.cases import Tally, altered_bytes, run_cases
from treelu.cli.messages import InputError, Notes
from treelu.cli.options import FitOptions
from treelu.cli.prepare import prepare
from treelu.tables import TableError

CELLS = [
    "", " ", "NA", "nan", "inf", "-inf", "1e400", "-0", "1,5", "1.234,5", "0x10", "1_000", "٣", "½", "TRUE",
    "2024-01-31", "31/12/99", "=1+1", "@x", "a\nb", 'say "hi"', "\x00", "\ufeff", "\u202e", "x" * 3000,
    "9" * 400, "1 kg", "€5", "5%",
]  # fmt: skip
HEADS = ["", "a", "A", "target", "x is missing", "a=b", "\n", "é", "Unnamed: 0", "0", "x" * 2000, '"', "a,b", "\x07"]


def some_table(rng: random.Random) -> list[list[str]]:
    """A header and rows of numbers, words and gaps, with a target that can be learned."""
    n_rows = rng.choice((1, 2, 5, 30, 30))
    rows = [["age", "word", "target"]]
    for k in range(n_rows):
        rows.append([f"{rng.gauss(40, 10):.1f}", rng.choice(["red", "green", "blue"]), str(k % 2)])
    return rows


def altered(rng: random.Random, rows: list[list[str]]) -> list[list[str]]:
    """Cells, heads, rows and columns replaced, doubled or taken out."""
    for _ in range(rng.choice((0, 1, 1, 3, 20))):
        row = rng.randrange(len(rows))
        kind = rng.randrange(7)
        if kind <= 2 and rows[row]:
            rows[row][rng.randrange(len(rows[row]))] = rng.choice(CELLS)
        elif kind == 3:
            rows[0][rng.randrange(len(rows[0]))] = rng.choice(HEADS)
        elif kind == 4:
            rows.insert(row, list(rows[row]))
        elif kind == 5:
            rows[row] = rows[row][: rng.randrange(len(rows[row]) + 1)] + ["more"] * rng.randrange(2)
        else:
            column, cell = rng.randrange(len(rows[0]) or 1), rng.choice(CELLS)
            for line in rows[1:]:
                line[column : column + 1] = [cell]
        rows[0] = rows[0] or ["a"]
    return rows


def as_text(rng: random.Random, rows: list[list[str]]) -> bytes:
    """Rows as a text table of some delimiter, quoting and encoding."""
    delimiter = rng.choice(",,,;\t|")
    quoted = rng.random() < 0.5
    cells = [[f'"{cell.replace(chr(34), chr(34) * 2)}"' if quoted else cell for cell in row] for row in rows]
    text = rng.choice(["\n", "\n", "\r\n", "\r"]).join(delimiter.join(row) for row in cells)
    return text.encode(rng.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"]), errors="replace")


def case(rng: random.Random) -> str:
    """One altered table."""
    content = as_text(rng, altered(rng, some_table(rng)))
    if rng.random() < 0.3:
        content = altered_bytes(rng, content)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / rng.choice(["t.csv", "t.csv", "t.tsv", "t.csv.gz", "t.parquet", "t.xlsx"])
        path.write_bytes(content)
        try:
            table = prepare(FitOptions(data=str(path), target=["target"], out=path), Notes(quiet=True))
        except (TableError, InputError) as error:
            if "\n" in str(error) or not str(error).strip():
                raise AssertionError(f"an error of no line or several: {error!r}") from None
            return "refused"
    X = np.asarray(table.training.X, dtype=np.float64)
    assert np.isfinite(X).all(), "features that are not finite"
    assert len(X) == len(table.training.y) > 0
    return "read"


def fuzz(seed: int, count: int, only: int | None = None) -> Tally:
    """Altered tables."""
    return run_cases(case, seed, count, only)
