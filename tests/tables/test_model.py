"""A model with its table: columns that no question uses are not needed to predict."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import Type, type_  # noqa: F401
from treelu import LCNClassifier, ObliqueTreeClassifier
from treelu.estimators._path_trees import KnownTrees
from treelu.persistence import load, save
from treelu.persistence.table_model import TableModel
from treelu.tables import TableEncoder, TableError
from treelu.training.small.fit import chosen_row
from treelu.tree import ObliqueTree


def table(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(1, 80, n).astype(float),
            "city": rng.choice(["Rome", "Oslo", "Bonn"], n),
            "height": rng.normal(170, 10, n),
            "note": rng.choice(["yes", "no"], n),
        }
    )


@pytest.fixture
def model() -> TableModel:
    """A tree that asks for age and for one of the cities."""
    frame = table()
    encoder = TableEncoder.learn(frame, note=lambda text: None)
    weights = np.zeros((2, len(encoder.feature_names)))
    weights[0, encoder.feature_names.index("age")] = 1.0
    weights[1, encoder.feature_names.index("city=Oslo")] = 1.0
    values = [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]]
    tree = ObliqueTree(
        weights, [-40.0, -0.5], [[1, 2], [3, 4]], values,
        link="probability", classes=[0, 1], feature_names=encoder.feature_names,
    )  # fmt: skip
    estimator = ObliqueTreeClassifier(max_leaf_nodes=3, teacher=None, n_updates=2, random_state=0)
    estimator.fit(encoder.encode(frame), frame["age"] > 40)
    estimator.tree_ = replace(tree, columns=encoder).with_counts(frame)
    estimator.path_trees_ = KnownTrees(len(estimator.path_), {chosen_row(estimator.path_): estimator.tree_})
    estimator.classes_ = tree.classes
    return TableModel(estimator, ("old",))


def test_unused_columns_may_be_missing(model: TableModel) -> None:
    frame = table()
    assert model.unused_columns == {"height", "note"}
    few = frame[["city", "age"]].assign(more=1)
    estimator = model.estimator
    np.testing.assert_array_equal(estimator.predict(few), estimator.predict(frame))
    np.testing.assert_array_equal(estimator.predict_proba(few), estimator.predict_proba(frame))
    spoilt = frame.assign(height="tall")  # what is not used is not read either
    np.testing.assert_array_equal(estimator.predict(spoilt), estimator.predict(frame))
    with pytest.raises(TableError, match="the table has no column 'age'"):
        estimator.predict(frame.drop(columns="age"))


def test_models_that_are_no_trees_need_every_column() -> None:
    frame = table()
    encoded = TableEncoder.learn(frame, note=lambda text: None).encode(frame)
    model = TableModel(LCNClassifier(depth=2, epochs=1, drop_connect=0.0).fit(encoded, frame["age"] > 40), ("old",))
    assert model.unused_columns == frozenset()
    with pytest.raises(TableError, match="no column 'note'"):
        model.estimator.predict(frame.drop(columns="note"))


def test_on_the_command_line(model: TableModel, tmp_path: Path, type_: Type) -> None:  # noqa: F811
    save(model, tmp_path / "model")
    frame = table()
    frame.to_csv(tmp_path / "all.csv", index=False)
    frame[["age", "city"]].to_csv(tmp_path / "few.csv", index=False)
    frame[["city", "note"]].to_csv(tmp_path / "none.csv", index=False)
    outputs = [type_("predict", tmp_path / "model", tmp_path / name) for name in ("all.csv", "few.csv")]
    assert outputs[0].code == 0, outputs[0].err
    assert outputs[0].out == outputs[1].out
    assert (
        pd.read_csv(io.StringIO(outputs[0].out))["prediction"].tolist()
        == load(tmp_path / "model").predict(frame).tolist()
    )
    refused = type_("predict", tmp_path / "model", tmp_path / "none.csv")
    assert refused.code != 0
    assert "no column 'age'" in refused.err
