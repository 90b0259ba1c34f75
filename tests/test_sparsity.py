"""Sparse trees: the proximal step against its definition, exact zeros, the path to k features."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.optimize import minimize

from treelu import LCNClassifier, LCNRegressor, LLNRegressor
from treelu.nn import LocallyConstantNetwork, LocallyLinearNetwork, Table
from treelu.sparsity import choose_features, embed, feature_norms, shrink_features


def test_shrinking_solves_the_proximal_problem() -> None:
    """prox(w) = argmin ½‖v − w‖² + μ‖v‖, found by a general minimiser."""
    network = LocallyConstantNetwork(4, depth=3, out_features=1, dtype=torch.float64)
    before = network.weight.detach().clone().numpy()
    amount = float(np.median(np.linalg.norm(before, axis=1)))
    shrink_features(network, amount)
    for row, w in zip(network.weight.detach().numpy(), before, strict=True):

        def objective(v: np.ndarray, w: np.ndarray = w) -> float:
            return float(0.5 * ((v - w) ** 2).sum() + amount * np.linalg.norm(v))

        found = minimize(
            objective, w / 2, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 5000}
        )
        np.testing.assert_allclose(row, found.x, atol=1e-4)
    assert (feature_norms(network) == 0).any()


def test_choice_fills_up_with_the_strongest_of_the_step_before() -> None:
    network = LocallyConstantNetwork(3, depth=1, out_features=1)
    norms = iter([[3.0, 2.0, 1.0], [0.0, 4.0, 0.0]])

    def train(_: float) -> None:
        network.weight.data = torch.tensor(next(norms))[:, None]

    assert choose_features(network, 2, train).tolist() == [0, 1]


@pytest.mark.parametrize("kind", [LocallyConstantNetwork, LocallyLinearNetwork])
@pytest.mark.parametrize("sparse_rows", [False, True])
def test_embedded_network_reads_the_chosen_features_only(kind: type, sparse_rows: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 6)) * (rng.random((20, 6)) < 0.6)
    chosen = np.array([1, 4])
    small = kind(2, 3, 1, dtype=torch.float64).eval()
    large = embed(small, chosen, kind(6, 3, 1, dtype=torch.float64)).eval()
    table = Table(sparse.csr_array(X) if sparse_rows else X, np.float64)
    np.testing.assert_array_equal(table.columns(chosen).rows().to_dense().numpy(), X[:, chosen])
    with torch.no_grad():
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
    classifier = LCNClassifier(depth=3, max_features=2, epochs=30, random_state=0).fit(X[:300], y[:300])
    assert used(classifier) == {2, 7}
    assert classifier.score(X[300:], y[300:]) > 0.9
    np.testing.assert_allclose(classifier.tree_.decision_function(X), classifier.decision_function(X), atol=1e-9)


def test_penalty_gives_exact_zeros(two_of_ten: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = two_of_ten
    settings = {"depth": 3, "epochs": 20, "learning_rate": 0.02, "random_state": 0}
    free = LCNClassifier(**settings).fit(X, y)
    held = LCNClassifier(**settings, feature_penalty=1.0).fit(X, y)
    assert used(free) == set(range(10))
    assert {2, 7} <= used(held) < set(range(10))
    assert held.score(X, y) > 0.75  # shrunken, but on the right features


def test_linear_leaves_are_sparse_too(two_of_ten: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = two_of_ten
    y = X[:, 2] - 2 * X[:, 7]
    regressor = LLNRegressor(depth=2, max_features=2, epochs=30, random_state=0).fit(X, y)
    assert used(regressor) <= {2, 7}
    leaf_weights = regressor.tree_.leaf_weights
    assert leaf_weights is not None
    assert set(np.flatnonzero(np.abs(leaf_weights).sum(axis=(0, 1))).tolist()) == {2, 7}
