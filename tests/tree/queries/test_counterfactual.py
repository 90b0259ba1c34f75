"""The smallest change: against grids, sampling, enumeration of whole numbers, and a second solver."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeClassifier

from tests.tree.queries.oracles import (
    answers,
    grid,
    nearest_of,
    norm_of,
    polyhedron,
    project_by_enumeration,
    rows_within,
)
from tests.tree.trees import random_tree, trees
from treelu.tree import ObliqueTree
from treelu.tree.queries.goal import leaf_classes
from treelu.tree.queries.points import _from_inside, nearest_point

NORMS = ("l1", "linf", "l2")
CLASSIFIERS = ("logistic", "softmax", "probability", "linear softmax")


def loan_tree(**options) -> ObliqueTree:
    """Yes where income + 2 savings reaches 100, or where age is above 60 and savings reach 10."""
    arrays = {
        "weights": [[1, 2, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0]],
        "biases": [-100, -60.5, -10],
        "children": [[1, 3], [4, 2], [5, 6]],
        "values": [[2.0], [-2.0], [-1.0], [1.0]],
        "link": "logistic",
        "classes": ["no", "yes"],
        "feature_names": ["income", "savings", "age", "height"],
    }
    return ObliqueTree(**{**arrays, **options})


X = np.array([50.0, 10.0, 40.0, 1.8])


# Exactness


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", [*CLASSIFIERS, "identity2", "linear"])
def test_no_sampled_row_is_nearer(kind, norm):
    rng = np.random.default_rng([NORMS.index(norm), len(kind)])
    n_found = 0
    for _ in range(8):
        tree = random_tree(rng, int(rng.integers(1, 20)), int(rng.integers(1, 8)), kind)
        x, scale = rng.standard_normal(tree.n_features), rng.uniform(0.5, 2, tree.n_features)
        wanted: dict = {}
        if kind in ("identity2", "linear"):
            # above all leaves but one, below all but one, or a wish of a linear leaf
            limit = float(np.sort(tree.values[:, 1])[rng.integers(1, tree.n_leaves)])
            wanted = {"at_least": limit, "output": 1} if rng.random() < 0.5 else {"at_most": limit, "output": 1}
        before = tree.predict(x[None])[0]
        if not wanted and tree.leaf_weights is None and len(set(tree.predict(rng.standard_normal((999, len(x)))))) < 2:
            continue
        result = tree.counterfactual(x, norm=norm, scale=scale, **wanted)
        nearer = result.distance if result else 20.0
        rows = rows_within(x, nearer, norm, scale, rng, 20_000)
        assert not answers(tree, rows, wanted, before).any() or result.distance == 0
        if result:
            n_found += 1
            assert answers(tree, result.row[None], wanted, before)[0]
            assert norm_of((result.row - x) / scale, norm) == pytest.approx(result.distance)
            assert result.bound <= result.distance <= result.bound + 1e-6
    assert n_found >= 4


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_grid_in_two_dimensions_has_no_nearer_row(kind, norm):
    rng = np.random.default_rng([7, NORMS.index(norm), len(kind)])
    points = grid(2, 161, 4.0)
    close = 0
    for _ in range(12):
        tree = random_tree(rng, int(rng.integers(2, 12)), 2, kind)
        labels = tree.predict(points)
        x = rng.uniform(-2, 2, 2)
        for target in sorted(set(labels.tolist())):
            result = tree.counterfactual(x, target, norm=norm, bounds=(-4, 4))
            on_grid = nearest_of(points, x, labels == target, norm)
            assert result.distance <= on_grid + 1e-9
            assert tree.predict(result.row[None])[0] == target
            assert (np.abs(result.row) <= 4).all()
            close += on_grid - result.distance < 0.15
    assert close >= 20  # nor is it only a bound: most grids come as near as their mesh


@pytest.mark.parametrize("norm", NORMS)
def test_whole_numbers_groups_and_few_changes_against_enumeration(norm):
    rng = np.random.default_rng([3, NORMS.index(norm)])
    values = [range(-2, 4), range(-3, 3), (0, 1), (0, 1), (0, 1)]
    rows = np.array([row for row in itertools.product(*values) if sum(row[2:]) == 1], dtype=float)
    n_found = n_none = 0
    for trial in range(12):
        tree = random_tree(rng, int(rng.integers(3, 15)), 5, "softmax")
        x, scale = rows[rng.integers(len(rows))], rng.uniform(0.5, 2, 5)
        most = [None, 1, 2][trial % 3]
        target = tree.classes[rng.integers(3)]
        options = {"bounds": {0: (-2, 3), 1: (-3, 2)}, "whole": [0, 1], "groups": [[2, 3, 4]]}
        if target not in tree.classes[tree.values.argmax(axis=1)]:
            continue
        result = tree.counterfactual(x, target, norm=norm, scale=scale, max_changes=most, **options)
        changed = rows != x
        n_changes = changed[:, 0].astype(int) + changed[:, 1] + changed[:, 2:].any(axis=1)
        fits = (tree.predict(rows) == target) & (n_changes <= (most or 9))
        wanted = nearest_of(rows, x, fits, norm, scale)
        assert result.distance == pytest.approx(wanted), (trial, most)
        n_found += bool(result)
        n_none += not result
        if result:
            assert (rows == result.row).all(axis=1).any()
    assert n_found >= 4
    assert n_none >= 1


@pytest.mark.parametrize("norm", NORMS)
def test_a_leaf_whose_whole_numbers_all_lie_on_its_plane(norm):
    """Of the rows (0, 1), (0, 2), (0, 3) the second is on the plane x1 - x0 = 2 and the third beyond the leaf."""
    tree = ObliqueTree(
        [[-3, 1], [-1, 1]], [-3, -2], [[1, 4], [2, 3]], [[-1], [1], [-1]], link="logistic", classes=["no", "yes"]
    )
    found = tree.counterfactual([-1, 3], norm=norm, bounds={0: (0, 0), 1: (1, 3)}, whole=[0, 1])
    assert found.row.tolist() == [0, 2]


@pytest.mark.parametrize("norm", NORMS)
def test_few_changes_with_open_ranges_against_all_subsets(norm):
    rng = np.random.default_rng([5, NORMS.index(norm)])
    for _ in range(5):
        tree = random_tree(rng, 9, 5, "logistic")
        x = rng.standard_normal(5)
        result = tree.counterfactual(x, norm=norm, max_changes=2)
        each = [
            tree.counterfactual(x, norm=norm, keep=[j for j in range(5) if j not in pair])
            for pair in itertools.combinations(range(5), 2)
        ]
        assert result.distance == pytest.approx(min(one.distance for one in each), rel=1e-6)
        assert len(result.changes) <= 2


def test_l2_against_enumeration_and_a_quadratic_solver():
    rng = np.random.default_rng(0)
    n_empty = 0
    for trial in range(60):
        m, u = int(rng.integers(1, 7)), int(rng.integers(1, 5))
        G = rng.standard_normal((m, u))
        G /= np.linalg.norm(G, axis=1, keepdims=True)
        h = rng.standard_normal(m) * 10.0 ** rng.integers(-3, 3)
        y, wanted = nearest_point(polyhedron(G, h), "l2"), project_by_enumeration(G, h)
        if wanted is None:
            assert y is None
            n_empty += 1
            continue
        np.testing.assert_allclose(y, wanted, atol=1e-7 * (1 + np.abs(wanted).max()))
        if trial % 3 == 0:
            quadratic = minimize(
                lambda v: v @ v / 2, wanted + 0.1, jac=lambda v: v, method="SLSQP", options={"ftol": 1e-14},
                constraints={"type": "ineq", "fun": lambda v, G=G, h=h: h - G @ v, "jac": lambda v, G=G: -G},
            )  # fmt: skip
            assert not quadratic.success or y @ y / 2 <= quadratic.fun * (1 + 1e-6) + 1e-9
    assert n_empty > 5


def test_l2_from_inside_is_the_same():
    rng = np.random.default_rng(1)
    for _ in range(30):
        m, u = int(rng.integers(1, 8)), int(rng.integers(1, 6))
        G, inside = rng.standard_normal((m, u)), rng.standard_normal(u)
        h = G @ inside + rng.random(m)
        y = nearest_point(polyhedron(G, h), "l2")
        np.testing.assert_allclose(_from_inside(G, h, inside), y, atol=1e-7)


def test_softmax_probabilities_of_linear_leaves_are_approached_by_planes():
    rng = np.random.default_rng(4)
    for norm in NORMS:
        tree = random_tree(rng, 6, 3, "linear softmax")
        X = rng.standard_normal((50, 3))
        x = X[np.argmin(tree.predict_proba(X)[:, 1])]
        result = tree.counterfactual(x, "green", at_least=0.7, norm=norm)
        rows = rows_within(x, result.distance, norm, np.ones(3), rng, 50_000)
        assert tree.predict_proba(rows)[:, 1].max() < 0.7 + 1e-7
        assert tree.predict_proba(result.row[None])[0, 1] >= 0.7
        assert result.distance <= result.bound + 1e-6


def test_proofs_of_none_against_sampled_rows():
    rng = np.random.default_rng(2)
    n_none = 0
    for _ in range(30):
        tree = random_tree(rng, 12, 4, "softmax")
        x = rng.uniform(-0.5, 0.5, 4)
        for target in ("red", "green", "blue"):
            if target not in tree.classes[tree.values.argmax(axis=1)]:
                continue
            result = tree.counterfactual(x, target, bounds=(-0.5, 0.5))
            if not result:
                n_none += 1
                rows = rng.uniform(-0.5, 0.5, (10_000, 4))
                assert not (tree.predict(rows) == target).any()
    assert n_none >= 3


# Floats


def test_a_leaf_between_two_floats():
    after = np.nextafter(1.0, 2)
    tree = ObliqueTree(
        [[1.0], [1.0]], [-1.0, -after], [[2, 1], [3, 4]], [[0.0, 1, 0], [0, 0, 1.0], [1.0, 0, 0]], link="probability",
        classes=["below", "one", "above"],
    )  # fmt: skip
    tree = ObliqueTree(tree.weights, tree.biases, tree.children, [[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]],
                       link="probability", classes=["below", "one", "above"])  # fmt: skip
    assert tree.predict([[0.0], [1.0], [after]]).tolist() == ["below", "one", "above"]
    for norm in NORMS:
        assert tree.counterfactual([-3.0], "one", norm=norm).row.tolist() == [1.0]
        assert tree.counterfactual([5.0], "one", norm=norm).row.tolist() == [1.0]
        assert tree.counterfactual([5.0], "below", norm=norm).row.tolist() == [np.nextafter(1.0, 0)]
        assert tree.counterfactual([-5.0], "above", norm=norm).row.tolist() == [after]


def test_thresholds_of_scikit_learn_are_met_to_the_last_float():
    data, target = load_iris(return_X_y=True)
    cart = DecisionTreeClassifier(random_state=0).fit(data, target)
    tree = ObliqueTree.from_sklearn(cart)
    rng = np.random.default_rng(0)
    for x in data[rng.choice(150, 12, replace=False)]:
        for label in (0, 1, 2):
            result = tree.counterfactual(x, label)
            assert result.n_solved == 0  # boxes need no programme
            assert cart.predict(result.row[None])[0] == label
            for change in result.changes:  # one float less would not do
                row = result.row.copy()
                j = int(change.feature.removeprefix("x"))
                row[j] = np.nextafter(row[j], x[j])
                assert tree.predict(row[None])[0] != label


def test_planes_at_awkward_sizes_are_still_crossed():
    rng = np.random.default_rng(8)
    for size in (1e-6, 1.0, 1e7):
        for norm in NORMS:
            tree = random_tree(rng, 10, 6, "logistic")
            x = size * rng.standard_normal(6)
            tree = ObliqueTree(
                tree.weights, tree.biases * size, tree.children, tree.values, link="logistic", classes=[0, 1]
            )
            result = tree.counterfactual(x, norm=norm, scale=np.full(6, size))
            assert tree.predict(result.row[None])[0] != result.before


# Options


def test_kept_features_directions_and_ranges():
    tree = loan_tree()
    assert [change.feature for change in tree.counterfactual(X, "yes").changes] == ["savings"]
    kept = tree.counterfactual(X, "yes", keep=["savings"])
    assert [(change.feature, change.after) for change in kept.changes] == [("age", 61.0)] or kept.row[2] >= 60.5
    kept = tree.counterfactual(X, "yes", keep="savings", fall=["age"])
    assert kept.row.tolist()[1:] == X.tolist()[1:]
    assert kept.row[0] == pytest.approx(80)
    assert not tree.counterfactual(X, "yes", keep=["savings", "age"], bounds={"income": (0, 79)})
    assert tree.counterfactual(X, "yes", rise=["income"], fall=["savings", "age"]).row[0] == pytest.approx(80)
    older = tree.counterfactual(X, "yes", keep=["income"], bounds={"savings": (None, 20)}, whole=["age"])
    assert older.row.tolist() == [50.0, 10.0, 61.0, 1.8]


def test_a_row_outside_the_ranges_comes_into_them():
    result = loan_tree().counterfactual(X, "yes", bounds={"income": (60, 70), "height": (1.9, 2)})
    assert 60 <= result.row[0] <= 70
    assert result.row[3] == 1.9


def test_features_that_the_tree_does_not_use_never_change():
    rng = np.random.default_rng(0)
    for norm in NORMS:
        tree = random_tree(rng, 8, 6, "logistic")
        tree = ObliqueTree(
            tree.weights * [1, 1, 0, 1, 0, 1], tree.biases, tree.children, tree.values, link="logistic", classes=[0, 1]
        )
        x = rng.standard_normal(6)
        assert (tree.counterfactual(x, norm=norm).row[[2, 4]] == x[[2, 4]]).all()


def test_several_rows_are_in_different_leaves_and_in_order():
    rng = np.random.default_rng(0)
    tree = random_tree(rng, 20, 4, "softmax")
    result = tree.counterfactual(rng.standard_normal(4), "red", n=3)
    assert len({found.leaf for found in result.rows}) == 3
    distances = [found.distance for found in result.rows]
    assert distances == sorted(distances)
    assert [found.prediction for found in result.rows] == ["red"] * 3


def test_a_group_whose_category_is_unknown_stays_as_it_is():
    rng = np.random.default_rng(0)
    tree = random_tree(rng, 8, 4, "logistic")
    result = tree.counterfactual([0.3, 0.1, 0, 0], groups=[[2, 3]])
    assert result.row[2:].tolist() == [0, 0]


def test_forms_of_a_row():
    tree = loan_tree()
    wanted = tree.counterfactual(X, "yes").row
    series = pd.Series(X, index=list(tree.feature_names))
    for form in (X.tolist(), X[None], series, series.to_frame().T, sparse.csr_array(X[None]), pd.Series(X)):
        assert tree.counterfactual(form, "yes").row.tolist() == wanted.tolist()
    sparse_tree = loan_tree(weights=sparse.csr_array(np.asarray(tree.weights)))
    assert sparse_tree.counterfactual(X, "yes").row.tolist() == wanted.tolist()


def test_a_row_that_already_has_the_answer():
    result = loan_tree().counterfactual([200, 0, 40, 1.8], "yes")
    assert result.distance == 0
    assert result.changes == ()
    assert str(result) == "predicted 'yes'; that is as asked for ('yes'), nothing has to change"


def test_a_tree_of_one_leaf():
    tree = ObliqueTree(np.zeros((0, 2)), [], [], [[3.0]])
    assert tree.counterfactual([1, 2], at_least=2).distance == 0


# Words


def test_the_text_of_a_result():
    tree = loan_tree()
    assert str(tree.counterfactual(X, "yes", n=2)).splitlines() == [
        "predicted 'no'; the nearest row predicted 'yes' is 15 away (l1):",
        "  savings  10  -> 25  +15",
        "or, 20.5 away, predicted 'yes':",
        "  age  40  -> 60.5  +20.5",
    ]
    none = tree.counterfactual(X, "yes", keep=["income", "savings"], bounds={"age": (18, 60)})
    assert str(none) == "predicted 'no'; no permitted row is predicted 'yes': proved over 4 leaves"
    assert not none
    assert none.distance == np.inf
    with pytest.raises(ValueError, match="no permitted row is predicted 'yes'; see the result's text"):
        _ = none.row
    likely = tree.counterfactual(X, "yes", at_least=0.8)
    assert likely.wanted == "with a probability of 'yes' of at least 0.8"
    assert tree.counterfactual(X).wanted == "other than 'no'"
    regression = loan_tree(link="identity", classes=None)
    assert regression.counterfactual(X, at_least=0.5, at_most=1).wanted == "0.5 to 1"
    assert str(regression.counterfactual(X, at_most=-2)).startswith("predicted -2; that is as asked for (at most -2)")


def test_the_html_of_a_result_escapes_names():
    tree = loan_tree(feature_names=["<b>", "a&b", "age", "height"])
    page = tree.counterfactual(X, "yes")._repr_html_()
    assert "a&amp;b" in page
    assert "<b>" not in page
    assert "predicted &#x27;no&#x27;; the nearest row" in page


# What is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep": ["agee"]}, r"keep: the tree has no feature 'agee'; did you mean 'age'\?"),
        ({"rise": [7]}, "rise: the tree has no feature 7; it has 'income', 'savings', 'age', 'height'"),
        ({"bounds": {"wealth of nations": (0, 1)}}, "bounds: the tree has no feature 'wealth of nations'; it has"),
        ({"bounds": {"age": (100, 18)}}, "bounds: the range of 'age' is empty, 100 to 18; give the smaller number"),
        ({"bounds": {"age": 18}}, r"bounds: the range of 'age' must be a pair \(low, high\), None for no end, got 18"),
        ({"bounds": "all"}, "bounds must map features to"),
        (
            {"bounds": {"age": (50, 100)}, "keep": ["age"]},
            "keep: 'age' is 40, outside its range 50 to 100; widen the range or take it out of keep",
        ),
        ({"bounds": {"age": (0, 30)}, "rise": ["age"]}, "rise: 'age' is 40, outside its range 0 to 30"),
        ({"bounds": {"age": (0.2, 0.8)}, "whole": ["age"]}, "whole: no whole number lies in the range of 'age'"),
        ({"groups": [["age"]]}, "groups: a group needs at least two features"),
        ({"groups": [["age", "income"], ["age", "height"]]}, "groups: 'age' is in more than one group"),
        ({"scale": [1, 1]}, r"scale must be a number or have shape \(4,\), got \(2,\)"),
        ({"scale": {"age": -1}}, "scale: the unit of 'age' must be positive, got -1"),
        ({"norm": "l3"}, "norm must be one of l1, linf, l2, got 'l3'"),
        ({"max_changes": 0}, "max_changes must be at least 1, got 0"),
        ({"n": 0}, "n must be at least 1, got 0"),
        ({"target": "maybe"}, "target: the tree has no class 'maybe'; its classes are 'no', 'yes'"),
        ({"target": "yes", "at_least": 1.5}, "at_least must be a probability from 0 to 1, got 1.5"),
        ({"target": "yes", "at_least": 0.9}, "no leaf of this tree has a probability of 'yes' of at least 0.9; they"),
        ({"target": "yes", "at_least": 0.9, "at_most": 0.1}, "at_least must not exceed at_most, got 0.9 and 0.1"),
        ({"target": None, "at_least": 0.5}, "at_least and at_most need target, the class whose probability is meant"),
    ],
)  # fmt: skip
def test_bad_questions(options, message):
    with pytest.raises(ValueError, match=message):
        loan_tree().counterfactual(X, **{"target": "yes", **options})


def test_bad_questions_about_numbers_and_classes_without_a_leaf():
    numbers = loan_tree(link="identity", classes=None)
    with pytest.raises(ValueError, match="target names a class, and this tree predicts numbers; give at_least or at_m"):
        numbers.counterfactual(X, "yes")
    with pytest.raises(ValueError, match="this tree predicts numbers: give at_least, at_most or both"):
        numbers.counterfactual(X)
    with pytest.raises(ValueError, match="no leaf of this tree has a value of at least 3; they are from -2 to 2"):
        numbers.counterfactual(X, at_least=3)
    with pytest.raises(ValueError, match="output must be from 0 to 0, got 1"):
        numbers.counterfactual(X, at_least=0, output=1)
    never = loan_tree(values=[[-1.0], [-2.0], [-1.0], [-3.0]])
    with pytest.raises(ValueError, match="no leaf of this tree answers 'yes'; they answer 'no'"):
        never.counterfactual(X, "yes")
    linear = random_tree(np.random.default_rng(0), 3, 4, "linear softmax")
    with pytest.raises(ValueError, match="at_most: rows of a linear leaf with three or more classes"):
        linear.counterfactual(X, "red", at_most=0.2)
    with pytest.raises(ValueError, match="x must be one row, got 2"):
        numbers.counterfactual([X, X], at_least=0)
    with pytest.raises(ValueError, match="x must be finite, got nan for 'savings'"):
        numbers.counterfactual([1, np.nan, 2, 3], at_least=0)


# Any tree at all


@given(tree=trees(kinds=CLASSIFIERS, max_splits=8), seed=st.integers(0, 999), norm=st.sampled_from(NORMS))
@settings(max_examples=60)
def test_any_tree_answers_truly(tree, seed, norm):
    rng = np.random.default_rng(seed)
    x = np.round(rng.standard_normal(tree.n_features), int(rng.integers(0, 4)))
    kept = np.flatnonzero(rng.random(tree.n_features) < 0.3)
    if tree.leaf_weights is None and len(set(tree.classes[leaf_classes(tree)].tolist())) < 2:
        return
    result = tree.counterfactual(x, keep=kept, bounds=(-3, 3), norm=norm)
    if result:
        assert tree.predict(result.row[None])[0] == result.prediction != result.before
        assert (result.row[kept] == x[kept]).all()
        assert (np.abs(result.row) <= 3).all()
        assert result.distance == pytest.approx(float(norm_of((result.row - x) / tree.effect_scale(), norm)))
    else:
        rows = rng.uniform(-3, 3, (2_000, tree.n_features))
        rows[:, kept] = x[kept]
        assert (tree.predict(rows) == result.before).all()
