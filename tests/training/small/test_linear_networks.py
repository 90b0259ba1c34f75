"""Linear leaves from the pieces of small locally linear networks: what the pieces are, how they become fewer, when."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from treelu import ObliqueTreeRegressor
from treelu.training.small.config import TreeLimits
from treelu.training.small.cross_validation import leaf_rows
from treelu.training.small.distillation import linear_networks
from treelu.training.small.leaves import outputs_by_strength
from treelu.training.small.path import OWN, TEACHER, Candidate, PathJob, network_targets, train_path
from treelu.training.small.prune import linear_losses, pruned
from treelu.training.small.rows import TrainingRows
from treelu.training.small.soft_tree import SoftTree
from treelu.training.small.starts import StartTrees

pytestmark = pytest.mark.slow


def kinks(n: int = 400, n_targets: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """TrainingRows, a continuous target that is linear in pieces, with noise, and without."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 3))
    truth = np.abs(X[:, 0] + X[:, 1]) + np.maximum(X[:, 2], 0)
    truth = np.column_stack([truth, X[:, 0] - truth])[:, :n_targets]
    return X, truth + rng.normal(scale=0.3, size=truth.shape), truth


def scaled(n_targets: int = 1) -> TrainingRows:
    X, y, _ = kinks(n_targets=n_targets)
    table = np.column_stack([(X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X))])
    target = ((y - y.mean(axis=0)) / y.std(axis=0)).astype(np.float32)
    return TrainingRows(table.astype(np.float32), target, np.ones(len(X), np.float32), False, linear=True)


@pytest.fixture(scope="module")
def networks() -> dict[int, TrainingRows]:
    rows = scaled()
    return linear_networks([rows], rows, 0, 62, 1)[0]


def pieces_of(rows: TrainingRows) -> SoftTree:
    assert rows.pieces is not None
    return rows.pieces


@pytest.mark.parametrize("n_targets", [1, 2])
def test_in_each_piece_the_answers_are_linear(n_targets: int) -> None:
    rows = scaled(n_targets)
    (found,) = linear_networks([rows], rows, 0, 5, 2)
    assert list(found) == [5]  # no deeper than asked for
    answers, pieces = found[5], pieces_of(found[5])
    leaf = pieces.apply(rows.X)
    assert len(np.unique(leaf)) == pieces.n_leaves > 2
    for number in range(pieces.n_leaves):
        X, target = rows.X[leaf == number].astype(float), answers.target[leaf == number]
        coefficients = np.linalg.lstsq(X, target, rcond=None)[0]
        np.testing.assert_allclose(X @ coefficients, target, atol=1e-4)
    assert np.corrcoef(answers.target[:, 0], rows.target[:, 0])[0, 1] > 0.8


def test_each_part_has_networks_of_its_own() -> None:
    rows = scaled()
    halves = [rows.part(np.arange(200)), rows.part(np.arange(200, 400))]
    found = linear_networks(halves, rows, 0, 3, 2)
    assert [len(of_part[3]) for of_part in found] == [200, 200]
    assert found[0][3].target.shape == (200, 1)
    again = linear_networks(halves, rows, 0, 3, 1)  # threads do not matter
    for one, other in zip(found, again, strict=True):
        assert (one[3].target == other[3].target).all()
        assert (pieces_of(one[3]).splits == pieces_of(other[3]).splits).all()


def test_leaves_of_all_pieces_say_what_the_network_says(networks: dict[int, TrainingRows]) -> None:
    rows = networks[6]
    (outputs,) = outputs_by_strength(pieces_of(rows), rows, rows.X, [0.01])
    np.testing.assert_allclose(outputs, rows.target, atol=0.02)


def test_the_question_that_linear_leaves_need_least_goes_first(networks: dict[int, TrainingRows]) -> None:
    """Beside all trees with one split less, whose leaves are fitted by least squares."""
    rows = networks[6]
    tree = pruned(pieces_of(rows), rows, 10**6, 10, linear=True)
    small = pruned(tree, rows, tree.n_leaves - 1, 10, linear=True)

    def loss(leaf: np.ndarray) -> float:
        total = 0.0
        for number in np.unique(leaf):
            X, target = rows.X[leaf == number].astype(float), rows.target[leaf == number].astype(float)
            total += float(((target - X @ np.linalg.lstsq(X, target, rcond=None)[0]) ** 2).sum())
        return total

    leaf, losses = tree.apply(rows.X), []
    for left, right in tree.children - tree.n_splits:
        if min(left, right) >= 0:
            losses.append(loss(np.where(leaf == left, right, leaf)))
    assert small.n_leaves == tree.n_leaves - 1
    assert loss(small.apply(rows.X)) == pytest.approx(min(losses), rel=1e-2, abs=1e-3)
    assert linear_losses(tree, rows, leaf)[tree.n_splits :].sum() == pytest.approx(loss(leaf), rel=1e-2, abs=1e-3)


def test_a_path_has_fewer_and_fewer_pieces(networks: dict[int, TrainingRows]) -> None:
    limits, candidate = TreeLimits(8, None, 3, min_samples=20), Candidate("network", targets=network_targets(10))
    steps = list(train_path(PathJob(networks[10], candidate, limits, StartTrees(limits, 0), 0)))
    assert [size.leaves for size, _ in steps] == [8, 6, 4, 3, 2]
    for size, tree in steps:
        assert size.terms == 3
        assert tree.n_leaves <= size.leaves
        assert np.bincount(tree.apply(networks[10].X), minlength=tree.n_leaves).min() >= 20


def test_linear_leaves_are_fitted_to_the_targets_of_the_training() -> None:
    rows = scaled()
    targets = {OWN: rows, TEACHER: replace(rows, soft=True)}
    distilled = Candidate("cart", targets=TEACHER)
    assert leaf_rows(targets, distilled) is targets[TEACHER]
    assert leaf_rows(targets, Candidate("cart")) is rows
    constant = {OWN: replace(rows, linear=False), TEACHER: targets[TEACHER]}
    assert leaf_rows(constant, distilled) is constant[OWN]


@pytest.mark.parametrize("n_targets", [1, 2])
def test_kinks_are_found_through_noise(n_targets: int) -> None:
    X, y, truth = kinks(n_targets=n_targets)
    model = ObliqueTreeRegressor(linear_leaves=True, selection="best", random_state=0)
    model.fit(X, y[:, 0] if n_targets == 1 else y)
    assert (model.path_["start"] == "network").any()
    error = ((model.predict(X).reshape(truth.shape) - truth) ** 2).mean() / truth.var()
    assert error < 0.05
    assert model.tree_.n_leaves <= 16


@pytest.mark.parametrize(
    "settings", [{"teacher": None}, {"max_terms": 2}, {"linear_leaves": False, "leaves": "constant"}]
)
def test_where_networks_are_not_asked(settings: dict[str, Any]) -> None:
    X, y, _ = kinks()
    model = ObliqueTreeRegressor(**{"linear_leaves": True, "n_updates": 20, "random_state": 0, **settings})
    assert not (model.fit(X, y[:, 0]).path_["start"] == "network").any()


def test_depth_and_rows_of_a_leaf_are_kept_to() -> None:
    X, y, _ = kinks()
    model = ObliqueTreeRegressor(linear_leaves=True, max_depth=2, min_samples_leaf=30, n_updates=20, random_state=0)
    model.fit(X, y[:, 0])
    for tree in model.path_trees_:
        assert tree.depth <= 2
        assert np.unique(tree.apply(X), return_counts=True)[1].min() >= 30
