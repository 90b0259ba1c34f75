"""Training: this library against the straightforward form, and against a random forest of 500 trees."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from torch.nn import functional as F

from benchmarks.comparison import Measure, Part, times_faster
from benchmarks.straightforward import StraightforwardNetwork
from benchmarks.tables import Data
from benchmarks.timing import interleaved, medians
from treelu import LCNClassifier
from treelu.nn.cpu.threads import limited

THREADS = min(2, torch.get_num_threads())  # OMP_NUM_THREADS=1 makes it one
BATCH, RATE, DROP = 64, 0.1, 0.75
EVALUATION_ROWS = 256  # whose Jacobians are held at once


def ours(depth: int, epochs: int, batch_size: int = BATCH, seed: int = 0) -> LCNClassifier:
    """A classifier with the paper's settings."""
    return LCNClassifier(
        depth=depth,
        drop_connect=DROP,
        training={
            "batch_size": batch_size,
            "optimizer": "sgd",
            "schedule": "step",
            "annealing": 1.0,
            "straight_through": False,
            "temper": False,
        },
        epochs=epochs,
        learning_rate=RATE,
        random_state=seed,
    )


def fit_ours(data: Data, depth: int, epochs: int) -> LCNClassifier:
    """Fit it, judged on the validation rows after each epoch."""
    return ours(depth, epochs).fit(*data.train, eval_set=tuple(data.valid))


class StraightforwardTraining:
    """The same training by the straightforward form, a few steps at a time.

    Dense rows lie ready before the clock starts.
    """

    def __init__(self, data: Data, depth: int) -> None:
        self.X, self.y = _dense(data.train.X), torch.from_numpy(data.train.y).float()[:, None]
        self.X_valid, self.y_valid = _dense(data.valid.X), data.valid.y
        self.network = StraightforwardNetwork(self.X.shape[1], depth, DROP)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=RATE, momentum=0.9, nesterov=True)
        self.steps_per_epoch = -(-len(self.X) // BATCH)
        self.epoch_seconds: list[float] = []

    def run(self, steps: int) -> None:
        """Some steps and one validation; notes what an epoch of such steps takes."""
        started = time.perf_counter()
        self.network.train()
        for rows in torch.randperm(len(self.X))[: steps * BATCH].split(BATCH):
            self.optimizer.zero_grad()
            F.binary_cross_entropy_with_logits(self.network(self.X[rows], 0.5), self.y[rows]).backward()
            self.optimizer.step()
        stepped = time.perf_counter()
        self.validate()
        share = self.steps_per_epoch / min(steps, self.steps_per_epoch)
        self.epoch_seconds.append((stepped - started) * share + time.perf_counter() - stepped)

    def validate(self) -> float:
        """AUC of the piece-wise constant network on the validation rows."""
        self.network.eval()
        with torch.no_grad():
            scores = torch.cat([self.network(rows, 1.0) for rows in self.X_valid.split(EVALUATION_ROWS)])
        return float(roc_auc_score(self.y_valid, scores.numpy()[:, 0]))


def _dense(X: object) -> torch.Tensor:
    return torch.from_numpy(X.toarray().astype(np.float32))  # type: ignore[attr-defined]


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """That many threads for torch, and for the kernels."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with limited(count):
            yield
    finally:
        torch.set_num_threads(before)


def measure(
    data: Data, depth: int, *, epochs: int = 30, rounds: int = 5, steps: int = 10, trees: int = 0
) -> tuple[Part, RandomForestClassifier | None]:
    """Time a fit with validation against the straightforward form scaled from `steps` steps and one validation a round.

    With `trees`, a random forest grows by its share of them in each round, so that the rounds add up to its fit. The
    forest is returned for `benchmarks.prediction`.
    """
    slow = StraightforwardTraining(data, depth)
    forest = RandomForestClassifier(0, n_jobs=THREADS, warm_start=True, random_state=0) if trees else None
    tasks = {
        "treelu": lambda: fit_ours(data, depth, epochs),
        "straightforward": lambda: slow.run(steps),
    }
    if forest is not None:
        tasks["forest"] = lambda: _grow(forest, -(-trees // rounds), data)
    with torch_threads(THREADS):
        fit_ours(data, depth, epochs=1)  # loads what it needs
        times = interleaved(tasks, rounds)
    fitted = Measure("treelu", medians(times)["treelu"])
    straight = epochs * median(slow.epoch_seconds)
    job = f"{data.name}: fit, depth {depth}, {epochs} epochs"
    part = Part(
        details={"depth": depth, "epochs": epochs, "seconds": times, "straightforward_epoch": slow.epoch_seconds}
    )
    part.comparisons = [times_faster(job, fitted, Measure("straightforward form", straight), at_least=80)]
    if forest is not None:
        other = Measure(f"random forest of {trees}", sum(times["forest"]))
        part.comparisons.append(times_faster(job, fitted, other, at_least=8))
    return part, forest


def _grow(forest: RandomForestClassifier, trees: int, data: Data) -> None:
    forest.n_estimators += trees
    forest.fit(*data.train)
