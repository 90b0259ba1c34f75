"""The answer that a question asks for, as conditions on the leaves and as a check of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treelu.tree.names import plain, shown_class
from treelu.tree.oblique_tree import ObliqueTree
from treelu.tree.queries.exact import ExactRows, rows_alone
from treelu.tree.queries.words import number

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

    def exact_rows(self, reach: np.ndarray, size: np.ndarray) -> ExactRows:
        """The conditions for a proof, for values up to ``reach``; ``size`` as in `ExactRows`."""
        magnitude = np.abs(self.weights) if self.magnitude is None else self.magnitude
        rest = np.zeros_like(self.weights) if self.rest is None else self.rest
        slack = np.zeros(len(self.offsets)) if self.slack is None else self.slack
        # A weight that is off by an unknown amount proves nothing of a feature without bounds.
        error = np.where((np.isnan(rest) & np.isinf(reach)).any(axis=1), np.inf, slack)
        return rows_alone(-self.weights, -self.offsets, self.strict, error, size, -np.nan_to_num(rest),
                          own=self.magnitude is None and not slack.any(), magnitude=2 * magnitude)  # fmt: skip


@dataclass(frozen=True)
class Wanted:
    """What is asked for.

    Attributes
    ----------
    words : str
        Such as ``"'yes'"`` or ``"at least 3.5"``, after "predicted".
    leaf : callable
        The number of a leaf → the ways in which its rows may get that answer, each a set of conditions.
    holds : callable
        Rows (n, n_features) → bool (n,), by the tree's own prediction.
    """

    words: str
    leaf: Callable[[int], list[Conditions]]
    holds: Callable[[np.ndarray], np.ndarray]

    def also(self, check: Callable[[np.ndarray], np.ndarray]) -> Wanted:
        """The same, where rows must pass another check too, such as one by a model that rounds differently."""
        own = self.holds
        return replace(self, holds=lambda X: own(X) & check(X))


def wanted_answer(
    tree: ObliqueTree,
    target: Any = None,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    output: int = 0,
    other_than: Any = None,
) -> Wanted:
    """Read what is asked for: a class, a probability or value within limits, or any other class.

    ``other_than``: the class that must change where neither a target nor limits are given.
    """
    limits = [limit for limit in (at_least, at_most) if limit is not None]
    if not tree.is_classifier:
        if target is not None:
            raise ValueError("target names a class, and this tree predicts numbers; give at_least or at_most")
        if not limits:
            raise ValueError("this tree predicts numbers: give at_least, at_most or both")
        _check_limits(at_least, at_most, -np.inf, np.inf)
        if not 0 <= output < tree.n_outputs:
            raise ValueError(f"output must be from 0 to {tree.n_outputs - 1}, got {output}")
        wanted = _value(tree, at_least, at_most, output)
    elif limits:
        if target is None:
            raise ValueError(
                f"at_least and at_most need target, the class whose probability is meant: {_classes(tree)}"
            )
        _check_limits(at_least, at_most, 0.0, 1.0)
        wanted = _probability(tree, find_class(tree, target), at_least, at_most)
    elif target is not None:
        k = find_class(tree, target)
        wanted = _one_class(tree, {k}, shown_class(tree.classes[k]))  # type: ignore[index]
    else:
        k = find_class(tree, other_than)
        others = set(range(len(tree.classes))) - {k}  # type: ignore[arg-type]
        wanted = _one_class(tree, others, f"other than {shown_class(other_than)}")
    _check_some_leaf(tree, wanted, limits, output, target)
    return wanted


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


def _check_some_leaf(tree: ObliqueTree, wanted: Wanted, limits: list[float], output: int, target: Any) -> None:
    """Raise if no leaf gives the answer at all, wherever a row lies."""
    if tree.leaf_weights is not None or any(wanted.leaf(leaf) for leaf in range(tree.n_leaves)):
        return
    if not tree.is_classifier or limits:
        name = "value"
        values = tree.values[:, output]
        if tree.is_classifier:
            name = f"probability of {shown_class(target)}"
            values = tree.link_outputs(tree.values)[:, find_class(tree, target)]
        raise NoLeafError(
            f"no leaf of this tree has a {name} of {wanted.words.rpartition(' of ')[2]}; they are from "
            f"{number(values.min())} to {number(values.max())}"
        )
    assert tree.classes is not None
    given = sorted({shown_class(label) for label in tree.classes[leaf_classes(tree)].tolist()})
    raise NoLeafError(f"no leaf of this tree answers {wanted.words}; they answer {', '.join(given)}")


# Classes


def leaf_classes(tree: ObliqueTree) -> np.ndarray:
    """The class number that each constant leaf answers; of equal scores the first."""
    return (tree.values[:, 0] > 0).astype(np.int64) if tree.link == "logistic" else tree.values.argmax(axis=1)


def _one_class(tree: ObliqueTree, accepted: set[int], words: str) -> Wanted:
    labels = tree.classes[sorted(accepted)]  # type: ignore[index]
    constant = None if tree.leaf_weights is not None else np.isin(leaf_classes(tree), sorted(accepted))

    def leaf(number: int) -> list[Conditions]:
        if constant is not None:
            return [_none(tree)] if constant[number] else []
        return [class_conditions(tree, number, k) for k in sorted(accepted)]

    return Wanted(words, leaf, lambda X: np.isin(tree.predict(X), labels))


def _none(tree: ObliqueTree) -> Conditions:
    return Conditions(np.zeros((0, tree.n_features)), np.zeros(0), np.zeros(0, dtype=bool))


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


def _probability(tree: ObliqueTree, k: int, at_least: float | None, at_most: float | None) -> Wanted:
    label = shown_class(tree.classes[k])  # type: ignore[index]
    words = f"with a probability of {label} of {_limit_words(at_least, at_most)}"

    def holds(X: np.ndarray) -> np.ndarray:
        return _between(tree.predict_proba(X)[:, k], at_least, at_most)

    if tree.leaf_weights is None:
        return _constant(tree, words, tree.link_outputs(tree.values)[:, k], at_least, at_most, holds)
    if tree.link == "softmax" and tree.n_outputs > 2 and at_most is not None and at_most < 1:
        raise ValueError(
            "at_most: rows of a linear leaf with three or more classes whose probability is at most so much form no "
            "convex set, so that the nearest is not found exactly; ask for target with at_least, or for a class"
        )

    def leaf(number: int) -> list[Conditions]:
        assert tree.leaf_weights is not None
        weights, values = tree.leaf_weights[number], tree.values[number]
        if tree.link == "softmax" and tree.n_outputs > 2:
            return [_softmax_at_least(tree, number, k, 0.0 if at_least is None else at_least)]
        slack = ROUNDED * np.abs(values).sum() + _logit_slack(at_least, at_most)
        magnitude, rest = None, None
        ends = _logit(at_least or None), _logit(None if at_most == 1 else at_most)  # 0 and 1 are no limits
        if ends == (None, None):
            return [_none(tree)]
        if tree.link == "softmax":
            magnitude = np.abs(weights).sum(axis=0)
            (form, rest), values = exact_sum(weights[k], -weights[1 - k]), values[[k]] - values[[1 - k]]
        else:
            sign = 1.0 if k else -1.0
            form, values = sign * weights[0], sign * values
        return [interval(form, values[0], *ends, slack, magnitude, rest)]

    return Wanted(words, leaf, holds)


def _softmax_at_least(tree: ObliqueTree, leaf: int, k: int, least: float) -> Conditions:
    """A probability of class k of at least so much: a convex set, within s_k − s_j ≥ log p / (1 − p) for every j."""
    if least <= 0:
        return _none(tree)
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


def _value(tree: ObliqueTree, at_least: float | None, at_most: float | None, output: int) -> Wanted:
    words = f"{'' if tree.n_outputs == 1 else f'with output {output} of '}{_limit_words(at_least, at_most)}"

    def holds(X: np.ndarray) -> np.ndarray:
        return _between(tree.decision_function(X)[:, output], at_least, at_most)

    if tree.leaf_weights is None:
        return _constant(tree, words, tree.values[:, output], at_least, at_most, holds)
    linear = tree.leaf_weights

    def leaf(number: int) -> list[Conditions]:
        return [_beyond_the_floats_before(linear[number, output], tree.values[number, output], at_least, at_most)]

    return Wanted(words, leaf, holds)


def _beyond_the_floats_before(
    weights: np.ndarray, value: float, at_least: float | None, at_most: float | None
) -> Conditions:
    """When a sum rounds to ``at_least`` or more: exactly, it is above the float before that."""
    rows, offsets, slack = [], [], []
    for sign, limit in ((1.0, at_least), (-1.0, at_most)):
        if limit is not None:
            sums, rest = exact_sum(np.array([sign * value]), np.array([-np.nextafter(sign * limit, -np.inf)]))
            rows.append(sign * weights)
            offsets.append(float(sums[0]))
            slack.append(abs(float(rest[0])))
    return Conditions(np.array(rows), np.array(offsets), np.ones(len(rows), dtype=bool), slack=np.array(slack))


def _constant(
    tree: ObliqueTree, words: str, values: np.ndarray, at_least: float | None, at_most: float | None, holds: Any
) -> Wanted:
    fits = _between(values, at_least, at_most)
    return Wanted(words, lambda number: [_none(tree)] if fits[number] else [], holds)


def _between(values: np.ndarray, at_least: float | None, at_most: float | None) -> np.ndarray:
    return (values >= (-np.inf if at_least is None else at_least)) & (
        values <= (np.inf if at_most is None else at_most)
    )


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
    rows, offsets = [], []
    if low is not None:
        rows.append(weights)
        offsets.append(value - low)
    if high is not None:
        rows.append(-weights)
        offsets.append(high - value)
    signs = np.array([1.0] * (low is not None) + [-1.0] * (high is not None))[:, None]
    return Conditions(
        np.array(rows), np.array(offsets), np.zeros(len(rows), dtype=bool), None,
        None if magnitude is None else np.tile(magnitude, (len(rows), 1)), None if rest is None else signs * rest,
        np.full(len(rows), slack),
    )  # fmt: skip


def _limit_words(at_least: float | None, at_most: float | None) -> str:
    if at_least is not None and at_most is not None:
        return f"{number(at_least)} to {number(at_most)}"
    return f"at least {number(at_least)}" if at_least is not None else f"at most {number(at_most or 0.0)}"
