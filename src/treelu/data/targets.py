"""Targets of a network: losses on batches of rows, metrics on whole tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax

from treelu.data.folds import Fold, Folding, folds
from treelu.kernels import compiled

Task = Literal["binary", "multiclass", "regression"]


class KernelTargets(NamedTuple):
    """Arrays that the loss kernels read; None where there is none. Either labels or y is given."""

    labels: NDArray[np.int64] | None
    y: NDArray[Any] | None
    weight: NDArray[Any] | None
    offset: NDArray[Any] | None
    is_binary: bool


@dataclass(frozen=True)
class Targets:
    """The targets of all rows of a table, their weights, and scores that are added to the network's own.

    "binary": cross entropy on a raw score for each label; y (n, L) of 0, 1 and, where L > 1, NaN for a label that was
    not observed. "multiclass": cross entropy on K raw scores; y (n,) of class numbers. "regression": squared error;
    y (n, L) of real values.

    Examples
    --------
    >>> targets = Targets("regression", np.array([[1.0], [3.0]]), 1)
    >>> targets.score(np.array([[1.0]]), np.array([1]))
    2.0
    """

    task: Task
    y: NDArray[Any]
    n_outputs: int  # L, K or L
    weight: NDArray[Any] | None = None  # (n,): a batch's loss is the weighted mean, with the table's mean weight as 1
    offset: NDArray[Any] | None = None  # (n, n_outputs): the stored sum of an ensemble's earlier members
    unit: NDArray[Any] | None = None  # (n_outputs,): what scaled regression targets were divided by
    folding: Folding | None = None  # which rows belong together, or the folds, where rows are held out

    def __len__(self) -> int:
        return len(self.y)

    @property
    def n_columns(self) -> int:
        """The columns of a prediction: probabilities of the classes, or values."""
        return 2 if self.task == "binary" else self.n_outputs

    def weights(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The weights of some rows, 1 where there are none."""
        return np.ones(len(rows)) if self.weight is None else self.weight[rows].astype(np.float64)

    def class_numbers(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The class of each of some rows; 0 in regression."""
        return np.zeros(len(rows)) if self.task == "regression" else self.y.reshape(-1)[rows]

    def groups(self, rows: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """The groups of some rows, where there are any."""
        return None if self.folding is None or self.folding.groups is None else self.folding.groups[rows]

    def folds(self, rows: NDArray[np.int64], n_folds: int, seed: int, *, per_class: bool = False) -> list[Fold]:
        """The folds of some rows, as places among them; see `treelu.data.folds.folds`."""
        folding = None if self.folding is None else self.folding.part(rows)
        return folds(
            self.class_numbers(rows),
            n_folds,
            np.random.default_rng(seed),
            folding,
            None if self.weight is None else self.weight[rows],
            are_classes=self.task != "regression",
            per_class=per_class,
        )

    def arrays(self) -> KernelTargets:
        """The same as kernels take it."""
        of_classes = self.y.ndim == 1
        labels = np.ascontiguousarray(self.y, np.int64) if of_classes else None
        y, weight, offset = (
            None if array is None else np.ascontiguousarray(array)
            for array in (None if of_classes else self.y, self.weight, self.offset)
        )
        return KernelTargets(labels, y, weight, offset, self.task == "binary")

    def loss(self, output: NDArray[Any], index: NDArray[np.int64]) -> float:
        """The mean loss of outputs (B, n_outputs) for the rows `index`."""
        return self.loss_and_gradient(output.T, index)[0]

    def loss_and_gradient(self, output: NDArray[Any], index: NDArray[np.int64]) -> tuple[float, NDArray[Any]]:
        """`loss`, and its gradient with respect to outputs (n_outputs, B)."""
        output = np.array(output, order="C")  # the stored scores are added to it
        gradient = np.empty_like(output)
        return compiled.mean_loss(output, *self.arrays(), np.ascontiguousarray(index, np.int64), gradient), gradient

    def score(self, output: NDArray[Any], index: NDArray[np.int64]) -> float:
        """The task's score (see `METRICS`) of outputs for the rows `index`, in the units of the raw targets."""
        y, scores = self.y[index], np.asarray(output, np.float64)
        if self.offset is not None:
            scores = scores + self.offset[index]
        if self.unit is not None:
            y, scores = y * self.unit, scores * self.unit
        weight = None if self.weight is None else self.weight[index].astype(np.float64)
        return METRICS[self.task].function(y, scores, weight)


@dataclass(frozen=True)
class Metric:
    """A score with its name and direction; `function(y, raw_scores, weight)`."""

    name: str
    function: Callable[[NDArray, NDArray, NDArray | None], float]
    greater_is_better: bool

    def improves(self, score: float, best: float | None) -> bool:
        """Whether `score` is better than `best`; never where it is not a number."""
        return not math.isnan(score) and (best is None or (score > best if self.greater_is_better else score < best))


def roc_auc(y: NDArray, scores: NDArray, weight: NDArray | None = None) -> float:
    """Area under the ROC curve, ties counted half; NaN where only one class is present."""
    y, scores = y.reshape(-1) > 0.5, scores.reshape(-1)
    if np.isnan(scores).any():
        return float("nan")
    weight = np.ones(len(y)) if weight is None else weight
    order, place = np.unique(scores, return_inverse=True)
    negative = np.bincount(place, np.where(y, 0, weight), len(order))
    positive = np.bincount(place, np.where(y, weight, 0), len(order))
    below = np.cumsum(negative) - negative / 2
    total = positive.sum() * negative.sum()
    return float((positive * below).sum() / total) if total else float("nan")


def mean_roc_auc(y: NDArray, scores: NDArray, weight: NDArray | None = None) -> float:
    """The mean over labels of the AUC on the rows where a label was observed, of labels that have one there."""
    if scores.ndim == 1 or scores.shape[1] == 1:
        return roc_auc(y, scores, weight)
    found = []
    for label, own in zip(y.T, scores.T, strict=True):
        seen = ~np.isnan(label)
        found.append(roc_auc(label[seen], own[seen], None if weight is None else weight[seen]))
    known = [area for area in found if not math.isnan(area)]
    return float(np.mean(known)) if known else float("nan")


def log_loss(y: NDArray, scores: NDArray, weight: NDArray | None = None) -> float:
    """Mean cross entropy of raw scores: one column for two classes, one per class for more."""
    return float(np.average(cross_entropies(y, scores), weights=weight))


def cross_entropies(y: NDArray, scores: NDArray) -> NDArray:
    """The cross entropy of each row's raw scores."""
    if scores.ndim == 1 or scores.shape[1] == 1:
        sign = np.where(y.reshape(-1) > 0.5, 1.0, -1.0)
        return np.logaddexp(0, -sign * scores.reshape(-1))
    return -log_softmax(scores, axis=1)[np.arange(len(y)), y.astype(np.int64)]


def root_mean_squared_error(y: NDArray, scores: NDArray, weight: NDArray | None = None) -> float:
    """RMSE over all rows and outputs."""
    squared = (np.asarray(y, float).reshape(len(y), -1) - scores.reshape(len(scores), -1)) ** 2
    return float(np.sqrt(np.average(squared.mean(axis=1), weights=weight)))


METRICS: dict[Task, Metric] = {
    "binary": Metric("auc", mean_roc_auc, True),
    "multiclass": Metric("log_loss", log_loss, False),
    "regression": Metric("rmse", root_mean_squared_error, False),
}


def reordered_scores(scores: NDArray[np.float64], places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Raw scores or probabilities (..., L) where class k takes those of class `places[k]`.

    One column is the score of the second of two classes.
    """
    if scores.shape[-1] == 1:
        return -scores if places[0] == 1 else scores
    return scores.take(places, axis=-1)


def predictions(scores: NDArray, task: Task) -> NDArray:
    """Predictions from raw scores: class probabilities, or in regression the values themselves."""
    return scores if task == "regression" else probabilities(scores)


def probabilities(scores: NDArray) -> NDArray:
    """Class probabilities from raw scores: one column means two classes."""
    if scores.shape[1] == 1:
        positive = expit(scores[:, 0])
        return np.column_stack([1 - positive, positive])
    return np.exp(log_softmax(scores, axis=1))
