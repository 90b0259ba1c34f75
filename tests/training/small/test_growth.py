"""Trees grown from pairs of features, and for linear leaves, against every pair and every threshold."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from treelu import ObliqueTreeClassifier, ObliqueTreeRegressor
from treelu.training.small.growth import (
    LEAST_ROWS,
    MODEL_RIDGE,
    MODEL_ROWS,
    best_threshold,
    model_split,
    pair_regressions,
    pair_split,
    pair_tree,
    rough_gains,
)
from treelu.training.small.rows import TrainingRows
from treelu.training.small.soft_tree import impurity

Table = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def table(is_classifier: bool, n: int = 200, n_features: int = 5) -> Table:
    """Rows of which x1 − 2·x3 decides, their targets (two classes, or a value) and weights."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, n_features))
    value = X[:, 1] - 2 * X[:, 3] + rng.normal(size=n) / 10
    target = np.column_stack([value < 0, value >= 0]).astype(float) if is_classifier else np.sign(value)[:, None]
    return X, target, rng.uniform(0.5, 2, size=n)


def best_gain(z: NDArray[np.float64], target: Any, weight: Any, is_classifier: bool) -> float:
    """The gain of the best threshold, one after the other."""
    order = np.argsort(z)
    z, target, weight = z[order], target[order], weight[order]

    def lost(part: slice) -> float:
        sums = (target[part] * weight[part, None]).sum(axis=0, keepdims=True)
        return float(impurity(sums, weight[part].sum(keepdims=True), is_classifier)[0])

    gains = [
        lost(slice(None)) - lost(slice(place)) - lost(slice(place, None))
        for place in range(LEAST_ROWS, len(z) - LEAST_ROWS + 1)
        if z[place - 1] < z[place]
    ]
    return max(gains)


@pytest.mark.parametrize("is_classifier", [True, False])
def test_the_best_threshold_is_that_of_all(is_classifier: bool) -> None:
    X, target, weight = table(is_classifier)
    z = np.round(X[:, 1], 1)  # with ties
    gain, threshold = best_threshold(z, target, weight, is_classifier)
    assert gain == pytest.approx(best_gain(z, target, weight, is_classifier))
    assert not (z == threshold).any()


@pytest.mark.parametrize("is_classifier", [True, False])
def test_rough_gains_are_a_little_below_the_exact_ones(is_classifier: bool) -> None:
    X, target, weight = table(is_classifier, n=1000)
    coefficients = np.vstack([np.eye(5), [[0, 1, 0, -2, 0]]])
    rough = rough_gains(coefficients, X, target, weight, is_classifier)
    exact = np.array([best_gain(X @ slope, target, weight, is_classifier) for slope in coefficients])
    assert (rough <= exact + 1e-9).all()
    np.testing.assert_allclose(rough, exact, rtol=0.1, atol=0.02 * exact.max())
    assert rough.argmax() == 5


def test_regressions_on_pairs_are_those_of_each_pair() -> None:
    X, target, weight = table(is_classifier=False)
    moments, goal = (X * weight[:, None]).T @ X, (X * weight[:, None]).T @ target[:, 0]
    found = pair_regressions(moments, goal, np.array([0, 1, 3, 4]), 6)
    explained = []
    for slope in found:
        i, j = np.flatnonzero(slope)
        alone = np.linalg.lstsq(X[:, [i, j]] * np.sqrt(weight)[:, None], target[:, 0] * np.sqrt(weight), rcond=None)
        np.testing.assert_allclose(slope[[i, j]], alone[0])
        explained.append(float(slope @ goal))
    assert {tuple(np.flatnonzero(slope)) for slope in found} == set(combinations((0, 1, 3, 4), 2))
    assert explained == sorted(explained, reverse=True)
    assert tuple(np.flatnonzero(pair_regressions(moments, goal, np.arange(5), 1)[0])) == (1, 3)


@pytest.mark.parametrize("is_classifier", [True, False])
def test_the_pair_that_decides_is_found(is_classifier: bool) -> None:
    X, target, weight = table(is_classifier)
    found = pair_split(X, target, weight, is_classifier)
    assert found is not None
    assert np.flatnonzero(found.weights[:-1]).tolist() == [1, 3]
    assert found.weights[3] / found.weights[1] == pytest.approx(-2, rel=0.2)
    assert (X @ found.weights[:-1]).std() == pytest.approx(1)
    right = X @ found.weights[:-1] + found.weights[-1] >= 0
    truth = target[:, -1] > 0
    assert max(np.mean(right == truth), np.mean(right != truth)) > 0.95


def test_a_tree_of_pairs_keeps_to_its_limits() -> None:
    X, target, weight = table(is_classifier=True)
    rows = TrainingRows(
        np.column_stack([X, np.ones(len(X))]).astype(np.float32), target.astype(np.float32),
        weight.astype(np.float32), is_classifier=True,
    )  # fmt: skip
    tree = pair_tree(rows, 6)
    assert 2 <= tree.n_leaves <= 6
    assert (tree.splits[:, :-1] != 0).sum(axis=1).max() <= 2
    np.testing.assert_array_equal(tree.allowed[:, :-1] != 0, tree.splits[:, :-1] != 0)
    assert pair_tree(rows, 16, 1).n_leaves == 2
    one_class = TrainingRows(rows.X, np.tile(np.float32([1, 0]), (len(X), 1)), rows.weight, is_classifier=True)
    assert pair_tree(one_class, 8).n_leaves == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ObliqueTreeClassifier, ObliqueTreeRegressor])
def test_two_terms_find_what_two_pairs_decide(kind: Any) -> None:
    """Class 1 where x0 + x1 and x2 − x3 are positive: three leaves of two terms say it, ordinary ones do not."""
    rng = np.random.default_rng(0)
    X = rng.integers(-3, 4, size=(600, 6)).astype(float)
    y = ((X[:, 0] + X[:, 1] > 0.5) & (X[:, 2] - X[:, 3] > 0.5)).astype(int)
    scores = [
        kind(max_leaf_nodes=4, max_terms=terms, random_state=0).fit(X[:400], y[:400]).score(X[400:], y[400:])
        for terms in (1, 2)
    ]
    assert scores[1] > 0.97
    assert scores[1] > scores[0] + 0.1


@pytest.mark.parametrize("is_classifier", [False, True])
def test_no_threshold_gains_more_for_linear_functions(is_classifier: bool) -> None:
    """Against ridge regressions on both sides of every threshold; features have few values, so that all are tried."""
    rng = np.random.default_rng(0)
    X, weight = rng.integers(0, 8, (120, 3)).astype(float), rng.uniform(0.5, 2, 120)
    value = np.where(X[:, 1] >= 5, 2 * X[:, 0] - X[:, 2], X[:, 2] - X[:, 0]) + rng.normal(size=120)
    target = np.eye(2)[(value > 0).astype(int)] if is_classifier else value[:, None]
    y, table = target[:, -1], np.column_stack([X, np.ones(120)])

    def fit(rows: NDArray[np.bool_], y: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        scaled, root = table[rows] * np.sqrt(weight[rows, None]), np.sqrt(np.diag([MODEL_RIDGE] * 3 + [1e-6]))
        padded = np.append(y[rows] * np.sqrt(weight[rows]), np.zeros(4))
        found, *_ = np.linalg.lstsq(np.vstack([scaled, root]), padded)
        return found, float(((np.vstack([scaled, root]) @ found - padded) ** 2).sum())

    rest = y - table @ fit(np.ones(120, bool), y)[0]
    gains = {}
    for j in range(3):
        for threshold in np.unique(X[:, j])[1:] - 0.5:
            right = X[:, j] >= threshold
            if min(right.sum(), 120 - right.sum()) >= MODEL_ROWS:
                gains[j, threshold] = weight @ rest**2 - fit(right, rest)[1] - fit(~right, rest)[1]
    best = max(gains, key=lambda key: gains[key])
    split = model_split(X, target, weight, is_classifier)
    assert split is not None
    assert split.gain == pytest.approx(gains[best])
    assert split.weights.tolist() == [*np.eye(3)[best[0]], -best[1]]


def test_a_split_that_only_changes_slopes_is_found() -> None:
    """Its sides have the same mean and, together, no trend: a tree of constant leaves sees nothing there."""
    X = np.random.default_rng(1).uniform(-1, 1, (300, 5))
    y = np.where(X[:, 3] > 0.2, X[:, 0], -X[:, 0])
    model = ObliqueTreeRegressor(random_state=0).fit(X, y)
    assert model.score(X, y) > 0.99
    assert model.tree_.n_leaves <= 3  # the third may be next to the threshold
    assert np.flatnonzero(model.tree_.weights[0]).tolist() == [3]
