"""What is called proved holds: trees on which solvers, units or rounding mislead. `tests.fuzz.proofs` draws more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from treelu.tree import ObliqueTree

COLOURS = ["red", "green", "blue"]
LINEAR = np.array([[[1.0, 5.0]], [[-0.5, 3.0]]])  # slopes of opposite sign in the first feature


def linear_tree(size: float = 1.0, **options: Any) -> ObliqueTree:
    """Two linear leaves, in which the score goes both ways with feature 0."""
    return ObliqueTree([[1.0, 1.0]], [0.0], [[1, 2]], [[0.0], [0.0]], leaf_weights=size * LINEAR, **options)


def split(weights: list[float], bias: float, **options: Any) -> ObliqueTree:
    """One split between 0 and 1."""
    return ObliqueTree([weights], [bias], [[1, 2]], [[0.0], [1.0]], **options)


def assert_both_ways(tree: ObliqueTree, **permitted: Any) -> None:
    """Neither direction nor independence of feature 0 is proved, and rows that `predict` tells apart show it."""
    rising, falling = tree.rises(0, **permitted), tree.falls(0, **permitted)
    free = tree.independent(0, of="value", **permitted)
    for verdict in (rising, falling, free):
        assert verdict.decided
        assert not verdict
        assert np.flatnonzero(verdict.rows[0] != verdict.rows[1]).tolist() == [0]
    assert rising.outputs[0] > rising.outputs[1]
    assert falling.outputs[0] < falling.outputs[1]
    assert free.outputs[0] != free.outputs[1]


def test_probabilities_that_round_to_0_or_1_far_out():
    assert_both_ways(linear_tree(link="logistic", classes=[0, 1]))


@pytest.mark.parametrize("permitted", [{}, {"whole": [0, 1]}, {"bounds": (-3, 3)}, {"bounds": (-3, 3), "whole": [0]}])
@pytest.mark.parametrize("size", [1e-15, 1e-12, 1e15])
def test_units_of_the_target(size, permitted):
    assert_both_ways(linear_tree(size), **permitted)


def test_a_member_of_a_group_that_stays_at_1():
    tree = ObliqueTree(
        [[0.0, 0.0, 0.0, 1.0]], [-2.0], [[1, 2]], [[-1.0], [1.0]], link="logistic", classes=["no", "yes"],
        feature_names=[*COLOURS, "size"],
    )  # fmt: skip
    found = tree.counterfactual([1, 0, 0, 0], "yes", groups=[COLOURS], keep=["red"])
    assert found.row.tolist() == [1, 0, 0, 2]
    values = split([1.0, -1.0, 0.0, 1.0], -2.0, feature_names=[*COLOURS, "size"])
    fixed: dict[str, Any] = {"groups": [COLOURS], "bounds": {"red": (1, 1)}}
    falling = values.falls("size", **fixed)
    assert falling.decided
    assert not falling
    assert (falling.rows[:, :3] == [1, 0, 0]).all()
    assert (values.output_range(**fixed).low, values.output_range(**fixed).high) == (0, 1)
    # With green out of the way the rest still sum to 1: red or blue, and never neither.
    either = split([1.0, 0.0, 1.0, 0.0], -0.5, feature_names=[*COLOURS, "size"])
    assert either.at_least(1.0, groups=[COLOURS], bounds={"green": (0, 0)})
    with pytest.raises(ValueError, match="'red', 'green' are all fixed at 1"):
        values.output_range(groups=[COLOURS], bounds={"red": (1, 1), "green": (1, 1)})


def test_a_member_that_is_fixed_stands_for_its_group():
    tree = split([1.0, 0.0, 0.0, 0.0], -0.5, feature_names=[*COLOURS, "size"])
    verdict = tree.independent("blue", of="value", groups=[COLOURS], bounds={"blue": (0, 0)})
    assert verdict.decided
    assert not verdict


@pytest.mark.parametrize("small", [1e-9, 1e-8, 1e-12])
def test_weights_of_unlike_size_in_one_split(small):
    tree, bounds = split([1.0, small], -2.0), {0: (0, 1)}
    for norm in ("l1", "linf", "l2"):
        found = tree.counterfactual([0, 0], at_least=0.5, bounds=bounds, norm=norm)
        assert found.distance == pytest.approx(1 / small)
        assert tree.predict(found.row[None])[0] == 1
    for verdict in (tree.at_most(0.5, bounds=bounds), tree.falls(1, bounds=bounds), tree.falls(0, bounds=bounds),
                    tree.independent(1, bounds=bounds)):  # fmt: skip
        assert verdict.decided
        assert not verdict
    assert tree.output_range(bounds).high == 1


@pytest.mark.parametrize("size", [1e-300, 1e-170, 1e160, 1e300])
def test_weights_whose_squares_are_no_floats(size):
    tree = split([size, 2 * size], -2 * size)
    for norm, distance in (("l1", 1.0), ("linf", 2 / 3), ("l2", 2 / np.sqrt(5))):
        assert tree.counterfactual([0, 0], at_least=0.5, norm=norm).distance == pytest.approx(distance)
    assert tree.rises(0)
    falling = tree.falls(0)
    assert falling.decided
    assert not falling
    assert tree.output_range((-3, 3)).high == 1
    assert tree.robustness([0, 0], change=0.5).distances[0] == pytest.approx(2 / np.sqrt(5))


@pytest.mark.parametrize(("weights", "value"), [
    ([0.2, 0.5], 0.1), ([1.0, 0.4], 0.3), ([-0.3, 0.1], -0.4), ([0.2, -0.4], 0.3), ([0.6, 0.8], -0.5),
])  # fmt: skip
def test_limits_are_those_of_predict(weights, value):
    tree = ObliqueTree([[1.0, 0.0]], [100.0], [[1, 2]], [[value]] * 2, leaf_weights=[[weights]] * 2)
    rows = np.stack(np.meshgrid(np.arange(4.0), np.arange(4.0)), -1).reshape(-1, 2)
    most = tree.decision_function(rows).max()
    options: dict[str, Any] = {"bounds": (0, 3), "whole": [0, 1]}
    assert tree.at_most(most, **options)
    below = tree.at_most(np.nextafter(most, -np.inf), **options)
    assert below.decided
    assert not below
    assert tree.counterfactual([0, 0], at_least=most, **options)


def test_the_nearest_integer_whose_sum_rounds_up_to_the_limit():
    tree = ObliqueTree(
        np.zeros((0, 1)), [], np.zeros((0, 2), int), [[3.000569958869356]], leaf_weights=[[[0.15140755026803407]]]
    )
    for goal in range(-40, 0):
        limit = tree.decision_function([[float(goal)]])[0, 0]
        assert tree.counterfactual([-45.0], at_least=limit, whole=[0], scale=10.0).row[0] <= goal


def test_nothing_can_move():
    tree, bounds = linear_tree(), {0: (1, 1), 1: (2, 2)}
    value = tree.predict([[1.0, 2.0]])[0]
    span = tree.output_range(bounds)
    assert (span.low, span.high) == (value, value)
    assert tree.rises(0, bounds=bounds)
    assert tree.independent(0, bounds=bounds)
    assert tree.at_most(value, bounds=bounds)
    assert tree.at_most(value - 1, bounds=bounds).outputs == (value,)
    assert tree.at_least(value + 1, bounds=bounds).outputs == (value,)
    assert not tree.counterfactual([1, 2], at_least=value + 1, bounds=bounds)
    assert tree.robustness([1, 2], change=1.0, bounds=bounds).distances[0] == np.inf


def test_a_probability_is_no_more_than_1():
    tree = linear_tree(1000.0, link="logistic", classes=[0, 1])
    above = tree.at_least(np.nextafter(1.0, 2.0), bounds=(1, 2))
    assert above.decided
    assert not above


def test_probabilities_of_a_few_of_the_least_floats():
    tree = ObliqueTree(
        np.zeros((0, 1)), [], np.zeros((0, 2), int), [[0.0]], leaf_weights=[[[1.0]]], link="logistic", classes=[0, 1]
    )
    for score in np.linspace(-744.0, -737.0, 30):
        probability = tree.predict_proba([[score]])[0, 1]
        assert not tree.at_most(np.nextafter(probability, 0.0), bounds=(score - 1, score))
        assert not tree.at_least(np.nextafter(probability, 1.0), bounds=(score, score + 1))


def test_ranges_without_end_and_of_small_units():
    unlike = ObliqueTree(
        [[-4.6e11, 1.1]], [0.2], [[2, 1]], [[1.5], [-1.2]], leaf_weights=[[[1.5, -0.5]], [[-0.9, 0.8]]]
    )
    assert unlike.output_range({1: (0, 1)}, whole=[1]).low == -np.inf
    thin = ObliqueTree(
        [[0.25, -5e-10, 2.5e-10]], [0.0], [[1, 2]], [[1e-15], [0.0]],
        leaf_weights=np.array([[[10.0, -7.5, -17.5]], [[0.0, 0.0, 0.0]]]) * 1e-16,
    )  # fmt: skip
    row = np.array([0.0, -0.045, -0.1])
    high = thin.output_range({1: (-1, 1), 2: (-0.1, 2.9)}, whole=[0]).high
    assert thin.decision_function(row[None])[0, 0] <= high


def test_a_row_on_a_plane_that_already_has_the_answer():
    tree = split([0.1, 0.2], -0.3)
    row = np.array([1.0, 1.0])  # 0.1 + 0.2 rounds up
    assert tree.predict(row[None])[0] == 1
    for norm in ("l1", "linf", "l2"):
        found = tree.counterfactual(row, at_least=0.5, norm=norm)
        assert (found.distance, found.bound, found.changes) == (0.0, 0.0, ())


# Time


def test_a_solver_that_does_not_end_by_itself():
    weights = [
        [5.9378690330629056e159, 9.535021540522068e171, 1.4277344261931061e160], [0.0, 4.598695401444882e171, 0.0],
        [-8.310522112038612e159, 1.8120804784554966e160, -3.653119920134631e171],
        [-1.0963275170625608e172, 2.3438409999192506e159, -1.2391381712230342e172],
    ]  # fmt: skip
    biases = [-1.2372641712214372e160, 1.1977628173911646e160, -2.654470910799247e160, -3.13544436711114e158]
    values = np.eye(3)[[2, 2, 1, 0, 1]]
    tree = ObliqueTree(
        weights, biases, [[2, 1], [3, 8], [4, 5], [7, 6]], values, link="softmax", classes=["a", "b", "c"]
    )
    for j in range(3):
        verdict = tree.independent(j, whole=[2])
        assert not verdict.decided or len(set(tree.predict(verdict.rows))) == 2


@pytest.fixture(scope="module")
def league() -> tuple[ObliqueTree, dict[str, Any]]:
    """A tree as of results of matches: two one-hot groups of 50 teams, three numbers, weights on all of them."""
    rng = np.random.default_rng(0)
    teams, n = 50, 7
    weights = rng.standard_normal((n, 2 * teams + 3))
    children = np.array([[1, 2], [3, 4], [5, 6], *[[n + 2 * k, n + 2 * k + 1] for k in range(4)]])
    tree = ObliqueTree(weights, 0.3 * rng.standard_normal(n), children, rng.standard_normal((8, 1)),
                       link="logistic", classes=["home", "away"])  # fmt: skip
    groups = [list(range(teams)), list(range(teams, 2 * teams))]
    numbers = dict.fromkeys(range(2 * teams, 2 * teams + 3), (-2.0, 2.0))
    return tree, {"groups": groups, "bounds": numbers, "whole": [2 * teams]}


def test_large_groups_are_decided(league):
    tree, options = league
    x = np.zeros(tree.n_features)
    x[[3, 60]] = 1.0
    other = "away" if tree.predict(x[None])[0] == "home" else "home"
    for norm in ("l1", "linf"):
        found = tree.counterfactual(x, other, norm=norm, **options)
        assert found.decided
        assert tree.predict(found.row[None])[0] == other
    assert tree.rises(101, **options).decided
    assert tree.falls(101, **options).decided
    assert 0 < tree.output_range(**options).low < tree.output_range(**options).high < 1


def test_no_time_is_not_decided(league):
    tree, options = league
    x = np.zeros(tree.n_features)
    x[[3, 60]] = 1.0
    limit = tree.output_range(**options).high
    found = tree.counterfactual(x, "away", budget_seconds=0.0, **options)
    verdicts = [
        tree.rises(101, budget_seconds=0.0, **options), tree.falls(101, budget_seconds=0.0, **options),
        tree.independent(0, budget_seconds=0.0, **options), tree.at_most(limit / 2, budget_seconds=0.0, **options),
    ]  # fmt: skip
    for answer in (found, *verdicts):
        assert not answer
        assert not answer.decided
        assert "not decided" in str(answer)
    span = tree.output_range(budget_seconds=0.0, **options)
    assert span.high >= limit
    assert span.high_row is None
    hurried, nearest = (tree.robustness(x, "l1", budget_seconds=seconds, **options) for seconds in (0.0, None))
    assert hurried.distances[0] <= nearest.distances[0]
    with pytest.raises(ValueError, match="budget_seconds must be at least 0"):
        tree.rises(101, budget_seconds=-1.0, **options)
