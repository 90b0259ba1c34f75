"""`treelu demo`, with little training."""

from pathlib import Path

import pytest

import treelu
from tests.cli.conftest import Type
from treelu.cli import demo

pytestmark = pytest.mark.slow


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "MOLECULES", {"depth": 2, "epochs": 2})
    monkeypatch.setattr(demo, "SMALL", {"max_leaf_nodes": 3, "max_terms": 1})
    monkeypatch.setattr(demo, "SUBSTRUCTURES", 32)
    monkeypatch.setattr(demo, "TUMOURS", {"max_leaf_nodes": 3, "max_terms": 1})
    some = demo.molecules().iloc[::8]
    monkeypatch.setattr(demo, "molecules", lambda: some)


@pytest.mark.usefixtures("quick")
def test_both_tables_are_fitted_printed_and_drawn(tmp_path: Path, type_: Type) -> None:
    out = tmp_path / "demo"
    typed = type_("demo", "--out", out)
    assert (typed.code, typed.err) == (0, "")
    for words in (
        "MOLECULES",
        "a small tree on the 32 most frequent substructures",
        "a large tree (LCN) on all substructures",
        "TUMOURS",
        "RMSE",
        "ROC AUC",
        "  CART  ",
        "node 0: ",
        "\nnext:\n",
        "treelu fit YOUR.csv",
    ):
        assert words in typed.out
    assert (out / "molecules" / "molecules.svg").read_text().startswith("<svg")
    assert (out / "molecules-small" / "molecules.svg").read_text().startswith("<svg")
    for name in ("molecules", "molecules-small", "tumours"):
        assert (out / name / "report.html").read_text().startswith("<!DOCTYPE html>")
        assert (out / name / "tree.png").read_bytes().startswith(b"\x89PNG")
        treelu.load(out / name)
    # what it says to type next can be typed
    following = [line.split() for line in typed.out.splitlines() if line.startswith(f"  treelu fit {out}")]
    assert len(following) == 3
    words = [word for word in following[0][1:-1] if word not in ("--depth", "6")]
    assert type_(*words, tmp_path / "mine", "--depth", 1, "--epochs", 1, "--bits", 32, "--no-cart").code == 0


@pytest.mark.usefixtures("quick")
def test_without_rdkit_the_table_is_left(tmp_path: Path, type_: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    type_("demo", "--out", tmp_path / "demo")
    typed = type_("demo", "--out", tmp_path / "demo")  # again, over its own files
    assert typed.err == "molecules: left out, RDKit is not installed (pip install 'treelu[chem]')\n"
    assert typed.code == 0
    assert "MOLECULES" not in typed.out
    assert not (tmp_path / "demo" / "molecules").exists()


def test_a_file_is_no_folder(tmp_path: Path, type_: Type) -> None:
    (tmp_path / "f").write_text("")
    assert type_("demo", "--out", tmp_path / "f") == (
        2,
        "",
        f"treelu: --out {tmp_path / 'f'} is a file; give a folder\n",
    )


def test_the_series_is_whole() -> None:
    frame = demo.molecules()
    assert frame.notna().all().all()
    assert frame["smiles"].nunique() == 1017
    assert frame["activity"].between(4, 10).all()
