"""Slow and obvious forms of the questions: sampling, grids, enumeration."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from tests.tree.trees import random_tree
from treelu.tree import ObliqueTree


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
