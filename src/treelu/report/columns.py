"""The columns of a report's rows at a glance: type, missing values, range or most frequent categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from treelu.report.curves import value_counts
from treelu.report.rows import Floats, HoldOut
from treelu.tree.missing import MissingValues

MAX_COLUMNS = 200
TOP = 3  # categories that are named


def column_overview(
    rows: HoldOut, columns: Sequence[Mapping[str, Any]] | None, names: Sequence[str], missing: MissingValues | None
) -> list[dict[str, Any]]:
    """An entry for each column, as far as its features tell: ``name``, ``kind``, ``missing`` (share), and by kind.

    Numbers and dates have ``low``, ``middle`` (median), ``high`` and ``histogram`` of the known values, texts their
    ``n_categories`` and ``top`` ones with their shares. A table's columns are told from its recipes, else the features
    are the columns.
    """
    if columns is None:
        n_columns = len(names) if missing is None else len(missing.fills)
        indicators = (
            {} if missing is None else dict(zip(missing.gaps.tolist(), missing.indicators.tolist(), strict=True))
        )
        return [_of_numbers(rows, names[j], j, indicators.get(j)) for j in range(min(n_columns, MAX_COLUMNS))]
    result, start = [], 0
    for column in columns[:MAX_COLUMNS]:
        width = _width(column)
        if width is None:  # molecules
            break
        result.append(_entry(rows, column, start, width))
        start += width
    return result


def _width(column: Mapping[str, Any]) -> int | None:
    """How many features a column has."""
    if column["kind"] == "number":
        return 1 + int(column["indicator"])
    if column["kind"] == "date":
        return len(column["parts"]) + int(column["indicator"])
    if column["kind"] == "text":
        return len(column["categories"]) + int(column["other"]) + int(column["missing"])
    return None


def _entry(rows: HoldOut, column: Mapping[str, Any], start: int, width: int) -> dict[str, Any]:
    name = column["name"]
    if column["kind"] == "text":
        shares = np.array([_values(rows, j).mean() for j in range(start, start + width)])
        absent = float(shares[-1]) if column["missing"] else 0.0
        known = [*zip(column["categories"], shares.tolist(), strict=False)]
        top = sorted(known, key=lambda pair: -pair[1])[:TOP]
        entry = {"n_categories": len(column["categories"]), "top": [{"name": a, "share": b} for a, b in top if b]}
        return {"name": name, "kind": "text", "missing": absent} | entry
    indicator = start + width - 1 if column["indicator"] else None
    if column["kind"] == "number":
        return _of_numbers(rows, name, start, indicator)
    days = start + column["parts"].index("days since 1970") if "days since 1970" in column["parts"] else None
    if days is None:
        absent = 0.0 if indicator is None else float(_values(rows, indicator).mean())
        return {"name": name, "kind": "date", "missing": absent}
    return _of_numbers(rows, name, days, indicator) | {"kind": "date"}


def _of_numbers(rows: HoldOut, name: str, feature: int, indicator: int | None) -> dict[str, Any]:
    values = _values(rows, feature)
    absent = np.zeros(len(values), dtype=bool) if indicator is None else _values(rows, indicator) == 1
    entry: dict[str, Any] = {"name": name, "kind": "number", "missing": float(absent.mean())}
    known = values[~absent]
    if not len(known):
        return entry
    low, middle, high = (float(v) for v in np.quantile(known, [0, 0.5, 1], method="lower"))
    grid = np.unique(known) if len(known) < 100_000 else np.array([low, high])
    return entry | {"low": low, "middle": middle, "high": high, "histogram": value_counts(known, grid)["counts"]}


def _values(rows: HoldOut, feature: int) -> Floats:
    return rows.X[:, [feature]].toarray().ravel() if sparse.issparse(rows.X) else rows.X[:, feature]
