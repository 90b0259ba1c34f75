"""The least and the greatest output within ranges, with rows that attain them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from treelu.tree.names import shown_class
from treelu.tree.oblique_tree import ObliqueTree
from treelu.tree.queries.geometry import Path, Polyhedron, Splits, Surroundings
from treelu.tree.queries.permitted import Permitted
from treelu.tree.queries.programmes import (
    UnboundedError,
    UnsolvedError,
    deepest_point,
    largest_value,
    nearest_point,
    proved_empty,
)
from treelu.tree.queries.wanted import find_class
from treelu.tree.queries.whole import Budget, Discrete, UndecidedError, WholeSearch, check_budget, rows_inside
from treelu.tree.queries.words import html_text, number

_MARGINS = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5)


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
    """

    what: str
    low: float
    high: float
    low_row: np.ndarray | None
    high_row: np.ndarray | None
    n_leaves: int
    n_reached: int

    def __str__(self) -> str:
        return f"{self.what} is from {number(self.low)} to {number(self.high)} for every permitted row"

    def _repr_html_(self) -> str:
        return html_text(str(self))


def output_range(permitted: Permitted, output: Output, budget_seconds: float | None = None) -> OutputRange:
    """The least and the greatest output of permitted rows."""
    inside = Inside(permitted.tree, permitted, Budget(check_budget(budget_seconds)))
    low, low_row = farthest(inside, output, -1)
    high, high_row = farthest(inside, output, 1)
    return OutputRange(output.words, low, high, low_row, high_row, permitted.tree.n_leaves, inside.n_looked)


class Output:
    """One number that a tree predicts: an output, or the probability of a class."""

    def __init__(self, tree: ObliqueTree, target: Any, output: int) -> None:
        self.tree, self.k, self.output = tree, None, output
        if not tree.is_classifier:
            if target is not None:
                raise ValueError("target names a class, and this tree predicts numbers; leave it out")
            if not 0 <= output < tree.n_outputs:
                raise ValueError(f"output must be from 0 to {tree.n_outputs - 1}, got {output}")
            self.words = "the prediction" if tree.n_outputs == 1 else f"output {output}"
            return
        assert tree.classes is not None
        if target is None:
            if len(tree.classes) != 2:
                raise ValueError("target must name the class whose probability is meant, for a tree of more than two")
            target = tree.classes[1]
        self.k = find_class(tree, target)
        self.words = f"the probability of {shown_class(tree.classes[self.k])}"
        if tree.leaf_weights is not None and tree.link == "softmax" and tree.n_outputs > 2:
            raise ValueError(
                "the probabilities of linear leaves with three or more classes are not monotone in a linear form; "
                "ask about a tree of two classes or one with constant leaves"
            )

    def of(self, X: np.ndarray) -> np.ndarray:
        """The number for rows, by the tree's own prediction."""
        return (
            self.tree.decision_function(X)[:, self.output] if self.k is None else self.tree.predict_proba(X)[:, self.k]
        )

    def score(self, X: np.ndarray) -> np.ndarray:
        """The number that decides: the score of a probability of linear leaves, which does not round to 0 or 1."""
        tree = self.tree
        if self.k is None or tree.leaf_weights is None:
            return self.of(X)
        scores = tree.decision_function(X)
        if tree.link == "logistic":
            return scores if self.k == 1 else -scores
        return scores[:, self.k] - scores[:, 1 - self.k]

    def shown(self, X: np.ndarray) -> np.ndarray:
        """The number for two rows that differ in it: their scores where the probabilities round to the same float."""
        numbers = self.of(X)
        return self.score(X) if len(numbers) == 2 and numbers[0] == numbers[1] else numbers

    def leaf_values(self) -> np.ndarray:
        """The number in each constant leaf."""
        return (
            self.tree.values[:, self.output] if self.k is None else self.tree.link_outputs(self.tree.values)[:, self.k]
        )

    def leaf_form(self, leaf: int) -> tuple[np.ndarray, float]:
        """Weights and offset of a linear form in a linear leaf with which the number rises."""
        tree = self.tree
        assert tree.leaf_weights is not None
        weights, values = tree.leaf_weights[leaf], tree.values[leaf]
        if self.k is None:
            return weights[self.output], float(values[self.output])
        if tree.link == "logistic":
            sign = 1.0 if self.k == 1 else -1.0
            return sign * weights[0], float(sign * values[0])
        return weights[self.k] - weights[1 - self.k], float(values[self.k] - values[1 - self.k])

    def from_form(self, value: float) -> float:
        """The number for a value of that form."""
        return value if self.k is None else float(np.exp(-np.logaddexp(0.0, -value)))


class Inside:
    """Permitted rows in the leaves of a tree."""

    def __init__(self, tree: ObliqueTree, permitted: Permitted, budget: Budget) -> None:
        self.tree, self.permitted, self.budget, self.n_looked = tree, permitted, budget, 0
        self.place = Surroundings(Splits(tree), permitted, centre(permitted))
        at = self.place.x[self.place.movable]
        self.discrete = Discrete(self.place.whole, at, self.place.scale, self.place.groups)
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

    def shape(self, leaf: int) -> Polyhedron:
        """The permitted part of a leaf."""
        return self.place.polyhedron(self.paths[leaf])

    def _look(self) -> None:
        if self.budget.spent():
            raise UndecidedError("no time is left")
        self.n_looked += 1

    def row(self, leaf: int) -> np.ndarray | None:
        """A permitted row in a leaf, None where it is proved that there is none; UndecidedError otherwise."""
        self._look()
        shape = self.shape(leaf)
        if shape.empty_by_bounds():
            return None
        if self.discrete.any:
            search = WholeSearch(
                self.discrete, nearest_by_sum, lambda part: self._settled(part, leaf), budget=self.budget
            )
            return search.any(shape)
        row = self._accepted(self._points(shape), shape, leaf)
        if row is None and not proved_empty(shape):
            raise UndecidedError("no row of a leaf was found")
        return row

    def _accepted(self, points: Iterator[np.ndarray], shape: Polyhedron, leaf: int) -> np.ndarray | None:
        for y in points:
            row = self.place.row(y, shape)
            if self.accepts(row, leaf):
                return row
        return None

    def _settled(self, part: Polyhedron, leaf: int, form: np.ndarray | None = None) -> tuple[float, np.ndarray] | None:
        """A row of a leaf whose whole numbers are fixed; the one with the largest ``form`` where that is given."""
        best = nearest_or_none if form is None else (lambda shape: largest_value(shape, form))
        row = self._accepted(rows_inside(part, best, _MARGINS), part, leaf)
        if row is None:
            return None
        y = (row - self.place.x)[self.place.movable] / self.place.scale
        return (float(np.abs(y).sum()) if form is None else -float(form @ y)), row

    def accepts(self, row: np.ndarray, leaf: int) -> bool:
        """Whether a row is permitted and comes to a leaf by the tree's own routing."""
        return self.permitted.holds(row) and int(self.tree.apply(row[None])[0]) == self.tree.n_splits + leaf

    def _points(self, shape: Polyhedron) -> Iterator[np.ndarray]:
        """Points of a leaf, deep inside if possible."""
        try:
            deep = deepest_point(shape)
        except (UnsolvedError, UnboundedError):
            deep = None
        if deep is not None:
            yield deep.y
        for strict_only in (False, True):
            for margin in (0.0, *_MARGINS):
                y = nearest_or_none(shape.inset(margin, strict_only=strict_only))
                if y is None:
                    break
                yield y

    def extreme(self, leaf: int, weights: np.ndarray) -> tuple[float, np.ndarray | None] | None:
        """The largest ``weights @ x`` in a leaf and a row there; infinite without a row where there is no end.

        None where it is proved that the leaf has no row; UndecidedError where nothing is.
        """
        self._look()
        shape = self.shape(leaf)
        if shape.empty_by_bounds():
            return None
        form = weights[self.place.movable] * self.place.scale
        try:
            found = self._largest_whole(shape, leaf, form) if self.discrete.any else self._largest(shape, leaf, form)
        except UnboundedError:
            return (np.inf, None) if self._may_hold_rows(leaf) else None
        return None if found is None else (float(weights @ self.place.x + found[0]), found[1])

    def _may_hold_rows(self, leaf: int) -> bool:
        try:
            return self.row(leaf) is not None
        except UndecidedError:
            return True

    def _largest_whole(self, shape: Polyhedron, leaf: int, form: np.ndarray) -> tuple[float, np.ndarray | None] | None:
        size = float(np.abs(form).max(initial=0.0)) or 1.0  # the search compares costs with 1
        form = form / size

        def relax(part: Polyhedron) -> tuple[float, np.ndarray] | None:
            y = largest_value(part, form)
            return None if y is None else (-float(form @ y), y)

        search = WholeSearch(self.discrete, relax, lambda part: self._settled(part, leaf, form), budget=self.budget)
        least, found = search.best(shape)
        if np.isinf(least):
            if least < 0:
                raise UndecidedError("a search over integers ended without an answer")
            return None
        return -least * size, None if found is None else found[1]

    def _largest(self, shape: Polyhedron, leaf: int, form: np.ndarray) -> tuple[float, np.ndarray | None] | None:
        try:
            best = largest_value(shape, form)
        except UnsolvedError:
            best = None
        if best is None:
            if proved_empty(shape):
                return None
            raise UndecidedError("no row of a leaf was found")
        row = self._accepted(rows_inside(shape, lambda inner: largest_value(inner, form), _MARGINS), shape, leaf)
        if row is None and proved_empty(shape):
            return None
        return float(form @ best), row


def nearest_by_sum(shape: Polyhedron) -> tuple[float, np.ndarray] | None:
    """The point of a polyhedron with the least l1 norm, and that norm."""
    y = nearest_or_none(shape)
    return None if y is None else (float(np.abs(y).sum()), y)


def nearest_or_none(shape: Polyhedron) -> np.ndarray | None:
    """The point of a polyhedron with the least l1 norm; None where the solver finds none."""
    try:
        return nearest_point(shape, "l1")
    except (UnsolvedError, UnboundedError):
        return None


def centre(permitted: Permitted) -> np.ndarray:
    """A permitted row near the middle of the ranges."""
    low, high = permitted.low, permitted.high
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isfinite(low) & np.isfinite(high), low / 2 + high / 2, 0.0)
    x = np.clip(np.where(permitted.whole, np.round(middle), middle), low, high)
    for group in permitted.groups:
        x[group] = permitted.low[group]  # those that must be set, if any
        if x[group].sum() == 0:
            x[group[np.argmax(permitted.high[group])]] = 1.0
    return x


def farthest(inside: Inside, output: Output, sign: int) -> tuple[float, np.ndarray | None]:
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


def _by_bound(inside: Inside, output: Output, sign: int) -> list[tuple[int, float]]:
    """Linear leaves by the greatest value that the ranges alone permit."""
    low, high = inside.permitted.low, inside.permitted.high
    result = []
    for leaf in inside.paths:
        weights, offset = output.leaf_form(leaf)
        weights = sign * weights
        ends = np.where(weights > 0, high, low)
        most = float((weights[weights != 0] * ends[weights != 0]).sum() + sign * offset)
        result.append((leaf, most))
    return sorted(result, key=lambda item: -item[1])
