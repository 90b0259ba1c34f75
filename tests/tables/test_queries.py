"""Columns of a table as features of a tree's queries."""

import numpy as np
import pandas as pd

from treelu.tables import TableEncoder
from treelu.tree.queries.columns import ColumnFeatures, short_numbers


def test_columns_as_features() -> None:
    frame = pd.DataFrame({"size": [1.0, 2.0, 3.0], "colour": ["red", "blue", "red"]})
    queries = ColumnFeatures(TableEncoder.learn(frame, note=lambda text: None))
    assert queries.features_of(["colour"], "keep") == [1, 2]
    assert queries.ranges({"size": (0, 2)})[0] == (0.0, 2.0)
    assert [change.condition for change in queries.changes([1, 1, 0], [1.5, 0, 1])] == [
        "size were 0.5 higher (1.5 instead of 1)",
        "colour were red instead of blue",
    ]


def test_short_numbers() -> None:
    row = short_numbers(np.array([30.0]), np.array([32.0996137]), [], lambda row: row[0] >= 32.0996)
    assert row.tolist() == [32.1]
