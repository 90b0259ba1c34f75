"""A table of any size as a stream of pieces: one file, many, a folder, a partitioned Parquet data set."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treelu.tables.errors import TableError
from treelu.tables.files import iterate_table
from treelu.training.store import RowStore

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Drawn", "RowStore", "draw_rows", "find_files", "iterate_files"]

PIECE_ROWS = 50_000
_ENDINGS = (".csv", ".tsv", ".txt", ".parquet", ".csv.gz", ".tsv.gz", ".txt.gz")


def find_files(data: str | Path) -> list[str]:
    """The files that a path, a folder or a pattern names, in the order of their names.

    Parameters
    ----------
    data : str or path
        A file; a folder, whose tables are taken, those in folders below too; or a pattern such as ``data/*.parquet``.

    Examples
    --------
    >>> find_files("no/such/*.csv")
    Traceback (most recent call last):
    ...
    treelu.tables.errors.TableError: no file matches no/such/*.csv; check the pattern
    """
    text = str(data)
    if Path(text).is_dir():
        found = [str(path) for path in Path(text).rglob("*") if path.name.endswith(_ENDINGS) and path.is_file()]
        if not found:
            raise TableError(f"the folder {text} has no table; tables end in {', '.join(_ENDINGS)}")
        return sorted(found)
    if glob.has_magic(text) and not Path(text).exists():
        found = glob.glob(text, recursive=True)
        if not found:
            raise TableError(f"no file matches {text}; check the pattern")
        return sorted(found)
    return [text]


def iterate_files(files: Sequence[str], rows: int = PIECE_ROWS, **reading: Any) -> Iterator[pd.DataFrame]:
    """The rows of several tables with the same columns, at most `rows` at a time.

    The names of folders such as ``year=2024`` become columns, as in a partitioned data set.

    Parameters
    ----------
    files : sequence of str
    rows : int
    **reading
        As for `iterate_table`.
    """
    first: list[str] | None = None
    for path in files:
        partition = _partition(path)
        for piece in iterate_table(path, rows, **reading):
            for name, value in partition.items():
                piece[name] = value
            names = [str(name) for name in piece.columns]
            if first is None:
                first = names
            elif names != first:
                piece = _like_first(piece, names, first, files[0], path)
            yield piece


def _partition(path: str) -> dict[str, str]:
    """The columns that a path's folders give: ``sales/year=2024/part.csv`` → {"year": "2024"}.

    Examples
    --------
    >>> _partition("sales/year=2024/month=05/part.csv")
    {'year': '2024', 'month': '05'}
    """
    pairs = (folder.split("=", 1) for folder in Path(path).parts[:-1] if "=" in folder.strip("="))
    return {name: value for name, value in pairs if name}


def _like_first(
    piece: pd.DataFrame, names: Sequence[str], first: Sequence[str], first_path: str, path: str
) -> pd.DataFrame:
    """The columns in the order of the first file; a TableError where they are not the same."""
    missing = [name for name in first if name not in names]
    added = [name for name in names if name not in first]
    if missing or added:
        what = f"no column {missing[0]!r}" if missing else f"a column {added[0]!r} more"
        raise TableError(f"{path} has {what} than {first_path}; all files must have the same columns")
    return piece[list(first)]


@dataclass(frozen=True)
class Drawn:
    """Rows drawn from a stream.

    Attributes
    ----------
    frame : DataFrame
        The rows, in the order of the stream.
    numbers : int array
        Their numbers in the stream, from 0.
    n_rows : int
        How many rows the stream has.
    """

    frame: pd.DataFrame
    numbers: NDArray[np.int64]
    n_rows: int


def draw_rows(pieces: Iterator[pd.DataFrame], n_rows: int, seed: int) -> Drawn:
    """Draw rows from a stream of unknown length, each set of `n_rows` rows with the same chance.

    Each row gets a random number; those with the smallest are kept.

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
    for piece in pieces:
        new = rng.random(len(piece))
        chosen = np.flatnonzero(new < limit)
        kept.append(piece.iloc[chosen])
        keys, numbers = np.concatenate([keys, new[chosen]]), np.concatenate([numbers, seen + chosen])
        seen += len(piece)
        if len(keys) > 2 * n_rows:
            kept, keys, numbers = _smallest(kept, keys, numbers, n_rows)
            limit = keys.max()
    kept, keys, numbers = _smallest(kept, keys, numbers, n_rows)
    frame = pd.concat(kept, ignore_index=True)
    return Drawn(frame, numbers, seen)


def _smallest(
    kept: list[pd.DataFrame], keys: NDArray[np.float64], numbers: NDArray[np.int64], n_rows: int
) -> tuple[list[pd.DataFrame], NDArray[np.float64], NDArray[np.int64]]:
    """The rows with the smallest keys, in the order of the stream."""
    import pandas as pd

    if len(keys) <= n_rows:
        return kept, keys, numbers
    order = np.sort(np.argpartition(keys, n_rows)[:n_rows])
    return [pd.concat(kept, ignore_index=True).iloc[order]], keys[order], numbers[order]
