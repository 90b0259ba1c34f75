"""Prediction: a network in batches beside LightGBM, a forest and a CART; single rows and many, beside a CART."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import lightgbm
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from benchmarks.comparison import Measure, Part, times_faster
from benchmarks.tables import Data
from benchmarks.timing import interleaved, medians
from benchmarks.training import THREADS, fit_ours, torch_threads
from treelu import LCNClassifier, ObliqueTreeClassifier

# LightGBM takes at least 10 times as long, the forest 100 times, and a CART at least a third
GOALS = {"LightGBM": 10.0, "random forest": 100.0, "CART": 1 / 3}


def measure(
    data: Data,
    *,
    depth: int = 12,
    trees: int = 500,
    epochs: int = 3,
    batches: tuple[int, ...] = (1_000, 10_000),
    rounds: int = 5,
    forest: RandomForestClassifier | None = None,
) -> Part:
    """Time `predict_proba` of all methods on the same CSR rows.

    The peers with threads get one and two of them, and the faster counts. A forest that is given is not fitted again.
    """
    rng, part = np.random.default_rng(0), Part(details={"batches": {}})
    with torch_threads(THREADS):
        predictors = _predictors(data, depth, trees, epochs, forest)
        for batch in batches:
            rows = data.test.X[rng.integers(data.test.X.shape[0], size=batch)]
            tasks: dict[str, Callable[[], object]] = {
                name: partial(predict, rows) for name, predict in predictors.items()
            }
            for task in tasks.values():
                task()  # warm caches and thread pools
            times = interleaved(tasks, rounds, at_least=0.02)
            part.details["batches"][str(batch)] = times
            part.comparisons += _compare(data.name, batch, trees, medians(times))
    return part


def measure_rows(rounds: int = 7) -> Part:
    """Processor time of `predict` of one row and of 10,000 rows of 20 features; goals: scikit-learn's tree."""
    X, y = make_classification(10_000, 20, n_informative=10, random_state=0)
    cart = DecisionTreeClassifier(max_leaf_nodes=16, random_state=0).fit(X, y)
    small = ObliqueTreeClassifier(random_state=0).fit(X, y)
    network = LCNClassifier(depth=8, drop_connect=0.1, epochs=2, random_state=0).fit(X, y)
    part = Part(details={"seconds": {}})
    for job, rows in (("one row", X[:1]), ("10,000 rows", X)):
        tasks: dict[str, Callable[[], object]] = {
            "CART": partial(cart.predict, rows),
            "ObliqueTreeClassifier": partial(small.predict, rows),
            "its tree_.predict": partial(small.tree_.predict, rows),
            "LCNClassifier": partial(network.predict, rows),
        }
        times = interleaved(tasks, rounds, at_least=0.05, clock=time.process_time)
        part.details["seconds"][job] = times
        each = {name: Measure(name, 1e9 * seconds / len(rows)) for name, seconds in medians(times).items()}
        goals = {"ObliqueTreeClassifier": 1.0, "its tree_.predict": 10.0 if job == "one row" else None}
        for name in ("ObliqueTreeClassifier", "its tree_.predict", "LCNClassifier"):
            goal = goals.get(name)
            part.comparisons.append(times_faster(f"predict {job}", each[name], each["CART"], goal, unit="ns/row"))
    return part


def _predictors(
    data: Data, depth: int, trees: int, epochs: int, forest: RandomForestClassifier | None
) -> dict[str, Callable[[Any], Any]]:
    """`predict_proba` of fitted models, of the peers with one and two threads."""
    ours = fit_ours(data, depth, epochs)
    boosted = lightgbm.LGBMClassifier(n_estimators=trees, n_jobs=THREADS, verbose=-1).fit(*data.train)
    if forest is None:
        forest = RandomForestClassifier(trees, n_jobs=THREADS, random_state=0).fit(*data.train)
    cart = DecisionTreeClassifier(max_depth=depth, random_state=0).fit(*data.train)
    found: dict[str, Callable[[Any], Any]] = {"treelu": ours.predict_proba, "CART": cart.predict_proba}
    for threads in range(1, THREADS + 1):
        # the Booster itself: the scikit-learn wrapper would add checks of its own
        found[f"LightGBM, {threads}"] = partial(boosted.booster_.predict, num_threads=threads)
        found[f"random forest, {threads}"] = partial(_forest_probabilities, forest, threads)
    return found


def _forest_probabilities(forest: RandomForestClassifier, threads: int, rows: Any) -> np.ndarray:
    return forest.set_params(n_jobs=threads).predict_proba(rows)


def _compare(name: str, batch: int, trees: int, seconds: dict[str, float]) -> list:
    """A comparison with each peer, in nanoseconds a row."""
    ours = Measure("treelu", 1e9 * seconds["treelu"] / batch)
    comparisons = []
    for peer, goal in GOALS.items():
        fastest = min(value for task, value in seconds.items() if task.startswith(peer))
        label = peer if peer == "CART" else f"{peer} of {trees}"
        other = Measure(label, 1e9 * fastest / batch)
        comparisons.append(times_faster(f"{name}: predict {batch:,} rows", ours, other, goal, unit="ns/row"))
    return comparisons
