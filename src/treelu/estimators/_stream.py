"""`partial_fit`: pieces of a table that arrive over time, as good as `fit` on all of them.

Rows are kept: all of them up to `KEPT_BYTES` and `KEPT_ROWS`, and from then on a sample of all rows seen, each with the
same chance. As often as the number of rows has grown by a quarter, or the scaling of a feature has moved far, a network
is fitted to the kept rows as `fit` does it, with their scaling and a new choice of depth and drop rate. In between the
network is trained on through the kept rows, and once these are a sample, through each new piece and as many of the kept
rows; where the scaling moves then, the network is rewritten for the new one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.utils.validation import check_consistent_length

from treelu.estimators._further import finish_training, start_further, train_further
from treelu.estimators._plan import plan_training
from treelu.estimators._rows import check_weight
from treelu.training import Sample
from treelu.training.blocks import stacked_rows
from treelu.training.scaling import fit_scaling

if TYPE_CHECKING:
    from treelu.estimators._base import NetworkEstimator

KEPT_BYTES = 64 * 2**20  # of the kept rows' features
KEPT_ROWS = 200_000
GROWTH = 1.25  # times as many rows as at the last fit: a new fit
RATE = 0.1  # of the learning rate, between two fits
EPOCHS = 10  # steps of the learning rate within a piece
SHARE = 0.5  # of a fit's updates, spread over the pieces until the next


@dataclass(frozen=True)
class Stream:
    """The rows of a stream that are kept, and how far it has come.

    Attributes
    ----------
    X : array or CSR array of shape (n, n_features)
        As given, with missing values.
    y : array of shape (n,) or (n, outputs)
        Class numbers, or values.
    weight : float64 array of shape (n,)
    keys : float64 array of shape (n,)
        A random number of each row; the rows with the smallest are kept.
    n_seen : int
        Rows of all pieces.
    n_fitted : int
        Rows that had been seen at the last fit; 0 where the network is that of an earlier `fit`, whose rows are not
        known: it is trained on and never fitted anew.
    n_pieces : int
    """

    X: Any
    y: NDArray[Any]
    weight: NDArray[np.float64]
    keys: NDArray[np.float64]
    n_seen: int
    n_fitted: int
    n_pieces: int

    def __len__(self) -> int:
        return len(self.y)

    @property
    def holds_all(self) -> bool:
        """Whether no row has been dropped."""
        return len(self) == self.n_seen

    def joined(self, other: Stream) -> Stream:
        """With the rows of another below."""
        return replace(
            self,
            X=stacked_rows([self.X, other.X]),
            y=np.concatenate([self.y, other.y]),
            weight=np.concatenate([self.weight, other.weight]),
            keys=np.concatenate([self.keys, other.keys]),
        )

    def add(self, piece: Stream) -> Stream:
        """The stream after another piece."""
        n_seen, n_pieces = self.n_seen + piece.n_seen, self.n_pieces + 1
        return replace(self.joined(piece), n_seen=n_seen, n_pieces=n_pieces).bounded()

    def bounded(self) -> Stream:
        """The rows with the smallest keys, as many as may be kept."""
        n_bytes = self.X.data.nbytes if hasattr(self.X, "tocsr") else self.X.nbytes
        most = min(KEPT_ROWS, max(1, int(KEPT_BYTES * len(self) / max(1, n_bytes))))
        return self if len(self) <= most else self.take(np.sort(np.argpartition(self.keys, most)[:most]))

    def take(self, rows: NDArray[np.int64]) -> Stream:
        """Some of the kept rows."""
        return replace(self, X=self.X[rows], y=self.y[rows], weight=self.weight[rows], keys=self.keys[rows])


def learn_piece(estimator: NetworkEstimator, X: Any, y: Any, sample_weight: Any) -> None:
    """The work of `partial_fit`."""
    begins = not hasattr(estimator, "network_")
    before: Stream | None = None if begins else getattr(estimator, "stream_", None)
    piece = _read_piece(estimator, X, y, sample_weight, begins, 1 if before is None else before.n_pieces + 1)
    n_passes = 1 if begins else estimator.n_passes_ + 1
    stream = piece.bounded() if before is None else before.add(piece)
    moved = not begins and stream.n_fitted > 0 and _has_moved(estimator, stream)
    grown = stream.n_fitted > 0 and stream.n_seen >= GROWTH * stream.n_fitted
    anew = begins or (stream.holds_all and (grown or moved))
    if anew:
        _fit_anew(estimator, stream)
        stream = replace(stream, n_fitted=stream.n_seen)
    if not anew or not stream.holds_all:
        _go_on(estimator, stream, piece, rescale=moved)
    estimator.n_passes_, estimator.stream_ = n_passes, stream


def _read_piece(estimator: NetworkEstimator, X: Any, y: Any, sample_weight: Any, begins: bool, number: int) -> Stream:
    """A piece, checked; classes and the targets' shape are learned from the first."""
    X = estimator._validated_rows(X, first=begins)
    check_consistent_length(X, y)
    weight = check_weight(sample_weight, X)
    estimator._read_targets(y, weight, first=begins)
    if is_classifier(estimator):
        y = np.searchsorted(estimator.classes_, np.ravel(y))
    else:  # a column in one piece and a vector in another are the same
        outputs = () if estimator.n_outputs_ is None else (estimator.n_outputs_,)
        y = np.asarray(y, np.float64).reshape(X.shape[0], *outputs)
    keys = np.random.default_rng([estimator._seeds(1)[0], number]).random(X.shape[0])
    X = sparse.csr_array(X) if hasattr(X, "tocsr") else X
    piece = Stream(X, y, np.ones(X.shape[0]) if weight is None else weight, keys, X.shape[0], 0, 1)
    counted = np.flatnonzero(piece.weight)
    return piece if len(counted) == len(piece) else replace(piece.take(counted), n_seen=len(counted))


def _fit_anew(estimator: NetworkEstimator, stream: Stream) -> None:
    """As `fit` on the kept rows, but that the classes are known."""
    estimator.__dict__.pop("network_", None)  # not to be continued by warm_start
    estimator._filled_rows(stream.X, first=True)  # learns which columns have gaps
    estimator.__dict__.pop("class_order_", None)  # is that of the rows that are kept now
    sample = _sample(estimator, stream, rescale=True)
    estimator._fit_sample(sample, None, can_hold_out=_can_hold_out(stream.y, is_classifier(estimator)))


def _has_moved(estimator: NetworkEstimator, stream: Stream) -> bool:
    """Whether a feature's or target's centre has moved by more than its spread, or its spread twofold."""
    X = estimator._filled_rows(stream.X, first=False)
    pairs = [(estimator.scaling_, fit_scaling(X, estimator.standardize))]
    if not is_classifier(estimator):
        y = stream.y.reshape(len(stream), -1)
        pairs.append((estimator.target_scaling_, fit_scaling(y, bool(estimator.standardize), "y")))
    return any(
        bool((np.abs(after.center - before.center) > before.scale).any())
        or bool((np.abs(np.log2(after.scale / before.scale)) > 1).any())
        for before, after in pairs
    )


def _can_hold_out(y: NDArray[Any], is_classifier: bool) -> bool:
    """Whether a tenth of the rows can be scored: some rows, of at least two classes."""
    counts = np.unique(y, return_counts=True)[1] if is_classifier else np.array([len(y)] * 2)
    return len(counts) > 1 and bool((counts > 1).all())


def _go_on(estimator: NetworkEstimator, stream: Stream, piece: Stream, *, rescale: bool) -> None:
    """Train the network on; `rescale` rewrites it first for the scaling of the rows that are kept now."""
    rng = np.random.default_rng([estimator._seeds(1)[0], stream.n_pieces, 1])
    plan = plan_training(len(stream), estimator.epochs, estimator._how.batch_size)
    kept = _sample(estimator, stream, rescale=rescale)
    sample = kept
    if stream.n_fitted and stream.holds_all:
        n_updates = SHARE * plan.epochs * (plan.updates_per_epoch or -(-len(stream) // plan.batch_size))
        n_updates *= len(piece) / stream.n_fitted
    else:
        replayed = stream.take(rng.permutation(len(stream))[: len(piece)])
        sample = _sample(estimator, piece.joined(replayed), rescale=False)
        n_updates = len(sample) / plan.batch_size
    n_epochs = max(1, min(EPOCHS, int(n_updates)))
    fitted_to = min(stream.n_fitted, len(stream))
    n_times = 1.0 if stream.holds_all or not fitted_to else stream.n_seen / fitted_to
    network, _ = train_further(
        estimator,
        start_further(estimator, n_times),
        sample,
        epochs=n_epochs,
        updates_per_epoch=-(-int(n_updates) // n_epochs) or 1,
        batch_size=plan.batch_size,
        learning_rate=RATE * estimator.learning_rate,
        rng=rng,
    )
    finish_training(estimator, network, kept, stream.n_pieces)


def _sample(estimator: NetworkEstimator, rows: Stream, *, rescale: bool) -> Sample:
    """Rows as the network is trained on them; `rescale` takes the scaling of features and targets from them."""
    X = estimator._filled_rows(rows.X, first=False)
    if rescale:
        estimator.scaling_ = fit_scaling(X, estimator.standardize)
    y = estimator.classes_[rows.y] if is_classifier(estimator) else rows.y
    targets = estimator._read_targets(y, rows.weight, first=rescale and not is_classifier(estimator))
    return Sample(estimator._scaled_table(X), targets)
