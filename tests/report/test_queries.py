"""The page's questions: every wording, from rows and trees small enough to know the answer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import numpy as np
import pytest

from tests.report.browser import NoChromiumError, open_report, start_chromium
from tests.tree.queries.oracles import rows_within
from tests.tree.trees import random_tree
from treelu.report import render, summarize
from treelu.report.queries import (
    MAX_LEAVES,
    MAX_ROWS,
    OutOfTimeError,
    TimeBudget,
    _RowAnswers,
    answer_queries,
    page_answers,
    plain_asking,
    prediction_step,
    property_words,
)
from treelu.tree import ObliqueTree
from treelu.tree.missing import MissingValues
from treelu.tree.observed import Observed


def loan_tree(**options) -> ObliqueTree:
    arrays = {
        "weights": [[1.0, -0.5]], "biases": [-3.0], "children": [[1, 2]], "values": [[-1.0], [1.0]], "link": "logistic",
        "classes": ["no", "yes"], "feature_names": ["income", "debt"],
    }  # fmt: skip
    return ObliqueTree(**{**arrays, **options})


ROWS = np.array([[1.0, 0.0], [5.0, 2.0], [2.0, 4.0]])


def test_answers_about_rows_and_the_tree():
    answers = answer_queries(plain_asking(loan_tree()), ROWS, ROWS, [0, 1])
    first = answers["rows"][0]
    assert first["change"] == "would be yes if income were 3 instead of 1"
    assert first["margin"] == pytest.approx(2 / np.sqrt(1.25))
    assert first["exact"]
    assert sum(share["share"] for share in first["shares"]) + first["base"] == pytest.approx(
        loan_tree().predict_proba(ROWS[:1])[0, 1]  # of the positive class, whatever is predicted
    )
    assert [one["words"] for one in answers["properties"]] == [
        "proved: the probability of yes never falls when income rises",
        "proved: the probability of yes never rises when debt rises",
    ]


def test_properties_speak_of_the_positive_class():
    summary = summarize(loan_tree(), X=ROWS, y=["no", "yes", "no"], positive=0)
    asked = page_answers(plain_asking(loan_tree()), ROWS, summary)
    assert {one["words"] for one in asked["properties"]} == {
        "proved: the probability of no never rises when income rises",
        "proved: the probability of no never falls when debt rises",
    }


def test_answers_stay_within_what_training_held():
    observed = Observed.of([[0, 0.0], [6, 4.5], [3, 2.0]])  # income in integers, debt not
    tree = loan_tree(biases=[-2.5], observed=observed)
    answers = answer_queries(plain_asking(tree), ROWS[:1], ROWS, [0, 1])
    assert answers["within_training"]
    assert not answers["without_missing"]
    filled = replace(tree, missing=MissingValues(np.array([0.0]), np.array([0])), feature_names=["debt", "no debt"])
    assert answer_queries(plain_asking(filled), ROWS[:1], ROWS, [0, 1])["without_missing"]
    assert answers["rows"][0]["change"] == "would be yes if income were 3 instead of 1"
    free = answer_queries(plain_asking(loan_tree(biases=[-2.5])), ROWS[:1], ROWS, [0, 1])
    assert not free["within_training"]
    assert free["rows"][0]["change"] == "would be yes if income were 2.5 instead of 1"
    # Income reaches the plane at 8.5 only, which no training row had.
    far = loan_tree(biases=[-8.5], observed=observed)
    assert answer_queries(plain_asking(far), ROWS[:1], ROWS, [])["rows"][0]["change"] == (
        "is predicted no whatever changes within what the training rows held"
    )
    about = answer_queries(plain_asking(far), ROWS, ROWS, [0, 1])["properties"]
    assert [one["words"] for one in about] == [
        "proved: the probability of yes never depends on income",
        "proved: the probability of yes never depends on debt",
    ]


def test_answers_have_a_time_together():
    asking = plain_asking(loan_tree())
    none = answer_queries(asking, ROWS, ROWS, [0, 1], TimeBudget(0.0))
    assert (none["rows"], none["properties"], none["not_computed"]) == ([{}] * 3, [], 3 * 3 + 2)

    def interrupt(seconds: float) -> AbstractContextManager[None]:
        limits.append(seconds)
        return stack(len(limits))

    @contextmanager
    def stack(number: int) -> Iterator[None]:
        if number in (1, 4, 7, 9):  # the first property, the shares of a row, the change of another, a third's margin
            raise OutOfTimeError
        yield

    limits: list[float] = []
    some = answer_queries(asking, ROWS, ROWS, [0, 1], TimeBudget(1000.0, interrupt))
    whole = answer_queries(asking, ROWS, ROWS, [0, 1])
    left_out = ({"margin"}, {"base", "shares", "exact", "change", "margin"}, set())
    wanted = [{k: v for k, v in row.items() if k not in out} for row, out in zip(whole["rows"], left_out, strict=True)]
    assert some["rows"] == wanted
    assert some["properties"] == whole["properties"][1:]
    assert (some["not_computed"], whole["not_computed"]) == (5, 0)  # a margin without a change is not asked for
    assert limits == [50.0] * 10  # no single one may take it all


def test_no_margin_is_computed_before_the_last_change(monkeypatch):
    asked = []
    for name in ("change", "margin"):
        whole = getattr(_RowAnswers, name)
        monkeypatch.setattr(_RowAnswers, name, lambda self, row, n=name, f=whole: asked.append(n) or f(self, row))
    answer_queries(plain_asking(loan_tree()), ROWS, ROWS, [])
    assert asked == ["change"] * 3 + ["margin"] * 3


def test_rows_that_nothing_changes():
    same = loan_tree(values=[[1.0], [2.0]])
    row = answer_queries(plain_asking(same), ROWS, ROWS, [])["rows"][0]
    assert row["change"] == "is predicted yes whatever its values"
    assert row["margin"] is None
    asking = plain_asking(loan_tree())
    kept = replace(asking, stay=lambda row: [0, 1])
    assert answer_queries(kept, ROWS, ROWS, [])["rows"][0]["change"] == "is predicted no whatever may change"


def test_numbers_change_by_a_step():
    tree = loan_tree(link="identity", classes=None, weights=[[1.0, 0.0]], values=[[1.0], [2.0]])
    answers = answer_queries(plain_asking(tree), ROWS, ROWS, [0, 1])
    assert answers["step"] == 0.24  # half of the predictions' spread
    assert [row["change"] for row in answers["rows"]] == [
        "would be 2 instead of 1 if income were 3 instead of 1",
        "would be 1 instead of 2 if income were 3 instead of 5",  # to six digits: the plane itself is on the right
        "would be 2 instead of 1 if income were 3 instead of 2",
    ]
    assert [row["margin"] for row in answers["rows"]] == pytest.approx([2, 2, 1])
    assert [one["words"] for one in answers["properties"]] == [
        "proved: the prediction never falls when income rises",
        "proved: the prediction never depends on debt",
    ]


def test_numbers_that_nothing_changes():
    tree = loan_tree(link="identity", classes=None, values=[[1.0], [2.0]])
    kept = replace(plain_asking(tree), stay=lambda row: [0, 1])
    row = answer_queries(kept, ROWS, ROWS, [])["rows"][0]
    assert (row["change"], row["margin"]) == ("is predicted within 0.24 of 1 whatever may change", None)
    flat = loan_tree(link="identity", classes=None, values=[[1.0], [1.0]])
    assert (
        answer_queries(plain_asking(flat), ROWS, ROWS, [])["rows"][0]["change"] == "is predicted 1 whatever its values"
    )
    near = loan_tree(link="identity", classes=None, values=[[1.0], [1.1]])
    about = _RowAnswers(plain_asking(near), ROWS, step=0.5)
    assert about.change(ROWS[0])["change"] == "is predicted within 0.5 of 1 whatever its values"


@pytest.mark.parametrize("kind", ["identity2", "linear"])
def test_the_step_is_reached_and_nothing_nearer_reaches_it(kind):
    rng = np.random.default_rng(3)
    tree = random_tree(rng, 6, 3, kind)
    X = rng.standard_normal((40, 3))
    step = prediction_step(tree, X)
    about = _RowAnswers(plain_asking(tree), X[:5], step)
    for x in X[:6]:
        now = tree.decision_function(x[None])[0, 0]
        for norm in ("l1", "l2"):
            found = about._nearest(x, now, about.limits.around(x), norm)
            assert abs(tree.decision_function(found.row[None])[0, 0] - now) >= step - 1e-12
            nearer = rows_within(x, found.distance, norm, np.ones(3), rng, 1000)
            assert (np.abs(tree.decision_function(nearer)[:, 0] - now) < step + 1e-9).all()


def test_every_listed_row_is_asked_about():
    rng = np.random.default_rng(0)
    tree, X = loan_tree(), rng.standard_normal((MAX_ROWS + 3, 2))
    answers = answer_queries(plain_asking(tree), X[:60], X, [])
    assert len(answers["rows"]) == 60
    for x, row in zip(X, answers["rows"], strict=False):
        assert row["margin"] == pytest.approx(float(tree.robustness(x)))


def test_wordings_of_properties():
    assert property_words("prediction", "a", False, False) == (
        "refuted: the prediction goes one way with a; it rises for some rows and falls for others"
    )
    assert property_words("prediction", "a", False, True) == "proved: the prediction never rises when a rises"


def test_large_trees_are_not_asked():
    rng = np.random.default_rng(0)
    tree = random_tree(rng, MAX_LEAVES, 3, "logistic")
    assert answer_queries(plain_asking(tree), np.zeros((1, 3)), np.zeros((1, 3)), []) is None
    three = random_tree(rng, 5, 3, "softmax")
    assert answer_queries(plain_asking(three), np.zeros((1, 3)), rng.standard_normal((5, 3)), [0])["properties"] == []


def test_the_page_carries_them():
    tree = loan_tree()
    summary = summarize(tree, X=ROWS, y=["no", "yes", "no"])
    summary["questions"] = answer_queries(plain_asking(tree), ROWS, ROWS, [0, 1])
    page = render(summary)
    assert 'id="questions"' in page
    assert "would be yes if income were 3 instead of 1" in page
    assert 'id="questions"' in render(summarize(tree))


def test_a_report_from_python_has_them_too():
    page = loan_tree().report(ROWS, ["no", "yes", "no"]).html
    assert "would be yes if income were 3 instead of 1" in page
    assert "would be yes" not in loan_tree().report(ROWS, ["no", "yes", "no"], questions=False).html
    assert "proved:" not in loan_tree().report().html


def test_shares_are_of_columns():
    asking = replace(plain_asking(loan_tree()), owners=["money", "money"])
    row = answer_queries(asking, ROWS, ROWS, [])["rows"][0]
    assert [share["name"] for share in row["shares"]] == ["money"]


@pytest.mark.slow
def test_the_page_in_a_browser(tmp_path):
    tree = loan_tree(feature_names=["<b>income</b>", "debt"])
    summary = summarize(tree, X=ROWS, y=["no", "yes", "no"])
    summary["questions"] = answer_queries(plain_asking(tree), ROWS, ROWS, [0, 1])
    (tmp_path / "page.html").write_text(render(summary), encoding="utf-8")
    try:
        page = start_chromium(tmp_path / "profile")
    except NoChromiumError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    try:
        open_report(page, tmp_path / "page.html")
        section = page.find_element("id", "questions")
        assert "These answers are exact: they are worked out from the tree, not estimated." in section.text
        assert "proved: the probability of yes never falls when <b>income</b> rises" in section.text
        assert "This row would be yes if <b>income</b> were 3 instead of 1." in section.text
        assert (
            "the answer stays the same as long as they are off by less than 1.79 standard deviations in all."
            in section.text
        )
        base, label = summary["questions"]["rows"][0]["base"], "yes"
        assert f"The tree gives “{label}” a probability of {100 * base:.0f} % on average." in section.text
        assert " points" in section.text
        page.execute_script("const s = arguments[0]; s.value = '1'; s.dispatchEvent(new Event('change'));",
                            page.find_element("id", "questions-select"))  # fmt: skip
        assert "This row would be no if <b>income</b> were " in section.text
        assert page.find_element("id", "questions-count").text == ""
        number = loan_tree(link="identity", classes=None, weights=[[1.0, 0.0]], values=[[1.0], [2.0]])
        summary = summarize(number, X=ROWS, y=[1, 2, 1])
        summary["questions"] = answer_queries(plain_asking(number), ROWS[:1], ROWS, [0])
        (tmp_path / "number.html").write_text(render(summary), encoding="utf-8")
        open_report(page, tmp_path / "number.html")
        section = page.find_element("id", "questions")
        assert "of the first 1 of 3 listed rows" in section.text
        assert "This row would be 2 instead of 1 if income were 3 instead of 1." in section.text
        assert (
            "the prediction changes by less than 0.24 as long as they are off by less than 2 standard deviations in all"
            in section.text
        )
        (answers,) = summary["questions"]["rows"]
        summary["questions"] |= {"rows": [{"change": answers["change"]}, {}], "not_computed": 5}
        (tmp_path / "slow.html").write_text(render(summary), encoding="utf-8")
        open_report(page, tmp_path / "slow.html")
        section = page.find_element("id", "questions")
        assert "5 answers are not computed: all together may take 20 s of processor time." in section.text
        assert "This row would be 2 instead of 1 if income were 3 instead of 1." in section.text
        assert "How far its values may be off without another answer is not computed." in section.text
        assert "What each column adds to the prediction is not computed." in section.text
        page.execute_script("const s = arguments[0]; s.value = '1'; s.dispatchEvent(new Event('change'));",
                            page.find_element("id", "questions-select"))  # fmt: skip
        assert "The nearest change of this row is not computed: the time for the answers" in section.text
        assert page.get_log("browser") == []
    finally:
        page.quit()
