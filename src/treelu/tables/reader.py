"""Files → rows as networks are trained on them, a piece at a time, once the encoding is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treelu.data.blocks import Window, stacked
from treelu.tables.columns import Note
from treelu.tables.encoder import TableEncoder
from treelu.tables.errors import TableError
from treelu.tables.numbers import to_numbers, to_texts
from treelu.tables.pieces import Piece, iterate_pieces
from treelu.tables.targets import TableTargets

if TYPE_CHECKING:
    import pandas as pd


class EncodedPiece(NamedTuple):
    """Features (dense or CSR) and targets of some rows of a file, and how many rows were read for them."""

    path: str
    X: Any
    y: NDArray[Any]
    n_read: int


@dataclass(frozen=True)
class TableReader:
    """Reads files as the rows that an encoder and the targets of a sample describe.

    Attributes
    ----------
    encoder : TableEncoder
    names : sequence of str
        The target columns.
    targets : TableTargets
        Those of the sample: the task, the classes, how numbers are written.
    reading : dict
        delimiter, decimal and encoding, as for `read_table`.
    """

    encoder: TableEncoder
    names: Sequence[str]
    targets: TableTargets
    reading: dict[str, Any] = field(default_factory=dict)

    def iterate(self, files: Sequence[str], skipped: NDArray[np.int64], note: Note) -> Iterator[EncodedPiece]:
        """The rows of some files that have targets, but those with the numbers `skipped`, counted over all files."""
        n_before = 0
        for piece in iterate_pieces(files, text=self._as_text(), note=note, **self.reading):
            here = skipped[(skipped >= n_before) & (skipped < n_before + len(piece.frame))] - n_before
            n_before += len(piece.frame)
            yield self.read(piece, here, note)

    def window(self, path: str, skipped: NDArray[np.int64]) -> Window:
        """The rows of one file, in memory."""
        pieces = self.iterate([path], skipped, _silent)
        parts = [Window(piece.X.astype(np.float32), piece.y, None) for piece in pieces]
        return stacked(parts)

    def read(self, piece: Piece, skipped: NDArray[np.int64], note: Note) -> EncodedPiece:
        """The rows of a piece; errors and notes name its file."""
        try:
            y, rows = self._targets(piece.frame)
            chosen = ~np.isin(rows, skipped)
            y, rows = y[chosen], rows[chosen]
            if not len(rows):
                return EncodedPiece(piece.path, np.zeros((0, len(self.encoder.feature_names)), np.float32), y, 0)
            encoded = self.encoder.encode(
                piece.frame.iloc[rows], note=lambda text: note(f"{piece.path}: {text}"), lenient=True,
                first_row=piece.first_row,
            )  # fmt: skip
        except TableError as error:
            raise TableError(str(error) if piece.path in str(error) else f"{piece.path}: {error}") from error
        X = encoded.X if hasattr(encoded.X, "tocsr") else encoded.X.to_numpy(np.float64)
        return EncodedPiece(piece.path, X, y[encoded.rows], len(piece.frame))

    def _as_text(self) -> list[str]:
        """Columns that must not be read as numbers: texts, and numbers that are not written as in Python."""
        y, styles = self.targets.y, self.targets.styles
        words = y.dtype.kind == "U" and not set(y.tolist()) <= {"True", "False"}
        written = [name for name, style in zip(self.names, styles, strict=False) if words or not style.is_plain]
        return [*self.encoder.text_columns, *written]

    def _targets(self, frame: pd.DataFrame) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The targets of the rows that have them, and these rows."""
        known = self.targets
        if known.y.dtype.kind == "U":
            texts = to_texts(frame[self.names[0]])
            rows = np.flatnonzero(texts.notna().to_numpy())
            y: NDArray[Any] = texts.iloc[rows].to_numpy(dtype=np.str_)
        else:
            columns = [to_numbers(frame[name], style)[0] for name, style in zip(self.names, known.styles, strict=True)]
            values = np.column_stack(columns)
            rows = np.flatnonzero(~np.isnan(values).any(axis=1))
            y = values[rows] if known.y.ndim == 2 else values[rows, 0]
        if known.task == "classification":
            y = self._known_classes(y)
        return y, rows

    def _known_classes(self, y: NDArray[Any]) -> NDArray[Any]:
        new = np.setdiff1d(y, self.classes)
        if len(new):
            raise TableError(
                f"target {self.names[0]!r} has the class {new[0].item()!r}, which the sample has not; is it written in "
                "another way there?"
            )
        return y.astype(self.targets.y.dtype)

    @property
    def classes(self) -> NDArray[Any]:
        """The distinct targets of the sample."""
        return np.unique(self.targets.y)


def _silent(text: str) -> None:
    """Workers have nobody to tell."""
