"""What limits training now: where a step's time goes, and a roofline estimate from counted work and measured rates."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.comparison import Comparison, Measure, Part, times_faster
from benchmarks.tables import Data
from benchmarks.timing import interleaved, medians
from benchmarks.training import BATCH, DROP, RATE, THREADS, fit_ours, torch_threads
from treelu.data.targets import Targets
from treelu.kernels import compiled
from treelu.nn import DropConnect, LocallyConstantNetwork, Table
from treelu.nn.cpu.evaluation import COLUMNS
from treelu.training import Dataset, KernelStepper, batches
from treelu.training.stepper import UPDATES_AT_ONCE

BIG, SMALL = 32_000_000, 65_536  # float32 numbers: far beyond the caches, and about the size of a network's tables
PIECES = ("forward kernel", "loss", "backward kernel", "optimiser")
TOGETHER, ALONE = f"{THREADS} threads", "one thread"


@dataclass(frozen=True)
class Work:
    """The work of one training step, by count: depth M, D features, B rows of some non-zeros, one output, float32."""

    features: int
    depth: int
    nonzeros: float
    batch: int = BATCH

    @property
    def padded(self) -> int:
        """Weights that are touched for a non-zero feature: M, filled up to whole vectors."""
        return -(-self.depth // COLUMNS) * COLUMNS

    @property
    def hashes(self) -> float:
        """Draws of DropConnect: one for each touched weight and connection, forward and again backward."""
        return 2 * self.batch * (self.nonzeros * self.padded + self.depth**2 / 2)

    @property
    def flops_of_rows(self) -> float:
        """Projections (3 forward, 3 backward a weight), coefficients (2 and 4 for M³/6), head and chain (2 and 4 each
        for M²/2), softplus (some 40 a neuron).
        """
        m = self.depth
        return self.batch * (6 * self.nonzeros * self.padded + 6 * m**3 / 6 + 12 * m**2 / 2 + 40 * m)

    @property
    def flops_of_step(self) -> float:
        """The products V·w and their two gradients (2·M²·D each), and 6 for each of 2·M·D parameters' update."""
        return 6 * self.depth**2 * self.features + 6 * 2 * self.depth * self.features

    @property
    def bytes_of_rows(self) -> float:
        """Weights read forward, their gradients read and written backward: tables that stay in the caches."""
        return 4 * self.batch * self.nonzeros * (3 * self.padded + 4)

    @property
    def bytes_of_step(self) -> float:
        """Each of 2·M·D parameters: about 12 numbers are moved (products, packing, gradient, momentum, update)."""
        return 4 * 12 * 2 * self.depth * self.features

    @property
    def operations(self) -> float:
        """All arithmetic, a hash as the nine integer operations that it is."""
        return 9 * self.hashes + self.flops_of_rows + self.flops_of_step

    @property
    def bytes(self) -> float:
        """All bytes."""
        return self.bytes_of_rows + self.bytes_of_step


def measure(data: Data, depth: int = 12, *, rounds: int = 7, epochs: int = 30) -> Part:
    """Measured pieces of a fit on a data set, the machine's rates, and the time that the counted work needs."""
    with torch_threads(THREADS):
        rates = _rates(rounds)
        pieces, a_step = _pieces(data, depth, rounds), _a_step(data, depth, rounds)
        fits = medians(interleaved(_fits(data, depth, epochs), min(rounds, 3)))
    work = Work(data.train.X.shape[1], depth, data.nonzeros)
    bounds = _bounds(work, rates)
    steps = epochs * -(-data.train.X.shape[0] // BATCH)
    part = Part()
    part.details = {
        "data": data.name,
        "depth": depth,
        "rates": rates,
        "step": {"pieces": pieces, "measured": a_step, "roofline": bounds},
        "samples": {"operations": work.operations / BATCH, "bytes": work.bytes / BATCH},
        "fit": {"steps": steps, "seconds": fits[TOGETHER], "seconds_in_steps": steps * a_step},
    }
    step = f"{data.name}: a training step"
    fit = f"{data.name}: fit, depth {depth}, {epochs} epochs"
    part.comparisons = [
        Comparison(step, Measure("roofline", sum(bounds.values())), Measure("measured", a_step), "s"),
        times_faster(fit, Measure(f"treelu, {TOGETHER}", fits[TOGETHER]), Measure(f"treelu, {ALONE}", fits[ALONE])),
    ]
    return part


def _bounds(work: Work, rates: dict[str, float]) -> dict[str, float]:
    """Seconds of a step's counted work at the measured rates of one thread.

    They share one core's ports, so the least time of a step lies between the largest of them and their sum.
    """
    return {
        "DropConnect hashes": work.hashes / rates["hashes"],
        "arithmetic on rows": work.flops_of_rows / rates["flops_one_thread"],
        "arithmetic on parameters": work.flops_of_step / rates["flops_one_thread"],
        "weights and gradients through the cache": work.bytes_of_rows / rates["cache_bytes"],
        "parameters through the cache": work.bytes_of_step / rates["cache_bytes"],
    }


def _fits(data: Data, depth: int, epochs: int) -> dict[str, Callable[[], object]]:
    def alone() -> None:
        with torch_threads(1):
            fit_ours(data, depth, epochs)

    return {TOGETHER: partial(fit_ours, data, depth, epochs), ALONE: alone}


def _stepper(data: Data, depth: int) -> KernelStepper:
    table, y = Table(data.train.X), data.train.y.astype(np.float32)[:, None]
    network = LocallyConstantNetwork(table.shape[1], depth, 1, drop_connect=DROP, dtype=np.float32, seed=0)
    return KernelStepper(network, Dataset(table, Targets("binary", y, 1)), "sgd")


def _a_step(data: Data, depth: int, rounds: int) -> float:
    """Median seconds of a training step, many of them in one call of a kernel."""
    stepper, seconds = _stepper(data, depth), []
    stream = batches(stepper.sample, BATCH, np.random.default_rng(0))
    for _ in range(1 + 3 * rounds):
        some, start = list(itertools.islice(stream, UPDATES_AT_ONCE)), time.perf_counter()
        stepper.train_steps(some, np.arange(len(some)), 0.5, RATE)
        seconds.append((time.perf_counter() - start) / len(some))
    return median(seconds[1:])


def _pieces(data: Data, depth: int, rounds: int) -> dict[str, float]:
    """Median seconds of each piece of a training step, called one by one."""
    stepper = _stepper(data, depth)
    sample, passes = stepper.sample, stepper.passes
    seconds: dict[str, list[float]] = {name: [] for name in PIECES}
    stream = batches(sample, BATCH, np.random.default_rng(0))
    for step in range(30 * rounds):
        index, ticks = next(stream), [time.perf_counter()]
        output = passes.forward(sample.table.rows(index), 0.5, DropConnect(DROP, step))
        ticks.append(time.perf_counter())
        _, gradient = sample.targets.loss_and_gradient(output, index)
        ticks.append(time.perf_counter())
        passes.backward(gradient)
        ticks.append(time.perf_counter())
        stepper.optimizer.take_step(RATE)
        ticks.append(time.perf_counter())
        for name, passed in zip(PIECES, np.diff(ticks), strict=True):
            seconds[name].append(float(passed))
    return {name: median(values) for name, values in seconds.items()}


def _rates(rounds: int) -> dict[str, float]:
    """What this machine does a second at its best: numbers hashed, arithmetic of a matrix product, bytes copied."""
    square, big = torch.rand(1_024, 1_024), torch.rand(BIG)
    big_copy = torch.empty_like(big)
    small, words = np.ones(SMALL, np.float32), np.empty(SMALL, np.int32)
    small_copy = np.empty_like(small)
    tasks: dict[str, Callable[[], Any]] = {
        "flops_one_thread": partial(_on_one_thread, square.matmul, square),
        "flops": partial(square.matmul, square),
        "memory_bytes": partial(big_copy.copy_, big),
        "cache_bytes": partial(np.copyto, small_copy, small),
        "hashes": partial(compiled.row_keys, 1, words),
    }
    amounts = {
        "flops_one_thread": 2 * len(square) ** 3,
        "flops": 2 * len(square) ** 3,
        "memory_bytes": 8 * BIG,
        "cache_bytes": 8 * SMALL,
        "hashes": 2 * SMALL,  # two for each key
    }
    times = interleaved(tasks, rounds, at_least=0.02)
    return {name: amounts[name] / min(seconds) for name, seconds in times.items()}


def _on_one_thread(task: Callable[..., Any], *arguments: Any) -> None:
    with torch_threads(1):
        task(*arguments)
