"""Teachers of small trees with constant leaves: `python -m benchmarks.teachers`.

A tree may be trained on a teacher's predictions for its training rows. Those are made in sample, by a model that was
fitted to these rows, or out of fold, by models that were not. The training part of the first of the five folds of each
table of up to 1,500 rows is split again, a quarter held out. Every fit is written when it is done, and not run again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import train_test_split

from benchmarks.league_scores import class_scores, numbers_to_read, value_scores
from benchmarks.report import markdown
from benchmarks.size import Task, table_tasks
from treelu import ObliqueTreeClassifier, ObliqueTreeRegressor, StackedClassifier, StackedRegressor
from treelu.data.folds import folds
from treelu.training.small import distillation
from treelu.training.small.rows import TrainingRows

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results" / "teachers.json"
MOST_ROWS, MOST_FEATURES, SPLITS = 1_500, 60, 2
PARTS = 5  # of the rows out of fold
IN_SAMPLE = distillation.soft_targets


def out_of_fold(rows: TrainingRows, estimator: Any, seed: int) -> TrainingRows:
    """Rows with predictions of models that were not fitted to them, tempered where they are those of networks."""
    key = rows.target.argmax(axis=1) if rows.is_classifier else rows.target[:, 0]
    rng = np.random.default_rng([seed, 2])
    predictions = distillation.fitted_teacher(rows, estimator, seed)(rows)  # of rows that are never held out
    parts = folds(key, PARTS, rng, rows.folding, rows.weight, are_classes=rows.is_classifier)
    for fold, (train, test) in enumerate(parts):
        model = distillation.fitted_teacher(rows.part(train), estimator, seed + fold)
        predictions[test] = model(rows.part(test))
    how = distillation.NO_TEMPERING
    if estimator is None:
        how = distillation._tempering(predictions, rows, np.arange(len(rows)))
    return distillation.with_targets(rows, predictions, how)


def targets_out_of_fold(
    rows: TrainingRows, sample: TrainingRows, folds: Any, parts: list[TrainingRows], estimator: Any, **how: Any
) -> tuple[list[TrainingRows], TrainingRows]:
    """What `soft_targets` returns, out of fold."""
    seed = how["seed"]
    of_folds = [out_of_fold(part, estimator, seed + fold) for fold, part in enumerate(parts)]
    return of_folds, out_of_fold(rows, estimator, seed)


def forest(is_classifier: bool, seed: int) -> Any:
    """A random forest of 200 trees."""
    if is_classifier:
        return RandomForestClassifier(200, random_state=seed)
    return RandomForestRegressor(200, max_features=1 / 3, random_state=seed)


def boosting(is_classifier: bool, seed: int) -> Any:
    """scikit-learn's boosted trees."""
    kind: Any = HistGradientBoostingClassifier if is_classifier else HistGradientBoostingRegressor
    return kind(random_state=seed)


def stack(is_classifier: bool, seed: int) -> Any:
    """Networks, a forest and boosted trees, stacked."""
    return (StackedClassifier if is_classifier else StackedRegressor)(random_state=seed)


TEACHERS: dict[str, tuple[Callable[[bool, int], Any], Any]] = {
    "none": (lambda *_: None, IN_SAMPLE),
    "network": (lambda *_: "auto", IN_SAMPLE),
    "network, out of fold": (lambda *_: "auto", targets_out_of_fold),
    "forest": (forest, IN_SAMPLE),
    "forest, out of fold": (forest, targets_out_of_fold),
    "boosting": (boosting, IN_SAMPLE),
    "boosting, out of fold": (boosting, targets_out_of_fold),
    "stack": (stack, IN_SAMPLE),
    "stack, out of fold": (stack, targets_out_of_fold),
}


@contextmanager
def targets_by(function: Any) -> Iterator[None]:
    """All teachers' targets are made by a function."""
    with patch.object(distillation, "soft_targets", function):
        yield


def scores(task: Task, teacher: str, split: int) -> dict[str, float]:
    """The tree's scores on the quarter held out, its numbers to read, and processor seconds."""
    make, function = TEACHERS[teacher]
    rows, _ = task.parts[0]
    train, test = train_test_split(
        rows, test_size=0.25, random_state=split, stratify=task.y[rows] if task.is_classifier else None
    )
    kind: Any = ObliqueTreeClassifier if task.is_classifier else ObliqueTreeRegressor
    model = kind(leaves="constant", teacher=make(task.is_classifier, split), random_state=split)
    started = time.process_time()
    with targets_by(function):
        model.fit(task.X[train], task.y[train])
    seconds, y = time.process_time() - started, task.y[test]
    if task.is_classifier:
        found = class_scores(y, model.classes_, model.predict(task.X[test]), model.predict_proba(task.X[test]))
    else:
        found = value_scores(y, model.predict(task.X[test]))
    return {name: float(f"{x:.5g}") for name, x in {**found, **numbers_to_read(model), "seconds": seconds}.items()}


def tasks() -> list[Task]:
    """The tables, those of few rows first; without those with classes of too few rows to be split twice."""
    found = [task for task in table_tasks(MOST_ROWS) if task.X.shape[1] <= MOST_FEATURES]
    fewest = {task.name: np.unique(task.y, return_counts=True)[1].min() for task in found}
    usable = [task for task in found if not task.is_classifier or fewest[task.name] >= 8]
    return sorted(usable, key=lambda task: len(task.y))


def run(teachers: list[str], n_splits: int) -> None:
    """Run what is missing."""
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    tables = tasks()
    for teacher in teachers:
        for task in tables:
            cells = results.setdefault(teacher, {}).setdefault(task.name, [])
            for split in range(len(cells), n_splits):
                with warnings.catch_warnings(action="ignore"):
                    cells.append(scores(task, teacher, split))
                lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(found)}" for name, found in results.items())
                RESULTS.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def teachers_block() -> str:
    """Differences from the tree without a teacher, over the tables and splits that both have."""
    results = json.loads(RESULTS.read_text("utf-8"))
    lines = []
    for teacher, tables in results.items():
        line = [teacher]
        for measure in ("accuracy", "log_loss", "r2"):
            gains = [_mean(cells, measure) - _mean(results["none"][name], measure, len(cells))
                     for name, cells in tables.items() if cells and measure in cells[0]]  # fmt: skip
            error = np.std(gains) / max(1, len(gains)) ** 0.5 if gains else 0.0
            line.append(f"{np.mean(gains):+.3f} ± {error:.3f} ({len(gains)})" if gains else "")
        for measure in ("numbers", "seconds"):
            line.append(f"{np.median([_mean(cells, measure) for cells in tables.values() if cells]):.1f}")
        lines.append(line)
    header = ["teacher", "accuracy (tables)", "log-loss", "R²", "numbers, median", "seconds, median"]
    return markdown(header, lines)


def _mean(cells: list[dict[str, float]], measure: str, most: int | None = None) -> float:
    return float(np.mean([cell[measure] for cell in cells[:most]]))


def main() -> None:
    """Parse the arguments, run what is missing, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teachers", nargs="+", choices=TEACHERS, default=list(TEACHERS), metavar="TEACHER")
    parser.add_argument("--splits", type=int, default=SPLITS)
    options = parser.parse_args()
    run(options.teachers, options.splits)
    print(teachers_block())


if __name__ == "__main__":
    main()
