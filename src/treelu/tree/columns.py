"""The columns of a data frame that a tree's features are made of, as the tree sees them.

They are learned by a fit and given to the tree as a value (:class:`treelu.tables.TableEncoder`), which it asks
for features.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class FrameColumns(Protocol):
    """What a tree needs to know of the columns of a data frame."""

    @property
    def columns(self) -> Sequence[Any]:
        """The columns, each with its `name`, its `kind`, and what it learned."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features."""

    @property
    def places(self) -> Mapping[str, range]:
        """The features of each column."""

    def are_in(self, X: Any) -> bool:
        """Whether X is a frame with these columns rather than rows of features."""

    def features(self, X: Any, *, unused: Collection[str] = ()) -> Any:
        """Features of the rows of a frame, dense or CSR."""

    def per_column(self, shares: np.ndarray) -> np.ndarray:
        """Shares of the features, summed over those of each column."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""


def level_groups(columns: FrameColumns | None) -> tuple[tuple[int, ...], ...]:
    """The features that are the levels of a category, for each category of several levels."""
    if columns is None:
        return ()
    places = columns.places
    found = (tuple(places[column.name]) for column in columns.columns if column.kind == "text")
    return tuple(group for group in found if len(group) > 1)


def columns_from_dict(data: dict[str, Any]) -> FrameColumns:
    """The inverse of `FrameColumns.to_dict`."""
    from treelu.tables.encoder import TableEncoder

    return TableEncoder.from_dict(data)
