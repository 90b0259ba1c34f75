"""Methods of a tree that other packages implement: text, pictures, exports, reports, saving.

Imports point one way, and those packages import `treelu.tree`. So this is the one module of the package that names
them; each is imported when its method is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from treelu.export.sql import DialectName
    from treelu.report.notebook import PageOptions
    from treelu.tree.oblique_tree import ObliqueTree
    from treelu.view.labels import Top
    from treelu.view.notebook import PageFrame


class TreeMethods:
    """Methods of `ObliqueTree` in a class of their own."""

    @property
    def _tree(self) -> ObliqueTree:
        """The tree itself, with the type that functions take."""
        return cast("ObliqueTree", self)


class OutputMethods(TreeMethods):
    """The methods of `ObliqueTree` that other packages implement."""

    def describe(self, x: Any, top: Top = None) -> str:
        """The path of one row as text, with the largest contributions at each node; a notebook shows it as a table.

        Parameters
        ----------
        x : array, one-row DataFrame or sparse row with n_features values
        top : int or "all", optional
            Contributions (weight times value) named at each node. None: all where there are at most six, else five.

        Examples
        --------
        >>> from treelu.tree import ObliqueTree
        >>> tree = ObliqueTree([[1.0, -1.0]], [1.0], [[1, 2]], [[0], [1]], feature_names=["height", "age"])
        >>> print(tree.describe([0.5, 3.0]))
        node 0: -1.5 >= 0? no
            -3    age = 3 (weight -1)
            +0.5  height = 0.5 (weight 1)
            +1    bias
        leaf 1: value 0
        """
        from treelu.view.path import describe_path

        return describe_path(self._tree, x, top=top)

    def export_text(
        self,
        *,
        top: Top = None,
        max_depth: int | None = None,
        max_leaves: int | None = 256,
        digits: int | None = None,
        scale: Any = None,
    ) -> str:
        """The tree as indented text; see :func:`treelu.view.text.export_text`."""
        from treelu.view.text import export_text

        return export_text(self._tree, top=top, max_depth=max_depth, max_leaves=max_leaves, digits=digits, scale=scale)

    def export_graphviz(
        self,
        *,
        top: Top = None,
        max_depth: int | None = None,
        max_leaves: int | None = 256,
        digits: int | None = None,
        scale: Any = None,
    ) -> str:
        """The tree as DOT text; see :func:`treelu.view.dot.export_graphviz`."""
        from treelu.view.dot import export_graphviz

        return export_graphviz(
            self._tree, top=top, max_depth=max_depth, max_leaves=max_leaves, digits=digits, scale=scale
        )

    def to_dict(self) -> dict[str, Any]:
        """The tree as plain lists and strings; see :mod:`treelu.export.json` for the schema."""
        from treelu.export.json import to_dict

        return to_dict(self._tree)

    def to_json(self) -> str:
        """The tree as JSON text that :meth:`from_json` reads back exactly."""
        from treelu.export.json import to_json

        return to_json(self._tree)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ObliqueTree:
        """The tree that :meth:`to_dict` wrote."""
        from treelu.export.json import from_dict

        return from_dict(data)

    @classmethod
    def from_json(cls, text: str | bytes) -> ObliqueTree:
        """The tree that :meth:`to_json` wrote."""
        from treelu.export.json import from_json

        return from_json(text)

    def to_onnx(self, path: str | Path | None = None, *, dtype: Literal["float32", "float64"] = "float32") -> bytes:
        """The tree as an ONNX model; see :func:`treelu.export.onnx.to_onnx`."""
        from treelu.export.onnx import to_onnx

        return to_onnx(self._tree, path, dtype=dtype)

    def to_python(self, *, name: str | None = None, trained: str | None = None) -> str:
        """The tree as a Python module of its own; see :func:`treelu.export.python.to_python`."""
        from treelu.export.python import to_python

        return to_python(self._tree, name=name, trained=trained)

    def to_javascript(self, *, name: str | None = None, trained: str | None = None) -> str:
        """The tree as an ES module; see :func:`treelu.export.javascript.to_javascript`."""
        from treelu.export.javascript import to_javascript

        return to_javascript(self._tree, name=name, trained=trained)

    def to_c(
        self, *, dtype: Literal["double", "float"] = "double", name: str | None = None, trained: str | None = None
    ) -> str:
        """The tree as a C99 header; see :func:`treelu.export.c.to_c`."""
        from treelu.export.c import to_c

        return to_c(self._tree, dtype=dtype, name=name, trained=trained)

    def to_sql(
        self,
        *,
        dialect: DialectName = "plain",
        table: str | Sequence[str] = "data",
        keep: Sequence[str] = (),
        self_test: bool = False,
        typed: bool = False,
        name: str | None = None,
        trained: str | None = None,
    ) -> str:
        """The tree as a query; see :func:`treelu.export.sql.to_sql`."""
        from treelu.export.sql import to_sql

        return to_sql(
            self._tree, dialect=dialect, table=table, keep=keep, self_test=self_test, typed=typed, name=name,
            trained=trained,
        )  # fmt: skip

    def sql_expressions(self, *, dialect: DialectName = "plain", table: str | None = None) -> dict[str, str]:
        """The tree as one SQL expression an answer; see :func:`treelu.export.sql.sql_expressions`."""
        from treelu.export.sql import sql_expressions

        return sql_expressions(self._tree, dialect=dialect, table=table)

    def plot(
        self,
        *,
        top: Top = None,
        max_depth: int | None = None,
        max_leaves: int | None = 32,
        scale: Any = None,
        ax: Axes | None = None,
    ) -> Axes:
        """A picture of the tree; see :func:`treelu.view.plot_tree`."""
        from treelu.view import plot_tree

        return plot_tree(self._tree, top=top, max_depth=max_depth, max_leaves=max_leaves, scale=scale, ax=ax)

    def plot_robustness(
        self,
        X: Any,
        ax: Axes | None = None,
        norm: str = "l2",
        *,
        change: float | None = None,
        keep: Iterable[Any] = (),
        limits: Literal["observed", "anywhere"] | None = "observed",
        bounds: Any = None,
        whole: Iterable[Any] = (),
        groups: Sequence[Iterable[Any]] = (),
        scale: Any = None,
        budget_seconds: float | None = None,
    ) -> Axes:
        """How far the rows of a table are from another answer; parameters as in :meth:`robustness`."""
        from treelu.view import plot_robustness

        result = self._tree.robustness(
            X,
            norm,
            change=change,
            keep=keep,
            limits=limits,
            bounds=bounds,
            whole=whole,
            groups=groups,
            scale=scale,
            budget_seconds=budget_seconds,
        )
        return plot_robustness(result, ax)

    def _repr_html_(self) -> str:
        """The tree as a notebook shows it; see :mod:`treelu.view.notebook`."""
        from treelu.view.notebook import tree_html

        return tree_html(self._tree)

    def report(self, X: Any = None, y: Any = None, **options: Unpack[PageOptions]) -> PageFrame:
        """The report page of this tree; see :func:`treelu.report.notebook.report_page`."""
        from treelu.report.notebook import report_page

        return report_page(self, X, y, **options)

    def save(self, path: str | Path) -> None:
        """Write the tree into a folder that :func:`treelu.load` reads; see :mod:`treelu.persistence`."""
        from treelu.persistence import save

        save(self, path)
