"""Rows with their answers, for the self-test that each export carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from treelu.export.onnx import rows_in_doubt
from treelu.export.program import BLANKS, Category, DatePart, Feature, Missing, Number, Other, Program

Cell: TypeAlias = float | str | None
N_EXAMPLES = 8
_CANDIDATES = 300
_LONGEST = 200  # characters of a text in an example row


@dataclass(frozen=True)
class Example:
    """A row of original columns, the leaf it reaches in each tree, the number of its class, its outputs."""

    row: tuple[Cell, ...]
    leaves: tuple[int, ...]
    label: int | None
    outputs: tuple[float, ...]


def examples(program: Program) -> list[Example]:
    """Answers for a few random rows that reach different leaves, the same every time."""
    rows = _random_rows(program)
    X = encode(program, rows)
    try:
        leaves = np.column_stack([tree.apply(X) for tree in program.trees])
    except ValueError:
        # Weights so large that sums overflow: rows without numbers will do.
        rows = [[None if _can_be_missing(program, n) else _nothing(program, n) for n in range(len(program.columns))]]
        X = encode(program, rows)
        leaves = np.column_stack([tree.apply(X) for tree in program.trees])
    # The same rows must do for single precision, too.
    clear = ~np.any([rows_in_doubt(tree, X) for tree in program.trees], axis=0)
    chosen = _different(leaves, clear)
    answers = [part.answers(X[chosen]) for part in program.parts]
    outputs = np.column_stack([found for found, _ in answers])
    labels = answers[0][1]
    return [
        Example(
            tuple(rows[row]),
            tuple(leaves[row].tolist()),
            None if labels is None else int(labels[place]),
            tuple(outputs[place].tolist()),
        )
        for place, row in enumerate(chosen)
    ]


def _can_be_missing(program: Program, column: int) -> bool:
    own = [feature for feature in program.features if feature.column == column]
    bare = any(isinstance(feature, Number) and feature.fill is None for feature in own)
    return not bare and not program.columns[column].required


def _nothing(program: Program, column: int) -> Cell:
    kind = program.columns[column].kind
    if kind == "number" or not program.columns[column].required:
        return 0.0 if kind == "number" else None
    return "1970-01-01" if kind == "date" else "not seen in training"


def _different(leaves: NDArray[np.int64], clear: NDArray[np.bool_]) -> list[int]:
    """A few rows, those first that reach leaves which no earlier one reaches; clear ones where there are any."""
    clear = clear if clear.any() else np.ones_like(clear)
    first = sorted(np.unique(leaves[clear], axis=0, return_index=True)[1].tolist())
    rows = np.flatnonzero(clear)
    rest = [place for place in range(len(rows)) if place not in first]
    return sorted(rows[(first + rest)[:N_EXAMPLES]].tolist())


def _random_rows(program: Program) -> list[list[Cell]]:
    rng = np.random.default_rng(0)
    used = set(program.used_columns)
    columns: list[list[Cell]] = []
    for number, column in enumerate(program.columns):
        if number not in used:
            columns.append([_nothing(program, number)] * _CANDIDATES)
            continue
        own = [feature for feature in program.features if feature.column == number]
        if column.kind == "number":
            columns.append(_numbers(rng, own, _spread(program, number)))
        elif column.kind == "text":
            columns.append(_texts(rng, own, column.required))
        else:
            columns.append(_dates(rng, own, "D" if column.is_day else "s", column.required))
    return [list(cells) for cells in zip(*columns, strict=True)] if columns else [[] for _ in range(_CANDIDATES)]


def _spread(program: Program, column: int) -> float | None:
    """How far the numbers of a column spread, where the trees know it."""
    spreads = program.trees[0].spreads
    for place, feature in enumerate(program.features):
        if isinstance(feature, Number) and feature.column == column and spreads is not None:
            return float(spreads[place]) or None
    return None


def _numbers(rng: np.random.Generator, features: list[Feature], spread: float | None) -> list[Cell]:
    fill = next((feature.fill for feature in features if isinstance(feature, Number)), None)
    middle = fill or 0.0
    unit = spread if spread is not None else max(1.0, abs(middle))
    size = unit * 10.0 ** rng.uniform(-2, 2, _CANDIDATES) * rng.choice([-1, 1], _CANDIDATES)
    cells: list[Cell] = [float(f"{middle + step:.6g}") for step in size]
    if any(isinstance(feature, Missing) or getattr(feature, "fill", None) is not None for feature in features):
        cells = [None if draw < 0.1 else cell for cell, draw in zip(cells, rng.random(_CANDIDATES), strict=True)]
    return cells


def _texts(rng: np.random.Generator, features: list[Feature], required: bool) -> list[Cell]:
    known = [feature.text for feature in features if isinstance(feature, Category)]
    known = [text for text in known if len(text) <= _LONGEST and "\0" not in text]
    absent: list[Cell] = [] if required else [None, ""]
    choices: list[Cell] = [*known, *absent, "not seen in training"]
    choices += [f"  {text}\t" for text in known[:3]]
    return [choices[place] for place in rng.integers(len(choices), size=_CANDIDATES)]


def _dates(rng: np.random.Generator, features: list[Feature], unit: Literal["D", "s"], required: bool) -> list[Cell]:
    days = [feature.fill for feature in features if isinstance(feature, DatePart) and feature.part == "days since 1970"]
    middle = round((days or [18_000.0])[0] * 86_400)
    seconds = middle + (86_400 * 10.0 ** rng.uniform(-1, 3.5, _CANDIDATES) * rng.choice([-1, 1], _CANDIDATES)).astype(
        int
    )
    moments = [str(np.datetime64(int(second), "s").astype(f"datetime64[{unit}]")) for second in seconds]
    absent = 0.0 if required else 0.1
    return [None if draw < absent else cell for cell, draw in zip(moments, rng.random(_CANDIDATES), strict=True)]


def encode(program: Program, rows: Sequence[Sequence[Cell]]) -> NDArray[np.float64]:
    """Features of rows of original columns; those that the program does not use are 0."""
    X = np.zeros((len(rows), len(program.features)))
    for place in program.used_features:
        feature = program.features[place]
        missing = program.columns[feature.column].missing
        X[:, place] = [_value(feature, row[feature.column], missing) for row in rows]
    return X


def _part(feature: DatePart, cell: str | None) -> float:
    """A part of a date that is written as ISO 8601, without a zone."""
    if cell is None:
        return feature.fill
    moment = datetime.fromisoformat(cell)
    if feature.part == "days since 1970":
        return float((moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)) / 86_400_000_000
    parts = {"year": moment.year, "month": moment.month, "hour": moment.hour, "day of week": moment.isoweekday()}
    return float(parts[feature.part])


def _value(feature: Feature, cell: Any, missing: tuple[str, ...]) -> float:
    if isinstance(cell, str):
        cell = cell.strip(BLANKS)
        cell = None if cell == "" or cell in missing else cell
    if isinstance(cell, float) and np.isnan(cell):
        cell = None
    match feature:
        case Number(_, fill):
            return float(cell) if cell is not None else np.nan if fill is None else fill
        case Missing():
            return float(cell is None)
        case Category(_, text):
            return float(cell == text)
        case Other(_, known):
            return float(cell is not None and cell not in known)
        case DatePart():
            return _part(feature, cell)
