"""Score cards: bands against the tree's own routing, hostile scores included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tree.trees import random_tree
from treelu.tree import ObliqueTree
from treelu.tree.rows import linear_form
from treelu.view.score_card import Cards, score_card


def card_tree(seed: int, n_splits: int, n_features: int = 3, directions: int = 1) -> ObliqueTree:
    """Splits of few directions, of either sign, with thresholds that repeat."""
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, n_splits, n_features, "identity")
    forms = rng.choice([0.1, -0.7, 1.0, 3.0], (directions, n_features)) * 10.0 ** rng.integers(-3, 4, n_features)
    chosen = forms[rng.integers(directions, size=n_splits)] * rng.choice([-1.0, 1.0], (n_splits, 1))
    biases = rng.choice([-0.0, 0.1, 0.3, 0.1 + 0.2, -5.0, 1e-300, 7.0], n_splits)
    return ObliqueTree(chosen.reshape(n_splits, n_features), biases, tree.children, tree.values)


def rows_at_bounds(tree: ObliqueTree, rng: np.random.Generator) -> np.ndarray:
    """Rows at random and rows whose scores lie on thresholds or a float beside them."""
    rows = rng.normal(size=(60, tree.n_features)) * 10.0 ** rng.integers(-4, 5, (60, 1))
    single = np.zeros((3 * tree.n_splits, tree.n_features))
    for node in range(tree.n_splits):
        weight = tree.node_weights(node)[0]
        on = -tree.biases[node] / weight
        single[3 * node : 3 * node + 3, 0] = [on, np.nextafter(on, np.inf), np.nextafter(on, -np.inf)]
    return np.vstack([rows, single, np.zeros((1, tree.n_features))])


@given(seed=st.integers(0, 2**32 - 1), n_splits=st.integers(2, 12))
@settings(max_examples=150, deadline=None)
def test_the_band_of_a_score_is_the_leaf_of_the_row(seed, n_splits):
    tree = card_tree(seed, n_splits)
    card = score_card(tree)
    if card is None:  # below the root nothing can be reached
        assert Cards(tree).at(0) is None
        return
    lows, highs = ([getattr(band, end) for band in card.bands] for end in ("low", "high"))
    assert lows[0] == -np.inf
    assert highs[-1] == np.inf
    assert lows[1:] == highs[:-1]
    rows = rows_at_bounds(tree, np.random.default_rng(seed))
    scores = linear_form(rows, np.arange(len(rows)), card.weights)
    band = np.searchsorted(lows, scores, side="right") - 1
    np.testing.assert_array_equal(np.array([each.node for each in card.bands])[band], tree.apply(rows))
    ends = {each.node for each in card.bands} | set(card.unreachable)
    assert len(set(card.band_words())) == len(card.bands)
    assert set(tree.apply(rows)) <= ends


@given(seed=st.integers(0, 2**32 - 1), n_splits=st.integers(1, 12), depth=st.integers(0, 5))
@settings(max_examples=100, deadline=None)
def test_cards_within_a_tree_lead_every_row_to_its_leaf(seed, n_splits, depth):
    tree = card_tree(seed, n_splits, directions=2)
    cards, rows = Cards(tree), rows_at_bounds(tree, np.random.default_rng(seed))
    for row, leaf in zip(rows, tree.apply(rows), strict=True):
        node = 0
        while node < tree.n_splits:
            card = cards.at(node)
            score = linear_form(row[None], np.array([0]), tree.node_weights(node))[0]
            if card is None:
                node = int(tree.children[node, int(score + tree.biases[node] >= 0)])
            else:
                (node,) = (band.node for band in card.bands if band.low <= score < band.high)
        assert node == leaf
    shown = Cards(tree, max_depth=depth).shown()
    depths = tree.node_depths()
    assert all(depths[node] < depth for node in shown)
    text = tree.export_text(max_depth=depth)
    assert tree.export_graphviz(max_depth=depth).count("->") == sum(map(len, shown.values()))
    assert len(text.splitlines()) == 1 + sum(map(len, shown.values()))


def test_other_trees_are_no_score_card():
    assert score_card(ObliqueTree([[1.0]], [0.0], [[1, 2]], [[0], [1]])) is None
    assert score_card(ObliqueTree([[1.0], [2.0]], [0, 1], [[1, 2], [3, 4]], [[0], [1], [2]])) is None
    assert score_card(ObliqueTree([[0.0], [0.0]], [0, 1], [[1, 2], [3, 4]], [[0], [1], [2]])) is None
    assert score_card(ObliqueTree(np.zeros((0, 2)), [], np.zeros((0, 2)), [[1.0]])) is None


def test_an_opposite_split_keeps_its_own_side_of_the_bound():
    """-x + 2 >= 0 holds at 2 itself, so the upper band begins after it."""
    tree = ObliqueTree([[1.0], [-1.0]], [-1.0, 2.0], [[2, 1], [3, 4]], [[0], [1], [2]])
    card = score_card(tree)
    assert [band.node for band in card.bands] == [2, 4, 3]
    assert card.bands[2].low == np.nextafter(2.0, 3.0)
    assert tree.apply([[2.0], [card.bands[2].low]]).tolist() == [4, 3]


def test_bounds_that_round_alike_are_told_apart():
    tree = ObliqueTree([[1.0], [1.0]], [-0.12345678, -0.12345679], [[2, 1], [3, 4]], [[0], [1], [2]])
    assert score_card(tree).band_words() == [
        "below 0.12345678", "0.12345678 to below 0.12345679", "0.12345679 or more"
    ]  # fmt: skip


def test_branches_that_no_score_leads_to_are_counted():
    tree = ObliqueTree([[1.0], [1.0]], [-1.0, -3.0], [[1, 2], [3, 4]], [[0], [1], [2]])
    assert "(1 branch that no score leads to left out)" in tree.export_text()


@pytest.mark.parametrize("top", ["some", "ALL"])
def test_top_is_a_number_or_all(top):
    tree = ObliqueTree(np.arange(1.0, 9)[None], [0.0], [[1, 2]], [[0], [1]])
    assert "more" in tree.export_text()
    assert "more" not in tree.export_text(top="all")
    with pytest.raises(ValueError, match='top must be a number of terms, "all" or None, got'):
        tree.export_text(top=top)
