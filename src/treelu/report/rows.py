"""The hold-out rows of a report: targets encoded, features described, a sample of rows to follow."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treelu.tree import ObliqueTree
from treelu.tree.check import as_csr
from treelu.tree.missing import MissingValues
from treelu.tree.rows import column_names, dense_row, is_frame, take_rows

Floats = NDArray[np.float64]
Rows = Floats | sparse.csr_array

MAX_SAMPLE_VALUES = 400_000  # numbers that the listed rows may take up in the page
ROWS_PER_LEAF = 3  # listed rows that each leaf gets before the rest is drawn at random


class HoldOut(NamedTuple):
    """Hold-out rows whose target is known (or all of them where there are no targets)."""

    given: Any  # as the caller gave them, for estimators that read column names
    X: Rows  # the same as float64
    target: NDArray[Any] | None  # class numbers, or real targets
    classes: NDArray[Any] | None  # None for regression
    n_given: int  # rows that the caller gave
    numbers: NDArray[np.int64]  # of the rows, in what the caller gave
    samples: NDArray[np.int64]  # the rows that the page lists
    groups: NDArray[np.int64] | None = None  # of rows that are not independent

    @property
    def n_classes(self) -> int | None:
        return None if self.classes is None else len(self.classes)


def hold_out_rows(
    X: Any, y: Any, tree: ObliqueTree | None, estimator: Any, *, groups: Any, max_rows: int, random_state: int
) -> HoldOut:
    """Check and encode hold-out rows and choose those that the page lists.

    Missing values are filled by the tree, or as the estimator that is none does.
    """
    from pandas import isna

    X = as_csr(X) if sparse.issparse(X) else X if hasattr(X, "shape") else np.asarray(X)
    n_rows = X.shape[0]
    if n_rows == 0:
        raise ValueError("X has no rows; leave it out to report on the tree alone")
    classes = classes_of(tree, estimator)
    numbers, target = np.arange(n_rows), None
    if y is not None:
        y = np.asarray(y)
        if y.shape != (n_rows,):
            raise ValueError(f"y must have shape ({n_rows},), one target a row of X, got {y.shape}")
        numbers = np.flatnonzero(~isna(y))
        if not len(numbers):
            raise ValueError("y has no known target; leave it out to report without scores")
        y = y[numbers]
        target = y.astype(np.float64) if classes is None else class_numbers(y, classes)
        X = take_rows(X, numbers)
    rows = float_rows(X, getattr(estimator, "missing_values_", None)) if tree is None else tree_rows(X, tree)
    samples = pick_samples(rows, None if tree is None else tree.apply(rows), max_rows, random_state)
    if groups is not None:
        groups = np.asarray(groups)
        if groups.shape != (n_rows,):
            raise ValueError(f"groups must have shape ({n_rows},), one group per row of X, got {groups.shape}")
        groups = np.unique(groups, return_inverse=True)[1][numbers]
    return HoldOut(X, rows, target, classes, n_rows, numbers, samples, groups)


def classes_of(tree: ObliqueTree | None, estimator: Any) -> NDArray[Any] | None:
    """The classes that a report is about; None in regression."""
    classes = tree.classes if tree is not None else getattr(estimator, "classes_", None)
    return None if classes is None else np.asarray(classes)


def tree_rows(X: Any, tree: ObliqueTree) -> Rows:
    """Rows as float64 with the tree's features, missing values filled; a frame's columns are found by name."""
    names = tree.feature_names
    if names is None or not is_frame(X):
        return float_rows(tree.read_rows(X))
    place = {name: column for column, name in enumerate(column_names(X))}
    own = names if tree.missing is None else names[: len(tree.missing.fills)]
    if not hasattr(X, "iloc") or any(name not in place for name in own):
        return float_rows(tree.read_rows(X))
    return float_rows(tree.read_rows(X.iloc[:, [place[name] for name in own]], every_column=True))


def any_rows(X: Any) -> Rows:
    """Rows as float64, dense or CSR."""
    if hasattr(X, "columns"):
        X = X.sparse.to_coo() if hasattr(X, "sparse") else X.to_numpy()
    return as_csr(X).astype(np.float64) if sparse.issparse(X) else np.asarray(X, dtype=np.float64)


def float_rows(X: Any, missing: MissingValues | None = None) -> Rows:
    """Rows as float64, dense or CSR, and finite."""
    rows = any_rows(X)
    if missing is not None:
        rows = missing.fill(rows)[:, : len(missing.fills)]
    if not np.isfinite(rows if isinstance(rows, np.ndarray) else rows.data).all():
        raise ValueError("X must be finite, it has NaN or infinity; impute missing values first")
    return rows


def class_numbers(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Number of each label among ``classes``."""
    number = {label: k for k, label in enumerate(classes.tolist())}
    unknown = sorted({str(label) for label in y.tolist() if label not in number})
    if unknown:
        known = ", ".join(map(str, classes.tolist()))
        raise ValueError(f"y has labels that the tree does not know: {', '.join(unknown[:5])} (known: {known})")
    return np.array([number[label] for label in y.tolist()], dtype=np.int64)


def pick_samples(X: Rows, leaves: NDArray[np.int64] | None, max_rows: int, random_state: int) -> NDArray[np.int64]:
    """Rows to list: some of every leaf, the fullest leaves first, then any others, in order of the table."""
    from pandas import Series

    n_rows = X.shape[0]
    per_row = X.nnz / n_rows if sparse.issparse(X) else np.count_nonzero(X) / n_rows
    budget = min(max_rows, n_rows, max(10, int(MAX_SAMPLE_VALUES / max(1.0, per_row))))
    order = np.random.default_rng(random_state).permutation(n_rows)
    if leaves is not None:
        leaf = leaves[order]
        fullness = np.bincount(leaf)[leaf]
        turn = Series(leaf).groupby(leaf).cumcount().to_numpy()  # earlier rows of the same leaf
        order = order[np.lexsort((-fullness, np.minimum(turn, ROWS_PER_LEAF)))]
    return np.sort(order[:budget])


def spread(X: Rows) -> Floats:
    """Standard deviation of each feature, of shape (n_features,)."""
    if not sparse.issparse(X):
        return X.std(axis=0)
    mean = np.asarray(X.mean(axis=0)).ravel()
    square = np.asarray(X.multiply(X).mean(axis=0)).ravel()
    return np.sqrt(np.maximum(square - mean**2, 0.0))


def typical(X: Rows) -> Floats:
    """Lower median of each feature, of shape (n_features,): a value that some row has."""
    if not sparse.issparse(X):
        return np.quantile(X, 0.5, axis=0, method="lower")
    columns = sparse.csc_array(X)
    result = np.zeros(X.shape[1])
    for j in np.flatnonzero(np.diff(columns.indptr) >= X.shape[0] / 2):  # elsewhere most values are 0
        result[j] = np.quantile(columns[:, [j]].toarray(), 0.5, method="lower")
    return result


def value_ranges(X: Rows) -> dict[str, list[Any]]:
    """``low`` and ``high`` of each feature, and whether all its values are integers (``whole``)."""
    low, high = X.min(axis=0), X.max(axis=0)
    if sparse.issparse(X):
        low, high, columns = low.toarray().ravel(), high.toarray().ravel(), sparse.csc_array(X)
        parts = np.split(columns.data == np.round(columns.data), columns.indptr[1:-1])
        whole = np.array([part.all() for part in parts])
    else:
        whole = (np.round(X) == X).all(axis=0)
    return {name: np.asarray(v).tolist() for name, v in (("low", low), ("high", high), ("whole", whole))}


def sample_rows(
    rows: HoldOut,
    usual: Floats,
    names: Sequence[str] | None = None,
    numbers: Sequence[int] | None = None,
    draw: Callable[[int], str | None] | None = None,
) -> list[dict[str, Any]]:
    """The listed rows: name, target, and the features whose value is not the usual one."""
    result = []
    for i in rows.samples:
        place = int(rows.numbers[i])
        number = place if numbers is None else int(numbers[place])
        x = dense_row(rows.X, i)
        unusual = np.flatnonzero(x != usual)
        result.append(
            {
                "row": number,
                "name": f"row {number}" if names is None else str(names[place]),
                "target": None if rows.target is None else rows.target[i].item(),
                "features": unusual.tolist(),
                "values": x[unusual].tolist(),
                "drawing": None if draw is None else draw(place),
            }
        )
    return result
