"""How time and peak memory of a fit grow with rows, features, depth, batch size and non-zeros."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing import forkserver
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from scipy import sparse

from benchmarks.comparison import Comparison, Measure, Part
from benchmarks.memory import PeakMemory
from benchmarks.tables import Pair, random_rows
from benchmarks.timing import growth_exponent
from benchmarks.training import ours

MB = 1e6
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
LONG = 3.0  # seconds: what takes longer is not repeated


@dataclass(frozen=True)
class Size:
    """One fit: a sparse table and the settings that its cost depends on."""

    rows: int = 10_000
    features: int = 1_000
    nonzeros: int = 16
    depth: int = 8
    batch_size: int = 64

    @property
    def operations(self) -> float:
        """Multiply-adds of an epoch up to constants: M·nnz + M³/6 a row, M²·D a step."""
        a_row = self.depth * self.nonzeros + self.depth**3 / 6
        return self.rows * a_row + self.rows / self.batch_size * self.depth**2 * self.features

    @property
    def numbers(self) -> float:
        """What a fit holds beyond the table, up to constants: 2·M·D parameters, three times B·M² for a batch."""
        return 2 * self.depth * self.features + 3 * self.batch_size * self.depth**2

    @property
    def jacobian_bytes(self) -> int:
        """The batch's Jacobian that the paper's dynamic programme would hold, in float32."""
        return 4 * self.batch_size * self.depth * self.features


class Cost(NamedTuple):
    """What a fit took: seconds, peak bytes beyond the loaded table, and the table's bytes."""

    seconds: float
    peak: int
    table: int


SWEEPS: Mapping[str, Sequence[int]] = {
    "rows": (1_000, 10_000, 100_000, 1_000_000),
    "features": (100, 1_000, 10_000, 100_000),
    "nonzeros": (4, 16, 64, 256),
    "depth": (2, 4, 8, 16, 32, 64),
    "batch_size": (16, 64, 256, 1_024, 4_096),
}
TOGETHER = Size(rows=4_096, features=20_000, depth=32, batch_size=1_024)


def measure(
    sweeps: Mapping[str, Sequence[int]] = SWEEPS, base: Size | None = None, together: Size = TOGETHER, rounds: int = 3
) -> Part:
    """One epoch of each size in a process of its own, with the table loaded before the baseline is taken."""
    base = Size() if base is None else base
    part = Part(details={"base": asdict(base), "sweeps": {}})
    with tempfile.TemporaryDirectory() as folder, _fresh_processes() as pool:

        def cost(size: Size, dtype: str = "float32") -> Cost:
            _store(random_rows(size.rows, size.features, size.nonzeros), Path(folder), dtype)
            return pool.submit(measure_fit, Path(folder), size, rounds).result()

        for name, values in sweeps.items():
            sizes = [replace(base, **{name: value}) for value in values]
            costs = [cost(size) for size in sizes]
            part.details["sweeps"][name] = _sweep_details(name, sizes, costs)
            part.comparisons += _compare(name, values, part.details["sweeps"][name])
            if name == "rows":
                part.comparisons.append(_beyond_the_table("float32", sizes[-2:], costs[-2:]))
                in_float64 = [cost(size, "float64") for size in sizes[-2:]]
                part.comparisons.append(_beyond_the_table("float64", sizes[-2:], in_float64))
        part.comparisons.append(_without_jacobian(together, cost(together)))
    return part


@contextmanager
def _fresh_processes() -> Iterator[ProcessPoolExecutor]:
    """A pool whose processes do one job each on one thread, forked from one that has only loaded the code.

    One thread from the start: growth is that of the work, not of waiting, and a process with threads must not fork.
    """
    context = multiprocessing.get_context("forkserver")
    # what the program imports, and the kernels: each process would load them anew
    context.set_forkserver_preload(["benchmarks.prediction", "benchmarks.limits", "benchmarks.warm"])
    with patch.dict(os.environ, dict.fromkeys(THREAD_VARIABLES, "1")):
        forkserver.ensure_running()
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        yield pool


def _store(table: Pair, folder: Path, dtype: str) -> None:
    """Lay the table down as files: loading them leaves no rubbish in memory, as making it would."""
    X, y = table
    for name, array in (("data", X.data.astype(dtype)), ("indices", X.indices), ("indptr", X.indptr), ("y", y)):
        np.save(folder / f"{name}.npy", array)


def measure_fit(folder: Path, size: Size, rounds: int) -> Cost:
    """Median seconds of an epoch and the peak memory of the first, in this process."""
    data, indices, indptr, y = (np.load(folder / f"{name}.npy") for name in ("data", "indices", "indptr", "y"))
    X = sparse.csr_matrix((data, indices, indptr), (size.rows, size.features))
    small = random_rows(500, 50, 4)
    _fit(Pair(small.X.astype(data.dtype), small.y), size.depth, batch_size=64)  # warms up
    peak = PeakMemory()
    seconds = [_timed_fit(Pair(X, y), size)]
    rise = peak.rise()
    if seconds[0] < LONG:
        seconds += [_timed_fit(Pair(X, y), size) for _ in range(rounds - 1)]
    return Cost(median(seconds), rise, sum(array.nbytes for array in (data, indices, indptr, y)))


def _timed_fit(table: Pair, size: Size) -> float:
    started = time.perf_counter()
    _fit(table, size.depth, size.batch_size)
    return time.perf_counter() - started


def _fit(table: Pair, depth: int, batch_size: int) -> None:
    ours(depth, epochs=1, batch_size=batch_size).fit(*table)


def _sweep_details(name: str, sizes: Sequence[Size], costs: Sequence[Cost]) -> dict[str, Any]:
    values = [getattr(size, name) for size in sizes]
    peaks = [max(cost.peak, 1) for cost in costs]
    return {
        "values": values,
        "seconds": [cost.seconds for cost in costs],
        "peak_mb": [peak / MB for peak in peaks],
        "table_mb": [cost.table / MB for cost in costs],
        "time_exponent": growth_exponent(values, [cost.seconds for cost in costs]),
        "time_expected": growth_exponent(values, [size.operations for size in sizes]),
        "memory_exponent": growth_exponent(values, peaks),
        "memory_expected": growth_exponent(values, [size.numbers for size in sizes]),
    }


def _compare(name: str, values: Sequence[int], sweep: Mapping[str, Any]) -> list[Comparison]:
    """Last size against first, in time and in memory; exponents beside the expected ones."""
    found, word = [], name.replace("_", " ").replace("nonzeros", "non-zeros")
    for what, key, unit in (("time of an epoch", "seconds", "s"), ("peak memory", "peak_mb", "MB")):
        kind = "time" if unit == "s" else "memory"
        exponents = f"exponent {sweep[kind + '_exponent']:.2f}, by count {sweep[kind + '_expected']:.2f}"
        first, last = (Measure(f"{word} {values[end]:,}", sweep[key][end]) for end in (0, -1))
        found.append(Comparison(f"{what} against {word}", first, last, unit, exponents))
    return found


def _beyond_the_table(dtype: str, sizes: Sequence[Size], costs: Sequence[Cost]) -> Comparison:
    """What a further row takes beyond its own entries, between two sizes that are larger than any block of rows."""
    few, many = costs
    further = sizes[1].rows - sizes[0].rows
    a_row, beyond = (many.table - few.table) / further, (many.peak - few.peak) / further
    return Comparison(
        f"peak memory for a further row, {dtype}",
        Measure("its entries in the table", a_row),
        Measure("beyond them", beyond),
        "bytes/row",
        "≤ 0.1",
        beyond <= 0.1 * a_row,
    )


def _without_jacobian(size: Size, cost: Cost) -> Comparison:
    return Comparison(
        f"peak memory, batch {size.batch_size:,} × depth {size.depth} × {size.features:,} features",
        Measure("treelu", cost.peak / MB),
        Measure("the Jacobian alone", size.jacobian_bytes / MB),
        "MB",
        "≥ 10",
        size.jacobian_bytes >= 10 * cost.peak,
    )
