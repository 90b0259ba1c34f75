"""An ObliqueTree as DOT text for Graphviz."""

from __future__ import annotations

from typing import Any

import numpy as np

from treelu.tree import ObliqueTree
from treelu.tree.names import shown_name
from treelu.view.colors import leaf_colors, text_color
from treelu.view.labels import (
    MAX_LEAVES,
    check_scale,
    cut,
    hidden_words,
    leaf_words,
    leaves_below,
    number,
    rows_words,
    strongest_terms,
)


def export_graphviz(
    tree: ObliqueTree,
    *,
    top: int | None = None,
    max_depth: int | None = None,
    max_leaves: int | None = MAX_LEAVES,
    digits: int = 3,
    scale: Any = None,
) -> str:
    """The tree as DOT text; ``dot -Tsvg`` draws it.

    Parameters
    ----------
    tree : ObliqueTree
    max_depth : int, optional
        Branches below this depth become one box with their number of leaves. None: as deep as ``max_leaves`` allows.
    max_leaves : int or None
        Ends of branches drawn at most when ``max_depth`` is None; the graph's label then says how many leaves are left
        out. None: all.
    top, digits, scale
        As for :func:`treelu.view.export_text`.

    Returns
    -------
    str

    Examples
    --------
    >>> tree = ObliqueTree([[1.0, -1.0]], [0.5], [[1, 2]], [[0], [1]])
    >>> print(export_graphviz(tree))
    digraph tree {
      node [shape=box, style="rounded,filled", fillcolor="#ffffff", fontname="Helvetica"];
      edge [fontname="Helvetica"];
      0 [label="x0\\n-x1\\n+0.5\\n>= 0"];
      0 -> 1 [label="no"];
      0 -> 2 [label="yes"];
      1 [label="value 0", fillcolor="#3b6fb6", fontcolor="#ffffff"];
      2 [label="value 1", fillcolor="#d6603d", fontcolor="#ffffff"];
    }
    """
    lines = [
        "digraph tree {",
        '  node [shape=box, style="rounded,filled", fillcolor="#ffffff", fontname="Helvetica"];',
        '  edge [fontname="Helvetica"];',
    ]
    max_depth, note = cut(tree, max_depth, max_leaves)
    if note:
        lines.append(f'  graph [label={_quoted(note)}, labelloc=t, fontname="Helvetica"];')
    below, colors, spread = leaves_below(tree), leaf_colors(tree), check_scale(tree, scale)
    stack = [(0, 0)]
    while stack:
        node, depth = stack.pop()
        if node >= tree.n_splits:
            color = colors[node - tree.n_splits]
            words = leaf_words(tree, node - tree.n_splits, top, digits, spread).replace(", ", "\n")
            style = f', fillcolor="{color}", fontcolor="{text_color(color)}"'
        elif depth == max_depth:
            words, style = hidden_words(below[node]).replace(", ", "\n"), ", style=dashed"
        else:
            words, style = _split_words(tree, node, top, digits, spread), ""
        if rows := rows_words(tree, node):
            words += "\n" + rows
        lines.append(f"  {node} [label={_quoted(words)}{style}];")
        if node < tree.n_splits and depth != max_depth:
            left, right = (int(child) for child in tree.children[node])
            lines += [f'  {node} -> {left} [label="no"];', f'  {node} -> {right} [label="yes"];']
            stack += [(right, depth + 1), (left, depth + 1)]
    return "\n".join([*lines, "}"])


def _split_words(tree: ObliqueTree, node: int, top: int | None, digits: int, scale: np.ndarray) -> str:
    """A node's test, one term per line."""
    weights = tree.node_weights(node)
    named = strongest_terms(weights, scale, top)
    terms: list[str] = []
    for feature in named:
        size = number(weights[feature], digits)
        sign = {"1": "", "-1": "-"}.get(size, f"{size}·")
        name = shown_name(tree.feature_name(feature))
        terms.append(("" if not terms or weights[feature] < 0 else "+") + sign + name)
    rest = int((weights != 0).sum()) - len(named)
    if rest > 0:
        terms.append(f"+ ({rest:,} more)")
    return "\n".join([*terms, f"{tree.biases[node] + 0.0:+.{digits}g}", ">= 0"])


def _quoted(text: str) -> str:
    """A DOT string: backslashes, quotes and ampersands (DOT knows HTML's entities) escaped, lines by ``\\n``."""
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("&", "&amp;"), ("\n", "\\n")):
        text = text.replace(plain, escaped)
    return f'"{text}"'
