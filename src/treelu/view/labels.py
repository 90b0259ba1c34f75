"""Words for nodes and leaves, shared by the text, DOT and picture exports."""

from __future__ import annotations

from typing import Any

import numpy as np

from treelu.tree import ObliqueTree
from treelu.tree.check import float_array


def top_terms(weights: np.ndarray, top: int, scale: np.ndarray | None = None) -> list[int]:
    """Indices of the ``top`` weights largest in absolute value (times ``scale``), largest first, no zeros.

    Examples
    --------
    >>> top_terms(np.array([0.1, -3.0, 0.0, 2.0]), top=2)
    [1, 3]
    """
    size = np.abs(weights) if scale is None else np.abs(weights * scale)
    order = np.argsort(-size, kind="stable")[: max(0, top)]
    return [int(i) for i in order if size[i] > 0]


def number(value: float, digits: int) -> str:
    """A number to so many significant digits, with a true minus sign left as ASCII.

    Examples
    --------
    >>> number(0.123456, 3), number(-12345.0, 3), number(-0.0, 3)
    ('0.123', '-1.23e+04', '0')
    """
    return f"{value + 0.0:.{digits}g}"


def linear_form(
    tree: ObliqueTree,
    weights: np.ndarray,
    constant: float | None,
    top: int,
    digits: int = 3,
    scale: np.ndarray | None = None,
) -> str:
    """A linear form in the tree's feature names: its largest terms, a count of the rest, the constant.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0, -4.0, 0.5]], [2.0], [[1, 2]], [[0], [1]])
    >>> linear_form(tree, tree.weights[0], 2.0, top=2)
    '-4·x1 + x0 + (1 more) + 2'
    """
    text = ""
    named = top_terms(weights, top, scale)
    for feature in named:
        size = number(abs(weights[feature]), digits)
        term = tree.feature_name(feature) if size == "1" else f"{size}·{tree.feature_name(feature)}"
        text = _append(text, term, weights[feature] < 0)
    rest = int(np.count_nonzero(weights)) - len(named)
    if rest > 0:
        text = _append(text, f"({rest:,} more)", False)
    if constant is not None and (constant != 0 or not text):
        text = _append(text, number(abs(constant), digits), constant < 0)
    return text


def _append(text: str, term: str, negative: bool) -> str:
    if not text:
        return f"-{term}" if negative else term
    return f"{text} {'-' if negative else '+'} {term}"


def leaf_words(tree: ObliqueTree, leaf: int, top: int, digits: int = 3, scale: np.ndarray | None = None) -> str:
    """What leaf ``leaf`` (counted from 0) answers: a value, a class with its probability, or a linear form.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[-2.0], [1.0]], link="logistic", classes=["no", "yes"])
    >>> leaf_words(tree, 0, top=3)
    "class 'no', probability 0.881"
    """
    if tree.leaf_weights is not None:
        forms = [
            linear_form(tree, weights, value, top, digits, scale)
            for weights, value in zip(tree.leaf_weights[leaf], tree.values[leaf], strict=True)
        ]
        kind = "value" if tree.classes is None else "score"
        return f"{kind} " + "; ".join(forms)
    if tree.classes is None:
        return "value " + ", ".join(number(value, digits) for value in tree.values[leaf])
    probability = tree.link_outputs(tree.values[leaf : leaf + 1])[0]
    best = int(probability.argmax())
    return f"class {tree.classes[best].item()!r}, probability {number(probability[best], digits)}"


def check_scale(tree: ObliqueTree, scale: Any) -> np.ndarray | None:
    """The spread of each feature by which weights are compared, or None."""
    return None if scale is None else float_array("scale", scale, (tree.n_features,))


def rows_words(tree: ObliqueTree, node: int) -> str:
    """``120 rows``, where the tree knows how many reach the node; otherwise nothing."""
    if tree.n_samples is None:
        return ""
    count = tree.n_samples[node]
    return f"{count:,.6g} row" + ("" if count == 1 else "s")


def hidden_words(n_leaves: int) -> str:
    """What a collapsed branch hides.

    Examples
    --------
    >>> hidden_words(2), hidden_words(1024)
    ('… 1 split, 2 leaves', '… 1,023 splits, 1,024 leaves')
    """
    return f"… {n_leaves - 1:,} split{'' if n_leaves == 2 else 's'}, {n_leaves:,} leaves"


def leaves_below(tree: ObliqueTree) -> np.ndarray:
    """Leaves under each node, itself included: an int64 array of shape (n_nodes,)."""
    below = np.ones(tree.n_nodes, dtype=np.int64)
    for node in range(tree.n_splits - 1, -1, -1):
        below[node] = below[tree.children[node]].sum()
    return below
