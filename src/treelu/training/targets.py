"""What a network is trained for and judged by: losses on batches of rows, scores on whole tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, log_softmax
from torch import Tensor
from torch.nn import functional as F

Task = Literal["binary", "multiclass", "regression"]
NO_WEIGHT = np.empty(0, np.float32)


@dataclass(frozen=True)
class Targets:
    """The targets of all rows of a table, their weights, and scores that are added to the network's own.

    Parameters
    ----------
    task : {"binary", "multiclass", "regression"}
        Cross entropy on a raw score for each label, on K raw scores, or squared error.
    y : Tensor
        (n, L) of 0, 1 and, where L > 1, NaN for a label that was not observed; (n,) of class numbers; or (n, L) of
        real values.
    n_outputs : int
        L, K or L.
    weight : Tensor of shape (n,), optional
        Weights of the rows; a batch's loss is the weighted mean over its rows with the table's mean weight as 1.
    offset : Tensor of shape (n, n_outputs), optional
        The stored sum of an ensemble's earlier members.
    unit : Tensor of shape (n_outputs,), optional
        What scaled regression targets were divided by.

    Examples
    --------
    >>> targets = Targets("regression", torch.tensor([[1.0], [3.0]]), 1)
    >>> targets.loss(torch.tensor([[1.0]]), torch.tensor([1]))
    tensor(4.)
    """

    task: Task
    y: Tensor
    n_outputs: int
    weight: Tensor | None = None
    offset: Tensor | None = None
    unit: Tensor | None = None

    def __len__(self) -> int:
        return len(self.y)

    def loss(self, output: Tensor, index: Tensor) -> Tensor:
        """The mean loss of outputs (B, n_outputs) for the rows `index`."""
        if self.offset is not None:
            output = output + self.offset[index]
        reduction = "mean" if self.weight is None else "none"
        y = self.y[index]
        if self.task == "binary" and self.n_outputs > 1:
            loss = _observed_cross_entropy(output, y)
            loss = loss if self.weight is not None else loss.mean()
        elif self.task == "binary":
            loss = F.binary_cross_entropy_with_logits(output, y, reduction=reduction)
        elif self.task == "multiclass":
            loss = F.cross_entropy(output, y, reduction=reduction)
        else:
            loss = F.mse_loss(output, y, reduction=reduction)
        if self.weight is None:
            return loss
        per_row = loss if loss.dim() == 1 else loss.mean(dim=1)
        return (per_row * self.weight[index]).mean()

    def loss_and_gradient(self, output: NDArray, index: NDArray[np.int64]) -> tuple[float, NDArray]:
        """`loss` and its gradient with respect to outputs (n_outputs, B), by Numba kernels."""
        from treelu.training import losses as _losses  # Numba may be absent where the torch form runs

        if self.offset is not None:
            output = output + self.offset.numpy()[index].T
        weight = NO_WEIGHT if self.weight is None else self.weight.numpy()
        gradient = np.empty_like(output)
        kernel = {"binary": _losses.logistic, "multiclass": _losses.softmax, "regression": _losses.squared}[self.task]
        return kernel(output, self.y.numpy(), weight, index, gradient), gradient

    def to(self, device: torch.device, dtype: torch.dtype) -> Targets:
        """The same on another device; class numbers stay integers."""
        floats = {name: getattr(self, name) for name in ("weight", "offset", "unit")}
        moved = {name: None if t is None else t.to(device, dtype) for name, t in floats.items()}
        y = self.y.to(device) if self.task == "multiclass" else self.y.to(device, dtype)
        return replace(self, y=y, weight=moved["weight"], offset=moved["offset"], unit=moved["unit"])

    def score(self, output: Tensor, index: NDArray[np.int64]) -> float:
        """The task's score (see `METRICS`) of outputs for the rows `index`, in the units of the raw targets."""
        rows = torch.from_numpy(index)
        y, scores = self.y[rows], output.detach()
        if self.offset is not None:
            scores = scores + self.offset[rows]
        if self.unit is not None:
            y, scores = y * self.unit, scores * self.unit
        weight = None if self.weight is None else self.weight[rows].double().cpu().numpy()
        return METRICS[self.task].function(y.cpu().numpy(), scores.double().cpu().numpy(), weight)


def _observed_cross_entropy(output: Tensor, y: Tensor) -> Tensor:
    """Cross entropy (B, L) of several labels, 0 where one was not observed; its mean is over the observed ones."""
    observed = ~torch.isnan(y)
    loss = F.binary_cross_entropy_with_logits(
        output, torch.nan_to_num(y), weight=observed.to(y.dtype), reduction="none"
    )
    return loss * (observed.numel() / observed.sum().clamp(min=1))


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
    """Area under the ROC curve, ties counted half; NaN where only one class is present.

    Examples
    --------
    >>> roc_auc(np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.35, 0.8]))
    0.75
    """
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
    """The mean over labels of the AUC on the rows where a label was observed, of labels that have one there.

    Examples
    --------
    >>> y = np.array([[0, 1], [1, np.nan], [1, 0]])
    >>> mean_roc_auc(y, np.array([[0.1, 0.2], [0.4, 0.9], [0.3, 0.7]]))
    0.5
    """
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


def probabilities(scores: NDArray) -> NDArray:
    """Class probabilities from raw scores: one column means two classes."""
    if scores.shape[1] == 1:
        positive = expit(scores[:, 0])
        return np.column_stack([1 - positive, positive])
    return np.exp(log_softmax(scores, axis=1))
