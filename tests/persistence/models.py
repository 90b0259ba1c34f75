"""Small fitted models of every kind, and rows to try them on."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from experiments import baselines
from treelu import estimators
from treelu.persistence.table_model import TableModel
from treelu.tables import TableEncoder
from treelu.tree import ObliqueTree

ROWS = np.random.default_rng(0).normal(size=(40, 3))
SCORE = ROWS @ np.array([1.0, -2.0, 0.5])
CLASSES = np.digitize(SCORE, [-1.0, 1.0])
WORDS = np.array(["low", "middle", "high"])[CLASSES]
LABELS = np.column_stack([SCORE > 0, ROWS[:, 0] > 0.2]).astype(float)
LABELS[::5, 0] = np.nan
SMILES = ["CCO", "CCN", "CCCO", "c1ccccc1N", "CC(=O)O"]
SMALL: dict[str, Any] = {"depth": 2, "epochs": 2, "random_state": 0}


def table_model() -> TableModel:
    """A model of a table with numbers, a missing value and text."""
    encoded = TableEncoder.learn(frame(), note=lambda text: None).encode(frame())
    estimator = estimators.LCNClassifier(**SMALL).fit(encoded, SCORE > 0)
    tree = replace(estimator.tree_, columns=None)
    return TableModel(estimator, ("y",), (tree,), ({"CART": tree},), ("a note",))


def frame() -> pd.DataFrame:
    """A table of the rows."""
    size = ROWS[:, 0].copy()
    size[3] = np.nan
    return pd.DataFrame({"size": size, "word": WORDS})


def every_model() -> dict[str, Any]:
    """One fitted model or more of each kind that can be saved."""
    named = pd.DataFrame(ROWS, columns=["a", "b", "ü <c>"])
    two = np.column_stack([SCORE, SCORE**2])
    ensemble: dict[str, Any] = {"n_estimators": 2, "combine": "average", "random_state": 0}
    return {
        "lcn_two_classes": estimators.LCNClassifier(**SMALL).fit(named, SCORE > 0),
        "lcn_words": estimators.LCNClassifier(**SMALL, training={"negative_slope": 0.1}).fit(ROWS, WORDS),
        "lcn_labels": estimators.LCNClassifier(**SMALL).fit(ROWS, LABELS),
        "lcn_hidden": estimators.LCNRegressor(**SMALL, hidden_layers=(3, 2)).fit(ROWS, SCORE),
        "lcn_sparse": estimators.LCNRegressor(**SMALL).fit(sparse.csr_array(ROWS), SCORE),
        "lcn_deep": estimators.LCNRegressor(depth=70, epochs=1, random_state=0).fit(ROWS, SCORE),
        "alcn": estimators.ALCNClassifier(**SMALL, class_weight={0: 1, 1: 2.5, 2: 1}).fit(ROWS, CLASSES),
        "alcn_values": estimators.ALCNRegressor(**SMALL).fit(ROWS, SCORE),
        "lln": estimators.LLNClassifier(**SMALL).fit(ROWS, CLASSES),
        "lln_two_values": estimators.LLNRegressor(**SMALL).fit(ROWS, two),
        "elcn": estimators.ELCNClassifier(
            estimators.LCNClassifier(**SMALL), **{**ensemble, "combine": "boost"}, feature_fraction=0.7
        ).fit(ROWS, CLASSES),
        "elcn_labels": estimators.ELCNClassifier(estimators.ALCNClassifier(**SMALL), **ensemble).fit(ROWS, LABELS),
        "elcn_values": estimators.ELCNRegressor(estimators.ALCNRegressor(**SMALL), **ensemble).fit(ROWS, two),
        "hhcart": baselines.HHCARTClassifier(max_depth=2).fit(ROWS, WORDS),
        "hhcart_values": baselines.HHCARTRegressor(max_depth=2).fit(ROWS, two),
        "tao": baselines.TAOClassifier(max_depth=2, random_state=0).fit(ROWS, CLASSES),
        "tao_values": baselines.TAORegressor(max_depth=2, random_state=0).fit(ROWS, SCORE),
        "small": estimators.ObliqueTreeClassifier(max_leaf_nodes=4, n_updates=20, random_state=0).fit(named, WORDS),
        "small_values": estimators.ObliqueTreeRegressor(max_leaf_nodes=4, n_updates=20, random_state=0).fit(ROWS, two),
        **fitted_in_other_ways(),
        **stacks(),
        **graph_networks(),
        "tree": ObliqueTree([[1.0, 0, -2], [0, 3, 0]], [0.5, -1], [[1, 2], [3, 4]], [[0.1], [1], [2]]),
        "tree_sparse": ObliqueTree(
            sparse.csr_array([[1.0, 0, -2]]), [0.5], [[1, 2]], [[0.2, 0.8], [1, 0]], link="probability",
            classes=np.array(["no", "yes"]), feature_names=("a", "b", "c"), n_samples=[3, 1, 2], notes=("pruned",),
        ),
        "tree_one_leaf": ObliqueTree(np.zeros((0, 3)), [], np.zeros((0, 2), int), [[4.0]]),
        "tree_linear": ObliqueTree([[1.0, 0, 0]], [0], [[1, 2]], [[0], [1]], leaf_weights=np.ones((2, 1, 3))),
        "table": table_model(),
    }  # fmt: skip


def fitted_in_other_ways() -> dict[str, Any]:
    """Models with leaf corrections, tempered probabilities, gaps, chosen drop rates and few features."""
    gaps = ROWS.copy()
    gaps[::4, 1] = np.nan
    more, twice = np.tile(ROWS, (2, 1)), np.tile(SCORE, 2)
    held_out = (ROWS[::3] + 0.1, WORDS[::3])
    return {
        "lcn_refined": estimators.LCNClassifier(**SMALL, training={"refine_leaves": True}).fit(ROWS, WORDS),
        "lln_refined": estimators.LLNRegressor(**SMALL, training={"refine_leaves": 3.0}).fit(ROWS, SCORE),
        "lcn_tempered": estimators.LCNClassifier(**SMALL, training={"refine_leaves": True}).fit(
            ROWS, WORDS, eval_set=held_out
        ),
        "lcn_stopped": estimators.LCNClassifier(**SMALL, early_stopping=1).fit(ROWS, SCORE > 0),
        "lcn_gaps": estimators.LCNClassifier(**SMALL, missing="indicator").fit(gaps, CLASSES),
        "lcn_label_gaps": estimators.LCNClassifier(**SMALL, missing="indicator").fit(gaps, LABELS),
        "lcn_auto": estimators.LCNRegressor(**SMALL, drop_connect="auto").fit(more, twice),
        "lcn_few": estimators.LCNRegressor(**SMALL, max_tree_features=2).fit(ROWS, SCORE),
        "elcn_vote": estimators.ELCNClassifier(
            estimators.LCNClassifier(**SMALL), n_estimators=2, combine="average", bootstrap=True, random_state=0
        ).fit(ROWS, WORDS),
        "elcn_boost": estimators.ELCNRegressor(
            estimators.LCNRegressor(**SMALL), n_estimators=2, combine="boost", random_state=0
        ).fit(ROWS, SCORE),
    }


def stacks() -> dict[str, Any]:
    """Networks and trees, weighted: for two classes, more, labels, one value and two, and rows with gaps."""
    few: dict[str, Any] = {"n_estimators": 4, "n_trees": 20, "random_state": 0}
    gaps = ROWS.copy()
    gaps[::4, 1] = np.nan
    filled = estimators.ALCNClassifier(**SMALL, missing="indicator")
    two = np.column_stack([SCORE, SCORE**2])
    return {
        "stack": estimators.StackedClassifier(**few).fit(pd.DataFrame(ROWS, columns=["a", "b", "c"]), SCORE > 0),
        "stack_words": estimators.StackedClassifier(estimators.LCNClassifier(**SMALL), **few).fit(ROWS, WORDS),
        "stack_labels": estimators.StackedClassifier(**few, feature_fraction=0.7).fit(ROWS, LABELS),
        "stack_gaps": estimators.StackedClassifier(filled, **few).fit(gaps, SCORE > 0),
        "stack_values": estimators.StackedRegressor(**few).fit(ROWS, two),
    }


def graph_networks() -> dict[str, Any]:
    """Small graph networks, each for another kind of target."""
    small: dict[str, Any] = {"filters": (4, 3), "dense": 5, "epochs": 1, "random_state": 0}
    labels = np.array([[0, 1], [1, 0], [np.nan, 1], [1, 1], [0, 0]])
    return {
        "gcn": baselines.GCNClassifier(**small).fit(SMILES, ["a", "b", "a", "b", "c"]),
        "gcn_labels": baselines.GCNClassifier(**small).fit(SMILES, labels),
        "gcn_values": baselines.GCNRegressor(**small).fit(SMILES, [1.0, 2, 3, 4, 5]),
    }


def outputs(model: Any) -> list[np.ndarray]:
    """Everything that a model predicts for the rows."""
    rows: Any = ROWS
    if type(model).__name__.startswith("GCN"):  # without importing torch
        rows = SMILES
    elif isinstance(model, TableModel):
        model, rows = model.estimator, frame()
    elif (names := getattr(model, "feature_names_in_", None)) is not None:
        rows = pd.DataFrame(ROWS, columns=names)
    results = [np.asarray(model.predict(rows))]
    if hasattr(model, "predict_proba") and (not isinstance(model, ObliqueTree) or model.is_classifier):
        results.append(model.predict_proba(rows))
    return results
