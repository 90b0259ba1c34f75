"""Proofs about trees with linear leaves: random pairs of rows against every property that is called proved.

The trees predict a value, two classes by one score or by softmax, or three classes by softmax. Some rise with a few
features by construction (splits and slopes of one sign, and steps up from leaf to leaf that outweigh the others), some
are random, some are those of fitted LLN networks, some are small trees, with monotonic features and without. What is
not supported has to be refused in so many words.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.fuzz.cases import Tally, run_cases
from tests.tree.trees import random_tree
from treelu import LLNClassifier, LLNRegressor, ObliqueTreeClassifier, ObliqueTreeRegressor
from treelu.tree import ObliqueTree
from treelu.tree.rows import dense

PAIRS = 4000  # drawn against each proved property
BUDGET = 2.0  # seconds for a query
LOW, HIGH = -2.0, 3.0
KINDS = ("value", "logistic", "softmax2", "softmax3")
Drawn = Counter[str]


def some_tree(rng: np.random.Generator) -> tuple[str, ObliqueTree]:
    """A tree with linear leaves, and where it comes from."""
    if rng.random() < 0.3:
        n_classes, seed = int(rng.integers(3)), int(rng.integers(40))
        source = "network" if seed < 4 else "monotonic" if is_monotonic(n_classes, seed) else "small tree"
        return source, fitted(n_classes, seed)
    kind, d = str(rng.choice(KINDS)), int(rng.integers(1, 5))
    base = random_tree(rng, int(rng.integers(0, 5)), d, "identity")
    n_outputs = {"softmax2": 2, "softmax3": 3}.get(kind, 1)
    slopes, steps = rng.normal(size=(base.n_leaves, n_outputs, d)), rng.normal(size=(base.n_leaves, n_outputs))
    weights = np.array(base.weights)
    slopes[:, :, rng.random(d) < 0.3] = 0.0
    rising = rng.random(d) < rng.choice([0.0, 0.6, 1.0])
    if rising.any():
        weights[:, rising] = np.abs(weights[:, rising])
        slopes[:, -1, rising], slopes[:, :-1, rising] = np.abs(slopes[:, -1, rising]), -np.abs(slopes[:, :-1, rising])
        most = 2 * np.abs(slopes).sum() * max(-LOW, HIGH) + np.ptp(steps) + 1
        steps[:, -1] += most * places_in_order(base) * (rng.random() < 0.8)
    unused = rng.random(d) < 0.2
    weights[:, unused], slopes[:, :, unused] = 0.0, 0.0
    link = "identity" if kind == "value" else kind.rstrip("23")
    classes = None if kind == "value" else np.array(["a", "b", "c"][: max(2, n_outputs)])
    tree = replace(base, weights=weights, values=steps, leaf_weights=slopes, link=link, classes=classes)
    return "random", tree


def places_in_order(tree: ObliqueTree) -> np.ndarray:
    """The place of each leaf from left to right."""
    order, stack = [], [0]
    while stack:
        node = stack.pop()
        if node >= tree.n_splits:
            order.append(node - tree.n_splits)
        else:
            stack += tree.children[node][::-1].tolist()
    return np.argsort(order).astype(np.float64)


@cache
def fitted(n_classes: int, seed: int) -> ObliqueTree:
    """The tree of an LLN network or, for seeds above 3, a small tree: a value, two or three classes."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(LOW, HIGH, (200, 3))
    z = X[:, 0] + 0.3 * np.maximum(X[:, 1], 0)
    y = z if n_classes == 0 else np.digitize(z, np.quantile(z, [0.5] if n_classes == 1 else [0.3, 0.7]))
    if seed < 4:
        network = (LLNClassifier if n_classes else LLNRegressor)(depth=2, epochs=5, random_state=seed)
        return network.fit(X, y).tree_
    y = z + (X[:, 1] > 1) + rng.normal(size=200) if n_classes == 0 else np.where(rng.random(200) < 0.1, y[::-1], y)
    signs = [1, 0, -1] if is_monotonic(n_classes, seed) else None
    small = ObliqueTreeClassifier if n_classes else ObliqueTreeRegressor
    limits: dict[str, Any] = {"max_leaf_nodes": 4, "n_updates": 60, "teacher": None, "selection": "largest"}
    return small(leaves="linear", monotonic_cst=signs, random_state=seed, **limits).fit(X, y).tree_


def is_monotonic(n_classes: int, seed: int) -> bool:
    """Whether a fitted tree is asked to rise with the first feature and to fall with the last."""
    return n_classes < 2 and seed > 3 and seed % 2 == 1


def score_form(tree: ObliqueTree) -> tuple[np.ndarray, np.ndarray]:
    """The slopes (leaves, features) and constants (leaves,) of the value, or of the log-odds of the second class."""
    assert tree.leaf_weights is not None
    if tree.n_outputs == 1:
        return tree.leaf_weights[:, 0], tree.values[:, 0]
    return tree.leaf_weights[:, 1] - tree.leaf_weights[:, 0], tree.values[:, 1] - tree.values[:, 0]


def scores(tree: ObliqueTree, rows: np.ndarray) -> np.ndarray:
    """The value or the log-odds of the second class, from what the tree itself computes."""
    raw = tree.decision_function(rows).reshape(len(rows), -1)
    return raw[:, 0] if raw.shape[1] == 1 else raw[:, 1] - raw[:, 0]


def drawn_pairs(tree: ObliqueTree, j: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Pairs in the box that differ in feature j alone, the first the lower; many on both sides of a split."""
    first = rng.uniform(LOW, HIGH, (PAIRS, tree.n_features))
    ends = rng.random(first.shape)
    first = np.where(ends < 0.1, LOW, np.where(ends > 0.9, HIGH, first))
    second = first.copy()
    second[:, j] = rng.uniform(LOW, HIGH, PAIRS)
    weights = dense(tree.weights)
    for row in range(0, PAIRS if tree.n_splits else 0, 2):
        node = int(rng.integers(tree.n_splits))
        if weights[node, j]:
            on = first[row, j] - (weights[node] @ first[row] + tree.biases[node]) / weights[node, j]
            first[row, j], second[row, j] = np.clip([on - 1e-9, on + rng.choice([0.0, 1e-9])], LOW, HIGH)
    low, high = np.minimum(first[:, j], second[:, j]), np.maximum(first[:, j], second[:, j])
    first[:, j], second[:, j] = low, high
    return first, second


def promise(tree: ObliqueTree, rows: np.ndarray) -> float:
    """How far a proved property may fail: a part in 10¹² of what the score can vary by, and rounding."""
    slopes, constants = score_form(tree)
    size = np.abs(tree.values).max() + np.abs(tree.leaf_weights).sum(axis=2).max() * np.abs(rows).max()
    widest = (np.abs(slopes) * (HIGH - LOW)).sum(axis=1).max()
    return float(1.1e-12 * (np.ptp(constants) + widest) + 1e-14 * size)


def check_feature(tree: ObliqueTree, j: int, rng: np.random.Generator, drawn: Drawn) -> None:
    """Whatever is proved of one feature holds for all pairs that are drawn."""
    first, second = drawn_pairs(tree, j, rng)
    options: dict[str, Any] = {"bounds": (LOW, HIGH), "budget_seconds": BUDGET}
    if len(tree.classes if tree.is_classifier else ()) < 3:
        a, b = scores(tree, first), scores(tree, second)
        slack = promise(tree, np.vstack([first, second]))
        wrong = {"rises": a > b + slack, "falls": b > a + slack, "independent": np.abs(a - b) > slack}
        verdicts = {
            "rises": tree.rises(j, **options),
            "falls": tree.falls(j, **options),
            "independent": tree.independent([j], of="value", **options),
        }
        if tree.is_classifier:  # and by the probabilities themselves
            p, q = tree.predict_proba(first)[:, 1], tree.predict_proba(second)[:, 1]
            wrong["rises"] |= p > q + slack + 1e-15
            wrong["falls"] |= q > p + slack + 1e-15
    else:
        wrong, verdicts = {}, {}
        refuse_probabilities(tree, j, drawn)
    if tree.is_classifier:
        wrong["same class"] = tree.predict(first) != tree.predict(second)
        verdicts["same class"] = tree.independent([j], **options)
    for name, verdict in verdicts.items():
        if verdict:
            drawn[name] += 1
            drawn["pairs"] += len(first)
            assert not wrong[name].any(), (name, j, first[wrong[name]][:1], second[wrong[name]][:1])
        elif verdict.decided:
            drawn["refuted"] += 1
            check_refuted(tree, name, j, verdict.rows)


def check_refuted(tree: ObliqueTree, name: str, j: int, rows: np.ndarray) -> None:
    """A pair that refutes a property lies in the box, differs in the feature alone and does break it."""
    low, high = rows[np.argsort(rows[:, j])]
    assert (rows >= LOW).all()
    assert (rows <= HIGH).all()
    assert np.flatnonzero(low != high).tolist() == [j]
    if name == "same class":
        assert tree.predict(rows)[0] != tree.predict(rows)[1]
        return
    a, b = scores(tree, np.array([low, high]))
    assert {"rises": a > b, "falls": b > a, "independent": a != b}[name], (name, a, b)


def refuse_probabilities(tree: ObliqueTree, j: int, drawn: Drawn) -> None:
    """Probabilities of three classes by softmax are monotone in no linear form: to be refused, not guessed."""
    options: dict[str, Any] = {"target": "b" if "b" in tree.classes.tolist() else 1, "bounds": (LOW, HIGH)}
    for ask in (tree.rises, tree.falls, lambda j, **o: tree.independent([j], of="value", **o),
                lambda j, **o: tree.output_range(**o), lambda j, **o: tree.at_most(0.9, **o)):  # fmt: skip
        with pytest.raises(ValueError, match="three or more classes are not monotone in a linear form"):
            ask(j, **options)
        drawn["not supported"] += 1


def check_range(tree: ObliqueTree, rng: np.random.Generator, drawn: Drawn) -> None:
    """The range within a box holds all rows that are drawn from it, and its ends are rows of the box."""
    low, high = np.sort(rng.uniform(LOW, HIGH, (2, tree.n_features)), axis=0)
    found = tree.output_range(bounds=(low, high), budget_seconds=BUDGET)
    rows = rng.uniform(low, high, (2 * PAIRS, tree.n_features))
    ends = rng.random(rows.shape)
    rows = np.where(ends < 0.3, low, np.where(ends > 0.7, high, rows))
    values = tree.predict_proba(rows)[:, 1] if tree.is_classifier else tree.decision_function(rows)[:, 0]
    slack = 1e-9 * (1 if tree.is_classifier else 1 + np.abs(values).max())
    assert found.low - slack <= values.min(), (found.low, values.min())
    assert values.max() <= found.high + slack, (values.max(), found.high)
    drawn["ranges"] += 1
    drawn["pairs"] += PAIRS


def fuzz(seed: int, count: int, only: int | None = None) -> Tally:
    """Pairs of rows against what is proved of trees with linear leaves."""
    drawn: Drawn = Counter()

    def case(rng: random.Random) -> str:
        numbers = np.random.default_rng(rng.randrange(2**32))
        (source, tree), before = some_tree(numbers), drawn["pairs"]
        for j in range(tree.n_features):
            check_feature(tree, j, numbers, drawn)
        if not tree.is_classifier or len(tree.classes) == 2:
            check_range(tree, numbers, drawn)
        drawn[f"pairs of {source}"] += drawn["pairs"] - before
        return "proved" if drawn["pairs"] > before else "nothing proved"

    tally = run_cases(case, seed, count, only)
    tally.outcomes.update({f"({name})": number for name, number in drawn.items()})
    return tally
