"""A tree with soft routing: the gradient of its loss, and many AdamW updates in one call of a kernel.

What it computes stands in ``soft_tree.h`` of `treelu.kernels`. Arrays are float32, or all float64. The S splits
stand parents before children, each with a weight for each of D features and a bias behind them. Rows of a batch stand
in the last axis.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treelu.kernels import compiled
from treelu.nn.soft_training import SoftTraining


class Sample(NamedTuple):
    """Rows as columns: B of a batch, or all n in random order."""

    columns: Any  # (D + 1, B) features, and ones in the last row
    target: Any  # (K, B)
    weight: Any  # (1, B)


class Shape(NamedTuple):
    """The fixed part of a soft tree."""

    children: Any  # (S, 2)
    allowed: Any  # (S, D + 1): weights where it is 0 must be 0 and stay so


class Parameters(NamedTuple):
    """The trained parameters, or their gradient."""

    splits: Any  # (S, D + 1)
    values: Any  # (S + 1, K)


def gradient(batch: Sample, shape: Shape, at: Parameters, sharpness: float, how: SoftTraining) -> Parameters:
    """The gradient of a batch's mean loss at some parameters.

    Splits are multiplied by `shape.allowed`, and so is the gradient by them: with DropConnect's factors in its place
    it is that of an update. Of `how` only the kind of loss is read.
    """
    by = Parameters(np.empty_like(at.splits), np.empty_like(at.values))
    compiled.soft_gradient(*batch, *shape, *at, sharpness, how.firmness, how.is_classifier, *by)
    return by


def run_updates(rows: Sample, shape: Shape, at: Parameters, how: SoftTraining, signs: Any = None) -> None:
    """Train the parameters in place, on batches of neighbouring columns of `rows`.

    With `signs` (D + 1), a weight whose sign is not 0 keeps it, and leaf values are ordered.
    """
    compiled.soft_updates(*rows, *shape, signs, *at, *how)


def route(rows: Any, children: Any, splits: Any) -> NDArray[np.int64]:
    """The leaf of each row, numbered from 0: right where z ≥ 0."""
    leaf = np.empty(len(rows), np.int64)
    compiled.route(rows, children, splits, leaf)
    return leaf
