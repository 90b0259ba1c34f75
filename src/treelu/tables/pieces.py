"""A table of any size as a stream of pieces: one file, many, a folder, a partitioned Parquet data set.

Pieces are frames, a sample of their rows, or, once the encoding is known, rows as networks are trained on them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treelu.data.blocks import MOST_CLASSES, Window, stacked
from treelu.tables.columns import Note
from treelu.tables.encoder import TableEncoder
from treelu.tables.files import iterate_table, parquet_file, read_table, reader_errors
from treelu.tables.numbers import to_numbers, to_texts
from treelu.tables.paths import (
    EmptyTableError,
    TableError,
    check_alike,
    find_files,
    open_bytes,
    partition,
    plain_errors,
    text_bytes,
)
from treelu.tables.targets import TableTargets

if TYPE_CHECKING:
    import pandas as pd

PIECE_ROWS = 50_000
_KINDS = {"b": "truth values", "M": "dates", "O": "text", "T": "text", **dict.fromkeys("iuf", "numbers")}


class Piece(NamedTuple):
    """Some rows of a file: its path, the rows, and how many of its rows come before them."""

    path: str
    frame: pd.DataFrame
    first_row: int


def iterate_pieces(
    files: Sequence[str], rows: int = PIECE_ROWS, *, note: Note | None = None, **reading: Any
) -> Iterator[Piece]:
    """The rows of several tables with the same columns, at most `rows` at a time.

    The names of folders such as ``year=2024`` become columns, as in a partitioned data set. A file without rows is
    passed over; other columns, or columns of another kind, than in the first file are a TableError.

    Parameters
    ----------
    files : sequence of str
    rows : int
    note : callable, optional
        Called with a sentence about each file that is passed over.
    **reading
        As for `iterate_table`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("x\\n1\\n2\\n3\\n")
    ...     file.flush()
    ...     [piece.frame["x"].tolist() for piece in iterate_pieces([file.name], 2)]
    [[1, 2], [3]]
    """
    first: _Columns | None = None
    for path in files:
        columns, n_before = partition(path), 0
        try:
            for piece in iterate_table(path, rows, **reading):
                for name, value in columns.items():
                    piece[name] = value
                first = first or _Columns(path, tuple(map(str, piece.columns)), {})
                yield Piece(path, first.put_in_order(piece, path), n_before)
                n_before += len(piece)
        except EmptyTableError:
            if len(files) == 1:
                raise
            if note is not None:
                note(f"{path} has no rows and is passed over")
    if first is None:
        raise TableError(f"none of the {len(files)} files has rows; add some")


def iterate_files(files: Sequence[str] | str, rows: int = PIECE_ROWS, **reading: Any) -> Iterator[pd.DataFrame]:
    """The rows of `iterate_pieces` alone; `files` may be a path, a folder or a pattern.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("x\\n1\\n2\\n3\\n")
    ...     file.flush()
    ...     [frame["x"].tolist() for frame in iterate_files(file.name, 2)]
    [[1, 2], [3]]
    """
    found = find_files(files) if isinstance(files, str) else files
    return (piece.frame for piece in iterate_pieces(found, rows, **reading))


@dataclass(frozen=True)
class _Columns:
    """The columns of the first file, and what they have been found to hold."""

    path: str
    names: tuple[str, ...]
    kinds: dict[str, tuple[str, str]]  # by column: what it holds, and the file that showed it

    def put_in_order(self, piece: pd.DataFrame, path: str) -> pd.DataFrame:
        """The columns in the order of the first file; a TableError where they are not the same."""
        names = tuple(map(str, piece.columns))
        if names != self.names:
            missing = [name for name in self.names if name not in names]
            added = [name for name in names if name not in self.names]
            if missing or added:
                what = f"no column {missing[0]!r}, unlike" if missing else f"a column {added[0]!r} more than"
                raise TableError(f"{path} has {what} {self.path}; all files must have the same columns")
            piece = piece[list(self.names)]
        if path != self.path or not self.kinds:
            self._check_kinds(piece, path)
        return piece

    def _check_kinds(self, piece: pd.DataFrame, path: str) -> None:
        """Numbers in one Parquet file and text in another are two tables; in text files the cells decide."""
        for name, dtype in zip(self.names, piece.dtypes, strict=True):
            kind = _KINDS.get(getattr(dtype, "kind", "O"), str(dtype))
            known, where = self.kinds.get(name, (kind, path))
            if known != kind and "text" in (known, kind) and path.endswith(".parquet") and piece[name].notna().any():
                raise TableError(f"{path}: column {name!r} holds {kind}, but in {where} {known}; make the files alike")
            if piece[name].notna().any():
                self.kinds.setdefault(name, (kind, path))


def estimate_rows(files: Sequence[str]) -> int | None:
    """About how many rows some files have, for a progress bar; None where it cannot be told.

    Parquet files say it; text files are as long as the lines at the beginning of the first one suggest.
    """
    kind, n_rows = check_alike(files), 0
    if kind == "parquet":
        for path in files:
            with reader_errors(path):
                n_rows += parquet_file(path).metadata.num_rows
        return n_rows
    if kind == "xlsx":
        return None
    with plain_errors(files[0]), open_bytes(files[0]) as file:
        sample = file.read(1 << 18)
    return sum(map(text_bytes, files)) * sample.count(b"\n") // max(1, len(sample)) or None


@dataclass(frozen=True)
class Drawn:
    """Rows drawn from a stream, in its order."""

    frame: pd.DataFrame
    numbers: NDArray[np.int64]  # of the rows in the stream, from 0
    n_rows: int  # of the stream
    file_rows: dict[str, int] = field(default_factory=dict)  # of each file, where the stream is one of files


def draw_table(
    files: Sequence[str],
    n_rows: int,
    seed: int,
    *,
    classes: str | None = None,
    text: Sequence[str] = (),
    note: Note | None = None,
    told: Callable[[int], None] | None = None,
    **reading: Any,
) -> Drawn:
    """Draw rows from the tables of some files, read as `read_table` would read one file of these rows.

    Parameters
    ----------
    files : sequence of str
        Of one kind.
    n_rows, seed, classes
        As for `draw_rows`.
    text : sequence of str
        Columns to be read as text.
    note : callable, optional
        Called with a sentence about each file that is passed over.
    told : callable, optional
        told(n_rows) is called after each piece that was read.
    **reading
        delimiter, decimal and encoding, as for `read_table`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("x\\n1\\n2\\n3\\n")
    ...     file.flush()
    ...     drawn = draw_table([file.name], 2, seed=0)
    >>> len(drawn.frame), drawn.n_rows
    (2, 3)
    """

    def frames() -> Iterator[pd.DataFrame]:
        for piece in iterate_pieces(files, note=note, text=text, all_text=kind == "text", **reading):
            yield piece.frame
            file_rows[piece.path] = piece.first_row + len(piece.frame)
            if told is not None:
                told(len(piece.frame))

    kind, file_rows = check_alike(files), dict[str, int]()
    drawn = replace(draw_rows(frames(), n_rows, seed, classes=classes), file_rows=file_rows)
    if kind != "text":
        return drawn
    # What a column holds is recognised from all drawn rows together, not in each piece.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "drawn.csv"
        drawn.frame.to_csv(path, index=False)
        decimal = reading.get("decimal")
        frame = read_table(path, delimiter=",", encoding="utf-8", decimal=decimal, text=text)
    return replace(drawn, frame=frame)


def draw_rows(pieces: Iterable[pd.DataFrame], n_rows: int, seed: int, *, classes: str | None = None) -> Drawn:
    """Draw rows from a stream of unknown length, each set of `n_rows` rows with the same probability.

    Each row gets a random number; those with the smallest are kept.

    Parameters
    ----------
    pieces : iterable of DataFrame
    n_rows, seed : int
    classes : str, optional
        A column: the first row of each of its values is drawn in any case, as long as there are no more than
        `MOST_CLASSES`.

    Examples
    --------
    >>> import pandas as pd
    >>> pieces = (pd.DataFrame({"x": range(start, start + 10)}) for start in range(0, 100, 10))
    >>> drawn = draw_rows(pieces, 5, seed=0)
    >>> drawn.n_rows, (drawn.frame.x.to_numpy() == drawn.numbers).all()
    (100, np.True_)
    """
    import pandas as pd

    rng = np.random.default_rng(seed)
    kept: list[pd.DataFrame] = []
    keys, numbers, seen, limit = np.empty(0), np.empty(0, np.int64), 0, 1.0
    known: set[Any] = set()
    for piece in pieces:
        new = rng.random(len(piece))
        if classes in piece.columns and len(known) <= MOST_CLASSES:
            first = ~piece[classes].duplicated() & piece[classes].notna() & ~piece[classes].isin(known)
            known.update(piece[classes][first])
            if len(known) > MOST_CLASSES:  # values: none is needed for its own sake
                keys = np.abs(keys)
            else:
                new[first.to_numpy()] *= -1
        chosen = np.flatnonzero(new < limit)
        kept.append(piece.iloc[chosen])
        keys, numbers = np.concatenate([keys, new[chosen]]), np.concatenate([numbers, seen + chosen])
        seen += len(piece)
        most = n_rows + int((keys < 0).sum())  # rows of classes come on top until the end
        if len(keys) > 1.25 * most:
            kept, keys, numbers = _smallest(kept, keys, numbers, most)
            limit = keys.max()
    kept, keys, numbers = _smallest(kept, keys, numbers, n_rows)
    return Drawn(pd.concat(kept, ignore_index=True), numbers, seen)


def _smallest(
    kept: list[pd.DataFrame], keys: NDArray[np.float64], numbers: NDArray[np.int64], n_rows: int
) -> tuple[list[pd.DataFrame], NDArray[np.float64], NDArray[np.int64]]:
    """The rows with the smallest keys, in the order of the stream."""
    import pandas as pd

    if len(keys) <= n_rows:
        return kept, keys, numbers
    order = np.sort(np.argpartition(keys, n_rows)[:n_rows])
    return [pd.concat(kept, ignore_index=True).iloc[order]], keys[order], numbers[order]


# Encoded rows


class EncodedPiece(NamedTuple):
    """Features (dense or CSR) and targets of some rows of a file, and how many rows were read for them."""

    path: str
    X: Any
    y: NDArray[Any]
    n_read: int


@dataclass(frozen=True)
class TableReader:
    """Reads files as the rows that an encoder and the targets of a sample describe."""

    encoder: TableEncoder
    names: Sequence[str]  # the target columns
    targets: TableTargets  # those of the sample: the task, the classes, how numbers are written
    reading: dict[str, Any] = field(default_factory=dict)  # delimiter, decimal and encoding, as for `read_table`

    def iterate(self, files: Sequence[str], skipped: NDArray[np.int64], note: Note) -> Iterator[EncodedPiece]:
        """The rows of some files that have targets, but those with the numbers `skipped`, counted over all files."""
        n_before = 0
        for piece in iterate_pieces(files, text=self._as_text(), note=note, **self.reading):
            here = skipped[(skipped >= n_before) & (skipped < n_before + len(piece.frame))] - n_before
            n_before += len(piece.frame)
            yield self.read(piece, here, note)

    def window(self, path: str, skipped: NDArray[np.int64]) -> Window:
        """The rows of one file, in memory."""
        pieces = self.iterate([path], skipped, lambda text: None)  # workers have nobody to tell
        return stacked([Window(piece.X.astype(np.float32), piece.y, None) for piece in pieces])

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
        if known.task != "classification":
            return y, rows
        new = np.setdiff1d(y, self.classes)
        if len(new):
            raise TableError(
                f"target {self.names[0]!r} has the class {new[0].item()!r}, which the sample has not; is it written in "
                "another way there?"
            )
        return y.astype(known.y.dtype), rows

    @property
    def classes(self) -> NDArray[Any]:
        """The distinct targets of the sample."""
        return np.unique(self.targets.y)
