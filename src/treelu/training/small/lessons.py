"""What trees learn from: the rows' own targets, a teacher's answers, or those of a small linear network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from treelu.training.small.path import Family
from treelu.training.small.soft_tree import Rows


@dataclass(frozen=True)
class Lessons:
    """The same rows with each kind of target.

    Attributes
    ----------
    own : Rows
    taught : Rows, optional
        With the answers of a teacher that was fitted to them.
    networks : mapping of int to Rows
        By depth, with the answers and the `pieces` of a linear network of so many neurons.
    """

    own: Rows
    taught: Rows | None = None
    networks: Mapping[int, Rows] = field(default_factory=dict)

    def of(self, family: Family) -> Rows:
        """The rows that a family's questions are found on."""
        if family.depth:
            return self.networks[family.depth]
        return self.taught if family.taught and self.taught is not None else self.own

    def to_leaves(self, family: Family) -> Rows:
        """Those that the values of its leaves come from: constant leaves are means of the rows' own targets, linear
        ones need many rows or a teacher.
        """
        return self.of(family) if self.own.linear else self.own
