"""Distances to the nearest other answer, and the least and greatest output, against sampling."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tree.queries.oracles import norm_of, rows_within
from tests.tree.trees import random_tree
from treelu.tree import ObliqueTree

NORMS = ("l1", "linf", "l2")


# Robustness


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", ["logistic", "linear softmax", "identity", "linear"])
def test_no_sampled_row_within_the_distance_has_another_answer(kind, norm):
    rng = np.random.default_rng([11, NORMS.index(norm), len(kind)])
    for _ in range(4):
        tree = random_tree(rng, int(rng.integers(3, 14)), 4, kind)
        X = rng.standard_normal((4, 4))
        change = None if tree.is_classifier else 0.3
        result = tree.robustness(X, norm, change=change)
        before = tree.predict(X)
        for i, x in enumerate(X):
            rows = rows_within(x, min(result.distances[i], 50.0), norm, np.ones(4), rng, 5_000)
            after = tree.predict(rows)
            if tree.is_classifier:
                assert (after == before[i]).all()
            else:
                assert (np.abs(after - before[i]) < 0.3 + 1e-9).all()
            if np.isfinite(result.distances[i]):
                assert norm_of(result.rows[i] - x, norm) == pytest.approx(result.distances[i], abs=1e-6)
                there = tree.predict(result.rows[[i]])[0]
                assert there != before[i] if tree.is_classifier else (np.abs(there - before[i]) >= 0.3 - 1e-9).any()
            else:
                assert np.isnan(result.rows[i]).all()


def test_norms_are_ordered():
    rng = np.random.default_rng(0)
    tree = random_tree(rng, 12, 5, "softmax")
    X = rng.standard_normal((10, 5))
    l1, linf, l2 = (tree.robustness(X, norm).distances for norm in NORMS)
    assert (linf <= l2 + 1e-9).all()
    assert (l2 <= l1 + 1e-9).all()


def test_robustness_in_words():
    tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[-1.0], [1.0]], link="logistic", classes=["no", "yes"])
    assert str(tree.robustness([[-2.0]])) == "predicted 'no'; no permitted row nearer than 2 (l2) gets another answer"
    never = tree.robustness([-2.0], bounds=(-5, -1))
    assert str(never) == "predicted 'no'; no permitted row gets another answer"
    assert float(never) == np.inf
    table = tree.robustness([[-2.0], [1.0], [5.0]], "l1")
    assert str(table) == "3 rows, distance to the nearest other answer (l1): least 1, median 2, greatest 5"
    assert table._repr_html_() == f"<p>{table}</p>"
    one_answer = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[1.0], [2.0]], link="logistic", classes=["no", "yes"])
    assert str(one_answer.robustness([[1.0], [2.0]])).endswith("(l2); 2 rows without another answer")
    with pytest.raises(TypeError, match="only the robustness of one row is a number; distances has 3"):
        float(table)
    number = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[1.0], [2.0]])
    with pytest.raises(ValueError, match="change must be given for a tree that predicts numbers"):
        number.robustness([1.0])


# Range of the output


@pytest.mark.parametrize("kind", ["identity", "linear", "logistic", "softmax", "probability"])
def test_no_sampled_row_is_outside_the_range(kind):
    rng = np.random.default_rng([12, len(kind)])
    for _ in range(6):
        tree = random_tree(rng, int(rng.integers(1, 14)), 3, kind)
        low = rng.uniform(-1.5, 0.5, 3)
        high = low + rng.uniform(0.05, 1.5, 3)
        target = tree.classes[1] if tree.is_classifier else None
        result = tree.output_range((low, high), target=target)

        def output(X, tree=tree):
            return tree.predict_proba(X)[:, 1] if tree.is_classifier else tree.decision_function(X)[:, 0]

        values = output(rng.uniform(low, high, (20_000, 3)))
        assert result.low <= values.min() + 1e-9
        assert values.max() <= result.high + 1e-9
        for row, end in ((result.low_row, result.low), (result.high_row, result.high)):
            assert ((low <= row) & (row <= high)).all()
            assert output(row[None])[0] == pytest.approx(end, abs=1e-6)
        if tree.leaf_weights is None and tree.n_leaves < 5:
            assert values.max() == pytest.approx(result.high) or (values == result.high).mean() < 0.01


def test_whole_numbers_and_groups_narrow_the_range():
    tree = ObliqueTree([[1.0, 0.0], [1.0, 1.0]], [-0.5, -1.5], [[2, 1], [3, 4]], [[0.0], [1.0], [2.0]])
    assert tree.output_range((0, 1)).high == 2
    assert tree.output_range((0, 1), groups=[[0, 1]]).high == 1
    half = ObliqueTree([[1.0], [1.0]], [-0.4, -0.6], [[2, 1], [3, 4]], [[0.0], [5.0], [1.0]])
    assert half.output_range((0, 1)).high == 5
    assert half.output_range((0, 1), whole=[0]).high == 1


def test_a_linear_leaf_without_an_end():
    tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[0.0], [1.0]], leaf_weights=[[[0.0]], [[2.0]]])
    result = tree.output_range()
    assert (result.low, result.high, result.high_row) == (0.0, np.inf, None)
    assert str(result) == "the prediction is from 0 to infinity for every permitted row"
    assert str(tree.output_range((-1, 3))) == "the prediction is from 0 to 7 for every permitted row"
    assert result._repr_html_() == f"<p>{result}</p>"


def test_ranges_of_probabilities_in_words_and_what_is_refused():
    rng = np.random.default_rng(0)
    tree = random_tree(rng, 3, 2, "softmax")
    with pytest.raises(ValueError, match="target must name the class whose probability is meant"):
        tree.output_range((0, 1))
    assert str(tree.output_range((0, 1), target="red")).startswith("the probability of 'red' is from ")
    with pytest.raises(ValueError, match="linear leaves with three or more classes are not monotone"):
        random_tree(rng, 3, 2, "linear softmax").output_range((0, 1), target="red")
    with pytest.raises(ValueError, match="target names a class, and this tree predicts numbers; leave it out"):
        random_tree(rng, 3, 2, "identity").output_range((0, 1), target="red")
    with pytest.raises(ValueError, match="output must be from 0 to 1, got 2"):
        random_tree(rng, 3, 2, "identity2").output_range((0, 1), output=2)
    assert str(random_tree(rng, 3, 2, "identity2").output_range((0, 1), output=1)).startswith("output 1 is from ")
