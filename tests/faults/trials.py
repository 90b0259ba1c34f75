"""The trials: each raises where a promise is broken."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.runs import Store
from experiments.sweep import sweep
from experiments.tests.tiny import LOG, slow, tiny_dataset, tiny_runs
from tests.faults.processes import OUTSIDE, command, disturbed, end, seconds, start
from treelu import LCNClassifier, LCNRegressor
from treelu.persistence import load_as_saved, save
from treelu.persistence.files import MANIFEST, own_files
from treelu.tree import ObliqueTree

Trial = Callable[[random.Random, Path], None]
ROWS = 300
SMALL_DISK = 1 << 20  # bytes


def stump(value: float, width: int = 2000) -> ObliqueTree:
    """A tree of some 16 kB that carries a number."""
    return ObliqueTree(np.full((1, width), value), [0.0], [[1, 2]], [[value], [-value]])


def check_folder(folder: Path, *, clean: bool = False) -> Any:
    """The one whole model of a folder; the files beside it are its own. `clean`: and nothing else is there."""
    model = load_as_saved(folder)
    tree = folder / "tree.json"
    if tree.exists():
        assert ObliqueTree.from_json(tree.read_text()) == model.trees[0], "the tree of another model"
    if clean:
        own = own_files(folder)
        left = {path.name for path in folder.iterdir()} - {MANIFEST, own.arrays, *own.beside}
        assert not left, f"left over: {sorted(left)}"
    return model


# Killed


def save_killed(rng: random.Random, folder: Path) -> None:
    """SIGKILL while models are saved one after the other; whole ever after, clean after the next save."""
    save(stump(1), folder / "m")

    def work() -> None:
        for k in range(10_000):
            save(stump(2 + k % 5), folder / "m", beside={"report.html": b"%d" % (2 + k % 5)})

    disturbed(work, rng, signal.SIGKILL, 0.3)
    found = check_folder(folder / "m")
    assert found == stump(found.values[0, 0]), "a mixture of models"
    page = folder / "m" / "report.html"
    assert not page.exists() or page.read_bytes() == b"%d" % found.values[0, 0], "the report of another model"
    save(stump(9), folder / "m")
    assert check_folder(folder / "m", clean=True) == stump(9)


@dataclass
class Commands:
    """Commands on a small table, disturbed by a signal."""

    number: signal.Signals
    words: tuple[object, ...] = ("--depth", 2, "--epochs", 40)
    takes: dict[str, float] = field(default_factory=dict)  # seconds of the undisturbed command, measured once

    def fit(self, rng: random.Random, folder: Path) -> None:
        """A model is replaced by another fit; the old or the new one is there, whole."""
        table, out = write_table(folder), folder / "m"
        plain = ("fit", table, "--target", "y", "--no-cart", "--out", out, "--force")
        quick, words = (*plain, "--depth", 2, "--epochs", 3), (*plain, *self.words)
        if not self.takes:
            self.takes["fit"] = seconds(command(*words))
        assert end(start(command(*quick, "--seed", 1))) == 0
        before = {path.name: path.read_bytes() for path in out.iterdir()}
        code = disturbed(command(*words, "--seed", 2), rng, self.number, 1.1 * self.takes["fit"])
        self.check_code(code)
        check_folder(out)
        if code == 130 and (out / MANIFEST).read_bytes() == before[MANIFEST]:
            now = {path.name: path.read_bytes() for path in out.iterdir()}
            assert now == before, "the old model stays, but not its files"
        assert end(start(command(*quick, "--seed", 3))) == 0
        check_folder(out, clean=True)

    def predict(self, rng: random.Random, folder: Path) -> None:
        """A file of predictions is replaced; the old or the new one is there, whole."""
        table, out = write_table(folder, copies=40), folder / "scores.csv"
        save_table_model(folder)
        words = ("predict", folder / "m", table, "--out", out, "--force")
        if not self.takes:
            self.takes["predict"] = seconds(command(*words))
            self.takes["bytes"] = out.stat().st_size
        out.write_text("old")
        self.check_code(disturbed(command(*words), rng, self.number, 1.1 * self.takes["predict"]))
        assert out.read_text() == "old" or out.stat().st_size == self.takes["bytes"], "half a file"
        assert end(start(command(*words))) == 0
        assert not [path.name for path in folder.iterdir() if path.name.startswith(".")], "leftovers"

    def check_code(self, code: int) -> None:
        """The exit codes that are promised."""
        wanted = (0, 130, OUTSIDE) if self.number == signal.SIGINT else (0, -self.number)
        assert code in wanted, f"exit code {code}"


def write_table(folder: Path, copies: int = 1) -> Path:
    """A table that can be learned."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 3)).round(3)
    lines = [f"{a},{b},{c},{int(a - b > 0)}" for a, b, c in x.tolist()]
    path = folder / "table.csv"
    path.write_text("\n".join(["a,b,c,y", *lines * copies]) + "\n")
    return path


_MODEL: dict[str, bytes] = {}  # of the table, fitted once


def save_table_model(folder: Path) -> None:
    """A model of the table in ``m``."""
    out = folder / "m"
    if not _MODEL:
        words = ("fit", write_table(folder), "--target", "y", "--depth", 2, "--epochs", 3, "--no-cart", "--out", out)
        assert end(start(command(*words))) == 0
        _MODEL.update({path.name: path.read_bytes() for path in out.iterdir()})
        write_table(folder, copies=40)
    out.mkdir(exist_ok=True)
    for name, content in _MODEL.items():
        (out / name).write_bytes(content)


def sweep_killed(rng: random.Random, folder: Path) -> None:
    """SIGKILL to one of two processes that share a sweep; what was finished counts, the rest is made afterwards."""
    os.environ[LOG] = str(folder / "log")
    runs, store = tiny_runs(3), Store(folder / "results")
    work = partial(sweep, runs, store, tiny_dataset, partial(slow, seconds=0.02))
    other = start(lambda: work() and None)
    disturbed(lambda: work() and None, rng, signal.SIGKILL, 0.4)
    assert end(other) == 0
    finished = set(store.finished(runs))
    made = sweep(runs, store, tiny_dataset, partial(slow, seconds=0.0))
    assert made == len(runs) - len(finished), "work was lost, or done twice"
    assert len(store.finished(runs)) == len(runs)


def jobs_stopped(rng: random.Random, folder: Path) -> None:
    """Ctrl-C while four initialisations train in two threads: a whole model from what there is, and it says so."""
    X, y = some_rows(rng.randrange(1000), 400)
    seen: list[float] = []  # seconds of the undisturbed fit

    def work() -> int:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = LCNClassifier(
                depth=3, epochs=60, training={"n_init": 4}, n_jobs=2, drop_connect=0.1, random_state=0
            ).fit(X, y)
        stopped = model.history_.ended == "interrupted"
        told = any("training interrupted" in str(one.message) for one in said)
        return 0 if np.isfinite(model.predict_proba(X)).all() and (told or not stopped) else 3

    seen.append(seconds(work))
    code = disturbed(work, rng, signal.SIGINT, 1.1 * seen[0])
    assert code in (0, OUTSIDE), f"exit code {code}"  # before the first epoch there is nothing to keep


# Together


def two_writers(rng: random.Random, folder: Path) -> None:
    """Two processes save different models; every load in between finds a whole one, and nothing is left over."""
    save(stump(1), folder / "m")

    def work(value: float) -> None:
        for k in range(40):
            save(stump(value + k % 2, 10 + rng.randrange(3)), folder / "m")

    writers = [start(partial(work, 10.0 * (1 + k))) for k in range(2)]
    codes: list[int] = []
    while len(codes) < 2:
        for writer in writers:
            done, status = os.waitpid(writer, os.WNOHANG) if writer else (0, 0)
            if done:
                codes.append(os.waitstatus_to_exitcode(status))
                writers[writers.index(writer)] = 0
        found = check_folder(folder / "m")
        assert found == stump(found.values[0, 0], found.n_features), "a mixture of models"
    assert codes == [0, 0], f"exit codes {codes}"
    check_folder(folder / "m", clean=True)


def forked(rng: random.Random, folder: Path) -> None:
    """Predict and fit, fork, predict and fit in the child: the same answers, no waiting for the parent's threads."""
    X, y = some_rows(rng.randrange(1000), 3000)
    model = LCNClassifier(depth=4, epochs=2, random_state=0).fit(X, y)
    LCNRegressor(depth=3, epochs=1, random_state=0).fit(X, X[:, 0])  # compiled here, not in each process
    wanted = model.predict_proba(X)

    def work() -> int:
        same = np.array_equal(model.predict_proba(X), wanted) and (model.tree_.apply(X[:9]) == leaves).all()
        LCNRegressor(depth=3, epochs=1, random_state=0).fit(X, X[:, 0])
        return 0 if same else 3

    leaves = model.tree_.apply(X[:9])
    for code in [end(child, 60) for child in [start(work) for _ in range(2)]]:
        assert code == 0, f"exit code {code}"


def threaded(rng: random.Random, folder: Path) -> None:
    """Threads predict with one model, fit models of their own and save them: as one after the other."""
    X, y = some_rows(rng.randrange(1000), 1000)
    model = LCNClassifier(depth=4, epochs=2, random_state=0).fit(X, y)
    wanted, leaves = model.predict_proba(X), model.tree_.apply(X)
    faults: list[str] = []

    def work(number: int) -> None:
        try:
            for _ in range(3):
                if not np.array_equal(model.predict_proba(X), wanted) or (model.tree_.apply(X) != leaves).any():
                    faults.append("another prediction")
            own = LCNClassifier(depth=4, epochs=2, random_state=0).fit(X, y)
            own.save(folder / f"m{number % 2}")
            if not np.array_equal(own.predict_proba(X), wanted):
                faults.append("another model")
        except Exception as error:
            faults.append(repr(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults[0]
    for number in range(2):
        assert np.array_equal(load_as_saved(folder / f"m{number}").predict_proba(X), wanted)


def some_rows(seed: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6))
    return X, (X[:, 0] * X[:, 1] + X[:, 2] > 0).astype(int)


# A full disk


@contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """A file system of a megabyte in a file; None where none can be mounted."""
    image, place = folder / "disk.img", folder / "disk"
    image.write_bytes(bytes(SMALL_DISK))
    place.mkdir()
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        made = subprocess.run(["mke2fs", "-q", "-F", image], **quiet).returncode == 0
        mounted = made and subprocess.run(["mount", "-o", "loop", image, place], **quiet).returncode == 0
    except FileNotFoundError:
        mounted = False
    try:
        yield place if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", place], check=True)


def full_disk(rng: random.Random, folder: Path) -> None:
    """A disk fills up while a model is replaced: an OSError, the old model, nothing left over; with room it goes on."""
    with small_disk(folder) as disk:
        if disk is None:
            _limited(rng, folder)
            return
        save(stump(1), disk / "m", beside={"report.html": b"1"})
        free = os.statvfs(disk)
        room = rng.randrange(0, 60_000)
        (disk / "filler").write_bytes(bytes(max(0, free.f_bavail * free.f_frsize - room)))
        try:
            save(stump(2), disk / "m", beside={"report.html": b"2" * 20_000})
        except OSError:
            assert check_folder(disk / "m", clean=True) == stump(1), "not the old model"
            assert (disk / "m" / "report.html").read_bytes() == b"1"
        else:
            assert check_folder(disk / "m", clean=True) == stump(2)
        (disk / "filler").unlink()
        save(stump(3), disk / "m")
        assert check_folder(disk / "m", clean=True) == stump(3)


def _limited(rng: random.Random, folder: Path) -> None:
    """The same with a limit on the size of files."""
    import resource

    save(stump(1), folder / "m")

    def work() -> int:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (rng.randrange(1, 16_000), resource.RLIM_INFINITY))
        try:
            save(stump(2), folder / "m")
        except OSError:
            return 0
        return 3

    assert end(start(work)) == 0, "it was saved"
    assert check_folder(folder / "m", clean=True) == stump(1)


def trials() -> dict[str, Trial]:
    """All of them, by what is done."""
    killed, stopped = (partial(Commands, number) for number in (signal.SIGKILL, signal.SIGINT))
    tuned, small = ("--depth", 2, "--tune", "--folds", 2, "--epochs", 2), ("--leaves", 4)
    return {
        "save, killed": save_killed,
        "fit, killed": killed().fit,
        "predict, killed": killed().predict,
        "tune, killed": killed(tuned).fit,
        "sweep, killed": sweep_killed,
        "fit, Ctrl-C": stopped().fit,
        "small, Ctrl-C": stopped(small).fit,
        "n_jobs, Ctrl-C": jobs_stopped,
        "predict, Ctrl-C": stopped().predict,
        "tune, Ctrl-C": stopped(tuned).fit,
        "two writers": two_writers,
        "full disk": full_disk,
        "fork": forked,
        "threads": threaded,
    }
