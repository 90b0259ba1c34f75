"""Trees trained with `monotonic_cst`: what the constraint promises is proved for all rows."""

import numpy as np

from treelu import ObliqueTreeRegressor


def test_monotone_trees_are_proved_to_be_monotone():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    y = np.where(X[:, 0] - X[:, 1] > 0, 2 * X[:, 0], X[:, 2]) + 0.1 * rng.standard_normal(300)
    tree = ObliqueTreeRegressor(max_leaf_nodes=6, monotonic_cst=[1, -1, 0], random_state=0).fit(X, y).tree_
    assert tree.n_leaves > 2
    assert tree.rises(0)
    assert tree.falls(1)
    free = ObliqueTreeRegressor(max_leaf_nodes=6, random_state=0).fit(X, y).tree_
    assert not (free.rises(0) and free.falls(1) and free.rises(2) and free.falls(2))
