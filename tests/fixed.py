"""Estimators that are given trees, of tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from treelu import ObliqueTreeClassifier, ObliqueTreeRegressor
from treelu.tables import TableEncoder
from treelu.tree import ObliqueTree


def fixed_tree(tree: ObliqueTree, encoder: TableEncoder) -> Any:
    """An estimator as one that was fitted to a table, of a given tree on the encoder's features."""
    model: Any = ObliqueTreeClassifier() if tree.is_classifier else ObliqueTreeRegressor()
    model.encoder_, model.n_features_in_ = encoder, len(encoder.columns)
    model.feature_names_in_, model.tree_ = encoder.names, replace(tree, columns=encoder)
    if tree.is_classifier:
        model.classes_ = tree.classes
    return model


def predicted(model: Any, frame: Any) -> Any:
    """The predictions of a model of a table, by its threshold where it has one."""
    return model.predictions(model.encoder.encode(frame))["prediction"]
