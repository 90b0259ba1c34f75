"""Target columns of a table: what kind of task they set, and y."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from treelu.tables.columns import Note, alike, example_of
from treelu.tables.numbers import (
    PLAIN,
    NumberFormat,
    beyond_floats,
    decimal_marks,
    leading_zeros,
    number_format,
    to_numbers,
    to_texts,
    unit_format,
)
from treelu.tables.paths import TableError
from treelu.tree.names import shown_name

if TYPE_CHECKING:
    import pandas as pd

Task = Literal["classification", "regression", "labels"]
MAX_INFERRED_CLASSES = 10  # integers with more different values than this are taken for quantities
MAX_CLASSES = 100
_UNKNOWN = ("?", "-", "--", ".", "unknown", "missing", "tbd", "n.a.", "k.a.")


@dataclass(frozen=True)
class TableTargets:
    """The target columns of a table.

    Attributes
    ----------
    task : {"classification", "regression", "labels"}
        One class of several; a real value (or several); several 0/1 labels, NaN where one is missing.
    y : array of shape (n,) or (n, targets)
    rows : int array of shape (n,)
        Their rows in the table; those without a target are left out.
    styles : tuple of NumberFormat
        How the numbers of each target are written.

    Examples
    --------
    >>> import pandas as pd
    >>> targets = read_targets(pd.DataFrame({"bought": ["yes", "no", "yes"]}), ["bought"], None, print)
    target 'bought': 2 classes (no, yes), so classification
    >>> targets.task, targets.y.tolist()
    ('classification', ['yes', 'no', 'yes'])
    """

    task: Task
    y: NDArray[Any]
    rows: NDArray[np.int64]
    styles: tuple[NumberFormat, ...] = ()


def read_targets(
    frame: pd.DataFrame,
    names: Sequence[str],
    task: Task | None,
    note: Note,
    *,
    varied: bool = True,
    decimal: str | None = None,
    styles: Sequence[NumberFormat] | None = None,
) -> TableTargets:
    """Read one or several target columns.

    Parameters
    ----------
    frame : DataFrame
    names : sequence of str
        Columns of `frame`.
    task : {"classification", "regression", "labels"} or None
        None: several columns of 0 and 1 are labels; texts, truth values and up to ten different integers are
        classes; other numbers are values.
    note : callable
        Called with what was decided and which rows are left out.
    varied : bool
        Whether a constant target is an error, as it is for training.
    decimal : {".", ","}, optional
        The decimal mark; by default recognised.
    styles : sequence of NumberFormat, optional
        How the numbers of each target are written, where that is known; by default recognised.

    Examples
    --------
    >>> import pandas as pd
    >>> targets = read_targets(pd.DataFrame({"y": ["a", "b", None]}), ["y"], None, print)
    target 'y': 1 of 3 rows left out, they have no value
    target 'y': 2 classes (a, b), so classification
    >>> targets.y, targets.rows
    (array(['a', 'b'], dtype='<U1'), array([0, 1]))
    """
    marks = set() if decimal is not None or styles is not None else decimal_marks(frame)
    found: list[NumberFormat | None] = list(styles or ()) or [
        number_format(frame[name], decimal, marks) or _with_unit(frame[name], task, decimal, marks) for name in names
    ]
    if len(names) > 1 or task == "labels":
        return _several(frame, names, task, note, varied, [style or PLAIN for style in found])
    column = frame[names[0]]
    is_text = found[0] is None or (styles is None and _are_codes(column, task))
    style = found[0] or PLAIN
    values, strays = to_numbers(column, style)
    if not style.is_plain:
        note(f"target {names[0]!r}: {example_of(column, style)}")
    known = to_texts(column).notna().to_numpy() if is_text else ~np.isnan(values)
    if strays and not is_text:
        note(f"target {names[0]!r}: {', '.join(strays[:3])} among numbers count as missing")
    rows = _known_rows(known, f"target {names[0]!r}", note)
    y: NDArray[Any] = values[rows]
    is_named = is_text or column.dtype.kind == "b" or _is_truth(column)
    is_whole = not is_named and bool((y == np.round(y)).all())
    few = is_named or (is_whole and len(np.unique(y)) <= MAX_INFERRED_CLASSES)
    chosen = task or ("classification" if few else "regression")
    if chosen == "regression" and is_text:
        raise TableError(
            f"target {names[0]!r} holds text such as {to_texts(column).iloc[rows[0]]!r}, but --task regression needs "
            "numbers; use --task classification"
        )
    if chosen == "classification" and is_named:
        y = to_texts(column).iloc[rows].to_numpy(dtype=np.str_)
    elif chosen == "classification" and is_whole and (np.abs(y) < 2**53).all():
        y = y.astype(np.int64)
    if varied:
        _check_varied(names[0], y, are_classes=chosen == "classification")
    if task is None:
        note(_inference(names[0], chosen, y))
    return TableTargets(chosen, y, rows, (style,))


def _with_unit(column: pd.Series, task: Task | None, decimal: str | None, marks: set[str]) -> NumberFormat | None:
    """How values with a unit are written; a few such texts, "3 stars" and "4 stars", are classes."""
    if task != "regression" and (task is not None or to_texts(column).nunique() <= MAX_INFERRED_CLASSES):
        return None
    return unit_format(column, decimal, marks)


def suspicious_classes(name: str, y: NDArray[Any]) -> str | None:
    """A warning about suspicious class names; None where there is nothing to warn of."""
    if y.dtype.kind != "U" or y.ndim != 1:
        return None
    labels = sorted(set(y.tolist()))
    if pair := alike(labels):
        return f"target {name!r}: {pair[0]!r} and {pair[1]!r} are two classes; write them alike if they are one"
    unknown = next((label for label in labels if label.casefold() in _UNKNOWN), None)
    if unknown is None:
        return None
    return f"target {name!r}: {unknown!r} is a class; leave the cell empty where the answer is not known"


def _are_codes(column: pd.Series, task: Task | None) -> bool:
    """Whether integers are names of classes: "01" is not 1, and floats keep sixteen digits only."""
    if task == "regression" or not (len(beyond_floats(column)) or leading_zeros(column)):
        return False
    return task == "classification" or to_texts(column).nunique() <= MAX_INFERRED_CLASSES


def _several(
    frame: pd.DataFrame,
    names: Sequence[str],
    task: Task | None,
    note: Note,
    varied: bool,
    styles: Sequence[NumberFormat],
) -> TableTargets:
    """Several columns: labels, or real values that are all known."""
    columns = []
    for name, style in zip(names, styles, strict=True):
        values, strays = to_numbers(frame[name], style)
        if strays:
            raise TableError(
                f"target {name!r} holds text such as {strays[0]!r}; several targets must be numbers (0 and 1 for "
                "labels), so give one --target for classes"
            )
        columns.append(values)
    y = np.column_stack(columns)
    binary = (np.isnan(y) | (y == 0) | (y == 1)).all(axis=0)
    if task in ("classification", "labels") and not binary.all():
        other = names[int(np.argmin(binary))]
        raise TableError(f"target {other!r} holds other values than 0 and 1; several targets must be 0/1 labels")
    is_labels = task in ("classification", "labels") or (task is None and bool(binary.all()))
    whose = f"targets {', '.join(map(repr, names[:3]))}{', …' if len(names) > 3 else ''}"
    unknown = np.isnan(y).all(axis=1) if is_labels else np.isnan(y).any(axis=1)
    rows = _known_rows(np.logical_not(unknown), whose, note)
    for name, column in zip(names, y[rows].T if varied else (), strict=varied):
        _check_varied(name, column[~np.isnan(column)], are_classes=False)
    share = np.isnan(y[rows]).mean()
    labels = f"{len(names)} labels of 0 and 1, {share:.0%} missing; one model for each"
    note(f"{whose}: {labels if is_labels else f'numbers, so regression of {len(names)} values'}")
    return TableTargets("labels" if is_labels else "regression", y[rows], rows, tuple(styles))


def _known_rows(known: NDArray[np.bool_], whose: str, note: Note) -> NDArray[np.int64]:
    rows = np.flatnonzero(known)
    if not len(rows):
        raise TableError(f"{whose}: no row has a value; choose another --target")
    if len(rows) < len(known):
        note(f"{whose}: {len(known) - len(rows):,} of {len(known):,} rows left out, they have no value")
    return rows


def _is_truth(column: pd.Series) -> bool:
    return column.dtype.kind == "O" and {str(value).lower() for value in column.dropna().unique()} <= {"true", "false"}


def _check_varied(name: str, y: NDArray[Any], *, are_classes: bool) -> None:
    """Raise for a target of one value, or of too many classes."""
    distinct = set(y.tolist())
    if len(distinct) == 1:
        value = next(iter(distinct))
        shown = f"{value:g}" if isinstance(value, float) else repr(value)
        raise TableError(
            f"target {name!r} is {shown} in all {len(y):,} rows: there is nothing to learn; choose another --target"
        )
    if not distinct:
        raise TableError(f"target {name!r} has no value; leave it out")
    n_classes = len(distinct)
    if are_classes and (n_classes > MAX_CLASSES or n_classes > max(2, len(y) / 2)):
        hint = "is it a name or a comment?" if isinstance(y[0], str) else "use --task regression"
        raise TableError(
            f"target {name!r} has {n_classes:,} different values in {len(y):,} rows, too many for classes; {hint}"
        )


def _inference(name: str, task: Task, y: NDArray[Any]) -> str:
    if task == "regression":
        return f"target {name!r}: numbers from {y.min():.6g} to {y.max():.6g}, so regression"
    classes = [shown_name(label) for label in sorted(set(y.tolist()))]
    shown = ", ".join(classes[:6]) + (", …" if len(classes) > 6 else "")
    hint = "" if isinstance(y[0], str) else " (--task regression if they are quantities)"
    return f"target {name!r}: {len(classes)} classes ({shown}), so classification{hint}"
