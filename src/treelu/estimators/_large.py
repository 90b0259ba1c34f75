"""Fitting to rows outside memory: settings are found on a sample in memory, then all rows are trained on."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import is_classifier

from treelu.nn import NeuronChain
from treelu.training import History, Sample, train
from treelu.training.progress import epoch_bar
from treelu.training.sparsity import proximal_step
from treelu.training.store import BlockRows, MappedRows, RowStore, Window

if TYPE_CHECKING:
    from treelu.estimators._base import NetworkEstimator

LARGE_BYTES = 2**30  # a memory-mapped array of fewer bytes is read as a whole
SAMPLE_ROWS = 200_000  # on which scaling, depth, drop rate and a first network are found
ROW_VISITS = 12_000_000  # at least so many, and at least one pass, after that
RATE = 0.3  # of the learning rate: the network has found its questions and goes on from there
BATCH_ROWS = 512


def is_outside_memory(X: Any) -> bool:
    """Whether X is a store of rows, a large memory-mapped array, or an iterator of pieces."""
    if isinstance(X, np.memmap):
        return X.nbytes > LARGE_BYTES
    return isinstance(X, BlockRows | Iterator)


def fit_outside_memory(estimator: Any, X: Any, y: Any, sample_weight: Any, eval_set: Any) -> Any:
    """`fit` for what `is_outside_memory`; pieces are written into a store that is removed at the end."""
    if hasattr(estimator, "n_estimators"):
        raise ValueError(f"{type(estimator).__name__} needs its rows in memory: give arrays, or use one network")
    with rows_outside_memory(X, y, sample_weight, are_classes=is_classifier(estimator)) as rows:
        return _fit(estimator, rows, eval_set)


@contextmanager
def rows_outside_memory(X: Any, y: Any, sample_weight: Any, *, are_classes: bool) -> Iterator[BlockRows]:
    """What `is_outside_memory` as rows in blocks; at least one."""
    if isinstance(X, np.memmap):
        if X.ndim != 2 or len(y) != len(X):
            raise ValueError(f"y must have one target for each row of X, got {len(y)} for X of shape {X.shape}")
        yield MappedRows(X, y, sample_weight)
        return
    if y is not None or sample_weight is not None:
        raise ValueError(
            "y and sample_weight must be None where X is a RowStore or an iterator: they come with the rows"
        )
    if isinstance(X, BlockRows):
        if not len(X):
            raise ValueError("X has no rows")
        yield X
        return
    with stored(X, are_classes=are_classes) as store:
        yield store


@contextmanager
def stored(pieces: Iterator[Any], *, are_classes: bool) -> Iterator[RowStore]:
    """The pieces (X, y) or (X, y, sample_weight) of an iterator in a store in the folder for temporary files."""
    store = None
    try:
        for piece in pieces:
            if not isinstance(piece, tuple) or len(piece) not in (2, 3):
                raise ValueError("an iterator of pieces must give pairs (X, y), or (X, y, sample_weight)")
            X, y, *weight = piece
            if store is None:
                is_sparse = sparse.issparse(X)
                parent = tempfile.gettempdir()
                width = np.shape(X)[1]
                store = RowStore.create(parent, width, is_sparse=is_sparse, are_classes=are_classes)
            store.append(X, y, *weight)
        if store is None:
            raise ValueError("X gave no pieces; an iterator can be used once only")
        yield store
    finally:
        if store is not None:
            store.remove()


def _fit(estimator: NetworkEstimator, rows: BlockRows, eval_set: Any) -> NetworkEstimator:
    """Fit to a sample of the rows; where there are more, train on through all of them, window by window.

    The network that the sample gave goes on as a ReLU network (λ = 1), at a lower learning rate that falls to zero.
    """
    rng = np.random.default_rng(estimator._seeds(1)[0])
    part = rows.sample(SAMPLE_ROWS, rng)
    estimator.fit(part.X, part.y, sample_weight=part.weight, eval_set=eval_set)
    if len(part.y) < len(rows):
        _train_on(estimator, rows, part, rng)
    return estimator


def n_windows(rows: BlockRows) -> int:
    """How many windows are trained on after the sample: whole passes; none where the sample has all rows."""
    if len(rows) <= SAMPLE_ROWS:
        return 0
    return -(-rows.n_blocks // rows.blocks_per_window) * max(1, -(-ROW_VISITS // len(rows)))


def _train_on(estimator: NetworkEstimator, rows: BlockRows, part: Window, rng: np.random.Generator) -> None:
    count = n_windows(rows)
    samples = (as_sample(estimator, window) for window in islice(rows.windows(rng), count))
    network, history = train_further(
        estimator,
        next(samples),
        windows=samples,
        epochs=count,
        batch_size=BATCH_ROWS if isinstance(estimator._how.batch_size, str) else int(estimator._how.batch_size),
        learning_rate=RATE * estimator.learning_rate,
        callbacks=estimator.callbacks or (),
        progress=epoch_bar(type(estimator).__name__, count, unit="window") if estimator.verbose else None,
        rng=rng,
    )
    estimator.history_.records += history.records
    finish_training(estimator, network, as_sample(estimator, part), n_passes=len(estimator.history_))
    estimator.network_ = estimator._folded(network)


def train_further(
    estimator: NetworkEstimator, sample: Sample, *, windows: Iterator[Sample] | None = None, **settings: Any
) -> tuple[NeuronChain, History]:
    """The fitted network, on scaled features, after more training.

    It goes on as a ReLU network (λ = 1), reads no feature that `max_tree_features` took from it, and the learning rate
    falls to zero.
    """
    network = estimator._unfolded(estimator.network_)
    network.leaf_corrections = None
    n_features, chosen = network.in_features, None
    if estimator.max_tree_features is not None:
        chosen = np.flatnonzero((network.weight != 0).any(axis=1))
        network, sample = network.narrow(chosen), _columns(sample, chosen)
        windows = None if windows is None else map(partial(_columns, chosen=chosen), windows)
    history = train(
        network,
        sample,
        windows=windows,
        optimizer=estimator._how.optimizer,
        schedule="cosine",
        weight_decay=estimator._setting().decay,
        annealing=0.0,
        after_step=proximal_step(estimator._how.feature_penalty),
        make_stepper=estimator._make_stepper(),
        **settings,
    )
    return network if chosen is None else network.widen(chosen, n_features), history


def _columns(sample: Sample, chosen: NDArray[np.int64]) -> Sample:
    return replace(sample, table=sample.table.columns(chosen))


def finish_training(estimator: NetworkEstimator, network: NeuronChain, sample: Sample, n_passes: int) -> None:
    """What follows the training of a network in `fit` too: leaves refined, rows counted."""
    estimator._refine(network, sample)
    estimator._describe_rows(network, sample, n_passes)


def as_sample(estimator: NetworkEstimator, window: Window) -> Sample:
    """A window as the network is trained on it."""
    X, y = estimator._read_rows(window.X, window.y, first=False)
    return Sample(estimator._scaled_table(X), estimator._read_targets(y, window.weight, first=False))
