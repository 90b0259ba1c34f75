"""Classes, their order and their weights; targets that are refused."""

import numpy as np
import pytest

from treelu.data.encoding import class_order, refuse_invalid_targets, weigh_classes


def test_the_most_frequent_class_comes_first() -> None:
    assert class_order(np.array([2, 0, 0, 1]), 3).tolist() == [0, 2, 1]


def test_balanced_classes_have_equal_weight() -> None:
    weight = weigh_classes("balanced", np.array([0, 0, 1, 1]), np.array([1.0, 0.0, 1.0, 2.0]))
    np.testing.assert_allclose(weight, [2.0, 0.0, 2 / 3, 4 / 3])


def test_missing_labels_are_refused() -> None:
    with pytest.raises(ValueError, match="y must have a label for each row, but row 1 has none; leave such rows out"):
        refuse_invalid_targets(["yes", None, "no"], are_classes=True)
