"""Scores of predictions on hold-out rows: metrics with bootstrap intervals."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treelu.tree.names import AFFIRMATIVE

Floats = NDArray[np.float64]
# A scorer holds the targets and predictions; it maps the times each row is drawn to the score.
Scorer = Callable[[Floats], float]


class PageMetric(NamedTuple):
    """One score: its key, its name on the page, which way is better, and how it is computed."""

    key: str
    name: str
    higher_is_better: bool
    scorer: Callable[[NDArray[Any], Floats], Scorer]
    about: str = ""  # in a few words


def number(value: float) -> float | None:
    """A JSON number, or None for what JSON cannot carry (NaN, infinity)."""
    return float(value) if np.isfinite(value) else None


def positive_class(classes: NDArray[Any], is_second: NDArray[np.bool_]) -> int:
    """Of two classes, the number of the one that recall and precision speak of.

    That is the one named like an answer in the affirmative (1, true, yes, positive), else the rarer one.
    """
    names = [str(label).strip().lower() for label in classes]
    affirmative = [name in AFFIRMATIVE for name in names]
    if sum(affirmative) == 1:
        return affirmative.index(True)
    return 1 if is_second.mean() <= 0.5 else 0


def _mean_of(values: Floats) -> Scorer:
    return lambda counts: float(counts @ values / counts.sum())


def binary_auc(positive: NDArray[np.bool_], score: Floats) -> Scorer:
    """Area under the ROC curve: the probability that a positive row outranks a negative one, ties counting half."""
    order = np.argsort(score, kind="stable")
    starts = np.flatnonzero(np.diff(score[order], prepend=np.nan) != 0)
    positive = positive[order]

    def auc(counts: Floats) -> float:
        counts = counts[order]
        ups = np.add.reduceat(np.where(positive, counts, 0.0), starts)
        downs = np.add.reduceat(np.where(positive, 0.0, counts), starts)
        pairs = ups.sum() * downs.sum()
        if pairs == 0:
            return float("nan")
        below = np.cumsum(downs) - downs
        return float(ups @ (below + downs / 2) / pairs)

    return auc


def binary_average_precision(positive: NDArray[np.bool_], score: Floats) -> Scorer:
    """Mean precision over the positive rows, each at its score: Σ (R_k − R_{k−1}) P_k, equal scores taken at once."""
    order = np.argsort(-score, kind="stable")
    starts = np.flatnonzero(np.diff(score[order], prepend=np.nan) != 0)
    positive = positive[order]

    def average_precision(counts: Floats) -> float:
        counts = counts[order]
        ups = np.add.reduceat(np.where(positive, counts, 0.0), starts)
        all_rows = np.cumsum(np.add.reduceat(counts, starts))
        total = ups.sum()
        if total == 0:
            return float("nan")
        precision = np.divide(np.cumsum(ups), all_rows, out=np.zeros_like(ups), where=all_rows > 0)
        return float(ups @ precision / total)

    return average_precision


def _each(binary: Callable[[NDArray[np.bool_], Floats], Scorer]) -> Callable[[NDArray[Any], Floats], Scorer]:
    """The score of the second of two classes; with more classes the mean over each class against the rest."""

    def scorer(target: NDArray[Any], probability: Floats) -> Scorer:
        if probability.shape[1] == 2:
            return binary(target == 1, probability[:, 1])
        return _mean_scorer([binary(target == k, probability[:, k]) for k in np.unique(target)])

    return scorer


def _mean_scorer(each: Sequence[Scorer]) -> Scorer:
    def mean(counts: Floats) -> float:
        values = np.array([scorer(counts) for scorer in each])
        known = values[~np.isnan(values)]
        return float(known.mean()) if len(known) else float("nan")

    return mean


def _share_within(hits: NDArray[np.bool_], among: NDArray[np.bool_], empty: float) -> Scorer:
    top, below = hits.astype(np.float64), among.astype(np.float64)

    def share(counts: Floats) -> float:
        n = counts @ below
        return float(counts @ top / n) if n > 0 else empty

    return share


EVEN = float(np.nextafter(0.5, 0.0))  # the threshold at which the second of two equally likely classes is predicted


def decide(probability: Floats, threshold: float = 0.5) -> NDArray[np.int64]:
    """The class of each row: of two, the second where its probability is at least the threshold; else the likeliest."""
    if probability.shape[1] == 2 and threshold != 0.5:
        return (probability[:, 1] >= threshold).astype(np.int64)
    return probability.argmax(axis=1)


def _accuracy(target: NDArray[Any], probability: Floats, threshold: float) -> Scorer:
    return _mean_of((decide(probability, threshold) == target).astype(np.float64))


def _recall(target: NDArray[Any], probability: Floats, threshold: float) -> Scorer:
    """Share of the positive rows that are found; with more classes the mean over them."""
    decided = decide(probability, threshold)
    of = [1] if probability.shape[1] == 2 else np.unique(target).tolist()
    return _mean_scorer([_share_within((target == k) & (decided == k), target == k, np.nan) for k in of])


def _precision(target: NDArray[Any], probability: Floats, threshold: float) -> Scorer:
    """Share of the rows called positive that are; with more classes the mean over them, 0 for one never predicted."""
    decided = decide(probability, threshold)
    if probability.shape[1] == 2:
        return _share_within((target == 1) & (decided == 1), decided == 1, np.nan)
    of = np.union1d(target, decided).tolist()
    return _mean_scorer([_share_within((target == k) & (decided == k), decided == k, 0.0) for k in of])


def _log_loss(target: NDArray[Any], probability: Floats) -> Scorer:
    """Mean of −log p(true class); p is kept off 0 by the rounding unit, as scikit-learn does."""
    eps = np.finfo(np.float64).eps
    chosen = np.clip(probability, eps, 1 - eps)
    return _mean_of(-np.log(chosen[np.arange(len(target)), target.astype(int)]))


def _rmse(target: NDArray[Any], prediction: Floats) -> Scorer:
    mean_square = _mean_of((target - prediction) ** 2)
    return lambda counts: mean_square(counts) ** 0.5


def _r2(target: NDArray[Any], prediction: Floats) -> Scorer:
    mean_square, squares = _mean_of((target - prediction) ** 2), (target - target.mean()) ** 2

    def r2(counts: Floats) -> float:
        shift = counts @ (target - target.mean()) / counts.sum()
        variance = counts @ squares / counts.sum() - shift**2
        return 1 - mean_square(counts) / variance if variance > 0 else float("nan")

    return r2


def _mae(target: NDArray[Any], prediction: Floats) -> Scorer:
    return _mean_of(np.abs(target - prediction))


def classification_metrics(n_classes: int, threshold: float = 0.5) -> tuple[PageMetric, ...]:
    """The scores of a classifier; of two classes, class 1 is the positive one."""
    mean = "" if n_classes == 2 else "Mean "

    accuracy, recall, precision = (partial(scorer, threshold=threshold) for scorer in (_accuracy, _recall, _precision))

    def named(name: str) -> str:
        return (mean + name).capitalize() if mean else name

    return (
        PageMetric("auc", "ROC AUC", True, _each(binary_auc), "probability that a positive row outranks a negative"),
        PageMetric(
            "average_precision", named("Average precision"), True, _each(binary_average_precision),
            "precision averaged over all thresholds; the better score where positives are rare",
        ),
        PageMetric("accuracy", "Accuracy", True, accuracy, "share of the rows that are predicted right"),
        PageMetric("recall", named("Recall"), True, recall, "share of the positive rows that are found"),
        PageMetric("precision", named("Precision"), True, precision, "share of positives among rows called so"),
        PageMetric("log_loss", "Log-loss", False, _log_loss, "how surprising the answers are, given the probabilities"),
    )  # fmt: skip


REGRESSION = (
    PageMetric("rmse", "RMSE", False, _rmse, "root of the mean squared error"),
    PageMetric("r2", "R²", True, _r2, "share of the variance that is explained"),
    PageMetric("mae", "Mean absolute error", False, _mae, "mean size of the error"),
)


def _bootstrap(scorers: Sequence[Scorer], unit: NDArray[np.int64], n_resamples: int, random_state: int) -> Floats:
    """Score the same resamples of the units of rows with every scorer, so that differences are paired."""
    rng = np.random.default_rng(random_state)
    scores = np.empty((n_resamples, len(scorers)))
    n_units = int(unit.max()) + 1
    for b in range(n_resamples):
        counts = np.bincount(rng.integers(n_units, size=n_units), minlength=n_units).astype(np.float64)
        scores[b] = [scorer(counts[unit]) for scorer in scorers]
    return scores


def _with_interval(value: float, resampled: Floats) -> dict[str, float | None]:
    known = resampled[np.isfinite(resampled)]
    low, high = np.percentile(known, [2.5, 97.5]) if len(known) else (np.nan, np.nan)
    return {"value": number(value), "low": number(low), "high": number(high)}


def score_models(
    target: NDArray[Any],
    predictions: Mapping[str, Floats],
    metrics: Sequence[PageMetric],
    random_state: int,
    groups: NDArray[np.int64] | None = None,
) -> dict[str, Any]:
    """Every metric of every model with its 95 % percentile interval, and the lead of the first over the others.

    ``predictions`` are probabilities (n_rows, n_classes) or values (n_rows,), those of the report's model first.
    Returns ``resamples``, ``scores[name][metric]`` and ``leads[name][metric]``: first minus other.
    """
    n_rows = len(target)
    width = sum(prediction.size for prediction in predictions.values())
    n_resamples = int(np.clip(2e8 / width, 200, 1000))  # some seconds at most, however many rows
    scorers = [metric.scorer(target, p) for p in predictions.values() for metric in metrics]
    values = np.array([scorer(np.ones(n_rows)) for scorer in scorers]).reshape(-1, len(metrics))
    unit = np.arange(n_rows) if groups is None else np.unique(groups, return_inverse=True)[1]
    resampled = _bootstrap(scorers, unit, n_resamples, random_state).reshape(n_resamples, -1, len(metrics))
    scores, leads = {}, {}
    for i, name in enumerate(predictions):
        scores[name] = {
            metric.key: _with_interval(values[i, j], resampled[:, i, j]) for j, metric in enumerate(metrics)
        }
        if i > 0:
            leads[name] = {
                metric.key: _with_interval(values[0, j] - values[i, j], resampled[:, 0, j] - resampled[:, i, j])
                for j, metric in enumerate(metrics)
            }
    return {"resamples": n_resamples, "scores": scores, "leads": leads}
