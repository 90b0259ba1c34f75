"""Layout: invariants of the geometry."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tree.trees import random_tree
from treelu.view.layout import depth_that_fits, layout


@given(seed=st.integers(0, 2**32 - 1), n_splits=st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_parents_are_centred_and_nothing_overlaps(seed, n_splits):
    tree = random_tree(np.random.default_rng(seed), n_splits, 1, "identity")
    children = {node: tuple(pair) for node, pair in enumerate(tree.children.tolist())}
    places = layout(children)
    assert set(places.row) == set(range(tree.n_nodes))
    assert sorted(places.row[leaf] for leaf in range(n_splits, tree.n_nodes)) == list(range(tree.n_leaves))
    assert places.n_rows == tree.n_leaves
    for node, (upper, lower) in children.items():
        assert places.row[upper] < places.row[node] < places.row[lower]
        assert places.row[node] == (places.row[upper] + places.row[lower]) / 2
        assert places.column[upper] == places.column[lower] == places.column[node] + 1
    for column in range(places.n_columns):
        here = sorted((places.row[node], node) for node in places.row if places.column[node] == column)
        for (above, first), (below, second) in pairwise(here):
            splits = (first < n_splits) + (second < n_splits)
            assert below - above >= 1 + 0.5 * splits


@given(seed=st.integers(0, 2**32 - 1), n_splits=st.integers(1, 60), most=st.integers(2, 40))
@settings(max_examples=60, deadline=None)
def test_the_deepest_cut_that_fits(seed, n_splits, most):
    tree = random_tree(np.random.default_rng(seed), n_splits, 1, "identity")
    depths, is_end = tree.node_depths(), np.arange(tree.n_nodes) >= tree.n_splits
    ends = lambda depth: sum(  # noqa: E731
        d == depth or (d < depth and end) for d, end in zip(depths, is_end, strict=True)
    )
    depth = depth_that_fits(depths, is_end, most)
    assert 1 <= depth <= tree.depth
    assert ends(depth) <= most
    assert depth == tree.depth or ends(depth + 1) > most
