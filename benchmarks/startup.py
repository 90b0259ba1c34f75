"""Start-up in fresh processes: imports, the command line, the first fit of a fresh copy and a later one."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from sklearn.datasets import make_classification

import treelu
from benchmarks.comparison import Comparison, Measure, Part
from benchmarks.timing import interleaved, medians

README = Path(__file__).resolve().parents[1] / "README.md"
BARE = "pass"
IMPORT = "import treelu"
COMMAND = "import sys; sys.argv[0] = 'treelu'; from treelu.cli import main; main()"  # what the script does
LIBRARIES = "import sklearn.ensemble"
PANDAS = "import sklearn.ensemble, pandas"
ESTIMATOR = "from treelu import ObliqueTreeClassifier"
N_ROWS = 500  # of the table that `treelu predict` reads


def measure(rounds: int = 5) -> Part:
    """Processor seconds of fresh interpreters, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        model, rows = _model_and_rows(Path(folder))
        codes = {"python": BARE, "import": IMPORT, "libraries": LIBRARIES, "pandas": PANDAS, "estimator": ESTIMATOR}
        tasks = {name: partial(_run, code) for name, code in codes.items()}
        tasks["help"] = partial(_run, COMMAND, "--help")
        tasks["predict"] = partial(_run, COMMAND, "predict", str(model), str(rows))
        # the first is the first of its copy, without any cache; the later one is another process
        copy, lines = Path(folder, "copy"), ten_lines()
        tasks["first"] = lambda: _run(lines, home=_fresh_copy(copy))
        tasks["later"] = lambda: _run(lines, home=copy)
        times = interleaved(tasks, rounds, clock=_seconds_of_children)
    return Part(_compare(medians(times)), {"seconds": times})


def ten_lines() -> str:
    """The code of the README's first example."""
    found = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def _compare(seconds: dict[str, float]) -> list[Comparison]:
    bare, libraries = Measure("python alone", seconds["python"]), Measure(LIBRARIES, seconds["libraries"])
    shown, estimator = Measure("treelu --help", seconds["help"]), Measure(ESTIMATOR, seconds["estimator"])
    enough = estimator.value < libraries.value + 0.2
    later, first = Measure("later", seconds["later"]), Measure("in a fresh copy", seconds["first"])
    pandas, predict = Measure(PANDAS, seconds["pandas"]), Measure("treelu predict", seconds["predict"])
    return [
        Comparison("import treelu", bare, Measure("import treelu", seconds["import"]), "s"),
        Comparison("treelu --help", bare, shown, "s", "B < 0.5 s", shown.value < 0.5),
        Comparison("import of an estimator", libraries, estimator, "s", "B < A + 0.2 s", enough),
        Comparison("README's ten lines", later, first, "s", "≤ 2", first.value <= 2 * later.value),
        Comparison(f"predict {N_ROWS} rows", pandas, predict, "s", "≤ 1.5", predict.value <= 1.5 * pandas.value),
    ]


def _model_and_rows(folder: Path) -> tuple[Path, Path]:
    """A model written by `treelu fit`, and a table for `treelu predict`."""
    X, y = make_classification(N_ROWS, 20, random_state=0)
    lines = [",".join(f"{value:.6g}" for value in (*row, label)) for row, label in zip(X, y, strict=True)]
    table, model = folder / "table.csv", folder / "model"
    table.write_text("\n".join([",".join([*(f"x{i}" for i in range(X.shape[1])), "y"]), *lines]), encoding="utf-8")
    _run(COMMAND, "fit", str(table), "--target", "y", "--out", str(model))
    return model, table


def _fresh_copy(home: Path) -> Path:
    """The package without bytecode, as an installation that was never used."""
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(Path(treelu.__file__).parent, home / "treelu", ignore=shutil.ignore_patterns("__pycache__"))
    return home


def _run(code: str, *arguments: str, home: Path | None = None) -> None:
    paths = [str(home)] if home is not None else []
    path = os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path} if path else dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installation keeps its bytecode
    command = [sys.executable, "-c", code, *arguments]
    subprocess.run(command, check=True, capture_output=True, env=environment)


def _seconds_of_children() -> float:
    """Processor seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
