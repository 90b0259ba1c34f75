"""Sparse trees: the proximal step against its definition, exact zeros, the path to k features."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from treelu import LCNClassifier, LCNRegressor, LLNRegressor
from treelu.nn import LocallyConstantNetwork, LocallyLinearNetwork, Table
from treelu.nn.networks import views
from treelu.training.optimizers import BETAS, Optimizer
from treelu.training.sparsity import _RootMeanSquares, choose_features, feature_norms, path_step, shrink_features


def test_shrinking_solves_the_proximal_problem() -> None:
    """prox(w) = argmin ½‖v − w‖² + μ‖v‖, found by a general minimiser."""
    network = LocallyConstantNetwork(4, depth=3, out_features=1, seed=0)
    before = network.weight.copy()
    amount = float(np.median(np.linalg.norm(before, axis=1)))
    shrink_features(network, amount)
    for row, w in zip(network.weight, before, strict=True):

        def objective(v: np.ndarray, w: np.ndarray = w) -> float:
            return float(0.5 * ((v - w) ** 2).sum() + amount * np.linalg.norm(v))

        found = minimize(
            objective, w / 2, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 5000}
        )
        np.testing.assert_allclose(row, found.x, atol=1e-4)
    assert (feature_norms(network) == 0).any()


def test_divisor_of_the_penalty_is_amsgrads() -> None:
    """With one neuron a feature has one weight, and its divisor is the one that AMSGrad keeps."""
    weight, gradient = np.ones(5), np.zeros(5)
    optimizer = Optimizer("amsgrad", weight, gradient, 0.0)
    rng, roots = np.random.default_rng(0), _RootMeanSquares(BETAS[1])
    for step in range(1, 31):
        gradient[:] = rng.normal(size=5) * np.geomspace(1e-3, 1e3, 5) / step
        optimizer.take_step(0.01)
        expected = np.sqrt(optimizer.largest / (1 - 0.999**step))
        np.testing.assert_allclose(roots.after([gradient[:, None]]), expected, rtol=1e-12)


@pytest.mark.parametrize("optimizer", ["amsgrad", "sgd"])
@pytest.mark.parametrize("kind", [LocallyConstantNetwork, LocallyLinearNetwork])
def test_feature_leaves_where_its_gradient_is_shorter_than_the_penalty(kind: type, optimizer: str) -> None:
    """Steady gradients of lengths 1 and 3 against a penalty of 2, and against penalties beyond both."""
    for penalty, left in ((2.0, [False, True]), (0.5, [True, True]), (4.0, [False, False])):
        network = kind(2, 3, 1, seed=0)
        flat = network.flatten()
        gradient = np.zeros_like(flat)
        gradients = views(gradient, network.arrays())
        of_features = [gradients[name] for name in ("weight", "output_weight") if name in gradients]
        n_weights = sum(block.shape[1] for block in of_features)
        step, steps = path_step(penalty, optimizer), Optimizer(optimizer, flat, gradient, 0.0)
        for _ in range(2000):
            for block in of_features:
                block[:] = np.array([[1.0], [3.0]]) / n_weights**0.5
            steps.take_step(0.01)
            step(network, gradients, 0.01)
        assert (feature_norms(network) > 1e-3).tolist() == left


def test_choice_fills_up_with_the_strongest_of_the_step_before() -> None:
    network = LocallyConstantNetwork(3, depth=1, out_features=1)
    norms = iter([[3.0, 2.0, 1.0], [0.0, 4.0, 0.0]])

    def train(_: float) -> None:
        network.weight[:] = np.array(next(norms))[:, None]

    assert choose_features(network, 2, train).tolist() == [0, 1]


@pytest.mark.parametrize("kind", [LocallyConstantNetwork, LocallyLinearNetwork])
@pytest.mark.parametrize("sparse_rows", [False, True])
def test_embedded_network_reads_the_chosen_features_only(kind: type, sparse_rows: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 6)) * (rng.random((20, 6)) < 0.6)
    chosen = np.array([1, 4])
    small = kind(2, 3, 1, seed=0)
    large = small.widen(chosen, 6)
    table = Table(sparse.csr_array(X) if sparse_rows else X, np.float64)
    np.testing.assert_array_equal(table.columns(chosen).rows().to_dense(), X[:, chosen])
    np.testing.assert_allclose(large(table.rows()), small(table.columns(chosen).rows()), atol=1e-12)


@pytest.fixture(scope="module")
def two_of_ten() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(1).normal(size=(400, 10))
    return X, (X[:, 2] + X[:, 7] > 0).astype(int)


def used(estimator: LCNClassifier | LCNRegressor | LLNRegressor) -> set[int]:
    tree = estimator.tree_
    weights = np.abs(np.asarray(tree.weights if isinstance(tree.weights, np.ndarray) else tree.weights.toarray()))
    return set(np.flatnonzero(weights.any(axis=0)).tolist())


def test_max_features_finds_the_two_that_matter(two_of_ten: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = two_of_ten
    classifier = LCNClassifier(depth=3, max_tree_features=2, epochs=30, random_state=0).fit(X[:300], y[:300])
    assert used(classifier) == {2, 7}
    assert classifier.score(X[300:], y[300:]) > 0.9
    np.testing.assert_allclose(classifier.tree_.decision_function(X), classifier.decision_function(X), atol=1e-9)


def test_max_features_finds_frequent_and_rare_bits() -> None:
    """Bits are not scaled, so how large a weight is does not tell how much it matters."""
    rng = np.random.default_rng(0)
    X = (rng.random((600, 200)) < rng.uniform(0.02, 0.3, 200)).astype(float)
    X[:, :4] = rng.random((600, 4)) < [0.5, 0.25, 0.25, 0.1]
    y = (X[:, :4] @ [2, 2, -2, -4] + 0.3 * rng.normal(size=600) > 0.5).astype(int)
    settings = {"depth": 4, "max_tree_features": 4, "epochs": 30, "drop_connect": 0.3, "random_state": 0}
    classifier = LCNClassifier(**settings).fit(sparse.csr_array(X), y)
    assert used(classifier) == {0, 1, 2, 3}


def test_penalty_gives_exact_zeros(two_of_ten: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = two_of_ten
    settings = {"depth": 3, "epochs": 20, "learning_rate": 0.02, "random_state": 0}
    free = LCNClassifier(**settings).fit(X, y)
    held = LCNClassifier(**settings, training={"feature_penalty": 1.0}).fit(X, y)
    assert used(free) == set(range(10))
    assert {2, 7} <= used(held) < set(range(10))
    assert held.score(X, y) > 0.75  # shrunken, but on the right features


def test_linear_leaves_are_sparse_too(two_of_ten: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = two_of_ten
    y = X[:, 2] - 2 * X[:, 7]
    regressor = LLNRegressor(depth=2, max_tree_features=2, epochs=30, random_state=0).fit(X, y)
    assert used(regressor) <= {2, 7}
    leaf_weights = regressor.tree_.leaf_weights
    assert leaf_weights is not None
    assert set(np.flatnonzero(np.abs(leaf_weights).sum(axis=(0, 1))).tolist()) == {2, 7}
