"""Categories as sets and as terms, from the fit to exports: data frames, arrays of codes, named one-hot columns."""

from __future__ import annotations

import csv
import io
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from treelu import ObliqueTree, ObliqueTreeClassifier, ObliqueTreeRegressor
from treelu.tree.to_read import numbers_to_read

QUICK: dict[str, Any] = {"teacher": None, "n_updates": 60, "cv": 3, "random_state": 0}
REGIONS = ["centre", "east", "north", "south", "west"]
N = 400


def frame(seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows of two categories and two numbers; regions and age decide."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "region": rng.choice(REGIONS, N),
            "age": rng.integers(18, 80, N).astype(float),
            "colour": rng.choice(["red", "green", "blue"], N),
            "weight": rng.normal(size=N).round(2),
        }
    )
    score = np.where(X["region"].isin(["north", "east"]), 2.0, -1.0) + (X["age"] - 50) / 20
    return X, (score + rng.normal(size=N) > 0).to_numpy()


def coded(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The same with categories as integers."""
    X, y = frame(seed)
    codes = {"region": REGIONS.index, "colour": ["red", "green", "blue"].index}
    return X.assign(**{name: X[name].map(code).astype(float) for name, code in codes.items()}).to_numpy(float), y


def columns_of(tree: ObliqueTree, weights: np.ndarray) -> set[str]:
    return {tree.feature_name(j).partition("=")[0] for j in np.flatnonzero(weights)}


@pytest.mark.parametrize("kind", [ObliqueTreeClassifier, ObliqueTreeRegressor])
@pytest.mark.parametrize("max_terms", [1, 2, None])
@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_the_columns_of_splits_and_formulas_are_as_few_as_asked(kind: Any, max_terms: int | None, leaves: str) -> None:
    X, y = frame()
    model = kind(**QUICK, max_terms=max_terms, leaves=leaves, max_leaf_nodes=6).fit(X, y.astype(float))
    most = max_terms or 4
    assert (model.path_.terms <= most).all()
    assert (model.path_.leaf_terms <= most).all()
    for tree in model.path_trees_:
        columns = [len(columns_of(tree, tree.node_weights(node))) for node in range(tree.n_splits)]
        assert tree.max_terms == max(columns, default=0) <= most
        if tree.leaf_weights is not None:
            assert 1 <= len(columns_of(tree, (tree.leaf_weights != 0).any(axis=(0, 1)))) <= most


def test_the_set_that_decides_is_found_and_shown() -> None:
    X, y = frame()
    tree = ObliqueTreeClassifier(**QUICK, max_terms=1, leaves="constant", max_leaf_nodes=2).fit(X, y).tree_
    assert tree.export_text().startswith("node 0: region in {east, north}  [400 rows]\n")
    assert numbers_to_read(tree) == 2 + 2
    described = tree.describe(X[X["region"] == "east"].iloc[:1])
    assert "node 0: region in {east, north}? yes\n    region is east\n" in str(described)
    assert "region in {east, north}? <b>yes</b>" in described.html


def test_the_largest_tree_of_one_term_has_sets() -> None:
    X, y = frame()
    options = {**QUICK, "selection": "largest", "leaves": "constant", "max_leaf_nodes": 2}
    tree = ObliqueTreeClassifier(**options, max_terms=1).fit(X, y).tree_
    assert tree.export_text().startswith("node 0: region in {east, north}  [400 rows]\n")
    assert ObliqueTreeClassifier(**options, max_terms=2).fit(X, y).tree_.max_terms == 2


def test_one_level_of_a_category() -> None:
    X, _ = frame()
    y = (X["colour"] == "green").to_numpy()
    tree = ObliqueTreeClassifier(**QUICK, leaves="constant").fit(X, y).tree_
    assert tree.export_text().startswith("node 0: colour is green  [400 rows]\n")
    assert numbers_to_read(tree) == 1 + 2


def test_the_table_counts_the_numbers_of_the_trees() -> None:
    """Those of the folds' trees in the median: where all have the same leaves and terms, those of the tree."""
    X, y = frame()
    constant = ObliqueTreeClassifier(**QUICK, leaves="constant", max_leaf_nodes=2, max_terms=1).fit(X, y)
    assert [numbers_to_read(tree) for tree in constant.path_trees_] == constant.path_.numbers.tolist()
    path = (model := ObliqueTreeClassifier(**QUICK, leaves="linear", max_leaf_nodes=2).fit(X, y)).path_
    one_leaf = path[path.leaves == 1]
    found = [numbers_to_read(model.path_trees_[row]) for row in one_leaf.index]
    assert found == one_leaf.numbers.tolist()
    assert 1 + 4 + 1 in found  # age, five regions relative to one of them, the constant


@pytest.mark.parametrize("kind", [ObliqueTreeClassifier, ObliqueTreeRegressor])
def test_one_hot_columns_that_are_named_as_such_are_the_same(kind: Any) -> None:
    X, y = frame()
    columns = ["region", "colour"]
    of_frame = kind(**QUICK).fit(X[[*columns, "age"]], y.astype(float))
    one_hot = pd.get_dummies(X[columns], prefix_sep="=").astype(float).assign(age=X["age"])
    of_features = kind(**QUICK).fit(one_hot, y.astype(float))
    pd.testing.assert_frame_equal(of_frame.path_, of_features.path_)
    assert of_frame.tree_.export_text() == of_features.tree_.export_text()
    unnamed = kind(**QUICK).fit(one_hot.to_numpy(), y.astype(float))
    assert unnamed.path_.terms.max() > 3


def test_the_names_of_levels_do_not_matter() -> None:
    """Sets are searched in float64: the same rows come to the same leaves, whatever the order of the columns."""
    X, y = frame()
    names = dict(zip(REGIONS, ["v", "d", "z", "a", "m"], strict=True))
    renamed = X.assign(region=X["region"].map(names))
    options = {**QUICK, "max_terms": 1, "leaves": "constant", "selection": "best"}
    model, other = (ObliqueTreeClassifier(**options).fit(table, y) for table in (X, renamed))
    of_sets = [each.path_.index[each.path_.start == "sets"] for each in (model, other)]
    assert len(of_sets[0]) > 2
    assert of_sets[0].tolist() == of_sets[1].tolist()
    for row in of_sets[0]:
        assert model.path_.numbers[row] == other.path_.numbers[row]
        tree, twin = model.path_trees_[row], other.path_trees_[row]
        np.testing.assert_array_equal(tree.predict_proba(X), twin.predict_proba(renamed))


# Arrays of codes


@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_codes_in_an_array_go_through_to_the_exports(tmp_path: Path, leaves: str) -> None:
    X, y = coded()
    X, y = np.column_stack([X, np.full(N, 3.0)]), y.astype(int)  # a column that is left out
    options = {**QUICK, "leaves": leaves, "max_leaf_nodes": 2, "max_terms": 1, "categorical_features": [0, 2]}
    model = ObliqueTreeClassifier(**options).fit(X[:300], y[:300])
    tree, rest = model.tree_, X[300:]
    assert tree.export_text().startswith("node 0: x0 in {1, 2}  [300 rows]\n")
    predicted, probabilities = model.predict(rest), model.predict_proba(rest)
    np.testing.assert_array_equal(tree.predict(rest), predicted)
    np.testing.assert_array_equal(tree.predict_proba(rest.tolist()), probabilities)
    assert (predicted == y[300:]).mean() > 0.75

    names = [f"x{place}" for place in range(5)]
    table = pd.DataFrame(rest, columns=names)
    np.testing.assert_array_equal(tree.predict(table), predicted)
    connection = sqlite3.connect(":memory:")
    table.to_sql("data", connection, index=False)
    found = pd.read_sql(tree.to_sql(dialect="sqlite"), connection)
    assert found["prediction"].tolist() == predicted.tolist()
    script, rows = tmp_path / "model.py", tmp_path / "rows.csv"
    script.write_text(tree.to_python())
    table.astype({"x0": int, "x2": int}).to_csv(rows, index=False)  # as texts, 1.0 is not the category 1
    done = subprocess.run([sys.executable, "-I", script, rows], capture_output=True, text=True, check=True)
    assert [line["prediction"] for line in csv.DictReader(io.StringIO(done.stdout))] == [str(p) for p in predicted]

    other = tree.counterfactual(rest[0])
    assert other
    assert tree.predict(other.rows[0].row[None])[0] == other.rows[0].prediction != predicted[0]
    assert "3 rows" in str(tree.robustness(rest[:3]))
    page = model.report(rest, y[300:], tmp_path / "page.html")
    assert page.html


def test_arrays_of_another_width_are_refused() -> None:
    X, y = coded()
    tree = ObliqueTreeClassifier(**QUICK, categorical_features=[0, 2]).fit(X, y).tree_
    features = tree.columns.features(pd.DataFrame(X, columns=["x0", "x1", "x2", "x3"]))
    np.testing.assert_array_equal(tree.predict(features), tree.predict(X))  # features as before
    with pytest.raises(ValueError, match="X must have 10 features, got 3"):
        tree.predict(X[:, :3])
