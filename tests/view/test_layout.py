"""Layout: invariants of the geometry, and the report page's rule against this one."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.resources import files
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tree.trees import random_tree
from treelu.view.layout import children_above, depth_that_fits, layout


def drawn(seed, n_splits):
    """The children and the boxes' breadths of a random tree."""
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, n_splits, 1, "identity")
    children = {node: (first, second) for node, (first, second) in enumerate(tree.children.tolist())}
    return tree, children, rng.uniform(0.1, 5, tree.n_nodes).tolist()


@given(seed=st.integers(0, 2**32 - 1), n_splits=st.integers(0, 40), gap=st.sampled_from([0.0, 0.7]))
@settings(max_examples=60, deadline=None)
def test_parents_are_centred_and_nothing_overlaps(seed, n_splits, gap):
    tree, children, breadths = drawn(seed, n_splits)
    places = layout(children, breadths.__getitem__, gap)
    assert set(places.centre) == set(range(tree.n_nodes))
    np.testing.assert_array_equal([places.level[node] for node in range(tree.n_nodes)], tree.node_depths())
    assert max(places.level.values()) == tree.depth
    for node, (first, second) in children.items():
        assert places.centre[node] == pytest.approx((places.centre[first] + places.centre[second]) / 2)
        assert places.centre[first] < places.centre[second]
    for first, second in combinations(range(tree.n_nodes), 2):
        if places.level[first] == places.level[second]:
            apart = abs(places.centre[first] - places.centre[second])
            assert apart >= (breadths[first] + breadths[second]) / 2 + gap - 1e-9
    low = min(centre - breadths[node] / 2 for node, centre in places.centre.items())
    high = max(centre + breadths[node] / 2 for node, centre in places.centre.items())
    assert (low, high) == (pytest.approx(0.0, abs=1e-9), pytest.approx(places.extent))


@given(seed=st.integers(0, 2**32 - 1), n_splits=st.integers(0, 40))
@settings(max_examples=30, deadline=None)
def test_ends_of_one_breadth_lie_on_rows_one_apart(seed, n_splits):
    tree, children, _ = drawn(seed, n_splits)
    places = layout(children, lambda node: 1.0)
    ends = sorted(places.centre[leaf] for leaf in range(n_splits, tree.n_nodes))
    np.testing.assert_allclose(ends, np.arange(tree.n_leaves) + 0.5)
    assert places.extent == pytest.approx(tree.n_leaves)


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_the_report_page_places_boxes_by_the_same_rule():
    rule = (files("treelu.report") / "page" / "layout.js").read_text("utf-8")
    cases = [drawn(seed, n_splits)[1:] for seed, n_splits in ((0, 0), (1, 1), (2, 7), (3, 40))]
    script = f"""{rule}
    const cases = {json.dumps(cases)};
    console.log(JSON.stringify(cases.map(([children, breadths]) => {{
      const {{ centres, extent }} = layoutCentres(0, (node) => children[node] ?? [], (node) => breadths[node], 0.7);
      return [[...centres], extent];
    }})));"""
    run = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True, timeout=60)
    for (children, breadths), (centres, extent) in zip(cases, json.loads(run.stdout), strict=True):
        places = layout(children, breadths.__getitem__, 0.7)
        assert places.extent == pytest.approx(extent)
        assert places.centre == pytest.approx(dict(centres))
        order = [node for node, _ in centres]
        assert order == reading_order(children)


def reading_order(children, node=0):
    """Each node, then all below its first child, then all below its second."""
    return [node, *(below for child in children.get(node, ()) for below in reading_order(children, child))]


def test_a_chain_of_thousands_is_placed():
    n = 5000
    places = layout({node: (node + 1, n + 1 + node) for node in range(n)}, lambda node: 1.0)
    assert places.extent == pytest.approx(n + 1)


def test_children_above_a_depth():
    tree, children, _ = drawn(5, 20)
    assert children_above(tree.children, tree.node_depths(), tree.depth) == children
    shown = children_above(tree.children, tree.node_depths(), 2)
    assert set(shown) == {node for node in range(tree.n_splits) if tree.node_depths()[node] < 2}


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
