"""An ObliqueTree as DOT text for Graphviz."""

from __future__ import annotations

from typing import Any

import numpy as np

from treelu.tree import ObliqueTree
from treelu.tree.numbers import short_number
from treelu.tree.one_hot import one_hot_groups, pairs_as_one_term
from treelu.view.colors import leaf_colors, text_color
from treelu.view.labels import (
    MAX_LEAVES,
    Top,
    check_scale,
    cut,
    formula_terms,
    hidden_words,
    leaf_words,
    leaves_below,
    rows_words,
    set_words,
    term_words,
)
from treelu.view.score_card import Cards


def export_graphviz(
    tree: ObliqueTree,
    *,
    top: Top = None,
    max_depth: int | None = None,
    max_leaves: int | None = MAX_LEAVES,
    digits: int | None = None,
    scale: Any = None,
) -> str:
    """The tree as DOT text; ``dot -Tsvg`` draws it. A score card is one box, its bands stand at the edges.

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
      0 [label="x0\\n-x1\\n>= -0.5"];
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
    tree = pairs_as_one_term(tree, one_hot_groups(tree))
    max_depth, note = cut(tree, max_depth, max_leaves)
    if note:
        lines.append(f'  graph [label={_quoted(note)}, labelloc=t, fontname="Helvetica"];')
    below, colors, spread = leaves_below(tree), leaf_colors(tree), check_scale(tree, scale)
    cards = Cards(tree, max_depth)
    shown = cards.shown(digits)
    stack = [0]
    while stack:
        node = stack.pop()
        style = ""
        if node >= tree.n_splits:
            color = colors[node - tree.n_splits]
            words = leaf_words(tree, node - tree.n_splits, top, digits, spread).replace(", ", "\n")
            style = f', fillcolor="{color}", fontcolor="{text_color(color)}"'
        elif node not in shown:
            words, style = hidden_words(below[node]).replace(", ", "\n"), ", style=dashed"
        else:
            words = _split_words(tree, node, top, digits, spread)
            bound = short_number(-tree.biases[node], digits)
            if cards.at(node):
                words = f"score\n{words}"
            elif (of_set := set_words(tree, node)) is not None:
                words = of_set.replace(", ", ",\n")
            else:
                words = f"{words}\n>= {bound}".lstrip()
        if rows := rows_words(tree, node):
            words += "\n" + rows
        lines.append(f"  {node} [label={_quoted(words)}{style}];")
        branches = shown.get(node, [])
        lines += [f"  {node} -> {child} [label={_quoted(answer)}];" for answer, child in branches]
        stack += [child for _, child in reversed(branches)]
    return "\n".join([*lines, "}"])


def _split_words(tree: ObliqueTree, node: int, top: Top, digits: int | None, scale: np.ndarray) -> str:
    """The terms of a node's split, one on each line."""
    weights = tree.node_weights(node)
    terms, rest = formula_terms(tree, weights, scale, top)
    lines: list[str] = []
    for term in terms:
        words, negative = term_words(term, weights, digits, every=top == "all")
        lines.append(("-" if negative else "+" if lines else "") + words)
    return "\n".join([*lines, *([f"+ ({rest:,} more)"] if rest > 0 else [])])


def _quoted(text: str) -> str:
    """A DOT string: backslashes, quotes and ampersands (DOT knows HTML's entities) escaped, lines by ``\\n``."""
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("&", "&amp;"), ("\n", "\\n")):
        text = text.replace(plain, escaped)
    return f'"{text}"'
