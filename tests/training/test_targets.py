"""Losses and scores against scikit-learn and torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, softmax
from sklearn import metrics
from torch.nn import functional as F

from treelu.training.targets import METRICS, Targets, log_loss, probabilities, roc_auc, root_mean_squared_error

seeds = st.integers(0, 2**32 - 1)
INDEX = torch.tensor([4, 0, 4, 2])


def weights(rng: np.random.Generator, n: int, kind: str) -> np.ndarray | None:
    return {"none": None, "equal": np.full(n, 2.5), "random": rng.random(n), "some zero": rng.integers(0, 3, n) + 0.0}[
        kind
    ]


WEIGHTS = st.sampled_from(["none", "equal", "random", "some zero"])


@given(seed=seeds, n=st.integers(2, 40), kind=WEIGHTS, n_levels=st.sampled_from([2, 5, 1000]))
def test_auc_is_that_of_sklearn_with_ties_and_weights(seed: int, n: int, kind: str, n_levels: int) -> None:
    rng = np.random.default_rng(seed)
    y, scores = rng.integers(0, 2, n), rng.integers(0, n_levels, n) / n_levels - 0.4
    y[:2] = [0, 1]
    weight = weights(rng, n, kind)
    if weight is not None:
        weight[:2] = 1.0
    expected = metrics.roc_auc_score(y, scores, sample_weight=weight)
    assert roc_auc(y, scores, weight) == pytest.approx(expected, abs=1e-12)
    assert roc_auc(y[:, None].astype(np.float32), scores[:, None], weight) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("weight", [None, np.ones(3), np.array([1.0, 0.0, 0.0])])
def test_auc_of_one_class_is_not_a_number(weight: np.ndarray | None) -> None:
    y = np.array([0, 0, 0]) if weight is None or weight.all() else np.array([0, 1, 1])
    assert np.isnan(roc_auc(y, np.array([0.1, 0.2, 0.3]), weight))


@given(seed=seeds, n=st.integers(1, 30), n_classes=st.integers(2, 5), kind=st.sampled_from(["none", "random"]))
def test_log_loss_is_that_of_sklearn(seed: int, n: int, n_classes: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    y, weight = rng.integers(0, n_classes, n), weights(rng, n, kind)
    scores = 3 * rng.standard_normal((n, 1 if n_classes == 2 else n_classes))
    chances = probabilities(scores)
    expected = metrics.log_loss(y, chances, sample_weight=weight, labels=np.arange(n_classes))
    assert log_loss(y, scores, weight) == pytest.approx(expected, rel=1e-9)


def test_log_loss_does_not_overflow() -> None:
    assert log_loss(np.array([1, 0]), np.array([[-1e4], [1e4]])) == pytest.approx(1e4)
    assert log_loss(np.array([1, 0]), np.array([[1e4, 0.0, 0.0], [1e4, 0.0, 0.0]])) == pytest.approx(5e3)


@given(seed=seeds, n=st.integers(1, 30), n_outputs=st.integers(1, 3), kind=st.sampled_from(["none", "random"]))
def test_rmse_is_that_of_sklearn(seed: int, n: int, n_outputs: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    y, scores = rng.standard_normal((2, n, n_outputs))
    weight = weights(rng, n, kind)
    expected = np.sqrt(metrics.mean_squared_error(y, scores, sample_weight=weight))
    assert root_mean_squared_error(y, scores, weight) == pytest.approx(expected, rel=1e-9)
    if n_outputs == 1:
        assert root_mean_squared_error(y[:, 0], scores, weight) == pytest.approx(expected, rel=1e-9)


def test_probabilities() -> None:
    rng = np.random.default_rng(0)
    one, many = rng.standard_normal((5, 1)), rng.standard_normal((5, 4))
    assert np.allclose(probabilities(one), np.column_stack([expit(-one[:, 0]), expit(one[:, 0])]))
    assert np.allclose(probabilities(many), softmax(many, axis=1))
    assert np.isfinite(probabilities(np.array([[1e5], [-1e5]]))).all()


# Losses on batches


def some_targets(task: str, *, weight: bool = False, offset: bool = False) -> tuple[Targets, torch.Tensor]:
    """Targets of six rows and outputs for the rows INDEX."""
    rng = np.random.default_rng(1)
    n_outputs = {"binary": 1, "multiclass": 4, "regression": 2}[task]
    y = {
        "binary": torch.from_numpy(rng.integers(0, 2, (6, 1)).astype(float)),
        "multiclass": torch.from_numpy(rng.integers(0, 4, 6)),
        "regression": torch.from_numpy(rng.standard_normal((6, 2))),
    }[task]
    drawn = torch.from_numpy(rng.random(6)), torch.from_numpy(rng.standard_normal((6, n_outputs)))
    targets = Targets(task, y, n_outputs, drawn[0] if weight else None, drawn[1] if offset else None)
    return targets, torch.from_numpy(rng.standard_normal((len(INDEX), n_outputs)))


TASKS = ("binary", "multiclass", "regression")
LOSSES = {
    "binary": lambda out, y: F.binary_cross_entropy(torch.sigmoid(out), y),
    "multiclass": lambda out, y: -torch.log_softmax(out, -1)[y],
    "regression": lambda out, y: ((out - y) ** 2).mean(),
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("weight", [False, True])
@pytest.mark.parametrize("offset", [False, True])
def test_loss_row_by_row(task: str, weight: bool, offset: bool) -> None:
    """The mean over the rows of weight × loss(output + offset)."""
    targets, out = some_targets(task, weight=weight, offset=offset)
    total = 0.0
    for position, row in enumerate(INDEX.tolist()):
        score = out[position] + (targets.offset[row] if offset else 0.0)
        total += (targets.weight[row] if weight else 1.0) * LOSSES[task](score, targets.y[row])
    assert targets.loss(out, INDEX).item() == pytest.approx((total / len(INDEX)).item(), rel=1e-12)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("weight", [False, True])
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("size", [1.0, 1e3])
def test_loss_and_gradient_by_kernels_are_those_of_autograd(task: str, weight: bool, offset: bool, size: float) -> None:
    targets, out = some_targets(task, weight=weight, offset=offset)
    out = (size * out).requires_grad_()
    expected = targets.loss(out, INDEX)
    expected.backward()
    given = np.ascontiguousarray(out.detach().numpy().T)  # (outputs, B)
    before = given.copy()
    loss, gradient = targets.loss_and_gradient(given, INDEX.numpy())
    assert loss == pytest.approx(expected.item(), rel=1e-12)
    assert np.allclose(gradient.T, out.grad.numpy(), rtol=1e-9, atol=1e-12)
    assert np.array_equal(given, before)


@pytest.mark.parametrize("task", TASKS)
def test_the_gradient_keeps_single_precision(task: str) -> None:
    targets, out = some_targets(task, weight=True, offset=True)
    targets = targets.to(torch.device("cpu"), torch.float32)
    assert targets.loss_and_gradient(out.float().numpy().T, INDEX.numpy())[1].dtype == np.float32


@pytest.mark.parametrize("task", TASKS)
def test_weights_of_one_change_nothing(task: str) -> None:
    targets, out = some_targets(task)
    weighted = Targets(task, targets.y, targets.n_outputs, torch.ones(6, dtype=torch.float64))
    assert weighted.loss(out, INDEX).item() == pytest.approx(targets.loss(out, INDEX).item(), rel=1e-12)


@pytest.mark.parametrize("task", TASKS)
def test_moving_keeps_everything(task: str) -> None:
    targets, out = some_targets(task, weight=True, offset=True)
    moved = targets.to(torch.device("cpu"), torch.float32)
    assert moved.weight.dtype == moved.offset.dtype == torch.float32
    assert moved.y.dtype == (torch.int64 if task == "multiclass" else torch.float32)
    assert moved.loss(out.float(), INDEX).item() == pytest.approx(targets.loss(out, INDEX).item(), rel=1e-5)
    assert len(moved) == 6


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("weight", [False, True])
def test_score_of_some_rows(task: str, weight: bool) -> None:
    targets, _ = some_targets(task, weight=weight, offset=True)
    index = np.array([0, 1, 2, 4, 5])
    out = torch.from_numpy(np.random.default_rng(2).standard_normal((5, targets.n_outputs)))
    scores, y = (out + targets.offset[index]).numpy(), targets.y[index].numpy()
    w = targets.weight[index].numpy() if weight else None
    expected = {
        "binary": lambda: metrics.roc_auc_score(y[:, 0], scores[:, 0], sample_weight=w),
        "multiclass": lambda: metrics.log_loss(y, softmax(scores, axis=1), sample_weight=w, labels=range(4)),
        "regression": lambda: np.sqrt(metrics.mean_squared_error(y, scores, sample_weight=w)),
    }[task]()
    assert targets.score(out, index) == pytest.approx(expected, rel=1e-9)


def test_rmse_is_told_in_the_units_of_the_raw_targets() -> None:
    targets = Targets("regression", torch.tensor([[1.0], [2.0]]), 1, unit=torch.tensor([10.0]))
    assert targets.score(torch.tensor([[1.0], [3.0]]), np.array([0, 1])) == pytest.approx(10 / np.sqrt(2))


def test_directions() -> None:
    assert METRICS["binary"].improves(0.8, None)
    assert METRICS["binary"].improves(0.8, 0.7)
    assert not METRICS["binary"].improves(0.7, 0.7)
    for task in ("multiclass", "regression"):
        assert METRICS[task].improves(0.6, 0.7)
        assert not METRICS[task].improves(0.7, 0.7)
    assert [METRICS[task].name for task in TASKS] == ["auc", "log_loss", "rmse"]
