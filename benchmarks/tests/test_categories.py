"""The benchmark of codes and categories: which columns are codes, and what is measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.categories import Table, load, measured


def test_integers_of_few_values_are_codes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns = {"a": rng.integers(0, 4, 90), "b": rng.integers(0, 2, 90), "c": rng.normal(size=90), "d": np.arange(90)}
    frame = pd.DataFrame({**columns, "target": rng.integers(0, 2, 90)})
    frame.to_csv(tmp_path / "some.csv.gz", index=False)
    table = load("some", tmp_path)
    assert table.codes == [0]
    assert table.X.shape == (90, 4)
    assert [len(test) for _, test in table.folds()] == [30, 30, 30]


def test_codes_without_order_are_better_as_categories() -> None:
    codes = np.arange(300) % 5
    table = Table(codes[:, None].astype(float), np.isin(codes, (1, 4)), [0])
    options = {"max_leaf_nodes": 2, "max_terms": 1, "leaves": "constant", "teacher": None}
    numbers, categories = (measured(table, **options, categorical_features=given) for given in ([], table.codes))
    assert numbers.accuracy < 0.9
    assert (categories.accuracy, categories.leaves, categories.numbers) == (1.0, 2.0, 2.0 + 2.0)
