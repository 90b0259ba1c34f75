"""Slow and obvious forms of the queries: sampling, grids, enumeration, exact arithmetic."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tests.tree.trees import random_tree
from treelu.tree import ObliqueTree
from treelu.tree.queries.exact import rows_alone
from treelu.tree.queries.polyhedron import Polyhedron


def rounded_tree(seed: int) -> ObliqueTree:
    """A tree of two classes with round weights, on whose planes many whole numbers lie, without any rounding."""
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, int(rng.integers(2, 8)), int(rng.integers(2, 4)), "logistic")
    size = (1.0, 4.0)[seed % 2]
    values = np.abs(tree.values) * np.resize([[1.0], [-1.0]], tree.values.shape)
    return replace(
        tree, weights=np.round(2 * tree.weights) / size, biases=np.round(2 * tree.biases) / size, values=values
    )


def norm_of(y: np.ndarray, norm: str) -> np.ndarray:
    """The norm of each row."""
    order: Any = {"l1": 1, "linf": np.inf, "l2": 2}[norm]
    return np.linalg.norm(y, ord=order, axis=-1)


def rows_within(
    x: np.ndarray, radius: float, norm: str, scale: np.ndarray, rng: np.random.Generator, n: int
) -> np.ndarray:
    """Rows at most ``radius`` away, half of them close to that."""
    y = rng.standard_normal((n, len(x)))
    if norm == "l1":
        y *= rng.random(y.shape) < 2 / max(2, len(x)) + 0.3 * rng.random((n, 1))  # also towards corners
    elif norm == "linf":
        y = np.sign(y) * np.where(rng.random(y.shape) < 0.5, 1.0, rng.random(y.shape))
    size = norm_of(y, norm)
    share = np.where(rng.random(n) < 0.5, 1 - 1e-6, rng.random(n))
    y *= (radius * share / np.where(size > 0, size, 1.0))[:, None]
    return x + scale * y


def grid(n_features: int, n: int, reach: float) -> np.ndarray:
    """All rows whose values are among n equally spaced ones."""
    axis = np.linspace(-reach, reach, n)
    return np.stack(np.meshgrid(*[axis] * n_features), axis=-1).reshape(-1, n_features)


def nearest_of(rows: np.ndarray, x: np.ndarray, fits: np.ndarray, norm: str, scale: Any = 1.0) -> float:
    """The least distance of rows that fit."""
    distances = norm_of((rows - x) / scale, norm)[fits]
    return float(distances.min(initial=np.inf))


def polyhedron(G: np.ndarray, h: np.ndarray, low: float = -np.inf, high: float = np.inf) -> Polyhedron:
    """{y : G y ≤ h} in a box around 0, without a tree."""
    (m, u), none = G.shape, np.zeros(len(h))
    first, last = np.full(u, low), np.full(u, high)
    exact = rows_alone(G, -h, none > 0, none, np.ones(m))
    return Polyhedron(G, h, none > 0, none, first, last, first, last, exact, np.zeros(u), np.arange(u), np.ones(u))


def project_by_enumeration(G: np.ndarray, h: np.ndarray) -> np.ndarray | None:
    """The least y with G y ≤ h: the best feasible point among the least points on every set of planes."""
    best = None
    for size in range(min(len(h), G.shape[1]) + 1):
        for active in itertools.combinations(range(len(h)), size):
            rows = list(active)
            y = np.linalg.lstsq(G[rows], h[rows], rcond=None)[0] if rows else np.zeros(G.shape[1])
            if (G @ y <= h + 1e-9).all() and (best is None or y @ y < best @ best):
                best = y
    return best


def answers(tree: ObliqueTree, X: np.ndarray, wanted: dict[str, Any], before: Any) -> np.ndarray:
    """Which rows have the answer that the arguments of `counterfactual` ask for."""
    if "at_least" in wanted or "at_most" in wanted:
        if tree.is_classifier:
            values = tree.predict_proba(X)[:, tree.classes.tolist().index(wanted["target"])]
        else:
            values = tree.decision_function(X)[:, wanted.get("output", 0)]
        return (values >= wanted.get("at_least", -np.inf)) & (values <= wanted.get("at_most", np.inf))
    labels = tree.predict(X)
    return labels == wanted["target"] if "target" in wanted else labels != before


# Trees made to mislead solvers, and what can be said of them by looking at rows


def awkward_tree(rng: np.random.Generator) -> ObliqueTree:
    """A small tree with some of: saturated scores, odd units, repeated splits, weights of very unlike size."""
    kind = str(rng.choice(["identity", "logistic", "softmax", "linear", "logistic linear", "linear softmax"]))
    n_splits, d = int(rng.integers(0, 6)), int(rng.integers(1, 5))
    tree = random_tree(rng, n_splits, d, kind.split()[0] if kind != "linear softmax" else kind)
    weights, biases, values = np.array(tree.weights), np.array(tree.biases), np.array(tree.values)
    linear = None if tree.leaf_weights is None else np.array(tree.leaf_weights)
    if kind == "logistic linear":
        linear = rng.standard_normal((tree.n_leaves, 1, d))
    if rng.random() < 0.3:  # integers lie on the planes
        size = rng.choice([1.0, 4.0, 10.0])
        weights, biases = np.round(2 * weights) / size, np.round(2 * biases) / size
        if linear is not None:
            linear, values = np.round(4 * linear) / size, np.round(4 * values) / size
    for node in range(1, n_splits):  # repeated and opposite splits, with the same threshold or another
        if rng.random() < 0.25:
            other, factor = int(rng.integers(node)), rng.choice([1.0, -1.0, 2.0, -0.5, 3.0])
            weights[node] = factor * weights[other]
            biases[node] = factor * biases[other] if rng.random() < 0.5 else biases[node]
    if rng.random() < 0.2:
        weights[rng.random(weights.shape) < 0.3] *= 10.0 ** rng.choice([-12, -9, -6, 12])
    if rng.random() < 0.1:
        size = 10.0 ** rng.choice([-170, 160])
        weights, biases = weights * size, biases * size
    if linear is not None and rng.random() < 0.3:  # one slope less, or slopes of one sign
        linear[:, :, rng.integers(d)] = 0.0 if rng.random() < 0.5 else np.abs(linear[:, :, 0])
    unit = 10.0 ** rng.choice([0, 0, 0, -15, -12, 3, 15])
    if tree.is_classifier:
        unit = 10.0 ** rng.choice([0, 0, 1, 3, 5])
    values, linear = values * unit, None if linear is None else linear * unit
    if kind == "linear" and rng.random() < 0.5:
        values, linear = values[:, :1], linear[:, :1]
    return replace(tree, weights=weights, biases=biases, values=values, leaf_weights=linear)


@dataclass(frozen=True)
class Asked:
    """Ranges of a query and what may be said of rows within them."""

    low: np.ndarray
    high: np.ndarray
    whole: list[int]
    groups: list[list[int]]
    scale: np.ndarray

    @property
    def options(self) -> dict[str, Any]:
        """As the tree's methods take them."""
        return {"bounds": (self.low, self.high), "whole": self.whole, "groups": self.groups}

    @property
    def reach(self) -> tuple[np.ndarray, np.ndarray]:
        """Ranges to draw from: open ends at 50."""
        return np.maximum(self.low, -50.0), np.minimum(self.high, 50.0)

    def permits(self, row: np.ndarray) -> bool:
        """Whether a row lies in the ranges, has integers where it should, and one member of each group set."""
        inside = ((self.low <= row) & (row <= self.high)).all() and (row[self.whole] == np.round(row[self.whole])).all()
        one = all(sorted(row[group].tolist()) == [0.0] * (len(group) - 1) + [1.0] for group in self.groups)
        return bool(inside and one)

    def confirmed(self, tree: ObliqueTree, rows: np.ndarray) -> np.ndarray:
        """Which rows count against a proof: all within bounds; else those that exact arithmetic routes as floats do."""
        used = tree.used_features()
        if np.isfinite(self.low[used]).all() and np.isfinite(self.high[used]).all():
            return np.ones(len(rows), dtype=bool)
        return np.array([exact_leaf(tree, row) == tree.apply(row[None])[0] for row in rows], dtype=bool)

    def output(self, tree: ObliqueTree, rows: np.ndarray, target: Any) -> np.ndarray:
        """The value, or the probability of a class."""
        if not tree.is_classifier:
            return tree.decision_function(rows)[:, 0]
        return tree.predict_proba(rows)[:, tree.classes.tolist().index(target)]

    def score(self, tree: ObliqueTree, rows: np.ndarray, target: Any) -> np.ndarray:
        """The same, with the scores of linear leaves of two classes instead of their probabilities."""
        if tree.is_classifier and tree.leaf_weights is not None:
            return tree.decision_function(rows)
        return self.output(tree, rows, target)

    def size(self, tree: ObliqueTree, rows: np.ndarray) -> float:
        """How large values are that are added up in leaves."""
        linear = 0.0 if tree.leaf_weights is None else float((np.abs(tree.leaf_weights) @ np.abs(rows).T).max())
        return float(np.abs(tree.values).max()) + linear

    def breaks(
        self, kind: str, tree: ObliqueTree, first: np.ndarray, second: np.ndarray, j: int, target: Any,
        least: float | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Which pairs break a property, by more than ``least``; None: by more than the promise permits."""
        if kind == "independent answer" and tree.is_classifier:
            return tree.predict(first) != tree.predict(second)
        a, b = self.score(tree, first, target), self.score(tree, second, target)
        if least is None:
            least = 0.0
            if tree.leaf_weights is not None:
                width = self.high - self.low
                width = np.where(np.isfinite(width), width, self.scale)
                form = np.abs(tree.leaf_weights[:, 0])
                rounding = 1e-14 * self.size(tree, np.vstack([first, second]))
                least = 1.1e-12 * float(np.ptp(tree.values[:, 0]) + (form @ width).max()) + rounding
        if kind.startswith("independent"):
            return np.abs(a - b) > least
        rising = first[:, j] < second[:, j]
        return rising & ((a > b + least) if kind == "rises" else (b > a + least))


def some_ranges(tree: ObliqueTree, rng: np.random.Generator) -> Asked:
    """Ranges, integers and groups of a query; members of groups may be fixed, and so may everything."""
    d = tree.n_features
    low, high = np.full(d, -np.inf), np.full(d, np.inf)
    bounded = rng.random(d) < rng.choice([0.0, 0.7, 1.0, 1.0])
    low[bounded] = np.round(rng.uniform(-3, 0, d), int(rng.integers(0, 3)))[bounded]
    high[bounded] = low[bounded] + np.round(rng.uniform(1, 4, d), int(rng.integers(0, 3)))[bounded]
    fixed = bounded & (rng.random(d) < rng.choice([0.0, 0.2, 1.0], p=[0.6, 0.35, 0.05]))
    high[fixed] = low[fixed]
    whole = [j for j in range(d) if rng.random() < rng.choice([0.0, 0.5, 1.0], p=[0.5, 0.2, 0.3]) and not fixed[j]]
    groups: list[list[int]] = []
    if d >= 2 and rng.random() < 0.35:
        members = rng.permutation(d)[: int(rng.integers(2, d + 1))].tolist()
        groups = [members]
        low[members], high[members] = 0.0, 1.0
        whole = [j for j in whole if j not in members]
        if rng.random() < 0.5:
            member, value = members[0], float(rng.integers(2))
            low[member] = high[member] = value
    for j in whole:
        low[j], high[j] = np.ceil(low[j]), np.floor(high[j])
    high = np.maximum(low, high)
    return Asked(low, high, whole, groups, 10.0 ** rng.integers(-1, 2, d))


def candidate_rows(tree: ObliqueTree, asked: Asked, rng: np.random.Generator, n: int = 300) -> np.ndarray:
    """Rows within ranges: all of them where these are few integers, else in corners, on planes and at random."""
    discrete = set(asked.whole) | {j for group in asked.groups for j in group}
    free = [j for j in range(tree.n_features) if asked.low[j] < asked.high[j]]
    low, high = asked.reach
    axes = [np.arange(low[j], high[j] + 0.5) if j in free else np.array([low[j]]) for j in range(tree.n_features)]
    if set(free) <= discrete and np.prod([len(axis) for axis in axes]) <= 4000:
        rows = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, tree.n_features)
    else:
        rows = rng.uniform(low, high, (n, tree.n_features))
        ends = rng.random(rows.shape)
        rows = np.where(ends < 0.15, low, np.where(ends > 0.85, high, rows))
        near = rng.random(n) < 0.5
        rows[near] = np.where(np.isfinite(asked.low) & np.isfinite(asked.high), rows[near], rows[near] / 20)
        rows = np.vstack([rows, _on_planes(tree, rows, rng)])
        rows = np.clip(rows, asked.low, asked.high)
        rows[:, asked.whole] = np.round(rows[:, asked.whole])
    for group in asked.groups:
        can = [j for j in group if asked.high[j] >= 1]
        must = [j for j in group if asked.low[j] >= 1]
        members = np.array(must or can)
        if set(free) <= discrete:  # every row with every member
            chosen = np.tile(members, len(rows))
            rows = np.repeat(rows, len(members), axis=0)
        else:
            chosen = members[rng.integers(len(members), size=len(rows))]
        rows[:, group] = 0.0
        rows[np.arange(len(rows)), chosen] = 1.0
    return np.unique(rows, axis=0)


def _on_planes(tree: ObliqueTree, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows moved along one feature onto the plane of a split, or one float beside it."""
    if not tree.n_splits:
        return rows[:0]
    rows = rows.copy()
    with np.errstate(all="ignore"):
        for place, row in enumerate(rows):
            node, j = int(rng.integers(tree.n_splits)), int(rng.integers(len(row)))
            weights = tree.node_weights(node)
            at = row[j] - (weights @ row + tree.biases[node]) / weights[j]
            if np.isfinite(at) and abs(at) < 1e12:
                row[j] = np.nextafter(at, rng.choice([-np.inf, at, np.inf]))
            rows[place] = row
    return rows


def pair_rows(
    tree: ObliqueTree, asked: Asked, features: Sequence[int], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of rows within ranges that differ in some features only."""
    rows = candidate_rows(tree, asked, rng)
    first = rows[rng.integers(len(rows), size=2000)]
    second = first.copy()
    second[:, features] = rows[rng.integers(len(rows), size=2000)][:, features]
    if len(features) == 1 and features[0] not in asked.whole:  # near each other too
        j, near = features[0], rng.random(2000) < 0.4
        second[near, j] = np.nextafter(first[near, j], rng.choice([-np.inf, np.inf]))
        second[:, j] = np.clip(second[:, j], asked.low[j], asked.high[j])
    apart = (first != second).any(axis=1)
    return first[apart], second[apart]


def exact_leaf(tree: ObliqueTree, row: np.ndarray) -> int:
    """The leaf of a row in exact arithmetic."""
    node = 0
    while node < tree.n_splits:
        terms = zip(tree.node_weights(node).tolist(), row.tolist(), strict=True)
        score = sum((Fraction(w) * Fraction(v) for w, v in terms), Fraction(float(tree.biases[node])))
        node = int(tree.children[node, int(score >= 0)])
    return node
