"""Files as people have them, each with one kind of mess, and what must be read from it or the error it must get."""

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from treelu.tables import TableEncoder, TableError, read_table


class Mess(NamedTuple):
    """A file: its name, its bytes, and the features that must be read from it (or the error)."""

    file: str
    content: bytes | Callable[[Path], None]
    features: dict[str, list[float]] | None = None
    error: str = ""
    says: str = ""  # part of a note
    options: dict[str, Any] = {}  # noqa: RUF012


XY = {"x": [1.5, 2.0, 3.0, 4.25], "y": [1.0, 0.0, 1.0, 0.0]}


def text(*lines: str) -> bytes:
    return "\n".join((*lines, "")).encode()


def table(header: str, *rows: str, mark: str = ",") -> bytes:
    """A table with y, a column of 1 and 0, as its last."""
    return text(f"{header}{mark}y", *(f"{row}{mark}{(i + 1) % 2}" for i, row in enumerate(rows)))


def numbers(*values: float) -> dict[str, list[float]]:
    """One column x of numbers, and y."""
    return {"x": list(values), "y": [float((i + 1) % 2) for i in range(len(values))]}


def sheet(path: Path, *frames: pd.DataFrame) -> None:
    with pd.ExcelWriter(path) as writer:
        for i, frame in enumerate(frames):
            frame.to_excel(writer, sheet_name=f"Sheet{i + 1}", index=False)


def titled_sheet(path: Path, *parts: list[str] | pd.DataFrame) -> None:
    """A workbook of rows of texts, and a frame with its names."""
    import openpyxl

    book = openpyxl.Workbook()
    line = 0
    for part in parts:
        rows = [part] if isinstance(part, list) else [part.columns.tolist(), *part.to_numpy().tolist()]
        for row in rows:
            line += 1
            for place, cell in enumerate(row, 1):
                book.active.cell(line, place, cell)
    book.save(path)


def archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("data.csv", "x,y\n1,2\n")


PLAIN = text("x,y", "1.5,1", "2,0", "3,1", "4.25,0")
MESSES = {
    # Layout
    "plain": Mess("t.csv", PLAIN, XY),
    "semicolons": Mess("t.csv", PLAIN.replace(b",", b";"), XY, says="columns separated by semicolons"),
    "tabs in a .csv": Mess("t.csv", PLAIN.replace(b",", b"\t"), XY, says="columns separated by tabs"),
    "bars": Mess("t.txt", PLAIN.replace(b",", b"|"), XY, says="columns separated by bars"),
    "blanks": Mess("t.txt", PLAIN.replace(b",", b"   "), XY, says="columns separated by blanks"),
    "commas in a .tsv": Mess("t.tsv", PLAIN, XY, says="columns separated by commas"),
    "a spreadsheet's first line": Mess("t.csv", b"sep=;\n" + PLAIN.replace(b",", b";"), XY),
    "a title above the names": Mess(
        "t.csv", b"Sales 2020\n\n" + PLAIN, XY, says="1 line above the column names left out ('Sales 2020')"
    ),
    "a title above names of texts": Mess(
        "t.csv",
        text("Teams", "team,town", "reds,Bonn", "blues,Kiel", "reds,Kiel"),
        error="line 1 is not a line of column names; they seem to stand in line 2, so remove the lines above it",
    ),
    "a title as spreadsheets save it": Mess("t.csv", b"Sales 2020,\n,\n" + PLAIN, XY, says="2 lines above the column"),
    "a title with line ends and delimiters": Mess(
        "t.csv", b'"Sales;\n2020",\r\n\r\n"all, in t",\r\n' + PLAIN, XY, says="2 lines above the column names left out"
    ),
    "a title with a comma above semicolons": Mess(
        "t.csv",
        b"Sales, 2020\n" + PLAIN.replace(b",", b";"),
        XY,
        says="columns separated by semicolons\n1 line above the column names left out ('Sales, 2020')",
    ),
    "a title below a spreadsheet's first line": Mess(
        "t.csv", b"sep=;\nSales 2020;\n" + PLAIN.replace(b",", b";"), XY, says="('Sales 2020')"
    ),
    "a title in UTF-16": Mess("t.csv", (b"Sales,\n,\n" + PLAIN).decode().encode("utf-16"), XY, says="('Sales')"),
    "a title and columns of texts": Mess(
        "t.csv",
        text("Teams,,printed,,", "team,town,coach,2019,2020", "reds,Bonn,Al,a,b", "blues,Kiel,Bo,b,a"),
        None,
        says="1 line above the column names left out ('Teams')",
    ),
    "most columns without name": Mess(
        "t.csv", text("x,,", "1.5,2,3", "2,3,4", "3,5,5"), {"x": [1.5, 2, 3]}, says="it has no name"
    ),
    "texts below columns without name": Mess(
        "t.csv", text("x,,", "a,r,s", "b,r,t", "a,q,t"), {"x=a": [1, 0, 1], "x=b": [0, 1, 0]}, says="it has no name"
    ),
    "no names": Mess("t.csv", text("1.5,1", "2,0"), error="the first line of .* holds numbers only"),
    "a name twice": Mess("t.csv", table("x,z,x", "1,2,3"), error="two columns named 'x', columns 1 and 3"),
    "blanks around names": Mess("t.csv", text("x , y", "1.5, 1", "2, 0", "3, 1", "4.25, 0"), XY),
    "blank lines": Mess("t.csv", b"\n" + PLAIN.replace(b"2,0", b"\n2,0\n"), XY),
    "Windows line ends": Mess("t.csv", PLAIN.replace(b"\n", b"\r\n"), XY),
    "a column without name": Mess("t.csv", table(",x", "7,1.5", "8,2", "9,3", "6,4.25"), XY, says="it has no name"),
    "a row too long": Mess("t.csv", text("x,y", "1,2", "1,2,3"), error="line 3 has 3 fields, but the header 2"),
    "quotes with line ends": Mess(
        "t.csv", text('x,"y"', '"1.5",1', '2,"0"', "3,1", "4.25,0").replace(b'"y"', b'"y"'), XY
    ),
    # Encoding
    "UTF-8 with its mark": Mess("t.csv", b"\xef\xbb\xbf" + PLAIN, XY),
    "UTF-16": Mess("t.csv", PLAIN.decode().encode("utf-16"), XY, says="text in UTF-16"),
    "UTF-16 without its mark": Mess("t.csv", PLAIN.decode().encode("utf-16-le"), XY, says="text in utf-16-le"),
    "Latin-1": Mess(
        "t.csv",
        "größe,y\n1,1\n2,0\n".encode("latin-1"),
        {"größe": [1.0, 2.0], "y": [1.0, 0.0]},
        says="text in Windows-1252 (Latin-1)",
    ),
    "Latin-1 far below": Mess(
        "t.csv",
        b"x,y,c\n" + b"1,1,a\n" * 20_000 + "1,0,é\n".encode("latin-1"),
        None,
        says="text in Windows-1252 (Latin-1)",
    ),
    "gzip": Mess("t.csv", gzip.compress(PLAIN), XY),
    "binary": Mess("t.csv", bytes(range(256)) * 4, error="is not a text table: it has zero bytes"),
    # Numbers
    "thousands and hundreds": Mess(
        "t.csv", table("x", '"2,418"', "270", "12"), numbers(2418, 270, 12), says="'2,418' is 2418"
    ),
    "thousands beside decimal points": Mess(
        "t.csv", table("x,z", '"2,418",0.5', '"1,270",1.25'), {"x": [2418, 1270], "z": [0.5, 1.25], "y": [1, 0]}
    ),
    "thousands or decimals": Mess(
        "t.csv",
        table("x", '"2,418"', '"1,270"'),
        error=r"column 'x': '2,418' may be 2418 or 2.418; add --decimal . or --decimal ,",
    ),
    "thousands, as the option says": Mess(
        "t.csv", table("x", '"2,418"', '"1,270"'), numbers(2418, 1270), options={"decimal": "."}
    ),
    "decimals, as the option says": Mess(
        "t.csv", table("x", '"2,418"', '"1,270"'), numbers(2.418, 1.27), options={"decimal": ","}
    ),
    "decimal commas": Mess("t.csv", table("x", "1,5", "2,25", "30", mark=";"), numbers(1.5, 2.25, 30)),
    "decimal commas and thousands points": Mess(
        "t.csv", table("x", "1.234,5", "2", "3.000", mark=";"), numbers(1234.5, 2, 3000)
    ),
    "thousands points beside decimal commas": Mess(
        "t.csv",
        table("x;z", "1.234;0,5", "2.500;1,25", mark=";"),
        {"x": [1234, 2500], "z": [0.5, 1.25], "y": [1, 0]},
    ),
    "thousands points or decimals": Mess(
        "t.csv", table("x", "1.234", "2.500", "980", mark=";"), error="column 'x': '2.500' may be 2500 or 2.500"
    ),
    "three decimals": Mess("t.csv", table("x", "1.234", "2.517", "0.981"), numbers(1.234, 2.517, 0.981)),
    "points and commas mixed": Mess("t.csv", table("x", '"1,5"', "1.25", '"3,75"', "2"), error="column 'x' mixes"),
    "thousands by blanks": Mess(
        "t.csv", table("x", "1\u00a0234,5", "12\u202f000", "7", mark=";"), numbers(1234.5, 12000, 7)
    ),
    "thousands by apostrophes": Mess("t.csv", table("x", "1'234.5", "2’000", "7"), numbers(1234.5, 2000, 7)),
    "dollars": Mess("t.csv", table("x", "$12.30", '"$1,200"', "-$3"), numbers(12.3, 1200, -3), says="'$12.30' is 12.3"),
    "euros after the number": Mess("t.csv", table("x", "12,30 €", "1.200 €", mark=";"), numbers(12.3, 1200)),
    "losses in parentheses": Mess("t.csv", table("x", "$12", "($3)", "$4"), numbers(12, -3, 4)),
    "a unit": Mess("t.csv", table("x", "12 kg", "3.5kg", "-7 kg"), numbers(12, 3.5, -7), says="all in kg"),
    "a unit and decimal commas": Mess(
        "t.csv", table("x", "1.200,5 °C", "3 °C", "7,25 °C", mark=";"), numbers(1200.5, 3, 7.25), says="all in °C"
    ),
    "one and many": Mess("t.csv", table("x", "1 day", "14 days", "2 days"), numbers(1, 14, 2), says="all in days"),
    "a unit with an exponent": Mess("t.csv", table("x", "12 m²", "30.5 m²", "1e3 m²"), numbers(12, 30.5, 1000)),
    "a unit and a word": Mess(
        "t.csv", table("x", *(f"{i} mg/dL" for i in range(20)), "not done"), None, says="not done among numbers"
    ),
    "two units": Mess(
        "t.csv",
        table("x", "12 kg", "300 g"),
        error="column 'x' mixes '12 kg' and '300 g'; write all values in one unit, or add --text x",
    ),
    "a unit here and there": Mess(
        "t.csv", table("x", "12 kg", "300", "7 kg"), error="column 'x' mixes '12 kg' and '300'; write all values in one"
    ),
    "a unit of its own": Mess(
        "t.csv", table("x", *(f"{i} kg" for i in range(20)), "7 stones"), error="column 'x' mixes '0 kg' and '7 stones'"
    ),
    "thousands or decimals with a unit": Mess(
        "t.csv", table("x", '"1,234 kg"', '"1,980 kg"'), error="'1,234' may be 1234 or 1.234; add --decimal"
    ),
    "units as categories": Mess(
        "t.csv",
        table("x", "12 kg", "300 g"),
        {"x=12 kg": [1, 0], "x=300 g": [0, 1], "y": [1, 0]},
        options={"text": ["x"]},
    ),
    "numbers of houses": Mess(
        "t.csv",
        table("x", "12a", "14b", "12a"),
        {"x=12a": [1, 0, 1], "x=14b": [0, 1, 0], "y": [1, 0, 1]},
    ),
    "two currencies": Mess(
        "t.csv", table("x", "$12", "€3"), error=r"column 'x' mixes '\$12' and '€3'; write all values"
    ),
    "per cent": Mess("t.csv", table("x", "37%", "5.5 %", "100%"), numbers(37, 5.5, 100), says="'5.5 %' is 5.5"),
    "per cent and shares": Mess(
        "t.csv", table("x", "37%", "0.4"), error="mixes '37%' and '0.4'; write all values with %"
    ),
    "true minus signs": Mess("t.csv", table("x", "\u22121.5", "2", "$3"), numbers(-1.5, 2, 3)),
    "scientific": Mess("t.csv", table("x", "1e3", "2.5E-1", "7"), numbers(1000, 0.25, 7)),
    # Dates
    "ISO dates": Mess(
        "t.csv",
        table("d", "2021-03-01", "2022-03-06", "2021-12-24"),
        {
            "d (year)": [2021, 2022, 2021],
            "d (month)": [3, 3, 12],
            "d (day of week)": [1, 7, 5],
            "d (days since 1970)": [18687, 19057, 18985],
            "y": [1, 0, 1],
        },
        says="dates ('2021-03-01' is 2021-03-01), as year, month, day of week, days since 1970",
    ),
    "day first": Mess("t.csv", table("d", "01/03/2021", "24/12/2021"), None, says="'01/03/2021' is 2021-03-01"),
    "month first": Mess("t.csv", table("d", "03/01/2021", "12/24/2021"), None, says="'03/01/2021' is 2021-03-01"),
    "day or month first": Mess(
        "t.csv",
        table("d", "03/04/2021", "05/06/2021"),
        error=r"'03/04/2021' may be 3 April or 4 March; add --dates day-first or --dates month-first",
    ),
    "as the option says": Mess(
        "t.csv",
        table("d", "03/04/2021", "05/06/2021"),
        None,
        says="'03/04/2021' is 2021-03-04",
        options={"dates": "month-first"},
    ),
    "times with a zone": Mess(
        "t.csv",
        table("d", "2021-03-01T23:30:00+02:00", "2021-03-01T06:00:00Z"),
        {"d (hour)": [21, 6], "d (days since 1970)": [18687 + 21.5 / 24, 18687.25], "y": [1, 0]},
    ),
    "German dates": Mess("t.csv", table("d", "3.4.2021", "24.12.2021"), None, says="'3.4.2021' is 2021-04-03"),
    "month names": Mess("t.csv", table("d", "3 Apr 2021", "24 Dec 2021"), None, says="'3 Apr 2021' is 2021-04-03"),
    "dates as whole numbers": Mess(
        "t.csv",
        table("d", "20210301", "20220306", "20211224"),
        {
            "d (year)": [2021, 2022, 2021],
            "d (month)": [3, 3, 12],
            "d (day of week)": [1, 7, 5],
            "d (days since 1970)": [18687, 19057, 18985],
            "y": [1, 0, 1],
        },
        says="dates ('20210301' is 2021-03-01), as year, month, day of week, days since 1970 (--numbers d reads them",
    ),
    "dates as whole numbers, some missing": Mess(
        "t.csv",
        table("d", "20210301", "", "20210306", "20210303"),
        {
            "d (day of week)": [1, 3, 6, 3],
            "d (days since 1970)": [18687, 18689, 18692, 18689],
            "d=(missing)": [0, 1, 0, 0],
            "y": [1, 0, 1, 0],
        },
    ),
    "dates as whole numbers, overruled": Mess(
        "t.csv",
        table("x", "20210301", "20220306", "20211224"),
        numbers(20210301, 20220306, 20211224),
        options={"numbers": ["x"]},
    ),
    "whole numbers that are no dates": Mess(
        "t.csv", table("x", "20210301", "20220306", "20211324"), numbers(20210301, 20220306, 20211324)
    ),
    "two numbers that may be dates": Mess("t.csv", table("x", "20210301", "20220306"), numbers(20210301, 20220306)),
    "dates as whole numbers in a workbook": Mess(
        "t.xlsx",
        lambda path: sheet(path, pd.DataFrame({"d": [20210301, 20210306, None, 20210303], "y": [1, 0, 1, 0]})),
        None,
        says="dates ('20210301' is 2021-03-01)",
    ),
    # Other formats
    "a workbook": Mess("t.xlsx", lambda path: sheet(path, pd.DataFrame(XY)), XY),
    "a workbook with dates": Mess(
        "t.xlsx",
        lambda path: sheet(path, pd.DataFrame({"d": pd.to_datetime(["2021-03-01", "2021-03-06"]), "y": [1, 0]})),
        {"d (day of week)": [1, 6], "d (days since 1970)": [18687, 18692], "y": [1, 0]},
    ),
    "two sheets": Mess(
        "t.xlsx", lambda path: sheet(path, pd.DataFrame(XY), pd.DataFrame({"a": [1]})), XY, says="the first of 2 sheets"
    ),
    "a workbook with titles": Mess(
        "t.xlsx",
        lambda path: titled_sheet(path, ["Sales 2020"], [], pd.DataFrame(XY)),
        XY,
        says="2 lines above the column names left out ('Sales 2020')",
    ),
    "a workbook with a blank line first": Mess(
        "t.xlsx",
        lambda path: titled_sheet(path, [], pd.DataFrame(XY)),
        XY,
        says="1 line above the column names left out",
    ),
    "an old workbook": Mess(
        "t.xls", b"\xd0\xcf\x11\xe0" + b"0" * 99, error=r"old spreadsheet \(.xls\); save the sheet"
    ),
    "an archive": Mess("t.zip", archive, error="is an archive; unpack it"),
    "Parquet": Mess("t.parquet", lambda path: pd.DataFrame(XY).to_parquet(path), XY),
    # Values
    "words for missing": Mess(
        "t.csv", table("x", "1", "NA", "n/a", "3"), {"x": [1, 2, 2, 3], "x=(missing)": [0, 1, 1, 0], "y": [1, 0, 1, 0]}
    ),
    "a word among numbers": Mess(
        "t.csv", table("x", *map(str, range(20)), "unknown"), None, says="unknown among numbers count as missing"
    ),
    "names": Mess("t.csv", table("n,x", *(f"person {i},{i % 3}" for i in range(40))), None, says="40 different values"),
    "numbered rows": Mess(
        "t.csv", table("id,x", *(f"{i},{i % 3}" for i in range(40))), None, says="only rises from row"
    ),
    "far outliers": Mess("t.csv", table("x", *(str(i % 9) for i in range(99)), "1000000"), None, says="typing errors?"),
    "one value only": Mess("t.csv", table("c,x", "a,1", "a,2"), numbers(1, 2), says="it has one value only"),
}


@pytest.mark.parametrize("kind", MESSES)
def test_a_messy_file_is_read_or_refused(kind: str, tmp_path: Path) -> None:
    mess = MESSES[kind]
    path = tmp_path / mess.file
    path.write_bytes(mess.content) if isinstance(mess.content, bytes) else mess.content(path)
    notes: list[str] = []
    if mess.error:
        with pytest.raises(TableError, match=mess.error) as error:
            read_and_encode(path, notes, mess.options)
        assert "\n" not in str(error.value)
        return
    X = read_and_encode(path, notes, mess.options)
    assert np.isfinite(X.to_numpy()).all()
    if mess.features is not None:
        assert X.columns.tolist() == list(mess.features)
        np.testing.assert_allclose(X.to_numpy(), np.column_stack(list(mess.features.values())), rtol=1e-12)
    assert mess.says in "\n".join(notes)


def read_and_encode(path: Path, notes: list[str], options: dict[str, Any]) -> pd.DataFrame:
    """Features of all rows, learned from all rows; the same once the encoding was saved."""
    reading = {"decimal": options.get("decimal")}
    frame = read_table(path, note=notes.append, **reading)
    encoder = TableEncoder.learn(frame, note=notes.append, **options)
    again = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    X = encoder.encode(frame).X
    fresh = read_table(path, text=again.text_columns, **reading)
    pd.testing.assert_frame_equal(again.encode(fresh).X, X)
    return X


def test_there_are_some_forty_kinds() -> None:
    assert len(MESSES) > 40


def test_standard_input_is_recognised_too(monkeypatch: pytest.MonkeyPatch) -> None:
    content = "größe;y\n1,5;1\n2;0\n".encode("latin-1")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    frame = read_table("-")
    assert frame.columns.tolist() == ["größe", "y"]
    assert TableEncoder.learn(frame, note=lambda text: None).encode(frame).X["größe"].tolist() == [1.5, 2.0]


def test_a_workbook_without_openpyxl_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sheet(tmp_path / "t.xlsx", pd.DataFrame(XY))
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(ImportError, match=r"pip install 'treelu\[excel\]'"):
        read_table(tmp_path / "t.xlsx")
