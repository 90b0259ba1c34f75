"""Eigenvectors of weighted covariances, by every way they may come, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from experiments.baselines import _eigenvectors
from experiments.baselines._eigenvectors import covariance_eigenvectors


def rows(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n + d)
    spread = np.geomspace(3.0, 0.3, d)
    X = np.where(rng.random((n, d)) < 0.6, rng.normal(1.0, spread, (n, d)), 0.0)
    return X, rng.integers(1, 5, n).astype(float)


def same_up_to_sign(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(np.abs((found * wanted).sum(axis=1)), 1.0, atol=1e-6)


@pytest.mark.parametrize("shape", [(60, 7), (7, 40)], ids=["tall", "wide"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_all_are_numpys(shape, kind) -> None:
    X, weight = rows(*shape)
    values, vectors = np.linalg.eigh(np.cov(X.T, fweights=weight.astype(int), ddof=0))
    found = covariance_eigenvectors(kind(X), weight, "all")
    assert len(found) == min(shape[1], shape[0] - 1)
    assert values[-len(found)] > 1e-9
    same_up_to_sign(found, vectors.T[::-1][: len(found)])


@pytest.mark.parametrize("lanczos", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_the_dominant_one_is_the_first_of_all(lanczos, kind, monkeypatch) -> None:
    monkeypatch.setattr(_eigenvectors, "_LANCZOS_FROM", 2 if lanczos else 10**6)
    X, weight = rows(50, 30)
    found = covariance_eigenvectors(kind(X), weight, "dominant")
    assert found.shape == (1, 30)
    same_up_to_sign(found, covariance_eigenvectors(X, weight, "all")[:1])


@pytest.mark.parametrize("which", ["all", "dominant"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n", [2, 400])
def test_equal_rows_have_none(which, kind, n, monkeypatch) -> None:
    monkeypatch.setattr(_eigenvectors, "_LANCZOS_FROM", 2)
    assert covariance_eigenvectors(kind(np.tile([0.1, 0.7, 0.0], (n, 1))), np.ones(n), which).shape == (0, 3)
