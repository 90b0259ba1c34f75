"""Dates as people write them, and their parts."""

import json
import re
from datetime import date

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treelu.export.columns import column_recipes
from treelu.tables import TableEncoder, TableError
from treelu.tables.dates import (
    BETWEEN,
    PARTS,
    DateOrder,
    date_parts,
    parse_dates,
    recognise_compact_date,
    recognise_date,
)

WAYS = ("%Y-%m-%d", "%d.%m.%Y", "%d %b %Y")


@pytest.mark.parametrize(
    ("texts", "format"),
    [
        (["2021-03-04", "2021-12-24"], "%Y-%m-%d"),
        (["03/04/2021", "24/12/2021"], "%d/%m/%Y"),
    ],
)
def test_formats(texts: list[str], format: str) -> None:
    assert recognise_date(pd.Series(texts)) == format


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.tuples(st.dates(date(1970, 1, 1), date(2060, 1, 1)), st.sampled_from(WAYS)), min_size=2, max_size=40),
)
def test_dates_written_in_several_ways_are_read_by_row(days: list[tuple[date, str]]) -> None:
    days += [(date(2021, 3, 4), way) for way in WAYS for _ in range(5)]
    texts = pd.Series([day.strftime(way) for day, way in days])
    format = recognise_date(texts)
    assert format is not None
    assert set(format.split(BETWEEN)) == set(WAYS)
    assert parse_dates(texts, format).astype("datetime64[D]").tolist() == [day for day, _ in days]


ISO = ["2021-03-04", "2021-12-24", "2020-05-06"]


@pytest.mark.parametrize(
    ("texts", "order", "expected"),
    [
        ([*ISO, "25/04/2021", "03/04/2021"], None, "%Y-%m-%d | %d/%m/%Y"),
        ([*ISO, "04/25/2021", "03/04/2021"], None, "%Y-%m-%d | %m/%d/%Y"),
        ([*ISO, "03/04/2021"], "month-first", "%Y-%m-%d | %m/%d/%Y"),
        (["25/04/2021", "04/25/2021", "04/26/2021", "03/04/2021"], "day-first", "%d/%m/%Y | %m/%d/%Y"),
        ([*ISO, "soon", "later", "never"], None, None),
    ],
)
def test_formats_of_dates_written_in_several_ways(texts: list[str], order: DateOrder | None, expected: str) -> None:
    assert recognise_date(pd.Series(texts, name="d"), order) == expected


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ([*ISO, "03/04/2021"], "column 'd': '03/04/2021' may be 3 April or 4 March; add --dates day-first or"),
        (
            ["25/04/2021", "04/25/2021", "04/26/2021", "03/04/2021"],
            "column 'd': '03/04/2021' beside '25/04/2021' and '04/25/2021' may be 3 April or 4 March; add --dates",
        ),
    ],
)
def test_dates_that_can_be_read_in_two_ways_are_refused_with_examples(texts: list[str], words: str) -> None:
    with pytest.raises(TableError, match=re.escape(words)):
        recognise_date(pd.Series(texts, name="d"))


BOTH = pd.DataFrame({"d": ["25/04/2021", "04/25/2021", "04/26/2021", "2020-05-06", "05/05/2021"]})


@pytest.mark.parametrize("order", [None, "day-first", "month-first"])
def test_a_later_date_that_training_rows_leave_open_is_refused_unless_the_user_has_said(
    order: DateOrder | None,
) -> None:
    learned = TableEncoder.learn(BOTH, note=lambda text: None, dates=order)
    encoder = TableEncoder.from_dict(json.loads(json.dumps(learned.to_dict())))
    assert encoder == learned
    clear = pd.DataFrame({"d": ["05/05/2021", "25/04/2021", "2021-04-03", None]})
    days = encoder.encode(clear).X["d (days since 1970)"].tolist()
    assert days[:3] == [(date(2021, month, day) - date(1970, 1, 1)).days for month, day in ((5, 5), (4, 25), (4, 3))]
    new = pd.DataFrame({"d": ["25/04/2021", "03/04/2021 "]})
    if order is not None:
        read = date(2021, 4, 3) if order == "day-first" else date(2021, 3, 4)
        assert encoder.encode(new).X["d (days since 1970)"].iloc[1] == (read - date(1970, 1, 1)).days
        return
    words = (
        "column 'd', row 12: '03/04/2021' may be 3 April or 4 March, and training rows were written in both ways; "
        "write 2021-04-03 or 2021-03-04"
    )
    with pytest.raises(TableError, match=f"{re.escape(words)}$"):
        encoder.encode(new, first_row=10)
    fitting = f"{words.replace(', row 12', '')}, or fit with --dates day-first or --dates month-first"
    with pytest.raises(TableError, match=re.escape(fitting)):
        encoder.encode(new, lenient=True)
    encoder.encode(new, unused=["d"])


def test_an_iso_date_can_always_be_given_where_dates_are_written_in_several_ways() -> None:
    encoder = TableEncoder.learn(BOTH[BOTH["d"] != "2020-05-06"], note=lambda text: None)
    days = encoder.encode(pd.DataFrame({"d": ["2021-04-03"]})).X["d (days since 1970)"]
    assert days.tolist() == [(date(2021, 4, 3) - date(1970, 1, 1)).days]


def test_programs_cannot_read_dates_written_in_several_ways() -> None:
    encoder = TableEncoder.learn(BOTH, note=lambda text: None)
    with pytest.raises(
        ValueError, match="column 'd' has dates that are written in several ways, which a program cannot"
    ):
        column_recipes(encoder)
    alike = TableEncoder.learn(BOTH.iloc[[0, 4]], note=lambda text: None)
    assert [column.format for column in column_recipes(alike)[0]] == ["%d/%m/%Y"]


def test_an_order_that_is_none_is_refused() -> None:
    data = TableEncoder.learn(BOTH, note=lambda text: None, dates="day-first").to_dict()
    data["columns"][0]["order"] = "year-first"
    with pytest.raises(ValueError, match="dates are day-first or month-first, got 'year-first'"):
        TableEncoder.from_dict(data)


def test_dates_written_as_integers() -> None:
    assert recognise_compact_date(pd.Series([20210304, 20211224, 20220101])) == "%Y%m%d"
    assert recognise_compact_date(pd.Series([20210304, 20211224, 20221301])) is None


def test_what_is_no_date_is_not_a_time() -> None:
    moments = parse_dates(pd.Series(["3.4.2021", "?"]), "%d.%m.%Y")
    assert moments.astype("datetime64[D]").astype(str).tolist() == ["2021-04-03", "NaT"]


def test_parts() -> None:
    moments = np.array(["1970-01-02T12:00"], dtype="datetime64[us]")
    assert date_parts(moments, PARTS).tolist() == [[1970.0, 1.0, 5.0, 12.0, 1.5]]
