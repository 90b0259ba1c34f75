"""Score cards as the page shows them: the formula of splits with the same weights, and the bands of its score."""

from typing import Any

import numpy as np

from treelu.report.rows import Floats
from treelu.tree import ObliqueTree
from treelu.tree.numbers import short_number
from treelu.view.score_card import Cards, ScoreCard, score_card

MAX_SPLITS = 1000  # of a tree that is looked through
MAX_CARDS = 12
MAX_TERMS = 40  # of a formula


def score_cards(tree: ObliqueTree, scale: Floats) -> list[dict[str, Any]]:
    """The score cards of a tree, the uppermost first; none of a large tree.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0, 2.0], [1.0, 2.0]], [-3, -5], [[2, 1], [3, 4]], [[0.1], [0.4], [0.8]])
    >>> (card,) = score_cards(tree, np.ones(2))
    >>> card["terms"]
    [{'feature': 1, 'factor': '2'}, {'feature': 0, 'factor': '1'}]
    >>> card["bands"][0], card["whole"]
    ({'words': 'below 3', 'node': 2}, True)
    """
    if tree.n_splits > MAX_SPLITS:
        return []
    cards, whole = Cards(tree), score_card(tree) is not None
    found = [card for node in cards.shown() if (card := cards.at(node)) is not None]
    return [_described(card, scale) | {"whole": whole} for card in found[:MAX_CARDS]]


def _described(card: ScoreCard, scale: Floats) -> dict[str, Any]:
    """A card as plain JSON values, the terms of its formula strongest (|weight| × spread) first."""
    used = np.array(card.features)
    strongest = used[np.argsort(-np.abs(card.weights[used]) * scale[used], kind="stable")]
    terms = [{"feature": j, "factor": short_number(card.weights[j])} for j in strongest[:MAX_TERMS].tolist()]
    bands = [{"words": words, "node": band.node} for words, band in zip(card.band_words(), card.bands, strict=True)]
    return {"splits": list(card.splits), "terms": terms, "rest": len(used) - len(terms), "bands": bands}
