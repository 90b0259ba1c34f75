"""Ensembles beside a random forest of 500 on random scaffold splits, seed by seed.

    TREELU_DATA=… python -m experiments.paired run bace --seeds 0-9 --method rf --method smooth
    python -m experiments.paired table                                    what the files say
    python -m experiments.paired default                                  the default ensemble beside the forest

A split takes whole ring skeletons, a fifth of them, at random (GroupShuffleSplit) as the test part. Features are the
2,048 most frequent substructures of the training part, the same for all methods. A run leaves the test predictions of
one method in experiments/results/predictions (not committed) and the scores of all of them, and of their averages, go
to experiments/results/paired.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupShuffleSplit
from sklearn.preprocessing import OneHotEncoder

from benchmarks.report import markdown
from experiments.__main__ import numbers
from experiments.datasets import load_moleculenet
from treelu import ALCNClassifier, ELCNClassifier, ObliqueTreeClassifier
from treelu.chem import MolecularFeatures, scaffold_groups
from treelu.training.settings import nested

RESULTS = Path(__file__).parent / "results"
PREDICTIONS, SCORES = RESULTS / "predictions", RESULTS / "paired.json"
# A few labels of the sets that have many: each fifth of SIDER, four assays of Tox21.
LABELS = {
    "bace": ["Class"],
    "hiv": ["HIV_active"],
    "tox21": ["SR-p53", "NR-AhR", "SR-ARE", "NR-ER"],
    "sider": None,
}
# whose ranks are added to the forest's
PAIRED = (
    "refined",
    "smooth",
    "smooth-96",
    "smooth-16-all",
    "smooth-8",
    "redrawn",
    "per-neuron",
    "untied",
    "auc-margin-8",
)
TREES = 500
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_TRAINING = {"standardize": False, "optimizer": "amsgrad", "schedule": "constant", "learning_rate": 0.01}
_TRAINING |= {"annealing": 1.0, "temper": False}


def smooth(X: Any, y: Any, Z: Any, seed: int, n: int = 32, share: float = 0.5, **settings: Any) -> np.ndarray:
    """The mean of ALCN, each on its own share of the columns."""
    setting = {"depth": 8, "drop_connect": 0.0, "epochs": 30, "batch_size": 256} | settings
    random = np.random.RandomState(seed)
    total = np.zeros(Z.shape[0])
    for member in range(n):
        chosen = np.sort(random.permutation(X.shape[1])[: int(share * X.shape[1])]) if share < 1 else slice(None)
        model = ALCNClassifier(random_state=seed * 1000 + member, **nested(_TRAINING | setting))
        total += model.fit(X[:, chosen], y).predict_proba(Z[:, chosen])[:, 1]
    return total / n


def redrawn(X: Any, y: Any, Z: Any, seed: int, n: int = 32) -> np.ndarray:
    """`smooth`, but each member sees the rarer class and as many rows of the other, drawn anew; ranks are averaged."""
    random = np.random.RandomState(seed)
    rare = int(y.mean() < 0.5)
    few, many = np.flatnonzero(y == rare), np.flatnonzero(y != rare)
    ranks = np.zeros(Z.shape[0])
    for member in range(n):
        rows = np.sort(np.concatenate([few, random.choice(many, len(few), replace=False)]))
        ranks += rankdata(smooth(X[rows], y[rows], Z, seed * 1000 + member, n=1))
    return ranks / n


class _PerNeuron(ALCNClassifier):
    """Each neuron reads its own half of the columns, as each split of a forest does."""

    def _run(
        self, network: Any, sample: Any, validation: Any, seed: Any, after_step: Any = None, *more: Any, **how: Any
    ):
        kept = np.random.default_rng(self.random_state).random(network.weight.shape) < 0.5

        def keep(network: Any, gradients: Any, rate: float) -> None:
            network.weight *= kept

        network.weight *= kept
        return super()._run(network, sample, validation, seed, keep, *more, **how)


def per_neuron(X: Any, y: Any, Z: Any, seed: int, n: int = 32) -> np.ndarray:
    """`smooth`, but with columns drawn for each neuron instead of each member."""
    setting = {"depth": 8, "drop_connect": 0.0, "epochs": 30, "batch_size": 256}
    chances = [
        _PerNeuron(random_state=seed * 1000 + member, **nested(_TRAINING | setting)).fit(X, y).predict_proba(Z)[:, 1]
        for member in range(n)
    ]
    return np.mean(chances, axis=0)


def untied(X: Any, y: Any, Z: Any, seed: int, n: int = 16) -> np.ndarray:
    """The mean of small trees with a weight vector for each question, 16 leaves, each on a quarter of the columns."""
    random, total = np.random.RandomState(seed), np.zeros(Z.shape[0])
    for member in range(n):
        chosen = np.sort(random.permutation(X.shape[1])[: X.shape[1] // 4])
        tree = ObliqueTreeClassifier(max_leaf_nodes=16, selection="largest", n_updates=100, random_state=member)
        total += tree.fit(X[:, chosen].toarray(), y).predict_proba(Z[:, chosen].toarray())[:, 1]
    return total / n


def auc_margin(X: Any, y: Any, Z: Any, seed: int, n: int = 8) -> np.ndarray:
    """8 members of `smooth`, trained to rank actives a margin above inactives: squared hinge over pairs of a batch."""
    import torch

    from treelu.nn import Activation, LocallyConstantNetwork
    from treelu.nn.torch import to_torch

    torch.set_num_threads(1)
    random, total = np.random.RandomState(seed), np.zeros(Z.shape[0])
    dense, other, labels = (torch.tensor(part, dtype=torch.float32) for part in (X.toarray(), Z.toarray(), y))
    for member in range(n):
        chosen = np.sort(random.permutation(X.shape[1])[: X.shape[1] // 2])
        network = LocallyConstantNetwork(len(chosen), 8, 1, activation=Activation("softplus"), dtype=np.float32)
        network.reset_parameters(seed * 1000 + member)
        module = to_torch(network)
        optimizer = torch.optim.Adam(module.parameters(), lr=0.01, amsgrad=True)
        here, there = dense[:, chosen], other[:, chosen]
        for _ in range(30):
            order = random.permutation(len(labels))
            for start in range(0, len(order), 256):
                rows = order[start : start + 256]
                scores, active = module(here[rows])[:, 0], labels[rows] > 0.5
                gaps = scores[active][:, None] - scores[~active][None, :]
                optimizer.zero_grad()
                torch.relu(1 - gaps).square().mean().backward()
                optimizer.step()
        with torch.no_grad():
            total += rankdata(module(there)[:, 0].numpy())
    return total / n


def forest(X: Any, y: Any, Z: Any, seed: int) -> np.ndarray:
    """scikit-learn's random forest as it comes, with 500 trees."""
    return RandomForestClassifier(TREES, random_state=seed).fit(X, y).predict_proba(Z)[:, 1]


def refined_forest(X: Any, y: Any, Z: Any, seed: int) -> np.ndarray:
    """The forest with its leaf values refined jointly, held to what they are.

    A tree is a table of leaf values (Theorem 2), a forest the mean of 500 such tables. A ridge regression of the
    out-of-bag residuals on all leaves at once changes the values; its strength is the one with the least error when
    each row is left out. In the dual: K is the share of trees in which two rows meet in a leaf.
    """
    model = RandomForestClassifier(TREES, random_state=seed, oob_score=True).fit(X, y)
    residual = y - np.nan_to_num(model.oob_decision_function_[:, 1], nan=y.mean())
    leaves = OneHotEncoder(handle_unknown="ignore").fit(model.apply(X))
    here, there = leaves.transform(model.apply(X)), leaves.transform(model.apply(Z))
    values, vectors = np.linalg.eigh((here @ here.T).toarray() / TREES)
    inner = vectors.T @ residual

    def left_out_error(strength: float) -> float:
        shrink = values / (values + strength)
        own = (vectors**2 * shrink).sum(axis=1)
        return float((((residual - vectors @ (shrink * inner)) / (1 - own)) ** 2).mean())

    strength = min(STRENGTHS, key=left_out_error)
    weights = vectors @ (inner / (values + strength))
    return model.predict_proba(Z)[:, 1] + (there @ (here.T @ weights)) / TREES


def default(X: Any, y: Any, Z: Any, seed: int) -> np.ndarray:
    """`ELCNClassifier()` as it comes: networks and forest, stacked."""
    return ELCNClassifier(random_state=seed).fit(X, y).predict_proba(Z)[:, 1]


METHODS: dict[str, Callable[[Any, Any, Any, int], np.ndarray]] = {
    "rf": forest,
    "elcn": default,
    "refined": refined_forest,
    "extra": lambda X, y, Z, seed: ExtraTreesClassifier(TREES, random_state=seed).fit(X, y).predict_proba(Z)[:, 1],
    "smooth": smooth,
    "smooth-96": lambda X, y, Z, seed: smooth(X, y, Z, seed, 96),
    "smooth-16-all": lambda X, y, Z, seed: smooth(X, y, Z, seed, 16, 1.0, depth=12, drop_connect=0.75, epochs=10),
    "smooth-8": lambda X, y, Z, seed: smooth(X, y, Z, seed, 8),
    "redrawn": redrawn,
    "per-neuron": per_neuron,
    "untied": untied,
    "auc-margin-8": auc_margin,
}


def cells(data: str, seeds: tuple[int, ...]) -> Iterator[tuple[str, int, Any, Any, Any, Any]]:
    """Label, seed, and training and test parts of each split."""
    table = load_moleculenet(data)
    readable = MolecularFeatures(invalid="drop").fit(table.smiles).kept_
    smiles, Y = table.smiles[readable], table.y.reshape(len(table), -1)[readable]
    groups = scaffold_groups(smiles)
    names = list(table.label_names)
    for seed in seeds:
        ((train, test),) = GroupShuffleSplit(1, test_size=0.2, random_state=seed).split(groups, groups=groups)
        features = MolecularFeatures()
        X, Z = features.fit_transform(smiles[train]), features.transform(smiles[test])
        for label in LABELS[data] or names[1::5]:
            y = Y[:, names.index(label)]
            here, there = (np.flatnonzero(~np.isnan(y[rows])) for rows in (train, test))
            yield label, seed, X[here], y[train][here].astype(int), Z[there], y[test][there].astype(int)


def run(data: str, seeds: tuple[int, ...], methods: list[str]) -> None:
    """Make the predictions that are not there yet."""
    PREDICTIONS.mkdir(parents=True, exist_ok=True)
    for label, seed, X, y, Z, truth in cells(data, seeds):
        for method in methods:
            path = PREDICTIONS / f"{data}-{label}-{seed}-{method}.npz".replace(" ", "_")
            if path.exists():
                continue
            started = time.process_time()
            chances = METHODS[method](X, y, Z, seed)
            seconds = time.process_time() - started
            np.savez(path, p=chances, y=truth, t=seconds)
            print(
                f"{data} {label} seed {seed} {method}: {roc_auc_score(truth, chances):.4f}, {seconds:.1f} s", flush=True
            )


def collect() -> None:
    """Write the scores of all predictions, and of the averages of two, into one file.

    Scores in the file whose predictions are not here, because another machine made them, stay as they are.
    """
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(PREDICTIONS.glob("*.npz")):
        cell, method = next(
            (path.stem.removesuffix(f"-{name}"), name) for name in sorted(METHODS, key=len, reverse=True)
            if path.stem.endswith(f"-{name}")
        )  # fmt: skip
        found.setdefault(cell, {})[method] = np.load(path)
    rows = []
    for cell, by_method in found.items():
        data, rest = cell.split("-", 1)
        label, seed = rest.rsplit("-", 1)
        y = next(iter(by_method.values()))["y"]
        scores = {name: roc_auc_score(y, one["p"]) for name, one in by_method.items()}
        for first, second in combinations(by_method, 2):
            if "rf" not in (first, second) or not {first, second} <= {"rf", *PAIRED}:
                continue
            mean = rankdata(by_method[first]["p"]) + rankdata(by_method[second]["p"])
            scores[f"{first} + {second}"] = roc_auc_score(y, mean)
        seconds = {name: round(float(one["t"]), 2) for name, one in by_method.items()}
        rounded = {name: round(float(score), 5) for name, score in scores.items()}
        rows.append({"data": data, "label": label, "seed": int(seed), "auc": rounded, "seconds": seconds})
    made = {(row["data"], row["label"], row["seed"]): row for row in rows}
    for row in json.loads(SCORES.read_text()) if SCORES.exists() else []:
        new = made.get((row["data"], row["label"], row["seed"]))
        if new is None:
            rows.append(row)
        else:
            for name in ("auc", "seconds"):
                new[name] = row[name] | new[name]
    rows.sort(key=lambda row: (row["data"], row["seed"], row["label"]))
    SCORES.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


def difference(rows: list[dict[str, Any]], method: str, beside: str = "rf") -> str:
    """The mean AUC and the mean difference over seeds (labels averaged first) with its standard error."""
    both = [row for row in rows if method in row["auc"] and beside in row["auc"]]
    if not both:
        return "–"
    by_seed: dict[int, list[float]] = {}
    for row in both:
        by_seed.setdefault(row["seed"], []).append(row["auc"][method] - row["auc"][beside])
    means = [float(np.mean(values)) for values in by_seed.values()]
    mean = float(np.mean([row["auc"][method] for row in both]))
    if method == beside:
        return f"{mean:.4f} ({len(means)} seeds)"
    error = f" ± {np.std(means, ddof=1) / len(means) ** 0.5:.4f}" if len(means) > 1 else ""
    return f"{mean:.4f}, {np.mean(means):+.4f}{error} ({len(means)})".replace("-", "−")


def table() -> str:
    """Each method and average beside the forest, on each set."""
    rows = json.loads(SCORES.read_text())
    sets = [name for name in LABELS if any(row["data"] == name for row in rows)]
    methods = [name for name in METHODS if any(name in row["auc"] for row in rows)]
    pairs = [f"{a} + {b}" for a in methods for b in methods if any(f"{a} + {b}" in row["auc"] for row in rows)]
    lines = []
    for method in [*methods, *pairs]:
        here = {name: [row for row in rows if row["data"] == name] for name in sets}
        seconds = [row["seconds"][method] for row in rows if row["data"] == "bace" and method in row["seconds"]]
        cost = f"{np.median(seconds):.1f}" if seconds else ""
        lines.append([f"`{method}`", *(difference(here[name], method) for name in sets), cost])
    return markdown(["test AUC, difference from `rf`", *sets, "seconds on Bace"], lines)


def default_table() -> str:
    """The default ensemble beside the forest, a line for each set: seeds ahead and seconds too."""
    rows = [row for row in json.loads(SCORES.read_text()) if {"rf", "elcn"} <= set(row["auc"])]
    lines = []
    for data in LABELS:
        here = [row for row in rows if row["data"] == data]
        if not here:
            continue
        seeds = sorted({row["seed"] for row in here})
        by_seed = [[row["auc"]["elcn"] - row["auc"]["rf"] for row in here if row["seed"] == seed] for seed in seeds]
        ahead = sum(float(np.mean(one)) > 0 for one in by_seed)
        mean, apart = difference(here, "elcn").rsplit(" (", 1)[0].split(", ")
        forest_mean = difference(here, "rf").split(" ")[0]
        costs = [f"{np.median([row['seconds'][name] for row in here]):.1f}" for name in ("rf", "elcn")]
        n_labels = max(len(one) for one in by_seed)
        lines.append([f"{data}, {n_labels} labels" if n_labels > 1 else data, forest_mean, mean, apart,
                      f"{ahead} of {len(seeds)}", *costs])  # fmt: skip
    return markdown(
        ["test AUC", "forest of 500", "`ELCNClassifier()`", "difference", "seeds ahead", "seconds, forest", "ELCN"],
        lines,
    )


def main() -> None:
    """Run, or print the table."""
    parser = argparse.ArgumentParser(prog="python -m experiments.paired", description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("run", "table", "default"))
    parser.add_argument("data", nargs="?", choices=tuple(LABELS), default="bace")
    parser.add_argument("--seeds", type=numbers, default=tuple(range(10)))
    parser.add_argument("--method", action="append", choices=tuple(METHODS))
    options = parser.parse_args()
    if options.what == "run":
        run(options.data, options.seeds, options.method or list(METHODS))
        collect()
    else:
        print(table() if options.what == "table" else default_table())


if __name__ == "__main__":
    main()
