"""Kernels of each level of the processor: the same gradients, chosen at import; calls that do not fit are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from tests.nn.cases import Case, assert_all_close, by_kernels, by_torch
from tests.nn.test_soft_tree import SHAPES, case, columns, torch_loss
from treelu import kernels
from treelu.kernels import compiled
from treelu.nn import Activation, DropConnect, soft_tree
from treelu.nn.soft_training import SoftTraining

CASES = {
    "LCN": Case(n_rows=70, depth=9, out_features=3, drop=DropConnect(0.5, key=2**63 + 12345)),
    "LLN": Case(n_rows=70, depth=9, out_features=3, drop=DropConnect(0.5, key=7), is_linear=True),
    "straight through": Case(n_rows=33, activation=Activation(straight_through=True), annealing=1.0),
    "deep head": Case(n_rows=33, hidden_layers=(7, 5), drop=DropConnect(0.5, key=7)),
}


@pytest.fixture(params=kernels.levels())
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    before = kernels.level()
    kernels.use(request.param)
    yield request.param
    kernels.use(before)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("name", CASES)
def test_networks_have_torchs_gradient_at_each_level(level: str, name: str, form: str) -> None:
    pytest.importorskip("torch")
    assert kernels.level() == level
    assert_all_close(by_kernels(CASES[name], form)[1], by_torch(CASES[name])[1], 1e-9)


@pytest.mark.parametrize("is_classifier", [True, False])
def test_soft_trees_have_torchs_gradient_at_each_level(level: str, is_classifier: bool) -> None:
    pytest.importorskip("torch")
    parts = case(SHAPES["chain"], 2, is_classifier, np.float64)
    tree = soft_tree.Shape(parts["children"], np.ones_like(parts["splits"]))
    at, how = soft_tree.Parameters(parts["splits"], parts["values"]), SoftTraining(is_classifier=is_classifier)
    by = soft_tree.gradient(columns(parts), tree, at, 3.0, how)
    loss, splits, values = torch_loss(parts, 3.0, is_classifier)
    loss.backward()
    np.testing.assert_allclose(by.splits, splits.grad.numpy(), atol=1e-10, rtol=1e-8)
    np.testing.assert_allclose(by.values, values.grad.numpy(), atol=1e-10, rtol=1e-8)


def test_a_dropped_weight_counts_for_nothing(level: str) -> None:
    """With factors in place of `allowed`: the gradient at the splits times them, times them again."""
    parts = case(SHAPES["complete"], 2, True, np.float64)
    kept = np.where(np.random.default_rng(0).random(parts["splits"].shape) < 0.5, 0.0, 2.0)
    tree, ones = soft_tree.Shape(parts["children"], kept), np.ones_like(kept)
    at = soft_tree.Parameters(parts["splits"], parts["values"])
    by = soft_tree.gradient(columns(parts), tree, at, 2.0, SoftTraining())
    there = soft_tree.Parameters(at.splits * kept, at.values)
    plain = soft_tree.gradient(columns(parts), tree._replace(allowed=ones), there, 2.0, SoftTraining())
    np.testing.assert_allclose(by.splits, plain.splits * kept, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(by.values, plain.values, rtol=1e-12, atol=1e-15)


def started_with(name: str) -> subprocess.CompletedProcess[str]:
    code = "from treelu import kernels; print(kernels.level())"
    environment = {**os.environ, kernels.VARIABLE: name}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


def test_the_best_level_is_taken_and_the_environment_forces_another() -> None:
    assert started_with("").stdout.strip() == kernels.levels()[-1]
    for name in kernels.levels():
        assert started_with(name).stdout.strip() == name


def test_an_unknown_level_is_an_error_that_names_those_there_are() -> None:
    run = started_with("v9")
    assert run.returncode != 0
    assert (
        f"TREELU_KERNELS: no kernels of level 'v9' for this processor; take one of {kernels.levels()[0]}" in run.stderr
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": np.zeros((4, 3))}, "splits"),  # two precisions
        ({"rows": np.zeros((4, 2), np.float32)}, "splits"),  # sizes that differ
        ({"rows": np.zeros((3, 4), np.float32).T}, "contiguous"),
        ({"rows": np.zeros(4, np.float32)}, "rows"),
        ({"children": np.zeros((1, 3), np.int64)}, "children"),
        ({"children": np.zeros((1, 2), np.int32)}, "children"),
        ({"leaf": np.zeros(5, np.int64)}, "leaf"),
        ({"leaf": None}, "NoneType"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_before_a_kernel_runs(change: dict[str, object], message: str) -> None:
    arrays: dict[str, object] = {
        "rows": np.zeros((4, 3), np.float32),
        "children": np.array([[1, 2]]),
        "splits": np.zeros((1, 3), np.float32),
        "leaf": np.zeros(4, np.int64),
    }
    compiled.route(*arrays.values())
    with pytest.raises((TypeError, ValueError), match=message):
        compiled.route(*{**arrays, **change}.values())


def test_read_only_arrays_are_not_written_to() -> None:
    leaf = np.zeros(4, np.int64)
    leaf.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        compiled.route(np.zeros((4, 3), np.float32), np.array([[1, 2]]), np.zeros((1, 3), np.float32), leaf)


def test_too_few_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="the signature is rows:r"):
        compiled.route()
