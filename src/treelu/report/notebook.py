"""The report page from Python: one call, shown in a notebook."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
from pandas import isna
from sklearn.base import is_classifier

from treelu.estimators._rows import on_features
from treelu.report.molecules import drawings
from treelu.report.queries import column_asking, page_answers, plain_asking
from treelu.report.render import render
from treelu.report.rows import tree_rows
from treelu.report.summary import SummaryOptions, summarize
from treelu.report.yardsticks import fit_yardsticks
from treelu.tree import ObliqueTree
from treelu.tree.columns import FrameColumns
from treelu.tree.pipelines import NotAffineError
from treelu.tree.rows import take_rows
from treelu.view.notebook import PageFrame


class PageOptions(SummaryOptions, total=False):
    """What :func:`report_page` takes by name."""

    height: int
    questions: bool
    training: tuple[Any, Any] | None


def report_page(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    height: int = 760,
    questions: bool = True,
    training: tuple[Any, Any] | None = None,
    **options: Unpack[SummaryOptions],
) -> PageFrame:
    """The report of a tree or a fitted estimator, which a notebook shows in a frame.

    Parameters
    ----------
    model : ObliqueTree, fitted estimator, or a fitted Pipeline that ends in one
        The page of a pipeline shows its own columns where its steps can be folded into the tree
        (:meth:`ObliqueTree.from_sklearn`), else those that its last step reads.
    X : array, DataFrame or sparse matrix of shape (n_rows, n_features), optional
        Rows that were not used for training. Without them the page shows the tree alone.
    y : array of shape (n_rows,), optional
        Their targets.
    height : int
        Height of the frame in pixels.
    questions : bool
        Answer questions about the listed rows and the tree, where it has at most 64 leaves.
    training : tuple of X and y, optional
        The rows that the model was fitted to. CART and a linear model are fitted to them and stand beside its scores
        (:func:`treelu.report.fit_yardsticks`).
    title, target, baselines, notes and others
        As in :func:`treelu.report.summarize`.

    Returns
    -------
    PageFrame
        ``.html`` is the page itself, to be written into a file.

    Examples
    --------
    >>> tree = ObliqueTree([[1.0]], [0.0], [[1, 2]], [[0.0], [1.0]])
    >>> page = report_page(tree, [[-1.0], [2.0]], [0.1, 0.9], title="Two leaves")
    >>> "<title>Two leaves</title>" in page.html
    True
    """
    tree: ObliqueTree | None
    if isinstance(model, ObliqueTree):
        tree, estimator = model, None
    elif hasattr(model, "named_steps"):
        tree, X, before = _tree_of_pipeline(model, X)
        estimator = model.steps[-1][1]
        if training is not None and before is not None:
            training = before.transform(training[0]), training[1]
    else:
        tree, estimator = _tree_of(model), model
    columns = None if tree is None else tree.columns
    if columns is None and estimator is not None:
        columns = vars(estimator).get("encoder_")
    if columns is not None:  # the page is drawn in features, and knows which columns they are of
        smiles = next((column for column in columns.columns if column.kind == "smiles"), None)
        if smiles is not None:
            named = smiles.name in getattr(X, "columns", ())
            options.setdefault("row_names", [str(text) for text in X[smiles.name]] if named else None)
            draw_feature, draw_row = drawings(columns, options["row_names"] or ())
            options.setdefault("draw_feature", draw_feature)
            options.setdefault("draw_row", draw_row)
        X = None if X is None else _features(columns, X)
        training = None if training is None else (_features(columns, training[0]), training[1])
        options.setdefault("columns", columns.to_dict()["columns"])
        tree = None if tree is None else replace(tree, columns=None)
        estimator = None if estimator is None else on_features(estimator)
    if training is not None:
        options["baselines"] = _yardsticks(tree, estimator, *training) | dict(options.get("baselines") or {})
    summary = summarize(tree, X=X, y=y, estimator=estimator, **options)
    if questions and tree is not None and X is not None:
        asking = plain_asking(tree) if columns is None else column_asking(tree, columns)
        summary["questions"] = page_answers(asking, X, summary)
    return PageFrame(render(summary), height)


def _features(columns: FrameColumns, X: Any) -> Any:
    """Rows of a data frame as a frame of features; CSR of molecules alone."""
    import pandas as pd

    rows = columns.features(X) if columns.are_in(X) else X
    return rows if hasattr(rows, "tocsr") else pd.DataFrame(rows, columns=list(columns.feature_names))


def _yardsticks(tree: ObliqueTree | None, estimator: Any, X: Any, y: Any) -> dict[str, Any]:
    """The models beside, fitted to the features of the tree and reading the same rows as it does."""
    if tree is None:
        return dict(fit_yardsticks(X, y, classifier=is_classifier(estimator)))
    known = np.flatnonzero(~isna(np.asarray(y)))
    found = fit_yardsticks(
        tree_rows(take_rows(X if hasattr(X, "shape") else np.asarray(X), known), tree),
        np.asarray(y)[known],
        classifier=tree.is_classifier,
        max_leaf_nodes=tree.n_leaves,
        class_weight=getattr(estimator, "class_weight", None),
    )
    reads: dict[str, Any] = {"feature_names": tree.feature_names, "missing": tree.missing, "columns": tree.columns}
    return {name: replace(one, **reads) for name, one in found.items()}


def _tree_of_pipeline(pipeline: Any, X: Any) -> tuple[ObliqueTree, Any, Any]:
    """The tree on the pipeline's own columns, or on those that its last step reads where not all steps are affine.

    Then the rows that it reads, and the steps that made them, None for none.
    """
    try:
        return ObliqueTree.from_sklearn(pipeline), X, None
    except NotAffineError:
        before, tree = pipeline[:-1], ObliqueTree.from_sklearn(pipeline[-1])
    if tree.feature_names is None:
        with suppress(AttributeError):  # of a step that has no names
            tree = ObliqueTree.from_sklearn(pipeline[-1], feature_names=before.get_feature_names_out())
    return tree, None if X is None else before.transform(X), before


def _tree_of(estimator: Any) -> ObliqueTree | None:
    """The estimator's tree; None where it is no tree, and its predictions alone are shown."""
    if isinstance(getattr(estimator, "classes_", None), list):
        raise ValueError("there is one report per label: use estimators_[label].report(X, y[:, label])")
    tree = getattr(estimator, "tree_", None)
    return tree if isinstance(tree, ObliqueTree) else None
