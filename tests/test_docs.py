"""The documentation: its code runs, its links lead somewhere, the site builds."""

import importlib
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import matplotlib.pyplot as plt
import pytest
import yaml
from selenium.webdriver.support.ui import WebDriverWait

import treelu
from docs import numbers
from docs.numbers import fill
from docs.outputs import blocks, pages, run_page
from tests.report.browser import NoChromiumError, start_chromium
from treelu.training import config

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PACKAGES = ("treelu", *(f"treelu.{name}" for name in (*treelu._PACKAGES, "nn.torch")))
WITH_CODE = [page for page in pages() if blocks(page.read_text("utf-8"))]


@pytest.fixture
def short_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan few updates: the pages must run, their scores are no matter here."""
    monkeypatch.setattr(config, "MIN_UPDATES", 180)
    monkeypatch.setattr(config, "PASSES", 2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in, and no windows for pictures."""
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    yield tmp_path
    plt.close("all")


@pytest.mark.slow
@pytest.mark.usefixtures("folder", "short_training")
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.stem)
def test_code_of_page_runs_and_prints_where_output_is_shown(page: Path) -> None:
    silent = [block.line for block, printed in run_page(page) if block.shown is not None and not printed.strip()]
    assert silent == []


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.stem)
def test_outputs_are_filled_in(page: Path) -> None:
    text = page.read_text("utf-8")
    empty = [block.line for block in blocks(text) if block.shown and not text[slice(*block.shown)].strip()]
    assert empty == [], "run: python -m docs.outputs"


def test_readme_has_the_two_commands_and_some_ten_lines_of_python() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert "make demo" in text
    assert "make test" in text
    (block,) = [block for block in blocks(text) if block.language == "python"]
    assert sum(bool(line.strip()) for line in block.code.splitlines()) <= 12


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_outside_the_site_lead_somewhere(name: str) -> None:
    targets = re.findall(r"\]\(([^)#]+)", (ROOT / name).read_text("utf-8"))
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (ROOT / target).exists()] == []


def test_every_page_is_in_the_menu() -> None:
    # BaseLoader: the menu holds texts only
    menu = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), yaml.BaseLoader)["nav"]
    listed = set(re.findall(r"[\w/-]+\.md", str(menu)))
    assert {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} <= listed


def in_reference() -> list[str]:
    """The names that pages of the reference show."""
    pages = "\n".join(page.read_text("utf-8") for page in (DOCS / "reference").glob("*.md"))
    members = re.findall(r"^::: ([\w.]+)\n +options:.*\bmembers: \[([^]]+)\]", pages, re.MULTILINE)
    listed = [f"{module}.{name.strip()}" for module, names in members for name in names.split(",")]
    return re.findall(r"^::: ([\w.]+)$", pages, re.MULTILINE) + listed


@pytest.fixture(scope="module")
def shown() -> list[object]:
    """What those names stand for; a name that does not exist is an ImportError."""

    def found(name: str) -> object:
        module, _, last = name.rpartition(".")
        inside = importlib.import_module(module)
        return getattr(inside, last) if hasattr(inside, last) else importlib.import_module(name)

    return [found(name) for name in in_reference()]


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_in_the_reference_with_an_example(package: str, shown: list[object]) -> None:
    module = importlib.import_module(package)
    public = {name: getattr(module, name) for name in getattr(module, "__all__", ())}
    public = {name: thing for name, thing in public.items() if not inspect.ismodule(thing)}
    assert [name for name, thing in public.items() if all(thing is not each for each in shown)] == []
    with_text = {name: thing for name, thing in public.items() if inspect.isclass(thing) or inspect.isfunction(thing)}
    assert [name for name, thing in with_text.items() if ">>>" not in (thing.__doc__ or "")] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_site_builds_strictly(site: Path) -> None:
    page = (site / "reference" / "estimators.html").read_text("utf-8")
    assert "a network for each" in page, "the reference shows docstrings"
    assert ":func:" not in (site / "reference" / "tree.html").read_text("utf-8")
    assert not list(site.rglob("*.py"))


@pytest.mark.slow
def test_pages_fetch_nothing(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        assert not re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"(?:https?:)?//", text), page.name


@pytest.mark.slow
def test_links_lead_somewhere(site: Path) -> None:
    """To pages and to places on them; `--strict` does not look at the latter."""
    texts = {page.resolve(): page.read_text("utf-8") for page in site.rglob("*.html") if page.name != "404.html"}
    places = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in texts.items()}
    dead = []
    for page, text in texts.items():
        for link in re.findall(r'<a [^>]*href="([^":]+)"', text):
            target, _, place = unquote(link).partition("#")
            other = (page.parent / target).resolve() if target else page
            if not other.exists() or (place and place not in places.get(other, {place})):
                dead.append((page.name, link))
    assert [link for link in dead if not link[1].startswith("#__")] == []


@pytest.mark.slow
def test_search_works_from_disk(site: Path, tmp_path: Path) -> None:
    try:
        browser = start_chromium(tmp_path / "profile")
    except NoChromiumError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    try:
        browser.get((site / "guides" / "report.html").as_uri())
        browser.execute_script("document.querySelector('.md-search__input').focus()")
        browser.switch_to.active_element.send_keys("threshold")
        found = WebDriverWait(browser, 30).until(
            lambda page: page.find_elements("css selector", ".md-search-result__item")
        )
        assert any("messy" in item.get_attribute("innerHTML") for item in found)
    finally:
        browser.quit()


# Numbers on pages are those of the results


@pytest.mark.parametrize("page", numbers.pages(), ids=lambda page: page.stem)
def test_numbers_are_those_of_the_results(page: Path) -> None:
    assert page.read_text("utf-8") == numbers.filled(page), "run: python -m docs.numbers"
    marks = set(re.findall(r"<!-- begin: (.+?) -->", page.read_text("utf-8")))
    assert marks == set(numbers.pages()[page])


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120


# How the code of a page is found


def test_blocks_know_their_line_and_their_output() -> None:
    text = "# A\n\n```python\nx = 1\n```\n\n```text\nold\n```\n\n```bash\ntreelu --version\n```\n"
    first, second = blocks(text)
    assert (first.language, first.code, first.line) == ("python", "x = 1\n", 4)
    assert first.shown is not None
    assert text[slice(*first.shown)] == "old\n"
    assert (second.language, second.shown) == ("bash", None)


def test_blocks_that_are_not_to_be_run_are_left_out() -> None:
    assert blocks("<!-- not run -->\n```python\nraise SystemExit\n```\n\n```json\n{}\n```\n") == []


def test_a_page_that_fails_names_its_line(folder: Path) -> None:
    page = folder / "page.md"
    page.write_text("words\n\n```python\nx = 1\nraise ValueError(x)\n```\n")
    with pytest.raises(ValueError, match="1") as error:
        run_page(page)
    assert error.traceback[-1].lineno + 1 == 5


def test_a_command_that_fails_is_an_error(folder: Path) -> None:
    page = folder / "page.md"
    page.write_text("```bash\ncd somewhere\ntreelu predict nowhere nothing.csv\n```\n")
    with pytest.raises(RuntimeError, match="exit code 2"):
        run_page(page)


def test_tables_are_filled_between_their_marks() -> None:
    text = "a\n<!-- begin: x -->\nold\n<!-- end: x -->\nb\n<!-- begin: y -->\n<!-- end: y -->\n"
    filled = fill(text, "x", r"| \1 |")
    assert filled == text.replace("old", r"| \1 |")
