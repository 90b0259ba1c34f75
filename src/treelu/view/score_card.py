"""Score cards: neighbouring splits with the same weights as one formula and a table of bands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise

import numpy as np

from treelu.tree import ObliqueTree
from treelu.tree.numbers import short_number, shown_apart


@dataclass(frozen=True)
class Band:
    """Scores from `low` on and below `high`, and the node that rows with such a score come to."""

    low: float
    high: float
    node: int


@dataclass(frozen=True)
class ScoreCard:
    """A formula and its bands, which stand for some splits of a tree.

    Attributes
    ----------
    splits : tuple of int
        The decision nodes, the uppermost first.
    weights : array of shape (n_features,)
        The formula: the score of a row x is ``weights @ x``.
    bands : tuple of Band
        From the lowest scores to the highest; together they hold every score once.
    unreachable : tuple of int
        Nodes that no score leads to.
    """

    splits: tuple[int, ...]
    weights: np.ndarray
    bands: tuple[Band, ...]
    unreachable: tuple[int, ...] = ()

    @property
    def features(self) -> list[int]:
        """The features of the formula, the largest |weight| first."""
        used = np.flatnonzero(self.weights)
        return [int(feature) for feature in used[np.argsort(-np.abs(self.weights[used]), kind="stable")]]

    def band_words(self, digits: int | None = None) -> list[str]:
        """Each band in words, with so many digits that no two bounds look alike.

        Examples
        --------
        >>> tree = ObliqueTree([[2.0], [2.0]], [-1, -4], [[2, 1], [3, 4]], [[0], [1], [2]])
        >>> score_card(tree).band_words()
        ['below 1', '1 to below 4', '4 or more']
        """
        bounds = [band.low for band in self.bands[1:]]
        texts = [short_number(bound, digits) for bound in bounds]
        if len(set(texts)) < len(texts):
            texts = shown_apart(bounds, digits or 3)
        if not texts:
            return ["any"]
        middle = [f"{low} to below {high}" for low, high in pairwise(texts)]
        return [f"below {texts[0]}", *middle, f"{texts[-1]} or more"]


def score_card(tree: ObliqueTree) -> ScoreCard | None:
    """The score card that a whole tree is, or None: all splits that a row can reach have the same weights.

    Weights may have opposite signs. A row's band is found by the very sums that the tree computes: where its score is
    ``weights @ x``, the node of its band is ``tree.apply(x)``.

    Examples
    --------
    >>> tree = ObliqueTree(
    ...     [[1.0, 2.0], [1.0, 2.0]], [-3, -5], [[2, 1], [3, 4]], [[0.1], [0.4], [0.8]], feature_names=["age", "stage"]
    ... )
    >>> card = score_card(tree)
    >>> card.weights
    array([1., 2.])
    >>> card.bands
    (Band(low=-inf, high=3.0, node=2), Band(low=3.0, high=5.0, node=3), Band(low=5.0, high=inf, node=4))
    """
    card = Cards(tree).at(0) if tree.n_splits > 1 else None
    return card if card is not None and all(band.node >= tree.n_splits for band in card.bands) else None


class Cards:
    """The score cards of a tree that may be cut at a depth, and what leads from each split to the nodes below it."""

    def __init__(self, tree: ObliqueTree, max_depth: int | None = None) -> None:
        self.tree, self.max_depth = tree, max_depth

    @cached_property
    def directions(self) -> list[tuple[bytes, int]]:
        """For each split a digest of its weights, or of their opposites if the first is negative, and the sign."""
        found = []
        for node in range(self.tree.n_splits):
            weights = self.tree.node_weights(node) + 0.0  # no negative zeros
            used = np.flatnonzero(weights)
            sign = -1 if len(used) and weights[used[0]] < 0 else 1
            found.append((blake2b((sign * weights + 0.0).tobytes(), digest_size=16).digest(), sign))
        return found

    @cached_property
    def _depths(self) -> np.ndarray:
        return self.tree.node_depths()

    def branches(self, node: int, digits: int | None = None) -> list[tuple[str, int]]:
        """The answers of a split, or of the score card that it begins, each with the node that it leads to.

        Examples
        --------
        >>> tree = ObliqueTree([[2.0], [2.0]], [-1, -4], [[2, 1], [3, 4]], [[0], [1], [2]])
        >>> Cards(tree).branches(0), Cards(tree, max_depth=1).branches(0)
        ([('below 1', 2), ('1 to below 4', 3), ('4 or more', 4)], [('no', 2), ('yes', 1)])
        """
        card = self.at(node)
        if card is None:
            return list(zip(("no", "yes"), self.tree.children[node].tolist(), strict=True))
        return [(words, band.node) for words, band in zip(card.band_words(digits), card.bands, strict=True)]

    def shown(self, digits: int | None = None) -> dict[int, list[tuple[str, int]]]:
        """The branches of every split that is drawn, each before those below it."""
        found: dict[int, list[tuple[str, int]]] = {}
        waiting = [0]
        for node in waiting:
            if node < self.tree.n_splits and self._depths[node] != self.max_depth:
                found[node] = self.branches(node, digits)
                waiting += [child for _, child in found[node]]
        return found

    def at(self, root: int) -> ScoreCard | None:
        """The card of a split and of those below it that are joined to it and have its weights; None for one alone."""
        tree, weights = self.tree, self.tree.node_weights(root)
        key, upright = self.directions[root]
        if not weights.any():
            return None
        splits, bands, unreachable = [], [], []
        stack = [(root, -np.inf, np.inf)]
        while stack:
            node, low, high = stack.pop()
            if low >= high:
                unreachable.append(node)
                continue
            if node >= tree.n_splits or self.directions[node][0] != key or self._depths[node] == self.max_depth:
                bands.append(Band(float(low), float(high), node))
                continue
            splits.append(node)
            below, above = tree.children[node].tolist()
            bound = -tree.biases[node] + 0.0
            if self.directions[node][1] != upright:  # right where -score + bias >= 0: where score <= bias
                below, above, bound = above, below, np.nextafter(-bound, np.inf)
            stack += [(above, max(low, bound), high), (below, low, min(high, bound))]
        if len(splits) < 2:
            return None
        return ScoreCard(tuple(sorted(splits)), weights, tuple(bands), tuple(unreachable))
