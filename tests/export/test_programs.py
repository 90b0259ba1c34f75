"""Exported programs in the engines they are written for: the same leaf as the tree, the same answers as the model."""

from __future__ import annotations

import math
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks import engines
from benchmarks.engines import Answers, Run
from benchmarks.export_cases import Case, frame_case, number_case, table, table_case
from tests.tree.trees import KINDS, random_tree
from treelu import ALCNRegressor, ELCNClassifier, ELCNRegressor, LCNClassifier, LCNRegressor, StackedRegressor
from treelu.cli.export import table_program
from treelu.cli.predict import predicted_table
from treelu.export.columns import column_recipes
from treelu.export.dialects import DIALECTS
from treelu.export.onnx import rows_in_doubt
from treelu.export.program import Column, Part, Program, estimator_program, output_names, tree_program
from treelu.persistence.table_model import TableModel
from treelu.tables import TableEncoder
from treelu.tables.columns import KINDS as KINDS_OF_COLUMNS

pytestmark = pytest.mark.slow

ENGINES = ("sqlite", "duckdb", "postgresql", "c", "javascript", "python", "onnx")
Runner = Callable[[Program, engines.Rows], Run]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Runner:
    """A way to run a program; skipped where the engine is absent, but not in CI, which installs all of them."""
    reason = engines.absent(request.param)
    if reason is not None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    if request.param == "postgresql":
        return request.getfixturevalue("server").run
    return getattr(engines, f"run_{request.param}")


def numbers(program: Program, answers: Answers) -> np.ndarray:
    """The outputs of all rows, NaN where there are none."""
    start = int(program.has_label)
    return np.array([row[start : start + len(program.outputs)] for row in answers], dtype=np.float64)


def check(case: Case, run: Run, exact: bool = False) -> None:
    """Compare answers with the program's own, and leaves where the engine tells them."""
    assert run.failures == 0
    wanted = np.column_stack([part.answers(case.X)[0] for part in case.program.parts])
    found = numbers(case.program, run.answers)
    if exact:
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
    if run.answers and isinstance(run.answers[0][-1], list):
        assert [row[-1] for row in run.answers] == case.leaves.tolist()
    labels = case.program.parts[0].answers(case.X)[1]
    if labels is not None and case.program.has_label:
        classes = case.program.parts[0].classes
        assert classes is not None
        assert [row[0] for row in run.answers] == [classes[label] for label in labels]


def test_rows_on_boundaries_reach_the_trees_leaf(engine: Runner) -> None:
    """A leaf's value is its number, so equal answers are equal leaves."""
    case = number_case(np.random.default_rng(0), 5000)
    scores = np.abs(case.X @ case.program.trees[0].weights.T + case.program.trees[0].biases)
    assert (scores.min(axis=1) < 1e-14).mean() > 0.3
    check(case, engine(case.program, case.rows), exact=True)


def test_columns_of_a_table_are_encoded_as_in_training(engine: Runner) -> None:
    """Missing values, unknown categories, blanks, dates; the oracle is the encoder of tables."""
    case = table_case(np.random.default_rng(1), 3000)
    assert {column.kind for column in case.program.columns} == {"number", "text", "date"}
    assert len(set(case.leaves[:, 0].tolist())) > 10
    check(case, engine(case.program, case.rows), exact=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_rows_of_a_fitted_frame_get_the_label_of_predict(engine: Runner) -> None:
    model, frame, case = frame_case(np.random.default_rng(0), 5000)
    answers, wanted = engine(case.program, case.rows).answers, model.predict(frame)
    assert set(wanted.tolist()) == {"no", "yes"}
    assert {column.kind for column in case.program.columns} >= {"number", "text"}
    assert [row[0] for row in answers] == wanted.tolist()
    np.testing.assert_allclose(numbers(case.program, answers), model.predict_proba(frame), rtol=1e-12, atol=1e-14)


def _combinations() -> dict[str, Program]:
    rng = np.random.default_rng(2)
    found = {kind: tree_program(random_tree(rng, 7, 5, kind)) for kind in KINDS}
    for kind, combine in [("identity2", "mean"), ("logistic", "sum"), ("softmax", "sum"), ("softmax", "vote")]:
        trees = [random_tree(rng, 5, 5, kind) for _ in range(3)]
        found[f"{kind} {combine}"] = tree_program(trees, combine=combine)  # type: ignore[arg-type]
    trees = (random_tree(rng, 5, 5, "logistic"), random_tree(rng, 3, 5, "logistic"))
    columns, features = found["identity"].columns, found["identity"].features
    labels = tuple(Part(trees[: k + 1], (f"probability_{k}",), only=1) for k in range(2))
    found["labels"] = Program(columns, features, labels)
    found["deep"] = tree_program(random_tree(rng, 200, 5, "identity"))
    found["one vote"] = tree_program([random_tree(np.random.default_rng(4), 7, 5, "logistic")], combine="vote")
    found["one leaf"] = tree_program(random_tree(rng, 0, 5, "softmax"))
    decided = Part(trees, output_names(trees[0]), threshold=(1, 0.7))
    found["threshold"] = Program(columns, features, (decided,))
    return found


PROGRAMS = _combinations()


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "c"], indirect=True)
def test_all_kinds_of_answers(engine: Runner, kind: str) -> None:
    _check_kind(engine, kind)


@pytest.mark.parametrize("kind", ["linear softmax", "softmax vote", "threshold", "labels"])
@pytest.mark.parametrize("engine", ["c"], indirect=True)
def test_all_kinds_of_answers_in_c(engine: Runner, kind: str) -> None:
    _check_kind(engine, kind)


def _check_kind(engine: Runner, kind: str) -> None:
    program = PROGRAMS[kind]
    X = np.random.default_rng(3).standard_normal((200, len(program.columns)))
    check(Case(program, X.tolist(), X), engine(program, X.tolist()))


@pytest.fixture(scope="module")
def models() -> list[TableModel]:
    """A tree with a threshold and trees that vote, of a table."""
    rng = np.random.default_rng(4)
    frame = table(rng, 300, known=True)
    target = np.where(frame["height"].fillna(0) + 5 * (frame["colour"] == "red") > 1, "yes", "no")
    X = TableEncoder.learn(frame, note=lambda text: None, text=["colour"]).encode(frame)
    lcn = LCNClassifier(depth=3, epochs=3, random_state=0).fit(X, target)
    member = LCNClassifier(depth=2, drop_connect=0.75, epochs=2)
    votes = ELCNClassifier(member, n_estimators=2, combine="average", random_state=0)
    fitted = ((lcn, 0.3), (votes.fit(X, target), 0.5))
    return [TableModel(one, ("y",), threshold=least) for one, least in fitted]


def test_fitted_models(engine: Runner, models: list[TableModel]) -> None:
    """Answers of `treelu fit`'s models, trees and ensembles, from the table's columns."""
    rng = np.random.default_rng(5)
    for model in models:
        program = table_program(model)
        new = table(rng, 100, known=False)
        cells = new.astype(object).where(new.notna(), None)
        run = engine(program, cells[[column.name for column in program.columns]].to_numpy().tolist())
        wanted = predicted_table(model, model.encoder.encode(new), len(new))
        assert run.failures == 0
        assert [row[0] for row in run.answers] == wanted["prediction"].tolist()
        np.testing.assert_allclose(numbers(program, run.answers), wanted.iloc[:, 1:].to_numpy(), atol=1e-6)


def test_a_missing_number_that_the_tree_needs_gives_no_answer(engine: Runner) -> None:
    case = number_case(np.random.default_rng(5), 3)
    rows = [[None] * len(row) for row in case.rows]
    assert np.isnan(numbers(case.program, engine(case.program, rows).answers)).all()


# Single precision


@pytest.mark.parametrize("run", [partial(engines.run_c, dtype="float"), partial(engines.run_onnx, dtype="float32")])
def test_single_precision_errs_only_on_rows_in_doubt(run: Runner) -> None:
    """Rows nearer to a boundary than float32 can tell are found beforehand, and only they may differ."""
    if engines.absent("c") or engines.absent("onnx"):
        pytest.skip("no gcc or no onnxruntime")
    case = number_case(np.random.default_rng(6), 4000)
    doubt = rows_in_doubt(case.program.trees[0], case.X)
    found = run(case.program, case.rows)
    other = numbers(case.program, found.answers)[:, 0] != case.program.trees[0].predict(case.X)
    assert found.failures == 0
    assert 0.2 < doubt.mean() < 0.7
    assert other.sum() > 100
    assert not (other & ~doubt).any()


@pytest.mark.parametrize("flags", [("-O3", "-std=gnu17", "-march=native"), ("-O0", "-std=c99")], ids=" ".join)
def test_c_takes_no_fused_arithmetic_from_the_compiler(flags: tuple[str, ...]) -> None:
    if engines.absent("c"):
        pytest.skip("no gcc")
    case = number_case(np.random.default_rng(7), 5000)
    check(case, engines.run_c(case.program, case.rows, flags=flags), exact=True)


# Estimators and their encodings


def test_estimators_with_missing_values_and_ensembles() -> None:
    rng = np.random.default_rng(8)
    X = rng.standard_normal((120, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) > 0
    model = LCNClassifier(depth=3, epochs=3, missing="indicator", random_state=0).fit(X, y)
    program = estimator_program(model)
    run = engines.run_python(program, [[None if np.isnan(v) else v for v in row] for row in X])
    np.testing.assert_allclose(numbers(program, run.answers), model.predict_proba(X), atol=1e-6)
    filled = np.nan_to_num(X)
    for options in ({"combine": "boost"}, {"combine": "average", "bootstrap": True, "feature_fraction": 0.5}):
        ensemble = ELCNRegressor(
            LCNRegressor(depth=2, drop_connect=0.25, epochs=2), n_estimators=3, random_state=0, **options
        )
        program = estimator_program(ensemble.fit(filled, filled[:, 0]))
        run = engines.run_python(program, filled.tolist())
        np.testing.assert_allclose(numbers(program, run.answers)[:, 0], ensemble.predict(filled), atol=1e-5)
    member = ALCNRegressor(depth=2, drop_connect=0, epochs=1)
    smooth = ELCNRegressor(member, n_estimators=1, combine="average").fit(filled, filled[:, 0])
    with pytest.raises(AttributeError, match="smooth"):
        estimator_program(smooth)
    stack = StackedRegressor(member, n_estimators=1, n_trees=5).fit(filled, filled[:, 0])
    with pytest.raises(AttributeError, match="StackedRegressor has no tree_"):
        estimator_program(stack)


def test_molecules_are_refused_and_encoded_features_are_not() -> None:
    pytest.importorskip("rdkit")
    frame = pd.DataFrame({"smiles": ["CCO", "CCN", "CCCl", "CC"] * 5})
    X = TableEncoder.learn(frame, note=lambda text: None, smiles="smiles", n_bits=32).encode(frame)
    model = TableModel(LCNClassifier(depth=2, epochs=1).fit(X, [0, 1] * 10), ("y",))
    with pytest.raises(ValueError, match=r"'smiles' holds molecules, .* \(--encoded\)"):
        table_program(model)
    program = table_program(model, encoded=True)
    run = engines.run_python(program, X.X.toarray().tolist())
    np.testing.assert_allclose(numbers(program, run.answers), model.estimator.predict_proba(X), atol=1e-6)


def test_each_kind_of_column_is_exported_or_refused() -> None:
    """A new kind of column in tables needs a recipe here, or a reason why it has none."""
    assert set(KINDS_OF_COLUMNS) == {"number", "text", "date", "smiles"}


def test_numbers_and_dates_as_they_are_written() -> None:
    """Texts of a CSV file, read by Python and JavaScript as tables are."""
    amounts = np.random.default_rng(1).integers(1, 10**7, 60) / 100
    days = pd.date_range("1999-01-01", periods=60, freq="97D")
    frame = pd.DataFrame(
        {
            "price": [f"${amount:,}" for amount in amounts] + ["-$3.25", "($7)", " $9 ", None, "?"],
            "rate": [f"{amount:,}".translate({44: 46, 46: 44}) for amount in amounts]
            + ["7", "-1,5", " 2,5 ", "true", "NA"],
            "day": [f"{day:%d.%m.%Y}" for day in days] + ["1.1.1999", "29.02.2024", None, "?", " 31.1.2000"],
            "gain": [str(amount) for amount in amounts] + ["(7)", "\u22123.5", "- 2", "5\u00a0", None],
            "mass": [f"{amount} kg" for amount in amounts] + ["7kg", "-1.5 kg", " 2 kg ", "0", None],
            "seen": [f"{day:%Y%m%d}" for day in days] + ["19990101", "20240229", None, "20000131", " 20000201"],
        }
    )
    encoder = TableEncoder.learn(frame, note=lambda text: None)
    X = encoder.encode(frame).X.to_numpy()
    rng = np.random.default_rng(0)
    tree = random_tree(rng, 60, X.shape[1], "identity")
    weights = tree.weights / np.maximum(1e-9, X.std(axis=0))
    tree = replace(tree, weights=weights, biases=-(weights @ X[rng.integers(6, size=60)].T).diagonal() - 1e-3)
    columns, features = column_recipes(encoder)
    assert [column.kind for column in columns] == ["number", "number", "date", "number", "number", "date"]
    program = Program(columns, features, (Part((tree,), ("prediction",)),))
    assert program.used_columns == [0, 1, 2, 3, 4, 5]
    rows = frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
    assert len(set(tree.apply(X).tolist())) > 3
    for run in (engines.run_python, engines.run_javascript):
        if run is engines.run_javascript and engines.absent("javascript"):
            continue
        check(Case(program, rows, X), run(program, rows), exact=True)


def _query(name: str, request: pytest.FixtureRequest, kind: str, values: list[object], cell: str) -> list[str]:
    """What an expression makes of the values of a column `seen`, as texts."""
    rows = ", ".join(f"({place}, '{value}')" for place, value in enumerate(values))
    made = f"CREATE TABLE t (place INTEGER, seen {kind}); INSERT INTO t VALUES {rows};"
    asked = f"SELECT CAST({cell} AS {'TEXT' if name != 'duckdb' else 'VARCHAR'}) FROM t ORDER BY place"
    if name == "postgresql":
        return [row[0] for row in request.getfixturevalue("server").psql(f"DROP TABLE IF EXISTS t; {made} {asked};")]
    if name == "sqlite":
        connection = sqlite3.connect(":memory:")
        connection.executescript(made)
        return [row[0] for row in connection.execute(asked)]
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute(made)
    return [row[0] for row in connection.execute(asked).fetchall()]


@pytest.mark.parametrize("name", ["sqlite", "duckdb", "postgresql"])
def test_databases_read_dates_that_are_whole_numbers(name: str, request: pytest.FixtureRequest) -> None:
    """As integers, numbers, texts and dates of the database."""
    if engines.absent(name) is not None:
        pytest.skip(str(engines.absent(name)))
    column = Column("seen", "date", format="%Y%m%d")
    cell = DIALECTS[name].cell(column, "seen")
    days = [f"{day:%Y-%m-%d}" for day in pd.date_range("1999-12-30", periods=5, freq="17D")]
    whole = [int(day.replace("-", "")) for day in days]
    kinds = {"TEXT": whole, "INTEGER": whole, DIALECTS[name].double: whole, "DATE": days}
    for kind, values in kinds.items():
        assert [found[:10] for found in _query(name, request, kind, values, cell)] == days, kind


@pytest.mark.parametrize(
    ("seen", "others", "numbers"),
    [
        (["1,200 kg", "7 kg", "-3.5kg", "8 kg"], ["7", "5 kg 3", "4 lb"], [1200, 7, -3.5, 8, 7, math.inf, math.inf]),
        (["$1,200", "($7)", "-$3.5", "\u2212$8"], ["$5-", "2021-03-04"], [1200, -7, -3.5, -8, math.inf, math.inf]),
        (["12", "(7)", "\u22123.5", "- 8"], ["1e-5", "1.234.567", "--7"], [12, -7, -3.5, -8, 1e-5, math.inf, math.inf]),
    ],
)
def test_sqlite_reads_numbers_as_they_are_written(seen: list[str], others: list[str], numbers: list[Any]) -> None:
    """Infinity, which has no answer, stands for what is no number."""
    frame = pd.DataFrame({"seen": seen})
    encoder = TableEncoder.learn(frame, note=lambda text: None)
    assert encoder.encode(frame).X["seen"].tolist() == numbers[: len(seen)]
    (column,) = column_recipes(encoder)[0]
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (seen TEXT)")
    connection.executemany("INSERT INTO t VALUES (?)", [(value,) for value in [*seen, *others]])
    found = [row[0] for row in connection.execute(f"SELECT {DIALECTS['sqlite'].cell(column, 'seen')} FROM t")]
    assert found == numbers


# Self-tests


def test_a_changed_export_fails_its_own_test(tmp_path: Path) -> None:
    text = number_case(np.random.default_rng(9), 0).program.trees[0].to_python(name="mine", trained="2026-01-02")
    lines = text.splitlines()
    assert lines[0].startswith("# mine: 1 tree, 16 leaves")
    assert lines[2] == "# trained: 2026-01-02"
    (tmp_path / "good.py").write_text(text)
    place = text.index("[15.0]")
    (tmp_path / "bad.py").write_text(text[:place] + "[99.0]" + text[place + 6 :])
    for name, code, words in (("good", 0, "8 of 8"), ("bad", 1, " of 8")):
        done = subprocess.run(
            [sys.executable, "-I", tmp_path / f"{name}.py"], capture_output=True, text=True, check=False
        )
        assert (done.returncode, words in done.stdout) == (code, True)


def test_the_python_module_is_typed(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "model.py").write_text(table_case(np.random.default_rng(0), 5).program.trees[0].to_python())
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(tmp_path / "model.py")]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout
