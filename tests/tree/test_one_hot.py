"""One-hot groups in formulas: yes/no columns as one term, categories as points; exact arithmetic is the oracle."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tests.tree.trees import KINDS, random_tree
from treelu.tree import ObliqueTree
from treelu.tree.observed import Observed
from treelu.tree.one_hot import one_hot_pairs, pairs_as_one_term
from treelu.view.labels import formula_terms, linear_form

NAMES = ("age", "paid=yes", "paid=no", "sex=m", "sex=f", "colour=red", "colour=blue", "colour=green")
GROUPS = ((1, 2), (3, 4), (5, 6, 7))


def one_hot_rows(rng: np.random.Generator, n: int) -> np.ndarray:
    """Rows in which exactly one feature of each group is 1."""
    rows = np.zeros((n, len(NAMES)))
    rows[:, 0] = rng.integers(-4, 5, n) / 4
    for group in GROUPS:
        rows[np.arange(n), rng.choice(group, n)] = 1.0
    return rows


def exact(weights: np.ndarray, constant: float, row: np.ndarray) -> Fraction:
    """A sum without rounding."""
    terms = zip(weights.tolist(), row.tolist(), strict=True)
    return sum((Fraction(w) * Fraction(x) for w, x in terms), Fraction(float(constant)))


@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(KINDS), as_csr=st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_score_is_the_same_where_one_of_a_pair_is_1(seed, kind, as_csr):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, int(rng.integers(0, 6)), len(NAMES), kind, feature_names=NAMES)
    short = {"weights": np.round(4 * tree.weights) / 4, "biases": np.round(4 * tree.biases) / 4}
    if tree.leaf_weights is not None:
        short |= {"leaf_weights": np.round(4 * tree.leaf_weights) / 4, "values": np.round(4 * tree.values) / 4}
    tree = replace(tree, **short)  # multiples of 1/4: sums are exact
    if as_csr:
        tree = replace(tree, weights=sparse.csr_array(tree.weights))
    merged, rows = pairs_as_one_term(tree, GROUPS), one_hot_rows(rng, 30)
    np.testing.assert_array_equal(merged.apply(rows), tree.apply(rows))
    np.testing.assert_array_equal(merged.decision_function(rows), tree.decision_function(rows))
    for node in range(tree.n_splits):
        before, after = tree.node_weights(node), merged.node_weights(node)
        for row in rows[:5]:
            assert exact(before, tree.biases[node], row) == exact(after, merged.biases[node], row)
        for pair in GROUPS[:2]:
            assert np.count_nonzero(after[list(pair)]) <= 1
        np.testing.assert_array_equal(after[[0, 5, 6, 7]], before[[0, 5, 6, 7]])


def test_the_feature_that_means_yes_stays_or_else_the_second():
    tree = ObliqueTree([[0.0, 2, -1, 3, 5, 0, 0, 0]], [0], [[1, 2]], [[0], [1]], feature_names=NAMES)
    merged = pairs_as_one_term(tree, GROUPS)
    assert merged.weights.tolist() == [[0, 3, 0, 0, 2, 0, 0, 0]]
    assert merged.biases.tolist() == [-1 + 3]
    alone = ObliqueTree([[0.0, 2, 0, 0, 5, 0, 0, 0]], [0], [[1, 2]], [[0], [1]], feature_names=NAMES)
    assert pairs_as_one_term(alone, GROUPS) == alone
    assert pairs_as_one_term(tree, ()) is tree


@pytest.fixture
def with_groups(monkeypatch: pytest.MonkeyPatch) -> ObliqueTree:
    """A tree that remembers its one-hot groups."""
    tree = ObliqueTree([[0.5, 0, 0, 0, 0, 2, -1, 0.25]], [0], [[1, 2]], [[0], [1]], feature_names=NAMES)
    monkeypatch.setattr("treelu.view.labels.one_hot_groups", lambda tree: GROUPS)
    return tree


def test_a_category_is_one_group_of_points(with_groups):
    weights = with_groups.weights[0]
    terms, more = formula_terms(with_groups, weights, np.ones(8))
    assert [(term.name, term.categories, term.effect) for term in terms] == [
        ("colour", ("red", "blue", "green"), 3.25), ("age", (), 0.5)
    ]  # fmt: skip
    assert more == 0
    assert linear_form(with_groups, weights, None) == "(colour: red +2, blue -1, green +0.25) + 0.5·age"
    assert linear_form(with_groups, weights, None, 1) == "(colour: red +2, blue -1, green +0.25) + (1 more)"
    assert '"(colour: red +2, blue -1, green +0.25)\\n+0.5·age\\n>= 0"' in with_groups.export_graphviz()
    texts = [text.get_text() for text in with_groups.plot().texts]
    assert [text for text in texts if text.startswith("    ")] == ["    red", "    blue", "    green"]


def test_groups_that_the_tree_remembers_are_used():
    rows = one_hot_rows(np.random.default_rng(0), 200)
    tree = ObliqueTree([[0.0, 2, -1, 3, 5, 2, -1, 0]], [0], [[1, 2]], [[0], [1]], feature_names=NAMES)
    assert "paid=no" in tree.export_text()
    text = replace(tree, observed=Observed.of(rows)).export_text()
    assert text.splitlines()[0] == "node 0: 3·paid=yes + (colour: red +2, blue -1) + 2·sex=f >= -2"


@pytest.mark.parametrize("as_csr", [False, True])
def test_pairs_are_found_in_rows(as_csr):
    rows = one_hot_rows(np.random.default_rng(0), 200)
    X = sparse.csr_array(rows) if as_csr else rows
    assert one_hot_pairs(X, range(8)) == [(1, 2), (3, 4)]
    assert one_hot_pairs(X, [1, 3, 4]) == [(3, 4)]
    rows[0, 1:3] = 0
    assert one_hot_pairs(sparse.csr_array(rows) if as_csr else rows, range(8)) == [(3, 4)]
