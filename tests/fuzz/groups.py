"""The nearest row of trees with categories: every answer against enumeration of all rows.

A number from -2 to 2, in integers, and two one-hot groups, in units of their spreads; linear and constant leaves, a
value and three classes; with and without limits on what may change.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import numpy as np

from tests.fuzz.cases import Tally, run_cases
from tests.tree.queries.oracles import norm_of
from tests.tree.trees import random_tree
from treelu.tree import ObliqueTree
from treelu.tree.observed import Observed
from treelu.tree.queries.goal import NoLeafError

GROUPS = ((1, 2, 3), (4, 5))
N_FEATURES = 6
KINDS = ("softmax", "identity", "probability")


def some_tree(rng: np.random.Generator, *, integers: bool = True, kind: str = "softmax") -> ObliqueTree:
    """A tree over the number and the two groups."""
    base = random_tree(rng, int(rng.integers(1, 4)), N_FEATURES, "identity")
    whole = np.array([integers] + [True] * 5)
    low, high = np.array([-2.0] + [0.0] * 5), np.array([2.0] + [1.0] * 5)
    n_outputs = 1 if kind == "identity" else 3
    values, slopes = rng.normal(size=(base.n_leaves, 3)), rng.normal(size=(base.n_leaves, 3, N_FEATURES))
    values, slopes = values[:, :n_outputs], slopes[:, :n_outputs]
    if kind == "probability":
        values = np.exp(values) / np.exp(values).sum(axis=1, keepdims=True)
    return replace(
        base, values=values, leaf_weights=None if kind == "probability" else slopes, link=kind,
        classes=None if kind == "identity" else np.array(["a", "b", "c"]),
        spreads=rng.uniform(0.2, 0.6, N_FEATURES), observed=Observed(low, high, whole, GROUPS),
    )  # fmt: skip


def rows_of(numbers: np.ndarray) -> np.ndarray:
    """All levels beside each number."""
    levels = [np.eye(3)[i].tolist() + np.eye(2)[j].tolist() for i, j in itertools.product(range(3), range(2))]
    return np.array([[number, *level] for number in numbers for level in levels])


def some_goal(rng: np.random.Generator, tree: ObliqueTree, rows: np.ndarray, x: int) -> tuple[dict[str, Any], Any]:
    """What is asked for, and which rows have it."""
    answers = tree.predict(rows)
    if tree.is_classifier and rng.random() < 0.5:
        return {}, answers != answers[x]
    asked = {"target": "b"} if tree.is_classifier else {}
    outputs = tree.predict_proba(rows)[:, 1] if tree.is_classifier else answers
    least = float(np.quantile(outputs, 0.8))
    return {**asked, "at_least": least}, outputs >= least


def some_limits(rng: np.random.Generator, rows: np.ndarray, x: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    """What may change, and which rows that permits."""
    options: dict[str, Any] = {}
    fine = np.ones(len(rows), dtype=bool)
    kept = [[0], [1, 2, 3], []][rng.integers(3)]
    if kept:
        options["keep"] = kept
        fine &= (rows[:, kept] == x[kept]).all(axis=1)
    elif rng.random() < 0.5:
        options["rise"] = [0]
        fine &= rows[:, 0] >= x[0]
    if not kept and rng.random() < 0.3:  # where the row has this level, the group has to change
        options["bounds"] = {2: (0, 0)}
        fine &= rows[:, 2] == 0
    if rng.random() < 0.4:
        options["max_changes"] = int(rng.integers(1, 3))
        parts = [[0], *map(list, GROUPS)]
        fine &= sum((rows[:, part] != x[part]).any(axis=1) for part in parts) <= options["max_changes"]
    return options, fine


def case(random_source: random.Random) -> str:
    """One tree, one row, one query."""
    rng = np.random.default_rng(random_source.randrange(2**32))
    tree, rows = some_tree(rng, kind=str(rng.choice(KINDS))), rows_of(np.arange(-2.0, 3.0))
    place, norm = int(rng.integers(len(rows))), str(rng.choice(["l1", "l2", "linf"]))
    goal, good = some_goal(rng, tree, rows, place)
    options, fine = some_limits(rng, rows, rows[place])
    least = norm_of((rows - rows[place]) / tree.spreads, norm)[fine & good].min(initial=np.inf)
    try:
        found = tree.counterfactual(rows[place], **goal, **options, norm=norm)
    except NoLeafError:
        assert np.isinf(least)
        return "proved"
    assert found.decided
    if np.isinf(least):
        assert not found
        return "proved"
    assert abs(found.distance - least) <= 1e-6 * (1 + least), (found.distance, least)
    assert abs(found.bound - least) <= 1e-6 * (1 + least), (found.bound, least)
    return "found"


def fuzz(seed: int, count: int, only: int | None = None) -> Tally:
    """Nearest rows and proofs that there is none."""
    return run_cases(case, seed, count, only)
