"""`treelu export` and `treelu report`."""

import io
import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest

import treelu
from tests.cli.conftest import Type, people
from treelu.persistence import load_as_saved
from treelu.tables import Encoded
from treelu.tree import ObliqueTree

pytestmark = pytest.mark.slow


def test_text_and_dot_show_the_leaves_that_rows_reach(model: Path, type_: Type) -> None:
    assert type_("export", model).out == (model / "tree.txt").read_text()
    loaded = load_as_saved(model)
    tree = loaded.trees[0]
    assert type_("export", model, "--format", "dot").out.strip() == tree.export_graphviz(scale=loaded.spread).strip()
    assert ObliqueTree.from_json(type_("export", model, "--format", "json", "--leaves", "visited").out) == tree


def test_every_term_is_shown_on_request(model: Path, type_: Type) -> None:
    loaded = load_as_saved(model)
    every = type_("export", model, "--top", "all")
    assert every.out.strip() == loaded.trees[0].export_text(scale=loaded.spread, max_leaves=None, top="all").strip()
    assert " more)" in type_("export", model, "--top", 1).out
    assert "--top must be a number of terms, or all, got few" in type_("export", model, "--top", "few").err
    assert "--top is for --format text and dot" in type_("export", model, "--format", "c", "--top", 3).err


def test_json_and_onnx_are_exact_for_all_rows(model: Path, tmp_path: Path, type_: Type) -> None:
    loaded = load_as_saved(model)
    X = loaded.encoder.encode(people()).X
    far = pd.DataFrame(np.random.default_rng(0).normal(scale=100, size=(200, X.shape[1])), columns=X.columns)
    whole = ObliqueTree.from_json(type_("export", model, "--format", "json").out)
    assert whole.n_leaves == 4
    rows = Encoded(far, np.arange(200), loaded.encoder)
    assert np.allclose(whole.predict_proba(far), loaded.estimator.predict_proba(rows))
    assert type_("export", model, "--format", "onnx", "--encoded", "--out", tmp_path / "tree.onnx").code == 0
    session = onnxruntime.InferenceSession((tmp_path / "tree.onnx").read_bytes())
    name = session.get_inputs()[0].name
    kind = np.float64 if "double" in session.get_inputs()[0].type else np.float32
    results = session.run(None, {name: far.to_numpy(kind)})
    assert any(
        result.shape == (200, 2) and np.allclose(result, whole.predict_proba(far), atol=1e-5) for result in results
    )


def test_pages(model: Path, labels_model: Path, tmp_path: Path, type_: Type) -> None:
    assert type_("export", model, "--format", "html").out.startswith("<!DOCTYPE html>")
    assert type_("export", model, "--format", "html", "--leaves", "all", "--out", tmp_path / "a.html").code == 0
    assert (tmp_path / "a.html").read_text().startswith("<!DOCTYPE html>")
    assert type_("export", labels_model, "--format", "html", "--label", "acid").out.startswith("<!DOCTYPE html>")


def test_a_report_on_other_rows(table: Path, model: Path, tmp_path: Path, type_: Type) -> None:
    other = people().assign(age=lambda frame: frame["age"] + 0.05)
    other.to_csv(tmp_path / "other.csv", index=False)
    typed = type_("report", model, tmp_path / "other.csv", "--out", tmp_path / "r.html")
    assert f"scores on 80 rows of {tmp_path / 'other.csv'}" in typed.out
    assert typed.err == f"wrote {tmp_path / 'r.html'}; open it in a browser\n"
    typed = type_("report", model, table, "--out", tmp_path / "r.html", "--force", "--json")
    accuracy = json.loads(typed.out)["LCN"]["accuracy"]["value"]
    assert accuracy == pytest.approx(np.mean(load_as_saved(model).estimator.predict(people()) == people()["survived"]))
    assert type_("report", model, "--out", tmp_path / "tree.html").code == 0


def test_labels_are_asked_for(molecules: Path, labels_model: Path, tmp_path: Path, type_: Type) -> None:
    ask = "treelu: the model has several targets; add --label, one of toxic, acid\n"
    assert type_("export", labels_model) == (2, "", ask)
    assert type_("report", labels_model, "--out", tmp_path / "r.html") == (2, "", ask)
    assert type_("export", labels_model, "--label", "acid").out == (labels_model / "tree-acid.txt").read_text()
    assert type_("export", labels_model, "--label", "x").err == "treelu: --label x: the model has toxic, acid\n"
    typed = type_("report", labels_model, molecules, "--label", "acid", "--out", tmp_path / "r.html")
    assert typed.code == 0
    assert "\n  acid " in typed.out
    assert "toxic" not in typed.out


def test_models_from_python(tmp_path: Path, type_: Type) -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    tree = treelu.LCNRegressor(depth=2, epochs=1, random_state=0).fit(X, X[:, 0])
    tree.save(tmp_path / "lcn")
    assert ObliqueTree.from_json(type_("export", tmp_path / "lcn", "--format", "json").out) == tree.tree_
    tree.tree_.save(tmp_path / "tree")
    assert ObliqueTree.from_json(type_("export", tmp_path / "tree", "--format", "json").out) == tree.tree_
    treelu.ALCNRegressor(depth=2, epochs=1).fit(X, X[:, 0]).save(tmp_path / "alcn")
    assert type_("export", tmp_path / "alcn").err.startswith("treelu: a ALCNRegressor is not a single tree")


def test_what_is_no_tree_says_so(table: Path, tmp_path: Path, type_: Type) -> None:
    type_("fit", table, "--target", "survived", "--method", "alcn", "--epochs", 1, "--no-cart", "--out", tmp_path / "m")
    assert type_("export", tmp_path / "m").err == (
        "treelu: a model of --method alcn is not a single tree; --format html shows what it predicts, "
        "--method lcn fits a tree\n"
    )
    assert type_("export", tmp_path / "m", "--format", "html").out.startswith("<!DOCTYPE html>")


def test_files_are_not_overwritten(model: Path, tmp_path: Path, type_: Type) -> None:
    (tmp_path / "t.txt").write_text("mine")
    message = f"treelu: --out {tmp_path / 't.txt'} exists; add --force to replace it\n"
    assert type_("export", model, "--out", tmp_path / "t.txt") == (2, "", message)
    assert type_("report", model, "--out", tmp_path / "t.txt") == (2, "", message)
    assert type_("export", model, "--out", tmp_path / "t.txt", "--force").code == 0
    assert (tmp_path / "t.txt").read_text() == (model / "tree.txt").read_text()


def test_binary_is_not_poured_into_a_terminal(model: Path, type_: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert type_("export", model, "--format", "onnx").err == (
        "treelu: --format onnx is binary; give --out tree.onnx, or send the output to a file\n"
    )


# Programs that take the table's own columns


def test_a_python_program_predicts_as_treelu_does(table: Path, model: Path, tmp_path: Path, type_: Type) -> None:
    assert type_("export", model, "--format", "python", "--out", tmp_path / "model.py").code == 0
    command = [sys.executable, "-I", str(tmp_path / "model.py")]
    done = subprocess.run([*command, str(table)], capture_output=True, text=True, check=True)
    found, wanted = pd.read_csv(io.StringIO(done.stdout)), pd.read_csv(io.StringIO(type_("predict", model, table).out))
    assert list(found.columns) == list(wanted.columns)
    assert found["prediction"].tolist() == wanted["prediction"].tolist()
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.startswith("8 of 8")


def test_a_query_and_its_test(table: Path, model: Path, type_: Type) -> None:
    words = ("--format", "sql", "--dialect", "sqlite", "--table", "main.people", "--keep", "name,age")
    text = type_("export", model, *words).out
    assert f"-- {model.name}: 1 tree, 4 leaves" in text
    assert re.search(r"^-- trained: \d{4}-\d\d-\d\d$", text, re.MULTILINE)
    data = sqlite3.connect(":memory:")
    people().to_sql("people", data, index=False)
    found = data.execute(text)  # a driver takes one statement
    data.execute(f"CREATE VIEW scored AS {text}")
    assert [column[0] for column in found.description] == [
        "name",
        "age",
        "prediction",
        "probability_0",
        "probability_1",
    ]
    assert [row[2] for row in found.fetchall()] == load_as_saved(model).estimator.predict(people()).tolist()
    assert len(data.execute("SELECT * FROM scored").fetchall()) == len(people())
    assert data.execute(type_("export", model, *words, "--self-test").out).fetchall() == [(0,)]
    refused = type_("export", model, "--format", "c", "--self-test")
    assert (refused.code, refused.err.split("; ")[1]) == (2, "--format c has its self-test inside\n")


def test_other_programs(model: Path, labels_model: Path, tmp_path: Path, type_: Type) -> None:
    assert "people_predict(const float *numbers, const char" in type_("export", model, "--format", "c", "--single").out
    assert "export function predict(row)" in type_("export", model, "--format", "js", "--leaves", "visited").out
    assert type_("export", model, "--format", "onnx", "--out", tmp_path / "model.onnx").code == 0
    session = onnxruntime.InferenceSession((tmp_path / "model.onnx").read_bytes())
    frame = people()
    feed = {"age": frame[["age"]].to_numpy(), "sex": frame[["sex"]].to_numpy(dtype=object)}
    assert session.run(None, feed)[0].tolist() == load_as_saved(model).estimator.predict(frame).tolist()
    typed = type_("export", labels_model, "--format", "python")
    assert (typed.code, "holds molecules" in typed.err, "--encoded" in typed.err) == (2, True, True)
    module: dict = {"__name__": "model"}
    row = dict.fromkeys(load_as_saved(labels_model).encoder.feature_names, 0)
    exec(type_("export", labels_model, "--format", "python", "--encoded").out, module)
    assert list(module["predict"](row)) == ["probability_toxic", "probability_acid"]
    exec(type_("export", labels_model, "--format", "python", "--encoded", "--label", "acid").out, module)
    assert list(module["predict"](row)) == ["probability_acid"]
    assert type_("export", labels_model, "--format", "c", "--label", "x").err.startswith("treelu: --label x: the model")


def test_programs_of_models_from_python(table: Path, tmp_path: Path, type_: Type) -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    lcn = treelu.LCNRegressor(depth=2, epochs=1, random_state=0).fit(X, X[:, 0])
    for name, saved in (("lcn", lcn), ("tree", lcn.tree_)):
        saved.save(tmp_path / name)
        module: dict = {"__name__": "model"}
        exec(type_("export", tmp_path / name, "--format", "python").out, module)
        assert module["apply"]({"x0": 1.0, "x1": 2.0}) == lcn.tree_.apply([[1.0, 2.0]]).tolist()
    words = ("--method", "alcn", "--epochs", 1, "--no-cart", "--out", tmp_path / "m")
    type_("fit", table, "--target", "survived", *words)
    assert type_("export", tmp_path / "m", "--format", "sql").err.startswith(
        "treelu: a model of --method alcn cannot be written as a program"
    )


def test_a_messy_file_is_read_by_the_program_as_by_treelu(tmp_path: Path, type_: Type) -> None:
    """Words for missing values, blanks around categories, strays among numbers, dates as people write them."""
    rng, n = np.random.default_rng(0), 120
    colours = rng.choice(["red", "blue", "NA", "None", " red", "x y"], n)
    days = pd.date_range("2020-01-01", periods=n, freq="31h").strftime("%d/%m/%Y %H:%M").to_numpy(dtype=object)
    numbers = rng.normal(size=n).round(2).astype(str).astype(object)
    answer = np.where(np.char.find(colours, "red") >= 0, "p", "q")
    numbers[::9], numbers[1::11], numbers[2::17], days[::13] = "", "NA", "?", ""
    frame = pd.DataFrame({"number": numbers, "colour": colours, "day": days, "y": answer})
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = ("--target", "y", "--out", tmp_path / "m", "--depth", 2, "--epochs", 2, "--no-cart", "--quiet")
    assert type_("fit", tmp_path / "t.csv", *words).code == 0
    assert type_("export", tmp_path / "m", "--format", "python", "--out", tmp_path / "m.py").code == 0
    done = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "m.py"), str(tmp_path / "t.csv")],
        capture_output=True,
        text=True,
        check=True,
    )
    found = pd.read_csv(io.StringIO(done.stdout))
    wanted = pd.read_csv(io.StringIO(type_("predict", tmp_path / "m", tmp_path / "t.csv").out))
    assert found["prediction"].tolist() == wanted["prediction"].tolist()
    np.testing.assert_allclose(found.iloc[:, 1:], wanted.iloc[:, 1:], atol=1e-9)


def test_a_report_on_a_small_tree_counts_the_rows_given(table: Path, tmp_path: Path, type_: Type) -> None:
    words = ["fit", table, "--target", "survived", "--leaves", 3, "--terms", 1, "--no-refit", "--quiet"]
    assert type_(*words, "--out", tmp_path / "m").code == 0
    typed = type_("report", tmp_path / "m", table, "--out", tmp_path / "r.html")
    assert typed.code == 0, typed.err
    assert "scores on 80 rows of" in typed.out
    assert "small tree" in typed.out
    assert (tmp_path / "r.html").read_text().startswith("<!DOCTYPE html>")
