"""`treelu predict`: any size, any format, a row for each row."""

import gzip
import io
import json
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import FixedThresholdClassifier

import treelu
from tests.cli.conftest import Type, people
from tests.fixed import predicted
from treelu.cli import main
from treelu.cli import predict as predicting
from treelu.cli.predict import predicted_table
from treelu.persistence import load_as_saved, save


def read(text: str) -> pd.DataFrame:
    """The output as a frame, its probabilities to the last digit, which pandas 2 does not read by itself."""
    exact = pd.read_csv(io.StringIO(text), dtype=str).filter(like="probability").astype(float)
    return pd.read_csv(io.StringIO(text)).assign(**exact)


def test_predictions_are_the_models_own(table: Path, model: Path, type_: Type) -> None:
    typed = type_("predict", model, table)
    assert (typed.code, typed.err) == (0, "")
    result = read(typed.out)
    loaded = load_as_saved(model)
    assert list(result.columns) == ["prediction", "probability_0", "probability_1"]
    assert np.array_equal(result["prediction"], loaded.estimator.predict(people()))
    assert np.array_equal(result[["probability_0", "probability_1"]], loaded.estimator.predict_proba(people()))


def test_the_loaded_estimator_predicts_the_file_as_the_command(
    table: Path, model: Path, tmp_path: Path, type_: Type
) -> None:
    later = people().head(20)
    later.loc[0, "sex"] = None  # no training row lacked it
    later.to_csv(tmp_path / "later.csv", sep=";", index=False)
    loaded = treelu.load(model)
    assert loaded.tree_.columns is not None
    for path, unseen in ((table, False), (tmp_path / "later.csv", True)):
        wanted, frame = read(type_("predict", model, path).out), treelu.read_table(path).frame
        with pytest.warns(UserWarning, match="sex") if unseen else nullcontext():
            found = loaded.predict_proba(frame)
        assert np.array_equal(wanted[["probability_0", "probability_1"]], found)
        assert loaded.classes_[found.argmax(axis=1)].tolist() == wanted["prediction"].tolist()
    loaded.save(tmp_path / "again")
    assert np.array_equal(treelu.load(tmp_path / "again").predict(people()), loaded.predict(people()))


def test_a_loaded_estimator_of_labels_of_molecules(molecules: Path, labels_model: Path) -> None:
    frame = treelu.read_table(molecules).frame.drop(index=5)  # unreadable
    frame.loc[0, "id"] = None  # no training row lacked it
    found = treelu.load(labels_model).predict_proba(frame)
    wanted = predicted_table(saved := load_as_saved(labels_model), saved.encoder.encode(frame), len(frame))
    assert np.array_equal(found, wanted)


def test_a_report_from_python_draws_molecules_as_that_of_the_command(molecules: Path, labels_model: Path) -> None:
    frame = treelu.read_table(molecules).frame.drop(index=5)
    model = treelu.load(labels_model).estimators_[0]
    rows = frame[frame["toxic"].notna()]
    html = model.report(rows, rows["toxic"].astype(int)).html
    assert html.count("\\u003csvg") > len(rows)  # one for each row, and substructures
    assert rows["smiles"].iloc[0] in html


def test_a_threshold_of_the_folder_is_told_when_it_is_loaded(model: Path, tmp_path: Path) -> None:
    saved = replace(load_as_saved(model), threshold=0.3)
    save(saved, tmp_path / "m")
    with pytest.warns(UserWarning, match=r"threshold of 0\.3.*predict_proba") as told:
        loaded = treelu.load(tmp_path / "m")
    assert told[0].filename == __file__
    assert np.array_equal(loaded.predict_proba(people()), saved.estimator.predict_proba(people()))
    code = str(told[0].message).partition("use predict_proba, or ")[2].partition(" of sklearn")[0]
    decided = eval(code, {"FixedThresholdClassifier": FixedThresholdClassifier, "model": loaded})
    assert decided.predict(people()).tolist() == predicted(saved, people()).tolist()
    assert (decided.predict(people()) != loaded.predict(people())).any()


@pytest.mark.parametrize("rows", [1, 7, 79, 80])
def test_the_size_of_the_pieces_does_not_matter(
    rows: int, table: Path, model: Path, type_: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = type_("predict", model, table).out
    monkeypatch.setattr(predicting, "MAX_ROWS", rows)
    assert type_("predict", model, table).out == whole
    assert whole.count("\n") == 81


def test_the_format_does_not_matter(table: Path, model: Path, tmp_path: Path, type_: Type) -> None:
    whole = type_("predict", model, table).out
    people().to_parquet(tmp_path / "p.parquet")
    people().to_csv(tmp_path / "p.tsv.gz", sep="\t", index=False)
    people()[["sex", "survived", "age"]].to_csv(tmp_path / "p.txt", sep=";", decimal=",", index=False)
    (tmp_path / "p.parquet.gz").write_bytes(gzip.compress((tmp_path / "p.parquet").read_bytes()))
    assert type_("predict", model, tmp_path / "p.parquet").out == whole
    assert type_("predict", model, tmp_path / "p.parquet.gz").out == whole
    assert type_("predict", model, tmp_path / "p.tsv.gz").out == whole
    assert type_("predict", model, tmp_path / "p.txt", "--delimiter", ";", "--decimal", ",").out == whole


def test_standard_input(table: Path, model: Path, type_: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = type_("predict", model, table).out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(table.read_bytes())))
    assert type_("predict", model, "-").out == whole


class ManyRows(io.RawIOBase):
    """A table that is made while it is read."""

    def __init__(self, n_rows: int) -> None:
        self.text = io.BytesIO(b"name,age,sex\n" + b"somebody,41.5,male\n" * n_rows)
        self.n_read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        piece = self.text.read(len(buffer))
        buffer[: len(piece)] = piece
        self.n_read += len(piece)
        return len(piece)


def test_a_table_is_read_while_predictions_are_written(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ManyRows(200_000)
    seen = []

    class Output(io.StringIO):
        def write(self, text: str) -> int:
            seen.append(rows.n_read)
            return len(text)

    monkeypatch.setattr(predicting, "MAX_ROWS", 2_000)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(rows)))
    monkeypatch.setattr(sys, "stdout", Output())
    assert main(["predict", str(model), "-"]) == 0
    assert rows.n_read > 3_000_000
    assert seen[0] < 600_000, "the first predictions are out before much is read"
    assert np.diff(seen).max() < 600_000, "and so on"


def test_columns_can_be_kept_and_lines_be_json(table: Path, model: Path, type_: Type) -> None:
    lines = type_("predict", model, table, "--keep", "name,age", "--json").out.splitlines()
    assert len(lines) == 80
    assert list(json.loads(lines[0])) == ["name", "age", "prediction", "probability_0", "probability_1"]
    assert json.loads(lines[3])["age"] is None
    typed = type_("predict", model, table, "--keep", "nme")
    assert typed.err == "treelu: --keep: the table has no column 'nme'; did you mean 'name'?\n"


def test_a_file_appears_when_it_is_complete(
    table: Path, model: Path, tmp_path: Path, type_: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "scores.csv"
    assert type_("predict", model, table, "--out", out) == (0, "", "")
    assert out.read_text() == type_("predict", model, table).out
    assert (
        type_("predict", model, table, "--out", out).err == f"treelu: --out {out} exists; add --force to replace it\n"
    )
    assert (
        type_("predict", model, table, "--out", tmp_path).err == f"treelu: --out {tmp_path} is a folder; give a file\n"
    )
    nowhere = tmp_path / "none" / "x.csv"
    assert type_("predict", model, table, "--out", nowhere).err == (
        f"treelu: --out {nowhere}: there is no folder {nowhere.parent}; make it first\n"
    )
    bad = people().astype({"age": object})
    bad.loc[60, "age"] = "old"
    bad.to_csv(tmp_path / "bad.csv", index=False)
    monkeypatch.setattr(predicting, "MAX_ROWS", 20)
    before = out.read_text()
    typed = type_("predict", model, tmp_path / "bad.csv", "--out", out, "--force")
    assert typed == (
        2,
        "",
        "treelu: column 'age', row 61: 'old' is not a number; correct it, or leave it empty if it is missing\n",
    )
    assert out.read_text() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "scores.csv"]


def test_mistakes(table: Path, model: Path, tmp_path: Path, type_: Type) -> None:
    def message(*words: object) -> str:
        typed = type_("predict", *words)
        assert typed.code == 2
        assert typed.out == ""
        assert typed.err.count("\n") == 1
        return typed.err.removeprefix("treelu: ").strip()

    people().drop(columns=["age"]).to_csv(tmp_path / "less.csv", index=False)
    less = tmp_path / "less.csv"
    assert message(model, less) == f"{less}: the table has no column 'age'; it has 'name', 'sex', 'survived'"
    people()[["name"]].to_csv(less, index=False)
    assert message(model, less) == f"{less}: the table lacks 2 columns: 'age', 'sex'"
    assert message(tmp_path / "none", table) == f"{tmp_path / 'none'} does not exist; give the folder of a saved model"
    assert message(table, table) == f"{table} is a file; give the folder of a saved model"
    assert message(tmp_path, table) == f"{tmp_path} cannot be read: it has no model.json, so it is not a saved model"
    assert message(model, tmp_path / "none.csv") == (
        f"{tmp_path / 'none.csv'} does not exist; check its name and folder"
    )
    load_as_saved(model).trees[0].save(tmp_path / "tree")
    assert message(tmp_path / "tree", table) == (
        f"{tmp_path / 'tree'} holds a ObliqueTree that was saved from Python, without a table; load it there with "
        f"treelu.load({str(tmp_path / 'tree')!r})"
    )
    altered = tmp_path / "altered"
    altered.mkdir()
    for path in model.iterdir():
        (altered / path.name).write_bytes(path.read_bytes())
    (altered / "model.json").write_text((model / "model.json").read_text().replace('"age"', '"agf"'))
    assert message(altered, table) == (
        f"{altered} cannot be read: model.json does not fit its checksum: it was altered"
    )


def test_molecules_that_cannot_be_read_leave_their_rows_empty(
    molecules: Path, labels_model: Path, type_: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predicting, "MAX_ROWS", 4)
    typed = type_("predict", labels_model, molecules, "--keep", "id")
    assert typed.err == "  1 SMILES cannot be read (rows 6); their predictions are left empty\n"
    result = read(typed.out)
    assert len(result) == 40
    assert result["id"].tolist() == list(range(40))
    assert np.flatnonzero(result["probability_toxic"].isna()).tolist() == [5]


def test_texts_that_a_spreadsheet_would_execute_get_an_apostrophe(model: Path, tmp_path: Path, type_: Type) -> None:
    frame = people().assign(**{"=id": ["=cmd|' /C calc'!A0", "-5", "+1 555", "@sum", "plain", "\t=1"] + ["x"] * 74})
    frame.to_csv(tmp_path / "t.csv", index=False)
    typed = type_("predict", model, tmp_path / "t.csv", "--keep", "=id")
    lines = [line.split(",")[0] for line in typed.out.splitlines()[:6]]
    assert lines == ["'=id", "'=cmd|' /C calc'!A0", "-5", "'+1 555", "'@sum", "plain"]
    typed = type_("predict", model, tmp_path / "t.csv", "--keep", "=id", "--json")
    assert json.loads(typed.out.splitlines()[0])["=id"] == "=cmd|' /C calc'!A0"  # JSON is for programs


def test_kept_columns_stand_as_they_stood(model: Path, tmp_path: Path, type_: Type) -> None:
    frame = people().head(3).assign(article=["00120", "120", "1e5"], id=["900719925474099312", "1.50", "007"])
    frame["age"] = ["41", "38.0", "029"]
    frame.to_csv(tmp_path / "t.csv", index=False)
    out = type_("predict", model, tmp_path / "t.csv", "--keep", "article,id", "--keep", "age").out
    kept = pd.read_csv(io.StringIO(out), dtype=str)[["article", "id", "age"]]
    assert kept.to_numpy().tolist() == frame[["article", "id", "age"]].to_numpy().tolist()
    alone = type_("predict", model, tmp_path / "t.csv").out
    assert [line.split(",", 3)[3] for line in out.splitlines()] == alone.splitlines()


def test_kept_codes_keep_their_zeros_in_json_and_numbers_stay_numbers(model: Path, tmp_path: Path, type_: Type) -> None:
    frame = people().head(3).assign(article=["00120", "120", "7"], id=["900719925474099312", "2", "3"])
    frame = frame.assign(price=["1.50", "", "2"], paid=["True", "False", "True"], count=[3, 4, 5])
    frame.to_csv(tmp_path / "t.csv", index=False)
    out = type_("predict", model, tmp_path / "t.csv", "--keep", "article,id,price,paid,count", "--json").out
    rows = [list(json.loads(line).values())[:5] for line in out.splitlines()]
    assert rows == [
        ["00120", "900719925474099312", 1.5, True, 3],
        ["120", "2", None, False, 4],
        ["7", "3", 2, True, 5],
    ]


def test_values_that_the_model_does_not_know_are_told_with_their_rows(
    model: Path, tmp_path: Path, type_: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = people().head(30)
    frame.loc[[1, 25], "sex"] = ["Femal", "robot"]
    frame.loc[8, "age"] = 4100.0
    frame.to_csv(tmp_path / "new.csv", index=False)
    monkeypatch.setattr(predicting, "MAX_ROWS", 10)
    typed = type_("predict", model, tmp_path / "new.csv")
    assert typed.code == 0
    assert len(typed.out.splitlines()) == 31
    low, high = people()["age"].min(), people()["age"].max()
    assert typed.err == (
        f"  warning: column 'age': 1 value far outside the training range {low:.6g} to {high:.6g} (4100), in row 9; a "
        "typing error?\n"
        "  warning: column 'sex': 2 values not seen in training ('Femal', did you mean 'female'?; 'robot'), in rows 2, "
        "26; its features are all 0 there\n"
    )


def test_strict_refuses_values_that_the_model_does_not_know(model: Path, tmp_path: Path, type_: Type) -> None:
    frame = people()
    frame.to_csv(tmp_path / "known.csv", index=False)
    assert type_("predict", model, tmp_path / "known.csv", "--strict")[::2] == (0, "")
    frame.assign(sex="robot").to_csv(tmp_path / "new.csv", index=False)
    typed = type_("predict", model, tmp_path / "new.csv", "--strict", "--out", tmp_path / "out.csv")
    assert (typed.code, typed.out) == (2, "")
    assert typed.err == (
        "  warning: column 'sex': 80 values not seen in training ('robot' 80 times), in rows 1, 2, 3, 4, 5, …; its "
        "features are all 0 there\n"
        "treelu: --strict: the table has values that no training row had, see above; correct them, or leave --strict "
        "out\n"
    )
    assert not (tmp_path / "out.csv").exists()


def test_of_several_files_each_warning_names_its_own(model: Path, tmp_path: Path, type_: Type) -> None:
    (tmp_path / "data").mkdir()
    people().to_csv(tmp_path / "data" / "a.csv", index=False)
    people().assign(sex="robot").to_csv(tmp_path / "data" / "b.csv", index=False)
    typed = type_("predict", model, tmp_path / "data")
    assert typed.err.startswith(f"  warning: {tmp_path / 'data' / 'b.csv'}: column 'sex': 80 values not seen")
    assert typed.err.count("\n") == 1
