"""What ensembles and baselines are held to besides Table 2: one command prints each figure.

python -m experiments.claims bace     Bace by validation, from the committed results: CART, HHCART, TAO, GCN, ELCN
python -m experiments.claims folds    HHCART and TAO beside CART of the same depth, five folds of scikit-learn's sets
python -m experiments.claims trees    an ELCN of exact trees on Bace, and how far their sum is from the ensemble
python -m experiments.claims memory   peak memory while 512 members are fitted to 12,000 × 2,048 values
python -m experiments.claims times    seconds of a fit on HIV's 32,896 training rows, from the committed results
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.tree import DecisionTreeClassifier

from benchmarks.memory import PeakMemory
from experiments.baselines import HHCARTClassifier, TAOClassifier
from experiments.choice import cell
from experiments.data import load_dataset
from experiments.members import ensemble
from experiments.runs import Store
from experiments.scores import part_scores

BACE = ("cart", "hhcart", "tao", "gcn", "elcn")
ROWS, FEATURES = 12_000, 2_048
FOLDED = {"breast cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}


def bace() -> None:
    """Test AUC of each method, its setting chosen on the validation part; ELCN of 64 members, all of them used."""
    for method in BACE:
        results = [result for result in Store().results("bace", method) if method != "elcn" or result["seed"] <= 3]
        ours = cell(results, "last" if method == "elcn" else "best")
        if ours is not None:
            note = f"{ours.n_seeds} seeds, {ours.n_settings} settings, {ours.setting}"
            print(f"{method:7s} {ours.mean:.4f} ± {ours.deviation:.4f}  {note}")


def folds() -> None:
    """Five-fold accuracy of HHCART and TAO beside CART of the same depth; of small sets the mean over five shuffles."""
    print("set, depth: CART, HHCART, TAO")
    for name, load in FOLDED.items():
        X, y = load(return_X_y=True)
        shuffles = [StratifiedKFold(5, shuffle=True, random_state=seed) for seed in range(1 if len(y) > 1000 else 5)]
        for depth in (2, 4, 6):
            models = (
                DecisionTreeClassifier(max_depth=depth, random_state=0),
                HHCARTClassifier(max_depth=depth),
                TAOClassifier(max_depth=depth, random_state=0),
            )
            means = [np.mean([cross_val_score(model, X, y, cv=cv).mean() for cv in shuffles]) for model in models]
            print(f"{name}, {depth}: {', '.join(f'{mean:.4f}' for mean in means)}", flush=True)


def trees() -> None:
    """Test AUC of an ELCN whose members are trees, and the largest difference of their sum from its scores."""
    parts = load_dataset("bace").parts("Class")
    for seed in (1, 2, 3):
        model = ensemble("classification", {"member": "lcn"}, random_state=seed)
        model.fit(*parts["train"])
        scores = part_scores("classification", parts, model.decision_function)
        X = parts["test"][0]
        total = sum(tree.decision_function(X).reshape(-1) for tree in model.trees_)
        gap = float(np.abs(total - model.decision_function(X)).max())
        print(f"seed {seed}: {scores}, largest difference of {len(model.trees_)} trees' sum {gap:.1e}", flush=True)


def memory(members: int) -> None:
    """How far memory rises above where it stood with the table loaded."""
    for name, table in (("sparse", _bits()), ("dense", _counts())):
        y = np.random.default_rng(1).normal(size=ROWS)
        size = _bytes(table)
        ensemble("regression", {"n_estimators": 1, "epochs": 1}).fit(table[:300], y[:300])  # kernels are loaded
        peak, started = PeakMemory(), time.process_time()
        ensemble("regression", {"n_estimators": members, "epochs": 1}, random_state=0).fit(table, y)
        print(
            f"{name} table of {size / 1e6:.0f} MB, {members} members: {peak.rise() / 1e6:.0f} MB above it, "
            f"{time.process_time() - started:.0f} s",
            flush=True,
        )


def _bytes(table: Any) -> int:
    if isinstance(table, np.ndarray):
        return table.nbytes
    return table.data.nbytes + table.indices.nbytes + table.indptr.nbytes


def _bits() -> Any:
    return sp.random_array((ROWS, FEATURES), density=0.02, format="csr", rng=np.random.default_rng(0))


def _counts() -> np.ndarray:
    return np.random.default_rng(0).poisson(1.0, (ROWS, FEATURES)).astype(np.float64)


def times() -> None:
    """Processor seconds of a fit with its scores on HIV."""
    for method in ("cart", "hhcart", "tao", "gcn", "rf", "gbdt", "elcn"):
        for result in Store().results("hiv", method):
            if result["seed"] == 1:
                print(f"{method:7s} {result['cpu_seconds']:8.1f} s  {result['setting']}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=["bace", "folds", "trees", "memory", "times"])
    parser.add_argument("--members", type=int, default=512, help="of the ensemble whose memory is measured")
    options = parser.parse_args()
    if options.figure == "memory":
        memory(options.members)
    else:
        {"bace": bace, "folds": folds, "trees": trees, "times": times}[options.figure]()


if __name__ == "__main__":
    main()
