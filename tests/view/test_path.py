"""The way of one row: parts that add up to the score, in words and as HTML."""

from __future__ import annotations

import copy
import pickle
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tree.trees import leaf_by_hand, trees
from treelu.tree import ObliqueTree


@given(tree=trees(), seed=st.integers(0, 999))
@settings(max_examples=50, deadline=None)
def test_the_way_is_that_of_apply_and_the_parts_add_up(tree, seed):
    x = np.random.default_rng(seed).standard_normal(tree.n_features)
    path = leaf_by_hand(tree, x)
    text = tree.describe(x)
    heads = re.findall(r"^node (\d+): (\S+) >= 0\? (yes|no)$", text, re.M)
    assert [int(node) for node, _, _ in heads] == path[:-1]
    assert f"\nleaf {path[-1]}: " in f"\n{text}"
    for (node, score, answer), body in zip(heads, re.split(r"^(?:node|leaf) .*$", text, flags=re.M)[1:], strict=False):
        assert (answer == "yes") == (float(score) >= 0)
        assert path[path.index(int(node)) + 1] == tree.children[int(node), int(answer == "yes")]
        parts = [float(line.split()[0]) for line in body.strip().splitlines()]
        assert sum(parts) == pytest.approx(float(score), abs=0.01 * (1 + max(abs(part) for part in parts)))


def test_terms_come_by_contribution_and_few_are_shown_whole():
    tree = ObliqueTree(
        [[1.0, -2, 3, 0, 1]], [0.5], [[1, 2]], [[0], [1]], feature_names=list("abcde"), spreads=np.ones(5)
    )
    assert tree.describe([10, 2, 0, 7, -1]).splitlines() == [
        "node 0: 5.5 >= 0? yes",
        "    +10   a = 10 (weight 1)",
        "    -4    b = 2 (weight -2)",
        "    -1    e = -1 (weight 1)",
        "    +0    c = 0 (weight 3)",
        "    +0.5  bias",
        "leaf 2: value 1",
    ]
    assert "2 other features" in tree.describe([10, 2, 1, 7, -1], top=2)


def test_of_long_questions_five_contributions_are_named_and_zeros_left_out():
    tree = ObliqueTree([np.ones(100)], [0.0], [[1, 2]], [[0], [1]])
    x = np.zeros(100)
    x[:6] = np.arange(1, 7)
    assert tree.describe(x).count("weight") == 6
    x[6] = 9
    assert tree.describe(x).count("weight") == 5
    assert "+3  2 other features" in tree.describe(x)


class Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_it_prints_as_text_and_shows_as_a_table():
    tree = ObliqueTree([[1.0, -1.0]], [1.0], [[1, 2]], [[0], [1]], feature_names=["<script>alert(1)</script>", "age"])
    path = tree.describe([0.5, 3.0])
    assert isinstance(path, str)
    assert str(path).startswith("node 0: -1.5 >= 0? no")
    page = Words()
    page.feed(path._repr_html_())
    assert page.tags == {"table", "tr", "td", "b", "div"}
    assert {"no", "-3", "age = 3 (weight -1)", "leaf 1: value 0"} <= set(page.words)
    for same in (copy.copy(path), pickle.loads(pickle.dumps(path))):
        assert (same, same._repr_html_()) == (path, path._repr_html_())
