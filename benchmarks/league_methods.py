"""The methods of the league, each with its defaults; what is not installed is left out."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from benchmarks.size_peers import Numbered, SparseOblique
from treelu import (
    ELCNClassifier,
    ELCNRegressor,
    LCNClassifier,
    LCNRegressor,
    LLNClassifier,
    LLNRegressor,
    ObliqueTreeClassifier,
    ObliqueTreeRegressor,
    StackedClassifier,
    StackedRegressor,
)
from treelu.data.targets import Targets, predictions
from treelu.training.calibration import log_frequencies
from treelu.training.forest import BOOSTING
from treelu.training.stacking import combined, find_weights

SIZES = {"max_leaf_nodes": [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256]}
FEW = {"max_terms": 1, "selection": "best"}


class Method(NamedTuple):
    """How an estimator is made, `make(is_classifier, seed)`; its group; what it is for; the package that it needs."""

    make: Callable[[bool, int], Any]
    group: str
    kinds: tuple[str, ...] = ("classes", "values")
    package: str | None = None
    tables: tuple[str, ...] = ()  # only these


def small(**parameters: Any) -> Callable[[bool, int], Any]:
    """Our small tree."""

    def make(is_classifier: bool, seed: int) -> Any:
        kind: Any = ObliqueTreeClassifier if is_classifier else ObliqueTreeRegressor
        return kind(**parameters, random_state=seed, n_jobs=1)

    return make


def ours(classifier: Any, regressor: Any) -> Callable[[bool, int], Any]:
    """One of our estimators without arguments."""
    return lambda is_classifier, seed: (classifier if is_classifier else regressor)(random_state=seed)


def cart(is_classifier: bool, seed: int) -> Any:
    """scikit-learn's tree, its number of leaves chosen by log-loss or squared error over five folds."""
    if is_classifier:
        return GridSearchCV(DecisionTreeClassifier(random_state=seed), SIZES, scoring="neg_log_loss", cv=_folds(True))
    tree = DecisionTreeRegressor(random_state=seed)
    return GridSearchCV(tree, SIZES, scoring="neg_mean_squared_error", cv=_folds(False))


def cart_by_accuracy(is_classifier: bool, seed: int) -> Any:
    """The same, chosen by accuracy."""
    return GridSearchCV(DecisionTreeClassifier(random_state=seed), SIZES, scoring="accuracy", cv=_folds(True))


def _folds(is_classifier: bool) -> Any:
    return (StratifiedKFold if is_classifier else KFold)(5, shuffle=True, random_state=0)


def linear(is_classifier: bool, seed: int) -> Any:
    """Logistic regression with its penalty chosen by log-loss, or ridge regression, of standardised features."""
    if not is_classifier:
        return make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 15)))
    model = LogisticRegressionCV(scoring="neg_log_loss", l1_ratios=(0,), use_legacy_attributes=False, random_state=seed)
    return make_pipeline(StandardScaler(), model)


def few_leaves(leaves: int) -> Callable[[bool, int], Any]:
    """scikit-learn's tree of so many leaves."""
    return lambda is_classifier, seed: DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=seed)


def optimal(depth: int) -> Callable[[bool, int], Any]:
    """The tree of a depth that misses the fewest training rows."""

    def make(is_classifier: bool, seed: int) -> Any:
        from pycontree import ConTree

        return NumberedTree(ConTree(max_depth=depth, time_limit=60))

    return make


class NumberedTree(Numbered):
    """ConTree, which takes classes as numbers from 0."""

    @property
    def best_estimator_(self) -> Any:
        """The tree, to be counted."""
        return self.model


def ebm(is_classifier: bool, seed: int) -> Any:
    """Explainable boosting: a sum of step functions of single features and of pairs."""
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    kind: Any = ExplainableBoostingClassifier if is_classifier else ExplainableBoostingRegressor
    return kind(n_jobs=1, random_state=seed)


def cubist(is_classifier: bool, seed: int) -> Any:
    """Rules with linear formulas."""
    from cubist import Cubist

    return Cubist(random_state=seed)


def stree(is_classifier: bool, seed: int) -> Any:
    """Support vector machines at the nodes."""
    from stree import Stree

    return make_pipeline(StandardScaler(), Stree(random_state=seed))


def ydf(is_classifier: bool, seed: int) -> Any:
    """YDF's single tree, pruned on a tenth of the rows."""
    return OneTree(is_classifier, seed)


class OneTree(SparseOblique):
    """YDF's CART learner with its defaults."""

    def __init__(self, is_classifier: bool, seed: int) -> None:
        import ydf

        task = ydf.Task.CLASSIFICATION if is_classifier else ydf.Task.REGRESSION
        self.is_classifier = is_classifier
        self.learner = ydf.CartLearner(label="target", task=task, random_seed=seed, num_threads=1)
        if is_classifier:
            self.predict_proba = self._probabilities

    def _probabilities(self, X: np.ndarray) -> np.ndarray:
        found = np.asarray(self.model.predict(self._frame(X)))
        if found.ndim == 1:
            found = np.column_stack([1 - found, found])
        p = np.zeros((len(X), len(self.classes_)))
        p[:, [int(name) for name in self.model.label_classes()]] = found
        return p


def forest(is_classifier: bool, seed: int) -> Any:
    """500 trees."""
    return (RandomForestClassifier if is_classifier else RandomForestRegressor)(500, random_state=seed)


def lightgbm(is_classifier: bool, seed: int) -> Any:
    """LightGBM."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    return (LGBMClassifier if is_classifier else LGBMRegressor)(random_state=seed, n_jobs=1, verbose=-1)


def catboost(is_classifier: bool, seed: int) -> Any:
    """CatBoost."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    kind: Any = CatBoostClassifier if is_classifier else CatBoostRegressor
    return kind(random_seed=seed, thread_count=1, verbose=0, allow_writing_files=False)


def pytabkit(name: str) -> Callable[[bool, int], Any]:
    """A network of pytabkit with its tuned defaults."""

    def make(is_classifier: bool, seed: int) -> Any:
        import pytabkit

        kind = getattr(pytabkit, f"{name}_{'Classifier' if is_classifier else 'Regressor'}")
        return kind(device="cpu", n_threads=1, random_state=seed, verbosity=0)

    return make


class TreeStack:
    """The stack without its networks: its forest, scored out of bag, and its boosted trees, scored out of fold."""

    def __init__(self, is_classifier: bool, seed: int) -> None:
        self.is_classifier, self.seed = is_classifier, seed
        if is_classifier:
            self.predict_proba = self._outputs

    def fit(self, X: np.ndarray, y: np.ndarray) -> TreeStack:
        """Fit both and weight them by their predictions of rows that they have not seen."""
        every = np.arange(len(y))
        if self.is_classifier:
            self.classes_, y = np.unique(y, return_inverse=True)
            self.task = "binary" if len(self.classes_) == 2 else "multiclass"
            targets = Targets(
                self.task, y[:, None].astype(float) if self.task == "binary" else y,
                1 if self.task == "binary" else len(self.classes_),
            )  # fmt: skip
            self.constant = log_frequencies(targets, every)
        else:
            self.task, targets, self.constant = "regression", Targets("regression", y[:, None], 1), np.array([y.mean()])
        kind: Any = RandomForestClassifier if self.is_classifier else RandomForestRegressor
        share = {} if self.is_classifier else {"max_features": 1 / 3}
        model = kind(200, oob_score=True, random_state=self.seed, **share).fit(X, y)
        held_out = [model.oob_decision_function_ if self.is_classifier else model.oob_prediction_[:, None]]
        self.parts = [[model]]
        if self.task != "multiclass":
            self.parts.append(self._boost(X, y, held_out))
        self.weights = find_weights(held_out, targets, every, self.constant)
        return self

    def _boost(self, X: np.ndarray, y: np.ndarray, held_out: list[np.ndarray]) -> list[Any]:
        models, predicted = [], np.zeros_like(held_out[0])
        kind: Any = HistGradientBoostingClassifier if self.is_classifier else HistGradientBoostingRegressor
        for train, test in _folds(self.is_classifier).split(X, y):
            models.append(kind(**BOOSTING, random_state=self.seed).fit(X[train], y[train]))
            predicted[test] = self._part([models[-1]], X[test])
        held_out.append(predicted)
        return models

    def _part(self, models: list[Any], X: np.ndarray) -> np.ndarray:
        found = [model.predict_proba(X) if self.is_classifier else model.predict(X)[:, None] for model in models]
        return np.mean(found, axis=0)

    def _outputs(self, X: np.ndarray) -> np.ndarray:
        parts = [self._part(models, X) for models in self.parts]
        return predictions(combined(parts, self.weights, self.constant, self.task), self.task)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The most probable class, or the value."""
        found = self._outputs(X)
        return self.classes_[found.argmax(axis=1)] if self.is_classifier else found[:, 0]


CLASSES, VALUES = ("classes",), ("values",)
_ALL = {
    "small tree": Method(small(), "readable"),
    "small tree, constant leaves": Method(small(leaves="constant"), "readable"),
    "CART": Method(cart, "readable"),
    "CART by accuracy": Method(cart_by_accuracy, "readable", CLASSES),
    "linear": Method(linear, "readable"),
    "EBM": Method(ebm, "readable", package="interpret"),
    "Cubist": Method(cubist, "readable", VALUES, "cubist"),
    "YDF tree": Method(ydf, "readable", package="ydf"),
    "STree": Method(stree, "readable", CLASSES, "stree"),
    "LCN": Method(ours(LCNClassifier, LCNRegressor), "large"),
    "LLN": Method(ours(LLNClassifier, LLNRegressor), "large"),
    "stack": Method(ours(StackedClassifier, StackedRegressor), "ensemble"),
    "stack without networks": Method(TreeStack, "ensemble"),
    "ELCN": Method(ours(ELCNClassifier, ELCNRegressor), "ensemble"),
    "forest": Method(forest, "ensemble"),
    "LightGBM": Method(lightgbm, "ensemble", package="lightgbm"),
    "CatBoost": Method(catboost, "ensemble", package="catboost"),
    "RealMLP": Method(pytabkit("RealMLP_TD"), "ensemble", package="pytabkit"),
    "TabM": Method(pytabkit("TabM_D"), "ensemble", package="pytabkit"),
    **{
        f"{name}, {leaves} leaves": Method(make, "one term", CLASSES, package)
        for leaves in (4, 8)
        for name, make, package in (
            ("one term", small(**FEW, max_leaf_nodes=leaves, leaves="constant"), None),
            ("CART", few_leaves(leaves), None),
            ("ConTree", optimal(leaves.bit_length() - 1), "pycontree"),
        )
    },
    "sixteen leaves": Method(small(max_leaf_nodes=16, selection="best", leaves="constant"), "size"),
    "literature, default": Method(small(), "literature", tables=("abalone",)),
    "literature, linear leaves": Method(small(leaves="linear"), "literature", VALUES),
    "literature, 8 leaves": Method(small(max_leaf_nodes=8, selection="best"), "literature", tables=("satimage",)),
    "literature, 32 leaves": Method(
        small(max_leaf_nodes=32, selection="best"), "literature", tables=("pendigits", "connect_4")
    ),
}
METHODS = {name: method for name, method in _ALL.items() if method.package is None or find_spec(method.package)}
