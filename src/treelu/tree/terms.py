"""Terms: a feature is one, and so are the levels of a category together.

`group` (D,) has the number of the term that each feature belongs to, from 0; None where every feature is a term.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Group = NDArray[np.int64] | None


def of_groups(groups: Iterable[Sequence[int]], n_features: int) -> Group:
    """The terms of features of which some belong together.

    Examples
    --------
    >>> of_groups([(1, 2)], 4), of_groups([], 4) is None
    (array([0, 1, 1, 2]), True)
    """
    found = np.arange(n_features)
    for group in groups:
        found[list(group)] = group[0]
    return renumbered(found)


def renumbered(group: NDArray[Any] | None) -> Group:
    """The numbers of the terms from 0, without gaps; None where no two features share one.

    Examples
    --------
    >>> renumbered(np.array([4, 7, 7])), renumbered(np.array([4, 7, 9])) is None
    (array([0, 1, 1]), True)
    """
    if group is None:
        return None
    numbers, place = np.unique(group, return_inverse=True)
    return None if len(numbers) == len(group) else place.astype(np.int64)


def count(n_features: int, group: Group) -> int:
    """How many terms some features are."""
    return n_features if group is None else int(group.max(initial=-1)) + 1


def strengths(strength: NDArray[Any], group: Group) -> NDArray[Any]:
    """The strength (..., T) of each term from those of the features (..., D): the norm over its features.

    Examples
    --------
    >>> strengths(np.array([3.0, 4.0, 1.0]), np.array([0, 0, 1]))
    array([5., 1.])
    """
    if group is None:
        return strength
    is_member = np.arange(count(len(group), group)) == group[:, None]  # (D, T)
    squares: Any = strength.astype(np.float64) ** 2 @ is_member
    return np.asarray(np.sqrt(squares))


def strongest(strength: NDArray[Any], group: Group, most: int) -> NDArray[np.int64]:
    """The features, in order, of the terms of largest strength (T,).

    Examples
    --------
    >>> strongest(np.array([5.0, 1.0]), np.array([0, 0, 1]), 1)
    array([0, 1])
    """
    kept = np.sort(np.argsort(-strength, kind="stable")[:most])
    return kept if group is None else np.flatnonzero(np.isin(group, kept))


def most_terms(splits: NDArray[Any], group: Group) -> int:
    """The terms of the longest of some splits (S, D).

    Examples
    --------
    >>> most_terms(np.array([[1.0, 2.0, 0.0]]), None), most_terms(np.array([[1.0, 2.0, 0.0]]), np.array([0, 0, 1]))
    (2, 1)
    """
    return int(np.count_nonzero(strengths(splits, group), axis=1).max(initial=0))


def n_weights(n_features: int, group: Group) -> int:
    """How many weights a reader meets where all features have one: of a category one less than its levels.

    Examples
    --------
    >>> n_weights(4, np.array([0, 0, 0, 1])), n_weights(4, None)
    (3, 4)
    """
    if group is None:
        return n_features
    levels = np.bincount(group)
    return int((levels - (levels > 1)).sum())


def members(group: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The features of each term."""
    order = np.argsort(group, kind="stable")
    return np.split(order, np.cumsum(np.bincount(group))[:-1])


def whole_terms(used: NDArray[Any], group: Group) -> NDArray[Any]:
    """Marks (S, D) of features with those of all features of their terms.

    Examples
    --------
    >>> whole_terms(np.array([[1.0, 0.0, 0.0]]), np.array([0, 0, 1]))
    array([[1., 1., 0.]])
    """
    return used if group is None else (strengths(used, group) > 0)[:, group].astype(used.dtype)
