"""The page's questions: every wording, from rows and trees small enough to know the answer."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from tests.report.browser import NoChromiumError, open_report, start_chromium
from tests.tree.trees import random_tree
from treelu.report import render, summarize
from treelu.report.questions import MAX_LEAVES, answer_questions, plain_asking, property_words
from treelu.tree import ObliqueTree


def loan_tree(**options) -> ObliqueTree:
    arrays = {
        "weights": [[1.0, -0.5]], "biases": [-3.0], "children": [[1, 2]], "values": [[-1.0], [1.0]], "link": "logistic",
        "classes": ["no", "yes"], "feature_names": ["income", "debt"],
    }  # fmt: skip
    return ObliqueTree(**{**arrays, **options})


ROWS = np.array([[1.0, 0.0], [5.0, 2.0], [2.0, 4.0]])


def test_answers_about_rows_and_the_tree():
    answers = answer_questions(plain_asking(loan_tree()), ROWS, ROWS, [0, 1])
    first = answers["rows"][0]
    assert first["change"] == "would be yes if income were 3 instead of 1"
    assert first["margin"] == pytest.approx(2 / np.sqrt(1.25))
    assert first["exact"]
    assert sum(share["share"] for share in first["shares"]) + first["base"] == pytest.approx(
        loan_tree().predict_proba(ROWS[:1])[0, 0]
    )
    assert [one["words"] for one in answers["properties"]] == [
        "proved: the probability of yes never falls when income rises",
        "proved: the probability of yes never rises when debt rises",
    ]


def test_rows_that_nothing_changes():
    same = loan_tree(values=[[1.0], [2.0]])
    (row, *_), _ = answer_questions(plain_asking(same), ROWS, ROWS, []).values()
    assert row["change"] == "is predicted yes wherever it lies"
    assert row["margin"] is None
    asking = plain_asking(loan_tree())
    kept = replace(asking, stay=lambda row: [0, 1])
    assert answer_questions(kept, ROWS, ROWS, [])["rows"][0]["change"] == "is predicted no whatever may change"


def test_numbers_have_shares_and_properties_but_no_other_answer():
    tree = loan_tree(link="identity", classes=None, weights=[[1.0, 0.0]], values=[[1.0], [2.0]])
    answers = answer_questions(plain_asking(tree), ROWS, ROWS, [0, 1])
    assert answers["rows"][0]["change"] == ""
    assert answers["rows"][0]["margin"] is None
    assert [one["words"] for one in answers["properties"]] == [
        "proved: the prediction never falls when income rises",
        "proved: the prediction never depends on debt",
    ]


def test_wordings_of_properties():
    assert property_words("prediction", "a", False, False) == (
        "refuted: the prediction goes one way with a; it rises for some rows and falls for others"
    )
    assert property_words("prediction", "a", False, True) == "proved: the prediction never rises when a rises"


def test_large_trees_are_not_asked():
    rng = np.random.default_rng(0)
    tree = random_tree(rng, MAX_LEAVES, 3, "logistic")
    assert answer_questions(plain_asking(tree), np.zeros((1, 3)), np.zeros((1, 3)), []) is None
    three = random_tree(rng, 5, 3, "softmax")
    assert answer_questions(plain_asking(three), np.zeros((1, 3)), rng.standard_normal((5, 3)), [0])["properties"] == []


def test_the_page_carries_them():
    tree = loan_tree()
    summary = summarize(tree, X=ROWS, y=["no", "yes", "no"])
    summary["questions"] = answer_questions(plain_asking(tree), ROWS, ROWS, [0, 1])
    page = render(summary)
    assert 'id="questions"' in page
    assert "would be yes if income were 3 instead of 1" in page
    assert 'id="questions"' in render(summarize(tree))


def test_shares_are_of_columns():
    asking = replace(plain_asking(loan_tree()), owners=["money", "money"])
    (row, *_), _ = answer_questions(asking, ROWS, ROWS, []).values()
    assert [share["name"] for share in row["shares"]] == ["money"]


def test_the_page_in_a_browser(tmp_path):
    tree = loan_tree(feature_names=["<b>income</b>", "debt"])
    summary = summarize(tree, X=ROWS, y=["no", "yes", "no"])
    summary["questions"] = answer_questions(plain_asking(tree), ROWS, ROWS, [0, 1])
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
        assert (
            "Exact answers of the tree. A property is proved for all rows within the ranges of these rows"
            in section.text
        )
        assert "proved: the probability of yes never falls when <b>income</b> rises" in section.text
        assert "This row would be yes if <b>income</b> were 3 instead of 1." in section.text
        assert "No row nearer than 1.79 spreads (l2) gets another answer." in section.text
        assert "Shares of the prediction, from " in section.text
        page.execute_script("const s = arguments[0]; s.value = '1'; s.dispatchEvent(new Event('change'));",
                            page.find_element("id", "questions-select"))  # fmt: skip
        assert "This row would be no if <b>income</b> were " in section.text
        assert page.get_log("browser") == []
    finally:
        page.quit()
