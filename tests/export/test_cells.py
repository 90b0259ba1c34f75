"""Single cells in exported programs: read as the model reads them, or refused as the model refuses them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks import engines
from treelu.export.columns import column_recipes
from treelu.export.program import Part, Program, tree_program
from treelu.export.python import to_python
from treelu.export.sql import to_sql
from treelu.tables import TableEncoder, TableError
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


# Classes


@pytest.mark.parametrize("engine", ["python", "javascript", "sqlite", "onnx"])
def test_classes_may_be_scalars_of_numpy(engine: str) -> None:
    classes = np.array([np.str_("it's"), np.str_('"b"')], dtype=object)
    program = tree_program(ObliqueTree([[1.0]], [0.0], [[1, 2]], [[-1.0], [1.0]], link="logistic", classes=classes))
    run = getattr(engines, f"run_{engine}")(program, [[-1.0], [1.0]])
    assert (run.failures, [row[0] for row in run.answers]) == (0, ["it's", '"b"'])


# Numbers

AMOUNTS = (np.random.default_rng(0).integers(1, 10**7, 60) / 100).tolist()
NUMBERS = [
    "1.5", "1,5", "1.234", "1,234", "1,23", "12,34,567", "1.234,5", "1,234.5", "1234", "$5", "$ 5", "-$3", "5$", "($7)",
    "$$5", "$5$", "1$2", "$1,5", "5 kr", "kr 5", "kr", "-kr 5", "5 kr 3", "true", "False", "?", "", "  ", None, " 7\t",
    "7\n", "\xa07", "-0", "00120", "1_000", "0x10", "(7)", "( 7 )", "- 2", "\u22123", "1..2", "+-3", "1e5", "1E-5",
    "1e", "e5", "1e5.5", ".e5", ".5", "5.", "-.5", ".", "-", "1e400", "inf", "-inf", "2021-01-01", "12 34", "1 234",
    "1'234",
]  # fmt: skip
STYLES = {
    "plain": "{}", "missing": "{}", "points": "{:,}", "dollars": "${:,}", "crowns": "{} kr", "commas": "{}",
    "both": "{:,}",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["python", "javascript", "sqlite"])
@pytest.mark.parametrize("style", STYLES)
def test_texts_of_numbers_are_read_or_refused_as_by_the_model(engine: str, style: str) -> None:
    """Where training had gaps a text that is no number was filled by the median in SQLite, and 1.5 may be 15."""
    swapped = str.maketrans(",.", ".,") if style in ("commas", "both") else {}
    texts = [STYLES[style].format(amount).translate(swapped) for amount in AMOUNTS]
    encoder = learn([*texts, None] if style == "missing" else texts)
    wanted = [encoded(encoder, cell) for cell in NUMBERS]
    assert 10 < sum(features is None for features in wanted) < len(NUMBERS) - 10
    assert dict(zip(NUMBERS, exported(engine, encoder, NUMBERS), strict=True)) == dict(
        zip(NUMBERS, wanted, strict=True)
    )


def test_a_number_too_large_for_a_float_is_refused_by_name_in_python() -> None:
    module: dict[str, Any] = {"__name__": "model"}
    exec(to_python(features_program(learn([1.5, 2.5]))), module)
    with pytest.raises(ValueError, match="column 'a': infinity; None if it is unknown"):
        module["predict"]({"a": 10**400})


# Codes


@pytest.mark.parametrize("engine", ["python", "javascript", "sqlite"])
@pytest.mark.parametrize("codes", [["1", "120", "7.5"], ["1.0", "120.0", "7.5"], ["1", "1.0", "120"]])
def test_a_number_stands_for_the_category_of_its_code(engine: str, codes: list[str]) -> None:
    """A gap makes floats of whole numbers: 120.0 is the category 120."""
    encoder = learn(codes * 5, text=["a"])
    cells = [120, 120.0, 7.5, 8.0, "120", "120.0", "1", "1.0"] + [1, 1.0] * (engine != "javascript")
    assert exported(engine, encoder, cells) == [encoded(encoder, cell) for cell in cells]


def test_a_column_of_floats_stands_for_codes_in_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb")
    encoder = learn(["1", "120", None] * 5, text=["a"])
    data = duckdb.connect()
    data.execute("CREATE TABLE data AS SELECT CAST(x AS DOUBLE) AS a FROM (VALUES (1), (120), (7), (NULL)) AS t(x)")
    found = data.execute(to_sql(features_program(encoder), dialect="duckdb")).fetchall()
    assert [list(row) for row in found] == [encoded(encoder, cell) for cell in (1.0, 120.0, 7.0, None)]


# Dates

DAYS = pd.date_range("1999-01-01", periods=60, freq="97D")


@pytest.mark.parametrize("style", ["%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y%m%d"])
def test_sqlite_gives_no_answer_for_what_is_no_date(style: str) -> None:
    """It would take 2021-02-31 for 3 March, 12:00 for a day of the year 2000, numbers for days since 4714 BC."""
    encoder = learn([*DAYS.strftime(style), None])
    cells = ["2021-02-31", "2021-13-01", "now", "12:00", "2459000.5", 2459000.5, "2021", "04.03.2021", "foo", "2021-03"]
    cells += ["2021-03-04 24:00", "20210231", 20210231]
    assert exported("sqlite", encoder, cells) == [None] * len(cells)
    missing = ["NA", "", " ", None]
    assert exported("sqlite", encoder, missing) == [encoded(encoder, None)] * len(missing)
    day = pd.Timestamp(2021, 3, 4).strftime(style)
    assert exported("sqlite", encoder, [f" {day}\n"]) == [encoded(encoder, day)]


@pytest.mark.parametrize("engine", ["python", "javascript", "sqlite"])
@pytest.mark.parametrize("style", ["%Y-%m-%d", "%d.%m.%Y", "%Y%m%d"])
def test_a_column_of_plain_dates_takes_no_time_of_day(engine: str, style: str) -> None:
    encoder = learn([*DAYS.strftime(style), None])
    times = ["2021-03-04 12:00", "2021-03-04T12:00:00", "2021-03-04T00:00:00+02:00", "2021-03-04 00:00:00.5"]
    assert [encoded(encoder, cell) for cell in times] == [None] * 4
    day = pd.Timestamp(2021, 3, 4).strftime(style)
    found = exported(engine, encoder, [*times, "2021-03-04", "2021-03-04T00:00:00"])
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
