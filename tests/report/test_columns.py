"""The overview of columns against pandas, and the bars under the curves."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from treelu.report import fit_linear, summarize
from treelu.report.curves import value_counts
from treelu.tables import TableEncoder
from treelu.tables.row_names import row_names
from treelu.tree import ObliqueTree


def table(n_rows: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "age": rng.integers(18, 80, n_rows).astype(float), "job": rng.choice(["clerk", "worker", "none"], n_rows),
        "since": (pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n_rows), "D")).strftime("%Y-%m-%d"),
    })  # fmt: skip
    frame.loc[rng.random(n_rows) < 0.2, "age"] = np.nan
    frame.loc[rng.random(n_rows) < 0.1, "job"] = None
    return frame


def test_columns_of_a_table_are_those_of_pandas() -> None:
    frame = table()
    encoder = TableEncoder.learn(frame, note=lambda text: None)
    X = encoder.encode(frame).X
    tree = fit_linear(X, np.arange(200.0), classifier=False)
    summary = summarize(tree, X=X, columns=encoder.to_dict()["columns"])
    age, job, since = summary["overview"]
    assert (age["kind"], job["kind"], since["kind"]) == ("number", "text", "date")
    assert age["missing"] == pytest.approx(frame["age"].isna().mean())
    assert (age["low"], age["high"]) == (frame["age"].min(), frame["age"].max())
    assert age["middle"] == frame["age"].quantile(0.5, interpolation="lower")
    assert sum(age["histogram"]) == frame["age"].notna().sum()
    shares = frame["job"].value_counts(normalize=False) / len(frame)
    assert {item["name"]: item["share"] for item in job["top"]} == pytest.approx(shares.to_dict())
    assert job["missing"] == pytest.approx(frame["job"].isna().mean())
    first = (pd.to_datetime(frame["since"]) - pd.Timestamp("1970-01-01")).dt.days
    assert (since["low"], since["high"]) == (first.min(), first.max())


def test_features_are_the_columns_where_no_table_is_known() -> None:
    X = np.array([[1.0, np.nan], [2.0, 5.0], [4.0, 6.0], [4.0, np.nan]])
    tree = fit_linear(X, [1.0, 2.0, 3.0, 5.0], classifier=False)
    one, two = summarize(tree, X=X)["overview"]
    assert (one["name"], one["missing"], one["low"], one["middle"], one["high"]) == ("x0", 0.0, 1.0, 2.0, 4.0)
    assert (two["missing"], two["low"], two["high"]) == (0.5, 5.0, 6.0)
    dense, thin = (summarize(fit_linear(rows, [0.0, 1.0, 2.0], classifier=False), X=rows)
                   for rows in (np.diag([1.0, 0.0, 2.5]), sparse.csr_array(np.diag([1.0, 0.0, 2.5]))))  # fmt: skip
    assert dense["overview"] == thin["overview"]
    for ends in ("low", "high", "whole"):
        assert dense["features"][ends] == thin["features"][ends]
    assert dense["features"]["whole"] == [True, True, False]


def test_values_are_counted_one_by_one_or_in_bins() -> None:
    few = value_counts(np.array([1.0, 1.0, 3.0]), np.array([1.0, 3.0]))
    assert few["counts"] == [2, 0, 1]
    assert few["edges"] == pytest.approx([0.4, 1.6, 2.4, 3.6])
    column = np.random.default_rng(0).normal(size=500)
    many = value_counts(column, np.sort(column))
    assert len(many["edges"]) == len(many["counts"]) + 1
    assert sum(many["counts"]) == 500


def test_rows_are_named_by_an_id_that_is_no_feature() -> None:
    frame = table().assign(note="x", code=[f"K-{i}" for i in range(200)], number=range(200), weight=np.arange(200) / 7)
    used = {"age", "job", "since"}
    assert row_names(frame, used)[:2] == ["K-0", "K-1"]  # type: ignore[index]
    assert row_names(frame.drop(columns="code"), used)[:2] == ["number 0", "number 1"]  # type: ignore[index]
    assert row_names(frame[["age", "note", "weight"]], {"age"}) is None
    repeated = frame.assign(code=[f"K-{i % 150}" for i in range(200)])
    assert row_names(repeated[["code"]], set()) is None


def test_linear_leaves_take_part_as_splits_do() -> None:
    tree = ObliqueTree([[1.0, 0.0, 0.0]], [0.0], [[1, 2]], [[0.0], [0.0]],
                       leaf_weights=[[[0.0, 1.0, 1.0]], [[0.0, 0.0, 4.0]]], spreads=[1.0, 1.0, 1.0])  # fmt: skip
    X = np.array([[-1.0, 0, 0]] * 6 + [[1.0, 0, 0]] * 4)
    (entry,) = summarize(tree, X=X)["models"]
    found = {item["feature"]: item["share"] for item in entry["importances"]}
    assert found == pytest.approx({0: 0.5, 1: 0.5 * 0.3, 2: 0.5 * 0.7})  # half the stations are leaves
    alone = fit_linear(np.eye(3), [0.0, 1.0, 2.0], classifier=False)
    (entry,) = summarize(alone, X=np.eye(3))["models"]
    assert sum(item["share"] for item in entry["importances"]) == pytest.approx(1)
