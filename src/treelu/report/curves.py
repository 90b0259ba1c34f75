"""Curves of predictions on hold-out rows: ROC, precision and recall, thresholds, calibration, partial dependence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.metrics import precision_recall_curve, roc_curve

from treelu.report.rows import Floats, Rows
from treelu.report.scores import binary_auc, binary_average_precision

FEATURES = 8
STEPS = 24
BINS = 24  # of a feature's values
FEW_VALUES = 8  # of a feature, which are counted one by one
MAX_ROWS = 400
MAX_VALUES = 2_000_000  # numbers of a table of rows that is predicted at once


def _one_against_rest(target: NDArray[Any], probability: Floats) -> Iterator[tuple[int, NDArray[np.bool_], Floats]]:
    """(class, its rows, its probabilities): of two classes the second, else each; a curve needs rows of both kinds."""
    n_classes = probability.shape[1]
    for k in [1] if n_classes == 2 else range(n_classes):
        positive = target == k
        if positive.any() and not positive.all():
            yield k, positive, probability[:, k]


def _some(n_points: int, max_points: int) -> NDArray[np.int64]:
    """Places of at most so many points, the first and the last among them."""
    return np.unique(np.linspace(0, n_points - 1, min(n_points, max_points)).round().astype(int))


def roc_curves(target: NDArray[Any], probability: Floats, max_points: int = 200) -> list[dict[str, Any]]:
    """One curve for two classes, else one per class against the rest, each of at most ``max_points`` points."""
    curves = []
    for k, positive, score in _one_against_rest(target, probability):
        fpr, tpr, _ = roc_curve(positive, score)
        keep, auc = _some(len(fpr), max_points), binary_auc(positive, score)(np.ones(len(target)))
        points = {"false_positive": fpr[keep].tolist(), "true_positive": tpr[keep].tolist()}
        curves.append({"class": k, "auc": auc} | points)
    return curves


def precision_recall_curves(target: NDArray[Any], probability: Floats, max_points: int = 200) -> list[dict[str, Any]]:
    """One curve for two classes, else one per class against the rest, each of at most ``max_points`` points."""
    curves = []
    for k, positive, score in _one_against_rest(target, probability):
        precision, recall, _ = precision_recall_curve(positive, score)
        keep = _some(len(recall), max_points)
        area = binary_average_precision(positive, score)(np.ones(len(target)))
        points = {"recall": recall[keep].tolist(), "precision": precision[keep].tolist()}
        curves.append({"class": k, "average_precision": area} | points)
    return curves


def threshold_counts(target: NDArray[Any], probability: Floats, max_steps: int = 1000) -> dict[str, list[float]]:
    """Rows of each kind at each predicted probability of the positive class, ascending: what a threshold moves."""
    levels, which = np.unique(probability, return_inverse=True)
    if len(levels) > max_steps:  # a row's probability is then given as the least of its step
        edges = np.unique(np.quantile(levels, np.linspace(0, 1, max_steps), method="lower"))
        which = np.searchsorted(edges, probability, side="right") - 1
        levels = edges
    positive = np.bincount(which, weights=target == 1, minlength=len(levels)).astype(int)
    negative = np.bincount(which, weights=target != 1, minlength=len(levels)).astype(int)
    return {"probability": levels.tolist(), "positive": positive.tolist(), "negative": negative.tolist()}


def reliability(target: NDArray[Any], probability: Floats, n_bins: int = 10) -> dict[str, Any]:
    """Reliability diagram: observed frequency against predicted probability, in ``n_bins`` bins of equal width.

    Two classes: the probability of the second. More classes: that of the predicted class. ``ece`` is the
    expected calibration error, the mean over rows of |frequency − probability| of their bin; bounds are Wilson's.
    """
    if probability.shape[1] == 2:
        confidence, happened = probability[:, 1], target == 1
    else:
        confidence, happened = probability.max(axis=1), target == probability.argmax(axis=1)
    which = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    bins, gap = [], 0.0
    for b in np.unique(which):
        rows = which == b
        n, predicted, share = int(rows.sum()), float(confidence[rows].mean()), float(happened[rows].mean())
        low, high = wilson_interval(share, n)
        bins.append({"n": n, "predicted": predicted, "observed": share, "low": low, "high": high})
        gap += n * abs(share - predicted)
    return {"bins": bins, "ece": gap / len(target)}


def wilson_interval(share: float, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of n rows."""
    z = 1.959963984540054
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5
    return max(0.0, centre - half), min(1.0, centre + half)


def mean_by_prediction(target: Floats, prediction: Floats, n_bins: int = 10) -> dict[str, Any]:
    """Calibration of a regression: mean target within each tenth of the predictions, ± 1.96 standard errors."""
    edges = np.unique(np.quantile(prediction, np.linspace(0, 1, n_bins + 1)[1:-1]))
    which = np.searchsorted(edges, prediction, side="right")
    bins = []
    for b in np.unique(which):
        rows = which == b
        n, observed = int(rows.sum()), float(target[rows].mean())
        half = 1.96 * float(target[rows].std(ddof=1)) / n**0.5 if n > 1 else 0.0
        predicted = float(prediction[rows].mean())
        bins.append(
            {"n": n, "predicted": predicted, "observed": observed, "low": observed - half, "high": observed + half}
        )
    return {"bins": bins}


def partial_dependence(
    predict: Callable[[Floats], Floats], X: Rows, features: Sequence[int], *, random_state: int = 0
) -> list[dict[str, Any]]:
    """Mean prediction over some rows with one feature set to each of some values, for each feature with several values.

    ``predict`` maps rows to one number each: a value, or the probability of a class.
    """
    n_rows = int(min(MAX_ROWS, X.shape[0], max(1, MAX_VALUES // max(1, X.shape[1]))))
    chosen = np.sort(np.random.default_rng(random_state).permutation(X.shape[0])[:n_rows])
    rows = X[chosen].toarray() if sparse.issparse(X) else np.array(X[chosen])
    result = []
    for feature in features:
        column = X[:, [feature]].toarray().ravel() if sparse.issparse(X) else X[:, feature]
        grid = np.unique(column)
        if len(grid) > STEPS:
            grid = np.unique(np.quantile(column, np.linspace(0.01, 0.99, STEPS)))
        if len(grid) < 2:
            continue
        kept, means = rows[:, feature].copy(), []
        for value in grid:
            rows[:, feature] = value
            means.append(float(predict(rows).mean()))
        rows[:, feature] = kept
        shown = {"feature": int(feature), "values": grid.tolist(), "means": means}
        result.append(shown | {"rows": value_counts(column, grid)})
    return result


def value_counts(column: Floats, grid: Floats) -> dict[str, list[float]]:
    """How the rows spread over a feature: their number at each of a few values, else in bins of equal width.

    ``edges`` are one more than ``counts``; values beyond the grid are in no bin.
    """
    if len(grid) <= FEW_VALUES and np.isin(column, grid).all():
        half = 0.3 * (np.diff(grid).min() if len(grid) > 1 else 1.0)
        edges = np.stack([grid - half, grid + half], axis=1).ravel()
        single = [int(np.sum(column == value)) for value in grid]
        return {"edges": edges.tolist(), "counts": [float(n) for count in single for n in (count, 0)][:-1]}
    counts, edges = np.histogram(column, BINS, (grid[0], grid[-1]))
    return {"edges": edges.tolist(), "counts": counts.tolist()}
