"""Scores against scikit-learn and SciPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn import metrics

from treelu.report import curves, scores


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def _probabilities(rng, n_rows, n_classes):
    """Coarse, so that there are ties as with a tree's leaves."""
    raw = rng.integers(1, 6, size=(n_rows, n_classes)).astype(float)
    return raw / raw.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_classification_scores_equal_scikit_learns(rng, n_classes):
    target = rng.integers(n_classes, size=200)
    probability = _probabilities(rng, 200, n_classes)
    asked = scores.classification_metrics(n_classes)
    found = scores.score_models(target, {"a": probability}, asked, random_state=0)["scores"]["a"]
    decided = probability.argmax(axis=1)
    average = "binary" if n_classes == 2 else "macro"
    ranked = probability[:, 1] if n_classes == 2 else probability
    wanted = {
        "auc": metrics.roc_auc_score(target, ranked, multi_class="ovr"),
        "accuracy": metrics.accuracy_score(target, probability.argmax(axis=1)),
        "log_loss": metrics.log_loss(target, probability),
        "average_precision": metrics.average_precision_score(target, ranked),
        "recall": metrics.recall_score(target, decided, average=average),
        "precision": metrics.precision_score(target, decided, average=average),
    }
    assert {key: score["value"] for key, score in found.items()} == pytest.approx(wanted)
    assert all(score["low"] < score["value"] < score["high"] for score in found.values())


def test_regression_scores_equal_scikit_learns(rng):
    target = rng.normal(size=150)
    prediction = target + rng.normal(size=150)
    found = scores.score_models(target, {"a": prediction}, scores.REGRESSION, random_state=0)["scores"]["a"]
    wanted = {
        "rmse": metrics.root_mean_squared_error(target, prediction),
        "r2": metrics.r2_score(target, prediction),
        "mae": metrics.mean_absolute_error(target, prediction),
    }
    assert {key: score["value"] for key, score in found.items()} == pytest.approx(wanted)


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4), st.integers(0, 3)), min_size=2, max_size=30))
def test_scores_of_a_resample_are_scores_of_the_repeated_rows(rows):
    """Each scorer takes the times a row is drawn; scikit-learn is given the drawn rows one by one."""
    positive, score, times = (np.array(column) for column in zip(*rows, strict=True))
    score = score / 4
    probability = np.column_stack([1 - score, score])
    drawn = np.repeat(np.arange(len(rows)), times)
    if len(drawn) == 0:
        return
    target = positive.astype(int)
    counts = times.astype(float)
    asked = {metric.key: metric.scorer(target, probability) for metric in scores.classification_metrics(2, 0.75)}
    accuracy = scores.classification_metrics(2)[2].scorer(target, probability)
    auc, r2 = asked["auc"], scores.REGRESSION[1].scorer(target.astype(float), score)
    decided = score[drawn] >= 0.75
    if target[drawn].any():
        wanted = metrics.average_precision_score(target[drawn], score[drawn])
        assert asked["average_precision"](counts) == pytest.approx(wanted)
        assert asked["recall"](counts) == pytest.approx(metrics.recall_score(target[drawn], decided))
    if decided.any():
        assert asked["precision"](counts) == pytest.approx(metrics.precision_score(target[drawn], decided))
    assert asked["accuracy"](counts) == pytest.approx(metrics.accuracy_score(target[drawn], decided))
    assert accuracy(counts) == pytest.approx(np.mean(probability.argmax(axis=1)[drawn] == target[drawn]))
    if len(np.unique(target[drawn])) == 2:
        assert auc(counts) == pytest.approx(metrics.roc_auc_score(target[drawn], score[drawn]))
        assert r2(counts) == pytest.approx(metrics.r2_score(target[drawn], score[drawn]))
    else:
        assert np.isnan(auc(counts))


def test_interval_of_a_share_is_close_to_the_exact_one(rng):
    target = (rng.random(400) < 0.8).astype(int)
    probability = np.tile([0.0, 1.0], (400, 1))
    found = scores.score_models(target, {"a": probability}, scores.classification_metrics(2), random_state=0)
    exact = binomtest(int(target.sum()), 400).proportion_ci(method="exact")
    accuracy = found["scores"]["a"]["accuracy"]
    assert (accuracy["low"], accuracy["high"]) == pytest.approx((exact.low, exact.high), abs=0.01)


def test_lead_is_paired(rng):
    """A model that is always 0.5 further off has an RMSE interval of width, but a lead of none in the mean error."""
    target = rng.normal(size=100)
    first = target + rng.normal(size=100) ** 2
    found = scores.score_models(target, {"first": first, "second": first + 0.5}, scores.REGRESSION, random_state=1)
    lead = found["leads"]["second"]["mae"]
    assert (lead["value"], lead["low"], lead["high"]) == pytest.approx((-0.5, -0.5, -0.5))
    assert "first" not in found["leads"]


def test_one_class_has_no_auc_and_no_curve():
    probability = np.array([[0.2, 0.8], [0.4, 0.6]])
    target = np.array([1, 1])
    found = scores.score_models(target, {"a": probability}, scores.classification_metrics(2), random_state=0)
    assert found["scores"]["a"]["auc"] == {"value": None, "low": None, "high": None}
    assert curves.roc_curves(target, probability) == []


@pytest.mark.parametrize("n_classes", [2, 3])
def test_roc_curves_enclose_their_area(rng, n_classes):
    target = rng.integers(n_classes, size=3000)
    probability = rng.dirichlet(np.ones(n_classes), size=3000)
    found = curves.roc_curves(target, probability, max_points=150)
    assert len(found) == (1 if n_classes == 2 else 3)
    for curve in found:
        assert len(curve["false_positive"]) <= 150
        assert (curve["false_positive"][0], curve["true_positive"][-1]) == (0.0, 1.0)
        area = metrics.auc(curve["false_positive"], curve["true_positive"])
        assert area == pytest.approx(curve["auc"], abs=0.01)
        wanted = metrics.roc_auc_score(target == curve["class"], probability[:, curve["class"]])
        assert curve["auc"] == pytest.approx(wanted)


def test_reliability_agrees_with_scikit_learn(rng):
    from sklearn.calibration import calibration_curve

    chance = rng.random(500)
    target = (rng.random(500) < chance**2).astype(int)
    found = curves.reliability(target, np.column_stack([1 - chance, chance]))
    observed, predicted = calibration_curve(target, chance, n_bins=10)
    assert [b["observed"] for b in found["bins"]] == pytest.approx(observed.tolist())
    assert [b["predicted"] for b in found["bins"]] == pytest.approx(predicted.tolist())
    sizes = np.array([b["n"] for b in found["bins"]])
    assert found["ece"] == pytest.approx(np.abs(observed - predicted) @ sizes / 500)
    for one in found["bins"]:
        exact = binomtest(round(one["observed"] * one["n"]), one["n"]).proportion_ci(method="wilson")
        assert (one["low"], one["high"]) == pytest.approx((exact.low, exact.high))


def test_reliability_of_many_classes_is_that_of_the_predicted_class(rng):
    target = rng.integers(3, size=300)
    probability = rng.dirichlet(np.ones(3), size=300)
    found = curves.reliability(target, probability)
    right = probability.argmax(axis=1) == target
    binary = curves.reliability(
        right.astype(int), np.column_stack([1 - probability.max(axis=1), probability.max(axis=1)])
    )
    assert found == binary


def test_mean_by_prediction_keeps_every_row(rng):
    prediction = rng.integers(0, 5, size=200).astype(float)  # fewer values than bins, as with a small tree
    target = prediction + rng.normal(size=200)
    bins = curves.mean_by_prediction(target, prediction)["bins"]
    assert sum(b["n"] for b in bins) == 200
    for one in bins:
        rows = prediction == one["predicted"]
        assert one["observed"] == pytest.approx(target[rows].mean())


def test_precision_recall_curves_are_scikit_learns(rng):
    target = rng.integers(2, size=500)
    chance = (rng.random(500) + target) / 2
    (curve,) = curves.precision_recall_curves(target, np.column_stack([1 - chance, chance]), max_points=10_000)
    precision, recall, _ = metrics.precision_recall_curve(target, chance)
    assert np.allclose(curve["precision"], precision)
    assert np.allclose(curve["recall"], recall)
    assert curve["average_precision"] == pytest.approx(metrics.average_precision_score(target, chance))


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20)), min_size=1, max_size=40), st.integers(0, 21))
def test_what_a_threshold_moves_is_the_confusion_matrix(rows, cut):
    target, chance = (np.array(column) for column in zip(*rows, strict=True))
    target, chance = target.astype(int), chance / 20
    counts = curves.threshold_counts(target, chance)
    above = np.array(counts["probability"]) >= cut / 20
    positive, negative = np.array(counts["positive"]), np.array(counts["negative"])
    wanted = metrics.confusion_matrix(target, (chance >= cut / 20).astype(int), labels=[0, 1]).tolist()
    assert wanted == [
        [negative[~above].sum(), negative[above].sum()],
        [positive[~above].sum(), positive[above].sum()],
    ]
    assert wanted == metrics.confusion_matrix(target, chance >= cut / 20, labels=[0, 1]).tolist()


def test_many_probabilities_are_joined_without_losing_rows(rng):
    target, chance = rng.integers(2, size=5000), rng.random(5000)
    counts = curves.threshold_counts(target, chance, max_steps=100)
    assert len(counts["probability"]) <= 100
    assert sum(counts["positive"]) == target.sum()
    assert sum(counts["negative"]) == 5000 - target.sum()
    assert counts["probability"][0] == chance.min()


def test_the_positive_class_is_named_like_a_yes_or_is_the_rarer_one() -> None:
    rare_first = np.array([False, True, True])
    assert scores.positive_class(np.array(["fraud", "fine"]), rare_first) == 0
    assert scores.positive_class(np.array([0, 1]), rare_first) == 1
    assert scores.decide(np.array([[0.7, 0.3], [0.9, 0.1]]), 0.2).tolist() == [1, 0]
