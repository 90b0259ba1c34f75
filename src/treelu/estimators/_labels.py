"""Several 0/1 labels, of which some may be missing: an estimator for each, on one table and its scaling."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_consistent_length

from treelu.data.dataset import Dataset
from treelu.data.encoding import check_label_matrix, class_targets, weigh_classes
from treelu.data.folds import Folding
from treelu.data.reading import ClassEncoding, Reading
from treelu.data.rows import check_same_columns, check_weight, counted_rows, read_folding
from treelu.estimators._inputs import eval_rows
from treelu.estimators._rows import copy_columns, missing_of_numbers, read_rows
from treelu.nn import Table
from treelu.training.config import draw_seeds
from treelu.training.parallel import together


@dataclass(frozen=True)
class FittedLabels:
    """The fit of a classifier to several labels."""

    estimators: list[Any]  # one per label, each fitted to the rows where its label was observed
    reading: Reading  # how rows are read, alike for all labels


def fit_labels(estimator: Any, X: Any, y: Any, sample_weight: Any, eval_set: Any, groups: Any) -> FittedLabels:
    """An estimator for each label, on the rows where it is observed."""
    y = check_label_matrix(y)
    before = estimator.__dict__.get("fitted_") if getattr(estimator, "warm_start", False) else None
    names, shared = getattr(estimator, "feature_names_in_", None), estimator._shared()
    X = read_rows(estimator, X, first=True, missing=shared.missing, weight=sample_weight)
    check_consistent_length(X, y)
    weight = check_weight(sample_weight, X)
    rows = counted_rows(weight)
    folding = read_folding(estimator.cv, groups, X, y, rows, are_classes=False)
    if weight is not None and rows is not None:  # rows that do not count must not scale the others
        X, y, weight = X[rows], check_label_matrix(y[rows]), weight[rows]
    encoding = ClassEncoding(np.array([0, 1]), shared.class_weight)
    reading = Reading.learn(X, encoding, shared.standardize, missing_of_numbers(estimator, shared.missing))
    members = _members(estimator, y.shape[1], before if isinstance(before, FittedLabels) else None)
    if isinstance(before, FittedLabels):
        check_same_columns(before.reading, reading, names, getattr(estimator, "feature_names_in_", None))

    def read_validation(X: Any, y: Any) -> tuple[Table, NDArray[np.float64]]:
        y = check_label_matrix(y)
        if y.shape[1] != len(members):
            raise ValueError(f"y must have {len(members)} columns, got {y.shape[1]}")
        return reading.table(X), y

    table, validation = reading.table(X), eval_rows(estimator, eval_set, reading, read_validation)
    fits = []
    for label, member in enumerate(members):
        observed = np.flatnonzero(~np.isnan(y[:, label]))
        of_rows = None if weight is None else weight[observed]
        own = ClassEncoding.learn(y[observed, label], shared.class_weight, of_rows, encoding.classes)
        dataset = _label(table, y[:, label], own, weight, folding)
        valid = None if validation is None else _label(validation[0], validation[1][:, label], own)
        fits.append(partial(_fit, member, dataset, valid, replace(reading, encoding=own)))
    fitted = together(fits, estimator.n_jobs, lambda member: member.history_.ended == "interrupted")
    if len(fitted) < len(members):  # labels without a model cannot predict
        raise KeyboardInterrupt("fitting several labels was interrupted; none of them is kept")
    return FittedLabels(fitted, reading)


def _fit(member: Any, dataset: Dataset, validation: Dataset | None, reading: Reading) -> Any:
    start, seed = member.__dict__.get("fitted_"), draw_seeds(member.random_state, 1)[0]
    member.fitted_ = type(member)._fit(dataset, member._config(), reading, seed, validation=validation, start=start)
    return member


def _members(estimator: Any, n_labels: int, before: FittedLabels | None) -> list[Any]:
    """An estimator for each label: unfitted, or those fitted before."""
    if before is None:
        members = [clone(estimator) for _ in range(n_labels)]
    elif len(before.estimators) != n_labels:
        raise ValueError(
            f"warm_start=True continues {len(before.estimators)} labels, but y has {n_labels}; set warm_start=False"
        )
    else:
        members = [copy.copy(member) for member in before.estimators]
    parameters = estimator.get_params(deep=False)
    for member, seed in zip(members, draw_seeds(estimator.random_state, n_labels), strict=True):
        member.set_params(**{**parameters, "n_jobs": None, "random_state": seed})
        copy_columns(estimator, member)
    return members


def _label(
    table: Table,
    y: NDArray[np.float64],
    encoding: ClassEncoding,
    weight: NDArray[Any] | None = None,
    folding: Folding | None = None,
) -> Dataset:
    """The rows with an observed label."""
    observed = np.flatnonzero(~np.isnan(y))
    if encoding.class_weight is not None:
        of_observed = weigh_classes(encoding.class_weight, y[observed], None if weight is None else weight[observed])
        weight = np.ones(len(y)) if weight is None else weight.copy()
        weight[observed] = of_observed
    number = encoding.places[np.nan_to_num(y).astype(np.int64)]
    return Dataset(table, replace(class_targets(number, 2, weight), folding=folding), observed)
