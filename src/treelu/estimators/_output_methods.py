"""Methods that fitted estimators share: saving, reports, pictures, logarithms of probabilities."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from treelu.tree import ObliqueTree

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from treelu.estimators._path_trees import KnownTrees
    from treelu.report.notebook import PageOptions
    from treelu.training.small.fit import PathTrees
    from treelu.tree.queries.counterfactual import Counterfactual
    from treelu.tree.queries.properties import Verdict
    from treelu.view.notebook import PageFrame

MOST_LEAVES = 1024  # of a tree that is drawn unasked; a larger one takes too long to build and says little


class SaveMixin:
    """Gives a fitted estimator its methods `save` and `report`, and its picture in notebooks."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator into a folder that `treelu.load` reads; see `treelu.persistence`."""
        from treelu.persistence import save

        save(self, path)

    def report(
        self, X: Any = None, y: Any = None, path: str | PathLike[str] | None = None, **options: Unpack[PageOptions]
    ) -> PageFrame:
        """The report page, which a notebook shows in a frame; see :func:`treelu.report.notebook.report_page`.

        With a `path` it is written into that file too.
        """
        from treelu.report.notebook import report_page

        page = report_page(self, X, y, **options)
        if path is not None:
            Path(path).write_text(page.html, encoding="utf-8")
        return page

    def counterfactual(
        self,
        x: Any,
        target: Any = None,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        keep: Iterable[Any] = (),
        within: Any = None,
        rise: Iterable[Any] = (),
        fall: Iterable[Any] = (),
        whole: Iterable[Any] = (),
        max_changes: int | None = None,
        n: int = 1,
    ) -> Counterfactual:
        """The smallest change of a row that gives another answer, in the columns that the estimator was fitted to.

        Parameters
        ----------
        x : one row
            Of a data frame, a Series, a mapping of columns to values, or a vector.
        target, at_least, at_most, keep, rise, fall, whole, max_changes, n
            As in :meth:`treelu.ObliqueTree.counterfactual`.
        within : mapping, optional
            The range of numbers and the categories that are permitted: ``{"age": (18, 100), "job": ["clerk"]}``.

        Returns
        -------
        Counterfactual
            Its ``values`` is the row that was found.
        """
        return self._asked_tree("counterfactual").counterfactual(
            x, target, at_least=at_least, at_most=at_most, keep=keep, bounds=within, rise=rise, fall=fall, whole=whole,
            max_changes=max_changes, n=n,
        )  # fmt: skip

    def verify(
        self,
        *,
        rises: Any = None,
        falls: Any = None,
        independent: Any = None,
        at_most: float | None = None,
        at_least: float | None = None,
        within: Any = None,
        target: Any = None,
    ) -> Verdict:
        """Whether one property holds for every permitted row: proved, or refuted by rows.

        Parameters
        ----------
        rises, falls : column
            The prediction never falls, or never rises, when this column of numbers or dates rises.
        independent : column or columns
            The answer does not depend on these.
        at_most, at_least : float
            The prediction, or the probability of `target`, is at most or at least this.
        within : mapping, optional
            The rows in question, as in :meth:`counterfactual`.
        target : class label, optional
            The class whose probability is meant; None: the second of two.
        """
        given = {"rises": rises, "falls": falls, "independent": independent, "at_most": at_most, "at_least": at_least}
        asked = [(name, value) for name, value in given.items() if value is not None]
        if len(asked) != 1:
            raise ValueError(f"verify needs exactly one of {', '.join(given)}, got {len(asked)}")
        ((name, value),) = asked
        return getattr(self._asked_tree("verify"), name)(value, target=target, bounds=within)

    def _asked_tree(self, what: str) -> ObliqueTree:
        """The tree that queries are about."""
        check_is_fitted(self)
        try:
            tree = self.tree_  # type: ignore[attr-defined]
        except AttributeError as error:
            raise AttributeError(f"{what} needs a tree, and {type(self).__name__} is none: {error}") from None
        return tree

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
        tree = vars(self).get("tree_")
        return tree if isinstance(tree, ObliqueTree) else None


class PathMixin:
    """Gives an estimator with a path of sizes its picture."""

    _path: dict[str, Any]  # the columns of path_, as plain arrays and lists
    path_trees_: PathTrees | KnownTrees | list[ObliqueTree]

    @property
    def path_(self) -> pd.DataFrame:
        """What decides the size: a row for each."""
        import pandas as pd

        try:
            return pd.DataFrame(self._path)
        except AttributeError:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first") from None

    @path_.setter
    def path_(self, path: pd.DataFrame) -> None:
        self._path = {}
        for name, column in path.items():
            numeric = column.dtype.kind in "biuf"
            self._path[str(name)] = column.to_numpy().copy() if numeric else column.tolist()

    def plot_path(self, ax: Axes | None = None) -> Axes:
        """Draw what decides the size: how far each tree of `path_` is behind the best in held-out loss.

        A bar is one standard error of that difference to each side. Trees that are as good as the best by the rule of
        `selection` are filled, the others hollow, and the chosen one is marked.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a figure is made if None.

        Returns
        -------
        matplotlib Axes
        """
        from treelu.view import plot_sizes

        check_is_fitted(self)
        path = self.path_
        if path["loss"].isna().any():
            raise ValueError(
                "plot_path needs the held-out losses of path_, which this fit has not: it compared no sizes, or was "
                "saved by version 0.1"
            )
        return plot_sizes(
            path["leaves"],
            path["terms"],
            path["loss_difference"],
            path["difference_std_error"],
            eligible=path["eligible"],
            chosen=int(path["chosen"].to_numpy().argmax()),
            score_name="held-out loss above that of the best",
            greater_is_better=False,
            ax=ax,
        )


class LogProbabilities:
    """Adds `predict_log_proba` to a classifier."""

    @abstractmethod
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of the classes."""

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """The natural logarithms of :meth:`predict_proba`; −∞ for a probability of 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))
