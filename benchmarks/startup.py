"""Start-up in fresh processes: `import treelu`, `treelu --help`, and a first fit with a warm and a cold cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial

from benchmarks.comparison import Comparison, Measure, Part
from benchmarks.timing import interleaved, medians

BARE = "pass"
IMPORT = "import treelu"
HELP = "import sys; sys.argv = ['treelu', '--help']; from treelu.cli import main; main()"  # what the script does
LIBRARIES = "import numba, scipy.sparse, sklearn.base"
FIT = """
import numpy as np
from treelu import LCNClassifier
X = np.random.default_rng(0).normal(size=(200, 5))
LCNClassifier(depth=4, drop_connect=0.5, epochs=2, random_state=0).fit(X, X[:, 0] > 0).predict_proba(X)
"""


def measure(rounds: int = 5, cold: bool = True) -> Part:
    """Time fresh interpreters; the cold fit, once, fills the cache that the warm ones read."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache} if cold else dict(os.environ)
        run = partial(_run, environment)
        times = interleaved({"cold fit": partial(run, FIT)}, rounds=1) if cold else {}
        light = {"python": BARE, "import": IMPORT, "help": HELP}
        heavy = {"libraries": LIBRARIES, "warm fit": FIT}
        times |= interleaved({name: partial(run, code) for name, code in light.items()}, rounds)
        times |= interleaved({name: partial(run, code) for name, code in heavy.items()}, min(rounds, 3))
    seconds, part = medians(times), Part(details={"seconds": times})
    bare, warm = Measure("python alone", seconds["python"]), Measure("first fit, warm cache", seconds["warm fit"])
    shown = Measure("treelu --help", seconds["help"])
    part.comparisons = [
        Comparison("import treelu", bare, Measure("import treelu", seconds["import"]), "s"),
        Comparison("treelu --help", bare, shown, "s", "B < 0.5 s", shown.value < 0.5),
        Comparison("first fit", Measure("importing sklearn, numba", seconds["libraries"]), warm, "s"),
    ]
    if cold:
        part.comparisons.append(
            Comparison("first fit", warm, Measure("first fit, cold cache", seconds["cold fit"]), "s")
        )
    return part


def _run(environment: dict[str, str], code: str) -> None:
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, stdout=subprocess.DEVNULL)
