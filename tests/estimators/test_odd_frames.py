"""Data frames that are seldom tried: odd names, types and values, which are read, or refused by name, never guessed."""

from __future__ import annotations

import datetime
import json
import shutil
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from treelu import LCNClassifier, ObliqueTree, ObliqueTreeClassifier
from treelu.tables.frames import native_frame, read_frame

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")

N = 80
SMALL: dict[str, Any] = {"max_leaf_nodes": 3, "teacher": None, "n_updates": 20, "cv": 2, "random_state": 0}
NUMBERS = np.random.default_rng(0).normal(size=N)
PLACES = np.random.default_rng(1).integers(0, 3, N)
ANSWER = PLACES == 1
DAY = datetime.date(2024, 2, 1)
HOURS = [datetime.timedelta(hours=int(place)) for place in PLACES]


def fitted(frame: Any) -> ObliqueTreeClassifier:
    return ObliqueTreeClassifier(**SMALL).fit(frame, ANSWER.astype(int))


def exported(tree: ObliqueTree, frame: Any) -> list[Any]:
    """The answers of the tree's Python program."""
    module: dict[str, Any] = {"__name__": "tree"}
    exec(tree.to_python(), module)
    rows = frame.to_dict("records") if hasattr(frame, "iloc") else pd.DataFrame(frame).to_dict("records")
    return [module["predict"](row)["prediction"] for row in rows]


def queried(tree: ObliqueTree, frame: Any) -> list[Any]:
    """The answers of the tree's query, in DuckDB."""
    with duckdb.connect() as database:
        database.register("shown", frame)
        answers = database.sql(tree.to_sql(dialect="duckdb", table="shown"))
        place = answers.columns.index("prediction")
        return [row[place] for row in answers.fetchall()]


ODD = ["it's", 'say "x"', "new\nline"]
FRAMES: dict[str, Any] = {
    "names of keywords": pd.DataFrame({"class": NUMBERS, "select": np.array(ODD)[PLACES], "from": -NUMBERS}),
    "names with marks": pd.DataFrame({
        'q"uote': np.array(["😀", "--x", "%d"])[PLACES], "new\nline": NUMBERS, "": NUMBERS, "treelu_source": NUMBERS,
        "{x}": NUMBERS, "c0": NUMBERS, "back\\slash": NUMBERS,
    }),
    "categories like missing values": pd.DataFrame({"x": NUMBERS, "k": np.array(["NA", "null", "-"])[PLACES]}),
    "a category of integers": pd.DataFrame({"x": NUMBERS, "k": pd.Categorical(PLACES)}),
    "a category of floats": pd.DataFrame({"x": NUMBERS, "k": pd.Categorical(PLACES / 2)}),
    "a category of truth values": pd.DataFrame({"x": NUMBERS, "k": pd.Categorical(ANSWER)}),
    "a dictionary of truth values": pa.table({"x": NUMBERS, "k": pa.array(ANSWER).dictionary_encode()}),
    "truth values and None": pd.DataFrame({
        "x": NUMBERS, "k": pd.Series(np.where(ANSWER, None, PLACES == 2), dtype=object).astype("boolean"),
    }),
    "nullable integers": pd.DataFrame({"k": pd.Series(np.where(ANSWER, None, PLACES), dtype=object).astype("Int64")}),
    "missing texts of all kinds": pd.DataFrame({
        "k": pd.Series(np.where(ANSWER, None, np.array(["a", "b", "c"])[PLACES]), dtype="string"),
    }),
    "decimals": pd.DataFrame({"k": [Decimal(int(place)) / 3 for place in PLACES], "c": "constant"}),
    "small integers": pd.DataFrame({"k": PLACES.astype(np.uint8), "text": np.array(["a", "b", "c"])[PLACES]}),
    "sparse": pd.DataFrame({"k": pd.arrays.SparseArray(PLACES), "text": np.array(["a", "b", "c"])[PLACES]}),
    "rows of another order": pd.DataFrame({"k": PLACES, "text": np.array(ODD)[PLACES]}, index=-np.arange(N)),
    "a time zone with a low line": pd.DataFrame({
        "t": pd.DatetimeIndex(np.datetime64("2024-01-31T22:30") + PLACES * np.timedelta64(2, "h")).tz_localize(
            "America/New_York"),
    }),
    "durations alone": pl.DataFrame({"x": NUMBERS, "t": HOURS}),
    "durations of Arrow": pa.table({"x": NUMBERS, "t": pa.array(HOURS)}),
    "an empty column of Polars": pl.DataFrame({"k": PLACES, "n": [None] * N, "t": np.array(["a", "b", "c"])[PLACES]}),
    "an empty column of Arrow": pa.table({"k": PLACES, "n": pa.nulls(N), "t": np.array(["a", "b", "c"])[PLACES]}),
    "dates in milliseconds": pa.table({
        "d": pa.array([DAY + datetime.timedelta(days=20 * int(place)) for place in PLACES], pa.date64())
    }),
    "categories with other codes": pa.concat_tables([
        pa.table({"k": pa.array(np.array(["a", "b", "c"])[PLACES[rows]]).dictionary_encode()})
        for rows in (slice(0, 30), slice(30, N))
    ]),
}  # fmt: skip
# What these libraries, or the database, cannot say in one cell.
NOT_EXPORTED = {"durations alone", "durations of Arrow", "sparse", "an empty column of Polars",
                "a dictionary of truth values", "categories with other codes"}  # fmt: skip


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.filterwarnings("ignore")
def test_the_answer_is_found_by_model_tree_and_programs(name: str) -> None:
    frame = FRAMES[name]
    model = fitted(frame)
    predicted = model.predict(frame)
    if name != "decimals":
        assert (predicted == ANSWER).mean() > 0.9
    assert (model.tree_.predict(frame) == predicted).all()
    if name not in NOT_EXPORTED:
        assert queried(model.tree_, frame if not hasattr(frame, "index") else frame.reset_index(drop=True)) == list(
            predicted
        )
        records = frame if hasattr(frame, "iloc") else pd.DataFrame(frame.to_pydict())
        assert exported(model.tree_, records) == list(predicted)


def test_a_category_of_truth_values_is_one_number() -> None:
    frame = FRAMES["a category of truth values"]
    model = fitted(frame)
    assert list(model.tree_.feature_names) == ["x", "k"]
    assert (model.predict(frame.astype({"k": bool})) == model.predict(frame)).all()
    named = ObliqueTreeClassifier(**SMALL, categorical_features=["k"]).fit(frame.astype({"k": bool}), ANSWER)
    assert list(named.tree_.feature_names) == ["x", "k"]


REFUSED: dict[str, tuple[Any, str]] = {
    "two numbers of one name": (pd.DataFrame(np.zeros((N, 2)), columns=["a", "a"]), "'a' is there more than once"),
    "two columns of one name": (
        pa.Table.from_arrays([pa.array(NUMBERS), pa.array(PLACES)], names=["a", "a"]), "'a' is there more than once",
    ),
    "names alike as texts": (pd.DataFrame({1: NUMBERS, "1": "a"}), "'1' is there more than once"),
    "no rows": (pd.DataFrame({"a": [], "b": pd.Series([], dtype=object)}), "X has no rows"),
    "constants": (pd.DataFrame({"a": ["x"] * N}), "no column with two different values"),
    "periods": (pd.DataFrame({"p": pd.period_range("2020-01", periods=N, freq="M")}), "'p' of type Period"),
    "complex numbers": (pd.DataFrame({"p": NUMBERS * 1j, "q": "a"}), "'p' of type complex"),
    "times of day": (pl.DataFrame({"p": [datetime.time(int(place)) for place in PLACES]}), "'p' of type Time"),
    "lists": (pa.table({"p": [[1]] * N}), "'p' of type List"),
    "bytes": (pd.DataFrame({"p": [b"a", b"b"] * (N // 2)}), "'p' of type bytes"),
    "infinity": (pd.DataFrame({"p": np.r_[np.inf, NUMBERS[1:]], "q": ["a", "b"] * (N // 2)}), "'p', row 1: infinity"),
    "a column": (pd.Series(NUMBERS), "2"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_by_name(name: str) -> None:
    frame, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        ObliqueTreeClassifier(**SMALL).fit(frame, ANSWER[: len(frame)])


def test_durations_are_refused_where_numbers_were_learned() -> None:
    model = LCNClassifier(depth=1, epochs=1, random_state=0).fit(pl.DataFrame({"t": NUMBERS}), ANSWER)
    with pytest.raises(ValueError, match=r"'t' of type Duration.*fitted to numbers alone"):
        model.predict(pl.DataFrame({"t": HOURS}))


def test_notes_speak_of_python() -> None:
    frame = pd.DataFrame({
        "weight": [f"{place} kg" for place in range(N)],
        "code": [f"0{place % 10}" for place in range(N)],
        "age": np.where(np.arange(N) % 5 == 0, -999, 30 + PLACES),
        "kind": np.array(["left", " left", "right"])[PLACES],
        "side": pd.Categorical(np.array(["left", " left", "right"])[PLACES]),
    })  # fmt: skip
    notes = "\n".join(fitted(frame).column_notes_)
    assert "--" not in notes
    assert "(all in kg; categorical_features=['weight'] reads categories)" in notes
    assert "-999 in 16 of 80 rows, all others are from 30 to 32; replace by NaN if that stands" in notes
    assert "column 'side': ' left' and 'left' are one category" in notes or (
        "column 'side': 'left' and ' left' are one category" in notes
    )


@pytest.mark.filterwarnings("ignore:X is a lazy frame", "ignore:.*not seen in training")
@pytest.mark.parametrize("library", ["dask", "duckdb", "polars"])
def test_lazy_frames_are_collected(library: str) -> None:
    frame = pd.DataFrame({"x": NUMBERS, "k": np.array(["a", "b", "c"])[PLACES]})
    if library == "dask":
        given = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3)
    else:
        given = pl.from_pandas(frame).lazy() if library == "polars" else duckdb.connect().from_df(frame)
    model = fitted(frame)
    np.testing.assert_array_equal(fitted(given).predict_proba(frame), model.predict_proba(frame))
    with pytest.warns(UserWarning, match="X is a lazy frame, which is collected"):
        np.testing.assert_array_equal(model.predict_proba(given), model.predict_proba(frame))


# Missing values that no training row had: exports refuse what predict refuses


def missing_nothing() -> tuple[pd.DataFrame, ObliqueTree]:
    days = pd.date_range("2024-01-01", periods=N)
    frame = pd.DataFrame({"kind": np.array(["a", "b", "c"])[PLACES], "day": days})
    y = (PLACES == 1) ^ (np.arange(N) > 40)
    tree = ObliqueTreeClassifier(**{**SMALL, "max_leaf_nodes": 4}, leaves="constant").fit(frame, y).tree_
    assert tree.unused_columns() == set()
    return frame, tree


@pytest.mark.parametrize("column", ["kind", "day"])
def test_programs_refuse_what_predict_refuses(column: str, tmp_path: Path) -> None:
    frame, tree = missing_nothing()
    row = frame.iloc[:2].copy()
    row.loc[0, column] = None
    with pytest.raises(ValueError, match=f"missing value in column '{column}', row 0"):
        tree.predict(row)
    with pytest.raises(ValueError, match=f"column '{column}': a missing value, which no training row had"):
        exported(tree, row)
    kept = bool(tree.predict(frame.iloc[[1]])[0])
    assert queried(tree, row.astype({"kind": "string"})) == [None, kept]
    if shutil.which("node") is not None:
        (tmp_path / "tree.mjs").write_text(tree.to_javascript(), encoding="utf-8")
        cells = json.dumps({"kind": "a", "day": "2024-01-01", column: None})
        call = f'import("{tmp_path}/tree.mjs").then((tree) => tree.predict({cells}))'
        found = subprocess.run(["node", "-e", call], capture_output=True, text=True)
        assert "a missing value, which no training row had" in found.stderr
    if shutil.which("gcc") is not None:
        code = tree.to_c(name="tree")
        kind, day = ("NULL", "0") if column == "kind" else ('"a"', "NAN")
        main = f"""#include "tree.h"
int main(void) {{ double numbers[1] = {{ {day} }}, outputs[tree_n_outputs]; const char *texts[1] = {{ {kind} }};
return tree_predict(numbers, texts, outputs) == -1 && tree_self_test() == 0 ? 0 : 1; }}"""
        (tmp_path / "tree.h").write_text(code, encoding="utf-8")
        (tmp_path / "main.c").write_text(main, encoding="utf-8")
        subprocess.run(["gcc", "-o", tmp_path / "main", tmp_path / "main.c", "-lm"], check=True)
        assert subprocess.run([tmp_path / "main"]).returncode == 0


@pytest.mark.filterwarnings("ignore:.*which no training row had")
def test_model_tree_and_programs_fill_what_is_asked_for() -> None:
    frame, _ = missing_nothing()
    model = ObliqueTreeClassifier(**SMALL, missing="indicator").fit(frame, ANSWER)
    new = frame.head(6).copy()
    new.loc[[0, 3], "kind"], new.loc[[1, 3], "day"] = None, pd.NaT
    predicted = model.predict(new).tolist()
    assert model.tree_.predict(new).tolist() == predicted
    assert exported(model.tree_, new) == predicted
    assert queried(model.tree_, new.astype({"kind": "string"})) == predicted
    assert ObliqueTree.from_json(model.tree_.to_json()).predict(new).tolist() == predicted


@pytest.mark.parametrize("column", ["kind", "day"])
def test_onnx_has_no_probability_for_what_predict_refuses(column: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    from treelu.export.onnx_program import program_to_onnx
    from treelu.export.program import tree_program

    frame, tree = missing_nothing()
    session = runtime.InferenceSession(program_to_onnx(tree_program(tree)))
    seconds = frame["day"].astype("datetime64[s]").astype(np.int64).to_numpy(np.float64)[:2, None]
    cells = {"kind": frame["kind"].to_numpy(dtype=object)[:2, None], "day": seconds}
    cells[column] = cells[column].copy()
    cells[column][0] = "" if column == "kind" else np.nan
    _, probabilities = session.run(None, cells)
    assert not np.isfinite(probabilities[0]).any()
    np.testing.assert_allclose(probabilities[1], tree.predict_proba(frame.iloc[[1]])[0])


def test_words_for_missing_values_are_texts_as_for_predict() -> None:
    frame = pd.DataFrame({"kind": pd.Series(np.where(ANSWER, None, np.array(["a", "b", "c"])[PLACES]), dtype=object)})
    model = fitted(frame)
    new = pd.DataFrame({"kind": ["NA", "null", None, ""]})
    with pytest.warns(UserWarning, match="not seen in training"):
        predicted = model.predict(new)
    assert predicted.tolist() == [0, 0, 1, 1]
    assert exported(model.tree_, new) == predicted.tolist()
    assert queried(model.tree_, new.astype("string")) == predicted.tolist()


def test_sqlite_reads_numbers_as_the_frame_writes_them() -> None:
    import sqlite3

    frame = pd.DataFrame({
        "weight": pd.Series([f"{place:.1f} kg" for place in PLACES], dtype=object).where(NUMBERS < 1, None),
        "owner": np.where(NUMBERS > 0, "True", "False"),
        "price": [f"£{1000 * place:,.2f}" for place in PLACES],
    })  # fmt: skip
    model = ObliqueTreeClassifier(**SMALL, leaves="linear").fit(frame, ANSWER)
    assert [column.kind for column in model.encoder_.columns] == ["number"] * 3
    with sqlite3.connect(":memory:") as database:
        frame.to_sql("shown", database, index=False)
        answers = database.execute(model.tree_.to_sql(dialect="sqlite", table="shown", keep=["owner"])).fetchall()
    assert [bool(row[1]) for row in answers] == model.predict(frame).tolist()
    assert all(row[1] is not None for row in answers)


def test_a_missing_number_of_a_linear_leaf_has_no_answer(tmp_path: Path) -> None:
    tree = ObliqueTree(
        [[1.0, 0.0]], [0.0], [[1, 2]], [[0.5], [-0.5]], leaf_weights=[[[0.0, 1.0]], [[0.0, -1.0]]],
        classes=["a", "b"], link="logistic", feature_names=["u", "v"],
    )  # fmt: skip
    with pytest.raises(ValueError, match="a number that the tree asks for is missing"):
        exported(tree, pd.DataFrame({"u": [1.0], "v": [np.nan]}))
    if shutil.which("node") is not None:
        (tmp_path / "tree.mjs").write_text(tree.to_javascript(), encoding="utf-8")
        call = f'import("{tmp_path}/tree.mjs").then((tree) => tree.predict({{ u: 1, v: null }}))'
        found = subprocess.run(["node", "-e", call], capture_output=True, text=True)
        assert "a number that the tree asks for is missing" in found.stderr
    if shutil.which("gcc") is not None:
        (tmp_path / "tree.h").write_text(tree.to_c(name="tree"), encoding="utf-8")
        (tmp_path / "main.c").write_text(
            '#include "tree.h"\nint main(void) { double numbers[2] = { 1, NAN }, outputs[tree_n_outputs];\n'
            "return tree_predict(numbers, outputs) == -1 && tree_self_test() == 0 ? 0 : 1; }",
            encoding="utf-8",
        )
        subprocess.run(["gcc", "-o", tmp_path / "main", tmp_path / "main.c", "-lm"], check=True)
        assert subprocess.run([tmp_path / "main"]).returncode == 0


def test_numbers_are_the_same_in_frames_of_all_libraries() -> None:
    decimals, large = [Decimal(place) / 100 for place in range(1000)], [2**53 + 1, 2**60 - 1, *range(998)]
    columns = {"decimal": decimals, "large": large, "lacking": [None, *large[1:]]}
    frames = [pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)]
    first, *others = (read_frame(native_frame(frame)).data for frame in frames)
    assert first["decimal"].tolist() == [float(value) for value in decimals]
    assert first["large"].tolist() == [float(value) for value in large]
    for other in others:
        pd.testing.assert_frame_equal(other, first, check_exact=True)
