"""The parts of a stack that scikit-learn grows: a random forest and boosted trees, with what they say of rows they
have not seen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from treelu.nn import Table
from treelu.training import Dataset
from treelu.training.forest import Forest, boosted_trees, random_forest
from treelu.training.stacking import Trees
from treelu.tree.rows import dense

# half of scikit-learn's rounds with steps of twice the size: as good in a stack, in less time
BOOSTING: dict[str, Any] = {"max_iter": 50, "learning_rate": 0.2}


class Grown(NamedTuple):
    """Trees on the features and targets of a sample, and their outputs for its rows; NaN where they saw a row."""

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


def grow_forest(sample: Dataset, n_trees: int, seed: int, n_jobs: int | None) -> Grown:
    """A random forest; out of bag it costs no more fits to know what it says of rows it has not seen."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    task = _read(sample)
    settings: dict[str, Any] = {"oob_score": True, "random_state": seed % 2**32, "n_jobs": n_jobs}
    held_out = np.full((len(sample), task.width), np.nan)
    if task.is_classification:
        model = RandomForestClassifier(n_trees, **settings).fit(task.X, task.y, task.weight)
        known = model.oob_decision_function_.sum(axis=1) > 0.5
        held_out[task.places[known]] = _spread(model.oob_decision_function_[known], model.classes_, task.width)
        forest = random_forest(model)
        forest = replace(forest, values=_spread(forest.values, model.classes_, task.width))
    else:
        y = task.y[:, 0] if task.width == 1 else task.y
        model = RandomForestRegressor(n_trees, max_features=1 / 3, **settings).fit(task.X, y, task.weight)
        said = model.oob_prediction_.reshape(len(y), -1)
        known = said.any(axis=1)
        if not known.all():  # 0 is said, or all of a few trees have seen the row
            known |= np.any([np.bincount(drawn, minlength=len(y)) == 0 for drawn in model.estimators_samples_], axis=0)
        held_out[task.places[known]] = said[known]
        forest = random_forest(model)
    return Grown(Trees([forest], np.zeros((1, task.width)), task.is_classification), held_out)


def grow_boosted(sample: Dataset, folds: NDArray[np.int64], n_folds: int, seed: int) -> Grown:
    """Boosted trees on the rows outside each fold, averaged; each says something of its fold."""
    task = _read(sample)
    X = dense(task.X)
    table, width = Table(X), sample.targets.n_outputs
    held_out = np.full((len(sample), task.width), np.nan)
    forests, constants = [], []
    for fold in range(n_folds):
        inside, outside = (np.flatnonzero((folds[task.places] == fold) == side) for side in (False, True))
        if not len(outside):
            continue
        forest, constant = _boost(task, X, inside, width, seed)
        part = Trees([forest], constant[None], False)
        forests.append(forest)
        constants.append(constant)
        held_out[task.places[outside]] = part.outputs(table, sample.targets.task, outside)
    return Grown(Trees(forests, np.array(constants)), held_out)


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


def _spread(columns: NDArray[np.float64], classes: NDArray[np.int64], width: int) -> NDArray[np.float64]:
    """Columns of the classes that were there, in a table of all of them."""
    if len(classes) == width:
        return columns
    whole = np.zeros((len(columns), width))
    whole[:, classes] = columns
    return whole
