"""What a report shows of predictions on hold-out rows: scores, curves, partial dependence, cautions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix

from treelu.report import cautions, curves, scores
from treelu.report.rows import Floats, HoldOut
from treelu.tree import ObliqueTree
from treelu.tree.names import shown_name

MAX_POINTS = 1500  # of a residual plot
MAX_CONFUSED = 20  # classes of a confusion matrix
Entries = list[dict[str, Any]]  # of the models on the page, the report's own first


class Scoring(NamedTuple):
    """The rows that are scored, the names of their features, and how a class is decided."""

    rows: HoldOut
    names: list[str]
    positive: int  # of two classes
    threshold: float
    random_state: int


def add_predictions(
    summary: dict[str, Any], models: Sequence[Any], given: Mapping[str, Any], scoring: Scoring
) -> list[str]:
    """Fill in what follows from predictions on the rows, or is given in their place; returns cautions."""
    rows, entries = scoring.rows, summary["models"]
    predictions = {
        entry["name"]: predict(entry["name"], model, rows.given, rows.classes)
        for entry, model in zip(entries, models, strict=True)
    }
    predictions_given = _given_predictions(given, list(predictions), rows)
    for entry in entries:
        entry["sample_predictions"] = predictions[entry["name"]][rows.samples].tolist()
    _add_dependence(entries[0], models[0], scoring)
    if rows.target is None:
        return []
    predictions |= predictions_given
    add = _add_values if rows.classes is None else _add_classes
    return cautions.one_leaf_caution(entries[0]["tree"]) + add(summary, predictions, scoring)


def _given_predictions(predictions: Mapping[str, Any], names: list[str], rows: HoldOut) -> dict[str, Floats]:
    """Predictions that were given, of the rows whose target is known."""
    shape = (rows.n_given,) if rows.classes is None else (rows.n_given, len(rows.classes))
    result = {}
    for name, values in predictions.items():
        array = np.asarray(values, dtype=np.float64)
        if name not in names:
            raise ValueError(f"predictions has {name!r}, but the models are {', '.join(names)}")
        if array.shape != shape:
            raise ValueError(f"predictions[{name!r}] must have shape {shape}, got {array.shape}")
        result[name] = array[rows.numbers]
    return result


def _add_values(summary: dict[str, Any], predictions: dict[str, Floats], scoring: Scoring) -> list[str]:
    """The scores of regression."""
    entries, rows = summary["models"], scoring.rows
    target = np.asarray(rows.target)
    baseline = {"the mean": np.full(len(target), target.mean())}
    result = scores.score_models(target, predictions | baseline, scores.REGRESSION, scoring.random_state, rows.groups)
    for entry in entries:
        prediction = predictions[entry["name"]]
        entry["points"] = _points(target, prediction, scoring.random_state)
        entry["calibration"] = curves.mean_by_prediction(target, prediction)
    _add_scores(summary, result, scores.REGRESSION, "the mean")
    strongest = _strongest(entries, scoring.names)
    return cautions.regression_cautions(target, predictions[entries[0]["name"]], strongest=strongest)


def _add_classes(summary: dict[str, Any], predictions: dict[str, Floats], scoring: Scoring) -> list[str]:
    """The scores of classification. Of two classes, the positive one is counted as the second within."""
    entries, rows, threshold = summary["models"], scoring.rows, scoring.threshold
    target, labels = np.asarray(rows.target), summary["classes"]
    two = len(labels) == 2
    shares = np.bincount(target, minlength=len(labels)) / len(target)
    likeliest = int(shares.argmax())
    if two and threshold != 0.5:  # a frequency is a probability too, which the threshold decides on
        likeliest = scoring.positive if shares[scoring.positive] >= threshold else 1 - scoring.positive
    always = f"always {shown_name(labels[likeliest])}"
    predictions = predictions | {always: np.tile(shares, (len(target), 1))}
    order = [1, 0] if two and scoring.positive == 0 else list(range(len(labels)))
    if order[0] == 1:
        target = 1 - target
        predictions = {name: probabilities[:, ::-1] for name, probabilities in predictions.items()}
        if threshold == 0.5:  # of two equal probabilities `predict` takes the first class, here the positive one
            threshold = scores.EVEN
    metrics = scores.classification_metrics(len(labels), threshold)
    result = scores.score_models(target, predictions, metrics, scoring.random_state, rows.groups)
    for entry in entries:
        probabilities = predictions[entry["name"]]
        entry["roc"] = _numbered(curves.roc_curves(target, probabilities), order)
        entry["precision_recall"] = _numbered(curves.precision_recall_curves(target, probabilities), order)
        entry["calibration"] = curves.reliability(target, probabilities)
        if two:
            entry["thresholds"] = curves.threshold_counts(target, probabilities[:, 1])
        elif len(labels) <= MAX_CONFUSED:  # observed classes down, predicted ones across
            decided = scores.decide(probabilities)
            entry["confusion"] = confusion_matrix(target, decided, labels=range(len(labels))).tolist()
    _add_scores(summary, result, metrics, always)
    found = cautions.classification_cautions(
        target,
        predictions[entries[0]["name"]],
        [labels[k] for k in order],
        threshold=threshold,
        weighted=bool(entries[0]["parameters"].get("class_weight")),
        strongest=_strongest(entries, scoring.names),
    )
    if entries[0]["tree"] is not None:
        found += cautions.leaf_cautions(entries[0]["tree"]["leaves"], labels, scoring.positive, threshold)
    return found


def _numbered(found: Entries, order: Sequence[int]) -> Entries:
    """Curves with the numbers that their classes have on the page."""
    return [curve | {"class": order[curve["class"]]} for curve in found]


def _add_scores(
    summary: dict[str, Any], result: dict[str, Any], metrics: Sequence[scores.PageMetric], baseline: str
) -> None:
    for entry in summary["models"]:
        entry["scores"] = result["scores"][entry["name"]]
        entry["lead"] = result["leads"].get(entry["name"])
    summary["metrics"] = [
        {"key": m.key, "name": m.name, "higher_is_better": m.higher_is_better, "about": m.about} for m in metrics
    ]
    summary["baseline"] = {
        "name": baseline, "scores": result["scores"][baseline], "lead": result["leads"][baseline]
    }  # fmt: skip
    summary["resamples"] = result["resamples"]


def _strongest(entries: Entries, names: list[str]) -> str | None:
    """The feature that takes part most in the report's own model."""
    largest = entries[0]["importances"]
    return names[largest[0]["feature"]] if largest else None


def _add_dependence(entry: dict[str, Any], model: Any, scoring: Scoring) -> None:
    """How the prediction of the report's own model changes with its strongest features."""
    rows = scoring.rows
    features = [item["feature"] for item in (entry["importances"] or ())[: curves.FEATURES]]
    if not features or rows.n_classes not in (None, 2):
        return

    def predict_rows(X: Any) -> Floats:
        if hasattr(rows.given, "columns") and not isinstance(model, ObliqueTree):
            X = type(rows.given)(X, columns=rows.given.columns)
        predicted = predict(entry["name"], model, X, rows.classes)
        return predicted if rows.classes is None else predicted[:, scoring.positive]

    entry["dependence"] = curves.partial_dependence(predict_rows, rows.X, features, random_state=scoring.random_state)


def predict(name: str, model: Any, X: Any, classes: NDArray[Any] | None) -> Floats:
    """Probabilities in the order of ``classes``, of shape (n, n_classes), or predicted values, of shape (n,)."""
    if classes is None:
        values = np.asarray(model.predict(X), dtype=np.float64)
        if values.ndim != 1:
            raise ValueError(f"{name} predicts {values.shape[1]} values per row; report on one output at a time")
        return values
    probability = np.asarray(model.predict_proba(X), dtype=np.float64)
    own = as_list(model.classes if isinstance(model, ObliqueTree) else model.classes_)
    result = np.zeros((probability.shape[0], len(classes)))
    for k, label in enumerate(classes.tolist()):
        if label in own:  # a baseline may not have met every class
            result[:, k] = probability[:, own.index(label)]
    return result


def as_list(labels: NDArray[Any] | None) -> list[Any]:
    return [] if labels is None else labels.tolist()


def _points(target: Floats, prediction: Floats, random_state: int) -> dict[str, list[float]]:
    """Predicted and observed values of some rows, for the residual plot."""
    chosen = np.random.default_rng(random_state).permutation(len(target))[:MAX_POINTS]
    return {"predicted": prediction[chosen].tolist(), "observed": target[chosen].tolist()}
