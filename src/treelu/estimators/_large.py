"""Fitting to rows outside memory.

Networks: hyper-parameters are chosen on a sample in memory, then all rows are trained on. Small trees: splits come from
the sample, the values of the leaves from all rows.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import reduce
from itertools import islice
from numbers import Integral
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import is_classifier

from treelu.data.blocks import NO_ROWS, BlockRows, MappedRows, Window
from treelu.data.dataset import Dataset
from treelu.data.encoding import encode_classes
from treelu.data.reading import RowWeights
from treelu.data.rows import refuse_text_columns
from treelu.data.store import RowStore, checked_weight, targets_of
from treelu.estimators._inputs import monotonic_signs, network_config, read_eval_set
from treelu.estimators._rows import column_shares, read_rows
from treelu.training.config import NetworkConfig, draw_seeds
from treelu.training.continuing import continue_training, finished_on_all_rows, start_from, warn_of_worse
from treelu.training.pattern_counts import column_importances
from treelu.training.progress import epoch_bar
from treelu.training.small.finish import values_of_sums
from treelu.training.small.fit import chosen_row
from treelu.training.small.leaves import STRENGTH, LeafSums
from treelu.tree.observed import Observed

if TYPE_CHECKING:
    from treelu.estimators._base import NetworkEstimator
    from treelu.estimators.small import SmallTree

LARGE_BYTES = 2**30  # a memory-mapped array of fewer bytes is read as a whole
SAMPLE_ROWS = 200_000  # on which scaling, depth, drop rate and a first network are found
HELD_OUT_ROWS, HELD_OUT_SHARE = 20_000, 0.05  # at most so many of the others, and so large a share, validate the end
ROW_VISITS = 12_000_000  # at least so many, and at least one pass, after that
BATCH_ROWS = 512


def is_outside_memory(X: Any) -> bool:
    """Whether X is a store of rows, a large memory-mapped array, or an iterator of pieces."""
    if isinstance(X, np.memmap):
        return X.nbytes > LARGE_BYTES
    return isinstance(X, BlockRows | Iterator)


def refuse_folding(cv: Any, groups: Any) -> None:
    """Raise where rows outside memory, of which some are drawn, should be held out as `cv` or `groups` say."""
    for name, value in (("groups", groups), ("cv", None if isinstance(cv, Integral) else cv)):
        if value is not None:
            raise ValueError(f"{name} needs the rows in memory: give X as an array, or leave {name} out")


def fit_outside_memory(estimator: Any, X: Any, y: Any, sample_weight: Any, eval_set: Any, groups: Any) -> Any:
    """`fit` for what `is_outside_memory`; pieces are written into a store that is removed at the end."""
    refuse_folding(estimator.cv, groups)
    if hasattr(estimator, "n_estimators"):
        raise ValueError(f"{type(estimator).__name__} needs its rows in memory: give arrays, or use one network")
    may_miss = estimator.missing != "error"
    with rows_outside_memory(X, y, sample_weight, are_classes=is_classifier(estimator), may_miss=may_miss) as rows:
        return _fit(estimator, rows, eval_set)


@contextmanager
def rows_outside_memory(
    X: Any, y: Any, sample_weight: Any, *, are_classes: bool, may_miss: bool = False
) -> Iterator[BlockRows]:
    """Rows outside memory as blocks; at least one."""
    if isinstance(X, np.memmap):
        yield mapped(X, y, sample_weight, are_classes=are_classes)
        return
    if y is not None or sample_weight is not None:
        raise ValueError(
            "y and sample_weight must be None where X is a RowStore or an iterator: they come with the rows"
        )
    with nullcontext(X) if isinstance(X, BlockRows) else stored(X, are_classes=are_classes, may_miss=may_miss) as rows:
        if not len(rows):
            raise ValueError("X has no rows")
        yield rows


def mapped(X: NDArray[Any], y: Any, sample_weight: Any, *, are_classes: bool) -> MappedRows:
    """A memory-mapped array with its targets and weights, which are checked."""
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise ValueError(f"X must be a table of real numbers, got shape {X.shape} and type {X.dtype}")
    if y is None:
        raise ValueError("y must have one target for each row of X, got None")
    targets = targets_of(y, len(X), are_classes=are_classes)
    return MappedRows(X, targets, None if sample_weight is None else checked_weight(sample_weight, len(X)))


@contextmanager
def stored(pieces: Iterator[Any], *, are_classes: bool, may_miss: bool = False) -> Iterator[RowStore]:
    """The pieces (X, y) or (X, y, sample_weight) of an iterator in a store in the folder for temporary files."""
    store = None
    try:
        for piece in pieces:
            if not isinstance(piece, tuple) or len(piece) not in (2, 3):
                raise ValueError("an iterator of pieces must give pairs (X, y), or (X, y, sample_weight)")
            X, y, *weight = piece
            refuse_text_columns(X)
            if store is None:
                if len(np.shape(X)) != 2:
                    raise ValueError(f"each piece must have a table X, got one of shape {np.shape(X)}")
                store = RowStore.create(
                    tempfile.gettempdir(),
                    np.shape(X)[1],
                    is_sparse=sparse.issparse(X),
                    are_classes=are_classes,
                    may_miss=may_miss,
                )
            store.append(X, y, *weight)
        if store is None:
            raise ValueError("X gave no pieces; an iterator can be used once only")
        yield store
    finally:
        if store is not None:
            store.remove()


def _fit(estimator: NetworkEstimator, rows: BlockRows, eval_set: Any) -> NetworkEstimator:
    """Fit to a sample of the rows; where there are more, continue through all of them, window by window.

    Some rows are in neither: the network that all rows gave is tempered on them, and kept unless it is clearly worse
    there than that of the sample. An `eval_set` takes their place.
    """
    rng = np.random.default_rng(draw_seeds(estimator.random_state, 1)[0])
    n_held_out = 0 if eval_set is not None else min(HELD_OUT_ROWS, int(HELD_OUT_SHARE * len(rows)))
    held_out = NO_ROWS
    if len(rows) > SAMPLE_ROWS and n_held_out:
        held_out = np.setdiff1d(rng.choice(len(rows), n_held_out, replace=False), rows.first_rows)
    part = rows.sample(SAMPLE_ROWS, rng, without=held_out)
    estimator.fit(part.X, part.y, sample_weight=part.weight, eval_set=eval_set)
    fitted = estimator.fitted_
    if len(rows) <= SAMPLE_ROWS or fitted.history.ended == "interrupted":
        return estimator
    config, reading = network_config(estimator), fitted.reading
    weights = RowWeights.of(reading.encoding, part.y, part.weight)

    seen = reading  # with the ranges of all rows

    def dataset(window: Window) -> Dataset:
        nonlocal seen
        X = read_rows(estimator, window.X, missing=reading.missing)
        seen = seen.joined(X)
        return weights.dataset(reading, X, *window[1:])

    validation = read_eval_set(estimator, eval_set, reading) or dataset(rows.take(held_out))
    count = n_windows(rows)
    windows = (dataset(window) for window in islice(rows.windows(rng, held_out), count))
    network, history = continue_training(
        start_from(fitted, config, n_times=len(rows) / len(part.y)),
        next(windows),
        config,
        windows=windows,
        epochs=count,
        batch_size=rows_in_batch(config),
        learning_rate=config.learning_rate,
        callbacks=config.callbacks or (),
        progress=epoch_bar(config.title, count, unit="window") if config.verbose else None,
        rng=rng,
    )
    fitted.history.records += history.records
    fitted.history.ended = history.ended
    estimator.fitted_ = finished_on_all_rows(fitted, network, dataset(part), validation, config)
    if estimator.fitted_ is fitted:
        warn_of_worse()
    estimator.fitted_ = replace(estimator.fitted_, reading=seen)
    return estimator


def n_windows(rows: BlockRows) -> int:
    """How many windows are trained on after the sample: whole passes; none where the sample has all rows."""
    if len(rows) <= SAMPLE_ROWS:
        return 0
    return -(-rows.n_blocks // rows.blocks_per_window) * max(1, -(-ROW_VISITS // len(rows)))


def rows_in_batch(config: NetworkConfig) -> int:
    """Rows in a batch, as given or by default."""
    return BATCH_ROWS if isinstance(config.training.batch_size, str) else int(config.training.batch_size)


# Small trees


def leaf_sums_of(estimator: SmallTree, X: Any, y: Any, weight: NDArray[Any] | None) -> LeafSums:
    """Sums of the targets in the leaves of a fitted estimator's tree."""
    if is_classifier(estimator):
        target = np.eye(len(estimator.classes_))[encode_classes(y, estimator.classes_)[1]]
    else:
        target = np.asarray(y, np.float64).reshape(len(y), -1)
    tree, rows = estimator.tree_, estimator._rows(X)
    sums = LeafSums.of(tree.apply(rows) - tree.n_splits, target, weight, tree.n_leaves)
    return replace(sums, observed=Observed.of(rows, tree.missing))


def fit_tree_outside_memory(estimator: SmallTree, X: Any, y: Any, sample_weight: Any, groups: Any) -> Any:
    """`fit` for what `is_outside_memory`."""
    refuse_folding(estimator.cv, groups)
    may_miss = estimator.missing != "error"
    with rows_outside_memory(X, y, sample_weight, are_classes=is_classifier(estimator), may_miss=may_miss) as rows:
        part = rows.sample(SAMPLE_ROWS, np.random.default_rng(draw_seeds(estimator.random_state, 1)[0]))
        estimator.fit(part.X, part.y, sample_weight=part.weight)
        if len(part.y) < len(rows):
            try:
                parts = (leaf_sums_of(estimator, *window) for window in rows.windows_in_order())
                total = reduce(add, parts)
            except KeyboardInterrupt:
                left = f"the values of the leaves are those of {len(part.y):,} of {len(rows):,} rows"
                warnings.warn(f"fitting interrupted: {left}", stacklevel=3)
            else:
                set_leaf_values(estimator, total)
    return estimator


def set_leaf_values(estimator: SmallTree, total: LeafSums) -> None:
    """Give the fitted tree the counts of other rows than it was fitted to, and constant leaves their values."""
    tree, sums, mass = estimator.tree_, total.sums, total.mass
    if is_classifier(estimator) and estimator.class_weight is not None:
        sums = sums * _class_weights(estimator, sums.sum(axis=0))
        mass = sums.sum(axis=1)
    unit = mass.sum() / total.counts.sum()  # the strength is a number of rows
    strength = STRENGTH if isinstance(estimator.shrinkage, str) else float(estimator.shrinkage)
    signs = monotonic_signs(estimator, tree.n_features, sums.shape[1])
    values = tree.values
    if tree.leaf_weights is None:
        values = values_of_sums(tree, sums / unit, mass / unit, strength, is_classifier(estimator), signs)
    observed = (
        tree.observed if total.observed is None or tree.observed is None else tree.observed.joined(total.observed)
    )
    estimator.tree_ = replace(tree, values=values, observed=observed).with_leaf_counts(total.counts, mass)
    estimator.path_trees_[chosen_row(estimator.path_)] = estimator.tree_
    estimator.feature_importances_ = column_shares(estimator, column_importances(estimator.tree_))


def _class_weights(estimator: Any, mass: NDArray[np.float64]) -> NDArray[np.float64]:
    if estimator.class_weight == "balanced":
        return np.divide(mass.sum(), len(mass) * mass, out=np.zeros(len(mass)), where=mass > 0)
    return np.array([estimator.class_weight.get(label, 1.0) for label in estimator.classes_.tolist()])
