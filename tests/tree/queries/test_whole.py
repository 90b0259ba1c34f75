"""Whole numbers: every question against enumeration by `predict`, on planes where rounding decides too."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.tree.queries.oracles import norm_of, rounded_tree
from tests.tree.trees import random_tree
from treelu.tree import ObliqueTree
from treelu.tree.queries import integers

REACH = 2
# With 14 and 20 rounding once made false proofs; with 83 SciPy's `milp` (1.17) ends the process.
SEEDS = (5, 8, 14, 20, 26, 62, 83)


def tenths(seed: int) -> ObliqueTree:
    """A tree with weights in tenths, whose sums of whole numbers are rounded."""
    tree = rounded_tree(seed)
    size = (1.0, 4.0)[seed % 2]
    return replace(tree, weights=tree.weights * size / 10, biases=tree.biases * size / 10)


def all_rows(n_features: int) -> np.ndarray:
    axis = range(-REACH, REACH + 1)
    return np.array(list(itertools.product(axis, repeat=n_features)), dtype=float)


def options(tree: ObliqueTree) -> dict[str, Any]:
    return {"bounds": (-REACH, REACH), "whole": range(tree.n_features)}


@pytest.mark.parametrize("seed", SEEDS)
def test_properties_agree_with_enumeration(seed: int) -> None:
    tree = tenths(seed)
    rows = all_rows(tree.n_features)
    shape = (2 * REACH + 1,) * tree.n_features
    values, labels = tree.predict_proba(rows)[:, 1].reshape(shape), tree.predict(rows).reshape(shape)
    for j in range(tree.n_features):
        along, answers = np.moveaxis(values, j, 0), np.moveaxis(labels, j, 0)
        steps = np.diff(along, axis=0)
        assert bool(tree.rises(j, **options(tree))) == bool((steps >= 0).all())
        assert bool(tree.falls(j, **options(tree))) == bool((steps <= 0).all())
        assert bool(tree.independent(j, **options(tree))) == bool((answers == answers[:1]).all())


@pytest.mark.parametrize("seed", SEEDS)
def test_nearest_rows_and_ranges_agree_with_enumeration(seed: int) -> None:
    tree = tenths(seed)
    rows = all_rows(tree.n_features)
    values, labels = tree.predict_proba(rows)[:, 1], tree.predict(rows)
    found = tree.output_range(**options(tree))
    assert (found.low, found.high) == (values.min(), values.max())
    x = rows[seed % len(rows)]
    others = rows[labels != tree.predict(x[None])[0]]
    for norm in ("l1", "linf", "l2"):
        nearest = tree.counterfactual(x, norm=norm, scale=1.0, **options(tree))
        assert nearest.distance == pytest.approx(norm_of(others - x, norm).min(initial=np.inf))
        assert nearest.decided


@pytest.mark.parametrize("norm", ["l1", "linf", "l2"])
@pytest.mark.parametrize("seed", range(4))
def test_groups_and_few_changes_agree_with_enumeration(seed: int, norm: str) -> None:
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, 6, 7, "logistic")
    groups, scale = [[0, 1, 2], [3, 4]], rng.uniform(0.5, 2, 7)
    parts = [np.eye(3), np.eye(2), all_rows(2)]
    rows = np.array([np.concatenate(parts) for parts in itertools.product(*parts)])
    x = rows[seed]
    changed = (rows[:, :3] != x[:3]).any(1) + (rows[:, 3:5] != x[3:5]).any(1) + (rows[:, 5:] != x[5:]).sum(1)
    fits = (tree.predict(rows) != tree.predict(x[None])[0]) & (changed <= 2)
    best = norm_of((rows[fits] - x) / scale, norm).min(initial=np.inf)
    bounds = {5: (-REACH, REACH), 6: (-REACH, REACH)}
    nearest = tree.counterfactual(
        x, groups=groups, whole=[5, 6], bounds=bounds, max_changes=2, norm=norm, scale=scale
    )  # fmt: skip
    assert nearest.distance == pytest.approx(best)


def test_each_leaf_gives_its_own_nearest_row() -> None:
    tree = tenths(5)
    rows, x = all_rows(tree.n_features), np.zeros(tree.n_features)
    leaves, labels = tree.apply(rows), tree.predict(rows)
    wanted = labels != tree.predict(x[None])[0]
    found = tree.counterfactual(x, n=tree.n_leaves, scale=1.0, **options(tree))
    assert {row.leaf for row in found.rows} == set(leaves[wanted].tolist())
    for row in found.rows:
        assert row.distance == np.abs(rows[wanted & (leaves == row.leaf)]).sum(axis=1).min()


def test_an_output_without_end_over_whole_numbers() -> None:
    weights = [[[0.0, 0.0]], [[1.0, 0.5]]]
    tree = ObliqueTree([[1.0, 1.0]], [0.0], [[1, 2]], [[0.0], [1.0]], leaf_weights=weights)
    assert tree.output_range(whole=[0, 1], bounds={1: (None, 3)}).high == np.inf
    assert tree.output_range((0, 7), whole=[0, 1]).high == 11.5
    assert not tree.at_most(3.0, whole=[0, 1])


def test_a_search_that_is_given_up_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tenths(14)
    truth = tree.falls(1, **options(tree))
    assert truth.decided
    assert not truth
    monkeypatch.setattr(integers, "_MOST", 0)
    monkeypatch.setattr(integers, "_FEW", 0)
    verdict = tree.falls(1, **options(tree))
    assert not verdict
    assert not verdict.decided
    assert len(verdict.rows) == 0
    assert str(verdict).startswith("not decided: ")
    nearest = tree.counterfactual(np.zeros(tree.n_features), **options(tree))
    assert nearest.decided == bool(nearest)
    robust = float(tree.robustness(np.zeros(tree.n_features), **options(tree)))
    monkeypatch.undo()
    assert robust <= float(tree.robustness(np.zeros(tree.n_features), **options(tree)))
