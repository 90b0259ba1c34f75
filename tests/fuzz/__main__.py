"""Run fuzzers: ``python -m tests.fuzz models --seed 0 --count 2000``."""

from __future__ import annotations

import argparse
import sys
import time

from tests import fuzz
from tests.fuzz import groups, integers, linear, models, proofs, tables, trees

FUZZERS = {
    "models": models.fuzz,
    "trees": trees.fuzz,
    "integers": integers.fuzz,
    "tables": tables.fuzz,
    "proofs": proofs.fuzz,
    "linear": linear.fuzz,
    "groups": groups.fuzz,
}


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; the exit code is 1 where a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=fuzz.__doc__)
    parser.add_argument("what", choices=[*FUZZERS, "all"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000, help="cases of each fuzzer")
    parser.add_argument("--only", type=int, help="run this case alone, with its traceback")
    options = parser.parse_args(arguments)
    failed = 0
    for name in FUZZERS if options.what == "all" else [options.what]:
        started = time.perf_counter()
        tally = FUZZERS[name](options.seed, options.count, options.only)
        print(f"{name:<9} seed {options.seed} {tally}  {time.perf_counter() - started:6.0f} s", flush=True)
        for failure in tally.failures[:20]:
            print(f"    {failure}")
        failed += len(tally.failures)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
