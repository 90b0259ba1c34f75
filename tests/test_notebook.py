"""The notebook in examples/ runs, and its cells show what they should."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.slow

NOTEBOOK = Path(__file__).resolve().parents[1] / "examples" / "notebook.ipynb"
PICTURE = 'src="data:image/png;base64,'


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What each cell put out, by the name of the cell."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    folder = {"metadata": {"path": str(tmp_path_factory.mktemp("notebook"))}}
    NotebookClient(notebook, timeout=300, resources=folder).execute()
    return {cell["id"]: cell["outputs"] for cell in notebook.cells if cell["cell_type"] == "code"}


def test_the_notebook_is_kept_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells)


def test_no_cell_warns(outputs: dict[str, list[Any]]) -> None:
    said = [output["text"] for cell in outputs.values() for output in cell if output.get("name") == "stderr"]
    assert said == []


def test_the_estimator_shows_its_diagram_and_its_tree(outputs: dict[str, list[Any]]) -> None:
    (shown,) = outputs["fit"]
    html = shown["data"]["text/html"]
    assert "sk-top-container" in html
    assert html.count(PICTURE) == 1
    assert shown["data"]["text/plain"].startswith("ObliqueTreeClassifier(")


def test_texts_pictures_and_names(outputs: dict[str, list[Any]]) -> None:
    (score,) = outputs["score"]
    assert score["text"].startswith("accuracy on 143 rows")
    (path,) = outputs["path"]
    assert "image/png" in path["data"]
    (row,) = outputs["describe"]
    assert row["data"]["text/html"].startswith("<table")
    assert row["data"]["text/plain"].startswith("node 0: ")  # not in quotation marks
    (tree,) = outputs["pipeline"]
    assert tree["data"]["text/html"].count(PICTURE) == 1


def test_the_report_stands_in_a_frame_with_its_policy(outputs: dict[str, list[Any]]) -> None:
    (report,) = outputs["report"]
    html = report["data"]["text/html"]
    assert html.startswith("<iframe srcdoc=")
    assert "Content-Security-Policy" in html
    assert 'sandbox="allow-scripts"' in html
