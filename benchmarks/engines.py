"""The real engines that exported programs run in: each takes an export and rows, and gives back its answers.

Rows are lists of cells (numbers, texts, None), one for each column of the program; answers are a list for each row: the
class, where there is one, then the numbers.
"""

from __future__ import annotations

import csv
import json
import os
import pwd
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from treelu.export.c import to_c
from treelu.export.javascript import to_javascript
from treelu.export.literals import identifier
from treelu.export.onnx_program import program_to_onnx
from treelu.export.program import Program
from treelu.export.python import to_python
from treelu.export.sql import to_sql

Rows = Sequence[Sequence[Any]]
Answers = list[list[Any]]
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")


@dataclass(frozen=True)
class Run:
    """Answers, how many example rows failed the export's own test, the export's size, and seconds for the rows."""

    answers: Answers
    failures: int
    n_bytes: int
    seconds: float


def absent(engine: str) -> str | None:
    """Why an engine cannot be used here, or None."""
    if engine in ("c", "c-float") and shutil.which("gcc") is None:
        return "no gcc"
    if engine == "javascript" and shutil.which("node") is None:
        return "no node"
    if engine == "postgresql" and _postgres_folder() is None:
        return "no PostgreSQL server (Debian: apt-get install postgresql)"
    if engine in ("duckdb", "onnx"):
        from importlib.util import find_spec

        module = {"onnx": "onnxruntime"}.get(engine, engine)
        if find_spec(module) is None:
            return f"no package {module}"
    return None


# SQL


def _table_columns(program: Program) -> list[str]:
    return [program.columns[number].name for number in program.used_columns]


def _used(program: Program, rows: Rows) -> list[tuple[Any, ...]]:
    return [(place, *(row[number] for number in program.used_columns)) for place, row in enumerate(rows)]


def run_sqlite(program: Program, rows: Rows) -> Run:
    """SQLite of the standard library."""
    names = ["treelu_key", *_table_columns(program)]
    quoted = ", ".join("`" + name.replace("`", "``") + "`" for name in names)
    with sqlite3.connect(":memory:") as data:
        data.execute(f"CREATE TABLE data ({quoted})")
        data.executemany(f"INSERT INTO data VALUES ({', '.join('?' * len(names))})", _used(program, rows))
        query = to_sql(program, dialect="sqlite", keep=["treelu_key"])
        start = time.perf_counter()
        found = data.execute(query).fetchall()
        seconds = time.perf_counter() - start
        failures = data.execute(to_sql(program, dialect="sqlite", self_test=True)).fetchone()[0]
    return Run(_by_key(found), failures, len(query.encode()), seconds)


def run_duckdb(program: Program, rows: Rows) -> Run:
    """DuckDB."""
    import duckdb
    import pandas as pd

    types = {"number": "DOUBLE", "text": "VARCHAR", "date": "TIMESTAMP"}
    kinds = [types[program.columns[number].kind] for number in program.used_columns]
    columns = [
        f'"{name.replace(chr(34), chr(34) * 2)}" {kind}'
        for name, kind in zip(_table_columns(program), kinds, strict=True)
    ]
    with duckdb.connect() as data:
        data.execute(f"CREATE TABLE data ({', '.join(['treelu_key BIGINT', *columns])})")
        frame = pd.DataFrame(_used(program, rows), columns=[f"c{i}" for i in range(len(columns) + 1)])
        if len(frame):
            data.register("rows", frame)
            data.execute("INSERT INTO data SELECT * FROM rows")
        query = to_sql(program, dialect="duckdb", keep=["treelu_key"])
        start = time.perf_counter()
        found = data.execute(query).fetchall()
        seconds = time.perf_counter() - start
        failures = data.execute(to_sql(program, dialect="duckdb", self_test=True)).fetchone()[0]
    return Run(_by_key(found), failures, len(query.encode()), seconds)


def _by_key(found: Sequence[Sequence[Any]]) -> Answers:
    return [list(row[1:]) for row in sorted(found, key=lambda row: row[0])]


class Postgres:
    """A PostgreSQL server of its own, on a socket in a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, _postgres_folder()
        # The server refuses to run as root.
        self.user = None if os.geteuid() else next(name for name in ("postgres", "nobody") if _has_user(name))
        if self.user:
            shutil.chown(folder, self.user)
        self._as_user("initdb", "-D", folder / "data", "-A", "trust", "-U", "treelu", "-E", "UTF8", "--locale=C.UTF-8")
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
        self._as_user("pg_ctl", "-D", folder / "data", "-w", "-l", folder / "log", "-o", options, "start")

    def _as_user(self, command: str, *arguments: object) -> None:
        words = [str(Path(self.bin or "") / command), *map(str, arguments)]
        words = ["runuser", "-u", self.user, "--", *words] if self.user else words
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")

    def stop(self) -> None:
        """End the server."""
        self._as_user("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "stop")

    def psql(self, text: str) -> list[list[str]]:
        """Run statements; the rows of the answer as texts, empty for NULL."""
        words = ["psql", "-X", "-q", "-h", str(self.folder), "-U", "treelu", "-d", "postgres"]
        words += ["-v", "ON_ERROR_STOP=1", "--csv", "-t", "-f", "-"]
        environment = {**os.environ, "PGCLIENTENCODING": "UTF8", "PGOPTIONS": "-c client_min_messages=warning"}
        done = subprocess.run(
            words, input=text.encode(), capture_output=True, env=environment, timeout=600, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr.decode())
        return list(csv.reader(done.stdout.decode().splitlines(keepends=True)))

    def run(self, program: Program, rows: Rows) -> Run:
        """Load the rows, predict, drop the table."""
        types = {"number": "float8", "text": "text", "date": "timestamp"}
        kinds = [types[program.columns[number].kind] for number in program.used_columns]
        names = ['"' + name.replace('"', '""') + '"' for name in _table_columns(program)]
        columns = ", ".join(["treelu_key bigint", *(f"{n} {k}" for n, k in zip(names, kinds, strict=True))])
        lines = "".join("\t".join(map(_copy_field, row)) + "\n" for row in _used(program, rows))
        setup = f"DROP TABLE IF EXISTS data; CREATE TABLE data ({columns});\nCOPY data FROM STDIN;\n{lines}\\.\n"
        self.psql(setup)
        query = to_sql(program, dialect="postgresql", keep=["treelu_key"])
        start = time.perf_counter()
        found = self.psql(query + "\nORDER BY 1;")
        seconds = time.perf_counter() - start
        failures = int(self.psql(to_sql(program, dialect="postgresql", self_test=True) + ";")[0][0])
        labelled = program.has_label
        answers = [_typed(program, row[1:], labelled) for row in found]
        return Run(answers, failures, len(query.encode()), seconds)


def _typed(program: Program, row: list[str], labelled: bool) -> list[Any]:
    classes = {str(label): label for label in program.parts[0].classes or ()}
    classes |= {"t": True, "f": False} if classes.keys() & {"True", "False"} else {}
    cells: list[Any] = [float(text) if text else None for text in row[labelled:]]
    return [classes.get(row[0]), *cells] if labelled else cells


def _copy_field(value: Any) -> str:
    if value is None:
        return "\\N"
    if isinstance(value, str):
        for char, code in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
            value = value.replace(char, code)
        return value
    return repr(value)


def _has_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _postgres_folder() -> Path | None:
    """The folder of initdb: where Debian puts it, or that of the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[4]))
    if found:
        return found[-1].parent
    path = shutil.which("initdb")
    return Path(path).parent if path else None


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A server for the duration of a block."""
    with tempfile.TemporaryDirectory(prefix="treelu-pg-") as folder:
        server = Postgres(Path(folder))
        try:
            yield server
        finally:
            server.stop()


# Python and JavaScript

_PYTHON = """
import json, sys, time
model = {"__name__": "model"}
exec(compile(open(sys.argv[1], encoding="utf-8").read(), "model", "exec"), model)
names, rows = json.load(open(sys.argv[2], encoding="utf-8"))
rows = [dict(zip(names, row)) for row in rows]
def answer(row):
    try:
        return list(model["predict"](row).values())
    except ValueError:
        return None
start = time.perf_counter()
answers = [answer(row) for row in rows]
seconds = time.perf_counter() - start
leaves = [model["apply"](row) if found else None for row, found in zip(rows, answers)]
json.dump([answers, leaves, model["self_test"](), seconds], sys.stdout)
"""

_NODE = """
import { readFileSync } from "node:fs";
const model = await import(process.argv[2]);
const [names, cells] = JSON.parse(readFileSync(process.argv[3], "utf8"));
const rows = cells.map((row) => Object.fromEntries(row.map((cell, place) => [names[place], cell])));
const answer = (row) => { try { return Object.values(model.predict(row)); } catch { return null; } };
const start = performance.now();
const answers = rows.map(answer);
const seconds = (performance.now() - start) / 1000;
const leaves = rows.map((row, place) => (answers[place] === null ? null : model.apply(row)));
process.stdout.write(JSON.stringify([answers, leaves, model.selfTest(), seconds]));
"""


def _run_script(command: list[str], program: Program, rows: Rows, text: str, suffix: str) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        model, data = Path(folder, f"model{suffix}"), Path(folder, "rows.json")
        model.write_text(text, encoding="utf-8", newline="")
        names = _table_columns(program)
        data.write_text(json.dumps([names, [row[1:] for row in _used(program, rows)]]))
        done = subprocess.run([*command, str(model), str(data)], capture_output=True, timeout=600, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode()[-2000:])
    answers, leaves, failures, seconds = json.loads(done.stdout)
    width = len(program.outputs) + program.has_label
    filled = [row if row is not None else [None] * width for row in answers]
    return Run([[*row, leaf] for row, leaf in zip(filled, leaves, strict=True)], failures, len(text.encode()), seconds)


def run_python(program: Program, rows: Rows) -> Run:
    """A bare interpreter; answers end with the leaves."""
    return _run_script([sys.executable, "-I", "-c", _PYTHON], program, rows, to_python(program), ".py")


def run_javascript(program: Program, rows: Rows) -> Run:
    """Node; answers end with the leaves."""
    with tempfile.TemporaryDirectory() as folder:
        driver = Path(folder, "driver.mjs")
        driver.write_text(_NODE)
        return _run_script(["node", str(driver)], program, rows, to_javascript(program), ".mjs")


# C

_C = """
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <time.h>
#include "model.h"
typedef REAL real;
int main(int argc, char **argv) {
    FILE *in = fopen(argv[argc - 2], "rb"), *out = fopen(argv[argc - 1], "wb");
    int64_t rows, row; int32_t length; int k;
    if (in == NULL || out == NULL || fread(&rows, 8, 1, in) != 1) return 2;
    real *numbers = calloc((size_t)rows * P_n_numbers + 1, sizeof(real));
    const char **texts = calloc((size_t)rows * P_n_texts + 1, sizeof(char *));
    for (row = 0; row < rows; row++) {
        for (k = 0; k < P_n_numbers; k++) {
            double value;
            if (fread(&value, 8, 1, in) != 1) return 2;
            numbers[row * P_n_numbers + k] = (real)value;
        }
        for (k = 0; k < P_n_texts; k++) {
            if (fread(&length, 4, 1, in) != 1) return 2;
            if (length < 0) continue;
            char *text = malloc((size_t)length + 1);
            if (fread(text, 1, (size_t)length, in) != (size_t)length) return 2;
            text[length] = 0;
            texts[row * P_n_texts + k] = text;
        }
    }
    real *outputs = calloc((size_t)rows * P_n_outputs, sizeof(real));
    int *labels = calloc((size_t)rows, sizeof(int)), *leaves = calloc((size_t)rows * P_n_trees, sizeof(int));
    const clock_t start = clock();
    for (row = 0; row < rows; row++) labels[row] = P_predict(CELLS, outputs + row * P_n_outputs);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    for (row = 0; row < rows; row++) P_apply(CELLS, leaves + row * P_n_trees);
    int32_t failures = P_self_test();
    fwrite(&failures, 4, 1, out);
    fwrite(&seconds, 8, 1, out);
    fwrite(labels, sizeof(int), (size_t)rows, out);
    fwrite(leaves, sizeof(int), (size_t)rows * P_n_trees, out);
    for (row = 0; row < rows * P_n_outputs; row++) { double value = outputs[row]; fwrite(&value, 8, 1, out); }
    return fclose(out);
}
"""


def run_c(program: Program, rows: Rows, *, dtype: str = "double", flags: Sequence[str] = ("-O2", "-std=c99")) -> Run:
    """gcc, the header without a warning; answers end with the leaves."""
    text = to_c(program, dtype=dtype)  # type: ignore[arg-type]
    prefix = identifier(program.name)
    of_kind = [
        [n for n, column in enumerate(program.columns) if (column.kind == "text") == texts] for texts in (False, True)
    ]
    cells = "numbers + row * P_n_numbers" + (", texts + row * P_n_texts" if of_kind[1] else "")
    driver = _C.replace("CELLS", cells).replace("REAL", dtype).replace("P_", f"{prefix}_")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "model.h").write_text(text, encoding="ascii", newline="")
        check = f'#include "model.h"\nint main(void) {{ return {prefix}_self_test(); }}\n'
        (home / "check.c").write_text(check)
        (home / "driver.c").write_text(driver)
        _call(["gcc", *flags, *WARNINGS, "check.c", "-o", "check", "-lm"], home)
        _call(["gcc", *flags, "-D_POSIX_C_SOURCE=199309L", "driver.c", "-o", "driver", "-lm"], home)
        (home / "rows").write_bytes(_binary(rows, of_kind))
        _call(["./driver", "rows", "answers"], home)
        data = (home / "answers").read_bytes()
    return _read_c(program, data, len(rows), len(text))


def _binary(rows: Rows, of_kind: list[list[int]]) -> bytes:
    parts = [struct.pack("<q", len(rows))]
    for row in rows:
        parts.append(struct.pack(f"<{len(of_kind[0])}d", *(_number(row[n]) for n in of_kind[0])))
        for number in of_kind[1]:
            cell = row[number]
            encoded = b"" if cell is None else cell.encode()
            parts.append(struct.pack("<i", -1 if cell is None else len(encoded)) + encoded)
    return b"".join(parts)


def _number(cell: Any) -> float:
    """A number; a date as seconds since 1970."""
    if isinstance(cell, str):
        return float(np.datetime64(cell, "us").astype(np.int64)) / 1e6
    return float("nan") if cell is None else cell


def _read_c(program: Program, data: bytes, n_rows: int, n_bytes: int) -> Run:
    failures, seconds = struct.unpack("<id", data[:12])
    n_trees, n_outputs = len(program.trees), len(program.outputs)
    whole = np.frombuffer(data, np.int32, n_rows * (1 + n_trees), 12)
    labels, leaves = whole[:n_rows].tolist(), whole[n_rows:].reshape(n_rows, n_trees).tolist()
    outputs = np.frombuffer(data, np.float64, n_rows * n_outputs, 12 + whole.nbytes).reshape(n_rows, n_outputs).tolist()
    classes = program.parts[0].classes
    answers: Answers = []
    for label, leaf, numbers in zip(labels, leaves, outputs, strict=True):
        known = label >= 0
        first = [] if classes is None else [classes[label] if known else None]
        answers.append([*first, *(numbers if known else [None] * n_outputs), leaf if known else None])
    return Run(answers, failures, n_bytes, seconds)


def _call(words: list[str], folder: Path) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.returncode}\n{done.stderr[-3000:]}")


# ONNX


def run_onnx(program: Program, rows: Rows, *, dtype: str = "float64") -> Run:
    """onnxruntime; the answers of a row that lacks a number which is asked for are NaN."""
    import onnxruntime

    model = program_to_onnx(program, dtype=dtype)  # type: ignore[arg-type]
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    kind = np.dtype(dtype)
    feed = _onnx_feed(program, session, rows, kind)
    start = time.perf_counter()
    outputs = session.run(None, feed)
    seconds = time.perf_counter() - start
    data = json.loads(session.get_modelmeta().custom_metadata_map["examples"])
    examples = [[None] * len(program.columns) for _ in data]
    for row, example in zip(examples, data, strict=True):
        for number, value in zip(program.used_columns, example["row"].values(), strict=True):
            row[number] = value
    found = session.run(None, _onnx_feed(program, session, examples, kind))[-1]
    tolerance = 1e-9 if dtype == "float64" else 1e-4
    wanted = np.array([example["outputs"] for example in data])
    failures = int((np.abs(found - wanted) > tolerance * (1 + np.abs(wanted))).any(axis=1).sum())
    numbers = outputs[-1].tolist()
    answers = (
        [[label, *row] for label, row in zip(outputs[0].tolist(), numbers, strict=True)]
        if len(outputs) == 2
        else numbers
    )
    return Run(answers, failures, len(model), seconds)


def _onnx_feed(program: Program, session: Any, rows: Rows, kind: np.dtype[Any]) -> dict[str, np.ndarray]:
    if program.is_plain:
        return {"X": np.array([[np.nan if cell is None else cell for cell in row] for row in rows], dtype=kind)}
    names = json.loads(session.get_modelmeta().custom_metadata_map["inputs"])
    feed = {}
    for number, name in zip(program.used_columns, names, strict=True):
        cells = [row[number] for row in rows]
        if program.columns[number].kind != "text":
            feed[name] = np.array([_number(cell) for cell in cells], dtype=kind)[:, None]
        else:
            feed[name] = np.array([cell or "" for cell in cells], dtype=object)[:, None]
    return feed
