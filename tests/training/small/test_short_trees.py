"""Exact search of trees of depth 2, against every pair of splits one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from treelu import ObliqueTreeClassifier
from treelu.training.small import short_trees
from treelu.training.small.short_trees import Criterion, Node, Piece, best_piece, grown, pruned_to, thresholds

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


def test_no_more_errors_than_contree() -> None:
    """Of the trees of depth 2; ConTree's has the fewest errors."""
    contree = pytest.importorskip("pycontree")
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(80, 4)).round(2), rng.integers(0, 3, 80)
        model = contree.ConTree(max_depth=2)
        model.fit(X, y)
        piece = best_piece(X, np.eye(3)[y], np.ones(80), Criterion(1.0, 0.0))
        assert round(piece.cost) == np.sum(np.asarray(model.predict(X)) != y)


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


def costs_of_prunings(node: Node) -> dict[int, float]:
    """The least cost of each number of leaves, over every way to turn nodes into leaves."""
    found = {1: node.cost}
    if node.below:
        left, right = (costs_of_prunings(child) for child in node.below)
        for one, cost in left.items():
            for other, more in right.items():
                found[one + other] = min(found.get(one + other, np.inf), cost + more)
    return found


def cost_of_splits(splits: Any, X: Any, target: Any, weight: Any, criterion: Criterion) -> float:
    """The cost of the leaves in which the rows end."""
    node = np.zeros(len(X), int)
    for split, (children, feature, threshold) in enumerate(zip(*splits, strict=True)):
        here = node == split
        node[here] = np.where(X[here, feature] >= threshold, children[1], children[0])
    return sum(leaf_cost(target[node == leaf], weight[node == leaf], criterion, 0) for leaf in np.unique(node))


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_no_pruning_costs_less(kind: str) -> None:
    for seed in range(20):
        X, target, weight = table(seed, kind)
        root = grown(X, target, weight, CRITERIA["squares"], 8)
        costs = costs_of_prunings(root)
        for most in (1, 2, 3, 5, 8):
            splits = pruned_to(root, most)
            assert len(splits.children) < most
            wanted = min(cost for leaves, cost in costs.items() if leaves <= most)
            assert cost_of_splits(splits, X, target, weight, CRITERIA["squares"]) == pytest.approx(wanted, abs=1e-9)


def test_growth_keeps_to_its_limits() -> None:
    rng = np.random.default_rng(0)
    X, target = rng.normal(size=(200, 4)), rng.normal(size=(200, 1))

    def nodes(node: Node) -> list[Node]:
        return [node, *(below for child in node.below for below in nodes(child))]

    for node in nodes(grown(X, target, np.ones(200), CRITERIA["squares"], 16, min_samples=7, max_depth=3)):
        assert node.depth <= 3
        assert len(node.rows) >= 7


def test_four_leaves_of_one_term_find_what_only_two_splits_together_show() -> None:
    """A greedy tree has no first split to find here."""
    X = np.random.default_rng(0).uniform(-1, 1, (400, 5))
    y = (X[:, 1] > 0) ^ (X[:, 3] > 0)
    model = ObliqueTreeClassifier(max_leaf_nodes=4, max_terms=1, leaves="constant", random_state=0).fit(X, y)
    assert model.score(X, y) > 0.97
    assert model.path_.loc[model.path_["chosen"], "start"].item().startswith("exact")
