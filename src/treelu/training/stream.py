"""`partial_fit`: pieces of a table that arrive over time, as good as `fit` on all of them.

Rows are kept: all of them up to `KEPT_BYTES` and `KEPT_ROWS`, and from then on a random sample of all rows seen.
Whenever the number of rows has grown by a quarter, or the scaling of a feature has moved far, a network is fitted to
the kept rows as `fit` does it, with their scaling and a new choice of hyper-parameters. In between, the network is
continued on the kept rows, and once these are a sample, on each new piece and as many of the kept rows; where the
scaling moves then, the network is rewritten for the new one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treelu.data.blocks import stacked_rows
from treelu.data.dataset import Dataset
from treelu.data.reading import ClassEncoding, Reading, ValueEncoding
from treelu.training.config import NetworkConfig, plan_training
from treelu.training.continuing import continue_training, finished, start_from
from treelu.training.fit import FittedNetwork, fit_network

KEPT_BYTES = 64 * 2**20  # of the kept rows' features
KEPT_ROWS = 200_000
GROWTH = 1.25  # times as many rows as at the last fit: a new fit
RATE = 0.1  # of the learning rate, between two fits
EPOCHS = 10  # steps of the learning rate within a piece
SHARE = 0.5  # of a fit's updates, spread over the pieces until the next


@dataclass(frozen=True)
class Stream:
    """The rows of a stream that are kept, and how far it has come."""

    X: Any  # array or CSR array of shape (n, n_features) as given, with missing values
    y: NDArray[Any]  # class numbers, or values
    weight: NDArray[np.float64]
    keys: NDArray[np.float64]  # a random number of each row; the rows with the smallest are kept
    n_seen: int  # rows of all pieces
    n_fitted: int  # of these, seen at the last fit; 0 after a `fit`, whose network is continued and never fitted anew
    n_pieces: int

    @classmethod
    def of(cls, X: Any, y: NDArray[Any], weight: NDArray[np.float64] | None, seed: int, number: int) -> Stream:
        """A piece: those of its rows that have a weight."""
        keys = np.random.default_rng([seed, number]).random(X.shape[0])
        X = sparse.csr_array(X) if hasattr(X, "tocsr") else X
        piece = cls(X, y, np.ones(X.shape[0]) if weight is None else weight, keys, X.shape[0], 0, 1)
        counted = np.flatnonzero(piece.weight)
        return piece if len(counted) == len(piece) else replace(piece.take(counted), n_seen=len(counted))

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


def learn_piece(
    fitted: FittedNetwork | None,
    stream: Stream | None,
    piece: Stream,
    encoding: ClassEncoding | ValueEncoding,
    config: NetworkConfig,
    seed: int,
    *,
    standardize: bool | str,
    missing: str,
) -> tuple[FittedNetwork, Stream]:
    """The fit and the kept rows after another piece.

    `stream` is None after a `fit`, whose rows are not known; `encoding` counts where no network has been fitted.
    """
    kept = piece.bounded() if stream is None else stream.add(piece)
    before = None if fitted is None else fitted.reading.observed
    n_passes = 1 if fitted is None else fitted.n_passes + 1
    moved = fitted is not None and kept.n_fitted > 0 and _has_moved(fitted.reading, kept, standardize)
    grown = kept.n_fitted > 0 and kept.n_seen >= GROWTH * kept.n_fitted
    if fitted is None or (kept.holds_all and (grown or moved)):
        known = encoding if fitted is None else fitted.reading.encoding
        if isinstance(known, ClassEncoding):  # in the order that the kept rows give them
            known = ClassEncoding.learn(known.classes[kept.y], known.class_weight, kept.weight, known.classes)
        reading = _learn(kept, known, standardize, missing)
        can_hold_out = _can_hold_out(kept.y, isinstance(known, ClassEncoding))
        fitted = fit_network(_dataset(kept, reading), config, reading, seed, can_hold_out=can_hold_out)
        kept, refitted = replace(kept, n_fitted=kept.n_seen), True
    else:
        refitted = False
    if not refitted or not kept.holds_all:
        if moved and not refitted:
            reading = _learn(kept, fitted.reading.encoding, standardize, fitted.reading.missing)
            fitted = replace(fitted, reading=reading)
        fitted = _continue(fitted, kept, piece, config, seed)
    reading = fitted.reading.joined(piece.X).joined(observed=before)
    return replace(fitted, n_passes=n_passes, reading=reading), kept


def _learn(stream: Stream, encoding: ClassEncoding | ValueEncoding, standardize: bool | str, missing: Any) -> Reading:
    """How the kept rows are read: the scaling of features and targets is theirs, the classes are known."""
    if isinstance(encoding, ValueEncoding):
        encoding = ValueEncoding.learn(stream.y, bool(standardize), stream.weight)
    return Reading.learn(stream.X, encoding, standardize, missing)


def _has_moved(reading: Reading, stream: Stream, standardize: bool | str) -> bool:
    """Whether a feature's or target's centre has moved by more than its spread, or its spread twofold."""
    now = _learn(stream, reading.encoding, standardize, reading.missing)
    pairs = [(reading.scaling, now.scaling)]
    if isinstance(reading.encoding, ValueEncoding) and isinstance(now.encoding, ValueEncoding):
        pairs.append((reading.encoding.scaling, now.encoding.scaling))
    return any(
        bool((np.abs(after.center - before.center) > before.scale).any())
        or bool((np.abs(np.log2(after.scale / before.scale)) > 1).any())
        for before, after in pairs
    )


def _can_hold_out(y: NDArray[Any], is_classifier: bool) -> bool:
    """Whether a tenth of the rows can be scored: some rows, of at least two classes."""
    counts = np.unique(y, return_counts=True)[1] if is_classifier else np.array([len(y)] * 2)
    return len(counts) > 1 and bool((counts > 1).all())


def _continue(fitted: FittedNetwork, stream: Stream, piece: Stream, config: NetworkConfig, seed: int) -> FittedNetwork:
    """Continue the network on the kept rows or, where these are a sample, on the piece and as many of them."""
    rng = np.random.default_rng([seed, stream.n_pieces, 1])
    plan = plan_training(len(stream), config.epochs, config.training.batch_size)
    kept = _dataset(stream, fitted.reading)
    dataset = kept
    if stream.n_fitted and stream.holds_all:
        n_updates = SHARE * plan.epochs * (plan.updates_per_epoch or -(-len(stream) // plan.batch_size))
        n_updates *= len(piece) / stream.n_fitted
    else:
        replayed = stream.take(rng.permutation(len(stream))[: len(piece)])
        dataset = _dataset(piece.joined(replayed), fitted.reading)
        n_updates = len(dataset) / plan.batch_size
    n_epochs = max(1, min(EPOCHS, int(n_updates)))
    fitted_to = min(stream.n_fitted, len(stream))
    n_times = 1.0 if stream.holds_all or not fitted_to else stream.n_seen / fitted_to
    network, _ = continue_training(
        start_from(fitted, config, n_times),
        dataset,
        config,
        epochs=n_epochs,
        updates_per_epoch=-(-int(n_updates) // n_epochs) or 1,
        batch_size=plan.batch_size,
        learning_rate=RATE * config.learning_rate,
        rng=rng,
    )
    return finished(fitted, network, kept, config, stream.n_pieces)


def _dataset(rows: Stream, reading: Reading) -> Dataset:
    """Kept rows as the network is trained on them."""
    encoding = reading.encoding
    y = encoding.classes[rows.y] if isinstance(encoding, ClassEncoding) else rows.y
    return reading.dataset(rows.X, y, rows.weight)
