"""Questions to trees: how fast they are answered, beside DiCE where it is installed, and a check of 10,000 answers.

Seconds are those of the processor, so that other work on the machine does not count.

python -m benchmarks.queries --out benchmarks/results/queries.json
python -m benchmarks.queries --check 10000 --none 1000000 --out benchmarks/results/queries-check.json

alibi is not measured: 0.9.6, its last version, asks for numpy below 2, pandas below 3 and, for counterfactuals,
tensorflow below 2.15; these do not go beside the versions that this project is tested with.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import facts
from treelu.tree import ObliqueTree

LEAVES, FEATURES, NORMS = (8, 32, 256), (10, 30, 200), ("l1", "linf", "l2")
KINDS = ("logistic", "softmax", "linear")


def balanced_tree(rng: np.random.Generator, n_leaves: int, n_features: int, terms: int | None = None) -> ObliqueTree:
    """A complete tree of two classes with random questions near the origin, of a few terms each if so asked."""
    n_splits = n_leaves - 1
    weights = rng.standard_normal((n_splits, n_features))
    if terms is not None:
        for row in weights:
            row[rng.permutation(n_features)[terms:]] = 0
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    children = np.array([[2 * node + 1, 2 * node + 2] for node in range(n_splits)])
    scores = rng.standard_normal((n_leaves, 1))
    scores[:2, 0] = [-1, 1]  # both answers
    return ObliqueTree(
        weights, 0.3 * rng.standard_normal(n_splits), children, scores, link="logistic", classes=[0, 1]
    )  # fmt: skip


# Speed


def measure_speed(n_rows: int) -> list[dict[str, Any]]:
    """Rows a second and programmes solved for each size."""
    results = []
    for n_leaves in LEAVES:
        for n_features in FEATURES:
            for terms in (None, 3):
                rng = np.random.default_rng([n_leaves, n_features])
                tree = balanced_tree(rng, n_leaves, n_features, terms)
                rows = rng.standard_normal((n_rows, n_features))
                for norm in NORMS:
                    started = time.process_time()
                    found = [tree.counterfactual(row, norm=norm) for row in rows]
                    seconds = time.process_time() - started
                    results.append({
                        "leaves": n_leaves, "features": n_features, "terms": terms or n_features, "norm": norm,
                        "rows_per_second": round(n_rows / seconds, 1),
                        "programmes_per_row": round(float(np.mean([one.n_solved for one in found])), 2),
                        "found": sum(map(bool, found)), "rows": n_rows,
                    })  # fmt: skip
                    print(results[-1], flush=True)
    return results


def measure_properties() -> list[dict[str, Any]]:
    """Seconds to prove that a monotone tree rises, and that a tree does not depend on a feature."""
    results = []
    for n_leaves in (8, 32, 64):
        rng = np.random.default_rng(n_leaves)
        tree = balanced_tree(rng, n_leaves, 10)
        weights = np.array(tree.weights)
        weights[:, 0] = np.abs(weights[:, 0])
        rising = ObliqueTree(weights, tree.biases, tree.children, np.sort(tree.values, axis=0), link="logistic",
                             classes=[0, 1])  # fmt: skip
        for name, one in (("monotone tree", rising), ("random tree", tree)):
            started = time.process_time()
            verdict = one.rises(0, bounds=(-3, 3))
            results.append({
                "leaves": n_leaves, "tree": name, "holds": bool(verdict), "programmes": verdict.n_solved,
                "seconds": round(time.process_time() - started, 3),
            })  # fmt: skip
            print(results[-1], flush=True)
    return results


# Beside DiCE


def compare_dice(n_rows: int) -> dict[str, Any]:
    """The same tree and rows: how often the answer changed, how far, how long."""
    try:
        import dice_ml
    except ImportError:
        return {"skipped": "dice-ml is not installed"}
    import pandas as pd
    from sklearn.datasets import load_breast_cancer

    from treelu import LCNClassifier

    data, target = load_breast_cancer(return_X_y=True, as_frame=True)
    fitted = LCNClassifier(depth=4, epochs=20, random_state=0).fit(data, target)
    tree, spread = fitted.tree_, data.std().to_numpy()
    bounds = (data.min().to_numpy(), data.max().to_numpy())
    rows = data.sample(n_rows, random_state=0)
    results: dict[str, Any] = {"rows": n_rows, "leaves": tree.n_leaves, "features": tree.n_features}
    started = time.process_time()
    ours = [tree.counterfactual(row, scale=spread, bounds=bounds) for row in rows.to_numpy()]
    results["treelu"] = _outcome(tree, rows.to_numpy(), [one.row if one else None for one in ours], spread,
                                 time.process_time() - started)  # fmt: skip
    print("treelu", results["treelu"], flush=True)

    class Model:
        """What DiCE asks of scikit-learn models."""

        classes_ = tree.classes

        def predict_proba(self, X: Any) -> np.ndarray:
            return tree.predict_proba(np.asarray(X, dtype=np.float64))

        def predict(self, X: Any) -> np.ndarray:
            return tree.predict(np.asarray(X, dtype=np.float64))

    table = data.assign(target=target)
    described = dice_ml.Data(dataframe=table, continuous_features=list(data.columns), outcome_name="target")
    model = dice_ml.Model(model=Model(), backend="sklearn")
    for method in ("random", "genetic", "kdtree"):
        explainer = dice_ml.Dice(described, model, method=method)
        answers: list[np.ndarray | None] = []
        started = time.process_time()
        for place in range(n_rows):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    made = explainer.generate_counterfactuals(
                        rows.iloc[[place]], total_CFs=1, desired_class="opposite", verbose=False
                    )
                frame = made.cf_examples_list[0].final_cfs_df
                answers.append(None if frame is None else pd.DataFrame(frame)[data.columns].to_numpy(np.float64)[0])
            except Exception:  # DiCE raises its own and pandas' errors where it finds none
                answers.append(None)
        results[f"DiCE {method}"] = _outcome(tree, rows.to_numpy(), answers, spread, time.process_time() - started)
        print(method, results[f"DiCE {method}"], flush=True)
    return results


def _outcome(
    tree: ObliqueTree, rows: np.ndarray, answers: list[np.ndarray | None], spread: np.ndarray, seconds: float
) -> dict[str, Any]:
    """How many answers really change the class, their l1 distance in spreads, and the time of a row."""
    changed, distances = 0, []
    for row, answer in zip(rows, answers, strict=True):
        if answer is not None and tree.predict(answer[None])[0] != tree.predict(row[None])[0]:
            changed += 1
            distances.append(float(np.abs((answer - row) / spread).sum()))
    return {
        "answered": sum(answer is not None for answer in answers),
        "class_changed": changed,
        "median_distance": round(float(np.median(distances)), 3) if distances else None,
        "seconds_per_row": round(seconds / len(rows), 4),
    }


# The check


def check_answers(n_pairs: int, n_sampled: int, n_for_none: int, seed: int) -> dict[str, Any]:
    """Random trees and rows: no sampled row nearer than the answer has the target, and "none" means none."""
    from tests.tree.queries.oracles import answers, rows_within
    from tests.tree.trees import random_tree

    rng = np.random.default_rng(seed)
    counts = {"pairs": 0, "found": 0, "none": 0, "nearer_rows": 0, "wrong_answers": 0, "rows_in_none": 0}
    solved = leaves = 0
    started = time.process_time()
    while counts["pairs"] < n_pairs:
        kind, norm = KINDS[rng.integers(len(KINDS))], NORMS[rng.integers(3)]
        tree = random_tree(rng, int(rng.integers(1, 32)), int(rng.integers(1, 11)), kind)
        x, scale = rng.standard_normal(tree.n_features), rng.uniform(0.5, 2, tree.n_features)
        bounds = (-1.5, 1.5) if rng.random() < 0.5 else None
        if bounds:
            x = np.clip(x, *bounds)
        before = tree.predict(x[None])[0]
        wanted: dict[str, Any] = {}
        if tree.is_classifier:
            given = (tree.values[:, 0] > 0).astype(int) if kind == "logistic" else tree.values.argmax(axis=1)
            wanted = {"target": tree.classes[rng.choice(given)]}
        else:
            wanted = {"at_least": float(rng.choice(tree.values[:, 0])) + 2.0}
        if answers(tree, x[None], wanted, before)[0]:
            continue  # nothing to look for
        result = tree.counterfactual(x, **wanted, norm=norm, scale=scale, bounds=bounds)
        counts["pairs"] += 1
        solved, leaves = solved + result.n_solved, leaves + tree.n_leaves
        if result:
            counts["found"] += 1
            counts["wrong_answers"] += not answers(tree, result.row[None], wanted, before)[0]
            rows = rows_within(x, result.distance, norm, scale, rng, n_sampled)
            if bounds:
                rows = np.clip(rows, *bounds)  # x is inside: clipping brings them nearer
            counts["nearer_rows"] += int(answers(tree, rows, wanted, before).sum())
        else:
            counts["none"] += 1
            for _ in range(max(1, n_for_none // 100_000)):
                rows = rng.uniform(-1.5, 1.5, (min(n_for_none, 100_000), tree.n_features)) * (1 if bounds else 20)
                counts["rows_in_none"] += int(answers(tree, rows, wanted, before).sum())
    return counts | {
        "programmes": solved, "leaves": leaves, "seconds": time.process_time() - started
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20, help="rows asked about for each size")
    parser.add_argument("--check", type=int, help="check so many random pairs of tree and row instead")
    parser.add_argument("--sampled", type=int, default=2000, help="rows sampled nearer than each answer")
    parser.add_argument("--none", type=int, default=100_000, help="rows sampled against each proof of none")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4], help="of the check, an equal part each")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.check:
        each = given.check // len(given.seeds)
        parts = [check_answers(each, given.sampled, given.none, seed) for seed in given.seeds]
        summed = {name: sum(part[name] for part in parts) for name in parts[0] if not name.startswith("sampled")}
        result = {
            **summed, "sampled_per_answer": given.sampled, "sampled_per_none": given.none, "seeds": given.seeds,
            "pairs_per_seed": each, "seconds": round(summed["seconds"], 1),
        }  # fmt: skip
    else:
        result = {
            "machine": facts(), "speed": measure_speed(given.rows), "properties": measure_properties(),
            "beside": compare_dice(given.rows),
        }  # fmt: skip
    text = json.dumps(result, indent=1)
    print(text)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
