"""The kernels in single steps of float64 against the torch form: shapes, sparsity, λ, masks; and threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tests.nn.cases import Case, assert_all_close, assert_close, by_kernels, by_torch, rows_of
from treelu.kernels import compiled
from treelu.nn import Activation, DropConnect, Table
from treelu.nn.cpu import threads

FORMS = ("dense", "csr")
DROP = DropConnect(0.5, key=2**63 + 12345)
SPECIAL = {
    "empty rows": Case(density=0.0, drop=DROP),
    "one row": Case(n_rows=1, drop=DROP),
    "one feature": Case(in_features=1, density=1.0, drop=DROP),
    "one row of one feature": Case(in_features=1, n_rows=1, depth=1, out_features=1, drop=DROP),
    "depth 1": Case(depth=1, drop=DROP),
    "depth 64": Case(depth=64, drop=DROP, in_features=20),
    "depth 70": Case(depth=70, drop=None, in_features=20),
    "many features": Case(in_features=3000, density=0.01, drop=DROP, n_rows=20),
    "no masks": Case(drop=None),
    "nearly all dropped": Case(drop=DropConnect(0.999, 4)),
    "rate 0": Case(drop=DropConnect(0.0, 4)),
    "ReLU": Case(annealing=1.0, drop=DROP),
    "softplus": Case(annealing=0.0, drop=DROP),
    "leaky ReLU": Case(activation=Activation("leaky_relu", 0.2), annealing=1.0, drop=DROP),
    "straight through": Case(activation=Activation(straight_through=True), annealing=0.4, drop=DROP),
    "straight through a step": Case(activation=Activation(straight_through=True), annealing=1.0, drop=DROP),
    "deep head": Case(hidden_layers=(7, 5), drop=DROP),
    "wide output": Case(out_features=17, drop=DROP),
    "outputs by BLAS": Case(out_features=40, drop=DROP),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("is_linear", [False, True], ids=["LCN", "LLN"])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_shapes(name: str, is_linear: bool, form: str) -> None:
    pytest.importorskip("torch")
    case = SPECIAL[name]
    if is_linear:
        case = case.but(is_linear=True, hidden_layers=())
    loss, gradients = by_kernels(case, form)
    expected = ((case.cotangent() * (case.n_rows * case.out_features / 2)) ** 2).mean()
    assert loss == pytest.approx(expected, rel=1e-9)
    assert_all_close(gradients, by_torch(case)[1], 1e-9)


@pytest.mark.parametrize("is_linear", [False, True], ids=["LCN", "LLN"])
def test_columns_of_zeros_and_stored_zeros(is_linear: bool) -> None:
    """A column without entries and entries stored as 0 change nothing."""
    case = Case(in_features=6, density=1.0, is_linear=is_linear)
    x = case.x()
    x[:, [0, 3]] = 0
    stored = sparse.csr_array(x + 1.0)
    stored.data -= 1.0  # the zeros are stored
    assert stored.nnz == x.size
    network = case.network()
    outs = [network(Table(form).rows(), annealing=0.4) for form in (stored, sparse.csr_array(x), x)]
    assert_close(outs[0], outs[2], 1e-12)
    assert_close(outs[1], outs[2], 1e-12)


def test_rows_in_any_order_and_repeated() -> None:
    case = Case(n_rows=5, drop=None, annealing=0.3)
    index = np.array([3, 3, 0, 4, 1, 3])
    network = case.network()
    whole = network(case.x(), annealing=0.3)
    for table in (Table(case.x(), np.float64), Table(sparse.csr_array(case.x()), np.float64)):
        assert_close(network(table.rows(index), annealing=0.3), whole[index], 1e-14)


@settings(deadline=None, max_examples=20)
@given(key=st.integers(0, 2**64 - 1), n_rows=st.integers(1, 50))
def test_kernel_and_numpy_hash_rows_alike(key: int, n_rows: int) -> None:
    keys = np.empty(n_rows, np.int32)
    compiled.row_keys(key, keys)
    assert np.array_equal(keys.view(np.uint32), DropConnect(0.5, key).row_keys(n_rows))


@pytest.mark.parametrize("is_linear", [False, True], ids=["LCN", "LLN"])
def test_batches_of_different_sizes_leave_nothing_behind(is_linear: bool) -> None:
    """Steps of length 0 over batches of several sizes: the last gradients are those of the last batch alone."""
    from treelu.data.targets import Targets
    from treelu.training import Dataset, KernelStepper

    case = Case(n_rows=30, is_linear=is_linear, drop=DROP)
    y = np.random.default_rng(0).standard_normal((30, 2))
    sample = Dataset(Table(case.x()), Targets("regression", y, 2))
    batches = [np.arange(7), np.arange(30), np.array([4]), np.arange(10, 22)]
    keys = np.arange(4)
    together, alone = (KernelStepper(case.network(), sample, "sgd") for _ in range(2))
    together.train_steps(batches, keys, 0.4, 0.0)
    alone.train_steps(batches[-1:], keys[-1:], 0.4, 0.0)
    assert_all_close(together.gradients, alone.gradients, 1e-12)


# Threads


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("annealing", [1.0, 0.0], ids=["tree", "smooth"])
@pytest.mark.parametrize("is_linear", [False, True], ids=["LCN", "LLN"])
def test_results_do_not_depend_on_threads(
    form: str, annealing: float, is_linear: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(300, 12, 2, n_rows=5000, density=0.3, seed=1, is_linear=is_linear)
    rows, network = rows_of(case.x(), form), case.network()
    parts, share_out = [], threads.share_out

    def noted(work, n_rows, n_parts):
        parts.append(n_parts)
        share_out(work, n_rows, n_parts)

    monkeypatch.setattr("treelu.nn.cpu.evaluation.share_out", noted)
    results = []
    for count in (1, 2, 3):
        with threads.limited(count):
            results.append((network(rows, annealing=annealing), network.activation_codes(rows)))
    assert set(parts) == {1, 2, 3}
    for out, codes in results[1:]:
        assert np.array_equal(out, results[0][0])
        assert np.array_equal(codes, results[0][1])


def test_threads_follow_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert threads.n_threads() == 1
    for odd in ("", "0", "none"):
        monkeypatch.setenv("OMP_NUM_THREADS", odd)
        assert threads.n_threads() >= 1


@pytest.mark.parametrize("weights", [np.float32, np.float64])
@pytest.mark.parametrize("values", [np.float32, np.float64])
@pytest.mark.parametrize("depth", [1, 8, 9, 16, 17, 24, 33, 70])
def test_patterns_of_every_width_and_precision(depth: int, values: type, weights: type) -> None:
    """Against the formula in float64, but where a neuron is near 0; weights of 8, 16, 24, … columns."""
    case = Case(40, depth, 1, n_rows=150, annealing=None, seed=depth)
    network = case.network(weights)
    weight, connection, bias = (array.astype(np.float64) for array in list(network.arrays().values())[:3])
    x = case.x()
    x[7] = 0  # an empty row
    a, z = np.zeros((150, depth)), np.zeros((150, depth))
    for i in range(depth):
        z[:, i] = x @ weight[:, i] + a @ np.where(np.arange(depth) < i, connection[i], 0) + bias[i]
        a[:, i] = np.maximum(z[:, i], 0)
    clear = np.abs(z).min(axis=1) > 1e-5
    assert clear.sum() > 50
    for form in (x, sparse.csr_array(x)):
        pattern = network.activation_pattern(Table(form, values).rows())
        assert np.array_equal(pattern[clear], z[clear] >= 0)


def test_extreme_inputs_stay_finite() -> None:
    """exp never overflows: far out, softplus and its derivatives are those of ReLU or zero."""
    torch = pytest.importorskip("torch")
    from treelu.nn.torch import to_torch

    network = Case(in_features=3, depth=3).network()
    x = np.array([[1e4, -1e4, 1e4], [-1e4, 1e4, 0.0], [1e3, 800.0, -800.0]])
    out = network(x, annealing=0.5)
    assert np.isfinite(out).all()
    assert_close(out, to_torch(network)(torch.from_numpy(x), annealing=0.5).detach(), 1e-9)
