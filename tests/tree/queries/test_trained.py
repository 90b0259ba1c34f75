"""Trees trained with `monotonic_cst`: what the constraint promises is proved for all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from treelu import ObliqueTreeClassifier, ObliqueTreeRegressor

RULE = {"income": 1, "debt": -1}


def applicants() -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((240, 3)), columns=["income", "debt", "age"])
    y = np.where(X["income"] > X["debt"], 2 * X["income"], X["age"]) + 0.1 * rng.standard_normal(240)
    return X, pd.Series(y)


@pytest.mark.slow
def test_they_rise_and_fall_for_all_rows() -> None:
    X, y = applicants()
    quick: dict[str, Any] = {"max_leaf_nodes": 5, "n_updates": 60, "random_state": 0}
    number = ObliqueTreeRegressor(**quick, monotonic_cst=RULE).fit(X, y).tree_
    label = ObliqueTreeClassifier(**quick, monotonic_cst=[1, -1, 0]).fit(X, np.where(y > 0, "yes", "no")).tree_
    for tree in (number, label):
        assert tree.n_leaves > 2
        assert tree.rises("income")
        assert tree.falls("debt")
        for free in (tree.rises("age"), tree.falls("age")):  # a refutation is of two rows
            assert free or np.diff(free.rows[:, 2]) > 0
    # Of two classes it is the second one's probability that rises; the first one's falls.
    assert label.rises("income", target="yes")
    assert label.falls("income", target="no")


def test_more_classes_have_no_direction_as_in_scikit_learn() -> None:
    from sklearn.tree import DecisionTreeClassifier

    X, y = applicants()
    three = np.digitize(y, [-0.5, 0.5])
    with pytest.raises(ValueError, match="monotonic_cst needs two classes or one target"):
        ObliqueTreeClassifier(monotonic_cst=RULE).fit(X, three)
    with pytest.raises(ValueError, match="not supported with multiclass"):
        DecisionTreeClassifier(monotonic_cst=[1, -1, 0]).fit(X, three)
