"""Missing values: filled with the median of the training rows, by one rule for tables and estimators."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from treelu import LCNClassifier, ObliqueTreeClassifier
from treelu.tables import TableEncoder
from treelu.tree.missing import MissingValues

ROWS = np.array([[1.0, 5.0], [np.nan, 7.0], [3.0, 6.0], [100.0, 6.0], [2.0, 5.0]])


def test_gaps_are_filled_with_the_median_and_marked() -> None:
    filled = MissingValues.of(ROWS).fill(ROWS)
    assert filled[:, 0].tolist() == [1.0, 2.5, 3.0, 100.0, 2.0]
    assert filled[:, 2].tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]


def test_a_feature_without_any_value_is_filled_with_0() -> None:
    rows = np.full((3, 1), np.nan)
    assert MissingValues.of(rows).fill(rows).tolist() == [[0.0, 1.0]] * 3


def test_gaps_in_new_columns_are_filled_without_an_indicator() -> None:
    assert MissingValues.of(ROWS).fill(np.array([[1.0, np.nan]])).tolist() == [[1.0, 6.0, 0.0]]


@pytest.mark.parametrize("method", ["of", "fill"])
def test_sparse_rows_are_refused(method: str) -> None:
    call = MissingValues.of if method == "of" else MissingValues(np.zeros(2), np.zeros(0, np.int64)).fill
    with pytest.raises(ValueError, match="needs a dense X"):
        call(sparse.csr_array(np.eye(2)))


@pytest.mark.slow
def test_tables_and_estimators_fill_alike() -> None:
    frame = pd.DataFrame(ROWS, columns=["a", "b"])
    encoder = TableEncoder.learn(frame, note=lambda text: None)
    by_table = encoder.encode(frame).X.to_numpy()  # a, whether a is missing, b
    learned = MissingValues.of(ROWS)
    np.testing.assert_array_equal(by_table[:, [0, 2, 1]], learned.fill(ROWS))
    X = np.tile(ROWS, (12, 1))
    y = np.arange(len(X)) % 2
    for model in (LCNClassifier(depth=1, epochs=1, missing="indicator"), ObliqueTreeClassifier(missing="indicator")):
        np.testing.assert_array_equal(model.fit(X, y).missing_values_.fills, learned.fills)
