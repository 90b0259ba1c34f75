"""Encodings, delimiters and names of columns, recognised from the first lines."""

from pathlib import Path

import pytest

from treelu.tables import TableError
from treelu.tables.layout import check_distinct, look_at_text, recognise_delimiter, recognise_encoding, split_names
from treelu.tables.paths import partition, text_bytes


def test_layout_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("Größe;x\n1,5;2\n".encode("latin-1"))
    layout = look_at_text(path)
    assert (layout.encoding, layout.delimiter, layout.names) == ("cp1252", ";", ("Größe", "x"))


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
def test_encodings(encoding: str) -> None:
    assert recognise_encoding(["é".encode(encoding)], "x") == encoding


def test_delimiter_beside_decimal_commas() -> None:
    assert recognise_delimiter("a;b\n1,5;2,5\n3;4\n", usual=",") == ";"


def test_a_name_that_stands_twice() -> None:
    with pytest.raises(TableError, match=r"t.csv has two columns named 'a', columns 1 and 3; rename one of them"):
        check_distinct(["a", "b", "a"], "t.csv")


def test_names_with_commas() -> None:
    assert split_names(["a,b", "x, y"], ["a", "b", "x, y"], "--drop") == ["a", "b", "x, y"]


def test_columns_of_a_partitioned_path() -> None:
    assert partition("sales/year=2024/month=05/part.csv") == {"year": "2024", "month": "05"}


def test_size_as_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n1,2\n")
    assert text_bytes(str(tmp_path / "t.csv")) == 8
