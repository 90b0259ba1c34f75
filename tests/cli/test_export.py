"""`treelu export` and `treelu report`."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest

import treelu
from tests.cli.conftest import Type, people
from treelu.tree import ObliqueTree


def test_text_and_dot_show_the_leaves_that_rows_reach(model: Path, type_: Type) -> None:
    assert type_("export", model).out == (model / "tree.txt").read_text()
    loaded = treelu.load(model)
    tree = loaded.trees[0]
    assert type_("export", model, "--format", "dot").out.strip() == tree.export_graphviz(scale=loaded.spread).strip()
    assert ObliqueTree.from_json(type_("export", model, "--format", "json", "--leaves", "visited").out) == tree


def test_json_and_onnx_are_exact_for_all_rows(model: Path, tmp_path: Path, type_: Type) -> None:
    loaded = treelu.load(model)
    X = loaded.encoder.encode(people()).X
    far = pd.DataFrame(np.random.default_rng(0).normal(scale=100, size=(200, X.shape[1])), columns=X.columns)
    whole = ObliqueTree.from_json(type_("export", model, "--format", "json").out)
    assert whole.n_leaves == 4
    assert np.allclose(whole.predict_proba(far), loaded.estimator.predict_proba(far))
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
    typed = type_("report", model, table, "--out", tmp_path / "r.html")
    assert f"scores on 80 rows of {table}" in typed.out
    assert typed.err == f"wrote {tmp_path / 'r.html'}; open it in a browser\n"
    typed = type_("report", model, table, "--out", tmp_path / "r.html", "--force", "--json")
    accuracy = json.loads(typed.out)["LCN"]["accuracy"]["value"]
    assert accuracy == pytest.approx(np.mean(treelu.load(model).predict(people()) == people()["survived"]))
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
    assert type_("export", tmp_path / "alcn").err.startswith("treelu: a ALCNRegressor is no single tree")


def test_what_is_no_tree_says_so(table: Path, tmp_path: Path, type_: Type) -> None:
    type_("fit", table, "--target", "survived", "--method", "alcn", "--epochs", 1, "--no-cart", "--out", tmp_path / "m")
    assert type_("export", tmp_path / "m").err == (
        "treelu: a model of --method alcn is no single tree; --format html shows what it predicts, --method lcn fits a "
        "tree\n"
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
