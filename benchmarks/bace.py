"""The paper's single models on Bace with the paper's settings, seeds 1–10: `python -m benchmarks.bace`.

Table 2: LCN 0.839 ± 0.013 (last epoch), ALCN 0.854 ± 0.007 (best validation epoch), LLN 0.818 ± 0.007.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score

from experiments.datasets import load_moleculenet
from treelu import ALCNClassifier, LCNClassifier, LLNClassifier
from treelu.chem import MorganFingerprint

TRAINING: dict[str, Any] = {
    "epochs": 30, "learning_rate": 0.1,
    "training": {
        "batch_size": 64, "optimizer": "sgd", "schedule": "step", "annealing": 1.0, "straight_through": False,
        "temper": False,
    },
}  # fmt: skip
# estimator, tuned settings, whether the best validation epoch is kept, the paper's mean and deviation
MODELS: dict[str, tuple[type, dict[str, Any], bool, str]] = {
    "LCN": (LCNClassifier, {"depth": 12, "drop_connect": 0.75}, False, "0.839 ± 0.013"),
    "ALCN": (ALCNClassifier, {"depth": 4, "drop_connect": 0.0}, True, "0.854 ± 0.007"),
    "LLN": (LLNClassifier, {"depth": 5, "drop_connect": 0.0}, True, "0.818 ± 0.007"),
}


def main() -> None:
    """Fit, score and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    seeds = range(1, parser.parse_args().seeds + 1)
    data = load_moleculenet("bace", data_home=os.environ.get("TREELU_DATA"))
    X, y = MorganFingerprint().fit_transform(data.smiles), np.asarray(data.y, float).reshape(-1)
    assert data.split is not None, "the paper's split, splits/bace.json, must lie in the data folder"
    train, valid, test = data.split
    table = Table("model", "test AUC", "paper", "seconds a fit", title=f"Bace, seeds 1–{len(seeds)}")
    for name, (estimator, settings, keep_best, paper) in MODELS.items():
        started, scores = time.perf_counter(), []
        for seed in seeds:
            model = estimator(**TRAINING, **settings, random_state=seed)
            model.fit(X[train], y[train], eval_set=(X[valid], y[valid]) if keep_best else None)
            scores.append(roc_auc_score(y[test], model.decision_function(X[test])))
        seconds = (time.perf_counter() - started) / len(seeds)
        table.add_row(name, f"{np.mean(scores):.4f} ± {np.std(scores):.4f}", paper, f"{seconds:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
