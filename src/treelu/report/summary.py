"""summarize: everything that a report shows, as one dict of plain JSON values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from treelu import __version__
from treelu.report import cautions, scores
from treelu.report.dependence import FEATURES, partial_dependence
from treelu.report.nodes import describe_tree
from treelu.report.rows import Floats, HoldOut, hold_out_rows, sample_rows, spread, typical
from treelu.tree import ObliqueTree
from treelu.tree.names import shown_name

if TYPE_CHECKING:
    from treelu.training import History

Draw = Callable[[int], str | None]
RowsAre = Literal["hold-out", "training", "given"]

FORMAT = 2  # of the dict; goes up when a key changes its meaning
MAX_IMPORTANCES = 40
MAX_POINTS = 1500  # of a residual plot
TRAINING_ROWS = "these are the training rows: the scores are too good; score rows that training did not see"
MAX_CONFUSED = 20  # classes of a confusion matrix
MAX_DRAWINGS = 240  # of features
DRAWN_PER_NODE = 6


def summarize(
    tree: ObliqueTree | None,
    *,
    X: Any = None,
    y: Any = None,
    estimator: Any = None,
    name: str | None = None,
    baselines: Mapping[str, Any] | None = None,
    history: History | Iterable[Mapping[str, Any]] | None = None,
    title: str = "Decision tree",
    target: str = "target",
    notes: Sequence[str] = (),
    warnings: Sequence[str] = (),
    rows_are: RowsAre | None = None,
    row_names: Sequence[str] | None = None,
    row_numbers: Sequence[int] | None = None,
    groups: Any = None,
    predictions: Mapping[str, Any] | None = None,
    scored: str | None = None,
    columns: Sequence[Mapping[str, Any]] | None = None,
    positive: int | None = None,
    threshold: float = 0.5,
    draw_feature: Draw | None = None,
    draw_row: Draw | None = None,
    max_weights: int = 2_000_000,
    max_rows: int = 200,
    random_state: int = 0,
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
        Models to stand beside it, such as ``{"CART": fit_cart(X_train, y_train, classifier=True)}``.
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
    models = _models(tree, estimator, name, baselines)
    classes = _classes(tree, estimator)
    rows = None
    if X is not None:
        rows = hold_out_rows(
            X, y, tree=tree, classes=classes, max_rows=max_rows, random_state=random_state,
            missing=getattr(estimator, "missing_values_", None),
        )  # fmt: skip
        n_given = X.shape[0] if hasattr(X, "shape") else len(X)
        if row_names is not None and len(row_names) != n_given:
            raise ValueError(f"row_names must have {n_given} names, one per row of X, got {len(row_names)}")
        if groups is not None:
            labels = np.asarray(groups)
            if labels.shape != (n_given,):
                raise ValueError(f"groups must have shape ({n_given},), one group per row of X, got {labels.shape}")
            rows = rows._replace(groups=np.unique(labels, return_inverse=True)[1][rows.numbers])
    elif y is not None:
        raise ValueError("y was given without X; give the rows that the targets belong to")

    if rows_are is None:
        rows_are = "training" if rows is not None and _counted_at_training(tree, rows) else "given"
    if positive is None:
        positive = 1
        if rows is not None and rows.target is not None and rows.n_classes == 2 and classes is not None:
            positive = scores.positive_class(classes, rows.target == 1)
    names = _feature_names(tree, estimator, rows)
    scale = np.ones(len(names)) if rows is None else spread(rows.X)
    if tree is not None and tree.spreads is not None:
        scale = tree.spreads
    usual = np.zeros(len(names)) if rows is None else typical(rows.X)
    entries = [_model_entry(key, model, shown, scale, rows, max_weights) for key, (model, shown) in models.items()]
    if estimator is not None:
        entries[0] |= {"kind": type(estimator).__name__, "parameters": _parameters(estimator)}
    summary: dict[str, Any] = {
        "format": FORMAT,
        "treelu": __version__,
        "title": title,
        "target": target,
        "notes": list(notes),
        "warnings": list(warnings),
        "rows_are": rows_are,
        "scored": scored,
        "columns": None if columns is None else [_page_column(column) for column in columns],
        "positive": positive,
        "threshold": threshold,
        "baseline": None,
        "classes": None if classes is None else [str(label) for label in classes],
        "n_rows": None if rows is None else len(rows.numbers),
        "features": {"names": names, "scale": scale.tolist(), "typical": usual.tolist(), "drawings": {}},
        "metrics": [],
        "resamples": 0,
        "models": entries,
        "history": _history(getattr(estimator, "history_", None) if history is None else history),
        "samples": [] if rows is None else sample_rows(rows, usual, classes, row_names, row_numbers, draw_row),
    }
    if rows is not None:
        predicting = [model for model, _ in models.values()]
        cut = (positive, threshold)
        given = _given_predictions(predictions or {}, entries, rows, n_given, classes)
        summary |= _add_predictions(entries, predicting, given, rows, classes, names, cut, random_state)
        found = summary.pop("cautions", [])
        if rows_are == "training":
            found.append(TRAINING_ROWS)
        summary["warnings"] += [line for line in found if line not in summary["warnings"]]
    if draw_feature is not None:
        summary["features"]["drawings"] = _feature_drawings(entries, draw_feature)
    return summary


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
        models[key] = (model, _tree_of(model, _classes(tree, estimator)))
    return models


def _tree_of(model: Any, classes: NDArray[Any] | None) -> ObliqueTree | None:
    """The tree of a baseline, where it is one and its leaves speak of the same classes."""
    tree = model if isinstance(model, ObliqueTree) else None
    if tree is None and hasattr(model, "tree_"):
        tree = ObliqueTree.from_sklearn(model)
    if tree is None or _list(tree.classes) != _list(classes):
        return None
    return tree


def _list(labels: NDArray[Any] | None) -> list[Any]:
    return [] if labels is None else labels.tolist()


def _classes(tree: ObliqueTree | None, estimator: Any) -> NDArray[Any] | None:
    classes = tree.classes if tree is not None else getattr(estimator, "classes_", None)
    return None if classes is None else np.asarray(classes)


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


def _given_predictions(
    predictions: Mapping[str, Any],
    entries: list[dict[str, Any]],
    rows: HoldOut,
    n_given: int,
    classes: NDArray[Any] | None,
) -> dict[str, Floats]:
    """Predictions that were given, of the rows whose target is known."""
    names = [entry["name"] for entry in entries]
    shape = (n_given,) if classes is None else (n_given, len(classes))
    result = {}
    for name, values in predictions.items():
        array = np.asarray(values, dtype=np.float64)
        if name not in names:
            raise ValueError(f"predictions has {name!r}, but the models are {', '.join(names)}")
        if array.shape != shape:
            raise ValueError(f"predictions[{name!r}] must have shape {shape}, got {array.shape}")
        result[name] = array[rows.numbers]
    return result


def _add_predictions(
    entries: list[dict[str, Any]],
    models: Sequence[Any],
    given: dict[str, Floats],
    rows: HoldOut,
    classes: NDArray[Any] | None,
    names: list[str],
    cut: tuple[int, float],
    random_state: int,
) -> dict[str, Any]:
    """Fill in what follows from predictions on the rows; returns the page's metrics, baseline and cautions."""
    predictions = {
        entry["name"]: predict(entry["name"], model, rows.given, classes)
        for entry, model in zip(entries, models, strict=True)
    }
    for entry in entries:
        entry["sample_predictions"] = predictions[entry["name"]][rows.samples].tolist()
    _add_dependence(entries[0], models[0], rows, classes, cut[0], random_state)
    if rows.target is None:
        return {}
    predictions |= given
    if classes is None:
        return _add_values(entries, predictions, rows.target, rows.groups, names, random_state)
    return _add_classes(entries, predictions, rows.target, rows.groups, classes, names, cut, random_state)


def _add_values(
    entries: list[dict[str, Any]],
    predictions: dict[str, Floats],
    target: Floats,
    groups: NDArray[np.int64] | None,
    names: list[str],
    random_state: int,
) -> dict[str, Any]:
    """The scores of regression."""
    baseline = {"the mean": np.full(len(target), target.mean())}
    result = scores.score_models(target, predictions | baseline, scores.REGRESSION, random_state, groups)
    for entry in entries:
        prediction = predictions[entry["name"]]
        entry["points"] = _points(target, prediction, random_state)
        entry["calibration"] = scores.mean_by_prediction(target, prediction)
    found = cautions.regression_cautions(target, predictions[entries[0]["name"]], strongest=_strongest(entries, names))
    return _scored(entries, result, scores.REGRESSION, "the mean") | {"cautions": found}


def _add_classes(
    entries: list[dict[str, Any]],
    predictions: dict[str, Floats],
    target: NDArray[np.int64],
    groups: NDArray[np.int64] | None,
    classes: NDArray[Any],
    names: list[str],
    cut: tuple[int, float],
    random_state: int,
) -> dict[str, Any]:
    """The scores of classification. Of two classes, the positive one is counted as the second within."""
    labels = [str(label) for label in classes]
    positive, threshold = cut
    flip = len(classes) == 2 and positive == 0
    shares = np.bincount(target, minlength=len(classes)) / len(target)
    always = f"always {shown_name(labels[int(shares.argmax())])}"
    predicted = predictions | {always: np.tile(shares, (len(target), 1))}
    if flip:
        target, labels = 1 - target, labels[::-1]
        predicted = {name: probabilities[:, ::-1] for name, probabilities in predicted.items()}
    metrics = scores.classification_metrics(len(classes), threshold)
    result = scores.score_models(target, predicted, metrics, random_state, groups)
    number = (lambda k: 1 - k) if flip else (lambda k: k)
    for entry in entries:
        probabilities = predicted[entry["name"]]
        entry["roc"] = [curve | {"class": number(curve["class"])} for curve in scores.roc_curves(target, probabilities)]
        curves = scores.precision_recall_curves(target, probabilities)
        entry["precision_recall"] = [curve | {"class": number(curve["class"])} for curve in curves]
        entry["calibration"] = scores.reliability(target, probabilities)
        if len(classes) == 2:
            entry["thresholds"] = scores.threshold_counts(target, probabilities[:, 1])
        elif len(classes) <= MAX_CONFUSED:
            entry["confusion"] = scores.confusion(target, scores.decide(probabilities), len(classes))
    found = cautions.classification_cautions(
        target,
        predicted[entries[0]["name"]],
        labels,
        threshold=threshold,
        weighted=bool(entries[0]["parameters"].get("class_weight")),
        strongest=_strongest(entries, names),
    )
    if entries[0]["tree"] is not None:
        shown = [str(label) for label in classes]
        found += cautions.leaf_cautions(entries[0]["tree"]["leaves"], shown, positive, threshold)
    return _scored(entries, result, metrics, always) | {"cautions": found}


def _scored(
    entries: list[dict[str, Any]], result: dict[str, Any], metrics: Sequence[scores.PageMetric], baseline: str
) -> dict[str, Any]:
    for entry in entries:
        entry["scores"] = result["scores"][entry["name"]]
        entry["lead"] = result["leads"].get(entry["name"])
    return {
        "metrics": [
            {"key": m.key, "name": m.name, "higher_is_better": m.higher_is_better, "about": m.about} for m in metrics
        ],
        "baseline": {"name": baseline, "scores": result["scores"][baseline], "lead": result["leads"][baseline]},
        "resamples": result["resamples"],
    }


def _strongest(entries: list[dict[str, Any]], names: list[str]) -> str | None:
    """The feature that takes part most in the report's own model."""
    largest = entries[0]["importances"]
    return names[largest[0]["feature"]] if largest else None


def _add_dependence(
    entry: dict[str, Any], model: Any, rows: HoldOut, classes: NDArray[Any] | None, positive: int, random_state: int
) -> None:
    """How the prediction of the report's own model changes with its strongest features."""
    features = [item["feature"] for item in (entry["importances"] or ())[:FEATURES]]
    k = positive if classes is not None and len(classes) == 2 else None
    if not features or (classes is not None and k is None):
        return

    def predict_rows(X: Any) -> Floats:
        if hasattr(rows.given, "columns") and not isinstance(model, ObliqueTree):
            X = type(rows.given)(X, columns=rows.given.columns)
        probabilities = predict(entry["name"], model, X, classes)
        return probabilities if k is None else probabilities[:, k]

    entry["dependence"] = partial_dependence(predict_rows, rows.X, features, random_state=random_state)


def _counted_at_training(tree: ObliqueTree | None, rows: HoldOut) -> bool:
    """Whether the tree counts as many rows at each node as pass it here: then it was trained on these."""
    if tree is None or tree.n_samples is None or tree.n_leaves < 2 or rows.X.shape[0] != tree.n_samples[0]:
        return False
    here = np.asarray(tree.decision_path(rows.X).sum(axis=0)).ravel()
    return bool(np.array_equal(tree.n_samples, here))


def _page_column(column: Mapping[str, Any]) -> dict[str, Any]:
    """A column's recipe as far as the page can follow it: molecules are listed, not typed."""
    return {key: value for key, value in column.items() if key != "fingerprint"}


def predict(name: str, model: Any, X: Any, classes: NDArray[Any] | None) -> Floats:
    """Probabilities in the order of ``classes``, of shape (n, n_classes), or predicted values, of shape (n,)."""
    if classes is None:
        values = np.asarray(model.predict(X), dtype=np.float64)
        if values.ndim != 1:
            raise ValueError(f"{name} predicts {values.shape[1]} values per row; report on one output at a time")
        return values
    probability = np.asarray(model.predict_proba(X), dtype=np.float64)
    own = _list(model.classes if isinstance(model, ObliqueTree) else model.classes_)
    result = np.zeros((probability.shape[0], len(classes)))
    for k, label in enumerate(classes.tolist()):
        if label in own:  # a baseline may not have met every class
            result[:, k] = probability[:, own.index(label)]
    return result


def _points(target: Floats, prediction: Floats, random_state: int) -> dict[str, list[float]]:
    """Predicted and observed values of some rows, for the residual plot."""
    chosen = np.random.default_rng(random_state).permutation(len(target))[:MAX_POINTS]
    return {"predicted": prediction[chosen].tolist(), "observed": target[chosen].tolist()}


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
