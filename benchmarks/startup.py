"""Start-up in fresh processes: `import treelu`, `treelu --help`, an estimator's import, a first fit and a later one."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from benchmarks.comparison import Comparison, Measure, Part
from benchmarks.timing import interleaved, medians

BARE = "pass"
IMPORT = "import treelu"
HELP = "import sys; sys.argv = ['treelu', '--help']; from treelu.cli import main; main()"  # what the script does
LIBRARIES = "import sklearn.ensemble"
ESTIMATOR = "from treelu import ObliqueTreeClassifier"
FIT = """
import numpy as np
from treelu import LCNClassifier
X = np.random.default_rng(0).normal(size=(200, 5))
for _ in range({times}):
    LCNClassifier(depth=4, drop_connect=0.5, epochs=2, random_state=0).fit(X, X[:, 0] > 0).predict_proba(X)
"""


def measure(rounds: int = 5) -> Part:
    """Time fresh interpreters in turn."""
    light = {"python": BARE, "import": IMPORT, "help": HELP}
    heavy = {"libraries": LIBRARIES, "estimator": ESTIMATOR, "fit": FIT.format(times=1), "fits": FIT.format(times=2)}
    times = interleaved({name: partial(_run, code) for name, code in {**light, **heavy}.items()}, rounds)
    seconds, part = medians(times), Part(details={"seconds": times})
    bare, libraries = (
        Measure("python alone", seconds["python"]),
        Measure(LIBRARIES, seconds["libraries"]),
    )
    shown, estimator = Measure("treelu --help", seconds["help"]), Measure(ESTIMATOR, seconds["estimator"])
    enough = estimator.value < libraries.value + 0.2
    part.comparisons = [
        Comparison("import treelu", bare, Measure("import treelu", seconds["import"]), "s"),
        Comparison("treelu --help", bare, shown, "s", "B < 0.5 s", shown.value < 0.5),
        Comparison("import of an estimator", libraries, estimator, "s", "B < A + 0.2 s", enough),
        Comparison("first fit", libraries, Measure("imports and a fit", seconds["fit"]), "s"),
        Comparison("later fit", Measure("with one fit", seconds["fit"]), Measure("with two", seconds["fits"]), "s"),
    ]
    return part


def _run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
