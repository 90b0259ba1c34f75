"""Suspects of a table: codes for missing values, rows of totals, identifiers; and how missing values are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import Type, type_  # noqa: F401
from treelu.persistence import load_as_saved
from treelu.tables import TableEncoder, TableError, iterate_table, read_table
from treelu.tables.missing import mark_missing
from treelu.tables.suspects import missing_codes, total_row


def warnings_of(frame: pd.DataFrame, **options: object) -> list[str]:
    found: list[str] = []
    TableEncoder.learn(frame, note=lambda text: None, warn=found.append, **options)  # type: ignore[arg-type]
    return found


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("others", "codes"),
    [
        (RNG.integers(18, 66, 100), [-999]),
        (RNG.integers(18, 66, 100), [999, -1]),
        (RNG.integers(1, 6, 100), [99]),
        (RNG.integers(1, 6, 100), [-9]),
        (RNG.normal(0, 1, 100), [-99]),
        (RNG.integers(-40, 40, 100), [9999, 8888]),
        (RNG.integers(0, 50, 100), [-1]),
    ],
)
def test_codes_for_missing_values_are_named(others: np.ndarray, codes: list[float]) -> None:
    values = np.concatenate([others.astype(float), np.repeat([float(code) for code in codes], 6)])
    RNG.shuffle(values)
    assert sorted(missing_codes(values)) == sorted(codes)
    (warning,) = warnings_of(pd.DataFrame({"x": values}))
    for code in codes:
        assert f"{code} in 6 of {len(values)} rows" in warning
        assert f"--missing {code}" in warning


@pytest.mark.parametrize(
    "values",
    [
        np.repeat([-1.0, 0.0, 1.0], 30),
        np.repeat([-1.0, 1.0], 30),
        np.repeat(np.arange(90.0, 110.0), 5),  # 99 among its neighbours
        np.repeat([7.0, 8.0, 9.0, 10.0], 20),
        np.concatenate([np.arange(100.0), [-999.0]]),  # one alone is an outlier
        np.repeat([0.0, 999.0], 50),
        np.linspace(0, 12_000, 200).round(-1).repeat(2),
        np.array([]),
        np.full(9, np.nan),
    ],
)
def test_ordinary_numbers_are_no_codes(values: np.ndarray) -> None:
    assert missing_codes(values) == []


@given(st.lists(st.sampled_from([-999.0, 3.0, 4.5, None]), min_size=1, max_size=20), st.sampled_from([str, float]))
def test_a_value_is_missing_however_its_column_is_stored(cells: list[float | None], kind: type) -> None:
    column = pd.Series([None if cell is None else kind(cell) for cell in cells], dtype=object if kind is str else float)
    wanted = [cell is None or cell == -999 for cell in cells]
    for written in ("-999", "-999.0"):
        assert mark_missing(column, [written]).isna().tolist() == wanted


def test_missing_values_are_read_as_such_in_all_columns_or_in_one(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,c\n-999,1,x\n3,-1,-999\n-1,5,?\n")
    frame = read_table(tmp_path / "t.csv", missing_values=[-999, "?", "b=-1"])
    assert frame.isna().to_numpy().tolist() == [[True, False, False], [False, True, True], [False, False, True]]
    assert frame["a"].tolist()[1:] == [3, -1]
    (piece,) = iterate_table(tmp_path / "t.csv", 10, missing_values=["-999", "?", "b=-1"])
    assert piece.isna().equals(frame.isna())
    with pytest.raises(TableError, match="the table has no column 'd'"):
        read_table(tmp_path / "t.csv", missing_values=["d=-1"])
    with pytest.raises(TableError, match=r"must be a list of values, got '-999'; write \['-999'\]"):
        read_table(tmp_path / "t.csv", missing_values="-999")


def test_later_rows_with_a_named_code_are_missing_too() -> None:
    frame = pd.DataFrame({"x": [1, -999, 5, 2], "y": ["3,5", "4,5", "-999", "1,5"], "z": [1, 2, 3, -999]})
    encoder = TableEncoder.learn(frame, note=lambda text: None, missing=["-999"])
    assert encoder.feature_names == ("x", "x=(missing)", "y", "y=(missing)", "z", "z=(missing)")
    encoder = TableEncoder.from_dict(encoder.to_dict())
    new = pd.DataFrame({"x": [-999.0, 7.0], "y": ["-999", "2,0"], "z": ["-999", "4"]})
    assert encoder.encode(new).X.to_numpy().tolist() == [[2, 1, 3.5, 1, 2, 1], [7, 0, 2, 0, 4, 0]]


def test_a_code_belongs_to_the_columns_that_have_it_or_are_named_with_it() -> None:
    frame = pd.DataFrame({"x": [1, -999, 5, 2], "y": ["3,5", "4,5", "7,25", "1,5"], "z": [1, 2, 3, 8]})
    encoder = TableEncoder.learn(frame, note=lambda text: None, missing=["-999", "z=-1", "?"])
    assert [column.strays for column in encoder.columns] == [("-999",), (), ("-1",)]  # type: ignore[union-attr]
    new = pd.DataFrame({"x": [-999, 3], "y": ["-999", "2,0"], "z": [-1, -999]})
    assert encoder.encode(new).X.to_numpy().tolist() == [[2, 1, -999, 2.5], [3, 0, 2, -999]]


def test_the_command_line_keeps_a_code_to_its_columns(tmp_path: Path, type_: Type) -> None:  # noqa: F811
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"a": rng.integers(0, 60, 90), "b, c": rng.integers(0, 60, 90), "d": rng.random(90)})
    frame["y"] = np.where(frame["a"] > 30, "yes", "no")
    frame.loc[3, "b, c"] = -999
    frame.to_csv(tmp_path / "t.csv", index=False)
    type_("fit", tmp_path / "t.csv", "--target", "y", "--no-cart", "--missing", "-999,a=-1", "--out", tmp_path / "m")
    columns = load_as_saved(tmp_path / "m").encoder.columns
    assert [column.strays for column in columns] == [("-1",), ("-999",), ()]


def test_bounds_in_the_target_are_warned_about(tmp_path: Path, type_: Type) -> None:  # noqa: F811
    rng = np.random.default_rng(3)
    x = rng.random(90)
    frame = pd.DataFrame({"x": x, "by": rng.random(90), "left": 1.0, "y": [f"{20 * value + 5:.2f}" for value in x]})
    frame.loc[[2, 5, 7], "y"] = ["<5", "<5", ">30"]
    frame.to_csv(tmp_path / "t.csv", index=False)
    told = type_("fit", tmp_path / "t.csv", "--target", "y", "--no-cart", "--drop", "by", "--out", tmp_path / "m")
    assert told.code == 0
    assert "warning: target 'y': 3 of 90 values are bounds ('<5', '>30'), read as the numbers in them" in told.err
    asked = type_("verify", tmp_path / "m", "--rises", "by")
    assert asked.code == 2
    assert "that column was left out when the model was fitted, so that no answer depends on it: by --drop" in asked.err


def test_a_row_of_totals_is_a_suspect() -> None:
    frame = pd.DataFrame({"shop": list("abcd"), "sold": [3, 4, 5, 6], "cost": [1.5, 2.5, 3.25, 1]})
    assert total_row(frame) is None
    total = pd.concat([frame, frame[["sold", "cost"]].sum().to_frame().T], ignore_index=True)
    assert total_row(total) == "in the last row 'sold' and 1 more are the sum of the rows above"
    for word in ("Total", "Summe", "Gesamt", "Grand total", "SUM:"):
        named = total.fillna({"shop": word})
        assert total_row(named) == (
            f"the last row has {word!r} in column 'shop', and 'sold' and 1 more are the sum of the rows above"
        )
    assert total_row(frame.assign(shop="Total")) is None, "every row says so"
    assert total_row(frame.assign(shop=["Totally", "b", "c", "Summer"])) is None


@pytest.mark.parametrize(
    ("name", "values", "warned"),
    [
        ("row", [*range(95), 95, 95, 96, 97, 98], True),
        ("customer_id", np.random.default_rng(0).permutation(200)[:100], True),
        ("customerId", [*np.random.default_rng(0).permutation(200)[:98], 7, 7], True),
        ("income", np.random.default_rng(0).permutation(200)[:100], False),
        ("Nr", np.random.default_rng(0).integers(0, 9, 100), False),
        ("hour", np.repeat(np.arange(50), 2), False),
    ],
)
def test_identifiers_are_warned_about_even_with_a_few_duplicates(name: str, values: list[int], warned: bool) -> None:
    found = warnings_of(pd.DataFrame({name: values}))
    assert [f"--drop {name} if it numbers the rows" in text for text in found] == [True] * warned


def test_the_command_line_names_suspects_and_takes_missing(tmp_path: Path, type_: Type) -> None:  # noqa: F811
    rng = np.random.default_rng(1)
    n = 120
    frame = pd.DataFrame({"age": rng.integers(18, 66, n), "name": [f"p{i}" for i in range(n)], "sold": rng.random(n)})
    frame["y"] = np.where(frame["age"] > 40, "yes", "no")
    frame.loc[::6, "age"] = -999
    frame.to_csv(tmp_path / "t.csv", index=False)
    fit = ("fit", tmp_path / "t.csv", "--target", "y", "--no-cart", "--leaves", 3, "--out", tmp_path / "m", "--force")
    assert "age': -999 in " in (warned := type_(*fit).err)
    assert "--missing -999 if that stands for missing values" in warned
    assert "--missing" not in type_(*fit, "--missing", "-999").err
    model = tmp_path / "m"
    assert '"age=(missing)"' in (model / "model.json").read_text()
    asked = type_("verify", model, "--independent", "name")
    assert asked.code == 2
    assert asked.err.startswith(
        "treelu: --independent name: that column was left out when the model was fitted, so that no answer depends on "
        "it: text with "
    )
    rows = tmp_path / "rows.csv"
    frame.head(12).to_csv(rows, index=False)
    assert type_("predict", model, rows, "--strict").err == ""
    for option in ("--keep", "--rise", "--within"):
        told = type_("ask", model, rows, option, "name=p1" if option == "--within" else "age,name").err
        assert f"{option} name: that column was left out when the model was fitted" in told
    with (tmp_path / "t.csv").open("a") as file:
        file.write("4711,Summe,60,\n")
    assert "warning: the last row has 'Summe' in column 'name'; remove it if it is no row of its own" in type_(*fit).err


def test_a_column_that_numbers_groups_is_named() -> None:
    person, year = np.repeat(np.arange(100, 130), 4), np.tile(np.arange(1980, 1984), 30)
    (warning,) = warnings_of(pd.DataFrame({"person_id": person, "year": year}))
    assert "'person_id' has 30 different integers" in warning
    assert "--groups person_id holds out the rows of one together" in warning
    assert warnings_of(pd.DataFrame({"person_id": RNG.permutation(person), "year": year})) == []
    assert warnings_of(pd.DataFrame({"wage": person, "year": year})) == []
