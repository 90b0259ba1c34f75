"""The methods of Table 2 with the paper's settings: a run in, its scores out."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import treelu
from experiments.baselines import HHCARTClassifier, HHCARTRegressor, TAOClassifier, TAORegressor
from experiments.data import Dataset
from experiments.members import DROP_CONNECT, PAPER, ensemble
from experiments.runs import Result, Run
from experiments.scores import Parts, Scores, better, outputs, part_scores, score
from treelu.nn import NeuronChain, Table
from treelu.nn.cpu.threads import limited
from treelu.training import EpochRecord, evaluate
from treelu.training.settings import nested

HIDDEN_WIDTH = 256  # of each hidden layer of g_φ
NETWORKS = ("lcn", "alcn", "lln")
_TREES: dict[str, dict[str, Any]] = {
    "cart": {"classification": DecisionTreeClassifier, "regression": DecisionTreeRegressor},
    "hhcart": {"classification": HHCARTClassifier, "regression": HHCARTRegressor},
    "tao": {"classification": TAOClassifier, "regression": TAORegressor},
    "rf": {"classification": RandomForestClassifier, "regression": RandomForestRegressor},
}
_BOOSTED: dict[str, dict[str, Any]] = {
    "gbdt": {"classification": GradientBoostingClassifier, "regression": GradientBoostingRegressor},
    "hist-gbdt": {"classification": HistGradientBoostingClassifier, "regression": HistGradientBoostingRegressor},
    "elcn": {"classification": treelu.ELCNClassifier, "regression": treelu.ELCNRegressor},
}


def execute(run: Run, dataset: Dataset) -> Result:
    """Fit and score one run.

    Returns
    -------
    dict
        ``config`` (the estimator and what it was given), ``scores`` of the ``best`` epoch, or size, on the validation
        part and of the ``last`` one, ``best_epoch``, ``last_epoch``, ``seconds`` by the clock and of the processor.
        Training that diverges is a result as well: without scores, with ``error``.
    """
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        with limited(1):
            result = _execute(run, dataset)
    except FloatingPointError as error:
        result = {"config": {}, "error": str(error), "scores": {}, "best_epoch": None, "last_epoch": None}
    seconds = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    return result | {name: round(value, 3) for name, value in seconds.items()}


def _execute(run: Run, dataset: Dataset) -> Result:
    from experiments import analyses

    family = run.method.partition("@")[0]  # "lcn@scaled" is LCN in another setting than the paper's
    if family in NETWORKS:
        return fit_network(run, dataset.task, dataset.parts(run.label))
    if family in _TREES:
        return fit_once(run, dataset.task, dataset.parts(run.label))
    if family in _BOOSTED:
        return fit_stages(run, dataset.task, dataset.parts(run.label))
    if family == "gcn":
        return analyses.fit_graphs(run, dataset)
    if family == "picture":
        return analyses.fit_picture(run, dataset)
    if family == "statistics":
        return analyses.statistics(dataset)
    if family == "ablation":
        return analyses.fit_ablation(run, dataset.task, dataset.parts(run.label))
    if family == "patterns":
        return analyses.fit_patterns(run, dataset.task, dataset.parts(run.label))
    raise ValueError(f"unknown method {run.method!r}")


def halves(epoch: int, epochs: int) -> float:
    """The paper's schedule for regression: × 0.1 after each half, 0.1^⌊e/30⌋ of 60 epochs."""
    return 0.1 ** (2 * epoch // epochs)


def network_settings(run: Run, task: str) -> dict[str, Any]:
    """The paper's training of LCN, ALCN and LLN (Appendix B), or what the run says instead.

    Everything is said, so that no default of the library enters. A method such as ``lcn@scaled`` is trained on scaled
    features and targets, by AMSGrad, straight through in the second half.
    """
    settings: dict[str, Any] = {"drop_connect": 0.0, "batch_size": 64, "annealing": 1.0, "straight_through": False}
    if "@" in run.method:
        settings |= {"optimizer": "amsgrad", "epochs": 60, "learning_rate": 0.01, "schedule": "cosine"}
        settings |= {"standardize": "auto", "annealing": 0.5, "straight_through": True}
    elif task == "classification":
        settings |= {"optimizer": "sgd", "epochs": 30, "learning_rate": 0.1, "schedule": "step"}
    else:
        settings |= {"optimizer": "sgd", "epochs": 60, "learning_rate": 1e-4, "schedule": halves}
        settings |= {"standardize": False}
    if task != "classification":
        settings |= {"smoothing": 0.0}
    settings |= run.setting
    if "hidden_layers" in settings:
        settings["hidden_layers"] = (HIDDEN_WIDTH,) * settings["hidden_layers"]
    return settings


def ensemble_settings(run: Run, task: str) -> dict[str, Any]:
    """The paper's ELCN (Appendix B), or what the run says instead; other ensembles get what the run says."""
    if run.method.partition("@")[0] != "elcn":
        return run.setting
    return PAPER | {"drop_connect": DROP_CONNECT[task]} | run.setting


def fit_network(run: Run, task: str, parts: Parts) -> Result:
    """LCN, ALCN or LLN: the best epoch by validation, and the last one, of one training."""
    family = run.method.partition("@")[0].upper()
    kind = getattr(treelu, f"{family}{'Classifier' if task == 'classification' else 'Regressor'}")
    settings = network_settings(run, task)
    last = LastEpoch(settings["epochs"])
    model = kind(**nested(settings), callbacks=[last], random_state=run.seed)
    model.fit(*parts["train"], eval_set=parts["valid"])
    return {
        "config": describe(kind, settings),
        "scores": {
            "best": part_scores(task, parts, outputs(model)),
            "last": part_scores(task, parts, lambda X: last.outputs(model, X)),
        },
        "best_epoch": model.history_.best_epoch,
        "last_epoch": len(model.history_),
    }


class LastEpoch:
    """A callback that keeps the network of the last epoch: `fit` itself keeps the best one by validation."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        self.network: NeuronChain | None = None

    def __call__(self, record: EpochRecord, network: NeuronChain) -> None:
        """Remember the network after the last epoch."""
        if record.epoch == self.epochs:
            self.network = copy.deepcopy(network)

    def outputs(self, model: Any, X: Any) -> np.ndarray:
        """The remembered network's outputs for raw rows; `model` knows how features and targets were scaled."""
        assert self.network is not None
        table = Table(model.scaling_.transform(X), np.float32)
        values = evaluate(self.network, table).astype(np.float64)[:, 0]
        if hasattr(model, "target_scaling_"):
            values = values * model.target_scaling_.scale + model.target_scaling_.center
        return values


def fit_once(run: Run, task: str, parts: Parts) -> Result:
    """A method without stages: trees of a given depth, random forests."""
    family = run.method.partition("@")[0]
    kind = _TREES[family][task]
    model = kind(**run.setting, **({} if family == "hhcart" else {"random_state": run.seed}))
    model.fit(*parts["train"])
    scores = part_scores(task, parts, outputs(model))
    return {
        "config": describe(kind, run.setting),
        "scores": {"best": scores, "last": scores},
        "best_epoch": None,
        "last_epoch": None,
    }


def fit_stages(run: Run, task: str, parts: Parts) -> Result:
    """A boosted ensemble, scored at sizes 1, 2, 4, …; the paper tunes the size on the validation part."""
    kind = _BOOSTED[run.method.partition("@")[0]][task]
    settings = ensemble_settings(run, task)
    made = partial(ensemble, task) if run.method.startswith("elcn") else lambda settings, **own: kind(**settings, **own)
    model = made(settings, random_state=run.seed)
    if kind is HistGradientBoostingClassifier or kind is HistGradientBoostingRegressor:
        parts = {part: (_dense(X), y) for part, (X, y) in parts.items()}
    model.fit(*parts["train"])
    stages: dict[int, Scores] = {}
    for part, (X, y) in parts.items():
        for size, values in enumerate(_staged(model, X, task), start=1):
            if size & (size - 1) == 0:
                stages.setdefault(size, {})[part] = score(task, y, values)
    best = min(stages)
    for size in sorted(stages):
        if better(task, stages[size]["valid"], stages[best]["valid"]):
            best = size
    return {
        "config": describe(kind, settings),
        "scores": {"best": stages[best], "last": stages[max(stages)]},
        "stages": {str(size): stages[size] for size in sorted(stages)},
        "best_epoch": best,
        "last_epoch": max(stages),
    }


def _staged(model: Any, X: Any, task: str) -> Iterator[np.ndarray]:
    if task == "regression":
        yield from model.staged_predict(X)
    else:
        for scores in model.staged_decision_function(X):
            yield scores.reshape(-1)


def _dense(X: Any) -> np.ndarray:
    return X.toarray().astype(np.float32) if hasattr(X, "toarray") else X


def describe(kind: type, settings: dict[str, Any]) -> dict[str, Any]:
    """The estimator and its settings as plain JSON types."""
    plain = {name: value.__name__ if callable(value) else value for name, value in settings.items()}
    return {"estimator": kind.__name__} | plain
