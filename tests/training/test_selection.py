"""The one search: candidates on folds, and the choice among them."""

import numpy as np
import pytest

from treelu.training.selection import choose, compare, summarise


def test_every_candidate_is_tried_on_every_fold_in_its_group() -> None:
    tried = []

    def trial(fold, group):
        tried.append((fold, list(group)))
        return [f"{fold}{candidate}" for candidate in group]

    found = compare([["a", "b"], ["c"]], [1, 2], trial)
    assert found == {"a": ["1a", "2a"], "b": ["1b", "2b"], "c": ["1c", "2c"]}
    assert tried == [(1, ["a", "b"]), (1, ["c"]), (2, ["a", "b"]), (2, ["c"])]


def test_no_folds_give_no_results() -> None:
    assert compare([[1]], [], lambda fold, group: group) == {1: []}


@pytest.mark.parametrize(("one_standard_error", "expected"), [(True, 1), (False, 3)])
def test_the_smallest_within_one_standard_error_is_chosen(one_standard_error: bool, expected: int) -> None:
    loss, error = np.array([0.6, 0.51, 0.52, 0.5]), np.full(4, 0.03)
    assert choose([1, 2, 2, 9], loss, error, one_standard_error=one_standard_error) == expected


def test_standard_errors_are_those_of_means() -> None:
    rng = np.random.default_rng(0)
    losses = rng.normal(size=(3, 7))
    mean, error = summarise(losses.tolist())
    np.testing.assert_allclose(mean, losses.mean(axis=1))
    np.testing.assert_allclose(error, losses.std(axis=1, ddof=1) / np.sqrt(7))
