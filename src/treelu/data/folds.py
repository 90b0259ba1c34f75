"""Rows held out: the one place that divides rows into folds, at random, by group or as the user's `cv` asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Fold = tuple[NDArray[np.int64], NDArray[np.int64]]  # the rows to train on, and those held out


@dataclass(frozen=True)
class Folding:
    """The user's choice of folds: the parameters `cv` and `groups` after checking."""

    groups: NDArray[np.int64] | None = None  # rows of one group are on the same side of every split
    n_folds: int | None = None  # None: as many as the caller makes by default
    given: tuple[Fold, ...] | None = None  # the folds of a splitter or an iterable, by row numbers

    @property
    def by_user(self) -> bool:
        """Whether `cv` was given, so that all of its folds are used, however many rows there are."""
        return self.n_folds is not None or self.given is not None

    def part(self, rows: NDArray[np.int64]) -> Folding:
        """The same for some of the rows, of which some may be there several times."""
        groups = None if self.groups is None else self.groups[rows]
        if self.given is None or not len(rows):
            return Folding(groups, self.n_folds, self.given)
        n_rows = 1 + max(int(rows.max()), *(int(side.max(initial=0)) for fold in self.given for side in fold))

        def places(side: NDArray[np.int64]) -> NDArray[np.int64]:
            inside = np.zeros(n_rows, np.bool_)
            inside[side] = True
            return np.flatnonzero(inside[rows])

        return Folding(groups, self.n_folds, tuple((places(train), places(test)) for train, test in self.given))


def folds(
    key: NDArray[Any],
    n_folds: int,
    rng: np.random.Generator,
    folding: Folding | None = None,
    weight: NDArray[Any] | None = None,
    *,
    are_classes: bool,
    per_class: bool = False,
) -> list[Fold]:
    """The folds of some rows: those of `folding` or, by default, `n_folds` parts that are held out in turn.

    Both sides of each fold have rows.

    - Rows of like `key`, class numbers or values, go to different folds; what has all rows of a class (a lone row, or a
      group) is never held out.
    - Folds are of like weight. A row of weight 3 goes where a group of three rows like it would go.
    - `per_class` deals the rows of each class from the first fold on, so that this one has rows of all classes.

    Examples
    --------
    >>> parts = folds(np.array([0, 0, 1, 1]), 2, np.random.default_rng(0), are_classes=True)
    >>> [(train.tolist(), test.tolist()) for train, test in parts]
    [([1, 3], [0, 2]), ([0, 2], [1, 3])]
    """
    if folding is not None and folding.given is not None:
        return [(train, test) for train, test in folding.given if len(train) and len(test)]
    groups = None if folding is None else folding.groups
    n_folds = n_folds if folding is None or folding.n_folds is None else folding.n_folds
    fold = fold_numbers(key, n_folds, rng, groups, weight, are_classes=are_classes, per_class=per_class)
    parts = ((np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds))
    return [(train, test) for train, test in parts if len(train) and len(test)]


def fold_numbers(
    key: NDArray[Any],
    n_folds: int,
    rng: np.random.Generator,
    groups: NDArray[np.int64] | None = None,
    weight: NDArray[Any] | None = None,
    *,
    are_classes: bool,
    per_class: bool = False,
) -> NDArray[np.int64]:
    """The fold 0, …, n_folds − 1 of each row; `n_folds` for one that is never held out. See `folds`.

    Rows, or groups by the mean of their keys, are sorted and dealt to the folds in turn; where their weights differ
    the largest of each round goes to the smallest fold.
    """
    unit = np.arange(len(key)) if groups is None else np.unique(groups, return_inverse=True)[1]
    sizes = np.bincount(unit, weight)
    of_unit = np.bincount(unit, key) / np.bincount(unit)
    shuffled = rng.permutation(len(sizes))
    order = shuffled[np.argsort(of_unit[shuffled], kind="stable")]
    fold = np.empty(len(sizes), np.int64)
    if groups is None and per_class:
        starts = np.flatnonzero(np.diff(of_unit[order], prepend=np.nan))
        fold[order] = (np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))) % n_folds
    elif len(sizes) and sizes.min() == sizes.max():
        fold[order] = np.arange(len(order)) % n_folds
    else:
        fold[order] = _dealt(sizes[order], n_folds)
    if are_classes:
        number = np.unique(key, return_inverse=True)[1]
        pairs = np.unique(number * len(sizes) + unit)
        fold[unit[np.bincount(pairs // len(sizes))[number] == 1]] = n_folds
    return fold[unit]


def _dealt(sizes: NDArray[Any], n_folds: int) -> NDArray[np.int64]:
    """The folds of units in their order: in each round one to each fold, the largest to the smallest fold."""
    fold, weight_in = np.empty(len(sizes), np.int64), np.zeros(n_folds)
    for start in range(0, len(sizes), n_folds):
        largest = np.argsort(-sizes[start : start + n_folds], kind="stable")
        smallest = np.argsort(weight_in, kind="stable")[: len(largest)]
        fold[start + largest] = smallest
        weight_in[smallest] += sizes[start + largest]
    return fold


def by_group(values: NDArray[np.float64], groups: NDArray[np.int64] | None) -> NDArray[np.float64]:
    """One number for each group, of the same mean: what is independent are groups, which standard errors count."""
    if groups is None:
        return values
    sums = np.bincount(np.unique(groups, return_inverse=True)[1], values).astype(np.float64)
    return sums * (len(sums) / len(values))
