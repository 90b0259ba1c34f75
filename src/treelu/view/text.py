"""An ObliqueTree as indented text."""

from __future__ import annotations

from typing import Any

import numpy as np

from treelu.tree import ObliqueTree
from treelu.tree.numbers import short_number
from treelu.tree.one_hot import one_hot_groups, pairs_as_one_term
from treelu.view.formulas import prediction_ranges
from treelu.view.labels import (
    MAX_LEAVES,
    Top,
    check_scale,
    cut,
    formula_words,
    hidden_words,
    leaf_words,
    leaves_below,
    linear_form,
    range_words,
    rows_words,
    set_words,
)
from treelu.view.score_card import Cards, ScoreCard

WIDEST = 8 * 40  # characters before a line; deeper branches go on in a block below
NAMED = 6  # splits of a score card that are named


def export_text(
    tree: ObliqueTree,
    *,
    top: Top = None,
    max_depth: int | None = None,
    max_leaves: int | None = MAX_LEAVES,
    digits: int | None = None,
    scale: Any = None,
) -> str:
    """The tree as indented text, one node a line; what is deeper than 40 levels goes on in blocks below.

    Neighbouring splits with the same weights are a score card: one line has their formula, and below it stand the
    bands of the score. A split with the same weights as an earlier one refers to that one:
    ``(terms of node 0) >= 3``. A split on a category names its levels: ``paid is yes``. A linear leaf has its formula,
    or refers to an earlier leaf with the same terms, and, where the tree remembers what its training rows held, the
    range of its predictions for all rows like these (:func:`treelu.view.formulas.prediction_ranges`).

    Parameters
    ----------
    tree : ObliqueTree
    top : int or "all", optional
        Terms shown of a formula, the strongest (|weight| × spread) first; the others are counted. None: all where
        there are at most six, else three. "all": every term.
    max_depth : int, optional
        Branches below this depth are shown as one line with their number of leaves. None: as deep as ``max_leaves``
        allows.
    max_leaves : int or None
        Ends of branches shown at most when ``max_depth`` is None; the last line then says how many leaves are left
        out. None: all.
    digits : int, optional
        Significant digits of the numbers. None: weights and thresholds that have at most six are shown as they are,
        others to three.
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
    node 0: height - age >= -1
    ├─ no:  node 1: -4·height + age >= -4
    │       ├─ no:  leaf 3: value 0
    │       └─ yes: leaf 4: value 1
    └─ yes: node 2: -3·age >= -8
            ├─ no:  leaf 5: value 2
            └─ yes: leaf 6: value 3
    >>> card = ObliqueTree([[1.0, -1.0], [1.0, -1.0]], [-1, -3], [[2, 1], [3, 4]], [[0], [1], [2]])
    >>> print(export_text(card))
    nodes 0, 1: score x0 - x1
    ├─ below 1:      leaf 2: value 0
    ├─ 1 to below 3: leaf 3: value 1
    └─ 3 or more:    leaf 4: value 2
    """
    tree = pairs_as_one_term(tree, one_hot_groups(tree))
    max_depth, note = cut(tree, max_depth, max_leaves)
    lines = _Lines(tree, top, max_depth, digits, check_scale(tree, scale)).written()
    return "\n".join([*lines, "", note] if note else lines)


class _Lines:
    """The lines of one text."""

    def __init__(self, tree: ObliqueTree, top: Top, max_depth: int, digits: int | None, scale: np.ndarray) -> None:
        self.tree, self.top, self.max_depth, self.digits, self.scale = tree, top, max_depth, digits, scale
        self.below, self.cards, self.depths = leaves_below(tree), Cards(tree, max_depth), tree.node_depths()
        self.ranges = prediction_ranges(tree)
        self.shown: dict[tuple[bytes, int], int] = {}  # digests of splits' weights, and the first node that has these
        self.formulas: dict[bytes, int] = {}  # the same of leaves

    def written(self) -> list[str]:
        """All lines."""
        lines: list[str] = []
        later = [0]  # nodes with a block of their own
        for root in later:
            if lines:
                lines.append("")
            stack = [(root, "", "")]  # node, prefix of its line, of those below it
            while stack:
                node, prefix, indent = stack.pop()
                words, branches = self._node(node)
                if branches and len(indent) >= WIDEST:
                    words, branches = f"node {node}: goes on below", []
                    later.append(node)
                rows = rows_words(self.tree, node)
                lines.append(prefix + words + (f"  [{rows}]" if rows else ""))
                for place, (answer, child) in reversed(list(enumerate(branches))):
                    corner, rule = ("└─", " ") if place == len(branches) - 1 else ("├─", "│")
                    stack.append((child, f"{indent}{corner} {answer} ", f"{indent}{rule}{' ' * (len(answer) + 3)}"))
        return lines

    def _node(self, node: int) -> tuple[str, list[tuple[str, int]]]:
        """A node in words, and its branches."""
        if node >= self.tree.n_splits:
            leaf = node - self.tree.n_splits
            words = self._leaf(leaf)
            ends = range_words(self.tree, self.ranges[leaf], self.digits)
            return f"leaf {node}: {words}" + (f" ({ends})" if ends else ""), []
        return (hidden_words(self.below[node]), []) if self.depths[node] == self.max_depth else self._split(node)

    def _leaf(self, leaf: int) -> str:
        """A leaf in words; a formula with the terms of an earlier leaf refers to that one."""
        tree, weights = self.tree, self.tree.leaf_weights
        if weights is None:
            return leaf_words(tree, leaf, self.top, self.digits, self.scale)
        first = self.formulas.setdefault(weights[leaf].tobytes(), tree.n_splits + leaf)
        same = first != tree.n_splits + leaf and np.count_nonzero(weights[leaf], axis=1).max() > 1
        return formula_words(
            tree, leaf, self.top, self.digits, self.scale, f"(terms of leaf {first})" if same else None
        )

    def _split(self, node: int) -> tuple[str, list[tuple[str, int]]]:
        """A split or a score card in words, and its branches."""
        card = self.cards.at(node)
        branches = [(f"{words}:", child) for words, child in self.cards.branches(node, self.digits)]
        width = max(len(words) for words, _ in branches)
        branches = [(words.ljust(width), child) for words, child in branches]
        if card is not None:
            return f"{named_splits(card)}: score {self._form(node)}{_unreachable(card)}", branches
        if (words := set_words(self.tree, node)) is not None:
            return f"node {node}: {words}", branches
        return f"node {node}: {self._form(node)} >= {short_number(-self.tree.biases[node], self.digits)}", branches

    def _form(self, node: int) -> str:
        """The terms of a split, or the node that has shown them."""
        weights = self.tree.node_weights(node)
        first = self.shown.setdefault(self.cards.directions[node], node)
        if first != node and np.count_nonzero(weights) > 1:
            return f"(terms of node {first})"
        return linear_form(self.tree, weights, None, self.top, self.digits, self.scale) or "0"


def _unreachable(card: ScoreCard) -> str:
    n = len(card.unreachable)
    return f" ({n:,} branch{'' if n == 1 else 'es'} that no score leads to left out)" if n else ""


def named_splits(card: ScoreCard) -> str:
    """The splits of a score card by their numbers.

    Examples
    --------
    >>> named_splits(ScoreCard((0, 2), np.ones(1), ())), named_splits(ScoreCard(tuple(range(9)), np.ones(1), ()))
    ('nodes 0, 2', 'nodes 0, 1, 2, 3, 4, 5 and 3 more')
    """
    more = len(card.splits) - NAMED
    return f"nodes {', '.join(map(str, card.splits[:NAMED]))}" + (f" and {more:,} more" if more > 0 else "")
