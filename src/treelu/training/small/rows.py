"""Rows of a small tree's training: raw ones with their targets, scaled ones as the kernels take them, their folds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treelu.data.encoding import class_order
from treelu.data.folds import Fold, Folding, folds
from treelu.data.scaling import check_scale
from treelu.data.spread import Matrix, spread
from treelu.tree import ObliqueTree
from treelu.tree.check import as_csr
from treelu.tree.terms import count, renumbered

if TYPE_CHECKING:
    from treelu.training.small.soft_tree import SoftTree

FLOAT = np.float32
MOST_COLUMNS = 512  # that are trained on; of more, those most correlated with the target
BLOCK = 8_192  # rows that are scaled at once
COMPARED = 12_000  # rows of the cross-validation at most
REPEATED = 10_000  # rows up to which integer weights are repetitions


@dataclass(frozen=True)
class TreeData:
    """Raw rows with their targets, as `fit_small_tree` takes them.

    Attributes
    ----------
    X : float64 array or CSR matrix of shape (n, n_features)
        Without missing values.
    target : float64 array of shape (n, K)
        A column of 0 and 1 for each class, or real targets.
    weight : float64 array of shape (n,)
        0 leaves a row out.
    is_classifier : bool
    folding : Folding, optional
        Groups or folds of the rows with a weight.
    signs : float64 array of shape (n_features,), optional
        1 where the last target must not fall with a feature, −1 where it must not rise, 0 elsewhere.
    group : int64 array of shape (n_features,), optional
        The number of the term that each feature belongs to: the levels of a category share one. None: every feature is
        a term of its own.
    """

    X: Matrix
    target: NDArray[np.float64]
    weight: NDArray[np.float64]
    is_classifier: bool
    folding: Folding | None = None
    signs: NDArray[np.float64] | None = None
    group: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class TrainingRows:
    """Scaled rows as the kernels take them.

    Attributes
    ----------
    X : float32 array of shape (n, D + 1)
        Features of mean 0 and spread 1, and a 1.
    target : float32 array of shape (n, K)
        One column for each class, or real targets of mean 0 and spread 1.
    weight : float32 array of shape (n,)
    is_classifier : bool
    soft : bool
        Whether targets are a teacher's predictions instead of the rows' own.
    signs : float32 array of shape (D,), optional
        1 where the output must not fall with a feature, −1 where it must not rise, 0 elsewhere.
    linear : bool
        Whether leaves hold a linear function of the features instead of a constant.
    pieces : SoftTree, optional
        The linear regions of a locally linear network whose predictions are the targets.
    folding : Folding, optional
        Which rows belong together, or the folds, where rows are held out.
    group : int64 array of shape (D,), optional
        The term that each feature belongs to (`treelu.tree.terms`).
    """

    X: NDArray[np.float32]
    target: NDArray[np.float32]
    weight: NDArray[np.float32]
    is_classifier: bool
    soft: bool = False
    signs: NDArray[np.float32] | None = None
    linear: bool = False
    pieces: SoftTree | None = None
    folding: Folding | None = None
    group: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.X)

    @property
    def n_features(self) -> int:
        """Features, without the column of ones."""
        return self.X.shape[1] - 1

    @property
    def n_terms(self) -> int:
        """Features, with the levels of a category as one."""
        return count(self.n_features, self.group)

    @cached_property
    def columns(self) -> tuple[NDArray[np.float32], ...]:
        """Features and ones (D + 1, n), targets (K, n) and weights (1, n) of the rows in random order."""
        order = np.random.default_rng(len(self)).permutation(len(self))
        tables = (self.X, self.target, self.weight[:, None])
        return tuple(np.ascontiguousarray(table[order].T) for table in tables)

    @cached_property
    def for_splits(self) -> TrainingRows:
        """The rows on which splits are trained: for linear leaves, targets less the linear trend of all rows.

        Leaves are constant in training, so that the tree would spend its splits on a trend that linear leaves have
        anyway.
        """
        if not self.linear:
            return self
        X, weight = self.X.astype(np.float64), self.weight[:, None].astype(np.float64)
        trend = np.linalg.solve((X * weight).T @ X + np.eye(X.shape[1]), (X * weight).T @ self.target)
        return replace(self, target=(self.target - X @ trend).astype(FLOAT))

    def some(self, most: int) -> TrainingRows:
        """At most so many of the rows, drawn at random, always the same ones."""
        return self if len(self) <= most else self.part(sample_of(len(self), most))

    def part(self, index: NDArray[np.int64]) -> TrainingRows:
        """Some of the rows."""
        folding = None if self.folding is None else self.folding.part(index)
        return replace(self, X=self.X[index], target=self.target[index], weight=self.weight[index], folding=folding)

    @property
    def groups(self) -> NDArray[np.int64] | None:
        """The group of each row, where there are any."""
        return None if self.folding is None else self.folding.groups


def sample_of(n_rows: int, most: int) -> NDArray[np.int64]:
    """The numbers of at most so many rows, drawn at random, always the same ones."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.random.default_rng(n_rows).choice(n_rows, most, replace=False)


@dataclass(frozen=True)
class FeatureScale:
    """The raw columns that training reads, with their means and standard deviations.

    Attributes
    ----------
    columns : int array of shape (D,)
    mean, spread : float64 arrays of shape (D,)
    n_features : int
        Of the raw rows.
    """

    columns: NDArray[np.int64]
    mean: NDArray[np.float64]
    spread: NDArray[np.float64]
    n_features: int


@dataclass(frozen=True)
class PreparedData:
    """Rows with a weight, as training and finishing take them.

    Attributes
    ----------
    data : TreeData
        Classes in the order of `class_order`, or targets of mean 0 and standard deviation 1.
    rows : TrainingRows
        The same, scaled.
    scale : FeatureScale
    order : int array of shape (K,), optional
        The class of each column of the targets.
    mean, unit : float64 arrays of shape (K,)
        Of real targets.
    """

    data: TreeData
    rows: TrainingRows
    scale: FeatureScale
    order: NDArray[np.int64] | None
    mean: NDArray[np.float64]
    unit: NDArray[np.float64]

    @classmethod
    def of(cls, data: TreeData, *, linear_leaves: bool) -> PreparedData:
        """Encode targets, drop rows without a weight, and scale the features."""
        kept, target, signs, order = np.flatnonzero(data.weight), data.target, data.signs, None
        mean, unit = np.zeros(target.shape[1]), np.ones(target.shape[1])
        if data.is_classifier:
            order = class_order(target.argmax(axis=1), target.shape[1], data.weight)
            target = target[:, order]
            if signs is not None and order[-1] == 0:  # those of the other class
                signs = -signs
        else:
            mean, unit = target_scale(target[kept], data.weight[kept])
            target = (target - mean) / unit
        X = data.X if len(kept) == len(target) else data.X[kept]  # no copy where all are kept
        X = np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X  # sums over rows round alike in any layout
        data = replace(data, X=X, target=target[kept], weight=data.weight[kept], signs=signs)
        scale, rows = scaled_rows(data.X, data.target, data.weight, data.is_classifier)
        group = None if data.group is None else renumbered(data.group[scale.columns])
        rows = replace(rows, linear=linear_leaves, folding=data.folding, group=group)
        if signs is not None:
            rows = replace(rows, signs=signs[scale.columns].astype(np.float32))
        return cls(data, rows, scale, order, mean, unit)

    def decoded(self, tree: ObliqueTree) -> ObliqueTree:
        """The tree with leaf values of the given classes or in the units of the given targets."""
        if self.order is not None:
            return in_given_order(tree, self.order)
        weights = None if tree.leaf_weights is None else tree.leaf_weights * self.unit[:, None]
        return replace(tree, values=tree.values * self.unit + self.mean, leaf_weights=weights)


def in_given_order(tree: ObliqueTree, order: NDArray[np.int64]) -> ObliqueTree:
    """The tree of classes in the order of training, with its outputs in the given order.

    A single score is that of the second of two classes.
    """
    values, weights = tree.values, tree.leaf_weights
    if values.shape[1] == 1:
        sign = 1.0 if order[0] == 0 else -1.0
        return replace(tree, values=sign * values, leaf_weights=None if weights is None else sign * weights + 0.0)
    place = np.argsort(order)
    return replace(tree, values=values[:, place], leaf_weights=None if weights is None else weights[:, place])


def scaled_rows(
    X: Matrix, target: NDArray[np.float64], weight: NDArray[np.float64], is_classifier: bool
) -> tuple[FeatureScale, TrainingRows]:
    """The columns that vary, scaled to mean 0 and standard deviation 1, in float32."""
    spreads = spread(X, weight)
    check_scale(_mean(X, weight), np.where(spreads == 0, 1.0, spreads), "X")
    columns = np.flatnonzero(spreads)
    if len(columns) > MOST_COLUMNS:
        columns = np.sort(
            columns[np.argsort(-_correlation(X, target, weight, spreads)[columns], kind="stable")][:MOST_COLUMNS]
        )
    part: Any = X if len(columns) == X.shape[1] else X[:, columns]
    mean = _mean(part, weight)
    scale = FeatureScale(columns, mean, spreads[columns], X.shape[1])
    dense = as_csr(part).toarray() if sparse.issparse(part) else part
    table = np.ones((len(dense), len(columns) + 1), np.float32)
    for start in range(0, len(dense), BLOCK):  # no second table in float64
        block = slice(start, start + BLOCK)
        table[block, :-1] = (dense[block] - mean) / scale.spread
    share = (weight / weight.mean()).astype(np.float32)
    return scale, TrainingRows(table, np.ascontiguousarray(target, np.float32), share, is_classifier)


def are_counts(weight: NDArray[np.float64]) -> bool:
    """Whether weights are integers, some of them above 1, that repeat rows up to `REPEATED` in all.

    Examples
    --------
    >>> are_counts(np.array([0.0, 1.0, 3.0])), are_counts(np.array([1.0, 0.5])), are_counts(np.array([1.0, 1e6]))
    (True, False, False)
    """
    with np.errstate(over="ignore"):
        return bool(weight.max() > 1 and weight.sum() <= REPEATED and (weight == np.floor(weight)).all())


def repeated_rows(weight: NDArray[np.float64], folding: Folding | None) -> tuple[NDArray[np.int64], Folding | None]:
    """Row numbers, each as often as its weight (once where that is 0), and the folding of those of positive weight.

    Copies of a row are on the same side of every split: a group, unless groups or folds are given.

    Examples
    --------
    >>> rows, folding = repeated_rows(np.array([2.0, 0.0, 1.0]), None)
    >>> rows, folding.groups
    (array([0, 0, 1, 2]), array([0, 0, 1]))
    """
    count = weight.astype(np.int64)
    copies = np.repeat(np.arange(np.count_nonzero(count)), count[count > 0])
    if folding is not None:
        folding = folding.part(copies)
    if folding is None or (folding.groups is None and folding.given is None):
        folding = Folding(copies, None if folding is None else folding.n_folds)
    return np.repeat(np.arange(len(weight)), np.maximum(count, 1)), folding


def target_scale(
    columns: NDArray[np.float64], weight: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each column of the targets; of a constant column its value and 1."""
    unit = spread(columns, weight)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused
        mean = np.where(unit == 0, columns[0], np.average(columns, axis=0, weights=weight))
    unit[unit == 0] = 1.0
    check_scale(mean, unit, "y")
    return mean, unit


def _mean(X: Matrix, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((weight / weight.sum()) @ X)


def _correlation(
    X: Matrix, target: NDArray[np.float64], weight: NDArray[np.float64], spreads: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The largest |correlation| of each column with a column of the target, up to the target's spread."""
    centred = (target - np.average(target, axis=0, weights=weight)) * weight[:, None]
    return np.abs(centred.T @ X).max(axis=0) / np.maximum(spreads, 1e-300)


def cross_validation_rows(rows: TrainingRows, seed: int) -> tuple[TrainingRows, list[Fold]]:
    """At most `COMPARED` of the rows, and their folds: those of `cv`, or five below 500 rows, one of a quarter above
    6,000.
    """
    rng = np.random.default_rng([seed, 1])
    if len(rows) > COMPARED:
        rows = rows.part(np.sort(rng.choice(len(rows), COMPARED, replace=False)))
    n_folds = 5 if len(rows) < 500 else 3 if len(rows) < 3_000 else 4
    key = rows.target.argmax(axis=1) if rows.is_classifier else rows.target[:, 0]
    parts = folds(key, n_folds, rng, rows.folding, rows.weight, are_classes=rows.is_classifier)
    if len(rows) < 3_000 or (rows.folding is not None and rows.folding.by_user):
        return rows, parts
    return rows, parts[: 2 if len(rows) < 6_000 else 1]
