"""Table 3: patterns seen and unseen, and the paper's AUC on a subset."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from experiments.patterns import generalized_auc, pattern_analysis


def by_the_formula(y, score, subset):
    """The paper's double sum, term by term."""
    right = pairs = 0.0
    for i in subset:
        for j in range(len(y)):
            tie = 0.5 * (score[i] == score[j])
            right += (y[i] > y[j]) * ((score[i] > score[j]) + tie)
            right += (y[i] < y[j]) * ((score[i] < score[j]) + tie)
            pairs += y[i] != y[j]
    return right / pairs if pairs else float("nan")


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_equals_the_papers_formula(data):
    n = data.draw(st.integers(1, 25))
    y = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    score = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=n, max_size=n)))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    wanted = by_the_formula(y, score, np.flatnonzero(mask))
    np.testing.assert_allclose(generalized_auc(y, score, mask), wanted, equal_nan=True)
    np.testing.assert_allclose(generalized_auc(y, score, np.flatnonzero(mask)), wanted, equal_nan=True)


@pytest.mark.parametrize("seed", range(5))
def test_on_all_rows_it_is_the_auc(seed):
    rng = np.random.default_rng(seed)
    y, score = rng.random(500) < 0.3, rng.random(500).round(2)
    assert generalized_auc(y, score) == pytest.approx(roc_auc_score(y, score), abs=1e-12)


def test_parts_average_to_the_whole():
    """Weighted by their pairs, observed and unobserved rows make up the AUC."""
    rng = np.random.default_rng(0)
    y, score, part = rng.random(300) < 0.4, rng.random(300), rng.random(300) < 0.2
    pairs = np.where(y, (~y).sum(), y.sum())
    shares = [pairs[mask].sum() / pairs.sum() for mask in (part, ~part)]
    both = [generalized_auc(y, score, mask) for mask in (part, ~part)]
    assert np.dot(shares, both) == pytest.approx(roc_auc_score(y, score))


def test_counts_of_patterns_from_leaves_and_from_patterns():
    train, test = np.array([7, 7, 8, 9]), np.array([7, 10, 10, 8, 11])
    y, score = np.array([0, 1, 0, 1, 1]), np.array([0.2, 0.9, 0.1, 0.6, 0.3])
    bits = lambda leaves: (leaves[:, None] >> np.arange(4)) & 1 == 1  # noqa: E731
    for forms in ((train, test), (bits(train), bits(test))):
        found = pattern_analysis(*forms, n_possible=16, y_test=y, score_test=score)
        assert (found.n_possible, found.n_train, found.n_test, found.n_test_only) == (16, 3, 4, 2)
        assert found.unobserved_share == 0.6
        assert found.auc_observed == by_the_formula(y, score, [0, 3])
        assert found.auc_unobserved == by_the_formula(y, score, [1, 2, 4])
    assert pattern_analysis(train, test, n_possible=16).auc_observed is None


def test_bad_arguments():
    with pytest.raises(ValueError, match="one length"):
        generalized_auc([0, 1], [0.5])
    with pytest.raises(ValueError, match="score must not be NaN"):
        generalized_auc([0, 1], [0.5, np.nan])
    with pytest.raises(ValueError, match="given together"):
        pattern_analysis([1], [1], n_possible=2, y_test=[1])
    with pytest.raises(ValueError, match="y_test must have 1 rows"):
        pattern_analysis([1], [1], n_possible=2, y_test=[1, 0], score_test=[1, 0])
    with pytest.raises(ValueError, match="one width"):
        pattern_analysis(np.ones((2, 3)), np.ones((2, 2)), n_possible=2)
    with pytest.raises(ValueError, match="test_leaves must have at least one row"):
        pattern_analysis([1], [], n_possible=2)
