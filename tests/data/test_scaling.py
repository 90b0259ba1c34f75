"""Scaling against scikit-learn, and folding into a network and out again."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.preprocessing import MaxAbsScaler, RobustScaler, StandardScaler

from tests.nn.cases import Case, assert_close, cases
from treelu.data.scaling import Scaling, check_scale, check_scaled, fit_scaling, fold
from treelu.data.spread import spread
from treelu.nn import LocallyLinearNetwork


def some_rows(seed: int = 0, n: int = 50) -> np.ndarray:
    """A normal column far from zero, a small one, a binary one and a constant one."""
    rng = np.random.default_rng(seed)
    columns = [
        100 + 20 * rng.standard_normal(n),
        1e-3 * rng.standard_normal(n),
        rng.integers(0, 2, n) + 0.0,
        np.full(n, 7.0),
    ]
    return np.column_stack(columns)


def test_true_scales_as_sklearn_does() -> None:
    X = some_rows()
    scaling, oracle = fit_scaling(X, True), StandardScaler().fit(X)
    assert np.allclose(scaling.center, oracle.mean_)
    assert np.allclose(scaling.scale, oracle.scale_)
    assert np.allclose(scaling.transform(X), oracle.transform(X))


def test_auto_leaves_binary_columns_alone() -> None:
    X = some_rows()
    scaling = fit_scaling(X, "auto")
    oracle = StandardScaler().fit(X)
    assert np.allclose(scaling.center, [*oracle.mean_[:2], 0, 7])
    assert np.allclose(scaling.scale, [*oracle.scale_[:2], 1, 1])


def test_auto_scales_heavy_tails_by_the_bulk() -> None:
    rng = np.random.default_rng(0)
    normal = rng.standard_normal(400)
    few_far = np.where(np.arange(400) % 50 == 0, 1e4, 5 + 2 * normal)
    mostly_zero = np.where(np.arange(400) % 5 == 0, normal, 0.0)  # its quartiles say nothing
    X = np.column_stack([normal, few_far, mostly_zero])
    scaling, plain, robust = fit_scaling(X, "auto"), fit_scaling(X, True), RobustScaler().fit(X)
    assert np.array_equal(scaling.center[[0, 2]], plain.center[[0, 2]])
    assert np.array_equal(scaling.scale[[0, 2]], plain.scale[[0, 2]])
    assert scaling.center[1] == pytest.approx(robust.center_[1])
    assert scaling.scale[1] == pytest.approx(robust.scale_[1] / 1.349)


def test_quartiles_of_many_rows_are_those_of_some(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).standard_cauchy((3000, 2))
    exact = fit_scaling(X, "auto")
    monkeypatch.setattr("treelu.data.scaling.QUARTILE_ROWS", 1000)
    some = fit_scaling(X, "auto")
    assert not np.array_equal(some.scale, exact.scale)
    np.testing.assert_allclose(some.scale, exact.scale, rtol=0.2)


@pytest.mark.parametrize("no", [False, np.False_])
def test_false_scales_nothing(no: bool) -> None:
    scaling = fit_scaling(some_rows(), no)
    assert scaling.is_identity
    X = some_rows()
    assert scaling.transform(X) is X


def test_sparse_rows_are_scaled_and_not_centred() -> None:
    X = sparse.csr_array(some_rows() * (np.random.default_rng(1).random((50, 4)) < 0.2))
    assert not fit_scaling(X, "auto").center.any()
    scaling = fit_scaling(X, True)
    assert not scaling.center.any()
    assert np.allclose(scaling.scale, np.sqrt((X.toarray() ** 2).mean(axis=0)))
    scaled = scaling.transform(X)
    assert sparse.issparse(scaled)
    assert scaled.format == "csr"
    assert np.allclose(scaled.toarray(), X.toarray() / scaling.scale)


def test_sparse_rows_that_are_centred_become_dense() -> None:
    X = some_rows()
    scaling = fit_scaling(X, True)
    np.testing.assert_allclose(scaling.transform(sparse.csr_array(X)), scaling.transform(X))


def test_an_empty_sparse_column_keeps_its_scale() -> None:
    X = sparse.csr_array(np.array([[0.0, 2.0], [0.0, 4.0]]))
    assert np.allclose(fit_scaling(X, True).scale, [1.0, np.sqrt(10)])
    assert MaxAbsScaler().fit(X).scale_[0] == 1.0  # as scikit-learn has it


@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, 1e9 + 0.1, -1e-9])
@pytest.mark.parametrize("alone", [True, False])
def test_constant_columns_keep_their_scale(constant: float, alone: bool) -> None:
    """Also where rounding gives them a deviation, and whatever the other columns are."""
    X = np.full((1000, 1), constant)
    if not alone:
        X = np.column_stack([X, np.random.default_rng(0).standard_normal(1000)])
    scaling = fit_scaling(X, True)
    assert scaling.scale[0] == 1.0
    assert abs(scaling.transform(X)[:, 0]).max() <= 1e-12 * max(1.0, abs(constant))


@pytest.mark.parametrize("other", [1e-18, 1e18])
def test_a_column_is_scaled_whatever_the_size_of_the_others(other: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 2)) * [1.0, other]
    scaled = fit_scaling(X * 1e-4, True).transform(X * 1e-4)
    assert np.allclose(scaled.std(axis=0), 1.0)


@given(seed=st.integers(0, 2**31))
def test_the_inverse_undoes(seed: int) -> None:
    X = some_rows(seed)
    scaling = fit_scaling(X, True)
    assert np.allclose(scaling.inverse().transform(scaling.transform(X)), X)
    twice = scaling.inverse().inverse()
    assert np.allclose(twice.center, scaling.center)
    assert np.allclose(twice.scale, scaling.scale)


def test_single_precision_rows_are_measured_in_double() -> None:
    X = (some_rows(n=5000)[:, :1] + 1e4).astype(np.float32)
    assert np.allclose(fit_scaling(X, True).center, X.astype(np.float64).mean(axis=0), rtol=1e-12)


# Folding


def some_scaling(n: int, seed: int) -> Scaling:
    rng = np.random.default_rng([seed, 3])
    return Scaling(rng.standard_normal(n), np.exp(rng.standard_normal(n)))


@settings(deadline=None, max_examples=60)
@given(case=st.one_of(cases(), cases(linear=True)), with_target=st.booleans())
def test_a_folded_network_is_the_same_function_of_raw_rows(case: Case, with_target: bool) -> None:
    """For λ of any size: the Jacobian and the offsets change with the features, g_φ with them. No masks."""
    features, targets = some_scaling(case.in_features, case.seed), some_scaling(case.out_features, case.seed + 1)
    network = case.network()
    raw = copy.deepcopy(network)
    fold(raw, features, targets if with_target else None)
    x = case.x()
    expected = network(features.transform(x), annealing=case.annealing)
    if with_target:
        expected = expected * targets.scale + targets.center
    assert_close(raw(x, annealing=case.annealing), expected, 1e-9)


@settings(deadline=None, max_examples=40)
@given(case=st.one_of(cases(), cases(linear=True)))
def test_unfolding_brings_every_parameter_back(case: Case) -> None:
    features, targets = some_scaling(case.in_features, case.seed), some_scaling(case.out_features, case.seed + 1)
    network = case.network()
    there = copy.deepcopy(network)
    fold(there, features, targets)
    fold(there, features.inverse(), targets.inverse())
    for (name, parameter), back in zip(network.arrays().items(), there.arrays().values(), strict=True):
        assert_close(back, parameter, 1e-9, name)


def test_folding_the_identity_changes_no_bit() -> None:
    for is_linear in (False, True):
        network = Case(is_linear=is_linear).network()
        folded = copy.deepcopy(network)
        fold(folded, Scaling.identity(5), Scaling.identity(2))
        for before, after in zip(network.arrays().values(), folded.arrays().values(), strict=True):
            assert np.array_equal(before, after)


def test_folding_does_not_depend_on_where_the_scaling_lies_in_memory() -> None:
    rng = np.random.default_rng(0)
    center, scale = rng.normal(size=10), rng.uniform(0.5, 2, size=10)
    results = set()
    for offset in range(8):
        moved = np.zeros(18)[offset : offset + 10]
        moved[:] = center
        network = LocallyLinearNetwork(10, 12, 2, seed=0)
        fold(network, Scaling(moved, scale))
        results.add(network.bias.tobytes() + network.output_bias.tobytes())
    assert len(results) == 1


def test_what_cannot_be_scaled_is_refused() -> None:
    assert Scaling(np.array([1.0]), np.array([2.0])).transform(np.array([[5.0]])).tolist() == [[2.0]]
    with pytest.raises(ValueError, match="X cannot be scaled: column 0 has values that are too large or too small"):
        check_scale(np.zeros(1), np.full(1, 1e-320), "X")
    with pytest.raises(ValueError, match="row 7 has a value in column 1 that is too far from the others; correct"):
        check_scaled(np.array([[1.0, np.inf]], np.float32), 7)


def test_a_constant_column_has_no_spread() -> None:
    assert spread(np.array([[1.0, 5.0], [3.0, 5.0]]), np.ones(2)).tolist() == [1.0, 0.0]
