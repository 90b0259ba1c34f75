"""Single cells in exported programs: read as the model reads them, or refused as the model refuses them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks import engines
from treelu.export.program import Part, Program
from treelu.export.python import to_python
from treelu.tables import TableEncoder, TableError
from treelu.tables.programs import column_recipes
from treelu.tree import ObliqueTree

Features = list[float] | None  # None where a cell is refused


def learn(cells: list[Any], **options: Any) -> TableEncoder:
    return TableEncoder.learn(pd.DataFrame({"a": cells}), note=lambda text: None, **options)


def features_program(encoder: TableEncoder) -> Program:
    """A program of one linear leaf, whose outputs are the features themselves."""
    columns, features = column_recipes(encoder)
    n = len(features)
    nothing = np.zeros((0, n)), np.zeros(0), np.zeros((0, 2), dtype=int)
    tree = ObliqueTree(*nothing, np.zeros((1, n)), leaf_weights=np.eye(n)[None])
    return Program(columns, features, (Part((tree,), encoder.feature_names),))


def encoded(encoder: TableEncoder, cell: Any) -> Features:
    """The model's own features of a row."""
    try:
        return encoder.encode(pd.DataFrame({"a": [cell]})).X.to_numpy()[0].tolist()
    except TableError:
        return None


def exported(engine: str, encoder: TableEncoder, cells: list[Any]) -> list[Features]:
    """The features of each cell in an engine."""
    reason = engines.absent(engine)
    if reason is not None:
        pytest.skip(reason)
    run = getattr(engines, f"run_{engine}")(features_program(encoder), [[cell] for cell in cells])
    assert run.failures == 0
    rows = [row[: len(encoder.feature_names)] for row in run.answers]
    return [None if None in row else row for row in rows]


# Dates

DAYS = pd.date_range("1999-01-01", periods=60, freq="97D")


@pytest.mark.parametrize("engine", ["python", "javascript"])
@pytest.mark.parametrize("style", ["%Y-%m-%d", "%d.%m.%Y", "%Y%m%d"])
def test_a_column_of_plain_dates_takes_no_time_of_day(engine: str, style: str) -> None:
    encoder = learn([*DAYS.strftime(style), None])
    times = ["2021-03-04 12:00", "2021-03-04T12:00:00", "2021-03-04T00:00:00+02:00", "2021-03-04 00:00:00.5"]
    assert [encoded(encoder, cell) for cell in times] == [None] * 4
    day = pd.Timestamp(2021, 3, 4).strftime(style)
    found = exported(engine, encoder, [*times, day, "2021-03-04T00:00:00"])
    assert found == [None] * 4 + [encoded(encoder, day)] * 2


@pytest.mark.parametrize("engine", ["python", "javascript"])
def test_hours_of_half_days_end_at_12(engine: str) -> None:
    encoder = learn([f"{day:%m/%d/%Y %I:%M %p}" for day in pd.date_range("1999-01-13", periods=60, freq="2300h")])
    cells = ["12/24/2021 12:05 AM", "12/24/2021 12:05 PM", "12/24/2021 13:05 AM", "12/24/2021 00:05 AM"]
    assert exported(engine, encoder, cells) == [encoded(encoder, cell) for cell in cells]


@pytest.mark.parametrize("cell", [pd.NaT, pd.NA, np.nan, None])
@pytest.mark.parametrize("column", [[*DAYS.strftime("%Y-%m-%d"), None], ["1.5", "2.5", None], ["red", "blue", None]])
def test_what_pandas_writes_for_missing_values_is_missing_in_python(column: list[Any], cell: Any) -> None:
    encoder = learn(column, text=["a"] if "red" in column else [])
    module: dict[str, Any] = {"__name__": "model"}
    exec(to_python(features_program(encoder)), module)
    assert list(module["predict"]({"a": cell}).values()) == encoded(encoder, None)
