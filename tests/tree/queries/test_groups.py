"""One-hot groups in units of their spreads: the nearest row against enumeration, and with a number beside them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fuzz.groups import fuzz, rows_of, some_tree
from tests.tree.queries.oracles import norm_of


def test_the_nearest_row_is_that_of_enumeration() -> None:
    """Rounding in the groups' sums, forced changes of a group and softmax limits once left parts unsearched."""
    tally = fuzz(0, 250)
    assert not tally.failures
    assert tally.outcomes["found"] > 150
    assert tally.outcomes["proved"] > 20


@pytest.mark.parametrize("seed", [0, 1, 8, 22, 36, 71, 75, 108, 126, 193])
def test_a_number_beside_groups_leaves_nothing_open(seed: int) -> None:
    tree = some_tree(np.random.default_rng(seed), integers=False)
    rows = rows_of(np.linspace(-2.0, 2.0, 401))
    labels, x = tree.predict(rows), rows[seed]
    assert tree.spreads is not None
    least = min((norm_of((row - x) / tree.spreads, "l1") for row in rows[labels != labels[seed]]), default=np.inf)
    found = tree.counterfactual(x)
    assert found.decided
    assert found.distance <= least + 1e-9
    assert found.bound == pytest.approx(found.distance)
