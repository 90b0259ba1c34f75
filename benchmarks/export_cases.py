"""Programs and rows to try exports with: random rows, rows on boundaries, missing values, unknown categories, dates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from treelu import ObliqueTreeClassifier
from treelu.export.columns import column_recipes
from treelu.export.program import Part, Program, output_names, tree_program
from treelu.tables.encoder import TableEncoder
from treelu.tree import ObliqueTree


@dataclass(frozen=True)
class Case:
    """A program, rows of its columns, and the features that treelu itself makes of them."""

    program: Program
    rows: list[list[Any]]
    X: np.ndarray

    @property
    def leaves(self) -> np.ndarray:
        """The leaf of each row in each tree, (n, n_trees)."""
        return np.column_stack([tree.apply(self.X) for tree in self.program.trees])


def balanced_tree(rng: np.random.Generator, n_features: int, n_terms: int = 5, depth: int = 4) -> ObliqueTree:
    """A tree of 2^depth leaves, whose value is their number, with questions of few terms.

    Half of the questions have short binary weights, so that rows can lie on them exactly.
    """
    n_splits = 2**depth - 1
    weights = np.zeros((n_splits, n_features))
    for node in range(n_splits):
        chosen = rng.choice(n_features, n_terms, replace=False)
        drawn = rng.standard_normal(n_terms)
        weights[node, chosen] = drawn if node % 2 else np.round(4 * drawn) / 4 + 0.25
    biases = np.where(np.arange(n_splits) % 2, 0.1 * rng.standard_normal(n_splits), rng.integers(-2, 3, n_splits) / 4)
    children = 1 + np.arange(2 * n_splits).reshape(n_splits, 2)
    values = np.arange(n_splits + 1.0)[:, None]
    return ObliqueTree(weights, biases, children, values)


def boundary_rows(rng: np.random.Generator, tree: ObliqueTree, X: np.ndarray) -> np.ndarray:
    """Rows moved onto the hyperplane of a question on their path, up to rounding; some on a grid, where they hit it."""
    X = X.copy()
    path = tree.decision_path(X)
    for row in range(len(X)):
        nodes = path.indices[path.indptr[row] : path.indptr[row + 1]]
        nodes = nodes[nodes < tree.n_splits]
        if not nodes.size:
            continue
        node = int(rng.choice(nodes))
        weights = tree.node_weights(node)
        if row % 2:
            X[row] = np.round(4 * X[row]) / 4
        largest = int(np.abs(weights).argmax())
        if weights[largest] != 0:
            X[row, largest] -= (weights @ X[row] + tree.biases[node]) / weights[largest]
    return X


def number_case(rng: np.random.Generator, n_rows: int, n_features: int = 20) -> Case:
    """16 leaves × 5 terms on numbers; half of the rows are random, half lie on boundaries."""
    tree = balanced_tree(rng, n_features)
    X = rng.standard_normal((n_rows, n_features))
    X[: n_rows // 2] = boundary_rows(rng, tree, X[: n_rows // 2])
    return Case(tree_program(tree), X.tolist(), X)


COLOURS = ("red", "green", "blue", "dark grey", "größer", "it's", 'say "so"', "back\\slash", "two\nlines", "--", "*/")


def table(rng: np.random.Generator, n_rows: int, *, known: bool) -> pd.DataFrame:
    """Numbers, texts and dates with missing values; unless `known`, with categories that training had not."""
    colours = np.array(
        [*COLOURS, None] if known else [*COLOURS, None, "", " red ", "\u3000blue\t", "violet", "RED"], object
    )
    days = np.datetime64("2015-01-01T00:00:00", "s") + rng.integers(0, 10 * 365 * 86_400, n_rows)
    when = pd.Series(days).dt.strftime("%Y-%m-%d %H:%M:%S").astype(object)
    when[rng.random(n_rows) < 0.1] = None
    sizes = ["s", "m", "l"] if known else ["s", "m", "l", "xl", None]
    return pd.DataFrame(
        {
            "height": np.where(rng.random(n_rows) < 0.2, np.nan, 10 * rng.standard_normal(n_rows)),
            "weight": np.round(50 + 20 * rng.standard_normal(n_rows), 1),
            "colour": colours[rng.integers(len(colours), size=n_rows)],
            "size": np.array(sizes, object)[rng.integers(len(sizes), size=n_rows)],
            "when": when,
        }
    )


def table_case(rng: np.random.Generator, n_rows: int) -> Case:
    """16 leaves × 5 terms on the encoded columns of a table."""
    encoder = TableEncoder.learn(table(rng, 500, known=True), note=lambda text: None, text=["colour"], max_categories=8)
    frame = table(rng, n_rows, known=False)
    if n_rows:
        frame.loc[0, "weight"] = np.nan
    X = encoder.encode(frame).X.to_numpy()
    tree = _scaled(balanced_tree(rng, X.shape[1]), X)
    frame["height"] = _onto_boundaries(rng, tree, X, n_rows // 2, absent=frame["height"].isna().to_numpy())
    X = encoder.encode(frame).X.to_numpy()
    columns, features = column_recipes(encoder)
    program = Program(columns, features, (Part((tree,), output_names(tree)),))
    cells = frame.astype(object).where(frame.notna(), None)
    return Case(program, cells[[column.name for column in columns]].to_numpy().tolist(), X)


def frame_case(rng: np.random.Generator, n_rows: int) -> tuple[Any, pd.DataFrame, Case]:
    """A small tree fitted to a data frame of numbers, texts and dates; rows of such a frame; and both as a case."""
    training = table(rng, 400, known=True)
    y = (training["height"].fillna(0) + 10 * (training["size"] == "s") + rng.normal(0, 3, 400) > 4).to_numpy()
    model = ObliqueTreeClassifier(max_leaf_nodes=4, teacher=None, missing="indicator", random_state=0)
    model.fit(training, np.where(y, "yes", "no"))
    frame = table(rng, n_rows, known=False)
    program = tree_program(model.tree_)
    cells = frame.astype(object).where(frame.notna(), None)
    rows = cells[[column.name for column in program.columns]].to_numpy().tolist()
    return model, frame, Case(program, rows, model.encoder_.features(frame))


def _onto_boundaries(
    rng: np.random.Generator, tree: ObliqueTree, X: np.ndarray, n_rows: int, absent: np.ndarray
) -> np.ndarray:
    """The first feature, in the first rows so that they lie on a question of their path, up to rounding."""
    values = np.where(absent, np.nan, X[:, 0])
    path = tree.decision_path(X)
    for row in np.flatnonzero(~absent[:n_rows]).tolist():
        nodes = path.indices[path.indptr[row] : path.indptr[row + 1]]
        asking = [node for node in nodes.tolist() if node < tree.n_splits and tree.node_weights(node)[0] != 0]
        if asking:
            weights = tree.node_weights(node := int(rng.choice(asking)))
            values[row] -= (weights @ X[row] + tree.biases[node]) / weights[0]
    return values


def _scaled(tree: ObliqueTree, X: np.ndarray) -> ObliqueTree:
    """The same questions about features in units of their spread."""
    spread = np.maximum(X.std(axis=0), 1e-3)
    weights = np.asarray(tree.weights) / spread
    return ObliqueTree(weights, tree.biases - weights @ X.mean(axis=0), tree.children, tree.values)
