"""Small trees: a fit with the choice of size beside a random forest, CART with its leaves chosen, and LCN."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

from benchmarks.comparison import Measure, Part, times_faster
from benchmarks.timing import interleaved, medians
from benchmarks.training import THREADS, torch_threads
from treelu import LCNClassifier, ObliqueTreeClassifier

SIZES = ((1_000, 20), (10_000, 30), (100_000, 50))  # rows and features
LEAVES = (2, 3, 4, 6, 8, 12, 16)  # the sizes on the small tree's own path


def measure(sizes: Sequence[tuple[int, int]] = SIZES, *, trees: int = 100, rounds: int = 2) -> Part:
    """Time fits of `ObliqueTreeClassifier()`; the forest grows by a share of its trees in each round."""
    part = Part(details={"seconds": {}})
    with torch_threads(THREADS):
        tiny = make_classification(200, random_state=0)
        for model in (_small_tree(), _cart()):  # loads what it needs; starts processes
            model.fit(*tiny)
        for n_rows, n_features in sizes:
            times = _times(n_rows, n_features, -(-trees // rounds), rounds)
            part.details["seconds"][f"{n_rows} × {n_features}"] = times
            typical, job = medians(times), f"fit of a small tree, {n_rows:,} × {n_features}"
            others = [
                Measure(f"random forest of {trees}", sum(times["forest"])),
                Measure("CART, leaves by five folds", typical["CART"]),
                Measure("LCNClassifier()", typical["LCN"]),
            ]
            ours = Measure("treelu", typical["treelu"])
            part.comparisons += [times_faster(job, ours, other) for other in others]
    return part


def _times(n_rows: int, n_features: int, more_trees: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of each method in each round, on a table of two classes."""
    X, y = make_classification(n_rows, n_features, n_informative=n_features // 2, random_state=0)
    forest = RandomForestClassifier(0, n_jobs=THREADS, warm_start=True, random_state=0)

    def grow() -> None:
        forest.n_estimators += more_trees
        forest.fit(X, y)

    tasks: dict[str, Callable[[], object]] = {
        "treelu": lambda: _small_tree().fit(X, y),
        "forest": grow,
        "CART": lambda: _cart().fit(X, y),
        "LCN": lambda: LCNClassifier(n_jobs=THREADS, random_state=0).fit(X, y),
    }
    return interleaved(tasks, rounds)


def _small_tree() -> ObliqueTreeClassifier:
    return ObliqueTreeClassifier(n_jobs=THREADS, random_state=0)


def _cart() -> GridSearchCV:
    return GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_leaf_nodes": LEAVES}, cv=5, n_jobs=THREADS)
