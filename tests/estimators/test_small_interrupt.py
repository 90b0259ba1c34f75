"""Ctrl-C in the fit of a small tree: a real signal, in a process of its own, at a moment that a hook chooses."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")]

# A process that fits, presses Ctrl-C once, in the hook of MOMENT when that is called the NUMBERth time, and prints what
# is left. Threads then wait until the signal has arrived.
BEGIN = """
import json, os, signal, sys, threading, warnings
import numpy as np
from treelu import ObliqueTreeClassifier, ObliqueTreeRegressor
from treelu.estimators import _large
from treelu.training.small import finish, path

signal.signal(signal.SIGINT, signal.default_int_handler)
ARMED, SEEN, AFTER, N_ROWS = [False], {}, [], 300
pressed, key = threading.Event(), threading.Lock()

def press(moment, number=1):
    with key:
        SEEN[moment] = SEEN.get(moment, 0) + 1
        now = ARMED[0] and not pressed.is_set() and moment == MOMENT and SEEN[moment] == number
        if now:
            pressed.set()
    if now:
        os.kill(os.getpid(), signal.SIGINT)
    if ARMED[0] and pressed.is_set() and threading.current_thread() is not threading.main_thread():
        stopped.wait(60)

stopped = threading.Event()
checked = path.trained
def hooked(tree, rows, *rest):
    moment = "path" if len(rows) == N_ROWS else "comparison"
    press(moment, NUMBER)
    if stopped.is_set():
        AFTER.append(moment)
    return checked(tree, rows, *rest)
path.trained = hooked

import treelu.training.parallel as together
class Stop(threading.Event().__class__):  # tells the hook that the pool has heard of it
    def set(self):
        super().set()
        if pressed.is_set():  # not where the threads of a comparison end
            stopped.set()
together.threading = type("threading", (), {**vars(threading), "Event": Stop})

rng = np.random.default_rng(0)
X = rng.normal(size=(N_ROWS, 4))
y = (X[:, 0] + X[:, 1] > 0).astype(int)
QUICK = {"n_updates": 20, "max_leaf_nodes": 8, "teacher": None, "random_state": 0}
def attempt(model, *rows):
    ARMED[0] = True
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model.fit(*rows)
            ended = "kept"
        except KeyboardInterrupt:
            ended = "KeyboardInterrupt"
    ARMED[0] = False
    said = [str(one.message) for one in said if "interrupted" in str(one.message)]
    return {"ended": ended, "said": said, "after": len(AFTER), "fitted": hasattr(model, "tree_")}
"""


def what_is_left(moment: str, code: str, number: int = 1) -> dict[str, Any]:
    """What the process prints, as JSON, that presses Ctrl-C at the moment's call of this number."""
    program = f"MOMENT, NUMBER = {moment!r}, {number}\n{BEGIN}\n{code}"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_while_sizes_are_compared_nothing_is_there_to_keep(n_jobs: int) -> None:
    left = what_is_left(
        "comparison", f"print(json.dumps(attempt(ObliqueTreeClassifier(**QUICK, n_jobs={n_jobs}), X, y)))", number=3
    )
    assert left["ended"] == "KeyboardInterrupt"
    assert not left["fitted"]
    assert 1 <= left["after"] <= n_jobs  # of each thread the training that was about to begin; the others never do


FINISHING = """
values_of = finish.with_leaf_values
def leaf_values(*arguments):
    press("finishing", NUMBER)
    return values_of(*arguments)
finish.with_leaf_values = leaf_values
"""


@pytest.mark.parametrize(("moment", "number"), [("comparison", 2), ("finishing", 1)])
def test_an_interrupted_refit_leaves_the_old_fit_whole(moment: str, number: int) -> None:
    left = what_is_left(
        moment,
        f"""{FINISHING}
model = ObliqueTreeClassifier(**QUICK, missing="indicator").fit(X[:200], y[:200])
before, old = {{**model.__dict__}}, model.predict_proba(X)
SEEN.clear()
wide = np.hstack([X, X])
left = attempt(model, wide, y + 5)
left["same"] = all(model.__dict__[name] is before[name] for name in before) and len(before) == len(model.__dict__)
left["answers"] = bool((model.predict_proba(X) == old).all())
print(json.dumps(left))
""",
        number=number,
    )
    assert left["ended"] == "KeyboardInterrupt"
    assert left["same"]
    assert left["answers"]


def test_outside_memory_the_values_of_the_sample_are_kept() -> None:
    left = what_is_left(
        "windows",
        """
_large.SAMPLE_ROWS = 200
of = _large.leaf_sums_of
def hooked_sums(*arguments):
    press("windows")
    return of(*arguments)
_large.leaf_sums_of = hooked_sums
model = ObliqueTreeClassifier(**QUICK)
left = attempt(model, iter([(X, y)]))
left["rows"] = float(model.tree_.n_samples[0])
left["score"] = model.score(X, y)
print(json.dumps(left))
""",
    )
    assert left["ended"] == "kept"
    assert left["said"] == ["fitting interrupted: the values of the leaves are those of 200 of 300 rows"]
    assert left["rows"] == 200
    assert left["score"] > 0.9
