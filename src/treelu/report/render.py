"""render: a summary → one HTML file that needs nothing else."""

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

# In the order in which they are joined; each uses only those before it.
SCRIPTS = (
    "dom.js",
    "numbers.js",
    "tree.js",
    "recipes.js",
    "typed_row.js",
    "charts.js",
    "node_text.js",
    "layout.js",
    "tree_view.js",
    "search.js",
    "node_panel.js",
    "row_panel.js",
    "what_if.js",
    "threshold.js",
    "scores.js",
    "features.js",
    "glossary.js",
    "leaves.js",
    "cards.js",
    "questions.js",
    "main.js",
)
# In the order of the page; each is a template of its own in page/sections.
SECTIONS = (
    "tree", "cards", "warnings", "scores", "glossary", "performance", "leaves", "questions", "features", "columns",
    "training", "about",
)  # fmt: skip


def render(summary: dict[str, Any]) -> str:
    """Turn a summary into a stand-alone HTML page.

    The page carries its data as JSON, which its script puts on the screen as text only; a content security
    policy allows that one script and no network.

    Parameters
    ----------
    summary : dict
        From :func:`treelu.report.summarize`.

    Returns
    -------
    str
        HTML; write it with ``encoding="utf-8"``.

    Examples
    --------
    >>> from treelu.report import render, summarize
    >>> from treelu.tree import ObliqueTree
    >>> tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[0.0], [1.0]])
    >>> render(summarize(tree, title="A & B")).splitlines()[:2]
    ['<!DOCTYPE html>', '<html lang="en">']
    """
    page = files("treelu.report") / "page"
    script = '"use strict";\n(() => {\n' + "\n".join((page / name).read_text("utf-8") for name in SCRIPTS) + "})();\n"
    style = (page / "report.css").read_text("utf-8")
    return _template("template.html.j2").render(
        title=summary["title"].encode("utf-8", "replace").decode("utf-8"),
        sections=SECTIONS,
        script=script,
        script_hash=_csp_hash(script),
        style=style,
        style_hash=_csp_hash(style),
        data=script_json(_packed(summary)),
    )


def render_index(words: str, models: Sequence[str], rows: Sequence[tuple[str, str, Sequence[str]]]) -> str:
    """A page of links to those of several targets; each row has a file, its target and the score of each model."""
    return _template("index.html.j2").render(words=words, models=models, rows=rows) + "\n"


def _template(name: str) -> Template:
    loader = PackageLoader("treelu.report", "page")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template(name)


def _csp_hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def script_json(value: Any) -> str:
    """JSON that can stand inside a script element: ASCII, without ``<``, ``>`` and ``&``."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _packed(summary: dict[str, Any]) -> dict[str, Any]:
    """The summary with its long lists of weights as base64 of their bytes: half the size, and exact."""
    models = []
    for model in summary["models"]:
        tree = model["tree"]
        if tree is not None:
            packed = {key: _pack_weights(tree[key]) for key in ("weights", "leaf_weights") if tree[key]}
            model = model | {"tree": tree | packed}
        models.append(model)
    return summary | {"models": models}


def _pack_weights(weights: dict[str, Any]) -> dict[str, Any]:
    return weights | {
        "features": _base64(weights["features"], "<u4"),
        "values": _base64(weights["values"], "<f8"),
    }


def _base64(values: list[float], dtype: str) -> str:
    return base64.b64encode(np.asarray(values, dtype=dtype).tobytes()).decode("ascii")
