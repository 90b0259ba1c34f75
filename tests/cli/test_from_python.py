"""Commands on models that Python fitted to a data frame and saved."""

from __future__ import annotations

import io
import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import treelu
from tests.cli.conftest import Type

QUICK: dict[str, Any] = {"depth": 3, "epochs": 40, "random_state": 0}


def people(n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 80, n).astype(float), "income": rng.normal(50, 15, n).round(2)})
    return frame.assign(city=rng.choice(["Rome", "Oslo", "Bonn"], n), idle=rng.random(n).round(3))


def answers(frame: pd.DataFrame) -> np.ndarray:
    return np.where(frame["income"] + 0.5 * frame["age"] > 75, "yes", "no")


@pytest.fixture(params=["tree", "network", "numbers"])
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Any, pd.DataFrame]:
    """The folder of a model, the model, and its columns."""
    frame, model = people(), treelu.LCNClassifier(**QUICK)
    if request.param == "tree":
        model = treelu.ObliqueTreeClassifier(max_leaf_nodes=4, teacher=None, n_updates=50, random_state=0)
    if request.param == "numbers":
        frame = frame.drop(columns="city")
    model.fit(frame, answers(frame)).save(tmp_path / "m")
    frame.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "m", model, frame


def test_a_file_is_predicted_and_exported_as_python_predicts_it(saved: Any, type_: Type) -> None:
    folder, model, frame = saved
    typed = type_("predict", folder, folder.parent / "people.csv")
    assert (typed.code, typed.err) == (0, "")
    found = pd.read_csv(io.StringIO(typed.out))
    assert found["prediction"].tolist() == model.predict(frame).tolist()
    np.testing.assert_allclose(found[["probability_no", "probability_yes"]], model.predict_proba(frame), rtol=1e-12)
    query = type_("export", folder, "--format", "sql", "--dialect", "sqlite").out
    data = sqlite3.connect(":memory:")
    frame.to_sql("data", data, index=False)
    assert [row[0] for row in data.execute(query)] == model.predict(frame).tolist()
    assert type_("export", folder).out.strip() == model.tree_.export_text(max_leaves=None, scale=None).strip()


def test_queries_and_reports(saved: Any, type_: Type) -> None:
    folder, model, frame = saved
    frame.head(3).to_csv(folder.parent / "few.csv", index=False)
    typed = type_("ask", folder, folder.parent / "few.csv", "--keep", "age", "--json")
    assert typed.code == 0, typed.err
    for number, answer in enumerate(map(json.loads, typed.out.splitlines())):
        changed = frame.iloc[[number]].copy()
        for column, change in answer["changes"].items():
            changed[column] = change["to"]
        assert model.predict(changed)[0] == (answer["new_prediction"] if answer["found"] else answer["prediction"])
    told = type_("verify", folder, "--independent", "idle", "--at-most", 1)
    assert told.out.splitlines()[-1].startswith("proved: the probability of target = yes is at most 1")
    assert type_("report", folder, "--out", folder.parent / "page.html").code == 0
    refused = type_("report", folder, folder.parent / "people.csv", "--out", folder.parent / "scores.html")
    assert "saved from Python and does not know the column of its target" in refused.err


def test_a_missing_value_is_refused_as_in_python(saved: Any, type_: Type) -> None:
    folder, model, frame = saved
    frame.loc[4, "income"] = np.nan
    frame.to_csv(folder.parent / "gaps.csv", index=False)
    refused = type_("predict", folder, folder.parent / "gaps.csv")
    assert refused.code != 0
    assert "column 'income', row 5" in refused.err
    with pytest.raises(ValueError, match=r"NaN|income"):
        model.predict(frame)


def test_what_reads_no_columns_says_so(tmp_path: Path, type_: Type) -> None:
    frame = people().drop(columns="city")
    treelu.LCNClassifier(**QUICK).fit(frame.to_numpy(), answers(frame)).save(tmp_path / "array")
    gaps = frame.where(frame["age"] > 30)
    treelu.LCNClassifier(**QUICK).fit(gaps, answers(frame)).save(tmp_path / "gaps")
    frame.to_csv(tmp_path / "people.csv", index=False)
    for name, what in (("array", "an array without names"), ("gaps", "numbers with missing values")):
        typed = type_("predict", tmp_path / name, tmp_path / "people.csv")
        assert typed.code != 0
        assert f"a LCNClassifier that was fitted from Python to {what}; load it there with treelu.load(" in typed.err
