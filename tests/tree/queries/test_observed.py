"""Queries within what training rows held: every answer is such a row, and agrees with enumeration of all of them."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests.tree.queries.oracles import norm_of, rounded_tree
from treelu.tree import ObliqueTree
from treelu.tree.missing import MissingValues
from treelu.tree.observed import Observed


def known_tree(seed: int) -> tuple[ObliqueTree, np.ndarray]:
    """A tree whose training rows were integers from -1 to 2, and all such rows."""
    tree = rounded_tree(seed)
    n = tree.n_features
    rows = np.array(list(itertools.product(range(-1, 3), repeat=n)), dtype=float)
    return replace(tree, observed=Observed(np.full(n, -1.0), np.full(n, 2.0), np.ones(n, dtype=bool))), rows


@pytest.mark.parametrize("seed", range(8))
def test_answers_agree_with_enumeration(seed: int) -> None:
    tree, rows = known_tree(seed)
    values, labels = tree.predict_proba(rows)[:, 1], tree.predict(rows)
    found = tree.output_range()
    assert (found.low, found.high) == (values.min(), values.max())
    assert str(found).endswith("for every row within the training ranges")
    x = rows[(7 * seed) % len(rows)]
    others = rows[labels != tree.predict(x[None])[0]]
    for norm in ("l1", "l2", "linf"):
        nearest = min((norm_of(row - x, norm) for row in others), default=np.inf)
        if np.isfinite(nearest):
            answer = tree.counterfactual(x, norm=norm)
            assert answer.distance == pytest.approx(nearest)
            assert tree.observed.holds(answer.row[None])[0]  # type: ignore[union-attr]
            assert tree.predict(answer.row[None])[0] != tree.predict(x[None])[0]
        assert float(tree.robustness(x, norm)) == pytest.approx(nearest)
    shape = (4,) * tree.n_features
    grid, classes = values.reshape(shape), labels.reshape(shape)
    for j in range(tree.n_features):
        steps = np.diff(np.moveaxis(grid, j, 0), axis=0)
        for verdict, holds in (
            (tree.rises(j), (steps >= 0).all()),
            (tree.falls(j), (steps <= 0).all()),
            (tree.independent(j), (np.moveaxis(classes, j, 0) == np.moveaxis(classes, j, 0)[:1]).all()),
        ):
            assert verdict.decided
            assert bool(verdict) == holds
            assert tree.observed.holds(verdict.rows).all()  # type: ignore[union-attr]
            assert verdict.within == "within the training ranges"
    assert bool(tree.at_most(values.max())) and not tree.at_most(np.nextafter(values.max(), 0))  # noqa: PT018


STEP = ObliqueTree(
    [[1.0, 2.0]], [-100.0], [[1, 2]], [[-1.0], [1.0]], link="logistic", classes=["no", "yes"],
    feature_names=["income", "savings"],
    observed=Observed(np.array([0.0, 0.0]), np.array([90.0, 20.0]), np.array([True, False])),
)  # fmt: skip


def test_what_is_given_comes_before_what_was_observed() -> None:
    x = [50.0, 10.0]
    assert STEP.counterfactual(x, "yes").row.tolist() == [60, 20]  # savings end at 20
    assert STEP.counterfactual(x, "yes", bounds={"savings": (0, 30)}).row.tolist() == [50, 25]
    assert STEP.counterfactual(x, "yes", bounds={"savings": (5, None)}).row.tolist() == [60, 20]  # an end left open
    assert STEP.counterfactual([50.0, 22.0], "yes", bounds={"savings": (22, None)}).row.tolist() == [50, 25]
    for limits in (None, "anywhere"):
        assert STEP.counterfactual(x, "yes", limits=limits).row.tolist() == [50, 25]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="limits must be"):
        STEP.counterfactual(x, "yes", limits="wide")  # type: ignore[arg-type]


def test_a_row_beyond_the_training_rows_may_stay_there() -> None:
    found = STEP.counterfactual([35.5, 31.0], "yes", keep=["savings"])
    assert found.row.tolist() == [38, 31]  # an income that is no integer may stay or become any number
    assert STEP.counterfactual([120.0, 10.0], "no", keep=["savings"]).row[0] < 80


def test_results_say_which_rows_they_are_about() -> None:
    proof = STEP.at_most(0.5, bounds={"income": (0, 40)})
    assert str(proof).startswith("proved: the probability of 'yes' is at most 0.5, for rows within the training ranges")
    assert "training" not in str(STEP.rises("income", limits=None))
    none = STEP.counterfactual([10.0, 10.0], "yes", bounds={"income": (0, 40)})
    assert str(none) == (
        "predicted 'no'; no row within the training ranges and the given ones is predicted 'yes': proved over 2 leaves"
    )
    assert "no row within the training ranges nearer than" in str(STEP.robustness([50.0, 10.0]))


def test_one_hot_groups_of_training_are_kept() -> None:
    groups = Observed(np.zeros(3), np.ones(3), np.ones(3, dtype=bool), ((0, 1, 2),))
    tree = ObliqueTree([[1.0, 1.0, -1.0]], [-1.5], [[1, 2]], [[0.0], [1.0]], observed=groups)
    assert tree.at_most(0.5)  # two categories at once do not exist
    assert not tree.at_most(0.5, limits=None)
    with pytest.raises(ValueError, match="one-hot group"):
        tree.rises(0)


def test_a_proof_is_about_rows_without_missing_values() -> None:
    """A missing age is filled with 40 and marked; the mark alone changes the class, which no proof may deny."""
    tree = ObliqueTree(
        [[0.0, 1.0]], [-0.5], [[1, 2]], [[-1.0], [1.0]], link="logistic", classes=["no", "yes"],
        feature_names=["age", "age is missing"], missing=MissingValues(np.array([40.0]), np.array([0])),
        observed=Observed(np.array([20.0, 0.0]), np.array([60.0, 1.0]), np.array([True, True])),
    )  # fmt: skip
    assert tree.predict([[40.0], [np.nan]]).tolist() == ["no", "yes"]
    for limits in ("observed", None):
        proofs = [tree.independent("age", limits=limits), tree.at_most(0.5, limits=limits)]
        assert all(str(proof).endswith("without missing values") for proof in proofs)
        assert all(proofs)
    assert tree.output_range().high < 0.5
    assert not tree.at_most(0.5, bounds={"age is missing": (0, 1)})
    assert not tree.independent("age is missing", bounds={"age is missing": (0, 1)})
