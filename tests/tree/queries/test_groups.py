"""One-hot groups in units of their spreads: the nearest row against enumeration, and of numbers beside them decided."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests.tree.queries.oracles import norm_of
from tests.tree.trees import random_tree
from treelu.tree import ObliqueTree
from treelu.tree.observed import Observed

GROUPS = ((1, 2, 3), (4, 5))
N_FEATURES = 6


def tree_of_groups(seed: int, *, integers: bool) -> ObliqueTree:
    """Three classes by linear leaves over a number from -2 to 2 and two one-hot groups."""
    rng = np.random.default_rng(seed)
    base = random_tree(rng, int(rng.integers(1, 4)), N_FEATURES, "identity")
    whole = np.array([integers] + [True] * 5)
    low, high = np.array([-2.0] + [0.0] * 5), np.array([2.0] + [1.0] * 5)
    return replace(
        base, values=rng.normal(size=(base.n_leaves, 3)), leaf_weights=rng.normal(size=(base.n_leaves, 3, N_FEATURES)),
        link="softmax", classes=np.array(["a", "b", "c"]), spreads=rng.uniform(0.2, 0.6, N_FEATURES),
        observed=Observed(low, high, whole, GROUPS),
    )  # fmt: skip


def rows_of(numbers: np.ndarray) -> np.ndarray:
    """All levels beside each number."""
    levels = [np.eye(3)[i].tolist() + np.eye(2)[j].tolist() for i, j in itertools.product(range(3), range(2))]
    return np.array([[number, *level] for number in numbers for level in levels])


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 21, 100, 114, 134, 175])
@pytest.mark.parametrize("norm", ["l1", "linf", "l2"])
def test_the_nearest_row_is_that_of_enumeration(seed: int, norm: str) -> None:
    tree = tree_of_groups(seed, integers=True)
    rows = rows_of(np.arange(-2.0, 3.0))
    labels, x = tree.predict(rows), rows[seed % 30]
    distances = [norm_of((row - x) / tree.spreads, norm) for row in rows[labels != tree.predict(x[None])[0]]]
    found = tree.counterfactual(x, norm=norm)
    assert found.decided
    assert found.distance == pytest.approx(min(distances, default=np.inf))
    assert found.bound == pytest.approx(found.distance)
    assert float(tree.robustness(x, norm)) == pytest.approx(found.distance)


@pytest.mark.parametrize("seed", [0, 1, 8, 22, 36, 71, 75, 108, 126, 193])
def test_a_number_beside_groups_leaves_nothing_open(seed: int) -> None:
    tree = tree_of_groups(seed, integers=False)
    rows = rows_of(np.linspace(-2.0, 2.0, 401))
    labels, x = tree.predict(rows), rows[seed]
    least = min((norm_of((row - x) / tree.spreads, "l1") for row in rows[labels != labels[seed]]), default=np.inf)
    found = tree.counterfactual(x)
    assert found.decided
    assert found.distance <= least + 1e-9
    assert found.bound == pytest.approx(found.distance)
