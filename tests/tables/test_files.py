"""Table files in all their forms, and what is said of the ones that cannot be read."""

import gzip
import io
import sys
from pathlib import Path

import pandas as pd
import pytest

from treelu.tables import TableError, iterate_table, read_table

FRAME = pd.DataFrame({"a": [1.5, 2.0, 3.0], "b": ["x", "y, z", 'quoted "q"'], "c": [1, 0, 1]})


def write(path: Path) -> Path:
    """FRAME in the format of the path's name."""
    if path.suffix == ".parquet":
        FRAME.to_parquet(path)
    else:
        FRAME.to_csv(path, index=False, sep="\t" if ".tsv" in path.name or ".tab" in path.name else ",")
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv", "t.tsv.gz", "t.tab", "t.parquet", "t.CSV", "t"])
def test_every_format_reads_the_same(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name)
    pd.testing.assert_frame_equal(read_table(path), FRAME, check_dtype=False)
    pieces = list(iterate_table(path, 2))
    assert [len(piece) for piece in pieces] == [2, 1]
    pd.testing.assert_frame_equal(pd.concat(pieces, ignore_index=True), FRAME, check_dtype=False)


def test_the_content_decides_not_the_name(tmp_path: Path) -> None:
    FRAME.to_parquet(tmp_path / "t.csv")
    (tmp_path / "u.csv").write_bytes(gzip.compress(FRAME.to_csv(index=False).encode()))
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbf" + FRAME.to_csv(index=False).encode())
    for name in ("t.csv", "u.csv", "bom.csv"):
        pd.testing.assert_frame_equal(read_table(tmp_path / name), FRAME, check_dtype=False)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1,2\n")))
    assert read_table("-").to_dict("list") == {"a": [1], "b": [2]}


def test_options(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;b\n1,5;01\n2,5;02\n")
    frame = read_table(path, delimiter=";", decimal=",", text=["b", "not there"])
    assert frame.to_dict("list") == {"a": [1.5, 2.5], "b": ["01", "02"]}


def message(path: Path, **options: str) -> str:
    """What reading says, whole and piece by piece, with the path made short."""
    texts = []
    for read in (lambda: read_table(path, **options), lambda: list(iterate_table(path, 2, **options))):  # type: ignore[arg-type]
        with pytest.raises(TableError) as error:
            read()
        texts.append(str(error.value).replace(f"{path.parent}/", ""))
    assert texts[0] == texts[1]
    assert "\n" not in texts[0]
    return texts[0]


def test_missing_files_and_folders(tmp_path: Path) -> None:
    assert message(tmp_path / "none.csv") == "none.csv does not exist; check its name and folder"
    write(tmp_path / "train.csv")
    assert message(tmp_path / "trian.csv") == "trian.csv does not exist; did you mean train.csv?"
    (tmp_path / "folder").mkdir()
    assert message(tmp_path / "folder") == "folder is a folder; give a table file (CSV, TSV, Parquet or .xlsx)"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "t.csv is empty; a table needs a line of column names and rows below it"),
        (b"a,b\n", "t.csv has a header but no rows; add rows below it"),
        (b"a,b\n1,2\n1,2,3\n", "t.csv: line 3 has 3 fields, but the header 2; check --delimiter and quotes there"),
        (
            b"a,b\n1,2,3\n4,5,6\n",
            "t.csv: rows have more fields than the header has names; check --delimiter, or name all columns",
        ),
        (
            b"1.5,2\n3,4\n",
            "the first line of t.csv holds numbers only; add a first line with the columns' names",
        ),
        (b"PK\x03\x04rest", "t.csv is an archive; unpack it and give the table in it"),
        (b"\xd0\xcf\x11\xe0rest", "t.csv is an old spreadsheet (.xls); save the sheet as .xlsx or CSV"),
        (
            gzip.compress(b"a,b\n1,2\n" * 1000, mtime=0)[:40],
            "t.csv is cut short or damaged: it cannot be unpacked; copy it again",
        ),
        (b"PAR1 but not really", "t.csv cannot be read as a table"),
    ],
)
def test_messages_of_files_that_are_no_tables(content: bytes, expected: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    assert message(tmp_path / "t.csv").startswith(expected)


def test_a_wrong_delimiter_that_was_given(tmp_path: Path) -> None:
    write(tmp_path / "t.csv")
    assert message(tmp_path / "t.csv", delimiter=";").endswith(
        "it seems to be separated by commas; add --delimiter ','"
    )


def test_numbers_as_names_are_fine_where_they_count_the_columns(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("0,1,2\n5,6,7\n")
    assert list(read_table(tmp_path / "t.csv").columns) == ["0", "1", "2"]


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'treelu\[parquet\]'"):
        read_table(path)


def test_numbers_of_many_digits_are_not_too_much(tmp_path: Path) -> None:
    """pandas raises an OverflowError for a text of 400 digits among others, though asked not to."""
    from treelu.tables.numbers import to_numbers

    values, strays = to_numbers(pd.Series(["1.5", "9" * 400, "x", None], dtype=object))
    assert values[0] == 1.5
    assert strays[-1] == "x"
