"""The small tree beside the large one: one line, its figures, and a command that can be typed."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer

from tests.cli.conftest import Type, people
from treelu.cli import compare
from treelu.cli import fit as fitting
from treelu.cli.app import app
from treelu.cli.compare import other_command
from treelu.cli.train import make_estimator
from treelu.persistence import load_as_saved

pytestmark = pytest.mark.slow


@pytest.fixture
def quick_lcn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large tree of depth 2, trained for a moment."""

    def quick(method: str, task: str, parameters: dict, seed: int) -> object:
        extra = {"depth": 2, "epochs": 3, "drop_connect": 0.0} if method == "lcn" else {}
        return make_estimator(method, task, parameters | extra, seed)  # type: ignore[arg-type]

    monkeypatch.setattr("treelu.cli.train.make_estimator", quick)
    monkeypatch.setattr(compare, "make_estimator", quick)


SMALL = ("--leaves", 3, "--terms", 1, "--no-cart")
COMPARED = (*SMALL, "--compare", "--no-refit")


@pytest.mark.usefixtures("quick_lcn")
def test_one_line_sets_the_small_tree_beside_the_large_one(table: Path, tmp_path: Path, type_: Type) -> None:
    words = ["fit", table, "--target", "survived", "--out", tmp_path / "m", *COMPARED]
    typed = type_(*words)
    (line,) = [line for line in typed.out.splitlines() if "the large tree (LCN" in line]
    pattern = r"(\d) lea(?:f|ves), at most 1 term: accuracy ([01]\.\d{3}); "
    pattern += r"the large tree \(LCN, \d+ lea(?:f|ves) that rows reach, \d terms?\): ([01]\.\d{3})"
    found = re.fullmatch(pattern, line)
    assert found is not None, line
    model = load_as_saved(tmp_path / "m")
    assert int(found[1]) == model.trees[0].n_leaves
    command = shlex.split(typed.out.split("for the large tree:\n")[1].splitlines()[0])
    assert command == shlex.split(
        f"treelu fit {table} --target survived --no-cart --no-refit --method lcn --out {tmp_path}/m-large"
    )
    assert type_(*command[1:]).code == 0
    assert load_as_saved(tmp_path / "m-large").method == "lcn"


@pytest.mark.usefixtures("quick_lcn")
def test_the_scores_are_those_of_the_two_commands(table: Path, tmp_path: Path, type_: Type) -> None:
    words = ["fit", table, "--target", "survived", *COMPARED, "--json"]
    small = json.loads(type_(*words, "--out", tmp_path / "small").out)
    words = [word for word in words if word not in SMALL[:4]]
    large = json.loads(type_(*words, "--method", "lcn", "--out", tmp_path / "large").out)
    compared = small["compared"]
    assert compared["metric"] == "accuracy"
    assert compared["small"]["score"] == pytest.approx(small["scores"]["survived"]["small tree"]["accuracy"]["value"])
    assert compared["large"]["score"] == pytest.approx(large["scores"]["survived"]["LCN"]["accuracy"]["value"])
    assert compared["large"]["leaves"] == large["trees"][0]["leaves"]
    assert large["compared"] is None


@pytest.mark.usefixtures("quick_lcn")
def test_it_is_on_request_and_large_tables_go_without(
    table: Path, tmp_path: Path, type_: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["fit", table, "--target", "survived", *SMALL]
    typed = type_(*words, "--out", tmp_path / "a")
    assert "the large tree (LCN" not in typed.out
    assert "for the large tree, which may be more accurate:\n  treelu fit" in typed.out
    assert "LCNClassifier" not in typed.err
    typed = type_(*words, "--compare", "--hold-out", 0, "--out", tmp_path / "b")
    assert "LCNClassifier" not in typed.err
    monkeypatch.setattr(compare, "MOST_CELLS", 10)
    typed = type_(*words, "--compare", "--out", tmp_path / "c")
    assert "the table is large: the large tree (LCN) is not fitted for comparison" in typed.err
    assert "the large tree (LCN, " not in typed.out


@pytest.mark.usefixtures("quick_lcn")
def test_values_are_compared_by_their_explained_variance(tmp_path: Path, type_: Type) -> None:
    people().dropna()[["sex", "survived", "age"]].to_csv(tmp_path / "t.csv", index=False)
    typed = type_("fit", tmp_path / "t.csv", "--target", "age", *COMPARED, "--out", tmp_path / "m")
    assert re.search(
        r"(1 leaf|\d leaves), (no question|at most 1 term): R² -?\d\.\d{3}; the large tree \(LCN, ", typed.out
    )


def test_a_large_tree_names_the_command_of_the_small_one(table: Path, tmp_path: Path, type_: Type) -> None:
    typed = type_(
        "fit", table, "--target", "survived", "--depth", 2, "--epochs=3", "--out", tmp_path / "m", "--no-cart"
    )
    (line,) = [line for line in typed.out.splitlines() if line.startswith("  treelu fit ")]
    assert line == f"  treelu fit {table} --target survived --no-cart --method tree --out {tmp_path}/m-small"


@pytest.mark.usefixtures("quick_lcn")
def test_a_rare_class_is_compared_by_its_ranking(tmp_path: Path, type_: Type) -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=300)
    frame = pd.DataFrame({"a": a, "b": rng.normal(size=300), "y": np.where(a > np.quantile(a, 0.94), "rare", "usual")})
    frame.to_csv(tmp_path / "t.csv", index=False)
    result = json.loads(
        type_("fit", tmp_path / "t.csv", "--target", "y", *COMPARED, "--out", tmp_path / "m", "--json").out
    )
    assert result["compared"]["metric"] == "ROC AUC"
    auc = result["scores"]["y"]["small tree"]["auc"]["value"]
    assert result["compared"]["small"]["score"] == pytest.approx(auc)


def other(typed: list[str], out: str, method: str) -> str:
    command = typer.main.get_command(app).commands["fit"]  # type: ignore[attr-defined]
    return other_command(typer.Context(command, obj=typed), Path(out), method)


def test_the_other_command_leaves_out_the_options_of_this_kind_of_tree() -> None:
    typed = ["fit", "a b.csv", "--target", "y", "--leaves", "8", "--out", "m"]
    assert other(typed, "m", "lcn") == "treelu fit 'a b.csv' --target y --method lcn --out m-large"
    typed = ["fit", "a.csv", "--target=y", "--depth=4", "--tune", "--max-features", "3", "--no-compare", "--out=m"]
    assert other(typed, "m", "tree") == "treelu fit a.csv --target=y --method tree --out m-small"
    said = other(["fit", "my data.csv", "--target", "it's"], "a/b", "lcn")
    assert shlex.split(said)[1:5] == ["fit", "my data.csv", "--target", "it's"]


@pytest.mark.usefixtures("quick_lcn")
def test_of_a_model_that_is_fitted_again_the_first_fit_is_compared(table: Path, tmp_path: Path, type_: Type) -> None:
    words = ["fit", table, "--target", "survived", *SMALL, "--compare", "--out"]
    (line,) = [line for line in type_(*words, tmp_path / "m").out.splitlines() if "the large tree (LCN" in line]
    first = type_(*words, tmp_path / "first", "--no-refit").out
    assert f"fitted to 64 rows: {first.splitlines()[first.splitlines().index('for the large tree:') - 1]}" == line


def test_a_comparison_that_is_interrupted_costs_the_comparison_only(
    table: Path, tmp_path: Path, type_: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting, "compare_with_large", interrupted)
    typed = type_("fit", table, "--target", "survived", *SMALL, "--compare", "--out", tmp_path / "m")
    assert typed.code == 130
    assert "scores on 16 hold-out rows" in typed.out
    assert (tmp_path / "m" / "report.html").exists()
