"""The page in a real browser: what a reader clicks, types and sees."""

import os
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from selenium.webdriver.support.ui import WebDriverWait
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from tests.report.browser import NoChromiumError, open_report, start_chromium
from tests.report.trees import HOSTILE, complete_tree, rows_for
from treelu.cli import main
from treelu.persistence import load_as_saved
from treelu.report import fit_cart, fit_yardsticks, render, summarize
from treelu.tree import ObliqueTree
from treelu.tree.observed import Observed

pytestmark = pytest.mark.slow

NAMES = [HOSTILE, "alcohol", "colour=red", "a, b", "hue", "ash"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    try:
        chromium = start_chromium(tmp_path_factory.mktemp("profile"))
    except NoChromiumError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    yield chromium
    chromium.quit()


@pytest.fixture(scope="module")
def tree():
    return complete_tree(4, 6, feature_names=NAMES, classes=["<b>no</b>", "yes"])


@pytest.fixture(scope="module")
def rows(tree):
    return rows_for(tree, 200)


@pytest.fixture(scope="module")
def page_file(tree, rows, tmp_path_factory):
    X, y = rows
    history = [{"epoch": e, "train_loss": 1 / e, "valid_score": 1 - 1 / e} for e in range(1, 9)]
    summary = summarize(
        tree,
        X=X,
        y=y,
        name="LCN",
        baselines={"CART": fit_cart(X[:100], y[:100], classifier=True)},
        history=history,
        title="A <i>title</i>",
        draw_row=lambda i: '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(3)"><script>alert(4)</script></svg>',
    )
    return _write(tmp_path_factory, "page", summary)


@pytest.fixture
def page(browser, page_file):
    return _open(browser, page_file)


def _write(tmp_path_factory, name, summary):
    path = tmp_path_factory.mktemp("pages") / f"{name}.html"
    path.write_text(render(summary), encoding="utf-8")
    return path


def _open(browser, path):
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    open_report(browser, path)
    return browser


def _all(page, selector):
    return page.find_elements("css selector", selector)


def _one(page, selector):
    return page.find_element("css selector", selector)


def _press(page, keys):
    page.switch_to.active_element.send_keys(keys)


def _type_row(page, text):
    """Put text into the editor as a paste would."""
    if not _one(page, "#row-editor").is_displayed():
        _one(page, "#row-type").click()
    script = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input', {bubbles: true}))"
    page.execute_script(script, _one(page, "#row-text"), text)


def _shown_nodes(page):
    return [int(card.get_attribute("data-node")) for card in _all(page, ".card")]


def _lit_nodes(page):
    return sorted(int(card.get_attribute("data-node")) for card in _all(page, ".card.lit"))


def _selected(page):
    return int(_one(page, ".card[aria-selected=true]").get_attribute("data-node"))


def _console(page):
    return [entry["message"] for entry in page.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def test_opens_without_errors_and_shows_every_section(page, tree):
    sections = [link.text for link in _all(page, "#contents a")]
    assert sections == [
        "Tree", "Scores", "Performance", "Leaves", "Features", "Columns", "Training", "About",
    ]  # fmt: skip
    assert len(_all(page, ".score-card")) == 6
    assert sorted(_shown_nodes(page)) == list(range(tree.n_nodes))  # 16 leaves: all open
    assert len(_all(page, "#leaf-table tbody tr")) == 16
    assert len(_all(page, ".charts figure svg")) >= 4
    assert _console(page) == []


def test_names_are_text(page):
    assert _one(page, "h1").text == "A <i>title</i>"
    assert HOSTILE in _one(page, "#feature-charts").text
    assert "<b>no</b>" in _one(page, ".card.leaf").text + _one(page, "#leaf-table").text
    assert page.execute_script("return document.scripts.length") == 2
    assert _all(page, "main i:not(.swatch):not(.whisker i)") == []
    images = page.execute_script("return [...document.images].map(image => image.src.slice(0, 26))")
    assert images
    assert set(images) == {"data:image/svg+xml;base64,"}
    assert _console(page) == []


def test_policy_stops_injected_scripts_and_requests(page):
    script = """
        const done = arguments[0];
        const probe = document.createElement("script");
        probe.textContent = "window.injected = true";
        document.body.append(probe);
        fetch("https://example.org/").then(() => done("sent"), () => done(window.injected ?? "stopped"));
    """
    assert page.execute_async_script(script) == "stopped"
    page.get_log("browser")  # the two refusals


def test_click_shows_weights_rows_and_children(page, tree, rows):
    X, _ = rows
    card = _one(page, ".card[data-node='2']")
    card.click()
    assert _selected(page) == 2
    panel = _one(page, "#panel")
    assert _one(page, "#panel h3").text == "Node 2"
    bars = _all(page, "#panel .weights .bars li .name")
    strongest = np.argsort(-np.abs(tree.weights[2]) * X.std(axis=0))
    assert [bar.get_attribute("textContent") for bar in bars] == [NAMES[j] for j in strongest]
    passing = tree.decision_path(X).toarray()[:, 2].sum()
    assert f"{passing} rows" in panel.text
    assert len(_all(page, "#panel .chart rect")) > 3
    _one(page, "#panel .segmented button[aria-pressed=false]").click()  # raw weights
    texts = [number.get_attribute("textContent") for number in _all(page, "#panel .weights .bars li > .number")]
    shown = [float(text.replace("\u2212", "-")) for text in texts]
    assert shown == pytest.approx(tree.weights[2][strongest].tolist(), rel=5e-3, abs=5e-4)
    _one(page, "#panel .sides button").click()
    assert _selected(page) == tree.children[2, 0]


def test_collapse_and_expand(page, tree):
    _one(page, "#collapse").click()
    assert sorted(_shown_nodes(page)) == [0, 1, 2]
    toggle = _one(page, ".card[data-node='1'] .toggle")
    assert toggle.text == "+8"
    toggle.click()
    assert sorted(_shown_nodes(page)) == [0, 1, 2, *sorted(tree.children[1].tolist())]
    _one(page, "#expand").click()
    assert len(_shown_nodes(page)) == tree.n_nodes
    _one(page, ".card[data-node='0'] .toggle").click()
    assert _shown_nodes(page) == [0]


def test_search_finds_features_by_effect(page, tree, rows):
    field = _one(page, "#search")
    field.send_keys("<script>")
    shares = np.abs(tree.weights) * rows[0].std(axis=0)
    shares /= shares.sum(axis=1, keepdims=True)
    found = np.flatnonzero(shares[:, 0] >= 0.05)
    assert [int(card.get_attribute("data-node")) for card in _all(page, ".card.hit")] == pytest.approx(
        sorted(found, key=_shown_nodes(page).index)
    )
    assert f"{len(found)} nodes, strongest first" in _one(page, "#search-status").text
    field.clear()
    field.send_keys("a")
    options = [option.text for option in _all(page, "#search-list li")]
    assert any("alcohol" in option for option in options)
    field.send_keys("lco\ue007")  # Enter: first node found
    strongest = np.argsort(-shares[:, 1], kind="stable")
    assert _selected(page) == strongest[0]
    assert f"{100 * shares[strongest[0], 1]:.0f} % of its effect" in _one(page, "#search-status").text
    _one(page, "#search-next").click()
    assert _selected(page) == strongest[1]
    field.send_keys("zzz")
    assert _one(page, "#search-status").text == "it moves no node"
    assert _all(page, ".card.hit") == []


def test_search_opens_the_way_to_a_hidden_node(page, tree, rows):
    _one(page, "#collapse").click()
    _one(page, "#search").send_keys("hue")
    shares = np.abs(tree.weights) * rows[0].std(axis=0)
    share = shares[:, 4] / shares.sum(axis=1)
    by_effect = [node for node in np.argsort(-share, kind="stable") if share[node] >= 0.05]
    place = next(place for place, node in enumerate(by_effect) if node > 2)
    for _ in range(place + 1):
        _one(page, "#search-next").click()
    assert _selected(page) == by_effect[place]
    assert by_effect[place] in _shown_nodes(page)


def test_listed_row_lights_its_path(page, tree, rows):
    X, y = rows
    _one(page, "#collapse").click()
    select = _one(page, "#row-select")
    option = select.find_elements("tag name", "option")[5]
    number = int(option.text.split()[1])
    option.click()
    path = np.flatnonzero(tree.decision_path(X[[number]]).toarray()[0]).tolist()
    assert _lit_nodes(page) == path
    result = _one(page, "#row-result").text
    assert f"leaf {path[-1]}" in result
    assert tree.predict(X[[number]])[0] in result
    assert y[number] in result
    assert len(_all(page, ".edge.lit")) == len(path) - 1
    _one(page, "#row-clear").click()
    assert _lit_nodes(page) == []


def test_row_stays_when_the_model_changes(page, rows):
    X, y = rows
    _all(page, "#row-select option")[1].click()
    number = int(_all(page, "#row-select option")[1].text.split()[1])
    _all(page, "#models button")[1].click()
    cart = ObliqueTree.from_sklearn(fit_cart(X[:100], y[:100], classifier=True))
    assert _lit_nodes(page) == np.flatnonzero(cart.decision_path(X[[number]]).toarray()[0]).tolist()
    assert len(_all(page, "#leaf-table tbody tr")) == min(cart.n_leaves, 25)


def test_typed_rows_reach_the_leaf_that_apply_says(page, tree):
    X = np.random.default_rng(7).normal(size=(100, 6))
    _one(page, "#row-type").click()
    script = """
        const [field, texts] = arguments;
        return texts.map((text) => {
          field.value = text;
          field.dispatchEvent(new Event("input"));
          return Math.max(...[...document.querySelectorAll(".card.lit")].map((card) => Number(card.dataset.node)));
        });
    """
    texts = [",".join(repr(float(v)) for v in x) for x in X]
    assert page.execute_script(script, _one(page, "#row-text"), texts) == tree.apply(X).tolist()
    assert _one(page, "#row-message").text == "All 6 features given."


def test_typed_rows_by_name(page, tree, rows):
    usual = np.quantile(rows[0], 0.5, axis=0, method="lower")
    x = usual.copy()
    x[[1, 2, 3]] = 1.5, -2.0, 0.25
    written = ["alcohol = 1.5\ncolour=red = -2\na, b = 0.25", '"alcohol","colour=red","a, b","target"\n1.5,-2,0.25,yes']
    for text in written:
        _type_row(page, text)
        assert _lit_nodes(page)[-1] == tree.apply(x[None])[0]
        assert _one(page, "#row-message").text.startswith("3 features given, 3 left out.")
    _type_row(page, "alcohol=1.5, hue=3")
    x = usual.copy()
    x[[1, 4]] = 1.5, 3
    assert _lit_nodes(page)[-1] == tree.apply(x[None])[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2,3", "6 values expected, in the order of the columns; 3 given."),
        ("alcohol = much", "alcohol needs a number, not “much”."),
        ("wine = 3", "There is no feature “wine”."),
        ("alcohol = 1, 3", "alcohol needs a number, not “1, 3”."),
        ("alcohol 1, hue = 3", "“alcohol 1” has no “=”."),
        ("alcohol,hue\n1", "2 column names but 1 value."),
        ("alcohol =", "alcohol needs a number, not “”."),
    ],
)
def test_typed_mistakes_are_named(page, text, message):
    _type_row(page, text)
    assert _one(page, "#row-message").text == message


def test_listed_row_can_be_edited(page, tree, rows):
    X, _ = rows
    option = _all(page, "#row-select option")[3]
    number = int(option.text.split()[1])
    option.click()
    _one(page, "#row-type").click()
    text = _one(page, "#row-text").get_attribute("value")
    _type_row(page, text)  # as it is
    assert _lit_nodes(page)[-1] == tree.apply(X[[number]])[0]
    x = X[number].copy()
    x[1] = 9.0
    _type_row(page, text + "\nalcohol = 9")
    assert _lit_nodes(page)[-1] == tree.apply(x[None])[0]
    _one(page, ".card[data-node='0']").click()
    _all(page, "#panel .weights .segmented button")[-1].click()  # what this row adds
    assert "+" in _one(page, "#panel .weights").text


def test_keyboard(page, tree):
    page.execute_script("document.querySelector('.card[tabindex=\"0\"]').focus()")
    right, left, down, up, end, enter = "\ue014", "\ue012", "\ue015", "\ue013", "\ue010", "\ue007"
    first, second = tree.children[0].tolist()
    _press(page, right)
    assert _selected(page) == first
    _press(page, left)  # closes it
    assert len(_shown_nodes(page)) == 17
    _press(page, down)
    assert _selected(page) == second
    _press(page, up)
    _press(page, enter)  # opens it again
    assert len(_shown_nodes(page)) == tree.n_nodes
    _press(page, end)
    assert _selected(page) == _shown_nodes(page)[-1]
    focused = page.switch_to.active_element
    assert focused.get_attribute("role") == "treeitem"
    assert focused.get_attribute("aria-level") == "5"
    assert focused.get_attribute("aria-label").startswith("Leaf ")
    assert len(_all(page, ".card[tabindex='0']")) == 1


def test_zoom_and_fit(page):
    before = _one(page, "#zoom").text
    _one(page, "#zoom-in").click()
    assert _one(page, "#zoom").text != before
    _one(page, "#fit").click()
    box, card = _one(page, "#viewport").rect, _all(page, ".card")[-1].rect
    assert card["x"] + card["width"] <= box["x"] + box["width"]


def test_two_fingers_zoom(page):
    before = int(_one(page, "#zoom").text.split()[0])
    page.execute_script("document.getElementById('tree').scrollIntoView()")
    box = page.execute_script("return document.getElementById('viewport').getBoundingClientRect().toJSON()")
    x, y = box["x"] + box["width"] / 2, box["y"] + 200
    for kind, reach in (("touchStart", 40), ("touchMove", 60), ("touchMove", 80)):
        points = [{"x": x - reach, "y": y}, {"x": x + reach, "y": y}]
        page.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    page.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert int(_one(page, "#zoom").text.split()[0]) == pytest.approx(2 * before, abs=2)


def test_dark_and_light(page):
    colour = "return getComputedStyle(document.body).backgroundColor"
    light = page.execute_script(colour)
    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    )
    dark = page.execute_script(colour)
    assert dark != light
    _one(page, "#theme").click()
    assert page.execute_script(colour) == light
    _one(page, "#theme").click()
    assert page.execute_script(colour) == dark


def test_leaf_table_sorts_and_leads_to_the_tree(page):
    _all(page, "#leaf-table th button")[0].click()
    numbers = [int(cell.text) for cell in _all(page, "#leaf-table tbody td:first-child")]
    assert numbers == sorted(numbers, reverse=True)
    _all(page, "#leaf-table tbody td:first-child button")[2].click()
    assert _selected(page) == numbers[2]


def test_phone_width_needs_no_sideways_scrolling(page):
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    )
    page.refresh()
    assert page.execute_script("return document.documentElement.scrollWidth") <= 390
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 360, "height": 780, "deviceScaleFactor": 2, "mobile": True}
    )
    assert page.execute_script("return document.documentElement.scrollWidth") <= 360
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    )
    assert len(_shown_nodes(page)) == 7  # two levels and what follows, which stay in view
    tall = page.execute_script("return document.getElementById('viewport').clientHeight")
    assert tall < 400, "the node's panel begins on the same screen"
    _one(page, ".card[data-node='0']").click()
    assert _one(page, "#panel h3").is_displayed()
    _one(page, "#expand").click()
    _one(page, "#fit").click()
    _one(page, "#fit").click()
    right = (
        "return Math.max(...[...document.querySelectorAll('.card')].map((card) => card.getBoundingClientRect().right))"
    )
    assert page.execute_script(right) <= 390
    assert page.execute_script("return document.documentElement.scrollWidth") <= 390
    assert _console(page) == []


def test_print_shows_the_whole_tree_on_white(page):
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert not _one(page, ".toolbar").is_displayed()
    assert page.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 700, "height": 500, "deviceScaleFactor": 1, "mobile": False}
    )
    boxes = "return ['viewport', 'sizer'].map((id) => document.getElementById(id).getBoundingClientRect().bottom)"
    viewport, sizer = page.execute_script(boxes)
    assert viewport >= sizer, "nothing of the tree lies below its frame"
    assert page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_large_tree_opens_collapsed(browser, tmp_path_factory):
    tree = complete_tree(12, 2048)
    rng = np.random.default_rng(0)
    X = sparse.csr_array((rng.random((300, 2048)) < 0.03).astype(float))
    summary = summarize(tree, X=X, y=rng.choice(["no", "yes"], size=300))
    path = _write(tmp_path_factory, "large", summary)
    assert path.stat().st_size < 12e6
    page = _open(browser, path)
    assert len(_shown_nodes(page)) == 15  # three levels and what follows
    assert len(_all(page, "#leaf-table tbody tr")) == 25
    _all(page, "#row-select option")[1].click()
    number = int(_all(page, "#row-select option")[1].text.split()[1])
    assert _lit_nodes(page) == np.flatnonzero(tree.decision_path(X[[number]]).toarray()[0]).tolist()
    _one(page, "#row-type").click()
    assert "8,386,560 weights, too many for a page" in _one(page, "#row-message").text
    assert not _one(page, "#row-text").is_displayed()
    _one(page, "#expand").click()
    assert 500 < len(_shown_nodes(page)) <= 1100
    assert _console(page) == []


def test_a_model_that_is_no_tree_says_whose_tree_is_shown(browser, tmp_path_factory):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.where(X[:, 0] > 0, "yes", "no")
    forest = RandomForestClassifier(n_estimators=3, random_state=0).fit(X, y)
    cart = fit_cart(X, y, classifier=True)
    summary = summarize(None, X=X, y=y, estimator=forest, name="Forest", baselines={"CART": cart})
    page = _open(browser, _write(tmp_path_factory, "forest", summary))
    assert _one(page, "#tree-whose").text == "of CART; Forest is not a single tree"
    assert _all(page, ".card")
    assert _console(page) == []


@pytest.mark.parametrize(
    ("target", "pages"),
    [
        ("grade", ["report.html"]),
        ("cost", ["report.html"]),
        (f"{HOSTILE},l2", ["report.html", "report-l2.html", "report-script-alert-1-script.html"]),
    ],
)
def test_reports_of_every_task_from_the_command_line(browser, tmp_path, target, pages):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    frame = pd.DataFrame(x, columns=["<img src=x onerror=alert(2)>", "a", "b"])
    frame["c"] = np.where(x[:, 0] > 0, "<b>bold</b>", "plain")
    frame["grade"] = np.digitize(x[:, 1], [-0.5, 0.5]).astype(str) + HOSTILE
    frame["cost"] = x @ [1.0, 2.0, 3.0]
    frame[HOSTILE], frame["l2"] = (x[:, :2] > 0).astype(int).T
    frame.to_csv(tmp_path / "table.csv", index=False)
    others = [name for name in ("grade", "cost", HOSTILE, "l2") if name not in target.split(",")]
    words = ["--target", target, "--drop", ",".join(others), "--depth", "2", "--epochs", "2", "--quiet"]
    assert main(["fit", str(tmp_path / "table.csv"), *words, "--out", str(tmp_path / "m")]) == 0
    assert sorted(path.name for path in (tmp_path / "m").glob("*.html")) == sorted(pages)
    for name in pages:
        page = _open(browser, tmp_path / "m" / name)
        assert _console(page) == []
        assert _all(page, "main img[src=x], main b > script, h1 script, table script") == []
        if _all(page, ".card"):
            _all(page, "#row-select option")[1].click()
            assert _lit_nodes(page)
            assert "<img src=x on…or=alert(2)>" in _one(page, "#features").text
    if len(pages) > 1:
        page = _open(browser, tmp_path / "m" / "report.html")
        page.find_element("link text", HOSTILE).click()
        WebDriverWait(page, 60).until(lambda page: HOSTILE in _one(page, "h1").text)


@pytest.mark.parametrize("kind", ["linear", "one leaf", "no rows", "many classes", "regression"])
def test_other_trees_open_without_errors(browser, tmp_path_factory, kind):
    rng = np.random.default_rng(0)
    linear = {"leaf_weights": rng.normal(size=(4, 3, 5)), "link": "softmax", "classes": ["a", "b", "c"]}
    tree = {
        "linear": lambda: complete_tree(2, 5, outputs=3, **linear),
        "one leaf": lambda: ObliqueTree(np.zeros((0, 2)), [], np.zeros((0, 2), dtype=int), [[1.5]]),
        "no rows": lambda: complete_tree(3, 4),
        "many classes": lambda: complete_tree(3, 4, outputs=12, link="softmax", classes=np.arange(12)),
        "regression": lambda: complete_tree(3, 4, link="identity", classes=None),
    }[kind]()
    X, y = (None, None) if kind == "no rows" else rows_for(tree, 80)
    page = _open(browser, _write(tmp_path_factory, "other", summarize(tree, X=X, y=y)))
    for card in _all(page, ".card")[:6]:
        page.execute_script("arguments[0].click()", card)
    assert _one(page, "#panel h3").text
    assert _console(page) == []
    if kind == "linear":
        _type_row(page, ",".join(repr(float(v)) for v in X[0]))
        chance = tree.predict_proba(X[:1])[0]
        assert f"{tree.classes[chance.argmax()]}, {100 * chance.max():.0f} %" in _one(page, "#row-result").text


# What the page knows of the table


def messy_table(n_rows=240):
    """Rows with categories, gaps, pounds, units, dates in two forms; the target depends on most of them."""
    rng = np.random.default_rng(3)
    sex, klass = rng.choice(["female", "male"], n_rows), rng.integers(1, 4, n_rows)
    age, fare = rng.normal(30, 12, n_rows).round(1), np.exp(rng.normal(6, 1, n_rows)).round(2)
    day = pd.Timestamp("1912-03-01") + pd.to_timedelta(rng.integers(0, 60, n_rows), unit="D")
    port = rng.choice(["Cork, Ireland", "Oslo", "Rome", HOSTILE], n_rows, p=[0.4, 0.3, 0.2, 0.1])
    score = (
        2.5 * (sex == "female")
        - klass
        - 0.03 * age
        + 0.3 * np.log(fare)
        + (day.month == 4)
        + rng.normal(0, 0.6, n_rows)
    )
    frame = pd.DataFrame({
        "Class": klass, "Sex": sex, "Age": age, "Fare": [f"£{value:,.2f}" for value in fare], "Port": port,
        "Day": day.strftime("%d/%m/%Y"), "Born": (day - pd.to_timedelta(365 * klass, unit="D")).strftime("%Y%m%d"),
        "Trunk": [f"{value} kg" for value in klass * 7.5], "Survived": (score > np.median(score)).astype(int),
    })  # fmt: skip
    frame.loc[rng.choice(n_rows, 30, replace=False), "Age"] = np.nan
    frame.loc[rng.choice(n_rows, 9, replace=False), "Port"] = None
    return frame


@pytest.fixture(scope="module")
def messy(tmp_path_factory):
    """A messy table, its model and its page."""
    folder = tmp_path_factory.mktemp("messy")
    messy_table().to_csv(folder / "people.csv", index=False, sep=";")
    words = ["--target", "Survived", "--depth", "3", "--epochs", "40", "--drop-connect", "0", "--quiet"]
    assert main(["fit", str(folder / "people.csv"), *words, "--out", str(folder / "m")]) == 0
    return folder


def test_a_pasted_row_gets_the_answer_of_the_model(browser, messy):
    """The page's encoding, question by question, against `treelu predict` on the same rows."""
    page = _open(browser, messy / "m" / "report.html")
    frame = messy_table()
    model = load_as_saved(messy / "m")
    rows = pd.read_csv(messy / "people.csv", sep=";", dtype=str, keep_default_na=False)
    lines = rows.to_csv(index=False, sep=";").splitlines()
    texts = [f"{lines[0]}\n{line}" for line in lines[1:81]]
    _type_row(page, texts[0])
    script = """
        const [field, texts] = arguments;
        return texts.map((text) => {
          field.value = text;
          field.dispatchEvent(new Event("input"));
          const result = document.getElementById("row-result").textContent;
          const lit = [...document.querySelectorAll(".card.lit")].map((card) => Number(card.dataset.node));
          return [document.getElementById("row-message").textContent, result, Math.max(...lit)];
        });
    """
    X = model.encoder.encode(frame.astype({"Class": str}).head(80)).X
    leaves, chances = model.trees[0].apply(X), model.estimator.predict_proba(frame.head(80))
    for (message, result, leaf), wanted, chance in zip(
        page.execute_script(script, _one(page, "#row-text"), texts), leaves, chances, strict=True
    ):
        assert message == "All 8 columns given. Not used: Survived."
        assert leaf == wanted
        assert f"Survived = {chance.argmax()}, {100 * chance.max():.0f} %" in result
    assert _console(page) == []


def test_what_was_understood_is_shown_and_the_rest_refused(browser, messy):
    page = _open(browser, messy / "m" / "report.html")
    _type_row(page, "Sex = female\nAge = 30\nPort = Atlantis\nDay = 24/03/1912\nBorn = 19110304\nTrunk = 12.5kg")
    shown = {
        item.find_element("tag name", "span").text: item.find_element("tag name", "b").text
        for item in _all(page, "#row-understood li")
    }
    assert shown["Sex"] == "female"
    assert shown["Port"] == "Atlantis (not seen in training)"
    assert shown["Day"] == "1912-03-24"
    assert shown["Born"] == "1911-03-04"
    assert shown["Trunk"] == "12.5"
    assert shown["Class"].startswith("missing (as ")
    assert _one(page, "#row-message").text == "6 columns given, 2 missing."
    for text, message in {
        "Age = thirty": "Age: “thirty” is not a number.",
        "Day = 1912/13/45": "Day: “1912/13/45” is not a date like %d/%m/%Y.",
        "Height = 3": "There is no column “Height”.",
        "Fare = £1,00": "Fare: “£1,00” is not a number.",
        "Trunk = 12 lb": "Trunk: “12 lb” is not a number.",
        "Trunk = 5 kg 3": "Trunk: “5 kg 3” is not a number.",
    }.items():
        _type_row(page, text)
        assert _one(page, "#row-message").text == message
        assert _lit_nodes(page) == []


def test_a_listed_row_can_be_edited_in_the_tables_own_words(browser, messy):
    page = _open(browser, messy / "m" / "report.html")
    for place in (1, 4, 7):
        _all(page, "#row-select option")[place].click()
        before = _lit_nodes(page)
        _one(page, "#row-type").click()
        text = _one(page, "#row-text").get_attribute("value")
        assert "Sex = " in text
        _type_row(page, text)
        assert _lit_nodes(page) == before
        _one(page, "#row-type").click()


def test_row_numbers_are_those_of_the_file(browser, messy):
    page = _open(browser, messy / "m" / "report.html")
    option = _all(page, "#row-select option")[2]
    number = int(option.text.split()[1])
    option.click()
    observed = messy_table()["Survived"].iloc[number - 1]
    assert f"observed Survived = {observed}" in _one(page, "#row-result").text


def test_molecules_are_picked_not_typed(browser, tmp_path):
    pytest.importorskip("rdkit")
    smiles = ["C" * (1 + i % 8) + end for i, end in enumerate(["O", "N", "Cl", "C(=O)O"] * 10)]
    pd.DataFrame({"smiles": smiles, "size": [len(text) for text in smiles]}).to_csv(tmp_path / "m.csv", index=False)
    words = ["--smiles", "smiles", "--target", "size", "--bits", "64", "--depth", "2", "--epochs", "2", "--quiet"]
    assert main(["fit", str(tmp_path / "m.csv"), *words, "--task", "regression", "--out", str(tmp_path / "out")]) == 0
    page = _open(browser, tmp_path / "out" / "report.html")
    _one(page, "#row-type").click()
    assert _one(page, "#row-message").text.startswith("A molecule cannot be encoded in the page.")
    assert not _one(page, "#row-text").is_displayed()
    _all(page, "#row-select option")[1].click()
    assert _lit_nodes(page)


def test_the_threshold_moves_the_matrix(page, tree, rows):
    X, y = rows
    chance, yes = tree.predict_proba(X)[:, 1], np.asarray(y) == "yes"
    for threshold in (0.5, 0.35, 0.6):
        script = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input', {bubbles: true}))"
        page.execute_script(script, _one(page, "#threshold"), threshold)
        called = chance >= threshold
        cells = {
            cell.get_attribute("data-cell"): int(cell.text)
            for cell in _all(page, "#confusion section[data-model=LCN] td[data-cell]")
        }
        assert cells == {
            "tp": (called & yes).sum(), "fp": (called & ~yes).sum(),
            "fn": (~called & yes).sum(), "tn": (~called & ~yes).sum(),
        }  # fmt: skip
        facts = _one(page, "#confusion section[data-model=LCN] dl").text
        assert f"{100 * (called & yes).sum() / yes.sum():.0f} % of the positives are found" in facts
        assert f"{100 * (called & yes).sum() / called.sum():.0f} % of those called positive are" in facts


@pytest.mark.parametrize("positive", [0, 1])
def test_rows_of_two_equally_likely_classes_count_as_predict_counts_them(browser, tmp_path, positive):
    X, y = np.array([[0.0], [0.0], [0.0], [1.0], [2.0]]), np.array(["a", "b", "b", "b", "b"])
    cart = DecisionTreeClassifier(max_leaf_nodes=2).fit([[0], [0], [1], [1], [2]], ["a", "b", "a", "b", "b"])
    tree = ObliqueTree.from_sklearn(cart)
    summary = summarize(tree, X=X, y=y, positive=positive)
    right = float(np.mean(tree.predict(X) == y))
    assert (tree.predict_proba(X)[:, 0] == 0.5).sum() >= 3
    assert summary["models"][0]["scores"]["accuracy"]["value"] == right
    (tmp_path / "report.html").write_text(render(summary), encoding="utf-8")
    page = _open(browser, tmp_path / "report.html")
    shown = sum(int(_one(page, f"#confusion td[data-cell={cell}]").text) for cell in ("tp", "tn"))
    assert shown == round(right * len(y))


def test_cards_ask_with_numbers_and_branches_answer(page, tree, rows):
    card = _one(page, ".card[data-node='0']")
    strongest = np.argsort(-np.abs(tree.weights[0]) * rows[0].std(axis=0))
    for j in strongest[:3]:
        assert NAMES[j] in card.text
        assert f"{abs(tree.weights[0, j]):.3g}" in card.text
    assert f"≥ {-tree.biases[0]:.3g}".replace("-", "\u2212") in card.text
    assert "+ 3 smaller" in card.text
    assert card.find_elements("css selector", "svg.strip path")
    assert {label.text for label in _all(page, ".edge-label")} == {"<", "≥"}  # "yes" is a class
    legend = _one(page, "#tree-legend").text
    assert "target = <b>no</b>" in legend
    assert "target = yes" in legend


def test_branches_answer_yes_and_no_where_no_class_does(browser, tmp_path_factory):
    tree = complete_tree(2, 3, classes=["good", "bad"])
    _open(browser, _write(tmp_path_factory, "plain", summarize(tree)))
    assert {label.text for label in _all(browser, ".edge-label")} == {"yes", "no"}
    falling = ObliqueTree([[-2.0]], [3.0], [[1, 2]], [[0.0], [1.0]], link="logistic", classes=["no", "yes"])
    falling = replace(falling, values=np.array([[-1.0], [1.0]]))
    _open(browser, _write(tmp_path_factory, "falling", summarize(falling)))
    assert "≤ 1.5" in _one(browser, ".card[data-node='0']").text
    assert [label.text for label in _all(browser, ".edge-label")] == [">", "≤"]  # the first child, then the second


def test_gain_is_the_share_of_the_cases_found(page, tree, rows):
    X, y = rows
    probability, cases = tree.predict_proba(X)[:, 1], np.asarray(y) == "yes"
    first = np.argsort(-probability, kind="stable")[: len(X) // 5]
    low = cases[probability > np.sort(probability[first])[0]].sum() / cases.sum()
    high = cases[probability >= np.sort(probability[first])[0]].sum() / cases.sum()
    remark = _one(page, "#performance-charts").text
    said = float(re.search(r"the first 20 % of the rows hold (\d+) % of them", remark).group(1)) / 100
    assert low - 0.005 <= said <= high + 0.005


def test_sliders_answer_as_the_tree(page, tree, rows):
    X, _ = rows
    _all(page, "#row-select option")[3].click()
    sample = page.execute_script("return JSON.parse(document.getElementById('report-data').textContent).samples[2].row")
    _one(page, "#what-if-open").click()
    assert f"What if row {sample} were different?" in _one(page, "#what-if").text
    assert len(_all(page, ".what-if-column")) == 6
    for name in NAMES[1:3]:
        slider = _one(page, f".what-if-column[data-column='{name}'] input")
        page.execute_script(
            "arguments[0].value = arguments[0].max; arguments[0].dispatchEvent(new Event('input'))", slider
        )
        x = X[sample].copy()
        x[NAMES.index(name)] = page.execute_script("return Number(arguments[0].value)", slider)
        assert x[NAMES.index(name)] == pytest.approx(X[:, NAMES.index(name)].max(), abs=0.05)
        said = _one(page, "#what-if-answer").text
        assert f"target = {tree.predict(x[None])[0]}" in said
        assert f"{100 * tree.predict_proba(x[None])[0].max():.0f} %" in said
        _one(page, "#what-if-reset").click()
        assert "as it is" in _one(page, "#what-if-answer").text


def test_columns_are_told_at_a_glance(browser, messy):
    _open(browser, messy / "m" / "report.html")
    cells = [
        [cell.text for cell in row.find_elements("css selector", "td")] for row in _all(browser, "#column-table tr")
    ]
    told = {line[0]: line[1:4] for line in cells if line}
    assert list(told) == ["Class", "Sex", "Age", "Fare", "Port", "Day", "Born", "Trunk"]
    assert told["Class"] == ["number", "none", "1 to 3, median 2"]
    assert re.fullmatch(r"(fe)?male \d+ %, (fe)?male \d+ %", told["Sex"][2])
    assert re.fullmatch(r"\d+ %", told["Age"][1])  # missing
    assert re.fullmatch(r"1912-03-\d\d to 1912-04-\d\d, median 1912-0[34]-\d\d", told["Day"][2])
    assert _all(browser, "#column-table svg rect")
    assert _console(browser) == []


def test_the_values_of_a_feature_lie_under_its_curve(page, rows):
    figures = _all(page, "#dependence-charts figure")
    assert min(len(figure.find_elements("css selector", "rect")) for figure in figures) > 5


def test_a_linear_leaf_shows_its_formula_and_its_range(browser, tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = np.where(X[:, 0] > 0, 3 * X[:, 1], 10 - X[:, 0])
    tree = ObliqueTree(
        [[1.0, 0.0]], [0.0], [[1, 2]], [[10.0], [0.0]], leaf_weights=[[[-1.0, 0.0]], [[0.0, 3.0]]],
        feature_names=["age", "size"],
    )  # fmt: skip
    _open(browser, _write(tmp_path_factory, "linear", summarize(tree, X=X, y=y, target="price")))
    predicted = tree.predict(X)[X[:, 0] < 0]
    card = _one(browser, ".card[data-node='1']")
    assert "10 − 1 × age" in card.text
    assert f"mean {predicted.mean():.2f}"[:-1] in card.text
    card.click()
    assert _all(browser, "#what-if-open")
    panel = _one(browser, "#panel").text
    assert "price = 10 − 1 × age" in panel
    assert re.search(r"the prediction goes from (\S+) to (\S+)\.", panel).group(1)[:4] == f"{predicted.min():.4f}"[:4]
    assert _console(browser) == []


def test_models_beside_are_named_and_the_better_one_is_said(browser, tmp_path_factory):
    X, y = load_breast_cancer(return_X_y=True)
    yardsticks = fit_yardsticks(X[::2], y[::2], classifier=True, max_leaf_nodes=2)
    summary = summarize(yardsticks["small CART"], X=X[1::2], y=y[1::2], baselines=yardsticks, name="stump")
    _open(browser, _write(tmp_path_factory, "beside", summary))
    assert [line.text for line in _all(browser, "#verdicts li")] == summary["verdicts"]
    assert any("A logistic regression ranks these rows better: AUC" in line for line in summary["verdicts"])
    assert "Small CART has at most as many leaves as the stump." in _one(browser, "#scores-about").text
    _all(browser, "#models button")[-1].click()
    assert "log-odds of 1 = " in _one(browser, "#panel").text  # the logistic regression is one leaf with a formula
    assert _console(browser) == []


def test_the_tree_comes_first_and_fits_its_canvas(page):
    tops = page.execute_script(
        "return ['tree', 'scores'].map((id) => document.getElementById(id).getBoundingClientRect().top)"
    )
    assert tops[0] < tops[1]
    fits = """const box = document.getElementById('viewport');
        return [box.scrollWidth - box.clientWidth, box.scrollHeight - box.clientHeight]"""
    assert max(page.execute_script(fits)) <= 1


def test_words_are_explained_on_demand(page):
    glossary = _one(page, "#glossary")
    assert not glossary.find_element("css selector", "dl").is_displayed()
    glossary.find_element("css selector", "summary").click()
    assert "Of the rows that are positive, the share that is found." in glossary.text
    assert "R²" not in glossary.text


def test_partial_dependence_and_curves_are_drawn(page):
    titles = [heading.text for heading in _all(page, "#performance h3")]
    assert titles == ["Who is found, who is missed", "Precision and recall", "ROC curve", "Gain", "Calibration"]
    assert len(_all(page, "#dependence-charts figure")) == 6
    assert _all(page, "#dependence-charts svg path")
    assert HOSTILE in _one(page, "#dependence-charts").text


def test_training_rows_are_called_so(browser, tmp_path_factory):
    tree = complete_tree(3, 4)
    X, y = rows_for(tree, 80)
    page = _open(browser, _write(tmp_path_factory, "training", summarize(tree.with_counts(X), X=X, y=y)))
    assert "80 training rows" in _one(page, "#facts").text
    assert "hold-out" not in _one(page, "#scores").text
    assert "These are the training rows" in _one(page, "#warnings").text


def test_the_weight_of_rows_stands_beside_their_number(browser, tmp_path_factory):
    tree = complete_tree(2, 4)
    X, _ = rows_for(tree, 80)
    page = _open(browser, _write(tmp_path_factory, "weighted", summarize(tree.with_counts(X, np.full(80, 0.25)))))
    assert "80 rows · weight 20" in _one(page, "#panel").text


def test_large_numbers_fit_their_axes(browser, tmp_path_factory):
    tree = complete_tree(3, 4, link="identity", classes=None)
    tree = replace(tree, values=4e7 * tree.values)
    X, y = rows_for(tree, 80)
    page = _open(browser, _write(tmp_path_factory, "large-numbers", summarize(tree, X=X, y=1e7 * y)))
    outside = """
        return [...document.querySelectorAll(".charts svg text, .charts.small svg text")].filter((text) => {
          const [box, frame] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];
          return box.left < frame.left - 0.5 || box.right > frame.right + 0.5;
        }).map((text) => text.textContent)
    """
    assert page.execute_script(outside) == []
    assert _one(page, ".ramp").is_displayed()


def test_two_thousand_leaves_and_hostile_names_stay_usable(browser, tmp_path_factory):
    rng = np.random.default_rng(0)
    names = [f"{HOSTILE} {j}" for j in range(20)]
    tree = complete_tree(11, 20, feature_names=names, classes=["<b>no</b>", "yes"])
    X = rng.normal(size=(400, 20))
    summary = summarize(tree, X=X, y=rng.choice(["<b>no</b>", "yes"], size=400), target=HOSTILE, warnings=[HOSTILE])
    page = _open(browser, _write(tmp_path_factory, "many", summary))
    assert HOSTILE in _one(page, "#warnings").text
    _one(page, "#search").send_keys(f"{names[7]}\ue007")
    shares = np.abs(tree.weights) * X.std(axis=0)
    shares /= shares.sum(axis=1, keepdims=True)
    assert _selected(page) == int(np.argmax(shares[:, 7]))
    _type_row(page, ",".join(repr(float(value)) for value in X[0]))
    assert _lit_nodes(page)[-1] == tree.apply(X[:1])[0]
    _one(page, "#expand").click()
    assert len(_shown_nodes(page)) > 500
    assert page.execute_script("return document.scripts.length") == 2
    assert _console(page) == []


def test_a_set_of_levels_is_read_as_one(browser, tmp_path):
    names = ["colour=red", "colour=blue", "colour=green", "age"]
    rng = np.random.default_rng(0)
    X = np.column_stack([np.eye(3)[rng.integers(0, 3, 80)], rng.integers(18, 80, 80)])
    tree = ObliqueTree(
        [[1.0, 0, 1, 0], [0, 0, 0, 1]], [-0.5, -40], [[1, 2], [3, 4]], [[0.0, 1], [1, 0], [0, 1]],
        feature_names=names, link="probability", classes=["no", "yes"], observed=Observed.of(X),
    )  # fmt: skip
    summary = summarize(tree, X=X, y=tree.predict(X))
    path = tmp_path / "report.html"
    path.write_text(render(summary), encoding="utf-8")
    open_report(browser, path)
    card = _one(browser, ".card[data-node='0']")
    assert card.text.splitlines()[:2] == ["colour", "in {red, green}"]
    card.click()
    panel = _one(browser, ".panel-title").find_element("xpath", "./ancestor::header/..").text
    assert "colour in {red, green}" in panel
    assert "1 term" in panel
    assert "Weights" not in panel
    assert _console(browser) == []
