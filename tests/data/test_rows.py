"""Messages about X, and weights that can be added up."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from treelu.data.rows import missing_value_errors, summable, validated_rows


class OfThreeColumns(BaseEstimator):
    """An estimator that was fitted to three columns, with or without names."""

    def __init__(self, names: Any = None) -> None:
        self.names, self.n_features_in_ = names, 3
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)


ROWS = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    "X",
    [
        ROWS,
        ROWS.astype(np.float32),
        np.asfortranarray(ROWS),
        ROWS[:, ::-1],
        ROWS.astype(np.int8),
        ROWS.astype(">f8"),
        ROWS[:0],
        ROWS[:, :2],
        ROWS[0],
        ROWS[None],
        np.full((1, 3), np.inf),
        np.full((1, 3), -np.nan),
        np.full((1, 3), 1e308),
    ],
)
def test_rows_are_those_of_scikit_learns_checks_where_these_are_skipped(X: np.ndarray) -> None:
    def outcome(check: Any) -> tuple[Any, ...]:
        try:
            found = check(OfThreeColumns())
        except ValueError as error:
            return (str(error).split("\n")[0].split(", and")[0].rstrip("."),)
        return found.dtype, found.tolist()

    expected = outcome(lambda model: validate_data(model, X, reset=False, dtype=[np.float64, np.float32]))
    assert outcome(lambda model: validated_rows(model, X)) == expected


def test_an_array_for_a_model_with_names_gets_the_warning() -> None:
    with pytest.warns(UserWarning, match="valid feature names"):
        validated_rows(OfThreeColumns(["a", "b", "c"]), ROWS)


def test_nan_in_x_gets_a_remedy() -> None:
    wanted = "Input X contains NaN, and LCNClassifier needs numbers: use missing='indicator'"
    with pytest.raises(ValueError, match=wanted), missing_value_errors("LCNClassifier", "use missing='indicator'"):
        raise ValueError("Input X contains NaN.\nHistGradientBoosting could do this.")


def test_weights_whose_sum_overflows_are_scaled() -> None:
    assert summable(np.array([1e308, 1e308])).tolist() == [1.0, 1.0]
    assert summable(np.array([1.0, 2.0])).tolist() == [1.0, 2.0]
