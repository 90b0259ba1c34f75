"""The state of stacks for saving, as arrays and JSON, and back: groups of networks, trees, the weights of the parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from treelu.training.boosting import Ensemble
from treelu.training.forest import Forest
from treelu.training.stacking import Stack, Trees
from treelu.training.targets import METRICS

if TYPE_CHECKING:
    from treelu.persistence.values import ArrayReader, ArrayWriter, Fields


def describe_stack(stack: Stack, arrays: ArrayWriter) -> dict[str, Any]:
    """A stack without its networks, which the ensemble has; its arrays go into `arrays`."""
    for name in ("groups", "weights", "constant"):
        arrays.put(name, getattr(stack, name))
    parts = []
    for number, part in enumerate(stack.trees):
        inner = arrays.under(f"part{number}")
        inner.put("constants", part.constants)
        for place, forest in enumerate(part.forests):
            _put_forest(forest, inner.under(f"forest{place}"))
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


def _put_forest(forest: Forest, arrays: ArrayWriter) -> None:
    for name in ("features", "thresholds", "children", "roots", "values"):
        arrays.put(name, getattr(forest, name))


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
