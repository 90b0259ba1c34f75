"""How far from a hyperplane tree and network surely agree: the bound that docs/promises.md states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from treelu import LCNRegressor
from treelu.tree.rows import node_scores


def absolute_sums(network: Any, x: np.ndarray) -> np.ndarray:
    """The largest M of a row, M_i = |w_i|·|x| + |b_i| + Σ_k |u_ik| M_k: no partial sum of a score exceeds it."""
    weight, connection, bias = (
        np.abs(np.asarray(part.detach() if hasattr(part, "detach") else part, dtype=np.float64))
        for part in (network.weight, network.connection, network.bias)
    )
    sums = np.zeros((len(x), len(bias)))
    for i in range(len(bias)):
        sums[:, i] = np.abs(x) @ weight[:, i] + bias[i] + sums[:, :i] @ connection[i, :i]
    return sums.max(axis=1)


def bound(network: Any, x: np.ndarray) -> np.ndarray:
    depth = network.depth
    return 2 * (depth + 1) * (x.shape[1] + depth + 3) * 2.0**-53 * absolute_sums(network, x)


@pytest.mark.parametrize(("depth", "n_features", "scale"), [(2, 3, 1.0), (5, 12, 1.0), (6, 40, 1e6), (8, 5, 1e-9)])
def test_rows_farther_from_every_hyperplane_than_the_bound_take_the_same_way(depth, n_features, scale):
    """Rows laid onto hyperplanes as nearly as doubles allow, and beside them; where the two differ, it says so."""
    rng = np.random.default_rng(depth)
    X = rng.normal(size=(200, n_features)) * scale
    model = LCNRegressor(depth=depth, epochs=1, random_state=0).fit(X, X[:, 0] / scale)
    tree = model.tree_
    rows = np.repeat(X, 15, axis=0)
    nodes = rng.integers(tree.n_splits, size=len(rows))
    weights = np.array([tree.node_weights(node) for node in range(tree.n_splits)])[nodes]
    score = (weights * rows).sum(axis=1) + tree.biases[nodes]
    feature = np.abs(weights).argmax(axis=1)
    place = np.arange(len(rows))
    nudge = rng.choice([0.0, 0.0, 1e-16, -1e-16, 1e-13, -1e-13, 1e-6], len(rows))
    rows[place, feature] -= (score / weights[place, feature]) * (1 + nudge)
    path = tree.decision_path(rows)
    nearest = np.full(len(rows), np.inf)
    for node in range(tree.n_splits):
        here = np.flatnonzero(path[:, [node]].toarray()[:, 0])
        if here.size:
            scores = np.abs(node_scores(rows, here, tree.weights, tree.biases, node))
            nearest[here] = np.minimum(nearest[here], scores)
    sure = nearest > bound(model.network_, rows)
    differ = ~np.isclose(model.predict(rows), tree.predict(rows), rtol=1e-6, atol=1e-9)
    assert (~sure).sum() > 30  # rows in doubt were made
    assert sure.sum() > 100
    assert not (differ & sure).any()
