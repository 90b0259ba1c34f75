"""Runs behind Tables 1 and 3 and Figures 2 and 3, and the graph network: what needs more than fit and score."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

import treelu
from experiments.data import Dataset
from experiments.methods import network_settings
from experiments.patterns import pattern_analysis
from experiments.runs import Result, Run
from experiments.scores import Parts, Scores, outputs, part_scores, score
from treelu.data import dataset as rows_of
from treelu.data.targets import Targets
from treelu.nn import Activation, LocallyConstantNetwork, Table
from treelu.training import KernelStepper, batches, evaluate, learning_rate_factor, run_epoch
from treelu.training.settings import nested

_LEARNING_RATE, _EPOCHS, _BATCH = 0.1, 30, 64
_TOP = 3  # bits drawn at each node of Figure 3


def fit_ablation(run: Run, task: str, parts: Parts) -> Result:
    """Figure 2a: an LCN with or without annealing, its scores after each epoch.

    As `LCNClassifier` trains with the paper's settings, but for the annealing parameter λ, which stays 1 where the
    run's setting says ``annealing=False``.
    """
    setting = dict(run.setting)
    annealed = setting.pop("annealing")
    network = LocallyConstantNetwork(
        parts["train"][0].shape[1],
        setting["depth"],
        1,
        activation=Activation("relu"),
        drop_connect=setting["drop_connect"],
        dtype=np.float32,
        seed=run.seed,
    )
    tables = {part: Table(X, np.float32) for part, (X, _) in parts.items()}
    y = parts["train"][1].astype(np.float32)[:, None]
    sample = rows_of.Dataset(tables["train"], Targets("binary", y, 1))
    stepper = KernelStepper(network, sample, "sgd")
    rng = np.random.default_rng(run.seed)
    stream = batches(sample, _BATCH, rng)
    curve: list[Scores] = []
    for epoch in range(1, _EPOCHS + 1):
        rate = _LEARNING_RATE * learning_rate_factor("step", epoch, _EPOCHS)
        annealing = epoch / _EPOCHS if annealed else 1.0
        loss = run_epoch(stepper, stream, -(-len(sample) // _BATCH), annealing, rate, rng)
        now = {part: score(task, parts[part][1], evaluate(network, table)) for part, table in tables.items()}
        curve.append({**now, "loss": round(loss, 6)})
    best = int(np.argmax([point["valid"] for point in curve]))
    return {
        "config": {"estimator": "LocallyConstantNetwork", "epochs": _EPOCHS, "learning_rate": _LEARNING_RATE},
        "scores": {"best": _parts_of(curve[best]), "last": _parts_of(curve[-1])},
        "curve": curve,
        "best_epoch": best + 1,
        "last_epoch": _EPOCHS,
    }


def _parts_of(point: Scores) -> Scores:
    return {part: point[part] for part in ("train", "valid", "test")}


def fit_patterns(run: Run, task: str, parts: Parts) -> Result:
    """Table 3: decision patterns of an LCN, trained to the last epoch, in the training and the test part."""
    settings = network_settings(run, task)
    model = treelu.LCNClassifier(**nested(settings | {"temper": False}), random_state=run.seed)
    model.fit(*parts["train"])
    patterns = {part: model.network_.activation_pattern(Table(X, np.float64).rows()) for part, (X, _) in parts.items()}
    X_test, y_test = parts["test"]
    analysis = pattern_analysis(
        patterns["train"],
        patterns["test"],
        n_possible=2 ** run.setting["depth"],
        y_test=y_test,
        score_test=model.decision_function(X_test),
    )
    scores = part_scores(task, parts, model.decision_function)
    return {
        "config": {"estimator": "LCNClassifier", **settings},
        "scores": {"best": scores, "last": scores},
        "patterns": {name: None if value != value else value for name, value in asdict(analysis).items()},
        "best_epoch": len(model.history_),
        "last_epoch": len(model.history_),
    }


def fit_graphs(run: Run, dataset: Dataset) -> Result:
    """The graph network, which reads molecules instead of fingerprints; the best epoch by validation.

    A run of the label ``all`` fits one network to all labels; its scores are their means, ``by_label`` has each.
    """
    from experiments.baselines import GCNClassifier, GCNRegressor

    if dataset.smiles is None:
        raise ValueError(f"the table of {dataset.name} has no molecules for a graph network")
    kind = GCNClassifier if dataset.task == "classification" else GCNRegressor
    model = kind(**run.setting, random_state=run.seed)
    result: Result = {"config": {"estimator": kind.__name__, **run.setting}}
    if run.label == "all":
        several = {part: (dataset.smiles[rows], dataset.Y[rows]) for part, rows in dataset.split.items()}
        model.fit(*several["train"], eval_set=several["valid"])
        result["by_label"] = _label_scores(dataset, {part: model.predict_proba(X) for part, (X, _) in several.items()})
        each = result["by_label"].values()
        result["scores"] = {"best": {part: float(np.mean([scores[part] for scores in each])) for part in several}}
    else:
        y = dataset.Y[:, dataset.labels.index(run.label)]
        one = {part: (dataset.smiles[rows], dataset.values(y[rows])) for part, rows in dataset.rows(run.label).items()}
        model.fit(*one["train"], eval_set=one["valid"])
        result["scores"] = {"best": part_scores(dataset.task, one, outputs(model))}
    return result | {"best_epoch": model.history_.best_epoch, "last_epoch": len(model.history_)}


def _label_scores(dataset: Dataset, predicted: dict[str, np.ndarray]) -> dict[str, Scores]:
    """Scores of each label on each part, on the rows where it was measured."""
    found: dict[str, Scores] = {label: {} for label in dataset.labels}
    for part, rows in dataset.split.items():
        for place, label in enumerate(dataset.labels):
            y = dataset.Y[rows, place]
            seen = ~np.isnan(y)
            found[label][part] = score(dataset.task, y[seen], predicted[part][seen, place])
    return found


def fit_picture(run: Run, dataset: Dataset) -> Result:
    """Figure 3: a small LCN, with all that its drawing needs.

    The network is kept as its canonical form (the neurons and a table of leaf values), and with it the example
    environments of the bits that weigh most at each node.
    """
    from treelu.chem import MorganFingerprint
    from treelu.convert import standard_to_canonical

    parts = dataset.parts(run.label)
    settings = network_settings(run, dataset.task)
    model = treelu.LCNClassifier(**nested(settings | {"temper": False}), random_state=run.seed).fit(*parts["train"])
    tree, network, molecules = model.tree_, model.network_, dataset.smiles
    assert isinstance(network, LocallyConstantNetwork)
    assert molecules is not None
    assert tree.n_samples is not None
    top = {bit for node in range(tree.n_splits) for bit in np.argsort(-np.abs(tree.node_weights(node)))[:_TOP].tolist()}
    rows = dataset.rows(run.label)["train"]
    fingerprint = MorganFingerprint(n_examples=1).fit(molecules[rows])
    canonical = standard_to_canonical(network)
    return {
        "config": {"estimator": "LCNClassifier", **settings},
        "scores": {"last": part_scores(dataset.task, parts, model.decision_function)},
        "network": {
            "weights": [_rounded(layer.weight) for layer in canonical.layers],
            "biases": [_rounded(layer.bias)[0] for layer in canonical.layers],
            "table": _rounded(canonical.table),
        },
        "rows": [int(count) for count in tree.n_samples],
        "examples": {str(bit): list(fingerprint.examples(bit)[0]) for bit in sorted(top) if fingerprint.examples(bit)},
        "best_epoch": 30,
        "last_epoch": 30,
    }


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.5g}") for value in values.reshape(-1).tolist()]


def statistics(dataset: Dataset) -> Result:
    """Table 1: how much there is of a data set."""
    sizes = {part: len(rows) for part, rows in dataset.split.items()}
    counts = {"rows": dataset.X.shape[0], "features": dataset.X.shape[1], "labels": len(dataset.labels)}
    return {
        "config": {},
        "scores": {},
        "statistics": {"task": dataset.task, **counts, **sizes},
        "best_epoch": None,
        "last_epoch": None,
    }
