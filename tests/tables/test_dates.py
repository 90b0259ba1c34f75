"""Dates as people write them, and their parts."""

import numpy as np
import pandas as pd
import pytest

from treelu.tables.dates import PARTS, date_parts, mixed_dates, parse_dates, recognise_compact_date, recognise_date


@pytest.mark.parametrize(
    ("texts", "format"),
    [
        (["2021-03-04", "2021-12-24"], "%Y-%m-%d"),
        (["03/04/2021", "24/12/2021"], "%d/%m/%Y"),
    ],
)
def test_formats(texts: list[str], format: str) -> None:
    assert recognise_date(pd.Series(texts)) == format


def test_dates_written_in_two_ways() -> None:
    assert mixed_dates(pd.Series(["2021-03-04", "24.12.2021"])) == ("2021-03-04", "24.12.2021")
    assert mixed_dates(pd.Series(["2021-03-04", "yes"])) is None


def test_dates_written_as_integers() -> None:
    assert recognise_compact_date(pd.Series([20210304, 20211224, 20220101])) == "%Y%m%d"
    assert recognise_compact_date(pd.Series([20210304, 20211224, 20221301])) is None


def test_what_is_no_date_is_not_a_time() -> None:
    moments = parse_dates(pd.Series(["3.4.2021", "?"]), "%d.%m.%Y")
    assert moments.astype("datetime64[D]").astype(str).tolist() == ["2021-04-03", "NaT"]


def test_parts() -> None:
    moments = np.array(["1970-01-02T12:00"], dtype="datetime64[us]")
    assert date_parts(moments, PARTS).tolist() == [[1970.0, 1.0, 5.0, 12.0, 1.5]]
