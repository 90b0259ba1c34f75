"""Leaf refinement against closed forms and a general minimiser; temperature; corrections by pattern."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from treelu import LCNClassifier, LCNRegressor, LLNRegressor
from treelu.nn import LocallyConstantNetwork, Table
from treelu.nn.corrections import LeafCorrections
from treelu.training import Sample, evaluate
from treelu.training.calibration import HOTTEST, OUTLIERS, Tempering, prior_scores, refine_leaves, temper
from treelu.training.targets import Targets, log_loss, probabilities


def sample_of(X: np.ndarray, y: np.ndarray, task: str, n_outputs: int) -> Sample:
    targets = y if task == "multiclass" else y.astype(np.float32)[:, None]
    return Sample(Table(X, np.float32), Targets(task, targets, n_outputs))  # type: ignore[arg-type]


def leaves_of(network: LocallyConstantNetwork, X: np.ndarray) -> np.ndarray:
    return np.unique(network.activation_codes(Table(X, np.float32).rows()), axis=0, return_inverse=True)[1].reshape(-1)


def test_regression_leaves_move_by_the_shrunken_mean_residual() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.normal(size=200)
    network = LocallyConstantNetwork(3, 3, 1, seed=0)
    sample = sample_of(X, y, "regression", 1)
    before = evaluate(network, sample.table)[:, 0]
    refine_leaves(network, sample, 5.0)
    after = evaluate(network, sample.table)[:, 0]
    for leaf in range(leaves_of(network, X).max() + 1):
        here = leaves_of(network, X) == leaf
        expected = (y[here] - before[here]).sum() / (here.sum() + 5.0)
        np.testing.assert_allclose(after[here] - before[here], expected, atol=1e-5)


@pytest.mark.parametrize(("task", "n_outputs"), [("binary", 1), ("multiclass", 3)])
def test_class_leaves_minimise_the_penalised_cross_entropy(task: str, n_outputs: int) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(150, 2)), rng.integers(0, max(2, n_outputs), 150)
    network = LocallyConstantNetwork(2, 1, n_outputs, seed=0)
    sample = sample_of(X, y, task, n_outputs)
    before = evaluate(network, sample.table)
    strength, bound = 3.0, 0.25 if task == "binary" else 0.5
    refine_leaves(network, sample, strength)
    after = evaluate(network, sample.table)
    for leaf in range(leaves_of(network, X).max() + 1):
        here = leaves_of(network, X) == leaf

        def objective(shift: np.ndarray, here: np.ndarray = here) -> float:
            penalty = 0.5 * strength * bound * float((shift**2).sum())
            return here.sum() * log_loss(y[here], before[here] + shift) + penalty

        found = minimize(objective, np.zeros(n_outputs), method="BFGS").x
        np.testing.assert_allclose((after - before)[here][0], found, atol=2e-3)


@pytest.mark.parametrize("weighted", [False, True])
def test_tempering_undoes_a_scale(weighted: bool) -> None:
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(4000, 1))
    y = (rng.random((4000, 1)) < 1 / (1 + np.exp(-scores / 0.4))).astype(np.float32)
    rows, weight = np.arange(4000), None
    if weighted:  # rows that contradict, of no weight
        scores, y = np.concatenate([scores, scores]), np.concatenate([y, 1 - y])
        rows, weight = np.arange(8000), np.repeat([1.0, 0.0], 4000)
    found = temper(scores, Targets("binary", y, 1, weight), rows)
    assert found.how.temperature == pytest.approx(0.4, rel=0.1)
    chances = probabilities(scores / found.how.temperature)[np.arange(len(y)), y[:, 0].astype(int)]
    expected = -np.log((1 - OUTLIERS) * chances + OUTLIERS / 2)
    assert found.losses == pytest.approx(expected if weight is None else weight * expected)


@pytest.mark.parametrize(("n_classes", "task"), [(2, "binary"), (3, "multiclass")])
def test_scores_that_say_nothing_are_drawn_to_the_majority(n_classes: int, task: str) -> None:
    rng = np.random.default_rng(5)
    y = rng.choice(n_classes, size=2000, p=[0.7, 0.3] if n_classes == 2 else [0.2, 0.7, 0.1])
    n_outputs = 1 if task == "binary" else n_classes
    targets = Targets(task, y[:, None].astype(np.float32) if task == "binary" else y, n_outputs)  # type: ignore[arg-type]
    scores = rng.normal(size=(2000, n_outputs))
    how = temper(scores, targets, np.arange(2000)).how
    assert how.to_shares
    found = probabilities(how.of(scores, prior_scores(targets, np.arange(2000))))
    np.testing.assert_allclose(found.mean(axis=0), np.bincount(y) / 2000, atol=0.05)
    assert (found.argmax(axis=1) == np.bincount(y).argmax()).all()


def test_scores_that_are_right_less_often_than_the_majority_are_drawn_to_it_as_far_as_they_lose() -> None:
    """They rank the rows, but put too many of them above a half: one row in five is positive, not two."""
    rng = np.random.default_rng(6)
    truth = rng.normal(size=4000)
    y = (rng.random(4000) < 1 / (1 + np.exp(-(0.5 * truth - 1.5)))).astype(np.float32)[:, None]
    targets, rows, scores = Targets("binary", y, 1), np.arange(4000), 2 * truth[:, None] - 0.5
    prior = prior_scores(targets, rows)
    assert np.mean((scores > 0) == y) < np.mean(y == 0)
    found = temper(scores, targets, rows)
    assert found.how.to_shares
    assert found.how.temperature < HOTTEST / 2  # what they do know is kept
    assert np.mean((found.how.of(scores, prior) > 0) == y) >= np.mean(y == 0)
    grid = [Tempering(t, to_shares=True) for t in np.geomspace(0.05, 20, 2000)]
    best = min(log_loss(y, how.of(scores, prior)) for how in grid)
    assert found.losses.mean() == pytest.approx(best, rel=1e-4)


def test_scores_that_say_something_are_only_divided() -> None:
    rng = np.random.default_rng(7)
    scores = rng.normal(size=(2000, 1)) - 0.5
    y = (rng.random((2000, 1)) < 1 / (1 + np.exp(-3 * scores))).astype(np.float32)
    found = temper(scores, Targets("binary", y, 1), np.arange(2000))
    assert not found.how.to_shares
    np.testing.assert_array_equal(found.how.shift(np.array([-1.0])), [0.0])


@pytest.mark.parametrize("weighted", [False, True])
def test_regression_is_drawn_to_the_mean_as_far_as_is_clear(weighted: bool) -> None:
    """Outputs of twice the spread that the targets bear: a slope of ½ and two of its standard errors, by lstsq."""
    rng = np.random.default_rng(0)
    outputs = rng.normal(size=(400, 1))
    y = (0.5 * outputs + rng.normal(size=(400, 1))).astype(np.float32)
    weight = rng.uniform(0.5, 1.5, 400).astype(np.float32) if weighted else None
    rows = np.arange(400)
    found = temper(outputs, Targets("regression", y, 1, weight), rows)
    root = np.ones((400, 1)) if weight is None else np.sqrt(weight)[:, None]
    slope, squares = (float(part[0].item()) for part in np.linalg.lstsq(root * outputs, root * y)[:2])
    error = np.sqrt(squares / 400 / np.sum((root * outputs) ** 2))
    assert 1 / found.how.temperature == pytest.approx(slope + 2 * error, rel=1e-5)
    assert found.losses == pytest.approx((root**2 * (outputs / found.how.temperature - y) ** 2)[:, 0])


def test_regression_is_never_spread_nor_divided_by_nothing() -> None:
    outputs = np.linspace(-1, 1, 50)[:, None]
    targets = Targets("regression", 3 * outputs, 1)
    assert temper(outputs, targets, np.arange(50)).how.temperature == 1.0
    found = temper(np.zeros((2, 1)), Targets("regression", np.array([[1.0], [2.0], [4.0]]), 1), np.array([0, 2]))
    assert (found.how.temperature, found.losses.tolist()) == (1.0, [0.0, 9.0])  # 0 counts as 1, the least target


OUTLYING = {"one": [1e3], "several": [1e3, 1e4, 1e5, 1e6], "moderate": [60.0, 100.0, 200.0]}


@pytest.mark.parametrize("outlying", OUTLYING.values(), ids=OUTLYING)
@pytest.mark.parametrize(("task", "n_classes"), [("binary", 2), ("multiclass", 3)])
def test_a_few_rows_with_huge_scores_of_the_wrong_class_do_not_set_the_temperature(
    task: str, n_classes: int, outlying: list[float]
) -> None:
    rng = np.random.default_rng(8)
    logits = 3 * rng.normal(size=(2000, n_classes))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    far = np.arange(len(outlying))
    logits_with = logits.copy()
    logits_with[far, (y[far] + 1) % n_classes] += 2 * np.array(outlying)
    as_scores = (lambda of: 2 * (of[:, 1:] - of[:, :1])) if task == "binary" else (lambda of: 2 * of)
    labels = y[:, None].astype(np.float32) if task == "binary" else y
    targets = Targets(task, labels, 1 if task == "binary" else n_classes)  # type: ignore[arg-type]
    without, with_them = (temper(as_scores(of), targets, np.arange(2000)) for of in (logits, logits_with))
    assert without.how.temperature == pytest.approx(2.0, rel=0.2)  # scores are twice the logits
    assert with_them.how.temperature == pytest.approx(without.how.temperature, rel=0.1)
    assert not with_them.how.to_shares
    assert with_them.losses.max() <= np.log(n_classes / OUTLIERS) + 1e-9


@pytest.mark.parametrize("far", [[1e3], [1e3, -1e5, 30.0]], ids=["one", "several"])
def test_a_few_far_outputs_do_not_shrink_all_others(far: list[float]) -> None:
    rng = np.random.default_rng(9)
    outputs = rng.normal(size=(400, 1))
    y = outputs + 0.3 * rng.normal(size=(400, 1))
    targets = Targets("regression", y, 1)
    assert temper(outputs, targets, np.arange(400)).how.temperature == pytest.approx(1.0, abs=0.05)
    outputs[: len(far), 0] = far
    found = temper(outputs, targets, np.arange(400))
    assert found.how.temperature == pytest.approx(1.0, abs=0.05)
    assert found.losses.max() <= np.ptp(y) ** 2


def test_outputs_that_all_spread_too_far_are_still_shrunk() -> None:
    rng = np.random.default_rng(10)
    y = rng.normal(size=(400, 1))
    found = temper(10 * (y + 0.1 * rng.normal(size=(400, 1))), Targets("regression", y, 1), np.arange(400))
    assert found.how.temperature == pytest.approx(10.0, rel=0.05)


def test_corrections_change_the_leaves_named_and_no_others() -> None:
    network = LocallyConstantNetwork(3, 2, 1, seed=0)
    x = np.random.default_rng(0).standard_normal((50, 3))
    before = network(x)
    network.correct_leaves(LeafCorrections(np.array([[3], [0]]), np.array([[1.0], [-2.0]])))
    codes = network.activation_codes(x)[:, 0]
    expected = before[:, 0] + np.select([codes == 3, codes == 0], [1.0, -2.0], 0.0)
    np.testing.assert_allclose(network(x)[:, 0], expected)


@pytest.mark.parametrize("estimator", [LCNRegressor, LLNRegressor])
def test_refined_estimator_and_its_tree_agree(estimator: type) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 4))
    y = np.sign(X[:, 0]) * X[:, 1] + 5
    plain = estimator(depth=3, epochs=10, random_state=0).fit(X, y)
    refined = estimator(depth=3, epochs=10, training={"refine_leaves": 1.0}, random_state=0).fit(X, y)
    np.testing.assert_allclose(refined.tree_.predict(X), refined.predict(X), atol=1e-9)
    assert refined.score(X, y) > plain.score(X, y)


def test_validation_rows_temper_probabilities_but_not_the_order() -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(600, 5))
    y = (X[:, 0] + rng.normal(size=600) > 0).astype(int)
    settings = {"depth": 6, "epochs": 40, "random_state": 0}
    with_valid = LCNClassifier(**settings).fit(X[:300], y[:300], eval_set=(X[300:450], y[300:450]))
    scores = with_valid.decision_function(X[300:450])
    losses = [log_loss(y[300:450], scores * factor) for factor in (0.8, 1.0, 1.25)]
    assert losses[1] == min(losses)
