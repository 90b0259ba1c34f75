"""Folds of parts of the rows, of rows of unlike weight, and means by group."""

import numpy as np

from treelu.data.folds import Folding, _dealt, by_group


def test_given_folds_of_rows_that_are_there_several_times() -> None:
    folding = Folding(given=((np.array([0, 1]), np.array([2])),)).part(np.array([2, 2, 0]))
    assert folding.given is not None
    assert [[side.tolist() for side in fold] for fold in folding.given] == [[[2], [0, 1]]]


def test_the_largest_unit_goes_to_the_smallest_fold() -> None:
    assert _dealt(np.array([5, 1, 1, 5, 3]), 2).tolist() == [0, 1, 0, 1, 0]


def test_means_by_group() -> None:
    assert by_group(np.array([1.0, 3.0, 4.0, 4.0]), np.array([0, 0, 1, 1])).tolist() == [2.0, 4.0]
