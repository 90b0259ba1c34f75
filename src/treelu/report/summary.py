"""summarize: everything that a report shows, as one dict of plain JSON values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from treelu import __version__
from treelu.report.columns import column_overview
from treelu.report.nodes import describe_tree
from treelu.report.predictions import Scoring, add_predictions, as_list
from treelu.report.rows import Floats, HoldOut, classes_of, hold_out_rows, sample_rows, spread, typical, value_ranges
from treelu.report.scores import positive_class
from treelu.report.yardsticks import verdicts
from treelu.tree import ObliqueTree
from treelu.tree.names import shown_apart
from treelu.tree.one_hot import categories, group_name

if TYPE_CHECKING:
    from treelu.training import History

Draw = Callable[[int], str | None]
RowsAre = Literal["hold-out", "training", "given"]

FORMAT = 2  # of the dict; goes up when a key changes its meaning
MAX_IMPORTANCES = 40
SHORT_NAME = 26  # letters of a name on a card
MOST_SHORTENED = 10_000  # features
TRAINING_ROWS = "these are the training rows: the scores are too good; score rows that training did not see"
MAX_DRAWINGS = 240  # of features
DRAWN_PER_NODE = 6


class SummaryOptions(TypedDict, total=False):
    """What a report takes by name, as :func:`summarize` describes it."""

    name: str | None
    baselines: Mapping[str, Any] | None
    history: History | Iterable[Mapping[str, Any]] | None
    title: str
    target: str
    notes: Sequence[str]
    warnings: Sequence[str]
    rows_are: RowsAre | None
    row_names: Sequence[str] | None
    row_numbers: Sequence[int] | None
    groups: Any
    predictions: Mapping[str, Any] | None
    scored: str | None
    columns: Sequence[Mapping[str, Any]] | None
    positive: int | None
    threshold: float
    draw_feature: Draw | None
    draw_row: Draw | None
    max_weights: int
    max_rows: int
    random_state: int


def summarize(
    tree: ObliqueTree | None, *, X: Any = None, y: Any = None, estimator: Any = None, **options: Unpack[SummaryOptions]
) -> dict[str, Any]:
    """Gather what a report shows of a tree and of its predictions on some rows.

    Parameters
    ----------
    tree : ObliqueTree or None
        The tree to show and to score; None for an estimator that is not a tree, which is then scored itself.
    X : array, DataFrame or sparse matrix of shape (n_rows, n_features), optional
        Rows to score, best those that training did not see. Without them the page shows the tree alone.
    y : array of shape (n_rows,), optional
        Their targets. Rows whose target is missing (NaN, None) are left out of the report.
    estimator : fitted estimator, optional
        Where the tree came from: names the model, its parameters and its training history.
    name : str, optional
        Name of the model; by default the estimator's class, else "Tree".
    baselines : mapping of name to ObliqueTree or fitted estimator, optional
        Models to stand beside it, such as ``fit_yardsticks(X_train, y_train, classifier=True)``.
    history : History or iterable of mappings, optional
        Training curves: an estimator's ``history_`` (by default that of ``estimator``, where it has one), or
        for each epoch a mapping with ``epoch`` and any numbers (``train_loss``, ``valid_score``, …).
    title, target : str
        Heading of the page and name of what is predicted.
    notes : sequence of str
        Remarks for the page's end, such as how columns were encoded.
    warnings : sequence of str
        Warnings for the page's top; more are found in the scores.
    rows_are : {"hold-out", "training", "given"}, optional
        Which rows these are, as far as the caller knows. By default they are called training rows where the tree
        counts exactly these rows at each of its nodes, else just rows.
    row_names : sequence of str, optional
        A name for each row of X, such as its SMILES.
    row_numbers : sequence of int, optional
        The number of each row of X in its file; by default its index.
    groups : array of shape (n_rows,), optional
        The group of each row, such as a patient: intervals of scores come from resampling whole groups.
    predictions : mapping of name to array, optional
        What the scores are measured on instead of the models' own predictions, for models that were fitted to these
        rows: out-of-fold predictions, or those of the same model fitted to other rows. For each model probabilities of
        shape (n_rows, n_classes), or values of shape (n_rows,).
    scored : str, optional
        A sentence for the page on what the scores are measured on.
    columns : sequence of mappings, optional
        How a table's columns become features, as `TableEncoder.to_dict` says: the page then reads rows in the
        table's own columns and categories.
    positive : int, optional
        Of two classes, the number of the positive one; by default the one named like a yes, else the rarer one.
    threshold : float
        The probability from which the positive class is predicted.
    draw_feature, draw_row : callable, optional
        Number of a feature (of a row of X) → SVG text, or None where there is nothing to draw.
    max_weights : int
        Weights that a page carries. A tree with more shows the strongest of each node, and no typed-in rows.
    max_rows : int
        Hold-out rows that the page lists.
    random_state : int
        Seed of the bootstrap and of the choice of listed rows.

    Returns
    -------
    dict
        Plain JSON values, for :func:`treelu.report.render` or any other format.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> cart = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X[::2], y[::2])
    >>> summary = summarize(ObliqueTree.from_sklearn(cart), X=X[1::2], y=y[1::2])
    >>> round(summary["models"][0]["scores"]["accuracy"]["value"], 2)
    0.95
    """
    unknown = options.keys() - SummaryOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"summarize() got an unexpected keyword argument {min(unknown)!r}")
    models = _models(tree, estimator, options.get("name"), options.get("baselines"))
    rows = _rows(X, y, tree, estimator, options)
    rows_are = options.get("rows_are") or ("training" if _counted_at_training(tree, rows) else "given")
    features = _features(tree, estimator, rows)
    classes, columns, history = classes_of(tree, estimator), _columns(tree, X, options), options.get("history")
    summary: dict[str, Any] = {
        "format": FORMAT,
        "treelu": __version__,
        "title": options.get("title", "Decision tree"),
        "target": options.get("target", "target"),
        "notes": list(options.get("notes", ())),
        "warnings": list(options.get("warnings", ())),
        "rows_are": rows_are,
        "scored": options.get("scored"),
        "columns": None if columns is None else [_page_column(column) for column in columns],
        "positive": _positive(rows, options.get("positive")),
        "threshold": options.get("threshold", 0.5),
        "baseline": None,
        "verdicts": [],
        "overview": [],
        "classes": None if classes is None else [str(label) for label in classes],
        "n_rows": None if rows is None else len(rows.numbers),
        "features": features,
        "metrics": [],
        "resamples": 0,
        "models": _entries(models, estimator, np.array(features["scale"]), rows, options.get("max_weights", 2_000_000)),
        "history": _history(getattr(estimator, "history_", None) if history is None else history),
        "samples": [],
    }
    if rows is not None:
        named = options.get("row_names"), options.get("row_numbers"), options.get("draw_row")
        summary["samples"] = sample_rows(rows, np.array(features["typical"]), *named)
        scoring = Scoring(
            rows, features["names"], summary["positive"], summary["threshold"], options.get("random_state", 0)
        )
        predicting = [model for model, _ in models.values()]
        found = add_predictions(summary, predicting, options.get("predictions") or {}, scoring)
        found += [TRAINING_ROWS] if rows_are == "training" else []
        summary["verdicts"] = verdicts(summary)
        missing = None if tree is None else tree.missing
        summary["overview"] = column_overview(rows, summary["columns"], features["names"], missing)
        summary["warnings"] += [line for line in found if line not in summary["warnings"]]
    draw_feature = options.get("draw_feature")
    if draw_feature is not None:
        features["drawings"] = _feature_drawings(summary["models"], draw_feature)
    return summary


def _columns(tree: ObliqueTree | None, X: Any, options: SummaryOptions) -> Sequence[Mapping[str, Any]] | None:
    """How a table's columns become features: as given, else as the tree of a data frame knows."""
    given = options.get("columns")
    if given is None and tree is not None and tree.columns is not None and (X is None or tree.columns.are_in(X)):
        return tree.columns.to_dict()["columns"]
    return given


def _rows(X: Any, y: Any, tree: ObliqueTree | None, estimator: Any, options: SummaryOptions) -> HoldOut | None:
    """The rows to score, checked and encoded; None without X."""
    if X is None:
        if y is not None:
            raise ValueError("y was given without X; give the rows that the targets belong to")
        return None
    limits = {"max_rows": options.get("max_rows", 200), "random_state": options.get("random_state", 0)}
    rows = hold_out_rows(X, y, tree, estimator, groups=options.get("groups"), **limits)
    names = options.get("row_names")
    if names is not None and len(names) != rows.n_given:
        raise ValueError(f"row_names must have {rows.n_given} names, one per row of X, got {len(names)}")
    return rows


def _features(tree: ObliqueTree | None, estimator: Any, rows: HoldOut | None) -> dict[str, Any]:
    """Names, spreads and usual values of the features."""
    names = _feature_names(tree, estimator, rows)
    scale = np.ones(len(names)) if rows is None else spread(rows.X)
    if tree is not None and tree.spreads is not None:
        scale = tree.spreads
    usual = np.zeros(len(names)) if rows is None else typical(rows.X)
    ends = value_ranges(rows.X) if rows is not None else {}
    found = {"names": names, "short": _short_names(names), "groups": [] if tree is None else _categories(tree)}
    return {**found, "scale": scale.tolist(), "typical": usual.tolist(), "drawings": {}} | ends


def _short_names(names: list[str]) -> dict[str, str]:
    """Long names by the number of their feature, cut so that they stay different."""
    if len(names) > MOST_SHORTENED:
        return {}
    whole = tuple(names)
    return {str(j): shown_apart(name, whole, SHORT_NAME) for j, name in enumerate(names) if len(name) > SHORT_NAME}


def _categories(tree: ObliqueTree) -> list[dict[str, Any]]:
    """Columns of categories: their names, features, and the category of each feature."""
    found = []
    for group in categories(tree):
        name, levels = group_name([tree.feature_name(j) for j in group]) or ("", [])
        found.append({"name": name, "features": list(group), "categories": levels})
    return found


def _entries(
    models: Mapping[str, tuple[Any, ObliqueTree | None]],
    estimator: Any,
    scale: Floats,
    rows: HoldOut | None,
    max_weights: int,
) -> list[dict[str, Any]]:
    entries = [_model_entry(key, model, shown, scale, rows, max_weights) for key, (model, shown) in models.items()]
    if estimator is not None:
        entries[0] |= {"kind": type(estimator).__name__, "parameters": _parameters(estimator)}
    return entries


def _positive(rows: HoldOut | None, given: int | None) -> int:
    """Of two classes, the number of the positive one."""
    if given is not None:
        return given
    if rows is None or rows.target is None or rows.classes is None or len(rows.classes) != 2:
        return 1
    return positive_class(rows.classes, rows.target == 1)


def _models(
    tree: ObliqueTree | None, estimator: Any, name: str | None, baselines: Mapping[str, Any] | None
) -> dict[str, tuple[Any, ObliqueTree | None]]:
    """Name → (what predicts, the tree to show); the report's own model first."""
    if tree is None and estimator is None:
        raise ValueError("tree and estimator are both None; give at least one of them")
    if tree is not None and not isinstance(tree, ObliqueTree):
        raise TypeError(
            f"tree must be an ObliqueTree, got {type(tree).__name__}; use ObliqueTree.from_sklearn or estimator="
        )
    first = name or ("Tree" if estimator is None else type(estimator).__name__)
    if baselines and first in baselines:
        raise ValueError(f"baselines has a model named {first!r}, as the report's own; rename one of them")
    # The tree predicts where there is one, so that scores and picture are of the same model even if it was pruned.
    models = {first: (estimator if tree is None else tree, tree)}
    for key, model in (baselines or {}).items():
        models[key] = (model, _tree_of(model, classes_of(tree, estimator)))
    return models


def _tree_of(model: Any, classes: NDArray[Any] | None) -> ObliqueTree | None:
    """The tree of a baseline, where it is one and its leaves speak of the same classes."""
    tree = model if isinstance(model, ObliqueTree) else None
    if tree is None and hasattr(model, "tree_"):
        tree = ObliqueTree.from_sklearn(model)
    if tree is None or as_list(tree.classes) != as_list(classes):
        return None
    return tree


def _feature_names(tree: ObliqueTree | None, estimator: Any, rows: HoldOut | None) -> list[str]:
    if tree is not None:
        return [tree.feature_name(j) for j in range(tree.n_features)]
    given = getattr(estimator, "feature_names_in_", None)
    if given is not None:
        return [str(name) for name in given]
    n_features = rows.X.shape[1] if rows is not None else int(getattr(estimator, "n_features_in_", 0))
    return [f"x{j}" for j in range(n_features)]


def _model_entry(
    name: str, model: Any, tree: ObliqueTree | None, scale: Floats, rows: HoldOut | None, max_weights: int
) -> dict[str, Any]:
    """The entry of one model on the page, without its predictions."""
    described = None if tree is None else describe_tree(tree, scale, rows, max_weights)
    importances = None
    if tree is not None and described is not None and (described["n"] or described["weight"]):
        counts = {"n_samples": described["n"], "weighted_n_samples": described["weight"]}
        importances = replace(tree, **counts).feature_importances(scale)
    elif tree is None and hasattr(model, "feature_importances_"):
        importances = np.asarray(model.feature_importances_, dtype=np.float64)
    return {
        "name": name,
        "kind": type(model).__name__,
        "parameters": _parameters(model),
        "tree": described,
        "importances": None if importances is None else _largest(importances),
    }


def _parameters(model: Any) -> dict[str, Any]:
    """An estimator's parameters; what is not plain is written as Python would."""
    if not hasattr(model, "get_params"):
        return {}
    plain = (bool, int, float, str, type(None))
    parameters = model.get_params(deep=False)
    return {
        key: value if isinstance(value, plain) and value == value else repr(value)
        for key, value in sorted(parameters.items())
    }


def _largest(importances: Floats) -> list[dict[str, Any]]:
    order = np.argsort(-importances, kind="stable")[:MAX_IMPORTANCES]
    return [{"feature": int(j), "share": float(importances[j])} for j in order if importances[j] > 0]


def _history(history: Any) -> dict[str, Any]:
    """Training curves: the numbers of each epoch, the name of the validation score, the epoch that was kept."""
    if history is not None and hasattr(history, "records"):
        kept = {"metric": history.metric, "best_epoch": history.best_epoch}
        return kept | {"epochs": [_numbers_of(asdict(record)) for record in history.records]}
    return {"metric": None, "best_epoch": None, "epochs": [_numbers_of(epoch) for epoch in history or ()]}


def _numbers_of(epoch: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers of one epoch of a training history."""
    kept = {}
    for key, value in epoch.items():
        if isinstance(value, (int, float, np.integer, np.floating)) and np.isfinite(value):
            kept[str(key)] = float(value)
    return kept


def _counted_at_training(tree: ObliqueTree | None, rows: HoldOut | None) -> bool:
    """Whether the tree counts as many rows at each node as pass it here: then it was trained on these."""
    if rows is None or tree is None or tree.n_samples is None or tree.n_leaves < 2:
        return False
    if rows.X.shape[0] != tree.n_samples[0]:
        return False
    here = np.asarray(tree.decision_path(rows.X).sum(axis=0)).ravel()
    return bool(np.array_equal(tree.n_samples, here))


def _page_column(column: Mapping[str, Any]) -> dict[str, Any]:
    """A column's recipe as far as the page can follow it: molecules are listed, not typed."""
    return {key: value for key, value in column.items() if key != "fingerprint"}


def _feature_drawings(entries: list[dict[str, Any]], draw: Draw) -> dict[str, str]:
    """Drawings of the most important features and of the strongest of each node, fullest nodes first."""
    wanted = [item["feature"] for entry in entries for item in entry["importances"] or ()]
    for tree in [entry["tree"] for entry in entries if entry["tree"] is not None]:
        offsets, strongest = tree["weights"]["offsets"], tree["weights"]["features"]
        for node in sorted(range(tree["n_splits"]), key=lambda node: -tree["n"][node] if tree["n"] else node):
            wanted += strongest[offsets[node] : min(offsets[node + 1], offsets[node] + DRAWN_PER_NODE)]
    drawings = {}
    for feature in list(dict.fromkeys(wanted))[:MAX_DRAWINGS]:
        svg = draw(feature)
        if svg:
            drawings[str(feature)] = svg
    return drawings
