"""Random trees of every kind, and a slow reading of a tree as the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

from treelu.tree import ObliqueTree

KINDS = ("identity", "identity2", "logistic", "softmax", "probability", "linear", "linear softmax")


def random_tree(rng: np.random.Generator, n_splits: int, n_features: int, kind: str, **options: Any) -> ObliqueTree:
    """A tree of random shape; leaves in no particular order."""
    leaves, children = [0], np.zeros((n_splits, 2), dtype=int)
    slots: list[tuple[int, int]] = []
    for split in range(n_splits):  # each split takes the place of a random open slot
        if split:
            node, side = slots.pop(rng.integers(len(slots)))
            children[node, side] = split
        slots += [(split, 0), (split, 1)]
    leaves = n_splits + rng.permutation(n_splits + 1)
    for leaf, (node, side) in zip(leaves, slots, strict=False):
        children[node, side] = leaf
    weights = rng.standard_normal((n_splits, n_features))
    weights[rng.random(weights.shape) < 0.3] = 0
    link = {"identity2": "identity", "linear": "identity", "linear softmax": "softmax"}.get(kind, kind)
    n_outputs = {"identity2": 2, "softmax": 3, "probability": 3, "linear": 2, "linear softmax": 3}.get(kind, 1)
    values = rng.standard_normal((n_splits + 1, n_outputs))
    if kind == "probability":
        values = rng.dirichlet(np.ones(3), n_splits + 1)
    if kind.startswith("linear"):
        options["leaf_weights"] = rng.standard_normal((n_splits + 1, n_outputs, n_features))
    if link != "identity":
        options["classes"] = np.array(["no", "yes"] if link == "logistic" else ["red", "green", "blue"])
    return ObliqueTree(weights, rng.standard_normal(n_splits), children, values, link=link, **options)


@st.composite
def trees(draw: st.DrawFn, kinds: tuple[str, ...] = KINDS, max_splits: int = 15):
    """A tree of any kind, with or without names, counts and sparse weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_splits, n_features = draw(st.integers(0, max_splits)), draw(st.integers(1, 8))
    options: dict[str, Any] = {}
    if draw(st.booleans()):
        options["feature_names"] = tuple(f"feature {i}" for i in range(n_features))
    if draw(st.booleans()):
        options["n_samples"] = rng.integers(0, 50, 2 * n_splits + 1)
        if draw(st.booleans()):
            options["weighted_n_samples"] = options["n_samples"] * rng.exponential()
    if draw(st.booleans()):
        options["spreads"] = rng.exponential(size=n_features) * 10.0 ** rng.integers(-6, 7, n_features)
    tree = random_tree(rng, n_splits, n_features, draw(st.sampled_from(kinds)), **options)
    if draw(st.booleans()):
        object.__setattr__(tree, "weights", sparse.csr_array(tree.weights))
    return tree


def leaf_by_hand(tree: ObliqueTree, x: np.ndarray) -> list[int]:
    """The path of one row, node by node, with plain Python sums."""
    node, path = 0, [0]
    while node < tree.n_splits:
        score = sum(w * v for w, v in zip(tree.node_weights(node), x, strict=True)) + tree.biases[node]
        node = int(tree.children[node, int(score >= 0)])
        path.append(node)
    return path
