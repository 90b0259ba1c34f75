"""The goal of a query: the answer that is asked for, as conditions on the leaves and as a check of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from treelu.tree.names import plain, shown_class
from treelu.tree.oblique_tree import ObliqueTree
from treelu.tree.queries.exact import ExactRows, rows_alone
from treelu.tree.queries.geometry import for_pairs
from treelu.tree.queries.words import number
from treelu.tree.rows import node_totals

ROUNDED = 8 * float(np.finfo(np.float64).eps)


class NoLeafError(ValueError):
    """No leaf has the answer, wherever a row lies."""


@dataclass(frozen=True)
class Conditions:
    """``weights @ x + offsets >= 0``, > 0 where strict, and perhaps a convex limit on all scores.

    Attributes
    ----------
    weights : array of shape (m, n_features)
    offsets : array of shape (m,)
    strict : bool array of shape (m,)
    softmax : (int, float) or None
        A class and the least probability that it must have by softmax: a convex set that is no polyhedron.
    magnitude : array of shape (m, n_features), optional
        Sizes of the weights that the tree adds up, where ``weights`` are sums of them. None: they are the tree's own.
    rest : array of shape (m, n_features), optional
        What ``weights`` are rounded by; NaN where that is not known.
    slack : array of shape (m,), optional
        By how much the offsets may be off, by rounding here or in the tree's prediction.
    """

    weights: np.ndarray
    offsets: np.ndarray
    strict: np.ndarray
    softmax: tuple[int, float] | None = None
    magnitude: np.ndarray | None = None
    rest: np.ndarray | None = None
    slack: np.ndarray | None = None

    @classmethod
    def none(cls, tree: ObliqueTree) -> Conditions:
        """No conditions: every row of a leaf has the answer."""
        return cls(np.zeros((0, tree.n_features)), np.zeros(0), np.zeros(0, dtype=bool))

    def of_pairs(self, features: np.ndarray, second: bool) -> Conditions:
        """Conditions on one row of a pair, over the variables of `Splits.of_pairs`."""
        weights, rest = for_pairs(self.weights, features, second), self.rest
        magnitude = self.magnitude
        if magnitude is None and second and (self.weights[:, features] != 0).any():  # added in another order
            magnitude = np.abs(self.weights)
        return replace(
            self, weights=weights, rest=None if rest is None else for_pairs(rest, features, second),
            magnitude=None if magnitude is None else for_pairs(magnitude, features, second),
        )  # fmt: skip

    def exact_rows(self, reach: np.ndarray, size: np.ndarray) -> ExactRows:
        """The conditions for a proof, for values up to ``reach``; ``size`` as in `ExactRows`."""
        magnitude = np.abs(self.weights) if self.magnitude is None else self.magnitude
        rest = np.zeros_like(self.weights) if self.rest is None else self.rest
        slack = np.zeros(len(self.offsets)) if self.slack is None else self.slack
        # A weight that is off by an unknown amount proves nothing of a feature without bounds.
        error = np.where((np.isnan(rest) & np.isinf(reach)).any(axis=1), np.inf, slack)
        own = np.full(len(error), self.magnitude is None and not slack.any())
        rows = rows_alone(-self.weights, -self.offsets, self.strict, error, size)
        return replace(rows, rest=-np.nan_to_num(rest), own=own, magnitude=2 * magnitude)


@dataclass(frozen=True)
class Goal:
    """What is asked for.

    Attributes
    ----------
    tree : ObliqueTree
    words : str
        Such as ``"'yes'"`` or ``"at least 3.5"``, after "predicted".
    leaf : callable
        The number of a leaf → the ways in which its rows may get that answer, each a set of conditions.
    holds : callable
        Rows (n, n_features) → bool (n,), by the tree's own prediction.
    """

    tree: ObliqueTree
    words: str
    leaf: Callable[[int], list[Conditions]]
    holds: Callable[[np.ndarray], np.ndarray]

    def also(self, check: Callable[[np.ndarray], np.ndarray]) -> Goal:
        """The same, where rows must pass another check too, such as one by a model that rounds differently."""
        own = self.holds
        return replace(self, holds=lambda X: own(X) & check(X))

    @cached_property
    def leaves(self) -> list[list[Conditions]]:
        """`leaf` of each leaf."""
        return [self.leaf(leaf) for leaf in range(self.tree.n_leaves)]

    @cached_property
    def below(self) -> np.ndarray:
        """Whether some leaf at or below each node may give the answer: bool (n_nodes,)."""
        return node_totals(self.tree.children, np.array([bool(ways) for ways in self.leaves])) > 0


def read_goal(
    tree: ObliqueTree,
    target: Any = None,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    output: int = 0,
    other_than: Any = None,
) -> Goal:
    """Read what is asked for: a class, a probability or value within limits, or any other class.

    ``other_than``: the class that must change where neither a target nor limits are given.
    """
    limited = at_least is not None or at_most is not None
    if tree.classes is None:
        if target is not None:
            raise ValueError("target names a class, and this tree predicts numbers; give at_least or at_most")
        if not limited:
            raise ValueError("this tree predicts numbers: give at_least, at_most or both")
        _check_limits(at_least, at_most, -np.inf, np.inf)
        return _within(_value(tree, output), at_least, at_most)
    if limited:
        if target is None:
            raise ValueError(
                f"at_least and at_most need target, the class whose probability is meant: {_classes(tree)}"
            )
        _check_limits(at_least, at_most, 0.0, 1.0)
        return _within(Output(tree, find_class(tree, target)), at_least, at_most)
    if target is not None:
        k = find_class(tree, target)
        return _one_class(tree, [k], shown_class(tree.classes[k]))
    others = set(range(len(tree.classes))) - {find_class(tree, other_than)}
    return _one_class(tree, sorted(others), f"other than {shown_class(other_than)}")


def find_class(tree: ObliqueTree, target: Any) -> int:
    """The number of a class; a text that reads like it will do, as from a command line."""
    assert tree.classes is not None
    labels = tree.classes.tolist()
    target = plain(target)
    if target in labels:
        return labels.index(target)
    texts = [str(label) for label in labels]
    if isinstance(target, str) and target in texts:
        return texts.index(target)
    raise ValueError(f"target: the tree has no class {shown_class(target)}; {_classes(tree)}")


def _classes(tree: ObliqueTree) -> str:
    assert tree.classes is not None
    shown = [shown_class(label) for label in tree.classes.tolist()]
    return f"its classes are {', '.join(shown[:8])}{', …' if len(shown) > 8 else ''}"


def _check_limits(at_least: float | None, at_most: float | None, low: float, high: float) -> None:
    for name, limit in (("at_least", at_least), ("at_most", at_most)):
        if limit is not None and not low <= limit <= high:
            kind = "a probability from 0 to 1" if high == 1 else "a number"
            raise ValueError(f"{name} must be {kind}, got {limit}")
    if at_least is not None and at_most is not None and at_least > at_most:
        raise ValueError(f"at_least must not exceed at_most, got {at_least} and {at_most}")


# Classes


def leaf_classes(tree: ObliqueTree) -> np.ndarray:
    """The class number that each constant leaf answers; of equal scores the first."""
    return (tree.values[:, 0] > 0).astype(np.int64) if tree.link == "logistic" else tree.values.argmax(axis=1)


def _one_class(tree: ObliqueTree, accepted: list[int], words: str) -> Goal:
    assert tree.classes is not None
    labels = tree.classes[accepted]

    def holds(X: np.ndarray) -> np.ndarray:
        return np.isin(tree.predict(X), labels)

    if tree.leaf_weights is not None:
        return Goal(tree, words, lambda leaf: [class_conditions(tree, leaf, k) for k in accepted], holds)
    fits = np.isin(leaf_classes(tree), accepted)
    if not fits.any():
        given = sorted({shown_class(label) for label in tree.classes[leaf_classes(tree)].tolist()})
        raise NoLeafError(f"no leaf of this tree answers {words}; they answer {', '.join(given)}")
    return Goal(tree, words, lambda leaf: [Conditions.none(tree)] * int(fits[leaf]), holds)


def class_conditions(tree: ObliqueTree, leaf: int, k: int) -> Conditions:
    """When a linear leaf answers class k: its score is above those of the classes before it, not below the others."""
    assert tree.leaf_weights is not None
    weights, values = tree.leaf_weights[leaf], tree.values[leaf]
    if tree.link == "logistic":
        sign = 1.0 if k == 1 else -1.0
        return Conditions(sign * weights, sign * values, np.array([k == 1]))
    others = [j for j in range(len(values)) if j != k]
    magnitude, slack = np.abs(weights[k]) + np.abs(weights[others]), np.abs(values[k]) + np.abs(values[others])
    differences, rest = exact_sum(weights[k], -weights[others])
    return Conditions(differences, values[k] - values[others], np.array([j < k for j in others]),
                      magnitude=magnitude, rest=rest, slack=ROUNDED * slack)  # fmt: skip


def exact_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sums of floats, and what they are rounded by (Knuth's two-sum).

    Examples
    --------
    >>> exact_sum(np.array([0.5, 1.0]), np.array([0.25, 1e-20]))
    (array([0.75, 1.  ]), array([0.e+00, 1.e-20]))
    """
    sums = a + b
    other = sums - a
    return sums, (a - (sums - other)) + (b - other)


# Probabilities and values


@dataclass(frozen=True)
class Output:
    """One number that a tree predicts: an output, or the probability of class number k."""

    tree: ObliqueTree
    k: int | None
    output: int = 0

    @property
    def words(self) -> str:
        """Which number."""
        if self.k is not None:
            return f"the probability of {shown_class(self.tree.classes[self.k])}"  # type: ignore[index]
        return "the prediction" if self.tree.n_outputs == 1 else f"output {self.output}"

    @property
    def convex(self) -> bool:
        """Whether, in linear leaves, it is the probability of one of several classes: then it rises with no form."""
        return self.k is not None and self.tree.link == "softmax" and self.tree.n_outputs > 2

    def of(self, X: np.ndarray) -> np.ndarray:
        """The number for rows, by the tree's own prediction."""
        if self.k is None:
            return self.tree.decision_function(X)[:, self.output]
        return self.tree.predict_proba(X)[:, self.k]

    def score(self, X: np.ndarray) -> np.ndarray:
        """The number that decides: the score of a probability of linear leaves, which does not round to 0 or 1."""
        if self.k is None or self.tree.leaf_weights is None:
            return self.of(X)
        scores = self.tree.decision_function(X)
        if self.tree.link == "logistic":
            return scores if self.k == 1 else -scores
        return scores[:, self.k] - scores[:, 1 - self.k]

    def shown(self, X: np.ndarray) -> np.ndarray:
        """The number for two rows that differ in it: their scores where the probabilities round to the same float."""
        numbers = self.of(X)
        return self.score(X) if len(numbers) == 2 and numbers[0] == numbers[1] else numbers

    def leaf_values(self) -> np.ndarray:
        """The number in each constant leaf."""
        if self.k is None:
            return self.tree.values[:, self.output]
        return self.tree.link_outputs(self.tree.values)[:, self.k]

    def leaf_form(self, leaf: int) -> tuple[np.ndarray, float]:
        """Weights and offset of a linear form in a linear leaf with which the number rises."""
        assert self.tree.leaf_weights is not None
        weights, values, k = self.tree.leaf_weights[leaf], self.tree.values[leaf], self.k
        if k is None:
            return weights[self.output], float(values[self.output])
        if self.tree.link == "logistic":
            sign = 1.0 if k == 1 else -1.0
            return sign * weights[0], float(sign * values[0])
        return weights[k] - weights[1 - k], float(values[k] - values[1 - k])

    def from_form(self, value: float) -> float:
        """The number for a value of that form."""
        return value if self.k is None else float(np.exp(-np.logaddexp(0.0, -value)))


def read_output(tree: ObliqueTree, target: Any, output: int) -> Output:
    """Read which number is meant: an output, or the probability of a class, by default the second of two."""
    if tree.classes is None:
        if target is not None:
            raise ValueError("target names a class, and this tree predicts numbers; leave it out")
        return _value(tree, output)
    if target is None:
        if len(tree.classes) != 2:
            raise ValueError("target must name the class whose probability is meant, for a tree of more than two")
        target = tree.classes[1]
    value = Output(tree, find_class(tree, target))
    if tree.leaf_weights is not None and value.convex:
        raise ValueError(
            "the probabilities of linear leaves with three or more classes are not monotone in a linear form; "
            "ask about a tree of two classes or one with constant leaves"
        )
    return value


def _value(tree: ObliqueTree, output: int) -> Output:
    if not 0 <= output < tree.n_outputs:
        raise ValueError(f"output must be from 0 to {tree.n_outputs - 1}, got {output}")
    return Output(tree, None, output)


def _within(value: Output, at_least: float | None, at_most: float | None) -> Goal:
    """A number within limits."""
    tree, limits, name = value.tree, _limit_words(at_least, at_most), "value"
    words = limits if tree.n_outputs == 1 else f"with output {value.output} of {limits}"
    if value.k is not None:
        name = value.words.removeprefix("the ")
        words = f"with a {name} of {limits}"

    def fits(values: np.ndarray) -> np.ndarray:
        low, high = -np.inf if at_least is None else at_least, np.inf if at_most is None else at_most
        return (values >= low) & (values <= high)

    def holds(X: np.ndarray) -> np.ndarray:
        return fits(value.of(X))

    if tree.leaf_weights is None:
        values = value.leaf_values()
        if not fits(values).any():
            raise NoLeafError(
                f"no leaf of this tree has a {name} of {limits}; they are from {number(values.min())} to "
                f"{number(values.max())}"
            )
        return Goal(tree, words, lambda leaf: [Conditions.none(tree)] * int(fits(values)[leaf]), holds)
    if value.convex and at_most is not None and at_most < 1:
        raise ValueError(
            "at_most: rows of a linear leaf with three or more classes whose probability is at most so much form no "
            "convex set, so that the nearest is not found exactly; ask for target with at_least, or for a class"
        )
    conditions = _value_conditions if value.k is None else _probability_conditions
    return Goal(tree, words, lambda leaf: [conditions(value, leaf, at_least, at_most)], holds)


def _value_conditions(value: Output, leaf: int, at_least: float | None, at_most: float | None) -> Conditions:
    """When a sum rounds to ``at_least`` or more: exactly, it is above the float before that."""
    weights, level = value.leaf_form(leaf)
    ends = [(sign, limit) for sign, limit in ((1.0, at_least), (-1.0, at_most)) if limit is not None]
    signs, limits = np.array(ends).T
    offsets, rest = exact_sum(signs * level, -np.nextafter(signs * limits, -np.inf))
    return Conditions(signs[:, None] * weights, offsets, np.ones(len(ends), dtype=bool), slack=np.abs(rest))


def _probability_conditions(value: Output, leaf: int, at_least: float | None, at_most: float | None) -> Conditions:
    tree, k = value.tree, value.k
    assert tree.leaf_weights is not None
    assert k is not None
    if value.convex:
        return _softmax_at_least(tree, leaf, k, at_least or 0.0)
    weights, magnitude, rest = tree.leaf_weights[leaf], None, None
    ends = _logit(at_least or None), _logit(None if at_most == 1 else at_most)  # 0 and 1 are no limits
    if ends == (None, None):
        return Conditions.none(tree)
    if tree.link == "softmax":
        magnitude, rest = np.abs(weights).sum(axis=0), exact_sum(weights[k], -weights[1 - k])[1]
    slack = ROUNDED * np.abs(tree.values[leaf]).sum() + _logit_slack(at_least, at_most)
    return interval(*value.leaf_form(leaf), *ends, slack, magnitude, rest)


def _softmax_at_least(tree: ObliqueTree, leaf: int, k: int, least: float) -> Conditions:
    """A probability of class k of at least so much: a convex set, within s_k − s_j ≥ log p / (1 − p) for every j."""
    if least <= 0:
        return Conditions.none(tree)
    apart = class_conditions(tree, leaf, k)
    assert apart.slack is not None
    slack = apart.slack + _logit_slack(least, None)
    offsets, strict = apart.offsets - (_logit(least) or 0.0), np.zeros(len(slack), dtype=bool)
    return replace(apart, offsets=offsets, strict=strict, softmax=(k, least), slack=slack)


def _logit(p: float | None) -> float | None:
    """The score of a probability; at 0 and 1 the one from which on floats round to it."""
    if p is None:
        return None
    with np.errstate(divide="ignore"):
        return float(np.clip(np.log(p) - np.log1p(-p), -745.0, 37.0))


def _logit_slack(at_least: float | None, at_most: float | None) -> float:
    """By how much scores may differ whose probabilities floats do not tell apart: by 1e-13 of them, or by 2e-323."""
    slack = 0.0
    for limit in (at_least, at_most):
        if limit is not None:
            ends = [
                _logit(float(np.clip(limit + sign * (1e-13 * limit + 2e-323), 0.0, 1.0))) or 0.0 for sign in (-1, 1)
            ]
            slack = max(slack, ends[1] - ends[0], 1e-12 * abs(ends[0]))
    return slack


def interval(
    weights: np.ndarray,
    value: float,
    low: float | None,
    high: float | None,
    slack: float,
    magnitude: np.ndarray | None = None,
    rest: np.ndarray | None = None,
) -> Conditions:
    """``low <= weights @ x + value <= high``."""
    signs, ends = np.array([(sign, end) for sign, end in ((1.0, low), (-1.0, high)) if end is not None]).T
    n = len(ends)
    return Conditions(
        signs[:, None] * weights, signs * (value - ends), np.zeros(n, dtype=bool), None,
        None if magnitude is None else np.tile(magnitude, (n, 1)), None if rest is None else signs[:, None] * rest,
        np.full(n, slack),
    )  # fmt: skip


def _limit_words(at_least: float | None, at_most: float | None) -> str:
    if at_least is not None and at_most is not None:
        return f"{number(at_least)} to {number(at_most)}"
    return f"at least {number(at_least)}" if at_least is not None else f"at most {number(at_most or 0.0)}"
