"""Losses and scores against scikit-learn, gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn import metrics

from treelu.data.targets import (
    METRICS,
    Targets,
    log_loss,
    mean_roc_auc,
    probabilities,
    reordered_scores,
    roc_auc,
    root_mean_squared_error,
)

seeds = st.integers(0, 2**32 - 1)
INDEX = np.array([4, 0, 4, 2])


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


def some_targets(task: str, *, weight: bool = False, offset: bool = False) -> tuple[Targets, np.ndarray]:
    """Targets of six rows and outputs for the rows INDEX."""
    rng = np.random.default_rng(1)
    n_outputs = {"binary": 1, "multiclass": 4, "regression": 2}[task]
    y = {
        "binary": rng.integers(0, 2, (6, 1)).astype(float),
        "multiclass": rng.integers(0, 4, 6),
        "regression": rng.standard_normal((6, 2)),
    }[task]
    drawn = rng.random(6), rng.standard_normal((6, n_outputs))
    targets = Targets(task, y, n_outputs, drawn[0] if weight else None, drawn[1] if offset else None)
    return targets, rng.standard_normal((len(INDEX), n_outputs))


TASKS = ("binary", "multiclass", "regression")
LOSSES = {
    "binary": lambda out, y: -(y * log_expit(out) + (1 - y) * log_expit(-out)).item(),
    "multiclass": lambda out, y: -log_softmax(out)[y],
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
    assert targets.loss(out, INDEX) == pytest.approx(total / len(INDEX), rel=1e-12)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("weight", [False, True])
@pytest.mark.parametrize("offset", [False, True])
def test_the_gradient_is_that_of_the_loss(task: str, weight: bool, offset: bool) -> None:
    """Central differences in float64; the outputs given are left as they are."""
    targets, out = some_targets(task, weight=weight, offset=offset)
    before, step = out.copy(), 1e-6
    _, gradient = targets.loss_and_gradient(out.T, INDEX)
    for place in np.ndindex(*out.shape):
        moved = np.zeros_like(out)
        moved[place] = step
        slope = (targets.loss(out + moved, INDEX) - targets.loss(out - moved, INDEX)) / (2 * step)
        assert gradient.T[place] == pytest.approx(slope, abs=1e-8)
    assert np.array_equal(out, before)


@pytest.mark.parametrize("task", TASKS)
def test_losses_of_large_outputs_are_finite(task: str) -> None:
    targets, out = some_targets(task)
    loss, gradient = targets.loss_and_gradient(1e3 * out.T, INDEX)
    assert np.isfinite(loss)
    assert np.isfinite(gradient).all()


@given(seed=seeds, weighted=st.booleans(), n_outputs=st.integers(1, 4))
def test_labels_that_were_not_observed_count_for_nothing(seed: int, weighted: bool, n_outputs: int) -> None:
    """Several binary outputs: the mean over the observed ones, and gradients for each of them."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, (9, n_outputs)).astype(float)
    y[rng.random(y.shape) < 0.3] = np.nan
    weight = rng.uniform(0.5, 2, 9) if weighted else None
    index, out = rng.integers(0, 9, 5), rng.standard_normal((5, n_outputs))
    loss, gradient = Targets("binary", y, n_outputs, weight).loss_and_gradient(out.T, index)
    seen = ~np.isnan(y[index])
    share = np.broadcast_to(1.0 if weight is None else weight[index][:, None], out.shape) / max(1, seen.sum())
    each = np.logaddexp(0, out) - np.nan_to_num(y[index]) * out
    assert loss == pytest.approx((share * each)[seen].sum(), rel=1e-9)
    expected = np.where(seen, share * (expit(out) - np.nan_to_num(y[index])), 0.0)
    np.testing.assert_allclose(gradient.T, expected, atol=1e-12)


@pytest.mark.parametrize("task", TASKS)
def test_the_gradient_keeps_single_precision(task: str) -> None:
    targets, out = some_targets(task, weight=True, offset=True)
    assert targets.loss_and_gradient(out.astype(np.float32).T, INDEX)[1].dtype == np.float32


@pytest.mark.parametrize("task", TASKS)
def test_weights_of_one_change_nothing(task: str) -> None:
    targets, out = some_targets(task)
    weighted = Targets(task, targets.y, targets.n_outputs, np.ones(6))
    assert weighted.loss(out, INDEX) == pytest.approx(targets.loss(out, INDEX), rel=1e-12)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("weight", [False, True])
def test_score_of_some_rows(task: str, weight: bool) -> None:
    targets, _ = some_targets(task, weight=weight, offset=True)
    index = np.array([0, 1, 2, 4, 5])
    out = np.random.default_rng(2).standard_normal((5, targets.n_outputs))
    scores, y = out + targets.offset[index], targets.y[index]
    w = targets.weight[index] if weight else None
    expected = {
        "binary": lambda: metrics.roc_auc_score(y[:, 0], scores[:, 0], sample_weight=w),
        "multiclass": lambda: metrics.log_loss(y, softmax(scores, axis=1), sample_weight=w, labels=range(4)),
        "regression": lambda: np.sqrt(metrics.mean_squared_error(y, scores, sample_weight=w)),
    }[task]()
    assert targets.score(out, index) == pytest.approx(expected, rel=1e-9)


def test_rmse_is_told_in_the_units_of_the_raw_targets() -> None:
    targets = Targets("regression", np.array([[1.0], [2.0]]), 1, unit=np.array([10.0]))
    assert targets.score(np.array([[1.0], [3.0]]), np.array([0, 1])) == pytest.approx(10 / np.sqrt(2))


def test_directions() -> None:
    assert METRICS["binary"].improves(0.8, None)
    assert METRICS["binary"].improves(0.8, 0.7)
    assert not METRICS["binary"].improves(0.7, 0.7)
    for task in ("multiclass", "regression"):
        assert METRICS[task].improves(0.6, 0.7)
        assert not METRICS[task].improves(0.7, 0.7)
    assert [METRICS[task].name for task in TASKS] == ["auc", "log_loss", "rmse"]


def test_auc_by_hand() -> None:
    assert roc_auc(np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.35, 0.8])) == 0.75
    y, scores = np.array([[0, 1], [1, np.nan], [1, 0]]), np.array([[0.1, 0.2], [0.4, 0.9], [0.3, 0.7]])
    assert mean_roc_auc(y, scores) == 0.5


def test_scores_in_another_order_of_classes() -> None:
    assert reordered_scores(np.array([[0.2, 0.8]]), np.array([1, 0])).tolist() == [[0.8, 0.2]]
    assert reordered_scores(np.ones((1, 1)), np.array([1, 0])).tolist() == [[-1.0]]
