"""The page as text: complete in itself, and safe whatever the names contain."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.trees import HOSTILE, complete_tree, rows_for
from treelu.report import render, summarize
from treelu.report.render import script_json


class _Reader(HTMLParser):
    """Collects tags with their attributes, and the text of scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] in ("script", "style", "title") and data.strip():
            self.texts.append((self.tags[-1][0], self.tags[-1][1], data))


@pytest.fixture(scope="module")
def page():
    names = [HOSTILE, "a & b", "</script>", "line\u2028separator", "\ud800 lone"]
    tree = complete_tree(2, 5, feature_names=names, classes=["<b>no</b>", "yes"])
    X, y = rows_for(tree, 40)
    return render(summarize(tree, X=X, y=y, title="</title><script>alert(2)</script>", notes=["<i>note</i>"]))


def test_nothing_from_the_data_becomes_markup(page):
    reader = _Reader(page)
    assert [attrs for tag, attrs in reader.tags if tag == "script"] == [
        {"type": "application/json", "id": "report-data"},
        {},
    ]
    assert page.count("<script") == page.count("</script") == 2
    assert not any(tag in ("b", "i") for tag, _ in reader.tags)
    data = next(text for _, attrs, text in reader.texts if attrs.get("id") == "report-data")
    assert not set("<>&\u2028\u2029") & set(data)
    assert json.loads(data)["features"]["names"][0] == HOSTILE


def test_policy_allows_this_script_and_no_network(page):
    reader = _Reader(page)
    policy = next(attrs["content"] for tag, attrs in reader.tags if attrs.get("http-equiv"))
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == "'none'"
    assert parts["img-src"] == "data:"
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        text = next(text for t, attrs, text in reader.texts if t == tag and "id" not in attrs)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert parts[directive] == f"'sha256-{digest}'"


def test_page_refers_to_nothing_outside(page):
    for _, attrs in _Reader(page).tags:
        for name in ("src", "href", "srcset", "action", "data"):
            assert attrs.get(name, "#").startswith(("#", "data:"))
    outside = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'`]*", page))
    assert outside == {"http://www.w3.org/2000/svg"}  # a name, never fetched
    assert not re.search(r"@import|url\(|innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|fetch\(", page)
    page.encode("utf-8")


def test_weights_are_packed_exactly():
    tree = complete_tree(4, 30)
    data = json.loads(
        next(text for _, attrs, text in _Reader(render(summarize(tree))).texts if attrs.get("id") == "report-data")
    )
    packed = data["models"][0]["tree"]["weights"]
    values = np.frombuffer(base64.b64decode(packed["values"]), dtype="<f8")
    features = np.frombuffer(base64.b64decode(packed["features"]), dtype="<u4")
    rebuilt = np.zeros((15, 30))
    rebuilt[np.repeat(np.arange(15), np.diff(packed["offsets"])), features] = values
    assert (rebuilt == tree.weights).all()


def test_render_leaves_the_summary_alone():
    summary = summarize(complete_tree(2, 3))
    before = json.dumps(summary)
    assert render(summary) == render(json.loads(before))
    assert json.dumps(summary) == before


@pytest.mark.slow
@settings(deadline=None)
@given(st.recursive(st.text() | st.floats(allow_nan=False, allow_infinity=False), st.lists, max_leaves=5))
def test_script_json_round_trip(value):
    text = script_json(value)
    assert json.loads(text) == value
    assert text.isascii()
    assert not set("<>&") & set(text)
