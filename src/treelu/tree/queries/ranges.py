"""The least and the greatest output within ranges, with rows that attain them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from treelu.tree.queries.geometry import Path, Surroundings
from treelu.tree.queries.goal import Output
from treelu.tree.queries.integers import BranchAndBound, Discrete, UndecidedError, some_row
from treelu.tree.queries.limits import Budget, Limits
from treelu.tree.queries.points import UnboundedError, largest_value, points_inside, proved_empty
from treelu.tree.queries.polyhedron import Polyhedron
from treelu.tree.queries.words import html_text, number, row_words


@dataclass(frozen=True, eq=False)
class OutputRange:
    """The least and the greatest output within ranges.

    Attributes
    ----------
    what : str
        Which output, in words.
    low, high : float
        Infinite where a linear leaf has no end.
    low_row, high_row : array of shape (n_features,) or None
        Rows that attain them, to within 1e-8 units where the end itself is no row; None where there is none.
    n_leaves, n_reached : int
        Leaves of the tree, and how many of them were looked into.
    within : str
        Which rows these are, in words: "within the training ranges", "without missing values"; empty for
        all rows.
    """

    what: str
    low: float
    high: float
    low_row: np.ndarray | None
    high_row: np.ndarray | None
    n_leaves: int
    n_reached: int
    within: str = ""

    def __str__(self) -> str:
        return f"{self.what} is from {number(self.low)} to {number(self.high)} for every {row_words(self.within)}"

    def _repr_html_(self) -> str:
        return html_text(str(self))


def output_range(limits: Limits, output: Output, budget_seconds: float | None = None) -> OutputRange:
    """The least and the greatest output of permitted rows."""
    inside = _Inside(limits, Budget(budget_seconds))
    low, low_row = _farthest(inside, output, -1)
    high, high_row = _farthest(inside, output, 1)
    return OutputRange(output.words, low, high, low_row, high_row, limits.tree.n_leaves, inside.n_looked, limits.words)


def leaf_ranges(
    limits: Limits, output: Output, budget_seconds: float | None = None
) -> list[tuple[float, float] | None]:
    """The least and the greatest output in each linear leaf, None for a leaf that no permitted row comes to.

    Where a search is not decided, or its time is over, an end is what the ranges of the features alone permit.
    """
    inside = _Inside(limits, Budget(budget_seconds))
    most = {sign: dict(_by_bound(inside, output, sign)) for sign in (-1, 1)}
    found: list[tuple[float, float] | None] = []
    for leaf in range(limits.tree.n_leaves):
        ends = [_leaf_end(inside, output, leaf, sign, most[sign]) for sign in (-1, 1)]
        low, high = ends
        found.append(None if low is None or high is None else (low, high))
    return found


def _leaf_end(inside: _Inside, output: Output, leaf: int, sign: int, most: dict[int, float]) -> float | None:
    """The greatest (sign 1) or the least (sign −1) output of a linear leaf."""
    if leaf not in most:
        return None
    weights, offset = output.leaf_form(leaf)
    try:
        found = inside.extreme(leaf, sign * weights)
    except UndecidedError:
        return output.from_form(sign * most[leaf]) + 0.0
    return None if found is None else output.from_form(sign * (found[0] + sign * offset)) + 0.0


class _Inside:
    """Permitted rows in the leaves of a tree."""

    def __init__(self, limits: Limits, budget: Budget) -> None:
        self.tree, self.limits, self.budget, self.n_looked = limits.tree, limits, budget, 0
        self.place = Surroundings(limits.splits, limits, limits.centre())
        self.discrete = Discrete(self.place.whole, self.place.groups)
        self.paths = dict(self._paths())

    def _paths(self) -> Iterator[tuple[int, Path]]:
        """The leaves that bounds of single nodes do not exclude."""
        costs = self.place.side_costs("l2")
        stack: list[tuple[int, Path]] = [(0, ())]
        while stack:
            node, path = stack.pop()
            if node >= self.tree.n_splits:
                yield node - self.tree.n_splits, path
                continue
            for side, child in enumerate(self.tree.children[node].tolist()):
                if np.isfinite(costs[node, side]):
                    stack.append((child, (*path, (node, side))))

    def _shape(self, leaf: int) -> Polyhedron | None:
        """The permitted part of a leaf; None where bounds alone show that there is none."""
        if self.budget.spent():
            raise UndecidedError("no time is left")
        self.n_looked += 1
        shape = self.place.polyhedron(self.paths[leaf])
        return None if shape.empty_by_bounds() else shape

    def row(self, leaf: int) -> np.ndarray | None:
        """A permitted row in a leaf, None where it is proved that there is none; UndecidedError otherwise."""
        shape = self._shape(leaf)
        if shape is None:
            return None
        return some_row(shape, self.discrete, lambda y, part: self._row_in(leaf, y, part), self.budget)

    def _row_in(self, leaf: int, y: np.ndarray, shape: Polyhedron) -> np.ndarray | None:
        """The row of a point, where it is permitted and comes to a leaf by the tree's own routing."""
        row = self.place.row(y, shape)
        comes = self.limits.holds(row) and int(self.tree.apply(row[None])[0]) == self.tree.n_splits + leaf
        return row if comes else None

    def extreme(self, leaf: int, weights: np.ndarray) -> tuple[float, np.ndarray | None] | None:
        """The largest ``weights @ x`` in a leaf and a row there; infinite without a row where there is no end.

        None where it is proved that the leaf has no row; UndecidedError where nothing is.
        """
        shape = self._shape(leaf)
        if shape is None:
            return None
        form = weights[self.place.movable] * self.place.scale
        try:
            found = (self._largest_discrete if self.discrete.any else self._largest)(shape, leaf, form)
        except UnboundedError:
            return (np.inf, None) if self._may_hold_rows(leaf) else None
        return None if found is None else (float(weights @ self.place.x + found[0]), found[1])

    def _may_hold_rows(self, leaf: int) -> bool:
        try:
            return self.row(leaf) is not None
        except UndecidedError:
            return True

    def _largest_row(self, shape: Polyhedron, leaf: int, form: np.ndarray) -> np.ndarray | None:
        """A row with the largest ``form``, or as near to it as the tree's own sums permit."""
        rows = (self._row_in(leaf, y, shape) for y in points_inside(shape, lambda part: largest_value(part, form)))
        return next((row for row in rows if row is not None), None)

    def _largest_discrete(
        self, shape: Polyhedron, leaf: int, form: np.ndarray
    ) -> tuple[float, np.ndarray | None] | None:
        size = float(np.abs(form).max(initial=0.0)) or 1.0  # the search compares costs with 1
        form = form / size

        def relax(part: Polyhedron) -> tuple[float, np.ndarray] | None:
            y = largest_value(part, form)
            return None if y is None else (-float(form @ y), y)

        def settle(part: Polyhedron) -> tuple[float, np.ndarray] | None:
            row = self._largest_row(part, leaf, form)
            if row is None:
                return None
            return -float(form @ ((row - self.place.x)[self.place.movable] / self.place.scale)), row

        least, found = BranchAndBound(self.discrete, relax, settle, self.budget).best(shape)
        if np.isinf(least):
            if least < 0:
                raise UndecidedError("a search over integers ended without an answer")
            return None
        return -least * size, None if found is None else found[1]

    def _largest(self, shape: Polyhedron, leaf: int, form: np.ndarray) -> tuple[float, np.ndarray | None] | None:
        best = largest_value(shape, form)
        row = None if best is None else self._largest_row(shape, leaf, form)
        if row is None and proved_empty(shape):
            return None
        if best is None:
            raise UndecidedError("no row of a leaf was found")
        return float(form @ best), row


def _farthest(inside: _Inside, output: Output, sign: int) -> tuple[float, np.ndarray | None]:
    """The greatest (sign 1) or the least (sign −1) number, and a row."""
    tree = inside.tree
    if tree.leaf_weights is None:
        values = output.leaf_values()
        for leaf in sorted(inside.paths, key=lambda leaf: -sign * values[leaf]):
            try:
                row = inside.row(leaf)
            except UndecidedError:  # no row lies beyond the leaf's value, whether one has it or not
                return float(values[leaf]), None
            if row is not None:
                return float(output.of(row[None])[0]), row
        raise ValueError("no permitted row comes to any leaf; see bounds, whole and groups")
    best, best_row, none = -np.inf, None, True
    for leaf, most in _by_bound(inside, output, sign):
        if most <= best:
            break
        weights, offset = output.leaf_form(leaf)
        try:
            found = inside.extreme(leaf, sign * weights)
        except UndecidedError:  # no row lies beyond what the ranges alone permit
            found = most - sign * offset, None
        if found is None:
            continue
        none = False
        value = found[0] + sign * offset
        if value > best:
            best, best_row = value, found[1]
    if none:
        raise ValueError("no permitted row comes to any leaf; see bounds, whole and groups")
    return output.from_form(sign * best), best_row


def _by_bound(inside: _Inside, output: Output, sign: int) -> list[tuple[int, float]]:
    """Linear leaves by the greatest value that the ranges alone permit."""
    low, high = inside.limits.low, inside.limits.high
    result = []
    for leaf in inside.paths:
        weights, offset = output.leaf_form(leaf)
        weights = sign * weights
        ends = np.where(weights > 0, high, low)
        most = float((weights[weights != 0] * ends[weights != 0]).sum() + sign * offset)
        result.append((leaf, most))
    return sorted(result, key=lambda item: -item[1])
