"""Numbers as people write them: what is recognised of a column, and how it is then read."""

import re

import numpy as np
import pandas as pd
import pytest

from treelu.tables import TableEncoder, TableError
from treelu.tables.numbers import (
    NumberFormat,
    beyond_floats,
    decimal_marks,
    leading_zeros,
    number_format,
    point_is_open,
    reads_two_ways,
    to_numbers,
    unit_format,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [("$1,234.50", 1234.5), ("12", 12.0), ("-$3", -3.0), ("($7)", -7.0), ("1,2", None), ("n/a", None)],
)
def test_dollars(text: str, number: float | None) -> None:
    assert NumberFormat(thousands=",", marks=("$",)).parse(text) == number


def test_a_unit_between_digits_stays() -> None:
    feet = NumberFormat(marks=("ft",))
    assert (feet.parse("5 ft"), feet.parse("5ft11")) == (5.0, None)


@pytest.mark.parametrize(
    ("texts", "style", "numbers", "strays"),
    [
        (["1", "?", None, "2.5"], NumberFormat(), [1.0, np.nan, np.nan, 2.5], ["?"]),
        (["1.250,5", "7"], NumberFormat(decimal=",", thousands="."), [1250.5, 7.0], []),
        (["(7)", "\u22123.5", "2"], NumberFormat(), [-7.0, -3.5, 2.0], []),
    ],
)
def test_columns_as_numbers(
    texts: list[str | None], style: NumberFormat, numbers: list[float], strays: list[str]
) -> None:
    values, others = to_numbers(pd.Series(texts), style)
    np.testing.assert_array_equal(values, numbers)
    assert others == strays


def test_decimal_marks_of_a_table() -> None:
    assert decimal_marks(pd.DataFrame({"a": ["1,5", "2"], "b": ["x", "y"]})) == {","}


def test_formats() -> None:
    assert number_format(pd.Series(["2,418", "270", "12"]), None, ()) == NumberFormat(thousands=",")
    wanted = "column None: '2,418' may be 2418 or 2.418; add --decimal . or --decimal ,"
    with pytest.raises(TableError, match=re.escape(wanted)):
        number_format(pd.Series(["2,418", "1,270"]), None, ())


def test_units() -> None:
    assert unit_format(pd.Series(["12 kg", "3.5 kg"]), None, ()) == NumberFormat(marks=("kg",))
    assert unit_format(pd.Series(["12a", "14b"]), None, ()) is None
    wanted = (
        "column 'mass' mixes '12 kg' and '300 g'; write all values in one unit, or add --text mass to read them as "
        "categories"
    )
    with pytest.raises(TableError, match=wanted):
        unit_format(pd.Series(["12 kg", "300 g"], name="mass"), None, ())


def test_integers_beyond_floats() -> None:
    assert beyond_floats(pd.Series([7, 2**53 + 1])).tolist() == [2**53 + 1]
    assert not len(beyond_floats(pd.Series([1e300])))


@pytest.mark.parametrize(
    ("values", "zeros"),
    [
        (["01234", "98101"], ("01234",)),
        (["01234", "1234"], ("01234", "1234")),
        (["0.5", "0", "12"], ()),
        ([7, 8], ()),
    ],
)
def test_leading_zeros(values: list[str | int], zeros: tuple[str, ...]) -> None:
    assert leading_zeros(pd.Series(values)) == zeros


def test_points_that_may_be_thousands_points() -> None:
    assert reads_two_ways(np.array([1.234, 2.5, 980.0]))
    assert not reads_two_ways(np.array([1.234, 2.5, 0.1]))
    assert point_is_open(pd.Series(["1.234", "2.500", "980"]), commas=False)
    assert not point_is_open(pd.Series(["1.234", "2.5", "980"]), commas=False)


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["> 10", "3", "4.5", "<=2", "7"], [10, 3, 4.5, 2, 7]),
        (["<0,05", "0,07", "1,5", "2,25"], [0.05, 0.07, 1.5, 2.25]),
        (["≥ 50%", "12%", "7%"], [50, 12, 7]),
    ],
)
def test_bounds_are_read_as_their_numbers_with_a_warning(texts: list[str], values: list[float]) -> None:
    warnings: list[str] = []
    frame = pd.DataFrame({"x": texts})
    encoder = TableEncoder.learn(frame, note=lambda text: None, warn=warnings.append)
    assert encoder.encode(frame).X["x"].tolist() == values
    assert TableEncoder.from_dict(encoder.to_dict()) == encoder
    (warning,) = warnings
    bounds = [text for text in texts if text[0] in "<>≤≥"]
    assert warning.startswith(f"column 'x': {len(bounds)} of {len(texts)} values are bounds ({bounds[0]!r}")


def test_columns_of_bounds_alone_are_categories() -> None:
    frame = pd.DataFrame({"age": ["<18", "18", ">65", "<18", ">65"]})
    assert TableEncoder.learn(frame, note=lambda text: None).feature_names == ("age=18", "age=<18", "age=>65")
