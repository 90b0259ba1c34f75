"""The kernel that takes rows through the trees of a forest."""

from __future__ import annotations

from typing import Any

from treelu.nn.cpu.compile import entry


@entry
def add_leaf_values(
    X: Any, features: Any, thresholds: Any, children: Any, roots: Any, values: Any, total: Any, first: Any, last: Any
) -> None:
    """Add the values of the leaves that rows first … last − 1 reach; see `Forest` for the arrays."""
    for tree in range(roots.shape[0]):
        for row in range(first, last):
            node = roots[tree]
            while node >= 0:
                node = children[node, 1 if X[row, features[node]] >= thresholds[node] else 0]
            for output in range(values.shape[1]):
                total[row, output] += values[~node, output]
