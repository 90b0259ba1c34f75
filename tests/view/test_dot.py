"""DOT text: every node and edge, names that need quoting, and Graphviz itself where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from hypothesis import given, settings

from tests.tree.trees import trees
from treelu.tree import ObliqueTree
from treelu.view.colors import leaf_colors, leaf_ranks, text_color


@given(tree=trees())
@settings(max_examples=40, deadline=None)
def test_nodes_and_edges(tree):
    dot = tree.export_graphviz()
    assert [int(n) for n in sorted(re.findall(r"^  (\d+) \[", dot, re.M), key=int)] == list(range(tree.n_nodes))
    edges = {(int(a), int(b), side) for a, b, side in re.findall(r'(\d+) -> (\d+) \[label="(\w+)"\]', dot)}
    pairs = enumerate(tree.children.tolist())
    assert edges == {
        (node, child, word) for node, pair in pairs for child, word in zip(pair, ("no", "yes"), strict=True)
    }


def test_depth_limit_shows_what_it_hides():
    tree = ObliqueTree([[1.0], [1.0]], [0, 1], [[1, 2], [3, 4]], [[0], [1], [2]], n_samples=[9, 5, 4, 2, 3])
    dot = tree.export_graphviz(max_depth=1)
    assert '1 [label="… 1 split\\n2 leaves\\n5 rows", style=dashed];' in dot
    assert "3 [" not in dot


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_draws_names_with_quotes_and_backslashes():
    names = ['5" pipe', "C:\\dir\\new", "<b>&amp;</b>", "größe → ½"]
    tree = ObliqueTree([[1.0, 2, 3, 4]], [0], [[1, 2]], [[0], [1]], feature_names=names)
    drawn = subprocess.run(
        ["dot", "-Tsvg"], input=tree.export_graphviz(top=4).encode(), capture_output=True, check=True
    )
    svg = drawn.stdout.decode()
    assert drawn.stderr == b""
    for words in ("5&quot; pipe", "C:\\dir\\new", "&lt;b&gt;&amp;amp;&lt;/b&gt;", "größe → ½"):
        assert words in svg


def test_colours_follow_rank_or_class():
    ranked = ObliqueTree([[1.0], [1.0]], [0, 1], [[1, 2], [3, 4]], [[0.5], [-3], [9]])
    assert leaf_ranks(ranked).tolist() == [2, 1, 3]
    assert leaf_colors(ranked) == ["#f3f3f0", "#3b6fb6", "#d6603d"]
    two = ObliqueTree([[1.0]], [0], [[1, 2]], [[0.9, 0.1], [0.3, 0.7]], link="probability", classes=["a", "b"])
    assert leaf_ranks(two).tolist() == [1, 2]
    assert leaf_colors(two) == ["#6089c2", "#e7b8a8"]  # 0.8 and 0.4 of the way from pale to the class's own colour
    three = ObliqueTree([[1.0]], [0], [[1, 2]], [[1, 0, 0], [0, 0, 1]], link="probability", classes=["a", "b", "c"])
    assert leaf_ranks(three) is None
    assert leaf_colors(three) == ["#3b6fb6", "#4a9960"]
    assert text_color("#3b6fb6") == "#ffffff"
    assert text_color("#f3f3f0") == "#1a1a1a"
