"""What every part of the speed benchmark reports: two measurements of one run and their ratio."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple


class Measure(NamedTuple):
    """A named number."""

    name: str
    value: float


@dataclass(frozen=True)
class Comparison:
    """B ÷ A of two measurements.

    Parameters
    ----------
    what : str
        The job.
    a, b : Measure
        This library or the smaller size, and what it is held against.
    unit : {"s", "ns/row", "MB", "bytes/row"}
    goal : str
        What was asked of it, or what was expected; may be empty.
    met : bool, optional
        Whether the goal was met; None where nothing was asked.

    Examples
    --------
    >>> Comparison("a fit", Measure("this", 2.0), Measure("that", 10.0), "s").ratio
    5.0
    """

    what: str
    a: Measure
    b: Measure
    unit: str
    goal: str = ""
    met: bool | None = None

    @property
    def ratio(self) -> float:
        """B ÷ A."""
        return self.b.value / self.a.value

    def to_dict(self) -> dict[str, Any]:
        """Plain types, for JSON."""
        return {**asdict(self), "a": self.a._asdict(), "b": self.b._asdict(), "ratio": self.ratio}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Comparison:
        """The inverse of `to_dict`."""
        kept = {name: value for name, value in fields.items() if name != "ratio"}
        return cls(**{**kept, "a": Measure(**fields["a"]), "b": Measure(**fields["b"])})


def times_faster(what: str, a: Measure, b: Measure, at_least: float | None = None, unit: str = "s") -> Comparison:
    """B against A where A is to be the faster one, by a factor if one is asked for."""
    if at_least is None:
        return Comparison(what, a, b, unit)
    return Comparison(what, a, b, unit, f"≥ {at_least:.3g}", b.value >= at_least * a.value)


@dataclass
class Part:
    """The outcome of one part: its comparisons, and the numbers behind them as plain types."""

    comparisons: list[Comparison] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
