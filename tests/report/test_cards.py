"""Score cards on the page: the formula and the bands lead each row where the tree does."""

import os

import numpy as np
import pytest

from tests.report.browser import NoChromiumError, open_report, start_chromium
from tests.tree.trees import random_tree
from treelu.report import render, summarize
from treelu.report.cards import MAX_TERMS, score_cards
from treelu.tree import ObliqueTree

NAMES = ["<b>age</b>", "arrears"]


def whole() -> ObliqueTree:
    """One score; the weights of the lower split have the other sign."""
    return ObliqueTree(
        [[1.0, -5.0], [-1.0, 5.0]], [-30, 55], [[2, 1], [4, 3]], [[-2.0], [0.3], [2.0]],
        link="logistic", classes=["no", "yes"], feature_names=NAMES,
    )  # fmt: skip


def part() -> ObliqueTree:
    """A split by the second feature, and below it a score."""
    return ObliqueTree(
        [[0.0, 1.0], [1.0, -5.0], [1.0, -5.0]], [-2, -30, -55], [[3, 1], [4, 2], [5, 6]], [[0.1], [0.2], [0.3], [0.4]],
        feature_names=NAMES,
    )  # fmt: skip


ROWS = np.random.default_rng(0).integers(0, 80, (300, 2)) * [1.0, 0.1]


def ends(words: str) -> tuple[float, float]:
    """The band that its words say."""
    if words.startswith("below "):
        return -np.inf, float(words.removeprefix("below "))
    if words.endswith(" or more"):
        return float(words.removesuffix(" or more")), np.inf
    low, high = words.split(" to below ")
    return float(low), float(high)


@pytest.mark.parametrize("tree", [whole(), part()])
def test_a_row_is_led_by_its_score(tree):
    (card,) = summarize(tree)["models"][0]["tree"]["cards"]
    assert card["whole"] == (tree.n_splits == 2)
    assert card["rest"] == 0
    here = tree.decision_path(ROWS).toarray()[:, card["splits"][0]].astype(bool)
    score = sum(float(term["factor"]) * ROWS[here][:, term["feature"]] for term in card["terms"])
    leaf = tree.apply(ROWS[here])
    assert len(np.unique(leaf)) == len(card["bands"]) == 3
    for band in card["bands"]:
        low, high = ends(band["words"])
        assert np.array_equal((low <= score) & (score < high), leaf == band["node"])


def test_no_card_without_equal_weights_and_a_long_formula_is_cut():
    rng = np.random.default_rng(1)
    assert score_cards(random_tree(rng, 8, 3, "identity"), np.ones(3)) == []
    wide = MAX_TERMS + 5
    weights = np.tile(np.arange(1.0, wide + 1), (2, 1))
    tree = ObliqueTree(weights, [-1, -3], [[2, 1], [3, 4]], [[0], [1], [2]])
    (card,) = score_cards(tree, np.ones(wide))
    assert (len(card["terms"]), card["rest"]) == (MAX_TERMS, 5)
    assert card["terms"][0] == {"feature": wide - 1, "factor": str(wide)}


@pytest.mark.slow
def test_the_page_shows_them(tmp_path):
    try:
        page = start_chromium(tmp_path / "profile")
    except NoChromiumError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    try:
        y = np.where(ROWS @ [1, -5] > 40, "yes", "no")
        (tmp_path / "whole.html").write_text(render(summarize(whole(), X=ROWS, y=y, target="paid")), encoding="utf-8")
        open_report(page, tmp_path / "whole.html")
        section = page.find_element("id", "cards")
        assert "The whole tree is one score" in section.text
        assert "Score = <b>age</b> − 5 × arrears" in section.text
        counts = np.bincount(whole().apply(ROWS), minlength=5)
        lines = [row.text.split() for row in section.find_elements("css selector", "tbody tr")]
        assert [line[-1] for line in lines] == [str(counts[node]) for node in (2, 3, 4)]
        section.find_element("css selector", "tbody tr:nth-child(2) button").click()
        assert "Leaf 3" in page.find_element("id", "panel").text
        (tmp_path / "part.html").write_text(render(summarize(part())), encoding="utf-8")
        open_report(page, tmp_path / "part.html")
        section = page.find_element("id", "cards")
        assert "Nodes 1, 2" in section.text
        assert "30 to below 55 Leaf 5" in section.text
        rng = np.random.default_rng(1)
        (tmp_path / "none.html").write_text(render(summarize(random_tree(rng, 8, 3, "identity"))), encoding="utf-8")
        open_report(page, tmp_path / "none.html")
        assert not page.find_element("id", "cards").is_displayed()
        assert page.get_log("browser") == []
    finally:
        page.quit()
