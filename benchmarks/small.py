"""Small trees: a fit with the choice of size beside a random forest of 500 trees, in processor seconds on one core.

And the peak memory of a fit beside its rows.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from benchmarks.comparison import Comparison, Measure, Part, times_faster
from benchmarks.memory import PeakMemory
from benchmarks.timing import interleaved, medians
from treelu import LCNClassifier, ObliqueTreeClassifier


class SizedTable(NamedTuple):
    """Rows and features, and how many times our fits must be faster than the forest's: small trees, and LCN."""

    n_rows: int
    n_features: int
    n_classes: int = 2
    small: float | None = None
    network: float | None = None

    @property
    def name(self) -> str:
        """Such as "1,000 × 20"."""
        return f"{self.n_rows:,} × {self.n_features}"


TABLES = (
    SizedTable(426, 30, small=1.0, network=1 / 0.3),  # breast tumours
    SizedTable(1_000, 20, 3, small=1.0, network=1 / 0.3),
    SizedTable(10_000, 20, small=1 / 0.25),
    SizedTable(1_000, 500, small=1 / 2),
    SizedTable(100_000, 50, small=1 / 0.05),
)
LARGE = (SizedTable(20_000, 200), SizedTable(100_000, 50))  # for memory
FEW = 10_000  # rows from which a tenth of the forest is grown, and its time multiplied


def measure(tables: Sequence[SizedTable] = TABLES, *, trees: int = 500, rounds: int = 5) -> Part:
    """Time fits of `ObliqueTreeClassifier()`, of a forest and of `LCNClassifier()`, in turn."""
    part = Part(details={"processor seconds": {}})
    tiny = make_classification(200, random_state=0)
    for model in (ObliqueTreeClassifier(), LCNClassifier(), RandomForestClassifier(2)):  # loads what it needs
        model.fit(*tiny)
    for table in tables:
        times = _times(table, trees, rounds)
        part.details["processor seconds"][table.name] = times
        typical = medians(times)
        forest = Measure(f"random forest of {trees}", typical["forest"])
        job = f"fit, {table.name}"
        part.comparisons += [
            times_faster(job, Measure("ObliqueTreeClassifier()", typical["small tree"]), forest, table.small),
            times_faster(job, Measure("LCNClassifier()", typical["LCN"]), forest, table.network),
        ]
    return part


def measure_memory(tables: Sequence[SizedTable] = LARGE) -> Part:
    """Peak memory of a fit, of each kind and table in a process of its own, beside the rows in float32."""
    part, context = Part(), multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        for table in tables:
            rows = 4e-6 * table.n_rows * table.n_features  # MB
            for kind in (ObliqueTreeClassifier, LCNClassifier):
                peak = pool.submit(_peak, kind, table).result()
                pair = Measure("rows in float32", rows), Measure(f"{kind.__name__}()", peak)
                job, met = f"peak memory of a fit, {table.name}", peak <= 3 * rows + 100
                part.comparisons.append(Comparison(job, *pair, "MB", "B ≤ 3 A + 100 MB", met))
    return part


def _peak(kind: type, table: SizedTable) -> float:
    """Megabytes beyond what the process held with the rows, after a first fit of a tiny table."""
    kind(random_state=0).fit(*make_classification(200, random_state=0))
    X, y = _rows(table)
    peak = PeakMemory()
    kind(random_state=0).fit(X, y)
    return peak.rise() / 1e6


def _times(table: SizedTable, trees: int, rounds: int) -> dict[str, list[float]]:
    """Processor seconds of each method in each round."""
    X, y = _rows(table)
    share = 10 if table.n_rows >= FEW else 1
    tasks: dict[str, Callable[[], object]] = {
        "small tree": lambda: ObliqueTreeClassifier(random_state=0).fit(X, y),
        "LCN": lambda: LCNClassifier(random_state=0).fit(X, y),
        "forest": lambda: RandomForestClassifier(trees // share, random_state=0).fit(X, y),
    }
    times = interleaved(tasks, rounds, clock=time.process_time)
    return {**times, "forest": [share * seconds for seconds in times["forest"]]}


def _rows(table: SizedTable) -> tuple[object, object]:
    if table == TABLES[0]:
        X, y = load_breast_cancer(return_X_y=True)
        return train_test_split(X, y, random_state=0)[0::2]
    informative = min(20, table.n_features // 2)
    return make_classification(
        table.n_rows, table.n_features, n_informative=informative, n_classes=table.n_classes, random_state=0
    )
