"""Where output cannot go: closed, of few characters, full, or over what is read; one clear line each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.conftest import Type, people
from treelu.cli.large import _size
from treelu.cli.messages import count, duration
from treelu.cli.predict import _typed, for_spreadsheets, quoted

pytestmark = pytest.mark.slow

posix = pytest.mark.skipif(sys.platform == "win32", reason="file descriptors and limits of POSIX")
COMMAND = f"{sys.executable} -c 'from treelu.cli import main; raise SystemExit(main())'"


def shell(command: str, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of the shell, in which $TREELU is the program and $1, $2, … are words."""
    return subprocess.run(
        ["sh", "-c", command.replace("$TREELU", COMMAND), "sh", *map(str, words)],
        capture_output=True, text=True, encoding="utf-8", env={**os.environ, **environment},
    )  # fmt: skip


@posix
def test_a_closed_standard_output(model: Path, table: Path) -> None:
    done = shell('$TREELU predict "$1" "$2" >&-', model, table)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "treelu: standard output is closed; send it to a file, or to /dev/null\n"
    done = shell('$TREELU predict "$1" "$2" 2>&-', model, table)  # notes do not go into the data instead
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 81


@posix
def test_a_reader_that_goes(model: Path, table: Path) -> None:
    done = shell('$TREELU predict "$1" "$2" | true', model, table)
    assert (done.returncode, done.stderr) == (0, "")


@posix
def test_a_full_standard_output(model: Path, table: Path, tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    commands = ('predict "$1" "$2"', 'export "$1"', 'report "$1" --out "$3" --force', 'verify "$1" --independent age')
    for command, unbuffered in product(commands, ("", "1")):
        done = shell(
            f"$TREELU {command} > /dev/full", model, table, tmp_path / "page.html", PYTHONUNBUFFERED=unbuffered
        )
        last = done.stderr.splitlines()[-1]
        assert (done.returncode, last) == (1, "treelu: standard output: No space left on device"), done.stderr


@posix
def test_a_full_disk_names_the_file(model: Path, table: Path, tmp_path: Path) -> None:
    """A limit of the size of files stands for it: writing fails in the same place, with another reason."""
    many = pd.concat([people()] * 200)
    many.to_csv(tmp_path / "many.csv", index=False)
    limited = f"ulimit -f 64; {COMMAND}"
    done = shell(f'{limited} predict "$1" "$2" --out "$3"', model, tmp_path / "many.csv", tmp_path / "o.csv")
    assert (done.returncode, done.stderr) == (1, f"treelu: {tmp_path / 'o.csv'}: File too large\n")
    assert not (tmp_path / "o.csv").exists()
    out = tmp_path / "m"
    words = '--target survived --depth 2 --epochs 3 --no-cart --quiet --out "$2"'
    done = shell(f'{limited.replace("-f 64", "-f 4")} fit "$1" {words}', table, out)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"treelu: {out}{os.sep}")
    assert done.stderr.endswith(": File too large\n")


def umlauts(folder: Path, type_: Type) -> tuple[Path, Path]:
    """A table and its model with names that ASCII does not have."""
    table = people().rename(columns={"sex": "größe"}).assign(survived=people()["survived"].map({0: "né", 1: "ü"}))
    table.to_csv(folder / "t.csv", index=False)
    words = ["--target", "survived", "--out", folder / "m", "--leaves", 3, "--quiet", "--no-cart"]
    assert type_("fit", folder / "t.csv", *words).code == 0
    return folder / "t.csv", folder / "m"


@posix
def test_a_terminal_of_few_characters(tmp_path: Path, type_: Type) -> None:
    table, model = umlauts(tmp_path, type_)
    ascii_only = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    words = "--target survived --depth 2 --epochs 3 --no-cart"
    done = shell(f'$TREELU fit "$1" {words} --out "$2"', table, tmp_path / "n", **ascii_only)
    assert done.returncode == 0, done.stderr
    assert r"recall and precision are those of survived = \xfc" in done.stdout or r"n\xe9" in done.stdout
    assert "next:" in done.stdout
    for command in ('predict "$1" "$2"', 'export "$1" --format sql'):  # data are written as they are, or not at all
        done = shell(f"$TREELU {command}", model, table, **ascii_only)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("treelu: standard output is ascii, which has no '\\x")
        assert done.stderr.endswith("; give --out FILE, or set PYTHONIOENCODING=utf-8\n")
    done = shell('$TREELU predict "$1" "$2" --json', model, table, **ascii_only)  # JSON has escapes of its own
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 80
    assert {row["prediction"] for row in rows} <= {"né", "ü"}
    done = shell(f'$TREELU fit "$1" {words} --out "$2" --json --quiet', table, tmp_path / "j", **ascii_only)
    assert "größe=female" in str(json.loads(done.stdout)["notes"])
    done = shell('head -n 3 "$2" | $TREELU ask "$1" - --json', model, table, **ascii_only)
    assert len([json.loads(line) for line in done.stdout.splitlines()]) == 2, done.stderr


def test_what_is_read_is_not_written_over(model: Path, tmp_path: Path, type_: Type) -> None:
    people().to_csv(tmp_path / "t.csv", index=False)
    before = (tmp_path / "t.csv").read_bytes()
    (tmp_path / "link.csv").symlink_to(tmp_path / "t.csv")
    for source, out in (("t.csv", "t.csv"), ("t.csv", "link.csv"), ("*.csv", "t.csv")):
        typed = type_("predict", model, tmp_path / source, "--out", tmp_path / out, "--force")
        assert (typed.code, typed.err) == (2, f"treelu: --out {tmp_path / out} is what is read; give another file\n")
    typed = type_("report", model, tmp_path / "t.csv", "--out", tmp_path / "t.csv", "--force")
    assert typed.err == f"treelu: --out {tmp_path / 't.csv'} is what is read; give another file\n"
    manifest = model / "model.json"
    typed = type_("export", model, "--out", manifest, "--force")
    assert typed.err == f"treelu: --out {manifest} is what is read; give another file\n"
    assert (tmp_path / "t.csv").read_bytes() == before


def test_a_damaged_file_among_many_is_named(model: Path, tmp_path: Path, type_: Type) -> None:
    pytest.importorskip("pyarrow")
    for number in range(3):
        people().to_parquet(tmp_path / f"part-{number}.parquet")
    content = (tmp_path / "part-1.parquet").read_bytes()
    (tmp_path / "part-1.parquet").write_bytes(content[:-60] + b"x" * 52 + content[-8:])
    for words in (["predict", model, tmp_path / "*.parquet"], fitting(tmp_path)):
        typed = type_(*words)
        assert typed.code == 2
        assert typed.err.splitlines()[-1].startswith(f"treelu: {tmp_path / 'part-1.parquet'} cannot be read")


def fitting(folder: Path) -> list[object]:
    return ["fit", folder / "*.parquet", "--target", "survived", "--out", folder / "m", "--quiet"]


def test_numbers_in_messages() -> None:
    assert [count(1, "row"), count(1234, "row"), count(2, "leaf")] == ["1 row", "1,234 rows", "2 leaves"]
    assert [duration(0.04), duration(12.34), duration(754)] == ["0.0 s", "12.3 s", "12 min 34 s"]
    assert [_size(12_400_000_000), _size(3_000_000)] == ["12.4 GB", "3 MB"]


def test_a_spreadsheet_shows_texts_and_executes_none() -> None:
    values = ["=1+1", "-5.2", "@name", "plain", 3]
    assert [quoted(value) for value in values] == ["'=1+1", "-5.2", "'@name", "plain", 3]
    frame = pd.DataFrame({"=a": ["=b", "c"], "d": [-1, 2]})
    assert for_spreadsheets(frame).to_csv(index=False, lineterminator="\n") == "'=a,d\n'=b,-1\nc,2\n"


def test_classes_that_are_integers_stay_integers_beside_an_empty_prediction() -> None:
    frame = pd.DataFrame({"prediction": [0, 1]}).astype(object).reindex(range(3))
    assert for_spreadsheets(frame).to_csv(index=False, lineterminator="\n") == 'prediction\n0\n1\n""\n'


@pytest.mark.parametrize(
    ("texts", "values"),
    [(["7", "1.50"], [7.0, 1.5]), (["00120", "7"], ["00120", "7"]), (["TRUE", "false"], [True, False])],
)
def test_kept_columns_are_typed_in_json(texts: list[str], values: list[object]) -> None:
    assert _typed(pd.Series(texts)).tolist() == values
