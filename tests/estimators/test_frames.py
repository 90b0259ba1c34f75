"""Data frames of any library through every estimator: fit, predict, queries, exports, saving, with one result."""

from __future__ import annotations

import datetime
import pickle
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import treelu
from treelu import (
    ALCNClassifier,
    ALCNRegressor,
    ELCNClassifier,
    ELCNRegressor,
    LCNClassifier,
    LCNRegressor,
    LLNClassifier,
    LLNRegressor,
    ObliqueTree,
    ObliqueTreeClassifier,
    ObliqueTreeRegressor,
    StackedClassifier,
    StackedRegressor,
)
from treelu.cli import main
from treelu.export.program import estimator_program
from treelu.export.python import to_python
from treelu.report.queries import answer_queries, column_asking
from treelu.tables import TableEncoder
from treelu.tables.frames import native_frame, read_frame
from treelu.tree.observed import Observed

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

N = 120
FAST: dict[str, Any] = {"depth": 2, "drop_connect": 0.0, "epochs": 12, "random_state": 0}
SMALL: dict[str, Any] = {"max_leaf_nodes": 3, "teacher": None, "n_updates": 20, "cv": 2, "random_state": 0}
MODELS = [
    LCNClassifier(**FAST),
    LCNRegressor(**FAST),
    ALCNClassifier(**FAST),
    ALCNRegressor(**FAST),
    LLNClassifier(**FAST),
    LLNRegressor(**FAST),
    ELCNClassifier(LCNClassifier(**FAST), n_estimators=2, random_state=0),
    ELCNRegressor(LCNRegressor(**FAST), n_estimators=2, random_state=0),
    ObliqueTreeClassifier(**SMALL),
    ObliqueTreeRegressor(**SMALL),
    StackedClassifier(ALCNClassifier(**FAST), n_estimators=2, n_trees=4, random_state=0),
    StackedRegressor(ALCNRegressor(**FAST), n_estimators=2, n_trees=4, random_state=0),
]
TREES = [model for model in MODELS if type(model).__name__[:3] in ("LCN", "LLN", "Obl")]


def table() -> pd.DataFrame:
    """Numbers, integers, truth values, texts, categories, moments, days and durations, some of them missing."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "age": rng.integers(18, 90, N),
        "income": rng.normal(50.0, 20.0, N),
        "owner": rng.random(N) > 0.5,
        "colour": rng.choice(["red", "blue", "green"], N).astype(object),
        "region": pd.Series(rng.choice(["north", "south"], N)).astype("category"),
        "since": pd.Timestamp("2021-03-01") + pd.to_timedelta(rng.integers(0, 9000, N), unit="h"),
        "took": pd.to_timedelta(rng.integers(0, 500, N), unit="h"),
        "born": [datetime.date(1950 + int(year), 5, 17) for year in rng.integers(0, 60, N)],
    })  # fmt: skip
    frame.loc[::7, "income"] = np.nan
    frame.loc[::11, "colour"] = None
    frame.loc[::13, "since"] = pd.NaT
    return frame


def targets(frame: pd.DataFrame, model: Any) -> Any:
    score = frame["age"] / 30 + (frame["colour"] == "red") + frame["income"].fillna(0) / 50
    return (score > score.median()).map({True: "yes", False: "no"}) if hasattr(model, "predict_proba") else score


def texts(frame: pd.DataFrame) -> pd.Series:
    return frame["region"].astype(str)


def polars(frame: pd.DataFrame) -> Any:
    return pl.DataFrame({
        name: pl.Series(name, frame[name].astype(object).where(frame[name].notna(), None).to_list()) for name in frame
    })  # fmt: skip


KINDS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "pandas-category": lambda frame: frame.assign(colour=frame["colour"].astype("category")),
    "pandas-string": lambda frame: frame.assign(
        colour=frame["colour"].astype("string"), region=frame["region"].astype(str)
    ),
    "pandas-nullable": lambda frame: frame.convert_dtypes(),
    "pandas-arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "pandas-objects": lambda frame: frame.astype(object),
    "pandas-reversed": lambda frame: frame.iloc[:, ::-1].assign(extra="of no use"),
    "pandas-utc": lambda frame: frame.assign(since=frame["since"].dt.tz_localize("UTC")),
    "polars": polars,
    "polars-category": lambda frame: polars(frame).with_columns(pl.col("colour", "region").cast(pl.Categorical)),
    "polars-lazy": lambda frame: polars(frame).lazy(),
    "pyarrow": lambda frame: pa.Table.from_pandas(
        frame.assign(region=frame["region"].astype(str)), preserve_index=False
    ),
    "pyarrow-dictionary": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X is a lazy frame")
        yield


@pytest.mark.parametrize("kind", KINDS)
def test_every_library_gives_the_same_table(kind: str) -> None:
    expected = read_frame(native_frame(table()))
    given = read_frame(native_frame(KINDS[kind](table())))
    for name in expected.data:
        one, other = expected.data[name], given.data[name]
        assert (one.isna() == other.isna()).all()
        assert one[one.notna()].tolist() == other[other.notna()].tolist(), name


def answers(model: Any, X: Any) -> np.ndarray:
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


@cache
def reference(number: int) -> tuple[Any, np.ndarray]:
    """An estimator fitted to the pandas frame, and its answers."""
    frame = table()
    fitted = clone(MODELS[number]).fit(frame, targets(frame, MODELS[number]))
    return fitted, answers(fitted, frame)


def one_row(given: Any) -> Any:
    """The second row of a frame of any library."""
    return given.iloc[[1]] if hasattr(given, "iloc") else given.slice(1, 1)


def conforms(model: Any, kind: str, folder: Path, *, quick: bool = True) -> None:
    """One estimator and one kind of frame: fitted, predicted, asked, exported, saved and read as with pandas."""
    frame = table()
    y, given = targets(frame, model), KINDS[kind](frame)
    pandas, expected = reference(MODELS.index(model))
    fitted = clone(model).fit(frame if kind == "pandas-reversed" else given, y)  # training depends on the order
    np.testing.assert_array_equal(answers(fitted, given), expected)
    np.testing.assert_array_equal(answers(fitted, frame.iloc[:, ::-1]), expected)
    np.testing.assert_array_equal(answers(pandas, given), expected)
    assert fitted.score(given, y) == pandas.score(frame, y)
    np.testing.assert_array_equal(answers(pickle.loads(pickle.dumps(fitted)), given), expected)
    fitted.save(folder)
    np.testing.assert_array_equal(answers(treelu.load(folder), given), expected)
    if model in TREES:
        for name, answer in asked(fitted, one_row(given), given, quick=quick).items():
            expected_answer = reference_answers(MODELS.index(model), quick)[name]
            np.testing.assert_array_equal(answer, expected_answer, err_msg=name)
    else:
        with pytest.raises(AttributeError, match=f"counterfactual needs a tree, and {type(model).__name__} is none"):
            fitted.counterfactual(one_row(given))
    if type(model).__name__[:3] in ("LCN", "LLN", "Obl", "ELC"):
        programs = [estimator_program(one) for one in (fitted, pandas)]
        assert [column.name for column in programs[0].columns] == [column.name for column in programs[1].columns]
        assert to_python(programs[0]) == to_python(programs[1])
    if hasattr(type(fitted), "feature_importances_") or hasattr(fitted, "feature_importances_"):
        with_importances(fitted)


def asked(fitted: Any, row: Any, given: Any, *, quick: bool = False) -> dict[str, Any]:
    """The answers of a tree to every kind of query about rows of a library; `quick`: but for the slowest."""
    tree, behind = fitted.tree_, table().iloc[20:22]
    wanted = {} if hasattr(fitted, "predict_proba") else {"at_least": 2.5}
    found = {
        "counterfactual": str(fitted.counterfactual(row, keep=["took"], **wanted)),
        "verify": str(fitted.verify(rises="age")),
        "apply": tree.apply(given),
        "shap_values": tree.shap_values(row, behind).values,
    }
    if quick or wanted:
        return found
    return found | {"robustness": tree.robustness(row, "l1").distances}


@cache
def reference_answers(number: int, quick: bool) -> dict[str, Any]:
    frame = table()
    return asked(reference(number)[0], frame.iloc[[1]], frame, quick=quick)


def with_importances(fitted: Any) -> None:
    try:
        importances = fitted.feature_importances_
    except AttributeError:
        return  # of smooth members
    assert len(importances) == len(fitted.feature_names_in_)
    assert importances.sum() == pytest.approx(1) or not importances.any()


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_and_every_kind_of_frame(kind: str, tmp_path: Path) -> None:
    conforms(MODELS[0], kind, tmp_path)


@pytest.mark.parametrize("model", MODELS[1:], ids=lambda model: type(model).__name__)
def test_every_estimator_and_a_frame_of_polars(model: Any, tmp_path: Path) -> None:
    conforms(model, "polars", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_every_estimator_and_every_kind_of_frame(model: Any, kind: str, tmp_path: Path) -> None:
    conforms(model, kind, tmp_path, quick=kind not in ("polars", "pyarrow"))


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_every_estimator_reports_on_a_frame(model: Any) -> None:
    frame = table()
    fitted, _ = reference(MODELS.index(model))
    page = fitted.report(polars(frame), targets(frame, model), questions=False)
    assert "colour" in page.html


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_saved_models_read_frames(model: Any, tmp_path: Path) -> None:
    frame = table()
    fitted = clone(model).fit(frame, targets(frame, model))
    fitted.save(tmp_path)
    loaded = treelu.load(tmp_path)
    assert loaded.encoder_ == fitted.encoder_
    assert loaded.column_notes_ == fitted.column_notes_
    np.testing.assert_array_equal(answers(loaded, polars(frame)), answers(fitted, frame))


# The tree


def agrees(found: Any, expected: Any) -> None:
    """The same; a network of linear leaves adds its terms in another order than its tree."""
    if np.asarray(expected).dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=1e-11)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("model", TREES, ids=lambda model: type(model).__name__)
def test_the_tree_reads_the_frame(model: Any) -> None:
    frame = table()
    fitted = clone(model).fit(frame, targets(frame, model))
    tree = fitted.tree_
    np.testing.assert_array_equal(tree.apply(polars(frame)), fitted.apply(frame))
    agrees(tree.predict(frame), fitted.predict(frame))
    again = ObliqueTree.from_json(tree.to_json())
    assert again == tree
    np.testing.assert_array_equal(again.predict(frame), tree.predict(frame))
    needed = frame.drop(columns=sorted(tree.unused_columns()))
    np.testing.assert_array_equal(tree.predict(needed), tree.predict(frame))
    assert any(tree.feature_names[place].split(" (")[0] in tree.export_text() for place in tree.used_features())


@pytest.mark.parametrize("model", TREES, ids=lambda model: type(model).__name__)
def test_exports_read_the_columns(model: Any) -> None:
    duckdb = pytest.importorskip("duckdb")
    frame = table()
    fitted = clone(model).fit(frame, targets(frame, model))
    shown = frame.assign(region=frame["region"].astype(str), took=frame["took"].dt.total_seconds() / 86400)
    shown["born"] = pd.to_datetime(shown["born"])
    with duckdb.connect() as database:
        database.register("shown", shown)
        found = database.sql(fitted.tree_.to_sql(dialect="duckdb", table="shown")).df()["prediction"]
    if hasattr(model, "predict_proba"):
        assert found.tolist() == fitted.predict(frame).tolist()
    else:
        agrees(found, fitted.predict(frame))
    for text in (fitted.tree_.to_python(), fitted.tree_.to_javascript(), fitted.tree_.to_c()):
        assert "income" in text


def test_a_counterfactual_is_a_row_of_the_frame() -> None:
    frame = table()
    model = ObliqueTreeClassifier(**SMALL).fit(frame, targets(frame, ObliqueTreeClassifier()))
    for place in range(12):
        row = frame.iloc[[place]]
        found = model.counterfactual(row, keep=["income"], within={"colour": ["red", "blue"], "age": (18, 120)})
        if not found:
            continue
        assert found.prediction != model.predict(row)[0]
        own = pd.DataFrame([found.values])
        assert model.predict(own)[0] == found.prediction
        same = [name for name in frame if name not in {change.feature for change in found.changes}]
        assert "income" in same
        assert all(pd.isna(own[name][0]) or own[name][0] == row[name].iloc[0] for name in same)
        assert own["colour"][0] in ("red", "blue", None)
    text = str(model.counterfactual(frame.iloc[1].to_dict()))
    assert "colour=" not in text
    with pytest.raises(ValueError, match="keep: the table has no column 'agee'; did you mean 'age'"):
        model.counterfactual(frame.iloc[[0]], keep=["agee"])
    with pytest.raises(ValueError, match="rise: column 'colour' holds no numbers"):
        model.counterfactual(frame.iloc[[0]], rise=["colour"])
    with pytest.raises(ValueError, match="'colour' has no category 'pink'; it has blue"):
        model.counterfactual(frame.iloc[[0]], within={"colour": ["pink"]})


def test_a_column_of_integers_beside_missing_values_stays_one() -> None:
    ages = [*range(20, 80), *[None] * 20]  # their median is 49.5
    frame = pd.DataFrame({"age": pd.array(ages, dtype="Int64"), "colour": ["red", "blue"] * 40})
    model = ObliqueTreeClassifier(**SMALL, leaves="constant").fit(frame, frame["age"].fillna(0) > 50)
    assert model.encoder_.column("age").median == 49.5
    for place in (1, 10, 45, 59):
        found = model.counterfactual(frame.iloc[[place]], keep=["colour"])
        assert float(found.values["age"]).is_integer()


def test_properties_speak_of_columns() -> None:
    frame = table()
    model = ObliqueTreeClassifier(**SMALL, monotonic_cst={"age": 1}).fit(frame, targets(frame, ObliqueTreeClassifier()))
    assert model.verify(rises="age", within={"income": (0, 100)})
    used = set(frame) - model.tree_.unused_columns()
    refuted = model.verify(independent=sorted(used))
    assert not refuted
    first, second = model.predict(pd.DataFrame(refuted.values))
    assert first != second
    assert set(refuted.names) <= set(frame)
    for name in model.tree_.unused_columns():
        assert model.verify(independent=name)
    with pytest.raises(ValueError, match="exactly one of"):
        model.verify(rises="age", falls="age")


def dated() -> tuple[pd.DataFrame, ObliqueTreeClassifier]:
    """A frame whose answers depend on the month and the year of a date, and a tree fitted to it."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 300), "colour": rng.choice(["red", "blue"], 300)})
    frame["since"] = pd.Timestamp("2019-03-01") + pd.to_timedelta(rng.integers(0, 1800, 300), unit="D")
    y = (frame["since"].dt.month > 6) ^ (frame["since"].dt.year > 2020)
    y = np.where(y + frame["age"] / 60 + rng.normal(0, 0.2, 300) > 1.2, "yes", "no")
    return frame, ObliqueTreeClassifier(**{**SMALL, "max_leaf_nodes": 8, "n_updates": 100}).fit(frame, y)


def test_what_refutes_a_property_is_a_row_with_dates_that_exist() -> None:
    """The features of a date are no free numbers: the rows are predicted as they are shown."""
    _, model = dated()
    n_refuted = 0
    for limit in (0.3, 0.6, 0.9, 0.97):
        for name, given, sign in (("at_most", limit, 1), ("at_least", 1 - limit, -1)):
            found = model.verify(**{name: given})
            if found.values:
                n_refuted += 1
                assert (sign * (model.predict_proba(pd.DataFrame(found.values))[:, 1] - given) > 0).all()
    for names in ("since", "age", ["since", "age"]):
        found = model.verify(independent=names)
        if found.values:
            n_refuted += 1
            first, second = model.predict(pd.DataFrame(found.values))
            assert first != second
    assert n_refuted >= 6


def test_what_no_date_has_refutes_nothing() -> None:
    """A tree whose answer goes up and down with age only in March before February."""
    frame = pd.DataFrame({"age": np.arange(18.0, 78.0), "since": pd.date_range("2024-01-01", periods=60)})
    encoder = TableEncoder.of_frame(read_frame(native_frame(frame)), note=lambda text: None)
    places = {name: place for place, name in enumerate(encoder.feature_names)}
    age, month, day = (places[name] for name in ("age", "since (month)", "since (days since 1970)"))
    weights = np.zeros((4, len(places)))
    weights[[0, 1, 2, 3], [month, day, age, age]] = 1.0
    x = encoder.features(frame)
    biases, children = [-1.5, -x[20, day], -30.0, -60.0], [[4, 1], [2, 5], [6, 3], [7, 8]]
    plain = ObliqueTree(weights, biases, children, [[0], [0], [0], [1], [0]], observed=Observed.of(x))
    tree = replace(plain, columns=encoder)
    for verdict in (tree.rises("age"), tree.falls("age"), tree.independent("age"), tree.at_most(0.5)):
        assert not verdict
        assert not verdict.decided
    asking = column_asking(plain, encoder)
    assert answer_queries(asking, x[:1], x[:20], [age])["properties"] == []
    assert answer_queries(replace(asking, frame=None), x[:1], x[:20], [age])["properties"] != []


def test_a_later_date() -> None:
    frame, model = dated()
    for name, sign in (("rises", 1), ("falls", -1)):
        found = model.verify(**{name: "since"})
        assert str(found).startswith(f"refuted: the probability of 'yes' never {'falls' if sign > 0 else 'rises'} when")
        first, second = pd.DataFrame(found.values)["since"]
        assert first < second
        assert "00:00" not in str(found)
        first, second = model.predict_proba(pd.DataFrame(found.values))[:, 1]
        assert sign * (first - second) > 0
    days = (frame["since"] - frame["since"].min()).dt.days
    later = ObliqueTreeClassifier(**SMALL, leaves="constant").fit(frame[["since"]], days > 900)
    used = {later.tree_.feature_names[place] for place in later.tree_.used_features()}
    assert used <= {"since (year)", "since (days since 1970)"}
    assert str(later.verify(rises="since")).startswith("proved: the probability of True never falls when since rises")


def test_shares_are_of_columns() -> None:
    """Shapley values of a game whose players are columns, against a direct sum over all orders."""
    from itertools import permutations

    frame = table().drop(columns=["since", "born", "took", "owner", "region"])
    model = ObliqueTreeClassifier(**SMALL).fit(frame, targets(frame, ObliqueTreeClassifier()))
    rows, behind = frame.iloc[:2], frame.iloc[20:24]
    shares = model.tree_.shap_values(rows, behind)
    assert shares.feature_names == list(frame)
    for i in range(2):
        expected = np.zeros(len(frame.columns))
        orders = list(permutations(range(len(frame.columns))))
        for order in orders:
            mixed = behind.copy()
            before = model.predict_proba(mixed)[:, 1].mean()
            for column in order:
                name = frame.columns[column]
                mixed[name] = [rows[name].iloc[i]] * len(mixed)
                after = model.predict_proba(mixed)[:, 1].mean()
                expected[column] += (after - before) / len(orders)
                before = after
        np.testing.assert_allclose(shares.values[i], expected, atol=1e-12)


@pytest.mark.slow
def test_a_page_of_columns(tmp_path: Path) -> None:
    frame = table()
    model = ObliqueTreeClassifier(**SMALL).fit(frame, targets(frame, ObliqueTreeClassifier()))
    page = model.report(polars(frame), targets(frame, model), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page.html
    assert '"kind": "text"' in page.html or '"kind":"text"' in page.html


# Kinds of columns


def test_numbers_alone_take_the_path_of_arrays() -> None:
    frame = table()[["age", "income"]].fillna(0).astype(float)
    y = targets(table(), LCNClassifier())
    for model in (LCNClassifier(**FAST), ObliqueTreeClassifier(**SMALL)):
        of_frame, of_array = clone(model).fit(frame, y), clone(model).fit(frame.to_numpy(), y)
        of_polars = clone(model).fit(pl.from_pandas(frame), y)
        assert not hasattr(of_frame, "encoder_")
        for other in (of_frame, of_polars):
            np.testing.assert_array_equal(other.predict_proba(frame), of_array.predict_proba(frame.to_numpy()))


def test_integers_as_categories() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"zip": rng.integers(8000, 8004, N), "size": rng.normal(size=N)})
    y = np.isin(frame["zip"], (8000, 8003))
    by_name = ObliqueTreeClassifier(**SMALL, categorical_features=["zip"]).fit(frame, y)
    assert [name for name in by_name.tree_.feature_names if "zip" in name] == [f"zip={n}" for n in range(8000, 8004)]
    by_number = ObliqueTreeClassifier(**SMALL, categorical_features=[0]).fit(frame.to_numpy(), y)
    by_mask = ObliqueTreeClassifier(**SMALL, categorical_features=[True, False]).fit(frame.to_numpy(), y)
    for model in (by_number, by_mask):
        np.testing.assert_array_equal(model.predict(frame.to_numpy()), by_name.predict(frame))
    np.testing.assert_array_equal(by_name.predict(frame.astype({"zip": float})), by_name.predict(frame))
    np.testing.assert_array_equal(by_name.predict(pl.from_pandas(frame)), by_name.predict(frame))
    with pytest.raises(ValueError, match="categorical_features names 'code', which is no column of X: zip, size"):
        ObliqueTreeClassifier(categorical_features=["code"]).fit(frame, y)


def test_missing_values_that_no_training_row_had() -> None:
    frame = table()
    y = targets(frame, LCNClassifier())
    odd = frame.assign(region=[None] * N)
    model = LCNClassifier(**FAST).fit(frame, y)
    for fitted in (model, model.tree_):
        with pytest.raises(ValueError, match="missing value in column 'region', row 0, where no training row had one"):
            fitted.predict(odd)
    asked = LCNClassifier(**FAST, missing="indicator").fit(frame, y)
    with pytest.warns(UserWarning, match="120 values missing, which no training row had"):
        asked.predict(odd)
    with pytest.raises(ValueError, match="missing values in column 'income', which missing='error' refuses"):
        LCNClassifier(missing="error").fit(frame, y)


def test_categories_that_no_training_row_had_are_reported() -> None:
    frame = table()
    model = LCNClassifier(**FAST).fit(frame, targets(frame, LCNClassifier()))
    with pytest.warns(UserWarning, match="column 'colour': 120 values not seen in training"):
        model.predict(frame.assign(colour="pink"))


def test_names_and_free_text_are_refused() -> None:
    frame = table().assign(note=[f"customer {number}" for number in range(N)])
    with pytest.raises(ValueError, match=r"column 'note' with 120 different texts in 120 rows.*drop it.*skrub"):
        ObliqueTreeClassifier(**SMALL).fit(frame, targets(frame, ObliqueTreeClassifier()))


def test_columns_that_are_not_there() -> None:
    frame = table()
    model = LCNClassifier(**FAST).fit(frame, targets(frame, LCNClassifier()))
    with pytest.raises(ValueError, match="no column 'age'"):
        model.predict(frame.drop(columns="age"))
    with pytest.raises(ValueError, match="the model was fitted to numbers alone"):
        LCNClassifier(**FAST).fit(frame[["age"]], targets(frame, model)).predict(frame[["colour"]])


def test_several_labels_and_continued_training() -> None:
    frame = table()
    y = np.column_stack([frame["age"] > 50, frame["income"] > 50]).astype(float)
    labels = LCNClassifier(**FAST).fit(frame, y)
    np.testing.assert_array_equal(labels.predict_proba(polars(frame)), labels.predict_proba(frame))
    pieces = LCNClassifier(**FAST)
    for rows in (slice(0, 60), slice(60, N)):
        pieces.partial_fit(frame[rows], targets(frame, pieces)[rows])
    assert pieces.predict(frame).shape == (N,)
    checked = LCNClassifier(**FAST).fit(frame, targets(frame, pieces), eval_set=(polars(frame), targets(frame, pieces)))
    assert checked.history_.metric is not None


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_skops_keeps_models_without_types_of_others(model: Any) -> None:
    skops = pytest.importorskip("skops.io")
    for frame in (table(), table()[["age", "income"]]):
        fitted = clone(model).fit(frame, targets(table(), model))
        content = skops.dumps(fitted)
        unknown = skops.get_untrusted_types(data=content)
        assert all(name.startswith("treelu.") for name in unknown), unknown
        np.testing.assert_array_equal(answers(skops.loads(content, trusted=unknown), frame), answers(fitted, frame))


def test_a_file_read_from_python_is_fitted_as_on_the_command_line(tmp_path: Path) -> None:
    frame = table().assign(
        weight=[f"{number % 17} kg" for number in range(N)],
        took=range(N),
        since=[f"{day % 28 + 1}.5.2024" for day in range(N)],
    )
    frame = frame.drop(columns="born").assign(answer=targets(table(), LCNClassifier()))
    frame.to_csv(tmp_path / "messy.csv", sep=";", index=False)
    found = treelu.read_table(tmp_path / "messy.csv")
    assert found.notes == ("columns separated by semicolons",)
    y, rows = found.frame["answer"], found.frame.drop(columns="answer")
    words = ["--target", "answer", "--method", "lcn", "--depth", "3", "--epochs", "5", "--quiet", "--no-cart"]
    assert main(["fit", str(tmp_path / "messy.csv"), *words, "--out", str(tmp_path / "m")]) == 0
    saved = treelu.load(tmp_path / "m")
    encoder = saved.encoder_
    assert "weight" in saved.tree_.columns.places
    encoded = TableEncoder.learn(rows, note=lambda text: None).encode(rows)
    for given in (rows, encoded):
        model = clone(saved).fit(given, y)
        assert [column.kind for column in model.encoder_.columns] == [column.kind for column in encoder.columns]
        np.testing.assert_array_equal(model.predict_proba(rows), saved.predict_proba(rows))
        np.testing.assert_array_equal(model.predict_proba(given), saved.predict_proba(rows))
        np.testing.assert_array_equal(model.feature_importances_, saved.feature_importances_)


def test_encoded_rows_are_checked() -> None:
    frame = table()
    encoded = TableEncoder.learn(frame, note=lambda text: None).encode(frame)
    y = targets(frame, LCNClassifier())
    with pytest.raises(ValueError, match=r"X has missing values in column '.*', which missing='error' refuses"):
        LCNClassifier(missing="error").fit(encoded, y)
    model = LCNClassifier(depth=2, epochs=2, random_state=0).fit(encoded, y)
    assert (len(encoded.take(np.arange(3))), model.n_features_in_) == (3, len(encoded.encoder.columns))
    other = TableEncoder.learn(frame[["age"]], note=lambda text: None).encode(frame)
    with pytest.raises(ValueError, match="X was encoded with other features than the model was fitted to"):
        model.predict(other)


def test_output_of_transformers_as_polars_changes_nothing() -> None:
    frame = table()
    y, model = targets(frame, TREES[0]), clone(TREES[0])
    wanted = clone(model).fit(frame, y)
    with sklearn.config_context(transform_output="polars"):
        found = model.fit(polars(frame), y)
        np.testing.assert_array_equal(answers(found, polars(frame)), answers(wanted, frame))
        numbers = polars(frame).select("age", "income")
        steps = make_pipeline(StandardScaler(), clone(model)).fit(numbers.fill_null(0.0), y)
        assert steps[-1].feature_names_in_.tolist() == ["age", "income"]


@pytest.mark.filterwarnings("ignore")
def test_names_survive_the_table_vectorizer_of_skrub() -> None:
    skrub = pytest.importorskip("skrub")
    frame = table().drop(columns=["took", "born"])
    steps = make_pipeline(skrub.TableVectorizer(), clone(TREES[0])).fit(frame, targets(frame, TREES[0]))
    names = steps[:-1].get_feature_names_out().tolist()
    assert steps[-1].feature_names_in_.tolist() == names
    assert "colour_red" in names
    assert "income" in names
    assert set(steps[-1].tree_.feature_names) >= set(names)


def test_properties_and_ranges_tell_that_they_leave_out_missing_numbers() -> None:
    """A row without a number may be outside a range that was proved for all others: the text has to name them."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(20, 60, N), "region": rng.choice(["north", "south"], N)})
    frame.loc[::3, "age"] = np.nan
    y = np.where(frame["age"].isna(), 5.0, (frame["age"] > 40) * 1.0)
    tree = ObliqueTreeRegressor(**SMALL, leaves="constant").fit(frame, y).tree_
    assert tree.predict(frame).max() > 4
    for limits in ("observed", None):
        found, proof = tree.output_range(limits=limits), tree.at_most(2.0, limits=limits)
        assert found.high < 2
        assert proof
        for text in (str(found), str(proof)):
            assert text.endswith("without missing values")
            assert "given ones" not in text
    whole = ObliqueTreeRegressor(**SMALL, leaves="constant").fit(frame.fillna({"age": 0.0}), y).tree_
    assert str(whole.output_range()).endswith("for every row within the training ranges")
