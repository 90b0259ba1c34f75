"""What all fuzzers share: cases by number, and the tally of what became of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

Outcome = str  # "read" or "refused"; of a query "proved", "refuted" or "not decided"
Case = Callable[[random.Random], Outcome]


@dataclass
class Tally:
    """How many cases were tried, what became of them, and what the others raised."""

    tried: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def read(self) -> int:
        return self.outcomes["read"]

    @property
    def refused(self) -> int:
        return self.outcomes["refused"]

    def __str__(self) -> str:
        parts = [f"{number:>7,} {outcome}" for outcome, number in sorted(self.outcomes.items())]
        return "  ".join([f"{self.tried:>7,} tried", *parts, f"{len(self.failures):>3,} failed"])


def run_cases(case: Case, seed: int, count: int, only: int | None = None) -> Tally:
    """Run cases, each with a generator of its own, so that any can be run again alone."""
    tally = Tally()
    for number in range(count) if only is None else [only]:
        tally.tried += 1
        try:
            outcome = case(random.Random(f"{seed}/{number}"))
        except Exception as error:
            if only is not None:
                raise
            tally.failures.append(f"case {number}: {type(error).__name__}: {str(error)[:300]}")
            continue
        tally.outcomes[outcome] += 1
    return tally


def altered_bytes(rng: random.Random, content: bytes) -> bytes:
    """Some bytes turned, cut, doubled, put in or taken out."""
    data = bytearray(content)
    place = rng.randrange(max(1, len(data)))
    kind = rng.randrange(6)
    if kind == 0 and data:
        data[place] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[place:]
    elif kind == 2:
        data[place:place] = rng.randbytes(rng.randrange(1, 9))
    elif kind == 3:
        del data[place : place + rng.randrange(1, 40)]
    elif kind == 4:
        data[place:place] = data[place : place + rng.randrange(1, 200)]
    else:
        data[place : place + 8] = rng.randbytes(8)
    return bytes(data)
