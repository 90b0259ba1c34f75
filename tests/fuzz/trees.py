"""Altered JSON of trees: each is a tree that routes, explains and writes itself, or raises ValueError."""

from __future__ import annotations

import json
import random

import numpy as np
from scipy import sparse

from tests.fuzz.cases import Tally, altered_bytes, run_cases
from tests.fuzz.hostile import altered_document
from tests.tree.trees import KINDS, random_tree
from treelu.tree import ObliqueTree

BIG = 1_000_000  # features; a tree of more is read, but no rows are made for it


def some_tree(rng: random.Random) -> ObliqueTree:
    """A small tree of any kind."""
    numbers = np.random.default_rng(rng.randrange(2**32))
    n_splits, n_features = rng.randrange(5), rng.randrange(1, 5)
    options = {"feature_names": [f"x {k}" for k in range(n_features)]} if rng.random() < 0.5 else {}
    tree = random_tree(numbers, n_splits, n_features, rng.choice(KINDS), **options)
    if rng.random() < 0.5:
        tree = ObliqueTree(
            sparse.csr_array(tree.weights), tree.biases, tree.children, tree.values, leaf_weights=tree.leaf_weights,
            link=tree.link, classes=tree.classes, feature_names=tree.feature_names,
        )  # fmt: skip
    return tree


def use(tree: ObliqueTree) -> None:
    """Everything that a tree read from a file is used for."""
    if tree.n_features > BIG:
        return
    rows = np.random.default_rng(0).standard_normal((7, tree.n_features))
    try:
        leaves, outputs = tree.apply(rows), tree.predict(rows)
    except ValueError as error:  # numbers too large to add up
        if "X must be finite" not in str(error):
            raise RuntimeError(str(error)) from error
    else:
        assert ((leaves >= tree.n_splits) & (leaves < tree.n_nodes)).all()
        assert outputs.dtype.kind != "f" or not np.isnan(outputs).any(), "NaN predicted"
        assert (tree.apply(sparse.csr_array(rows)) == leaves).all()
        tree.describe(rows[0])
    tree.export_text()
    tree.export_graphviz()
    assert ObliqueTree.from_json(tree.to_json()) == tree


def case(rng: random.Random) -> str:
    """One altered text."""
    text = some_tree(rng).to_json().encode()
    if rng.random() < 0.3:
        text = altered_bytes(rng, text)
    else:
        text = json.dumps(altered_document(rng, json.loads(text))).encode()
    try:
        tree = ObliqueTree.from_json(text)
    except ValueError:
        return "refused"
    use(tree)
    return "read"


def fuzz(seed: int, count: int, only: int | None = None) -> Tally:
    """Altered JSON of trees."""
    return run_cases(case, seed, count, only)
