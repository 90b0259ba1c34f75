"""Exports of trees with linear leaves: leaf and label of every row as `predict` has them, hostile rows included."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import engines
from benchmarks.export_cases import Case, boundary_rows
from tests.tree.trees import random_tree
from treelu.export.program import Program, tree_program
from treelu.tree import ObliqueTree
from treelu.tree.missing import MissingValues

pytestmark = pytest.mark.slow

ENGINES = ("sqlite", "duckdb", "postgresql", "c", "javascript", "python", "onnx")
KINDS = ("identity", "identity2", "logistic", "softmax2", "softmax", "missing")
N_FEATURES = 4


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Callable[[Program, engines.Rows], engines.Run]:
    """A way to run a program; skipped where the engine is absent, but not in CI, which installs all of them."""
    reason = engines.absent(request.param)
    if reason is not None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    if request.param == "postgresql":
        return request.getfixturevalue("server").run
    return getattr(engines, f"run_{request.param}")


def linear_tree(rng: np.random.Generator, kind: str) -> ObliqueTree:
    """Linear leaves of any kind; half of the scores have short binary weights, so that rows can tie exactly."""
    missing = MissingValues(np.array([0.5, -1.0, 2.0]), np.array([1])) if kind == "missing" else None
    base = random_tree(rng, int(rng.integers(0, 7)), N_FEATURES, "identity2" if kind == "identity2" else "identity")
    link = {"missing": "softmax", "softmax2": "softmax"}.get(
        kind, kind if kind in ("logistic", "softmax") else "identity"
    )
    n_outputs = {"identity2": 2, "softmax2": 2, "softmax": 4, "missing": 3}.get(kind, 1)
    n_classes = 2 if link == "logistic" else n_outputs
    leaf_weights = rng.standard_normal((base.n_leaves, n_outputs, N_FEATURES)) * 10.0 ** rng.integers(-6, 7)
    values = rng.standard_normal((base.n_leaves, n_outputs))
    short = rng.random(base.n_leaves) < 0.5
    leaf_weights[short] = rng.integers(-4, 5, leaf_weights[short].shape) / 4
    values[short] = rng.integers(-4, 5, values[short].shape) / 4
    leaf_weights[rng.random(leaf_weights.shape) < 0.2] = 0
    classes = None if link == "identity" else np.array([f"class {k}" for k in range(n_classes)])
    return ObliqueTree(
        base.weights, base.biases, base.children, values, leaf_weights=leaf_weights, link=link, classes=classes,
        missing=missing,
    )  # fmt: skip


def score_ties(rng: np.random.Generator, tree: ObliqueTree, X: np.ndarray) -> np.ndarray:
    """Rows moved to where two scores of their leaf, or a score and 0, are the same up to rounding."""
    X = X.copy()
    for row, leaf in enumerate(tree.apply(X) - tree.n_splits):
        assert tree.leaf_weights is not None
        k, j = rng.integers(tree.n_outputs, size=2)
        form, at = tree.leaf_weights[leaf, k], tree.values[leaf, k]
        if k != j:
            form, at = form - tree.leaf_weights[leaf, j], at - tree.values[leaf, j]
        largest = int(np.abs(form).argmax())
        if form[largest] != 0:
            X[row, largest] -= (form @ X[row] + at) / form[largest]
    return X


def linear_case(rng: np.random.Generator, kind: str, n_rows: int = 120) -> Case:
    """A tree and rows: at random, on splits, at ties of scores, on a grid, huge, tiny, with missing values."""
    tree = linear_tree(rng, kind)
    features = replace(tree, missing=None)
    X = rng.standard_normal((n_rows, N_FEATURES))
    fifth = n_rows // 5
    X[:fifth] = boundary_rows(rng, features, X[:fifth])
    X[fifth : 2 * fifth] = score_ties(rng, features, X[fifth : 2 * fifth])
    X[2 * fifth : 3 * fifth] = score_ties(rng, features, np.round(X[2 * fifth : 3 * fifth] * 2) / 2)
    X[3 * fifth : 4 * fifth] *= 10.0 ** rng.integers(-300, 150, (fifth, N_FEATURES))
    if kind != "missing":
        return Case(tree_program(tree), X.tolist(), X)
    columns = X[:, :3].copy()
    columns[rng.random(columns.shape) < 0.3] = np.nan
    cells = [[None if np.isnan(value) else value for value in row] for row in columns.tolist()]
    assert tree.missing is not None
    return Case(tree_program(tree), cells, tree.missing.fill(columns))


def check(case: Case, run: engines.Run) -> None:
    """Leaves and labels are the tree's own; numbers may differ in their last digits."""
    tree = case.program.trees[0]
    assert run.failures == 0
    if run.answers and isinstance(run.answers[0][-1], list):
        assert [row[-1] for row in run.answers] == case.leaves.tolist()
    first = 0
    if tree.is_classifier:
        first = 1
        assert [row[0] for row in run.answers] == tree.predict(case.X).tolist()
    found = np.array([row[first : first + len(case.program.outputs)] for row in run.answers], dtype=np.float64)
    wanted = tree.link_outputs(tree.decision_function(case.X).reshape(len(case.X), -1))
    if tree.is_classifier:  # onnxruntime's sigmoid has 16 decimals, not 16 digits
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-15)
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_has_the_leaf_and_the_label_of_predict(engine, kind):
    for seed in range(3):
        case = linear_case(np.random.default_rng([seed, KINDS.index(kind)]), kind)
        check(case, engine(case.program, case.rows))


@pytest.mark.parametrize("kind", ["logistic", "softmax2", "softmax"])
def test_the_rows_do_tie(kind):
    """Otherwise the tests above would not see a label that comes from rounded probabilities."""
    ties = nearly = 0
    for seed in range(3):
        case = linear_case(np.random.default_rng([seed, KINDS.index(kind)]), kind)
        scores = np.sort(case.program.trees[0].decision_function(case.X).reshape(len(case.X), -1), axis=1)
        gap = np.abs(scores[:, 0]) if kind == "logistic" else scores[:, -1] - scores[:, -2]
        ties += int((gap == 0).sum())
        nearly += int(((gap > 0) & (gap < 1e-15)).sum())
    assert ties > 5
    assert nearly > 2


@pytest.mark.parametrize("kind", KINDS)
def test_json_keeps_every_bit(kind):
    case = linear_case(np.random.default_rng(9), kind)
    tree = case.program.trees[0]
    again = ObliqueTree.from_json(tree.to_json())
    assert again == tree
    np.testing.assert_array_equal(again.decision_function(case.X), tree.decision_function(case.X))
