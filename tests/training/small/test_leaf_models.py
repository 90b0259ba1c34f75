"""Linear leaves: against scikit-learn, and against a general minimiser of the equations in the module's first lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Ridge as RidgeRegression

from treelu.training.small.leaf_models import OFFSET, LeafProblem, LeafRows, Ridge, fitted_leaves, solve_signed

NO_SPLITS = np.zeros((0, 2), np.int64)
CHILDREN = np.array([[1, 3], [2, 4]])  # three leaves; leaf 1 hangs on the root
PATHS = [[2, 1], [3], [4, 1]]  # nodes of each leaf, from itself to below the root


def some_rows(n_outputs: int, *, is_classifier: bool, children: NDArray[np.int64] = NO_SPLITS) -> LeafRows:
    rng = np.random.default_rng(n_outputs)
    X = np.hstack([rng.normal(size=(80, 3)), np.ones((80, 1))])
    if is_classifier:
        target = np.eye(n_outputs)[(X[:, :2].sum(axis=1) + rng.normal(size=80) > 0) + (n_outputs - 2) * (X[:, 2] > 0.5)]
    else:
        target = X[:, :n_outputs] @ rng.normal(size=(n_outputs, n_outputs)) + rng.normal(size=(80, n_outputs))
    leaf = rng.integers(len(children) + 1, size=80)
    return LeafRows(X, target, rng.uniform(0.5, 2, 80), leaf, children, is_classifier)


@pytest.mark.parametrize("n_outputs", [2, 3])
def test_one_leaf_is_logistic_regression(n_outputs: int) -> None:
    rows = some_rows(n_outputs, is_classifier=True)
    oracle = LogisticRegression(C=1 / 0.7, tol=1e-10, max_iter=10_000)
    oracle.fit(rows.X[:, :-1], rows.target.argmax(axis=1), rows.weight)
    (model,) = fitted_leaves(rows, Ridge(0.7), own=False)
    np.testing.assert_allclose(model[:, :-1], oracle.coef_, atol=1e-4)
    expected = oracle.intercept_ - oracle.intercept_.mean() * (n_outputs > 2)
    np.testing.assert_allclose(model[:, -1] - model[:, -1].mean() * (n_outputs > 2), expected, atol=1e-4)


def test_one_leaf_is_ridge_regression() -> None:
    rows = some_rows(2, is_classifier=False)
    oracle = RidgeRegression(alpha=0.7).fit(rows.X[:, :-1], rows.target, rows.weight)
    (model,) = fitted_leaves(rows, Ridge(0.7), own=False)
    np.testing.assert_allclose(model[:, :-1], oracle.coef_, atol=1e-6)
    np.testing.assert_allclose(model[:, -1], oracle.intercept_, atol=1e-6)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("n_outputs", "is_classifier"), [(2, True), (3, True), (1, False)])
def test_the_hierarchical_fit_is_the_minimum_of_its_equation(n_outputs: int, is_classifier: bool, own: bool) -> None:
    rows, ridge = some_rows(n_outputs, is_classifier=is_classifier, children=CHILDREN), Ridge(0.5, 2.0)
    expected = brute_force(rows, ridge, own=own)
    models = fitted_leaves(rows, ridge, own=own)
    if is_classifier and n_outputs > 2:  # scores of classes have a common constant
        models, expected = (found - found.mean(axis=1, keepdims=True) for found in (models, expected))
    np.testing.assert_allclose(models, expected, atol=2e-3)


def brute_force(rows: LeafRows, ridge: Ridge, *, own: bool) -> NDArray[np.float64]:
    """The models (L, K, p + 1) by BFGS on the parameters of the root and the changes at the four nodes below."""
    shape = (5, rows.n_scores, rows.X.shape[1])
    changes = np.array([own, own, own, True])

    def models(flat: NDArray[np.float64]) -> Any:
        nodes = flat.reshape(shape)
        return np.array([nodes[0] + sum(nodes[node] * changes for node in path) for path in PATHS])

    def loss(flat: NDArray[np.float64]) -> float:
        nodes = flat.reshape(shape)
        z = np.einsum("nkd,nd->nk", models(flat)[rows.leaf], rows.X)
        if not rows.is_classifier:
            of_rows = 0.5 * ((z - rows.target) ** 2).sum(axis=1)
        else:
            z = np.hstack([np.zeros_like(z), z]) if z.shape[1] == 1 else z
            of_rows = np.logaddexp.reduce(z, axis=1) - (rows.target * z).sum(axis=1)
        slopes, offsets = nodes[1:, :, :-1] ** 2, nodes[1:, :, -1] ** 2
        penalty = ridge.root * (nodes[0, :, :-1] ** 2).sum() + ridge.change * (slopes.sum() + OFFSET * offsets.sum())
        return float(rows.weight @ of_rows + penalty / 2)

    best = minimize(loss, np.zeros(int(np.prod(shape))), method="BFGS", options={"gtol": 1e-5, "maxiter": 2000})
    return np.asarray(models(best.x))


@pytest.mark.parametrize("n_outputs", [2, 3])
def test_weights_are_repetitions(n_outputs: int) -> None:
    rows = some_rows(n_outputs, is_classifier=True, children=CHILDREN)
    times = np.random.default_rng(0).integers(1, 4, 80)
    repeated = np.repeat(np.arange(80), times)
    weighted = LeafRows(rows.X, rows.target, times.astype(float), rows.leaf, CHILDREN, True)
    copies = LeafRows(
        rows.X[repeated], rows.target[repeated], np.ones(len(repeated)), rows.leaf[repeated], CHILDREN, True
    )
    ridge = Ridge(1.0, 3.0)
    np.testing.assert_allclose(
        fitted_leaves(weighted, ridge, own=True), fitted_leaves(copies, ridge, own=True), atol=1e-3
    )


@pytest.mark.parametrize("own", [False, True])
def test_the_order_of_classes_does_not_matter(own: bool) -> None:
    rows = some_rows(3, is_classifier=True, children=CHILDREN)
    turned = LeafRows(rows.X, rows.target[:, [2, 0, 1]], rows.weight, rows.leaf, CHILDREN, True)
    found, other = (fitted_leaves(given, Ridge(1.0, 3.0), own=own) for given in (rows, turned))
    np.testing.assert_allclose(found[:, [2, 0, 1]], other, atol=1e-3)


@pytest.mark.parametrize("is_classifier", [True, False])
@pytest.mark.parametrize("signs", [[1, -1, 0, 1, -1, 1], [-1, -1, -1, -1, -1, -1], [1, 1, 1, 0, 0, 0]])
def test_slopes_with_signs_are_the_minimum_within_bounds(signs: list[int], is_classifier: bool) -> None:
    """Of correlated features, some of which would have the wrong sign, in three leaves with one vector of slopes."""
    rng = np.random.default_rng(1)
    X = np.hstack([rng.normal(size=(90, 6)) @ rng.normal(size=(6, 6)), np.ones((90, 1))])
    z = X[:, :6] @ rng.normal(size=6) + rng.logistic(size=90)
    target = np.eye(2)[(z > 0).astype(int)] if is_classifier else z[:, None]
    rows = LeafRows(X, target, rng.uniform(0.5, 2, 90), rng.integers(3, size=90), CHILDREN, is_classifier)
    rows, ridge = rows._replace(signs=np.array(signs, np.float64)), Ridge(0.5, 2.0)
    problem = LeafProblem(rows, own=False)
    penalty, y, weight = problem.penalty(ridge), target[:, -1], rows.weight

    def loss(theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        scores = problem.scores(theta[:, None])[:, 0]
        probability = 1 / (1 + np.exp(-scores)) if is_classifier else scores
        of_rows = np.logaddexp(0, scores) - y * scores if is_classifier else (scores - y) ** 2 / 2
        gradient = problem.transposed((weight * (probability - y))[:, None])[:, 0] + penalty @ theta
        return float(weight @ of_rows + theta @ penalty @ theta / 2), gradient

    limits = {1: (0, None), -1: (None, 0), 0: (None, None)}
    bounds = [*(limits[sign] for sign in signs), *[(None, None)] * 3]
    how: Any = {"method": "L-BFGS-B", "options": {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 10_000}}
    expected = minimize(loss, np.zeros(9), jac=True, bounds=bounds, **how).x
    found = problem.solve(ridge)[:, 0]
    np.testing.assert_allclose(found, expected, atol=1e-3)
    assert ((found == 0) == (np.abs(expected) < 1e-9)).all()
    assert (found[:6] == 0).any()
    assert (found[:6] * signs >= 0).all()
    again = problem.solve(ridge, -2 * expected[:, None])[:, 0]  # from a start of the wrong signs
    np.testing.assert_allclose(again, expected, atol=1e-3)


def test_signs_hold_where_pivoting_has_to_go_back() -> None:
    """The conditions of the minimum, for matrices that are hard to tell apart from singular ones."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        p = int(rng.integers(2, 12))
        A = rng.normal(size=(p, p)) * 10 ** rng.uniform(-2, 0, p)
        matrix, right, signs = A.T @ A + 1e-6 * np.eye(p), rng.normal(size=(p, 1)), rng.choice([-1.0, 0.0, 1.0], p)
        x = solve_signed(matrix, right, signs)[:, 0]
        gradient, tolerance = matrix @ x - right[:, 0], 1e-6
        assert (signs * x >= 0).all()
        assert (np.abs(gradient[(x != 0) | (signs == 0)]) < tolerance).all()
        assert (signs * gradient > -tolerance).all()


def test_intercepts_are_in_order_along_the_splits() -> None:
    """Right of each split of a rising feature is no intercept below those on its left, at the same slopes."""
    rows = some_rows(1, is_classifier=False, children=CHILDREN)
    rows = rows._replace(target=rows.target - 3 * np.isin(rows.leaf, [1])[:, None])
    free, (below, right, above) = LeafProblem(rows, own=False), range(3)
    given = LeafProblem(rows._replace(signs=np.zeros(3), direction=np.array([1.0, 1.0])), own=False)
    theta = free.solve(Ridge(0.5))
    loose, ordered = free.models(theta)[:, 0], given.models(given.solve(Ridge(0.5)))[:, 0]
    # node 0 has node 1 on its left and leaf 1 on its right; node 1 leaves 0 and 2
    assert loose[right, -1] < loose[[below, above], -1].min()
    assert ordered[right, -1] >= ordered[[below, above], -1].max()
    assert ordered[above, -1] >= ordered[below, -1]
    np.testing.assert_allclose(ordered[:, :-1], loose[:, :-1], atol=1e-9)


def test_separable_rows_have_finite_scores() -> None:
    X = np.hstack([np.arange(-10.0, 10.0)[:, None], np.ones((20, 1))])
    target = np.eye(2)[(X[:, 0] >= 0).astype(int)]
    rows = LeafRows(X, target, np.ones(20), np.zeros(20, np.int64), NO_SPLITS, True)
    models = fitted_leaves(rows, Ridge(0.1), own=False)
    assert 0.5 < models[0, 0, 0] < 10


@pytest.mark.parametrize("own", [False, True])
def test_features_are_eliminated_to_second_order(own: bool) -> None:
    """Features rank as fits without each of them do, and parameters without one are those of a fit."""
    rows = some_rows(1, is_classifier=False, children=CHILDREN)
    ridge, problem = Ridge(0.5, 2.0), LeafProblem(rows, own)
    theta = problem.solve(ridge)

    def loss(problem: LeafProblem, theta: NDArray[np.float64]) -> float:
        squares = (problem.weight * (problem.scores(theta) - problem.target) ** 2).sum()
        return float(squares + (theta * (problem.penalty(ridge) @ theta)).sum())

    def rise(feature: int) -> float:
        part = LeafProblem(rows._replace(X=np.delete(rows.X, feature, axis=1)), own)
        return loss(part, part.solve(ridge)) - loss(problem, theta)

    inverse = np.linalg.inv(problem.bound(problem.penalty(ridge)))
    rises = np.array([rise(feature) for feature in range(3)])
    np.testing.assert_allclose(problem.importances(theta, inverse), rises, rtol=1e-6)
    kept, part, start = problem.with_fewer(theta, ridge, 2)
    assert set(kept) == set(range(3)) - {int(rises.argmin())}
    np.testing.assert_allclose(start, part.solve(ridge), atol=1e-9)
