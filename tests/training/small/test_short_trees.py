"""Exact search of trees of depth 2, against every pair of splits one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from treelu.training.small import short_trees
from treelu.training.small.short_trees import Criterion, Piece, best_piece, thresholds

CRITERIA = {"errors": Criterion(1.0, 0.0), "squares": Criterion(0.0, 1.0), "both": Criterion(1.0, 0.1)}
Table = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def table(seed: int, kind: str = "classes") -> Table:
    """Some rows with ties, their targets (classes, soft ones or values) and weights."""
    rng = np.random.default_rng(seed)
    n, n_features, n_outputs = int(rng.integers(2, 30)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    X = rng.integers(0, rng.integers(2, 10), (n, n_features)).astype(float)
    target = np.eye(n_outputs)[rng.integers(0, n_outputs, n)] if kind == "classes" else rng.normal(size=(n, n_outputs))
    if kind == "soft":
        target = rng.dirichlet(np.ones(n_outputs), n)
    return X, target, rng.uniform(0.5, 2, n) if seed % 2 else np.ones(n)


def leaf_cost(target: Any, weight: Any, criterion: Criterion, least: int) -> float:
    """The cost of some rows as a leaf."""
    if len(target) < least:
        return np.inf
    sums, mass = weight @ target, weight.sum()
    return float(criterion.errors * (mass - max(0, *sums)) + criterion.squares * (mass - (sums @ sums) / mass))


def least_cost(X: Any, target: Any, weight: Any, criterion: Criterion, least: int, depth: int) -> float:
    """The least cost of any tree of some depth."""
    best = leaf_cost(target, weight, criterion, least)
    for column in X.T if depth else ():
        for value in np.unique(column)[1:]:
            sides = column < value, column >= value
            parts = [least_cost(X[side], target[side], weight[side], criterion, least, depth - 1) for side in sides]
            best = min(best, sum(parts))
    return best


def tree_cost(piece: Piece, X: Any, target: Any, weight: Any, criterion: Criterion) -> float:
    """The cost of a tree's leaves."""
    right = X[:, piece.features[0]] >= piece.thresholds[0] if piece.features[0] >= 0 else np.zeros(len(X), bool)
    total = 0.0
    for side, feature, threshold in zip((~right, right), piece.features[1:], piece.thresholds[1:], strict=True):
        below = X[:, feature] >= threshold if feature >= 0 else np.zeros(len(X), bool)
        for leaf in (side & below, side & ~below):
            total += leaf_cost(target[leaf], weight[leaf], criterion, 1) if leaf.any() else 0.0
    return total


@pytest.mark.parametrize("kind", ["classes", "soft", "values"])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_no_tree_of_depth_1_or_2_costs_less(kind: str, criterion: str) -> None:
    if kind == "values" and criterion != "squares":
        pytest.skip("only squares are a cost of values")
    for seed in range(25):
        X, target, weight = table(seed, kind)
        for depth in (1, 2):
            how = CRITERIA[criterion], 1 + seed % 3
            piece = best_piece(X, target, weight, *how, depth)
            if len(X) >= how[1]:
                assert piece.cost == pytest.approx(least_cost(X, target, weight, *how, depth), abs=1e-9)
                assert piece.cost == pytest.approx(tree_cost(piece, X, target, weight, how[0]), abs=1e-9)


def test_integer_weights_are_repeated_rows() -> None:
    X, target, _ = table(7)
    count = np.random.default_rng(0).integers(1, 4, len(X))
    repeated = best_piece(np.repeat(X, count, 0), np.repeat(target, count, 0), np.ones(count.sum()), CRITERIA["both"])
    weighted = best_piece(X, target, count.astype(float), CRITERIA["both"])
    assert repeated.cost == pytest.approx(weighted.cost)
    assert repeated[1:] == weighted[1:]


def test_splits_that_help_only_together() -> None:
    X = np.random.default_rng(0).normal(size=(80, 6))
    target = np.eye(2)[((X[:, 2] > 0.3) ^ (X[:, 5] > -0.4)).astype(int)]
    piece = best_piece(X, target, np.ones(80), Criterion(1.0, 0.0))
    assert piece.cost == 0
    assert {*piece.features} == {2, 5}


def test_a_search_keeps_to_its_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many features and rows those with the best single splits are searched, with fewer thresholds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 60))
    value = np.where(X[:, 50] > 0, np.where(X[:, 7] > 0.5, 3.0, 0.0), np.where(X[:, 31] > 0.5, 1.0, 5.0))[:, None]
    monkeypatch.setattr(short_trees, "COST", 1e6)
    piece = best_piece(X, value, np.ones(3_000), CRITERIA["squares"])
    assert piece.features[0] == 50
    assert {*piece.features} == {50, 7, 31}
    assert np.abs(np.array(piece.thresholds) - [0, 0.5, 0.5]).max() < 0.15


def test_thresholds_part_neighbouring_values() -> None:
    x = np.random.default_rng(0).normal(size=100)
    assert (np.searchsorted(np.sort(x), thresholds(x, 200)) == np.arange(1, 100)).all()
    cuts = thresholds(x, 10)
    assert len(cuts) == 9
    assert np.diff(np.searchsorted(np.sort(x), cuts)).tolist() == [10] * 8
