"""What all fuzzers share: cases by number, and the tally of what became of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

Outcome = str  # "read" or "refused"
Case = Callable[[random.Random], Outcome]


@dataclass
class Tally:
    """How many cases were tried, read and refused, and what the others raised."""

    tried: int = 0
    read: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.tried:>7,} tried  {self.read:>7,} read  {self.refused:>7,} refused  {len(self.failures):>3,} failed"
        )


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
        if outcome == "read":
            tally.read += 1
        else:
            tally.refused += 1
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
