"""Tables in many files as one stream, and rows drawn from a stream."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from treelu.tables.paths import TableError
from treelu.tables.pieces import draw_rows, draw_table, estimate_rows, find_files, iterate_files


def write_parts(folder: Path, ending: str = ".csv") -> pd.DataFrame:
    """Three files of ten rows below `folder`; the whole table."""
    frame = pd.DataFrame({"x": np.arange(30.0), "colour": ["red", "blue", "green"] * 10})
    folder.mkdir(parents=True, exist_ok=True)
    for part in range(3):
        rows, path = frame.iloc[10 * part : 10 * part + 10], folder / f"part-{part}{ending}"
        if ending == ".parquet":
            rows.to_parquet(path)
        else:
            rows.to_csv(path, index=False)
    return frame


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
@pytest.mark.parametrize("as_pattern", [True, False])
def test_the_files_of_a_pattern_or_folder_are_one_table(tmp_path: Path, ending: str, as_pattern: bool) -> None:
    whole = write_parts(tmp_path / "data", ending)
    for name in ("notes.md", "_status.csv", ".part-0.csv"):
        (tmp_path / "data" / name).write_text("not a table")
    files = find_files(tmp_path / "data" / f"*{ending}" if as_pattern else tmp_path / "data")
    pieces = list(iterate_files(files, 4))
    assert max(map(len, pieces)) == 4
    pd.testing.assert_frame_equal(pd.concat(pieces, ignore_index=True), whole)


def test_folders_with_an_equals_sign_are_columns(tmp_path: Path) -> None:
    for year in ("2023", "2024"):
        write_parts(tmp_path / f"year={year}", ".parquet")
    table = pd.concat(iterate_files(find_files(tmp_path), 100), ignore_index=True)
    assert table.columns.tolist() == ["x", "colour", "year"]
    assert table.year.value_counts().to_dict() == {"2023": 30, "2024": 30}


def test_columns_in_another_order_are_put_in_order(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("y,x\n4,3\n")
    table = pd.concat(iterate_files(find_files(tmp_path)), ignore_index=True)
    assert table.to_numpy().tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("header", "message"),
    [("x\n3", "no column 'y', unlike"), ("x,y,z\n3,4,5", "a column 'z' more than")],
    ids=["fewer", "more"],
)
def test_other_columns_are_refused(tmp_path: Path, header: str, message: str) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text(header + "\n")
    with pytest.raises(TableError, match=f"b.csv has {message} .*a.csv; all files must have the same columns"):
        list(iterate_files(find_files(tmp_path)))


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("")
    with pytest.raises(TableError, match="has no table"):
        find_files(tmp_path)


def test_a_file_with_brackets_in_its_name_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "data[1].csv"
    path.write_text("x\n1\n")
    assert find_files(path) == [str(path)]


@pytest.mark.slow
def test_rows_are_drawn_with_equal_chances() -> None:
    counts = np.zeros(60)
    for seed in range(400):
        pieces = (pd.DataFrame({"x": np.arange(start, start + 6)}) for start in range(0, 60, 6))
        drawn = draw_rows(pieces, 12, seed)
        assert drawn.n_rows == 60
        assert len(drawn.frame) == 12
        np.testing.assert_array_equal(drawn.frame.x, drawn.numbers)
        assert (np.diff(drawn.numbers) > 0).all()
        counts[drawn.numbers] += 1
    expected, deviation = 400 * 0.2, np.sqrt(400 * 0.2 * 0.8)
    assert np.abs(counts - expected).max() < 4.5 * deviation
    assert counts.std() == pytest.approx(deviation, rel=0.35)


def test_a_short_stream_is_drawn_whole() -> None:
    drawn = draw_rows(iter([pd.DataFrame({"x": [1, 2]}), pd.DataFrame({"x": [3]})]), 10, seed=0)
    assert drawn.frame.x.tolist() == [1, 2, 3]


@pytest.mark.parametrize(("ending", "error"), [(".csv", 0.15), (".csv.gz", 1.5), (".parquet", 0.0)])
def test_the_number_of_rows_is_estimated(tmp_path: Path, ending: str, error: float) -> None:
    rows = pd.DataFrame({"x": np.random.default_rng(0).random(5000), "y": 1})
    for part in range(3):
        path = tmp_path / f"{part}{ending}"
        rows.to_parquet(path) if ending == ".parquet" else rows.to_csv(path, index=False)
    estimate = estimate_rows(find_files(tmp_path))
    assert estimate is not None
    assert abs(estimate / 15_000 - 1) <= error


def test_a_column_is_what_all_drawn_rows_say(tmp_path: Path) -> None:
    """Numbers in one file and text in another are text; the cells stay as they stand."""
    (tmp_path / "a.csv").write_text("x,y,z\n01,1,1.5\n02,2,2\n")
    (tmp_path / "b.csv").write_text("x,y,z\nA,3,\n")
    drawn = draw_table(find_files(tmp_path), 10, seed=0)
    assert drawn.frame.x.tolist() == ["01", "02", "A"]
    assert drawn.frame.y.tolist() == [1, 2, 3]
    assert drawn.file_rows == {str(tmp_path / "a.csv"): 2, str(tmp_path / "b.csv"): 1}


def test_the_first_row_of_each_class_is_drawn() -> None:
    labels = np.repeat(["a"], 1000).astype(object)
    labels[[100, 500, 900]] = "b", "c", "c"
    pieces = [pd.DataFrame({"y": part}) for part in np.array_split(labels, 10)]
    for seed in range(20):
        drawn = draw_rows(iter(pieces), 10, seed, classes="y")
        assert {0, 100, 500} <= set(drawn.numbers)
        assert len(drawn.frame) == 10
    values = [pd.DataFrame({"y": np.arange(start, start + 500)}) for start in range(0, 5000, 500)]
    assert draw_rows(iter(values), 10, 0, classes="y").numbers.max() > 1000  # not the first ones only
