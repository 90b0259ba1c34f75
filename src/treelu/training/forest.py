"""Forests of trees with one feature a split, as arrays; grown by scikit-learn, with out-of-fold predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from treelu.data.dataset import Dataset, row_blocks
from treelu.data.folds import Fold
from treelu.data.scaling import Scaling
from treelu.data.targets import Task, predictions, reordered_scores
from treelu.kernels import compiled
from treelu.nn import Rows, Table
from treelu.nn.cpu.threads import n_threads, share_out
from treelu.tree.from_sklearn import first_right
from treelu.tree.rows import dense

BLOCK_ENTRIES = 2**22  # numbers of sparse rows that are made dense at once
FEW_ROWS = 256  # not worth a thread
# half of scikit-learn's rounds with steps of twice the size: as good in a stack, in less time
BOOSTING: dict[str, Any] = {"max_iter": 50, "learning_rate": 0.2}
OUT_OF_BAG = 0.37  # the share of a forest's trees for which a row is out of bag


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees whose splits are "is feature j at least t?"; its scores are the sum of the trees' leaf values.

    Examples
    --------
    >>> forest = Forest(
    ...     np.array([0]), np.array([0.5]), np.array([[-1, -2]]), np.array([0, -3]), np.array([[1.0], [2.0], [10.0]]), 1
    ... )
    >>> forest.scores(Table(np.array([[0.0], [0.5]])))
    array([[11.],
           [12.]])
    """

    features: NDArray[np.int64]  # (n_splits,), the splits of all trees one after the other
    thresholds: NDArray[np.float64]  # (n_splits,), a row goes right where its value is at least this
    children: NDArray[np.int64]  # (n_splits, 2), left and right: a split, later than its parent, or ~leaf
    roots: NDArray[np.int64]  # (n_trees,), where each tree begins: a split, or ~leaf of a tree that is one leaf
    values: NDArray[np.float64]  # (n_leaves, n_outputs)
    n_features: int

    def scores(self, table: Table, index: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """The sums of the trees' values (n, n_outputs) for the rows `index`, or all."""
        at_once = max(FEW_ROWS, BLOCK_ENTRIES // max(1, self.n_features))
        parts = [self._block_scores(rows) for rows in row_blocks(table, index, at_once)]
        return np.concatenate(parts) if parts else np.zeros((0, self.values.shape[1]))

    def _block_scores(self, rows: Rows) -> NDArray[np.float64]:
        X = np.ascontiguousarray(rows.to_dense(), np.float64)
        total = np.zeros((len(X), self.values.shape[1]))
        arrays = self.features, self.thresholds, self.children, self.roots, self.values
        n_parts = max(1, min(n_threads(), len(X) // FEW_ROWS))
        share_out(partial(compiled.add_leaf_values, X, *arrays, total), len(X), n_parts)
        return total

    def on_raw_features(self, scaling: Scaling, factor: NDArray[np.float64] | float = 1.0) -> Forest:
        """The same forest on raw features, where this one reads scaled ones; values are multiplied by `factor`."""
        thresholds = self.thresholds
        if not scaling.is_identity:
            thresholds = scaling.center[self.features] + scaling.scale[self.features] * thresholds
        return replace(self, thresholds=thresholds, values=self.values * factor)

    @classmethod
    def joined(cls, forests: Sequence[Forest]) -> Forest:
        """One forest with all the trees of several.

        Examples
        --------
        >>> leaf = Forest(np.zeros(0, int), np.zeros(0), np.zeros((0, 2), int), np.array([-1]), np.array([[2.0]]), 3)
        >>> Forest.joined([leaf, leaf]).scores(Table(np.zeros((1, 3))))
        array([[4.]])
        """
        if len(forests) == 1:
            return forests[0]
        n_splits = np.cumsum([0, *(len(forest.features) for forest in forests)])
        n_leaves = np.cumsum([0, *(len(forest.values) for forest in forests)])

        def moved(codes: NDArray[np.int64], place: int) -> NDArray[np.int64]:
            return np.where(codes < 0, codes - n_leaves[place], codes + n_splits[place])

        return cls(
            np.concatenate([forest.features for forest in forests]),
            np.concatenate([forest.thresholds for forest in forests]),
            np.concatenate([moved(forest.children, place) for place, forest in enumerate(forests)]),
            np.concatenate([moved(forest.roots, place) for place, forest in enumerate(forests)]),
            np.concatenate([forest.values for forest in forests]),
            forests[0].n_features,
        )


def _tree(
    left: NDArray[Any],
    right: NDArray[Any],
    is_leaf: NDArray[np.bool_],
    features: NDArray[Any],
    thresholds: NDArray[np.float64],
    values: NDArray[np.float64],
    n_features: int,
) -> Forest:
    """A forest of one tree, given by its nodes, parents before children; at leaves only `values` count."""
    splits = np.flatnonzero(~is_leaf)
    code = np.empty(len(is_leaf), np.int64)  # how a node is named in `children`
    code[splits] = np.arange(len(splits))
    code[is_leaf] = ~np.arange(len(code) - len(splits))
    children = np.column_stack([code[left[splits]], code[right[splits]]])
    return Forest(
        features[splits].astype(np.int64), thresholds[splits], children, code[:1], values[is_leaf], n_features
    )


def random_forest(model: Any) -> Forest:
    """A fitted RandomForestClassifier (probabilities) or RandomForestRegressor; its scores are their mean.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RandomForestClassifier(10, random_state=0).fit(X, y)
    >>> bool(np.allclose(random_forest(model).scores(Table(X)), model.predict_proba(X)))
    True
    """
    is_classifier, trees = hasattr(model, "classes_"), []
    for tree in (estimator.tree_ for estimator in model.estimators_):
        values = (tree.value[:, 0, :] if is_classifier else tree.value[:, :, 0]) / len(model.estimators_)
        left, thresholds = tree.children_left, first_right(tree.threshold)
        trees.append(_tree(left, tree.children_right, left < 0, tree.feature, thresholds, values, model.n_features_in_))
    return Forest.joined(trees)


def boosted_trees(model: Any, output: int = 0, n_outputs: int = 1) -> Forest:
    """A fitted HistGradientBoostingClassifier or …Regressor without its constant: the sum of its raw scores.

    `output` tells which of several outputs a regressor is for.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = HistGradientBoostingClassifier(max_iter=5).fit(X, y)
    >>> scores = boosted_trees(model, n_outputs=3).scores(Table(X)) + model._baseline_prediction
    >>> bool(np.allclose(scores, model.decision_function(X)))
    True
    """
    trees = []
    for iteration in model._predictors:
        for number, predictor in enumerate(iteration):
            nodes = predictor.nodes
            values = np.zeros((len(nodes), n_outputs))
            values[:, output + number] = nodes["value"]
            thresholds = np.nextafter(nodes["num_threshold"], np.inf)  # it goes left up to its threshold
            sides, is_leaf = (nodes["left"], nodes["right"]), nodes["is_leaf"].astype(bool)
            trees.append(_tree(*sides, is_leaf, nodes["feature_idx"], thresholds, values, model.n_features_in_))
    return Forest.joined(trees)


@dataclass(frozen=True)
class Trees:
    """A part made of trees: the mean over forests, of which each was fitted to other rows."""

    forests: list[Forest]
    constants: NDArray[np.float64]  # (n_forests, n_outputs), added to the forests' scores
    are_chances: bool = False  # whether the forests' scores are probabilities, rather than raw scores or values

    def outputs(self, table: Table, task: Task, index: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Probabilities (n, classes), or values (n, L), of raw rows."""
        parts = []
        for forest, constant in zip(self.forests, self.constants, strict=True):
            scores = forest.scores(table, index) + constant
            parts.append(scores if self.are_chances else predictions(scores, task))
        return np.mean(parts, axis=0)

    def reordered(self, places: NDArray[np.int64]) -> Trees:
        """The same where class k takes the scores of class `places[k]`."""
        forests = [replace(forest, values=reordered_scores(forest.values, places)) for forest in self.forests]
        return replace(self, forests=forests, constants=reordered_scores(self.constants, places))

    def on_raw(self, scaling: Scaling, target: Scaling) -> Trees:
        """The same on raw features and, in regression, in the units of raw targets; these read scaled ones."""
        if self.are_chances or target.is_identity:
            forests = [forest.on_raw_features(scaling) for forest in self.forests]
            return replace(self, forests=forests)
        forests = [forest.on_raw_features(scaling, target.scale) for forest in self.forests]
        return replace(self, forests=forests, constants=self.constants * target.scale + target.center)


# Growing


class Grown(NamedTuple):
    """Trees fitted to a sample, and their out-of-fold outputs for its rows; NaN where there are none."""

    trees: Trees
    held_out: NDArray[np.float64]


class _Task(NamedTuple):
    """The rows of a sample that count, as scikit-learn takes them."""

    X: Any
    y: NDArray[Any]  # class numbers, or (n, L) values
    weight: NDArray[np.float64] | None
    places: NDArray[np.int64]  # of these rows in the sample
    width: int  # classes, or L
    is_classification: bool


def grow_forest(
    sample: Dataset, n_trees: int, seed: int, n_jobs: int | None, folds: Sequence[Fold] | None = None
) -> Grown:
    """A random forest with its out-of-bag predictions.

    With `folds`, smaller forests predict these out of fold instead.
    """
    task = _read(sample)
    settings: dict[str, Any] = {"random_state": seed % 2**32, "n_jobs": n_jobs}
    every = np.arange(len(task.places))
    model = _forest(task, every, n_trees, oob_score=folds is None, **settings)
    held_out = RowMeans(len(sample), task.width)
    if folds is None:
        _add_out_of_bag(held_out, model, task)
    for inside, outside in [] if folds is None else _inside(folds, task, len(sample)):
        part = _forest(task, inside, max(1, round(OUT_OF_BAG * n_trees)), **settings)
        predicted = part.predict_proba(task.X[outside]) if task.is_classification else part.predict(task.X[outside])
        held_out.add(task.places[outside], _all_classes(predicted, part, task))
    forest = random_forest(model)
    forest = replace(forest, values=_all_classes(forest.values, model, task))
    return Grown(Trees([forest], np.zeros((1, task.width)), task.is_classification), held_out.values())


def _forest(task: _Task, rows: NDArray[np.int64], n_trees: int, **settings: Any) -> Any:
    """scikit-learn's forest of some rows."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    weight, y = None if task.weight is None else task.weight[rows], task.y[rows]
    X = task.X if len(rows) == len(task.places) else task.X[rows]
    if task.is_classification:
        return RandomForestClassifier(n_trees, **settings).fit(X, y, weight)
    y = y[:, 0] if task.width == 1 else y
    return RandomForestRegressor(n_trees, max_features=1 / 3, **settings).fit(X, y, weight)


def _add_out_of_bag(held_out: RowMeans, model: Any, task: _Task) -> None:
    """Add the out-of-bag predictions; rows in the bag of every tree have none."""
    if task.is_classification:
        predicted = model.oob_decision_function_
        known = predicted.sum(axis=1) > 0.5
    else:
        n_rows = len(task.y)
        predicted = model.oob_prediction_.reshape(n_rows, -1)
        known = predicted.any(axis=1)
        if not known.all():  # 0 is predicted, or the row is in the bag of all of a few trees
            known |= np.any([np.bincount(drawn, minlength=n_rows) == 0 for drawn in model.estimators_samples_], axis=0)
    held_out.add(task.places[known], _all_classes(predicted[known], model, task))


def grow_boosted(sample: Dataset, folds: Sequence[Fold], seed: int) -> Grown | None:
    """Boosted trees on the training rows of each fold, averaged, with out-of-fold predictions.

    None where no fold has two classes, or a value, to train on and rows to hold out.
    """
    task = _read(sample)
    X = dense(task.X)
    table, width = Table(X), sample.targets.n_outputs
    held_out = RowMeans(len(sample), task.width)
    forests, constants = [], []
    for inside, outside in _inside(folds, task, len(sample)):
        forest, constant = _boost(task, X, inside, width, seed)
        part = Trees([forest], constant[None], False)
        forests.append(forest)
        constants.append(constant)
        held_out.add(task.places[outside], part.outputs(table, sample.targets.task, outside))
    return Grown(Trees(forests, np.array(constants)), held_out.values()) if forests else None


class RowMeans:
    """The mean of what was predicted of each row, NaN where nothing was: folds may overlap."""

    def __init__(self, n_rows: int, width: int) -> None:
        self.total, self.count = np.zeros((n_rows, width)), np.zeros(n_rows, np.int64)

    def add(self, rows: NDArray[np.int64], predicted: NDArray[np.float64]) -> None:
        self.total[rows] += predicted
        self.count[rows] += 1

    def values(self) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore"):
            return self.total / self.count[:, None]


def _inside(folds: Sequence[Fold], task: _Task, n_rows: int) -> list[Fold]:
    """Folds of a sample as places among the rows of a task; those that can be trained on, and have rows held out."""
    place = np.full(n_rows, -1)
    place[task.places] = np.arange(len(task.places))
    parts = ((place[train][place[train] >= 0], place[test][place[test] >= 0]) for train, test in folds)
    least = 2 if task.is_classification else 1
    return [(train, test) for train, test in parts if len(np.unique(task.y[train])) >= least and len(test)]


def _boost(
    task: _Task, X: NDArray[Any], inside: NDArray[np.int64], width: int, seed: int
) -> tuple[Forest, NDArray[np.float64]]:
    """Boosted trees on some rows, and the constant that they begin with."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    weight = None if task.weight is None else task.weight[inside]
    with threadpool_limits(1, user_api="openmp"):  # the number of threads must not decide the last digits
        if task.is_classification:
            model = HistGradientBoostingClassifier(**BOOSTING, random_state=seed % 2**32)
            model.fit(X[inside], task.y[inside], weight)
            return boosted_trees(model, n_outputs=width), model._baseline_prediction.reshape(-1)
        models = [
            HistGradientBoostingRegressor(**BOOSTING, random_state=seed % 2**32).fit(
                X[inside], task.y[inside, output], weight
            )
            for output in range(width)
        ]
    forests = [boosted_trees(model, output, width) for output, model in enumerate(models)]
    return Forest.joined(forests), np.array([float(model._baseline_prediction.item()) for model in models])


def _read(sample: Dataset) -> _Task:
    """The rows of positive weight."""
    targets, rows = sample.targets, sample.rows
    weight = None if targets.weight is None else targets.weight[rows].astype(np.float64)
    places = np.arange(len(rows)) if weight is None else np.flatnonzero(weight > 0)
    X = _matrix(sample.table, None if len(places) == sample.table.shape[0] else rows[places])
    y = targets.y[rows[places]]
    is_classification = targets.task != "regression"
    y = y.reshape(-1).astype(np.int64) if is_classification else y.astype(np.float64)
    return _Task(X, y, None if weight is None else weight[places], places, targets.n_columns, is_classification)


def _matrix(table: Table, index: NDArray[np.int64] | None) -> Any:
    """Rows of a table as scikit-learn takes them."""
    if not table.is_sparse:
        whole = table.values.reshape(table.shape)
        return whole if index is None else whole[index]
    csr = sparse.csr_matrix((table.values, table.features, table.starts), shape=table.shape)
    return csr if index is None else csr[index]


def _all_classes(columns: NDArray[np.float64], model: Any, task: _Task) -> NDArray[np.float64]:
    """Values, or columns of the classes that were there in a table of all of them."""
    columns = columns.reshape(len(columns), -1)
    if not task.is_classification or columns.shape[1] == task.width:
        return columns
    whole = np.zeros((len(columns), task.width))
    whole[:, model.classes_] = columns
    return whole
