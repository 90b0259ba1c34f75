"""A tiny data set and runs on it, for tests in several processes."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.data import Dataset
from experiments.runs import Result, Run, Store
from experiments.sweep import sweep

LOG = "TREELU_TEST_LOG"  # the variable that names the file to note things in


def note(*words: Any) -> None:
    """Append a line to the log; short appends of several processes do not mix."""
    with open(os.environ[LOG], "a") as file:
        file.write(" ".join(map(str, words)) + "\n")


def read_log(path: Path, first: str) -> list[list[str]]:
    """The lines that begin with a word, without it."""
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [line[1:] for line in lines if line[0] == first]


def tiny_dataset(name: str = "bace", kind: type[Dataset] = Dataset) -> Dataset:
    """Ninety rows of two informative features and two labels, one of them with gaps."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    Y = np.column_stack([X[:, 0] + X[:, 1] > 0, X[:, 0] * X[:, 1] > 0]).astype(float)
    Y[::7, 1] = np.nan
    split = {"train": np.arange(50), "valid": np.arange(50, 70), "test": np.arange(70, 90)}
    return kind(name, "classification", X, Y, ("sum", "product"), split)


def tiny_runs(n_seeds: int) -> list[Run]:
    """Trees of two depths on both labels."""
    labels = tiny_dataset().labels
    return [
        Run("bace", label, "cart", {"max_depth": depth}, seed)
        for seed in range(n_seeds)
        for label in labels
        for depth in (1, 2)
    ]


def slow(run: Run, dataset: Dataset, seconds: float) -> Result:
    """A result that takes its time; notes when it begins."""
    note("began", run.key, os.getpid())
    time.sleep(seconds)
    X, y = dataset.parts(run.label)["test"]
    return {"config": {}, "scores": {"best": {"test": float(abs(X).mean() + y.mean())}}}


class NotedDataset(Dataset):
    """A data set that notes each time it arrives in a process."""

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        note("arrived", os.getpid())


def main(folder: str, n_seeds: str, seconds: str) -> None:
    """Sweep the tiny runs in this process."""
    print(sweep(tiny_runs(int(n_seeds)), Store(folder), tiny_dataset, partial(slow, seconds=float(seconds))))


if __name__ == "__main__":
    import sys

    main(*sys.argv[1:])
