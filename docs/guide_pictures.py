"""Pictures of the guides to reading and to small trees: ``python -m docs.guide_pictures`` from the project's root.

The notebook's picture needs Chromium and the packages of the extra ``test``.
"""

import base64
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import matplotlib
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from treelu import ObliqueTreeClassifier
from treelu.view import plot_partition

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
STYLE = "body { font: 15px sans-serif; margin: 24px; width: 1100px } pre { background: #f3f3f0; padding: 8px }"


def save(ax: Any, name: str) -> None:
    """Write the figure of some axes into the folder of images."""
    ax.figure.savefig(IMAGES / name, dpi=110)
    plt.close("all")


def trees() -> None:
    """The trees of both guides, the path of sizes and the map."""
    data = load_breast_cancer(as_frame=True)
    X, y = data.data, data.target_names[data.target]
    X_train, _, y_train, _ = train_test_split(X, y, random_state=0)
    constant = ObliqueTreeClassifier(leaves="constant", random_state=0)
    model = clone(constant).set_params(max_leaf_nodes=8, max_terms=2, selection="best").fit(X_train, y_train)
    save(model.tree_.plot(), "reading-tree.png")
    small = clone(constant).set_params(max_leaf_nodes=8, max_terms=4).fit(X_train, y_train)
    save(small.plot_path(), "small-path.png")
    two = X_train[["worst area", "worst concave points"]]
    pair = clone(constant).set_params(max_leaf_nodes=4).fit(two, y_train)
    save(plot_partition(pair.tree_, X=two, y=y_train), "reading-map.png")


def notebook_page() -> str:
    """The example notebook, executed, as one HTML page: sources and what they show."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)
    NotebookClient(notebook, timeout=300).execute()
    parts = []
    for cell in notebook.cells:
        if cell["cell_type"] == "markdown":
            parts += [_paragraph(text) for text in cell["source"].split("\n\n")]
            continue
        parts.append(f"<pre>{cell['source']}</pre>")
        for output in cell["outputs"]:
            data = output.get("data", {"text/plain": output.get("text", "")})
            if "text/html" in data:
                parts.append(data["text/html"])
            elif "image/png" in data:
                parts.append(f'<img src="data:image/png;base64,{data["image/png"].strip()}">')
            else:
                parts.append(f"<pre>{data['text/plain']}</pre>")
    return f"<!DOCTYPE html><meta charset=utf-8><style>{STYLE}</style>" + "\n".join(parts)


def _paragraph(text: str) -> str:
    """A paragraph of Markdown, as far as the notebook uses it."""
    if text.startswith("#"):
        return f"<h2>{text.lstrip('# ')}</h2>"
    return "<p>" + re.sub(r"\*(\w+)\*", r"<i>\1</i>", re.sub(r"`([^`]+)`", r"<code>\1</code>", text)) + "</p>"


def notebook(height: int = 1830) -> None:
    """A screenshot of the notebook's page."""
    from tests.report.browser import start_chromium

    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "notebook.html")
        page.write_text(notebook_page(), encoding="utf-8")
        browser = start_chromium(folder)
        browser.get(page.as_uri())
        size = {"width": 1180, "height": height, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        time.sleep(2)  # the report in its frame draws itself
        shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        (IMAGES / "reading-notebook.png").write_bytes(base64.b64decode(shot["data"]))
        browser.quit()


if __name__ == "__main__":
    for make in (trees, notebook):
        if sys.argv[1:] in ([], [make.__name__]):
            make()
