"""What a notebook shows: pictures of trees and estimators, the report in a frame that keeps its policy."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn import config_context
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, StandardScaler
from sklearn.utils import estimator_html_repr

from experiments.baselines import HHCARTClassifier
from tests.tree.trees import KINDS, random_tree
from treelu import ALCNClassifier, LCNClassifier
from treelu.report.notebook import report_page
from treelu.tree import ObliqueTree
from treelu.view.notebook import tree_html

pytestmark = pytest.mark.slow

PICTURE = 'src="data:image/png;base64,'
HOSTILE = '"><script>alert(1)</script>'


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True, as_frame=True)


@pytest.fixture(scope="module")
def fitted(iris):
    return LCNClassifier(depth=2, epochs=2, drop_connect=0.0, random_state=0).fit(*iris)


class Elements(HTMLParser):
    """The elements of a piece of HTML with their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("kind", KINDS)
def test_trees_of_every_kind_show_a_picture(kind):
    tree = random_tree(np.random.default_rng(0), 5, 3, kind, notes=["kept <b>exact</b>"])
    plt.close("all")  # what other tests have left open
    html = tree._repr_html_()
    (image,) = [attributes for tag, attributes in Elements(html).found if tag == "img"]
    assert base64.b64decode(image["src"].partition(",")[2])[:8] == b"\x89PNG\r\n\x1a\n"
    assert image["alt"] == repr(tree)
    assert "kept &lt;b&gt;exact&lt;/b&gt;" in html
    assert not plt.get_fignums(), "the picture must not be shown a second time by matplotlib"


def test_hostile_names_do_not_leave_their_attributes():
    tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[0], [1]], feature_names=[HOSTILE], notes=[HOSTILE])
    assert {tag for tag, _ in Elements(tree_html(tree)).found} == {"div", "img", "br", "small"}


def test_estimators_show_their_diagram_and_below_it_their_tree(fitted, iris):
    before = LCNClassifier(depth=2)._repr_mimebundle_()["text/html"]
    assert PICTURE not in before
    assert "LCNClassifier" in before
    for model in (fitted, HHCARTClassifier(max_depth=2).fit(*iris)):
        shown = model._repr_mimebundle_()["text/html"]
        assert "sk-top-container" in shown
        assert shown.count(PICTURE) == 1
        assert model._repr_html_().count(PICTURE) == 1
    with config_context(display="text"):
        assert "text/html" not in fitted._repr_mimebundle_()
    assert PICTURE not in estimator_html_repr(fitted)


def test_large_trees_and_models_without_one_are_not_built_to_be_shown(iris):
    deep = LCNClassifier(depth=16, epochs=1, drop_connect=0.0, random_state=0).fit(*iris)
    shown = deep._repr_html_()
    assert PICTURE not in shown
    assert "up to 2^16 leaves" in shown
    assert PICTURE not in ALCNClassifier(depth=2, epochs=1, drop_connect=0.0).fit(*iris)._repr_html_()


def test_the_report_is_framed_whole_with_its_policy(fitted, iris):
    X, y = iris
    page = fitted.report(X, y, title=HOSTILE, height=500)
    assert page.html.startswith("<!DOCTYPE html>")
    ((tag, frame),) = Elements(page._repr_html_()).found
    assert tag == "iframe"
    assert frame["srcdoc"] == page.html
    assert frame["sandbox"] == "allow-scripts"
    assert "height: 500px" in frame["style"]
    policy = re.search('Content-Security-Policy" content="([^"]+)"', page.html)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "LCNClassifier" in page.html
    assert "<!DOCTYPE html>" in fitted.tree_.report().html
    assert len(repr(page)) < 80


def test_the_report_of_a_pipeline_reads_the_rows_that_the_pipeline_reads(iris):
    X, y = iris
    scaled = ColumnTransformer([("scaled", StandardScaler(), list(X.columns[:2]))])
    pipeline = make_pipeline(scaled, HHCARTClassifier(max_depth=2)).fit(X, y)
    html = report_page(pipeline, X, y).html
    assert "sepal length (cm)" in html
    assert "scaled__sepal length (cm)" not in html
    binned = make_pipeline(KBinsDiscretizer(3, encode="onehot-dense"), HHCARTClassifier(max_depth=2)).fit(X, y)
    assert "sepal length (cm)_2.0" in report_page(binned, X, y).html
