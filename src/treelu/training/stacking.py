"""Stacking: parts of different kinds, with weights fitted to out-of-fold predictions.

Two classes and more: the probabilities are a product of the parts' own,

    p(y | x) ∝ Π_c p̃_c(y | x)^(b_c),   b_c ≥ 0,   p̃ = (1 − ε) p + ε / K

with the class frequencies as one part, so that uninformative parts are shrunk towards these. Values: a sum,

    v(x) = ȳ + Σ_c b_c (v_c(x) − ȳ),   b_c ≥ 0.

The weights minimise cross entropy, or squared error, of rows held out, values clipped to the range of the targets, so
that no single row decides; both problems are convex. A small l2 penalty shrinks the weights of classes
towards equal ones, so that parts that make no error on few rows are not taken to be certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, nnls
from scipy.special import log_softmax

from treelu.data.targets import METRICS, Targets, Task, predictions
from treelu.nn import Table
from treelu.training.boosting import Ensemble
from treelu.training.calibration import within_range
from treelu.training.forest import Forest, Trees
from treelu.training.loop import evaluate

if TYPE_CHECKING:
    from treelu.persistence.values import ArrayReader, ArrayWriter, Fields

FLOOR = 0.01  # ε: no part is ever certain
PENALTY = 2.0  # l2 penalty on the distance of the weights from equal ones, in rows


@dataclass
class Stack:
    """Networks in groups, and parts made of trees, with a weight for each part.

    Attributes
    ----------
    task : {"binary", "multiclass", "regression"}
    networks : Ensemble
        The members of all groups.
    groups : array of int
        The group of each member; a group is a part, the mean of its members.
    trees : list of Trees
        The parts that come after the groups.
    weights : array of shape (1 + n_groups + n_trees,)
        b of the constant (in regression 0) and of each part.
    constant : array
        The classes' log frequencies, or the mean target.
    """

    task: Task
    networks: Ensemble
    groups: NDArray[np.int64]
    trees: list[Trees]
    weights: NDArray[np.float64]
    constant: NDArray[np.float64]

    @property
    def n_groups(self) -> int:
        """How many groups of networks there are."""
        return int(self.groups.max()) + 1 if len(self.groups) else 0

    def reordered(self, places: NDArray[np.int64]) -> Stack:
        """The same where class k takes the scores of class `places[k]`."""
        networks, trees = self.networks.reordered(places), [part.reordered(places) for part in self.trees]
        return replace(self, networks=networks, trees=trees, constant=self.constant[places])

    def scores(self, table: Table) -> NDArray[np.float64]:
        """Raw scores, or values, of raw rows."""
        return combined(self.parts(table), self.weights, self.constant, self.task)

    def parts(self, table: Table) -> list[NDArray[np.float64]]:
        """The predictions of each part for raw rows: probabilities (n, classes), or values (n, L)."""
        found: list[NDArray[np.float64]] = []
        for group in range(self.n_groups):
            total: NDArray[np.float64] | float = 0.0
            numbers = np.flatnonzero(self.groups == group)
            for number in numbers.tolist():
                total = total + predictions(evaluate(self.networks.part(number), table), self.task)
            found.append(np.asarray(total) / len(numbers))
        return found + [part.outputs(table, self.task) for part in self.trees]


def combined(
    parts: Sequence[NDArray[np.float64]], weights: NDArray[np.float64], constant: NDArray[np.float64], task: Task
) -> NDArray[np.float64]:
    """Raw scores, or values, from the parts' predictions; for two classes one column of log-odds.

    Examples
    --------
    >>> parts = [np.array([[0.2, 0.8]]), np.array([[0.4, 0.6]])]
    >>> scores = combined(parts, np.array([0.0, 0.5, 0.5]), np.log([0.5, 0.5]), "binary")
    >>> predictions(scores, "binary").round(3)
    array([[0.292, 0.708]])
    """
    if task == "regression":
        return constant + sum((b * (part - constant) for b, part in zip(weights[1:], parts, strict=True)), 0.0)
    total = weights[0] * constant + sum(
        (b * logs(part) for b, part in zip(weights[1:], parts, strict=True)), np.zeros_like(parts[0])
    )
    return total[:, 1:] - total[:, :1] if task == "binary" else total


def logs(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """log p̃ of probabilities (n, classes)."""
    return np.log((1 - FLOOR) * p + FLOOR / p.shape[1])


def find_weights(
    parts: Sequence[NDArray[np.float64]], targets: Targets, rows: NDArray[np.int64], constant: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The weights with the least loss on rows held out of all parts; equal ones where there are no such rows.

    Parameters
    ----------
    parts : sequence of arrays
        Out-of-fold predictions of each part; NaN where there are none.
    targets, rows
        The targets, and the rows of the table that `parts` predict.
    constant : array
        The classes' log frequencies, or the mean target.

    Examples
    --------
    >>> y = np.array([0.0, 1.0, 2.0, 3.0])
    >>> good, bad = y[:, None] * 0.9, np.array([[3.0], [0.0], [0.0], [3.0]])
    >>> find_weights([good, bad], Targets("regression", y[:, None], 1), np.arange(4), np.array([0.0])).round(2)
    array([0.  , 1.11, 0.  ])
    """
    held_out = np.all([np.isfinite(part).all(axis=1) for part in parts], axis=0)
    equal = np.concatenate([[0.0], np.full(len(parts), 1 / len(parts))])
    if not held_out.any():
        return equal
    y = targets.y[rows[held_out]]
    weight = targets.weights(rows[held_out])
    if not weight.any():
        return equal
    seen = [part[held_out] for part in parts]
    if targets.task == "regression":
        root = np.sqrt(weight)[:, None]
        system = np.column_stack([((within_range(part, y) - constant) * root).reshape(-1) for part in seen])
        found, _ = nnls(system, ((y - constant) * root).reshape(-1))
        return np.concatenate([[0.0], found])
    logarithms = np.array([np.broadcast_to(constant, seen[0].shape), *map(logs, seen)])  # (parts, n, classes)
    return _least_cross_entropy(logarithms, y.reshape(-1).astype(np.int64), weight / weight.sum(), equal)


def _least_cross_entropy(
    logarithms: NDArray[np.float64], y: NDArray[np.int64], weight: NDArray[np.float64], start: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The weights of the parts' log-probabilities (parts, n, classes) with the least loss; `weight` adds up to 1."""
    at, penalty = np.arange(len(y)), PENALTY / len(y)

    def loss_and_gradient(b: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        log_p = log_softmax(np.tensordot(b, logarithms, 1), axis=1)
        residual = np.exp(log_p)
        residual[at, y] -= 1
        loss = penalty * float(((b - start) ** 2).sum()) - float(weight @ log_p[at, y])
        return loss, np.tensordot(logarithms, weight[:, None] * residual, 2) + 2 * penalty * (b - start)

    bounds = [(0.0, None)] * len(start)
    return np.asarray(minimize(loss_and_gradient, start, jac=True, bounds=bounds, method="L-BFGS-B").x)


# Saving


def describe_stack(stack: Stack, arrays: ArrayWriter) -> dict[str, Any]:
    """A stack without its networks, which the ensemble has; its arrays go into `arrays`."""
    for name in ("groups", "weights", "constant"):
        arrays.put(name, getattr(stack, name))
    parts = []
    for number, part in enumerate(stack.trees):
        inner = arrays.under(f"part{number}")
        inner.put("constants", part.constants)
        for place, forest in enumerate(part.forests):
            for name in ("features", "thresholds", "children", "roots", "values"):
                inner.under(f"forest{place}").put(name, getattr(forest, name))
        parts.append({"are_chances": part.are_chances, "n_forests": len(part.forests)})
    return {"task": stack.task, "trees": parts}


def restore_stack(fields: Fields, arrays: ArrayReader, networks: Ensemble, n_features: int) -> Stack:
    """The inverse of `describe_stack`."""
    task: Any = fields.text("task")
    if task not in METRICS:
        raise fields.error(f"unknown task {task!r}")
    n_outputs = len(networks.constant)
    width = 2 if task == "binary" else n_outputs
    groups = arrays.integers("groups", len(networks))
    numbers = np.unique(groups)
    if not np.array_equal(numbers, np.arange(len(numbers))):
        raise fields.error("the groups of networks must be numbered from 0")
    trees = []
    for number, part in enumerate(fields.inners("trees")):
        inner = arrays.under(f"part{number}")
        count, are_chances = part.whole("n_forests", low=1), part.flag("are_chances")
        columns = width if are_chances else n_outputs
        constants = inner.floats("constants", count, columns)
        forests = [_take_forest(inner.under(f"forest{place}"), columns, n_features) for place in range(count)]
        trees.append(Trees(forests, constants, are_chances))
    weights = arrays.floats("weights", 1 + len(numbers) + len(trees))
    if (weights < 0).any():
        raise fields.error("the weights of a stack must not be negative")
    return Stack(task, networks, groups, trees, weights, arrays.floats("constant", width))


def _take_forest(arrays: ArrayReader, n_outputs: int, n_features: int) -> Forest:
    """A forest whose rows all end in a leaf: children come after their parents, and all numbers are there."""
    features = arrays.integers("features", None)
    n_splits = len(features)
    thresholds, children = arrays.floats("thresholds", n_splits), arrays.integers("children", n_splits, 2)
    roots, values = arrays.integers("roots", None), arrays.floats("values", None, n_outputs)
    nodes = np.concatenate([children.reshape(-1), roots])
    fits = (
        bool(((features >= 0) & (features < n_features)).all())
        and bool(((nodes >= -len(values)) & (nodes < n_splits)).all())
        and bool(((children < 0) | (children > np.arange(n_splits)[:, None])).all())
    )
    if not fits or not len(roots):
        raise arrays.error("the nodes of a forest do not fit together")
    return Forest(features, thresholds, children, roots, values, n_features)
