"""Depth and drop rate by cross-validation; of molecules, how long to train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_regressor
from sklearn.metrics import log_loss, roc_auc_score, root_mean_squared_error
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

from treelu import estimators
from treelu.cli.interrupt import check_not_interrupted
from treelu.cli.messages import InputError, progress_bar, say, step
from treelu.cli.options import FitOptions
from treelu.cli.prepare import TableRows
from treelu.tables import Task
from treelu.training.selection import choose, compare, summarise
from treelu.tree.rows import take_rows

Fold = tuple[NDArray[np.int64], NDArray[np.int64]]  # training and testing rows
_METRICS = {"regression": "RMSE", "classification": "log-loss", "labels": "mean AUC"}
DEPTHS, DROP_RATES = (2, 4, 6, 8, 12), (0.1, 0.25, 0.5)


def tune(estimator: Any, rows: TableRows, task: Task, options: FitOptions, *, fixed: dict[str, Any]) -> Any:
    """The estimator with depth and drop rate chosen by cross-validation: the smallest tree within one standard error of
    the best. Parameters in `fixed` were given and are not searched.
    """
    depths = (fixed["depth"],) if "depth" in fixed else DEPTHS
    rates = (fixed["drop_connect"],) if "drop_connect" in fixed else DROP_RATES
    folds = options.model.folds
    parts = _parts(rows, task, folds, options.seed)
    settings = [{"depth": depth, "drop_connect": rate} for depth, rate in product(depths, rates)]
    losses = _losses(estimator, settings, parts, partial(fold_loss, rows=rows, task=task), options.quiet)
    mean_loss, std_error = summarise(losses)
    chosen = choose([setting["depth"] for setting in settings], mean_loss, std_error)
    best = settings[chosen]
    if not options.quiet:
        words = f"depth {best['depth']}, drop rate {best['drop_connect']:g}"
        say(f"tuned on {folds} folds: {words} ({_METRICS[task]} {abs(mean_loss[chosen]):.4f})")
    return with_setting(estimator, best)


def with_setting(estimator: Any, setting: dict[str, Any]) -> Any:
    """Set parameters of an estimator; those of an ensemble's members where it has none by that name."""
    known = estimator.get_params(deep=False)
    if "estimator" in known:
        pattern = "ALCNRegressor" if is_regressor(estimator) else "ALCNClassifier"
        member = getattr(estimators, pattern)() if estimator.estimator is None else clone(estimator.estimator)
        own = {name: value for name, value in setting.items() if name in known}
        rest = {name: value for name, value in setting.items() if name not in known}
        return estimator.set_params(**own, estimator=member.set_params(**rest))
    return estimator.set_params(**setting)


# How long to train on molecules: fingerprints have more columns than most tables have rows, and are soon overfitted.
MOLECULE_SETTINGS: tuple[dict[str, Any], ...] = tuple(
    {"depth": 12, "drop_connect": rate, "epochs": epochs, "training": {"batch_size": 64, "temper": False}}
    for epochs, rate in product((5, 10, 20, 40), (0.3, 0.75))
)
MOLECULE_FOLDS = 3


def wants_choice(rows: TableRows, given: dict[str, Any]) -> bool:
    """Whether rows are molecules and nothing was given of what `choose_for_molecules` sets."""
    return rows.names is not None and not {*MOLECULE_SETTINGS[0], "early_stopping"} & set(given)


def choose_for_molecules(estimator: Any, rows: TableRows, task: Task, options: FitOptions) -> Any:
    """The estimator, to be trained as long as does best on ring skeletons that it was not trained on.

    `rows` have their SMILES as names. Where there are too few molecules for folds the estimator stays as it was.
    """
    try:
        parts = _parts(rows, task, MOLECULE_FOLDS, options.seed)
    except InputError:
        return estimator
    settings = [setting | {"early_stopping": False} for setting in MOLECULE_SETTINGS]
    loss = partial(fold_loss, rows=rows, task=task, by_rank=True)
    losses, _ = summarise(_losses(estimator, settings, parts, loss, options.quiet))
    best = settings[int(losses.argmin())]
    if not options.quiet:
        score = f"{'AUC' if losses.min() < 0 else _METRICS[task]} {abs(losses.min()):.4f}"
        words = f"{best['epochs']} epochs and drop rate {best['drop_connect']:g}"
        say(f"{words}, chosen on ring skeletons held out ({score})")
    return estimator.set_params(**best)


def _losses(
    estimator: Any, settings: list[dict[str, Any]], parts: list[Fold], loss: Callable[..., float], quiet: bool
) -> list[list[float]]:
    """The loss of each candidate on each fold."""
    words = f"tuning: {len(settings)} settings × {len(parts)} folds"
    with step(words, quiet), progress_bar("tuning", len(settings) * len(parts), quiet) as advance:

        def trial(fold: Fold, places: Sequence[int]) -> list[float]:
            losses = [loss(with_setting(clone(estimator), settings[place]), fold) for place in places]
            check_not_interrupted()
            advance()
            return losses

        found = compare([[place] for place in range(len(settings))], parts, trial)
    return list(found.values())


def fold_loss(estimator: Any, fold: Fold, rows: TableRows, task: Task, *, by_rank: bool = False) -> float:
    """The loss to minimise on a fold: RMSE, log-loss (two classes `by_rank`: minus the AUC), minus labels' mean AUC."""
    training, testing = fold
    groups = None if rows.groups is None else rows.groups[training]
    estimator.fit(take_rows(rows.X, training), rows.y[training], groups=groups)
    X = take_rows(rows.X, testing)
    if task == "regression":
        return float(root_mean_squared_error(rows.y[testing], estimator.predict(X)))
    probabilities = estimator.predict_proba(X)
    if task == "classification" and by_rank and len(estimator.classes_) == 2:
        return -float(roc_auc_score(rows.y[testing] == estimator.classes_[1], probabilities[:, 1]))
    if task == "classification":
        return float(log_loss(rows.y[testing], probabilities, labels=estimator.classes_))
    areas = []
    for label, probability in zip(rows.y[testing].T, probabilities.T, strict=True):
        known = ~np.isnan(label)
        if _has_both(label):
            areas.append(roc_auc_score(label[known], probability[known]))
    return -float(np.mean(areas))


def _has_both(label: NDArray[np.float64]) -> bool:
    return len(set(label[~np.isnan(label)])) == 2


def _parts(rows: TableRows, task: Task, folds: int, seed: int) -> list[Fold]:
    """Training and testing rows of each fold; an error where there are too few."""
    least = len(rows)
    if task == "classification":
        least = int(np.unique(rows.y.astype(str), return_counts=True)[1].min())
    if least < folds:
        what = "the smallest class has" if task == "classification" else "there are"
        raise InputError(f"--tune with {folds} folds needs {folds} rows, but {what} {least}; use fewer --folds")
    parts = _folds(rows, task, folds, seed)
    if task == "labels":
        for training, testing in parts:
            if not all(map(_has_both, rows.y[training].T)) or not any(map(_has_both, rows.y[testing].T)):
                raise InputError("--tune: a label has one value only in a fold; use fewer --folds or drop that label")
    return parts


def _folds(rows: TableRows, task: Task, folds: int, seed: int) -> list[Fold]:
    """Folds at random; rows of a group are in one fold, or molecules with the same ring skeleton, where there are
    enough skeletons.
    """
    classes = rows.y if task == "classification" else None
    if rows.groups is not None:
        parts = _group_folds(rows.groups, classes, folds, seed)
        if parts is None:
            raise InputError(
                f"--tune with {folds} folds needs {folds} groups with rows of each class; use fewer --folds"
            )
        return parts
    if rows.names is not None:
        from treelu.chem import scaffold_groups

        parts = _group_folds(scaffold_groups(rows.names), classes, folds, seed)
        if parts is not None:
            return parts
    kind = StratifiedKFold if task == "classification" else KFold
    return list(kind(folds, shuffle=True, random_state=seed).split(np.zeros(len(rows)), classes))


def _group_folds(groups: NDArray[np.int64], classes: NDArray[Any] | None, folds: int, seed: int) -> list[Fold] | None:
    """Folds that keep groups together; None where there are too few groups, or a fold would lack a class."""
    if len(set(groups.tolist())) < folds:
        return None
    kind = GroupKFold if classes is None else StratifiedGroupKFold
    parts = list(kind(folds, shuffle=True, random_state=seed).split(np.zeros(len(groups)), classes, groups))
    if classes is not None and any(len(set(classes[testing])) < len(set(classes)) for _, testing in parts):
        return None
    return parts
