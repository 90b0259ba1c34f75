"""Warnings about scores, about training rows, and partial dependence against scikit-learn's."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.inspection import partial_dependence as oracle
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from tests.report.trees import complete_tree, rows_for
from treelu.report import summarize
from treelu.report.cautions import classification_cautions, leaf_cautions, regression_cautions
from treelu.report.curves import partial_dependence
from treelu.report.digest import KEPT, RowDigest
from treelu.tree import ObliqueTree


def warnings_of(target, X, **options):
    model = DecisionTreeClassifier(max_depth=options.pop("depth", 3), random_state=0, **options).fit(X, target)
    return summarize(None, estimator=model, X=X, y=target, rows_are="given")


def test_a_leaked_column_is_suspected_by_name():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    target = (X[:, 1] > 0).astype(int)
    (line,) = warnings_of(target, X)["warnings"]
    wanted = "every row is predicted right; is the answer among the features ('x1' takes part most)?"
    assert line == f"{wanted} Scores like this are rare"


def test_a_leaf_that_a_threshold_decides_against_the_likely_class_is_as_it_should_be():
    """With --balanced every leaf above the class frequency predicts the rare class, as asked for."""
    leaf = {"node": 5, "n": 119, "prediction": [0.86, 0.14], "observed": [101, 18]}
    assert leaf_cautions([leaf], ["no", "yes"], 1, 0.066) == []
    (line,) = leaf_cautions([leaf | {"prediction": [0.97, 0.03], "observed": [18, 101]}], ["no", "yes"], 1, 0.066)
    assert line.startswith("leaf 5 predicts 'no' (97%), although 85% of its 119 rows here are 'yes'; a threshold of")


def test_a_class_that_is_never_predicted_is_named_with_the_remedies():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    target = (rng.random(300) < 0.05).astype(int)
    summary = warnings_of(target, X, depth=1, min_samples_leaf=100)
    assert summary["baseline"]["name"] == "always 0"
    share = 1 - target.mean()
    assert summary["baseline"]["scores"]["accuracy"]["value"] == pytest.approx(share)
    assert summary["baseline"]["scores"]["auc"]["value"] == 0.5
    assert summary["baseline"]["scores"]["average_precision"]["value"] == pytest.approx(target.mean())
    assert summary["models"][0]["scores"]["recall"]["value"] == 0
    assert summary["models"][0]["scores"]["precision"]["value"] is None
    (line,) = summary["warnings"]
    assert line.startswith(f"'1' is never predicted, although {target.sum()} of 300 rows are '1'; give each class")
    assert line.endswith("(--balanced, class_weight='balanced') or lower the threshold")


def test_the_positive_class_may_be_the_first_one():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.where(X[:, 0] + rng.normal(size=200) > 1.5, "fraud", "ok")
    model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
    summary = summarize(None, estimator=model, X=X, y=y, rows_are="given")
    assert summary["classes"][summary["positive"]] == "fraud"
    predicted = model.predict(X)
    assert summary["models"][0]["scores"]["recall"]["value"] == pytest.approx((predicted == y)[y == "fraud"].mean())
    assert summary["models"][0]["roc"][0]["class"] == 0
    counts = summary["models"][0]["thresholds"]
    assert sum(counts["positive"]) == (y == "fraud").sum()


def test_training_rows_are_recognised_by_the_counts_of_the_tree():
    tree = complete_tree(3, 4)
    X, y = rows_for(tree, 80)
    counted = tree.with_counts(X)
    assert summarize(counted, X=X, y=y)["rows_are"] == "training"
    assert "training rows" in summarize(counted, X=X, y=y)["warnings"][-1]
    assert summarize(counted, X=X, y=y, rows_are="hold-out")["rows_are"] == "hold-out"
    other, labels = rows_for(tree, 80, seed=5)
    assert summarize(counted, X=other, y=labels)["rows_are"] == "given"
    assert summarize(tree, X=X, y=y)["rows_are"] == "given"


@pytest.mark.parametrize("n_rows", [50, 3 * KEPT])
def test_a_digest_tells_training_rows(n_rows):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3))
    digest = RowDigest.from_dict(RowDigest.of(X).to_dict())
    assert len(digest.hashes) <= KEPT
    assert digest.share_of(X) == 1
    assert digest.share_of(rng.normal(size=(n_rows, 3))) == 0
    mixed = np.r_[X[: n_rows // 2], rng.normal(size=(n_rows // 2, 3))]
    assert digest.share_of(mixed) == pytest.approx(0.5, abs=0.03)
    assert RowDigest.of(np.ones((20, 2))).share_of(np.ones((5, 2))) is None


def test_partial_dependence_is_scikit_learns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] - 2 * (X[:, 1] > 0) + rng.normal(size=60) / 9
    model = DecisionTreeRegressor(max_depth=4, random_state=0).fit(X, y)
    tree = ObliqueTree.from_sklearn(model)
    for curve in partial_dependence(tree.predict, X, [0, 1]):
        wanted = oracle(
            model, X, [curve["feature"]], method="brute", custom_values={curve["feature"]: np.array(curve["values"])}
        )
        assert np.allclose(curve["means"], wanted["average"][0])


def test_few_rows_and_scores_below_the_baseline_are_said() -> None:
    even = {"threshold": 0.5, "weighted": False, "strongest": None}
    chances = np.tile([0.6, 0.4], (40, 1))
    assert classification_cautions(np.zeros(3, dtype=int), chances[:3], ["no", "yes"], **even) == [
        "the scores come from 3 rows only, and say little",
        "all rows here are 'no': the scores say nothing about the other classes; give more rows",
    ]
    target = np.repeat([0, 1], [10, 30])
    mixed = np.where(np.arange(40)[:, None] % 2 == 0, [0.6, 0.4], [0.4, 0.6])
    (line,) = classification_cautions(target, mixed, ["no", "yes"], **even)
    assert line == "50.0% of the rows are predicted right; always answering 'yes' would be right in 75.0%"
    values = np.arange(30.0)
    (line,) = regression_cautions(values, values[::-1], strongest=None)
    assert line == "R² is -3.000: the mean of the target would predict these rows better"
    assert regression_cautions(values[:1], values[:1], strongest=None) == [
        "the scores come from 1 row only, and say little"
    ]


def test_a_digest_tells_the_share_of_its_rows() -> None:
    X = np.random.default_rng(0).normal(size=(100, 3)) * [1, 0, 1]
    digest = RowDigest.of(X)
    assert [digest.share_of(X), digest.share_of(X + 1), digest.share_of(np.r_[X[:30], X[:10] + 1])] == [1.0, 0.0, 0.75]
    assert RowDigest.from_dict(digest.to_dict()).share_of(sparse.csr_array(X)) == 1.0


def test_scores_that_are_too_good_ask_for_the_answer_among_the_features() -> None:
    y = np.arange(30.0)
    said = "R² is 1.0000; is the answer among the features ('z' takes part most)? Scores like this are rare"
    assert regression_cautions(y, y, strongest="z") == [said]


def rows_found(found: int, of: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Targets with `of` positive rows and probabilities by which `found` of them and no other row are called so."""
    target = np.zeros(n_rows, dtype=int)
    target[:of] = 1
    called = np.arange(n_rows) < found
    return target, np.where(called[:, None], [0.4, 0.6], [0.6, 0.4])


@pytest.mark.parametrize(
    ("found", "of", "warned"),
    [(9, 58, True), (16, 58, True), (25, 58, False), (5, 200, True), (20, 45, True), (24, 45, False)],
)  # of 500 rows: a third of a class is enough from 10 % on, half of a rarer one
def test_a_class_of_any_share_that_is_hardly_found_is_warned_of(found: int, of: int, warned: bool) -> None:
    target, chances = rows_found(found, of, 500)
    for weighted in (False, True):
        how = {"threshold": 0.5, "weighted": weighted, "strongest": None}
        lines = classification_cautions(target, chances, ["no", "yes"], **how)
        assert len(lines) == int(warned)
        if warned:
            assert lines[0].startswith(f"only {found / of:.0%} of the rows that are 'yes' are found ({of / 500:.1%} of")
            assert ("--balanced" in lines[0]) is not weighted


def test_a_single_leaf_says_that_nothing_was_found() -> None:
    X, y = np.arange(60.0)[:, None], np.arange(60.0)
    leaf = ObliqueTree(np.zeros((0, 1)), [], np.zeros((0, 2), dtype=int), [[y.mean()]])
    assert any(
        "nothing was found that helps on rows held out" in line for line in summarize(leaf, X=X, y=y)["warnings"]
    )
    two = ObliqueTree([[1.0]], [-30.0], [[1, 2]], [[15.0], [45.0]])
    assert not any("nothing was found" in line for line in summarize(two, X=X, y=y)["warnings"])
