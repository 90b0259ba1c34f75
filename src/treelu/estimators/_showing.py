"""What every estimator shows of itself in a notebook: its tree beside scikit-learn's diagram, and its report."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from treelu.tree import ObliqueTree

if TYPE_CHECKING:
    from treelu.view.notebook import PageFrame

MOST_LEAVES = 1024  # of a tree that is drawn unasked; a larger one takes too long to build and says little


class ShowMixin:
    """Gives a fitted estimator its method `report` and its picture in notebooks."""

    def report(self, X: Any = None, y: Any = None, **options: Any) -> PageFrame:
        """The report page, which a notebook shows in a frame; see :func:`treelu.report.notebook.report_page`."""
        from treelu.report.notebook import report_page

        return report_page(self, X, y, **options)

    def _html_repr(self) -> str:
        """scikit-learn's diagram and, once fitted, the tree below it."""
        diagram: str = super()._html_repr()  # type: ignore[misc]
        return diagram + self._tree_html()

    def _tree_html(self) -> str:
        from treelu.view.notebook import tree_html

        tree = self._tree_to_show()
        if isinstance(tree, ObliqueTree):
            return tree_html(tree)
        return "" if tree is None else f"<div><small>{escape(tree)}</small></div>"

    def _tree_to_show(self) -> ObliqueTree | str | None:
        """The tree to draw, or why there is no picture; None before `fit` and for estimators without a tree."""
        tree = getattr(self, "__dict__", {}).get("tree_")
        return tree if isinstance(tree, ObliqueTree) else None
