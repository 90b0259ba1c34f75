"""The parts of a stack that scikit-learn grows: a random forest and boosted trees, with out-of-fold predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from treelu.data.folds import Fold
from treelu.nn import Table
from treelu.training import Dataset
from treelu.training.forest import Forest, boosted_trees, random_forest
from treelu.training.stacking import Trees
from treelu.tree.rows import dense

# half of scikit-learn's rounds with steps of twice the size: as good in a stack, in less time
BOOSTING: dict[str, Any] = {"max_iter": 50, "learning_rate": 0.2}
OUT_OF_BAG = 0.37  # the share of a forest's trees for which a row is out of bag


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
    held_out = _Mean(len(sample), task.width)
    if folds is None:
        _add_out_of_bag(held_out, model, task)
    for inside, outside in [] if folds is None else _inside(folds, task, len(sample)):
        part = _forest(task, inside, max(1, round(OUT_OF_BAG * n_trees)), **settings)
        predicted = part.predict_proba(task.X[outside]) if task.is_classification else part.predict(task.X[outside])
        held_out.add(task.places[outside], _spread(predicted, part, task))
    forest = random_forest(model)
    forest = replace(forest, values=_spread(forest.values, model, task))
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


def _add_out_of_bag(held_out: _Mean, model: Any, task: _Task) -> None:
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
    held_out.add(task.places[known], _spread(predicted[known], model, task))


def grow_boosted(sample: Dataset, folds: Sequence[Fold], seed: int) -> Grown | None:
    """Boosted trees on the training rows of each fold, averaged, with out-of-fold predictions.

    None where no fold has two classes, or a value, to train on and rows to hold out.
    """
    task = _read(sample)
    X = dense(task.X)
    table, width = Table(X), sample.targets.n_outputs
    held_out = _Mean(len(sample), task.width)
    forests, constants = [], []
    for inside, outside in _inside(folds, task, len(sample)):
        forest, constant = _boost(task, X, inside, width, seed)
        part = Trees([forest], constant[None], False)
        forests.append(forest)
        constants.append(constant)
        held_out.add(task.places[outside], part.outputs(table, sample.targets.task, outside))
    return Grown(Trees(forests, np.array(constants)), held_out.values()) if forests else None


class _Mean:
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


def _spread(columns: NDArray[np.float64], model: Any, task: _Task) -> NDArray[np.float64]:
    """Values, or columns of the classes that were there in a table of all of them."""
    columns = columns.reshape(len(columns), -1)
    if not task.is_classification or columns.shape[1] == task.width:
        return columns
    whole = np.zeros((len(columns), task.width))
    whole[:, model.classes_] = columns
    return whole
