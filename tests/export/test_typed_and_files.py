"""SQL for columns that are typed as numbers; the Python export reads the file that its model was trained on."""

from __future__ import annotations

import csv
import io
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from treelu import ObliqueTreeClassifier
from treelu.cli.export import table_program
from treelu.export.python import to_python
from treelu.export.sql import to_sql
from treelu.persistence.table_model import TableModel
from treelu.tables import TableEncoder, read_table


def loans(n: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "Betrag": np.round(rng.gamma(2, 1500, n), 2),
            "Alter": rng.integers(18, 80, n).astype(float),
            "Zweck": rng.choice(["Auto", "Möbel; neu", "Reise"], n),
            "ohne Belang": rng.random(n),
        }
    )
    frame.loc[::11, "Alter"] = np.nan
    return frame


def fitted(frame: pd.DataFrame) -> TableModel:
    encoded = TableEncoder.learn(frame, note=lambda text: None).encode(frame)
    y = np.where(loans()["Betrag"] / 1000 + 2 * (loans()["Zweck"] == "Auto") > 3, "nein", "ja")
    tree = ObliqueTreeClassifier(max_leaf_nodes=3, max_terms=3, teacher=None, random_state=0)
    return TableModel(tree.fit(encoded, y), ("Kredit",))


def test_typed_columns_have_a_short_query_with_the_same_answers() -> None:
    frame = loans()
    model = fitted(frame)
    program = table_program(model)
    connection = sqlite3.connect(":memory:")
    frame.to_sql("data", connection, index=False, dtype={"Betrag": "REAL", "Alter": "REAL", "ohne Belang": "REAL"})
    strict, typed = (to_sql(program, dialect="sqlite", typed=typed) for typed in (False, True))
    assert len(typed) < len(strict)
    assert typed.count("4611686018427387904") < strict.count("4611686018427387904")
    assert "GLOB" not in typed
    for query in (strict, typed):
        assert [row[0] for row in connection.execute(query)] == model.estimator.predict(frame).tolist()
    assert connection.execute(to_sql(program, dialect="sqlite", typed=True, self_test=True)).fetchall() == [(0,)]
    (tree,) = model.whole_trees()
    assert to_sql(tree, dialect="postgresql", typed=True) == to_sql(tree, dialect="postgresql")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize(("delimiter", "decimal"), [(",", "."), (";", ","), ("\t", ",")])
def test_the_python_export_reads_the_file_of_its_training(
    tmp_path: Path, encoding: str, delimiter: str, decimal: str
) -> None:
    data, script = tmp_path / "kredite.csv", tmp_path / "model.py"
    loans().to_csv(data, sep=delimiter, decimal=decimal, index=False, encoding=encoding)
    model = fitted(read_table(str(data)))
    script.write_text(to_python(table_program(model)))
    done = subprocess.run([sys.executable, "-I", script, data], capture_output=True, text=True, check=True)
    predicted = [row["prediction"] for row in csv.DictReader(io.StringIO(done.stdout))]
    assert predicted == model.estimator.predict(read_table(str(data), text=model.encoder.text_columns)).tolist()


def test_the_python_export_skips_titles_above_the_names(tmp_path: Path) -> None:
    data, script = tmp_path / "kredite.csv", tmp_path / "model.py"
    data.write_text("Kredite 2020,,,\n,,,\n" + loans().to_csv(index=False), encoding="utf-8")
    frame = read_table(str(data))
    model = fitted(frame)
    script.write_text(to_python(table_program(model)))
    done = subprocess.run([sys.executable, "-I", script, data], capture_output=True, text=True, check=True)
    predicted = [row["prediction"] for row in csv.DictReader(io.StringIO(done.stdout))]
    assert len(predicted) == len(frame) == 200
    assert predicted == model.estimator.predict(read_table(str(data), text=model.encoder.text_columns)).tolist()


def test_a_file_without_a_column_is_an_error(tmp_path: Path) -> None:
    script, data = tmp_path / "model.py", tmp_path / "other.csv"
    script.write_text(to_python(table_program(fitted(loans()))))
    data.write_text("a;b\n1;2\n")
    done = subprocess.run([sys.executable, "-I", script, data], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(r"has no column '\w+'; it has a;b", done.stderr)
