"""The limits of a query: ranges, kept features, directions, integers, one-hot groups, units, and time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from treelu.tree.names import plain
from treelu.tree.oblique_tree import ObliqueTree
from treelu.tree.observed import Observed
from treelu.tree.queries.columns import ColumnFeatures
from treelu.tree.queries.geometry import Splits
from treelu.tree.queries.words import number
from treelu.tree.rows import dense_row, one_row_table


class Budget:
    """The processor time of a search, in seconds of this thread, None for no limit; and how many programmes it solved.

    Examples
    --------
    >>> Budget(None).spent(), Budget(0.0).spent()
    (False, True)
    """

    def __init__(self, seconds: float | None = None) -> None:
        if seconds is not None and not seconds >= 0:
            raise ValueError(f"budget_seconds must be at least 0, or None for no limit, got {seconds}")
        self.end = np.inf if seconds is None else time.thread_time() + seconds
        self.n_solved = 0

    def spent(self) -> bool:
        """Whether no time is left."""
        return time.thread_time() >= self.end


@dataclass(frozen=True)
class Limits:
    """The rows that may be answers, and the unit in which changes of each feature are measured.

    Attributes
    ----------
    splits : Splits
        Of the tree that is asked.
    low, high : float arrays of shape (n_features,)
        The range of each feature, its ends included; may be infinite.
    whole : bool array of shape (n_features,)
        Features that take integers only.
    groups : tuple of int arrays
        One-hot groups: of each, exactly one feature is 1 and the others are 0.
    scale : float array of shape (n_features,)
        The unit of each feature: a change by ``scale`` counts as 1.
    named_groups : tuple of int tuples
        The groups as given, with the members that the ranges fix.
    yielding, yielding_whole : bool arrays of shape (n_features,)
        Features whose range, or whose being integers, follows from the training rows alone: a row asked about that is
        beyond it may stay there.
    words : str
        Which rows these are: "within the training ranges", "without missing values"; empty for all rows.
    """

    splits: Splits
    low: np.ndarray
    high: np.ndarray
    whole: np.ndarray
    groups: tuple[np.ndarray, ...]
    scale: np.ndarray
    named_groups: tuple[tuple[int, ...], ...]
    yielding: np.ndarray
    yielding_whole: np.ndarray
    words: str = ""

    @property
    def tree(self) -> ObliqueTree:
        """The tree that is asked."""
        return self.splits.tree

    def around(
        self, x: np.ndarray, keep: Iterable[Any] = (), rise: Iterable[Any] = (), fall: Iterable[Any] = ()
    ) -> Limits:
        """The rows that a row may become: some features stay, some only rise, some only fall."""
        low = np.where(self.yielding, np.minimum(self.low, x), self.low)
        high = np.where(self.yielding, np.maximum(self.high, x), self.high)
        whole = self.whole & ~(self.yielding_whole & (x != np.round(x)))
        for option, features in (("keep", keep), ("rise", rise), ("fall", fall)):
            for j in find_features(self.tree, features, option):
                if not low[j] <= x[j] <= high[j]:
                    raise ValueError(
                        f"{option}: {self.tree.feature_name(j)!r} is {number(x[j])}, outside its range "
                        f"{number(self.low[j])} to {number(self.high[j])}; widen the range or take it out of {option}"
                    )
                if option != "fall":
                    low[j] = x[j]
                if option != "rise":
                    high[j] = x[j]
        for group in self.groups:
            # A row of a category that training had not: all 0, and it stays so.
            named = next(np.array(named) for named in self.named_groups if group[0] in named)
            if not (np.isin(x[named], (0.0, 1.0)).all() and x[named].sum() == 1):
                low[group] = high[group] = x[group]
        if self.tree.missing is not None:  # a missing value stays missing, a known one stays known
            indicators = self.tree.missing.indicators
            stays = np.append(indicators, self.tree.missing.gaps[x[indicators] == 1])
            low[stays] = high[stays] = x[stays]
            if self.words and self.tree.observed is not None:  # of the known ones, also those whose fill is no integer
                known = self.tree.missing.gaps[x[indicators] == 0]
                known = known[self.tree.observed.integers[known] & (x[known] == np.round(x[known]))]
                known = known[np.ceil(low[known]) <= np.floor(high[known])]
                low[known], high[known], whole[known] = np.ceil(low[known]), np.floor(high[known]), True
        if self.tree.columns is not None:
            stays = np.array(ColumnFeatures(self.tree.columns).missing_in(x), dtype=np.int64)
            low[stays] = high[stays] = x[stays]
        moving = [group for group in self.groups if (low[group] < high[group]).any()]
        groups = _settle_groups(self.tree, moving, low, high)
        whole &= low < high  # what stays may be any number
        return replace(self, low=low, high=high, whole=whole, groups=groups)

    def holds(self, x: np.ndarray) -> bool:
        """Whether a row is one of them."""
        inside = bool(((self.low <= x) & (x <= self.high)).all() and (x[self.whole] == np.round(x[self.whole])).all())
        return inside and all(x[group].sum() == 1 for group in self.groups)

    def free(self, used: np.ndarray) -> np.ndarray:
        """Which features may vary, of those that are used or stand in a group: bool (n_features,)."""
        used = used.copy()
        for group in self.groups:
            used[group] = True
        return used & (self.low < self.high)

    def centre(self) -> np.ndarray:
        """A permitted row near the middle of the ranges."""
        low, high = self.low, self.high
        with np.errstate(invalid="ignore"):
            middle = np.where(np.isfinite(low) & np.isfinite(high), low / 2 + high / 2, 0.0)
        x = np.clip(np.where(self.whole, np.round(middle), middle), low, high)
        for group in self.groups:
            x[group] = low[group]  # those that must be set, if any
            if x[group].sum() == 0:
                x[group[np.argmax(high[group])]] = 1.0
        return x

    def of_pairs(self, features: np.ndarray) -> Limits:
        """The limits of two rows that differ in some features, over the variables of `Splits.of_pairs`."""
        second = [np.flatnonzero(np.isin(features, group)) + len(self.low) for group in self.groups]
        low, high, whole, scale = (np.r_[x, x[features]] for x in (self.low, self.high, self.whole, self.scale))
        groups = (*self.groups, *(group for group in second if len(group)))
        return replace(self, low=low, high=high, whole=whole, scale=scale, groups=groups)


def tree_limits(
    tree: ObliqueTree,
    *,
    limits: str | None = "observed",
    bounds: Any = None,
    whole: Iterable[Any] = (),
    groups: Sequence[Iterable[Any]] = (),
    scale: Any = None,
    everywhere: bool = True,
) -> Limits:
    """The rows that a query is about, in the columns that the tree was fitted to: `everywhere`, or around a row."""
    if tree.columns is not None:
        own, known = ColumnFeatures(tree.columns), limits == "observed" and tree.observed is not None
        given = own.limits(bounds, whole, groups, scale, everywhere=everywhere, observed=known)
        return read_limits(replace(tree, observed=own.observed(tree.observed)), limits=limits, **given)
    missing = tree.missing if everywhere else None
    marks = () if missing is None else missing.indicators.tolist()
    return read_limits(tree, limits=limits, bounds=bounds, whole=whole, groups=groups, scale=scale, marks=marks)


def read_limits(
    tree: ObliqueTree,
    *,
    bounds: Any = None,
    whole: Iterable[Any] = (),
    groups: Sequence[Iterable[Any]] = (),
    scale: Any = None,
    limits: str | None = "observed",
    marks: Sequence[int] = (),
) -> Limits:
    """Read the options that do not depend on a row.

    What is given counts for its features; ``limits="observed"`` adds for all others what the training rows held.
    ``marks`` are indicators of missing values, which are 0 unless given.
    """
    observed = _read_observed(tree, limits)
    low, high, given = read_bounds(tree, bounds)
    words = [] if observed is None else ["within the training ranges" + " and the given ones" * bool(given.any())]
    marks = [mark for mark in marks if not given[mark]]
    if marks:
        low[marks], high[marks], given[marks] = 0.0, 0.0, 2
        words.append("without missing values")
    is_whole = np.zeros(tree.n_features, dtype=bool)
    is_whole[find_features(tree, whole, "whole")] = True
    found = _read_groups(tree, groups)
    zero_or_one = np.zeros(tree.n_features, dtype=bool)
    if tree.missing is not None:
        zero_or_one[tree.missing.indicators] = True
    yielding = yielding_whole = np.zeros(tree.n_features, dtype=bool)
    if observed is not None:
        taken = {j for group in found for j in group}
        low, high, yielding = _within(observed, low, high, given)
        for group in map(np.array, observed.groups):
            if not taken & set(group.tolist()) and (low[group] >= 1).sum() <= 1 <= (high[group] >= 1).sum():
                found.append(group)
        yielding_whole = _integers(tree, observed, low, high) & ~is_whole
        is_whole = is_whole | yielding_whole
    for group in found:
        zero_or_one[group] = True
    low, high = np.where(zero_or_one, np.maximum(low, 0.0), low), np.where(zero_or_one, np.minimum(high, 1.0), high)
    is_whole |= zero_or_one
    with np.errstate(invalid="ignore"):
        empty = is_whole & (np.ceil(low) > np.floor(high))
    if empty.any():
        j = int(np.flatnonzero(empty)[0])
        raise ValueError(
            f"whole: no whole number lies in the range of {tree.feature_name(j)!r}, {number(low[j])} to "
            f"{number(high[j])}; widen the range"
        )
    low, high = np.where(is_whole, np.ceil(low), low), np.where(is_whole, np.floor(high), high)
    named = tuple(tuple(group.tolist()) for group in found)
    units = _read_scale(tree, scale)
    settled = _settle_groups(tree, found, low, high)
    return Limits(Splits(tree), low, high, is_whole, settled, units, named, yielding, yielding_whole, " ".join(words))


def _read_observed(tree: ObliqueTree, limits: str | None) -> Observed | None:
    """What the training rows held, where a query is to stay within it and the tree knows it."""
    if limits not in ("observed", "anywhere", None):
        raise ValueError(
            f'limits must be "observed" (rows like those of training), or None or "anywhere" (all rows), got {limits!r}'
        )
    return tree.observed if limits == "observed" else None


def _within(
    observed: Observed, low: np.ndarray, high: np.ndarray, given: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ranges narrowed to those of the training rows; those given count, and an end left open is that of training.

    Where the given end lies beyond all training rows, the open one stays open. Last: which are not given.
    """
    open_low, open_high = np.isneginf(low) & (given < 2), np.isposinf(high) & (given < 2)
    low, high = (
        np.where(open_low & ((given == 0) | (observed.low <= high)), observed.low, low),
        np.where(open_high & ((given == 0) | (low <= observed.high)), observed.high, high),
    )
    return low, high, given == 0


def _integers(tree: ObliqueTree, observed: Observed, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Features that take integers only, as in training; not where a range has none, or a missing value is filled so."""
    integers = observed.integers.copy()
    with np.errstate(invalid="ignore"):
        integers &= np.ceil(low) <= np.floor(high)
    if tree.missing is not None:
        gaps = tree.missing.gaps
        integers[gaps] &= tree.missing.fills[gaps] == np.round(tree.missing.fills[gaps])
    return integers


def _read_groups(tree: ObliqueTree, groups: Sequence[Iterable[Any]]) -> list[np.ndarray]:
    """One-hot groups that are given."""
    found = []
    taken: set[int] = set()
    for group in groups:
        members = find_features(tree, group, "groups")
        if len(members) < 2:
            raise ValueError(f"groups: a group needs at least two features, got {list(group)!r}")
        if taken & set(members):
            twice = tree.feature_name(min(taken & set(members)))
            raise ValueError(f"groups: {twice!r} is in more than one group")
        taken |= set(members)
        found.append(np.array(members))
    return found


def _settle_groups(
    tree: ObliqueTree, groups: Sequence[np.ndarray], low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, ...]:
    """The members of each group that are still free, with what follows for the others written into the ranges.

    A member fixed at 1 leaves 0 for the rest. One fixed at 0 leaves the group, and the rest must still sum to 1.
    """
    free = []
    for group in groups:
        can, must = group[high[group] >= 1], group[low[group] >= 1]
        if len(must) > 1 or not len(can):
            names = ", ".join(repr(tree.feature_name(int(j))) for j in (must if len(must) else group)[:3])
            why = f"{names} are all fixed at 1" if len(must) else f"none of {names} may be 1"
            raise ValueError(f"groups: {why}, and exactly one member of a group is; see the ranges")
        chosen = must if len(must) else can if len(can) == 1 else None
        if chosen is not None:
            low[group] = high[group] = 0.0
            low[chosen] = high[chosen] = 1.0
        else:
            closed = np.setdiff1d(group, can)
            low[closed] = high[closed] = 0.0
            free.append(can)
    return tuple(free)


def find_features(tree: ObliqueTree, features: Iterable[Any], option: str) -> list[int]:
    """Numbers of features that are given by name or number.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0, 2.0]], [0.0], [[1, 2]], [[0], [1]], feature_names=["age", "income"])
    >>> find_features(tree, ["income", 0], "keep")
    [1, 0]
    """
    if isinstance(features, str | int | np.integer):
        features = [features]
    names = {tree.feature_name(j): j for j in range(tree.n_features)}
    found = []
    for feature in features:
        if isinstance(feature, str) and feature in names:
            found.append(names[feature])
        elif isinstance(feature, int | np.integer) and 0 <= feature < tree.n_features:
            found.append(int(feature))
        else:
            raise ValueError(f"{option}: the tree has no feature {feature!r}{_near(str(feature), list(names))}")
    return found


def _near(name: str, names: list[str]) -> str:
    folded = {other.casefold(): other for other in reversed(names)}
    near = get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.6)
    if near:
        return f"; did you mean {folded[near[0]]!r}?"
    return f"; it has {', '.join(map(repr, names[:6]))}{', …' if len(names) > 6 else ''}"


def read_bounds(tree: ObliqueTree, bounds: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The range of each feature, from a mapping of features to (low, high) or a pair (low, high) for all.

    Last: of each feature 0 where no range is given, 1 where an end is left open by None, 2 where both are given.
    """
    low, high = np.full(tree.n_features, -np.inf), np.full(tree.n_features, np.inf)
    given = np.zeros(tree.n_features, dtype=int)
    if bounds is None:
        return low, high, given
    if isinstance(bounds, Mapping):
        for feature, ends in bounds.items():
            (j,) = find_features(tree, [feature], "bounds")
            try:
                first, last = (infinite if end is None else float(end)
                               for end, infinite in zip(ends, (-np.inf, np.inf), strict=True))  # fmt: skip
            except (TypeError, ValueError):
                raise ValueError(
                    f"bounds: the range of {feature!r} must be a pair (low, high), None for no end, got {ends!r}"
                ) from None
            low[j], high[j] = first, last
            given[j] = 1 if any(end is None for end in ends) else 2
    else:
        given[:] = 2
        try:
            low[:], high[:] = bounds
        except (TypeError, ValueError):
            raise ValueError(
                "bounds must map features to (low, high), or be a pair (low, high) of numbers or of arrays of "
                f"{tree.n_features}, got {bounds!r}"
            ) from None
    bad = ~(low <= high)
    if bad.any():
        j = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"bounds: the range of {tree.feature_name(j)!r} is empty, {number(low[j])} to {number(high[j])}; "
            "give the smaller number first"
        )
    return low, high, given


def _read_scale(tree: ObliqueTree, scale: Any) -> np.ndarray:
    """The unit of each feature; where none is given its spread, if the tree knows that and it is not 0."""
    units = np.ones(tree.n_features)
    if tree.spreads is not None:
        units = np.where(tree.spreads > 0, tree.spreads, 1.0)
    if scale is None:
        return units
    if isinstance(scale, Mapping):
        for feature, unit in scale.items():
            units[find_features(tree, [feature], "scale")] = unit
    else:
        array = np.asarray(scale, dtype=np.float64)
        if array.shape not in ((), (tree.n_features,)):
            raise ValueError(f"scale must be a number or have shape ({tree.n_features},), got {array.shape}")
        units[:] = np.where(array == 0, 1.0, array)  # a feature without spread, such as one of training's constants
    if not (np.isfinite(units) & (units > 0)).all():
        j = int(np.flatnonzero(~(np.isfinite(units) & (units > 0)))[0])
        raise ValueError(f"scale: the unit of {tree.feature_name(j)!r} must be positive, got {number(units[j])}")
    return units


def values_of(x: Any) -> dict[str, Any]:
    """The values of one row that is given with names; nothing of a vector."""
    if isinstance(x, Mapping):
        return {str(name): plain(value) for name, value in x.items()}
    if hasattr(x, "to_frame") and getattr(x, "ndim", 0) == 1:
        return {str(name): plain(value) for name, value in x.items()}
    if hasattr(x, "iloc") and len(x) == 1:
        return {str(name): plain(x[name].iloc[0]) for name in x.columns}
    return {}


def one_row(tree: ObliqueTree, x: Any) -> np.ndarray:
    """One row of numbers, from a vector, a Series or mapping of names, a one-row frame or a sparse row."""
    if isinstance(x, Mapping):
        import pandas as pd

        x = pd.DataFrame([x])
    rows = tree.read_rows(one_row_table(x, tree.feature_names), every_column=True)
    if rows.shape[0] != 1:
        raise ValueError(f"x must be one row, got {rows.shape[0]}")
    row = np.array(dense_row(rows, 0), dtype=np.float64)
    if not np.isfinite(row).all():
        j = int(np.flatnonzero(~np.isfinite(row))[0])
        raise ValueError(f"x must be finite, got {row[j]} for {tree.feature_name(j)!r}")
    return row
