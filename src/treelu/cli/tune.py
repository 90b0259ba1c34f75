"""Depth and drop rate by cross-validation."""

from __future__ import annotations

from inspect import signature
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import log_loss, roc_auc_score, root_mean_squared_error
from sklearn.model_selection import KFold, StratifiedKFold

from treelu.cli.interrupt import check_not_interrupted
from treelu.cli.messages import InputError, progress_bar, say
from treelu.cli.prepare import Rows
from treelu.estimators import LCNClassifierCV
from treelu.estimators.search import choose
from treelu.tables import Task

DEPTHS, DROP_RATES = (signature(LCNClassifierCV).parameters[name].default for name in ("depths", "drop_rates"))


def tune(estimator: Any, rows: Rows, task: Task, *, fixed: dict[str, Any], folds: int, seed: int, quiet: bool) -> Any:
    """The estimator with depth and drop rate chosen by cross-validation, as `LCNClassifierCV` would.

    That is, the smallest tree within one standard error of the best; but for any method, for labels too, and with a
    bar.

    Parameters
    ----------
    estimator : unfitted estimator
    rows : Rows
        Training rows.
    task : {"classification", "regression", "labels"}
    fixed : dict
        Parameters that were given and are not to be searched.
    folds : int
    seed : int
        Parts the rows.
    quiet : bool

    Returns
    -------
    estimator
        Unfitted.
    """
    depths = (fixed["depth"],) if "depth" in fixed else DEPTHS
    rates = (fixed["drop_connect"],) if "drop_connect" in fixed else DROP_RATES
    parts = _parts(rows, task, folds, seed)
    settings = [{"depth": depth, "drop_connect": rate} for depth, rate in product(depths, rates)]
    losses: list[list[float]] = []
    with progress_bar(f"tuning, {len(settings)} settings × {folds} folds", len(settings) * folds, quiet) as advance:
        for setting in settings:
            here = []
            for training, testing in parts:
                here.append(fold_loss(clone(estimator).set_params(**setting), rows, training, testing, task))
                check_not_interrupted()
                advance()
            losses.append(here)
    table = np.array(losses)
    results = {
        "depth": np.array([setting["depth"] for setting in settings]),
        "mean_loss": table.mean(axis=1),
        "std_error": table.std(axis=1, ddof=1) / np.sqrt(folds),
    }
    chosen = choose(results, one_standard_error=True)
    best = settings[chosen]
    if not quiet:
        words = f"depth {best['depth']}, drop rate {best['drop_connect']:g}"
        say(f"tuned on {folds} folds: {words} ({_metric(task)} {abs(table[chosen].mean()):.4f})")
    return estimator.set_params(**best)


def fold_loss(estimator: Any, rows: Rows, training: NDArray[np.int64], testing: NDArray[np.int64], task: Task) -> float:
    """What to minimise on one fold: RMSE, log-loss, or minus the mean AUC of labels."""
    X = rows.X.iloc if hasattr(rows.X, "iloc") else rows.X
    estimator.fit(X[training], rows.y[training])
    if task == "regression":
        return float(root_mean_squared_error(rows.y[testing], estimator.predict(X[testing])))
    chances = estimator.predict_proba(X[testing])
    if task == "classification":
        return float(log_loss(rows.y[testing], chances, labels=estimator.classes_))
    areas = []
    for label, chance in zip(rows.y[testing].T, chances.T, strict=True):
        known = ~np.isnan(label)
        if len(set(label[known])) == 2:
            areas.append(roc_auc_score(label[known], chance[known]))
    return -float(np.mean(areas))


def _parts(rows: Rows, task: Task, folds: int, seed: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Training and testing rows of each fold; an error where there are too few."""
    least = len(rows)
    if task == "classification":
        least = int(np.unique(rows.y.astype(str), return_counts=True)[1].min())
    if least < folds:
        what = "the smallest class has" if task == "classification" else "there are"
        raise InputError(f"--tune with {folds} folds needs {folds} rows, but {what} {least}; use fewer --folds")
    splitter = (StratifiedKFold if task == "classification" else KFold)(folds, shuffle=True, random_state=seed)
    parts = list(splitter.split(np.zeros(len(rows)), rows.y if task == "classification" else None))
    if task == "labels":
        for training, testing in parts:
            both = [len(set(column[~np.isnan(column)])) == 2 for column in rows.y[training].T]
            if not all(both) or not any(len(set(c[~np.isnan(c)])) == 2 for c in rows.y[testing].T):
                raise InputError("--tune: a label has one value only in a fold; use fewer --folds or drop that label")
    return parts


def _metric(task: Task) -> str:
    return {"regression": "RMSE", "classification": "log-loss", "labels": "mean AUC"}[task]
