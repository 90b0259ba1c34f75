"""Formulas and ranges of linear leaves: against the tree's predictions and against SciPy's linear programmes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tests.tree.trees import random_tree
from treelu.tree import ObliqueTree
from treelu.view.formulas import leaf_formulas, prediction_ranges


def linear_tree(rng: np.random.Generator, kind: str) -> ObliqueTree:
    """A random tree with linear leaves."""
    d = int(rng.integers(1, 5))
    base = random_tree(rng, int(rng.integers(0, 6)), d, "identity")
    n_outputs = {"softmax2": 2, "softmax": 3, "value2": 2}.get(kind, 1)
    link = "identity" if kind.startswith("value") else kind.rstrip("2")
    classes = None if link == "identity" else np.array(["no", "yes", "perhaps"][: max(2, n_outputs)])
    return replace(
        base, values=rng.normal(size=(base.n_leaves, n_outputs)), link=link, classes=classes,
        leaf_weights=rng.normal(size=(base.n_leaves, n_outputs, d)),
    )  # fmt: skip


@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(["value", "value2", "logistic", "softmax2", "softmax"]))
@settings(max_examples=60, deadline=None)
def test_the_formulas_are_what_is_predicted(seed, kind):
    rng = np.random.default_rng(seed)
    tree = linear_tree(rng, kind)
    X = rng.normal(size=(20, tree.n_features))
    for x, leaf in zip(X, tree.apply(X) - tree.n_splits, strict=True):
        formulas = leaf_formulas(tree, int(leaf))
        sums = np.array([formula.weights @ x + formula.constant for formula in formulas])
        if kind.startswith("value"):
            np.testing.assert_allclose(sums, tree.decision_function(x[None])[0], rtol=1e-9, atol=1e-12)
            continue
        probabilities = tree.predict_proba(x[None])[0]
        if len(tree.classes) == 2:
            assert formulas[0].label == "yes"
            np.testing.assert_allclose(1 / (1 + np.exp(-sums[0])), probabilities[1], rtol=1e-9)
        else:
            assert [formula.label for formula in formulas] == tree.classes.tolist()
            np.testing.assert_allclose(np.exp(sums) / np.exp(sums).sum(), probabilities, rtol=1e-9)


@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(["value", "logistic", "softmax2"]))
@settings(max_examples=40, deadline=None)
def test_ranges_are_those_of_the_leaves(seed, kind):
    rng = np.random.default_rng(seed)
    tree = linear_tree(rng, kind)
    low, high = np.sort(rng.uniform(-2, 2, (2, tree.n_features)), axis=0)
    X = rng.uniform(low, high, (500, tree.n_features))
    predicted = tree.decision_function(X)[:, 0] if kind == "value" else tree.predict_proba(X)[:, 1]
    ranges, leaves = prediction_ranges(tree, (low, high)), tree.apply(X) - tree.n_splits
    for leaf, ends in enumerate(ranges):
        here = predicted[leaves == leaf]
        if ends is None:
            assert not len(here)
            continue
        if len(here):
            assert ends[0] - 1e-9 <= here.min()
            assert here.max() <= ends[1] + 1e-9
        formula = leaf_formulas(tree, leaf)[0]
        G, h = leaf_conditions(tree, leaf)
        for sign, end in ((1, ends[0]), (-1, ends[1])):
            planes = {"A_ub": G, "b_ub": h} if len(G) else {}
            found = linprog(sign * formula.weights, **planes, bounds=np.column_stack([low, high]))
            assert found.status == 0
            form = sign * found.fun + formula.constant
            assert end == pytest.approx(form if kind == "value" else 1 / (1 + np.exp(-form)), abs=1e-6)


def leaf_conditions(tree: ObliqueTree, leaf: int) -> tuple[np.ndarray, np.ndarray]:
    """G x ≤ h for the rows of a leaf and its border."""
    G, h, node = [], [], tree.n_splits + leaf
    while node:
        ((parent, side),) = np.argwhere(tree.children == node).tolist()
        sign = -1.0 if side else 1.0
        G.append(sign * tree.node_weights(parent))
        h.append(-sign * tree.biases[parent])
        node = parent
    return np.array(G).reshape(-1, tree.n_features), np.array(h)


def test_what_has_no_range_says_none():
    rng = np.random.default_rng(0)
    for kind in ("softmax", "value2"):
        tree = linear_tree(rng, kind)
        assert prediction_ranges(tree, (0, 1)) == [None] * tree.n_leaves
    tree = linear_tree(rng, "value")
    assert prediction_ranges(tree) == [None] * tree.n_leaves
    with pytest.raises(ValueError, match="tree must have linear leaves"):
        leaf_formulas(random_tree(rng, 1, 2, "identity"), 0)


def test_log_odds_are_those_of_the_class_named_like_a_yes():
    rng = np.random.default_rng(3)
    for kind in ("logistic", "softmax2"):
        tree = replace(linear_tree(rng, kind), classes=np.array(["ja", "nein"]))
        x = rng.normal(size=tree.n_features)
        leaf = int(tree.apply(x[None])[0]) - tree.n_splits
        (formula,) = leaf_formulas(tree, leaf)
        ends = prediction_ranges(tree, (x, x))[leaf]
        probability = tree.predict_proba(x[None])[0, 0]
        assert formula.label == "ja"
        assert 1 / (1 + np.exp(-formula.weights @ x - formula.constant)) == pytest.approx(probability)
        assert ends == pytest.approx((probability, probability))


def test_text_and_picture_show_formula_and_range(monkeypatch):
    tree = ObliqueTree(
        [[1.0, 0.0]], [-1.0], [[1, 2]], [[0.0], [-5.0]], leaf_weights=[[[2.0, 0.5]], [[-1.0, 0.0]]],
        link="logistic", classes=["no", "yes"], feature_names=["age", "weight"],
    )  # fmt: skip
    assert tree.export_text().splitlines()[1:] == [
        "├─ no:  leaf 1: log-odds of 'yes' = 2·age + 0.5·weight",
        "└─ yes: leaf 2: log-odds of 'yes' = -age - 5",
    ]
    for place in ("text", "pictures"):
        monkeypatch.setattr(f"treelu.view.{place}.prediction_ranges", lambda tree: [(0.25, 0.875), None])
    assert "leaf 1: log-odds of 'yes' = 2·age + 0.5·weight (probability 0.25 to 0.875)" in tree.export_text()
    texts = [text.get_text() for text in tree.plot().texts]
    assert texts.count("= log-odds of 'yes'") == 2
    assert "probability 0.25 to 0.875" in texts
    assert "= log-odds" not in tree.export_graphviz().replace("log-odds of 'yes' = ", "")
