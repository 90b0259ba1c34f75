"""Other oblique trees, held to a number of leaves and of terms; what is not installed is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def obliquetree(task: Any, budget: Any, seed: int) -> Any:
    """Its tree has a depth and a number of terms; classes are numbered from 0."""
    from obliquetree import Classifier, Regressor

    terms = min(budget.terms or task.X.shape[1], task.X.shape[1])
    kind = Classifier if task.is_classifier else Regressor
    model = kind(use_oblique=terms > 1, max_depth=budget.depth, n_pair=max(2, terms), random_state=seed)
    return Numbered(model) if task.is_classifier else model


def stree(task: Any, budget: Any, seed: int) -> Any:
    """Support vector machines at the nodes; the root counts as a level."""
    from stree import Stree

    return make_pipeline(StandardScaler(), Stree(max_depth=budget.depth + 1, random_state=seed))


def ydf(task: Any, budget: Any, seed: int) -> Any:
    """Sparse oblique splits, grown best first, without a part held out for pruning."""
    return SparseOblique(task, budget, seed)


class Numbered:
    """Classes as numbers from 0, for a model that needs them so."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        """Fit to the classes' numbers."""
        self.classes_, numbers = np.unique(y, return_inverse=True)
        self.model.fit(X, numbers)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The classes."""
        return self.classes_[np.asarray(self.model.predict(X)).astype(int)]


class SparseOblique:
    """YDF's CART learner with sparse oblique splits as an estimator."""

    def __init__(self, task: Any, budget: Any, seed: int) -> None:
        import ydf

        settings: dict[str, Any] = {
            "label": "target",
            "task": ydf.Task.CLASSIFICATION if task.is_classifier else ydf.Task.REGRESSION,
            "split_axis": "SPARSE_OBLIQUE",
            "growing_strategy": "BEST_FIRST_GLOBAL",
            "max_num_nodes": budget.leaves,  # YDF counts the leaves
            "max_depth": -1,
            "min_examples": 1,
            "validation_ratio": 0.0,
            "random_seed": seed,
            "num_threads": 1,
        }
        if budget.terms is not None:
            settings["sparse_oblique_max_num_features"] = budget.terms
        self.is_classifier = task.is_classifier
        self.learner = ydf.CartLearner(**settings)

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        """Train on named columns."""
        table = self._frame(X)
        self.classes_ = np.unique(y)
        table["target"] = np.searchsorted(self.classes_, y).astype(str) if self.is_classifier else y
        self.model = self.learner.train(table, verbose=0)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The most probable class, or the value."""
        found = np.asarray(self.model.predict(self._frame(X)))
        if not self.is_classifier:
            return found
        if found.ndim == 1:
            found = np.column_stack([1 - found, found])
        order = [int(name) for name in self.model.label_classes()]
        return self.classes_[np.array(order)[found.argmax(axis=1)]]

    @property
    def n_leaves(self) -> int:
        """Leaves of the one tree."""
        return sum(not hasattr(node, "neg_child") for node in _nodes(self.model.get_tree(0).root))

    @staticmethod
    def _frame(X: np.ndarray) -> pd.DataFrame:
        return pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in ("neg_child", "pos_child"):
        if hasattr(node, child):
            yield from _nodes(getattr(node, child))


_ALL: dict[str, tuple[str, Callable[[Any, Any, int], Any]]] = {
    "obliquetree": ("obliquetree", obliquetree),
    "STree": ("stree", stree),
    "YDF": ("ydf", ydf),
}
PEERS = {name: make for name, (package, make) in _ALL.items() if find_spec(package) is not None}
