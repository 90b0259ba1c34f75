"""Representations for notebooks: a tree as a picture, a report page in a frame."""

from __future__ import annotations

import base64
import io
from html import escape

from treelu.tree import ObliqueTree
from treelu.view.pictures import draw_figure

_DPI = 110
_STYLE = "max-width: 100%; height: auto; background: white"


def tree_html(tree: ObliqueTree) -> str:
    """A tree as HTML for a notebook: its picture, cut where it is large, and what was done to it.

    The picture is an image without scripts, so that it is shown in notebooks that are not trusted as well.

    Examples
    --------
    >>> html = tree_html(ObliqueTree([[1.0, -1.0]], [0.5], [[1, 2]], [[0], [1]]))
    >>> html.startswith('<div><img src="data:image/png;base64,'), "ObliqueTree(2 leaves" in html
    (True, True)
    """
    figure = draw_figure(tree)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI)
    picture = base64.b64encode(buffer.getvalue()).decode("ascii")
    width = round(figure.get_size_inches()[0] * _DPI)
    image = f'<img src="data:image/png;base64,{picture}" alt="{escape(repr(tree))}" width="{width}" style="{_STYLE}">'
    notes = "".join(f"<br><small>{escape(note)}</small>" for note in tree.notes)
    return f"<div>{image}<br><small>{escape(repr(tree))}</small>{notes}</div>"


class PageFrame:
    """A stand-alone HTML page that a notebook shows in a frame of its own.

    The page is handed over whole, so its content security policy holds in the frame as it does in a file; the frame
    lets its script run and nothing else (no forms, no windows, no access to the notebook).

    Attributes
    ----------
    html : str
        The page, to be written with ``encoding="utf-8"``.

    Examples
    --------
    >>> frame = PageFrame("<!DOCTYPE html><p>a &amp; b</p>", height=300)
    >>> frame
    PageFrame(31 characters of HTML; .html is the page)
    >>> 'srcdoc="&lt;!DOCTYPE html&gt;&lt;p&gt;a &amp;amp; b&lt;/p&gt;"' in frame._repr_html_()
    True
    """

    def __init__(self, html: str, height: int = 760) -> None:
        self.html, self.height = html, height

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="allow-scripts" title="Report" '
            f'style="width: 100%; height: {int(self.height)}px; border: 1px solid #bbbbbb"></iframe>'
        )

    def __repr__(self) -> str:
        return f"PageFrame({len(self.html):,} characters of HTML; .html is the page)"
