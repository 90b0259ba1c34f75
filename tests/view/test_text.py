"""Indented text and words for nodes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeClassifier

from tests.tree.trees import trees
from treelu.tree import ObliqueTree
from treelu.tree.observed import Observed


@given(tree=trees())
@settings(max_examples=40, deadline=None)
def test_every_node_has_its_line(tree):
    lines = tree.export_text(top=2).splitlines()
    assert len(lines) == tree.n_nodes
    for node in range(tree.n_nodes):
        kind = "node" if node < tree.n_splits else "leaf"
        assert sum(f"{kind} {node}:" in line for line in lines) == 1


def test_iris_in_words():
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    tree = ObliqueTree.from_sklearn(DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, names[y]))
    assert tree.export_text().splitlines() == [
        "nodes 0, 1: score petal width (cm)  [150 rows]",
        "├─ below 0.8:         leaf 2: class 'setosa', probability 1  [50 rows]",
        "├─ 0.8 to below 1.75: leaf 3: class 'versicolor', probability 0.907  [54 rows]",
        "└─ 1.75 or more:      leaf 4: class 'virginica', probability 0.978  [46 rows]",
    ]


def test_top_weights_the_rest_and_collapsed_branches():
    tree = ObliqueTree(
        [[0.5, -2, 0, 1], [0, 0, 0, 0]], [-0.25, 3], [[1, 2], [3, 4]], [[0.123456], [-1e-9], [5]],
        feature_names=["a", "b", "c", "d"],
    )  # fmt: skip
    assert tree.export_text(top=2).splitlines() == [
        "node 0: -2·b + d + (1 more) >= 0.25",
        "├─ no:  node 1: 0 >= -3",
        "│       ├─ no:  leaf 3: value -1e-09",
        "│       └─ yes: leaf 4: value 5",
        "└─ yes: leaf 2: value 0.123456",
    ]
    assert tree.export_text(top=0, max_depth=1, digits=2).splitlines() == [
        "node 0: (3 more) >= 0.25",
        "├─ no:  … 1 split, 2 leaves",
        "└─ yes: leaf 2: value 0.12",
    ]
    assert tree.export_text(max_depth=0) == "… 2 splits, 3 leaves"


def test_terms_that_were_shown_are_referred_to():
    weights = [[2.0, 1.0], [0.0, 3.0], [2.0, 1.0], [0.0, 3.0], [2.0, 1.0]]
    tree = ObliqueTree(
        weights, [-5, 1, -4, 2, 0], [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]], [[v] for v in range(6)]
    )  # fmt: skip
    assert tree.export_text().splitlines() == [
        "nodes 0, 2: score 2·x0 + x1 (1 branch that no score leads to left out)",  # below 4 and at least 5
        "├─ below 5:   nodes 1, 3: score 3·x1",
        "│             ├─ below -2:       leaf 7: value 2",
        "│             ├─ -2 to below -1: leaf 8: value 3",
        "│             └─ -1 or more:     node 4: (terms of node 0) >= 0",
        "│                                ├─ no:  leaf 9: value 4",
        "│                                └─ yes: leaf 10: value 5",
        "└─ 5 or more: leaf 6: value 1",
    ]


def test_terms_are_shown_by_the_first_node_in_the_text_that_is_not_hidden():
    """Node 1 comes after node 3 in the text, though its number is smaller."""
    weights = [[1.0, 0.0], [1.0, 2.0], [0.0, 1.0], [1.0, 2.0]]
    tree = ObliqueTree(weights, [0, -1, 0, -2], [[2, 1], [5, 6], [3, 4], [7, 8]], [[v] for v in range(5)])
    text = tree.export_text()
    assert "node 3: 2·x1 + x0 >= 2" in text
    assert "node 1: (terms of node 3) >= 1" in text
    assert "node 1: 2·x1 + x0 >= 1" in tree.export_text(max_depth=2)


def test_linear_and_several_outputs():
    linear = ObliqueTree([[1.0]], [0], [[1, 2]], [[1.0, 0], [2, 3]], leaf_weights=np.ones((2, 2, 1)))
    assert "leaf 2: value x0 + 2; x0 + 3" in linear.export_text()
    several = ObliqueTree([[1.0]], [0], [[1, 2]], [[1.0, 0], [2, 3]])
    assert "leaf 2: value 2, 3" in several.export_text()


def test_scale_chooses_the_terms_and_leaves_the_numbers():
    tree = ObliqueTree([[100.0, 1.0, 0.5]], [2], [[1, 2]], [[0], [1]], feature_names=["mm", "m", "age"])
    assert tree.export_text(top=1).startswith("node 0: 100·mm + (2 more) >= -2")
    assert tree.export_text(top=1, scale=[0.001, 1, 20]).startswith("node 0: 0.5·age + (2 more) >= -2")
    assert '"0.5·age\\n+ (2 more)' in tree.export_graphviz(top=1, scale=[0.001, 1, 20])
    with pytest.raises(ValueError, match=r"scale must have shape \(3\), got \(1,\)"):
        tree.export_text(scale=[1])


def own_weights(n: int) -> np.ndarray:
    """Weights (n, 1), no two of them the same, so that no splits make a score card."""
    return np.arange(1.0, n + 1)[:, None]


def test_a_chain_of_splits_is_text_of_a_size_like_its_own():
    """Indentation of all levels was 8.6 GB for 15,000 splits."""
    n = 3000
    children = np.column_stack([np.arange(n, 2 * n), np.append(np.arange(1, n), 2 * n)])
    tree = ObliqueTree(own_weights(n), np.zeros(n), children, np.arange(n + 1.0)[:, None])
    text = tree.export_text(max_leaves=None)
    assert len(text) < 450 * 2 * n
    lines = text.splitlines()
    named = [re.search(r"(node|leaf) (\d+): (.*)", line) for line in lines if line]
    shown = [int(match[2]) for match in named if match and match[3] != "goes on below"]
    assert sorted(shown) == list(range(2 * n + 1))
    below = [int(match[2]) for match in named if match and match[3] == "goes on below"]
    assert below == [int(re.match(r"node (\d+)", lines[k + 1])[1]) for k, line in enumerate(lines) if not line]
    assert tree.export_text(max_depth=2).count("\n") == 4


def complete_tree(depth: int, **options) -> ObliqueTree:
    """All leaves at one depth."""
    n = 2**depth - 1
    children = np.arange(1, 2 * n + 1).reshape(n, 2)
    return ObliqueTree(own_weights(n), np.zeros(n), children, np.arange(n + 1.0)[:, None], **options)


@pytest.mark.slow
@pytest.mark.parametrize("export", ["export_text", "export_graphviz"])
def test_a_large_tree_is_cut_and_says_what_is_left_out(export):
    tree = complete_tree(10)
    text = getattr(tree, export)()
    note = "cut at depth 8: 1,024 of 1,024 leaves not shown; max_leaves=None shows all"
    assert note in text
    assert len(re.findall("… 3 splits", text)) == 256
    whole = getattr(tree, export)(max_leaves=None)
    assert "cut at" not in whole
    assert all(re.search(rf"\b{leaf}\b", whole) for leaf in range(tree.n_splits, tree.n_nodes))
    assert getattr(tree, export)(max_leaves=1024) == whole
    small = getattr(tree, export)(max_leaves=5)
    assert "cut at depth 2" in small
    assert len(re.findall("… 255 splits", small)) == 4
    assert "cut at" not in getattr(tree, export)(max_depth=2)  # as was asked for
    with pytest.raises(ValueError, match="max_leaves must be at least 1, or None for all leaves, got 0"):
        getattr(tree, export)(max_leaves=0)


def test_of_a_tree_with_unvisited_leaves_the_note_points_to_those_with_rows():
    tree = complete_tree(9).with_counts([[1.0], [-1.0], [2.0]])
    assert "prune(X, unvisited=True) keeps those that rows X reach" in tree.export_text()
    assert "prune(" not in complete_tree(9).export_text()
    assert repr(tree).startswith("ObliqueTree(512 leaves, 2 visited, depth 9")
    assert repr(complete_tree(9)).startswith("ObliqueTree(512 leaves, depth 9")
    assert (tree.n_visited_leaves, complete_tree(1).n_visited_leaves) == (2, None)
    assert repr(tree.prune([[1.0], [-1.0]], unvisited=True)).startswith("ObliqueTree(2 leaves, depth 1")


def test_leaves_with_the_same_terms_refer_to_the_first() -> None:
    weights = [[[2.0, -1.0]], [[2.0, -1.0]], [[2.0, 1.0]]]
    tree = ObliqueTree([[1.0, 0], [0, 1.0]], [0, 0], [[1, 2], [3, 4]], [[0.0], [-5.0], [7.0]], leaf_weights=weights)
    assert tree.export_text().splitlines() == [
        "node 0: x0 >= 0",
        "├─ no:  node 1: x1 >= 0",
        "│       ├─ no:  leaf 3: value 2·x0 - x1 - 5",
        "│       └─ yes: leaf 4: value 2·x0 + x1 + 7",
        "└─ yes: leaf 2: value (terms of leaf 3)",
    ]


def test_every_category_of_a_long_group() -> None:
    names = [*(f"colour={letter}" for letter in "abcdefgh"), "age"]
    observed = Observed.of(np.c_[np.eye(8), np.arange(8) + 0.5])
    weights = np.r_[np.arange(1.0, 9), 0.5][None]
    tree = ObliqueTree(weights, [-4.5], [[1, 2]], [[0], [1]], feature_names=names, observed=observed)
    assert "c +3, 2 more)" in tree.export_text()
    for text in (tree.export_text(top="all"), tree.export_graphviz(top="all")):
        assert "c +3, b +2, a +1)" in text
    shown = [text.get_text().strip() for text in tree.plot(top="all").texts]
    assert {"a", "b", "c"} <= set(shown)
    assert "2 more" not in shown
    assert "2 more" in [text.get_text().strip() for text in tree.plot().texts]
