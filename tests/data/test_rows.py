"""Messages about X, and weights that can be added up."""

import numpy as np
import pytest

from treelu.data.rows import missing_value_errors, summable


def test_nan_in_x_gets_a_remedy() -> None:
    wanted = "Input X contains NaN, and LCNClassifier needs numbers: use missing='indicator'"
    with pytest.raises(ValueError, match=wanted), missing_value_errors("LCNClassifier", "use missing='indicator'"):
        raise ValueError("Input X contains NaN.\nHistGradientBoosting could do this.")


def test_weights_whose_sum_overflows_are_scaled() -> None:
    assert summable(np.array([1e308, 1e308])).tolist() == [1.0, 1.0]
    assert summable(np.array([1.0, 2.0])).tolist() == [1.0, 2.0]
