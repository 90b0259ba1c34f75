"""Tables of integer codes with the codes as numbers and as categories: accuracy, log-loss, numbers to read.

    TREELU_DATA=/path/to/data python -m benchmarks.categories                 a line for each table and fit
    TREELU_DATA=/path/to/data python -m benchmarks.categories monk1 nursery   some tables

`ObliqueTreeClassifier(random_state=0)` and the same with `max_terms=1`; three folds, of more than 6,000 rows 5,000 to
train on and the others to score. The notes `benchmarks/results/notes/size.md` have the figures.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, train_test_split

from benchmarks.tables import data_home
from treelu import ObliqueTreeClassifier
from treelu.tree.to_read import numbers_to_read

TABLES = ("monk1", "monk2", "monk3", "flare", "analcatdata_dmft", "cmc", "profb", "soybean", "nursery", "mushroom",
          "splice", "adult", "connect_4")  # fmt: skip
NOMINAL = {  # of tables whose other integers are numbers
    "cmc": ["Husbands_occupation"],
    "profb": ["Favorite_Name", "Underdog_name", "Weekday"],
    "adult": ["workclass", "education", "marital-status", "occupation", "relationship", "race", "native-country"],
}
MOST_LEVELS = 30
LARGE, TRAINED = 6_000, 5_000  # rows


class Table(NamedTuple):
    """Rows of numbers, their classes, and the columns that are codes of categories."""

    X: NDArray[np.float64]
    y: NDArray[Any]
    codes: list[int]

    def folds(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Rows to train on and to score."""
        if len(self.X) <= LARGE:
            return list(StratifiedKFold(3, shuffle=True, random_state=0).split(self.X, self.y))
        parts = train_test_split(np.arange(len(self.X)), train_size=TRAINED, stratify=self.y, random_state=0)
        return [(parts[0], parts[1])]


class Result(NamedTuple):
    """Means over the folds."""

    accuracy: float
    log_loss: float
    leaves: float
    terms: float
    numbers: float


def load(name: str, folder: Path | None = None) -> Table:
    """A table; codes are integers of 3 to 30 values unless their names are known."""
    folder = data_home() / "tables" / "classification" if folder is None else folder
    frame = pd.read_csv(folder / f"{name}.csv.gz")
    y = frame.pop("target").to_numpy()
    if name in NOMINAL:
        return Table(frame.to_numpy(np.float64), y, [frame.columns.get_loc(column) for column in NOMINAL[name]])
    is_code = (frame == frame.round()).all() & frame.nunique().between(3, MOST_LEVELS)
    return Table(frame.to_numpy(np.float64), y, np.flatnonzero(is_code).tolist())


def measured(table: Table, **options: Any) -> Result:
    """The means over the folds of a fit."""
    found = []
    for train, test in table.folds():
        model = ObliqueTreeClassifier(random_state=0, **options).fit(table.X[train], table.y[train])
        probabilities, tree = model.predict_proba(table.X[test]), model.tree_
        accuracy = (model.classes_[probabilities.argmax(axis=1)] == table.y[test]).mean()
        clipped = np.clip(probabilities, 1e-6, 1)
        loss = log_loss(table.y[test], clipped / clipped.sum(axis=1, keepdims=True), labels=model.classes_)
        found.append(Result(accuracy, loss, tree.n_leaves, tree.max_terms, numbers_to_read(tree)))
    return Result(*np.mean(found, axis=0).tolist())


def lines(names: list[str]) -> Iterator[str]:
    """The rows of a table in Markdown."""
    yield "| table | max_terms | columns | accuracy | log-loss | leaves | terms | numbers |"
    yield "|---|---|---|---|---|---|---|---|"
    for name in names:
        table = load(name)
        for max_terms in (None, 1):
            for columns, codes in (("numbers", []), ("categories", table.codes)):
                r = measured(table, max_terms=max_terms, categorical_features=codes)
                yield (
                    f"| {name} | {max_terms or 'all'} | {columns} | {r.accuracy:.3f} | {r.log_loss:.3f} "
                    f"| {r.leaves:.1f} | {r.terms:.1f} | {r.numbers:.0f} |"
                )


if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)  # of levels that no training row has
    for line in lines(sys.argv[1:] or list(TABLES)):
        print(line, flush=True)
