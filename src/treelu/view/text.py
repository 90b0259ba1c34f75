"""An ObliqueTree as indented text, and the path of one row in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from treelu.tree import ObliqueTree
from treelu.tree.rows import as_rows, node_scores
from treelu.view.labels import (
    check_scale,
    hidden_words,
    leaf_words,
    leaves_below,
    linear_form,
    number,
    rows_words,
    top_terms,
)


def export_text(
    tree: ObliqueTree, *, top: int = 3, max_depth: int | None = None, digits: int = 3, scale: Any = None
) -> str:
    """The tree as indented text, one node a line.

    Parameters
    ----------
    tree : ObliqueTree
    top : int
        Weights shown at a node, the largest in absolute value; the others are counted.
    max_depth : int, optional
        Branches below this depth are shown as one line with their number of leaves.
    digits : int
        Significant digits of the numbers.
    scale : array of shape (n_features,), optional
        The spread of each feature, such as its standard deviation: the largest weights are then those times
        their feature's spread, which is fair to features of unlike units. The numbers shown stay as they are.

    Returns
    -------
    str

    Examples
    --------
    >>> tree = ObliqueTree(
    ...     weights=[[1, -1], [-4, 1], [0, -3]], biases=[1, 4, 8],
    ...     children=[[1, 2], [3, 4], [5, 6]], values=[[0.0], [1.0], [2.0], [3.0]],
    ...     feature_names=["height", "age"],
    ... )
    >>> print(export_text(tree))
    node 0: height - age + 1 >= 0
    ├─ no:  node 1: -4·height + age + 4 >= 0
    │       ├─ no:  leaf 3: value 0
    │       └─ yes: leaf 4: value 1
    └─ yes: node 2: -3·age + 8 >= 0
            ├─ no:  leaf 5: value 2
            └─ yes: leaf 6: value 3
    """
    lines = []
    below, spread = leaves_below(tree), check_scale(tree, scale)
    stack: list[tuple[int, str, str, int]] = [(0, "", "", 0)]  # node, prefix of its line, of its children, depth
    while stack:
        node, prefix, indent, depth = stack.pop()
        if node < tree.n_splits and depth == max_depth:
            words = hidden_words(below[node])
        elif node < tree.n_splits:
            form = linear_form(tree, tree.node_weights(node), tree.biases[node], top, digits, spread)
            words = f"node {node}: {form} >= 0"
            left, right = (int(child) for child in tree.children[node])
            stack.append((right, f"{indent}└─ yes: ", f"{indent}        ", depth + 1))
            stack.append((left, f"{indent}├─ no:  ", f"{indent}│       ", depth + 1))
        else:
            words = f"leaf {node}: {leaf_words(tree, node - tree.n_splits, top, digits, spread)}"
        rows = rows_words(tree, node)
        lines.append(prefix + words + (f"  [{rows}]" if rows else ""))
    return "\n".join(lines)


def describe_path(tree: ObliqueTree, x: Any, *, top: int = 5, digits: int = 4) -> str:
    """The path of one row in words; see :meth:`treelu.tree.ObliqueTree.describe`."""
    row = _one_row(tree, x)
    node, lines = 0, []
    while node < tree.n_splits:
        parts = tree.node_weights(node) * row
        score = float(node_scores(row[None, :], np.array([0]), tree.weights, tree.biases, node)[0])
        right = score >= 0
        comparison = ">= 0, go right" if right else "< 0, go left"
        lines.append(f"node {node}: {number(score, digits)} {comparison}")
        lines += _contributions(tree, node, row, parts, top, digits)
        node = int(tree.children[node, int(right)])
    leaf = node - tree.n_splits
    lines.append(f"leaf {node}: {leaf_words(tree, leaf, top, digits)}")
    if tree.leaf_weights is not None:
        outputs = tree.decision_function(row[None, :]).reshape(1, -1)
        here = tree.link_outputs(outputs)[0]
        kind = "value" if tree.classes is None else "probabilities"
        lines.append(f"    here: {kind} " + ", ".join(number(value, digits) for value in here))
    return "\n".join(lines)


def _one_row(tree: ObliqueTree, x: Any) -> np.ndarray:
    if not hasattr(x, "ndim"):
        x = np.asarray(x)
    rows = as_rows(np.asarray(x)[None, :] if x.ndim == 1 else x, tree.n_features, tree.feature_names)
    if rows.shape[0] != 1:
        raise ValueError(f"x must be one row, got {rows.shape[0]} rows")
    dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
    return dense[0].astype(np.float64)


def _contributions(
    tree: ObliqueTree, node: int, row: np.ndarray, parts: np.ndarray, top: int, digits: int
) -> list[str]:
    """Lines for the largest terms of a node's score, the sum of the others, and the bias."""
    named = top_terms(parts, top)
    entries = [
        (parts[i], f"{tree.feature_name(i)} = {number(row[i], digits)} "
         f"(weight {number(tree.node_weights(node)[i], digits)})")
        for i in named
    ]  # fmt: skip
    others = np.setdiff1d(np.flatnonzero(parts), named)
    if others.size:
        name = "1 other feature" if others.size == 1 else f"{others.size:,} other features"
        entries.append((parts[others].sum(), name))
    entries.append((tree.biases[node], "bias"))
    numbers = [f"{value + 0.0:+.{digits}g}" for value, _ in entries]
    width = max(len(text) for text in numbers)
    return [f"    {text:<{width}}  {name}" for text, (_, name) in zip(numbers, entries, strict=True)]
