"""Runs and the folder of their results: one JSON file each, written atomically, claimed by locks."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
RUNS = "runs"  # folder of single results below that of packed ones
Result = dict[str, Any]
ABSENT = "–"  # in the tables of packed results


@dataclass(frozen=True)
class Run:
    """One fit: a method with its settings on one label of a data set, from one seed.

    Examples
    --------
    >>> Run("bace", "Class", "lcn", {"depth": 12, "drop_connect": 0.75}, 1).key
    'bace/lcn/Class,depth=12,drop_connect=0.75,seed=1'
    """

    dataset: str
    label: str
    method: str
    setting: dict[str, Any] = field(hash=False)
    seed: int

    @property
    def key(self) -> str:
        """The name of the result's file without its ending; different for different runs."""
        settings = [f"{name}={value}" for name, value in sorted(self.setting.items())]
        parts = ",".join([self.label, *settings, f"seed={self.seed}"])
        return f"{self.dataset}/{self.method}/{re.sub(r'[^-+.,=()A-Za-z0-9]', '_', parts)}"

    @classmethod
    def of(cls, result: Result) -> Run:
        """The run that a result is of."""
        return cls(*(result[name] for name in ("dataset", "label", "method", "setting", "seed")))

    def to_dict(self) -> dict[str, Any]:
        """The part of a result that says which run it is."""
        return {
            "dataset": self.dataset,
            "label": self.label,
            "method": self.method,
            "setting": self.setting,
            "seed": self.seed,
        }


class Store:
    """A folder of results: ``<dataset>/<method>.json`` packed, ``runs/<key>.json`` one by one.

    Parameters
    ----------
    folder : path
    """

    def __init__(self, folder: str | os.PathLike[str] = RESULTS) -> None:
        self.folder = Path(folder)

    def path(self, run: Run) -> Path:
        """Where the result of a run is written."""
        return self.folder / RUNS / f"{run.key}.json"

    def write(self, run: Run, result: Result) -> None:
        """Write a result: it is there as a whole or not at all, whenever the process is killed."""
        write_atomically(self.path(run), json.dumps(run.to_dict() | result))

    def finished(self, runs: Iterable[Run]) -> set[str]:
        """The keys of those runs that have a result."""
        wanted = {run.key: run for run in runs}
        groups = {(run.dataset, run.method) for run in wanted.values()}
        packed = {Run.of(result).key for group in groups for result in self._packed(*group)}
        return {key for key, run in wanted.items() if key in packed or self.path(run).exists()}

    def results(self, dataset: str, method: str) -> list[Result]:
        """All results of a method on a data set, packed or not, in the order of their keys."""
        found = {Run.of(result).key: result for result in self._packed(dataset, method)}
        for path in (self.folder / RUNS / dataset / method).glob("*.json"):
            result = json.loads(path.read_text())
            found[Run.of(result).key] = result
        return [found[key] for key in sorted(found)]

    def pack(self) -> list[Path]:
        """Merge single results into one file for each data set and method; the single ones stay.

        What all results of a file share is written once, and the names of what they do not share too.
        """
        groups = sorted((path.parent.name, path.name) for path in (self.folder / RUNS).glob("*/*") if path.is_dir())
        written = []
        for dataset, method in groups:
            shared, lines = _factor(self.results(dataset, method))
            path = self.folder / dataset / f"{method}.json"
            names, rows = _table(lines)
            text = ",\n".join(json.dumps(row) for row in rows)
            head = f'"shared": {json.dumps(shared)},\n"columns": {json.dumps(names)},'
            write_atomically(path, f'{{{head}\n"runs": [\n{text}\n]}}\n')
            written.append(path)
        return written

    def _packed(self, dataset: str, method: str) -> list[Result]:
        path = self.folder / dataset / f"{method}.json"
        if not path.exists():
            return []
        content = json.loads(path.read_text())
        runs = content["runs"]
        if "columns" in content:
            runs = [_nested(dict(zip(content["columns"], run, strict=True))) for run in runs]
        return [_merge(content["shared"], run) for run in runs]


def _factor(results: list[Result]) -> tuple[Result, list[Result]]:
    """What all results share, and each without that; the inverse of `_merge` for each.

    Examples
    --------
    >>> _factor([{"config": {"epochs": 30, "depth": 2}, "seed": 1}, {"config": {"epochs": 30, "depth": 3}, "seed": 1}])
    ({'seed': 1, 'config': {'epochs': 30}}, [{'config': {'depth': 2}}, {'config': {'depth': 3}}])
    """
    first = results[0]
    shared = {name: value for name, value in first.items() if all(result.get(name) == value for result in results)}
    configs = [result["config"] for result in results]
    common = {name: value for name, value in configs[0].items() if all(name in c and c[name] == value for c in configs)}
    shared["config"] = common
    own = [
        {name: value for name, value in result.items() if name not in shared}
        | {"config": {name: value for name, value in result["config"].items() if name not in common}}
        for result in results
    ]
    return shared, own


def _table(results: list[Result]) -> tuple[list[str], list[list[Any]]]:
    """The results as rows of one table, whose columns are named by the path to a value; ABSENT where there is none.

    Examples
    --------
    >>> _table([{"seed": 1, "config": {"depth": 2}}, {"seed": 2, "config": {}}])
    (['seed', 'config.depth', 'config'], [[1, 2, '–'], [2, '–', {}]])
    """
    flat = [dict(_flat(result)) for result in results]
    names = list(dict.fromkeys(name for result in flat for name in result))
    return names, [[result.get(name, ABSENT) for name in names] for result in flat]


def _flat(result: Result, above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in result.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{above}{name}.")
        else:
            yield above + name, value


def _nested(flat: Result) -> Result:
    """The inverse of what `_table` does to one result."""
    result: Result = {}
    for path, value in flat.items():
        *above, name = path.split(".")
        if value != ABSENT:
            inner = result
            for part in above:
                inner = inner.setdefault(part, {})
            inner[name] = value
    return result


def _merge(shared: Result, own: Result) -> Result:
    return shared | own | {"config": shared["config"] | own["config"]}


class Claims:
    """Which runs a process works on, for all processes that share a folder.

    A claim is a lock on one byte of one file, at the place that the run's key hashes to. The kernel drops it when
    the process ends, also by ``kill -9``; so no claim goes stale. POSIX locks belong to processes: a process holds
    one `Claims` for a folder.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._file = open(Path(folder) / "claims.lock", "ab")  # noqa: SIM115 - closed with the process or by close()

    def take(self, key: str) -> bool:
        """Claim a run; False where another process has it."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(key))
        except (BlockingIOError, PermissionError):
            return False
        return True

    def release(self, key: str) -> None:
        """Give a claim back."""
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _place(key))

    def close(self) -> None:
        """Give all claims back."""
        self._file.close()


def _place(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:7], "big")


def write_atomically(path: Path, text: str) -> None:
    """Write a file beside its place, then rename it: no reader ever sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{os.getpid()}.{hashlib.sha256(path.name.encode()).hexdigest()[:16]}")
    with open(partial, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
