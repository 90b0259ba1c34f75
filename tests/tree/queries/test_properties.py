"""Properties of whole trees: against one programme for every pair of leaves, and against sampled pairs of rows."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from tests.tree.queries.oracles import rounded_tree
from tests.tree.trees import random_tree
from treelu.tree import ObliqueTree
from treelu.tree.rows import leaf_paths


def sides(tree: ObliqueTree) -> list[list[tuple[int, float]]]:
    """For each leaf the nodes on its path, with +1 for right and −1 for left."""
    result = []
    for leaf, path in enumerate(leaf_paths(tree.children).toarray()):
        nodes = [*np.flatnonzero(path).tolist()]
        turns = []
        for node, after in itertools.pairwise(nodes):
            turns.append((node, 1.0 if tree.children[node, 1] == after else -1.0))
        assert nodes[-1] == tree.n_splits + leaf
        result.append(turns)
    return result


def rises_by_all_pairs(tree: ObliqueTree, j: int, low: float, high: float) -> bool:
    """One programme for each pair of leaves: x and x + t e_j with a higher value before."""
    paths, d = sides(tree), tree.n_features
    weights = np.asarray(tree.weights)
    for a in range(tree.n_leaves):
        for b in range(tree.n_leaves):
            if not tree.values[a, 0] > tree.values[b, 0]:
                continue
            # variables: x, t, depth
            rows, limits = [], []
            for leaf, moved in ((a, 0.0), (b, 1.0)):
                for node, sign in paths[leaf]:
                    size = np.linalg.norm(weights[node])
                    rows.append([*(-sign * weights[node]), -sign * moved * weights[node, j], size])
                    limits.append(sign * tree.biases[node])
            upper = np.zeros(d + 2)
            upper[[j, d]] = 1.0
            rows.append(upper)  # x_j + t stays in the range
            limits.append(high)
            bounds = [(low, high)] * d + [(0, None), (None, 1)]
            cost = np.zeros(d + 2)
            cost[-1] = -1
            result = linprog(cost, A_ub=np.array(rows), b_ub=limits, bounds=bounds)
            if result.status == 0 and result.x[-1] > 1e-7:
                return False
    return True


def nearly_monotone(rng: np.random.Generator, n_splits: int, n_features: int) -> ObliqueTree:
    """A tree that rises with feature 0 in about half of the draws."""
    tree = random_tree(rng, n_splits, n_features, "identity")
    weights = np.array(tree.weights)
    weights[:, 0] = np.abs(weights[:, 0]) * 0.3
    parents = {int(child): node for node in range(n_splits) for child in tree.children[node]}
    order = [0.0] * tree.n_nodes  # leaves rise from left to right, but for small errors
    for node in range(1, tree.n_nodes):
        parent = parents[node]
        step = 0.5 ** tree.node_depths()[node]
        order[node] = order[parent] + (step if tree.children[parent, 1] == node else -step)
    values = np.array(order[n_splits:])[:, None] + 0.6 * rng.standard_normal((n_splits + 1, 1)) * (rng.random() < 0.6)
    return replace(tree, weights=weights, values=values)


def test_rises_against_all_pairs_of_leaves():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(16):
        tree = nearly_monotone(rng, int(rng.integers(2, 7)), 3)
        verdict = tree.rises(0, bounds=(-1, 1))
        assert bool(verdict) == rises_by_all_pairs(tree, 0, -1, 1)
        found.append(bool(verdict))
        if not verdict:
            first, second = verdict.rows
            assert first[0] < second[0]
            assert (first[1:] == second[1:]).all()
            assert tree.predict(verdict.rows)[0] > tree.predict(verdict.rows)[1]
            assert (np.abs(verdict.rows) <= 1).all()
    assert any(found)
    assert not all(found)


@pytest.mark.parametrize("kind", ["identity", "logistic", "probability", "linear", "logistic linear"])
def test_what_is_proved_is_true_of_sampled_pairs(kind):
    rng = np.random.default_rng([1, len(kind)])
    n_true = 0
    for trial in range(5):
        tree = random_tree(rng, int(rng.integers(1, 5)), 3, kind.split()[0])
        if "logistic linear" in kind:
            tree = replace(tree, leaf_weights=0.1 * rng.standard_normal((tree.n_leaves, 1, 3)))
        if trial % 2 and tree.leaf_weights is not None:
            linear = tree.leaf_weights.copy()
            linear[:, :, 1] = np.abs(linear[:, :, 1]) + 2
            tree = replace(tree, leaf_weights=linear, weights=np.asarray(tree.weights) * [1, 0, 1])
        target = "green" if kind == "probability" else None

        def output(X, tree=tree):
            if not tree.is_classifier:
                return tree.decision_function(X)[:, 0]
            return tree.predict_proba(X)[:, 1]

        for j in range(3):
            x = rng.uniform(-1, 1, (3_000, 3))
            higher, other = x.copy(), x.copy()
            higher[:, j] += rng.random(3_000) * (1 - x[:, j])
            other[:, j] = rng.uniform(-1, 1, 3_000)
            up, down = (method(j, bounds=(-1, 1), target=target) for method in (tree.rises, tree.falls))
            free = tree.independent(j, bounds=(-1, 1), target=target, of="value")
            change = output(higher) - output(x)
            assert not up or (change >= -1e-12).all()
            assert not down or (change <= 1e-12).all()
            assert not free or np.allclose(output(x), output(other), atol=1e-12)
            assert bool(free) == (bool(up) and bool(down))
            n_true += bool(up) + bool(down)
            for verdict in (up, down, free):
                if not verdict:
                    assert np.flatnonzero(verdict.rows[0] != verdict.rows[1]).tolist() == [j]
                    np.testing.assert_array_equal(output(verdict.rows), verdict.outputs)
                    assert verdict.outputs[0] != verdict.outputs[1]
    assert n_true >= 1


@pytest.mark.parametrize("kind", ["logistic", "softmax", "linear softmax"])
def test_independence_of_the_predicted_class(kind):
    rng = np.random.default_rng([2, len(kind)])
    found = set()
    for trial in range(10):
        tree = random_tree(rng, int(rng.integers(2, 6)), 4, kind)
        if trial % 2:
            weights = np.asarray(tree.weights) * [0, 1, 1, 1]
            weights[-1, 0] = 0.4  # one question alone uses it
            tree = replace(tree, weights=weights)
            if tree.leaf_weights is not None:
                tree = replace(tree, leaf_weights=tree.leaf_weights * [0, 0.1, 0.1, 0.1])
        verdict = tree.independent([0], bounds=(-1, 1))
        x = rng.uniform(-1, 1, (5_000, 4))
        other = x.copy()
        other[:, 0] = rng.uniform(-1, 1, 5_000)
        same = (tree.predict(x) == tree.predict(other)).all()
        assert same or not verdict
        if not verdict:
            assert verdict.outputs[0] != verdict.outputs[1]
            assert tree.predict(verdict.rows).tolist() == list(verdict.outputs)
        found.add(bool(verdict))
    assert found == {True, False}


def test_a_one_hot_group_is_one_thing():
    # yes where debt < 0 or the sex is f; both indicators together say the same as one
    tree = ObliqueTree(
        [[-1.0, 0.0, 0.0], [0.0, 1.0, -1.0]], [0.0, 0.0], [[1, 2], [3, 4]], [[1.0], [-1.0], [1.0]], link="logistic",
        classes=["no", "yes"], feature_names=["debt", "sex=f", "sex=m"],
    )  # fmt: skip
    group = [["sex=f", "sex=m"]]
    verdict = tree.independent("sex=f", groups=group, bounds={"debt": (-9, 9)})
    assert sorted(verdict.rows[:, 1].tolist()) == [0, 1]
    assert (verdict.rows[:, 1:].sum(axis=1) == 1).all()
    assert str(verdict).splitlines()[0] == "refuted: the predicted class never depends on sex=f, sex=m"
    assert tree.independent("sex=f", groups=group, bounds={"debt": (-9, -1)})
    fair = replace(tree, weights=[[-1.0, 0.0, 0.0], [0.0, 1.0, 1.0]], biases=[0.0, -0.5])
    assert not fair.independent(["sex=f", "sex=m"], bounds={"debt": (-9, 9)})  # without the group both may be 0
    assert fair.independent(["sex=f"], groups=group, bounds={"debt": (-9, 9)})
    with pytest.raises(
        ValueError, match="feature: 'sex=f' is in a one-hot group, where one rises only when another fal"
    ):
        tree.rises("sex=f", groups=group)


@pytest.mark.parametrize("seed", range(8))
def test_whole_numbers_on_the_planes_of_round_weights(seed):
    """Whole numbers meet planes of round weights exactly, some of them only there."""
    tree = rounded_tree(seed)
    rows = np.array(list(itertools.product(range(-2, 3), repeat=tree.n_features)), float)
    options = {"bounds": (-2, 2), "whole": range(tree.n_features)}
    chances = tree.predict_proba(rows)[:, 1].reshape((5,) * tree.n_features)
    reach = tree.output_range(**options)
    assert (reach.low, reach.high) == (chances.min(), chances.max())
    assert not tree.at_most(chances.max() - 1e-6, **options)
    for j in range(tree.n_features):
        steps = np.diff(chances, axis=j)
        assert bool(tree.rises(j, **options)) == bool((steps >= 0).all())
        assert bool(tree.falls(j, **options)) == bool((steps <= 0).all())
        assert bool(tree.independent(j, of="value", **options)) == bool((steps == 0).all())


def test_whole_numbers_can_prove_what_fractions_refute():
    tree = ObliqueTree([[1.0], [1.0]], [-0.4, -0.6], [[2, 1], [3, 4]], [[0.0], [5.0], [1.0]])
    assert not tree.rises(0, bounds=(0, 1))
    assert tree.rises(0, bounds=(0, 1), whole=[0])


def test_limits():
    tree = ObliqueTree(
        [[1.0, 1.0]], [-2.0], [[1, 2]], [[1.0], [3.0]], feature_names=["age", "income"],
        leaf_weights=[[[0.0, 0.0]], [[0.0, 1.0]]],
    )  # fmt: skip
    assert tree.at_most(1, bounds={"age": (0, 1), "income": (0, 0.9)})
    within = {"age": (0, 1), "income": (0, 2)}
    assert tree.at_most(5, bounds=within)
    assert not tree.at_most(4.9, bounds=within)
    assert tree.at_least(1, bounds=within)
    low = tree.at_least(2, bounds=within)
    assert tree.predict(low.rows)[0] < 2
    endless = tree.at_most(1e5)
    assert tree.predict(endless.rows)[0] > 1e5
    assert str(endless).splitlines()[0] == "refuted: the prediction is at most 100,000"
    assert str(tree.at_least(0, bounds=within)) == "proved: the prediction is at least 0"


def test_verdicts_in_words():
    tree = ObliqueTree([[1.0, 0.0]], [-2.0], [[1, 2]], [[3.0], [1.0]], feature_names=["age", "a<b"], link="identity")
    verdict = tree.rises("age", bounds={"age": (0, 4), "a<b": (0, 0)})
    lines = str(verdict).splitlines()
    assert lines[0] == "refuted: the prediction never falls when age rises"
    assert lines[1].split()[0] == "age"
    assert lines[-1].split() == ["predicted", "3", "1"]
    page = verdict._repr_html_()
    assert page.startswith("<p>refuted: the prediction never falls when age rises</p><table>")
    assert "and one that differs" in page
    assert tree.falls("age")._repr_html_() == "<p>proved: the prediction never rises when age rises</p>"
    assert str(tree.independent("a<b")) == "proved: the prediction never depends on a<b"
    assert str(tree.independent("age", tolerance=2)) == ("proved: the prediction never depends on age by more than 2")
    limit = tree.at_most(2)
    assert "a row" in limit._repr_html_()
    assert [limit.names, limit.outputs] == [("age",), (3.0,)]


def test_what_is_refused():
    tree = random_tree(np.random.default_rng(0), 3, 3, "softmax")
    with pytest.raises(ValueError, match="feature: the tree has no feature 'x7'"):
        tree.rises("x7", target="red")
    with pytest.raises(ValueError, match="target must name the class whose probability is meant"):
        tree.rises("x1")
    with pytest.raises(ValueError, match='of must be "answer" or "value", got \'class\''):
        tree.independent("x1", of="class")
    linear = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[0.0], [1.0]], leaf_weights=[[[1.0]], [[1.0]]], link="logistic",
                         classes=[0, 1])  # fmt: skip
    with pytest.raises(ValueError, match="tolerance is for values and for constant leaves"):
        linear.independent(0, of="value", tolerance=0.1)


def test_rows_on_a_plane_alone_refute_too() -> None:
    """A leaf that holds only the rows with x0 + x1 = 1: no depth, but numbers such as 0.5 and 0.5 come there."""
    tree = ObliqueTree([[1.0, 1.0], [-1.0, -1.0]], [-1.0, 1.0], [[2, 1], [3, 4]], [[0.0], [1.0], [5.0]])
    assert tree.predict([[0.5, 0.5], [0.75, 0.5]]).tolist() == [5.0, 1.0]
    found = tree.rises(0, bounds=(0, 1))
    assert not found
    first, second = tree.predict(found.rows)
    assert first > second
    assert tree.falls(0, bounds=(1, 2))  # beyond the plane only the leaf with 1 is left
    assert not tree.independent(1, of="value", bounds={0: (0, 0), 1: (1, 2)})


def test_a_limit_of_a_probability_is_from_0_to_1() -> None:
    """50 for 50 % would be proved, of no use to anyone."""
    tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[-1.0], [1.0]], link="logistic", classes=["no", "yes"])
    for name, limit in (("at_most", 50), ("at_least", -0.1), ("at_most", np.nan)):
        with pytest.raises(ValueError, match=f"{name} of a probability must be from 0 to 1, got {limit}"):
            getattr(tree, name)(limit)
    assert tree.at_most(1)
    assert tree.at_least(0)
