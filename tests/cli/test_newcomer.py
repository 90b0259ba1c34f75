"""Small and odd tables, fitted as a newcomer would: what is said must be true and help."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import Type
from treelu.persistence import load_as_saved

pytestmark = pytest.mark.slow

QUICK = ("--leaves", 3, "--terms", 1, "--no-compare")


def plain(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    a, group = rng.normal(size=n).round(3), rng.choice(["red", "blue"], n)
    return pd.DataFrame({"a": a, "group": group, "y": np.where(a + (group == "red") > 0.4, "yes", "no")})


def test_a_tiny_table_says_how_little_its_scores_mean(tmp_path: Path, type_: Type) -> None:
    plain(6).to_csv(tmp_path / "t.csv", index=False)
    typed = type_("fit", tmp_path / "t.csv", "--target", "y", "--out", tmp_path / "m", *QUICK)
    assert typed.code == 0, typed.err
    assert "scores on 1 hold-out row that training did not see" in typed.out
    assert "warning: the scores come from 1 row only, and say little" in typed.out
    assert "tree: 1 leaf: nothing found that helps on rows held out" in typed.out


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"y": "yes"}, "target 'y' is 'yes' in all 60 rows: there is nothing to learn; choose another --target"),
        ({"y": np.nan}, "target 'y': no row has a value; choose another --target"),
    ],
)
def test_targets_without_anything_to_learn(change: dict[str, object], error: str, tmp_path: Path, type_: Type) -> None:
    plain().assign(**change).to_csv(tmp_path / "t.csv", index=False)
    typed = type_("fit", tmp_path / "t.csv", "--target", "y", "--out", tmp_path / "m")
    assert (typed.code, typed.err.splitlines()[-1]) == (2, f"treelu: {error}")


def test_a_table_of_its_target_alone(tmp_path: Path, type_: Type) -> None:
    plain()[["y"]].to_csv(tmp_path / "t.csv", index=False)
    typed = type_("fit", tmp_path / "t.csv", "--target", "y", "--out", tmp_path / "m")
    assert typed.code == 2
    assert typed.err.splitlines()[-1] == (
        "treelu: the table has no column besides the target; there is nothing to learn from"
    )


def test_a_class_of_one_row_is_not_in_the_hold_out(tmp_path: Path, type_: Type) -> None:
    plain().assign(y=["yes"] * 59 + ["no"]).to_csv(tmp_path / "t.csv", index=False)
    typed = type_("fit", tmp_path / "t.csv", "--target", "y", "--out", tmp_path / "m", *QUICK)
    assert typed.code == 0, typed.err
    assert "warning: all rows here are 'yes': the scores say nothing about the other classes" in typed.out


def test_dates_as_numbers_and_units_from_file_to_prediction(tmp_path: Path, type_: Type) -> None:
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(60) * 37 % 900, unit="D")
    frame = plain().assign(start=days.strftime("%Y%m%d").astype(int), mass=[f"{i % 7 + 0.5} kg" for i in range(60)])
    frame.to_csv(tmp_path / "t.csv", index=False, encoding="utf-16", sep="\t")
    words = ["fit", tmp_path / "t.csv", "--target", "y", *QUICK, "--force"]
    typed = type_(*words, "--out", tmp_path / "m")
    assert "(--numbers start reads them as numbers)" in typed.err
    assert "all in kg" in typed.err
    model = load_as_saved(tmp_path / "m")
    answers = type_("predict", tmp_path / "m", tmp_path / "t.csv").out.splitlines()[1:]
    assert [line.split(",")[0] for line in answers] == model.estimator.predict(frame).tolist()
    assert type_(*words, "--numbers", "start", "--text", "mass", "--out", tmp_path / "n").code == 0
    kinds = {column.name: column.kind for column in load_as_saved(tmp_path / "n").encoder.columns}
    assert (kinds["start"], kinds["mass"]) == ("number", "text")


def test_options_in_notes_can_be_copied_from_the_terminal(tmp_path: Path, type_: Type) -> None:
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(60) * 37 % 900, unit="D")
    frame = plain().assign(**{"the day": days.strftime("%Y%m%d"), "row no": range(60)})
    frame["the mass"] = [f"{i % 7} kg" for i in range(60)]
    frame.to_csv(tmp_path / "t.csv", index=False)
    typed = type_("fit", tmp_path / "t.csv", "--target", "y", "--out", tmp_path / "m", *QUICK)
    for words in ("--numbers 'the day' reads", "--text 'the mass' reads", "--drop 'row no' if it numbers the rows"):
        assert words in typed.err
