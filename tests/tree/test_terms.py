"""Terms of features and categories, and the numbers to read in splits of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from treelu.tree import ObliqueTree, terms
from treelu.tree.observed import Observed
from treelu.tree.one_hot import LevelSet, level_set
from treelu.tree.to_read import numbers_to_read, split_numbers
from treelu.view.labels import set_words

NAMES = ("age", "region=north", "region=east", "region=south", "region=west")
ROWS = np.hstack([np.arange(8.0)[:, None], np.eye(4)[[0, 1, 2, 3] * 2]])


def tree_of(*splits: list[float]) -> ObliqueTree:
    """A chain of splits; the bias is the last of each."""
    table = np.array(splits)
    children = [[len(splits) + node, node + 1] for node in range(len(splits))]
    children[-1] = [2 * len(splits) - 1, 2 * len(splits)]
    values = np.arange(len(splits) + 1.0)[:, None]
    return ObliqueTree(table[:, :-1], table[:, -1], children, values, feature_names=NAMES, observed=Observed.of(ROWS))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.integers(0, 1000))
def test_strengths_are_norms_of_the_groups(numbers: list[int], seed: int) -> None:
    group = terms.renumbered(np.array(numbers))
    strength = np.random.default_rng(seed).random(len(numbers))
    if group is None:
        assert len(set(numbers)) == len(numbers)
        return
    assert terms.count(len(numbers), group) == len(set(numbers))
    expected = [np.linalg.norm(strength[np.array(numbers) == number]) for number in sorted(set(numbers))]
    np.testing.assert_allclose(terms.strengths(strength, group), expected)


def test_numbers_to_read_of_sets_and_sums() -> None:
    assert numbers_to_read(tree_of([0, 1, 1, 0, 0, -0.5])) == 2 + 2  # region in {north, east}
    assert numbers_to_read(tree_of([0, 1, 0, 0, 0, -0.5])) == 1 + 2  # region is north
    assert numbers_to_read(tree_of([1, 0, 0, 0, 0, -0.5])) == 1 + 2
    assert numbers_to_read(tree_of([1, 0, 2, 3, 0, -0.5])) == 3 + 1 + 2  # age, two levels and the threshold
    assert split_numbers(np.array([[1.0, 4, 2, 3, 5]]), np.array([0, 1, 1, 1, 1])) == 1 + 3 + 1  # one is relative to 0
    both = tree_of([0, 1, 1, 0, 0, -0.5], [1, 0, 2, 3, 0, 3])
    assert (numbers_to_read(both), both.max_terms) == (2 + 3 + 1 + 3, 2)


def test_sets_in_words() -> None:
    tree = tree_of([0, 1, 1, 0, 0, -0.5], [0, -2, 0, 0, 0, 1], [0, 0, -1, -1, 0, 0.5], [1, 1, 0, 0, 0, -3])
    words = ["region in {north, east}", "region is not north", "region not in {east, south}", None]
    assert [set_words(tree, node) for node in range(4)] == words
    assert level_set(tree, 0) == LevelSet("region", ("north", "east"), True)
    text = tree.export_text()
    assert "node 0: region in {north, east}\n" in text
    assert "node 3: (region: north +1) + age >= 3" in text or "node 3: age + region=north >= 3" in text
    graph = tree.export_graphviz()
    assert '"region in {north,\\neast}"' in graph
    assert '"region is not north"' in graph
    drawn = [each.get_text() for each in tree.plot().texts]
    assert [drawn.index(name) for name in ("region", "is one of", "    north", "    east")] == sorted(
        drawn.index(name) for name in ("region", "is one of", "    north", "    east")
    )


def test_words_say_where_each_level_goes() -> None:
    """Of random splits of one category, and of a level that training had not."""
    rng = np.random.default_rng(0)
    unseen = np.zeros((1, 5))
    for _ in range(200):
        split = np.concatenate([[0.0], np.round(rng.normal(size=4), 1), [np.round(rng.normal(), 1)]])
        tree = tree_of(split.tolist())
        found = level_set(tree, 0)
        right = tree.apply(np.vstack([np.eye(5)[1:], unseen])) == 2
        if found is None:
            assert len(set(right.tolist())) == 1 or not split[1:5].any()
            continue
        named = np.array([name.partition("=")[2] in found.levels for name in NAMES[1:]] + [False])
        np.testing.assert_array_equal(right, named if found.inside else ~named)


def test_repeated_directions_count_once_however_many_splits_there_are() -> None:
    rng = np.random.default_rng(0)
    directions = rng.integers(-3, 4, size=(40, 3)).astype(float)
    weights = (directions[rng.integers(0, 40, 500)] * rng.normal(size=(500, 1))).astype(np.float32)
    lengths = np.linalg.norm(weights.astype(float), axis=1, keepdims=True)
    units = weights / np.where(lengths == 0, 1, lengths)
    is_sum = (weights != 0).sum(axis=1) > 1
    is_new = [(np.abs(units[:row] @ units[row]) < 1 - 1e-11).all() for row in range(500)]
    assert split_numbers(weights) == 500 + (weights != 0).sum(axis=1)[is_sum & is_new].sum()

    many = rng.normal(size=(65_535, 8))  # their cosines with each other would take 32 GiB
    assert split_numbers(many) == 9 * 65_535
