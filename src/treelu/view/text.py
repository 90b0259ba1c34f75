"""An ObliqueTree as indented text."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

from treelu.tree import ObliqueTree
from treelu.view.labels import (
    MAX_LEAVES,
    append_constant,
    check_scale,
    cut,
    hidden_words,
    leaf_words,
    leaves_below,
    linear_form,
    rows_words,
)

WIDEST = 8 * 40  # characters before a line; deeper branches go on in a block below


def export_text(
    tree: ObliqueTree,
    *,
    top: int | None = None,
    max_depth: int | None = None,
    max_leaves: int | None = MAX_LEAVES,
    digits: int = 3,
    scale: Any = None,
) -> str:
    """The tree as indented text, one node a line; what is deeper than 40 levels goes on in blocks below.

    A split with the same weights as one above it in the text refers to that one: ``(terms of node 0) - 3 >= 0``.

    Parameters
    ----------
    tree : ObliqueTree
    top : int, optional
        Terms shown of a split, the strongest (|weight| × spread) first; the others are counted. None: all where
        there are at most six, else three.
    max_depth : int, optional
        Branches below this depth are shown as one line with their number of leaves. None: as deep as ``max_leaves``
        allows.
    max_leaves : int or None
        Ends of branches shown at most when ``max_depth`` is None; the last line then says how many leaves are left
        out. None: all.
    digits : int
        Significant digits of the numbers.
    scale : array of shape (n_features,), optional
        The spread of each feature by which terms are compared. None: the tree's own ``spreads``, or all the same
        where it has none. The numbers shown are the weights themselves.

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
    lines: list[str] = []
    max_depth, note = cut(tree, max_depth, max_leaves)
    below, spread = leaves_below(tree), check_scale(tree, scale)
    shown: dict[bytes, int] = {}  # digests of splits' weights, and the first node that has these
    later = [(0, 0)]  # nodes with a block of their own, and their depths
    for root, depth in later:
        if lines:
            lines.append("")
        stack = [(root, "", "", depth)]  # node, prefix of its line, of its children, depth
        while stack:
            node, prefix, indent, depth = stack.pop()
            if node < tree.n_splits and depth == max_depth:
                words = hidden_words(below[node])
            elif node < tree.n_splits and len(indent) == WIDEST:
                words = f"node {node}: goes on below"
                later.append((node, depth))
            elif node < tree.n_splits:
                weights, bias = tree.node_weights(node), tree.biases[node]
                first = shown.setdefault(blake2b(weights.tobytes(), digest_size=16).digest(), node)
                if first == node or np.count_nonzero(weights) < 2:
                    form = linear_form(tree, weights, bias, top, digits, spread)
                else:
                    form = append_constant(f"(terms of node {first})", bias, digits)
                words = f"node {node}: {form} >= 0"
                left, right = (int(child) for child in tree.children[node])
                stack.append((right, f"{indent}└─ yes: ", f"{indent}        ", depth + 1))
                stack.append((left, f"{indent}├─ no:  ", f"{indent}│       ", depth + 1))
            else:
                words = f"leaf {node}: {leaf_words(tree, node - tree.n_splits, top, digits, spread)}"
            rows = rows_words(tree, node)
            lines.append(prefix + words + (f"  [{rows}]" if rows else ""))
    return "\n".join([*lines, "", note] if note else lines)
